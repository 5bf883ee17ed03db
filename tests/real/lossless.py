"""Real pairs: are the ids of SLEM those of the target, and does it accept as much as transformers' own? One line a run.

python -m tests.real.lossless [--pairs smollm2-gemma gemma-smollm2] [--tokens 96]
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from slem_demo.metrics import summarise
from slem_demo.models.loading import Pair, load_pair
from slem_demo.trace import Request

PROMPTS = [
    "The capital of France is",
    "Once upon a time a fox and a heron shared a small island, and every evening",
    'def parse_duration(text: str) -> int:\n    """Seconds in texts such as \'1h 20m\'."""\n',
    "To make bread you need flour, water, salt and yeast. First",
    "1. wash the pears\n2. peel them\n3.",
    "Die Fähre fuhr um sieben ab, und der Kapitän",
    "На следующее утро был туман, и старик",
    "第二天早上有雾，我们",
    "في صباح اليوم التالي",
    "Shopping list 🛒:\n- 🍐 pears\n- 🧀 cheese\n-",
]
SETTINGS = {"greedy": {}, "sampled": {"temperature": 0.8, "top_p": 0.95, "seed": 7}}


@dataclass(frozen=True)
class Outcome:
    """One run: its ids, and output ids a target pass."""

    ids: tuple[int, ...]
    acceptance_length: float | None


def outcomes(pair: Pair, prompt: str, how: str, n_tokens: int, methods: tuple[str, ...] = ()) -> dict[str, Outcome]:
    """The methods that there are for `how`, on one prompt."""
    found = {}
    for method in methods or (("target", "slem", "generate", "hf") if how == "greedy" else ("target", "slem")):
        request = Request.checked(pair=pair.name, prompt=prompt, method=method, max_new_tokens=n_tokens, k=4, **SETTINGS[how])
        trace = pair.trace(request).with_events(pair.decode(request))
        found[method] = Outcome(trace.output_ids, summarise(trace).mean_acceptance_length)
    return found


def all_outcomes(pair: Pair, n_tokens: int) -> Iterator[tuple[str, int, dict[str, Outcome]]]:
    for i, prompt in enumerate(PROMPTS):
        for how in SETTINGS:
            yield how, i, outcomes(pair, prompt, how, n_tokens)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", nargs="+", default=["smollm2-gemma", "gemma-smollm2"])
    parser.add_argument("--tokens", type=int, default=96)
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in args.pairs:
        lengths = defaultdict(list)
        for how, i, found in all_outcomes(load_pair(name), args.tokens):
            same = all(o.ids == found["target"].ids for o in found.values())
            row = {method: round(o.acceptance_length or 0, 2) for method, o in found.items() if method in ("slem", "hf")}
            for method, value in row.items():
                lengths[how, method].append(value)
            print(name, how, i, len(found["target"].ids), "equal" if same else "DIFFERENT", row, flush=True)
        print(name, {f"{how} {method}": round(sum(v) / len(v), 2) for (how, method), v in lengths.items()}, flush=True)


if __name__ == "__main__":
    main()
