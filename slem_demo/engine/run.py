"""What every decoder is made of: the models it asks, and a run, which turns a proposal and a judge into a round."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Protocol
from weakref import WeakKeyDictionary

from torch import Tensor

from slem_demo.engine.bridge import Codec, Window
from slem_demo.engine.output import Output
from slem_demo.engine.sampling import Chooser, run_key
from slem_demo.trace import Alternative, Event, Position, Reason, Request, RoundEvent, Token

Clock = Callable[[], float]
Events = Generator[Event, None, None]
Judge = Callable[[Tensor, list[int]], list[int]]
"""From the target's logits [n + 1, vocabulary] and n candidates to the ids to commit: kept candidates, then the target's own."""


class Model(Protocol):
    """A language model with its tokenizer, as far as decoding needs it."""

    @property
    def codec(self) -> Codec: ...

    @property
    def token_keys(self) -> Tensor:
        """int64 [vocabulary]: see `sampling.token_keys`."""
        ...

    @property
    def eos_ids(self) -> frozenset[int]: ...

    @property
    def max_context(self) -> int: ...

    def logits(self, ids: Sequence[int], n: int) -> Tensor:
        """float32 [n, vocabulary]: row j scores what follows ids[: len(ids) - n + 1 + j], for n ≤ len(ids)."""
        ...


@dataclass(frozen=True)
class Prompts:
    """One prompt in the ids of both models, each in its own rendering."""

    target_ids: Sequence[int]
    draft_ids: Sequence[int]


@dataclass(frozen=True)
class Draft:
    """What a round proposes: drafter tokens, their text, the target ids to test, or why there are none."""

    tokens: tuple[Token, ...] = ()
    text: str = ""
    candidate_ids: Sequence[int] = ()
    reason: Reason | None = None
    draft_s: float | None = None
    retokenise_s: float | None = None


class Run:
    """What the decoders share: the target with its committed ids, its rule of choice, and the clock."""

    def __init__(self, target: Model, prompt_ids: Sequence[int], request: Request, clock: Clock):
        self.target, self.request, self.clock = target, request, clock
        self.ids = list(prompt_ids)
        self.output = Output(target.codec, target.eos_ids, request)
        self.window = Window(target.codec)
        self.n_rounds = 0
        self._untaken = ""
        self.key = run_key(request.seed, prompt_ids)
        self.chooser = Chooser(request.temperature, request.top_k, request.top_p, self.key, target.token_keys)
        self.prefill_s = prefill(target, prompt_ids, clock)

    def take_text(self) -> str:
        """The committed text that has become certain since the last call."""
        text, self._untaken = self._untaken, ""
        return text

    def round(self, draft: Draft, began: float, judge: Judge) -> RoundEvent:
        """Steps 3 to 6: one target pass over the last committed id and the candidates, then the commit of what the judge keeps."""
        candidate_ids = list(draft.candidate_ids)
        t0 = self.clock()
        logits = self.target.logits(self.ids + candidate_ids, len(candidate_ids) + 1)
        kept = judge(logits, candidate_ids)
        t1 = self.clock()
        n_matched = len(kept) - 1
        added = self.output.commit(kept)
        self.ids += kept[: added.n_kept]
        self._untaken += added.text
        self.n_rounds += 1
        committed = tokens(self.target.codec, kept[: added.n_kept])
        candidate = committed[:n_matched] + tokens(self.target.codec, candidate_ids[len(committed[:n_matched]) :])
        t2 = self.clock()
        return RoundEvent.model_construct(  # every value has its type already
            round=self.n_rounds - 1,
            draft=draft.tokens,
            draft_text=draft.text,
            candidate=candidate,
            n_accepted=min(n_matched, added.n_kept),
            own=committed[n_matched] if added.n_kept > n_matched else None,
            text=added.shown,
            reason=draft.reason,
            draft_s=draft.draft_s,
            retokenise_s=draft.retokenise_s,
            verify_s=t1 - t0,
            round_s=t2 - began,
            positions=self._positions(logits, candidate_ids, kept),
        )

    def _positions(self, logits: Tensor, candidate_ids: list[int], chosen_ids: Sequence[int]) -> tuple[Position, ...] | None:
        """On request, what the target thought at the tested places. Taken when the round's clock has stopped."""
        if not self.request.alternatives:
            return None
        probabilities = (logits[: len(chosen_ids)].double() / (self.request.temperature or 1.0)).softmax(-1)
        best = probabilities.topk(min(self.request.alternatives, probabilities.shape[-1])).indices.tolist()
        found = []
        for row, chosen in enumerate(chosen_ids):
            ids = [*best[row], *[chosen] * (chosen not in best[row])]
            options = zip(tokens(self.target.codec, ids), probabilities[row, ids].tolist(), strict=True)
            candidate = float(probabilities[row, candidate_ids[row]]) if row < len(candidate_ids) else None
            found.append(
                Position(
                    candidate_probability=candidate,
                    alternatives=tuple(Alternative(token=token, probability=p) for token, p in options),
                )
            )
        return tuple(found)


def tokens(codec: Codec, ids: Sequence[int]) -> tuple[Token, ...]:
    """Ids with their bytes, and the text of those bytes for people. A token is made once for each codec."""
    known = _TOKENS.setdefault(codec, {})
    for i in ids:
        if i not in known:
            known[i] = Token(id=i, text=codec.vocab[i].decode("utf-8", "replace"), bytes=codec.vocab[i])
    return tuple(known[i] for i in ids)


_TOKENS: WeakKeyDictionary[Codec, dict[int, Token]] = WeakKeyDictionary()


def prefill(model: Model, ids: Sequence[int], clock: Clock) -> float:
    """Lets a model read all ids but the last; returns the seconds it took."""
    began = clock()
    if len(ids) > 1:
        model.logits(ids[:-1], 1)
    return clock() - began


def fit(ids: Sequence[int], k: int, max_context: int) -> list[int]:
    """The drafter's ids, or a window of their end that leaves room for `k` more. It moves in steps, so that a cache can follow it."""
    step = max(1, max_context // 4)
    n_over = len(ids) + k - max_context
    return list(ids[-(-n_over // step) * step :] if n_over > 0 else ids)
