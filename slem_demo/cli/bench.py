"""`bench`: methods side by side, as tables, as JSON, as Markdown."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import Progress
from rich.table import Table

from slem_demo.cli.options import ERR, OUT, add_model_options, add_sampling_options, check_folder, load, read, settings, write
from slem_demo.errors import SlemError
from slem_demo.trace import Request

if TYPE_CHECKING:
    from slem_demo.benchmark import Report, Variant

WIDTH_OF_RATIOS, WIDTH_OF_INTERVAL = 72, 22
METHODS = """METHOD[@K|@auto][:NOISE][-LEVER], with commas. METHOD: target, slem, tli, hf, generate; @K: a K of its own, of several the best
is compared; NOISE of slem's draft: greedy, independent, shared; -lean, -packed, -int8, -compiled: without that lever (default:
%(default)s)"""


def add_bench(commands: Any) -> None:
    """The command's options. `commands` are argparse's subparsers."""
    bench = commands.add_parser("bench", help="measure methods side by side")
    add_model_options(bench, raw_default=None)
    bench.add_argument("--methods", type=_variants, default="target,slem,generate", help=METHODS)
    bench.add_argument(
        "--prompts", metavar="NAME,…|FILE", help="openings, prose, stories, instructions, code, or a file: JSON list or lines"
    )
    bench.add_argument("--first", type=int, metavar="N", help="only the first N prompts of each set")
    bench.add_argument("--contexts", type=_numbers, default=[None], metavar="N,…", help="behind so many tokens of the set's own text")
    bench.add_argument("--seeds", type=int, default=1, metavar="N", help="each prompt with N seeds, from --seed on")
    bench.add_argument("--repeats", type=int, default=3, metavar="N")
    bench.add_argument("--out", type=Path, metavar="F.json", help="every run, medians, ratios, machine and versions")
    bench.add_argument("--markdown", action="store_true", help="print Markdown")
    bench.add_argument("--show", type=Path, metavar="F.json", help="measure nothing: print what is in such a file")
    add_sampling_options(bench)
    bench.set_defaults(run=run_bench)


def _variants(text: str) -> list[Variant]:
    from slem_demo.benchmark import Variant

    try:
        return list(dict.fromkeys(Variant.parse(word) for word in text.split(",")))
    except SlemError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def run_bench(args: argparse.Namespace) -> int:
    report = stored(args.show) if args.show else measured(args)
    if args.markdown:
        from slem_demo.benchmark.markdown import markdown

        print(markdown(report))
    else:
        print_report(report)
    if args.out is not None:
        write(args.out, json.dumps(report.to_json(), separators=(",", ":")))
    return 0


def stored(path: Path) -> Report:
    """Raises SlemError if the file holds no measurement."""
    from slem_demo.benchmark import Report

    try:
        return Report.from_json(json.loads(read(path)))
    except json.JSONDecodeError as error:
        raise SlemError(f"{path} is not valid JSON ({error.msg}, line {error.lineno}).") from None


def measured(args: argparse.Namespace) -> Report:
    """Checks everything before anything runs; says how long it will take and whether the machine is busy."""
    from slem_demo import benchmark
    from slem_demo.benchmark.prompt_sets import default_sets, load_sets

    for name in ("repeats", "seeds", "first"):
        if getattr(args, name) is not None and getattr(args, name) < 1:
            raise SlemError(f"--{name} must be at least 1 (got {getattr(args, name)}).")
    sets = load_sets(args.prompts or default_sets(args.pair))
    check_folder(args.out)
    Request.checked(pair=args.pair, prompt="a", **settings(args))
    pair = load(args)
    sets = [prompt_set.begun(args.first) for prompt_set in sets]
    asked = benchmark.requests(pair, sets, settings(args), args.contexts, args.seeds)
    total = len(args.methods) * len(asked) * args.repeats
    done: list[benchmark.Run] = []
    before = benchmark.Others()
    time.sleep(1)
    busy = {"before": before.cores()}
    began, during = time.perf_counter(), benchmark.Others()
    with Progress(console=ERR, transient=True, disable=not ERR.is_terminal) as progress:
        task = progress.add_task("measuring", total=total)
        for run in benchmark.runs(pair, asked, args.methods, args.repeats):
            done.append(run)
            progress.advance(task)
            if len(done) == len(args.methods):
                first_s = time.perf_counter() - began
                ERR.print(f"{total} runs, about {first_s / 2 * total / len(done):.0f} s", markup=False)
    busy["during"] = during.cores()
    return benchmark.finish(pair, asked, done, settings(args), shlex.join(["python", "-m", "slem_demo", *sys.argv[1:]]), busy)


def print_report(report: Report) -> None:
    """What each method did, how they compare, where the time went, and what to mistrust."""
    from slem_demo.benchmark.text import lines

    for table in (_methods(report), _ratios(report), *_strata(report), *_phases(report)):
        OUT.print(table)
    for line in lines(report):
        OUT.print(line, markup=False, soft_wrap=True)


def _methods(report: Report) -> Table:
    from slem_demo.benchmark.text import number

    table = Table("method", "tokens/s", "tokens a pass", "accepted", "bytes a pass", "outside models")
    for variant in report.variants:
        row = report.summary(variant)
        specs = {
            "tokens_per_second": ".1f",
            "mean_acceptance_length": ".2f",
            "draft_acceptance_rate": ".0%",
            "bytes_per_target_pass": ".1f",
        }
        table.add_row(str(variant), *(number(row[name], spec) for name, spec in specs.items()), number(row.get("outside_models"), ".1%"))
    return table


def _ratios(report: Report) -> Table:
    """With as many of the lesser columns as the terminal has room for."""
    from slem_demo.benchmark.text import ids_of, interval

    lesser = ["decoding only", "varied prompts", "accepted a round"][: max(0, (OUT.width - WIDTH_OF_RATIOS) // WIDTH_OF_INTERVAL)]
    table = Table("ratio", "all prompts", *lesser, "verdict", "ids")
    for column in table.columns[: 2 + len(lesser)]:
        column.no_wrap = True
    for name, ratio in report.ratios().items():
        more = dict(
            zip(("decoding only", "varied prompts", "accepted a round"), (ratio.decode_only, ratio.varied, ratio.accepted), strict=True)
        )
        table.add_row(name, interval(ratio.all), *(interval(more[column]) for column in lesser), ratio.verdict, ids_of(ratio))
    return table


def _strata(report: Report) -> list[Table]:
    from slem_demo.benchmark.text import interval

    table = Table("prompts", *report.ratios())
    for name in report.strata:
        table.add_row(name, *(interval(ratio.strata[name]) for ratio in report.ratios().values()))
    return [table] if len(report.strata) > 1 else []


def _phases(report: Report) -> list[Table]:
    from slem_demo.benchmark.text import number

    account = report.accounting()
    if account is None:
        return []
    table = Table(f"{account.variant}: where a round goes", "apart, ms", "in the runs, ms", "times a round")
    for phase in account.phases:
        table.add_row(phase.name, number(phase.calibrated_ms, ".2f"), number(phase.in_run_ms, ".2f"), number(phase.per_round, ".1f"))
    return [table]
