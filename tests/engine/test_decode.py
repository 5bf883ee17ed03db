"""The decoders on scripted models. Target ids are the only truth: every test compares ids."""

from __future__ import annotations

import itertools

import pytest

from slem_demo.engine.decode import accept, slem, target_only
from slem_demo.engine.output import Output
from slem_demo.engine.run import Model, Prompts
from slem_demo.engine.sampling import Place
from slem_demo.metrics import summarise
from slem_demo.trace import Event, PrefillEvent, Reason, Request, RoundEvent, StopEvent, StopReason
from tests.fakes import CODECS, LONG, SHORT, TEXT, FakeModel, ToyCodec, random_model, scripted_drafter, scripted_target
from tests.traces import trace_of

PROMPT = "In the beginning God created"


def request(**fields: object) -> Request:
    return Request.checked(**{"pair": "fake", "prompt": PROMPT, "max_new_tokens": 400} | fields)


def rounds(events: list[Event]) -> list[RoundEvent]:
    return [e for e in events if isinstance(e, RoundEvent)]


def stop(events: list[Event]) -> StopEvent:
    assert isinstance(events[-1], StopEvent)
    return events[-1]


def scripted_run(direction: tuple[str, str], error_rate: float, req: Request, output: str = TEXT) -> tuple[list[Event], list[int]]:
    """A SLEM run on scripted models, and the ids that target-only decoding writes under the same request."""
    target_codec, draft_codec = CODECS[direction[0]], CODECS[direction[1]]
    prompts = Prompts(target_codec.encode(PROMPT), draft_codec.encode(PROMPT))
    output_ids = target_codec.encode("x" + output)[1 + target_codec.prepends_space :]
    target = scripted_target(target_codec, prompts.target_ids, output_ids)
    drafter = scripted_drafter(draft_codec, PROMPT + output, error_rate)
    events = list(slem(target, drafter, prompts, req))
    alone = list(target_only(scripted_target(target_codec, prompts.target_ids, output_ids), prompts.target_ids, req))
    return events, list(stop(alone).output_ids)


def check(events: list[Event], wanted_ids: list[int]) -> None:
    """What holds for every run, whatever was proposed."""
    end, all_rounds = stop(events), rounds(events)
    assert list(end.output_ids) == wanted_ids
    assert [t.id for r in all_rounds for t in r.committed] == wanted_ids
    assert "".join(r.text for r in all_rounds) + end.tail == end.text
    for r in all_rounds:
        assert r.draft is not None and r.candidate is not None
        assert r.n_accepted <= len(r.candidate)
        assert bool(r.candidate) == (r.reason is None)
    summary = summarise(trace_of(events))
    assert sum(summary.acceptance_histogram) == summary.num_rounds
    assert sum(i * n for i, n in enumerate(summary.acceptance_histogram)) == summary.num_accepted_tokens
    assert summary.num_accepted_tokens + sum(r.own is not None for r in all_rounds) == len(wanted_ids)


DIRECTIONS = [("long", "short"), ("short", "long"), ("long", "long"), ("short", "short")]
STOPS: dict[str, dict[str, object]] = {
    "eos": {},
    "length": {"max_new_tokens": 17},
    "one token": {"max_new_tokens": 1},
    "stop string": {"stop": ("form", "zzz")},
    "stop string in a token": {"stop": ("eart",)},
    "stop string over tokens": {"stop": ("d the e",)},
    "stop string over lines": {"stop": ("\n\n",)},
    "stop string never met": {"stop": (" and the beginning",)},
}


@pytest.mark.parametrize("direction", DIRECTIONS, ids="-".join)
@pytest.mark.parametrize("end", STOPS)
@pytest.mark.parametrize("k", range(9))
def test_slem_writes_the_targets_ids(k: int, end: str, direction: tuple[str, str]) -> None:
    for error_rate in (0.0, 0.2, 1.0):
        req = request(k=k, **STOPS[end])
        check(*scripted_run(direction, error_rate, req))


@pytest.mark.parametrize("direction", DIRECTIONS, ids="-".join)
def test_a_perfect_drafter_saves_most_passes(direction: tuple[str, str]) -> None:
    events, wanted = scripted_run(direction, 0.0, request(k=8))
    assert len(rounds(events)) < 0.6 * len(wanted)


