"""The Compare tab: what its generator yields, what it refuses, and what a browser shows of it. Ids and counts, never times."""

from __future__ import annotations

import argparse
import itertools
import json
import pickle
import shlex
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

import slem_demo
from slem_demo import benchmark
from slem_demo.benchmark import Case, Report, Run, Variant
from slem_demo.cli.bench import add_bench
from slem_demo.errors import SlemError
from slem_demo.models.loading import Pair
from slem_demo.models.pairs import ASSETS
from slem_demo.models.shelf import Shelf
from slem_demo.trace import StopEvent
from slem_demo.ui.compare import measuring
from slem_demo.ui.compare.measuring import Deadline, Step, comparable, measure, on_worker
from slem_demo.ui.compare.plan import OWN, Plan
from slem_demo.ui.compare.results import Results
from slem_demo.ui.compare.shown import NOT_COMPARABLE, page, split_at
from slem_demo.ui.compare.tab import Comparing, compare_tab
from slem_demo.ui.host import Limits
from slem_demo.ui.page import launch_options
from slem_demo.ui.runs import as_value
from slem_demo.ui.zero import QuotaError
from tests.ui.conftest import free_port

HOSTILE = "<script>document.title='x'</script> ${document.title} {{x}} `a` \\n <img src=x onerror=alert(1)> 😀 العربية"


@pytest.fixture(autouse=True)
def few_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calibrations take as little time as they can."""
    monkeypatch.setattr(measuring, "PASSES", 1)


def values(**changes: Any) -> list[Any]:
    """The controls' values, small."""
    fields = {
        "pair": "builtin",
        "methods": ["slem@2", "tli@4"],
        "more": "",
        "set_name": "openings",
        "n_prompts": 2,
        "prompt": "And God said",
        "max_new_tokens": 8,
        "temperature": 0,
        "seed": 0,
        "repeats": 1,
    }
    assert changes.keys() <= fields.keys()
    return list((fields | changes).values())


@pytest.fixture
def comparing(builtin: Pair) -> Comparing:
    return Comparing(Shelf.holding(builtin), Limits())


def begun(comparing: Comparing, **changes: Any) -> Results:
    return comparing.begin(Plan.checked(values(**changes)))


def whole(comparing: Comparing, **changes: Any) -> tuple[Results, dict[str, Any]]:
    """A comparison that has run to its end, and its last update."""
    results = begun(comparing, **changes)
    *_, last = comparing.updates(results)
    return results, last


def ticking() -> Callable[[], float]:
    times = itertools.count(0.0, 1.0)
    return lambda: next(times)


def cells(update: dict[str, Any], column: str) -> dict[str, tuple[str, str]]:
    titles = [name for name, _ in update["methods"]["head"]]
    return {row[0][0]: row[titles.index(column)] for row in update["methods"]["rows"]}


def engine_text(pair: Pair, prompt: str, **settings: object) -> str:
    *_, stop = slem_demo.decode(pair, prompt, **settings)
    assert isinstance(stop, StopEvent)
    return stop.text


# -- the generator ---------------------------------------------------------------------------------------------------


def test_each_run_gives_an_update_that_is_complete_in_itself(comparing: Comparing, builtin: Pair) -> None:
    results = begun(comparing)
    updates: list[Any] = list(comparing.updates(results, clock=ticking()))
    done = [update["progress"]["done"] for update in updates]
    assert done == sorted(done) and set(done) == set(range(7)) and updates[-1]["progress"]["total"] == 6
    assert [update["state"] for update in updates].count("finished") == 1 and updates[-1]["state"] == "finished"
    assert "about" in updates[1]["progress"]["text"] and not done[1], "an estimate before the first result"
    for update in updates:
        assert update["run"] == results.run and update.keys() == updates[0].keys()
        assert [row[0][0] for row in update["methods"]["rows"]] == ["target", "slem@2", "tli@4"]
        assert json.loads(as_value(update)) == json.loads(json.dumps(update))
    half = updates[done.index(4)]
    assert sum(row != "–" for row, _ in cells(half, "tokens/s").values()) >= 2
    assert cells(updates[-1], "ids") == {
        "target": ("16", "ids"),
        "slem@2": ("16 = 16", "all the same"),
        "tli@4": ("16 = 16", "all the same"),
    }
    for text, request in zip(updates[-1]["texts"], results.asked.values(), strict=True):
        assert text["target"] == engine_text(builtin, request.prompt, method="target", max_new_tokens=8)
        assert [row["kind"] for row in text["methods"]] == ["same", "same"]


