"""What the README says is so: its example runs, its file tree and commands exist, its figures are those of the model card."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest
from packaging.requirements import Requirement

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


def test_the_speeds_in_the_readme_are_those_of_the_recorded_benchmark() -> None:
    recorded = json.loads((ASSETS / "builtin" / "bench.json").read_text(encoding="utf-8"))
    card = json.loads((ASSETS / "builtin" / "card.json").read_text(encoding="utf-8"))
    for name, ratio in recorded["ratios"].items():
        whole, varied = (f"{r['median']:.2f}× [{r['low']:.2f}, {r['high']:.2f}]" for r in (ratio["all"], ratio["varied"]))
        assert f"| {name} | {whole} | {varied} |" in README
        assert ratio["same_ids"]
    assert f"{recorded['summary']['slem']['mean_acceptance_length']:.2f} tokens a target pass" in README
    assert recorded["weights"] == {name: card[name]["weights_sha256"][:12] for name in ("target", "draft")}


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
