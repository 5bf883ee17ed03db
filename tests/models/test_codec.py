"""The built-in tokenizers as codecs: bytes of ids, safe starts, keys."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slem_demo.engine.bridge import candidates
from slem_demo.errors import SlemError
from slem_demo.models.builtin.tokenizers import EOS, stored_tokenizer
from slem_demo.models.codec import HubCodec
from slem_demo.models.pairs import ASSETS
from slem_demo.models.prompts import prompt_ids
from slem_demo.trace import Reason, Request
from tests.codecs import decoded, growing
from tests.texts import HARD, texts

CODECS = {name: HubCodec(stored_tokenizer(ASSETS / "builtin" / name), n_logits=5000) for name in ("target", "draft")}
codecs = st.sampled_from(sorted(CODECS)).map(CODECS.__getitem__)


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("text", HARD)
def test_bytes_of_the_ids_are_the_bytes_of_the_text(name: str, text: str) -> None:
    codec = CODECS[name]
    ids = codec.encode(text)
    assert decoded(codec, ids) == text.encode()
    assert codec.tokenizer.decode(ids) == text


@given(codecs, texts)
@settings(max_examples=300, deadline=None)
def test_any_text_round_trips(codec: HubCodec, text: str) -> None:
    assert decoded(codec, codec.encode(text)) == text.encode()


@pytest.mark.parametrize("name", CODECS)
def test_special_tokens_have_no_bytes_and_are_never_made_from_text(name: str) -> None:
    codec = CODECS[name]
    assert codec.vocab[codec.tokenizer.eos_token_id] == b""
    assert codec.tokenizer.eos_token_id not in codec.encode(f"a{EOS}b")
    for text in (EOS, f"{EOS}{EOS}", f" {EOS[:-1]} <unk>", "<unk>s and <unk"):
        assert decoded(codec, codec.encode(text)) == text.encode()


@pytest.mark.parametrize("name", CODECS)
def test_padded_ids_have_no_bytes_and_keys_are_injective(name: str) -> None:
    codec = CODECS[name]
    assert len(codec.vocab) == 5000
    assert not any(codec.vocab[len(codec.tokenizer) :])
    keys = codec.token_keys.tolist()
    assert len(set(keys)) == len(keys)


def test_tokens_that_the_model_has_no_logit_for_are_never_proposed() -> None:
    tokenizer = stored_tokenizer(ASSETS / "builtin" / "target")
    n = len(tokenizer)
    tokenizer.add_tokens(["<new>"])
    codec = HubCodec(tokenizer, n)
    assert (len(codec.vocab), codec.vocab[n]) == (n + 1, b"")
    assert candidates(codec, codec.encode("And"), b" <new> God") == ([], Reason.TARGET_ROUND_TRIP)
    with pytest.raises(SlemError, match="holds '<new>', a token of the tokenizer that its model does not know"):
        prompt_ids(codec, Request.checked(pair="p", prompt="And <new>"))


@given(codecs, texts, st.lists(texts, max_size=10))
@settings(max_examples=300, deadline=None)
def test_draft_context_equals_the_full_encoding(codec: HubCodec, prompt: str, pieces: list[str]) -> None:
    for ids, text in growing(codec, prompt, pieces):
        assert ids == codec.encode(text)


@given(codecs, texts, texts, texts)
@settings(max_examples=300, deadline=None)
def test_candidates_equal_the_full_encoding_where_it_continues_the_ids(codec: HubCodec, before: str, committed: str, drafted: str) -> None:
    committed_ids = codec.encode(before + committed)
    ids, reason = candidates(codec, committed_ids, drafted.encode())
    assert reason is None
    assert decoded(codec, ids) == drafted.encode()
    together = codec.encode(before + committed + drafted)
    if together[: len(committed_ids)] == committed_ids:
        assert ids == together[len(committed_ids) :]
