"""The page and its API. Importing this module loads gradio; `build` makes the page for the pairs on a shelf."""

from __future__ import annotations

import html
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # read when gradio is imported

import gradio as gr
import plotly
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from slem_demo.cli.options import DEFAULT_PROMPT
from slem_demo.errors import SlemError
from slem_demo.models.loading import Pair, use_threads
from slem_demo.models.pairs import ASSETS
from slem_demo.models.shelf import Shelf
from slem_demo.ui.host import Limits, pairs_on_offer, threads
from slem_demo.ui.runs import Runs, as_value, for_people
from slem_demo.ui.stream import first_look, notice
from slem_demo.ui.zero import MAY_COMPUTE_AT_START
from slem_demo.views import fates

ENGINE = "engine"  # one run at a time: every listener that computes shares this queue
NOISES = [("the target's", "shared"), ("its own", "independent"), ("none: its best guess", "greedy")]
CHAT = "each model's own chat template; User: … Assistant: where it has none"
PRESETS: list[dict[str, Any]] = json.loads((ASSETS / "presets.json").read_text(encoding="utf-8"))


def header(chips: list[str]) -> str:
    """Title and the facts of the pair, escaped."""
    items = "".join(f"<li>{html.escape(chip)}</li>" for chip in chips)
    return (
        '<header class="slem bar"><div><h1>SLEM, live</h1>'
        '<p class="sub">Two vocabularies, one text: the draft guesses, the target decides.</p></div>'
        f'<ul class="chips" aria-label="Models">{items}</ul></header>'
    )


def facts(pair: Pair) -> list[str]:
    """What a visitor wants to know of a pair at a glance."""
    sizes = [
        f"{role} {model.info.vocab_size:,} tokens · {model.info.n_layers} layer{'s' * (model.info.n_layers > 1)}"
        for role, model in (("target", pair.target), ("draft", pair.draft))
    ]
    one_tokenizer = ["one tokenizer: plain speculative decoding"] * pair.has_one_tokenizer
    computed = [pair.target.info.compute, *[f"draft {pair.draft_info.compute}"] * (pair.draft_info.compute != pair.target.info.compute)]
    return [*sizes, f"{pair.environment.device.upper()} · {', '.join(computed)}", *one_tokenizer]


def preset_values(name: str) -> list[Any]:
    """Prompt, K and temperature of a preset."""
    preset = next(p for p in PRESETS if p["name"] == name)
    return [preset["prompt"], preset.get("k", 4), preset["temperature"]]


# Puts the settings into the address, so that the page's link restores them.
REMEMBER = """(pair, prompt, chat, system, k, auto, temperature, max_new_tokens, top_k, top_p, seed, draft_noise) => {
  const query = new URLSearchParams(window.location.search);
  const settings = { pair, prompt, k: auto ? "auto" : k, temperature, max_new_tokens, seed, draft_noise };
  if (chat) settings.chat = true; else query.delete("chat");
  if (chat && system) settings.system = system; else query.delete("system");
  if (top_k) settings.top_k = top_k; else query.delete("top_k");
  if (top_p < 1) settings.top_p = top_p; else query.delete("top_p");
  for (const [name, value] of Object.entries(settings)) query.set(name, value);
  window.history.replaceState(null, "", "?" + query);
}"""


def live_view(runs: Runs) -> gr.HTML:
    """The text as it is written. Its template is constant and its script uses textContent, so no text is ever run as HTML."""

    def trace(run: str) -> str | None:  # gradio marks server functions, so a method will not do
        return runs.trace(run)

    def missed(place: list[Any]) -> str | None:  # gradio hands over one value
        run, seq = place
        return runs.missed(run, seq)

    return gr.HTML(
        value=as_value(first_look()),
        html_template=(ASSETS / "live.html").read_text(encoding="utf-8"),
        js_on_load=(ASSETS / "live.js").read_text(encoding="utf-8"),
        head='<script src="slem/plotly.min.js"></script>',
        server_functions=[trace, missed],
        elem_id="live",
    )