def test_a_drafter_that_is_always_wrong_costs_rounds_not_ids() -> None:
    events, wanted = scripted_run(("long", "short"), 1.0, request(k=4))
    assert len(rounds(events)) == len(wanted)
    assert sum(r.n_accepted for r in rounds(events)) == 0


def test_eos_in_an_accepted_block_ends_the_run_there() -> None:
    events, _ = scripted_run(("long", "short"), 0.0, request(k=8), output=" the end")
    assert stop(events).reason is StopReason.EOS
    assert stop(events).output_ids[-1] == 0
    assert stop(events).text == " the end"
    assert rounds(events)[-1].own is None, "the drafted end token was accepted, nothing follows it"


def test_length_limit_inside_an_accepted_block() -> None:
    events, wanted = scripted_run(("long", "short"), 0.0, request(k=8, max_new_tokens=3))
    assert len(wanted) == 3
    assert stop(events).reason is StopReason.LENGTH


def test_stop_string_cuts_text_ids_and_counts_together() -> None:
    events, _ = scripted_run(("short", "long"), 0.0, request(k=8, stop=("heaven",)))
    end = stop(events)
    assert end.reason is StopReason.STOP_STRING
    assert end.text == " the "
    assert b"".join(SHORT.vocab[i] for i in end.output_ids).decode().startswith(" the heaven")
    assert b"".join(SHORT.vocab[i] for i in end.output_ids[:-1]).decode() != " the heaven"
    assert rounds(events)[-1].own is None


def test_text_that_may_become_a_stop_string_is_held_back() -> None:
    events, _ = scripted_run(("short", "long"), 0.0, request(k=1, stop=("earth and",)))
    shown = ""
    for r in rounds(events):
        shown += r.text
        assert not any(shown.endswith("earth and"[:n]) for n in range(4, 9))
    assert "earth. And the earth was" in stop(events).text


def test_an_unfinished_character_is_written_at_the_end() -> None:
    emoji = LONG.encode("a👍")
    target = scripted_target(LONG, [5], emoji)
    events = list(target_only(target, [5], request(max_new_tokens=3)))
    assert [r.text for r in rounds(events)] == ["a", "", ""]
    assert (stop(events).tail, stop(events).text) == ("\ufffd", "a\ufffd")


def test_last_token_and_k_zero_have_their_reasons() -> None:
    events, _ = scripted_run(("long", "short"), 0.0, request(k=4, max_new_tokens=1))
    assert [r.reason for r in rounds(events)] == [Reason.LAST_TOKEN]
    events, _ = scripted_run(("long", "short"), 0.0, request(k=0, max_new_tokens=3))
    assert {r.reason for r in rounds(events)} == {Reason.K_ZERO}


def test_nothing_is_sent_that_could_not_be_kept() -> None:
    events, _ = scripted_run(("short", "long"), 0.0, request(k=8, max_new_tokens=10))
    left = 10
    for r in rounds(events):
        assert len(r.candidate or ()) <= left - 1
        left -= len(r.committed)


def test_accept_counts_up_to_the_first_difference() -> None:
    assert accept([7, 8, 9], [7, 8, 9, 1]) == 3
    assert accept([7, 8, 9], [7, 5, 9, 1]) == 1
    assert accept([], [4]) == 0
    assert accept([7], [3, 9]) == 0


def test_target_only_needs_one_pass_a_token_after_the_prefill() -> None:
    target = random_model(LONG, seed=1)
    events = list(target_only(target, [5, 6, 7], request(max_new_tokens=6)))
    assert target.calls[0] == (2, 1)
    assert target.calls[1:] == [(n, 1) for n in range(3, 3 + len(stop(events).output_ids))]
    assert all(r.reason is Reason.TARGET_ONLY and not r.draft for r in rounds(events))


def test_a_round_is_one_target_pass_over_the_last_id_and_the_candidates() -> None:
    target = random_model(LONG, seed=1)
    drafter = scripted_drafter(SHORT, PROMPT + TEXT, 0.3)
    prompts = Prompts(LONG.encode(PROMPT), SHORT.encode(PROMPT))
    events = list(slem(target, drafter, prompts, request(k=5, max_new_tokens=40)))
    passes = target.calls[1:]
    assert len(passes) == len(rounds(events))
    assert [n for _, n in passes] == [len(r.candidate or ()) + 1 for r in rounds(events)]


