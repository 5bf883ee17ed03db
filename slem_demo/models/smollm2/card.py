"""Stores the distilled draft in float16, measures what was stored, and writes its model card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from slem_demo.metrics import summarise
from slem_demo.models.builtin.card import sha256
from slem_demo.models.builtin.training import stored
from slem_demo.models.loading import LoadedModel, Pair, Placement, load_model
from slem_demo.models.pairs import Source
from slem_demo.trace import Request

N_NEW, N_PROMPTS, KS = 64, 32, (2, 4, 8)


def export(work: Path, out: Path, target: LoadedModel, held_out: list[str], recipe: dict[str, object]) -> dict[str, Any]:
    """Writes the draft to `out` with `card.json` and `README.md`; returns the card."""
    model, tokenizer = stored(work / "draft")
    n_parameters = model.num_parameters()
    model.half().save_pretrained(out / "draft")
    tokenizer.save_pretrained(out / "draft")
    (out / "draft" / "model.safetensors").chmod(0o644)
    draft = load_model(Source("smollm2-draft", folder=out / "draft"), Placement("cpu", "float32"))
    card: dict[str, Any] = {
        "parameters": n_parameters,
        "layers": model.config.num_hidden_layers,
        "hidden": model.config.hidden_size,
        "data": {name: sha256(out / name) for name in ("answers.jsonl.gz", "prompts.json")},
        **recipe,
        "weights_sha256": sha256(out / "draft" / "model.safetensors"),
        "mean_acceptance_length": {str(k): mean_acceptance(Pair("smollm2", target, draft), held_out, k) for k in KS},
    }
    (out / "card.json").write_text(json.dumps(card, indent=1) + "\n")
    (out / "README.md").write_text(card_text(card))
    return card


def mean_acceptance(pair: Pair, prompts: list[str], k: int) -> float:
    """Tokens a target pass over the held-out prompts, greedily."""
    n_tokens = n_rounds = 0
    for prompt in prompts[:: max(1, len(prompts) // N_PROMPTS)][:N_PROMPTS]:
        request = Request.checked(pair=pair.name, prompt=prompt, chat=True, k=k, max_new_tokens=N_NEW)
        summary = summarise(pair.trace(request).with_events(pair.decode(request)))
        n_tokens, n_rounds = n_tokens + summary.num_output_tokens, n_rounds + summary.num_rounds
    return round(n_tokens / n_rounds, 3)


def card_text(card: dict[str, Any]) -> str:
    """The model card, every figure from `card`."""
    hashes = "\n".join(f"- `{name}`: sha256 `{digest}`" for name, digest in card["data"].items())
    lengths = ", ".join(f"{length:.2f} at K = {k}" for k, length in card["mean_acceptance_length"].items())
    leads = " or ".join(str(lead) for lead in card["plan"]["leads"] if lead)
    return f"""# A draft for SmolLM2-135M-Instruct

A small language model that guesses what SmolLM2-135M-Instruct writes next, for speculative decoding across vocabularies. It is no use for
anything else.

| | |
|---|---|
| architecture | Llama, {card["layers"]} layers × {card["hidden"]} |
| parameters | {card["parameters"]:,} |
| tokenizer | byte-level BPE of {card["vocabulary"]:,}: SmolLM2's own, without the pieces that it seldom uses in its answers |
| stored | float16 |

Tokens a target pass on {N_PROMPTS} held-out prompts, greedily, {N_NEW} new tokens each: {lengths}. It knows the answers to plain
questions and short tasks in English; on code or other languages it guesses badly.

## Data

Answers of SmolLM2-135M-Instruct (Apache-2.0) to {card["n_prompts"]} prompts, {card["n_answers"]:,} in all (`answers.jsonl.gz`): some
sampled at temperatures from 0.3 to 1.0, the others greedy, from the first token or after {leads} sampled ones.
The prompts that are held out (`prompts.json`) were not used.

{hashes}

## Training

`python -m slem_demo.models.smollm2 --work DIR`, seed {card["seed"]}, torch {card["torch"]}: the target says at every place of its
answers what else it might have written; the draft learns these probabilities for {card["schedule"]["steps"]:,} steps, from nothing.
`card.json` holds all settings.

Weights: sha256 `{card["weights_sha256"]}`

## Licence

Weights and tokenizer: Apache-2.0. The tokenizer is a part of SmolLM2's, which is Apache-2.0 too.
"""
