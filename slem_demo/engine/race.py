"""Several decoders taking turns on one machine, each on its own compute clock."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass

from slem_demo.trace import Event, PrefillEvent, RoundEvent


@dataclass(frozen=True)
class LaneEvent:
    """What one lane did, and what its clock (seconds of computing so far) says after it."""

    lane: str
    event: Event
    clock_s: float


def race(lanes: Mapping[str, Generator[Event, None, None]]) -> Generator[LaneEvent, None, None]:
    """The lane whose clock is behind moves next, so at every moment all have computed for about the same time.

    Lanes that share a clock move in the order given; a lane that has ended drops out. Closing the race closes all lanes.

        clocks   slem 0.0  target 0.0   → slem moves (0.3), target moves (0.1), target (0.2), target (0.3), slem, …
    """
    clocks = dict.fromkeys(lanes, 0.0)
    try:
        while clocks:
            name = min(clocks, key=clocks.__getitem__)
            event = next(lanes[name], None)
            if event is None:
                del clocks[name]
                continue
            clocks[name] += seconds_of(event)
            yield LaneEvent(name, event, clocks[name])
    finally:
        for lane in lanes.values():
            lane.close()


def seconds_of(event: Event) -> float:
    """Compute time of an event: the prefill of both models, or a round."""
    if isinstance(event, PrefillEvent):
        return event.seconds
    return event.round_s if isinstance(event, RoundEvent) else 0.0
