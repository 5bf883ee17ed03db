"""The benchmark's book-keeping, on runs with known times and on the built-in pair. No test asserts a speed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slem_demo import cli
from slem_demo.benchmark import Calibration, Report, Run, bench
from slem_demo.models.loading import Pair
from slem_demo.trace import Method


def run(method: Method, prompt: int, seconds: float, n: int = 10, repeated: float = 0.0, repeat: int = 0, ids: int = 5) -> Run:
    return Run(method, prompt, repeat, [ids] * n, seconds, seconds / 2, repeated, None)


def report(runs: list[Run]) -> Report:
    return Report("fake", {}, "test", {}, {}, runs, None, {})


def test_ratios_are_paired_by_prompt_and_per_output_token() -> None:
    runs = [run(Method.SLEM, p, s) for p, s in enumerate((1.0, 1.0, 2.0))] + [
        run(Method.TARGET, p, s) for p, s in enumerate((2.0, 3.0, 8.0))
    ]
    ratio = report(runs).ratio(Method.SLEM, Method.TARGET)
    assert ratio.all.median == pytest.approx(3.0)
    assert ratio.decode_only is not None and ratio.decode_only.median == pytest.approx(3.0)
    assert ratio.same_ids
    longer = [run(Method.SLEM, 0, 1.0, n=20), run(Method.TARGET, 0, 1.0, n=10)]
    assert report(longer).ratio(Method.SLEM, Method.TARGET).all.median == pytest.approx(2.0)


def test_a_slower_method_is_below_one() -> None:
    runs = [run(Method.SLEM, 0, 4.0), run(Method.TARGET, 0, 1.0)]
    assert report(runs).ratios()["slem/target"].all.median == pytest.approx(0.25)


def test_repeats_of_a_prompt_are_one_value() -> None:
    runs = [run(Method.SLEM, 0, s, repeat=i) for i, s in enumerate((1.0, 1.0, 10.0))]
    runs += [run(Method.TARGET, 0, 2.0, repeat=i) for i in range(3)]
    assert report(runs).ratio(Method.SLEM, Method.TARGET).all.n == 1
    assert report(runs).ratio(Method.SLEM, Method.TARGET).all.median == pytest.approx(2.0)


def test_varied_prompts_are_those_whose_continuation_does_not_loop() -> None:
    runs = [run(Method.SLEM, p, 1.0, repeated=r) for p, r in ((0, 0.9), (1, 0.2))]
    runs += [run(Method.TARGET, p, t, repeated=r) for p, t, r in ((0, 5.0, 0.9), (1, 2.0, 0.2))]
    ratio = report(runs).ratio(Method.SLEM, Method.TARGET)
    assert ratio.varied is not None
    assert ratio.varied.n == 1
    assert ratio.varied.median == pytest.approx(2.0)


def test_different_ids_are_reported() -> None:
    runs = [run(Method.SLEM, 0, 1.0, ids=5), run(Method.TARGET, 0, 1.0, ids=6)]
    assert not report(runs).ratio(Method.SLEM, Method.TARGET).same_ids


def test_predicted_speedup_by_hand() -> None:
    # 3 tokens a round for 4 draft steps of 0.1 and a verify pass of 1.1 target steps
    assert Calibration(0.01, 0.1, 1.1).predicted(3.0, 4.0) == pytest.approx(2.0)


def test_bench_of_the_built_in_pair_gives_equal_ids_and_every_field(builtin: Pair) -> None:
    result = bench(builtin, ["And God said", "The king"], [Method.TARGET, Method.SLEM, Method.GENERATE], repeats=2, max_new_tokens=8, k=2)
    assert len(result.runs) == 12
    assert all(ratio.same_ids for ratio in result.ratios().values())
    data = json.loads(json.dumps(result.to_json()))
    assert {"schema_version", "pair", "settings", "machine", "versions", "runs", "summary", "ratios"} <= data.keys()
    assert set(data["ratios"]) == {"slem/target", "slem/generate", "target/generate"}
    for ratio in data["ratios"].values():
        assert ratio["low"] <= ratio["median"] <= ratio["high"]
    for one in data["runs"]:
        assert {"method", "prompt", "repeat", "num_tokens", "seconds", "metrics"} <= one.keys()
    assert data["summary"]["target"]["mean_acceptance_length"] == 1.0
    assert data["summary"]["slem"]["mean_acceptance_length"] >= 1.0
    assert data["summary"]["generate"]["mean_acceptance_length"] is None


def test_the_command_writes_table_and_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("And God said\n", encoding="utf-8")
    args = ["bench", "--prompts", str(tmp_path / "p.txt"), "--repeats", "1", "--max-new-tokens", "6", "--out", str(tmp_path / "b.json")]
    assert cli.main(args) == 0
    captured = capsys.readouterr()
    assert "slem/target" in captured.out and "predicted speedup" in captured.out
    assert "3 runs, about" in captured.err
    assert len(json.loads((tmp_path / "b.json").read_text())["runs"]) == 3
