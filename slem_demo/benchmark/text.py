"""A report in words, for a terminal and for Markdown alike."""

from __future__ import annotations

from slem_demo.benchmark.report import BUSY, Ratio, Report
from slem_demo.metrics import Interval


def number(value: float | None, spec: str) -> str:
    return "–" if value is None else format(value, spec)


def interval(value: Interval | None) -> str:
    return "–" if value is None else f"{value.median:.2f}× [{value.low:.2f}, {value.high:.2f}]"


def ids_of(ratio: Ratio) -> str:
    if ratio.same_ids is None:
        return "equal in distribution, ids not comparable"
    return "equal" if ratio.same_ids else "differ"


def lines(report: Report) -> list[str]:
    """What the tables do not say: predictions, the choice of K, differences of ids, how far to trust it all."""
    found = []
    account = report.accounting()
    if account:
        reached = f"{account.reached.median:.2f} [{account.reached.low:.2f}, {account.reached.high:.2f}]"
        found.append(
            f"{account.variant}: {interval(account.predicted)} was predicted from a calibration apart, {interval(account.measured)} "
            f"measured while decoding; measured / predicted {reached}."
        )
    for best, others in report.chosen().items():
        found.append(f"{best} is the best of {', '.join(map(str, others))}, chosen on the very runs that it is judged by.")
    for auto in report.variants:
        against = report.auto_against_fixed(auto)
        if against:
            times = ", ".join(f"{quotient:.2f} of {best} on {stratum}" for stratum, (best, quotient) in against.items())
            found.append(f"{auto} takes, of the time of the best fixed K on each kind of prompts: {times}.")
    found += [f"{where}: {what}" for where, what in report.differences.items()]
    found += [
        f"Not to be trusted: other processes computed on {cores:.1f} cores {when} the measurement."
        for when, cores in report.busy_cores.items()
        if cores > BUSY
    ]
    n_prompts = len({(run.case.set, run.case.prompt, run.case.context) for run in report.runs})
    found.append(
        f"Medians over {n_prompts} prompts with 95 % intervals; above 1 the first is faster. "
        "One sequence at a time: gains shrink in batches."
    )
    return found
