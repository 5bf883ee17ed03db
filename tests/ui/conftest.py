"""The page served on a free port, and a headless Chromium to look at it. Any error on a page fails its test."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from slem_demo.models.loading import Pair
from slem_demo.models.shelf import Shelf
from slem_demo.ui.page import build, launch_options

FLAGS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-background-networking", "--force-color-profile=srgb"]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def url(builtin: Pair) -> Iterator[str]:
    demo = build(Shelf.holding(builtin))
    options = launch_options() | {"server_name": "127.0.0.1", "server_port": free_port()}
    _, address, _ = demo.launch(prevent_thread_lock=True, quiet=True, **options)
    yield address
    demo.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium") or shutil.which("google-chrome")
    assert path, "the browser tests need Chromium: apt-get install chromium"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser, url: str) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    opened.on(
        "request",
        lambda request: errors.append(request.url) if not request.url.startswith(("http://127.0.0.1:", "data:", "blob:")) else None,
    )
    opened.goto(url)
    opened.get_by_role("button", name="Run").wait_for()
    yield opened
    context.close()
    assert errors == []
