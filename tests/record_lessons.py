"""Records the runs of the walkthrough's lessons with the built-in pair: `python -m tests.record_lessons [FOLDER]`, on an idle machine."""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median_low

from slem_demo import load_pair
from slem_demo.metrics import summarise
from slem_demo.models.loading import Pair, Placement, use_threads
from slem_demo.models.pairs import ASSETS
from slem_demo.trace import Request, Trace

LESSONS = ASSETS / "lessons"
N_RUNS = 5  # of a lesson that compares times, taken in turn; the one of median time is kept

COMMON: dict[str, object] = {"pair": "builtin", "alternatives": 5, "temperature": 0}
GARMENTS = "Go to now, ye rich men, weep and howl for your miseries that shall come upon you. Your riches are corrupted, and your garments"
CAKE = "And Elijah said unto her, Fear not; go and make me a little cake"
ONCE: dict[str, dict[str, object]] = {
    "waters": {"prompt": "And the waters prevailed upon the earth", "k": 6, "max_new_tokens": 24},
    "beginning": {"prompt": "In the beginning God created", "k": 5, "max_new_tokens": 32},
    "garments": {"prompt": GARMENTS, "k": 7, "max_new_tokens": 32},
    "cake": {"prompt": CAKE, "k": 6, "max_new_tokens": 32},
    "cake-target": {"prompt": CAKE, "k": 6, "max_new_tokens": 32, "method": "target", "alternatives": 0},
    "locusts": {"prompt": "And the locusts came upon all the land, and", "k": 6, "max_new_tokens": 40},
}
HARP: dict[str, object] = {"prompt": "And David took his harp, and", "k": 5, "max_new_tokens": 40, "temperature": 1, "seed": 3}
DICE: dict[str, dict[str, object]] = {
    "harp": HARP | {"draft_noise": "shared"},
    "harp-independent": HARP | {"draft_noise": "independent", "alternatives": 0},
    "harp-greedy": HARP | {"draft_noise": "greedy", "alternatives": 0},
    "harp-target": HARP | {"draft_noise": "shared", "method": "target", "alternatives": 0},
}
MAN: dict[str, object] = {
    "prompt": "Now there was a certain man in the land of",
    "max_new_tokens": 48,
    "temperature": 0.5,
    "seed": 2,
    "draft_noise": "independent",
}
TIMED: dict[str, dict[str, object]] = {"man-target": MAN | {"method": "target", "k": 12}} | {
    f"man-{k}": MAN | {"k": k} for k in (1, 2, 3, 4, 6, 12)
}


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else LESSONS
    use_threads(1)
    pair = load_pair("builtin", Placement("cpu", "float32"))
    recorded = record(pair, ONCE | DICE, 1) | record(pair, TIMED, N_RUNS)
    for name, trace in recorded.items():
        (folder / f"{name}.json").write_text(trace.to_json() + "\n", encoding="utf-8")


def record(pair: Pair, wanted: dict[str, dict[str, object]], n_runs: int) -> dict[str, Trace]:
    """The run of median time of each request, after one that is not counted; runs of different requests take turns."""
    requests = {name: Request.checked(**(COMMON | fields)) for name, fields in wanted.items()}
    rounds = [{name: run(pair, request) for name, request in requests.items()} for _ in range(n_runs + 1)][1:]
    return {name: median_run([traces[name] for traces in rounds]) for name in requests}


def run(pair: Pair, request: Request) -> Trace:
    return pair.trace(request).with_events(pair.decode(request))


def median_run(traces: list[Trace]) -> Trace:
    middle = median_low(summarise(trace).seconds for trace in traces)
    return next(trace for trace in traces if summarise(trace).seconds == middle)


if __name__ == "__main__":
    main()
