"""What is known of runs, kept for a while under the unguessable name of each."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import Generic, TypeVar

from slem_demo.engine.run import Clock

T = TypeVar("T")


class Store(Generic[T]):
    """At most `max_items` things, each for at most `ttl_s` seconds; the oldest go first. Safe to use from several threads."""

    def __init__(self, max_items: int, ttl_s: float, clock: Clock = time.monotonic):
        self.max_items, self.ttl_s, self._clock = max_items, ttl_s, clock
        self._items: OrderedDict[str, tuple[float, T]] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, run: str, thing: T) -> None:
        with self._lock:
            self._items[run] = (self._clock() + self.ttl_s, thing)
            self._expire()

    def get(self, run: str) -> T | None:
        """What is kept of a run, or None if there is nothing or no longer anything."""
        with self._lock:
            self._expire()
            found = self._items.get(run)
        return found[1] if found else None

    def __len__(self) -> int:
        with self._lock:
            self._expire()
            return len(self._items)

    def _expire(self) -> None:
        now = self._clock()
        while self._items and (len(self._items) > self.max_items or next(iter(self._items.values()))[0] <= now):
            self._items.popitem(last=False)
