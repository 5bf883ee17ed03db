"""The command line as a person runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slem_demo import cli
from slem_demo.cli.options import OUT
from slem_demo.models.pairs import ASSETS, PAIRS
from slem_demo.trace import Trace
from slem_demo.views.report import report


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    status = cli.main(args)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def decode(capsys: pytest.CaptureFixture[str], *args: str) -> list[dict[str, Any]]:
    status, out, _ = run(capsys, "decode", "--format", "jsonl", *args)
    assert status == 0
    return [json.loads(line) for line in out.splitlines()]


def test_jsonl_streams_events_and_ends_with_the_stop_event(capsys: pytest.CaptureFixture[str]) -> None:
    lines = decode(capsys, "--prompt", "And God said", "--max-new-tokens", "20", "--k", "3")
    assert [line["event"] for line in lines] == ["prefill", *["round"] * (len(lines) - 2), "stop"]
    rounds, stop = lines[1:-1], lines[-1]
    for i, r in enumerate(rounds):
        assert r["round"] == i
        assert {"draft", "draft_text", "candidate", "n_accepted", "own", "text", "draft_s", "retokenise_s", "verify_s"} <= r.keys()
        for token in r["draft"] + r["candidate"]:
            assert token.keys() == {"id", "text", "bytes"}
    committed = [t["id"] for r in rounds for t in r["candidate"][: r["n_accepted"]] + [r["own"]] * (r["own"] is not None)]
    assert committed == stop["output_ids"]
    assert len(committed) == 20
    assert "".join(str(r["text"]) for r in rounds) + str(stop["tail"]) == stop["text"]
    assert stop["metrics"]["num_rounds"] == len(rounds)
    assert stop["reason"] == "length"


def test_slem_and_target_write_the_same_ids(capsys: pytest.CaptureFixture[str]) -> None:
    for sampling in ([], ["--temperature", "0.8", "--seed", "3", "--top-p", "0.9"]):
        same = ["--prompt", "The king of Israel", "--max-new-tokens", "30", *sampling]
        assert decode(capsys, *same)[-1]["output_ids"] == decode(capsys, "--method", "target", *same)[-1]["output_ids"]


def test_text_goes_to_stdout_and_the_measures_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    stop = decode(capsys, "--prompt", "And it [bold]came[/bold]", "--max-new-tokens", "12")[-1]
    status, out, err = run(capsys, "decode", "--prompt", "And it [bold]came[/bold]", "--max-new-tokens", "12")
    assert status == 0
    assert out == f"And it [bold]came[/bold]{stop['text']}\n"
    assert "12 tokens in" in err and "candidates accepted" in err


@pytest.mark.parametrize("form", ["text", "jsonl"])
def test_the_trace_is_written_where_it_is_asked_for(form: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run(capsys, "decode", "--prompt", "And God said", "--max-new-tokens", "9", "--format", form, "--out", str(tmp_path / "t.json"))
    trace = Trace.from_json((tmp_path / "t.json").read_bytes())
    assert trace.stop is not None and len(trace.output_ids) == 9 and trace.request.prompt == "And God said"
    status, _, err = run(capsys, "decode", "--max-new-tokens", "1", "--out", str(tmp_path))
    assert status == 1 and err.endswith(f"slem_demo: {tmp_path} cannot be written (Is a directory).\n")


def test_a_prompt_file_and_a_stop_string(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("And God said", encoding="utf-8")
    whole = str(decode(capsys, "--prompt-file", str(tmp_path / "p.txt"), "--max-new-tokens", "30")[-1]["text"])
    word = whole.split()[4]
    stop = decode(capsys, "--prompt-file", str(tmp_path / "p.txt"), "--max-new-tokens", "30", "--stop", word)[-1]
    assert (stop["reason"], stop["text"]) == ("stop_string", whole[: whole.index(word)])


REFUSALS = [
    (["decode", "--prompt", ""], "prompt: it is empty"),
    (["decode", "--prompt", "  \n "], "prompt: it is empty"),
    (["decode", "--prompt", "word " * 3000], "Shorten the prompt or ask for fewer tokens"),
    (["decode", "--k", "-1"], "k: "),
    (["decode", "--k", "1000"], "k: "),
    (["decode", "--max-new-tokens", "0"], "max_new_tokens: "),
    (["decode", "--max-new-tokens", "8000"], "Shorten the prompt or ask for fewer tokens"),
    (["decode", "--temperature", "-1"], "temperature: "),
    (["decode", "--temperature", "nan"], "temperature: "),
    (["decode", "--top-p", "2"], "top_p: "),
    (["decode", "--seed", "-5"], "seed: "),
    (["decode", "--pair", "nonsense"], "There is no pair 'nonsense'"),
    (["decode", "--pair", "builtin-target::/no/such/folder"], "There is no model '/no/such/folder'"),
    (["decode", "--prompt-file", "/no/such/file"], "/no/such/file cannot be read"),
    (["decode", "--prompt-file", str(ASSETS / "builtin" / "corpus.txt.gz")], "cannot be read as UTF-8"),
    (["decode", "--prompt", "a", "--prompt-file", "b"], "not both"),
    (["decode", "--threads", "0"], "--threads must be at least 1"),
    (["decode", "--device", "nonsense"], "There is no device"),
    (["decode", "--stop", ""], "a stop string is empty"),
    (["bench", "--repeats", "0"], "--repeats must be at least 1"),
    (["bench", "--prompts", "/no/such/file"], "There are no prompts '/no/such/file'"),
    (["bench", "--seeds", "0"], "--seeds must be at least 1"),
    (["bench", "--first", "-1"], "--first must be at least 1"),
    (["bench", "--prompts", "stories", "--contexts", "100"], "have a context of 0 tokens"),
    (["bench", "--show", "/no/such/file"], "cannot be read"),
    (["bench", "--methods", "slem@99"], "k: "),
    (["bench", "--out", "/no/such/folder/b.json"], "does not exist"),
    (["bench", "--methods", "generate", "--temperature", "1"], "greedy comparator"),
    (["bench", "--k", "99"], "k: "),
]


@pytest.mark.parametrize(("args", "message"), REFUSALS, ids=lambda v: " ".join(v)[:50] if isinstance(v, list) else "")
def test_bad_input_gets_one_line_and_status_1(args: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, *args)
    assert (status, out) == (1, "")
    assert message in err
    assert err.startswith("slem_demo: ") and err.count("\n") == 1


@pytest.mark.parametrize(
    "args", [[], ["nonsense"], ["decode", "--k", "many"], ["decode", "--method", "magic"], ["bench", "--methods", "slem,magic"]]
)
def test_wrong_usage_is_status_2(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(args)
    assert caught.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_after_a_refusal_the_next_run_works_in_processes_of_their_own() -> None:
    command = [sys.executable, "-m", "slem_demo", "decode", "--max-new-tokens", "3"]
    refused = subprocess.run([*command, "--k", "-1"], capture_output=True, text=True, cwd=ASSETS.parent)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "Traceback" not in refused.stderr
    works = subprocess.run(command, capture_output=True, text=True, cwd=ASSETS.parent)
    assert works.returncode == 0 and works.stdout.startswith("In the beginning God created")


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = f"{sys.executable} -m slem_demo decode --format jsonl --max-new-tokens 64 | head -n 1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, cwd=ASSETS.parent)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_pairs_lists_what_is_on_offer(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "pairs")
    assert status == 0
    for word in ("builtin-target", "builtin-draft", "4,096", "3,072", "Apache-2.0", "in assets/"):
        assert word in out
    for offer in PAIRS.values():
        assert offer.target in out and offer.draft in out, "whole, also on a narrow terminal"
    assert out.count("for a GPU; gated") == sum(offer.is_gated for offer in PAIRS.values()) == 3


def test_bench_writes_tables_and_a_file_that_can_be_shown_again(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("And God said\nThe king\n", encoding="utf-8")
    out = str(tmp_path / "b.json")
    common = ("bench", "--prompts", str(tmp_path / "p.txt"), "--repeats", "1", "--max-new-tokens", "6")
    status, shown, err = run(capsys, *common, "--first", "1", "--out", out)
    assert status == 0
    assert "slem/target" in shown and "was predicted from a calibration" in shown and "too few" in shown
    assert "3 runs, about" in err
    assert len(json.loads((tmp_path / "b.json").read_text())["runs"]) == 3
    again = run(capsys, "bench", "--show", out)[1]
    assert again == shown
    assert "| slem/target | " in run(capsys, "bench", "--show", out, "--markdown")[1]


def test_what_bench_can_not_show_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for content in ("{", "[]", '{"schema_version": 1}'):
        (tmp_path / "b.json").write_text(content, encoding="utf-8")
        status, out, err = run(capsys, "bench", "--show", str(tmp_path / "b.json"))
        assert (status, out) == (1, "") and err.count("\n") == 1


def test_a_narrow_terminal_keeps_ratio_verdict_and_ids(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OUT, "_width", 80)
    run(capsys, "bench", "--methods", "slem,target", "--first", "1", "--repeats", "1", "--max-new-tokens", "4")
    monkeypatch.setattr(OUT, "_width", 160)
    assert "decoding only" in run(capsys, "bench", "--methods", "slem,target", "--first", "1", "--repeats", "1", "--max-new-tokens", "4")[1]


def test_a_trace_becomes_a_report_and_two_a_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b, page = tmp_path / "a.json", tmp_path / "b.json", tmp_path / "page.html"
    for path, method in ((a, "slem"), (b, "target")):
        assert run(capsys, "decode", "--max-new-tokens", "12", "--method", method, "--out", str(path))[0] == 0
    assert run(capsys, "report", str(a), "--out", str(page))[0] == 0
    assert page.read_text(encoding="utf-8").rstrip() == report(Trace.from_json(a.read_bytes())).rstrip()
    status, out, _ = run(capsys, "diff", str(a), str(b))
    assert status == 0 and "All 12 ids are the same." in out and "num_rounds" in out


@pytest.mark.parametrize("command", ["report", "diff"])
def test_what_is_no_trace_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('{"schema_version": 99}', encoding="utf-8")
    for given, message in ((bad, "schema version"), (tmp_path / "none.json", "cannot be read")):
        rest = ["--out", str(tmp_path / "page.html")] if command == "report" else [str(given)]
        status, _, err = run(capsys, command, str(given), *rest)
        assert status == 1 and message in err
