"""How far to draft: fixed, or as far as the figures of the run say. Ids never depend on it."""

from __future__ import annotations

import itertools

import pytest
import torch

from slem_demo.engine.decode import slem, target_only
from slem_demo.engine.lookahead import ENOUGH, FIRST, MOST, PAUSE, Auto, Fixed
from slem_demo.engine.run import Prompts
from slem_demo.engine.sampling import Chosen, Place, best_guess
from slem_demo.trace import Reason, Request, RoundEvent, StopEvent
from tests.fakes import LONG, SHORT, TEXT, random_model, scripted_drafter, scripted_target

PROMPT = "In the beginning God created"


def sure(confidence: float) -> Chosen:
    rest = (1 - confidence) / 9
    return Chosen(0, torch.tensor([confidence, *[rest] * 9]).log(), 0)


def drafted(policy: Auto, confidences: list[float]) -> int:
    """How many tokens a round drafts whose tokens have these confidences."""
    assert policy.begins()
    for n, confidence in enumerate(confidences, 1):
        if not policy.goes_on(sure(confidence)):
            return n
    return len(confidences)


def taught(n_rounds: int, n_right: int, step_s: float, verify_s: float = 1.0, n_drafted: int = 4, confidence: float = 0.8) -> Auto:
    """A policy that has seen rounds in which so many of the drafted tokens were accepted."""
    policy = Auto()
    for _ in range(n_rounds):
        policy.begins()
        for _ in range(n_drafted):
            policy.goes_on(sure(confidence))
        policy.learn(n_right, n_right + 1, n_drafted * step_s, n_drafted * step_s + verify_s)
    return policy


def test_confidence_is_the_probability_of_what_was_chosen() -> None:
    chosen = best_guess(torch.tensor([0.0, 2.0, 1.0]), Place(0, 0))
    assert chosen.token == 1
    assert chosen.confidence == pytest.approx(float(torch.tensor([0.0, 2.0, 1.0]).softmax(-1)[1]))
    assert sure(0.7).confidence == pytest.approx(0.7)


def test_a_fixed_lookahead_drafts_k_tokens() -> None:
    policy = Fixed(3)
    for _ in range(2):
        assert policy.begins()
        assert [policy.goes_on(sure(0.1)) for _ in range(3)] == [True, True, False]


def test_the_first_round_drafts_a_few() -> None:
    assert drafted(Auto(), [0.9] * MOST) == FIRST


def test_cheap_right_drafts_are_long_and_dear_or_wrong_ones_short() -> None:
    cheap_and_right = drafted(taught(12, 4, step_s=0.02), [0.8] * MOST)
    dear = drafted(taught(12, 4, step_s=0.6), [0.8] * MOST)
    assert cheap_and_right > 6 > dear >= 1
    right, wrong = (drafted(taught(ENOUGH - 1, n, step_s=0.2), [0.8] * MOST) for n in (4, 0))
    assert right > 4 > 2 >= wrong, "a drafter that is sure and wrong is soon not believed"


def test_a_draft_ends_where_it_is_no_longer_confident() -> None:
    policy = taught(12, 4, step_s=0.1)
    assert drafted(policy, [0.8, 0.8, 0.01, 0.9, 0.9]) == 3
    assert drafted(policy, [0.8] * MOST) > 3


def test_drafting_pauses_while_it_does_not_pay_and_is_tried_again() -> None:
    policy = taught(ENOUGH, 0, step_s=0.3)
    assert not policy.begins()
    for _ in range(PAUSE):
        assert not policy.begins()
        policy.learn(0, 1, 0.0, 1.0)
    assert policy.begins(), "a try"
    assert taught(ENOUGH, 3, step_s=0.1).begins(), "it pays"


def test_ids_do_not_depend_on_the_lookahead_and_pauses_are_named() -> None:
    prompts, output = Prompts(LONG.encode(PROMPT), SHORT.encode(PROMPT)), LONG.encode(TEXT)
    for error_rate, step_s in itertools.product((0.0, 0.3, 1.0), (0.001, 0.5)):
        times = itertools.count(0.0, step_s)
        target, drafter = scripted_target(LONG, prompts.target_ids, output), scripted_drafter(SHORT, PROMPT + TEXT, error_rate)
        request = Request.checked(pair="fake", prompt=PROMPT, k="auto", max_new_tokens=400)
        events = list(slem(target, drafter, prompts, request, lambda times=times: next(times)))  # type: ignore[misc]
        assert isinstance(events[-1], StopEvent) and list(events[-1].output_ids) == [*output, 0]
        reasons = {r.reason for r in events if isinstance(r, RoundEvent)}
        assert (Reason.NOT_WORTH in reasons) == (error_rate == 1.0)
        assert max(len(r.draft or ()) for r in events if isinstance(r, RoundEvent)) <= MOST


@pytest.mark.parametrize("noise", ["greedy", "independent", "shared"])
def test_sampled_ids_do_not_depend_on_it_either(noise: str) -> None:
    prompts = Prompts(LONG.encode(PROMPT), SHORT.encode(PROMPT))
    request = Request.checked(pair="fake", prompt=PROMPT, k="auto", temperature=1.0, seed=4, max_new_tokens=40, draft_noise=noise)
    *_, wanted = target_only(random_model(LONG, 5), prompts.target_ids, request)
    *_, stop = slem(random_model(LONG, 5), random_model(SHORT, 5), prompts, request)
    assert isinstance(wanted, StopEvent) and isinstance(stop, StopEvent)
    assert stop.output_ids == wanted.output_ids
