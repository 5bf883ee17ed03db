"""Methods side by side on one machine: whole runs, interleaved, each ratio from the runs of one prompt.

A speedup here is seconds from prompt ids to the last output id (prefill of both models included) of one method over another's, per
output token. Figures are for one sequence at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

import numpy as np

from slem_demo.engine.run import Clock
from slem_demo.metrics import Interval, Summary, median_interval, repeated_share, summarise
from slem_demo.models.difference import first_difference
from slem_demo.models.generate import generate
from slem_demo.models.loading import Pair
from slem_demo.trace import Method, Request

SCHEMA_VERSION = 1
TYPICAL_K = 4  # what a verify pass is timed at when K is auto
VARIED = 0.2  # a continuation is varied if at most this share of its 8-grams has stood in it before


@dataclass(frozen=True)
class Run:
    """One whole run of one method on one prompt."""

    method: Method
    prompt: int
    repeat: int
    output_ids: list[int] = field(repr=False)
    seconds: float
    decode_seconds: float | None
    repeated_8_grams: float
    metrics: Summary | None

    @property
    def num_tokens(self) -> int:
        return len(self.output_ids)

    def to_json(self) -> dict[str, object]:
        return asdict(self) | {"method": self.method.value, "num_tokens": self.num_tokens}


@dataclass(frozen=True)
class Ratio:
    """How many times faster one method is than another (above 1: the first), over prompts."""

    all: Interval
    varied: Interval | None
    decode_only: Interval | None
    same_ids: bool


@dataclass(frozen=True)
class Calibration:
    """Costs in plain target steps, measured apart from the runs: a draft step, and a verify pass of K + 1 positions."""

    target_step_s: float
    draft_step: float
    verify: float

    def predicted(self, mean_acceptance_length: float, draft_steps_per_round: float) -> float:
        """Speedup if a round cost nothing but its draft steps and its verify pass."""
        return mean_acceptance_length / (draft_steps_per_round * self.draft_step + self.verify)


@dataclass(frozen=True)
class Report:
    """What `bench` measured; `weights` are the revisions of target and draft."""

    pair: str
    settings: dict[str, object]
    machine: str
    versions: dict[str, str]
    weights: dict[str, str | None]
    runs: list[Run]
    calibration: Calibration | None
    differences: dict[str, str]  # by method and prompt: the first id that is not the target's, and what it means

    def of(self, method: Method) -> list[Run]:
        return [run for run in self.runs if run.method is method]

    def summary(self, method: Method) -> dict[str, float | None]:
        """Medians over a method's runs."""
        runs = self.of(method)
        means = [run.metrics for run in runs if run.metrics]
        row: dict[str, float | None] = {
            "tokens_per_second": float(np.median([run.num_tokens / run.seconds for run in runs])),
            "num_tokens": sum(run.num_tokens for run in runs),
            "seconds": sum(run.seconds for run in runs),
        }
        for name in ("mean_acceptance_length", "draft_acceptance_rate", "bytes_per_target_pass"):
            values = [value for m in means if (value := getattr(m, name)) is not None]
            row[name] = float(np.mean(values)) if values else None
        outside = [m.retokenise_s + m.other_s for m in means if m.retokenise_s is not None and m.other_s is not None]
        if outside:
            row["outside_models"] = sum(outside) / sum(run.decode_seconds or 0.0 for run in runs)
        if self.calibration and means and method is Method.SLEM:
            n_rounds = sum(m.num_rounds for m in means)
            length = sum(m.num_output_tokens for m in means) / n_rounds
            row["predicted_speedup"] = self.calibration.predicted(length, sum(m.num_draft_tokens or 0 for m in means) / n_rounds)
        return row

    def ratio(self, first: Method, second: Method) -> Ratio:
        """Paired by prompt and repeat; the median over a prompt's repeats is one value."""
        seconds: dict[int, list[float]] = {}
        decode: dict[int, list[float]] = {}
        repeated: dict[int, float] = {}
        same = True
        for a, b in zip(self.of(first), self.of(second), strict=True):
            seconds.setdefault(a.prompt, []).append((b.seconds / b.num_tokens) / (a.seconds / a.num_tokens))
            if a.decode_seconds and b.decode_seconds:
                decode.setdefault(a.prompt, []).append((b.decode_seconds / b.num_tokens) / (a.decode_seconds / a.num_tokens))
            repeated[a.prompt] = b.repeated_8_grams
            same &= a.output_ids == b.output_ids
        per_prompt = {prompt: float(np.median(values)) for prompt, values in seconds.items()}
        varied = [value for prompt, value in per_prompt.items() if repeated[prompt] <= VARIED]
        return Ratio(
            all=median_interval(list(per_prompt.values())),
            varied=median_interval(varied) if varied else None,
            decode_only=median_interval([float(np.median(v)) for v in decode.values()]) if decode else None,
            same_ids=same,
        )

    def ratios(self) -> dict[str, Ratio]:
        """Every method over every later one of `METHOD_ORDER` that was run, for example `slem/target`."""
        present = [method for method in METHOD_ORDER if self.of(method)]
        return {f"{a.value}/{b.value}": self.ratio(a, b) for i, a in enumerate(present) for b in present[i + 1 :]}

    def to_json(self) -> dict[str, object]:
        ratios = {name: asdict(r) | asdict(r.all) for name, r in self.ratios().items()}
        return {
            "schema_version": SCHEMA_VERSION,
            "pair": self.pair,
            "settings": self.settings,
            "machine": self.machine,
            "versions": self.versions,
            "weights": self.weights,
            "runs": [run.to_json() for run in self.runs],
            "summary": {m.value: self.summary(m) for m in METHOD_ORDER if self.of(m)},
            "ratios": ratios,
            "calibration": asdict(self.calibration) if self.calibration else None,
            "differences": self.differences,
        }


