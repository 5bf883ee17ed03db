"""What the page shows of a comparison. Plain data, no HTML."""

from __future__ import annotations

import codecs
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from slem_demo.benchmark import Case, Variant
from slem_demo.benchmark.report import BUSY, ENOUGH, Ratio
from slem_demo.benchmark.text import lines, number
from slem_demo.metrics import Interval, Summary
from slem_demo.trace import Method
from slem_demo.ui.compare.plan import TARGET, plural
from slem_demo.ui.compare.results import Results
from slem_demo.views.figures import Measured, figures, milliseconds, survival

NOT_COMPARABLE = "equal in distribution, ids not comparable"


COUNTS = {
    "num_output_tokens": "output tokens",
    "num_output_bytes": "output bytes",
    "num_rounds": "target passes (rounds)",
    "num_draft_tokens": "draft tokens",
    "num_accepted_draft_tokens": "draft tokens accepted",
    "num_candidate_tokens": "candidates sent",
    "num_tested_tokens": "candidates tested",
    "num_accepted_tokens": "candidates accepted",
    "num_accepted_bytes": "bytes accepted",
    "num_cut_tokens": "candidates cut by the draft's end",
}


TIMES = {
    "target_prefill_s": "prefill of the target, s",
    "draft_prefill_s": "prefill of the draft, s",
    "draft_s": "draft, s",
    "retokenise_s": "re-tokenise, s",
    "verify_s": "verify, s",
    "other_s": "other, s",
    "seconds": "all together, s",
}


HEAD = (
    ("method", ""),
    ("speedup", "over target; 95 %"),
    ("verdict", ""),
    ("decoding", "without prefill"),
    ("predicted", "from its passes"),
    ("tokens/s", "median"),
    ("tokens", "a target pass"),
    ("accepted", "of candidates"),
    ("bytes", "a target pass"),
    ("ids", "as the target's"),
)


State = Literal["measuring", "finished", "stopped", "failed"]


Cell = tuple[str, str]  # what stands in it, and a smaller line below


def page(results: Results, state: State) -> dict[str, object]:
    """Everything there is to show, complete in itself."""
    ratios = {variant: results.ratio(variant) for variant in results.plan.variants[1:]}
    n_done, best = len(results.done), best_of(ratios)
    return {
        "run": results.run,
        "state": state,
        "asked": results.plan.in_words,
        "progress": {"done": n_done, "total": results.total, "text": progress(results, state)},
        "headline": headline(best),
        "evidence": evidence(best, len(ratios), state),
        "methods": {"head": HEAD, "rows": [method_row(results, variant, ratios.get(variant)) for variant in results.plan.variants]},
        "counts": counts(results),
        "figures": figures([measured(results, variant, ratios.get(variant)) for variant in results.plan.variants], ENOUGH),
        "texts": [text_of(results, case) for case in results.asked],
        "notes": notes(results),
        "command": results.plan.command,
    }


def progress(results: Results, state: State) -> str:
    n, total = len(results.done), results.total
    if state == "stopped":
        return f"stopped after {n} of {total} runs; what was measured stays"
    if state == "failed":
        return f"ended by an error after {n} of {total} runs; what was measured stays"
    if state == "finished" and n < total:
        return f"ended after {results.deadline.max_seconds:g} s, the most this host allows: {n} of {total} runs"
    if state == "finished":
        return f"{total} runs, {sum(run.seconds for run in results.done):.0f} s of computing"
    if n:
        return f"{n} of {total} runs, about {left_s(results):.0f} s left"
    about = "" if results.expected_s is None else f", about {max(1, results.expected_s):.0f} s"
    return f"{total} runs{about}; warming up with one of each method"


def left_s(results: Results) -> float:
    """Seconds that the runs to come may take: each as long as its method's runs so far."""
    mean = sum(run.seconds for run in results.done) / len(results.done)
    each = results.total // len(results.plan.variants)
    found = {variant: results.of(variant) for variant in results.plan.variants}
    return sum((each - len(of)) * (sum(run.seconds for run in of) / len(of) if of else mean) for of in found.values())


