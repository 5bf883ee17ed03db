"""Variants side by side on one machine: whole runs, interleaved, so that whatever disturbs one disturbs all."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal

import numpy as np
import psutil

from slem_demo.benchmark.prompt_sets import PromptSet
from slem_demo.benchmark.report import METHOD_ORDER, Calibration, Case, Report, Run
from slem_demo.benchmark.variant import Variant
from slem_demo.engine.run import Clock
from slem_demo.metrics import repeated_share, summarise
from slem_demo.models.cached import CachedModel
from slem_demo.models.difference import first_difference
from slem_demo.models.generate import generate
from slem_demo.models.loading import Pair
from slem_demo.trace import Method, Request

TYPICAL_K = 4  # what a verify pass is timed at when K is auto
Asked = Mapping[Case, Request]


def bench(pair: Pair, prompts: Sequence[str], methods: Sequence[Method | str], repeats: int = 1, **settings: object) -> Report:
    """Measures methods on prompts; `settings` are the fields of `trace.Request` but prompt and method.

    Raises:
        SlemError: a setting is out of range, a prompt does not fit, or a method can't run with these settings.
    """
    variants = [Variant.parse(method) for method in methods]
    asked = requests(pair, [PromptSet("prompts", "", "", chat=False, prompts=tuple(prompts))], settings)
    return finish(pair, asked, list(runs(pair, asked, variants, repeats)), settings)


def requests(
    pair: Pair, sets: Sequence[PromptSet], settings: Mapping[str, object], contexts: Sequence[int | None] = (None,), n_seeds: int = 1
) -> dict[Case, Request]:
    """One checked request a case, before anything runs.

    `settings` as for `bench`; without `chat` among them a set says itself whether it is a conversation.
    """
    asked = {}
    for prompt_set in sets:
        fields: dict[str, object] = {"chat": prompt_set.chat, **settings}
        first_seed = Request.checked(pair=pair.name, prompt="x", **fields).seed
        for context in contexts:
            for number, prompt in enumerate(prompt_set.after(pair.target.codec, context)):
                for seed in range(first_seed, first_seed + n_seeds):
                    request = Request.checked(pair=pair.name, prompt=prompt, **fields | {"seed": seed})
                    pair.prompts(request)
                    asked[Case(prompt_set.name, number, seed, context)] = request
    return asked


def runs(pair: Pair, asked: Asked, variants: Sequence[Variant], repeats: int, clock: Clock = time.perf_counter) -> Iterator[Run]:
    """All runs, the variants of one case directly after each other, after one of each that is thrown away.

    Raises:
        SlemError: a variant can't run with these settings.
    """
    pair_of = cache(lambda variant: variant.pair(pair))
    first = next(iter(asked))
    for variant in variants:
        one_run(pair_of(variant), variant.request(asked[first]), (variant, first, 0), clock)
    for repeat in range(repeats):
        for index, (case, request) in enumerate(asked.items()):
            n = (index + repeat) % len(variants)
            for variant in [*variants[n:], *variants[:n]]:
                yield one_run(pair_of(variant), variant.request(request), (variant, case, repeat), clock)


def one_run(pair: Pair, request: Request, place: tuple[Variant, Case, int], clock: Clock) -> Run:
    """A whole run with its wall time."""
    if request.method is Method.GENERATE:
        ids, seconds = generate(pair, request, clock)
        return Run(*place, tuple(ids), seconds, None, repeated_share(ids), None)
    began = clock()
    events = list(pair.decode(request))
    seconds = clock() - began
    summary = summarise(pair.trace(request).with_events(events))
    ids = [token.id for event in events if event.event == "round" for token in event.committed]
    known = summary.target_prefill_s is not None
    decode_s = summary.seconds - summary.prefill_s if known else None
    return Run(*place, tuple(ids), seconds, decode_s, repeated_share(ids), summary)


@dataclass
class Others:
    """How many cores other processes compute on."""

    _wall: float = field(default_factory=time.perf_counter)
    _busy: float = field(default_factory=lambda: _machine_s())
    _own: float = field(default_factory=lambda: _own_s())

    def cores(self) -> float:
        """The mean since this began."""
        wall = time.perf_counter() - self._wall
        return max(0.0, (_machine_s() - self._busy) - (_own_s() - self._own)) / wall


def _machine_s() -> float:
    times = psutil.cpu_times()
    return float(sum(getattr(times, name, 0.0) for name in ("user", "nice", "system", "irq", "softirq", "steal")))


def _own_s() -> float:
    times = psutil.Process().cpu_times()
    return float(times.user + times.system)


def finish(
    pair: Pair,
    asked: Asked,
    done: Sequence[Run],
    settings: Mapping[str, object],
    command: str = "",
    busy: Mapping[str, float] | None = None,
) -> Report:
    """The report of the runs, with a calibration at the size of its rounds if slem was among them."""
    order = {method: i for i, method in enumerate(METHOD_ORDER)}
    done = sorted(done, key=lambda run: order[run.variant.method])
    environment = pair.environment
    report = Report(
        pair=pair.name,
        command=command,
        settings={**settings, "device": environment.device, "dtype": environment.dtype, "threads": environment.threads},
        machine=environment.machine,
        versions=environment.versions,
        weights={"target": pair.target.info.revision, "draft": pair.draft.info.revision},
        runs=done,
        calibration=None,
        differences=differences(pair, asked, done),
        busy_cores=dict(busy or {}),
    )
    if report.calibrated is None:
        return report
    return replace(report, calibration=calibrate_as(pair, asked, report.of(report.calibrated)))


def differences(pair: Pair, asked: Asked, done: Sequence[Run]) -> dict[str, str]:
    """Where the first repeat of a variant did not write the ids of the target alone, if that was run: {"slem, prose 3": what and why}.

    A sampled `tli` is equal in distribution only, so it is left out.
    """
    first = {(run.variant, run.case): run for run in done if run.repeat == 0}
    found = {}
    for (variant, case), run in first.items():
        target = first.get((Variant(Method.TARGET), case))
        if target is None or (variant.method is Method.TLI and asked[case].temperature):
            continue
        difference = first_difference(pair, asked[case], run.output_ids, target.output_ids)
        if difference:
            found[f"{variant}, {case.stratum} {case.prompt}"] = str(difference)
    return found


def calibrate_as(pair: Pair, asked: Asked, done: Sequence[Run]) -> Calibration:
    """Costs at the mean size of the rounds in these runs, and behind a text of their mean length."""
    metrics = [run.metrics for run in done if run.metrics]
    n_rounds = sum(m.num_rounds for m in metrics)
    n_steps, n_candidates = (
        round(sum(getattr(m, name) for m in metrics) / n_rounds) for name in ("num_draft_tokens", "num_candidate_tokens")
    )
    lengths = [len(pair.prompts(asked[run.case]).target_ids) + run.num_tokens / 2 for run in done]
    return calibrate(pair, n_steps, n_candidates, int(np.mean(lengths)))


def calibrate(
    pair: Pair,
    k: int | Literal["auto"],
    n_candidates: int | None = None,
    n_context: int = 128,
    repeats: int = 30,
    clock: Clock = time.perf_counter,
) -> Calibration:
    """Times single passes over some context: a target step, a verify pass of n + 1 positions, and the k draft steps of a round.

    They take turns, as they do in a run, so that each finds the caches of the machine as the others leave them; and the first draft step
    reads what a round has added, two ids more than the others.
    """
    k = TYPICAL_K if k == "auto" else k
    n = k if n_candidates is None else n_candidates
    target, draft = pair.target.session(), pair.draft_session()
    context = [1] * n_context

    def timed(model: CachedModel, ids: list[int], n_rows: int) -> float:
        began = clock()
        model.logits(ids, n_rows).argmax(-1).tolist()
        return clock() - began

    def turn() -> list[float]:
        step = timed(target, [*context, 2], 1)
        drafted = [timed(draft, [*context, *range(2, 5 + i)], 1) for i in range(k)]
        verify = timed(target, [*context, *range(2, n + 3)], n + 1)
        draft.logits([*context, 1], 1)  # forgets the round
        return [step, sum(drafted) / max(k, 1), verify]

    times = np.array([turn() for _ in range(repeats + 1)][1:])
    step, draft_step, verify = (float(value) for value in np.median(times, axis=0))
    return Calibration(step, draft_step / step, verify / step)
