"""Words and units of the lessons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slem_demo.trace import Token
from slem_demo.views.round import Block


def each(tokens: Iterable[Token]) -> str:
    return ", ".join(quote(token.text) if token.bytes else "the end token" for token in tokens)


def as_one(tokens: Sequence[Token]) -> str:
    return quote(b"".join(token.bytes for token in tokens).decode("utf-8", "replace"))


def texts(blocks: Sequence[Block]) -> str:
    return ", ".join(quote(b["text"]) for b in blocks)


def quote(text: str) -> str:
    return f"“{text}”"


def count(n: int, noun: str) -> str:
    if n == 1:
        return f"1 {noun}"
    plural = noun[:-1] + "ies" if noun.endswith("ry") else noun + ("es" if noun.endswith(("s", "h")) else "s")
    return f"{n:,} {plural}"


def nth(n: int) -> str:
    ending = "th" if 10 < n % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"


def duration(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def percent(p: float) -> str:
    return "less than 0.1%" if 0 < p < 0.001 else f"{p:.1%}" if 0 < p < 0.1 else f"{p:.0%}"


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]
