"""`diff`: two traces beside each other."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from slem_demo.cli.options import OUT, read

if TYPE_CHECKING:
    from slem_demo.views.diff import Row


def add_diff(commands: Any) -> None:
    """The command and its options. `commands` are argparse's subparsers."""
    diff = commands.add_parser("diff", help="two saved traces: settings, ids to the first difference, measures")
    diff.add_argument("a", type=Path, metavar="A.json")
    diff.add_argument("b", type=Path, metavar="B.json")
    diff.set_defaults(run=run_diff)


def run_diff(args: argparse.Namespace) -> int:
    from slem_demo.trace import Trace
    from slem_demo.views.diff import diff

    found = diff(Trace.from_json(read(args.a)), Trace.from_json(read(args.b)))
    OUT.print(_table("settings", [row for row in found["settings"] if not row["is_same"]]))
    OUT.print(_table("measures", found["measures"]))
    parting = found["parting"]
    if parting:
        OUT.print(Text(f"… {parting['before']}", style="dim"), Text(f"[{parting['a']} | {parting['b']}]", style="bold"))
    OUT.print(found["sentence"], markup=False)
    return 0


def _table(title: str, rows: list[Row]) -> Table:
    table = Table(title, "A", "B")
    for row in rows:
        table.add_row(*(Text(row[name]) for name in ("name", "a", "b")))
    return table
