"""The live page in a real browser: what is in the DOM is what the engine wrote."""

from __future__ import annotations

import time
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

import slem_demo
from slem_demo.models.cached import CachedModel
from slem_demo.models.loading import Pair
from slem_demo.trace import StopEvent, Trace
from slem_demo.ui import runs
from slem_demo.ui.live import PRESETS
from slem_demo.ui.stream import notice
from slem_demo.views.fates import COMMITTED

COMMITTED_TEXT = (
    "(fates) => [...document.querySelectorAll('.live .rounds [data-fate]')]"
    ".filter((n) => fates.includes(n.dataset.fate)).map((n) => n.textContent).join('')"
)
HOSTILE = "<script>document.title='x'</script> ${document.title} {{x}} `a` \\n <img src=x onerror=alert(1)> \u202e\u200b 😀 العربية"


def start(page: Page, with_race: bool = True, **settings: object) -> None:
    page.get_by_label("Race the target alone").set_checked(with_race)
    if "seed" in settings and not page.locator("#seed").is_visible():
        page.get_by_role("button", name="More").click()
    for label, value in settings.items():
        page.locator(f"#{label} input[type=number], #{label} textarea").first.fill(str(value))
        page.keyboard.press("Tab")
    page.evaluate(
        "document.querySelector('.live').dataset.state = 'asked'"
    )  # so that the end of an earlier run is not taken for this one's
    page.get_by_role("button", name="Run").click()


def finish(page: Page) -> str:
    page.locator(".live[data-state=finished]").wait_for(timeout=60_000)
    expect(page.get_by_role("button", name="Run")).to_be_enabled()
    return str(page.evaluate(COMMITTED_TEXT, list(COMMITTED)))


def engine_text(pair: Pair, prompt: str, **settings: object) -> str:
    *_, stop = slem_demo.decode(pair, prompt, **settings)
    assert isinstance(stop, StopEvent)
    return stop.text


def tile(page: Page, metric: str) -> tuple[str, str]:
    node = page.locator(f".live [data-metric={metric}]")
    return node.locator("b").inner_text(), node.locator("span").inner_text()


def test_run_stop_and_run_again(page: Page, builtin: Pair) -> None:
    page.locator(".live[data-state=empty] .text .hint").wait_for()
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
def test_the_dom_holds_the_engines_text_and_rounds(page: Page, builtin: Pair, prompt: str, settings: dict[str, Any]) -> None:
    start(page, prompt=prompt, **settings)
    text = finish(page)
    fields = {("max_new_tokens" if name == "length" else name): value for name, value in settings.items()}
    assert text == engine_text(builtin, prompt, **fields)
    assert page.locator(".live [role=log] .prompt").evaluate("(n) => n.textContent") == prompt
    rounds = page.evaluate("[...document.querySelectorAll('.live [data-round]')].map((n) => Number(n.dataset.round))")
    assert rounds == list(range(len(rounds)))
    value, label = tile(page, "lossless")
    n = int(value.split(" = ")[0])
    assert value == f"{n} = {n}" and 1 <= n <= settings["length"], "fewer where the target ended the text"
    assert label == "ids equal to the target alone"
    assert tile(page, "speedup")[0].endswith("×")
    assert page.locator(".live .target-text").evaluate("(n) => n.textContent") == text
    assert page.title() == "SLEM, live"


