"""The lean forward pass: it computes what transformers does, and where it only guesses, it says so."""

from __future__ import annotations

import copy
import random

import pytest
import torch
from torch import nn
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from slem_demo.models.builtin.training import stored
from slem_demo.models.cached import HubReader
from slem_demo.models.lean import FIRST_CAPACITY, LARGE, PACKED_ROWS, Int8Linear, LeanLlama, LeanReader, PackedLinear, PlainLinear
from slem_demo.models.loading import LoadedModel, Pair, Placement, load_model, load_pair
from slem_demo.models.pairs import ASSETS, Source
from slem_demo.trace import Request
from tests.models import tiny


@pytest.fixture(scope="module", params=["llama", "qwen2", "gpt2", "sliding window"])
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    folder = tiny.save(request.param, tmp_path_factory.mktemp("tiny"), scale=1.0)
    return load_model(Source(str(folder), folder=folder), Placement("cpu", "float32"))


@pytest.mark.parametrize("rope", ["default", "linear", "llama3"])
@pytest.mark.parametrize("name", ["target", "draft"])
def test_the_lean_pass_computes_what_transformers_does(name: str, rope: str) -> None:
    lm, _ = stored(ASSETS / "builtin" / name)
    if rope != "default":
        lm.config.rope_parameters |= {"rope_type": rope, "factor": 2.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
        lm.config.rope_parameters["original_max_position_embeddings"] = 256
        lm.model.rotary_emb = LlamaRotaryEmbedding(lm.config)
    lean, hub = LeanLlama(lm).reader(), HubReader(lm)
    ids = [random.Random(rope).randrange(3000) for _ in range(FIRST_CAPACITY + 40)]
    with torch.inference_mode():
        for start, end in ((0, 300), (300, 301), (301, 306), (306, FIRST_CAPACITY + 30), (FIRST_CAPACITY + 30, FIRST_CAPACITY + 31)):
            n = min(4, end - start)
            assert torch.allclose(lean.read(ids[start:end], n), hub.read(ids[start:end], n), atol=1e-4)
        for reader in (lean, hub):
            reader.cut(100)
        assert torch.allclose(lean.read(ids[-3:], 3), hub.read(ids[-3:], 3), atol=1e-4)


def test_the_lean_pass_is_taken_where_it_computes_what_the_model_does(loaded: LoadedModel) -> None:
    is_llama = loaded.lm.config.model_type == "llama"
    assert isinstance(loaded.reader(), LeanReader if is_llama else HubReader)
    assert not LeanLlama.fits(copy.deepcopy(loaded.lm).bfloat16())
    if is_llama:
        other = copy.deepcopy(loaded.lm)
        other.config.rope_parameters = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
        assert not LeanLlama.fits(other)
        other = copy.deepcopy(loaded.lm)
        other.config.hidden_act = "gelu"
        assert not LeanLlama.fits(other)


@pytest.mark.parametrize("shapes", [[(48, 32)], [(32, 32), (16, 32), (16, 32)], [(LARGE // 32, 32)]])
@pytest.mark.parametrize("bias", [True, False])
def test_packed_products_are_plain_products(shapes: list[tuple[int, int]], bias: bool) -> None:
    torch.manual_seed(0)
    linears = [nn.Linear(n_in, n_out, bias=bias) for n_out, n_in in shapes]
    plain, packed = PlainLinear(*linears), PackedLinear(*linears)
    with torch.inference_mode():
        for rows in (1, 2, 3, 4, 5, PACKED_ROWS, PACKED_ROWS + 1):
            x = torch.randn(rows, 32)
            wanted = torch.cat([linear(x) for linear in linears], dim=-1)
            assert torch.allclose(plain(x), wanted, atol=1e-6)
            assert torch.allclose(packed(x), wanted, atol=1e-6)


def test_in_eight_bits_the_drafter_guesses_nearly_the_same() -> None:
    lm, tokenizer = stored(ASSETS / "builtin" / "draft")
    ids = tokenizer("And it came to pass in those days, that the king of Israel went up to the house of the LORD").input_ids
    with torch.inference_mode():
        exact = LeanLlama(lm).reader().read(ids, len(ids))
        rough = LeanLlama(lm, Int8Linear).reader().read(ids, len(ids))
    assert not torch.equal(exact, rough)
    divergence = (exact.softmax(-1) * (exact.log_softmax(-1) - rough.log_softmax(-1))).sum(-1).mean()
    assert divergence < 0.01
    assert (exact.argmax(-1) == rough.argmax(-1)).float().mean() > 0.9


def test_only_a_drafter_is_computed_roughly_and_its_trace_says_so(builtin: Pair) -> None:
    request = Request.checked(pair="builtin", prompt="a")
    trace = builtin.trace(request)
    assert trace.draft is not None
    assert (trace.target.compute, trace.draft.compute) == ("float32", "int8 weights")
    ids = builtin.draft.codec.encode("And God said")
    exact, rough = builtin.draft.session().logits(ids, 1), builtin.draft_session().logits(ids, 1)
    assert torch.allclose(builtin.draft.lm(torch.tensor([ids])).logits[0, -1:], exact, atol=1e-4)
    assert not torch.allclose(exact, rough, atol=1e-4)
    alone = load_pair("builtin-draft::builtin-draft", Placement("cpu", "float32"))
    assert torch.equal(alone.draft_session().logits(ids, 1), alone.target.session().logits(ids, 1))
    assert alone.trace(request).draft == alone.target.info


def test_matrices_with_a_bias_are_not_rounded(loaded: LoadedModel) -> None:
    assert LeanLlama.fits_int8(loaded.lm) == (loaded.lm.config.model_type == "llama")
    config = copy.deepcopy(tiny.configs(4096)["llama"])
    config.attention_bias = True
    lm = type(stored(ASSETS / "builtin" / "draft")[0])(config).eval()
    assert LeanLlama.fits(lm) and not LeanLlama.fits_int8(lm)
    with torch.inference_mode():
        assert torch.allclose(LeanLlama(lm).reader().read([5, 6, 7], 3), lm(torch.tensor([[5, 6, 7]])).logits[0], atol=1e-5)
