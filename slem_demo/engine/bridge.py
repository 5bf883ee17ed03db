"""The string bridge between two vocabularies: committed text → drafter ids, drafted text → candidate ids.

Everything is measured in bytes of the vocabularies, so a token that ends inside a character needs no special case. Texts are
encoded from a *safe start* near the end (a pre-token start, found by the tokenizer itself), never from the beginning, so a
round costs the same at any length; the full re-encoding is the tests' oracle. What is proposed cannot change what the target
writes, only how much of it is accepted, so every fall-back here may be approximate. They are, in this order:

1. encode the drafted text together with the committed text before it, and take the tokens after the committed bytes;
2. if no token boundary lies there (the draft merges with the last word), encode the drafted text alone, after a short anchor;
3. propose nothing, with a reason from `Reason`.
"""

from __future__ import annotations

import codecs
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Protocol

from slem_demo.trace import Reason

WINDOWS = (8, 64, 256)  # committed tokens looked at; the next one only if no safe start lies in the last
LONG_ENOUGH = 64  # characters that are encoded again in each round before the drafter's anchor moves
ANCHORS = ("", "\n", "a")  # what may stand before a text that is encoded alone


class Codec(Protocol):
    """A tokenizer, as far as the bridge needs it. Everything is data: no special token is ever made from text."""

    @property
    def vocab(self) -> Sequence[bytes]:
        """The bytes of each id; none for special tokens and for ids that no text encodes to."""
        ...

    def encode(self, text: str) -> list[int]: ...

    def starts(self, text: str) -> list[int]:
        """Ascending character offsets where the tokenizer can be started afresh, 0 not included."""
        ...


def unfinished(data: bytes) -> int:
    """How many bytes at the end are the beginning of a character that is not complete."""
    if not data or data[-1] < 0x80:
        return 0
    stream = TextStream()
    stream.feed(data)
    return len(stream.pending)


@dataclass
class TextStream:
    """Bytes in, text out as soon as it is certain; what was written never changes."""

    decoder: codecs.IncrementalDecoder = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))

    def feed(self, data: bytes) -> str:
        return self.decoder.decode(data)

    @property
    def pending(self) -> bytes:
        """The bytes of an unfinished character."""
        return self.decoder.getstate()[0]

    def finish(self) -> str:
        """What stands for an unfinished character at the end."""
        return self.decoder.decode(b"", final=True)


@dataclass(frozen=True)
class Encoded:
    """Ids of a text with the byte offset where each ends. `lead` is 1 if the tokenizer put a space before the text."""

    ids: list[int]
    ends: list[int]
    lead: int = 0

    def boundary(self, offset: int) -> int | None:
        """How many tokens end at or before a byte offset, or None if the offset lies inside a token."""
        if offset == 0 and not self.lead:
            return 0
        n = bisect_right(self.ends, offset)
        return n if n and self.ends[n - 1] == offset else None

    def after(self, offset: int) -> Encoded | None:
        """The tokens behind a byte offset and their ends from there, or None if it lies inside a token."""
        n = self.boundary(offset)
        return None if n is None else Encoded(self.ids[n:], [end - offset for end in self.ends[n:]])


def encode_exactly(codec: Codec, text: str) -> Encoded | None:
    """`text` in the codec's ids, or None if the ids do not stand for its very bytes.

    A space that the tokenizer puts before every text is allowed; its byte lies at offset -1.
    """
    ids = codec.encode(text)
    pieces = [codec.vocab[i] for i in ids]
    data, wanted = b"".join(pieces), text.encode()
    if data not in (wanted, b" " + wanted):
        return None
    lead = len(data) - len(wanted)
    return Encoded(ids, [end - lead for end in accumulate(map(len, pieces))], lead)