@pytest.mark.parametrize("filters", [{}, {"top_k": 20}, {"top_p": 0.8}, {"top_k": 30, "top_p": 0.9}], ids=str)
@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("noise", ["greedy", "independent", "shared"])
def test_sampled_slem_writes_the_ids_of_sampled_target(noise: str, temperature: float, filters: dict[str, object]) -> None:
    for seed, (target_name, draft_name) in itertools.product(range(3), DIRECTIONS):
        target_codec, draft_codec = CODECS[target_name], CODECS[draft_name]
        prompts = Prompts(target_codec.encode(PROMPT), draft_codec.encode(PROMPT))
        req = request(temperature=temperature, seed=seed, k=4, max_new_tokens=30, draft_noise=noise, **filters)
        wanted = stop(list(target_only(random_model(target_codec, 7), prompts.target_ids, req))).output_ids
        drafter: Model = random_model(draft_codec, 7)
        check(list(slem(random_model(target_codec, 7), drafter, prompts, req)), list(wanted))


def test_a_sampled_run_whose_drafter_knows_the_result_accepts_and_writes_the_same_ids() -> None:
    prompts = Prompts(LONG.encode(PROMPT), SHORT.encode(PROMPT))
    req = request(temperature=1.0, seed=5, k=6, max_new_tokens=60, draft_noise="greedy")
    target = random_model(LONG, 3, n_live=128)  # ASCII only, so the text can be drafted
    wanted = stop(list(target_only(target, prompts.target_ids, req)))
    drafter = scripted_drafter(SHORT, PROMPT + wanted.text, 0.1)
    events = list(slem(random_model(LONG, 3, n_live=128), drafter, prompts, req))
    check(events, list(wanted.output_ids))
    assert sum(r.n_accepted for r in rounds(events)) > 20


@pytest.mark.parametrize("noise", ["greedy", "independent", "shared"])
def test_one_model_on_both_sides_agrees_with_itself_only_if_it_rolls_the_same_dice(noise: str) -> None:
    """With as many tokens as a drafter looks at, shared dice make the drafter the target itself: everything is accepted."""
    model, prompt = random_model(LONG, 3, n_live=64), LONG.encode(PROMPT)
    req = request(temperature=1.0, seed=2, k=4, max_new_tokens=60, draft_noise=noise)
    events = rounds(list(slem(model, random_model(LONG, 3, n_live=64), Prompts(prompt, prompt), req)))
    n_refused = sum(r.n_accepted < len(r.candidate or ()) for r in events)
    assert n_refused == 0 if noise == "shared" else n_refused > len(events) // 2


def test_shared_dice_are_read_where_the_drafter_writes_also_inside_a_character() -> None:
    """The target ends inside a character; the drafter begins it again, at the offset where it begins."""
    places = []
    output = Output(LONG, frozenset(), request())
    for data in [b" the", *(bytes([b]) for b in "👍".encode())]:
        places.append(output.draft_place)
        output.commit([LONG.id_of[data]])
    assert places == [Place(0, 0), *[Place(4, 0)] * 4] and output.draft_place == Place(8, 0)
    output.commit([0])
    assert output.draft_place == Place(8, 1), "the place of a token of no bytes"


def test_a_target_token_without_bytes_is_written_and_leaves_no_text() -> None:
    output = [*LONG.encode(" the"), 0, *LONG.encode(" earth")]
    target = scripted_target(LONG, LONG.encode(PROMPT), output)
    target.eos_ids = frozenset({999})
    drafter = scripted_drafter(SHORT, PROMPT + " the earth and", 0.0)
    req = request(k=4, max_new_tokens=3)
    events = list(slem(target, drafter, Prompts(LONG.encode(PROMPT), SHORT.encode(PROMPT)), req))
    assert list(stop(events).output_ids) == output
    assert stop(events).text == " the earth"


def test_a_drafter_with_a_short_context_gets_a_window() -> None:
    codec = SHORT
    drafter = scripted_drafter(codec, PROMPT + TEXT, 0.0)
    drafter.max_context = 24
    target = scripted_target(LONG, LONG.encode(PROMPT), LONG.encode(TEXT))
    prompts = Prompts(LONG.encode(PROMPT), codec.encode(PROMPT))
    events = list(slem(target, drafter, prompts, request(k=4)))
    assert list(stop(events).output_ids) == [*LONG.encode(TEXT), 0]
    assert max(n for n, _ in drafter.calls) <= 24