METHOD_ORDER = (Method.SLEM, Method.TARGET, Method.HF, Method.GENERATE)


def bench(pair: Pair, prompts: Sequence[str], methods: Sequence[Method], repeats: int = 1, **settings: object) -> Report:
    """Measures methods on prompts; `settings` are the fields of `trace.Request` but prompt and method.

    Raises:
        SlemError: a setting is out of range, a prompt does not fit, or a method can't run with these settings.
    """
    asked = requests(pair, prompts, **settings)
    return finish(pair, asked, list(runs(pair, asked, methods, repeats)), settings)


def requests(pair: Pair, prompts: Iterable[str], **settings: object) -> list[Request]:
    """One checked request a prompt, before anything runs."""
    made = [Request.checked(pair=pair.name, prompt=prompt, **settings) for prompt in prompts]
    for request in made:
        pair.prompts(request)
    return made


def runs(pair: Pair, asked: Sequence[Request], methods: Sequence[Method], repeats: int, clock: Clock = time.perf_counter) -> Iterator[Run]:
    """All runs, the methods of one prompt directly after each other, after one of each that is thrown away."""
    for method in methods:
        one_run(pair, asked[0], method, (0, 0), clock)
    for repeat in range(repeats):
        for index, request in enumerate(asked):
            turn = [*methods[(index + repeat) % len(methods) :], *methods[: (index + repeat) % len(methods)]]
            for method in turn:
                yield one_run(pair, request, method, (index, repeat), clock)


def one_run(pair: Pair, request: Request, method: Method, place: tuple[int, int], clock: Clock) -> Run:
    """A whole run with its wall time."""
    request = request.model_copy(update={"method": method})
    if method is Method.GENERATE:
        ids, seconds = generate(pair, request, clock)
        return Run(method, *place, ids, seconds, None, repeated_share(ids), None)
    began = clock()
    events = list(pair.decode(request))
    seconds = clock() - began
    summary = summarise(pair.trace(request).with_events(events))
    ids = [token.id for event in events if event.event == "round" for token in event.committed]
    known = summary.target_prefill_s is not None
    decode_s = summary.seconds - summary.prefill_s if known else None
    return Run(method, *place, ids, seconds, decode_s, repeated_share(ids), summary)


def finish(pair: Pair, asked: Sequence[Request], done: Sequence[Run], settings: dict[str, object]) -> Report:
    """The report of the runs, with a calibration if SLEM was among them."""
    order = {method: i for i, method in enumerate(METHOD_ORDER)}
    done = sorted(done, key=lambda run: (order[run.method], run.repeat, run.prompt))
    k = asked[0].k
    environment = pair.environment
    return Report(
        pair=pair.name,
        settings={**settings, "device": environment.device, "dtype": environment.dtype, "threads": environment.threads},
        machine=environment.machine,
        versions=environment.versions,
        weights={"target": pair.target.info.revision, "draft": pair.draft.info.revision},
        runs=list(done),
        calibration=calibrate(pair, k) if any(run.method is Method.SLEM for run in done) else None,
        differences=differences(pair, asked, done),
    )


def differences(pair: Pair, asked: Sequence[Request], done: Sequence[Run]) -> dict[str, str]:
    """Where the first repeat of a method did not write the ids of the target alone, if that was run: {"slem, prompt 3": what and why}."""
    first = {(run.method, run.prompt): run for run in done if run.repeat == 0}
    found = {}
    for (method, prompt), run in first.items():
        target = first.get((Method.TARGET, prompt))
        difference = first_difference(pair, asked[prompt], run.output_ids, target.output_ids) if target else None
        if difference:
            found[f"{method}, prompt {prompt}"] = str(difference)
    return found


def calibrate(
    pair: Pair, k: int | Literal["auto"], n_context: int = 128, repeats: int = 30, clock: Clock = time.perf_counter
) -> Calibration:
    """Times single passes over some context: a target step, a verify pass of k + 1 positions, and the draft steps of a round.

    They take turns, as they do in a run, so that each finds the caches of the machine as the others leave them.
    """
    k = TYPICAL_K if k == "auto" else k
    target, draft = pair.target.session(), pair.draft_session()
    context = [1] * n_context
    passes: dict[str, Callable[[], object]] = {
        "step": lambda: target.logits([*context, 2], 1).argmax(-1).tolist(),
        "verify": lambda: target.logits([*context, *range(2, k + 3)], k + 1).argmax(-1).tolist(),
        "draft": lambda: draft.logits([*context, 2], 1).argmax(-1).tolist(),
    }
    turn = ["step", "verify", *["draft"] * max(k, 1)]
    times: dict[str, list[float]] = {name: [] for name in passes}
    for _ in range(repeats + 1):
        for name in turn:
            began = clock()
            passes[name]()
            times[name].append(clock() - began)
    step, verify, draft_step = (float(np.median(times[name][len(times[name]) // (repeats + 1) :])) for name in passes)
    return Calibration(step, draft_step / step, verify / step)
