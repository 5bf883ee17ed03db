"""`report`: a trace as one page that opens from a disk."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from slem_demo.cli.options import OUT, check_folder, read, write


def add_report(commands: Any) -> None:
    """The command and its options. `commands` are argparse's subparsers."""
    report = commands.add_parser("report", help="a saved trace as one HTML file that needs no network")
    report.add_argument("trace", type=Path, metavar="TRACE.json", help="from `decode --out`, or saved in the app")
    report.add_argument("--out", type=Path, required=True, metavar="PAGE.html")
    report.set_defaults(run=run_report)


def run_report(args: argparse.Namespace) -> int:
    from slem_demo.trace import Trace
    from slem_demo.views.report import report

    check_folder(args.out)
    page = report(Trace.from_json(read(args.trace)))
    write(args.out, page)
    OUT.print(f"{args.out}: {len(page.encode()) / 1e6:.2f} MB", markup=False)
    return 0
