"""A difference between two runs is found, measured in a pass of its own, and told apart from a fault."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from slem_demo.benchmark import Case, Run, Variant, differences
from slem_demo.models.difference import Difference, first_difference
from slem_demo.models.loading import Pair, Placement, load_pair
from slem_demo.trace import Method, Request, StopEvent

REQUEST = Request.checked(pair="builtin", prompt="And God said unto Moses", max_new_tokens=24)


def ids_of(pair: Pair, request: Request) -> list[int]:
    *_, stop = pair.decode(request)
    assert isinstance(stop, StopEvent)
    return list(stop.output_ids)


def test_equal_outputs_and_beginnings_of_each_other_do_not_differ(builtin: Pair) -> None:
    ids = ids_of(builtin, REQUEST)
    assert first_difference(builtin, REQUEST, ids, ids) is None
    assert first_difference(builtin, REQUEST, ids, ids[:5]) is None


def test_the_gap_is_that_of_the_targets_own_scores(builtin: Pair) -> None:
    ids = ids_of(builtin, REQUEST)
    other = [*ids[:7], (ids[7] + 1) % 4000, *ids[8:]]
    found = first_difference(builtin, REQUEST, ids, other)
    prompt = list(builtin.prompts(REQUEST).target_ids)
    logits = builtin.target.lm(torch.tensor([[*prompt, *ids[:7]]])).logits[0, -1].detach()
    assert found is not None and found.position == 7
    assert found.gap == pytest.approx(float(logits[ids[7]] - logits[other[7]]), abs=1e-3)
    assert not found.is_near_tie and "more than rounding in float32 explains" in str(found)
    assert f"token 8: {found.texts[0]!r} against {found.texts[1]!r}" in str(found)


def test_with_a_temperature_the_gap_is_between_perturbed_scores(builtin: Pair) -> None:
    request = REQUEST.model_copy(update={"temperature": 0.8, "seed": 3})
    ids = ids_of(builtin, request)
    best = [first_difference(builtin, request, [*ids[:4], token], ids) for token in range(5, 400) if token != ids[4]]
    assert all(d is not None and d.gap > 0 for d in best), "the chosen token is the best of all"


def test_a_benchmark_names_the_prompts_that_differ(builtin: Pair) -> None:
    ids = ids_of(builtin, REQUEST)
    wrong = [*ids[:2], (ids[2] + 1) % 4000]
    runs = [
        Run(Variant(method), Case("two", prompt), 0, tuple(written), 1.0, None, 0.0, None)
        for prompt, slem in enumerate((ids, wrong))
        for method, written in ((Method.SLEM, slem), (Method.TARGET, ids))
    ]
    found = differences(builtin, {Case("two", 0): REQUEST, Case("two", 1): REQUEST}, runs)
    assert list(found) == ["slem, two 1"] and found["slem, two 1"].startswith("token 3: ")


def test_a_near_tie_is_called_one() -> None:
    tie = Difference(3, (" a", " the"), gap=0.02, rounding=0.1, dtype="bfloat16")
    assert tie.is_near_tie and "token 4: ' a' against ' the', whose scores are 0.02 apart. A near-tie: in bfloat16" in str(tie)
    assert not replace(tie, gap=0.2).is_near_tie


@pytest.mark.parametrize("temperature", [0, 0.8])
def test_in_bfloat16_whatever_differs_is_a_near_tie(temperature: float) -> None:
    pair = load_pair("builtin", Placement("cpu", "bfloat16"))
    for prompt in (
        "And God said",
        "moreover, brethren, how that all our fathers were under the cloud, and all passed",
        "Sing unto the LORD with harp",
    ):
        request = Request.checked(pair="builtin", prompt=prompt, max_new_tokens=64, temperature=temperature)
        found = first_difference(pair, request, ids_of(pair, request), ids_of(pair, request.model_copy(update={"method": Method.TARGET})))
        assert found is None or found.is_near_tie, str(found)
