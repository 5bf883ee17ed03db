"""The walkthrough's lessons: what they claim is what their traces hold, and every number is the trace's."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from slem_demo.metrics import summarise
from slem_demo.trace import Alternative, Method, Position, Reason, RoundEvent, StopEvent, StopReason, Token, Trace
from slem_demo.views.lessons.lesson import LESSON_PARTS, Definition, Lesson, lesson, load_lessons, scene
from slem_demo.views.lessons.questions import QUESTIONS
from slem_demo.views.lessons.scene import Ending, Scene, predicted_speedup, prices, speedup, speedups_by_k
from tests.record_lessons import COMMON, DICE, LESSONS, ONCE, TIMED
from tests.test_metrics import PREFILL, ROUNDS, STOP, round_event, tok, toks
from tests.traces import trace_of

ROOT = Path(__file__).resolve().parents[2]
DEFINITIONS: list[Definition] = json.loads((LESSONS / "lessons.json").read_text(encoding="utf-8"))
TRACES = {path.stem: Trace.from_json(path.read_bytes()) for path in LESSONS.glob("*.json") if path.name != "lessons.json"}
SCENES = {d["name"]: scene(d, TRACES) for d in DEFINITIONS}
STORED = {found["name"]: found for found in load_lessons(LESSONS)}
ASKED = ["own_vocabulary", "is_m_k", "plus_one", "how_sure", "what_is_compared", "gain"]


def by_hand(index: int, trace: Trace, asked: list[str] | None = None, beside: dict[str, Trace] | None = None, runs: int = 1) -> Lesson:
    """A lesson on a round that was made up."""
    d = Definition(
        name="n", title="t", about="a", trace="here", round=index, questions=asked or ASKED, beside=list(beside or {}), runs=runs
    )
    return lesson(d, {"here": trace} | (beside or {}))


# What is stored.


@pytest.mark.parametrize("name", STORED)
def test_every_lesson_has_six_steps_with_something_to_say_in_each(name: str) -> None:
    found = STORED[name]
    assert [step["title"][:4] for step in found["steps"]] == ["1 · ", "2 · ", "3 · ", "4 · ", "5 · ", "6 · "]
    for step in found["steps"]:
        assert all(step[key] for key in ("line", "text", "question", "answer"))
        assert step["question"].endswith("?")
        assert "\n" not in step["line"]
        assert set(step["lit"]) <= set(LESSON_PARTS)
    assert all(found[key] for key in ("title", "about", "caption", "before", "facts"))


def test_lessons_are_plain_data_and_named_once() -> None:
    names = [d["name"] for d in DEFINITIONS]
    assert len(set(names)) == len(names) >= 5
    assert json.loads(json.dumps(list(STORED.values()))) == list(STORED.values())
    assert {name for d in DEFINITIONS for name in (d["trace"], *d.get("beside", []))} == set(TRACES)


def test_every_question_is_asked_and_none_twice_in_a_lesson() -> None:
    assert {q for d in DEFINITIONS for q in d["questions"]} == set(QUESTIONS)
    assert all(len(set(d["questions"])) == 6 for d in DEFINITIONS)


def test_the_files_stay_small() -> None:
    sizes = [path.stat().st_size for path in LESSONS.iterdir()]
    assert sum(sizes) < 1_500_000
    assert max(sizes) < 150_000


def test_traces_are_finished_and_are_what_the_recorder_asks_for() -> None:
    asked = ONCE | DICE | TIMED
    assert set(asked) == set(TRACES)
    for name, trace in TRACES.items():
        assert trace.stop is not None
        assert {key: getattr(trace.request, key) for key in COMMON | asked[name]} == COMMON | asked[name]
        assert trace.request.max_new_tokens <= 48


@pytest.mark.parametrize(
    ("name", "ending"),
    [
        ("all-accepted", Ending.BONUS),
        ("at-a-boundary", Ending.BOUNDARY),
        ("inside-a-token", Ending.INSIDE),
        ("half-a-draft-token", Ending.BOUNDARY),
        ("cut", Ending.CUT),
        ("nothing-proposed", Ending.PLAIN),
        ("dice", Ending.BONUS),
    ],
)
def test_rounds_end_as_the_lessons_say(name: str, ending: Ending) -> None:
    assert SCENES[name].ending is ending


def test_at_a_boundary_the_texts_differ_from_the_first_byte() -> None:
    s = SCENES["at-a-boundary"]
    assert s.picture["parts_at"] == s.picture["candidate"][s.r.n_accepted]["start"]
    assert s.r.own is not None
    assert s.refused[0].bytes[:1] != s.r.own.bytes[:1]


def test_inside_a_token_both_begin_alike_and_the_boundaries_differ() -> None:
    s = SCENES["inside-a-token"]
    refused, at = s.picture["candidate"][s.r.n_accepted], s.picture["parts_at"]
    assert at is not None
    assert refused["start"] < at < refused["end"]
    assert s.r.own is not None
    assert s.refused[0].bytes.startswith(s.shared_text.encode())
    assert s.r.own.bytes.startswith(s.shared_text.encode())
    assert [t.bytes for t in s.draft] != [t.bytes for t in s.candidate]


def test_half_a_draft_token_is_accepted() -> None:
    s = SCENES["half-a-draft-token"]
    at = s.picture["parts_at"]
    assert at is not None
    assert any(b["start"] < at < b["end"] for b in s.picture["draft"])


def test_sampled_ids_are_those_of_the_target_whatever_the_draft_rolls() -> None:
    s = SCENES["dice"]
    assert (s.trace.request.temperature, s.trace.request.draft_noise) == (1, "shared")
    assert s.target is not None
    same = {"seed": s.trace.request.seed, "prompt": s.trace.request.prompt, "temperature": s.trace.request.temperature}
    for other in s.beside:
        assert {key: getattr(other.request, key) for key in same} == same
        assert other.output_ids == s.trace.output_ids
    n = len(s.trace.output_ids)
    assert f"{n} of {n} ids are equal" in STORED["dice"]["steps"][3]["answer"]
    assert ["Ids equal to the target alone", f"{n} of {n}"] in STORED["dice"]["facts"]
    assert "All of these runs wrote the same ids." in STORED["dice"]["steps"][0]["answer"]


def test_what_does_not_pay_was_measured_slower_and_another_k_faster() -> None:
    s = SCENES["does-not-pay"]
    assert s.target is not None
    assert speedup(s.trace, s.target) < 1
    assert s.target.output_ids == s.trace.output_ids
    ratios = speedups_by_k(s)
    assert list(ratios) == [1, 2, 3, 4, 6, 12]
    assert max(ratios.values()) > 1
    assert f"K = 12: {speedup(s.trace, s.target):.2f}×" in STORED["does-not-pay"]["steps"][5]["answer"]
    assert "×, slower." in STORED["does-not-pay"]["steps"][5]["text"]


def test_a_comparison_of_times_is_made_under_the_same_conditions() -> None:
    s = SCENES["does-not-pay"]
    assert len({(t.environment.model_dump_json(), t.request.alternatives) for t in (s.trace, *s.beside)}) == 1


@pytest.mark.parametrize("name", STORED)
def test_numbers_of_the_round_are_the_traces(name: str) -> None:
    s, found = SCENES[name], STORED[name]
    facts = dict(found["facts"])
    n, run = s.r.n_accepted, summarise(s.trace)
    assert facts["This round: draft tokens"] == str(len(s.draft))
    assert facts["This round: candidates"] == str(len(s.candidate))
    assert facts["This round: tokens committed"] == str(n + 1)
    assert facts["Whole run: tokens"].startswith(f"{len(s.trace.output_ids)} in {len(s.trace.rounds)} ")
    assert facts["Whole run: tokens per target pass"] == f"{run.mean_acceptance_length:.2f}"
    texts = [step["text"] for step in found["steps"]]
    committed = ", ".join(f"“{t.text}”" for t in s.r.committed)
    assert committed in texts[3]
    assert re.search(rf"\b{n + 1} tokens? from one target pass", texts[5])
    if s.candidate:
        assert ", ".join(f"“{t.text}”" for t in s.draft) in texts[0]
        assert ", ".join(f"“{t.text}”" for t in s.candidate) in texts[1]
        assert f"gives {len(s.candidate) + 1} positions" in texts[2]


@pytest.mark.parametrize("name", STORED)
def test_the_text_before_a_round_is_what_was_committed(name: str) -> None:
    s, before = SCENES[name], STORED[name]["before"]
    text = s.trace.request.prompt + "".join(r.text for r in s.trace.rounds[: s.r.round])
    assert text.endswith(before.removeprefix("…"))
    assert len(before) <= 121


# Worked out by hand: round 0 of tests/test_metrics.py drafts " th|e| land|scape", candidates " the| landsca|pe", 1 accepted, " earth".


def test_a_mismatch_worked_out_by_hand() -> None:
    best = [Alternative(token=tok(" earth", 7), probability=0.62), Alternative(token=tok(" sea", 8), probability=0.15)]
    at = (Position(candidate_probability=1, alternatives=()), Position(candidate_probability=0.06, alternatives=tuple(best)))
    first = ROUNDS[0].model_copy(update={"own": tok(" earth", 7), "candidate": (*toks(" the"), tok(" landsca", 9), *toks("pe"))})
    r = first.model_copy(update={"positions": at})
    found = by_hand(0, trace_of([PREFILL, r, *ROUNDS[1:], STOP], k=4))
    assert [step["text"] for step in found["steps"]] == [
        "The draft model reads the text so far and writes K = 4 tokens of its own vocabulary (of 300), one after the other: “ th”, “e”, "
        "“ land”, “scape”. Writing them took 200 ms.",
        "Joined, they are the string “ the landscape”. The target's tokenizer (vocabulary 300) writes it in 3 tokens, the candidates: "
        "“ the”, “ landsca”, “pe”. Of the draft's 3 inner boundaries, it keeps 1, and it sets 1 of its own.",
        "One pass of the target reads the last committed token and the 3 candidates together. It gives 4 positions: one behind the "
        "committed text and one behind each candidate. It took 500 ms.",
        "At each position the target takes its likeliest token (temperature 0). Its choices, up to where the round ends: “ the”, “ earth”. "
        "“ earth” had a probability of 62%, the candidate “ landsca” 6.0%.",
        "The first candidate is the target's own choice, id for id. The 2nd is not: “ landsca” against “ earth”. They share only the space "
        "that they begin with; in the draft's tokens they part in the middle of “ land”.",
        "Committed: “ the” and the target's own “ earth”, 2 tokens from one target pass. Thrown away: “ landsca”, “pe”.",
    ]
    assert found["before"] == "In the beginning"
    assert [step["lit"] for step in found["steps"]] == [
        ["draft"],
        ["string", "candidate"],
        ["candidate", "phases"],
        ["own", "choices"],
        ["candidate", "own", "parts"],
        ["candidate", "own", "text"],
    ]
    answers = [step["answer"] for step in found["steps"]]
    assert "Here 4 draft tokens became 3 candidates; over the whole run 11 became 10." in answers[1]
    assert "3 + 1 = 4" in answers[2]
    assert "“ earth” 62%, “ sea” 15%, “ landsca” 6.0%" in answers[3]
    assert "here 9 (“ landsca”) against 7 (“ earth”)" in answers[4]
    assert "needs 2 passes for 2 tokens; this round needed one. In the whole run that was 10 in 5 passes, 2.00 tokens a pass." in answers[5]
    assert ["Whole run: candidates accepted", "60%"] in found["facts"]
    assert ["Whole run: time", "4.80 s"] in found["facts"]


def test_a_cut_and_a_plain_step_worked_out_by_hand() -> None:
    trace = trace_of([PREFILL, *ROUNDS, STOP], k=2)
    cut = by_hand(3, trace, ["draft_price", "encoded_alone", "reads_again", "behind", "was_it_wrong", "worst_case"])
    answers = [step["answer"] for step in cut["steps"]]
    assert "The 2nd is not: “ lan” against “ land”. The candidate is only the beginning" in cut["steps"][4]["text"]
    assert "2 tokens took 200 ms to draft, and the one target pass 500 ms" in answers[0]
    assert "The 8 ids committed so far" in answers[1], "2 of the prompt, and 2 + 3 + 1"
    assert "1 position of 3" in answers[3]
    assert "Of the 2 mismatches in this run, 1 came about so" in answers[4]
    assert "1 of 5 rounds gave just that" in answers[5]
    plain = by_hand(2, trace, ["own_vocabulary", "cannot_write", "one_pass", "how_sure", "no_mismatch", "gain"])
    assert "the target's tokenizer has no token boundary where the draft begins" in plain["steps"][0]["text"]
    assert plain["steps"][5]["text"] == "Committed: the target's own “é”, 1 token from one target pass."
    assert "In this run that is 1 of 5 rounds" in plain["steps"][1]["answer"]


def test_acceptance_is_counted_in_three_units() -> None:
    found = by_hand(0, trace_of(ROUNDS, k=4), ["more_at_once", "is_m_k", "plus_one", "behind", "how_counted", "draft_goes_on"])
    assert (
        "1 of 3 candidates; 2 of 4 draft tokens, where one counts only if all of its bytes were accepted; 4 of 14 bytes"
        in (found["steps"][4]["answer"])
    )
    assert "accepted in 100% of the rounds that had one, the 3rd in 0%" in found["steps"][0]["answer"]


def test_bytes_that_wait_are_not_counted_twice() -> None:
    data = "é".encode()
    first = round_event(0, (), (tok(data[:1]),), 1, None)
    second = round_event(1, (tok(data), tok("x")), (tok(data[1:]), tok("x")), 2, tok("y"))
    found = by_hand(1, trace_of([first, second]), ["more_at_once", "is_m_k", "plus_one", "behind", "how_counted", "gain"])
    assert "2 of 2 candidates; 2 of 2 draft tokens" in found["steps"][4]["answer"]
    assert found["before"] == "In the beginning"


def test_prices_and_speedups_worked_out_by_hand() -> None:
    own = [
        RoundEvent(round=i, n_accepted=0, own=tok("x"), text="x", reason=Reason.TARGET_ONLY, verify_s=0.4, round_s=0.5) for i in range(4)
    ]
    stop = StopEvent(reason=StopReason.LENGTH, output_ids=(1,) * 4, text="xxxx", tail="")
    target = trace_of([*own, stop], method=Method.TARGET)
    ours = trace_of([round_event(0, toks("x", "y"), toks("x", "y"), 1, tok("x"), draft_s=0.2, retokenise_s=0.1, verify_s=0.6)] * 2, k=2)
    c, v, k = prices(ours, target)
    assert (c, v, k) == pytest.approx((0.1 / 0.4, 0.6 / 0.4, 2))
    assert predicted_speedup(ours, target) == pytest.approx(2 / (2 * 0.25 + 1.5))
    assert speedup(ours, target) == pytest.approx((4 / 2.0) / (4 / 2.0))
    slower = trace_of([r.model_copy(update={"round_s": 2.0}) for r in ours.rounds], k=4)
    found = by_hand(
        0,
        slower,
        ["draft_step_cost", "price_of_text", "pass_price", "behind", "prediction", "which_k"],
        {"target": target, "2": ours},
        runs=3,
    )
    assert "The whole run took 4.00 s, the target alone 2.00 s: 0.50×, slower." in found["steps"][5]["text"]
    assert (
        "K = 2: 1.00×; K = 4: 0.50×. None of these paid. (The run of median time of 3 each, taken in turn.)" in found["steps"][5]["answer"]
    )
    assert (
        "K·c + v = 2.0 × 0.250 + 1.50 = 2.00 target steps. That predicts 2.00 / 2.00 = 1.00×; measured were 0.50×"
        in (found["steps"][4]["answer"])
    )
    assert ["Ids equal to the target alone", "4 of 4"] in found["facts"]


def test_ids_that_differ_are_said_to_differ() -> None:
    r = round_event(0, toks("a", "b"), toks("a", "b"), 2, tok("c", 3))
    other = trace_of([round_event(0, (), (), 0, tok("a", 1)), round_event(1, (), (), 0, tok("b", 2))], method=Method.TARGET)
    assert ["Ids equal to the target alone", "1 of 2"] in by_hand(0, trace_of([r]), beside={"target": other})["facts"]


HOSTILE = ("<script>alert(1)</script>", "{{x}}", "“&amp;”", "\u202e\x00", "a\nb")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_as_it_is(text: str) -> None:
    token = Token(id=5, text=text, bytes=text.encode())
    r = round_event(0, (token,), (token.model_copy(update={"id": 6}),), 0, Token(id=7, text=text + "!", bytes=b"x" + text.encode()))
    found = by_hand(0, trace_of([r], prompt=f"a {text}"))
    assert found["before"] == f"a {text}"
    assert f"“{text}”" in found["steps"][0]["text"]
    assert f"“{text}!”" in found["steps"][5]["text"]
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize("index", range(len(ROUNDS)))
@pytest.mark.parametrize("name", QUESTIONS)
def test_every_question_has_an_answer_in_every_kind_of_round(name: str, index: int) -> None:
    trace = trace_of([PREFILL, *ROUNDS, STOP], k=4)
    s = Scene.of(trace, index)
    question, answer = QUESTIONS[name](s)
    assert question.endswith("?")
    assert answer


def test_importing_lessons_loads_nothing_heavy() -> None:
    code = "import sys, slem_demo.views.lessons.lesson; print(sorted(set(sys.modules) & {'gradio', 'transformers', 'torch'}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "[]", done.stderr
