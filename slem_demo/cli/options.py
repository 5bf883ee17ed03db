"""What the commands share: options, settings, files, the two consoles."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from rich.console import Console

from slem_demo.errors import SlemError
from slem_demo.trace import DraftNoise

if TYPE_CHECKING:
    from slem_demo.models.loading import Pair

ERR = Console(stderr=True, highlight=False)
OUT = Console(highlight=False)
DEFAULT_PROMPT = "In the beginning God created"


def add_model_options(command: argparse.ArgumentParser, raw_default: bool | None = False) -> None:
    """Which models, where; and how they get a prompt. `raw_default` None: the prompts say it themselves."""
    command.add_argument("--pair", default="builtin", help="a name from `pairs`, or TARGET::DRAFT")
    command.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps, or split (over devices and disk)")
    command.add_argument("--dtype", choices=["auto", "float32", "bfloat16", "float16"], default="auto")
    command.add_argument("--threads", type=int, help="CPU threads (default: torch's choice)")
    rendering = command.add_mutually_exclusive_group()
    default = " (default)" if raw_default is not None else " (default: as the prompts are meant)"
    rendering.add_argument("--chat", action="store_true", default=raw_default, help="a conversation, in each model's own chat template")
    rendering.add_argument("--raw", dest="chat", action="store_false", default=raw_default, help=f"the prompt as it is{default}")
    command.add_argument("--system", default="", metavar="TEXT", help="with --chat: the system prompt")


def add_sampling_options(command: argparse.ArgumentParser) -> None:
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


def load(args: argparse.Namespace) -> Pair:
    from slem_demo.models.loading import Placement, load_pair, use_threads

    if args.threads is not None:
        if args.threads < 1:
            raise SlemError(f"--threads must be at least 1 (got {args.threads}).")
        use_threads(args.threads)
    with ERR.status(f"loading {args.pair}"):
        return load_pair(args.pair, Placement(args.device, args.dtype))


def settings(args: argparse.Namespace) -> dict[str, object]:
    """The fields of a `Request` that options set; None means that its own default holds."""
    names = ("chat", "system", "max_new_tokens", "k", "temperature", "top_k", "top_p", "seed", "draft_noise")
    return {name: value for name in names if (value := getattr(args, name)) is not None}


def write(path: Path, text: str) -> None:
    """Raises SlemError where that is impossible."""
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise SlemError(f"{path} cannot be written ({error.strerror}).") from None


def check_folder(path: Path | None) -> None:
    """Raises SlemError, before anything is computed, if `path` can't be written for want of a folder."""
    if path is not None and not path.resolve().parent.is_dir():
        raise SlemError(f"The folder of {path} does not exist.")


def read(path: Path) -> str:
    """Raises SlemError if it can't be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SlemError(f"{path} cannot be read as UTF-8 text ({type(error).__name__}).") from None
