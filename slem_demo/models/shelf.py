"""The pairs that a host offers: loaded when first asked for, kept while they fit into memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

from slem_demo.errors import SlemError
from slem_demo.models.loading import LoadedModel, Pair, Placement, load_model, load_pair
from slem_demo.models.pairs import Source, pair_sources


class Shelf:
    """Loaded models, shared by all pairs that name them. Safe to use from several threads.

    When the weights take more than `max_bytes`, the least recently used models that the pair at hand does not need are dropped; a run
    that still uses one keeps it until it ends.
    """

    def __init__(self, names: Sequence[str], max_bytes: float = float("inf"), placement: Placement | None = None):
        for name in names:
            pair_sources(name)  # raises SlemError for a name that is none
        self.names, self._max_bytes, self._placement = tuple(names), max_bytes, placement or Placement()
        self._models: OrderedDict[Source, LoadedModel] = OrderedDict()
        self._pairs: dict[str, Pair] = {}
        self._lock = threading.Lock()

    @classmethod
    def holding(cls, *pairs: Pair) -> Shelf:
        """A shelf of pairs that are loaded already."""
        shelf = cls([pair.name for pair in pairs])
        shelf._pairs = {pair.name: pair for pair in pairs}
        return shelf

    def has(self, name: str) -> bool:
        """Whether the pair is loaded."""
        return name in self._pairs

    def get(self, name: str) -> Pair:
        """The pair, loaded if need be.

        Raises:
            SlemError: it is not on offer here, or it cannot be loaded.
        """
        if name not in self.names:
            raise SlemError(f"The pair {name!r} is not on offer here; there is {', '.join(self.names)}.")
        with self._lock:
            if name not in self._pairs:
                self._pairs[name] = load_pair(name, self._placement, self._load)
            pair = self._pairs[name]
            for source in [s for s, model in self._models.items() if model in (pair.target, pair.draft)]:
                self._models.move_to_end(source)
            self._drop_others(pair)
            return pair

    def _load(self, source: Source, placement: Placement) -> LoadedModel:
        if source not in self._models:
            self._models[source] = load_model(source, placement)
        return self._models[source]

    def _drop_others(self, pair: Pair) -> None:
        """Drops models, the least recently used first, until the rest fit; those of `pair` stay."""
        for source, model in list(self._models.items()):
            if sum(m.n_bytes for m in self._models.values()) <= self._max_bytes:
                return
            if model not in (pair.target, pair.draft):
                del self._models[source]
                self._pairs = {name: p for name, p in self._pairs.items() if model not in (p.target, p.draft)}
