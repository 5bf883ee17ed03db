"""transformers' own methods as comparators: the same ids, rounds from what it shows, and nothing claimed that it does not show."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict

import pytest
from transformers import GenerationConfig

import slem_demo
from slem_demo.errors import SlemError
from slem_demo.metrics import UNKNOWN_COUNTS, UNKNOWN_TIMES, event_lines, summarise
from slem_demo.models.generate import generate
from slem_demo.models.loading import Pair, Placement, load_pair
from slem_demo.trace import Event, PrefillEvent, Request, RoundEvent, StopEvent, Trace

PROMPTS = ["And God said", "Now there was a certain man", "naïve 日本 😀"]


def run(pair: Pair, prompt: str, **settings: object) -> list[Event]:
    return list(slem_demo.decode(pair, prompt, **({"max_new_tokens": 40} | settings)))


def ids_of(events: list[Event]) -> tuple[int, ...]:
    stop = events[-1]
    assert isinstance(stop, StopEvent)
    assert stop.output_ids == tuple(t.id for e in events if isinstance(e, RoundEvent) for t in e.committed)
    assert stop.text == "".join(e.text for e in events if isinstance(e, RoundEvent)) + stop.tail
    return stop.output_ids


@pytest.mark.parametrize("prompt", PROMPTS)
def test_all_methods_write_the_same_ids(builtin: Pair, prompt: str) -> None:
    wanted = ids_of(run(builtin, prompt, method="target"))
    for method in ("slem", "hf", "generate"):
        assert ids_of(run(builtin, prompt, method=method)) == wanted, method


@pytest.mark.parametrize("method", ["hf", "generate"])
@pytest.mark.parametrize("settings", [{"stop": ["the"]}, {"max_new_tokens": 1}, {"max_new_tokens": 3}, {"k": 9}])
def test_they_stop_where_the_engine_does(builtin: Pair, method: str, settings: dict[str, object]) -> None:
    a, b = run(builtin, "And God said", **settings)[-1], run(builtin, "And God said", method=method, **settings)[-1]
    assert isinstance(a, StopEvent) and isinstance(b, StopEvent)
    assert (a.output_ids, a.text, a.reason) == (b.output_ids, b.text, b.reason)


def test_rounds_of_hf_hold_what_it_shows_and_nothing_else(builtin: Pair) -> None:
    events = run(builtin, "And God said", method="hf")
    rounds = [e for e in events if isinstance(e, RoundEvent)]
    assert isinstance(events[0], PrefillEvent) and events[0].target_s is None and events[0].draft_prompt_ids is None
    assert 1 < len(rounds) < 40, "several ids a round"
    assert all((r.draft, r.draft_text, r.candidate, r.draft_s, r.retokenise_s, r.verify_s) == (None,) * 6 for r in rounds)
    assert sum(r.n_accepted for r in rounds) + len(rounds) == 40
    trace = builtin.trace(Request.checked(pair="builtin", prompt="And God said", method="hf")).with_events(events)
    assert trace.draft == builtin.draft.info, "not in eight bits"
    assert Trace.from_json(trace.to_json()) == trace
    measures = asdict(summarise(trace))
    assert all(measures[name] is None for name in (*UNKNOWN_COUNTS, *UNKNOWN_TIMES))
    assert measures["num_accepted_tokens"] == 40 - len(rounds) and measures["mean_acceptance_length"] == 40 / len(rounds)
    assert list(event_lines(events))[1]["candidate"] is None


def test_rounds_of_generate_are_plain_steps(builtin: Pair) -> None:
    measures = summarise(builtin.trace(Request.checked(pair="builtin", prompt="a")).with_events(run(builtin, "And God", method="generate")))
    assert (measures.num_rounds, measures.num_output_tokens, measures.num_candidate_tokens, measures.verify_s) == (40, 40, 0, None)


def test_the_models_settings_are_left_alone(builtin: Pair) -> None:
    before = builtin.draft.lm.generation_config.to_dict()
    run(builtin, "And God said", method="hf", k=7)
    assert builtin.draft.lm.generation_config.to_dict() == before
    assert builtin.draft.lm.get_output_embeddings().weight.shape[0] == builtin.draft.lm.config.vocab_size


def test_a_models_own_settings_for_generate_do_not_change_its_choices(builtin: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ids_of(run(builtin, "And God said", method="target"))
    for lm in (builtin.target.lm, builtin.draft.lm):
        own = GenerationConfig(
            repetition_penalty=1.9, do_sample=True, temperature=0.6, top_k=64, no_repeat_ngram_size=2, suppress_tokens=[5]
        )
        monkeypatch.setattr(lm, "generation_config", own)
    for method in ("hf", "generate"):
        assert ids_of(run(builtin, "And God said", method=method)) == wanted
    assert generate(builtin, Request.checked(pair="builtin", prompt="And God said", max_new_tokens=40))[0] == list(wanted)


def test_an_abandoned_run_ends_its_thread(builtin: Pair) -> None:
    before = threading.active_count()
    events = slem_demo.decode(builtin, "And God said", method="hf", max_new_tokens=512)
    for _ in range(3):
        next(events)
    events.close()
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "hf", "temperature": 0.5}, "hf is a greedy comparator"),
        ({"method": "generate", "temperature": 0.5}, "generate is a greedy comparator"),
        ({"method": "hf", "k": 0}, "a fixed number of tokens"),
        ({"method": "hf", "k": "auto"}, "a fixed number of tokens"),
    ],
)
def test_what_they_cannot_do_is_said(builtin: Pair, settings: dict[str, object], message: str) -> None:
    with pytest.raises(SlemError, match=message):
        run(builtin, "And God said", **settings)


def test_a_pair_that_transformers_refuses_is_refused_in_one_sentence(builtin: Pair) -> None:
    target, draft = builtin.target.lm.config, builtin.draft.lm.config
    other = load_pair("builtin-target::builtin-draft", Placement("cpu", "float32"))
    other.draft.lm.config.vocab_size = target.vocab_size
    try:
        with pytest.raises(SlemError, match="transformers refuses this run"):
            run(other, "And God said", method="hf")
    finally:
        other.draft.lm.config.vocab_size = draft.vocab_size
