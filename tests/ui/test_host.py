"""Limits, links and commands: what a host allows, and how settings travel."""

from __future__ import annotations

import shlex
from collections.abc import Generator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slem_demo.cli import options, parser
from slem_demo.engine.race import LaneEvent
from slem_demo.errors import SlemError
from slem_demo.trace import PrefillEvent, Request
from slem_demo.ui.command import command, settings_of_link
from slem_demo.ui.host import Limits, pairs_on_offer, threads


def request(**fields: object) -> Request:
    return Request.checked(**{"pair": "builtin", "prompt": "a"} | fields)


def test_limits_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Limits.from_environment() == Limits()
    monkeypatch.setenv("SLEM_MAX_NEW_TOKENS", "64")
    assert Limits.from_environment() == Limits(max_new_tokens=64)
    for bad in ("0", "-1", "many", "1.5", ""):
        monkeypatch.setenv("SLEM_MAX_NEW_TOKENS", bad)
        with pytest.raises(SlemError, match="SLEM_MAX_NEW_TOKENS must be a positive whole number"):
            Limits.from_environment()


def test_pairs_on_offer_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pairs_on_offer() == ["builtin"]
    monkeypatch.setenv("SLEM_PAIRS", " builtin-target::builtin-target , builtin,")
    assert pairs_on_offer() == ["builtin-target::builtin-target", "builtin"]
    monkeypatch.setenv("SLEM_PAIRS", "")
    assert pairs_on_offer() == ["builtin"]


def test_one_core_is_left_for_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(4)))
    assert threads() == 3
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    assert threads() == 1
    monkeypatch.setenv("SLEM_THREADS", "2")
    assert threads() == 2
    monkeypatch.setenv("SLEM_THREADS", "0")
    with pytest.raises(SlemError, match="SLEM_THREADS must be a positive whole number"):
        threads()


def test_a_link_names_only_pairs_that_are_on_offer() -> None:
    assert settings_of_link({"pair": "b"}, ["a", "b"]) == {"pair": "b"}
    assert settings_of_link({"pair": "org/other::org/one"}, ["a", "b"]) == {}


def test_what_is_larger_than_the_host_allows_is_refused() -> None:
    limits = Limits(max_prompt_chars=10, max_new_tokens=5)
    limits.check(request(prompt="a" * 10, max_new_tokens=5))
    with pytest.raises(SlemError, match="11 characters; this host allows 10"):
        limits.check(request(prompt="a" * 11, max_new_tokens=5))
    with pytest.raises(SlemError, match="6 new tokens were asked for; this host allows 5"):
        limits.check(request(max_new_tokens=6))


def test_a_run_is_ended_when_its_lanes_have_used_the_hosts_time() -> None:
    closed = []

    def events() -> Generator[LaneEvent, None, None]:
        prefill = PrefillEvent(target_prompt_ids=(1,), draft_prompt_ids=None, target_s=0, draft_s=None)
        try:
            for i in range(100):
                yield LaneEvent("slem", prefill, float(i))
                yield LaneEvent("target", prefill, float(i))
        finally:
            closed.append(True)

    seen: list[LaneEvent] = []
    with pytest.raises(SlemError, match="ended after 10 s"):
        seen.extend(Limits(max_seconds=10).within_time(events()))
    assert seen[-1].clock_s == 6.0, "6 s in one lane and 5 s in the other"
    assert closed == [True]


settings = st.fixed_dictionaries(
    {
        "prompt": st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00\r"), min_size=1).filter(str.strip),
        "k": st.integers(0, 64),
        "max_new_tokens": st.integers(1, 8192),
        "temperature": st.sampled_from([0.0, 0.1, 0.7, 1.0, 2.0]),
        "top_k": st.none() | st.integers(1, 500),
        "top_p": st.none() | st.sampled_from([0.05, 0.9, 1.0]),
        "seed": st.integers(0, 2**63 - 1),
    }
)


@given(settings)
@example({"prompt": "--k 'x' $(ls) `a` -p"})
def test_the_command_repeats_the_run(fields: dict[str, object]) -> None:
    wanted = request(**fields)
    args = parser().parse_args(shlex.split(command(wanted))[3:])
    assert Request.checked(pair=args.pair, prompt=args.prompt, **options.settings(args)) == wanted


@given(settings)
def test_a_link_restores_what_was_set(fields: dict[str, object]) -> None:
    query = {name: str(value) for name, value in fields.items() if value is not None}
    assert settings_of_link(query, ["builtin"]) == {name: value for name, value in fields.items() if value is not None}


def test_a_bad_link_changes_nothing() -> None:
    query = {"k": "-3", "temperature": "hot", "seed": "1e9", "top_p": "7", "prompt": " ", "evil": "<script>", "max_new_tokens": "999999999"}
    assert settings_of_link(query, ["builtin"]) == {}
