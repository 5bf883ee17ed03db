"""The decoders, as generators of events: target-only decoding, and SLEM (Timor et al. 2025, arXiv 2502.05202, Algorithm 2).

All ask a `Model` for logits and pass it the whole list of ids; the model keeps its cache to itself. Nothing here prints, waits
or knows who listens, and an abandoned generator leaves nothing to clean up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from slem_demo.engine import bridge
from slem_demo.engine.bridge import DraftContext
from slem_demo.engine.lookahead import Auto, Fixed, Lookahead
from slem_demo.engine.run import Clock, Draft, Events, Judge, Model, Prompts, Run, fit, prefill, tokens
from slem_demo.engine.sampling import Chosen, DraftChooser, Place, best_guess, independent_key, shared_keys
from slem_demo.trace import PrefillEvent, Reason, Request, n_accepted_draft

Choice = Callable[[Tensor, Place], Chosen]  # from logits [vocabulary] and the place that is written to
Translate = Callable[[list[int]], tuple[list[int], Reason | None]]  # from drafter ids to candidates, or why there are none


@dataclass(frozen=True)
class Drafting:
    """The drafter's side of a run: how it chooses each token, how many it drafts, and how they become candidates."""

    model: Model
    choose: Choice
    lookahead: Lookahead
    translate: Translate


def target_only(target: Model, prompt_ids: Sequence[int], request: Request, clock: Clock = time.perf_counter) -> Events:
    """The target alone, one token a pass: the reference for ids and for speed.

    Args:
        target: its cache may hold anything; what fits is used.
        prompt_ids: the prompt in target ids, at least one.
        clock: seconds; a parameter so that tests need not wait.
    """
    run = Run(target, prompt_ids, request, clock)
    judge = exact_match(run)
    yield PrefillEvent(target_prompt_ids=tuple(prompt_ids), draft_prompt_ids=None, target_s=run.prefill_s, draft_s=None)
    while run.output.stop_reason is None:
        yield run.round(Draft(reason=Reason.TARGET_ONLY), clock(), judge)
    yield run.output.stop_event()


def slem(target: Model, drafter: Model, prompts: Prompts, request: Request, clock: Clock = time.perf_counter) -> Events:
    """String-level exact match: draft in one vocabulary, compare in the other.

    Every committed id is the target's own choice given the committed ids before it. What is proposed can't affect the output, only
    how many ids a pass commits; so the bridge may be approximate and the drafter may be anything.
    """
    run = Run(target, prompts.target_ids, request, clock)
    by_text = string_bridge(run, drafter)
    side = Drafting(drafter, draft_choice(run, drafter), lookahead_of(request), by_text)
    yield from speculate(run, side, prompts, exact_match(run))


def speculate(run: Run, side: Drafting, prompts: Prompts, judge: Judge) -> Events:
    """Rounds of a draft, one target pass and a judgement, until the run ends."""
    drafter, clock = side.model, run.clock
    context = DraftContext(drafter.codec, prompts.draft_ids)
    draft_prefill_s = prefill(drafter, fit(prompts.draft_ids, side.lookahead.most, drafter.max_context), clock)
    yield PrefillEvent(
        target_prompt_ids=tuple(prompts.target_ids),
        draft_prompt_ids=tuple(prompts.draft_ids),
        target_s=run.prefill_s,
        draft_s=draft_prefill_s,
    )
    while run.output.stop_reason is None:
        began = clock()
        n_pending = len(run.output.pending)
        event = run.round(propose(run, side, context), began, judge)
        side.lookahead.learn(n_accepted_draft(event, n_pending), len(event.committed), event.draft_s or 0.0, event.round_s)
        yield event
    yield run.output.stop_event()


