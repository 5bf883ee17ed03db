"""What a host allows, from environment variables. Checked on the server, whatever a client posts."""

from __future__ import annotations

import os
from collections.abc import Generator
from dataclasses import dataclass, fields

from slem_demo.engine.race import LaneEvent
from slem_demo.errors import SlemError
from slem_demo.trace import Request


@dataclass(frozen=True)
class Limits:
    """Caps of one host. Each field is set by the variable `SLEM_` and its name in capitals."""

    max_prompt_chars: int = 4000
    max_new_tokens: int = 512
    max_seconds: int = 60
    max_waiting: int = 20
    max_traces: int = 50
    trace_minutes: int = 60
    max_model_megabytes: int = 8000

    @classmethod
    def from_environment(cls) -> Limits:
        """Raises SlemError for a value that is no positive whole number."""
        values: dict[str, int] = {}
        for entry in fields(cls):
            value = _positive(f"SLEM_{entry.name.upper()}")
            if value is not None:
                values[entry.name] = value
        return cls(**values)

    def check(self, request: Request) -> None:
        """Raises SlemError for a request that is larger than this host allows."""
        n_characters = len(request.prompt) + len(request.system)
        if n_characters > self.max_prompt_chars:
            raise SlemError(f"The prompt has {n_characters:,} characters; this host allows {self.max_prompt_chars:,}.")
        if request.max_new_tokens > self.max_new_tokens:
            raise SlemError(f"{request.max_new_tokens:,} new tokens were asked for; this host allows {self.max_new_tokens:,}.")

    def within_time(self, events: Generator[LaneEvent, None, None]) -> Generator[LaneEvent, None, None]:
        """The events until their lanes have computed for `max_seconds` together.

        Raises:
            SlemError: the time is over. What came before stays.
        """
        clocks: dict[str, float] = {}
        try:
            for e in events:
                clocks[e.lane] = e.clock_s
                yield e
                if sum(clocks.values()) > self.max_seconds:
                    raise SlemError(f"The run was ended after {self.max_seconds} s, the most that this host allows.")
        finally:
            events.close()


def pairs_on_offer() -> list[str]:
    """The names in `SLEM_PAIRS`, separated by commas; the first is loaded before the first visitor comes."""
    return [name.strip() for name in os.environ.get("SLEM_PAIRS", "builtin").split(",") if name.strip()] or ["builtin"]


def threads() -> int:
    """CPU threads for the models: `SLEM_THREADS`, or all cores but one, which the server and a browser on this machine need.

    Threads that share a core with another busy process wait for each other in every operation.
    """
    named = _positive("SLEM_THREADS") if os.environ.get("SLEM_THREADS") else None
    return named or max(1, len(os.sched_getaffinity(0)) - 1)


def _positive(name: str) -> int | None:
    """A variable's value, or None if it is not set. Raises SlemError for one that is no positive whole number."""
    text = os.environ.get(name)
    if text is None:
        return None
    if not (text.isdecimal() and int(text) > 0):
        raise SlemError(f"{name} must be a positive whole number (got {text!r}).")
    return int(text)
