"""The forward pass of a small Llama in few tensor operations, on a cache that is allocated ahead.

One token through one layer costs transformers' own modules more in framework overhead than in arithmetic, and a draft is nothing but
single tokens. The weights are the loaded model's own; tests compare the logits with its.

What is left of a small draft's step on a CPU is reading its weights, which the target's pass has driven out of the cache. A drafter's
guesses need not be exact, so it may read them rounded to eight bits (and `step.py` computes on those in one loop).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import LlamaForCausalLM, PreTrainedModel
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

FIRST_CAPACITY = 512
PACKED_ROWS = 16
LARGE = 500_000  # numbers in a matrix


class Cache:
    """Keys and values, float32 [layers, heads, capacity, head size], and the same layer by layer: ([1, heads, capacity, head size], …)."""

    def __init__(self, keys: Tensor, values: Tensor):
        self.keys, self.values, self.capacity = keys, values, keys.shape[2]
        self.layers = [(k[None], v[None]) for k, v in zip(keys, values, strict=True)]

    def grown(self, n: int) -> Cache:
        """A copy with room for at least n positions."""
        more = (0, 0, 0, max(self.capacity, n - self.capacity))
        return Cache(functional.pad(self.keys, more), functional.pad(self.values, more))


class PlainLinear:
    """Products of one input with several matrices, side by side: [rows, all outputs]."""

    def __init__(self, *linears: nn.Linear):
        self._linears = linears

    def __call__(self, x: Tensor) -> Tensor:
        parts = [functional.linear(x, linear.weight, linear.bias) for linear in self._linears]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


class PackedLinear(PlainLinear):
    """The same, with a copy of the matrices re-ordered once for a few rows, which the plain product would do again in every call.

    What is quickest by measurement: one row of a small matrix without, fewer than four rows of a large one with rows of zeros below
    them. Many rows are a prefill.
    """

    def __init__(self, *linears: nn.Linear):
        super().__init__(*linears)
        weight, self._bias = _joined(linears)
        self._is_large = weight.numel() >= LARGE
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight, PACKED_ROWS // 2)

    def __call__(self, x: Tensor) -> Tensor:
        n_rows = x.shape[0]
        if n_rows > PACKED_ROWS or (n_rows == 1 and not self._is_large):
            return super().__call__(x)
        if self._is_large and n_rows < 4:
            x = functional.pad(x, (0, 0, 0, 4 - n_rows))
        packed: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, self._bias, "none", [], "")
        return packed[:n_rows]


class Int8Linear:
    """The same for matrices without bias, rounded to eight bits with a scale a row."""

    def __init__(self, *linears: nn.Linear):
        weight, _ = _joined(linears)
        scales = weight.abs().amax(1).clamp(min=1e-12) / 127
        self.weight = (weight / scales[:, None]).round().to(torch.int8)
        self.scales = scales.bfloat16()

    def __call__(self, x: Tensor) -> Tensor:
        return torch._weight_int8pack_mm(x.bfloat16(), self.weight, self.scales).float()


Linear = PlainLinear | Int8Linear


def exact_linear(device: torch.device) -> type[PlainLinear]:
    """The quickest product in float32 on a device."""
    has_packing: bool = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")  # type: ignore[no-untyped-call]
    return PackedLinear if device.type == "cpu" and has_packing else PlainLinear


def _joined(linears: tuple[nn.Linear, ...]) -> tuple[Tensor, Tensor | None]:
    """The matrices as one, and their biases (none, or all of them)."""
    biases: list[Tensor] = [linear.bias for linear in linears if linear.bias is not None]
    return torch.cat([linear.weight.detach() for linear in linears]), torch.cat(biases) if biases else None


class Layer(NamedTuple):
    """What one layer does, looked up once."""

    norm1: Tensor
    qkv: Linear
    out: Linear
    norm2: Tensor
    gate_up: Linear
    down: Linear

    @classmethod
    def of(cls, block: LlamaDecoderLayer, linear: type[Linear]) -> Layer:
        a, mlp = block.self_attn, block.mlp
        return cls(
            block.input_layernorm.weight,
            linear(a.q_proj, a.k_proj, a.v_proj),
            linear(a.o_proj),
            block.post_attention_layernorm.weight,
            linear(mlp.gate_proj, mlp.up_proj),
            linear(mlp.down_proj),
        )


class LeanLlama:
    """The weights of a Llama, shared by all readers: the model's own in float32, or a copy in eight bits. `linear`: how it multiplies."""

    @torch.inference_mode()
    def __init__(self, lm: LlamaForCausalLM, linear: type[Linear] | None = None):
        config, inner = lm.config, lm.model
        self.device = lm.device
        linear = linear or exact_linear(lm.device)
        self.embedding, self.norm, self.head = inner.embed_tokens.weight, inner.norm.weight, linear(lm.lm_head)
        self.eps, self.size = config.rms_norm_eps, inner.layers[0].self_attn.head_dim
        self.n_heads, self.n_kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.layers = [Layer.of(block, linear) for block in inner.layers]
        self._rotary = inner.rotary_emb
        self.cos, self.sin = self._rotations(FIRST_CAPACITY)

    @staticmethod
    def fits(lm: PreTrainedModel) -> bool:
        """Whether this pass computes what the model does: a plain Llama in float32 on one device, with fixed rotary frequencies."""
        if (
            hasattr(lm.config, "quantization_config")
            or not isinstance(lm, LlamaForCausalLM)
            or lm.dtype != torch.float32
            or hasattr(lm, "hf_device_map")
        ):
            return False
        return bool(lm.config.hidden_act == "silu" and lm.config.rope_parameters["rope_type"] in ("default", "linear", "llama3"))

    @staticmethod
    def fits_int8(lm: PreTrainedModel) -> bool:
        """Whether `Int8Linear` works: on a CPU, for matrices without bias, where torch has the operation (not a public one)."""
        has_bias = any(name.endswith("_proj.bias") for name, _ in lm.named_parameters())
        return LeanLlama.fits(lm) and lm.device.type == "cpu" and not has_bias and hasattr(torch, "_weight_int8pack_mm")

    def reader(self) -> LeanReader:
        return LeanReader(self)

    def empty_cache(self) -> Cache:
        shape = (len(self.layers), self.n_kv_heads, FIRST_CAPACITY, self.size)
        return Cache(self.norm.new_zeros(shape), self.norm.new_zeros(shape))

    def logits(self, ids: list[int], cache: Cache, past: int, n: int) -> Tensor:
        """float32 [n, vocabulary] at the last n of `ids`, which follow the `past` positions that the cache holds and are added to it."""
        t = len(ids)
        here = slice(past, past + t)
        self.reach(here.stop)
        cos, sin = self.cos[here], self.sin[here]
        mask = None if t == 1 else torch.full((t, past + t), -torch.inf, device=self.device).triu(past + 1)
        x = functional.embedding(torch.tensor(ids, device=self.device), self.embedding)
        for layer, (keys, values) in zip(self.layers, cache.layers, strict=True):
            heads = layer.qkv(functional.rms_norm(x, layer.norm1.shape, layer.norm1, self.eps)).view(t, -1, self.size)
            n_rotated = self.n_heads + self.n_kv_heads
            rotated = self._rotated(heads[:, :n_rotated], cos, sin)
            keys[0, :, here] = rotated[:, self.n_heads :].transpose(0, 1)
            values[0, :, here] = heads[:, n_rotated:].transpose(0, 1)
            attended = functional.scaled_dot_product_attention(
                rotated[:, : self.n_heads].transpose(0, 1)[None],
                keys[:, :, : past + t],
                values[:, :, : past + t],
                attn_mask=mask,
                enable_gqa=self.n_heads != self.n_kv_heads,
            )
            x = x + layer.out(attended[0].transpose(0, 1).reshape(t, -1))
            gate, up = layer.gate_up(functional.rms_norm(x, layer.norm2.shape, layer.norm2, self.eps)).chunk(2, dim=-1)
            x = x + layer.down(functional.silu(gate) * up)
        return self.head(functional.rms_norm(x[-n:], self.norm.shape, self.norm, self.eps))

    def reach(self, n: int) -> None:
        """Rotations for at least n positions."""
        if n > len(self.cos):
            self.cos, self.sin = self._rotations(2 * n)

    def _rotations(self, n: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines of `n` positions, [n, 1, head size]; the first half of the sines has the minus sign of rotate_half."""
        cos, sin = self._rotary(self.norm, torch.arange(n, device=self.device)[None])
        half = self.size // 2
        return cos[0, :, None], torch.cat([-sin[0, :, None, :half], sin[0, :, None, half:]], dim=-1)

    def _rotated(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Rotary positions applied to [tokens, heads, head size]."""
        return torch.addcmul(x * cos, x.roll(self.size // 2, -1), sin)


class LeanReader:
    """A `cached.Reader` of one sequence. A place in the cache that was read and cut off is simply written again."""

    forgets = False

    def __init__(self, llama: LeanLlama):
        self.llama, self.cache, self._n = llama, llama.empty_cache(), 0

    def read(self, ids: list[int], n: int) -> Tensor:
        needed = self._n + len(ids)
        if needed > self.cache.capacity:
            self.cache = self.cache.grown(needed)
        logits = self.compute(ids, self._n, n)
        self._n = needed
        return logits

    def compute(self, ids: list[int], past: int, n: int) -> Tensor:
        return self.llama.logits(ids, self.cache, past, n)

    def cut(self, n_removed: int) -> None:
        self._n -= n_removed
