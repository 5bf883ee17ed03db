"""A recorded race, for visitors for whom nothing can be computed: the two traces in `assets/traces/`, at the pace they were written."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator

from slem_demo.engine.race import LaneEvent, race, seconds_of
from slem_demo.models.pairs import ASSETS
from slem_demo.trace import Event, Trace

TRACES = ASSETS / "traces"


def load_race() -> dict[str, Trace]:
    """The trace of each lane."""
    return {lane: Trace.from_json((TRACES / f"first-look-{lane}.json").read_bytes()) for lane in ("slem", "target")}


def replay(traces: dict[str, Trace], sleep: Callable[[float], None] = time.sleep) -> Iterator[LaneEvent]:
    """The events of recorded lanes in the order of a race, each after the seconds that it took."""
    for e in race({lane: events(trace) for lane, trace in traces.items()}):
        sleep(seconds_of(e.event))
        yield e


def events(trace: Trace) -> Generator[Event, None, None]:
    """A finished trace as the events it was made of."""
    if trace.prefill:
        yield trace.prefill
    yield from trace.rounds
    if trace.stop:
        yield trace.stop
