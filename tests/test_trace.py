"""Requests, events and traces as values and as JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from slem_demo.engine.decode import slem
from slem_demo.engine.run import Prompts
from slem_demo.errors import SlemError
from slem_demo.trace import REASON_TEXT, Event, Reason, Request, Token, Trace
from tests.fakes import LONG, SHORT, TEXT, scripted_drafter, scripted_target
from tests.traces import trace_of

PROMPT = "In the beginning"


def events() -> list[Event]:
    request = Request.checked(pair="fake", prompt=PROMPT, k=3, max_new_tokens=40, alternatives=2)
    target = scripted_target(LONG, LONG.encode(PROMPT), LONG.encode(TEXT))
    prompts = Prompts(LONG.encode(PROMPT), SHORT.encode(PROMPT))
    return list(slem(target, scripted_drafter(SHORT, PROMPT + TEXT, 0.2), prompts, request))


def test_a_trace_survives_json() -> None:
    trace = trace_of(events())
    assert Trace.from_json(trace.to_json()) == trace
    assert trace.stop is not None
    assert (trace.output_ids, trace.text) == (trace.stop.output_ids, trace.stop.text)


def test_a_trace_is_a_fold_of_its_events_in_any_portions() -> None:
    all_events = events()
    at_once = trace_of(all_events)
    assert trace_of(all_events[:5]).with_events(all_events[5:]) == at_once
    interrupted = trace_of(all_events[:5])
    assert interrupted.stop is None
    assert interrupted.output_ids == at_once.output_ids[: len(interrupted.output_ids)]


@given(st.binary(max_size=12))
def test_bytes_of_a_token_travel_as_hex(data: bytes) -> None:
    token = Token(id=3, text=data.decode("utf-8", "replace"), bytes=data)
    line = token.model_dump_json()
    assert json.loads(line)["bytes"] == data.hex()
    assert Token.model_validate_json(line) == token


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "not a trace"),
        ("{", "not a trace"),
        ("[1, 2]", "not a trace"),
        ('{"schema_version": 99}', "another schema version"),
        ('{"schema_version": 1}', "not a trace"),
        ('{"schema_version": 1, "request": {"pair": "x", "prompt": "<script>", "k": -3}}', "not a trace"),
    ],
)
def test_a_bad_trace_gets_one_clear_sentence(data: str, message: str) -> None:
    with pytest.raises(SlemError, match=message) as caught:
        Trace.from_json(data)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"prompt": ""}, "prompt: it is empty"),
        ({"prompt": " \n\t"}, "prompt: it is empty"),
        ({"prompt": "a\ud800"}, "prompt: .*surrogate"),
        ({"k": -1}, r"k: .*greater than or equal to 0 \(got -1\)"),
        ({"k": 65}, "k: .*less than or equal to 64"),
        ({"k": 2.5}, "k: .*integer"),
        ({"max_new_tokens": 0}, "max_new_tokens: .*greater than or equal to 1"),
        ({"max_new_tokens": 10**9}, "max_new_tokens: .*less than or equal"),
        ({"temperature": -0.1}, "temperature: "),
        ({"temperature": float("nan")}, "temperature: "),
        ({"temperature": float("inf")}, "temperature: "),
        ({"top_k": 0}, "top_k: "),
        ({"top_p": 0.0}, "top_p: "),
        ({"top_p": 1.5}, "top_p: "),
        ({"seed": -1}, "seed: "),
        ({"seed": 2**63}, "seed: "),
        ({"method": "magic"}, "method: "),
        ({"stop": ("",)}, "stop: a stop string is empty"),
        ({"nonsense": 1}, "nonsense: "),
    ],
    ids=str,
)
def test_a_bad_request_names_the_field(fields: dict[str, object], message: str) -> None:
    with pytest.raises(SlemError, match=message) as caught:
        Request.checked(**{"pair": "builtin", "prompt": "a"} | fields)
    assert "\n" not in str(caught.value)


def test_values_are_frozen() -> None:
    with pytest.raises(ValidationError):
        Token(id=1, text="a", bytes=b"a").id = 2


def test_every_reason_has_words() -> None:
    assert set(REASON_TEXT) == set(Reason)
