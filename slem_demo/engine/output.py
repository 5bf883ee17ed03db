"""What the target has written so far: ids, their bytes, their text, and whether the end has been reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slem_demo.engine.bridge import Codec, TextStream
from slem_demo.engine.sampling import Place
from slem_demo.trace import Request, StopEvent, StopReason


@dataclass(frozen=True)
class Added:
    """What one commit did: ids kept of those offered, all newly certain text, and the part that may be shown already."""

    n_kept: int
    text: str
    shown: str


class Output:
    """Grows by committed target ids and stops *inside* a block of them: at an EOS, a stop string or the length limit.

    Text that may be the beginning of a stop string is not shown until it is certain that it is not.
    """

    def __init__(self, codec: Codec, eos_ids: frozenset[int], request: Request):
        self.codec = codec
        self.eos_ids = eos_ids
        self.stops = request.stop
        self.max_new_tokens = request.max_new_tokens
        self.ids: list[int] = []
        self.stop_reason: StopReason | None = None
        self._place = Place(0, 0)
        self._stream = TextStream()
        self._text = ""
        self._n_shown = 0

    @property
    def n_left(self) -> int:
        return self.max_new_tokens - len(self.ids)

    @property
    def pending(self) -> bytes:
        """Bytes of a character that the ids have begun and not finished."""
        return self._stream.pending

    @property
    def draft_place(self) -> Place:
        """Where a drafter goes on: a character that is begun is written again."""
        n_pending = len(self.pending)
        return Place(self._place.offset - n_pending, 0) if n_pending else self._place

    def places(self, candidate_ids: Sequence[int]) -> list[Place]:
        """Where each candidate, and the token after the last one, would be written: n + 1 places."""
        places = [self._place]
        for token in candidate_ids:
            places.append(self._next(places[-1], token))
        return places

    def commit(self, ids: Sequence[int]) -> Added:
        """Appends ids up to the end of the run, which sets `stop_reason`."""
        before = len(self._text)
        n_kept = 0
        for token in ids:
            self.ids.append(token)
            n_kept += 1
            self._place = self._next(self._place, token)
            if token in self.eos_ids:
                self.stop_reason = StopReason.EOS
            else:
                newest = len(self._text)
                self._text += self._stream.feed(self.codec.vocab[token])
                if self._cut_at_stop_string(newest):
                    self.stop_reason = StopReason.STOP_STRING
                elif self.n_left == 0:
                    self.stop_reason = StopReason.LENGTH
            if self.stop_reason:
                break
        return Added(n_kept, self._text[before:], self._show(len(self._text) - self._n_held()))

    def stop_event(self) -> StopEvent:
        """The end of the run; an unfinished character is written as the tokenizers write it, U+FFFD."""
        assert self.stop_reason is not None, "the run has not ended"
        if self.stop_reason is not StopReason.STOP_STRING:
            self._text += self._stream.finish()
        tail = self._show(len(self._text))
        return StopEvent(reason=self.stop_reason, output_ids=tuple(self.ids), text=self._text, tail=tail)

    def _next(self, place: Place, token: int) -> Place:
        n_bytes = len(self.codec.vocab[token])
        return Place(place.offset + n_bytes, 0) if n_bytes else Place(place.offset, place.ordinal + 1)

    def _cut_at_stop_string(self, newest: int) -> bool:
        """Ends the text before the first stop string that the text behind `newest` completes."""
        found = [self._text.find(stop, max(0, newest - len(stop) + 1)) for stop in self.stops]
        starts = [at for at in found if at >= 0]
        if starts:
            self._text = self._text[: min(starts)]
        return bool(starts)

    def _n_held(self) -> int:
        """Length of the longest end of the text that is the beginning of a stop string."""
        if self.stop_reason:
            return 0
        longest = max((len(stop) - 1 for stop in self.stops), default=0)
        for n in range(min(longest, len(self._text) - self._n_shown), 0, -1):
            if any(stop.startswith(self._text[-n:]) for stop in self.stops):
                return n
        return 0

    def _show(self, end: int) -> str:
        shown = self._text[self._n_shown : max(end, self._n_shown)]
        self._n_shown += len(shown)
        return shown
