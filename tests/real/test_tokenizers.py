"""The bridge on real tokenizers: gold ids and oracles first, then hard strings, then every pair of families."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slem_demo.engine.bridge import candidates, encode_exactly
from slem_demo.models.codec import HubCodec
from tests.codecs import decoded, growing
from tests.real.families import BUILD, GOLD, codec, gold, mistral_file, tekken_ranks
from tests.real.ideal import measure, measure_all
from tests.real.texts import TEXTS
from tests.texts import HARD, texts

pytestmark = pytest.mark.real
FAMILIES = sorted(BUILD)
codecs = st.sampled_from(FAMILIES).map(codec)
EVERYTHING = [*HARD, *TEXTS.values()]
# Ids that stand for bytes, not counting special tokens; those of SmolLM2, Llama-2, GPT-2, Gemma 3 and Llama-3 are known figures.
SIZES = {"SmolLM2": 49_135, "GPT-2": 50_256, "Llama-3": 128_000, "Qwen3": 151_655, "GPT-4o": 199_998, "tekken": 130_072}


@pytest.mark.parametrize("family", GOLD)
def test_gold_ids(family: str) -> None:
    pairs = gold(GOLD[family])
    assert len(pairs) >= 47
    assert {text: codec(family).encode(text) for text, _ in pairs} == dict(pairs)


def test_the_makers_own_libraries_write_the_same_ids() -> None:
    from sentencepiece import SentencePieceProcessor
    from tiktoken import Encoding

    pattern = json.loads(mistral_file("tekken_240911.json").read_text(encoding="utf-8"))["config"]["pattern"]
    tiktoken, n_special = Encoding("tekken", pat_str=pattern, mergeable_ranks=tekken_ranks(), special_tokens={}), 1000
    spm = SentencePieceProcessor(model_file=str(mistral_file("mistral_instruct_tokenizer_240323.model.v3")))
    for text in EVERYTHING:
        assert codec("tekken").encode(text) == [i + n_special for i in tiktoken.encode_ordinary(text)], text
        assert codec("Mistral-v3").encode(text) == spm.encode(text), text


@pytest.mark.parametrize("family", FAMILIES)
def test_bytes_of_the_ids_are_the_bytes_of_the_text(family: str) -> None:
    tokenizer = codec(family)
    if family in SIZES:
        assert sum(map(bool, tokenizer.vocab)) == SIZES[family]
    for text in EVERYTHING:
        written = decoded(tokenizer, tokenizer.encode(text))
        assert written in (text.encode(), b" " + text.encode()) or not encode_exactly(tokenizer, text), (family, text)
        if family == "DeepSeek-LLM":  # its tokens "ö", "ü" and so on are text when they are read, and single bytes when they are written
            continue
        assert tokenizer.tokenizer.decode(tokenizer.encode(text), clean_up_tokenization_spaces=False).strip() == written.decode().strip()
    keys = tokenizer.token_keys.tolist()
    assert len(set(keys)) == len(keys)


@given(codecs, texts, st.lists(texts, max_size=8))
@settings(max_examples=400, deadline=None)
def test_draft_context_equals_the_full_encoding(codec: HubCodec, prompt: str, pieces: list[str]) -> None:
    for ids, text in growing(codec, prompt, pieces):
        whole = encode_exactly(codec, text)
        if ids is not None:
            assert decoded(codec, ids) == decoded(codec, codec.encode(prompt)) + text.encode()[len(prompt.encode()) :]
        if whole is not None:
            assert ids == whole.ids


@given(codecs, texts, texts, texts)
@settings(max_examples=400, deadline=None)
def test_candidates_equal_the_full_encoding_where_it_continues_the_ids(codec: HubCodec, before: str, committed: str, drafted: str) -> None:
    committed_ids = codec.encode(before + committed)
    ids, reason = candidates(codec, committed_ids, drafted.encode())
    assert (reason is None) == bool(ids)
    together = encode_exactly(codec, before + committed + drafted)
    if together is not None and together.ids[: len(committed_ids)] == committed_ids:
        assert ids == together.ids[len(committed_ids) :]


@pytest.mark.parametrize("family", FAMILIES)
def test_candidates_continue_ids_that_end_anywhere(family: str) -> None:
    """Also inside a character: then what is drafted begins with the bytes of that character."""
    tokenizer, dice = codec(family), random.Random(family)
    for text in EVERYTHING:
        ids = tokenizer.encode(text)
        whole = encode_exactly(tokenizer, text)
        if whole is None:
            continue
        for n in dice.sample(range(1, len(ids)), min(12, len(ids) - 1)):
            end = whole.ends[n - 1]
            begun = len(text.encode()[:end]) - len(text.encode()[:end].decode("utf-8", "ignore").encode())
            found, reason = candidates(tokenizer, ids[:n], text.encode()[end - begun :])
            assert (found, reason) == (ids[n:], None), (family, text, n)


@pytest.mark.parametrize("target", FAMILIES)
def test_every_pair_is_lossless_with_an_ideal_drafter(target: str) -> None:
    for draft in FAMILIES:
        if draft != target:
            for name in ("code", "mixed"):
                measure(target, draft, name, 5)  # asserts that the ids are the target's own


@pytest.mark.parametrize("target", FAMILIES)
def test_what_an_ideal_drafter_writes_is_accepted(target: str) -> None:
    for draft in {"Gemma-3": ["GPT-2", "Llama-2"]}.get(target, ["Gemma-3", "GPT-2" if target != "GPT-2" else "Llama-2"]):
        counts = measure_all(target, draft)
        assert counts.accepted > 500
        assert counts.share >= 0.98, (target, draft, counts.refusals[:10])
        assert counts.accepted_inside > 0 or counts.rounds_inside == 0, "a character that is begun is continued"
