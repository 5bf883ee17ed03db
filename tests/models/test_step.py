"""The drafter's compiled step computes what the tensor operations do on the same rounded weights."""

from __future__ import annotations

import random

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from slem_demo.models import step
from slem_demo.models.builtin.training import stored
from slem_demo.models.lean import FIRST_CAPACITY, Int8Linear, LeanLlama, LeanReader
from slem_demo.models.loading import Pair
from slem_demo.models.pairs import ASSETS
from slem_demo.models.step import SHORT, StepLlama, StepReader


def near(a: torch.Tensor, b: torch.Tensor) -> bool:
    """As near as activations rounded to bfloat16, which only the tensor operations round, let them be."""
    divergence = (a.softmax(-1) * (a.log_softmax(-1) - b.log_softmax(-1))).sum(-1)
    return bool((divergence < 1e-3).all())


def models() -> dict[str, LlamaForCausalLM]:
    torch.manual_seed(0)
    shape = {"vocab_size": 300, "hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 3, "num_attention_heads": 6}
    grouped = LlamaConfig(**shape, num_key_value_heads=2, head_dim=32, initializer_range=0.1, tie_word_embeddings=False)
    return {"builtin": stored(ASSETS / "builtin" / "draft")[0], "grouped": LlamaForCausalLM(grouped).eval()}


@pytest.mark.parametrize("name", ["builtin", "grouped"])
@torch.inference_mode()
def test_steps_compute_what_the_tensor_operations_do(name: str) -> None:
    llama = LeanLlama(models()[name], Int8Linear)
    steps, tensors = StepLlama(llama).reader(), LeanReader(llama)
    ids = [random.Random(3).randrange(5, 290) for _ in range(FIRST_CAPACITY + 20)]
    at = 0
    for length in (30, 1, 2, SHORT, SHORT + 1, 1, FIRST_CAPACITY - 60, 1, 1, SHORT, 20, 1):
        assert near(steps.read(ids[at : at + length], 1), tensors.read(ids[at : at + length], 1)), (at, length)
        at += length
    assert steps.cache.capacity == 2 * FIRST_CAPACITY
    for reader in (steps, tensors):
        reader.cut(40)
    assert near(steps.read([7, 8], 1), tensors.read([7, 8], 1))
    assert near(steps.read([9, 10, 11], 3), tensors.read([9, 10, 11], 3))


def test_a_single_first_token_and_many_readers_at_once() -> None:
    weights = StepLlama(LeanLlama(models()["builtin"], Int8Linear))
    first, second = weights.reader(), weights.reader()
    with torch.inference_mode():
        begun = first.read([5], 1)
        second.read([6, 7], 1)
        assert torch.equal(begun, weights.reader().read([5], 1))
        assert torch.equal(first.read([8], 1), weights.reader().read([5, 8], 1)), "readers share weights and nothing else"


def test_the_drafter_takes_steps_and_the_target_does_not(builtin: Pair) -> None:
    assert isinstance(builtin.draft.rough_reader(), StepReader)
    assert type(builtin.target.reader()) is LeanReader


def test_without_a_folder_to_keep_it_in_it_is_compiled_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def njit(**options: bool) -> object:
        tried.append(options)
        if "cache" in options:
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    monkeypatch.setattr(step, "njit", njit)
    assert step.compiled(len) is len
    assert tried == [{"fastmath": True, "cache": True}, {"fastmath": True}]
