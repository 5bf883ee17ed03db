"""The comparators in transformers, as rounds: its own assisted generation with two tokenizers, and plain `generate`.

Both run on the models as transformers loads them. What they do not show is None: what was drafted and sent, and times by phase.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Queue
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from transformers import GenerationConfig, PreTrainedModel, StoppingCriteria, StoppingCriteriaList
from transformers.generation.streamers import BaseStreamer

from slem_demo.engine.output import Output
from slem_demo.engine.run import Clock, Events, Prompts, tokens
from slem_demo.errors import SlemError
from slem_demo.models.cached import input_device
from slem_demo.trace import Method, PrefillEvent, Reason, Request, RoundEvent

if TYPE_CHECKING:
    from slem_demo.models.loading import Pair


def hf(pair: Pair, prompts: Prompts, request: Request, clock: Clock = time.perf_counter) -> Events:
    """One run of `hf` (K constant, confidence threshold off, as in `slem`) or of `generate`, with the rounds that its streamer shows.

    A round's last id is taken for the target's own. The first round's time holds the prefill.

    Raises:
        SlemError: the request samples (transformers then uses another method), or transformers refuses the pair.
    """
    is_plain = request.method is Method.GENERATE
    if request.temperature:
        raise SlemError(f"The method {request.method} is a greedy comparator; set the temperature to 0 or use slem or target.")
    if request.k in (0, "auto") and not is_plain:
        raise SlemError("The method hf drafts a fixed number of tokens; set K to 1 or more.")
    yield PrefillEvent(target_prompt_ids=tuple(prompts.target_ids), draft_prompt_ids=None, target_s=None, draft_s=None)
    output, n_rounds = Output(pair.target.codec, pair.target.eos_ids, request), 0
    with _generation(pair, prompts.target_ids, request) as blocks:
        began = clock()
        for ids in blocks:
            now = clock()
            added = output.commit(ids)
            committed = tokens(pair.target.codec, ids[: added.n_kept])
            unknown = {"draft": None, "draft_text": None, "candidate": None, "accepted": committed[:-1]}
            yield RoundEvent(
                round=n_rounds,
                n_accepted=len(committed) - 1,
                own=committed[-1],
                text=added.shown,
                round_s=now - began,
                **{"reason": Reason.TARGET_ONLY} if is_plain else unknown,
            )
            n_rounds, began = n_rounds + 1, now
            if output.stop_reason:
                break
    yield output.stop_event()


@contextmanager
def _generation(pair: Pair, prompt_ids: object, request: Request) -> Iterator[Iterator[list[int]]]:
    """The blocks of ids that `generate` commits, one a round, while it runs in a thread. It is ended with the context."""
    blocks: Queue[list[int] | Exception | None] = Queue()
    ended = threading.Event()
    target, draft = with_settings(pair.target.lm), None
    if request.method is Method.HF:
        constant = {"num_assistant_tokens_schedule": "constant", "assistant_confidence_threshold": 0.0}
        draft = with_settings(pair.draft.lm, num_assistant_tokens=request.k, **constant)
    two_tokenizers = {"tokenizer": pair.target.codec.tokenizer, "assistant_tokenizer": pair.draft.codec.tokenizer}

    @torch.inference_mode()
    def work() -> None:
        prompt = torch.tensor([prompt_ids], device=input_device(pair.target.lm))
        try:
            target.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                assistant_model=draft,
                do_sample=False,
                max_new_tokens=request.max_new_tokens,
                eos_token_id=sorted(pair.target.eos_ids),
                pad_token_id=min(pair.target.eos_ids),
                streamer=_Streamer(blocks),
                stopping_criteria=StoppingCriteriaList([_Ended(ended)]),
                **two_tokenizers if draft is not None and not pair.has_one_tokenizer else {},
            )
            blocks.put(None)
        except Exception as error:  # handed on to the reader below
            blocks.put(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield _until_end(blocks)
    finally:
        ended.set()
        thread.join()


def with_settings(lm: PreTrainedModel, **settings: object) -> PreTrainedModel:
    """The same weights with these settings for `generate` and no others: a model's own (a repetition penalty, say) would change choices.

    transformers reads K from the draft's `generation_config` and nowhere else.
    """
    same = copy.copy(lm)
    same.generation_config = GenerationConfig(**settings)
    return same


def _until_end(blocks: Queue[list[int] | Exception | None]) -> Iterator[list[int]]:
    n_read = 0
    while (block := blocks.get()) is not None:
        if isinstance(block, Exception):
            first_line = (str(block).splitlines() or [type(block).__name__])[0]
            raise SlemError(f"transformers refuses this run: {first_line[:200]}")
        if n_read:  # the first is the prompt
            yield block
        n_read += 1


class _Streamer(BaseStreamer):  # type: ignore[misc]
    def __init__(self, blocks: Queue[list[int] | Exception | None]):
        self._blocks = blocks

    def put(self, value: Tensor) -> None:
        self._blocks.put(value.reshape(-1).tolist())

    def end(self) -> None:
        """Nothing is left to say: `generate` returns after this."""


class _Ended(StoppingCriteria):  # type: ignore[misc]
    def __init__(self, ended: threading.Event):
        self._ended = ended

    def __call__(self, input_ids: Tensor, *_: object, **__: object) -> Tensor:
        return torch.full((input_ids.shape[0],), self._ended.is_set(), device=input_ids.device)
