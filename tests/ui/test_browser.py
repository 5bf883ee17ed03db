"""The live page in a real browser: what is in the DOM is what the engine wrote."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

import slem_demo
from slem_demo.models.loading import Pair
from slem_demo.trace import StopEvent
from slem_demo.views.fates import COMMITTED

COMMITTED_TEXT = (
    "(fates) => [...document.querySelectorAll('.live .rounds [data-fate]')]"
    ".filter((n) => fates.includes(n.dataset.fate)).map((n) => n.textContent).join('')"
)
HOSTILE = "<script>document.title='x'</script> ${document.title} {{x}} `a` \\n <img src=x onerror=alert(1)> \u202e\u200b 😀 العربية"


def start(page: Page, **settings: object) -> None:
    for label, value in settings.items():
        page.locator(f"#{label} input[type=number], #{label} textarea").first.fill(str(value))
        page.keyboard.press("Tab")
    page.get_by_role("button", name="Run").click()


def finish(page: Page) -> str:
    page.locator(".live[data-state=finished]").wait_for(timeout=60_000)
    expect(page.get_by_role("button", name="Run")).to_be_enabled()
    return str(page.evaluate(COMMITTED_TEXT, list(COMMITTED)))


def engine_text(pair: Pair, prompt: str, **settings: object) -> str:
    *_, stop = slem_demo.decode(pair, prompt, **settings)
    assert isinstance(stop, StopEvent)
    return stop.text


def test_run_stop_and_run_again(page: Page, builtin: Pair) -> None:
    page.locator(".live[data-state=empty] .hint").wait_for()
    start(page, length=512)
    page.locator(".live .rounds [data-round='5']").wait_for(state="attached")
    page.get_by_role("button", name="Stop").click()
    page.locator(".live[data-state=stopped]").wait_for()
    expect(page.get_by_role("button", name="Run")).to_be_enabled()
    stopped = page.evaluate(COMMITTED_TEXT, list(COMMITTED))
    page.wait_for_timeout(500)
    assert page.evaluate(COMMITTED_TEXT, list(COMMITTED)) == stopped, "nothing is written after Stop"
    whole = engine_text(builtin, "In the beginning God created", k=4, max_new_tokens=512)
    assert stopped and whole.startswith(stopped)
    start(page, length=40)
    assert finish(page) == engine_text(builtin, "In the beginning God created", k=4, max_new_tokens=40)


@pytest.mark.parametrize(
    ("prompt", "settings"),
    [
        ("And God said", {"k": 3, "length": 60}),
        ("And God said", {"k": 6, "length": 60, "temperature": 1, "seed": 7}),
        (HOSTILE, {"k": 4, "length": 40, "temperature": 2, "seed": 1}),
        ("日本語のテキスト", {"k": 4, "length": 30, "temperature": 2, "seed": 3}),
        ("a", {"k": 0, "length": 1}),
    ],
    ids=["greedy", "sampled", "hostile", "other script", "tiny"],
)
def test_the_dom_holds_the_engines_text_and_rounds(page: Page, builtin: Pair, prompt: str, settings: dict[str, int]) -> None:
    start(page, prompt=prompt, **settings)
    text = finish(page)
    fields = {("max_new_tokens" if name == "length" else name): value for name, value in settings.items()}
    assert text == engine_text(builtin, prompt, **fields)
    assert page.locator(".live .prompt").evaluate("(n) => n.textContent") == prompt
    rounds = page.evaluate("[...document.querySelectorAll('.live [data-round]')].map((n) => Number(n.dataset.round))")
    assert rounds == list(range(len(rounds)))
    tile = page.locator(".live [data-metric=num_output_tokens] b").inner_text()
    assert 1 <= int(tile) <= settings["length"], "fewer where the target ended the text"
    assert page.title() == "SLEM, live"


def test_a_bad_setting_is_explained_and_loses_nothing(page: Page) -> None:
    start(page, prompt="And God said", length=10)
    before = finish(page)
    start(page, prompt=" ")
    expect(page.get_by_test_id("toast-body")).to_contain_text("it is empty")
    expect(page.get_by_role("button", name="Run")).to_be_enabled()
    assert page.evaluate(COMMITTED_TEXT, list(COMMITTED)) == before
    start(page, prompt="And God said", length=11)
    assert len(finish(page)) > 0


def test_a_closed_page_frees_the_engine_for_the_next_visitor(page: Page, url: str, builtin: Pair) -> None:
    other = page.context.new_page()
    other.goto(url)
    start(other, length=512)
    other.locator(".live .rounds [data-round='2']").wait_for(state="attached")
    other.close()
    start(page, length=20)
    assert finish(page) == engine_text(builtin, "In the beginning God created", k=4, max_new_tokens=20)


def test_two_visitors_get_their_own_text(page: Page, url: str, builtin: Pair) -> None:
    with page.context.expect_page() as opened:
        page.evaluate("(u) => window.open(u)", url)
    other = opened.value
    start(page, prompt="And the king", length=60)
    start(other, prompt="And the woman", length=60)
    assert finish(page) == engine_text(builtin, "And the king", k=4, max_new_tokens=60)
    assert finish(other) == engine_text(builtin, "And the woman", k=4, max_new_tokens=60)


def test_keyboard_alone_runs_and_stops(page: Page) -> None:
    page.get_by_label("Prompt").focus()
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "run":
            break
    page.keyboard.press("Enter")
    page.locator(".live .rounds [data-round='1']").wait_for(state="attached")
    page.locator("#stop").focus()
    page.keyboard.press("Enter")
    page.locator(".live[data-state=stopped], .live[data-state=finished]").wait_for()


def test_what_was_never_reached_is_shown_on_demand(page: Page) -> None:
    start(page, length=60, k=8)
    finish(page)
    hidden = page.locator(".live .text [data-fate=unreached]").first
    expect(hidden).to_be_hidden()
    page.get_by_label("show what was never reached").check()
    expect(hidden).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_serious_for_axe_and_no_sideways_scrolling(page: Page, url: str, scheme: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(url)
    page.get_by_role("button", name="Run").wait_for()
    start(page, length=60)
    finish(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    found = Axe().run(page).response["violations"]
    serious = [(v["id"], [n["html"][:120] for n in v["nodes"]]) for v in found if v["impact"] in ("serious", "critical")]
    assert serious == []
