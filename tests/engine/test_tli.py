"""Token-level intersection: greedily the target's ids; at a temperature its distribution, by chi-square against exact probabilities."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

import pytest
import torch
from scipy import stats
from torch import Tensor

from slem_demo.engine import tli as module
from slem_demo.engine.decode import target_only
from slem_demo.engine.run import Prompts
from slem_demo.engine.sampling import filtered
from slem_demo.engine.tli import Intersection, tli
from slem_demo.trace import Event, Reason, Request, RoundEvent, StopEvent
from tests.fakes import LONG, SHORT, TEXT, FakeModel, ToyCodec, random_model, scripted_drafter, scripted_target

TARGET, DRAFT = ToyCodec(["ab"]), ToyCodec(["ca", "ab"])
LIVE = {TARGET: ("a", "b", "c", "ab"), DRAFT: ("a", "b", "d", "ab", "ca")}  # the draft's `d` is never the target's, `ca` is no token of it
N_RUNS, N_NEW = 4000, 3


def toy(codec: ToyCodec, seed: int) -> FakeModel:
    """Only a few tokens and the end are likely; which, depends on the last id."""
    live = [0, *(codec.id_of[piece.encode()] for piece in LIVE[codec])]

    @cache
    def scores(last: int) -> Tensor:
        row = torch.full((len(codec.vocab),), -60.0)
        row[live] = torch.randn(len(live), generator=torch.Generator().manual_seed(seed + last)) * 1.5
        return row

    return FakeModel(codec, lambda ids: scores(ids[-1]))


def request(**fields: object) -> Request:
    return Request.checked(**{"pair": "fake", "prompt": "a", "method": "tli", "max_new_tokens": N_NEW, "temperature": 1.0} | fields)


def run(target: FakeModel, drafter: FakeModel, req: Request, prompt: str = "a") -> list[Event]:
    prompts = Prompts(target.codec.encode(prompt), drafter.codec.encode(prompt))
    return list(tli(target, drafter, Intersection.of(target, drafter), prompts, req))


def output_ids(events: list[Event]) -> tuple[int, ...]:
    assert isinstance(events[-1], StopEvent)
    return events[-1].output_ids


def exact(target: FakeModel, req: Request) -> dict[tuple[int, ...], float]:
    """The probability of every output."""
    found: dict[tuple[int, ...], float] = {}

    def grow(ids: tuple[int, ...], probability: float) -> None:
        if len(ids) == N_NEW or (ids and ids[-1] == 0):
            found[ids] = probability
            return
        scores = target.score([*target.codec.encode("a"), *ids]).double()[None] / req.temperature
        for token, p in enumerate(filtered(scores, req.top_k, req.top_p)[0].softmax(-1).tolist()):
            if p > 1e-12:
                grow((*ids, token), probability * p)

    grow((), 1.0)
    return found


def p_value(req: Request, seeds: range = range(N_RUNS)) -> float:
    """Of the outputs under so many seeds, against what the target alone would write."""
    target, drafter = toy(TARGET, 1), toy(DRAFT, 2)
    shared = Intersection.of(target, drafter)
    prompts = Prompts(TARGET.encode("a"), DRAFT.encode("a"))
    counts = Counter(output_ids(list(tli(target, drafter, shared, prompts, req.model_copy(update={"seed": s})))) for s in seeds)
    wanted = exact(target, req)
    if not counts.keys() <= wanted.keys():
        return 0.0
    often = [ids for ids, p in wanted.items() if p * len(seeds) >= 5]
    observed = [counts[ids] for ids in often]
    expected = [wanted[ids] * len(seeds) for ids in often]
    rest = (len(seeds) - sum(observed), len(seeds) - sum(expected))
    if rest[1] >= 5:
        observed, expected = [*observed, rest[0]], [*expected, rest[1]]
    scale = sum(observed) / sum(expected)
    return float(stats.chisquare(observed, [e * scale for e in expected]).pvalue)


SETTINGS: list[dict[str, object]] = [
    {"k": 1},
    {"k": 2},
    {"k": 3, "temperature": 0.6},
    {"k": 2, "top_p": 0.8},
    {"k": 2, "top_k": 3},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_sampled_output_has_the_targets_distribution(settings: dict[str, object]) -> None:
    assert p_value(request(**settings)) > 1e-3


WRONG: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a refused draw is made up for from p": lambda patch: patch.setattr(module, "residual", lambda p, _: p),
    "every candidate is kept": lambda patch: patch.setattr(module.Dice, "_uniform", lambda _: torch.zeros((), dtype=torch.float64)),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_variant_is_found_out(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    WRONG[wrong](monkeypatch)
    assert p_value(request(k=2)) < 1e-6


@pytest.mark.parametrize(("codecs", "k"), list(itertools.product([(LONG, SHORT), (SHORT, LONG), (LONG, LONG)], [1, 4, "auto"])))
def test_greedily_it_writes_the_targets_ids(codecs: tuple[ToyCodec, ToyCodec], k: object) -> None:
    target_codec, draft_codec = codecs
    prompts = Prompts(target_codec.encode("In"), draft_codec.encode("In"))
    output = target_codec.encode("x" + TEXT)[1 + target_codec.prepends_space :]
    for error_rate in (0.0, 0.3, 1.0):
        req = request(prompt="In", k=k, temperature=0, max_new_tokens=400)
        target = scripted_target(target_codec, prompts.target_ids, output)
        alone = list(target_only(scripted_target(target_codec, prompts.target_ids, output), prompts.target_ids, req))
        events = run(target, scripted_drafter(draft_codec, "In" + TEXT, error_rate), req, "In")
        assert output_ids(events) == output_ids(alone)
        rounds = [e for e in events if isinstance(e, RoundEvent)]
        assert {r.reason for r in rounds} <= {None, Reason.LAST_TOKEN, Reason.INSIDE_CHARACTER, Reason.NOT_WORTH}
        for r in rounds:
            if r.reason is None:
                assert [t.bytes for t in r.candidate or ()] == [t.bytes for t in (r.draft or ())[: len(r.candidate or ())]]


def test_the_same_seed_writes_the_same_and_another_seed_something_else() -> None:
    target, drafter = random_model(LONG, 1, 40), random_model(SHORT, 2, 40)
    first, again, other = (output_ids(run(target, drafter, request(seed=s, max_new_tokens=30), "In")) for s in (1, 1, 2))
    assert first == again != other


def test_the_intersection_is_of_bytes_and_the_two_ends() -> None:
    shared = Intersection.of(toy(TARGET, 1), toy(DRAFT, 2))
    same: Sequence[bytes] = [TARGET.vocab[i] for i in shared.target_ids.tolist()]
    assert same == [DRAFT.vocab[i] for i in shared.draft_ids.tolist()]
    assert len(shared) == 256 + 1 + 1  # bytes, "ab", the end
    assert b"ca" not in same
