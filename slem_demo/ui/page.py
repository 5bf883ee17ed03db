"""The page and its API. Importing this module loads gradio; `build` makes the page for a pair that is already loaded."""

from __future__ import annotations

import html
import json
import os
import random
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # read when gradio is imported

import gradio as gr
import plotly
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from slem_demo.benchmark import Calibration, calibrate
from slem_demo.cli import DEFAULT_PROMPT
from slem_demo.engine.race import LaneEvent, race
from slem_demo.errors import SlemError
from slem_demo.metrics import event_lines
from slem_demo.models.loading import Pair, load_pair
from slem_demo.models.pairs import ASSETS
from slem_demo.trace import Event, Method, Request
from slem_demo.ui.command import command, settings_of_link
from slem_demo.ui.host import Limits
from slem_demo.ui.store import TraceStore
from slem_demo.ui.stream import SLEM, STOPPED, TARGET, LivePage, deltas, first_look
from slem_demo.ui.zero import MAY_COMPUTE_AT_START, duration, on_gpu
from slem_demo.views import fates

ENGINE = "engine"  # one run at a time: every listener that computes shares this queue
PRESETS: list[dict[str, Any]] = json.loads((ASSETS / "presets.json").read_text(encoding="utf-8"))
SETTINGS = ("prompt", "k", "temperature", "max_new_tokens", "top_k", "top_p", "seed")


def as_value(update: Mapping[str, object]) -> str:
    """An update as the component's value: JSON text, which gradio replaces as a whole.

    A dict would travel as edits of the last one, and edits of lists of different lengths arrive mixed up. `<` is escaped because
    gradio warns about values that look like a script.
    """
    return json.dumps(update, ensure_ascii=False).replace("<", "\\u003c")


def header(pair: Pair) -> str:
    """Title and the facts of the pair, escaped."""
    chips = [
        f"target {pair.target.info.vocab_size:,} tokens · {pair.target.info.n_layers} layers",
        f"draft {pair.draft.info.vocab_size:,} tokens · {pair.draft.info.n_layers} layer{'s' * (pair.draft.info.n_layers > 1)}",
        f"{pair.environment.device.upper()} · {pair.environment.dtype}",
    ]
    if pair.has_one_tokenizer:
        chips.append("one tokenizer: plain speculative decoding")
    items = "".join(f"<li>{html.escape(chip)}</li>" for chip in chips)
    return (
        '<header class="slem bar"><div><h1>SLEM, live</h1>'
        '<p class="sub">Two vocabularies, one text: the draft guesses, the target decides.</p></div>'
        f'<ul class="chips" aria-label="Models">{items}</ul></header>'
    )


def for_people(message: str) -> gr.Error:
    """An error as a toast. Gradio shows its text as HTML, so it is escaped."""
    return gr.Error(html.escape(message), title="That cannot run", print_exception=False)


def request_of(pair: Pair, values: tuple[Any, ...]) -> Request:
    """A checked request from the controls' values; 0 for top-k and 1 for top-p mean that they are off."""
    fields = dict(zip(SETTINGS, values, strict=True))
    fields["top_k"] = fields["top_k"] or None
    fields["top_p"] = None if fields["top_p"] == 1 else fields["top_p"]
    return Request.checked(pair=pair.name, **fields)


