"""The command line: `python -m slem_demo decode | bench | report | diff | pairs`.

Exit status 0, 1 (refused, one line on stderr) or 2 (usage).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from slem_demo.cli.bench import add_bench
from slem_demo.cli.decode import add_decode
from slem_demo.cli.diff import add_diff
from slem_demo.cli.options import ERR
from slem_demo.cli.pairs import add_pairs
from slem_demo.cli.report import add_report
from slem_demo.errors import SlemError


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status."""
    args = parser().parse_args(argv)
    try:
        status: int = args.run(args)
        return status
    except SlemError as error:
        ERR.print(f"slem_demo: {error}", markup=False, soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def parser() -> argparse.ArgumentParser:
    """The commands and their options; what an option may hold is checked by `Request`."""
    top = argparse.ArgumentParser(prog="python -m slem_demo", description="SLEM speculative decoding: see it, measure it.")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    for add in (add_decode, add_bench, add_report, add_diff, add_pairs):
        add(commands)
    return top
