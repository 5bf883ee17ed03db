"""What is known of one comparison, from its beginning to wherever it ends."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from slem_demo.benchmark import Calibration, Case, Report, Run, Variant
from slem_demo.benchmark.report import Ratio
from slem_demo.metrics import Summary
from slem_demo.models.loading import Pair
from slem_demo.trace import Request
from slem_demo.ui.compare.measuring import Deadline, Expected, Passes, Step, comparable
from slem_demo.ui.compare.plan import TARGET, Plan


@dataclass
class Results:
    """What is known of one comparison, from its beginning to wherever it ends."""

    plan: Plan
    asked: dict[Case, Request]
    blank: Report  # what a report says but its runs
    vocab: Sequence[bytes]
    deadline: Deadline
    run: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    done: list[Run] = field(default_factory=list)
    costs: dict[Variant, Calibration] = field(default_factory=dict)
    expected_s: float | None = None
    report: Report | None = None

    @classmethod
    def begun(cls, plan: Plan, pair: Pair, deadline: Deadline) -> Self:
        """Raises SlemError if a prompt does not fit the pair."""
        e = pair.environment
        settings = {**plan.settings, "device": e.device, "dtype": e.dtype, "threads": e.threads}
        weights = {"target": pair.target.info.revision, "draft": pair.draft.info.revision}
        blank = Report(pair.name, plan.command, settings, e.machine, e.versions, weights, [], None, {})
        return cls(plan, plan.requests(pair), blank, pair.target.codec.vocab, deadline)

    def add(self, step: Step) -> None:
        match step:
            case Expected():
                self.expected_s = step.seconds
            case Run():
                self.done.append(step)
            case Passes():
                self.costs[step.variant] = step.costs
            case Report():
                self.report = step
                if step.calibrated and step.calibration:
                    self.costs[step.calibrated] = step.calibration

    @property
    def total(self) -> int:
        return len(self.plan.variants) * len(self.asked) * self.plan.repeats

    def to_json(self) -> dict[str, Any] | None:
        """The report, of what was done so far if it has not ended; None before the first run."""
        done = comparable(self.done)
        report = self.report or replace(self.blank, runs=done)
        return report.to_json() if done else None

    def of(self, variant: Variant) -> list[Run]:
        return [run for run in self.done if run.variant == variant]

    def summaries(self, variant: Variant) -> list[Summary]:
        return [run.metrics for run in self.of(variant) if run.metrics]

    def ratio(self, variant: Variant) -> Ratio | None:
        """Over the target alone, where both have written."""
        done = comparable(self.of(variant) + self.of(TARGET))
        is_paired = {run.variant for run in done} == {variant, TARGET}
        return replace(self.blank, runs=done).ratio(variant, TARGET) if is_paired else None

    def round_cost(self, variant: Variant) -> float | None:
        """What a round costs in target steps if it has nothing but its passes: draft steps · c + v."""
        costs, found = self.costs.get(variant), self.summaries(variant)
        n_rounds, n_drafted = (sum(getattr(m, name) or 0 for m in found) for name in ("num_rounds", "num_draft_tokens"))
        return n_drafted / n_rounds * costs.draft_step + costs.verify if costs and n_rounds else None