class Runs:
    """What the page's handlers need: the pair, the host's limits, the costs of the pair on this machine, and finished traces."""

    def __init__(self, pair: Pair, limits: Limits):
        self.pair, self.limits = pair, limits
        self.store = TraceStore(limits.max_traces, limits.trace_minutes * 60)
        self.calibration: Callable[[int], Calibration] = cache(lambda k: calibrate(pair, k, repeats=10))

        def seconds(fields: dict[str, Any], with_race: bool) -> int:
            return duration(fields, with_race, limits.max_seconds)

        self._updates = on_gpu(self.updates, seconds)
        self._events = on_gpu(self.events, seconds)

    def warm_up(self) -> None:
        """A short run and a calibration, so that the first visitor does not pay for what happens once."""
        request = Request.checked(pair=self.pair.name, prompt=DEFAULT_PROMPT, max_new_tokens=8)
        self.calibration(request.k)
        for _ in self.pair.decode(request):
            pass

    def check(self, request: Request) -> dict[str, Any]:
        """The request as plain values, once it is known that this host and this pair can run it. Raises SlemError if not."""
        self.limits.check(request)
        self.pair.prompts(request)
        return request.model_dump(mode="json")

    def updates(self, fields: dict[str, Any], with_race: bool) -> Iterator[dict[str, Any]]:
        """One run as updates of the live view; a last one holds an error if the run was cut short. Plain values only."""
        request = Request.checked(**fields)
        lanes = {SLEM: self.pair.decode(request)}
        if with_race:
            lanes[TARGET] = self.pair.decode(request.model_copy(update={"method": Method.TARGET}))
        calibration = self.calibration(request.k) if with_race else None
        page, seen = LivePage(request.prompt, request.max_new_tokens, with_race, calibration), list[Event]()
        try:
            with closing(kept(self.limits.within_time(race(lanes)), SLEM, seen)) as events:
                yield from map(dict, deltas(page, events))
        except SlemError as error:
            yield {"error": str(error)}
        finally:
            self.store.put(page.run, self.pair.trace(request).with_events(seen))

    def events(self, fields: dict[str, Any], with_race: bool) -> Iterator[dict[str, Any]]:  # noqa: ARG002 - both have one shape
        """One run as the lines of `decode --format jsonl`; a last one holds an error if the run was cut short."""
        request = Request.checked(**fields)
        try:
            with closing(self.limits.within_time(race({request.method: self.pair.decode(request)}))) as events:
                yield from event_lines(e.event for e in events)
        except SlemError as error:
            yield {"error": str(error)}

    def live(self, with_race: bool, *values: Any) -> Iterator[tuple[Any, ...]]:
        """One run, as updates of the live view, of the two buttons and of the line below them."""
        try:
            fields = self.check(request_of(self.pair, values))
        except SlemError as error:
            raise for_people(str(error)) from None
        buttons: tuple[Any, ...] = (gr.Button(interactive=False), gr.Button(interactive=True), "")
        for update in self._updates(fields, with_race):
            if "error" in update:
                raise for_people(update["error"])
            yield as_value(update), *buttons
            buttons = (gr.skip(), gr.skip(), gr.skip())

    def decode(
        self,
        prompt: str,
        method: str = "slem",
        k: int = 4,
        max_new_tokens: int = 128,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = 0,
        stop: list[str] | None = None,
    ) -> Iterator[dict[str, object]]:
        """Streams the events of one run and ends with the stop event: the lines of `decode --format jsonl`."""
        try:
            request = Request.checked(
                pair=self.pair.name,
                prompt=prompt,
                method=method,
                k=k,
                max_new_tokens=max_new_tokens,
                temperature=temperature,
                top_k=top_k,
                top_p=top_p,
                seed=seed,
                stop=tuple(stop or ()),
            )
            if request.method is Method.GENERATE:
                raise SlemError("The method generate has no rounds to stream; use target or slem.")
            fields = self.check(request)
        except SlemError as error:
            raise gr.Error(str(error), print_exception=False) from None
        for line in self._events(fields, False):
            if "error" in line:
                raise gr.Error(str(line["error"]), print_exception=False)
            yield line

    def trace(self, run: str) -> str | None:
        """The trace of a run as JSON, for whoever knows the run's name; None once it has expired."""
        found = self.store.get(str(run))
        return found.to_json() if found else None

    def command(self, *values: Any) -> str:
        try:
            return command(request_of(self.pair, values))
        except SlemError as error:
            return str(error)

    def from_link(self, request: gr.Request) -> list[Any]:
        """The controls' values that the page's link names; the others stay as they are."""
        found = settings_of_link(dict(request.query_params), self.pair.name)
        return [found.get(name, gr.skip()) for name in SETTINGS]


def kept(events: Generator[LaneEvent, None, None], lane: str, seen: list[Event]) -> Generator[LaneEvent, None, None]:
    """The same events; those of one lane are also put into `seen`. Closes what it reads from."""
    try:
        for e in events:
            if e.lane == lane:
                seen.append(e.event)
            yield e
    finally:
        events.close()


def preset_values(name: str) -> list[Any]:
    """Prompt, K and temperature of a preset."""
    preset = next(p for p in PRESETS if p["name"] == name)
    return [preset["prompt"], preset.get("k", 4), preset["temperature"]]


# Puts the settings into the address, so that the page's link restores them.
REMEMBER = """(prompt, k, temperature, max_new_tokens, top_k, top_p, seed) => {
  const query = new URLSearchParams(window.location.search);
  const settings = { prompt, k, temperature, max_new_tokens, seed };
  if (top_k) settings.top_k = top_k; else query.delete("top_k");
  if (top_p < 1) settings.top_p = top_p; else query.delete("top_p");
  for (const [name, value] of Object.entries(settings)) query.set(name, value);
  window.history.replaceState(null, "", "?" + query);
}"""


