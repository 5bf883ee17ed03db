"""The trace store: bounded, forgetful, and one run's name opens one trace."""

from __future__ import annotations

import threading

from slem_demo.trace import Trace
from slem_demo.ui.store import Store
from tests.traces import trace_of


def test_what_was_put_is_found_under_its_name_only() -> None:
    store = Store[Trace](max_items=3, ttl_s=10)
    a, b = trace_of([], prompt="a"), trace_of([], prompt="b")
    store.put("run-a", a)
    store.put("run-b", b)
    assert (store.get("run-a"), store.get("run-b"), store.get("run-c"), store.get("")) == (a, b, None, None)


def test_the_oldest_go_first_and_all_expire() -> None:
    now = 0.0
    store = Store[Trace](max_items=3, ttl_s=10, clock=lambda: now)
    for i in range(5):
        now += 1
        store.put(str(i), trace_of([]))
    assert [store.get(str(i)) is not None for i in range(5)] == [False, False, True, True, True]
    now = 13.5
    assert [store.get(str(i)) is not None for i in range(5)] == [False, False, False, True, True]
    now = 100.0
    assert len(store) == 0


def test_many_threads_may_use_it() -> None:
    store = Store[Trace](max_items=10, ttl_s=100)

    def work(n: int) -> None:
        for i in range(200):
            store.put(f"{n}-{i}", trace_of([]))
            store.get(f"{n}-{i - 5}")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store) == 10