def test_updates_that_never_arrive_are_asked_for(page: Page, builtin: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradio hands a busy browser only the last of several values; here two of three are lost, the first among them."""
    arrives = runs.as_value
    monkeypatch.setattr(runs, "as_value", lambda u: arrives(u if u["state"] == "finished" or u["seq"] % 3 == 2 else notice("loading")))
    start(page, length=200)
    text = finish(page)
    assert text == engine_text(builtin, "In the beginning God created", k=4, max_new_tokens=200)
    assert page.locator(".live [role=log] .prompt").evaluate("(n) => n.textContent") == "In the beginning God created"
    assert page.locator(".live .target-text").evaluate("(n) => n.textContent") == text
    rounds = page.evaluate("[...document.querySelectorAll('.live [data-round]')].map((n) => Number(n.dataset.round))")
    assert rounds == list(range(len(rounds)))


def test_without_the_race_nothing_is_claimed(page: Page, builtin: Pair) -> None:
    start(page, with_race=False, length=30)
    assert finish(page) == engine_text(builtin, "In the beginning God created", k=4, max_new_tokens=30)
    assert tile(page, "speedup") == ("–", "speedup: not measured")
    assert tile(page, "lossless") == ("–", "equal to the target alone: not measured")
    expect(page.locator(".live .alone")).to_be_hidden()


def test_plots_are_updated_in_place(page: Page) -> None:
    page.wait_for_function("document.querySelectorAll('.live .plot .plot-container').length === 3")
    page.evaluate("window.firstPlots = [...document.querySelectorAll('.live .plot .plot-container')]")
    start(page, length=100)
    finish(page)
    page.wait_for_timeout(600)
    assert page.evaluate("window.firstPlots.length === 3 && window.firstPlots.every((n) => n.isConnected)")
    drawn = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.live .plot')].map((n) => [n.dataset.plot, n.data.map((t) => Array.from(t.x))]))"
    )
    rounds = page.locator(".live [data-round]").count()
    assert drawn["acceptance"] == [list(range(rounds))] * 2
    assert drawn["speedup"][0][-1] == 100
    assert sum(x[0] for x in drawn["phases"]) > 0 and sum(x[1] for x in drawn["phases"]) > 0


def test_a_link_restores_the_settings_and_a_preset_fills_them(page: Page, url: str) -> None:
    page.get_by_label("Preset").click()
    page.get_by_role("option", name="A bad case on purpose").click()
    expect(page.get_by_label("Prompt")).to_have_value("Who hath believed our report?")
    page.wait_for_function("new URLSearchParams(location.search).get('temperature') === '1.5'")
    link = page.url
    assert link.startswith(url) and "k=12" in link
    other = page.context.new_page()
    other.goto(link)
    expect(other.get_by_label("Prompt")).to_have_value("Who hath believed our report?")
    expect(other.locator("#k input[type=number]")).to_have_value("12")
    other.get_by_role("button", name="More").click()
    expect(other.locator("#command textarea")).to_have_value(
        "python -m slem_demo decode --pair builtin '--prompt=Who hath believed our report?' --k 12 --temperature 1.5"
    )
    other.goto(f"{url}?k=-3&temperature=hot&prompt=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
    expect(other.get_by_label("Prompt")).to_have_value("<img src=x onerror=alert(1)>")
    expect(other.locator("#k input[type=number]")).to_have_value("4")


def test_the_trace_of_a_finished_and_of_a_stopped_run_can_be_saved(page: Page, builtin: Pair) -> None:
    expect(page.get_by_role("button", name="Trace", exact=True)).to_be_disabled()
    start(page, length=20)
    text = finish(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Trace", exact=True).click()
    trace = Trace.from_json(download.value.path().read_bytes())
    assert (trace.text, trace.request.max_new_tokens) == (text, 20)
    assert trace.output_ids == Trace.from_json(trace.to_json()).output_ids
    start(page, length=512)
    page.locator(".live .rounds [data-round='3']").wait_for(state="attached")
    page.get_by_role("button", name="Stop").click()
    page.locator(".live[data-state=stopped]").wait_for()
    page.wait_for_timeout(500)
    with page.expect_download() as download:
        page.get_by_role("button", name="Trace", exact=True).click()
    stopped = Trace.from_json(download.value.path().read_bytes())
    assert stopped.stop is None
    assert engine_text(builtin, "In the beginning God created", k=4, max_new_tokens=512).startswith(stopped.text)


def test_spaces_are_shown_on_demand(page: Page) -> None:
    start(page, length=20)
    text = finish(page)
    page.get_by_label("spaces", exact=True).check()
    first = page.locator(".live .rounds [data-mark='·']").first
    assert "·" in first.evaluate("(n) => getComputedStyle(n, '::before').content")
    assert page.evaluate(COMMITTED_TEXT, list(COMMITTED)) == text, "what is read from the page stays the text"


def test_a_bad_setting_is_explained_and_loses_nothing(page: Page) -> None:
    start(page, prompt="And God said", length=10)
    before = finish(page)
    for _ in range(2):  # the second refusal looks like the first, and must be seen all the same
        start(page, prompt=" ")
        expect(page.get_by_test_id("toast-body").last).to_contain_text("it is empty")
        expect(page.locator(".live .state")).to_have_text("that run could not go on")
        expect(page.get_by_role("button", name="Run")).to_be_enabled()
    assert page.evaluate(COMMITTED_TEXT, list(COMMITTED)) == before
    start(page, prompt="And God said", length=11)
    assert len(finish(page)) > 0


def test_a_conversation_is_rendered_by_each_model_and_restored_by_the_link(page: Page, builtin: Pair) -> None:
    page.get_by_label("As a conversation").check()
    page.get_by_label("System prompt").fill("Answer.")
    start(page, prompt="Who made it?", length=30)
    wanted = engine_text(builtin, "Who made it?", chat=True, system="Answer.", max_new_tokens=30)
    assert finish(page) == wanted != engine_text(builtin, "Who made it?", max_new_tokens=30)
    assert page.locator(".live [role=log] .prompt").evaluate("(n) => [n.textContent, getComputedStyle(n).display]") == [
        "Who made it?",
        "block",
    ]
    page.goto(page.url)
    expect(page.get_by_label("System prompt")).to_have_value("Answer.")
    page.get_by_role("button", name="More").click()
    expect(page.locator("#command textarea")).to_have_value(
        "python -m slem_demo decode --pair builtin '--prompt=Who made it?' --chat --system=Answer. --max-new-tokens 30"
    )
    page.get_by_label("As a conversation").uncheck()
    expect(page.get_by_label("System prompt")).to_be_hidden()
    start(page, length=31)
    assert finish(page) == engine_text(builtin, "Who made it?", max_new_tokens=31)


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


def test_passing_through_the_controls_changes_nothing(page: Page) -> None:
    page.get_by_label("Prompt").fill("My own words")
    for _ in range(12):
        page.keyboard.press("Tab")
    page.wait_for_timeout(500)
    expect(page.get_by_label("Prompt")).to_have_value("My own words")


def test_a_visitor_who_waits_is_told_so_and_gets_a_turn(page: Page, url: str, builtin: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    other = page.context.new_page()
    other.goto(url)
    logits = CachedModel.logits

    def slow(self: CachedModel, ids: list[int], n: int) -> object:
        time.sleep(0.05)
        return logits(self, ids, n)

    monkeypatch.setattr(CachedModel, "logits", slow)
    start(other, length=512, k=0)
    other.locator(".live .rounds [data-round='2']").wait_for(state="attached")
    start(page, length=20)
    expect(page.locator(".live .state")).to_contain_text("waiting for its turn · queue: 1/1")
    expect(page.get_by_role("button", name="Trace", exact=True)).to_be_disabled()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".live .state")).to_have_text("stopped; what was written stays")
    start(page, length=20)
    expect(page.locator(".live .state")).to_contain_text("queue: 1/1")
    other.get_by_role("button", name="Stop").click()
    assert finish(page) == engine_text(builtin, "In the beginning God created", k=4, max_new_tokens=20)


@pytest.mark.parametrize("with_race", [True, False])
@pytest.mark.parametrize("preset", PRESETS, ids=[p["name"] for p in PRESETS])
def test_the_page_and_the_engine_agree_on_every_preset(page: Page, builtin: Pair, preset: dict[str, Any], with_race: bool) -> None:
    page.get_by_label("Preset").click()
    page.get_by_role("option", name=preset["name"]).click()
    expect(page.get_by_label("Prompt")).to_have_value(preset["prompt"])
    start(page, with_race, length=80)
    settings = {"k": preset.get("k", 4), "temperature": preset["temperature"], "max_new_tokens": 80}
    assert (
        finish(page)
        == engine_text(builtin, preset["prompt"], **settings)
        == engine_text(builtin, preset["prompt"], method="target", **settings)
    )


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
    page.get_by_label("never reached", exact=True).check()
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
    page.evaluate("Promise.all(document.getAnimations().filter((a) => a instanceof CSSTransition).map((a) => a.finished))")
    found = Axe().run(page).response["violations"]
    serious = [
        (v["id"], [(n["html"][:120], n["failureSummary"]) for n in v["nodes"]]) for v in found if v["impact"] in ("serious", "critical")
    ]
    assert serious == []