def best_of(ratios: Mapping[Variant, Ratio | None]) -> tuple[Variant, Interval] | None:
    """The method with the largest median."""
    known = [(variant, ratio.all) for variant, ratio in ratios.items() if ratio]
    return max(known, key=lambda found: found[1].median, default=None)


def headline(best: tuple[Variant, Interval] | None) -> str:
    """The result in one sentence."""
    if best is None:
        return "Measuring …"
    variant, value = best
    if value.median <= 1:
        return f"Nothing here is faster than the target alone; {variant} comes nearest, {value.median:.2f}×"
    return f"{variant} is {value.median:.2f} times as fast as the target alone"


def evidence(best: tuple[Variant, Interval] | None, n_methods: int, state: State) -> str:
    """How far that is to be trusted."""
    if best is None:
        return ""
    _, value = best
    chosen_from = f"The best of {n_methods}, chosen on these very runs. " * (n_methods > 1)
    where = f"{chosen_from}Median over {plural(value.n, 'prompt')}" + " so far" * (state == "measuring")
    if value.n < ENOUGH:
        return f"{where}: too few prompts to say more."
    doubt = ": no difference shown" * (value.low <= 1 <= value.high)
    return f"{where}; 95 % interval {value.low:.2f} to {value.high:.2f}{doubt}."


def method_row(results: Results, variant: Variant, ratio: Ratio | None) -> list[Cell]:
    """The cells under `HEAD`."""
    found = results.of(variant)
    row = replace(results.blank, runs=found).summary(variant) if found else {}
    cells: list[Cell] = [(str(variant), "the reference" if variant == TARGET else "")]
    cells += [speedup(ratio), verdict(ratio)] if variant != TARGET else [("1×", ""), ("", "")]
    decode, cost, length = ratio.decode_only if ratio else None, results.round_cost(variant), row.get("mean_acceptance_length")
    cells.append(("" if variant == TARGET else f"{decode.median:.2f}×" if decode else "–", ""))
    cells.append(("" if variant == TARGET else f"{length / cost:.2f}×" if cost and length else "–", ""))
    specs = {"tokens_per_second": ".0f", "mean_acceptance_length": ".2f", "draft_acceptance_rate": ".0%", "bytes_per_target_pass": ".1f"}
    cells += [(number(row.get(name), spec), "") for name, spec in specs.items()]
    return [*cells, same_ids(results, variant)]


def speedup(ratio: Ratio | None) -> Cell:
    if ratio is None:
        return "–", ""
    value = ratio.all
    return f"{value.median:.2f}×", f"{value.low:.2f} – {value.high:.2f}" if value.n >= ENOUGH else ""


def verdict(ratio: Ratio | None) -> Cell:
    if ratio is None:
        return "–", ""
    if ratio.all.n < ENOUGH:
        return "faster here" if ratio.all.median > 1 else "slower here", ratio.verdict
    return ratio.verdict, ""


def same_ids(results: Results, variant: Variant) -> Cell:
    """How many ids were compared with the target's, and whether all are the same."""
    if variant == TARGET:
        return f"{sum(run.num_tokens for run in results.of(TARGET)):,}", "ids"
    theirs = {(run.case, run.repeat): run.output_ids for run in results.of(TARGET)}
    pairs = [(run.output_ids, theirs[run.case, run.repeat]) for run in results.of(variant) if (run.case, run.repeat) in theirs]
    if not pairs:
        return "–", ""
    if not is_comparable(results, variant):
        return "not comparable", "equal in distribution"
    different = sum(a != b for a, b in pairs)
    if different:
        return f"≠ in {different}", f"of {plural(len(pairs), 'run')}"
    n = sum(len(a) for a, _ in pairs)
    return f"{n:,} = {n:,}", "all the same"


def is_comparable(results: Results, variant: Variant) -> bool:
    return variant.method is not Method.TLI or not results.plan.settings["temperature"]


