"""ZeroGPU with a fake `spaces`: a worker is forked for each call, and only what can be pickled comes back."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

from slem_demo.benchmark import Calibration
from slem_demo.engine.race import race
from slem_demo.models.loading import Pair
from slem_demo.models.pairs import ASSETS
from slem_demo.trace import Request
from slem_demo.ui import zero
from slem_demo.ui.stream import Step

FAKE = """
import multiprocessing, sys

assert "torch" not in sys.modules, "spaces must be imported before torch"
calls, quota = [], 100

def GPU(duration):
    def decorate(function):
        def in_worker(*args):
            calls.append(duration(*args))
            if calls[-1] > quota:
                raise Exception(f"You have exceeded your free GPU quota ({calls[-1]}s requested vs. {quota}s left).")
            ours, theirs = multiprocessing.Pipe()
            def work():
                for item in function(*args):
                    theirs.send(item)
                theirs.send(StopIteration)
            worker = multiprocessing.get_context("fork").Process(target=work)
            worker.start()
            while (item := ours.recv()) is not StopIteration:
                yield item
            worker.join()
        return in_worker
    return decorate
"""

SCRIPT = """
import app, json, spaces, torch
from slem_demo.errors import SlemError
from slem_demo.trace import Request, Trace
from slem_demo.ui.runs import Runs
from slem_demo.ui.host import Limits
from slem_demo.models.shelf import Shelf
from slem_demo.models.loading import load_pair

assert not torch.cuda.is_initialized()
torch.set_num_threads(1)
pair = load_pair("builtin")
runs = Runs(Shelf.holding(pair), Limits())
def lines_of(prompt, n):
    return list(pair.decode(Request.checked(pair="builtin", prompt=prompt, max_new_tokens=n)))[-1].output_ids

lines = list(runs.decode("And God said", max_new_tokens=8))
assert lines[-1]["output_ids"] == list(lines_of("And God said", 8))
live = list(runs.live(True, "builtin", "And God said", False, "", 4, False, 0, 20, 0, 1, 0, "shared"))
assert '"state": "finished"' in live[-1]
run = json.loads(live[-1])["run"]
assert Trace.from_json(runs.trace(run)).output_ids == lines_of("And God said", 20), "the trace is kept outside the worker"

try:
    fields = runs.check(Request.checked(pair="builtin", prompt="And")) | {"max_new_tokens": 1500}
    list(Runs(Shelf.holding(pair), Limits(max_seconds=1))._steps(fields, True))
except SlemError as error:
    assert "ended after 1 s" in str(error)
else:
    raise AssertionError

spaces.quota = 0
live = [json.loads(update) for update in runs.live(True, "builtin", "And God said", False, "", 4, False, 0, 20, 0, 1, 0, "shared")]
recorded = [update for update in live if update["recorded_on"]]
assert recorded[0]["prompt"] == "In the beginning God created" and recorded[-1]["state"] == live[-1]["state"] == "finished"
assert Trace.from_json(runs.trace(recorded[0]["run"])).request.prompt == recorded[0]["prompt"]
try:
    list(runs.decode("And God said"))
except Exception as error:
    assert "used up" in str(error)
else:
    raise AssertionError
print(spaces.calls[:3])
"""


def test_runs_in_a_forked_worker_give_the_same_and_ask_for_few_seconds(tmp_path: Path) -> None:
    (tmp_path / "spaces.py").write_text(FAKE)
    env = {"PYTHONPATH": f"{tmp_path}:{ASSETS.parent}", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, cwd=ASSETS.parent, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "[6, 9, 1]"


def test_seconds_grow_with_the_run_up_to_the_hosts_limit() -> None:
    assert zero.duration({"max_new_tokens": 50}, False, 60) == 10
    assert zero.duration({"max_new_tokens": 50}, True, 60) == 15
    assert zero.duration({"max_new_tokens": 5000}, True, 60) == 60


def test_elsewhere_the_wrapper_changes_nothing() -> None:
    def compute(fields: dict[str, Any], with_race: bool) -> Generator[Step, None, None]:
        raise NotImplementedError

    assert zero.on_gpu(compute, 60) is compute


def test_steps_pass_through_the_pipe_unchanged(builtin: Pair) -> None:
    request = Request.checked(pair="builtin", prompt="日本 And", max_new_tokens=6, temperature=2, seed=1, alternatives=2)
    steps: list[Step] = [Calibration(0.01, 0.1, 1.1), *race({"slem": builtin.decode(request)})]
    plain = [zero.to_plain(step) for step in steps]
    assert [zero.from_plain(json.loads(json.dumps(item))) for item in plain] == steps
