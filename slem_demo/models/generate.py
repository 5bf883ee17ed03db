"""The outside comparator: transformers' own `generate`, on the very weights that the engine uses."""

from __future__ import annotations

import time

import torch

from slem_demo.engine.run import Clock
from slem_demo.errors import SlemError
from slem_demo.models.cached import input_device
from slem_demo.models.hf import with_settings
from slem_demo.models.loading import Pair
from slem_demo.trace import Request


@torch.inference_mode()
def generate(pair: Pair, request: Request, clock: Clock = time.perf_counter) -> tuple[list[int], float]:
    """(output ids, seconds from prompt ids to the last output id) of greedy `generate` with the target alone.

    Raises:
        SlemError: the request samples or has stop strings, which this comparator does not cover.
    """
    if request.temperature or request.stop:
        raise SlemError("The method generate is a greedy comparator without stop strings; leave it out or set the temperature to 0.")
    lm = with_settings(pair.target.lm)
    prompt = torch.tensor([pair.prompts(request).target_ids], device=input_device(lm))
    began = clock()
    rows = lm.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        do_sample=False,
        max_new_tokens=request.max_new_tokens,
        eos_token_id=sorted(pair.target.eos_ids),
        pad_token_id=min(pair.target.eos_ids),
    )
    ids: list[int] = rows[0, prompt.shape[1] :].tolist()
    return ids, clock() - began
