"""The Compare tab: methods side by side on one prompt or on a set."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import gradio as gr

from slem_demo.benchmark.prompt_sets import default_sets, load_sets, names
from slem_demo.benchmark.report import ENOUGH
from slem_demo.cli.options import DEFAULT_PROMPT
from slem_demo.engine.run import Clock
from slem_demo.errors import SlemError
from slem_demo.models.pairs import ASSETS
from slem_demo.models.shelf import Shelf
from slem_demo.ui.compare.measuring import Deadline, Expected, measure, on_worker
from slem_demo.ui.compare.plan import MAX_PROMPTS, MAX_REPEATS, OWN, Plan
from slem_demo.ui.compare.results import Results
from slem_demo.ui.compare.shown import State, failed_or_stopped, page
from slem_demo.ui.host import Limits
from slem_demo.ui.live import QUIET
from slem_demo.ui.runs import NO_QUOTA, as_value, for_people
from slem_demo.ui.store import Store
from slem_demo.ui.zero import QuotaError

METHODS = ("slem@2", "slem@4", "slem@8", "slem@auto", "tli@4", "hf@4")
EVERY_S = 0.3  # how often the page is told; each update is complete in itself


class Comparing:
    """The comparisons of one host: what may be measured, and what was."""

    def __init__(self, shelf: Shelf, limits: Limits):
        self.shelf, self.limits = shelf, limits
        self.store = Store[Results](limits.max_traces, limits.trace_minutes * 60)
        self.of_session = Store[Results | None](limits.max_traces, limits.trace_minutes * 60)
        self._measure = on_worker(lambda plan, deadline: measure(shelf.get(plan.pair), plan, deadline))

    def begin(self, plan: Plan) -> Results:
        """Raises SlemError if this host or its pair can't run it."""
        results = Results.begun(plan, self.shelf.get(plan.pair), Deadline(self.limits.max_seconds))
        for request in results.asked.values():
            self.limits.check(request)
        self.store.put(results.run, results)
        return results

    def updates(self, results: Results, clock: Clock = time.perf_counter) -> Iterator[dict[str, object]]:
        """One comparison: at once, then at most one update each `EVERY_S`, the last at the end. Raises SlemError and QuotaError."""
        yield page(results, "measuring")
        sent = -math.inf
        with closing(self._measure(results.plan, results.deadline)) as steps:
            for step in steps:
                results.add(step)
                if isinstance(step, Expected) or clock() - sent >= EVERY_S:
                    yield page(results, "measuring")
                    sent = clock()
        if not results.deadline.is_stopped:
            yield page(results, "finished")

    def compare(self, request: gr.Request, *values: Any) -> Iterator[str]:
        """One comparison, as values of the view."""
        self.of_session.put(str(request.session_hash), None)
        try:
            plan = Plan.checked(values)
            if not self.shelf.has(plan.pair) and plan.pair in self.shelf.names:
                yield as_value({"state": "loading"})
            results = self.begin(plan)
            self.of_session.put(str(request.session_hash), results)
            yield from map(as_value, self.updates(results))
        except SlemError as error:
            raise for_people(str(error)) from None
        except QuotaError:
            raise for_people(NO_QUOTA) from None

    def measured(
        self,
        methods: str = "slem@4,slem@auto",
        prompts: str = "openings",
        n_prompts: int = 6,
        prompt: str = "",
        max_new_tokens: int = 64,
        temperature: float = 0.0,
        seed: int = 0,
        repeats: int = 1,
        pair: str | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Measures methods beside the target alone; tells how many runs are done and ends with what `bench --out` writes.

        `prompts`: a set by name, of which the first `n_prompts`; with a `prompt` that one only.
        """
        try:
            which = (OWN if prompt else prompts, n_prompts, prompt or DEFAULT_PROMPT)
            plan = Plan.checked((pair or self.shelf.names[0], [], methods, *which, max_new_tokens, temperature, seed, repeats))
            results = self.begin(plan)
            for update in self.updates(results):
                yield {"progress": update["progress"]}
        except SlemError as error:
            raise gr.Error(str(error), print_exception=False) from None
        except QuotaError:
            raise gr.Error(NO_QUOTA, print_exception=False) from None
        yield results.to_json() or {}

    def ended(self, session: str, state: State) -> str:
        """Ends what a session measures, as soon as it next looks at its clock, and shows all that was done."""
        results = self.of_session.get(session)
        if results is None or results.report is not None:
            return as_value(failed_or_stopped(state))
        results.deadline.stop()
        return as_value(page(results, state))

    def report(self, run: str) -> dict[str, Any] | None:
        """What was measured, for whoever knows its name; None once it has expired."""
        found = self.store.get(str(run))
        return found.to_json() if found else None


def view(comparing: Comparing) -> gr.HTML:
    """The results. The template is constant and its script uses textContent, so no text is ever run as HTML."""

    def report(run: str) -> dict[str, Any] | None:  # gradio marks server functions, so a method will not do
        return comparing.report(run)

    return gr.HTML(
        value="",
        html_template=(ASSETS / "compare.html").read_text(encoding="utf-8"),
        js_on_load=(ASSETS / "compare.js").read_text(encoding="utf-8"),
        head='<script src="slem/plotly.min.js"></script><script src="slem/scripts/viewer.js"></script>',
        server_functions=[report],
        elem_id="compare",
    )


def controls(shelf: Shelf, limits: Limits) -> list[gr.components.Component]:
    """In the order of `Plan.checked`."""
    with gr.Group():
        pair = gr.Dropdown(list(shelf.names), label="Models", value=shelf.names[0], visible=len(shelf.names) > 1, elem_id="compare-pair")
        with gr.Row():
            methods = gr.CheckboxGroup(
                list(METHODS),
                value=list(METHODS),
                label="Methods",
                info="each against the target alone",
                elem_id="methods",
                scale=5,
                min_width=320,
            )
            more = gr.Textbox(
                label="More methods",
                info="METHOD@K, with commas",
                placeholder="slem@6, slem@auto:independent, generate",
                max_length=400,
                elem_id="more-methods",
                scale=3,
            )
        set_name, n_prompts, prompt = which_prompts(shelf.names[0], limits)
        with gr.Row():
            longest = limits.max_new_tokens
            length = gr.Slider(1, longest, min(64, longest), step=1, label="Tokens to write", elem_id="compare-length")
            temperature = gr.Slider(0, 2, 0, step=0.1, label="Temperature", elem_id="compare-temperature")
            repeats = gr.Slider(1, MAX_REPEATS, 1, step=1, label="Repeats", elem_id="repeats")
            seed = gr.Number(0, label="Seed", precision=0, minimum=0, elem_id="compare-seed")
    pair.change(first_set, pair, set_name, **QUIET)
    return [pair, methods, more, set_name, n_prompts, prompt, length, temperature, seed, repeats]


def which_prompts(pair: str, limits: Limits) -> list[gr.components.Component]:
    """The prompt set and how much of it; or one prompt."""
    first = first_set(pair)
    with gr.Row():
        set_name = gr.Dropdown([*names(), OWN], label="Prompts", info=about(first), value=first, elem_id="prompt-set")
        n_prompts = gr.Slider(
            1, MAX_PROMPTS, ENOUGH, step=1, label="How many", info=f"from {ENOUGH} on, an interval can be given", elem_id="n-prompts"
        )
        prompt = gr.Textbox(
            DEFAULT_PROMPT,
            label="Your prompt",
            lines=2,
            max_lines=6,
            max_length=limits.max_prompt_chars,
            visible=False,
            elem_id="own-prompt",
        )
    set_name.change(
        lambda name: [gr.update(info=about(name)), gr.update(visible=name != OWN), gr.update(visible=name == OWN)],
        set_name,
        [set_name, n_prompts, prompt],
        **QUIET,
    )
    return [set_name, n_prompts, prompt]


def about(set_name: str) -> str:
    """What a prompt set is made of."""
    return "one text, for a first look" if set_name == OWN else load_sets(set_name)[0].about


def first_set(pair: str) -> str:
    """The prompts that suit a pair best."""
    return default_sets(pair).split(",")[0]


def compare_tab(shelf: Shelf, limits: Limits, concurrency_id: str) -> None:
    """The tab's controls, results and handlers, within open Blocks. Computes in the queue `concurrency_id`, one job at a time."""
    comparing = Comparing(shelf, limits)
    asked = controls(shelf, limits)
    with gr.Row(elem_id="compare-actions"):
        run = gr.Button("Compare", variant="primary", elem_id="compare-run", scale=0, min_width=140)
        stop = gr.Button("Stop", interactive=False, elem_id="compare-stop", scale=0, min_width=140)
        place = gr.HTML("", elem_id="compare-place", min_width=200)  # gradio shows here which place in the queue a visitor has
    results = view(comparing)

    def ended(request: gr.Request, state: State) -> str:
        return comparing.ended(str(request.session_hash), state)

    def stopped(request: gr.Request) -> str:
        return ended(request, "stopped")

    def failed(request: gr.Request) -> str:
        return ended(request, "failed")

    run.click(None, None, None, js="() => { window.dispatchEvent(new Event('slem-compare')); }", **QUIET)
    started = run.click(
        comparing.compare,
        asked,
        results,
        concurrency_id=concurrency_id,
        concurrency_limit=1,
        show_progress="minimal",
        show_progress_on=place,
        trigger_mode="once",
        api_visibility="private",
    )
    started.failure(failed, None, results, **QUIET)
    stop.click(stopped, None, results, cancels=[started], **QUIET)
    gr.api(comparing.measured, api_name="bench", concurrency_id=concurrency_id, concurrency_limit=1)
