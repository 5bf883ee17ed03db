"""Fates and spans of rounds, against rounds drawn by hand; colours against the contrast that people need."""

from __future__ import annotations

import pytest

from slem_demo.engine.decode import slem
from slem_demo.engine.run import Prompts
from slem_demo.metrics import Tally
from slem_demo.trace import Request, RoundEvent, StopEvent
from slem_demo.views.fates import COMMITTED, LOOKS, Fate, css, fates
from slem_demo.views.live import Comparison, LiveWriter, compare, tiles
from tests.fakes import LONG, SHORT, TEXT, scripted_drafter, scripted_target
from tests.test_metrics import ROUNDS, round_event, tok, toks


def test_fates_of_a_mismatch_a_bonus_a_plain_step_a_cut_and_an_end_inside() -> None:
    mismatch, bonus, plain, cut, end = map(fates, ROUNDS)
    assert mismatch == ([Fate.ACCEPTED, Fate.REJECTED, Fate.UNREACHED], Fate.CORRECTION)
    assert bonus == ([Fate.ACCEPTED, Fate.ACCEPTED], Fate.BONUS)
    assert plain == ([], Fate.TARGET)
    assert cut == ([Fate.ACCEPTED, Fate.CUT], Fate.CORRECTION)
    assert end == ([Fate.ACCEPTED, Fate.ACCEPTED, Fate.UNREACHED], None)


@pytest.mark.parametrize("error_rate", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("limit", [13, 41, 400])
def test_committed_spans_join_to_the_text(error_rate: float, limit: int) -> None:
    prompt = "In"
    request = Request.checked(pair="fake", prompt=prompt, k=4, max_new_tokens=limit)
    target = scripted_target(SHORT, SHORT.encode(prompt), SHORT.encode("x" + TEXT)[2:])
    prompts = Prompts(SHORT.encode(prompt), LONG.encode(prompt))
    writer, written = LiveWriter(), ""
    for event in slem(target, scripted_drafter(LONG, prompt + TEXT, error_rate), prompts, request):
        if isinstance(event, RoundEvent):
            view = writer.round(event)
            assert len(view["spans"]) == len(event.candidate or ()) + (event.own is not None)
            written += "".join(span["text"] for span in view["spans"] if span["fate"] in COMMITTED)
        elif isinstance(event, StopEvent):
            tail = writer.tail(event)
            assert written + (tail["text"] if tail else "") == event.text


def test_a_split_character_belongs_to_the_token_that_completes_it() -> None:
    first, second = tok("é".encode()[:1]), tok("é".encode()[1:])
    view = LiveWriter().round(round_event(0, (), (first,), 1, second))
    assert [span["text"] for span in view["spans"]] == ["", "é"]


def test_a_round_without_a_proposal_says_why() -> None:
    assert LiveWriter().round(ROUNDS[2])["note"] == "the target's tokenizer has no token boundary where the draft begins"
    assert LiveWriter().round(ROUNDS[0])["note"] is None


def test_tiles_show_the_measures_and_dashes_before_there_are_any() -> None:
    assert [t["value"] for t in tiles(Tally().summary())] == ["–"] * 5
    tally = Tally()
    tally.add(round_event(0, toks(" a"), toks(" a"), 1, tok(" b"), verify_s=0.5))
    s = tally.summary()
    shown = {t["metric"]: t["value"] for t in tiles(s, Comparison(2, 2, 0.5, is_over=True))}
    assert shown == {
        "speedup": "0.50×",
        "draft_acceptance_rate": "100%",
        "mean_acceptance_length": "2.00",
        "bytes_per_target_pass": "4.0",
        "lossless": "2 = 2",
    }


def test_ids_are_compared_as_far_as_both_lanes_have_come() -> None:
    s = Tally().summary()
    assert compare(s, s, ([1, 2, 3, 4], [1, 2]), is_over=False).first_difference is None
    assert compare(s, s, ([1, 2, 3, 4], [1, 2]), is_over=False).n_compared == 2
    assert compare(s, s, ([1, 2, 3], [1, 9, 3, 4]), is_over=False).first_difference == 1


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("fate", Fate)
def test_every_fate_is_readable_and_has_a_cue_beyond_colour(fate: Fate) -> None:
    for ink, paper in (LOOKS[fate].light, LOOKS[fate].dark):
        high, low = sorted((luminance(ink), luminance(paper)), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 4.5
    assert LOOKS[fate].cue and f'[data-fate="{fate.value}"]' in css()


def test_cues_tell_fates_apart_without_colour() -> None:
    in_text = [f for f in Fate if f is not Fate.UNREACHED]  # hidden in the text unless asked for
    assert len({LOOKS[f].cue for f in in_text}) == len(in_text)