def propose(run: Run, side: Drafting, context: DraftContext) -> Draft:
    """Steps 1 and 2 of a round: the drafter writes, and what it wrote becomes target ids."""
    clock, drafter, k, n_left = run.clock, side.model, side.lookahead.most, run.output.n_left
    if k == 0 or n_left == 1:
        return Draft(reason=Reason.LAST_TOKEN if k else Reason.K_ZERO)
    if not side.lookahead.begins():
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
    draft_ids = draft_tokens(side, ids, run.output.draft_place)
    t2 = clock()
    candidate_ids, reason = side.translate(draft_ids)
    t3 = clock()
    return Draft(
        tokens=tokens(drafter.codec, draft_ids),
        text=text_bytes(drafter, draft_ids).decode("utf-8", "replace"),
        candidate_ids=candidate_ids[: n_left - 1],
        reason=reason,
        draft_s=t2 - t1,
        retokenise_s=t1 - t0 + t3 - t2,
    )


def draft_tokens(side: Drafting, ids: list[int], place: Place) -> list[int]:
    """As many tokens of the drafter after `ids` as its rule asks for, one at least.

    Its own EOS ends the draft and is kept; another token of no bytes is not.

    Args:
        place: where the first of them is written.
    """
    drafter, ids, n_context = side.model, list(ids), len(ids)
    goes_on = True
    while goes_on:
        chosen = side.choose(drafter.logits(ids, 1)[0], place)
        token = chosen.token
        if token in drafter.eos_ids:
            return [*ids[n_context:], token]
        if not drafter.codec.vocab[token]:
            break
        ids.append(token)
        place = Place(place.offset + len(drafter.codec.vocab[token]), 0)
        goes_on = side.lookahead.goes_on(chosen)
    return ids[n_context:]


def string_bridge(run: Run, drafter: Model) -> Translate:
    """Candidates are the drafted text in the target's ids, and the target's end token where the drafter ended."""

    def translate(draft_ids: list[int]) -> tuple[list[int], Reason | None]:
        candidate_ids, reason = bridge.candidates(run.target.codec, run.ids, text_bytes(drafter, draft_ids), run.window)
        has_ended = bool(draft_ids) and draft_ids[-1] in drafter.eos_ids
        if has_ended and reason in (None, Reason.NO_DRAFT_TEXT) and run.target.eos_ids and not run.output.pending:
            return [*candidate_ids, min(run.target.eos_ids)], None
        return candidate_ids, reason

    return translate


def text_bytes(drafter: Model, draft_ids: Sequence[int]) -> bytes:
    """What the draft writes; an end token writes nothing."""
    return b"".join(drafter.codec.vocab[i] for i in draft_ids if i not in drafter.eos_ids)


def exact_match(run: Run) -> Judge:
    """Keeps the candidates that are the target's own choices."""

    def judge(logits: Tensor, candidate_ids: list[int]) -> list[int]:
        choices = run.chooser.choose(logits, run.output.places(candidate_ids))
        return choices[: accept(candidate_ids, choices) + 1]

    return judge


def accept(candidate_ids: Sequence[int], choices: Sequence[int]) -> int:
    """Steps 4 and 5: how many candidates are the target's own choices, up to the first that is not.

    candidates       a b x y
    choices          a b c . .      → 2, and `c` is the target's own token
    """
    n = 0
    while n < len(candidate_ids) and candidate_ids[n] == choices[n]:
        n += 1
    return n


def lookahead_of(request: Request) -> Lookahead:
    return Auto() if request.k == "auto" else Fixed(request.k)


def draft_choice(run: Run, drafter: Model) -> Choice:
    """How the drafter chooses. With shared noise it rolls the target's dice, and so agrees with it more often (beyond the paper)."""
    request, keys, key, target = run.request, drafter.token_keys, run.key, run.target
    if request.temperature == 0 or request.draft_noise == "greedy":
        return best_guess
    is_shared = request.draft_noise == "shared"
    if is_shared:
        eos_key = int(target.token_keys[min(target.eos_ids)]) if target.eos_ids else None
        keys = shared_keys(keys, drafter.codec.vocab, drafter.eos_ids, eos_key)
    else:
        key = independent_key(key)
    return DraftChooser(request.temperature, request.top_k, request.top_p, key, keys, is_shared).choose
