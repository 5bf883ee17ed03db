"""ZeroGPU Spaces: a function that computes runs in a worker with a GPU for a number of seconds asked for beforehand.

The worker is forked for each call and sends what it yields through a pipe, so only plain values may be yielded. Everywhere else the
decorator changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

try:
    import spaces
except ImportError:  # not on a Space
    spaces = None

F = TypeVar("F", bound=Callable[..., Any])

MAY_COMPUTE_AT_START = spaces is None  # the main process of a ZeroGPU Space has no GPU

SECONDS_TO_START = 5
SECONDS_A_TOKEN = 0.1  # of the slowest pair on offer, both lanes


def duration(fields: dict[str, Any], with_race: bool, max_seconds: int) -> int:
    """Seconds to reserve for a run: short ones start sooner and cost a visitor less of the daily quota."""
    lanes = 2 if with_race else 1
    return min(max_seconds, round(SECONDS_TO_START + SECONDS_A_TOKEN * lanes * int(fields["max_new_tokens"])))


def on_gpu(function: F, seconds: Callable[..., int]) -> F:
    """`function` on ZeroGPU's worker where there is one; `seconds` is called with the same arguments."""
    if spaces is None:
        return function
    decorated: F = spaces.GPU(duration=seconds)(function)
    return decorated
