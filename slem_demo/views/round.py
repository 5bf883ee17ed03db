"""One round as a picture: two tokenisations of one string, where they part, what the target chose instead. Plain data, no HTML.

Columns are characters of the string; a token that splits a character ends at a fraction of a column.

    draft       | th|e| land|scape          0–3, 3–4, 4–9, 9–14
    the string   ·the·landscape             14 columns
    candidates  | the| landsca|pe           0–4, 4–12, 12–14
    chose       | the| earth                4–10; they part at column 5, inside both " land" and " landsca"
"""

from __future__ import annotations

import codecs
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import TypedDict

from slem_demo.metrics import is_cut
from slem_demo.trace import REASON_TEXT, RoundEvent, Token
from slem_demo.views.fates import Fate, fates

RIGHT_TO_LEFT = ("R", "AL", "RLE", "RLO", "RLI")  # Unicode's classes
PHASES = (("draft_s", "draft"), ("retokenise_s", "re-tokenise"), ("verify_s", "verify"))


class Block(TypedDict):
    """A token over the string, from column `start` to `end`; one of no bytes has no width. `hex`: its bytes, if it splits a character."""

    id: int
    text: str
    hex: str | None
    fate: str
    start: float
    end: float


class Choice(TypedDict):
    """What the target could have written where the round ended, with its probability; `role`: candidate, chosen or empty."""

    id: int
    text: str
    probability: float
    role: str


class Phase(TypedDict):
    name: str
    seconds: float


class RoundPicture(TypedDict):
    """`columns`: the characters of the string; `wide`: those that take two cells. `parts_at`: the column where draft and target part."""

    round: int
    columns: list[str]
    wide: list[int]
    draft: list[Block]
    candidate: list[Block]
    own: Block | None
    parts_at: float | None
    choices: list[Choice]
    phases: list[Phase]
    sentence: str


@dataclass
class RoundPainter:
    """Draws the rounds of a run in their order: what a character lacks at a round's end, the next draft writes again."""

    decoder: codecs.IncrementalDecoder = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))

    def picture(self, r: RoundEvent) -> RoundPicture:
        pending: bytes = self.decoder.getstate()[0]
        self.decoder.decode(b"".join(token.bytes for token in r.committed))
        return picture(r, pending)


def pictures(rounds: Iterable[RoundEvent]) -> list[RoundPicture]:
    painter = RoundPainter()
    return [painter.picture(r) for r in rounds]


def picture(r: RoundEvent, pending: bytes = b"") -> RoundPicture:
    """`pending`: bytes of a character that the committed ids have begun; a draft repeats them, candidates follow them."""
    draft = r.draft or ()
    shown = (r.accepted or ()) if r.candidate is None else r.candidate
    ruler = Ruler(_longest(b"".join(t.bytes for t in draft), pending + b"".join(t.bytes for t in shown)))
    of_candidates, of_own = fates(r) if r.candidate is not None else ([Fate.ACCEPTED] * len(shown), Fate.TARGET)
    start = len(pending) + sum(len(t.bytes) for t in shown[: r.n_accepted])
    parts_byte = _parts_at(r, start)
    own = None
    if r.own is not None and of_own is not None:
        column = ruler.column(start)
        own = _block(r.own, of_own, column, column + len(r.own.bytes.decode("utf-8", "replace")))
    return RoundPicture(
        round=r.round,
        columns=list(ruler.text),
        wide=[i for i, character in enumerate(ruler.text) if unicodedata.east_asian_width(character) in "WF"],
        draft=ruler.blocks(draft, _draft_fates(draft, start, parts_byte), 0),
        candidate=ruler.blocks(shown, of_candidates, len(pending)),
        own=own,
        parts_at=None if parts_byte is None else ruler.column(parts_byte),
        choices=choices(r),
        phases=[Phase(name=name, seconds=s) for key, name in PHASES if (s := getattr(r, key)) is not None],
        sentence=sentence(r),
    )


class Ruler:
    """Places in bytes as places in characters."""

    def __init__(self, data: bytes):
        self.text = data.decode("utf-8", "replace")
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        ends = [0]
        for i in range(len(data)):
            n = len(decoder.decode(data[i : i + 1], final=i == len(data) - 1))
            ends += [i + 1] * n if n else []
        self._ends = ends

    def column(self, place: int) -> float:
        """A place inside a character is a fraction of its column; one behind the string is its end."""
        for i, (begin, end) in enumerate(pairwise(self._ends)):
            if place < end:
                return i + max(0, place - begin) / (end - begin)
        return float(len(self._ends) - 1)

    def blocks(self, tokens: Sequence[Token], of: Sequence[Fate], begin: int) -> list[Block]:
        places = accumulate((len(token.bytes) for token in tokens), initial=begin)
        return [_block(t, fate, self.column(a), self.column(b)) for t, fate, (a, b) in zip(tokens, of, pairwise(places), strict=True)]


