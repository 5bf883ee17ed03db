"""How the pair's models are made and trained, and how the target writes what the draft learns from."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from slem_demo.models.builtin.tokenizers import stored_tokenizer

MAX_POSITIONS = 2048


@dataclass(frozen=True)
class Schedule:
    """How one model is trained: `steps` optimiser steps of `batch` windows of `window` tokens.

    In the last `joined` share of the steps, `n_joined` windows are joined into one, so that the model learns to use more context.
    """

    steps: int
    batch: int
    window: int
    lr: float
    warmup: int = 100
    decay: float = 0.3
    joined: float = 0.3
    n_joined: int = 4

    def shape_at(self, step: int) -> tuple[int, int]:
        """(windows, tokens in each) of a step."""
        n = self.n_joined if step >= (1 - self.joined) * self.steps else 1
        return self.batch // n, self.window * n

    def lr_at(self, step: int) -> float:
        """Learning rate at `step`: linear warm-up, constant, then linear decay over the last `decay` share."""
        left = (self.steps - step) / (self.decay * self.steps)
        return self.lr * min((step + 1) / self.warmup, 1.0, left)


@dataclass(frozen=True)
class LoopSchedule:
    """How the target unlearns its loops: each step it continues `rows` windows of `prefix` tokens greedily by `new` tokens.

    Completing a run of `n_gram` tokens a second time is made less likely, with `weight`, beside a step on the texts.
    """

    steps: int = 80
    lr: float = 7e-4
    rows: int = 16
    prefix: int = 32
    new: int = 128
    n_gram: int = 6
    weight: float = 0.5
    text_rows: int = 8
    text_window: int = 256

    def lr_at(self, step: int) -> float:
        return self.lr * min((step + 1) / 10, 1.0, (self.steps - step) / (0.3 * self.steps))


@dataclass(frozen=True)
class Samples:
    """What the target writes for the draft: `n` texts, in batches.

    Each begins with `prefix` tokens of the texts and `lead` sampled ones, which lead away from what the target knows by heart; then come
    `new` tokens at the temperature whose turn it is.
    """

    n: int
    prefix: int = 4
    lead: int = 28
    new: int = 128
    batch: int = 128
    temperatures: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0, 0.5, 1.0)


def stored(folder: Path) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """The model and tokenizer in a folder, in float32."""
    return LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval(), stored_tokenizer(folder)


def new_model(tokenizer: PreTrainedTokenizerFast, hidden: int, inner: int, layers: int, heads: int) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=MAX_POSITIONS,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=None,
    )
    return LlamaForCausalLM(config)


def new_target(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    return new_model(tokenizer, hidden=160, inner=480, layers=12, heads=5)


def new_draft(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    return new_model(tokenizer, hidden=256, inner=768, layers=2, heads=4)


def optimizers(model: LlamaForCausalLM, lr: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the layers, AdamW for embeddings and norms.

    In a trial of 120 steps of the target Muon came to a loss of 4.62 nats a token where AdamW alone came to 5.21.
    """
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]
    taken = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in taken]
    return [
        torch.optim.Muon(matrices, lr=lr, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=lr, betas=(0.9, 0.95), weight_decay=0.1),
    ]


def train(model: LlamaForCausalLM, stream: torch.Tensor, schedule: Schedule, seed: int, checkpoint: Path | None = None) -> list[float]:
    """Trains in place on random windows of `stream`; returns the loss (nats a token) of every step."""
    torch.manual_seed(seed)
    opts = optimizers(model, schedule.lr)
    model.train()
    losses: list[float] = []
    began = time.perf_counter()
    for step in range(schedule.steps):
        set_lr(opts, schedule.lr_at(step))
        n, length = schedule.shape_at(step)
        losses.append(learn(model, opts, windows(stream, n, length + 1)))
        if step % 50 == 49:
            recent = sum(losses[-50:]) / 50
            print(f"step {step + 1}/{schedule.steps}  loss {recent:.3f}  {time.perf_counter() - began:.0f} s", flush=True)
        if checkpoint and step % 500 == 499:
            model.save_pretrained(checkpoint)
    model.eval()
    return losses


