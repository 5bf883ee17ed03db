"""A run in words: every number is of the run."""

from __future__ import annotations

from slem_demo.metrics import Tally, summarise
from slem_demo.views.live import Comparison
from slem_demo.views.words import GLOSSARY, PAPER, caption, settings, story
from tests.test_metrics import PREFILL, ROUNDS, STOP
from tests.traces import trace_of

TRACE = trace_of([PREFILL, *ROUNDS, STOP])
SUMMARY = summarise(TRACE)


def test_before_a_run_it_says_what_will_be_seen() -> None:
    found = story(Tally().summary())
    assert found[-1] == PAPER and not any(character.isdigit() for character in found[0])


def test_after_a_run_it_speaks_of_that_run() -> None:
    """Five rounds: 11 draft tokens, 10 candidates, 6 accepted, 10 ids; passes 4 · 0.5 + 0.25 s, draft 4 · 0.2 s."""
    race = Comparison(n_compared=10, n_equal=10, speedup=1.5, is_over=True)
    drafted, rounds, times, speed, lossless, _ = story(SUMMARY, race)
    assert "wrote 11 tokens" in drafted and "10 candidates" in drafted and "accepted 6 of them" in drafted
    assert rounds.startswith("10 tokens came out of 5 rounds") and "acceptance length of 2.00" in rounds
    assert "450.0 ms" in times and "72.73 ms" in times
    assert "1.50 times its speed" in speed
    assert "all of the 10 ids" in lossless


def test_what_is_slower_or_unequal_or_unchecked_is_said_as_plainly() -> None:
    slow = story(SUMMARY, Comparison(10, 10, 0.5, is_over=True))
    assert any("0.50 times its speed, so drafting cost time here" in line for line in slow)
    assert any(line.startswith("Not lossless: id 4 ") for line in story(SUMMARY, Comparison(10, 3, 1.0, is_over=True)))
    assert any("was not checked in this run" in line for line in story(SUMMARY))
    plain = summarise(trace_of([ROUNDS[2]], method="target"))
    assert story(plain)[0] == "1 token came out of 1 round. Nothing was proposed, so each round is one plain target pass."


def test_the_caption_names_models_settings_and_machine() -> None:
    found = caption(trace_of([], temperature=0.7, top_p=0.9, seed=5, chat=True, k="auto"))
    assert found == (
        "Target fake (tests); draft fake (tests). Method slem, K auto, temperature 0.7, seed 5, the draft's dice shared, top-p 0.9, "
        "as a conversation, at most 128 tokens. test; cpu, float32, 1 thread."
    )
    assert "greedy" in settings(trace_of([]).request)


def test_the_glossary_explains_words_that_are_used() -> None:
    told = " ".join([*story(Tally().summary()), *story(SUMMARY, Comparison(10, 10, 1.5, is_over=True))])
    assert [term for term in GLOSSARY if term not in told] == []
