"""Measures against values worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from slem_demo.metrics import event_lines, is_cut, median_interval, repeated_share, summarise
from slem_demo.trace import PrefillEvent, Reason, RoundEvent, StopEvent, StopReason, Token, n_accepted_draft
from tests.traces import trace_of


def tok(data: str | bytes, token_id: int = 1) -> Token:
    raw = data.encode() if isinstance(data, str) else data
    return Token(id=token_id, text=raw.decode("utf-8", "replace"), bytes=raw)


def toks(*data: str) -> tuple[Token, ...]:
    return tuple(tok(d) for d in data)


def round_event(i: int, draft: tuple[Token, ...], candidate: tuple[Token, ...], n: int, own: Token | None, **times: Any) -> RoundEvent:
    return RoundEvent(round=i, draft=draft, candidate=candidate, n_accepted=n, own=own, text="", **({"round_s": 1.0} | times))


# round 0: 3 candidates, 1 accepted, then a correction;  round 1: 2 of 2 and a bonus;  round 2: a plain step;
# round 3: a last candidate " lan" cut from " land";  round 4: 2 accepted, the end inside them.
ROUNDS = (
    round_event(
        0, toks(" th", "e", " land", "scape"), toks(" the", " landsca", "pe"), 1, tok(" earth"), draft_s=0.2, retokenise_s=0.1, verify_s=0.5
    ),
    round_event(1, toks(" a", "nd"), toks(" a", "nd"), 2, tok(" the"), draft_s=0.2, retokenise_s=0.1, verify_s=0.5),
    RoundEvent(round=2, n_accepted=0, own=tok("é"), text="", reason=Reason.NO_BOUNDARY, verify_s=0.25, round_s=0.3),
    round_event(3, toks(" the", " lan"), toks(" the", " lan"), 1, tok(" land"), draft_s=0.2, retokenise_s=0.1, verify_s=0.5),
    round_event(4, toks("a", "b", "c"), toks("a", "b", "c"), 2, None, draft_s=0.2, retokenise_s=0.1, verify_s=0.5),
)
PREFILL = PrefillEvent(target_prompt_ids=(1, 2), draft_prompt_ids=(3,), target_s=0.4, draft_s=0.1)
STOP = StopEvent(reason=StopReason.LENGTH, output_ids=(1,) * 10, text="", tail="")


def test_a_run_worked_out_by_hand() -> None:
    s = summarise(trace_of([PREFILL, *ROUNDS, STOP]))
    assert s.num_rounds == 5
    assert s.num_output_tokens == 2 + 3 + 1 + 2 + 2
    assert s.num_draft_tokens == 4 + 2 + 2 + 3
    assert s.num_accepted_draft_tokens == 2 + 2 + 1 + 2
    assert s.num_candidate_tokens == 3 + 2 + 0 + 2 + 3
    assert s.num_accepted_tokens == 1 + 2 + 0 + 1 + 2
    assert s.num_accepted_bytes == 4 + 4 + 0 + 4 + 2
    assert s.num_tested_tokens == 6 + 2, "mismatches in rounds 0 and 3"
    assert s.num_cut_tokens == 1
    assert s.draft_acceptance_rate == pytest.approx(6 / 10)
    assert s.tested_acceptance_rate == pytest.approx(6 / 8)
    assert s.mean_acceptance_length == pytest.approx(10 / 5)
    assert s.acceptance_histogram == [1, 2, 2]
    assert s.acceptance_by_position == pytest.approx([4 / 4, 2 / 4, 0 / 2])
    assert s.num_output_bytes == (4 + 6) + (2 + 2 + 4) + 2 + (4 + 5) + 2
    assert s.bytes_per_target_pass == pytest.approx(31 / 5)
    assert (s.draft_s, s.retokenise_s, s.verify_s) == pytest.approx((0.8, 0.4, 2.25))
    assert s.other_s == pytest.approx(4.3 - 0.8 - 0.4 - 2.25)
    assert s.seconds == pytest.approx(4.3 + 0.5)
    assert s.tokens_per_second == pytest.approx(10 / 4.8)


def test_identities() -> None:
    s = summarise(trace_of([PREFILL, *ROUNDS, STOP]))
    assert sum(s.acceptance_histogram) == s.num_rounds
    assert sum(i * n for i, n in enumerate(s.acceptance_histogram)) == s.num_accepted_tokens
    assert s.num_accepted_tokens + sum(r.own is not None for r in ROUNDS) == s.num_output_tokens


def test_an_empty_run_has_no_rates() -> None:
    s = summarise(trace_of([]))
    assert (s.num_rounds, s.acceptance_histogram, s.acceptance_by_position) == (0, [], [])
    assert (s.draft_acceptance_rate, s.mean_acceptance_length, s.tokens_per_second, s.target_prefill_s) == (None,) * 4


def test_a_refused_end_token_is_not_cut() -> None:
    assert is_cut(ROUNDS[3])
    assert not is_cut(round_event(0, (), toks("a", ""), 1, tok("b")))


def test_draft_tokens_count_when_all_their_bytes_were_accepted() -> None:
    assert n_accepted_draft(ROUNDS[0], 0) == 2
    begun = round_event(0, (tok("👍"), tok("!")), (tok("👍".encode()[2:]), tok("?")), 1, tok("x"))
    assert n_accepted_draft(begun, n_pending=2) == 1, "the draft repeats the two bytes that were there"
    assert n_accepted_draft(begun, n_pending=0) == 0


def test_only_a_last_candidate_that_begins_the_targets_own_is_cut() -> None:
    assert [is_cut(r) for r in ROUNDS] == [False, False, False, True, False]
    assert not is_cut(round_event(0, (), toks(" lan", "d"), 0, tok(" land"))), "not the last candidate"
    assert not is_cut(round_event(0, (), toks(" land"), 0, tok(" land", token_id=2))), "the same bytes are no proper beginning"


def test_the_stop_line_carries_the_measures() -> None:
    lines = list(event_lines([PREFILL, *ROUNDS, STOP]))
    assert [line["event"] for line in lines] == ["prefill", *["round"] * 5, "stop"]
    assert lines[-1]["metrics"]["num_accepted_tokens"] == 6  # type: ignore[index]
    assert "metrics" not in lines[1]


def test_repeated_share() -> None:
    assert repeated_share(list(range(50))) == 0
    assert repeated_share([1, 2, 3, 4] * 10) == pytest.approx(1 - 4 / 33)
    assert repeated_share([1]) == 0


def test_an_interval_holds_its_median_and_narrows_with_data() -> None:
    few, many = median_interval([1.0, 1.2, 1.4, 1.6]), median_interval([1.0, 1.2, 1.4, 1.6] * 20)
    assert few.low <= few.median <= few.high
    assert many.high - many.low < few.high - few.low
    assert median_interval([1.5]) == median_interval([1.5, 1.5]).__class__(1.5, 1.5, 1.5, 1)
