"""The measurement: whole runs that take turns, as `bench` measures them, with an end that comes at any time."""

from __future__ import annotations

try:
    import spaces  # before anything that could load torch
except ImportError:  # not on a Space
    spaces = None

import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from slem_demo.benchmark import Calibration, Case, Report, Run, Variant, calibrate, finish, runs
from slem_demo.benchmark.measure import TYPICAL_K, Others
from slem_demo.engine.run import Clock
from slem_demo.errors import SlemError
from slem_demo.models.loading import Pair
from slem_demo.trace import Request
from slem_demo.ui.compare.plan import Plan
from slem_demo.ui.zero import QuotaError

PASSES = 8  # of each kind, that a calibration times between the runs


class EndedError(Exception):
    """The measurement ends before its time."""


@dataclass
class Deadline:
    """A clock that ends whoever reads it once the time is over, which `stop` can bring about at once."""

    max_seconds: float
    clock: Clock = time.perf_counter
    ends: float | None = None

    def __call__(self) -> float:
        """Raises EndedError."""
        now = self.clock()
        self.ends = now + self.max_seconds if self.ends is None else self.ends
        if now > self.ends:
            raise EndedError
        return now

    def stop(self) -> None:
        self.ends = -math.inf

    @property
    def is_stopped(self) -> bool:
        return self.ends == -math.inf


@dataclass(frozen=True)
class Expected:
    """Seconds that all runs may take, from the time of one target step."""

    seconds: float


@dataclass(frozen=True)
class Passes:
    """What the passes of a variant's rounds cost, timed apart."""

    variant: Variant
    costs: Calibration


Step = Expected | Run | Passes | Report


Measure = Callable[[Plan, Deadline], Generator[Step, None, None]]


def measure(pair: Pair, plan: Plan, deadline: Deadline) -> Generator[Step, None, None]:
    """An expectation, every run, after the first prompt the costs of passes, and last the report.

    Raises:
        SlemError: a method refuses, or nothing was measured in time.
    """
    asked, done, others = plan.requests(pair), list[Run](), Others()
    try:
        step_s = calibrate(pair, 0, n_context=64, repeats=3, clock=deadline).target_step_s
        n_runs = len(plan.variants) * (1 + len(asked) * plan.repeats)
        yield Expected(step_s * n_runs * int(str(plan.settings["max_new_tokens"])))
        for run in runs(pair, asked, plan.variants, plan.repeats, deadline):
            done.append(run)
            yield run
            if len(done) == len(plan.variants):
                yield from passes(pair, asked, done, deadline)
    except EndedError:
        if deadline.is_stopped:
            return
        if not done:
            message = f"Not one run was done within {deadline.max_seconds:g} s, the most that this host allows"
            raise SlemError(f"{message}: ask for fewer methods or tokens.") from None
    yield finish(pair, asked, comparable(done), plan.settings, plan.command, {"during": others.cores()})


def passes(pair: Pair, asked: Mapping[Case, Request], done: Sequence[Run], deadline: Deadline) -> Iterator[Passes]:
    """The costs of the passes of each drafting variant, at the size of its rounds in these runs."""
    for run in done:
        m = run.metrics
        if m and m.num_draft_tokens and m.num_candidate_tokens:
            n_context = len(pair.prompts(asked[run.case]).target_ids) + run.num_tokens // 2
            n_steps, n_candidates = (round(n / m.num_rounds) for n in (m.num_draft_tokens, m.num_candidate_tokens))
            yield Passes(run.variant, calibrate(pair, n_steps or TYPICAL_K, n_candidates, n_context, PASSES, deadline))


def comparable(done: Sequence[Run]) -> list[Run]:
    """The runs of those prompts and repeats that every variant has written that has written any: what a report can compare."""
    places: dict[Variant, set[tuple[Case, int]]] = {}
    for run in done:
        places.setdefault(run.variant, set()).add((run.case, run.repeat))
    shared = set.intersection(*places.values()) if places else set()
    return [run for run in done if (run.case, run.repeat) in shared]


def on_worker(compute: Measure) -> Measure:
    """`compute` on ZeroGPU's worker where there is one; what it yields is made of plain values, so it goes through the pipe as it is.

    The wrapped function raises SlemError as `compute` does, and QuotaError if no worker was to be had.
    """
    if spaces is None:
        return compute

    def sending(plan: Plan, deadline: Deadline) -> Generator[Step | SlemError, None, None]:
        try:
            yield from compute(plan, deadline)
        except SlemError as error:
            yield error

    worker = spaces.GPU(duration=lambda _, deadline: round(deadline.max_seconds))(sending)

    def main(plan: Plan, deadline: Deadline) -> Generator[Step, None, None]:
        try:
            with closing(worker(plan, deadline)) as steps:
                for step in steps:
                    if isinstance(step, SlemError):
                        raise step
                    yield step
        except Exception as error:  # `spaces` raises gradio's error with a sentence of its own
            if "quota" in str(error).lower():
                raise QuotaError from error
            raise

    return main
