"""The benchmark's book-keeping, on runs with known times: every figure worked out by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from slem_demo.benchmark import Calibration, Case, Report, Run, Variant
from slem_demo.benchmark.markdown import markdown, table
from slem_demo.benchmark.text import ids_of, lines
from slem_demo.errors import SlemError
from slem_demo.metrics import Summary, Tally

SLEM, TARGET = Variant.parse("slem"), Variant.parse("target")
EMPTY = Tally().summary()


def metrics(num_rounds: int, num_tokens: int, num_draft_tokens: int = 0, **seconds: Any) -> Summary:
    counts: dict[str, Any] = {"num_rounds": num_rounds, "num_output_tokens": num_tokens, "num_draft_tokens": num_draft_tokens}
    return replace(EMPTY, **counts, num_accepted_tokens=num_tokens - num_rounds, **seconds)


def run(
    method: str,
    prompt: int,
    seconds: float,
    n: int = 10,
    repeated: float = 0.0,
    repeat: int = 0,
    ids: int = 5,
    seed: int = 0,
    kind: str = "prose",
    summary: Summary | None = None,
) -> Run:
    case = Case(kind, prompt, seed)
    return Run(Variant.parse(method), case, repeat, (ids,) * n, seconds, seconds / 2, repeated, summary)


def report(runs: list[Run], calibration: Calibration | None = None, **settings: object) -> Report:
    return Report("fake", "bench it", {"device": "cpu", "dtype": "float32", "threads": 1} | settings, "test", {}, {}, runs, calibration, {})


def test_ratios_are_paired_by_prompt_and_per_output_token() -> None:
    runs = [run("slem", p, s) for p, s in enumerate((1.0, 1.0, 2.0))] + [run("target", p, s) for p, s in enumerate((2.0, 3.0, 8.0))]
    ratio = report(runs).ratio(SLEM, TARGET)
    assert ratio.all.median == pytest.approx(3.0)
    assert ratio.decode_only is not None and ratio.decode_only.median == pytest.approx(3.0)
    assert ratio.same_ids
    longer = [run("slem", 0, 1.0, n=20), run("target", 0, 1.0, n=10)]
    assert report(longer).ratio(SLEM, TARGET).all.median == pytest.approx(2.0)


def test_a_slower_method_is_below_one() -> None:
    runs = [run("slem", 0, 4.0), run("target", 0, 1.0)]
    assert report(runs).ratios()["slem/target"].all.median == pytest.approx(0.25)


def test_repeats_and_seeds_of_a_prompt_are_one_value() -> None:
    runs = [run("slem", 0, s, repeat=i) for i, s in enumerate((1.0, 1.0, 10.0))] + [run("slem", 0, 1.0, seed=7)]
    runs += [run("target", 0, 2.0, repeat=i) for i in range(3)] + [run("target", 0, 2.0, seed=7)]
    assert report(runs).ratio(SLEM, TARGET).all.n == 1
    assert report(runs).ratio(SLEM, TARGET).all.median == pytest.approx(2.0)


def test_varied_prompts_are_those_whose_continuation_does_not_loop() -> None:
    runs = [run("slem", p, 1.0, repeated=r) for p, r in ((0, 0.9), (1, 0.2))]
    runs += [run("target", p, t, repeated=r) for p, t, r in ((0, 5.0, 0.9), (1, 2.0, 0.2))]
    ratio = report(runs).ratio(SLEM, TARGET)
    assert ratio.varied is not None
    assert ratio.varied.n == 1
    assert ratio.varied.median == pytest.approx(2.0)


def test_each_kind_of_prompts_has_a_ratio_of_its_own() -> None:
    times = {("prose", 0): 2.0, ("prose", 1): 4.0, ("code", 0): 1.0}
    runs = [run("slem", p, 1.0, kind=kind) for kind, p in times] + [run("target", p, s, kind=kind) for (kind, p), s in times.items()]
    ratio = report(runs).ratio(SLEM, TARGET)
    assert {kind: interval.median for kind, interval in ratio.strata.items()} == {"prose": 3.0, "code": 1.0}
    assert ratio.all.median == 2.0
    behind = [replace(r, case=replace(r.case, context=100)) for r in runs]
    assert report(behind).strata == ["prose after 100", "code after 100"]


@pytest.mark.parametrize(
    ("times", "verdict"),
    [
        ([2.0, 2.1, 2.2, 2.3, 2.4, 2.5], "faster"),
        ([0.2, 0.3, 0.4, 0.5, 0.6, 0.7], "slower"),
        ([0.5, 0.6, 0.9, 1.3, 1.4, 1.5], "no difference shown"),
        ([2.0, 2.0, 2.0, 2.0, 2.0], "too few prompts to say"),
    ],
)
def test_nothing_is_called_faster_whose_interval_spans_one(times: list[float], verdict: str) -> None:
    runs = [run("slem", p, 1.0) for p in range(len(times))] + [run("target", p, s) for p, s in enumerate(times)]
    assert report(runs).ratio(SLEM, TARGET).verdict == verdict
    assert f"| {verdict} | equal |" in markdown(report(runs))


def test_different_ids_are_reported_and_sampled_tli_is_not_compared() -> None:
    runs = [run("slem", 0, 1.0, ids=5), run("tli", 0, 1.0, ids=7), run("target", 0, 1.0, ids=6)]
    greedy, sampled = report(runs).ratios(), report(runs, temperature=0.7).ratios()
    assert {name: ratio.same_ids for name, ratio in greedy.items()} == {"slem/tli": False, "slem/target": False, "tli/target": False}
    assert {name: ratio.same_ids for name, ratio in sampled.items()} == {"slem/tli": None, "slem/target": False, "tli/target": None}
    assert [ids_of(ratio) for ratio in sampled.values()] == [
        "equal in distribution, ids not comparable",
        "differ",
        "equal in distribution, ids not comparable",
    ]


def test_accepted_tokens_a_round_are_pooled_over_the_seeds_of_a_prompt() -> None:
    # prompt 0: (3 + 1) accepted in 2 + 2 rounds against 1 in 4; prompt 1: 2 in 2 against 1 in 2
    shared = [(0, 0, 2, 3), (0, 1, 2, 1), (1, 0, 2, 2)]
    greedy = [(0, 0, 2, 1), (0, 1, 2, 0), (1, 0, 2, 1)]
    runs = [
        run(method, p, 1.0, seed=seed, summary=metrics(n, n + a))
        for method, rows in (("slem", shared), ("slem:greedy", greedy))
        for p, seed, n, a in rows
    ]
    ratio = report(runs).ratio(SLEM, Variant.parse("slem:greedy"))
    assert ratio.accepted is not None
    assert (ratio.accepted.n, ratio.accepted.median) == pytest.approx((2, (4.0 + 2.0) / 2))


def test_of_several_k_the_quickest_is_compared_and_the_choice_is_said() -> None:
    runs = [run(f"slem@{k}", 0, s) for k, s in ((1, 3.0), (2, 2.0), (4, 2.5))] + [run("slem@auto", 0, 2.2), run("target", 0, 4.0)]
    found = report(runs)
    assert list(found.ratios()) == ["slem@2/slem@auto", "slem@2/target", "slem@auto/target"]
    assert "slem@2 is the best of slem@1, slem@2, slem@4, chosen on the very runs that it is judged by." in lines(found)
    best, quotient = found.auto_against_fixed(Variant.parse("slem@auto"))["prose"]
    assert str(best) == "slem@2" and quotient == pytest.approx(1.1)
    assert any("1.10 of slem@2 on prose" in line for line in lines(found))


def test_a_lever_is_compared_with_its_whole_and_nothing_else() -> None:
    methods = ("slem", "slem-int8", "target", "target-packed")
    assert set(report([run(method, 0, 1.0) for method in methods]).ratios()) == {"slem/slem-int8", "slem/target", "target/target-packed"}


def test_predicted_speedup_by_hand() -> None:
    # 3 tokens a round for 4 draft steps of 0.1 and a verify pass of 1.1 target steps
    assert Calibration(0.01, 0.1, 1.1).predicted(3.0, 4.0) == pytest.approx(2.0)


def test_the_accounting_by_hand() -> None:
    # 10 tokens in 5 rounds of 4 draft steps, a step 1 ms, a verify pass 12 ms, 0.5 ms for the rest: 82.5 ms; the target alone: 10 × 11 ms
    ours = metrics(5, 10, 20, draft_s=0.020, verify_s=0.060, retokenise_s=0.0025, other_s=0.0)
    theirs = metrics(10, 10, verify_s=0.110)
    runs = [
        replace(run("slem", 0, 0.1, summary=ours), decode_seconds=0.0825),
        replace(run("target", 0, 0.2, summary=theirs), decode_seconds=0.11),
    ]
    account = report(runs, Calibration(0.010, 0.1, 1.1)).accounting()
    assert account is not None
    assert account.predicted.median == pytest.approx(2.0 / (4 * 0.1 + 1.1))
    assert account.measured.median == pytest.approx(0.11 / 0.0825)
    assert account.reached.median == pytest.approx(1.0)
    found = {phase.name: [phase.in_run_ms, phase.per_round] for phase in account.phases}
    assert found == {
        "target alone, a step": pytest.approx([11.0, 0]),
        "draft step": pytest.approx([1.0, 4]),
        "verify pass": pytest.approx([12.0, 1]),
        "re-tokenise": pytest.approx([0.5, 1]),
        "the rest of a round": pytest.approx([0.0, 1]),
    }
    assert [phase.calibrated_ms for phase in account.phases][:3] == pytest.approx([10.0, 1.0, 11.0])
    assert "| draft step | 1.00 | 1.00 | 4.0 |" in markdown(report(runs, Calibration(0.010, 0.1, 1.1)))
    assert report(runs).accounting() is None, "without a calibration nothing is predicted"


def test_a_busy_machine_is_said() -> None:
    runs = [run("slem", 0, 1.0)]
    quiet, busy = (replace(report(runs), busy_cores={"before": 0.1, "during": cores}) for cores in (0.1, 0.9))
    assert not any("Not to be trusted" in line for line in lines(quiet))
    assert "Not to be trusted: other processes computed on 0.9 cores during the measurement." in lines(busy)


def test_a_report_survives_its_json_and_stores_equal_outputs_once() -> None:
    runs = [run(m, p, 1.0, ids=p, summary=metrics(5, 10, 20)) for m in ("slem@auto:shared", "target") for p in range(3)]
    whole = replace(report(runs, Calibration(0.01, 0.1, 1.1), k=4), busy_cores={"before": 0.0})
    data = json.loads(json.dumps(whole.to_json()))
    assert Report.from_json(data) == whole
    assert data["outputs"] == [[0] * 10, [1] * 10, [2] * 10]
    for one in data["runs"]:
        assert {"method", "prompt", "repeat", "num_tokens", "seconds", "metrics"} <= one.keys()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda _: [], "not a measurement"),
        (lambda data: data | {"schema_version": 99}, "schema version 2"),
        (lambda data: data | {"outputs": []}, "damaged"),
        (lambda data: {name: value for name, value in data.items() if name != "runs"}, "damaged"),
    ],
)
def test_what_is_no_report_is_refused(damage: object, message: str) -> None:
    data = report([run("slem", 0, 1.0)]).to_json()
    assert callable(damage)
    with pytest.raises(SlemError, match=message):
        Report.from_json(damage(data))


def test_a_cell_of_a_table_can_not_end_it() -> None:
    assert table(["a"], [["x|y"]]) == "| a |\n| --- |\n| x\\|y |"
