"""Numbers of a run, all derived from its trace. Names and definitions follow vLLM's where it has them.

Counted in three units, because acceptance per token can't be compared across vocabularies: draft tokens, target tokens, bytes.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from scipy import stats

from slem_demo.trace import Event, RoundEvent, StopEvent, Trace


@dataclass(frozen=True)
class Summary:
    """The measures of one run. Rates are None where their denominator is 0, times where they were not measured."""

    num_rounds: int
    num_output_tokens: int
    num_output_bytes: int
    num_draft_tokens: int
    num_accepted_draft_tokens: int
    num_candidate_tokens: int
    num_accepted_tokens: int
    num_accepted_bytes: int
    num_tested_tokens: int
    num_cut_tokens: int
    draft_acceptance_rate: float | None
    tested_acceptance_rate: float | None
    mean_acceptance_length: float | None
    acceptance_histogram: list[int]
    acceptance_by_position: list[float]
    bytes_per_target_pass: float | None
    target_prefill_s: float | None
    draft_prefill_s: float | None
    draft_s: float
    retokenise_s: float
    verify_s: float
    other_s: float
    seconds: float
    tokens_per_second: float | None


def is_cut(r: RoundEvent) -> bool:
    """Whether the mismatch is a last candidate that is only the beginning of the target's own token: the draft just ended there."""
    candidate = r.candidate or ()
    if r.own is None or r.n_accepted != len(candidate) - 1:
        return False
    last = candidate[-1].bytes
    return len(last) < len(r.own.bytes) and r.own.bytes.startswith(last)


def n_accepted_draft(r: RoundEvent, n_pending: int) -> int:
    """Draft tokens of which every byte was accepted.

    `n_pending`: bytes of a character that the committed ids had begun; the draft repeats them.

        draft       | th|e| land|scape      candidates  | the| landsca|pe, the first accepted (4 bytes)
        ends at      3  4  9    14          → 2 draft tokens
    """
    left = n_pending + sum(len(token.bytes) for token in (r.candidate or ())[: r.n_accepted])
    n = 0
    for token in r.draft or ():
        left -= len(token.bytes)
        if left < 0 or (not token.bytes and not r.n_accepted == len(r.candidate or ())):
            break
        n += 1
    return n


def summarise(trace: Trace) -> Summary:
    """The measures of a run, finished or not."""
    rounds = trace.rounds
    accepted = [r.n_accepted for r in rounds]
    n_candidates = [len(r.candidate or ()) for r in rounds]
    mismatches = [r for r, n in zip(rounds, n_candidates, strict=True) if r.own is not None and r.n_accepted < n]
    n_output = sum(len(r.committed) for r in rounds)
    n_bytes = sum(len(token.bytes) for r in rounds for token in r.committed)
    n_tested = sum(accepted) + len(mismatches)
    histogram = np.bincount(accepted, minlength=1).tolist() if rounds else []
    prefill = trace.prefill
    times = {name: sum(getattr(r, name) or 0.0 for r in rounds) for name in ("draft_s", "retokenise_s", "verify_s")}
    rounds_s = sum(r.round_s for r in rounds)
    seconds = rounds_s + ((prefill.target_s + (prefill.draft_s or 0.0)) if prefill else 0.0)
    return Summary(
        num_rounds=len(rounds),
        num_output_tokens=n_output,
        num_output_bytes=n_bytes,
        num_draft_tokens=sum(len(r.draft or ()) for r in rounds),
        num_accepted_draft_tokens=_accepted_draft_tokens(rounds),
        num_candidate_tokens=sum(n_candidates),
        num_accepted_tokens=sum(accepted),
        num_accepted_bytes=sum(len(t.bytes) for r in rounds for t in (r.candidate or ())[: r.n_accepted]),
        num_tested_tokens=n_tested,
        num_cut_tokens=sum(map(is_cut, rounds)),
        draft_acceptance_rate=_ratio(sum(accepted), sum(n_candidates)),
        tested_acceptance_rate=_ratio(sum(accepted), n_tested),
        mean_acceptance_length=_ratio(n_output, len(rounds)),
        acceptance_histogram=histogram,
        acceptance_by_position=[
            sum(a > i for a in accepted) / sum(n > i for n in n_candidates) for i in range(max(n_candidates, default=0))
        ],
        bytes_per_target_pass=_ratio(n_bytes, len(rounds)),
        target_prefill_s=prefill.target_s if prefill else None,
        draft_prefill_s=prefill.draft_s if prefill else None,
        other_s=rounds_s - sum(times.values()),
        seconds=seconds,
        tokens_per_second=_ratio(n_output, seconds),
        **times,
    )


def _accepted_draft_tokens(rounds: Sequence[RoundEvent]) -> int:
    n, decoder = 0, codecs.getincrementaldecoder("utf-8")("replace")
    for r in rounds:
        n += n_accepted_draft(r, n_pending=len(decoder.getstate()[0]))
        decoder.decode(b"".join(token.bytes for token in r.committed))
    return n


def _ratio(a: float, b: float) -> float | None:
    return a / b if b else None


def event_json(event: Event, trace: Trace) -> dict[str, object]:
    """An event as the command line and the app's API send it: a stop event carries the run's measures."""
    line: dict[str, object] = event.model_dump(mode="json")
    if isinstance(event, StopEvent):
        line["metrics"] = asdict(summarise(trace))
    return line


@dataclass(frozen=True)
class Interval:
    """A median with its 95 % bootstrap interval."""

    median: float
    low: float
    high: float
    n: int


def median_interval(values: Sequence[float], statistic: Callable[..., np.floating] = np.median) -> Interval:
    """Median of independent values (for example one per prompt) with a percentile bootstrap; one value has no width."""
    data = np.asarray(values, dtype=float)
    if len(data) == 1:
        return Interval(float(data[0]), float(data[0]), float(data[0]), 1)
    result = stats.bootstrap((data,), statistic, method="percentile", n_resamples=2000, rng=np.random.default_rng(0))
    low, high = result.confidence_interval
    return Interval(float(statistic(data)), float(low), float(high), len(data))


def repeated_share(ids: Sequence[int], n: int = 8) -> float:
    """Share of the runs of `n` ids that have stood earlier in the same list: a text that loops flatters a draft."""
    runs = [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]
    return 1 - len(set(runs)) / len(runs) if runs else 0.0
