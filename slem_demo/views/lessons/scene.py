"""What the texts of a lesson are made of: the round in its run, the runs beside it, and their numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from slem_demo.metrics import Summary, is_cut, summarise
from slem_demo.trace import Method, ModelInfo, RoundEvent, Token, Trace
from slem_demo.views.lessons.words import count, each, quote, texts
from slem_demo.views.round import RoundPainter, RoundPicture


class Ending(StrEnum):
    """How a round ends."""

    PLAIN = "plain"
    BONUS = "bonus"
    CUT = "cut"
    INSIDE = "inside"
    BOUNDARY = "boundary"
    STOP = "stop"


@dataclass(frozen=True)
class Scene:
    """What the texts of a lesson are made of: the round in its run, and the runs beside it."""

    trace: Trace
    r: RoundEvent
    picture: RoundPicture
    n_pending: int  # bytes of a character that the committed ids had begun
    beside: tuple[Trace, ...]
    runs: int

    @classmethod
    def of(cls, trace: Trace, index: int, beside: Iterable[Trace] = (), runs: int = 1) -> Scene:
        """Draws the run up to the round: what an unfinished character lacks is written in the next."""
        painter = RoundPainter()
        for earlier in trace.rounds[:index]:
            painter.picture(earlier)
        n_pending, r = len(painter.decoder.getstate()[0]), trace.rounds[index]
        return cls(trace, r, painter.picture(r), n_pending, tuple(beside), runs)

    @cached_property
    def run(self) -> Summary:
        return summarise(self.trace)

    @cached_property
    def target(self) -> Trace | None:
        """The target alone on the same request, if it was recorded."""
        return next((t for t in self.beside if t.request.method is Method.TARGET), None)

    @property
    def draft(self) -> tuple[Token, ...]:
        return self.r.draft or ()

    @property
    def candidate(self) -> tuple[Token, ...]:
        return self.r.candidate or ()

    @property
    def refused(self) -> tuple[Token, ...]:
        """The candidate at the mismatch, if there is one."""
        return self.candidate[self.r.n_accepted :][:1] if self.r.own else ()

    @property
    def own(self) -> tuple[Token, ...]:
        """The target's own token, if the run did not end before it."""
        return (self.r.own,) if self.r.own else ()

    @property
    def is_greedy(self) -> bool:
        return self.trace.request.temperature == 0

    @property
    def shared_text(self) -> str:
        """The beginning that the refused candidate and the target's own token have in common."""
        at = self.picture["parts_at"]
        return "" if at is None else "".join(self.picture["columns"][int(self.picture["candidate"][self.r.n_accepted]["start"]) : int(at)])

    @property
    def ending(self) -> Ending:
        if not self.candidate:
            return Ending.PLAIN
        if self.r.own is None:
            return Ending.STOP
        if self.r.n_accepted == len(self.candidate):
            return Ending.BONUS
        if is_cut(self.r):
            return Ending.CUT
        return Ending.INSIDE if self.shared_text.strip() else Ending.BOUNDARY


def speedup(ours: Trace, target: Trace) -> float:
    """Seconds per output token of the target alone over ours, prefills included. Above 1: ours is faster."""
    a, b = summarise(ours), summarise(target)
    return (a.tokens_per_second or 0.0) / b.tokens_per_second if b.tokens_per_second else 0.0


def prices(ours: Trace, target: Trace) -> tuple[float, float, float]:
    """(c, v, k): a draft step and a target pass of ours in steps of the target alone, and draft steps per round."""
    s, step_s = summarise(ours), target_step_s(target)
    return per(s.draft_s, s.num_draft_tokens) / step_s, per(s.verify_s, s.num_rounds) / step_s, per(s.num_draft_tokens, s.num_rounds)


def predicted_speedup(ours: Trace, target: Trace) -> float:
    """Mean acceptance length / (k · c + v)."""
    c, v, k = prices(ours, target)
    return (summarise(ours).mean_acceptance_length or 0.0) / (k * c + v)


def speedups_by_k(s: Scene) -> dict[int | str, float]:
    """Of the runs that differ from the lesson's in K only, it among them."""
    if s.target is None:
        return {}
    same = [t for t in (s.trace, *s.beside) if t.request.model_copy(update={"k": s.trace.request.k}) == s.trace.request]
    ratios = {t.request.k: speedup(t, s.target) for t in same}
    return dict(sorted(ratios.items(), key=lambda row: (isinstance(row[0], str), row[0])))


def target_step_s(target: Trace) -> float:
    """A step of the target alone."""
    s = summarise(target)
    return per(s.verify_s, s.num_rounds)


def per(total: float | None, n: int | None) -> float:
    return (total or 0.0) / n if n else 0.0


def equal_ids(a: Trace, b: Trace) -> tuple[int, int]:
    """(places of equal ids, places compared)."""
    pairs = list(zip(a.output_ids, b.output_ids, strict=False))
    return sum(x == y for x, y in pairs), len(pairs)


def n_ids_before(s: Scene) -> int:
    """Target ids when the round began, the prompt's among them."""
    earlier = sum(len(r.committed) for r in s.trace.rounds[: s.r.round])
    return earlier + (len(s.trace.prefill.target_prompt_ids) if s.trace.prefill else 0)


def two_ids(s: Scene) -> str:
    """One text in both vocabularies."""
    ids = {t.bytes: t for t in s.candidate}
    both = next((t for t in s.draft if t.bytes in ids and ids[t.bytes].id != t.id), None)
    if both is None:
        return ""
    return f"{each([both])} is id {both.id} in the draft's and id {ids[both.bytes].id} in the target's"


def two_cuts(s: Scene) -> str:
    """A token of one vocabulary that is several of the other."""
    for whole, parts, names in (
        (s.picture["candidate"], s.picture["draft"], ("the target", "the draft")),
        (s.picture["draft"], s.picture["candidate"], ("the draft", "the target")),
    ):
        for block in whole:
            inside = [p for p in parts if block["start"] <= p["start"] < p["end"] <= block["end"]]
            if len(inside) > 1 and (inside[0]["start"], inside[-1]["end"]) == (block["start"], block["end"]):
                return f"{quote(block['text'])} is one token of {names[0]} and {len(inside)} of {names[1]}: {texts(inside)}."
    ids = two_ids(s)
    return f"Even where both cut it alike the ids differ: {ids}." if ids else "Ids mean something else in each."


def which_ids(s: Scene) -> str:
    """The candidate and the choice where the round ends, as ids; or those that are the same."""
    for refused, own in zip(s.refused, s.own, strict=False):
        return f"here {refused.id} ({each([refused])}) against {own.id} ({each([own])})"
    same = ", ".join(str(t.id) for t in s.candidate[: s.r.n_accepted])
    return f"here {same}, the same in both" if same else "here there is nothing to compare"


def accepted(s: Summary) -> str:
    return f"{s.num_accepted_tokens} of {s.num_candidate_tokens} candidates accepted in {count(s.num_rounds, 'pass')}"


def size_of(m: ModelInfo) -> str:
    return f"{m.n_parameters / 1e6:.1f} million parameters in {count(m.n_layers, 'layer')}"
