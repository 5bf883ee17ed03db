"""A run as the live page draws it: spans of text with their fates, numbers of each round, tiles. Plain data, no HTML."""

from __future__ import annotations

import codecs
from dataclasses import dataclass, field
from typing import TypedDict

from slem_demo.metrics import Summary
from slem_demo.trace import REASON_TEXT, RoundEvent, StopEvent, Token
from slem_demo.views.fates import Fate, fates
from slem_demo.views.round import RoundPainter, RoundPicture


class Span(TypedDict):
    fate: str
    text: str


class RoundView(TypedDict):
    """One round: its spans in reading order, its picture, what the plots need of it, and why nothing was proposed (or None)."""

    round: int
    spans: list[Span]
    picture: RoundPicture
    note: str | None
    n_accepted: int
    n_gained: int


class Tile(TypedDict):
    metric: str
    value: str
    label: str


@dataclass
class LiveWriter:
    """Turns rounds into spans. The committed spans join to the run's text: a split character belongs to the token that completes it."""

    decoder: codecs.IncrementalDecoder = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))
    painter: RoundPainter = field(default_factory=RoundPainter)
    last: Fate = Fate.TARGET

    def round(self, r: RoundEvent) -> RoundView:
        of_candidates, of_own = fates(r)
        spans = []
        shown = r.accepted or () if r.candidate is None else r.candidate
        for token, fate in zip(shown, of_candidates, strict=True):
            spans.append(self._committed(token, fate) if fate is Fate.ACCEPTED else Span(fate=fate, text=token.text))
        if r.own is not None and of_own is not None:
            spans.append(self._committed(r.own, of_own))
        note = REASON_TEXT[r.reason] if r.reason else None
        return RoundView(
            round=r.round,
            spans=spans,
            picture=self.painter.picture(r),
            note=note,
            n_accepted=r.n_accepted,
            n_gained=len(r.committed),
        )

    def tail(self, stop: StopEvent) -> Span | None:
        """What the end of the run still writes: an unfinished character."""
        return Span(fate=self.last, text=stop.tail) if stop.tail else None

    def _committed(self, token: Token, fate: Fate) -> Span:
        self.last = fate
        return Span(fate=fate, text=self.decoder.decode(token.bytes))


@dataclass(frozen=True)
class Comparison:
    """SLEM beside the target alone, at one moment of a race: ids compared as they arrive, rates on each lane's own clock."""

    n_compared: int
    n_equal: int
    speedup: float | None
    is_over: bool
    why: str | None = None  # what is known of the first difference

    @property
    def first_difference(self) -> int | None:
        """The first place where the ids differ, from 0."""
        return None if self.n_equal == self.n_compared else self.n_equal


def compare(slem: Summary, target: Summary, ids: tuple[list[int], list[int]], is_over: bool, why: str | None = None) -> Comparison:
    """Speedup: seconds per output token of the target alone over SLEM's, each on its own clock, prefills included."""
    n = min(map(len, ids))
    n_equal = n if ids[0][:n] == ids[1][:n] else next(i for i in range(n) if ids[0][i] != ids[1][i])
    rates = slem.tokens_per_second, target.tokens_per_second
    return Comparison(n, n_equal, rates[0] / rates[1] if rates[0] and rates[1] else None, is_over, why)


def tiles(s: Summary, race: Comparison | None = None) -> list[Tile]:
    """The measures beside the text, in the words of the page. A dash where there is nothing to divide by."""
    candidates = f"of {s.num_candidate_tokens:,} candidates accepted" if s.num_candidate_tokens else "of candidates accepted"
    passes = f"tokens per target pass ({s.num_output_tokens:,} in {s.num_rounds:,})" if s.num_rounds else "tokens per target pass"
    return [
        _speedup(race),
        _tile("draft_acceptance_rate", s.draft_acceptance_rate, ".0%", candidates),
        _tile("mean_acceptance_length", s.mean_acceptance_length, ".2f", passes),
        _tile("bytes_per_target_pass", s.bytes_per_target_pass, ".1f", "bytes per target pass"),
        _lossless(race),
    ]


def _speedup(race: Comparison | None) -> Tile:
    if race is None:
        return Tile(metric="speedup", value="–", label="speedup: not measured")
    if race.speedup is None:
        return Tile(metric="speedup", value="–", label="speedup, measured")
    verdict = "speedup, measured" if race.speedup >= 1 else "slower than the target alone, measured"
    return Tile(metric="speedup", value=f"{race.speedup:.2f}×", label=verdict)


def _lossless(race: Comparison | None) -> Tile:
    if race is None:
        return Tile(metric="lossless", value="–", label="equal to the target alone: not measured")
    if not race.n_compared:
        return Tile(metric="lossless", value="–", label="equal to the target alone, measured")
    if race.first_difference is not None:
        return Tile(metric="lossless", value=f"≠ at {race.n_equal + 1}", label=race.why or "ids differ from the target alone")
    label = "ids equal to the target alone" + ("" if race.is_over else " so far")
    return Tile(metric="lossless", value=f"{race.n_equal:,} = {race.n_compared:,}", label=label)


def _tile(metric: str, value: float | None, spec: str, label: str) -> Tile:
    return Tile(metric=metric, value="–" if value is None else format(value, spec), label=label)
