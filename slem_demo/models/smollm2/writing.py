"""What the target writes for the draft to learn from, and what it would have written at every place of it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from transformers import LlamaForCausalLM

from slem_demo.models.codec import HubCodec
from slem_demo.models.prompts import prompt_ids
from slem_demo.trace import Request

N_BEST = 16  # of the target's ids are kept as what it might have written


@dataclass(frozen=True)
class Plan:
    """One answer to each prompt for each of `leads`: so many tokens sampled at temperature 1, then up to `new` greedy ones.

    Sampled tokens take the answer where the greedy one would not have gone; what follows is what the target writes there.
    """

    leads: tuple[int, ...] = (0, 24, 12)
    new: int = 160
    batch: int = 64


@dataclass(frozen=True)
class Answer:
    """A prompt and what the target wrote. Not `complete`: it was cut."""

    prompt: str
    text: str
    complete: bool

    def to_json(self) -> str:
        return json.dumps({"prompt": self.prompt, "text": self.text, "complete": self.complete}, ensure_ascii=False)

    @classmethod
    def from_json(cls, line: str) -> Answer:
        row = json.loads(line)
        return cls(row["prompt"], row["text"], row["complete"])


def conversation(codec: HubCodec, prompt: str) -> list[int]:
    """The target's ids of a conversation that begins with the prompt, up to where its answer begins."""
    return prompt_ids(codec, Request.checked(pair="smollm2", prompt=prompt, chat=True))


def write_answers(lm: LlamaForCausalLM, codec: HubCodec, prompts: list[str], plan: Plan, seed: int) -> Iterator[Answer]:
    """Answers by the plan, batch by batch."""
    torch.manual_seed(seed)
    order = random.Random(seed)
    for lead in plan.leads:
        shuffled = order.sample(prompts, len(prompts))
        for start in range(0, len(shuffled), plan.batch):
            yield from _write_batch(lm, codec, shuffled[start : start + plan.batch], lead, plan.new)


@torch.inference_mode()
def _write_batch(lm: LlamaForCausalLM, codec: HubCodec, prompts: list[str], lead: int, new: int) -> Iterator[Answer]:
    eos = codec.tokenizer.eos_token_id
    rows = [conversation(codec, prompt) for prompt in prompts]
    width = max(map(len, rows))
    ids = torch.tensor([[eos] * (width - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
    if lead:
        sampled = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
        ids = lm.generate(ids, attention_mask=mask, max_new_tokens=lead, min_new_tokens=lead, pad_token_id=eos, **sampled)
        mask = torch.cat([mask, mask.new_ones(len(rows), ids.shape[1] - width)], 1)
    ids = lm.generate(ids, attention_mask=mask, max_new_tokens=new, do_sample=False, pad_token_id=eos)
    for prompt, row in zip(prompts, ids[:, width:].tolist(), strict=True):
        complete = eos in row
        text = codec.tokenizer.decode(row[: row.index(eos)] if complete else row)
        yield Answer(prompt, text.removesuffix("\ufffd"), complete)


@dataclass(frozen=True)
class Labelled:
    """The target's ids of an answer, `n_before` of a conversation before it, and what the target finds likeliest after each id.

    `best_ids` int32 and `best_p` float16, [ids, N_BEST].
    """

    answer: Answer
    n_before: int
    ids: list[int]
    best_ids: torch.Tensor
    best_p: torch.Tensor


@torch.inference_mode()
def label(lm: LlamaForCausalLM, codec: HubCodec, answers: Iterable[Answer], n_rows: int = 16) -> Iterator[Labelled]:
    """The answers, the longest first, as the target sees them: what is freed then always has room for what comes next."""
    rows = []
    for answer in answers:
        before = conversation(codec, answer.prompt)
        rows.append((answer, len(before), [*before, *codec.encode(answer.text), *[codec.tokenizer.eos_token_id] * answer.complete]))
    rows.sort(key=lambda row: -len(row[2]))
    for start in range(0, len(rows), n_rows):
        batch = rows[start : start + n_rows]
        width = len(batch[0][2])
        padded = torch.tensor([ids + [0] * (width - len(ids)) for _, _, ids in batch])
        hidden = lm.model(padded, use_cache=False).last_hidden_state  # what stands right of an id changes nothing there
        for (answer, n_before, ids), states in zip(batch, hidden, strict=True):
            best = lm.lm_head(states[: len(ids)]).float().softmax(-1).topk(N_BEST)
            yield Labelled(answer, n_before, ids, best.indices.int(), best.values.half())
