"""The page and its API. Importing this module loads gradio; `build` makes the page for the pairs on a shelf."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # read when gradio is imported

import gradio as gr
import plotly
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from slem_demo.errors import SlemError
from slem_demo.models.loading import use_threads
from slem_demo.models.pairs import ASSETS
from slem_demo.models.shelf import Shelf
from slem_demo.ui.compare.tab import compare_tab
from slem_demo.ui.diff import diff_view
from slem_demo.ui.host import Limits, pairs_on_offer, threads
from slem_demo.ui.live import ENGINE, QUIET, facts, header, live_tab
from slem_demo.ui.recorded import open_trace
from slem_demo.ui.runs import Runs
from slem_demo.ui.walkthrough import walkthrough_tab
from slem_demo.ui.zero import MAY_COMPUTE_AT_START
from slem_demo.views import fates
from slem_demo.views.diff import diff
from slem_demo.views.report import report

TABS = {"live": "Live", "walkthrough": "Walkthrough", "compare": "Compare"}
REMEMBER_TAB = """(name) => {
  if (!window.slemHasTab) { window.slemHasTab = true; return; }  // the first is gradio's own choice, made before the link's
  const query = new URLSearchParams(window.location.search);
  query.set("tab", name);
  window.history.replaceState(null, "", "?" + query);
}"""


def build(shelf: Shelf, limits: Limits | None = None) -> gr.Blocks:
    """The page for the pairs on a shelf; the first is loaded and warm before the page is served."""
    limits = limits or Limits.from_environment()
    runs, first = Runs(shelf, limits), shelf.get(shelf.names[0])
    if MAY_COMPUTE_AT_START:
        runs.warm_up()
    with gr.Blocks(title="SLEM, live", analytics_enabled=False) as demo:
        top = gr.HTML(header(facts(first)))
        with gr.Tabs() as tabs:
            with gr.Tab(TABS["live"], id="live") as live:
                live_tab(demo, runs, first, top)
            with gr.Tab(TABS["walkthrough"], id="walkthrough") as walkthrough:
                walkthrough_tab()
            with gr.Tab(TABS["compare"], id="compare") as compare:
                compare_tab(shelf, limits, ENGINE)
                diff_view()
        for name, tab in zip(TABS, (live, walkthrough, compare), strict=True):
            tab.select(None, None, None, js=f"() => ({REMEMBER_TAB})('{name}')", **QUIET)
        demo.load(tab_of_link, None, tabs, **QUIET)
        gr.api(api_report, api_name="report", queue=False)
        gr.api(api_diff, api_name="diff", queue=False)
        gr.api(runs.decode, api_name="decode", concurrency_id=ENGINE, concurrency_limit=1)
    demo.queue(max_size=limits.max_waiting)
    return demo


def tab_of_link(request: gr.Request) -> Any:
    """The tab that the page's link names."""
    name = dict(request.query_params).get("tab")
    return gr.Tabs(selected=name) if name in TABS else gr.skip()


def api_report(trace: str) -> str:
    """A saved trace (its JSON) as one HTML page that needs no network."""
    with readable():
        return report(open_trace(trace))


def api_diff(a: str, b: str) -> dict[str, Any]:
    """Two saved traces (their JSON): settings, the first id that differs, measures."""
    with readable():
        return dict(diff(open_trace(a), open_trace(b)))


@contextmanager
def readable() -> Iterator[None]:
    """Turns what a person should read into gradio's error."""
    try:
        yield
    except SlemError as error:
        raise gr.Error(str(error), print_exception=False) from None


def launch_options() -> dict[str, Any]:
    """How the page is served: its style, its scripts and plotly's from the installed package, and nothing about a visitor kept or sent."""
    scripts = [Mount("/slem/scripts", StaticFiles(directory=ASSETS / "scripts"))]
    scripts += [Mount("/slem", StaticFiles(directory=Path(plotly.__file__).parent / "package_data"))]
    return {
        "theme": gr.themes.Default(
            primary_hue="blue",
            font=["system-ui", "DejaVu Sans", "sans-serif"],
            font_mono=["ui-monospace", "DejaVu Sans Mono", "monospace"],
        ).set(  # white on the theme's own blue is 3.7 : 1
            button_primary_background_fill="*primary_600",
            button_primary_background_fill_hover="*primary_700",
            button_primary_background_fill_dark="*primary_600",
            button_primary_background_fill_hover_dark="*primary_700",
        ),
        "css": fates.css(),
        "css_paths": [ASSETS / "style.css", ASSETS / "compare.css"],
        "ssr_mode": False,
        "run_history": False,
        "enable_monitoring": False,
        "footer_links": ["api", "settings"],
        "server_name": os.environ.get("GRADIO_SERVER_NAME", "127.0.0.1"),
        "server_port": int(os.environ.get("GRADIO_SERVER_PORT", "7860")),
        "app_kwargs": {"routes": scripts},
    }


def shelf_of_host() -> Shelf:
    """The pairs that this host offers; sets the threads that torch uses."""
    use_threads(threads())
    return Shelf(pairs_on_offer(), Limits.from_environment().max_model_megabytes * 1e6)