def test_a_drafter_without_room_leaves_plain_steps() -> None:
    drafter = scripted_drafter(SHORT, PROMPT + TEXT, 0.0)
    drafter.max_context = 4
    target = scripted_target(LONG, LONG.encode(PROMPT), LONG.encode(TEXT))
    prompts = Prompts(LONG.encode(PROMPT), SHORT.encode(PROMPT))
    events = list(slem(target, drafter, prompts, request(k=4, max_new_tokens=5)))
    assert [r.reason for r in rounds(events)] == [Reason.DRAFTER_CONTEXT] * 4 + [Reason.LAST_TOKEN]
    assert list(stop(events).output_ids) == LONG.encode(TEXT)[:5]


def test_a_drafter_that_cannot_write_the_text_leaves_plain_steps() -> None:
    class Lower(ToyCodec):
        def encode(self, text: str) -> list[int]:
            return super().encode(text.lower())

    codec = Lower([" the"])
    prompts = Prompts(LONG.encode(PROMPT), codec.encode(PROMPT))
    drafter = scripted_drafter(codec, (PROMPT + " the AND the").lower(), 0.0)
    target = scripted_target(LONG, prompts.target_ids, LONG.encode(" the AND the"))
    events = list(slem(target, drafter, prompts, request(k=4)))
    assert list(stop(events).output_ids) == [*LONG.encode(" the AND the"), 0]
    assert Reason.DRAFTER_ROUND_TRIP in {r.reason for r in rounds(events)}


def test_an_empty_draft_prompt_and_a_target_without_an_end_token_are_no_trouble() -> None:
    target = scripted_target(LONG, LONG.encode(PROMPT), LONG.encode(" the end"))
    target.eos_ids = frozenset()
    drafter = scripted_drafter(SHORT, "", 0.0)
    events = list(slem(target, drafter, Prompts(LONG.encode(PROMPT), []), request(k=4, max_new_tokens=4)))
    assert len(stop(events).output_ids) == 4
    assert rounds(events)[0].reason is Reason.DRAFTER_CONTEXT


def test_phases_are_timed_by_the_clock_that_is_passed() -> None:
    ticks = itertools.count()
    target = random_model(LONG, 1)
    drafter = random_model(SHORT, 1)
    prompts = Prompts(LONG.encode(PROMPT), SHORT.encode(PROMPT))
    events = list(slem(target, drafter, prompts, request(k=2, max_new_tokens=4), clock=lambda: float(next(ticks))))
    assert isinstance(events[0], PrefillEvent)
    assert (events[0].target_s, events[0].draft_s) == (1.0, 1.0)
    first = rounds(events)[0]
    assert (first.draft_s, first.retokenise_s, first.verify_s, first.round_s) == (1.0, 2.0, 1.0, 7.0)


def test_alternatives_come_on_request_with_probabilities() -> None:
    target = FakeModel(LONG, random_model(LONG, 1).score)
    plain = list(target_only(target, [5], request(max_new_tokens=2)))
    assert rounds(plain)[0].positions is None
    events = list(target_only(target, [5], request(max_new_tokens=2, alternatives=3)))
    (position,) = rounds(events)[0].positions or ()
    expected = target.score([5]).double().softmax(-1).topk(3)
    assert [a.token.id for a in position.alternatives] == expected.indices.tolist()
    assert [a.probability for a in position.alternatives] == pytest.approx(expected.values.tolist())
    assert position.candidate_probability is None


def test_an_abandoned_run_leaves_models_usable() -> None:
    prompts = Prompts(LONG.encode(PROMPT), SHORT.encode(PROMPT))
    target, drafter = random_model(LONG, 1), random_model(SHORT, 1)
    wanted = list(target_only(random_model(LONG, 1), prompts.target_ids, request(max_new_tokens=20)))
    run = slem(target, drafter, prompts, request(k=3, max_new_tokens=20))
    for _ in range(4):
        next(run)
    run.close()
    check(list(slem(target, drafter, prompts, request(k=3, max_new_tokens=20))), list(stop(wanted).output_ids))


def test_what_the_target_chose_is_among_the_alternatives_however_unlikely() -> None:
    target = random_model(LONG, 1)
    found = rounds(list(target_only(target, [5], request(max_new_tokens=30, temperature=5, alternatives=1))))
    unlikely = 0
    for r in found:
        (position,) = r.positions or ()
        assert r.own in [a.token for a in position.alternatives]
        unlikely += len(position.alternatives) == 2
    assert unlikely
