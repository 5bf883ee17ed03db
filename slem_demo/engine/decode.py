"""The decoders, as generators of events: target-only decoding, and SLEM (Timor et al. 2025, arXiv 2502.05202, Algorithm 2).

Both ask a `Model` for logits and pass it the whole list of ids; the model keeps its cache to itself. Nothing here prints, waits
or knows who listens, and an abandoned generator leaves nothing to clean up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Protocol
from weakref import WeakKeyDictionary

from torch import Tensor

from slem_demo.engine import bridge
from slem_demo.engine.bridge import Codec, DraftContext, Window
from slem_demo.engine.lookahead import Auto, Fixed, Lookahead
from slem_demo.engine.output import Output
from slem_demo.engine.sampling import Chooser, Chosen, DraftChooser, Place, best_guess, independent_key, run_key, shared_keys
from slem_demo.trace import Alternative, Event, Position, PrefillEvent, Reason, Request, RoundEvent, Token, n_accepted_draft

Clock = Callable[[], float]
Events = Generator[Event, None, None]
Choice = Callable[[Tensor, Place], Chosen]  # from logits [vocabulary] and the place that is written to


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
class DraftRule:
    """How a drafter chooses each token, and how many it drafts."""

    choose: Choice
    lookahead: Lookahead


@dataclass(frozen=True)
class Draft:
    """What a round proposes: drafter tokens, their text, the target ids to test, or why there are none."""

    tokens: tuple[Token, ...] = ()
    text: str = ""
    candidate_ids: Sequence[int] = ()
    reason: Reason | None = None
    draft_s: float | None = None
    retokenise_s: float | None = None


def target_only(target: Model, prompt_ids: Sequence[int], request: Request, clock: Clock = time.perf_counter) -> Events:
    """The target alone, one token a pass: the reference for ids and for speed.

    Args:
        target: its cache may hold anything; what fits is used.
        prompt_ids: the prompt in target ids, at least one.
        clock: seconds; a parameter so that tests need not wait.
    """
    run = _Run(target, prompt_ids, request, clock)
    yield PrefillEvent(target_prompt_ids=tuple(prompt_ids), draft_prompt_ids=None, target_s=run.prefill_s, draft_s=None)
    while run.output.stop_reason is None:
        yield run.round(Draft(reason=Reason.TARGET_ONLY), began=clock())
    yield run.output.stop_event()


def slem(target: Model, drafter: Model, prompts: Prompts, request: Request, clock: Clock = time.perf_counter) -> Events:
    """String-level exact match: draft in one vocabulary, compare in the other.

    Every committed id is the target's own choice given the committed ids before it. What is proposed can't affect the output, only
    how many ids a pass commits; so the bridge may be approximate and the drafter may be anything.
    """
    run = _Run(target, prompts.target_ids, request, clock)
    context = DraftContext(drafter.codec, prompts.draft_ids)
    rule = DraftRule(run.draft_choice(drafter), Auto() if request.k == "auto" else Fixed(request.k))
    draft_prefill_s = prefill(drafter, fit(prompts.draft_ids, rule.lookahead.most, drafter.max_context), clock)
    yield PrefillEvent(
        target_prompt_ids=tuple(prompts.target_ids),
        draft_prompt_ids=tuple(prompts.draft_ids),
        target_s=run.prefill_s,
        draft_s=draft_prefill_s,
    )
    while run.output.stop_reason is None:
        began = clock()
        n_pending = len(run.output.pending)
        event = run.round(propose(run, drafter, context, rule), began)
        rule.lookahead.learn(n_accepted_draft(event, n_pending), len(event.committed), event.draft_s or 0.0, event.round_s)
        yield event
    yield run.output.stop_event()


def propose(run: _Run, drafter: Model, context: DraftContext, rule: DraftRule) -> Draft:
    """Steps 1 and 2 of a round: the drafter writes, its text becomes target ids."""
    clock, k, n_left = run.clock, rule.lookahead.most, run.output.n_left
    if k == 0 or n_left == 1:
        return Draft(reason=Reason.LAST_TOKEN if k else Reason.K_ZERO)
    if not rule.lookahead.begins():
        return Draft(reason=Reason.NOT_WORTH)
    t0 = clock()
    context.extend(run.take_text())
    ids = context.ids
    if ids is None:
        return Draft(reason=Reason.DRAFTER_ROUND_TRIP, retokenise_s=clock() - t0)
    ids = fit(ids, k, drafter.max_context)
    if not ids:
        return Draft(reason=Reason.DRAFTER_CONTEXT, retokenise_s=clock() - t0)
    t1 = clock()
    draft_ids = draft_tokens(drafter, ids, rule, run.output.draft_place)
    t2 = clock()
    data = b"".join(drafter.codec.vocab[i] for i in draft_ids if i not in drafter.eos_ids)
    candidate_ids, reason = bridge.candidates(run.target.codec, run.ids, data, run.window)
    if draft_ids and draft_ids[-1] in drafter.eos_ids and reason in (None, Reason.NO_DRAFT_TEXT):
        candidate_ids, reason = run.with_end(candidate_ids, reason)
    t3 = clock()
    return Draft(
        tokens=tokens(drafter.codec, draft_ids),
        text=data.decode("utf-8", "replace"),
        candidate_ids=candidate_ids[: n_left - 1],
        reason=reason,
        draft_s=t2 - t1,
        retokenise_s=t1 - t0 + t3 - t2,
    )


def draft_tokens(drafter: Model, ids: list[int], rule: DraftRule, place: Place) -> list[int]:
    """As many tokens of the drafter after `ids` as the rule asks for, one at least.

    Its own EOS ends the draft and is kept; another token of no bytes is not.

    Args:
        place: where the first of them is written.
    """
    ids, n_context = list(ids), len(ids)
    goes_on = True
    while goes_on:
        chosen = rule.choose(drafter.logits(ids, 1)[0], place)
        token = chosen.token
        if token in drafter.eos_ids:
            return [*ids[n_context:], token]
        if not drafter.codec.vocab[token]:
            break
        ids.append(token)
        place = Place(place.offset + len(drafter.codec.vocab[token]), 0)
        goes_on = rule.lookahead.goes_on(chosen)
    return ids[n_context:]


def accept(candidate_ids: Sequence[int], choices: Sequence[int]) -> int:
    """Steps 4 and 5: how many candidates are the target's own choices, up to the first that is not.

    candidates       a b x y
    choices          a b c . .      → 2, and `c` is the target's own token
    """
    n = 0
    while n < len(candidate_ids) and candidate_ids[n] == choices[n]:
        n += 1
    return n


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


class _Run:
    """What the decoders share: the target with its committed ids, the rule of choice, and the clock."""

    def __init__(self, target: Model, prompt_ids: Sequence[int], request: Request, clock: Clock):
        self.target, self.request, self.clock = target, request, clock
        self.ids = list(prompt_ids)
        self.output = Output(target.codec, target.eos_ids, request)
        self.window = Window(target.codec)
        self.n_rounds = 0
        self._untaken = ""
        self._key = run_key(request.seed, prompt_ids)
        self._chooser = Chooser(request.temperature, request.top_k, request.top_p, self._key, target.token_keys)
        self.prefill_s = prefill(target, prompt_ids, clock)

    def draft_choice(self, drafter: Model) -> Choice:
        """How the drafter chooses. With shared noise it rolls the target's dice, and so agrees with it more often (beyond the paper)."""
        request, keys, key = self.request, drafter.token_keys, self._key
        if request.temperature == 0 or request.draft_noise == "greedy":
            return best_guess
        is_shared = request.draft_noise == "shared"
        if is_shared:
            eos_key = int(self.target.token_keys[min(self.target.eos_ids)]) if self.target.eos_ids else None
            keys = shared_keys(keys, drafter.codec.vocab, drafter.eos_ids, eos_key)
        else:
            key = independent_key(key)
        return DraftChooser(request.temperature, request.top_k, request.top_p, key, keys, is_shared).choose

    def take_text(self) -> str:
        """The committed text that has become certain since the last call."""
        text, self._untaken = self._untaken, ""
        return text

    def with_end(self, candidate_ids: list[int], reason: Reason | None) -> tuple[list[int], Reason | None]:
        """The candidates and the target's end token, for a drafter that ended its text; not inside a character."""
        if self.output.pending or not self.target.eos_ids:
            return candidate_ids, reason
        return [*candidate_ids, min(self.target.eos_ids)], None

    def round(self, draft: Draft, began: float) -> RoundEvent:
        """Steps 3 to 6: one target pass over the last committed id and the candidates, then the commit."""
        candidate_ids = list(draft.candidate_ids)
        places = self.output.places(candidate_ids)
        t0 = self.clock()
        logits = self.target.logits(self.ids + candidate_ids, len(candidate_ids) + 1)
        choices = self._chooser.choose(logits, places)
        t1 = self.clock()
        n_matched = accept(candidate_ids, choices)
        added = self.output.commit(choices[: n_matched + 1])
        self.ids += choices[: added.n_kept]
        self._untaken += added.text
        self.n_rounds += 1
        committed = tokens(self.target.codec, choices[: added.n_kept])
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
            positions=self._positions(logits, candidate_ids, n_matched + 1),
        )

    def _positions(self, logits: Tensor, candidate_ids: list[int], n_tested: int) -> tuple[Position, ...] | None:
        """On request, what the target thought at the tested places. Taken when the round's clock has stopped."""
        if not self.request.alternatives:
            return None
        probabilities = (logits[:n_tested].double() / (self.request.temperature or 1.0)).softmax(-1)
        best = probabilities.topk(min(self.request.alternatives, probabilities.shape[-1]))
        found = []
        for row in range(n_tested):
            options = zip(tokens(self.target.codec, best.indices[row].tolist()), best.values[row].tolist(), strict=True)
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
