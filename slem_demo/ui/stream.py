"""From engine events to the small updates that the live component gets. No gradio here, so it is tested as a list."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypedDict

from slem_demo.engine.decode import Clock
from slem_demo.metrics import Summary, Tally
from slem_demo.trace import Event, RoundEvent, StopEvent, StopReason
from slem_demo.views.fates import LOOKS
from slem_demo.views.live import LiveWriter, RoundView, Span, Tile, tiles

EVERY_S = 0.04  # the page is told at most 25 times a second; what comes in between travels together

END = {StopReason.EOS: "the target ended the text", StopReason.LENGTH: "the length was reached", StopReason.STOP_STRING: "stop string"}


class Delta(TypedDict):
    """One update. A new `run` starts afresh; `seq` counts the updates of a run."""

    run: str
    seq: int
    prompt: str
    rounds: list[RoundView]
    tail: Span | None
    tiles: list[Tile] | None
    state: Literal["streaming", "finished", "stopped"]
    summary: str


@dataclass
class _Batch:
    """What has been gathered since the last update."""

    prompt: str
    run: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    seq: int = 0
    rounds: list[RoundView] = field(default_factory=list)

    def send(self, state: Literal["streaming", "finished"], tally: Tally, tail: Span | None = None, end: str = "") -> Delta:
        s = tally.summary()
        delta = Delta(
            run=self.run,
            seq=self.seq,
            prompt=self.prompt if self.seq == 0 else "",
            rounds=self.rounds,
            tail=tail,
            tiles=tiles(s) if s.num_rounds else None,
            state=state,
            summary=spoken(s) + end,
        )
        self.seq, self.rounds = self.seq + 1, []
        return delta


def deltas(prompt: str, events: Iterable[Event], clock: Clock = time.perf_counter) -> Iterator[Delta]:
    """Updates for the live view: one at once with the prompt, then at most one each `EVERY_S`, the last one at the end."""
    writer, tally, batch = LiveWriter(), Tally(), _Batch(prompt)
    yield batch.send("streaming", tally)
    sent = float("-inf")
    for event in events:
        tally.add(event)
        if isinstance(event, RoundEvent):
            batch.rounds.append(writer.round(event))
            if clock() - sent >= EVERY_S:
                yield batch.send("streaming", tally)
                sent = clock()
        elif isinstance(event, StopEvent):
            yield batch.send("finished", tally, writer.tail(event), f" Finished: {END[event.reason]}.")


def spoken(s: Summary) -> str:
    """The run so far in a sentence, for a screen reader."""
    if not s.num_rounds:
        return "The run has begun."
    accepted = f"{s.num_accepted_tokens} of {s.num_candidate_tokens} candidates accepted"
    return f"{s.num_output_tokens} tokens in {s.num_rounds} target passes, {accepted}."


def first_look() -> dict[str, object]:
    """What the component shows before anything ran: the legend, and tiles without a number."""
    return {
        "legend": [{"fate": fate, "label": look.label} for fate, look in LOOKS.items()],
        "tiles": tiles(Tally().summary()),
    }


STOPPED = {"run": "", "seq": -1, "state": "stopped"}
