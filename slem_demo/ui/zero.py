"""ZeroGPU Spaces: runs are computed in a worker that gets a GPU for a number of seconds asked for beforehand.

The worker is forked for each call and sends what it yields through a pipe, so only plain values go through it. Everywhere else the
wrapper changes nothing.
"""

from __future__ import annotations

try:
    import spaces  # before anything that could load torch
except ImportError:  # not on a Space
    spaces = None

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import asdict
from typing import Any

from slem_demo.benchmark import Calibration
from slem_demo.engine.race import LaneEvent
from slem_demo.errors import SlemError
from slem_demo.models.difference import Difference
from slem_demo.trace import event_of
from slem_demo.ui.stream import Step

Compute = Callable[[dict[str, Any], bool], Generator[Step, None, None]]
PlainCompute = Callable[[dict[str, Any], bool], Generator[dict[str, Any], None, None]]

MAY_COMPUTE_AT_START = spaces is None  # the main process of a ZeroGPU Space has no GPU

SECONDS_TO_START = 5
SECONDS_A_TOKEN = 0.1  # of the slowest pair on offer, both lanes


class QuotaError(Exception):
    """The visitor has used up today's GPU seconds."""


def duration(fields: dict[str, Any], with_race: bool, max_seconds: int) -> int:
    """Seconds to reserve for a run: short ones start sooner and cost a visitor less of the daily quota."""
    lanes = 2 if with_race else 1
    return min(max_seconds, round(SECONDS_TO_START + SECONDS_A_TOKEN * lanes * int(fields["max_new_tokens"])))


def on_gpu(compute: Compute, max_seconds: int) -> Compute:
    """`compute` on ZeroGPU's worker where there is one.

    The wrapped function raises SlemError as `compute` does, and QuotaError if no worker was to be had.
    """
    if spaces is None:
        return compute

    def compute_plain(fields: dict[str, Any], with_race: bool) -> Generator[dict[str, Any], None, None]:
        try:
            yield from map(to_plain, compute(fields, with_race))
        except SlemError as error:
            yield {"error": str(error)}

    worker: PlainCompute = spaces.GPU(duration=lambda fields, with_race: duration(fields, with_race, max_seconds))(compute_plain)

    def main(fields: dict[str, Any], with_race: bool) -> Generator[Step, None, None]:
        try:
            with closing(worker(fields, with_race)) as items:
                yield from map(from_plain, items)
        except Exception as error:  # `spaces` raises gradio's error with a sentence of its own
            if "quota" in str(error).lower():
                raise QuotaError from error
            raise

    return main


def to_plain(step: Step) -> dict[str, Any]:
    if isinstance(step, Calibration):
        return {"calibration": asdict(step)}
    if isinstance(step, Difference):
        return {"difference": asdict(step)}
    return {"lane": step.lane, "event": step.event.model_dump(mode="json"), "clock_s": step.clock_s}


def from_plain(item: dict[str, Any]) -> Step:
    """The step that `to_plain` wrote. Raises SlemError for an error that came instead of one."""
    if "error" in item:
        raise SlemError(item["error"])
    if "calibration" in item:
        return Calibration(**item["calibration"])
    if "difference" in item:
        return Difference(**item["difference"] | {"texts": tuple(item["difference"]["texts"])})
    return LaneEvent(item["lane"], event_of(item["event"]), item["clock_s"])
