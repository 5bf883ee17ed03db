"""Traces for tests."""

from __future__ import annotations

from collections.abc import Iterable

from slem_demo.trace import Environment, Event, ModelInfo, Request, Trace

MODEL = ModelInfo(name="fake", source="tests", revision=None, vocab_size=300, n_layers=1, n_parameters=1, compute="float32")
ENVIRONMENT = Environment(device="cpu", dtype="float32", threads=1, machine="test", versions={})


def trace_of(events: Iterable[Event], **fields: object) -> Trace:
    request = Request.checked(**{"pair": "fake", "prompt": "In the beginning"} | fields)
    return Trace(request=request, target=MODEL, draft=MODEL, environment=ENVIRONMENT).with_events(events)