def live_view(runs: Runs) -> gr.HTML:
    """The text as it is written. Its template is constant and its script uses textContent, so no text is ever run as HTML."""

    def trace(run: str) -> str | None:  # gradio marks server functions, so a method will not do
        return runs.trace(run)

    return gr.HTML(
        value=as_value(first_look()),
        html_template=(ASSETS / "live.html").read_text(encoding="utf-8"),
        js_on_load=(ASSETS / "live.js").read_text(encoding="utf-8"),
        head='<script src="slem/plotly.min.js"></script>',
        server_functions=[trace],
        elem_id="live",
    )


def build(pair: Pair, limits: Limits | None = None) -> gr.Blocks:
    """The page for one loaded pair."""
    limits = limits or Limits.from_environment()
    runs = Runs(pair, limits)
    if MAY_COMPUTE_AT_START:
        runs.warm_up()
    quiet: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
    with gr.Blocks(title="SLEM, live", analytics_enabled=False) as demo:
        gr.HTML(header(pair))
        with gr.Group():
            prompt = gr.Textbox(DEFAULT_PROMPT, label="Prompt", lines=2, max_lines=8, max_length=limits.max_prompt_chars, elem_id="prompt")
            with gr.Row():
                preset = gr.Dropdown([p["name"] for p in PRESETS], label="Preset", value=PRESETS[0]["name"], elem_id="preset")
                k = gr.Slider(0, 12, 4, step=1, label="K: draft tokens", elem_id="k")
                temperature = gr.Slider(0, 2, 0, step=0.1, label="Temperature", elem_id="temperature")
                longest = min(limits.max_new_tokens, pair.target.max_context)
                length = gr.Slider(1, longest, min(128, longest), step=1, label="New tokens", elem_id="length")
        with gr.Accordion("More: top-p, top-k, seed, the command", open=False):
            with gr.Row():
                top_p = gr.Slider(0.05, 1, 1, step=0.05, label="Top-p (1: off)", elem_id="top-p")
                top_k = gr.Slider(0, 200, 0, step=1, label="Top-k (0: off)", elem_id="top-k")
                seed = gr.Number(0, label="Seed", precision=0, minimum=0, elem_id="seed")
                dice = gr.Button("Roll a seed", min_width=100, elem_id="dice")
            shell = gr.Textbox(label="The same run as a command", interactive=False, buttons=["copy"], elem_id="command", lines=2)
        with gr.Row():
            run_button = gr.Button("Run", variant="primary", elem_id="run", min_width=120)
            stop_button = gr.Button("Stop", interactive=False, elem_id="stop", min_width=120)
            with_race = gr.Checkbox(True, label="Race the target alone", elem_id="race", container=False, min_width=200)
        status = gr.HTML("", elem_id="status")  # gradio shows here which place in the queue a visitor has
        live = live_view(runs)

        def idle() -> tuple[gr.Button, gr.Button, str]:
            return gr.Button(interactive=True), gr.Button(interactive=False), ""

        settings = [prompt, k, temperature, length, top_k, top_p, seed]
        after = [run_button, stop_button, status]
        started = gr.on(
            [run_button.click, prompt.submit],
            runs.live,
            [with_race, *settings],
            [live, *after],
            concurrency_id=ENGINE,
            concurrency_limit=1,
            show_progress="minimal",
            show_progress_on=status,
            trigger_mode="once",
            api_visibility="private",
        )
        started.then(idle, None, after, **quiet)
        stop_button.click(lambda: (as_value(STOPPED), *idle()), None, [live, *after], cancels=[started], **quiet)
        preset.select(preset_values, preset, [prompt, k, temperature], **quiet)
        dice.click(lambda: random.randrange(2**31), None, seed, **quiet)
        gr.on([c.change for c in settings], runs.command, settings, shell, js=REMEMBER_AND_PASS, **quiet)
        demo.load(runs.from_link, None, settings, **quiet)
        demo.load(runs.command, settings, shell, **quiet)
        gr.api(runs.decode, api_name="decode", concurrency_id=ENGINE, concurrency_limit=1)
    demo.queue(max_size=limits.max_waiting)
    return demo


REMEMBER_AND_PASS = f"(...values) => {{ ({REMEMBER})(...values); return values; }}"


def launch_options() -> dict[str, Any]:
    """How the page is served: its style, plotly's script from the installed package, and nothing about a visitor kept or sent."""
    script = StaticFiles(directory=Path(plotly.__file__).parent / "package_data")
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
        "css_paths": ASSETS / "style.css",
        "ssr_mode": False,
        "run_history": False,
        "enable_monitoring": False,
        "footer_links": ["api", "settings"],
        "server_name": os.environ.get("GRADIO_SERVER_NAME", "127.0.0.1"),
        "server_port": int(os.environ.get("GRADIO_SERVER_PORT", "7860")),
        "app_kwargs": {"routes": [Mount("/slem", script)]},
    }


def load() -> Pair:
    """The pair on offer."""
    return load_pair("builtin")
