"""Two runs beside each other, worked out by hand on small traces."""

from __future__ import annotations

import pytest

from slem_demo.trace import Trace
from slem_demo.views.diff import Diff, diff
from tests.test_metrics import round_event, tok, toks
from tests.traces import trace_of

A = [round_event(0, toks("a"), toks("a"), 1, tok("b", 2)), round_event(1, (), (), 0, tok("c", 3))]
B = [round_event(0, (), (), 0, tok("a")), round_event(1, (), (), 0, tok("b", 2)), round_event(2, (), (), 0, tok("x", 9))]


def of(rows: list, name: str) -> tuple[str, str, bool]:  # type: ignore[type-arg]
    row = next(row for row in rows if row["name"] == name)
    return row["a"], row["b"], row["is_same"]


def both(a: Trace, b: Trace) -> tuple[Diff, Diff]:
    return diff(a, b), diff(b, a)


def test_ids_are_compared_and_not_rounds() -> None:
    for found in both(trace_of(A), trace_of(B)):
        assert (found["n_equal"], found["n_ids"]) == (2, (3, 3))
    found = diff(trace_of(A), trace_of(B, method="target"))
    assert found["parting"] == {"at": 3, "before": "ab", "a": "c", "b": "x"}
    assert found["sentence"] == "The first 2 ids are the same; then one wrote “c” and the other “x”."
    assert of(found["settings"], "method") == ("slem", "target", False)
    assert of(found["settings"], "k")[2]
    assert of(found["measures"], "num_rounds") == ("2", "3", False)


def test_equal_runs_and_one_that_is_longer() -> None:
    assert diff(trace_of(A), trace_of(A))["sentence"] == "All 3 ids are the same."
    assert diff(trace_of(A), trace_of(A))["parting"] is None
    assert diff(trace_of([]), trace_of([]))["sentence"] == "All 0 ids are the same."
    for found in both(trace_of(A), trace_of(A[:1])):
        assert found["sentence"] == "The 2 ids of the shorter are the same; the other goes on."


@pytest.mark.parametrize(("temperature", "expected"), [(0.0, False), (1.0, True)])
def test_a_sampled_tli_may_differ(temperature: float, expected: bool) -> None:
    found = diff(trace_of(A, temperature=temperature), trace_of(B, method="tli", temperature=temperature))
    assert ("equal in distribution" in found["sentence"]) is expected


def test_other_targets_are_not_compared() -> None:
    b = trace_of(B)
    other = b.model_copy(update={"target": b.target.model_copy(update={"name": "another"})})
    assert diff(trace_of(A), other)["sentence"].startswith("The targets are not the same")
