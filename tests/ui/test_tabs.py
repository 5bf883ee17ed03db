"""The walkthrough, two saved traces, and the tabs beside each other, in a real browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from slem_demo.models.loading import Pair
from slem_demo.models.pairs import ASSETS
from slem_demo.views.lessons.lesson import load_lessons
from tests.ui.test_browser import finish, start
from tests.ui.test_viewer import run_of, save

LESSONS = load_lessons(ASSETS / "lessons")


def open_walkthrough(page: Page) -> None:
    page.get_by_role("tab", name="Walkthrough").click()
    page.locator(".algorithm li").first.wait_for()


@pytest.mark.parametrize("lesson", LESSONS, ids=[found["name"] for found in LESSONS])
def test_each_step_of_each_lesson_says_its_words_and_lights_its_part(page: Page, lesson) -> None:  # type: ignore[no-untyped-def]
    open_walkthrough(page)
    page.get_by_role("button", name=lesson["title"]).click()
    page.locator(".walkthrough .stage").focus()
    for i, step in enumerate(lesson["steps"]):
        expect(page.locator(".step-title")).to_have_text(step["title"])
        assert page.locator(".step-text").evaluate("(node) => node.textContent") == step["text"]
        assert page.locator(".algorithm [aria-current=step] code").evaluate("(node) => node.textContent") == step["line"]
        shown = page.evaluate(
            """() => [...document.querySelectorAll('.walkthrough :is([data-row], .parts):not(.dim), .walkthrough [data-part].lit')]
              .map((node) => node.dataset.row ?? node.dataset.part ?? 'parts')"""
        )
        assert set(shown) == set(step["lit"])
        quiz = page.locator(".walkthrough .quiz")
        expect(quiz.locator("p")).to_be_hidden()
        quiz.locator("summary").click()
        expect(quiz.locator("p")).to_have_text(step["answer"])
        page.locator(".walkthrough .stage").focus()
        page.keyboard.press("ArrowRight")
        expect(page.locator(".walkthrough .where")).to_have_text(f"step {min(i + 2, 6)} of 6")
    page.keyboard.press("Home")
    expect(page.locator(".step-title")).to_have_text(lesson["steps"][0]["title"])


def test_a_link_opens_its_tab_lesson_and_step(page: Page) -> None:
    open_walkthrough(page)
    page.get_by_role("button", name="They part inside a token").click()
    page.get_by_role("button", name="Next").click()
    link = page.url
    assert re.search(r"tab=walkthrough&.*lesson=inside-a-token&step=2", link)
    other = page.context.new_page()
    other.goto(link)
    expect(other.locator(".walkthrough .where")).to_have_text("step 2 of 6")
    expect(other.locator(".lessons [aria-pressed=true]")).to_have_text("They part inside a token")


def test_views_on_one_page_leave_each_other_alone(page: Page, builtin: Pair) -> None:
    start(page, length=60)
    page.locator(".live .rounds [data-round='2']").wait_for(state="attached")
    open_walkthrough(page)
    page.locator(".walkthrough .stage").focus()
    page.keyboard.press("ArrowRight")
    page.get_by_role("tab", name="Live").click()
    text = finish(page)
    assert text == run_of(builtin, "In the beginning God created", max_new_tokens=60).text
    n = page.locator(".live .rounds [data-round]").count()
    expect(page.locator(".live .where")).to_have_text(f"round {n} of {n}")
    assert page.locator(".live .picture").count() == page.locator(".walkthrough .picture").count() == 1


def test_two_saved_traces_are_compared(page: Page, builtin: Pair, tmp_path: Path) -> None:
    page.get_by_role("tab", name="Compare").click()
    page.get_by_role("button", name="Two saved traces").click()
    runs = {"a": run_of(builtin), "b": run_of(builtin, method="target", max_new_tokens=30)}
    for name, trace in runs.items():
        page.locator(f"#trace-{name} input[type=file]").set_input_files(save(trace, tmp_path, f"{name}.json"))
    expect(page.locator(".diff .sentence")).to_have_text("The 30 ids of the shorter are the same; the other goes on.")
    row = page.locator(".diff tr.other", has_text="method")
    assert row.locator("td").all_inner_texts() == ["slem", "target"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_serious_for_axe_in_the_walkthrough(page: Page, url: str, scheme: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(f"{url}?tab=walkthrough")
    page.locator(".algorithm li").first.wait_for()
    for _ in range(3):
        page.get_by_role("button", name="Next").click()
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    found = [v for v in Axe().run(page).response["violations"] if v["impact"] in ("serious", "critical")]
    assert [(v["id"], [(n["html"][:120], n["failureSummary"]) for n in v["nodes"]]) for v in found] == []
