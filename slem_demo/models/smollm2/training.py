"""The draft learns the target's own distribution at every place where a token of both begins, else the next token of the text."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from slem_demo.models.builtin.training import Schedule, new_model, optimizers, set_lr
from slem_demo.models.codec import HubCodec
from slem_demo.models.smollm2.writing import N_BEST, Labelled, conversation

IGNORED = -1


def new_draft(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    return new_model(tokenizer, hidden=256, inner=640, layers=4, heads=4)


@dataclass(frozen=True)
class Lesson:
    """A stream of draft ids [n], and for each what should follow: `best_ids` int64 and `best_p` float32, [n, N_BEST], which sum to 1."""

    ids: Tensor
    best_ids: Tensor
    best_p: Tensor

    @classmethod
    def joined(cls, lessons: list[Lesson]) -> Lesson:
        return cls(*(torch.cat([getattr(lesson, name) for lesson in lessons]) for name in ("ids", "best_ids", "best_p")))


def first_pieces(target: HubCodec, draft: HubCodec) -> Tensor:
    """int64 [target vocabulary]: the draft token that begins what a target token writes; IGNORED for what has no text, but not the end."""
    eos, found = target.tokenizer.eos_token_id, []
    byte_ids = {data: i for i, data in enumerate(draft.vocab) if len(data) == 1}
    for i, data in enumerate(target.vocab):
        text = data.decode("utf-8", "ignore")
        ids = draft.encode(text) if text.encode() == data and data else []
        found.append(draft.tokenizer.eos_token_id if i == eos else ids[0] if ids else byte_ids.get(data[:1], IGNORED))
    return torch.tensor(found)


def lesson(target: HubCodec, draft: HubCodec, firsts: Tensor, row: Labelled) -> Lesson:
    """One answer as the draft reads it: its rendering of the conversation, the text, the end.

    A draft token that ends where a target token ends learns what the target finds likely there, by the first piece of each:

        target      | The| photos|ynthesis        after "The" the target says: " photos" 0.7, " plants" 0.2, " photo" 0.1
        draft       | The| ph|ot|os|ynthesis      so the draft learns:         " ph" 0.7 + 0.1,  " plants" 0.2;  after " ph": "ot"
    """
    answer, n_before = row.answer, row.n_before
    before_ids = conversation(draft, answer.prompt)
    after_ids = draft.encode(answer.text) + [draft.tokenizer.eos_token_id] * answer.complete
    ids = torch.tensor(before_ids + after_ids)
    ends = [0, *accumulate(len(target.vocab[i]) for i in row.ids[n_before:])]
    wanted_ids, wanted_p = ids.roll(-1)[:, None].repeat(1, N_BEST), torch.zeros(len(ids), N_BEST)
    wanted_p[:-1, 0] = 1.0
    n_places = len(ids) - answer.complete  # nothing follows the end
    for place, end in zip(
        range(len(before_ids) - 1, n_places), accumulate((len(draft.vocab[i]) for i in after_ids), initial=0), strict=False
    ):
        at = bisect_left(ends, end)
        if at < len(ends) and ends[at] == end:
            pieces, p = firsts[row.best_ids[n_before - 1 + at].long()], row.best_p[n_before - 1 + at].float()
            p = p * (pieces != IGNORED)
            wanted_ids[place], wanted_p[place] = pieces.clamp(min=0), p / p.sum()
    return Lesson(ids, wanted_ids, wanted_p)


def windows(stream: Lesson, n: int, length: int) -> Lesson:
    """[n, length] windows that begin anywhere."""
    starts = torch.randint(len(stream.ids) - length, (n,))[:, None] + torch.arange(length)
    return Lesson(stream.ids[starts], stream.best_ids[starts], stream.best_p[starts])


def train(model: LlamaForCausalLM, stream: Lesson, schedule: Schedule, seed: int) -> list[float]:
    """Trains in place; returns the cross-entropy (nats a token) of every step."""
    torch.manual_seed(seed)
    opts = optimizers(model, schedule.lr)
    model.train()
    losses: list[float] = []
    began = time.perf_counter()
    for step in range(schedule.steps):
        set_lr(opts, schedule.lr_at(step))
        rows = windows(stream, *schedule.shape_at(step))
        with torch.autocast("cpu", torch.bfloat16):  # twice as quick where the processor has it
            logits = model(rows.ids, use_cache=False).logits
        log_q = logits.float().log_softmax(-1).gather(-1, rows.best_ids)
        loss = -(rows.best_p * log_q).sum(-1).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for opt in opts:
            opt.step()
            opt.zero_grad(set_to_none=True)
        losses.append(loss.item())
        if step % 50 == 49:
            print(f"step {step + 1}/{schedule.steps}  loss {sum(losses[-50:]) / 50:.3f}  {time.perf_counter() - began:.0f} s", flush=True)
    model.eval()
    return losses


def stream_of(lessons: Iterable[Lesson], seed: int) -> Lesson:
    """The lessons one after the other, in a shuffled order."""
    found = list(lessons)
    order = torch.randperm(len(found), generator=torch.Generator().manual_seed(seed)).tolist()
    return Lesson.joined([found[i] for i in order])
