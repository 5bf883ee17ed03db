"""Turns of a race, on lanes with known times."""

from __future__ import annotations

from collections.abc import Generator

from slem_demo.engine.race import race
from slem_demo.trace import Event, PrefillEvent, RoundEvent, StopEvent, StopReason


def lane(closed: list[str], name: str, prefill_s: float, round_s: float, n: int) -> Generator[Event, None, None]:
    try:
        yield PrefillEvent(target_prompt_ids=(1,), draft_prompt_ids=None, target_s=prefill_s, draft_s=None)
        for i in range(n):
            yield RoundEvent(round=i, n_accepted=0, own=None, text="", round_s=round_s)
        yield StopEvent(reason=StopReason.LENGTH, output_ids=(), text="", tail="")
    finally:
        closed.append(name)


def test_the_lane_that_is_behind_moves_next() -> None:
    closed: list[str] = []
    events = list(race({"slem": lane(closed, "slem", 1.0, 3.0, 2), "target": lane(closed, "target", 1.0, 1.0, 5)}))
    moves = [(e.lane, e.clock_s) for e in events if not isinstance(e.event, StopEvent)]
    assert moves == [
        ("slem", 1.0),
        ("target", 1.0),
        ("slem", 4.0),
        ("target", 2.0),
        ("target", 3.0),
        ("target", 4.0),
        ("slem", 7.0),
        ("target", 5.0),
        ("target", 6.0),
    ]
    assert [e.lane for e in events if isinstance(e.event, StopEvent)] == ["target", "slem"]
    assert sorted(closed) == ["slem", "target"]


def test_clocks_never_drift_apart_by_more_than_one_move() -> None:
    clocks = {"a": 0.0, "b": 0.0}
    for e in race({"a": lane([], "a", 0.5, 0.7, 40), "b": lane([], "b", 0.1, 0.2, 200)}):
        clocks[e.lane] = e.clock_s
        if not isinstance(e.event, StopEvent) and min(clocks.values()) < 20:
            assert abs(clocks["a"] - clocks["b"]) <= 0.7 + 1e-9


def test_a_closed_race_closes_its_lanes() -> None:
    closed: list[str] = []
    running = race({"a": lane(closed, "a", 1, 1, 9), "b": lane(closed, "b", 1, 1, 9)})
    next(running)
    next(running)
    running.close()
    assert sorted(closed) == ["a", "b"]


def test_one_lane_runs_alone() -> None:
    assert [e.clock_s for e in race({"only": lane([], "only", 1, 1, 2)})] == [1, 2, 3, 3]
