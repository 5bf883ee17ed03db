"""Trains the built-in pair: a deep target and a one-layer draft with different tokenizers.

    python -m slem_demo.models.train --work DIR            everything, about forty minutes on two cores
    python -m slem_demo.models.train --work DIR STEP …     some of: target, draft-texts, samples, draft, export

The draft learns from the texts first and then from what the target itself writes, greedy and sampled: a draft has to guess
the target, not the author. Weights are stored in float16 and every figure is of the stored weights, computed in float32.
`corpus.txt.gz` and `held_out.json` were written once, by `write_corpus`, from Debian's `bible -f 'gen1:1-rev22:21'`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from slem_demo.models.card import EOS, export, stored, stored_tokenizer
from slem_demo.models.corpus import ASSETS, load_corpus

MAX_POSITIONS = 2048


@dataclass(frozen=True)
class Schedule:
    """How one model is trained: `steps` optimiser steps of `batch` windows of `window` tokens.

    In the last `joined` share of the steps, `n_joined` windows are joined into one, so that the model learns to use more context.
    """

    steps: int
    batch: int
    window: int
    lr: float
    warmup: int = 100
    decay: float = 0.3
    joined: float = 0.3
    n_joined: int = 4

    def shape_at(self, step: int) -> tuple[int, int]:
        """(windows, tokens in each) of a step."""
        n = self.n_joined if step >= (1 - self.joined) * self.steps else 1
        return self.batch // n, self.window * n

    def lr_at(self, step: int) -> float:
        """Learning rate at `step`: linear warm-up, constant, then linear decay over the last `decay` share."""
        left = (self.steps - step) / (self.decay * self.steps)
        return self.lr * min((step + 1) / self.warmup, 1.0, left)


SEED = 0
# Not three times over the texts. Seven times over (3,500 steps) gave 1.23 held-out bits a character instead of 1.21, repeated itself less,
# and was harder to guess: 2.42 tokens a target pass at K = 4 instead of 3.42.
TARGET_SCHEDULE = Schedule(steps=1250, batch=8, window=256, lr=5e-3, decay=0.4, joined=0.15)
DRAFT_TEXT_SCHEDULE = Schedule(steps=2000, batch=8, window=192, lr=5e-3)
DRAFT_SCHEDULE = Schedule(steps=1500, batch=8, window=192, lr=4e-3)

# Texts written by the target: N_PREFIX tokens of the training texts, N_LEAD sampled ones that lead away from them (the target knows long
# passages by heart, and reciting is not how it writes after a prompt of one's own), then N_NEW at the temperatures below.
N_SAMPLES = 4608
N_PREFIX, N_LEAD, N_NEW, BATCH = 4, 36, 96, 64
TEMPERATURES = (0.0, 0.0, 0.0, 0.5, 0.8, 1.0)  # of the batches, in turn


# -- tokenizers ----------------------------------------------------------------------------------------------


def target_tokenizer(texts: list[str], vocab_size: int = 4096) -> PreTrainedTokenizerFast:
    """Byte-level BPE, GPT-2 style: any string is representable and round-trips."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[EOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tok.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tok, eos_token=EOS, clean_up_tokenization_spaces=False)


def draft_tokenizer(texts: list[str], vocab_size: int = 3072) -> PreTrainedTokenizerFast:
    """Unigram with Metaspace and byte fall-back: another algorithm, another spelling of the space."""
    byte_tokens = [f"<0x{b:02X}>" for b in range(256)]
    tok = Tokenizer(models.Unigram())
    tok.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="never", split=True)
    trainer = trainers.UnigramTrainer(
        vocab_size=vocab_size - len(byte_tokens), special_tokens=["<unk>", EOS], unk_token="<unk>", show_progress=False
    )
    tok.train_from_iterator(texts, trainer)
    spec = json.loads(tok.to_str())
    floor = min(score for _, score in spec["model"]["vocab"]) - 10
    spec["model"]["vocab"] += [[token, floor] for token in byte_tokens]
    spec["model"]["byte_fallback"] = True
    spec["decoder"] = {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
        ],
    }
    tok = Tokenizer.from_str(json.dumps(spec))
    return PreTrainedTokenizerFast(tokenizer_object=tok, eos_token=EOS, unk_token="<unk>", clean_up_tokenization_spaces=False)


