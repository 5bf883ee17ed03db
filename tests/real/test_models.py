"""SmolLM2 and Gemma 3 in float32, either way round: the ids of every method are the target's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import slem_demo
from slem_demo.models.loading import Pair, load_pair
from slem_demo.models.pairs import ASSETS
from slem_demo.models.smollm2.card import mean_acceptance
from slem_demo.trace import Request, StopEvent
from tests.real.families import ARCHIVES
from tests.real.lossless import PROMPTS, SETTINGS, Outcome, outcomes
from tests.real.texts import PROSE

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]


@cache
def pair_of(name: str) -> Pair:
    return load_pair(name)


def ids_of(pair: Pair, prompt: str, **settings: object) -> tuple[int, ...]:
    *_, stop = slem_demo.decode(pair, prompt, **settings)
    assert isinstance(stop, StopEvent)
    return stop.output_ids


CHOSEN = {"code": 2, "German": 5, "Chinese": 7}
PAIRS = ["smollm2-gemma", "gemma-smollm2"]


@cache
def outcomes_of(name: str, chosen: str, how: str) -> dict[str, Outcome]:
    return outcomes(pair_of(name), PROMPTS[CHOSEN[chosen]], how, 24)


@pytest.mark.parametrize("how", SETTINGS)
@pytest.mark.parametrize("chosen", CHOSEN)
@pytest.mark.parametrize("name", PAIRS)
def test_every_method_writes_the_targets_ids(name: str, chosen: str, how: str) -> None:
    found = outcomes_of(name, chosen, how)
    assert {method: outcome.ids for method, outcome in found.items()} == dict.fromkeys(found, found["target"].ids)


@pytest.mark.parametrize("name", PAIRS)
def test_slem_accepts_at_least_as_much_as_transformers_own(name: str) -> None:
    """Over the set: on a single prompt the other's mistaken context may guess right by chance."""
    lengths = {m: sum(outcomes_of(name, chosen, "greedy")[m].acceptance_length or 0 for chosen in CHOSEN) for m in ("slem", "hf")}
    assert lengths["slem"] >= lengths["hf"] > 0


@pytest.mark.parametrize("temperature", [0, 0.7])
@pytest.mark.parametrize(
    ("name", "end"),
    [("smollm2", b"Answer in one sentence.\nWhat is a tide?"), ("smollm2-135m::builtin-draft", b"User: What is a tide?\nAssistant:")],
)
def test_a_conversation_with_a_draft_of_another_vocabulary(name: str, end: bytes, temperature: float) -> None:
    pair = pair_of(name)
    settings = {"chat": True, "system": "Answer in one sentence.", "max_new_tokens": 40, "temperature": temperature, "seed": 1}
    ids = ids_of(pair, "What is a tide?", **settings)
    assert ids == ids_of(pair, "What is a tide?", method="target", **settings)
    if not temperature:
        assert ids == ids_of(pair, "What is a tide?", method="generate", **settings)
    prompts = pair.prompts(Request.checked(pair=name, prompt="What is a tide?", **settings))
    begin = [pair.target.codec.tokenizer.convert_ids_to_tokens(i) for i in prompts.target_ids[:2]]
    assert begin == ["<|im_start|>", "system"], "its own template, one BOS"
    assert b"".join(pair.draft.codec.vocab[i] for i in prompts.draft_ids).strip().endswith(end)


def test_the_distilled_draft_helps_on_held_out_prompts() -> None:
    pair = pair_of("smollm2")
    prompts = json.loads((ASSETS / "smollm2" / "prompts.json").read_text(encoding="utf-8"))["held_out"]
    assert mean_acceptance(pair, prompts[:8], k=4) > 1.5


def test_behind_a_sliding_window() -> None:
    pair = pair_of("gemma-smollm2")
    prompt = PROSE + "\n\n" + PROSE + "\n\n" + PROSE[:540]
    n_prompt = len(pair.prompts(Request.checked(pair="p", prompt=prompt)).target_ids)
    window = pair.target.lm.config.sliding_window
    assert n_prompt < window < n_prompt + 40, "the window is left behind in mid-run"
    ids = ids_of(pair, prompt, max_new_tokens=48)
    assert ids == ids_of(pair, prompt, max_new_tokens=48, method="target") == ids_of(pair, prompt, max_new_tokens=48, method="generate")


def test_a_bos_is_written_once() -> None:
    gemma = pair_of("gemma-smollm2").target
    ids = pair_of("gemma-smollm2").prompts(Request.checked(pair="p", prompt="Hello")).target_ids
    assert ids[0] == gemma.codec.tokenizer.bos_token_id and gemma.codec.tokenizer.bos_token_id not in ids[1:]


QUANTISED = """
import sys, torch, slem_demo
from torchao.quantization import Int8WeightOnlyConfig
from transformers import AutoModelForCausalLM, TorchAoConfig
from slem_demo.models.builtin.tokenizers import stored_tokenizer
from slem_demo.models.pairs import ASSETS
source, out = ASSETS / "builtin" / "target", sys.argv[1]
config = TorchAoConfig(Int8WeightOnlyConfig())
AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32, quantization_config=config, device_map="cpu").save_pretrained(out)
stored_tokenizer(source).save_pretrained(out)
pair = slem_demo.load_pair(f"{out}::builtin-draft")
assert pair.target.info.compute == "float32, quantised weights"
slem, target = (list(slem_demo.decode(pair, "And God said", max_new_tokens=32, method=method)) for method in ("slem", "target"))
assert slem[-1].output_ids == target[-1].output_ids and len(slem) < len(target)
"""


def test_a_quantised_target_loads_and_is_lossless(tmp_path: Path) -> None:
    paths = os.pathsep.join([str(ASSETS.parent), str(ARCHIVES / "torchao")])
    done = subprocess.run(
        [sys.executable, "-c", QUANTISED, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
