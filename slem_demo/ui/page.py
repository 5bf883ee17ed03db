"""The page and its API. Importing this module loads gradio; `build` makes the page for pairs that are already loaded."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # read when gradio is imported

import gradio as gr

from slem_demo.cli import DEFAULT_PROMPT
from slem_demo.errors import SlemError
from slem_demo.metrics import event_lines
from slem_demo.models.loading import Pair, load_pair
from slem_demo.models.pairs import ASSETS
from slem_demo.trace import Request
from slem_demo.ui.stream import STOPPED, deltas, first_look
from slem_demo.views import fates

ENGINE = "engine"  # one run at a time: every listener that computes shares this queue
MAX_WAITING = 20


def live_view() -> gr.HTML:
    """The text as it is written. Its template is constant and its script uses textContent, so no text is ever run as HTML."""
    return gr.HTML(
        value=as_value(first_look()),
        html_template=(ASSETS / "live.html").read_text(encoding="utf-8"),
        js_on_load=(ASSETS / "live.js").read_text(encoding="utf-8"),
        elem_id="live",
    )


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


def for_people(error: SlemError) -> gr.Error:
    """The error as a toast. Gradio shows its text as HTML, so it is escaped."""
    return gr.Error(html.escape(str(error)), title="That cannot run", print_exception=False)


def build(pair: Pair) -> gr.Blocks:
    """The page for one loaded pair."""

    def run(prompt: str, k: float, temperature: float, max_new_tokens: float, seed: float) -> Iterator[tuple[Any, ...]]:
        """One run, as updates of the live view and of the buttons."""
        try:
            request = Request.checked(pair=pair.name, prompt=prompt, k=k, temperature=temperature, max_new_tokens=max_new_tokens, seed=seed)
            events = pair.decode(request)
        except SlemError as error:
            raise for_people(error) from None
        updates = deltas(prompt, events)
        yield as_value(next(updates)), gr.Button(interactive=False), gr.Button(interactive=True)
        for update in updates:
            yield as_value(update), gr.skip(), gr.skip()

    def decode(
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
                pair=pair.name,
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
            yield from event_lines(pair.decode(request))
        except SlemError as error:
            raise gr.Error(str(error), print_exception=False) from None

    with gr.Blocks(title="SLEM, live", analytics_enabled=False) as demo:
        gr.HTML(header(pair))
        with gr.Group():
            prompt = gr.Textbox(DEFAULT_PROMPT, label="Prompt", lines=2, max_lines=8, elem_id="prompt")
            with gr.Row():
                k = gr.Slider(0, 12, 4, step=1, label="K: draft tokens", elem_id="k")
                temperature = gr.Slider(0, 2, 0, step=0.1, label="Temperature", elem_id="temperature")
                length = gr.Slider(1, 512, 128, step=1, label="New tokens", elem_id="length")
                seed = gr.Number(0, label="Seed", precision=0, minimum=0, elem_id="seed")
        with gr.Row():
            run_button = gr.Button("Run", variant="primary", elem_id="run", min_width=120)
            stop_button = gr.Button("Stop", interactive=False, elem_id="stop", min_width=120)
        live = live_view()

        def idle() -> tuple[gr.Button, gr.Button]:
            return gr.Button(interactive=True), gr.Button(interactive=False)

        buttons = [run_button, stop_button]
        started = gr.on(
            [run_button.click, prompt.submit],
            run,
            [prompt, k, temperature, length, seed],
            [live, *buttons],
            concurrency_id=ENGINE,
            concurrency_limit=1,
            show_progress="hidden",
            trigger_mode="once",
            api_visibility="private",
        )
        started.then(idle, None, buttons, queue=False, show_progress="hidden", api_visibility="private")
        stop_button.click(
            lambda: (as_value(STOPPED), *idle()),
            None,
            [live, *buttons],
            cancels=[started],
            queue=False,
            show_progress="hidden",
            api_visibility="private",
        )
        gr.api(decode, api_name="decode", concurrency_id=ENGINE, concurrency_limit=1)
    demo.queue(max_size=MAX_WAITING)
    return demo


def launch_options() -> dict[str, Any]:
    """How the page is served: its style, and nothing about a visitor kept or sent."""
    return {
        "theme": gr.themes.Default(
            primary_hue="blue", font=["system-ui", "DejaVu Sans", "sans-serif"], font_mono=["ui-monospace", "DejaVu Sans Mono", "monospace"]
        ),
        "css": fates.css(),
        "css_paths": ASSETS / "style.css",
        "ssr_mode": False,
        "run_history": False,
        "enable_monitoring": False,
        "footer_links": ["api", "settings"],
        "server_name": os.environ.get("GRADIO_SERVER_NAME", "127.0.0.1"),
        "server_port": int(os.environ.get("GRADIO_SERVER_PORT", "7860")),
    }


def load() -> Pair:
    """The pair on offer, warm: the first visitor does not pay for what torch sets up on first use."""
    pair = load_pair("builtin")
    for _ in pair.decode(Request.checked(pair=pair.name, prompt=DEFAULT_PROMPT, max_new_tokens=8)):
        pass
    return pair
