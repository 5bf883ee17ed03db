"""Figures of a comparison, against values worked out by hand; no method or phase is told by colour alone."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from slem_demo.metrics import Interval, Summary, Tally
from slem_demo.views.fates import LOOKS as FATES
from slem_demo.views.figures import HIDDEN, LOOKS, PATTERNS, Measured, figures, milliseconds, survival
from slem_demo.views.plots import PHASES

EMPTY = Tally().summary()
SURE, UNSURE = Interval(2.0, 1.5, 3.0, 6), Interval(0.5, 0.4, 0.6, 5)
ROWS = [
    Measured("target", ms={"verify_s": 8.0}),
    Measured("slem@4", SURE, SURE, 3.0, 1.5, [0.8, 0.4], {"draft_s": 1.0, "verify_s": 3.0}),
    Measured("tli@4", UNSURE, UNSURE, 2.0, None, [0.5], {"draft_s": 1.0, "verify_s": 4.0}),
    Measured("hf@4", UNSURE, None, 3.0, None, [0.5], {HIDDEN: 9.0}),
]


def summary(**fields: Any) -> Summary:
    return replace(EMPTY, **fields)


def drawn(rows: list[Measured], name: str) -> dict[str, dict[str, Any]]:
    """{trace name: trace} of one figure."""
    figure: Any = figures(rows, enough=6)[name]
    return {trace["name"]: trace for trace in figure["data"]}


def test_survival_is_the_share_of_all_rounds_and_sums_to_the_accepted_a_round() -> None:
    # rounds that accepted 0, 1, 1, 2 candidates and 0, 3
    found = survival([summary(acceptance_histogram=[1, 2, 1]), summary(acceptance_histogram=[1, 0, 0, 1])])
    assert found == pytest.approx([4 / 6, 2 / 6, 1 / 6])
    assert sum(found) == pytest.approx((0 + 1 + 1 + 2 + 0 + 3) / 6)
    assert survival([]) == []
    assert survival([summary(acceptance_histogram=[5])]) == []


def test_milliseconds_are_per_output_token_and_what_is_not_shown_is_said() -> None:
    times = {"target_prefill_s": 0.1, "draft_s": 0.2, "retokenise_s": 0.1, "verify_s": 0.5, "other_s": 0.1, "seconds": 1.0}
    ours = summary(num_output_tokens=100, **times)
    assert milliseconds([ours, ours]) == pytest.approx(
        {"prefill_s": 1.0, "draft_s": 2.0, "retokenise_s": 1.0, "verify_s": 5.0, "other_s": 1.0, HIDDEN: 0.0}
    )
    theirs = summary(num_output_tokens=100, verify_s=None, draft_s=None, retokenise_s=None, other_s=None, seconds=1.0)
    assert milliseconds([theirs])[HIDDEN] == pytest.approx(10.0)
    assert milliseconds([]) == {}


def test_speedups_stand_at_their_median_and_an_interval_is_drawn_only_where_it_can_be_claimed() -> None:
    traces = drawn(ROWS, "speedups")
    assert {name: (trace["x"], trace["text"]) for name, trace in traces.items()} == {
        "slem@4": ([2.0], ["2.00×"]),
        "tli@4": ([0.5], ["0.50×"]),
        "hf@4": ([0.5], ["0.50×"]),
    }
    assert (traces["slem@4"]["error_x"]["array"], traces["slem@4"]["error_x"]["arrayminus"]) == ([1.0], [0.5])
    assert traces["tli@4"]["error_x"] == {"visible": False}
    assert not traces["slem@4"]["marker"]["symbol"].endswith("-open") and traces["tli@4"]["marker"]["symbol"].endswith("-open")


def test_the_theory_line_is_the_acceptance_length_over_the_cost_of_a_round() -> None:
    traces = drawn(ROWS, "theory")
    line = traces["slem@4, predicted"]
    assert line["y"][1] / line["x"][1] == pytest.approx(1 / 1.5)
    assert (traces["slem@4"]["x"], traces["slem@4"]["y"]) == ([3.0], [2.0])
    assert traces["tli@4, predicted"]["y"] == [None, None], "nothing is predicted without costs"
    assert traces["hf@4"]["y"] == [None] and not traces["hf@4"]["showlegend"]


def test_positions_and_phases_have_a_value_for_every_method() -> None:
    positions, phases = drawn(ROWS, "positions"), drawn(ROWS, "phases")
    assert {name: trace["y"] for name, trace in positions.items()} == {"slem@4": [0.8, 0.4], "tli@4": [0.5], "hf@4": [0.5]}
    assert positions["slem@4"]["x"] == [1, 2]
    assert phases["verify"]["y"] == ["target", "slem@4", "tli@4", "hf@4"]
    assert phases["verify"]["x"] == [8.0, 3.0, 4.0, None]
    assert phases["not shown by phase"]["x"] == [None, None, None, 9.0]


def test_figures_of_nothing_have_their_methods_and_keep_their_size() -> None:
    empty, full = figures([Measured(row.name) for row in ROWS], 6), figures(ROWS, 6)
    for name in full:
        before: Any = empty[name]
        after: Any = full[name]
        assert [trace["name"] for trace in before["data"]] == [trace["name"] for trace in after["data"]]
        assert before["layout"]["height"] == after["layout"]["height"] and before["layout"]["margin"] == after["layout"]["margin"]


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_methods_differ_in_symbol_and_colour_and_are_seen_on_light_and_dark() -> None:
    assert len({look.symbol for look in LOOKS}) == len({look.colour for look in LOOKS}) == len(LOOKS)
    dark = max(luminance(look.dark[1]) for look in FATES.values() if look.label in ("never reached", "plain target step"))
    for look in LOOKS:
        own = luminance(look.colour)
        assert 1.05 / (own + 0.05) >= 3 and (own + 0.05) / (dark + 0.05) >= 3, look
    neighbours = [PATTERNS[phase] for phase in [*PHASES, HIDDEN]]
    assert all(a != b for a, b in pairwise(neighbours)), "bars that touch have other patterns"
