"""Names, folders, placements; and what a person reads when something is missing, broken or out of reach."""

from __future__ import annotations

import http.server
import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import slem_demo
from slem_demo.engine.decode import slem, target_only
from slem_demo.engine.run import Prompts
from slem_demo.errors import SlemError
from slem_demo.models.loading import Pair, Placement, load_model, load_pair
from slem_demo.models.pairs import ASSETS, PAIRS, Source, model_source, pair_sources
from slem_demo.trace import Request, StopEvent
from tests.models import tiny

CPU = Placement("cpu", "float32")


def output_ids(pair: Pair, **fields: object) -> tuple[int, ...]:
    *_, stop = slem_demo.decode(pair, "And God said", **({"max_new_tokens": 24} | fields))
    assert isinstance(stop, StopEvent)
    return stop.output_ids


@pytest.mark.parametrize(
    "name", ["", "nonsense", "a::", "::b", "builtin::", "../etc::builtin-draft", "/no/such/folder::builtin-draft", "a b::c d"]
)
def test_unknown_names_are_refused_in_one_sentence(name: str) -> None:
    with pytest.raises(SlemError, match=r"There is no (pair|model)") as caught:
        pair_sources(name)
    assert "\n" not in str(caught.value)


def test_names_are_read() -> None:
    assert model_source("org/name@v1.0") == Source("org/name@v1.0", hub_id="org/name", revision="v1.0")
    assert model_source("org/name") == Source("org/name", hub_id="org/name")
    assert pair_sources("builtin") == pair_sources("builtin-target::builtin-draft")
    assert model_source(str(ASSETS / "builtin" / "target")).folder == ASSETS / "builtin" / "target"


def test_a_pair_the_other_way_round_and_of_folders(tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(ASSETS / "builtin" / "draft", folder)
    pair = load_pair(f"{folder}::builtin-target", CPU)
    assert output_ids(pair, k=3) == output_ids(pair, method="target")
    assert pair.trace(Request.checked(pair=pair.name, prompt="a")).draft.name == "builtin-target"  # type: ignore[union-attr]


def test_one_model_on_both_sides_is_plain_speculative_decoding_and_accepts_everything() -> None:
    pair = load_pair("builtin-draft::builtin-draft", CPU)
    assert pair.has_one_tokenizer
    assert pair.target is pair.draft
    assert output_ids(pair, k=4) == output_ids(pair, method="target")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(ASSETS / "builtin" / "draft", tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda f: (f / "model.safetensors").unlink(), "there is no model.safetensors"),
        (lambda f: (f / "model.safetensors").write_bytes(b""), "cannot be read"),
        (lambda f: (f / "model.safetensors").write_bytes(b"\0" * 100), "cannot be read"),
        (lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-1000]), "cannot be read"),
        (lambda f: (f / "config.json").unlink(), "cannot be read"),
        (lambda f: (f / "config.json").write_text("{"), "cannot be read"),
        (lambda f: (f / "config.json").write_text('{"model_type": "no such type"}'), "cannot be read"),
        (lambda f: (f / "tokenizer.json").unlink(), "there is no tokenizer.json"),
        (lambda f: (f / "tokenizer.json").rename(f / "tokenizer.model"), "sentencepiece|is no SentencePiece model"),
        (lambda f: (f / "tokenizer.json").write_text("{}"), "tokenizer.json cannot be read"),
    ],
)
def test_a_missing_or_broken_file_is_named_and_the_next_load_works(folder: Path, break_it: object, message: str) -> None:
    break_it(folder)  # type: ignore[operator]
    with pytest.raises(SlemError, match=message) as caught:
        load_pair(f"builtin-target::{folder}", CPU)
    assert "\n" not in str(caught.value)
    assert load_pair("builtin", CPU).name == "builtin"


def test_weights_that_do_not_fit_the_config_are_refused(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"hidden_size": 128}))
    with pytest.raises(SlemError, match="cannot be read"):
        load_pair(f"builtin-target::{folder}", CPU)


