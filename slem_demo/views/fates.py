"""What became of each token, and the one place that knows names, colours and second cues of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from slem_demo.metrics import is_cut
from slem_demo.trace import RoundEvent


class Fate(StrEnum):
    """The values of `data-fate`."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    CUT = "cut"
    UNREACHED = "unreached"
    CORRECTION = "correction"
    BONUS = "bonus"
    TARGET = "target"


@dataclass(frozen=True)
class Look:
    """Text and background colour in light and dark (contrast at least 4.5 : 1), and the cue for those who see no colour."""

    label: str
    light: tuple[str, str]
    dark: tuple[str, str]
    cue: str


LOOKS: dict[Fate, Look] = {
    Fate.ACCEPTED: Look("accepted", ("#116329", "#dafbe1"), ("#7ee787", "#12361f"), "border-bottom: 2px solid"),
    Fate.REJECTED: Look("the draft's word", ("#a40e26", "#ffebe9"), ("#ffa198", "#4a1a1e"), "text-decoration: line-through"),
    Fate.CORRECTION: Look("the target's word", ("#0550ae", "#ddf4ff"), ("#a5d6ff", "#102f57"), "border-bottom: 3px double"),
    Fate.BONUS: Look("bonus", ("#6639ba", "#fbefff"), ("#d2a8ff", "#33205a"), "border-bottom: 2px dashed"),
    Fate.TARGET: Look("plain target step", ("#1f2328", "#eef1f4"), ("#e6edf3", "#262c36"), "border-bottom: 1px solid"),
    Fate.CUT: Look("cut by the draft's end", ("#7d4e00", "#fff8c5"), ("#f0d174", "#3d2e00"), "border-bottom: 2px dotted"),
    Fate.UNREACHED: Look("never reached", ("#59636e", "#f6f8fa"), ("#9198a1", "#161b22"), "border-bottom: 2px dotted"),
}
BOLD = (Fate.CORRECTION, Fate.BONUS)
COMMITTED = (Fate.ACCEPTED, Fate.CORRECTION, Fate.BONUS, Fate.TARGET)


def fates(r: RoundEvent) -> tuple[list[Fate], Fate | None]:
    """The fate of each candidate, and of the target's own token (None if the round has none)."""
    candidate = r.candidate or ()
    refused = len(candidate) - r.n_accepted
    of_candidates = [Fate.ACCEPTED] * r.n_accepted + [Fate.UNREACHED] * refused
    if r.own is None:
        return of_candidates, None
    if not candidate:
        return of_candidates, Fate.TARGET
    if not refused:
        return of_candidates, Fate.BONUS
    of_candidates[r.n_accepted] = Fate.CUT if is_cut(r) else Fate.REJECTED
    return of_candidates, Fate.CORRECTION


def css() -> str:
    """The rules for `[data-fate]`, light and dark."""
    rules = []
    for fate, look in LOOKS.items():
        bold = "; font-weight: 700" if fate in BOLD else ""
        for scope, (ink, paper) in ((".slem", look.light), (".dark .slem", look.dark)):
            rules.append(f'{scope} [data-fate="{fate}"] {{ color: {ink}; background: {paper}; {look.cue}{bold} }}')
    return "\n".join(rules)
