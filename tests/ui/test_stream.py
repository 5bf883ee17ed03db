"""Updates of the live view, as a list."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator

import pytest

from slem_demo.benchmark import Calibration
from slem_demo.engine.decode import slem, target_only
from slem_demo.engine.race import LaneEvent, race
from slem_demo.engine.run import Prompts
from slem_demo.metrics import summarise
from slem_demo.models.difference import Difference
from slem_demo.trace import Event, Request, RoundEvent
from slem_demo.ui.stream import SLEM, TARGET, LivePage, deltas, first_look
from slem_demo.ui.zero import from_plain, to_plain
from slem_demo.views.fates import COMMITTED
from tests.fakes import LONG, SHORT, TEXT, scripted_drafter, scripted_target
from tests.traces import trace_of

PROMPT = "In"


REQUEST = Request.checked(pair="fake", prompt=PROMPT, k=3, max_new_tokens=400)


def lanes(with_race: bool = True, output: str = TEXT, target_output: str | None = None) -> list[LaneEvent]:
    prompts = Prompts(LONG.encode(PROMPT), SHORT.encode(PROMPT))
    drafter = scripted_drafter(SHORT, PROMPT + output, 0.3)
    times = itertools.count(0.0, 0.001)
    clock = lambda: next(times)  # noqa: E731
    running: dict[str, Generator[Event, None, None]] = {
        SLEM: slem(scripted_target(LONG, prompts.target_ids, LONG.encode(output)), drafter, prompts, REQUEST, clock)
    }
    if with_race:
        alone = scripted_target(LONG, prompts.target_ids, LONG.encode(output if target_output is None else target_output))
        running[TARGET] = target_only(alone, prompts.target_ids, REQUEST, clock)
    return list(race(running))


def page(with_race: bool = True) -> LivePage:
    return LivePage(REQUEST, with_race, calibration=Calibration(0.01, 0.1, 1.1))


def ticking(step: float) -> Callable[[], float]:
    """A clock that moves by `step` whenever it is read."""
    times = itertools.count(0.0, step)
    return lambda: next(times)


@pytest.mark.parametrize("with_race", [True, False])
@pytest.mark.parametrize("tick", [0.0, 0.01, 1.0])
def test_deltas_carry_every_round_once_in_order_and_join_to_both_texts(tick: float, with_race: bool) -> None:
    events = lanes(with_race)
    updates = list(deltas(page(with_race), events, clock=ticking(tick)))
    rounds = [r for u in updates for r in u["rounds"]]
    assert [r["round"] for r in rounds] == list(range(sum(e.lane == SLEM and isinstance(e.event, RoundEvent) for e in events)))
    assert [u["seq"] for u in updates] == list(range(len(updates)))
    assert len({u["run"] for u in updates}) == 1
    assert "".join(s["text"] for r in rounds for s in r["spans"] if s["fate"] in COMMITTED) == TEXT
    assert "".join(u["target_text"] for u in updates) == (TEXT if with_race else "")
    assert (updates[0]["prompt"], updates[0]["rounds"], updates[0]["state"]) == (PROMPT, [], "streaming")
    assert [u["state"] for u in updates].count("finished") == 1 and updates[-1]["state"] == "finished"


def test_fast_rounds_travel_together_and_slow_ones_alone() -> None:
    events = lanes()
    together = list(deltas(page(), events, clock=lambda: 0.0))
    assert len(together) == 3, "the prompt, the first round at once, and the end"
    n_rounds = sum(isinstance(e.event, RoundEvent) for e in events)
    assert len(list(deltas(page(), events, clock=ticking(1.0)))) == n_rounds + 2


def test_an_update_is_no_larger_late_in_a_run() -> None:
    sizes = [len(str(u)) for u in deltas(page(), lanes(output=TEXT * 8), clock=ticking(1.0))][1:-1]
    assert max(sizes[-40:]) < 1.2 * max(sizes[:40])


def tiles_of(with_race: bool, **outputs: str) -> dict[str, tuple[str, str]]:
    last = list(deltas(page(with_race), lanes(with_race, **outputs)))[-1]
    return {t["metric"]: (t["value"], t["label"]) for t in last["tiles"]}


def test_speedup_and_lossless_come_from_the_lanes() -> None:
    events = lanes()
    by_lane = {name: summarise(trace_of(e.event for e in events if e.lane == name)) for name in (SLEM, TARGET)}
    n = by_lane[TARGET].num_output_tokens
    tiles = tiles_of(True)
    ratio = by_lane[TARGET].seconds / by_lane[SLEM].seconds
    assert tiles["speedup"][0] == f"{ratio:.2f}×"
    assert ("slower" in tiles["speedup"][1]) == (ratio < 1)
    assert tiles["lossless"] == (f"{n} = {n}", "ids equal to the target alone")


def test_without_a_race_nothing_is_claimed() -> None:
    tiles = tiles_of(False)
    assert tiles["speedup"] == ("–", "speedup: not measured")
    assert tiles["lossless"] == ("–", "equal to the target alone: not measured")


def test_a_difference_is_shown_with_its_place() -> None:
    tiles = tiles_of(True, output=" the earth", target_output=" the heaven")
    assert tiles["lossless"] == ("≠ at 2", "ids differ from the target alone")


def test_what_a_difference_means_is_said_in_its_tile() -> None:
    tie = Difference(1, (" a", " the"), gap=0.02, rounding=0.1, dtype="bfloat16")
    last = list(deltas(page(), [*lanes(output=" the earth", target_output=" the heaven"), from_plain(to_plain(tie))]))[-1]
    tile = next(tile for tile in last["tiles"] if tile["metric"] == "lossless")
    assert (tile["value"], tile["label"]) == ("≠ at 2", str(tie))


def test_the_predicted_speedup_is_that_of_the_calibration() -> None:
    events = lanes()
    s = summarise(trace_of(e.event for e in events if e.lane == SLEM))
    last = list(deltas(page(), events))[-1]
    assert last["speedup"] is not None
    assert s.mean_acceptance_length is not None and s.num_draft_tokens is not None
    assert last["speedup"][2] == pytest.approx(s.mean_acceptance_length / (s.num_draft_tokens / s.num_rounds * 0.1 + 1.1))


def test_runs_have_names_of_their_own() -> None:
    assert page().run != page().run


def test_the_first_look_has_a_legend_plots_and_tiles_without_numbers() -> None:
    look = first_look()
    assert set(look) == {"legend", "tiles", "plots", "story", "glossary"}
    assert set(look["plots"]) == {"acceptance", "speedup", "phases"}  # type: ignore[call-overload]