def test_remote_code_is_never_run(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "evil", "auto_map": {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text(f"open({str(folder / 'was-run')!r}, 'w')")
    with pytest.raises(SlemError):
        load_pair(f"builtin-target::{folder}", CPU)
    assert not (folder / "was-run").exists()


def test_pairs_of_the_paper_are_read_and_their_revisions_left_open() -> None:
    sources = [source for offer in PAIRS.values() if offer.needs_gpu for source in pair_sources(offer.name)]
    assert len(sources) == 16 and all(s.hub_id and s.revision is None and s.package is None for s in sources)


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(SlemError, match="There is no device 'nonsense'"):
        load_pair("builtin", Placement("nonsense"))
    if not torch.cuda.is_available():
        with pytest.raises(SlemError, match="There is no device 'cuda'"):
            load_pair("builtin", Placement("cuda"))


def test_a_target_split_over_memory_and_disk_writes_the_same_ids(tmp_path: Path) -> None:
    whole = load_pair("builtin", CPU)
    split = load_pair("builtin", Placement("split", "float32", max_memory={"cpu": "6MB"}, offload_folder=str(tmp_path)))
    places = set(map(str, split.target.lm.hf_device_map.values()))
    assert places == {"cpu", "disk"}
    assert output_ids(split, max_new_tokens=10) == output_ids(whole, max_new_tokens=10)


@pytest.mark.parametrize("kind", ["llama", "qwen2", "gpt2", "sliding window"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_slem_equals_target_on_random_models(kind: str, temperature: float, tmp_path: Path) -> None:
    """Random models agree with no drafter, so the target drafts for itself: through text, and with full accepts and roll-backs."""
    target = load_model(Source("t", folder=tiny.save(kind, tmp_path / "t")), CPU)
    prompt = target.codec.encode("In the beginning")
    request = Request.checked(pair="tiny", prompt="x", k=4, max_new_tokens=40, temperature=temperature, top_k=50)
    alone = list(target_only(target.session(), prompt, request))[-1]
    together = list(slem(target.session(), target.session(), Prompts(prompt, prompt), request))
    assert together[-1] == alone


class Silent:
    """A server that accepts connections and never answers."""

    def __enter__(self) -> str:
        self.socket = socket.create_server(("127.0.0.1", 0))
        return f"http://127.0.0.1:{self.socket.getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self.socket.close()


class Handler(http.server.BaseHTTPRequestHandler):
    """Says 401 with the header that the hub uses for gated models, or sends one byte at a time for ever."""

    def do_GET(self) -> None:
        if "drip" in self.path:
            self.send_response(200)
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b" ")
                    time.sleep(0.2)
            except OSError:
                return
        code = "GatedRepo" if "gated" in self.path else "RepoNotFound"
        self.send_response(403 if "gated" in self.path else 404)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def talkative_hub() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def ask(endpoint: str, home: Path, model: str) -> tuple[float, str]:
    """(seconds, message) of loading a hub model in a process of its own, where the endpoint is read from the environment."""
    code = (
        "import sys, time\nfrom slem_demo.models.loading import load_pair\nfrom slem_demo.errors import SlemError\n"
        f"began = time.perf_counter()\ntry: load_pair('{model}::builtin-draft')\n"
        "except SlemError as error: print(time.perf_counter() - began, error)"
    )
    env = {"HF_ENDPOINT": endpoint, "HF_HOME": str(home), "PATH": "/usr/bin:/bin", "HOME": str(home)}
    done = subprocess.run([sys.executable, "-c", code], env=env, cwd=ASSETS.parent, capture_output=True, text=True, timeout=100)
    assert done.stdout, done.stderr[-500:]
    seconds, message = done.stdout.split(" ", 1)
    return float(seconds), message


def test_a_hub_that_refuses_is_reported_at_once(tmp_path: Path) -> None:
    seconds, message = ask("http://127.0.0.1:9", tmp_path, "org/name")
    assert "org/name is not on this machine and the hub could not be reached" in message
    assert seconds < 10


def test_a_hub_that_never_answers_is_reported_within_ten_seconds(tmp_path: Path) -> None:
    with Silent() as endpoint:
        seconds, message = ask(endpoint, tmp_path, "org/name")
    assert "the hub could not be reached" in message
    assert seconds < 10


def test_a_hub_that_drips_is_reported_within_ten_seconds(tmp_path: Path, talkative_hub: str) -> None:
    seconds, message = ask(talkative_hub, tmp_path, "org/drip")
    assert "the hub could not be reached (TimeoutError)" in message
    assert seconds < 10


@pytest.mark.parametrize(
    ("model", "message"), [("org/gated", "org/gated is gated: accept its licence"), ("org/none", "The hub knows no model org/none")]
)
def test_gated_and_unknown_models_are_told_apart(tmp_path: Path, talkative_hub: str, model: str, message: str) -> None:
    assert message in ask(talkative_hub, tmp_path, model)[1]