def test_many_fast_runs_travel_together(comparing: Comparing) -> None:
    updates = list(comparing.updates(begun(comparing), clock=lambda: 0.0))
    assert len(updates) == 3, "the beginning, the expectation, and the end"


def test_the_report_is_that_of_bench(comparing: Comparing) -> None:
    results, last = whole(comparing, repeats=2)
    data = json.loads(json.dumps(comparing.report(results.run)))
    report = Report.from_json(data)
    assert {str(variant): len(report.of(variant)) for variant in report.variants} == {"slem@2": 4, "tli@4": 4, "target": 4}
    assert {"slem@2/target", "tli@4/target"} <= data["ratios"].keys() and data["calibration"]
    assert data["settings"] | {"max_new_tokens": 8, "temperature": 0.0, "seed": 0} == data["settings"]
    assert cells(last, "tokens")["slem@2"][0] == f"{data['summary']['slem@2']['mean_acceptance_length']:.2f}"
    assert cells(last, "speedup")["slem@2"] == (f"{data['ratios']['slem@2/target']['median']:.2f}×", "")
    assert comparing.report("no such run") is None


def test_counts_are_sums_and_a_dash_where_a_method_does_not_show_them(comparing: Comparing) -> None:
    results, last = whole(comparing, methods=["slem@2", "hf@2"])
    rows = {row[0]: row[1:] for row in last["counts"]["rows"]}
    ours = results.summaries(Variant.parse("slem@2"))
    assert rows["output tokens"] == ["16", "16", "16"]
    assert rows["candidates sent"] == ["0", str(sum(m.num_candidate_tokens or 0 for m in ours)), "–"]
    assert rows["verify, s"][2] == "–" and rows["prefill of the draft, s"][0] == "–"


def test_with_few_prompts_no_interval_is_claimed_and_slower_is_said(comparing: Comparing, monkeypatch: pytest.MonkeyPatch) -> None:
    real = benchmark.runs

    def slower(*args: Any) -> Iterator[Run]:
        return (replace(run, seconds=4.0 if run.variant.method == "tli" else 2.0 if run.variant.k else 1.0) for run in real(*args))

    monkeypatch.setattr(measuring, "runs", slower)
    _, last = whole(comparing)
    assert cells(last, "speedup") == {"target": ("1×", ""), "slem@2": ("0.50×", ""), "tli@4": ("0.25×", "")}
    assert cells(last, "verdict")["slem@2"] == ("slower here", "too few prompts to say")
    assert last["headline"] == "Nothing here is faster than the target alone; slem@2 comes nearest, 0.50×"
    assert last["evidence"] == "The best of 2, chosen on these very runs. Median over 2 prompts: too few prompts to say more."
    _, last = whole(comparing, n_prompts=6, max_new_tokens=1)
    assert cells(last, "verdict")["tli@4"] == ("slower", "")
    assert cells(last, "speedup")["tli@4"] == ("0.25×", "0.25 – 0.25")
    assert last["evidence"] == "The best of 2, chosen on these very runs. Median over 6 prompts; 95 % interval 0.50 to 0.50."


# -- ids -------------------------------------------------------------------------------------------------------------


