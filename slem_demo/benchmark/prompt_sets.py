"""What is written about: sets of prompts by name (`assets/prompts`), or a file of one's own."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from slem_demo.errors import SlemError
from slem_demo.models.codec import HubCodec
from slem_demo.models.pairs import ASSETS

FOLDER = ASSETS / "prompts"


@dataclass(frozen=True)
class PromptSet:
    """Prompts of one kind. `chat`: they are said to an assistant. `context`: text of their kind, to put before them."""

    name: str
    about: str
    licence: str
    chat: bool
    prompts: tuple[str, ...]
    context: str = ""

    def begun(self, n: int | None) -> PromptSet:
        """Only the first n prompts; None: all."""
        return replace(self, prompts=self.prompts[:n])

    def after(self, codec: HubCodec, n: int | None) -> tuple[str, ...]:
        """The prompts behind the last `n` ids of the context; None: alone.

        Raises:
            SlemError: the set has no context, or a shorter one.
        """
        if n is None:
            return self.prompts
        ids = codec.encode(self.context)
        if len(ids) < n:
            raise SlemError(f"The prompts {self.name!r} have a context of {len(ids)} tokens; {n} were asked for.")
        before = b"".join(codec.vocab[i] for i in ids[len(ids) - n :]).decode("utf-8", "ignore")
        return tuple(f"{before}\n\n{prompt}" for prompt in self.prompts)


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def load_sets(text: str) -> list[PromptSet]:
    """The sets of `NAME,NAME`, or one set from a file: a JSON list of strings, or a prompt a line.

    Raises:
        SlemError: there is no such set or file, or it holds no prompt.
    """
    if Path(text).is_file():
        return [PromptSet(Path(text).stem, "", "", chat=False, prompts=read_prompts(Path(text)))]
    unknown = [name for name in text.split(",") if name not in names()]
    if unknown:
        raise SlemError(f"There are no prompts {unknown[0]!r}: name some of {', '.join(names())} (with commas), or a file.")
    found = [json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")) for name in text.split(",")]
    return [PromptSet(name, **data | {"prompts": tuple(data["prompts"])}) for name, data in zip(text.split(","), found, strict=True)]


def default_sets(pair: str) -> str:
    """Openings are of the built-in pair's text; whoever answers people is asked."""
    return "openings" if pair == "builtin" else "prose,stories,instructions,code"


def read_prompts(path: Path) -> tuple[str, ...]:
    """A JSON list of strings, or one prompt a line.

    Raises:
        SlemError: the file can't be read or holds no prompt.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SlemError(f"{path} cannot be read as UTF-8 text ({type(error).__name__}).") from None
    try:
        prompts: object = json.loads(text) if text.lstrip().startswith("[") else text.splitlines()
    except json.JSONDecodeError as error:
        raise SlemError(f"{path} is not valid JSON ({error.msg}, line {error.lineno}).") from None
    if not isinstance(prompts, list) or not all(isinstance(p, str) for p in prompts):
        raise SlemError(f"{path} must hold a list of strings.")
    found = tuple(p for p in prompts if p.strip())
    if not found:
        raise SlemError(f"{path} holds no prompt.")
    return found
