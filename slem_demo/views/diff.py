"""Two traces beside each other: settings, ids up to the first difference, measures. Plain data, no HTML."""

from __future__ import annotations

from dataclasses import asdict
from itertools import zip_longest
from typing import TypedDict

from slem_demo.metrics import summarise
from slem_demo.trace import Token, Trace
from slem_demo.views.words import machine

CONTEXT = 60  # characters shown before the first difference


class Row(TypedDict):
    """One thing of both traces, as text."""

    name: str
    a: str
    b: str
    is_same: bool


class Parting(TypedDict):
    """The first output id that differs, from 1, with the token of each (None: that run had ended) and the text before it."""

    at: int
    before: str
    a: str | None
    b: str | None


class Diff(TypedDict):
    """`n_equal` ids from the start are the same; `parting` is None if all are."""

    settings: list[Row]
    n_equal: int
    n_ids: tuple[int, int]
    parting: Parting | None
    measures: list[Row]
    sentence: str


def diff(a: Trace, b: Trace) -> Diff:
    """What differs between two runs. Ids are comparable only where the targets' vocabularies are the same: the sentence says if not."""
    of_a, of_b = _committed(a), _committed(b)
    n = next((i for i, (x, y) in enumerate(zip_longest(of_a, of_b)) if x is None or y is None or x.id != y.id), len(of_a))
    parting = None
    if n < max(len(of_a), len(of_b)):
        before = b"".join(token.bytes for token in of_a[:n]).decode("utf-8", "replace")[-CONTEXT:]
        parting = Parting(at=n + 1, before=before, a=_text(of_a[n : n + 1]), b=_text(of_b[n : n + 1]))
    return Diff(
        settings=_rows(_settings(a), _settings(b)),
        n_equal=n,
        n_ids=(len(of_a), len(of_b)),
        parting=parting,
        measures=_rows(_measures(a), _measures(b)),
        sentence=_sentence(a, b, n, parting),
    )


def _sentence(a: Trace, b: Trace, n: int, parting: Parting | None) -> str:
    if (a.target.name, a.target.revision) != (b.target.name, b.target.revision):
        return "The targets are not the same, so their ids say nothing of each other."
    if parting is None:
        return f"All {n:,} ids are the same."
    if parting["a"] is None or parting["b"] is None:
        return f"The {n:,} ids of the shorter are the same; the other goes on."
    sampled = "tli" in (a.request.method, b.request.method) and (a.request.temperature or b.request.temperature)
    expected = " That is expected: sampled TLI is equal in distribution, ids are not comparable." if sampled else ""
    return f"The first {n:,} ids are the same; then one wrote “{parting['a']}” and the other “{parting['b']}”.{expected}"


def _committed(trace: Trace) -> list[Token]:
    return [token for r in trace.rounds for token in r.committed]


def _text(tokens: list[Token]) -> str | None:
    return tokens[0].text or "its end token" if tokens else None


def _settings(trace: Trace) -> dict[str, str]:
    models = {"target": trace.target, "draft": trace.draft}
    named = {role: f"{m.name} ({m.source}, revision {m.revision or 'unknown'}, {m.compute})" if m else "–" for role, m in models.items()}
    request = {name: "–" if value is None else str(value) for name, value in trace.request.model_dump(mode="json").items()}
    return request | named | {"machine": machine(trace.environment)}


def _measures(trace: Trace) -> dict[str, str]:
    found = asdict(summarise(trace)).items()
    return {name: "–" if value is None else f"{value:,.4g}" for name, value in found if not isinstance(value, list)}


def _rows(a: dict[str, str], b: dict[str, str]) -> list[Row]:
    return [Row(name=name, a=a[name], b=b[name], is_same=a[name] == b[name]) for name in a]
