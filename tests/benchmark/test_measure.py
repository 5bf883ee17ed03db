"""What `bench` runs, in which order, and what it makes of it. No test asserts a speed."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from slem_demo.benchmark import Case, Others, Report, Run, Variant, bench, calibrate, differences, finish, requests, runs
from slem_demo.benchmark.prompt_sets import PromptSet
from slem_demo.models.loading import Pair
from slem_demo.trace import Method

TWO = PromptSet("two", "", "", chat=False, prompts=("And God said", "The king"), context="In the beginning God created the heaven.")


def test_bench_of_the_built_in_pair_gives_equal_ids_and_every_field(builtin: Pair) -> None:
    result = bench(builtin, TWO.prompts, [Method.TARGET, Method.SLEM, "tli", Method.GENERATE], repeats=2, max_new_tokens=8, k=2)
    assert len(result.runs) == 16
    assert all(ratio.same_ids for ratio in result.ratios().values())
    assert result.differences == {}
    data = json.loads(json.dumps(result.to_json()))
    assert {
        "schema_version",
        "pair",
        "settings",
        "machine",
        "versions",
        "runs",
        "summary",
        "ratios",
        "calibration",
        "accounting",
    } <= data.keys()
    assert {"slem/target", "slem/generate", "target/generate", "tli/target"} <= set(data["ratios"])
    for ratio in data["ratios"].values():
        assert ratio["low"] <= ratio["median"] <= ratio["high"]
        assert ratio["verdict"] == "too few prompts to say"
    assert data["summary"]["target"]["mean_acceptance_length"] == 1.0
    assert data["summary"]["slem"]["mean_acceptance_length"] >= 1.0
    assert data["summary"]["generate"]["mean_acceptance_length"] is None
    assert Report.from_json(data) == result


def test_the_methods_of_a_case_follow_each_other_and_take_turns_to_begin(builtin: Pair) -> None:
    asked = requests(builtin, [TWO], {"max_new_tokens": 1})
    variants = [Variant.parse(text) for text in ("target", "slem", "slem@2")]
    done = list(runs(builtin, asked, variants, repeats=2))
    begins = [tuple(str(run.variant) for run in done[i : i + 3]) for i in range(0, 12, 3)]
    assert begins == [
        ("target", "slem", "slem@2"),
        ("slem", "slem@2", "target"),
        ("slem", "slem@2", "target"),
        ("slem@2", "target", "slem"),
    ]
    assert [(run.case.prompt, run.repeat) for run in done[::3]] == [(0, 0), (1, 0), (0, 1), (1, 1)]


def test_cases_are_prompts_times_contexts_times_seeds(builtin: Pair) -> None:
    asked = requests(builtin, [TWO], {"seed": 5, "temperature": 0.5}, contexts=(None, 4), n_seeds=3)
    assert len(asked) == 2 * 2 * 3
    assert {case.seed for case in asked} == {5, 6, 7} == {request.seed for request in asked.values()}
    with_context = asked[Case("two", 1, 6, 4)].prompt
    assert with_context.endswith("\n\nThe king")
    assert builtin.target.codec.encode(with_context.removesuffix("\n\nThe king")) == builtin.target.codec.encode(TWO.context)[-4:]


def test_a_set_says_itself_whether_it_is_a_conversation(builtin: Pair) -> None:
    chat = PromptSet("chat", "", "", chat=True, prompts=("Hello",))
    assert next(iter(requests(builtin, [chat], {}).values())).chat
    assert not next(iter(requests(builtin, [chat], {"chat": False}).values())).chat


def test_a_wrong_output_is_named_and_sampled_tli_is_not_called_wrong(builtin: Pair) -> None:
    asked = requests(builtin, [TWO], {"max_new_tokens": 3, "temperature": 0.8})
    (case, *_) = asked
    (right,) = (run for run in runs(builtin, {case: asked[case]}, [Variant.parse("target")], 1))
    wrong = (*right.output_ids[:2], (right.output_ids[2] + 1) % 4000)
    others = [Run(Variant.parse(text), case, 0, wrong, 1.0, None, 0.0, None) for text in ("slem", "tli")]
    assert list(differences(builtin, asked, [right, *others])) == ["slem, two 0"]


def test_a_sampled_bench_is_repeatable_and_says_what_can_not_be_compared(builtin: Pair) -> None:
    settings: dict[str, object] = {"max_new_tokens": 12, "temperature": 0.8}
    asked = requests(builtin, [TWO], settings, n_seeds=2)
    variants = [Variant.parse(text) for text in ("slem", "slem:greedy", "slem:independent", "tli", "target")]
    first, second = (finish(builtin, asked, list(runs(builtin, asked, variants, 1)), settings) for _ in range(2))
    assert [run.output_ids for run in first.runs] == [run.output_ids for run in second.runs]
    same = {name: ratio.same_ids for name, ratio in first.ratios().items()}
    assert {name for name, value in same.items() if value is None} == {name for name in same if "tli" in name}
    assert all(value for name, value in same.items() if "tli" not in name)


def test_the_calibration_times_what_a_round_does(builtin: Pair) -> None:
    ticks = iter(range(10**6))
    found = calibrate(builtin, 3, n_candidates=2, n_context=8, repeats=2, clock=lambda: float(next(ticks)))
    assert (found.target_step_s, found.draft_step, found.verify) == (1.0, 1.0, 1.0), "each pass is one tick of this clock"


@pytest.mark.parametrize("n_busy", [0, 1])
def test_others_are_seen_and_the_own_work_is_not(n_busy: int) -> None:
    code = "import time; end = time.perf_counter() + 1.5\nwhile time.perf_counter() < end: pass"
    idle = Others()
    time.sleep(0.3)
    before = idle.cores()
    busy = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(n_busy)]
    others = Others()
    while time.perf_counter() - others._wall < 1.0:
        pass
    found = others.cores()
    for process in busy:
        process.wait()
    assert found < before + 0.8 or n_busy, "this process's own second is not counted"
    assert found > 0.1 or not n_busy
