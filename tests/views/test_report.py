"""A report holds a whole run and fetches nothing; the browser test is in tests/ui/test_viewer.py."""

from __future__ import annotations

import json
import re

import pytest

from slem_demo.models.loading import Pair
from slem_demo.trace import Request, Trace
from slem_demo.views.report import content, report

HOSTILE = "</script><script>alert(1)</script> {{data}} {{ <!-- <img src=x onerror=alert(1)> \u202e `${1}`"


def run(pair: Pair, **fields: object) -> Trace:
    request = Request.checked(**{"pair": pair.name, "prompt": "And God said", "max_new_tokens": 24, "alternatives": 3} | fields)
    return pair.trace(request).with_events(pair.decode(request))


def test_it_holds_the_run(builtin: Pair) -> None:
    trace = run(builtin)
    page = report(trace)
    found = re.search(r'<script type="application/json" id="run">(.*?)</script>', page, re.S)
    assert found is not None
    data = json.loads(found[1])
    assert data == json.loads(json.dumps(content(trace)))
    committed = ("accepted", "correction", "bonus", "target")
    text = "".join(span["text"] for r in data["rounds"] for span in r["spans"] if span["fate"] in committed)
    assert text + (data["tail"] or {"text": ""})["text"] == trace.text
    assert len(data["rounds"]) == len(trace.rounds)
    assert dict(data["measures"])["num_rounds"] == str(len(trace.rounds))
    assert all(m in data["caption"] for m in (trace.target.name, (trace.target.revision or "")[:12], trace.environment.machine, "K 4"))
    assert {tile["metric"] for tile in data["tiles"]}.isdisjoint({"speedup", "lossless"}), "one run alone says nothing of another"


def test_it_names_no_address(builtin: Pair) -> None:
    page = report(run(builtin))
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//", page)
    assert set(re.findall(r"https?://[^\s\"'<>]+", page)) <= {"http://www.w3.org/2000/svg"}, "a name space, which nobody fetches"
    assert len(page.encode()) < 300_000


@pytest.mark.parametrize("prompt", [HOSTILE, "日本語 العربية 😀"])
def test_text_stays_data(builtin: Pair, prompt: str) -> None:
    page = report(run(builtin, prompt=prompt, temperature=2.0))
    plain = report(run(builtin, prompt="x"))
    assert page.count("<script") == plain.count("<script") and page.count("</script") == plain.count("</script")
    assert "{{" not in page.split('id="run"')[0]
    assert json.loads(page.split('id="run">')[1].split("</script>")[0])["prompt"] == prompt


def test_a_run_without_a_round_or_an_end_has_a_page_too(builtin: Pair) -> None:
    whole = run(builtin)
    for trace in (whole.model_copy(update={"rounds": (), "stop": None}), whole.model_copy(update={"stop": None, "draft": None})):
        assert ["ended", "it was stopped before its end"] in [list(fact) for fact in content(trace)["facts"]]
        assert report(trace).startswith("<!doctype html>")


@pytest.mark.parametrize("method", ["target", "tli", "hf"])
def test_any_method_has_a_page(builtin: Pair, method: str) -> None:
    trace = run(builtin, method=method, alternatives=0)
    data = content(trace)
    spans = [span for r in data["rounds"] for span in r["spans"]]
    assert "".join(span["text"] for span in spans if span["fate"] in ("accepted", "correction", "bonus", "target")) == trace.text
