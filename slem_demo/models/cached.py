"""Any causal language model of transformers as the engine's `Model`: ids in, logits out, the KV cache kept to itself.

A `Reader` is the forward pass over one cache: transformers' own (`HubReader`), or a leaner one where it applies (`lean.LeanReader`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from slem_demo.errors import SlemError
from slem_demo.models.codec import HubCodec


class Reader(Protocol):
    """The forward pass over one sequence, with the keys and values of what has been read."""

    @property
    def forgets(self) -> bool:
        """Whether it drops what lies before a sliding window, and so can't be cut back before it."""
        ...

    def read(self, ids: list[int], n: int) -> Tensor:
        """Reads `ids` on from what has been read: float32 [n, vocabulary] at the last n of them."""
        ...

    def cut(self, n_removed: int) -> None:
        """Forgets the last `n_removed` ids."""
        ...


class HubReader:
    """The forward pass and the cache of transformers."""

    def __init__(self, lm: PreTrainedModel):
        self._lm, self._device = lm, input_device(lm)
        self._cache = DynamicCache(config=lm.config)
        self._cache.activate_past_recording()
        self.forgets = any(self._cache.is_sliding)

    def read(self, ids: list[int], n: int) -> Tensor:
        out = self._lm(input_ids=torch.tensor([ids], device=self._device), cache=self._cache, use_cache=True, logits_to_keep=n)
        logits: Tensor = out.logits[0].float()
        return logits

    def cut(self, n_removed: int) -> None:
        self._cache.crop(-n_removed)


class CachedModel:
    """One sequence of one model. Several may share the weights; each has its own cache.

    A call is compared with the ids of the last one: the cache is cut back to what they share and only the rest is computed.
    """

    def __init__(self, begin: Callable[[], Reader], codec: HubCodec, eos_ids: frozenset[int], max_context: int):
        self._begin, self.codec = begin, codec
        self.eos_ids, self.max_context = eos_ids, max_context
        self.token_keys = codec.token_keys
        self._ids: list[int] = []
        self._reader = begin()
        self._floor = 0  # a sliding-window layer forgets what lies before it, so it can't be cut back further than this

    @torch.inference_mode()
    def logits(self, ids: Sequence[int], n: int) -> Tensor:
        """float32 [n, vocabulary]: row j scores what follows ids[: len(ids) - n + 1 + j], for n ≤ len(ids)."""
        n_kept = min(common_prefix(self._ids, ids), len(ids) - n)
        self._cut_back(n_kept)
        try:
            logits = self._reader.read(list(ids[len(self._ids) :]), n)
        except BaseException:
            self._begin_anew()
            raise
        self._ids = list(ids)
        return logits

    def _cut_back(self, n_kept: int) -> None:
        n_removed = len(self._ids) - n_kept
        if n_kept == 0 or n_kept < self._floor:
            self._begin_anew()
        elif n_removed:
            self._reader.cut(n_removed)
            self._ids = self._ids[:n_kept]
            if self._reader.forgets:
                self._floor = n_kept

    def _begin_anew(self) -> None:
        self._reader, self._ids, self._floor = self._begin(), [], 0


def input_device(lm: PreTrainedModel) -> torch.device:
    """Where ids go: the first device that holds a parameter (of a split model, some are on no device until they are needed)."""
    return next((p.device for p in lm.parameters() if p.device.type != "meta"), torch.device("cpu"))


def refuse_unless_croppable(lm: PreTrainedModel, name: str) -> None:
    """Raises SlemError for a model whose cache can't forget rejected tokens (recurrent and hybrid models).

    Found by trying: a cache's class does not say what a model keeps beside it. Rounding differs by a hundredth at most.
    """
    kept, rejected, new = ([i % lm.config.vocab_size for i in ids] for ids in (range(5, 9), range(9, 17), [20]))
    try:
        with torch.inference_mode():
            cropped, fresh = HubReader(lm), HubReader(lm)
            cropped.read([*kept, *rejected], 1)
            cropped.cut(len(rejected))
            found, right = cropped.read(new, 1), fresh.read([*kept, *new], 1)
        is_croppable = bool((found - right).norm() <= 0.2 * right.norm())
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, TypeError, ValueError, AttributeError):
        is_croppable = False
    if not is_croppable:
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
