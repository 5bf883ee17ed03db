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
    """Text and background colour in light and dark (contrast at least 4.5 : 1), and the cues for those who see no colour.

    `cue`: of a span of text; `outline`: of a box in a picture.
    """

    label: str
    light: tuple[str, str]
    dark: tuple[str, str]
    cue: str
    outline: str


LOOKS: dict[Fate, Look] = {
    Fate.ACCEPTED: Look(
        "accepted",
        light=("#116329", "#dafbe1"),
        dark=("#7ee787", "#12361f"),
        cue="border-bottom: 2px solid",
        outline="stroke-width: 1.5",
    ),
    Fate.REJECTED: Look(
        "the draft's word",
        light=("#a40e26", "#ffebe9"),
        dark=("#ffa198", "#4a1a1e"),
        cue="text-decoration: line-through",
        outline="stroke-width: 2",
    ),
    Fate.CORRECTION: Look(
        "the target's word",
        light=("#0550ae", "#ddf4ff"),
        dark=("#a5d6ff", "#102f57"),
        cue="border-bottom: 3px double",
        outline="stroke-width: 3",
    ),
    Fate.BONUS: Look(
        "bonus",
        light=("#6639ba", "#fbefff"),
        dark=("#d2a8ff", "#33205a"),
        cue="border-bottom: 2px dashed",
        outline="stroke-width: 2; stroke-dasharray: 7 3",
    ),
    Fate.TARGET: Look(
        "plain target step",
        light=("#1f2328", "#eef1f4"),
        dark=("#e6edf3", "#262c36"),
        cue="border-bottom: 1px solid",
        outline="stroke-width: 1",
    ),
    Fate.CUT: Look(
        "cut by the draft's end",
        light=("#7d4e00", "#fff8c5"),
        dark=("#f0d174", "#3d2e00"),
        cue="border-bottom: 2px dotted",
        outline="stroke-width: 2; stroke-dasharray: 2 2",
    ),
    Fate.UNREACHED: Look(
        "never reached",
        light=("#59636e", "#f6f8fa"),
        dark=("#9198a1", "#161b22"),
        cue="border-bottom: 2px dotted",
        outline="stroke-width: 1.5; stroke-dasharray: 2 4",
    ),
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
    """The rules for `[data-fate]`, light, dark and in print; pictures take their colours from the variables."""
    rules = []
    for fate, look in LOOKS.items():
        for scope, (ink, paper) in ((".slem", look.light), (".dark .slem", look.dark), (".dark .slem.print", look.light)):
            rules.append(f'{scope} [data-fate="{fate}"] {{ --ink: {ink}; --paper: {paper} }}')
        bold = "; font-weight: 700" if fate in BOLD else ""
        rules.append(f'.slem span[data-fate="{fate}"] {{ color: var(--ink); background: var(--paper); {look.cue}{bold} }}')
        rules.append(f'.slem [data-fate="{fate}"] > rect {{ fill: var(--paper); stroke: var(--ink); {look.outline} }}')
        rules.append(f'.slem [data-fate="{fate}"] > text {{ fill: var(--ink){bold} }}')
    rules.append(".slem .strike { stroke: var(--ink); stroke-width: 1.5; opacity: .6 }")
    return "\n".join(rules)
