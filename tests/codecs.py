"""What the tests of the bridge ask of any tokenizer, toy or real."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slem_demo.engine.bridge import Codec, DraftContext


def decoded(codec: Codec, ids: Sequence[int]) -> bytes:
    return b"".join(codec.vocab[i] for i in ids)


def growing(codec: Codec, prompt: str, pieces: Sequence[str]) -> Iterator[tuple[list[int] | None, str]]:
    """A draft context's ids and the whole text, after each piece that is added."""
    context, text = DraftContext(codec, codec.encode(prompt)), prompt
    for piece in pieces:
        context.extend(piece)
        text += piece
        yield context.ids, text
