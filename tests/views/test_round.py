"""A round as a picture, against rounds drawn by hand, and laws that hold for any round."""

from __future__ import annotations

from itertools import pairwise

import pytest

from slem_demo.engine.decode import slem
from slem_demo.engine.run import Prompts
from slem_demo.trace import Alternative, Position, Reason, Request, RoundEvent
from slem_demo.views.round import Ruler, picture, pictures
from tests.fakes import LONG, SHORT, TEXT, scripted_drafter, scripted_target
from tests.test_metrics import ROUNDS, round_event, tok, toks

MISMATCH, BONUS, PLAIN, CUT, END = ROUNDS


def spans(blocks: list) -> list[tuple[str, str, float, float]]:  # type: ignore[type-arg]
    return [(b["text"], b["fate"], b["start"], b["end"]) for b in blocks]


def test_a_mismatch_inside_a_token_of_both() -> None:
    p = picture(MISMATCH)
    assert "".join(p["columns"]) == " the landscape"
    assert spans(p["draft"]) == [
        (" th", "accepted", 0, 3),
        ("e", "accepted", 3, 4),
        (" land", "rejected", 4, 9),
        ("scape", "unreached", 9, 14),
    ]
    assert spans(p["candidate"]) == [(" the", "accepted", 0, 4), (" landsca", "rejected", 4, 12), ("pe", "unreached", 12, 14)]
    assert p["own"] is not None
    assert spans([p["own"]]) == [(" earth", "correction", 4, 10)]
    assert p["parts_at"] == 5
    assert p["sentence"] == ("The draft wrote “ the landscape”, 3 tokens for the target. It kept “ the” and chose “ earth” for “ landsca”.")
    assert p["phases"] == [{"name": "draft", "seconds": 0.2}, {"name": "re-tokenise", "seconds": 0.1}, {"name": "verify", "seconds": 0.5}]


def test_a_mismatch_at_a_boundary() -> None:
    p = picture(round_event(0, toks("a", "b"), toks("a", "b"), 1, tok("x")))
    assert p["parts_at"] == 1
    assert p["sentence"] == "The draft wrote “ab”, 2 tokens for the target. It kept “a” and chose “x” for “b”."
    assert [b["fate"] for b in p["draft"]] == ["accepted", "rejected"]


def test_a_bonus_stands_behind_the_string() -> None:
    p = picture(BONUS)
    assert p["own"] is not None
    assert spans([p["own"]]) == [(" the", "bonus", 4, 8)]
    assert p["parts_at"] is None
    assert p["sentence"].endswith("All are its own choices, and the same pass gave one more: “ the”.")


def test_a_plain_step_says_why() -> None:
    p = picture(PLAIN)
    assert (p["columns"], p["draft"], p["candidate"]) == ([], [], [])
    assert p["sentence"] == (
        "Nothing was proposed: the target's tokenizer has no token boundary where the draft begins. The target wrote “é”."
    )


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_its_sentence(reason: Reason) -> None:
    r = RoundEvent(round=0, n_accepted=0, own=tok("x"), text="x", reason=reason, round_s=0.1)
    assert picture(r)["sentence"].startswith("Nothing was proposed: ")


def test_a_cut_part_agrees_as_text() -> None:
    p = picture(CUT)
    assert [b["fate"] for b in p["draft"]] == ["accepted", "accepted"]
    assert [b["fate"] for b in p["candidate"]] == ["accepted", "cut"]
    assert p["parts_at"] == 8
    assert p["sentence"].endswith("The last, “ lan”, is only the beginning of its own “ land”: the draft ended there.")


def test_a_run_that_ends_inside_leaves_the_rest_unreached() -> None:
    p = picture(END)
    assert [b["fate"] for b in p["draft"]] == ["accepted", "accepted", "unreached"]
    assert p["own"] is None
    assert p["sentence"].endswith("The run ended inside the 2 that it accepted.")


def test_an_end_token_has_no_width_and_a_name() -> None:
    p = picture(round_event(0, (*toks("a"), tok("")), (*toks("a"), tok("")), 1, tok("b")))
    assert spans(p["candidate"])[1] == ("", "rejected", 1, 1)
    assert "chose “b” for its end token" in p["sentence"]


def test_a_refused_end_token_is_refused_in_the_draft_too() -> None:
    p = picture(round_event(0, (*toks("a"), tok("")), (*toks("a"), tok("")), 1, tok("b")))
    assert [b["fate"] for b in p["draft"]] == ["accepted", "rejected"]
    p = picture(round_event(0, (*toks("a"), tok("")), (*toks("a"), tok("")), 2, None))
    assert [b["fate"] for b in p["draft"]] == ["accepted", "accepted"]