class DraftContext:
    """The drafter's ids for a growing text.

    Tokens before a safe start do not depend on what is written behind it, so they are kept; the rest is encoded again from an
    earlier safe start (the anchor), whose own tokens are thrown away.

    Example, with anchor `|` and kept boundary `^`:  ids of "In the|begin^ning God" = kept ids of "In the begin" + the tokens
    behind `^` of encode("begin" + "ning God").
    """

    def __init__(self, codec: Codec, prompt_ids: Sequence[int]):
        """`prompt_ids`: the prompt in the drafter's own rendering. Text after its last special token may still be re-tokenised."""
        self.codec = codec
        n_fixed = max((i + 1 for i, token in enumerate(prompt_ids) if not codec.vocab[token]), default=0)
        text = self._rewritable(prompt_ids[n_fixed:])
        if text is None:
            n_fixed = len(prompt_ids)
        self._text = text or ""
        self._fixed = list(prompt_ids[:n_fixed])
        self._body = Encoded([], [])
        self._anchor = (0, 0)  # where the next encoding starts, in characters and in bytes
        self._boundary = (0, 0)  # what is kept of the body, in bytes and in tokens
        self._exact = True
        self._encode()

    def _rewritable(self, ids: Sequence[int]) -> str | None:
        """The text that encodes to `ids`, or None if there is none."""
        data = b"".join(self.codec.vocab[i] for i in ids)
        for lead in (0, 1):
            text = data[lead:].decode("utf-8", "replace")
            encoded = encode_exactly(self.codec, text)
            if encoded is not None and encoded.ids == list(ids):
                return text
        return None

    def extend(self, text: str) -> None:
        """Appends committed text."""
        if text:
            self._text += text
            self._encode()

    @property
    def ids(self) -> list[int] | None:
        """The whole context in drafter ids, or None while the drafter's tokenizer cannot write the text exactly."""
        return self._fixed + self._body.ids if self._exact else None

    def _encode(self) -> None:
        text = self._text[self._anchor[0] :]
        new = encode_exactly(self.codec, text)
        (kept_bytes, n_kept), shift = self._boundary, self._anchor[1]
        if new is not None and n_kept:
            new = new.after(kept_bytes - shift)
        elif new is not None and new.lead and self._fixed and self.codec.vocab[self._fixed[-1]]:
            new = _alone(self.codec, text)  # no space that nobody wrote between fixed text and this
        self._exact = new is not None
        if new is not None:
            ids, ends = self._body.ids[:n_kept] + new.ids, self._body.ends[:n_kept] + [end + kept_bytes for end in new.ends]
            self._body = Encoded(ids, ends, self._body.lead or new.lead)
            self._advance(text)

    def _advance(self, text: str) -> None:
        """Moves anchor and boundary forward, now and then. The last two starts may still move as text is added: they are left alone."""
        if len(text) < LONG_ENOUGH:
            return
        usable = []
        for start in self.codec.starts(text)[:-2]:
            place = (self._anchor[0] + start, self._anchor[1] + len(text[:start].encode()))
            n_tokens = self._body.boundary(place[1])
            if n_tokens:
                usable.append((place, n_tokens))
        if len(usable) >= 3 and usable[-1][1] > self._boundary[1]:
            self._anchor = usable[-3][0]
            self._boundary = (usable[-1][0][1], usable[-1][1])


class Window:
    """The end of the committed text, from a safe start on. It grows with the text and is begun anew when it has become long."""

    def __init__(self, codec: Codec):
        self.codec = codec
        self._data, self._n_seen = b"", 0

    def update(self, committed_ids: Sequence[int]) -> tuple[str, bytes]:
        """(text of complete characters, bytes of an unfinished one) at the end of ids that begin with those of the last call."""
        new = [self.codec.vocab[i] for i in committed_ids[self._n_seen :]]
        self._data += b"".join(new)
        self._n_seen = len(committed_ids)
        n_pending = unfinished(self._data)
        pending = self._data[len(self._data) - n_pending :]
        if not (self._data and all(new)) or len(self._data) > LONG_ENOUGH:
            self._data = _window(self.codec, committed_ids, n_pending).encode() + pending
        return _valid_end(self._data[: len(self._data) - n_pending]), pending


def candidates(codec: Codec, committed_ids: Sequence[int], drafted: bytes, window: Window | None = None) -> tuple[list[int], Reason | None]:
    """Target ids that continue `committed_ids` with the drafted text, or none and why.

    Args:
        committed_ids: prompt and output ids of the target, never re-encoded.
        drafted: what the drafter wrote after the last *complete* character of the committed text. If the committed ids end inside
            a character, it must begin with the bytes of that character that are already there.
        window: of the calls before, for ids that grow.
    """
    before, pending = (window or Window(codec)).update(committed_ids)
    if not drafted.startswith(pending):
        return [], Reason.INSIDE_CHARACTER
    text = _whole_characters(drafted)
    n_new = len(text.encode()) - len(pending)
    if n_new <= 0:
        return [], Reason.UNFINISHED_CHARACTER if drafted else Reason.NO_DRAFT_TEXT
    together = encode_exactly(codec, before + text)
    behind = together.after(len(before.encode()) + len(pending)) if together else None
    if behind is None and not pending:
        behind = _alone(codec, text)
    if behind is not None and behind.ids:
        return behind.ids, None
    return [], Reason.NO_BOUNDARY if together else Reason.TARGET_ROUND_TRIP


def _alone(codec: Codec, text: str) -> Encoded | None:
    for anchor in ANCHORS:
        encoded = encode_exactly(codec, anchor + text)
        behind = encoded.after(len(anchor)) if encoded else None
        if behind is not None:
            return behind
    return None


def _whole_characters(data: bytes) -> str:
    """The text of `data` up to the first byte that is not part of a complete character."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        return data[: error.start].decode()


def _tail(codec: Codec, ids: Sequence[int], n: int) -> bytes:
    """The bytes of the last `n` ids, or of those behind the last special token if that is nearer."""
    pieces: list[bytes] = []
    for token in reversed(ids[-n:]):
        if not codec.vocab[token]:
            break
        pieces.append(codec.vocab[token])
    return b"".join(reversed(pieces))


def _window(codec: Codec, ids: Sequence[int], n_pending: int) -> str:
    """The committed text, without an unfinished character, from a safe start near its end.

    At least two safe starts lie before its end, unless the text (or what follows a special token or an invalid byte) is shorter.
    """
    text = ""
    for n in WINDOWS:
        data = _tail(codec, ids, n)
        text = _valid_end(data[: len(data) - n_pending])
        starts = codec.starts(text)
        if len(starts) >= 4:
            return text[starts[0] :]
        if n >= len(ids):
            break
    return text


def _valid_end(data: bytes) -> str:
    """The longest end of `data` that is valid text."""
    while True:
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            data = data[error.end :]