def choices(r: RoundEvent) -> list[Choice]:
    """Likeliest first; empty where the trace holds no probabilities (`Request.alternatives`)."""
    if not r.positions or r.n_accepted >= len(r.positions) or r.own is None:
        return []
    position = r.positions[r.n_accepted]
    candidate = (r.candidate or ())[r.n_accepted : r.n_accepted + 1]
    found = {a.token.id: (a.token.text, a.probability) for a in position.alternatives}
    if candidate and position.candidate_probability is not None:
        found.setdefault(candidate[0].id, (candidate[0].text, position.candidate_probability))
    roles = {token.id: "candidate" for token in candidate} | {r.own.id: "chosen"}
    rows = [Choice(id=i, text=text, probability=p, role=roles.get(i, "")) for i, (text, p) in found.items()]
    return sorted(rows, key=lambda row: -row["probability"])


def sentence(r: RoundEvent) -> str:
    """What happened, in plain words."""
    own = _quoted([r.own]) if r.own else ""
    if r.candidate is None:
        return f"{_count(len(r.accepted or ()), 'token')} of the draft accepted; this method does not show what it sent."
    if not r.candidate:
        why = REASON_TEXT[r.reason] if r.reason else "there was no candidate"
        return f"Nothing was proposed: {why}. The target wrote {own}."
    n, proposed = r.n_accepted, f"The draft wrote {_quoted(r.draft or r.candidate)}, {_count(len(r.candidate), 'token')} for the target."
    if r.own is None:
        return f"{proposed} The run ended inside the {n} that it accepted."
    if n == len(r.candidate):
        return f"{proposed} All are its own choices, and the same pass gave one more: {own}."
    kept = f"It kept {_quoted(r.candidate[:n])}" if n else "It kept none"
    refused = r.candidate[n]
    if is_cut(r):
        return f"{proposed} {kept}. The last, {_quoted([refused])}, is only the beginning of its own {own}: the draft ended there."
    n_same = _n_same(refused.bytes, r.own.bytes)
    same = refused.bytes[:n_same]
    whole = same.decode("utf-8", "ignore")
    chose = f"{proposed} {kept} and chose {own} for {_quoted([refused])}"
    if len(whole.encode()) < n_same:
        return f"{chose}: they part inside a character."
    if whole.strip():
        return f"{chose}: the same up to {quoted(same)}, so they part inside a token."
    return f"{chose}."


def _parts_at(r: RoundEvent, agreed: int) -> int | None:
    """The byte of the string where draft and target part. `agreed`: bytes up to the last candidate that was accepted."""
    candidate = r.candidate or ()
    if r.own is None or r.n_accepted >= len(candidate):
        return None
    return agreed + _n_same(candidate[r.n_accepted].bytes, r.own.bytes)


def _draft_fates(draft: Sequence[Token], agreed: int, parts_byte: int | None) -> list[Fate]:
    """By their text: what stands before the place where they part was written, whole or as the beginning of the target's own token."""
    found = []
    for begin, end in pairwise(accumulate((len(t.bytes) for t in draft), initial=0)):
        is_end_token = begin == end
        if end <= (agreed if parts_byte is None else parts_byte) and not (is_end_token and parts_byte is not None):
            found.append(Fate.ACCEPTED)
        else:
            found.append(Fate.REJECTED if parts_byte is not None and begin <= parts_byte else Fate.UNREACHED)
    return found


def _n_same(a: bytes, b: bytes) -> int:
    """Bytes that both begin with; where both are whole characters, those of whole characters."""
    n = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return n if _hex(a) or _hex(b) else len(a[:n].decode("utf-8", "ignore").encode())


def _longest(draft: bytes, candidates: bytes) -> bytes:
    return candidates if len(candidates) > len(draft) else draft


def _block(token: Token, fate: Fate, start: float, end: float) -> Block:
    return Block(id=token.id, text=token.text, hex=_hex(token.bytes), fate=fate, start=start, end=end)


def _hex(data: bytes) -> str | None:
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.hex(" ")
    return None


def _quoted(tokens: Sequence[Token]) -> str:
    return quoted(b"".join(token.bytes for token in tokens))


def quoted(data: bytes) -> str:
    """Bytes for a sentence: line ends and tabs as marks, text from right to left kept apart from what is around it."""
    if not data:
        return "its end token"
    if _hex(data):
        return f"bytes {_hex(data)}"
    text = data.decode().replace("\n", "⏎").replace("\t", "⇥")
    if any(unicodedata.bidirectional(character) in RIGHT_TO_LEFT for character in text):
        text = f"\u2068{text}\u2069"
    return f"“{text}”"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'s' * (n != 1)}"
