"""The timeline, the picture of a round, what can be taken away and opened again, in a real browser."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from slem_demo import cli
from slem_demo.metrics import summarise
from slem_demo.models.loading import Pair
from slem_demo.models.pairs import ASSETS
from slem_demo.trace import Request, RoundEvent, Trace
from slem_demo.ui.recorded import MAX_TRACE_BYTES
from slem_demo.views.report import report
from slem_demo.views.round import pictures
from tests.ui.test_browser import HOSTILE, finish, start

LIVE = ".live"


def run_of(pair: Pair, prompt: str = "And God said", **fields: Any) -> Trace:
    request = Request.checked(**{"pair": pair.name, "prompt": prompt, "max_new_tokens": 40, "alternatives": 5} | fields)
    return pair.trace(request).with_events(pair.decode(request))


def save(trace: Trace, folder: Path, name: str = "trace.json") -> str:
    path = folder / name
    path.write_text(trace.to_json(), encoding="utf-8")
    return str(path)


def open_trace(page: Page, path: str) -> None:
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Open a trace").click()
    chooser.value.set_files(path)


def where(page: Page) -> str:
    return page.locator(f"{LIVE} .where").inner_text()


def sentence(page: Page) -> str:
    return page.locator(f"{LIVE} .sentence").inner_text()


@pytest.fixture
def opened(page: Page, builtin: Pair, tmp_path: Path) -> tuple[Page, Trace]:
    trace = run_of(builtin)
    open_trace(page, save(trace, tmp_path))
    page.locator(".live[data-state=finished]").wait_for()
    return page, trace


def test_every_round_opens_by_keyboard_slider_buttons_click_and_bar(opened: tuple[Page, Trace]) -> None:
    page, trace = opened
    n, said = len(trace.rounds), [p["sentence"] for p in pictures(trace.rounds)]
    assert where(page) == f"round {n} of {n}" and sentence(page) == said[-1]
    page.locator(f"{LIVE} .text").first.focus()
    page.keyboard.press("Home")
    for i in range(n):
        assert (where(page), sentence(page)) == (f"round {i + 1} of {n}", said[i])
        page.keyboard.press("ArrowRight")
    assert where(page) == f"round {n} of {n}", "the last has none behind it"
    slider = page.get_by_role("slider", name="Round")
    slider.focus()
    page.keyboard.press("Home")
    assert where(page) == f"round 1 of {n}"
    page.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") == f"Round 2 of {n}. {said[1]}"
    page.keyboard.press("End")
    assert where(page) == f"round {n} of {n}"
    page.get_by_role("button", name="Previous round").click()
    assert where(page) == f"round {n - 1} of {n}"
    page.locator(f"{LIVE} [data-round='0'] [data-fate]:not(:empty)").first.click()
    assert where(page) == f"round 1 of {n}"
    box = page.locator(f"{LIVE} .timeline").bounding_box()
    assert box is not None
    slot = min(26, box["width"] / n)
    page.mouse.click(box["x"] + 2.5 * slot, box["y"] + 20)
    assert where(page) == f"round 3 of {n}"
    third = page.locator(f"{LIVE} [data-round='2']").evaluate("(node) => node.getClientRects()[0].x")
    mark = page.locator(f"{LIVE} .marks i").first.bounding_box()
    assert mark and abs(mark["x"] - third) < 6, "the text shows which round is open"
    expect(page.get_by_role("status").filter(has_text="Round 3")).to_have_text(f"Round 3. {said[2]}")


def test_the_picture_has_both_tokenisations_where_the_trace_has_them(opened: tuple[Page, Trace]) -> None:
    page, trace = opened
    page.get_by_label("ids", exact=True).check()
    page.locator(f"{LIVE} .text").first.focus()
    page.keyboard.press("Home")
    for r, p in zip(trace.rounds, pictures(trace.rounds), strict=True):
        for row, tokens in (("draft", r.draft or ()), ("candidate", r.candidate or ()), ("own", (r.own,) if r.own else ())):
            titles = "(all) => all.map((g) => g.querySelector('title').textContent)"
            drawn = page.locator(f"{LIVE} [data-row={row}] g").evaluate_all(titles)
            assert [re.findall(r" · id (\d+)", title)[0] for title in drawn] == [str(t.id) for t in tokens]
            fates = page.locator(f"{LIVE} [data-row={row}] g").evaluate_all("(all) => all.map((g) => g.dataset.fate)")
            blocks = {"draft": p["draft"], "candidate": p["candidate"], "own": [p["own"]] if p["own"] else []}[row]
            assert fates == [b["fate"] for b in blocks]
        edges = page.locator(f"{LIVE} [data-row=candidate] rect").evaluate_all("(all) => all.map((r) => Number(r.getAttribute('x')))")
        cells = page.locator(f"{LIVE} [data-row=string] rect").evaluate_all("(all) => all.map((r) => Number(r.getAttribute('x')))")
        at = [b["start"] for b in p["candidate"]]
        drawn_at = [x for x, c in zip(edges, at, strict=True) if c == int(c) and c < len(cells)]
        assert drawn_at == pytest.approx([cells[int(c)] for c in at if c == int(c) and c < len(cells)]), (
            "boundaries stand at their characters"
        )
        rows = page.locator(f"{LIVE} .choices tr")
        assert rows.count() == len(p["choices"])
        expect(page.locator(f"{LIVE} .parts")).to_have_count(int(p["parts_at"] is not None))
        page.keyboard.press("ArrowRight")


def test_play_goes_through_the_rounds_and_pauses(opened: tuple[Page, Trace]) -> None:
    page, trace = opened
    page.get_by_role("button", name="Play at reading speed").click()
    page.wait_for_function("document.querySelector('.live .where').textContent.startsWith('round 3 ')", timeout=30_000)
    page.get_by_role("button", name="Pause").click()
    held = where(page)
    page.wait_for_timeout(1200)
    assert where(page) == held and held != f"round {len(trace.rounds)} of {len(trace.rounds)}"


def test_a_round_that_was_picked_stays_while_the_run_goes_on(page: Page) -> None:
    start(page, length=300)
    page.locator(f"{LIVE} .rounds [data-round='4']").wait_for(state="attached")
    page.locator(f"{LIVE} .text").first.focus()
    page.keyboard.press("Home")
    finish(page)
    assert where(page).startswith("round 1 of ")
    page.get_by_role("button", name="newest").click()
    n = page.locator(f"{LIVE} .rounds [data-round]").count()
    assert where(page) == f"round {n} of {n}"


def test_what_is_saved_is_the_run_and_opens_again(page: Page, builtin: Pair, tmp_path: Path) -> None:
    start(page, prompt="And the king", length=40)
    text = finish(page)
    saved = {}
    for name in ("Trace", "Report"):
        with page.expect_download() as download:
            page.get_by_role("button", name=name, exact=True).click()
        saved[name] = tmp_path / download.value.suggested_filename
        download.value.save_as(saved[name])
    trace = Trace.from_json(saved["Trace"].read_bytes())
    assert trace.text == text == run_of(builtin, "And the king").text
    assert all(r.positions is not None for r in trace.rounds), "what the target could have written is in it"
    assert saved["Report"].read_text(encoding="utf-8").rstrip() == report(trace).rstrip()
    open_trace(page, str(saved["Trace"]))
    page.locator(".live .state", has_text="recorded on").wait_for()
    page.wait_for_function("(t) => document.querySelector('.live .rounds').textContent.length > 0", arg=text)
    expect(page.locator(f"{LIVE} [data-metric=draft_acceptance_rate] b")).to_have_text(f"{summarise(trace).draft_acceptance_rate:.0%}")
    expect(page.locator(f"{LIVE} [data-metric=speedup] span")).to_have_text("speedup: not measured")


def test_the_picture_is_saved_light_with_its_caption(page: Page, url: str, tmp_path: Path, builtin: Pair) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto(url)
    page.get_by_role("button", name="Run").wait_for()
    open_trace(page, save(run_of(builtin), tmp_path))
    page.locator(".live[data-state=finished]").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="SVG").first.click()
    svg = Path(download.value.path()).read_text(encoding="utf-8")
    assert svg.startswith("<svg") and "builtin-target" in svg and "class=" in svg
    colours = set(re.findall(r"fill: rgb\((\d+), (\d+), (\d+)\)", svg))
    assert ("230", "237", "243") not in colours, "no ink of the dark page"
    assert "var(" not in svg, "it stands alone"
    with page.expect_download() as download:
        page.get_by_role("button", name="PNG").first.click()
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")
    with page.expect_download() as download:
        page.locator(".plots-svg").click()
    assert b"<svg" in Path(download.value.path()).read_bytes()


BAD: dict[str, tuple[Callable[[str], str], str]] = {
    "truncated": (lambda text: text[: len(text) // 2], "This is not a trace of a run"),
    "not json": (lambda _: "\x00\x01 hello", "This is not a trace of a run"),
    "another version": (lambda text: text.replace('"schema_version":1', '"schema_version":99'), "another schema version"),
    "accepts more than was sent": (
        lambda text: re.sub(r'"n_accepted":\d+', '"n_accepted":99999', text),
        "99999 candidates were accepted of",
    ),
    "negative time": (lambda text: re.sub(r'"round_s":[\d.e-]+', '"round_s":-1', text), "greater than or equal to 0"),
    "no rounds": (lambda text: json.dumps(json.loads(text) | {"rounds": []}), "holds no round"),
    "a list": (lambda _: "[" * 5000, "This is not a trace of a run"),
    "huge": (lambda _: " " * (MAX_TRACE_BYTES + 1), "larger than 20 MB"),
    "empty": (lambda _: "", "This is not a trace of a run"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_trace_is_refused_and_loses_nothing(opened: tuple[Page, Trace], tmp_path: Path, name: str) -> None:
    page, trace = opened
    spoil, message = BAD[name]
    path = tmp_path / "bad.json"
    path.write_text(spoil(trace.to_json()), encoding="utf-8")
    open_trace(page, str(path))
    toast = page.get_by_test_id("toast-body")
    expect(toast).to_contain_text(message)
    assert "Traceback" not in toast.inner_text()
    n = len(trace.rounds)
    assert where(page) == f"round {n} of {n}"
    start(page, length=10)
    finish(page)


def test_hostile_text_is_drawn_as_it_is(page: Page, builtin: Pair, tmp_path: Path) -> None:
    trace = run_of(builtin)
    first = trace.rounds[0]
    bad = [t.model_copy(update={"text": HOSTILE, "bytes": HOSTILE.encode()}) for t in first.candidate or ()]
    spoiled = RoundEvent.model_validate(first.model_dump() | {"candidate": bad, "draft": bad})
    open_trace(page, save(trace.model_copy(update={"rounds": (spoiled, *trace.rounds[1:])}), tmp_path))
    page.locator(".live[data-state=finished]").wait_for()
    page.locator(f"{LIVE} .text").first.focus()
    page.keyboard.press("Home")
    assert HOSTILE in page.locator(f"{LIVE} .sentence").evaluate("(node) => node.textContent")
    assert "<img" in page.locator(f"{LIVE} .picture").evaluate("(node) => node.textContent")
    assert page.evaluate("document.querySelectorAll('.live img, .live script').length") == 0
    assert page.title() == "SLEM, live"


def test_a_link_restores_settings_round_and_while_it_is_kept_the_run(page: Page) -> None:
    start(page, prompt="And the woman", length=50, k=3)
    text = finish(page)
    page.locator(f"{LIVE} .text").first.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile("round=2"))
    link = page.url
    assert "round=2" in link and "trace=" in link and "prompt=And+the+woman" in link
    other = page.context.new_page()
    other.goto(link)
    other.locator(".live[data-state=finished]").wait_for()
    expect(other.locator(f"{LIVE} .where")).to_contain_text("round 2 of ")
    assert other.evaluate("document.querySelector('.live .rounds').textContent").startswith(text[:3])
    expect(other.get_by_label("Prompt")).to_have_value("And the woman")
    gone = re.sub(r"trace=[^&]+", "trace=expired", link)
    other.goto(gone)
    other.get_by_role("button", name="Run").wait_for()
    expect(other.get_by_label("Prompt")).to_have_value("And the woman")
    start(other)
    finish(other)
    expect(other.locator(f"{LIVE} .where")).to_contain_text("round 2 of ")


def test_a_report_opens_from_the_disk_without_a_network(browser: Browser, builtin: Pair, tmp_path: Path) -> None:
    trace = run_of(builtin)
    path = tmp_path / "report.html"
    path.write_text(report(trace), encoding="utf-8")
    context = browser.new_context(viewport={"width": 390, "height": 844}, offline=True, color_scheme="dark")
    page, errors = context.new_page(), list[str]()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type in ("error", "warning") else None)
    page.on("request", lambda request: errors.append(request.url) if not request.url.startswith(("file:", "data:", "blob:")) else None)
    page.goto(path.as_uri())
    n = len(trace.rounds)
    assert page.locator(".where").inner_text() == f"round 1 of {n}"
    page.get_by_role("slider", name="Round").focus()
    page.keyboard.press("End")
    assert page.locator(".where").inner_text() == f"round {n} of {n}"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    serious = [v["id"] for v in Axe().run(page).response["violations"] if v["impact"] in ("serious", "critical")]
    with page.expect_download() as download:
        page.get_by_role("button", name="PNG").click()
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")
    context.close()
    assert (errors, serious) == ([], [])


def test_each_recorded_trace_becomes_a_report_that_opens(browser: Browser, tmp_path: Path) -> None:
    context = browser.new_context(offline=True)
    page, errors = context.new_page(), list[str]()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type in ("error", "warning") else None)
    recorded = [path for folder in ("traces", "lessons") for path in (ASSETS / folder).glob("*.json") if path.name != "lessons.json"]
    assert len(recorded) > 10
    for path in recorded:
        out = tmp_path / f"{path.stem}.html"
        assert cli.main(["report", str(path), "--out", str(out)]) == 0
        assert out.stat().st_size < 6_000_000
        page.goto(out.as_uri())
        n = len(Trace.from_json(path.read_bytes()).rounds)
        expect(page.locator(".where")).to_have_text(f"round 1 of {n}")
        expect(page.locator(".picture")).to_be_visible()
    context.close()
    assert errors == []


def test_a_thousand_rounds_stay_smooth(page: Page, builtin: Pair, tmp_path: Path) -> None:
    """Counts of what a step touches; the milliseconds are measured by hand, on an idle machine."""
    short = run_of(builtin)
    many = tuple(short.rounds[i % len(short.rounds)].model_copy(update={"round": i}) for i in range(1000))
    open_trace(page, save(short.model_copy(update={"rounds": many, "stop": None}), tmp_path))
    page.locator(f"{LIVE} .rounds [data-round='999']").wait_for(state="attached", timeout=30_000)
    expect(page.locator(f"{LIVE} .where")).to_have_text("round 1000 of 1000")
    page.evaluate(
        """() => {
          window.changed = 0;
          const count = (records) => records.forEach((r) => { window.changed += r.addedNodes.length + (r.type === 'attributes'); });
          new MutationObserver(count).observe(document.querySelector('.live'), { subtree: true, childList: true, attributes: true });
        }"""
    )
    page.get_by_role("slider", name="Round").focus()
    page.keyboard.press("Home")
    page.wait_for_timeout(200)
    assert 0 < page.evaluate("window.changed") < 120, "a step redraws its round and nothing of the others"
