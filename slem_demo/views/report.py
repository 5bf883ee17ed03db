"""A run as one HTML file that opens from a disk: nothing in it is fetched, and what models and people wrote is data in it, never HTML."""

from __future__ import annotations

import html
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from slem_demo.metrics import Summary, summarise
from slem_demo.trace import Trace
from slem_demo.views.fates import LOOKS, css
from slem_demo.views.live import LiveWriter, tiles
from slem_demo.views.words import GLOSSARY, caption, machine, settings, story

ASSETS = Path(__file__).resolve().parents[2] / "assets"
NO_NETWORK = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
AGAINST_ANOTHER = ("speedup", "lossless")  # one trace alone says nothing of them
PARTS = {"prefill_s": "prefill", "draft_s": "draft", "retokenise_s": "re-tokenise", "verify_s": "verify", "other_s": "other"}


def report(trace: Trace) -> str:
    """The page: its text, timeline and rounds as in the live view; measures; settings; the caption of its pictures."""
    values = {"title": title(trace), "policy": NO_NETWORK, "style": style(), "viewer": _asset("viewer.html")}
    values |= {"viewer_script": _script("scripts/viewer.js"), "script": _script("report.js"), "data": _data(trace)}
    page = _asset("report.html")
    before, *rest = page.split("{{")
    parts = [part.split("}}", 1) for part in rest]
    return before + "".join(values[name] + after for name, after in parts)


def title(trace: Trace) -> str:
    """Escaped: it stands in the page's own HTML."""
    return html.escape(f"{trace.request.method.upper()} · {trace.request.pair}")


def style() -> str:
    return "\n".join([css(), _asset("style.css"), _asset("report.css")])


def content(trace: Trace) -> dict[str, Any]:
    """What the page's script draws."""
    summary, writer = summarise(trace), LiveWriter()
    rounds = [writer.round(r) for r in trace.rounds]
    return {
        "prompt": trace.request.prompt,
        "chat": trace.request.chat,
        "caption": caption(trace),
        "legend": [{"fate": fate, "label": look.label} for fate, look in LOOKS.items()],
        "tiles": [tile for tile in tiles(summary) if tile["metric"] not in AGAINST_ANOTHER],
        "rounds": rounds,
        "tail": writer.tail(trace.stop) if trace.stop else None,
        "story": story(summary),
        "glossary": GLOSSARY,
        "positions": summary.acceptance_by_position or [],
        "histogram": summary.acceptance_histogram,
        "seconds": [[name, value] for key, name in PARTS.items() if (value := getattr(summary, key)) is not None],
        "measures": measures(summary),
        "facts": facts(trace),
    }


def facts(trace: Trace) -> list[tuple[str, str]]:
    """How the run was made, for a table."""
    models = [("target", trace.target), *[("draft", trace.draft)] * (trace.draft is not None)]
    rows = [("settings", settings(trace.request)), ("machine", machine(trace.environment))]
    for role, model in models:
        if model:
            about = (
                f"{model.name}: {model.vocab_size:,} tokens, {model.n_layers} layers, {model.n_parameters:,} parameters, {model.compute}"
            )
            rows.append((role, f"{about}; {model.source}; revision {model.revision or 'unknown'}"))
    return [*rows, ("ended", trace.stop.reason if trace.stop else "it was stopped before its end")]


def measures(s: Summary) -> list[tuple[str, str]]:
    """Every measure that is one number, by its name in the trace's own terms; a dash for what the method does not show."""
    return [(name, _number(value)) for name, value in asdict(s).items() if not isinstance(value, list)]


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def _data(trace: Trace) -> str:
    return json.dumps(content(trace), ensure_ascii=False).replace("<", "\\u003c")


def _script(name: str) -> str:
    return _asset(name).replace("</script", "<\\/script")


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")
