"""What the README says is so: its example runs, its file tree and commands exist, its figures are those that were measured."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from slem_demo.benchmark.markdown import markdown
from slem_demo.benchmark.report import BUSY, Report
from slem_demo.cli import parser
from slem_demo.models.pairs import ASSETS
from slem_demo.ui.host import Limits
from slem_demo.ui.page import launch_options

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.S)


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = blocks("python")
    assert len(example.strip().splitlines()) <= 10
    exec(compile(example, "README.md", "exec"), {})
    assert "target passes" in capsys.readouterr().out


def test_every_command_of_the_readme_parses() -> None:
    lines = [line for block in blocks("bash") for line in block.splitlines() if line.startswith("python -m slem_demo")]
    assert len(lines) >= 4
    for line in lines:
        parser().parse_args(shlex.split(line.split(" #")[0])[3:])


def test_the_file_tree_is_the_one_on_disk() -> None:
    (tree,) = blocks("text")
    named = {match for line in tree.splitlines() if (match := line.split()[0] if line.split() else "")}
    paths = {ROOT / name for name in named}
    assert all(path.exists() for path in paths), [str(p) for p in paths if not p.exists()]
    top = {p.name for p in ROOT.iterdir() if not p.name.startswith((".", "__")) and p.name != "test-results"}
    assert top <= {Path(name).parts[0] for name in named}


def test_the_second_command_is_what_ci_runs() -> None:
    assert "bash tests/run.sh" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "bash tests/run.sh" in README


MEASURED = sorted((ASSETS / "bench").glob("*.json"))


@pytest.mark.parametrize("path", MEASURED, ids=lambda path: path.stem)
def test_the_figures_in_the_readme_are_what_bench_shows_of_its_measurements(path: Path) -> None:
    report = Report.from_json(json.loads(path.read_text(encoding="utf-8")))
    assert markdown(report) in README
    assert all(ratio.same_ids is not False for ratio in report.ratios().values()), "no measurement without the target's ids"
    assert max(report.busy_cores.values()) <= BUSY, "measured on an idle machine"


@pytest.mark.parametrize(("pair", "files"), [("builtin", ("target", "draft")), ("smollm2", ("draft",))])
def test_what_was_measured_are_the_weights_that_are_here(pair: str, files: tuple[str, ...]) -> None:
    reports = [Report.from_json(json.loads(path.read_text(encoding="utf-8"))) for path in MEASURED]
    found = [report for report in reports if report.pair == pair]
    assert found
    for side in files:
        digest = hashlib.sha256((ASSETS / pair / side / "model.safetensors").read_bytes()).hexdigest()
        assert {report.weights[side] for report in found} == {digest[:12]}


def test_every_variable_of_a_host_is_documented_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (\S+) \|", README, re.M))
    for entry in fields(Limits):
        assert rows[f"SLEM_{entry.name.upper()}"] == str(entry.default)
    options = launch_options()
    assert (rows["GRADIO_SERVER_NAME"], rows["GRADIO_SERVER_PORT"]) == (options["server_name"], str(options["server_port"]))


@pytest.mark.parametrize(("python", "torch"), [("3.11", ["2.13.0"]), ("3.12", ["2.8.0", "2.9.1", "2.10.0", "2.11.0"])])
def test_torch_is_pinned_for_each_python(python: str, torch: list[str]) -> None:
    lines = [Requirement(line) for line in (ROOT / "requirements.txt").read_text().splitlines() if line.startswith("torch")]
    live = [r for r in lines if r.marker is None or r.marker.evaluate({"python_version": python})]
    assert len(live) == 1
    assert all(live[0].specifier.contains(version) for version in torch)
    assert not live[0].specifier.contains("2.15.0")
