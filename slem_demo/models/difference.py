"""Where two runs of one request differ, and what it means: a near-tie that rounding decided, or a fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from slem_demo.engine.output import Output
from slem_demo.engine.sampling import Chooser, run_key
from slem_demo.models.cached import common_prefix
from slem_demo.models.loading import Pair
from slem_demo.trace import Request

ROUNDINGS = 4  # of the largest score, that two ways to compute it may be apart after all layers


@dataclass(frozen=True)
class Difference:
    """The first output ids (counted from 0) that differ, and how far apart the target scores the two in a pass of its own.

    `rounding`: how far two passes that compute the same in `dtype` may be apart.
    """

    position: int
    texts: tuple[str, str]
    gap: float
    rounding: float
    dtype: str

    @property
    def is_near_tie(self) -> bool:
        return self.gap <= self.rounding

    def __str__(self) -> str:
        first, second = self.texts
        what = f"token {self.position + 1}: {first!r} against {second!r}, whose scores are {self.gap:.2g} apart"
        if self.is_near_tie:
            return f"{what}. A near-tie: in {self.dtype} a pass over several tokens rounds otherwise than a pass over one."
        return f"{what}. That is more than rounding in {self.dtype} explains."


def first_difference(pair: Pair, request: Request, first: Sequence[int], second: Sequence[int]) -> Difference | None:
    """The first place where two outputs of one request have different ids; None if there is none where both have one."""
    n = common_prefix(first, second)
    if n == min(len(first), len(second)):
        return None
    target, prompt_ids = pair.target.session(), list(pair.prompts(request).target_ids)
    output = Output(target.codec, target.eos_ids, request)
    output.commit(first[:n])
    chooser = Chooser(request.temperature, request.top_k, request.top_p, run_key(request.seed, prompt_ids), target.token_keys)
    logits = target.logits([*prompt_ids, *first[:n]], 1)
    scores = chooser.scores(logits, output.places([]))[0]
    rounding = ROUNDINGS * torch.finfo(pair.target.lm.dtype).eps * float(logits.abs().max()) / (request.temperature or 1.0)
    texts = [target.codec.vocab[ids[n]].decode("utf-8", "replace") for ids in (first, second)]
    gap = abs(float(scores[first[n]] - scores[second[n]]))
    return Difference(n, (texts[0], texts[1]), gap, rounding, pair.environment.dtype)
