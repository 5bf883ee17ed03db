"""Traces that were written before: one that a visitor opens, and the race in `assets/traces/`, for whom nothing can be computed."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

from slem_demo.engine.race import LaneEvent, race, seconds_of
from slem_demo.errors import SlemError
from slem_demo.models.pairs import ASSETS
from slem_demo.trace import Event, Trace

TRACES = ASSETS / "traces"
MAX_TRACE_BYTES = 20_000_000


def load_race() -> dict[str, Trace]:
    """The trace of each lane."""
    return {lane: Trace.from_json((TRACES / f"first-look-{lane}.json").read_bytes()) for lane in ("slem", "target")}


def read_trace(file: str) -> Trace:
    """A trace from a file; raises as `open_trace`."""
    with Path(file).open("rb") as opened:
        return open_trace(opened.read(MAX_TRACE_BYTES + 1))


def open_trace(data: str | bytes) -> Trace:
    """A trace that was saved.

    Raises:
        SlemError: it is too large, not a trace, of another schema version, or holds no round.
    """
    if len(data) > MAX_TRACE_BYTES:
        raise SlemError(f"This is larger than {MAX_TRACE_BYTES // 1_000_000} MB, so it is not opened.")
    trace = Trace.from_json(data)
    if not trace.rounds:
        raise SlemError("This trace holds no round, so there is nothing to show.")
    return trace


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
