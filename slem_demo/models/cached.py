"""Any causal language model of transformers as the engine's `Model`: ids in, logits out, the KV cache kept to itself."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from slem_demo.errors import SlemError
from slem_demo.models.codec import HubCodec


class CachedModel:
    """One sequence of one model. Several may share the weights; each has its own cache.

    A call is compared with the ids of the last one: the cache is cut back to what they share and only the rest is computed.
    """

    def __init__(self, lm: PreTrainedModel, codec: HubCodec, eos_ids: frozenset[int], max_context: int):
        self.lm, self.codec = lm, codec
        self.eos_ids, self.max_context = eos_ids, max_context
        self.token_keys = codec.token_keys
        self.device = input_device(lm)
        self._ids: list[int] = []
        self._cache = self._empty_cache()
        self._floor = 0  # a sliding-window layer forgets what lies before it, so it can't be cut back further than this

    @torch.inference_mode()
    def logits(self, ids: Sequence[int], n: int) -> Tensor:
        """float32 [n, vocabulary]: row j scores what follows ids[: len(ids) - n + 1 + j], for n ≤ len(ids)."""
        n_kept = min(common_prefix(self._ids, ids), len(ids) - n)
        self._cut_back(n_kept)
        try:
            new = torch.tensor([ids[self._n_cached :]], device=self.device)
            out = self.lm(input_ids=new, cache=self._cache, use_cache=True, logits_to_keep=n)
        except BaseException:
            self._ids, self._cache, self._floor = [], self._empty_cache(), 0
            raise
        self._ids = list(ids)
        logits: Tensor = out.logits[0].float()
        return logits

    @property
    def _n_cached(self) -> int:
        return len(self._ids)

    def _cut_back(self, n_kept: int) -> None:
        n_removed = len(self._ids) - n_kept
        if n_kept == 0 or n_kept < self._floor:
            self._cache, self._ids, self._floor = self._empty_cache(), [], 0
        elif n_removed:
            self._cache.crop(-n_removed)
            self._ids = self._ids[:n_kept]
            if any(self._cache.is_sliding):
                self._floor = n_kept

    def _empty_cache(self) -> DynamicCache:
        cache = DynamicCache(config=self.lm.config)
        cache.activate_past_recording()
        return cache


def input_device(lm: PreTrainedModel) -> torch.device:
    """Where ids go: the first device that holds a parameter (of a split model, some are on no device until they are needed)."""
    return next((p.device for p in lm.parameters() if p.device.type != "meta"), torch.device("cpu"))


def refuse_unless_croppable(lm: PreTrainedModel, name: str) -> None:
    """Raises SlemError for a model whose cache can't forget rejected tokens (recurrent and hybrid models)."""
    if not DynamicCache(config=lm.config).is_croppable or lm._is_stateful:
        raise SlemError(
            f"{name} ({lm.config.model_type}) keeps a state that cannot be rolled back after a rejected draft; "
            "choose a model with attention only."
        )


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the longest common beginning; slices are compared, so a long shared beginning costs little."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