def counts(results: Results) -> dict[str, object]:
    """Sums over each method's runs; a dash for what it does not show."""
    summaries = {variant: results.summaries(variant) for variant in results.plan.variants}

    def cell(name: str, found: Sequence[Summary], spec: str) -> str:
        values = [getattr(m, name) for m in found]
        return number(sum(values), spec) if values and None not in values else "–"

    rows = [[label, *(cell(name, of, ",") for of in summaries.values())] for name, label in COUNTS.items()]
    rows += [[label, *(cell(name, of, ".2f") for of in summaries.values())] for name, label in TIMES.items()]
    return {"head": ["sum over all runs", *map(str, summaries)], "rows": rows}


def measured(results: Results, variant: Variant, ratio: Ratio | None) -> Measured:
    found = results.summaries(variant)
    lengths = [m.mean_acceptance_length for m in found if m.mean_acceptance_length is not None]
    is_drafting = variant.method is not Method.GENERATE and variant != TARGET
    return Measured(
        str(variant),
        ratio.all if ratio else None,
        ratio.decode_only if ratio else None,
        sum(lengths) / len(lengths) if lengths else None,
        results.round_cost(variant),
        survival(found) if is_drafting else (),
        milliseconds(found),
    )


def text_of(results: Results, case: Case) -> dict[str, object]:
    """One prompt, what the target alone wrote, and how each method's text stands to it."""
    first = {run.variant: run.output_ids for run in results.done if run.case == case and run.repeat == 0}
    target = first.get(TARGET)
    request = results.asked[case]
    return {
        "label": f"{case.prompt + 1}. {' '.join(request.prompt.split())[:60]}",
        "prompt": request.prompt,
        "chat": request.chat,
        "target": None if target is None else written(results.vocab, target),
        "methods": [beside(results, case, variant, (first.get(variant), target)) for variant in results.plan.variants[1:]],
    }


def beside(
    results: Results, case: Case, variant: Variant, outputs: tuple[tuple[int, ...] | None, tuple[int, ...] | None]
) -> dict[str, object]:
    """The proof that a method's ids are the target's, or its text: the part that is the same, the first token that is not, the rest."""
    ours, theirs = outputs
    row: dict[str, object] = {"method": str(variant)}
    if ours is None or theirs is None:
        return row | {"verdict": "–", "kind": "none"}
    if ours == theirs and is_comparable(results, variant):
        return row | {"verdict": f"the same {plural(len(ours), 'id')}: {len(ours)} of {len(ours)} compared", "kind": "same"}
    n = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))
    verdict = NOT_COMPARABLE
    if is_comparable(results, variant):
        why = results.report.differences.get(f"{variant}, {case.stratum} {case.prompt}") if results.report else None
        verdict = f"differs from token {n + 1} on" + (f". At {why}" if why else "")
    return row | {
        "verdict": verdict,
        "kind": "different" if is_comparable(results, variant) else "sampled",
        "text": split_at(results.vocab, ours, n),
    }


def written(vocab: Sequence[bytes], ids: Sequence[int]) -> str:
    return b"".join(vocab[i] for i in ids).decode("utf-8", "replace")


def split_at(vocab: Sequence[bytes], ids: Sequence[int], n: int) -> list[str]:
    """The text in three: of the ids before n, of id n, of those after it. A split character belongs to the token that completes it."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    parts = [decoder.decode(b"".join(vocab[i] for i in part)) for part in (ids[:n], ids[n : n + 1], ids[n + 1 :])]
    return [*parts[:2], parts[2] + decoder.decode(b"", final=True)]


def notes(results: Results) -> list[str]:
    """What the tables do not say: how a K was chosen, how auto stands to it, what else this machine did."""
    if results.report is None:
        return []
    bare = replace(results.report, calibration=None, differences={}, busy_cores={})
    found = lines(bare)[:-1]  # the last says what the page says everywhere
    cores = results.report.busy_cores.get("during", 0.0)
    if cores > BUSY:
        found.append(f"Meanwhile other processes, a browser among them, computed on {cores:.1f} cores of this machine.")
    return found


def failed_or_stopped(state: State) -> dict[str, object]:
    """A state that no comparison speaks for. No two are equal: a component whose value stays the same is not told."""
    return {"state": state, "at": time.monotonic_ns()}
