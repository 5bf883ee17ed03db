"""What was measured, and what it says: medians, ratios paired by prompt, predicted against measured.

A speedup here is seconds from prompt ids to the last output id (prefill of both models included) of one method over another's, per
output token. Figures are for one sequence at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from slem_demo.benchmark.variant import Variant
from slem_demo.errors import SlemError
from slem_demo.metrics import Interval, Summary, median_interval
from slem_demo.trace import Method

SCHEMA_VERSION = 2
VARIED = 0.2  # a continuation is varied if at most this share of its 8-grams has stood in it before
ENOUGH = 6  # prompts: with fewer no interval of a median is one of 95 %
BUSY = 0.2  # cores that others compute on, from which a measurement is not to be trusted
METHOD_ORDER = (Method.SLEM, Method.TLI, Method.TARGET, Method.HF, Method.GENERATE)


@dataclass(frozen=True)
class Case:
    """What every variant writes once a repeat: a prompt of a set, with a seed, behind so many ids of context (None: alone)."""

    set: str
    prompt: int
    seed: int = 0
    context: int | None = None

    @property
    def stratum(self) -> str:
        return self.set + f" after {self.context}" * (self.context is not None)


@dataclass(frozen=True)
class Run:
    """One whole run of one variant on one case."""

    variant: Variant
    case: Case
    repeat: int
    output_ids: tuple[int, ...] = field(repr=False)
    seconds: float
    decode_seconds: float | None
    repeated_8_grams: float
    metrics: Summary | None

    @property
    def num_tokens(self) -> int:
        return len(self.output_ids)


@dataclass(frozen=True)
class Ratio:
    """How many times faster one variant is than another (above 1: the first), over prompts; `accepted`: of accepted tokens a round.

    `same_ids` is None where a sampled method is equal in distribution only.
    """

    all: Interval
    varied: Interval | None
    decode_only: Interval | None
    strata: dict[str, Interval]
    accepted: Interval | None
    same_ids: bool | None

    @property
    def verdict(self) -> str:
        if self.all.n < ENOUGH:
            return "too few prompts to say"
        return "faster" if self.all.low > 1 else "slower" if self.all.high < 1 else "no difference shown"


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
class Phase:
    """Milliseconds of one thing, calibrated apart (where that is known) and in the runs; `per_round`: how often a round does it."""

    name: str
    calibrated_ms: float | None
    in_run_ms: float
    per_round: float


@dataclass(frozen=True)
class Accounting:
    """Predicted against measured speedup while decoding, of a drafting variant over `target`, and where the rest went.

    `reached`: measured over predicted, each from the runs of one prompt.
    """

    variant: Variant
    predicted: Interval
    measured: Interval
    reached: Interval
    phases: list[Phase]


@dataclass(frozen=True)
class Report:
    """What `bench` measured. `weights` are the revisions of target and draft; `busy_cores` what others computed before and meanwhile."""

    pair: str
    command: str
    settings: dict[str, Any]
    machine: str
    versions: dict[str, str]
    weights: dict[str, str | None]
    runs: list[Run]
    calibration: Calibration | None
    differences: dict[str, str]  # by variant and case: the first id that is not the target's, and what it means
    busy_cores: dict[str, float] = field(default_factory=dict)

    @property
    def variants(self) -> list[Variant]:
        return list(dict.fromkeys(run.variant for run in self.runs))

    def of(self, variant: Variant) -> list[Run]:
        return [run for run in self.runs if run.variant == variant]

    @property
    def strata(self) -> list[str]:
        return list(dict.fromkeys(run.case.stratum for run in self.runs))

    def total_seconds(self, variant: Variant, stratum: str | None = None) -> float:
        return sum(run.seconds for run in self.of(variant) if stratum in (None, run.case.stratum))

    def chosen(self) -> dict[Variant, list[Variant]]:
        """{the K whose runs took least time: all fixed K of its method}, where there are several."""
        families: dict[Variant, list[Variant]] = {}
        for variant in self.variants:
            families.setdefault(variant.family, []).append(variant)
        return {min(found, key=self.total_seconds): found for found in families.values() if len(found) > 1}

    def compared(self) -> list[Variant]:
        """The variants whose ratios are shown: of several fixed K only the best."""
        left_out = {variant for best, found in self.chosen().items() for variant in found if variant != best}
        return [variant for variant in self.variants if variant not in left_out]

    def auto_against_fixed(self, auto: Variant) -> dict[str, tuple[Variant, float]]:
        """For each kind of prompts the fixed K that was quickest there, and the time of `auto` over its time."""
        fixed = next((found for found in self.chosen().values() if replace(found[0], k="auto") == auto), [])
        found = {}
        for stratum in self.strata if fixed else []:
            best = min(fixed, key=lambda variant: self.total_seconds(variant, stratum))
            found[stratum] = best, self.total_seconds(auto, stratum) / self.total_seconds(best, stratum)
        return found

    def summary(self, variant: Variant) -> dict[str, float | None]:
        """Medians over a variant's runs."""
        runs = self.of(variant)
        means = [run.metrics for run in runs if run.metrics]
        row: dict[str, float | None] = {
            "tokens_per_second": float(np.median([run.num_tokens / run.seconds for run in runs])),
            "num_tokens": sum(run.num_tokens for run in runs),
            "seconds": self.total_seconds(variant),
        }
        for name in ("mean_acceptance_length", "draft_acceptance_rate", "bytes_per_target_pass"):
            values = [value for m in means if (value := getattr(m, name)) is not None]
            row[name] = float(np.mean(values)) if values else None
        outside = [m.retokenise_s + m.other_s for m in means if m.retokenise_s is not None and m.other_s is not None]
        if outside:
            row["outside_models"] = sum(outside) / sum(run.decode_seconds or 0.0 for run in runs)
        return row

    def ratio(self, first: Variant, second: Variant) -> Ratio:
        """Paired by case and repeat; the median over a prompt's seeds and repeats is one value."""
        pairs = self._paired(first, second)
        seconds = _by_prompt(pairs, lambda a, b: (b.seconds / b.num_tokens) / (a.seconds / a.num_tokens))
        decode = _by_prompt(
            [(a, b) for a, b in pairs if a.decode_seconds and b.decode_seconds],
            lambda a, b: ((b.decode_seconds or 0) / b.num_tokens) / ((a.decode_seconds or 1) / a.num_tokens),
        )
        loops = _by_prompt(pairs, lambda _, b: b.repeated_8_grams)
        varied = [value for key, value in seconds.items() if loops[key] <= VARIED]
        strata: dict[str, list[float]] = {}
        for case, value in seconds.items():
            strata.setdefault(case.stratum, []).append(value)
        is_comparable = not self.settings.get("temperature") or Method.TLI not in (first.method, second.method)
        return Ratio(
            all=median_interval(list(seconds.values())),
            varied=median_interval(varied) if varied else None,
            decode_only=median_interval(list(decode.values())) if decode else None,
            strata={name: median_interval(values) for name, values in strata.items()},
            accepted=self._accepted(pairs),
            same_ids=all(a.output_ids == b.output_ids for a, b in pairs) if is_comparable else None,
        )

    def _paired(self, first: Variant, second: Variant) -> list[tuple[Run, Run]]:
        others = {(run.case, run.repeat): run for run in self.of(second)}
        return [(run, others[run.case, run.repeat]) for run in self.of(first)]

    def _accepted(self, pairs: Iterable[tuple[Run, Run]]) -> Interval | None:
        """Of the accepted tokens a round, all runs of a prompt together.

        None where the second accepts nothing on some prompt, or the first nothing at all.
        """
        counts: dict[Case, list[int]] = {}
        for a, b in pairs:
            if a.metrics is None or b.metrics is None:
                return None
            row = counts.setdefault(_prompt_of(a.case), [0, 0, 0, 0])
            for i, m in enumerate((a.metrics, b.metrics)):
                row[2 * i] += m.num_accepted_tokens
                row[2 * i + 1] += m.num_rounds
        if not all(row[2] for row in counts.values()) or not any(row[0] for row in counts.values()):
            return None
        return median_interval([(x / n) / (y / m) for x, n, y, m in counts.values()])

    def ratios(self) -> dict[str, Ratio]:
        """Every variant over every later one that is compared, for example `slem/target`; one with a lever off only under its whole."""
        found = {}
        for a, b in combinations(self.compared(), 2):
            if not a.without and (not b.without or b.whole == a):
                found[f"{a}/{b}"] = self.ratio(a, b)
        return found

    @property
    def calibrated(self) -> Variant | None:
        """The variant at whose rounds the passes are timed apart: the first slem that is compared."""
        return next((variant for variant in self.compared() if variant.method is Method.SLEM), None)

    def accounting(self) -> Accounting | None:
        """Of the calibrated variant; None without a calibration, without `target`, or if it drafted nothing on some prompt."""
        variant, target = self.calibrated, Variant(Method.TARGET)
        if self.calibration is None or variant is None or target not in self.variants:
            return None
        c, pairs = self.calibration, self._paired(variant, target)
        if not all(a.metrics and a.metrics.num_draft_tokens and a.decode_seconds for a, _ in pairs):
            return None
        predicted = _by_prompt(pairs, lambda a, _: _predicted(c, a))
        measured = _by_prompt(pairs, lambda a, b: ((b.decode_seconds or 0) / b.num_tokens) / ((a.decode_seconds or 1) / a.num_tokens))
        return Accounting(
            variant,
            median_interval(list(predicted.values())),
            median_interval(list(measured.values())),
            median_interval([measured[case] / predicted[case] for case in measured]),
            self._phases(c, pairs),
        )

    def _phases(self, c: Calibration, pairs: Sequence[tuple[Run, Run]]) -> list[Phase]:
        ours, theirs = ([m for run in runs if (m := run.metrics)] for runs in zip(*pairs, strict=True))
        n_rounds, n_steps = sum(m.num_rounds for m in ours), sum(m.num_draft_tokens or 0 for m in ours)
        step_ms = c.target_step_s * 1000

        def mean_ms(name: str, metrics: Sequence[Summary], n: int) -> float:
            return 1000 * sum(getattr(m, name) or 0.0 for m in metrics) / n

        return [
            Phase("target alone, a step", step_ms, mean_ms("verify_s", theirs, sum(m.num_rounds for m in theirs)), 0),
            Phase("draft step", c.draft_step * step_ms, mean_ms("draft_s", ours, n_steps), n_steps / n_rounds),
            Phase("verify pass", c.verify * step_ms, mean_ms("verify_s", ours, n_rounds), 1),
            Phase("re-tokenise", None, mean_ms("retokenise_s", ours, n_rounds), 1),
            Phase("the rest of a round", None, mean_ms("other_s", ours, n_rounds), 1),
        ]

    def to_json(self) -> dict[str, Any]:
        """Plain data. Equal outputs are stored once."""
        outputs: dict[tuple[int, ...], int] = {}
        runs = []
        for run in self.runs:
            number = outputs.setdefault(run.output_ids, len(outputs))
            row = {"method": str(run.variant), **asdict(run.case), "repeat": run.repeat, "num_tokens": run.num_tokens, "output": number}
            row |= {name: getattr(run, name) for name in ("seconds", "decode_seconds", "repeated_8_grams")}
            runs.append(row | {"metrics": asdict(run.metrics) if run.metrics else None})
        account = self.accounting()
        return {
            "schema_version": SCHEMA_VERSION,
            **{name: getattr(self, name) for name in ("pair", "command", "settings", "machine", "versions", "weights", "busy_cores")},
            "summary": {str(variant): self.summary(variant) for variant in self.variants},
            "ratios": {name: asdict(r) | asdict(r.all) | {"verdict": r.verdict} for name, r in self.ratios().items()},
            "calibration": asdict(self.calibration) if self.calibration else None,
            "accounting": asdict(account) | {"variant": str(account.variant)} if account else None,
            "differences": self.differences,
            "runs": runs,
            "outputs": [list(ids) for ids in outputs],
        }

    @classmethod
    def from_json(cls, data: Any) -> Report:
        """The report whose `to_json` is `data`.

        Raises:
            SlemError: it is something else, or of another schema version.
        """
        if not isinstance(data, dict) or data.get("schema_version") != SCHEMA_VERSION:
            raise SlemError(f"This is not a measurement of `bench` in schema version {SCHEMA_VERSION}.")
        try:
            outputs = [tuple(ids) for ids in data["outputs"]]
            names = ("pair", "command", "settings", "machine", "versions", "weights", "differences", "busy_cores")
            return cls(
                **{name: data[name] for name in names},
                runs=[_run(row, outputs) for row in data["runs"]],
                calibration=Calibration(**data["calibration"]) if data["calibration"] else None,
            )
        except (KeyError, TypeError, IndexError) as error:
            raise SlemError(f"This measurement is damaged ({type(error).__name__}: {error}).") from None


def _run(row: dict[str, Any], outputs: Sequence[tuple[int, ...]]) -> Run:
    return Run(
        Variant.parse(row["method"]),
        Case(row["set"], row["prompt"], row["seed"], row["context"]),
        row["repeat"],
        outputs[row["output"]],
        row["seconds"],
        row["decode_seconds"],
        row["repeated_8_grams"],
        Summary(**row["metrics"]) if row["metrics"] else None,
    )


def _prompt_of(case: Case) -> Case:
    return Case(case.set, case.prompt, context=case.context)


def _by_prompt(pairs: Iterable[tuple[Run, Run]], value: Callable[[Run, Run], float]) -> dict[Case, float]:
    """The median over a prompt's seeds and repeats."""
    values: dict[Case, list[float]] = {}
    for a, b in pairs:
        values.setdefault(_prompt_of(a.case), []).append(value(a, b))
    return {case: float(np.median(found)) for case, found in values.items()}


def _predicted(c: Calibration, run: Run) -> float:
    m = run.metrics
    assert m is not None and m.num_draft_tokens is not None
    return c.predicted(m.num_output_tokens / m.num_rounds, m.num_draft_tokens / m.num_rounds)
