"""Many visitors at once: each gets its own ids or a readable refusal, one run computes at a time, and caches are freed."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError
from gradio_client.utils import QueueError
from playwright.sync_api import Page, expect

import slem_demo
from slem_demo.errors import SlemError
from slem_demo.models.cached import CachedModel
from slem_demo.models.loading import Pair, Placement
from slem_demo.models.shelf import Shelf
from slem_demo.trace import Request, StopEvent, Trace
from slem_demo.ui.host import Limits
from slem_demo.ui.page import build, launch_options
from slem_demo.ui.runs import Runs
from slem_demo.ui.stream import Delta
from tests.ui.conftest import free_port

WORDS = [
    "king",
    "woman",
    "priest",
    "prophet",
    "house",
    "city",
    "lion",
    "vineyard",
    "servant",
    "river",
    "mountain",
    "garden",
    "tent",
    "field",
    "altar",
    "shepherd",
    "ship",
    "temple",
    "well",
    "tower",
]


OTHER = "builtin-target::builtin-target"


@pytest.fixture(scope="module")
def small_host(builtin: Pair) -> Iterator[str]:
    demo = build(Shelf.holding(builtin), Limits(max_waiting=8, max_new_tokens=64, max_prompt_chars=200))
    options = launch_options() | {"server_name": "127.0.0.1", "server_port": free_port()}
    _, address, _ = demo.launch(prevent_thread_lock=True, quiet=True, **options)
    yield address
    demo.close()


def test_twenty_visitors_get_their_own_ids_or_are_told_that_the_queue_is_full(
    small_host: str, builtin: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    active, most, lock = 0, 0, threading.Lock()
    logits = CachedModel.logits

    def counted(self: CachedModel, ids: list[int], n: int) -> object:
        nonlocal active, most
        with lock:
            active += 1
            most = max(most, active)
        try:
            return logits(self, ids, n)
        finally:
            with lock:
                active -= 1

    clients = [Client(small_host, verbose=False) for _ in WORDS]
    start = threading.Barrier(len(WORDS))

    def visit(i: int) -> tuple[int, list[int] | str]:
        start.wait()
        try:
            stop = clients[i].predict(f"And the {WORDS[i]}", api_name="/decode", max_new_tokens=20, temperature=0.8, seed=i)
        except (QueueError, AppError) as error:
            return i, str(error)
        return i, list(stop["output_ids"])

    with monkeypatch.context() as patch, ThreadPoolExecutor(len(WORDS)) as pool:
        patch.setattr(CachedModel, "logits", counted)
        results = dict(pool.map(visit, range(len(WORDS))))
    assert most == 1, "one run at a time"
    served = {i: ids for i, ids in results.items() if isinstance(ids, list)}
    assert len(served) >= 8
    for i, ids in served.items():
        *_, stop = slem_demo.decode(builtin, f"And the {WORDS[i]}", method="target", max_new_tokens=20, temperature=0.8, seed=i)
        assert isinstance(stop, StopEvent)
        assert ids == list(stop.output_ids)
    refusals = {words for words in results.values() if isinstance(words, str)}
    assert all("queue is full" in words.lower() for words in refusals), refusals


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prompt": "a" * 201}, "this host allows 200"),
        ({"prompt": "a", "max_new_tokens": 65}, "this host allows 64"),
        ({"prompt": "a" * 10**6}, "allows 200"),
    ],
)
def test_caps_hold_whatever_a_client_posts(small_host: str, settings: dict[str, object], message: str) -> None:
    client = Client(small_host, verbose=False)
    with pytest.raises(AppError, match=message):
        client.predict(api_name="/decode", **settings)
    assert client.predict("And God said", api_name="/decode", max_new_tokens=2)["event"] == "stop"


def test_a_run_that_takes_too_long_is_ended_in_words(builtin: Pair) -> None:
    runs = Runs(Shelf.holding(builtin), Limits(max_seconds=1))
    fields = runs.check(Request.checked(pair="builtin", prompt="And God said", max_new_tokens=512))
    updates: list[Delta] = []
    with pytest.raises(SlemError, match="The run was ended after 1 s, the most that this host allows"):
        updates.extend(runs.updates(fields | {"max_new_tokens": 1500}, True))
    (run,) = {u["run"] for u in updates}
    trace = runs.store.get(run)
    assert trace is not None and trace.stop is None and len(trace.rounds) > 3, "what was written stays"


def sessions() -> int:
    gc.collect()
    return sum(isinstance(o, CachedModel) for o in gc.get_objects())


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


@pytest.mark.parametrize("how", ["stop", "close", "cancel"])
def test_caches_are_freed_within_a_second(page: Page, url: str, how: str) -> None:
    before = sessions()
    if how == "cancel":
        job = Client(url, verbose=False).submit("And God said", api_name="/decode", max_new_tokens=512)
        assert within(10, lambda: sessions() > before)
        job.cancel()
    else:
        visitor = page.context.new_page()
        visitor.goto(url)
        visitor.locator("#length input[type=number]").fill("512")
        visitor.keyboard.press("Tab")
        visitor.get_by_role("button", name="Run").click()
        visitor.locator(".live .rounds [data-round='2']").wait_for(state="attached")
        assert sessions() > before
        if how == "stop":
            visitor.get_by_role("button", name="Stop").click()
            visitor.locator(".live[data-state=stopped]").wait_for()
        else:
            visitor.close()
    assert within(1.0, lambda: sessions() <= before)


@pytest.fixture(scope="module")
def host_of_two() -> Iterator[str]:
    """A host with a second pair that is not loaded yet, and with little patience."""
    shelf = Shelf(["builtin", OTHER], placement=Placement("cpu", "float32"))
    demo = build(shelf, Limits(max_seconds=1))
    _, address, _ = demo.launch(prevent_thread_lock=True, quiet=True, **launch_options() | {"server_port": free_port()})
    yield address
    demo.close()


def test_another_pair_is_loaded_when_it_is_chosen(page: Page, host_of_two: str, builtin: Pair) -> None:
    page.goto(host_of_two)
    page.get_by_label("Pair").click()
    page.get_by_role("option", name=OTHER).click()
    expect(page.locator(".chips")).to_contain_text("one tokenizer: plain speculative decoding")
    page.locator("#length input[type=number]").fill("12")
    page.keyboard.press("Tab")
    page.get_by_role("button", name="Run").click()
    page.locator(".live[data-state=finished]").wait_for()
    *_, stop = slem_demo.decode(builtin, "In the beginning God created", method="target", max_new_tokens=12)
    assert isinstance(stop, StopEvent)
    assert page.locator(".live .target-text").evaluate("(n) => n.textContent") == stop.text
    assert "pair=builtin-target" in page.url


def test_a_run_that_is_ended_keeps_what_was_written(page: Page, host_of_two: str) -> None:
    page.goto(f"{host_of_two}?k=0&max_new_tokens=512")
    expect(page.locator("#length input[type=number]")).to_have_value("512")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_test_id("toast-body")).to_contain_text("ended after 1 s, the most that this host allows")
    expect(page.locator(".live .state")).to_have_text("that run could not go on")
    assert page.locator(".live [data-round]").count() > 3
    with page.expect_download() as download:
        page.get_by_role("button", name="Trace", exact=True).click()
    trace = Trace.from_json(download.value.path().read_bytes())
    assert trace.stop is None and len(trace.rounds) > 3


def test_only_pairs_on_offer_are_loaded(host_of_two: str, small_host: str) -> None:
    stop = Client(host_of_two, verbose=False).predict("And God said", api_name="/decode", max_new_tokens=2, pair=OTHER)
    assert stop["event"] == "stop"
    for name in (OTHER, "org/name::org/other", "/etc::/etc"):
        with pytest.raises(AppError, match="is not on offer here"):
            Client(small_host, verbose=False).predict("And God said", api_name="/decode", max_new_tokens=2, pair=name)