def test_a_wrong_method_is_found_out(comparing: Comparing, monkeypatch: pytest.MonkeyPatch) -> None:
    real = benchmark.runs

    def wrong(*args: Any) -> Iterator[Run]:
        for run in real(*args):
            is_wrong = run.variant.method == "slem" and run.case.prompt == 1
            yield replace(run, output_ids=(*run.output_ids[:3], 7, *run.output_ids[4:])) if is_wrong else run

    monkeypatch.setattr(measuring, "runs", wrong)
    results, last = whole(comparing)
    assert cells(last, "ids")["slem@2"] == ("≠ in 1", "of 2 runs")
    assert [text["methods"][0]["kind"] for text in last["texts"]] == ["same", "different"]
    row = last["texts"][1]["methods"][0]
    assert row["verdict"].startswith("differs from token 4 on. At token 4:") and "more than rounding" in row["verdict"]
    shared, differs, rest = row["text"]
    assert last["texts"][1]["target"].startswith(shared) and differs == results.vocab[7].decode()
    ids = next(run.output_ids for run in results.done if run.variant.method == "slem" and run.case.prompt == 1)
    assert shared + differs + rest == b"".join(results.vocab[i] for i in ids).decode()
    assert last["texts"][0]["methods"][0]["verdict"] == "the same 8 ids: 8 of 8 compared"


def test_sampled_tli_is_not_compared_and_sampled_slem_is(comparing: Comparing) -> None:
    _, last = whole(comparing, temperature=1)
    assert cells(last, "ids") == {
        "target": ("16", "ids"),
        "slem@2": ("16 = 16", "all the same"),
        "tli@4": ("not comparable", "equal in distribution"),
    }
    assert last["texts"][0]["methods"][1]["verdict"] == NOT_COMPARABLE and last["texts"][0]["methods"][1]["kind"] == "sampled"


def test_a_text_is_cut_between_characters() -> None:
    vocab = [b"a", "日".encode()[:1], "日".encode()[1:], b"b"]
    assert split_at(vocab, [0, 1, 2, 3], 2) == ["a", "日", "b"]
    assert split_at(vocab, [0, 3, 1], 3) == ["ab", "", "\ufffd"]
    assert split_at(vocab, [], 0) == ["", "", ""]


def test_a_hostile_prompt_stays_data(comparing: Comparing) -> None:
    _, last = whole(comparing, set_name=OWN, prompt=HOSTILE, max_new_tokens=2)
    assert last["texts"][0]["prompt"] == HOSTILE and len(last["texts"]) == 1
    assert "<" not in as_value(last) and json.loads(as_value(last))["texts"][0]["prompt"] == HOSTILE


# -- the end before the end ------------------------------------------------------------------------------------------


def test_what_was_done_before_stop_stays_and_is_summarised(comparing: Comparing) -> None:
    results = begun(comparing, repeats=5)
    comparing.of_session.put("a visitor", results)
    updates: Any = comparing.updates(results, clock=ticking())
    half = next(update for update in updates if update["progress"]["done"] == 5)
    stopped = json.loads(comparing.ended("a visitor", "stopped"))
    assert stopped["state"] == "stopped" and stopped["methods"]["rows"] == json.loads(json.dumps(half))["methods"]["rows"]
    assert stopped["progress"]["text"] == "stopped after 5 of 30 runs; what was measured stays"
    assert [u["progress"]["done"] for u in updates] == [], "the run at hand is given up"
    report = Report.from_json(json.loads(json.dumps(comparing.report(results.run))))
    assert {str(variant): len(report.of(variant)) for variant in report.variants} == {"target": 1, "slem@2": 1, "tli@4": 1}
    assert whole(comparing)[1]["state"] == "finished", "the next comparison is not affected"


def test_stop_before_anything_ran_shows_nothing_new(comparing: Comparing) -> None:
    assert json.loads(comparing.ended("nobody", "stopped")).keys() == {"state", "at"}
    results, _ = whole(comparing, n_prompts=1)
    comparing.of_session.put("waits again", results)
    assert json.loads(comparing.ended("waits again", "stopped")).keys() == {"state", "at"}


