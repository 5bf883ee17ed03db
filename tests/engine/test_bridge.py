"""The bridge against its oracle: encoding everything from the beginning."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slem_demo.engine.bridge import DraftContext, TextStream, candidates, encode_exactly, unfinished
from slem_demo.trace import Reason
from tests.codecs import decoded, growing
from tests.fakes import CODECS, LONG, SHORT, ToyCodec
from tests.texts import HARD, texts

any_codec = st.sampled_from(sorted(CODECS)).map(CODECS.__getitem__)


@pytest.mark.parametrize("n", range(4))
def test_unfinished_counts_the_bytes_of_a_begun_character(n: int) -> None:
    assert unfinished(b"ab" + "😀".encode()[:n]) == n
    assert unfinished("aé日😀".encode()) == 0
    assert unfinished(b"\xff") == 0, "no character begins so; nothing is waited for"


@given(st.binary(max_size=40), st.integers(1, 5))
def test_a_text_stream_writes_what_decoding_at_once_writes(data: bytes, step: int) -> None:
    stream = TextStream()
    written = "".join(stream.feed(data[i : i + step]) for i in range(0, len(data), step)) + stream.finish()
    assert written == data.decode("utf-8", "replace")


@given(any_codec, texts, st.lists(texts, max_size=12))
@settings(max_examples=300, deadline=None)
def test_draft_context_equals_the_full_encoding(codec: ToyCodec, prompt: str, pieces: list[str]) -> None:
    for ids, text in growing(codec, prompt, pieces):
        assert ids == codec.encode(text)
        assert decoded(codec, ids) == (" " * codec.prepends_space + text).encode()


def test_draft_context_encodes_only_the_end_of_a_long_text() -> None:
    lengths = []

    class Counting(ToyCodec):
        def encode(self, text: str) -> list[int]:
            lengths.append(len(text))
            return super().encode(text)

    codec = Counting([" the", " and", " earth"])
    context = DraftContext(codec, codec.encode("In"))
    for _ in range(300):
        context.extend(" the earth and")
    assert max(lengths) < 150
    assert context.ids == codec.encode("In" + " the earth and" * 300)


def test_draft_context_keeps_special_tokens_of_the_prompt_and_never_re_encodes_them() -> None:
    prompt = [0, *LONG.encode("user the"), 0, *LONG.encode(" and")]
    context = DraftContext(LONG, prompt)
    context.extend(" earth")
    assert context.ids == [0, *LONG.encode("user the"), 0, *LONG.encode(" and earth")]


def test_draft_context_says_none_while_the_tokenizer_cannot_write_the_text() -> None:
    class Lower(ToyCodec):
        def encode(self, text: str) -> list[int]:
            return super().encode(text.lower())

    context = DraftContext(Lower([" the"]), [])
    context.extend(" the")
    assert context.ids is not None
    context.extend(" EARTH")
    assert context.ids is None


@given(any_codec, texts, texts)
@settings(max_examples=300, deadline=None)
def test_candidates_continue_the_committed_ids(codec: ToyCodec, committed: str, drafted: str) -> None:
    committed_ids = codec.encode(committed)
    ids, reason = candidates(codec, committed_ids, drafted.encode())
    assert (reason is None) == bool(ids)
    if ids:
        assert decoded(codec, committed_ids + ids).endswith((committed + drafted).encode())
    together = codec.encode(committed + drafted)
    if together[: len(committed_ids)] == committed_ids:
        assert ids == together[len(committed_ids) :], "in context, the window finds what the full encoding finds"


def test_a_draft_that_merges_with_the_last_word_is_encoded_alone() -> None:
    committed = LONG.encode(" land")
    assert LONG.encode(" land" + "scape") == [*committed, LONG.id_of[b"scape"]]
    merged = ToyCodec([" land", "scape", " landscape"])
    assert merged.encode(" landscape") == [merged.id_of[b" landscape"]]
    assert candidates(merged, merged.encode(" land"), b"scape") == ([merged.id_of[b"scape"]], None)


def test_committed_ids_that_the_tokenizer_would_not_write_are_continued_at_their_end() -> None:
    committed = [LONG.id_of[bytes([b])] for b in b" the"]
    assert candidates(LONG, committed, b" earth") == ([LONG.id_of[b" earth"]], None)


def test_a_draft_must_repeat_the_begun_character() -> None:
    begun = LONG.encode("a") + [LONG.id_of[bytes([b])] for b in "👍".encode()[:2]]
    ids, reason = candidates(LONG, begun, "👍!".encode())
    assert reason is None
    assert decoded(LONG, ids) == "👍!".encode()[2:]
    assert candidates(LONG, begun, b"!") == ([], Reason.INSIDE_CHARACTER)


def test_nothing_is_proposed_for_a_draft_without_a_whole_character() -> None:
    assert candidates(LONG, LONG.encode("a"), "👍".encode()[:3]) == ([], Reason.UNFINISHED_CHARACTER)
    assert candidates(LONG, LONG.encode("a"), b"") == ([], Reason.NO_DRAFT_TEXT)


def test_a_draft_is_cut_before_bytes_that_are_no_text() -> None:
    ids, reason = candidates(LONG, LONG.encode("a"), b" the\xff earth")
    assert (decoded(LONG, ids), reason) == (b" the", None)
    ids, _ = candidates(LONG, LONG.encode("a"), b" the" + "👍".encode()[:2])
    assert decoded(LONG, ids) == b" the"


def test_a_target_that_cannot_write_the_text_gets_no_candidates() -> None:
    class Lower(ToyCodec):
        def encode(self, text: str) -> list[int]:
            return super().encode(text.lower())

    codec = Lower([" the"])
    assert candidates(codec, codec.encode("a"), b" EARTH") == ([], Reason.TARGET_ROUND_TRIP)


def test_committed_bytes_that_are_no_text_do_not_stop_drafting() -> None:
    committed = [LONG.id_of[b"\xff"], *LONG.encode(" the")]
    assert candidates(LONG, committed, b" earth") == ([LONG.id_of[b" earth"]], None)


def test_after_a_special_token_text_is_encoded_afresh() -> None:
    assert candidates(LONG, [5, 0], b" earth") == ([LONG.id_of[b" earth"]], None)
    ids, _ = candidates(SHORT, [5, 0], b" earth")
    assert decoded(SHORT, ids) == b" earth", "no second space before it"


@pytest.mark.parametrize("text", HARD)
def test_toy_tokenizers_write_every_text_exactly(text: str) -> None:
    for codec in CODECS.values():
        encoded = encode_exactly(codec, text)
        assert encoded is not None
        assert encoded.ends[-1] == len(text.encode())
