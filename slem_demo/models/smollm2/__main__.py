"""Distils a small draft for SmolLM2-135M-Instruct, with a tokenizer of its own.

    python -m slem_demo.models.smollm2 --work DIR            everything but `answers`, from the stored ones
    python -m slem_demo.models.smollm2 --work DIR STEP …     some of: answers, labels, draft, export

The target answers prompts, greedily and sampled (`answers`), and says at every place of its answers what else it might have written
(`labels`): a draft has to guess the target, and its probabilities say more than one text. Weights are stored in float16.
"""

from __future__ import annotations

import argparse
import gzip
import json
from dataclasses import asdict, replace
from pathlib import Path

import torch

from slem_demo.models.builtin.__main__ import save
from slem_demo.models.builtin.training import Schedule
from slem_demo.models.codec import HubCodec
from slem_demo.models.loading import Dtype, LoadedModel, Placement, load_model
from slem_demo.models.pairs import ASSETS, model_source
from slem_demo.models.smollm2.card import export
from slem_demo.models.smollm2.tokenizer import pruned
from slem_demo.models.smollm2.training import first_pieces, lesson, new_draft, stream_of, train
from slem_demo.models.smollm2.writing import Answer, Plan, label, write_answers

SEED = 0
FOLDER = ASSETS / "smollm2"
VOCABULARY = 6144  # 6 % more tokens than the target's own 49,152 make of its answers; 4,096 make 13 % more, 8,192 4 %
SCHEDULE = Schedule(steps=2600, batch=8, window=224, lr=4e-3, warmup=100, decay=0.5)


def load_target(dtype: Dtype = "float32") -> LoadedModel:
    return load_model(model_source("smollm2-135m"), Placement("cpu", dtype))


def prompts(part: str) -> list[str]:
    """`training` or `held_out`."""
    return list(json.loads((FOLDER / "prompts.json").read_text(encoding="utf-8"))[part])


def read_answers(work: Path) -> list[Answer]:
    path = next(p for p in (work / "answers.jsonl.gz", FOLDER / "answers.jsonl.gz") if p.is_file())
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [Answer.from_json(line) for line in file]


def run_answers(work: Path, _: int | None) -> None:
    target = load_target()
    with gzip.open(work / "answers.jsonl.gz", "wt", encoding="utf-8") as file:
        for n, answer in enumerate(write_answers(target.lm, target.codec, prompts("training"), Plan(), SEED), 1):
            file.write(answer.to_json() + "\n")
            if n % Plan.batch == 0:
                print(f"{n} answers", flush=True)


def run_labels(work: Path, _: int | None) -> None:
    target, answers = load_target("bfloat16"), read_answers(work)  # twice as quick where the processor has it; the draft feels no rounding
    rows = []
    for row in label(target.lm, target.codec, answers):
        rows.append(row)
        if len(rows) % 160 == 0:
            print(f"{len(rows)}/{len(answers)} answers labelled", flush=True)
    torch.save(rows, work / "labels.pt")


def run_draft(work: Path, steps: int | None) -> None:
    target, answers = load_target().codec, read_answers(work)
    tokenizer = pruned(target.tokenizer, (f"{a.prompt}\n{a.text}" for a in answers), VOCABULARY)
    draft = HubCodec(tokenizer, len(tokenizer))
    firsts = first_pieces(target, draft)
    rows = torch.load(work / "labels.pt", weights_only=False)
    stream = stream_of((lesson(target, draft, firsts, row) for row in rows), SEED)
    print(f"{len(stream.ids):,} draft tokens", flush=True)
    torch.manual_seed(SEED)
    model = new_draft(tokenizer)
    schedule = replace(SCHEDULE, steps=steps or SCHEDULE.steps, warmup=min(SCHEDULE.warmup, (steps or SCHEDULE.steps) // 3))
    losses = train(model, stream, schedule, SEED)
    save(model, tokenizer, losses, work / "draft")


def run_export(work: Path, out: Path) -> None:
    answers = read_answers(work)
    recipe = {
        "n_answers": len(answers),
        "n_prompts": len({answer.prompt for answer in answers}),
        "seed": SEED,
        "vocabulary": VOCABULARY,
        "plan": asdict(Plan()),
        "schedule": asdict(SCHEDULE),
        "torch": torch.__version__,
    }
    print(json.dumps(export(work, out, load_target(), prompts("held_out"), recipe), indent=1))


STEPS = {"answers": run_answers, "labels": run_labels, "draft": run_draft}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", metavar="STEP", help=f"some of {', '.join(STEPS)}, export; default: all but answers")
    parser.add_argument("--work", type=Path, required=True, help="where answers, labels and checkpoints are kept")
    parser.add_argument("--out", type=Path, default=FOLDER, help="where `export` writes the draft")
    parser.add_argument("--steps", type=int, help="fewer optimiser steps, for a trial")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    for name in args.what or ["labels", "draft", "export"]:
        if name == "export":
            run_export(args.work, args.out)
        elif name in STEPS:
            STEPS[name](args.work, args.steps)
        else:
            parser.error(f"there is no step {name!r}")


if __name__ == "__main__":
    main()
