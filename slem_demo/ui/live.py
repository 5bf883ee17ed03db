"""The live tab: prompt and settings, and the view that they run into."""

from __future__ import annotations

import html
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gradio as gr

from slem_demo.cli.options import DEFAULT_PROMPT
from slem_demo.errors import SlemError
from slem_demo.models.loading import Pair
from slem_demo.models.pairs import ASSETS
from slem_demo.ui.runs import SETTINGS, Runs, as_value, for_people
from slem_demo.ui.stream import first_look, notice

ENGINE = "engine"  # one run at a time: every listener that computes shares this queue
QUIET: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
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

    def report(run: str) -> str | None:
        return runs.report(run)

    def missed(place: list[Any]) -> str | None:  # gradio hands over one value
        run, seq = place
        return runs.missed(run, seq)

    template = (ASSETS / "live.html").read_text(encoding="utf-8")
    return gr.HTML(
        value="",
        first=as_value(first_look()),
        html_template=template.replace("<!-- viewer -->", (ASSETS / "viewer.html").read_text(encoding="utf-8")),
        js_on_load=(ASSETS / "live.js").read_text(encoding="utf-8"),
        head='<script src="slem/plotly.min.js"></script><script src="slem/scripts/viewer.js"></script>',
        server_functions=[trace, report, missed],
        elem_id="live",
    )


REMEMBER_AND_PASS = f"(...values) => {{ ({REMEMBER})(...values); return values; }}"


@dataclass(frozen=True)
class Controls:
    """What a visitor sets and presses. `settings` are in the order of `runs.SETTINGS`."""

    settings: list[Any]
    preset: Any
    dice: Any
    shell: Any
    run: Any
    stop: Any
    race: Any
    upload: Any
    place: Any

    def setting(self, name: str) -> Any:
        return self.settings[SETTINGS.index(name)]


def live_tab(demo: gr.Blocks, runs: Runs, first: Pair, top: gr.HTML) -> None:
    """Prompt and settings, and the live view that they run into. `top` shows the facts of the pair."""
    controls = make_controls(runs, first)
    connect(demo, runs, controls, (live_view(runs), top))


def make_controls(runs: Runs, first: Pair) -> Controls:
    shelf, limits = runs.shelf, runs.limits
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
        run = gr.Button("Run", variant="primary", elem_id="run", scale=0, min_width=140)
        stop = gr.Button("Stop", interactive=False, elem_id="stop", scale=0, min_width=140)
        race = gr.Checkbox(True, label="Race the target alone", elem_id="race", container=False, scale=0, min_width=220)
        auto = gr.Checkbox(False, label="K as far as it is worth", elem_id="auto", container=False, scale=0, min_width=220)
        upload = gr.UploadButton("Open a trace", file_types=[".json"], size="sm", elem_id="open", scale=0, min_width=140)
        place = gr.HTML("", elem_id="place", min_width=200)  # gradio shows here which place in the queue a visitor has
    settings = [pair, prompt, chat, system, k, auto, temperature, length, top_k, top_p, seed, noise]
    return Controls(settings, preset, dice, shell, run, stop, race, upload, place)


def connect(demo: gr.Blocks, runs: Runs, c: Controls, shown: tuple[gr.HTML, gr.HTML]) -> None:
    """What happens when a control is used. `shown`: the live view, and the header."""
    live, top = shown
    computing: dict[str, Any] = {"concurrency_id": ENGINE, "concurrency_limit": 1, "show_progress_on": c.place, "api_visibility": "private"}
    asked = [c.run.click, c.setting("prompt").submit]
    gr.on(asked, None, None, None, js="() => { window.dispatchEvent(new Event('slem-asked')); }", **QUIET)
    started = gr.on(asked, runs.live, [c.race, *c.settings], live, show_progress="minimal", trigger_mode="once", **computing)
    started.failure(lambda: as_value(notice("failed")), None, live, **QUIET)
    c.stop.click(lambda: as_value(notice("stopped")), None, live, cancels=[started], **QUIET)
    c.upload.upload(runs.opened, c.upload, live, show_progress="hidden", api_visibility="private")  # queued: its errors are not HTTP's

    def opened(name: str) -> Iterator[str]:
        yield header([f"loading {name} …"])
        try:
            yield header(facts(runs.shelf.get(name)))
        except SlemError as error:
            raise for_people(str(error)) from None

    c.setting("pair").change(opened, c.setting("pair"), top, **computing)
    c.setting("chat").change(lambda on: gr.update(visible=on), c.setting("chat"), c.setting("system"), **QUIET)
    c.preset.select(preset_values, c.preset, [c.setting(name) for name in ("prompt", "k", "temperature")], **QUIET)
    c.dice.click(lambda: random.randrange(2**31), None, c.setting("seed"), **QUIET)
    gr.on([setting.change for setting in c.settings], runs.command, c.settings, c.shell, js=REMEMBER_AND_PASS, **QUIET)
    demo.load(runs.from_link, None, c.settings, **QUIET)
    demo.load(runs.command, c.settings, c.shell, **QUIET)
