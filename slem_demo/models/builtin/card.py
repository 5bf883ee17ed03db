"""Stores a trained pair in float16, measures what was stored, and writes its model card."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from slem_demo.metrics import repeated_share
from slem_demo.models.builtin.corpus import ASSETS, load_corpus, load_prompts
from slem_demo.models.builtin.training import stored

TEMPERATURES = (0.0, 0.3, 0.8)
N_NEW = 128
DATA = ("corpus.txt.gz", "held_out.json", "draft/tokenizer.json")
CHUNK = 512  # tokens scored at a time, after as many before them


def export(work: Path, out: Path, recipe: dict[str, object]) -> dict[str, Any]:
    """Writes target and draft to `out` with `card.json` and `README.md`; returns the card. All figures are of the stored weights."""
    card: dict[str, Any] = {
        "data": {name: sha256(ASSETS / name) for name in DATA},
        **recipe,
    }
    for name in ("target", "draft"):
        model, tokenizer = stored(work / name)
        model.half().save_pretrained(out / name)
        tokenizer.save_pretrained(out / name)
        (out / name / "model.safetensors").chmod(0o644)
        card[name] = measured(out / name)
    model, tokenizer = stored(out / "target")
    card["repeated_8_grams"] = {str(t): mean_repetition(model, tokenizer, t) for t in TEMPERATURES}
    (out / "card.json").write_text(json.dumps(card, indent=1) + "\n")
    (out / "README.md").write_text(card_text(card))
    return card


def measured(folder: Path) -> dict[str, Any]:
    """Size, hash and fit of one stored model."""
    _, held_out = load_corpus()
    model, tokenizer = stored(folder)
    n_tokens = sum(map(len, tokenizer(held_out)["input_ids"]))
    return {
        "layers": model.config.num_hidden_layers,
        "hidden": model.config.hidden_size,
        "parameters": model.num_parameters(),
        "vocabulary": len(tokenizer),
        "weights_sha256": sha256(folder / "model.safetensors"),
        "held_out_bits_per_character": round(bits_per_character(model, tokenizer, held_out), 3),
        "held_out_characters_per_token": round(sum(map(len, held_out)) / n_tokens, 2),
    }


@torch.inference_mode()
def bits_per_character(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> float:
    """Cross-entropy of whole texts, each after an end token, in bits a character; every character counts once."""
    nats = 0.0
    for text in texts:
        ids = torch.tensor([tokenizer.eos_token_id, *tokenizer(text, add_special_tokens=False)["input_ids"]])
        for start in range(1, len(ids), CHUNK):
            window = ids[max(0, start - 1 - CHUNK) : start + CHUNK]
            n_scored = len(ids[start : start + CHUNK])
            logits = model(window[None, :-1], use_cache=False).logits[0, -n_scored:]
            nats += torch.nn.functional.cross_entropy(logits, window[-n_scored:], reduction="sum").item()
    return nats / math.log(2) / sum(map(len, texts))


@torch.inference_mode()
def mean_repetition(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, temperature: float) -> float:
    """Mean share of repeated 8-grams in the new tokens after each held-out opening."""
    torch.manual_seed(0)
    shares = []
    for prompt in load_prompts():
        ids = tokenizer(prompt, return_tensors="pt")
        how = {"do_sample": True, "temperature": temperature, "top_k": 0} if temperature else {"do_sample": False}
        row = model.generate(ids["input_ids"], attention_mask=ids["attention_mask"], max_new_tokens=N_NEW, **how)
        shares.append(repeated_share(row[0, ids["input_ids"].shape[1] :].tolist()))
    return round(sum(shares) / len(shares), 3)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def card_text(card: dict[str, Any]) -> str:
    """The model card, every figure from `card`."""
    target, draft, samples = card["target"], card["draft"], card["samples"]
    rows = "\n".join(
        f"| {label} | {target[key]:{spec}} | {draft[key]:{spec}} |"
        for label, key, spec in (
            ("parameters", "parameters", ","),
            ("vocabulary", "vocabulary", ","),
            ("held-out bits per character", "held_out_bits_per_character", ".3f"),
            ("held-out characters per token", "held_out_characters_per_token", ".2f"),
        )
    )
    repeats = ", ".join(f"{share:.1%} at temperature {t}" for t, share in card["repeated_8_grams"].items())
    hashes = "\n".join(f"- `{name}`: sha256 `{digest}`" for name, digest in card["data"].items())
    steps = {name: schedule["steps"] for name, schedule in card["schedules"].items()}
    windows = {name: card["schedules"][name]["window"] * card["schedules"][name]["n_joined"] for name in ("target-texts", "draft")}
    return f"""# The built-in pair

Two small language models with different tokenizers, made to show and test SLEM speculative decoding: they have read one book, and
write in its manner. They are no use for anything else.

| | target | draft |
|---|---|---|
| architecture | Llama, {target["layers"]} layers × {target["hidden"]} | Llama, {draft["layers"]} layers × {draft["hidden"]} |
| tokenizer | byte-level BPE | Unigram with Metaspace and byte fall-back |
{rows}

Stored in float16; every figure is of the stored weights, computed in float32. (In a run on a CPU the draft's matrices are rounded to eight
bits, which the trace says.) The draft's fit is to the book, which is not what it is for: it was trained last on what the target writes.
Trained on windows of up to {windows["target-texts"]:,} (target) and
{windows["draft"]:,} (draft) tokens; both accept 2,048.

How much the target repeats itself, as the mean share of 8-grams that have stood earlier in {N_NEW} new tokens after each of 16
held-out openings: {repeats}. Text that loops is easy to guess, so a speedup on it flatters the draft.

## Data

The King James Version of the Bible: the translation of 1611, public domain, as distributed by Debian's package `bible-kjv-text`
4.38 (whose copyright file calls the text's copyright expired). 1,189 chapters, of which 60 are held out; chapters that are told
twice are never held out. The prompts in `held_out.json` are the openings of 16 held-out chapters and were chosen before the target
was trained.

{hashes}

## Training

`python -m slem_demo.models.builtin --work DIR`, seed {card["seed"]}, torch {card["torch"]}:

1. the target, {steps["target-texts"]:,} steps on the texts;
2. the target, {steps["target"]:,} steps of sequence-level unlikelihood (arXiv 1908.04319), in which it unlearns to run in circles;
3. the draft, {steps["draft-texts"]:,} steps on the texts;
4. {samples["n"]:,} texts of {samples["lead"] + samples["new"]} tokens by the target, greedy and sampled at temperatures up to
   {max(samples["temperatures"]):g};
5. the draft, {steps["draft"]:,} steps on these.

`card.json` holds all settings. How loops are unlearned was chosen on openings of the 44 held-out chapters that are not in
`held_out.json`'s prompts; step 1's length between two by results on the prompts themselves, which flatters it a little.
The draft's tokenizer is data: the trainer of Unigram pieces does not repeat exactly, so the script reads the stored one.

Weights:

- target: sha256 `{target["weights_sha256"]}`
- draft: sha256 `{draft["weights_sha256"]}`

## Licence

Weights and tokenizers: Apache-2.0. The text is in the public domain.
"""
