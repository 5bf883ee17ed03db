"""ZeroGPU with a fake `spaces`: a worker is forked for each call, and only what can be pickled comes back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from slem_demo.models.pairs import ASSETS
from slem_demo.ui import zero

FAKE = """
import multiprocessing, sys

assert "torch" not in sys.modules, "spaces must be imported before torch"
calls = []

def GPU(duration):
    def decorate(function):
        def in_worker(*args):
            calls.append(duration(*args))
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
import app, spaces, torch
from slem_demo.trace import Request
from slem_demo.ui.page import Runs
from slem_demo.ui.host import Limits
from slem_demo.models.loading import load_pair

assert not torch.cuda.is_initialized()
torch.set_num_threads(1)
pair = load_pair("builtin")
runs = Runs(pair, Limits())
lines = list(runs.decode("And God said", max_new_tokens=8))
assert lines[-1]["output_ids"] == list(list(pair.decode(Request.checked(
    pair="builtin", prompt="And God said", max_new_tokens=8)))[-1].output_ids)
live = list(runs.live(True, "And God said", 4, 0, 20, 0, 1, 0))
assert '"state": "finished"' in live[-1][0]
print(spaces.calls)
"""


def test_runs_in_a_forked_worker_give_the_same_and_ask_for_few_seconds(tmp_path: Path) -> None:
    (tmp_path / "spaces.py").write_text(FAKE)
    env = {"PYTHONPATH": f"{tmp_path}:{ASSETS.parent}", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, cwd=ASSETS.parent, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "[6, 9]"


def test_seconds_grow_with_the_run_up_to_the_hosts_limit() -> None:
    assert zero.duration({"max_new_tokens": 50}, False, 60) == 10
    assert zero.duration({"max_new_tokens": 50}, True, 60) == 15
    assert zero.duration({"max_new_tokens": 5000}, True, 60) == 60


def test_elsewhere_the_decorator_changes_nothing() -> None:
    assert zero.on_gpu(len, lambda _: 1) is len