# -- models --------------------------------------------------------------------------------------------------


def new_model(tokenizer: PreTrainedTokenizerFast, hidden: int, inner: int, layers: int, heads: int) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=MAX_POSITIONS,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=None,
    )
    return LlamaForCausalLM(config)


def new_target(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    return new_model(tokenizer, hidden=160, inner=480, layers=12, heads=5)


def new_draft(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    return new_model(tokenizer, hidden=256, inner=768, layers=1, heads=4)


def token_stream(tokenizer: PreTrainedTokenizerFast, texts: list[str], seed: int) -> torch.Tensor:
    """One id tensor: the texts in a shuffled order, each followed by the end token."""
    order = random.Random(seed).sample(range(len(texts)), len(texts))
    encoded = tokenizer([texts[i] for i in order], add_special_tokens=False)["input_ids"]
    return torch.tensor([i for ids in encoded for i in [*ids, tokenizer.eos_token_id]])


def optimizers(model: LlamaForCausalLM, lr: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the layers, AdamW for embeddings and norms.

    In a trial of 120 steps of the target Muon came to a loss of 4.62 nats a token where AdamW alone came to 5.21.
    """
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]
    taken = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in taken]
    return [
        torch.optim.Muon(matrices, lr=lr, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=lr, betas=(0.9, 0.95), weight_decay=0.1),
    ]


def train(model: LlamaForCausalLM, stream: torch.Tensor, schedule: Schedule, seed: int, checkpoint: Path | None = None) -> list[float]:
    """Trains in place on random windows of `stream`; returns the loss (nats a token) of every step."""
    torch.manual_seed(seed)
    opts = optimizers(model, schedule.lr)
    model.train()
    losses: list[float] = []
    began = time.perf_counter()
    for step in range(schedule.steps):
        for opt in opts:
            for group in opt.param_groups:
                group["lr"] = schedule.lr_at(step)
        n, length = schedule.shape_at(step)
        starts = torch.randint(len(stream) - length - 1, (n,))
        windows = torch.stack([stream[s : s + length + 1] for s in starts])
        logits = model(windows[:, :-1], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for opt in opts:
            opt.step()
            opt.zero_grad(set_to_none=True)
        losses.append(loss.item())
        if step % 50 == 49:
            recent = sum(losses[-50:]) / 50
            print(f"step {step + 1}/{schedule.steps}  loss {recent:.3f}  {time.perf_counter() - began:.0f} s", flush=True)
        if checkpoint and step % 500 == 499:
            model.save_pretrained(checkpoint)
    model.eval()
    return losses


# -- what the target writes ------------------------------------------------------------------------------------


@torch.inference_mode()
def write_samples(model: LlamaForCausalLM, stream: torch.Tensor, n: int, seed: int) -> Iterator[list[int]]:
    """`n` texts by the model, of N_PREFIX + N_LEAD + N_NEW ids: the material that the draft learns from."""
    torch.manual_seed(seed)
    began = time.perf_counter()
    for done in range(0, n, BATCH):
        starts = torch.randint(len(stream) - N_PREFIX, (BATCH,))
        prefixes = torch.stack([stream[s : s + N_PREFIX] for s in starts])
        led = continued(model, prefixes, N_LEAD, temperature=1.0)
        yield from continued(model, led, N_NEW, TEMPERATURES[done // BATCH % len(TEMPERATURES)]).tolist()
        print(f"{done + BATCH}/{n} samples  {time.perf_counter() - began:.0f} s", flush=True)


def continued(model: LlamaForCausalLM, rows: torch.Tensor, n_new: int, temperature: float) -> torch.Tensor:
    """`rows` [batch, ids] with `n_new` more ids each; end tokens do not end a row."""
    how = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0} if temperature else {"do_sample": False}
    grown: torch.Tensor = model.generate(rows, attention_mask=torch.ones_like(rows), max_new_tokens=n_new, eos_token_id=None, **how)
    return grown


# -- the steps -------------------------------------------------------------------------------------------------


def run_target(work: Path, steps: int | None) -> None:
    texts, _ = load_corpus()
    tokenizer = target_tokenizer(texts)
    torch.manual_seed(SEED)
    fit(new_target(tokenizer), tokenizer, token_stream(tokenizer, texts, SEED), TARGET_SCHEDULE, steps, work / "target")


def run_draft_texts(work: Path, steps: int | None) -> None:
    texts, _ = load_corpus()
    tokenizer = draft_tokenizer(texts)
    torch.manual_seed(SEED)
    fit(new_draft(tokenizer), tokenizer, token_stream(tokenizer, texts, SEED), DRAFT_TEXT_SCHEDULE, steps, work / "draft-texts")


def run_samples(work: Path, steps: int | None) -> None:
    model, tokenizer = stored(work / "target")
    texts, _ = load_corpus()
    n = N_SAMPLES if steps is None else steps * BATCH
    with gzip.open(work / "samples.jsonl.gz", "wt") as file:
        for ids in write_samples(model, token_stream(tokenizer, texts, SEED), n, SEED):
            file.write(json.dumps(ids) + "\n")


def run_draft(work: Path, steps: int | None) -> None:
    target_tok = stored_tokenizer(work / "target")
    model, tokenizer = stored(work / "draft-texts")
    with gzip.open(work / "samples.jsonl.gz", "rt") as file:
        documents = [text for line in file for text in target_tok.decode(json.loads(line)).split(EOS) if text]
    fit(model, tokenizer, token_stream(tokenizer, documents, SEED), DRAFT_SCHEDULE, steps, work / "draft")


def fit(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, stream: torch.Tensor, schedule: Schedule, steps: int | None, out: Path
) -> None:
    """Trains a model, for fewer steps if asked to, and saves it with its tokenizer and losses."""
    schedule = replace(schedule, steps=steps or schedule.steps, warmup=min(schedule.warmup, (steps or schedule.steps) // 3))
    tokenizer.save_pretrained(out)
    losses = train(model, stream, schedule, SEED, checkpoint=out)
    model.save_pretrained(out)
    (out / "losses.json").write_text(json.dumps([round(loss, 4) for loss in losses]))


def recipe() -> dict[str, object]:
    """Everything that the weights depend on but the data."""
    return {
        "seed": SEED,
        "schedules": {"target": asdict(TARGET_SCHEDULE), "draft-texts": asdict(DRAFT_TEXT_SCHEDULE), "draft": asdict(DRAFT_SCHEDULE)},
        "samples": {
            "n": N_SAMPLES,
            "prefix": N_PREFIX,
            "lead": N_LEAD,
            "new": N_NEW,
            "batch": BATCH,
            "temperatures": TEMPERATURES,
        },
        "torch": torch.__version__,
    }


STEPS = {"target": run_target, "draft-texts": run_draft_texts, "samples": run_samples, "draft": run_draft}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", metavar="STEP", help=f"some of {', '.join(STEPS)}, export; default: all")
    parser.add_argument("--work", type=Path, required=True, help="where checkpoints and samples are kept")
    parser.add_argument("--out", type=Path, default=ASSETS, help="where `export` writes the pair")
    parser.add_argument("--steps", type=int, help="fewer optimiser steps (and batches of samples), for a trial")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    for name in args.what or [*STEPS, "export"]:
        print(f"== {name}", flush=True)
        if name == "export":
            print(json.dumps(export(args.work, args.out, recipe()), indent=1))
        elif name in STEPS:
            STEPS[name](args.work, args.steps)
        else:
            parser.error(f"unknown step {name!r}")


if __name__ == "__main__":
    main()
