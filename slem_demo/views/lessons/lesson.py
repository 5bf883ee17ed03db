"""One recorded round as a lesson: the six steps of SLEM (arXiv 2502.05202, Algorithm 2) with this round's own tokens and numbers.

A lesson is data in `assets/lessons/`: which trace, which round, which questions. Every number in its texts is derived from traces.
Plain data, no HTML.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NotRequired, TypedDict

from slem_demo.metrics import summarise
from slem_demo.trace import Trace
from slem_demo.views.lessons.questions import QUESTIONS
from slem_demo.views.lessons.scene import Scene, equal_ids, predicted_speedup, speedup
from slem_demo.views.lessons.steps import STEPS, Text
from slem_demo.views.lessons.words import count, duration, percent
from slem_demo.views.round import RoundPicture
from slem_demo.views.words import caption

N_BEFORE = 120  # characters of text shown before the round


LESSON_PARTS = ("draft", "string", "candidate", "own", "parts", "choices", "phases", "text")  # of a picture, and the text below it


class Step(TypedDict):
    """`line`: the step in pseudo-code; `lit`: the parts of the round's picture that it is about."""

    title: str
    line: str
    text: str
    lit: list[str]
    question: str
    answer: str


class Lesson(TypedDict):
    """`before`: the end of the text when the round began; `facts`: labels and values."""

    name: str
    title: str
    about: str
    caption: str
    before: str
    picture: RoundPicture
    steps: list[Step]
    facts: list[list[str]]


class Definition(TypedDict):
    """A lesson as it is stored. `trace` and `beside` name traces; `questions`: six names of `QUESTIONS`, one for each step.

    `runs`: each trace is the one of median time of so many runs, taken in turn, so that their times may be compared.
    """

    name: str
    title: str
    about: str
    trace: str
    round: int
    questions: list[str]
    beside: NotRequired[list[str]]
    runs: NotRequired[int]


def load_lessons(folder: Path) -> list[Lesson]:
    """The lessons of `lessons.json` in `folder`, with the traces that lie beside it."""
    definitions: list[Definition] = json.loads((folder / "lessons.json").read_text(encoding="utf-8"))
    names = {name for d in definitions for name in (d["trace"], *d.get("beside", []))}
    traces = {name: Trace.from_json((folder / f"{name}.json").read_bytes()) for name in names}
    return [lesson(definition, traces) for definition in definitions]


def lesson(definition: Definition, traces: Mapping[str, Trace]) -> Lesson:
    """The six steps of one recorded round."""
    s = scene(definition, traces)
    return Lesson(
        name=definition["name"],
        title=definition["title"],
        about=definition["about"],
        caption=caption(s.trace),
        before=_before(s.trace, definition["round"]),
        picture=s.picture,
        steps=[_step(s, *row) for row in zip(STEPS, definition["questions"], strict=True)],
        facts=facts(s),
    )


def scene(d: Definition, traces: Mapping[str, Trace]) -> Scene:
    """The round of a lesson."""
    return Scene.of(traces[d["trace"]], d["round"], [traces[name] for name in d.get("beside", [])], d.get("runs", 1))


def _before(trace: Trace, index: int) -> str:
    text = trace.request.prompt + "".join(r.text for r in trace.rounds[:index])
    return text if len(text) <= N_BEFORE else f"…{text[-N_BEFORE:]}"


def facts(s: Scene) -> list[list[str]]:
    """Numbers of the round and of its run."""
    r, run = s.r, s.run
    phases = [[f"This round: {phase['name']}", duration(phase["seconds"])] for phase in s.picture["phases"]]
    rate = [["Whole run: candidates accepted", percent(run.draft_acceptance_rate)]] if run.draft_acceptance_rate is not None else []
    return [
        ["This round: draft tokens", str(len(s.draft))],
        ["This round: candidates", str(len(s.candidate))],
        ["This round: accepted", str(r.n_accepted)],
        ["This round: tokens committed", str(len(r.committed))],
        *phases,
        ["Whole run: tokens", f"{run.num_output_tokens} in {count(run.num_rounds, 'target pass')}"],
        ["Whole run: tokens per target pass", f"{run.mean_acceptance_length or 0:.2f}"],
        *rate,
        ["Whole run: time", duration(run.seconds)],
        *_comparison(s),
    ]


def _comparison(s: Scene) -> list[list[str]]:
    if s.target is None:
        return []
    n_equal, n = equal_ids(s.trace, s.target)
    rows = [["Ids equal to the target alone", f"{n_equal} of {n}"]]
    if s.runs > 1:
        rows += [
            ["The target alone: time", duration(summarise(s.target).seconds)],
            ["Speed beside the target alone, measured", f"{speedup(s.trace, s.target):.2f}×"],
            ["Speed beside the target alone, predicted", f"{predicted_speedup(s.trace, s.target):.2f}×"],
        ]
    return rows


def _step(s: Scene, row: tuple[str, str, tuple[str, ...], Text], ask: str) -> Step:
    title, line, lit, text = row
    question, answer = QUESTIONS[ask](s)
    there = _parts(s.picture)
    return Step(title=title, line=line, text=text(s), lit=[part for part in lit if part in there], question=question, answer=answer)


def _parts(p: RoundPicture) -> set[str]:
    """The parts that a picture has."""
    has = {
        "draft": bool(p["draft"]),
        "string": bool(p["columns"]),
        "candidate": bool(p["candidate"]),
        "own": p["own"] is not None,
        "parts": p["parts_at"] is not None,
        "choices": bool(p["choices"]),
        "phases": bool(p["phases"]),
        "text": True,
    }
    return {part for part in LESSON_PARTS if has[part]}
