"""A report as Markdown, for a README or a model card. Every figure comes from the report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slem_demo.benchmark.report import Report
from slem_demo.benchmark.text import ids_of, interval, lines, number


def markdown(report: Report) -> str:
    """Command, machine, and the tables of `bench`."""
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    s = report.settings
    where = f"{report.machine}; {s['device']}, {s['dtype']}, {s['threads']} threads; {versions}".replace("1 threads", "1 thread")
    ratios = report.ratios()
    parts = [f"`{report.command}`" if report.command else "", f"On {where}."]
    parts.append(
        table(
            ["ratio", "all prompts", "varied prompts", "decoding only", "accepted a round", "verdict", "ids"],
            (
                [name, interval(r.all), interval(r.varied), interval(r.decode_only), interval(r.accepted), r.verdict, ids_of(r)]
                for name, r in ratios.items()
            ),
        )
    )
    if len(report.strata) > 1:
        parts.append(
            table(["prompts", *ratios], ([stratum, *(interval(r.strata[stratum]) for r in ratios.values())] for stratum in report.strata))
        )
    specs = {"tokens_per_second": ".1f", "mean_acceptance_length": ".2f", "draft_acceptance_rate": ".0%", "bytes_per_target_pass": ".1f"}
    rows = ((variant, report.summary(variant)) for variant in report.variants)
    parts.append(
        table(
            ["method", "tokens/s", "tokens a pass", "accepted", "bytes a pass"],
            ([str(variant), *(number(row[name], spec) for name, spec in specs.items())] for variant, row in rows),
        )
    )
    account = report.accounting()
    if account:
        parts.append(
            table(
                [f"{account.variant}: where a round goes", "apart, ms", "in the runs, ms", "times a round"],
                ([p.name, number(p.calibrated_ms, ".2f"), number(p.in_run_ms, ".2f"), number(p.per_round, ".1f")] for p in account.phases),
            )
        )
    return "\n\n".join(part for part in [*parts, *lines(report)] if part)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells are data: a bar in one would end it."""
    cells = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells)
