"""From engine events to the small updates that the live component gets. No gradio here, so it is tested as a list."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypedDict

from slem_demo.benchmark import Calibration
from slem_demo.engine.race import LaneEvent
from slem_demo.engine.run import Clock
from slem_demo.metrics import Summary, Tally
from slem_demo.models.difference import Difference
from slem_demo.trace import Event, Request, RoundEvent, StopEvent, StopReason
from slem_demo.views.fates import LOOKS
from slem_demo.views.live import Comparison, LiveWriter, RoundView, Span, Tile, compare, tiles
from slem_demo.views.plots import live_plots
from slem_demo.views.words import GLOSSARY, story

EVERY_S = 0.1  # the page is told at most ten times a second; what comes in between travels together

END = {StopReason.EOS: "the target ended the text", StopReason.LENGTH: "the length was reached", StopReason.STOP_STRING: "stop string"}
SLEM, TARGET = "slem", "target"
Step = LaneEvent | Calibration | Difference  # of a run: what its lanes did; first what the pair's passes cost; last where lanes differ


class LaneView(TypedDict):
    """How far a lane is: tokens, seconds on its own clock, and where they went."""

    tokens: int
    seconds: float
    phases: list[float]


class Delta(TypedDict):
    """One update. A new `run` starts afresh; `seq` counts the updates of a run; texts and rounds are only what is new."""

    run: str
    seq: int
    prompt: str
    chat: bool
    caption: str
    goal: int
    rounds: list[RoundView]
    tail: Span | None
    target_text: str
    lanes: dict[str, LaneView]
    speedup: list[float | None] | None
    tiles: list[Tile]
    state: Literal["streaming", "finished"]
    recorded_on: str | None
    summary: str
    story: list[str]


@dataclass
class LivePage:
    """What is known of one run, and what of it the page has not been told yet."""

    request: Request
    with_race: bool
    caption: str = ""
    recorded_on: str | None = None
    calibration: Calibration | None = None
    why_different: str | None = None
    run: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    seq: int = 0
    writer: LiveWriter = field(default_factory=LiveWriter)
    tallies: dict[str, Tally] = field(default_factory=lambda: {SLEM: Tally(), TARGET: Tally()})
    ids: dict[str, list[int]] = field(default_factory=lambda: {SLEM: [], TARGET: []})
    rounds: list[RoundView] = field(default_factory=list)
    target_text: str = ""
    tail: Span | None = None
    ends: list[StopReason] = field(default_factory=list)

    def add(self, lane: str, event: Event) -> None:
        """Takes in one event of a lane."""
        self.tallies[lane].add(event)
        if isinstance(event, RoundEvent):
            self.ids[lane] += [token.id for token in event.committed]
            if lane == SLEM:
                self.rounds.append(self.writer.round(event))
            else:
                self.target_text += event.text
        elif isinstance(event, StopEvent):
            self.ends.append(event.reason)
            if lane == SLEM:
                self.tail = self.writer.tail(event)
            else:
                self.target_text += event.tail

    def send(self, is_over: bool = False) -> Delta:
        """Everything new since the last call."""
        slem, target = (self.tallies[lane].summary() for lane in (SLEM, TARGET))
        race = compare(slem, target, (self.ids[SLEM], self.ids[TARGET]), is_over, self.why_different) if self.with_race else None
        delta = Delta(
            run=self.run,
            seq=self.seq,
            prompt=self.request.prompt if self.seq == 0 else "",
            chat=self.request.chat,
            caption=self.caption if self.seq == 0 else "",
            goal=self.request.max_new_tokens,
            rounds=self.rounds,
            tail=self.tail,
            target_text=self.target_text,
            lanes={SLEM: lane_view(slem)} | ({TARGET: lane_view(target)} if self.with_race else {}),
            speedup=[slem.num_output_tokens, race.speedup, self._predicted(slem)] if race else None,
            tiles=tiles(slem, race),
            state="finished" if is_over else "streaming",
            recorded_on=self.recorded_on,
            summary=spoken(slem, race, self.ends),
            story=story(slem, race) if is_over else [],
        )
        self.seq, self.rounds, self.tail, self.target_text = self.seq + 1, [], None, ""
        return delta

    def _predicted(self, s: Summary) -> float | None:
        if self.calibration is None or s.mean_acceptance_length is None or s.num_draft_tokens is None:
            return None
        return self.calibration.predicted(s.mean_acceptance_length, s.num_draft_tokens / s.num_rounds)


def deltas(page: LivePage, steps: Iterable[Step], clock: Clock = time.perf_counter) -> Iterator[Delta]:
    """Updates for the live view: one at once with the prompt, then at most one each `EVERY_S`, the last one at the end."""
    yield page.send()
    sent = float("-inf")
    for step in steps:
        if isinstance(step, Calibration):
            page.calibration = step
            continue
        if isinstance(step, Difference):
            page.why_different = str(step)
            continue
        page.add(step.lane, step.event)
        if isinstance(step.event, RoundEvent) and clock() - sent >= EVERY_S:
            yield page.send()
            sent = clock()
    yield page.send(is_over=True)


def lane_view(s: Summary) -> LaneView:
    phases = [s.prefill_s, *(seconds or 0.0 for seconds in (s.draft_s, s.retokenise_s, s.verify_s, s.other_s))]
    return LaneView(tokens=s.num_output_tokens, seconds=s.seconds, phases=phases)


def spoken(s: Summary, race: Comparison | None, ends: list[StopReason]) -> str:
    """The run so far in a few words, for a screen reader."""
    if not s.num_rounds:
        return "The run has begun."
    words = [f"{s.num_output_tokens} tokens in {s.num_rounds} target passes."]
    words.append(f"{s.num_accepted_tokens} of {s.num_candidate_tokens} candidates accepted.")
    if race and race.speedup:
        words.append(f"{race.speedup:.1f} times the speed of the target alone.")
    if ends:
        words.append(f"Finished: {END[ends[0]]}.")
    return " ".join(words)


def first_look() -> dict[str, object]:
    """What the component shows before anything ran: legend, empty plots, and tiles without a number."""
    return {
        "legend": [{"fate": fate, "label": look.label} for fate, look in LOOKS.items()],
        "tiles": tiles(Tally().summary(), compare(Tally().summary(), Tally().summary(), ([], []), is_over=False)),
        "plots": live_plots(),
        "glossary": GLOSSARY,
        "story": story(Tally().summary()),
    }


def notice(state: Literal["loading", "stopped", "failed"]) -> dict[str, object]:
    """A state that no run speaks for. No two are equal: a component whose value stays the same is not told."""
    return {"state": state, "at": time.monotonic_ns()}