def test_the_hosts_time_ends_a_comparison_with_what_there_is(builtin: Pair) -> None:
    plan = Plan.checked(values())
    n_reads = itertools.count()
    list(measure(builtin, plan, Deadline(1e9, lambda: float(next(n_reads)))))
    total, ticks = next(n_reads), itertools.count()
    steps = list(measure(builtin, plan, Deadline(0.8 * total, lambda: float(next(ticks)))))
    done = [step for step in steps if isinstance(step, Run)]
    assert 0 < len(done) < 6 and isinstance(steps[-1], Report) and steps[-1].runs
    results = Results.begun(plan, builtin, Deadline(60))
    for step in steps:
        results.add(step)
    last: Any = page(results, "finished")
    assert last["progress"]["text"] == f"ended after 60 s, the most this host allows: {len(done)} of 6 runs"
    with pytest.raises(SlemError, match="Not one run was done within 2 s"):
        list(measure(builtin, plan, Deadline(2, ticking())))


def test_only_what_all_have_written_is_compared() -> None:
    def run(method: str, prompt: int) -> Run:
        return Run(Variant.parse(method), Case("s", prompt), 0, (1,), 1.0, None, 0.0, None)

    done = [run("target", 0), run("slem", 0), run("tli", 0), run("slem", 1), run("tli", 1)]
    assert comparable(done) == done[:3]
    assert comparable(done[:2]) == done[:2] and comparable([]) == []