@pytest.mark.parametrize(
    ("refused", "own", "end"),
    [
        ("の", "は", "chose “は” for “の”."),  # two bytes of three are the same, which says nothing of the characters
        ("é".encode()[:1], "e", "chose “e” for bytes c3."),
        ("の".encode()[:2] + b"\xaf", "は".encode()[:2], "chose bytes e3 81 for “は”: they part inside a character."),
        ("\n\tx", "\ty", "chose “⇥y” for “⏎⇥x”."),
        ("مر", "مب", "chose “\u2068مب\u2069” for “\u2068مر\u2069”: the same up to “\u2068م\u2069”, so they part inside a token."),
    ],
)
def test_a_sentence_can_be_read_whatever_the_tokens_are(refused: str | bytes, own: str, end: str) -> None:
    assert picture(round_event(0, toks("a"), (tok(refused), tok("z")), 0, tok(own)))["sentence"].endswith(end)


def test_a_method_that_shows_no_candidates_shows_what_was_accepted() -> None:
    r = RoundEvent(
        round=0, draft=None, draft_text=None, candidate=None, accepted=toks("a", "b"), n_accepted=2, own=tok("c"), text="", round_s=1
    )
    p = picture(r)
    assert spans(p["candidate"]) == [("a", "accepted", 0, 1), ("b", "accepted", 1, 2)]
    assert p["sentence"] == "2 tokens of the draft accepted; this method does not show what it sent."


def test_a_token_that_splits_a_character_ends_inside_its_column() -> None:
    data = "é".encode()
    p = picture(round_event(0, (tok(data),), (tok(data[:1]), tok(data[1:])), 2, tok("!")))
    assert [(b["start"], b["end"]) for b in p["candidate"]] == [(0, 0.5), (0.5, 1)]


def test_a_draft_repeats_the_bytes_that_wait_and_candidates_follow_them() -> None:
    data = "é".encode()
    first = round_event(0, (), (tok(data[:1]),), 1, None)
    second = round_event(1, (tok(data), tok("x")), (tok(data[1:]), tok("x")), 2, tok("y"))
    p = pictures([first, second])[1]
    assert [(b["start"], b["end"]) for b in p["draft"]] == [(0, 1), (1, 2)]
    assert [(b["start"], b["end"]) for b in p["candidate"]] == [(0.5, 1), (1, 2)]


@pytest.mark.parametrize("text", ["", "abc", "é日😀", "مرحبا", "e\u0301"])
def test_a_ruler_counts_characters(text: str) -> None:
    data = text.encode()
    ruler = Ruler(data)
    places = [len(text[:i].encode()) for i in range(len(text) + 1)]
    assert [ruler.column(place) for place in places] == list(range(len(text) + 1))
    assert ruler.column(len(data) + 3) == len(text)


def test_a_ruler_counts_what_is_no_text_as_replacement_characters() -> None:
    for data in (b"\xff\xfe", b"a\xe6\x97", b"\xe6a", b"\x80"):
        ruler = Ruler(data)
        assert ruler.column(len(data)) == len(ruler.text) == len(data.decode("utf-8", "replace"))


def test_the_choices_are_the_targets_best_and_the_candidate_wherever_it_ranked() -> None:
    best = [Alternative(token=tok(" earth", 7), probability=0.62), Alternative(token=tok(" sea", 8), probability=0.15)]
    at = Position(candidate_probability=0.06, alternatives=tuple(best))
    r = round_event(0, toks(" a"), (tok(" land", 9),), 0, tok(" earth", 7), positions=(at,))
    assert [(c["text"], c["probability"], c["role"]) for c in picture(r)["choices"]] == [
        (" earth", 0.62, "chosen"),
        (" sea", 0.15, ""),
        (" land", 0.06, "candidate"),
    ]
    assert picture(MISMATCH)["choices"] == []


@pytest.mark.parametrize("error_rate", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(("target", "drafter"), [(LONG, SHORT), (SHORT, LONG)], ids=["long target", "short target"])
def test_in_any_round_tokens_stand_side_by_side_and_what_was_kept_is_the_string(target, drafter, error_rate: float) -> None:  # type: ignore[no-untyped-def]
    prompt = "In"
    request = Request.checked(pair="fake", prompt=prompt, k=5, max_new_tokens=200)
    prompts = Prompts(target.encode(prompt), drafter.encode(prompt))
    models = scripted_target(target, prompts.target_ids, target.encode(TEXT)), scripted_drafter(drafter, prompt + TEXT, error_rate)
    rounds = [e for e in slem(*models, prompts, request) if isinstance(e, RoundEvent)]
    assert len(rounds) > 5
    for r, p in zip(rounds, pictures(rounds), strict=True):
        for blocks in (p["draft"], p["candidate"]):
            assert all(a["end"] == b["start"] and a["start"] <= a["end"] for a, b in pairwise(blocks))
            assert all(b["end"] <= len(p["columns"]) for b in blocks)
        if p["draft"]:
            assert p["draft"][0]["start"] == 0
        kept = [b for b in p["candidate"] if b["fate"] == "accepted"]
        assert len(kept) == r.n_accepted
        if p["own"] and kept:
            assert p["own"]["start"] == kept[-1]["end"]
