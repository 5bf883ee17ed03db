"""Numbers of a run, all derived from its trace. Names and definitions follow vLLM's where it has them.

Counted in three units, because acceptance per token can't be compared across vocabularies: draft tokens, target tokens, bytes.
"""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from scipy import stats

from slem_demo.trace import Event, PrefillEvent, RoundEvent, StopEvent, Trace, n_accepted_draft


@dataclass(frozen=True)
class Summary:
    """The measures of one run. Rates are None where their denominator is 0, and whatever a method does not show is None."""

    num_rounds: int
    num_output_tokens: int
    num_output_bytes: int
    num_draft_tokens: int | None
    num_accepted_draft_tokens: int | None
    num_candidate_tokens: int | None
    num_accepted_tokens: int
    num_accepted_bytes: int
    num_tested_tokens: int | None
    num_cut_tokens: int | None
    draft_acceptance_rate: float | None
    tested_acceptance_rate: float | None
    mean_acceptance_length: float | None
    acceptance_histogram: list[int]
    acceptance_by_position: list[float] | None
    bytes_per_target_pass: float | None
    target_prefill_s: float | None
    draft_prefill_s: float | None
    draft_s: float | None
    retokenise_s: float | None
    verify_s: float | None
    other_s: float | None
    seconds: float
    tokens_per_second: float | None

    @property
    def prefill_s(self) -> float:
        """Of both models, as far as they are known."""
        return (self.target_prefill_s or 0.0) + (self.draft_prefill_s or 0.0)


# What can't be known of a method that does not show what it sent, or how long each phase took.
UNKNOWN_COUNTS = (
    "num_draft_tokens",
    "num_accepted_draft_tokens",
    "num_candidate_tokens",
    "num_tested_tokens",
    "num_cut_tokens",
    "draft_acceptance_rate",
    "tested_acceptance_rate",
    "acceptance_by_position",
)
UNKNOWN_TIMES = ("draft_s", "retokenise_s", "verify_s", "other_s")


def is_cut(r: RoundEvent) -> bool:
    """Whether the mismatch is a last candidate that is only the beginning of the target's own token: the draft just ended there."""
    candidate = r.candidate or ()
    if r.own is None or r.n_accepted != len(candidate) - 1:
        return False
    last = candidate[-1].bytes
    return 0 < len(last) < len(r.own.bytes) and r.own.bytes.startswith(last)


@dataclass
class Tally:
    """Counts of a run, round by round, so that a long run's measures cost no more to show than a short one's."""

    prefill: PrefillEvent | None = None
    accepted: Counter[int] = field(default_factory=Counter)  # rounds by accepted candidates
    sent: Counter[int] = field(default_factory=Counter)  # rounds by candidates
    counts: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("draft_s", "retokenise_s", "verify_s", "round_s"), 0.0))
    by_position: Counter[int] = field(default_factory=Counter)  # rounds in which the candidate at a position was accepted
    unknown: set[str] = field(default_factory=set)  # measures that the method does not show
    decoder: codecs.IncrementalDecoder = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))

    def add(self, event: Event) -> None:
        if isinstance(event, PrefillEvent):
            self.prefill = event
        elif isinstance(event, RoundEvent):
            self._add_round(event)

    def _add_round(self, r: RoundEvent) -> None:
        candidate, committed = r.candidate or (), b"".join(token.bytes for token in r.committed)
        self.unknown.update(UNKNOWN_COUNTS if r.candidate is None else (), UNKNOWN_TIMES if r.verify_s is None else ())
        n_pending = len(self.decoder.getstate()[0])
        self.accepted[r.n_accepted] += 1
        self.sent[len(candidate)] += 1
        self.by_position.update(range(r.n_accepted))
        self.counts.update(
            output=len(r.committed),
            output_bytes=len(committed),
            draft=len(r.draft or ()),
            accepted_draft=n_accepted_draft(r, n_pending),
            accepted_bytes=sum(len(token.bytes) for token in r.committed[: r.n_accepted]),
            mismatches=r.own is not None and r.n_accepted < len(candidate),
            cut=is_cut(r),
        )
        self.decoder.decode(committed)
        for name in self.seconds:
            self.seconds[name] += getattr(r, name) or 0.0

    def summary(self) -> Summary:
        n_rounds, counts, times = self.accepted.total(), self.counts, self.seconds
        n_accepted = sum(n * rounds for n, rounds in self.accepted.items())
        n_sent = sum(n * rounds for n, rounds in self.sent.items())
        n_tested = n_accepted + counts["mismatches"]
        prefill_s = self.prefill.seconds if self.prefill else 0.0
        seconds = prefill_s + times["round_s"]
        phases = {name: times[name] for name in ("draft_s", "retokenise_s", "verify_s")}
        whole = Summary(
            num_rounds=n_rounds,
            num_output_tokens=counts["output"],
            num_output_bytes=counts["output_bytes"],
            num_draft_tokens=counts["draft"],
            num_accepted_draft_tokens=counts["accepted_draft"],
            num_candidate_tokens=n_sent,
            num_accepted_tokens=n_accepted,
            num_accepted_bytes=counts["accepted_bytes"],
            num_tested_tokens=n_tested,
            num_cut_tokens=counts["cut"],
            draft_acceptance_rate=_ratio(n_accepted, n_sent),
            tested_acceptance_rate=_ratio(n_accepted, n_tested),
            mean_acceptance_length=_ratio(counts["output"], n_rounds),
            acceptance_histogram=[self.accepted[n] for n in range(max(self.accepted, default=-1) + 1)],
            acceptance_by_position=[
                self.by_position[i] / sum(rounds for n, rounds in self.sent.items() if n > i) for i in range(max(self.sent, default=0))
            ],
            bytes_per_target_pass=_ratio(counts["output_bytes"], n_rounds),
            target_prefill_s=self.prefill.target_s if self.prefill else None,
            draft_prefill_s=self.prefill.draft_s if self.prefill else None,
            other_s=times["round_s"] - sum(phases.values()),
            seconds=seconds,
            tokens_per_second=_ratio(counts["output"], seconds),
            **phases,
        )
        hidden: dict[str, Any] = dict.fromkeys(self.unknown)
        return replace(whole, **hidden) if hidden else whole


def summarise(trace: Trace) -> Summary:
    """The measures of a run, finished or not."""
    tally = Tally(prefill=trace.prefill)
    for r in trace.rounds:
        tally.add(r)
    return tally.summary()


def _ratio(a: float, b: float) -> float | None:
    return a / b if b else None


def event_lines(events: Iterable[Event]) -> Iterator[dict[str, object]]:
    """Events as the command line and the app's API send them: the stop event carries the run's measures."""
    tally = Tally()
    for event in events:
        tally.add(event)
        line: dict[str, object] = event.model_dump(mode="json")
        if isinstance(event, StopEvent):
            line["metrics"] = asdict(tally.summary())
        yield line


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
