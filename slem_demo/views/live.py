"""Rounds as the live page draws them: spans of text with their fates. Plain data; the page writes it with `textContent`."""

from __future__ import annotations

import codecs
from dataclasses import dataclass, field
from typing import TypedDict

from slem_demo.metrics import Summary
from slem_demo.trace import REASON_TEXT, RoundEvent, StopEvent, Token
from slem_demo.views.fates import Fate, fates


class Span(TypedDict):
    fate: str
    text: str


class RoundView(TypedDict):
    """One round: its spans in reading order, and in words why nothing was proposed (or None)."""

    round: int
    spans: list[Span]
    note: str | None


class Tile(TypedDict):
    metric: str
    value: str
    label: str


@dataclass
class LiveWriter:
    """Turns rounds into spans. The committed spans join to the run's text: a split character belongs to the token that completes it."""

    decoder: codecs.IncrementalDecoder = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))
    last: Fate = Fate.TARGET

    def round(self, r: RoundEvent) -> RoundView:
        of_candidates, of_own = fates(r)
        spans = []
        for token, fate in zip(r.candidate or (), of_candidates, strict=True):
            spans.append(self._committed(token, fate) if fate is Fate.ACCEPTED else Span(fate=fate, text=token.text))
        if r.own is not None and of_own is not None:
            spans.append(self._committed(r.own, of_own))
        shown = r.reason is not None and r.candidate == () and of_own is Fate.TARGET
        return RoundView(round=r.round, spans=spans, note=REASON_TEXT[r.reason] if shown and r.reason else None)

    def tail(self, stop: StopEvent) -> Span | None:
        """What the end of the run still writes: an unfinished character."""
        return Span(fate=self.last, text=stop.tail) if stop.tail else None

    def _committed(self, token: Token, fate: Fate) -> Span:
        self.last = fate
        return Span(fate=fate, text=self.decoder.decode(token.bytes))


def tiles(s: Summary) -> list[Tile]:
    """The measures under the text, in the words of the page. A dash where there is nothing to divide by."""
    return [
        _tile("mean_acceptance_length", s.mean_acceptance_length, ".2f", "tokens per target pass"),
        _tile(
            "draft_acceptance_rate",
            s.draft_acceptance_rate,
            ".0%",
            f"of {s.num_candidate_tokens:,} candidates accepted" if s.num_candidate_tokens else "of candidates accepted",
        ),
        _tile("bytes_per_target_pass", s.bytes_per_target_pass, ".1f", "bytes per target pass"),
        _tile(
            "num_output_tokens", s.num_output_tokens, ",", f"tokens in {s.num_rounds:,} target passes" if s.num_rounds else "tokens written"
        ),
        _tile("tokens_per_second", s.tokens_per_second, ".0f", "tokens a second, engine time"),
    ]


def _tile(metric: str, value: float | None, spec: str, label: str) -> Tile:
    return Tile(metric=metric, value="–" if value is None else format(value, spec), label=label)
