"""`decode`: one run, as text in colours or as lines of JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rich.text import Text

from slem_demo.cli.options import (
    DEFAULT_PROMPT,
    ERR,
    OUT,
    add_model_options,
    add_sampling_options,
    check_folder,
    load,
    read,
    settings,
    write,
)
from slem_demo.errors import SlemError
from slem_demo.metrics import Summary, event_lines, summarise
from slem_demo.trace import REASON_TEXT, Event, Method, Request, RoundEvent, StopEvent, Trace

STYLES = {"accepted": "green", "own": "bold blue", "rejected": "red strike"}


def add_decode(commands: Any) -> None:
    """The command's options. `commands` are argparse's subparsers."""
    decode = commands.add_parser("decode", help="stream one run")
    add_model_options(decode)
    decode.add_argument("--prompt", help=f"text to continue (default: {DEFAULT_PROMPT!r})")
    decode.add_argument("--prompt-file", type=Path, help="a file that holds the prompt")
    decode.add_argument("--method", choices=[method.value for method in Method], default="slem")
    decode.add_argument("--stop", action="append", default=[], metavar="TEXT", help="end before this text; may be repeated")
    decode.add_argument("--format", choices=["text", "jsonl"], default="text")
    decode.add_argument("--alternatives", type=int, default=0, metavar="N", help="with jsonl: the target's N best at each tested place")
    decode.add_argument("--out", type=Path, metavar="TRACE.json", help="the trace of the run")
    add_sampling_options(decode)
    decode.set_defaults(run=run_decode)


def run_decode(args: argparse.Namespace) -> int:
    request = Request.checked(
        pair=args.pair,
        prompt=_prompt(args),
        method=args.method,
        stop=tuple(args.stop),
        alternatives=args.alternatives,
        **settings(args),
    )
    check_folder(args.out)
    pair = load(args)
    trace, seen = pair.trace(request), list[Event]()
    events = kept(pair.decode(request), seen)
    try:
        if args.format == "jsonl":
            for line in event_lines(events):
                print(json.dumps(line, ensure_ascii=False), flush=True)
        else:
            show(request, events)
            done = trace.with_events(seen)
            ERR.print(closing_line(done, summarise(done), pair.has_one_tokenizer), markup=False)
    finally:
        if args.out is not None:
            write(args.out, trace.with_events(seen).to_json())
    return 0


def kept(events: Iterable[Event], seen: list[Event]) -> Iterator[Event]:
    """The same events; they are also put into `seen`."""
    for event in events:
        seen.append(event)
        yield event


def _prompt(args: argparse.Namespace) -> str:
    if args.prompt is not None and args.prompt_file is not None:
        raise SlemError("Give --prompt or --prompt-file, not both.")
    if args.prompt_file is not None:
        return read(args.prompt_file)
    return DEFAULT_PROMPT if args.prompt is None else str(args.prompt)


def show(request: Request, events: Iterable[Event]) -> None:
    """The text as it comes, coloured by fate on a terminal."""
    OUT.print(Text(request.prompt, style="dim"), end="\n\n" if request.chat else "", soft_wrap=True)
    for event in events:
        if isinstance(event, RoundEvent):
            OUT.print(styled(event) if OUT.is_terminal else Text(event.text), end="", soft_wrap=True)
        elif isinstance(event, StopEvent):
            OUT.print(Text(event.tail), soft_wrap=True)


def styled(r: RoundEvent) -> Text:
    """A round on a terminal: accepted in green, the refused candidate struck, the target's own token in blue."""
    text = Text()
    for token in r.committed[: r.n_accepted]:
        text.append(token.text, STYLES["accepted"])
    if r.own is not None and r.candidate and r.n_accepted < len(r.candidate):
        text.append(r.candidate[r.n_accepted].text, STYLES["rejected"])
    if r.own is not None:
        text.append(r.own.text, STYLES["own"])
    return text


def closing_line(trace: Trace, s: Summary, plain_speculative: bool) -> str:
    """The run in one paragraph, from its trace."""
    end = trace.stop.reason.value if trace.stop else "interrupted"
    parts = [f"{s.num_output_tokens} tokens in {s.num_rounds} target passes, {s.seconds:.2f} s ({end})"]
    if s.draft_acceptance_rate is not None:
        parts.append(f"{s.num_accepted_tokens} of {s.num_candidate_tokens} candidates accepted ({s.draft_acceptance_rate:.0%})")
        parts.append(f"draft {s.draft_s:.2f} s, re-tokenise {s.retokenise_s:.3f} s, verify {s.verify_s:.2f} s")
    if plain_speculative:
        parts.append("both models have one tokenizer: this is plain speculative decoding")
    silent = {r.reason for r in trace.rounds if r.reason is not None} if trace.request.method in (Method.SLEM, Method.TLI) else set()
    if silent and not s.num_candidate_tokens:
        parts.append("nothing was proposed: " + "; ".join(sorted(REASON_TEXT[reason] for reason in silent)))
    return "\n".join(parts)
