"""One token through a small Llama in eight bits, as one loop compiled by numba: no tensor operation, and no C++ compiler, is needed.

A draft is nothing but single tokens. In tensor operations a layer of a small draft costs more in calling them than in arithmetic, however
few they are. Compiled when a draft is first loaded (two seconds, and kept on disk), so no run pays for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from slem_demo.models.lean import Int8Linear, LeanLlama, LeanReader

SHORT = 4  # ids: more at once are quicker as tensors
Floats = NDArray[np.float32]
Rounded = tuple[NDArray[np.int8], Floats]  # matrices [layers, out, in] and a scale for each row [layers, out]


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    try:
        return njit(fastmath=True, cache=True)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # no folder to keep it in
        return njit(fastmath=True)(function)  # type: ignore[no-any-return]


@compiled
def product(weight: Any, scales: Any, x: Any, out: Any) -> None:
    """out [rows] = scales · weight [rows, columns] x [columns]."""
    for row in range(weight.shape[0]):
        total = np.float32(0)
        for column in range(weight.shape[1]):
            total += x[column] * np.float32(weight[row, column])
        out[row] = total * scales[row]


@compiled
def rms_norm(x: Any, weight: Any, eps: Any, out: Any) -> None:
    total = np.float32(0)
    for i in range(len(x)):
        total += x[i] * x[i]
    scale = np.float32(1) / np.sqrt(total / np.float32(len(x)) + eps)
    for i in range(len(x)):
        out[i] = x[i] * scale * weight[i]


@compiled
def rotate(heads: Any, cos: Any, sin: Any) -> None:
    """Rotary positions applied in place to [heads, size]; see `LeanLlama._rotations` for the signs."""
    half = heads.shape[1] // 2
    for head in range(heads.shape[0]):
        for i in range(half):
            a, b = heads[head, i], heads[head, half + i]
            heads[head, i] = a * cos[i] + b * sin[i]
            heads[head, half + i] = b * cos[half + i] + a * sin[half + i]


@compiled
def attend(query: Any, keys: Any, values: Any, n: int, scores: Any, out: Any) -> None:
    """Attention of one head: query [size] over the first n of keys and values [capacity, size]."""
    size = len(query)
    scale, top, total = np.float32(1 / np.sqrt(size)), np.float32(-np.inf), np.float32(0)
    for place in range(n):
        score = np.float32(0)
        for i in range(size):
            score += query[i] * keys[place, i]
        scores[place] = score * scale
        top = max(top, scores[place])
    out[:] = 0
    for place in range(n):
        weight = np.exp(scores[place] - top)
        total += weight
        for i in range(size):
            out[i] += weight * values[place, i]
    for i in range(size):
        out[i] /= total


@compiled
def layers(
    x: Any, norms: Any, qkv: Any, out: Any, gate_up: Any, down: Any, keys: Any, values: Any, place: int, cos: Any, sin: Any, eps: Any
) -> None:
    """All layers in place on x [hidden] at `place`, whose keys and values [layers, heads, capacity, size] are written."""
    n_kv, size, n_inner = keys.shape[1], keys.shape[3], down[0].shape[2]
    n_heads = out[0].shape[2] // size
    normed, added = np.empty_like(x), np.empty_like(x)
    heads, attended = np.empty((n_heads + 2 * n_kv, size), np.float32), np.empty((n_heads, size), np.float32)
    inner, scores = np.empty(2 * n_inner, np.float32), np.empty(place + 1, np.float32)
    for layer in range(keys.shape[0]):
        rms_norm(x, norms[0, layer], eps, normed)
        product(qkv[0][layer], qkv[1][layer], normed, heads.reshape(-1))
        rotate(heads[: n_heads + n_kv], cos[place], sin[place])
        keys[layer, :, place] = heads[n_heads : n_heads + n_kv]
        values[layer, :, place] = heads[n_heads + n_kv :]
        for head in range(n_heads):
            kv = head * n_kv // n_heads
            attend(heads[head], keys[layer, kv], values[layer, kv], place + 1, scores, attended[head])
        product(out[0][layer], out[1][layer], attended.reshape(-1), added)
        x += added
        rms_norm(x, norms[1, layer], eps, normed)
        product(gate_up[0][layer], gate_up[1][layer], normed, inner)
        for i in range(n_inner):
            inner[i] = inner[i] / (np.float32(1) + np.exp(-inner[i])) * inner[n_inner + i]
        product(down[0][layer], down[1][layer], inner[:n_inner], added)
        x += added


class StepLlama:
    """The weights of a `LeanLlama` in eight bits as plain arrays, on a CPU; compiled when it is made."""

    @torch.inference_mode()
    def __init__(self, llama: LeanLlama):
        self.llama, blocks = llama, llama.layers
        self._embedding: Floats = llama.embedding.detach().numpy()
        self._norms: Floats = np.stack(
            [[block.norm1.detach().numpy() for block in blocks], [block.norm2.detach().numpy() for block in blocks]]
        )
        self._matrices = [_stacked([getattr(block, name) for block in blocks]) for name in ("qkv", "out", "gate_up", "down")]
        weight, scales = _stacked([llama.head])
        self._head, self._norm, self._eps = (weight[0], scales[0]), llama.norm.detach().numpy(), np.float32(llama.eps)
        self.reader().read([0], 1)

    def reader(self) -> StepReader:
        return StepReader(self)

    def logits(self, ids: list[int], keys: Floats, values: Floats, past: int) -> Floats:
        """float32 [vocabulary] at the last of `ids`, which follow the `past` positions in the cache and are added to it."""
        self.llama.reach(past + len(ids))
        cos, sin = self.llama.cos[:, 0].numpy(), self.llama.sin[:, 0].numpy()
        for place, token in enumerate(ids, past):
            x = self._embedding[token].copy()
            layers(x, self._norms, *self._matrices, keys, values, place, cos, sin, self._eps)
        logits = np.empty(len(self._head[1]), np.float32)
        rms_norm(x, self._norm, self._eps, x)
        product(*self._head, x, logits)
        return logits


class StepReader(LeanReader):
    """A `cached.Reader` whose short reads are steps; longer ones are tensor operations on the same cache."""

    def __init__(self, weights: StepLlama):
        super().__init__(weights.llama)
        self._weights = weights

    def compute(self, ids: list[int], past: int, n: int) -> Tensor:
        if n > 1 or len(ids) > SHORT:
            return super().compute(ids, past, n)
        logits = self._weights.logits(ids, self.cache.keys.numpy(), self.cache.values.numpy(), past)
        return torch.from_numpy(logits)[None]


def _stacked(linears: list[Any]) -> Rounded:
    assert all(isinstance(linear, Int8Linear) for linear in linears)
    return np.stack([linear.weight.numpy() for linear in linears]), np.stack([linear.scales.float().numpy() for linear in linears])
