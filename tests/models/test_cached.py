"""The cache: whatever was asked before, a call answers as a fresh model would."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from slem_demo.errors import SlemError
from slem_demo.models.cached import CachedModel, Reader, common_prefix
from slem_demo.models.loading import LoadedModel, Placement, load_model
from slem_demo.models.pairs import Source
from tests.models import tiny


@pytest.fixture(scope="module", params=["llama", "qwen2", "gpt2", "sliding window"])
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    folder = tiny.save(request.param, tmp_path_factory.mktemp("tiny"), scale=1.0)
    return load_model(Source(str(folder), folder=folder), Placement("cpu", "float32"))


def fresh(loaded: LoadedModel, ids: list[int], n: int) -> torch.Tensor:
    with torch.inference_mode():
        logits: torch.Tensor = loaded.lm(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -n:].float()
        return logits


def test_every_call_equals_a_fresh_pass(loaded: LoadedModel) -> None:
    rng = random.Random(0)
    session = loaded.session()
    ids = [rng.randrange(300) for _ in range(20)]
    for _ in range(60):
        ids = ids[: rng.randint(max(1, len(ids) - 9), len(ids))]
        ids += [rng.randrange(300) for _ in range(rng.randint(0, 8))]
        n = rng.randint(1, min(7, len(ids)))
        assert torch.allclose(session.logits(ids, n), fresh(loaded, ids, n), atol=1e-4)


def test_a_long_step_back_and_a_new_text_are_right_too(loaded: LoadedModel) -> None:
    session = loaded.session()
    long = list(range(1, 81))
    for ids in (long, long[:5], [*long[:30], 9, 9], [200, 201, 202], long):
        assert torch.allclose(session.logits(ids, 2), fresh(loaded, ids, 2), atol=1e-4)


def test_only_what_is_new_is_computed(loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    session = loaded.session()
    session.logits(list(range(1, 11)), 1)
    widths = []
    reader = type(loaded.reader())
    read = reader.read

    def spy(self: Reader, ids: list[int], n: int) -> torch.Tensor:
        widths.append(len(ids))
        return read(self, ids, n)

    monkeypatch.setattr(reader, "read", spy)
    session.logits([*range(1, 11), 50, 51], 3)
    session.logits([*range(1, 11), 50, 60], 1)
    assert widths == [3, 1]


def test_sessions_share_weights_and_nothing_else(loaded: LoadedModel) -> None:
    a, b = loaded.session(), loaded.session()
    a.logits([1, 2, 3], 1)
    assert torch.allclose(b.logits([4, 5], 1), fresh(loaded, [4, 5], 1), atol=1e-4)
    assert torch.allclose(a.logits([1, 2, 3, 6], 1), fresh(loaded, [1, 2, 3, 6], 1), atol=1e-4)


def test_after_a_failed_pass_the_next_one_is_right(loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    session = loaded.session()
    session.logits([1, 2, 3], 1)

    def fail(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr(type(loaded.reader()), "read", fail)
        with pytest.raises(torch.OutOfMemoryError):
            session.logits([1, 2, 3, 4], 1)
    assert torch.allclose(session.logits([1, 2, 3, 4], 1), fresh(loaded, [1, 2, 3, 4], 1), atol=1e-4)


@pytest.mark.parametrize(("kind", "family"), [("recurrent", "mamba"), ("state of its own", "rwkv"), ("hybrid", "jamba")])
def test_a_model_that_cannot_roll_back_is_refused_by_name(kind: str, family: str, tmp_path: Path) -> None:
    folder = tiny.save(kind, tmp_path / "mine")
    with pytest.raises(SlemError, match=rf"mine \({family}\) keeps a state that cannot be rolled back"):
        load_model(Source(str(folder), folder=folder), Placement("cpu", "float32"))


@given(st.lists(st.integers(0, 3), max_size=12), st.lists(st.integers(0, 3), max_size=12))
def test_common_prefix(a: list[int], b: list[int]) -> None:
    n = common_prefix(a, b)
    assert a[:n] == b[:n]
    assert n == min(len(a), len(b)) or a[n] != b[n]


def test_a_cached_model_is_what_decoding_asks_for(loaded: LoadedModel) -> None:
    assert isinstance(loaded.session(), CachedModel)
    assert loaded.session().logits([1, 2], 2).shape == (2, loaded.lm.config.vocab_size)