def build(shelf: Shelf, limits: Limits | None = None) -> gr.Blocks:
    """The page for the pairs on a shelf; the first is loaded and warm before the page is served."""
    limits = limits or Limits.from_environment()
    runs, first = Runs(shelf, limits), shelf.get(shelf.names[0])
    if MAY_COMPUTE_AT_START:
        runs.warm_up()
    quiet: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
    with gr.Blocks(title="SLEM, live", analytics_enabled=False) as demo:
        top = gr.HTML(header(facts(first)))
        with gr.Group():
            pair = gr.Dropdown(list(shelf.names), label="Pair", value=first.name, elem_id="pair", visible=len(shelf.names) > 1)
            prompt = gr.Textbox(DEFAULT_PROMPT, label="Prompt", lines=2, max_lines=8, max_length=limits.max_prompt_chars, elem_id="prompt")
            with gr.Row():
                chat = gr.Checkbox(False, label="As a conversation", info=CHAT, elem_id="chat", min_width=260)
                system = gr.Textbox(
                    "", label="System prompt", max_length=limits.max_prompt_chars, elem_id="system", min_width=260, visible=False
                )
            with gr.Row():
                preset = gr.Dropdown([p["name"] for p in PRESETS], label="Preset", value=PRESETS[0]["name"], elem_id="preset")
                k = gr.Slider(0, 12, 4, step=1, label="K: draft tokens", elem_id="k")
                temperature = gr.Slider(0, 2, 0, step=0.1, label="Temperature", elem_id="temperature")
                longest = min(limits.max_new_tokens, first.target.max_context)
                length = gr.Slider(1, longest, min(128, longest), step=1, label="New tokens", elem_id="length")
        with gr.Accordion("More: top-p, top-k, dice, the command", open=False):
            with gr.Row():
                top_p = gr.Slider(0.05, 1, 1, step=0.05, label="Top-p (1: off)", elem_id="top-p")
                top_k = gr.Slider(0, 200, 0, step=1, label="Top-k (0: off)", elem_id="top-k")
                seed = gr.Number(0, label="Seed", precision=0, minimum=0, elem_id="seed")
                noise = gr.Dropdown(
                    NOISES, label="The draft's dice", value="shared", elem_id="noise", info="at a temperature; the text stays the same"
                )
                dice = gr.Button("Roll a seed", min_width=100, elem_id="dice")
            shell = gr.Textbox(label="The same run as a command", interactive=False, buttons=["copy"], elem_id="command", lines=2)
        with gr.Row(elem_id="actions"):
            run_button = gr.Button("Run", variant="primary", elem_id="run", scale=0, min_width=140)
            stop_button = gr.Button("Stop", interactive=False, elem_id="stop", scale=0, min_width=140)
            with_race = gr.Checkbox(True, label="Race the target alone", elem_id="race", container=False, scale=0, min_width=220)
            auto = gr.Checkbox(False, label="K as far as it is worth", elem_id="auto", container=False, scale=0, min_width=220)
            place = gr.HTML("", elem_id="place", min_width=200)  # gradio shows here which place in the queue a visitor has
        live = live_view(runs)

        def opened(name: str) -> Iterator[str]:
            yield header([f"loading {name} …"])
            try:
                yield header(facts(shelf.get(name)))
            except SlemError as error:
                raise for_people(str(error)) from None

        settings = [pair, prompt, chat, system, k, auto, temperature, length, top_k, top_p, seed, noise]
        asked = [run_button.click, prompt.submit]
        gr.on(asked, None, None, None, js="() => { window.dispatchEvent(new Event('slem-asked')); }", **quiet)
        started = gr.on(
            asked,
            runs.live,
            [with_race, *settings],
            live,
            concurrency_id=ENGINE,
            concurrency_limit=1,
            show_progress="minimal",
            show_progress_on=place,
            trigger_mode="once",
            api_visibility="private",
        )
        started.failure(lambda: as_value(notice("failed")), None, live, **quiet)
        stop_button.click(lambda: as_value(notice("stopped")), None, live, cancels=[started], **quiet)
        pair.change(
            opened,
            pair,
            top,
            concurrency_id=ENGINE,
            concurrency_limit=1,
            show_progress_on=place,
            api_visibility="private",
        )
        chat.change(lambda on: gr.update(visible=on), chat, system, **quiet)
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


def shelf_of_host() -> Shelf:
    """The pairs that this host offers; sets the threads that torch uses."""
    use_threads(threads())
    return Shelf(pairs_on_offer(), Limits.from_environment().max_model_megabytes * 1e6)
