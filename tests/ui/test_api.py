"""The app's API through gradio_client, as a program uses it."""

from __future__ import annotations

import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

import slem_demo
from slem_demo.benchmark import Report
from slem_demo.metrics import event_lines
from slem_demo.models.loading import Pair
from slem_demo.views.report import report
from tests.ui.test_viewer import run_of


@pytest.fixture(scope="module")
def client(url: str) -> Client:
    return Client(url, verbose=False)


def without_times(line: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in line.items() if not name.endswith("_s") and name != "metrics"}


def test_decode_streams_the_engines_events_and_ends_with_the_stop_event(client: Client, builtin: Pair) -> None:
    settings = {"k": 3, "max_new_tokens": 24, "temperature": 0.7, "seed": 5}
    lines = list(client.submit("And God said", api_name="/decode", **settings))
    expected = list(event_lines(slem_demo.decode(builtin, "And God said", **settings)))
    assert [without_times(line) for line in lines] == [without_times(line) for line in expected]
    assert lines[-1]["event"] == "stop"
    assert lines[-1]["metrics"]["num_output_tokens"] == 24


def test_predict_returns_the_stop_event(client: Client) -> None:
    stop = client.predict("And God said", "target", api_name="/decode")
    assert stop["event"] == "stop" and len(stop["output_ids"]) <= 128


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"k": -1}, "k: "),
        ({"max_new_tokens": 10**6}, "max_new_tokens: "),
        ({"method": "generate", "temperature": 1}, "greedy comparator"),
        ({"top_p": 7}, "top_p: "),
    ],
)
def test_what_cannot_run_is_refused_in_words_and_the_next_call_works(client: Client, settings: dict[str, object], message: str) -> None:
    with pytest.raises(AppError, match=message):
        client.predict("And God said", api_name="/decode", **settings)
    assert client.predict("And God said", api_name="/decode", max_new_tokens=2)["event"] == "stop"


def test_only_documented_functions_are_offered(client: Client) -> None:
    assert set(client.view_api(return_format="dict", print_info=False)["named_endpoints"]) == {"/decode", "/bench", "/report", "/diff"}


def test_a_saved_trace_becomes_a_report_and_two_a_difference(client: Client, builtin: Pair) -> None:
    a, b = (run_of(builtin, method=method) for method in ("slem", "target"))
    assert client.predict(a.to_json(), api_name="/report") == report(a)
    found = client.predict(a.to_json(), b.to_json(), api_name="/diff")
    assert found["sentence"] == "All 40 ids are the same."
    with pytest.raises(AppError, match="not a trace"):
        client.predict("[]", api_name="/report")
    with pytest.raises(AppError, match="not a trace"):
        client.predict(a.to_json(), "{}", api_name="/diff")


def test_a_comparison_tells_its_progress_and_ends_with_the_measurement(client: Client) -> None:
    told = list(client.submit(api_name="/bench", methods="slem@2", prompt="And God said", max_new_tokens=8))
    measured = Report.from_json(told[-1])
    assert [update["progress"]["done"] for update in told[:-1]][-1] == 2
    assert [(str(run.variant), run.num_tokens) for run in measured.runs] == [("slem@2", 8), ("target", 8)]
    assert measured.ratios()["slem@2/target"].same_ids
    for wrong, message in (({"methods": "nope"}, "no method"), ({"prompts": "nope"}, "no prompts"), ({"n_prompts": 10**9}, "How many")):
        with pytest.raises(AppError, match=message):
            client.predict(api_name="/bench", **wrong)
