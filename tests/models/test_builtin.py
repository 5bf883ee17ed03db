"""The built-in pair: really two tokenizers, small files, and SLEM's ids equal to target-only decoding's, greedy and sampled."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter

import pytest

import slem_demo
from slem_demo.models.builtin.card import card_text
from slem_demo.models.builtin.corpus import load_prompts
from slem_demo.models.loading import Pair
from slem_demo.models.pairs import ASSETS
from slem_demo.trace import Event, Request, RoundEvent, StopEvent

FOLDER = ASSETS / "builtin"
PROMPTS = load_prompts()
OTHERS = ["Once upon a time there was", "def fibonacci(n):\n    ", "日本語のテキスト", "😀👍🏽 and the  king\n\n"]


def run(pair: Pair, prompt: str, **settings: object) -> list[Event]:
    return list(slem_demo.decode(pair, prompt, **settings))


def ids(events: list[Event]) -> tuple[int, ...]:
    assert isinstance(events[-1], StopEvent)
    return events[-1].output_ids


@pytest.mark.parametrize("filters", [{}, {"top_k": 40}, {"top_p": 0.9}], ids=str)
@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_slem_equals_target_on_twenty_prompts(builtin: Pair, temperature: float, filters: dict[str, object]) -> None:
    for seed, prompt in enumerate(PROMPTS + OTHERS):
        settings = {"temperature": temperature, "seed": seed, "max_new_tokens": 24, **filters}
        wanted = ids(run(builtin, prompt, method="target", **settings))
        assert ids(run(builtin, prompt, k=4, **settings)) == wanted, prompt


@pytest.mark.parametrize("k", [0, 1, 2, 8, 16])
def test_every_k_writes_the_same_ids(builtin: Pair, k: int) -> None:
    wanted = ids(run(builtin, PROMPTS[0], method="target", max_new_tokens=60))
    assert ids(run(builtin, PROMPTS[0], k=k, max_new_tokens=60)) == wanted


def test_text_is_the_tokenizers_decoding_of_all_ids(builtin: Pair) -> None:
    for prompt in OTHERS:
        stop = run(builtin, prompt, max_new_tokens=40, temperature=1.5, seed=4)[-1]
        assert isinstance(stop, StopEvent)
        assert stop.text == builtin.target.codec.tokenizer.decode(stop.output_ids, skip_special_tokens=True)


def test_a_seed_repeats_and_another_differs(builtin: Pair) -> None:
    runs = [ids(run(builtin, "And God said", temperature=1.0, seed=s, max_new_tokens=30)) for s in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_the_drafter_really_helps_and_speaks_another_vocabulary(builtin: Pair) -> None:
    assert not builtin.has_one_tokenizer
    assert builtin.target.info.vocab_size != builtin.draft.info.vocab_size
    rounds = [e for p in PROMPTS[:8] for e in run(builtin, p, k=4, max_new_tokens=64) if isinstance(e, RoundEvent)]
    n_tokens = sum(len(r.committed) for r in rounds)
    assert n_tokens / len(rounds) > 2.0
    misaligned = [r for r in rounds if r.candidate and r.draft and [t.bytes for t in r.draft] != [t.bytes for t in r.candidate]]
    assert len(misaligned) > 0.1 * len(rounds)


def test_files_are_small_and_are_those_of_the_card() -> None:
    card = json.loads((FOLDER / "card.json").read_text())
    files = [p for p in FOLDER.rglob("*") if p.is_file()]
    assert max(p.stat().st_size for p in files) < 10e6
    assert sum(p.stat().st_size for p in files) < 30e6
    for name in ("target", "draft"):
        digest = hashlib.sha256((FOLDER / name / "model.safetensors").read_bytes()).hexdigest()
        assert digest == card[name]["weights_sha256"]
    assert card["target"]["held_out_bits_per_character"] < 1.5
    assert (FOLDER / "README.md").read_text() == card_text(card)
    for name, digest in card["data"].items():
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == digest


def test_a_run_of_a_thousand_tokens_keeps_text_and_ids_in_step(builtin: Pair) -> None:
    events = run(builtin, PROMPTS[0], k=4, max_new_tokens=1000)
    rounds = [e for e in events if isinstance(e, RoundEvent)]
    stop = events[-1]
    assert isinstance(stop, StopEvent)
    assert "".join(r.text for r in rounds) + stop.tail == stop.text
    assert tuple(t.id for r in rounds for t in r.committed) == stop.output_ids
    assert not {r.reason for r in rounds} - {None, rounds[-1].reason}, "the draft never falls silent"


def test_a_clock_that_stands_still_changes_nothing(builtin: Pair) -> None:
    request = Request.checked(pair="builtin", prompt="And God said", max_new_tokens=12)
    assert ids(list(builtin.decode(request, clock=lambda: 0.0))) == ids(list(builtin.decode(request, clock=time.perf_counter)))


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_with_the_targets_dice_the_draft_is_accepted_more_often_and_the_ids_stay_the_same(builtin: Pair, temperature: float) -> None:
    accepted, written = {}, []
    for noise in ("shared", "greedy", "independent"):
        totals = Counter[str]()
        for seed, prompt in enumerate(load_prompts()[:6]):
            settings = {"temperature": temperature, "seed": seed, "max_new_tokens": 48, "k": 5}
            request = Request.checked(pair="builtin", prompt=prompt, draft_noise=noise, **settings)
            trace = builtin.trace(request).with_events(builtin.decode(request))
            totals.update(rounds=len(trace.rounds), accepted=sum(r.n_accepted for r in trace.rounds))
            written.append((seed, trace.output_ids))
        accepted[noise] = totals["accepted"] / totals["rounds"]
    assert len(set(written)) == 6, "one text a prompt, whatever the noise"
    assert accepted["shared"] > 1.4 * max(accepted["greedy"], accepted["independent"])
