"""The walkthrough tab: recorded lessons, for which no model is loaded."""

from __future__ import annotations

import json

import gradio as gr

from slem_demo.models.pairs import ASSETS
from slem_demo.views.lessons.lesson import load_lessons

SCRIPT = '<script src="slem/scripts/viewer.js"></script>'


def walkthrough_tab() -> None:
    """The six steps of a round, on recorded ones. The page asks for the lessons when the tab is opened."""
    recorded = json.dumps(load_lessons(ASSETS / "lessons"), ensure_ascii=False)

    def lessons(_: int) -> str:  # gradio hands over one value
        return recorded

    gr.HTML(
        html_template=(ASSETS / "walkthrough.html").read_text(encoding="utf-8"),
        js_on_load=(ASSETS / "walkthrough.js").read_text(encoding="utf-8"),
        head=SCRIPT,
        server_functions=[lessons],
        elem_id="walkthrough",
    )