# -- what is refused, and the way there --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"methods": []}, "Choose at least one method"),
        ({"more": "target", "methods": None}, "Choose at least one method"),
        ({"more": "slem@x"}, "There is no method 'slem@x'"),
        ({"more": " ".join(f"slem@{k}" for k in range(3, 14))}, "14 methods were chosen; 12 at a time"),
        ({"more": "slem-lean slem-int8 target-packed"}, "At most 2 methods with a lever off"),
        ({"methods": ["hf@4"], "temperature": 0.7}, "hf@4 is greedy only"),
        ({"more": "generate", "temperature": 1}, "generate is greedy only"),
        ({"set_name": "../prose"}, "There are no prompts"),
        ({"set_name": OWN, "prompt": "  "}, "it is empty"),
        ({"n_prompts": 0}, "from 1 to 16"),
        ({"n_prompts": 2.5}, "from 1 to 16"),
        ({"repeats": 99}, "from 1 to 5"),
        ({"repeats": None}, "from 1 to 5"),
        ({"max_new_tokens": 0}, "max_new_tokens"),
        ({"temperature": -1}, "temperature"),
        ({"seed": "x"}, "seed"),
        ({"pair": "nothing"}, "not on offer"),
        ({"max_new_tokens": 513}, "this host allows 512"),
        ({"set_name": OWN, "prompt": "word " * 900}, "this host allows 4,000"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_one_sentence(comparing: Comparing, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SlemError, match=message):
        begun(comparing, **changes)


def test_methods_are_named_once_and_the_target_first() -> None:
    plan = Plan.checked(values(methods=["slem@2"], more="target, slem@2 slem@6,generate"))
    assert list(map(str, plan.variants)) == ["target", "slem@2", "slem@6", "generate"]


def test_the_command_measures_the_same() -> None:
    plan = Plan.checked(values(temperature=0.7, seed=3, more="slem@auto:independent", repeats=2))
    words = shlex.split(plan.command)
    assert words[:4] == ["python", "-m", "slem_demo", "bench"]
    parser = argparse.ArgumentParser()
    add_bench(parser.add_subparsers())
    args = parser.parse_args(words[3:])
    assert (args.pair, tuple(args.methods), args.prompts, args.first) == ("builtin", plan.variants, "openings", 2)
    assert (args.max_new_tokens, args.temperature, args.seed, args.repeats) == (8, 0.7, 3, 2)
    assert Plan.checked(values(set_name=OWN)).command == ""


def test_every_step_goes_through_the_pipe_of_a_worker(builtin: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def gpu(duration: Callable[..., int]) -> Callable[..., Any]:
        def decorate(function: Callable[..., Generator[object, None, None]]) -> Callable[..., Generator[object, None, None]]:
            def in_worker(*args: Any) -> Generator[object, None, None]:
                asked.append(duration(*args))
                if asked[-1] > 100:
                    raise RuntimeError("You have exceeded your free GPU quota.")
                for step in function(*pickle.loads(pickle.dumps(args))):
                    yield pickle.loads(pickle.dumps(step))

            return in_worker

        return decorate

    monkeypatch.setattr(measuring, "spaces", SimpleNamespace(GPU=gpu))
    plan = Plan.checked(values(n_prompts=1))
    compute = on_worker(lambda plan, deadline: measure(builtin, plan, deadline))
    steps = list(compute(plan, Deadline(60)))
    assert [type(step).__name__ for step in steps] == ["Expected", "Run", "Run", "Run", "Passes", "Passes", "Report"]

    def refusing(*_: object) -> Generator[Step, None, None]:
        raise SlemError("no")
        yield

    with pytest.raises(SlemError, match="no"):
        list(on_worker(refusing)(plan, Deadline(60)))
    with pytest.raises(QuotaError):
        list(compute(plan, Deadline(1000)))
    assert asked == [60, 60, 1000]


# -- in a browser ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compare_url(builtin: Pair) -> Iterator[str]:
    with gr.Blocks(title="Compare", analytics_enabled=False) as demo:
        gr.HTML('<header class="slem"><h1>Compare</h1></header>')
        with gr.Tab("Compare"):
            compare_tab(Shelf.holding(builtin), Limits(), "engine")
    demo.queue()
    options = launch_options() | {"server_name": "127.0.0.1", "server_port": free_port()}
    options["css_paths"] = [ASSETS / "style.css", ASSETS / "compare.css"]
    _, address, _ = demo.launch(prevent_thread_lock=True, quiet=True, **options)
    yield address
    demo.close()


@pytest.fixture
def tab(browser: Browser, compare_url: str) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    opened.goto(compare_url)
    opened.get_by_role("button", name="Compare").wait_for()
    yield opened
    context.close()
    assert errors == []


def small(tab: Page, methods: tuple[str, ...] = ("slem@2",), **numbers: int) -> None:
    """Sets the controls to little work."""
    for box in tab.locator("#methods input").all():
        box.set_checked(box.get_attribute("name") in methods)
    for name, value in ({"n-prompts": 1, "compare-length": 4} | numbers).items():
        tab.locator(f"#{name.replace('_', '-')} input[type=number]").fill(str(value))
        tab.keyboard.press("Tab")


def finished(tab: Page) -> None:
    tab.locator(".compare[data-state=finished]").wait_for(timeout=60_000)
    expect(tab.get_by_role("button", name="Compare")).to_be_enabled()


def test_one_prompt_is_compared_and_its_measurement_saved(tab: Page, builtin: Pair) -> None:
    expect(tab.locator(".compare .promise")).to_be_visible()
    small(tab, ("slem@2", "hf@4"))
    tab.locator("#prompt-set input").click()
    tab.get_by_role("option", name=OWN).click()
    tab.get_by_label("Your prompt").fill(HOSTILE)
    tab.get_by_role("button", name="Compare").click()
    finished(tab)
    assert tab.locator(".compare .methods tbody tr").evaluate_all("(rows) => rows.map((r) => r.dataset.method)") == [
        "target",
        "slem@2",
        "hf@4",
    ]
    assert tab.locator(".compare .methods [data-method='hf@4'] td:last-child").inner_text().split("\n") == ["4 = 4", "all the same"]
    assert tab.locator(".compare .text .prompt").evaluate("(n) => n.textContent") == HOSTILE
    assert tab.locator(".compare .target-text").evaluate("(n) => n.textContent") == engine_text(builtin, HOSTILE, max_new_tokens=4)
    assert tab.locator(".compare .beside li").evaluate_all("(n) => n.map((i) => i.dataset.kind)") == ["same", "same"]
    tab.wait_for_function("document.querySelectorAll('.compare .plot .plot-container').length === 4")
    assert tab.title() == "Compare"
    expect(tab.locator(".compare .as-command")).to_be_hidden()
    with tab.expect_download() as download:
        tab.get_by_role("button", name="Save the measurement").click()
    report = Report.from_json(json.loads(download.value.path().read_bytes()))
    assert len(report.runs) == 3 and {run.num_tokens for run in report.runs} == {4}


def test_stop_keeps_what_was_measured_and_the_next_comparison_runs(tab: Page) -> None:
    small(tab, ("slem@2", "slem@4"), n_prompts=16, compare_length=32, repeats=5)
    tab.get_by_role("button", name="Compare").click()
    tab.wait_for_function("Number(document.querySelector('.compare .track').getAttribute('aria-valuenow')) >= 2")
    tab.get_by_role("button", name="Stop").click()
    tab.locator(".compare[data-state=stopped]").wait_for()
    text = tab.locator(".compare .state").inner_text()
    assert text.startswith("stopped after ") and text.endswith(" of 240 runs; what was measured stays")
    tab.wait_for_timeout(400)
    expect(tab.locator(".compare .state")).to_have_text(text)
    expect(tab.get_by_role("button", name="Save the measurement")).to_be_enabled()
    ids = tab.locator(".compare .methods [data-method='slem@2'] td:last-child").inner_text()
    n, m = ids.split("\n")[0].replace(",", "").split(" = ")
    assert int(n) == int(m) >= 32
    small(tab, repeats=1)
    tab.get_by_role("button", name="Compare").click()
    finished(tab)
    expect(tab.locator(".compare .state")).to_contain_text("2 runs")
    expect(tab.locator(".compare .command")).to_have_text(
        "python -m slem_demo bench --pair builtin --methods target,slem@2 --prompts openings --first 1 --repeats 1 --max-new-tokens 4"
    )


def test_a_refusal_is_explained_and_loses_nothing_and_keys_are_enough(tab: Page) -> None:
    small(tab)
    tab.locator("#compare-seed input").focus()
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.id") == "compare-run"
    tab.keyboard.press("Enter")
    finished(tab)
    before = tab.locator(".compare .methods").inner_text()
    small(tab, ())
    for _ in range(2):
        tab.get_by_role("button", name="Compare").click()
        expect(tab.get_by_test_id("toast-body").last).to_contain_text("Choose at least one method")
        tab.locator(".compare[data-state=failed]").wait_for()
        expect(tab.get_by_role("button", name="Compare")).to_be_enabled()
    assert tab.locator(".compare .methods").inner_text() == before
    expect(tab.get_by_role("button", name="Save the measurement")).to_be_enabled()


IN_THE_TAB = {"exclude": [["[role=tablist]"]]}  # the strip of tabs is the page's


def test_nothing_serious_for_axe_and_no_sideways_scrolling(tab: Page) -> None:
    small(tab, ("slem@2", "tli@4"))
    tab.locator("#compare-temperature input[type=number]").fill("1")
    tab.keyboard.press("Tab")
    tab.get_by_role("button", name="Compare").click()
    finished(tab)
    tab.locator(".compare summary").click()
    assert tab.locator(".compare [data-kind=sampled] mark").count() == 1
    inks = set()
    for scheme, width in itertools.product(("light", "dark"), (1280, 390)):
        tab.set_viewport_size({"width": width, "height": 844})
        tab.evaluate("(is_dark) => document.body.classList.toggle('dark', is_dark)", scheme == "dark")
        tab.wait_for_timeout(100)
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
        inks.add(tab.locator(".compare .plot text").first.evaluate("(n) => getComputedStyle(n).fill"))
        tab.evaluate("Promise.all(document.getAnimations().filter((a) => a instanceof CSSTransition).map((a) => a.finished))")
        found = Axe().run(tab, context=IN_THE_TAB).response["violations"]
        serious = [(v["id"], [n["html"][:120] for n in v["nodes"]]) for v in found if v["impact"] in ("serious", "critical")]
        assert serious == [], (scheme, width)
    assert len(inks) == 2, "the plots take the ink of the scheme"
