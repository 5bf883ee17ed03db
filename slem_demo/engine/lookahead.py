"""How far a round drafts: a fixed number of tokens, or as far as it is worth (`k = auto`).

One more draft token is worth its time while what it is expected to add is more than the run writes in that time:

    P(all drafted so far are accepted) · P(the next is) · target tokens a draft token   >   seconds of a draft step · tokens a second

The first probability comes from the drafter's own confidence in all of them, corrected by how often drafts of such confidence were accepted
in this run; the second from how often a draft that was right so far stayed right. Seconds and rates are measured as the run goes. What is
drafted can't change what is written, so all of it may be rough.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

from slem_demo.engine.sampling import Chosen

MOST = 16  # draft tokens a round, at most
FIRST = 4  # in the first round, before anything is known
N_BINS = 16  # of confidence, each half as large again as the next
PRIOR = 6.0  # drafts that the drafter's own confidence counts for
STAYS_RIGHT = 0.8  # before anything is known
MEMORY, LONG_MEMORY = 0.9, 0.97  # of a round's figures, that is left after the next round
WORTH = 0.98  # of the speed of plain steps: below it drafting pauses
ENOUGH = 16  # drafting rounds before that is judged
PAUSE = 8  # rounds, doubled each time that drafting did not pay again


class Lookahead(Protocol):
    """The policy of one run."""

    @property
    def most(self) -> int:
        """Draft tokens a round, at most."""
        ...

    def begins(self) -> bool:
        """Whether this round drafts at all."""
        ...

    def goes_on(self, chosen: Chosen) -> bool:
        """Whether to draft another token after this one."""
        ...

    def learn(self, n_accepted_draft: int, n_tokens: int, draft_s: float, round_s: float) -> None:
        """What came of the round: draft tokens that were accepted, ids written, seconds of its draft steps and of all of it."""
        ...


@dataclass
class Fixed:
    """K tokens in every round."""

    most: int
    _n: int = 0

    def begins(self) -> bool:
        self._n = 0
        return True

    def goes_on(self, chosen: Chosen) -> bool:  # noqa: ARG002 - a policy that does not look
        self._n += 1
        return self._n < self.most

    def learn(self, n_accepted_draft: int, n_tokens: int, draft_s: float, round_s: float) -> None:
        """Nothing to learn."""


@dataclass
class Mean:
    """A ratio whose past fades."""

    total: float = 0.0
    weight: float = 0.0

    def add(self, total: float, weight: float = 1.0, memory: float = MEMORY) -> None:
        self.total, self.weight = memory * self.total + total, memory * self.weight + weight

    def count(self, hit: bool) -> None:
        """The same without fading."""
        self.total, self.weight = self.total + hit, self.weight + 1

    @property
    def value(self) -> float:
        return self.total / self.weight

    def or_else(self, unknown: float) -> float:
        return self.value if self.weight else unknown


@dataclass
class Auto:
    """As far as it is worth, see above; not at all while plain steps are quicker, with a try now and then."""

    most: int = MOST
    step_s: Mean = field(default_factory=Mean)  # of a draft step
    verify_s: Mean = field(default_factory=Mean)  # of a round but its draft
    plain_s: Mean = field(default_factory=Mean)  # of a round without a draft
    written: Mean = field(default_factory=Mean)  # tokens a second, in rounds that draft
    written_long: Mean = field(default_factory=Mean)
    tokens_per_draft: Mean = field(default_factory=Mean)
    right: list[Mean] = field(default_factory=lambda: [Mean(PRIOR * 1.5 ** -(i + 0.5), PRIOR) for i in range(N_BINS)])
    stays: list[Mean] = field(default_factory=lambda: [Mean(PRIOR * STAYS_RIGHT, PRIOR) for _ in range(MOST + 1)])
    _bins: list[int] = field(default_factory=list)  # of this round's drafts after each token, by confidence
    _confidence: float = 1.0
    _n_drafted_rounds: int = 0
    _pause_left: int = 0
    _pause: int = PAUSE

    def begins(self) -> bool:
        self._bins, self._confidence = [], 1.0
        return self._pause_left == 0

    def goes_on(self, chosen: Chosen) -> bool:
        self._confidence *= max(chosen.confidence, 1e-9)
        self._bins.append(min(int(-math.log(self._confidence) / math.log(1.5)), N_BINS - 1))
        n = len(self._bins)
        if not self.written.weight:
            return n < FIRST
        chance = self.right[self._bins[-1]].value * self.stays[n].value * self.tokens_per_draft.or_else(1.0)
        return n < self.most and chance > self.step_s.or_else(0.0) * self.written.or_else(0.0)

    def learn(self, n_accepted_draft: int, n_tokens: int, draft_s: float, round_s: float) -> None:
        n = len(self._bins)
        if not n:
            self.plain_s.add(round_s)
            self._pause_left = max(0, self._pause_left - 1)
            return
        for i, bin_ in enumerate(self._bins):
            self.right[bin_].count(i < n_accepted_draft)
            if i <= n_accepted_draft:
                self.stays[i].count(i < n_accepted_draft)
        self.step_s.add(draft_s, n)
        self.verify_s.add(round_s - draft_s)
        self.written.add(n_tokens, round_s)
        self.written_long.add(n_tokens, round_s, LONG_MEMORY)
        if n_accepted_draft:
            self.tokens_per_draft.add(n_tokens - 1, n_accepted_draft)
        self._n_drafted_rounds += 1
        plain_s = self.plain_s.or_else(self.verify_s.or_else(0.0))
        if self._n_drafted_rounds >= ENOUGH and self.written_long.or_else(0.0) * plain_s < WORTH:
            self._pause_left, self._pause = self._pause, 2 * self._pause
            self._n_drafted_rounds, self.written_long = ENOUGH - 4, Mean()