def windows(stream: torch.Tensor, n: int, length: int) -> torch.Tensor:
    """int64 [n, length]: windows of the stream that begin anywhere."""
    starts = torch.randint(len(stream) - length, (n,))
    return torch.stack([stream[s : s + length] for s in starts])


def set_lr(opts: list[torch.optim.Optimizer], lr: float) -> None:
    for opt in opts:
        for group in opt.param_groups:
            group["lr"] = lr


def learn(model: LlamaForCausalLM, opts: list[torch.optim.Optimizer], rows: torch.Tensor) -> float:
    """One step towards predicting each next id of `rows`, with whatever gradient is there already; returns the loss (nats a token)."""
    logits = model(rows[:, :-1], use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for opt in opts:
        opt.step()
        opt.zero_grad(set_to_none=True)
    return loss.item()


def unlearn_loops(model: LlamaForCausalLM, stream: torch.Tensor, schedule: LoopSchedule, seed: int) -> list[float]:
    """Trains in place by sequence-level unlikelihood (Welleck et al. 2020, arXiv 1908.04319); returns the share of repeats at each step."""
    torch.manual_seed(seed)
    opts = optimizers(model, schedule.lr)
    shares: list[float] = []
    for step in range(schedule.steps):
        set_lr(opts, schedule.lr_at(step))
        model.eval()
        written = continued(model, windows(stream, schedule.rows, schedule.prefix), schedule.new, temperature=0.0)
        repeated = repeats(written.tolist(), schedule.n_gram, schedule.prefix)
        model.train()
        logits = model(written[:, :-1], use_cache=False).logits
        p = logits.log_softmax(-1).gather(-1, written[:, 1:, None])[..., 0].exp().clamp(max=1 - 1e-5)
        loss = -(torch.log1p(-p) * repeated[:, 1:]).sum() / repeated.sum().clamp(min=1)
        (schedule.weight * loss).backward()  # type: ignore[no-untyped-call]
        text_loss = learn(model, opts, windows(stream, schedule.text_rows, schedule.text_window + 1))
        shares.append(repeated.sum().item() / (schedule.rows * schedule.new))
        print(f"step {step + 1}/{schedule.steps}  repeats {shares[-1]:.2f}  loss on texts {text_loss:.3f}", flush=True)
    model.eval()
    return shares


def repeats(rows: list[list[int]], n: int, start: int) -> torch.Tensor:
    """float32 [rows, ids]: 1 where an id from `start` on completes a run of `n` ids that has stood in its row before."""
    marks = torch.zeros(len(rows), len(rows[0]))
    for row, ids in enumerate(rows):
        seen: set[tuple[int, ...]] = set()
        for end in range(n, len(ids) + 1):
            gram = tuple(ids[end - n : end])
            marks[row, end - 1] = float(end > start and gram in seen)
            seen.add(gram)
    return marks


def write_samples(model: LlamaForCausalLM, stream: torch.Tensor, samples: Samples, seed: int) -> Iterator[list[int]]:
    """The ids of each text; an end token does not end it."""
    torch.manual_seed(seed)
    began = time.perf_counter()
    for done in range(0, samples.n, samples.batch):
        led = continued(model, windows(stream, samples.batch, samples.prefix), samples.lead, temperature=1.0)
        temperature = samples.temperatures[done // samples.batch % len(samples.temperatures)]
        yield from continued(model, led, samples.new, temperature).tolist()
        print(f"{done + samples.batch}/{samples.n} samples  {time.perf_counter() - began:.0f} s", flush=True)


@torch.no_grad()
def continued(model: LlamaForCausalLM, rows: torch.Tensor, n_new: int, temperature: float) -> torch.Tensor:
    """`rows` [batch, ids] with `n_new` more ids each; end tokens do not end a row."""
    how = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0} if temperature else {"do_sample": False}
    grown: torch.Tensor = model.generate(rows, attention_mask=torch.ones_like(rows), max_new_tokens=n_new, eos_token_id=None, **how)
    return grown
