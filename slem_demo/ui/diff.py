"""Two saved traces beside each other, on the page."""

from __future__ import annotations

import gradio as gr

from slem_demo.errors import SlemError
from slem_demo.models.pairs import ASSETS
from slem_demo.ui.recorded import read_trace
from slem_demo.ui.runs import as_value, for_people
from slem_demo.views.diff import diff


def diff_view() -> None:
    """Two places for traces, and what differs once both are there."""
    with gr.Accordion("Two saved traces: what differs", open=False):
        with gr.Row():
            a, b = (gr.File(label=f"Trace {name}", file_types=[".json"], height=110, elem_id=f"trace-{name.lower()}") for name in "AB")
        shown = gr.HTML(
            value="",
            html_template=(ASSETS / "diff.html").read_text(encoding="utf-8"),
            js_on_load=(ASSETS / "diff.js").read_text(encoding="utf-8"),
            head='<script src="slem/scripts/viewer.js"></script>',
            elem_id="diff",
        )
    gr.on([a.change, b.change], compared, [a, b], shown, show_progress="hidden", api_visibility="private")


def compared(a: str | None, b: str | None) -> str:
    """The difference as the view's value; empty until both are there."""
    if a is None or b is None:
        return ""
    try:
        return as_value(dict(diff(read_trace(a), read_trace(b))))
    except SlemError as error:
        raise for_people(str(error)) from None
