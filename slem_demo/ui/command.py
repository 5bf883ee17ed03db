"""A run's settings as a command line and as a link."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from slem_demo.errors import SlemError
from slem_demo.trace import Request

TEXTS = ("prompt", "system")
OPTIONS = ("k", "max_new_tokens", "temperature", "top_k", "top_p", "seed", "draft_noise")
READ: dict[str, Callable[[str], object]] = {
    "chat": lambda text: text == "true",
    "k": lambda text: text if text == "auto" else int(text),
    "max_new_tokens": int,
    "temperature": float,
    "top_k": int,
    "top_p": float,
    "seed": int,
}


def command(request: Request) -> str:
    """The command that repeats this run in a shell; settings that are the default are left out."""
    words = ["python -m slem_demo decode", "--pair", shlex.quote(request.pair), shlex.quote(f"--prompt={request.prompt}")]
    if request.chat:
        words += ["--chat", *[shlex.quote(f"--system={request.system}")] * bool(request.system)]
    for name in OPTIONS:
        value = getattr(request, name)
        if value != Request.model_fields[name].default:
            words += [f"--{name.replace('_', '-')}", f"{value:g}" if isinstance(value, float) else str(value)]
    return " ".join(words)


def settings_of_link(query: Mapping[str, str], pairs: Sequence[str]) -> dict[str, Any]:
    """The settings that a link's query names and that are valid, its pair only if it is on offer; anything else in it is ignored."""
    found: dict[str, Any] = {"pair": query["pair"]} if query.get("pair") in pairs else {}
    for name in (*TEXTS, "chat", *OPTIONS):
        if name not in query:
            continue
        try:
            value = READ.get(name, str)(query[name])
            found[name] = getattr(Request.checked(**{"pair": pairs[0], "prompt": "x", name: value}), name)
        except (SlemError, ValueError):
            continue
    return found
