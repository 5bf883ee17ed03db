"""The texts that the built-in pair learns from: the King James Bible, a chapter a line, some chapters held out."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

ASSETS = Path(__file__).resolve().parents[3] / "assets" / "builtin"
N_HELD_OUT_CHAPTERS = 60
N_PROMPTS = 16
MAX_PARALLEL = 0.05  # chapters told twice (Kings and Chronicles, Psalms 14 and 53) are never held out


def chapters(verses: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(name, text) of each chapter from lines like `Ge1:3 And God said, …`, verses joined by a space."""
    name = ""
    parts: list[str] = []
    for line in verses:
        reference, text = line.rstrip("\n").split(" ", 1)
        chapter = reference.rsplit(":", 1)[0]
        if chapter != name and parts:
            yield name, " ".join(parts)
            parts = []
        name = chapter
        parts.append(re.sub(r"\s+", " ", text).strip())
    yield name, " ".join(parts)


def opening(text: str, n_chars: int = 120) -> str:
    """The first words of a passage: at least `n_chars` characters, ending with a whole word."""
    end = text.find(" ", n_chars)
    return text[: end if end > 0 else len(text)]


def grams(text: str, n: int = 8) -> set[tuple[str, ...]]:
    """The runs of `n` words in a text."""
    words = text.split()
    return {tuple(words[i : i + n]) for i in range(len(words) - n + 1)}


def share_in(text: str, others: Counter[tuple[str, ...]]) -> float:
    """Share of a chapter's 8-word runs that stand in another chapter too (its own occurrence is one)."""
    own = grams(text)
    return sum(others[g] > 1 for g in own) / max(len(own), 1)


def write_corpus(raw: Iterable[str], out: Path = ASSETS, seed: int = 0) -> None:
    """Writes `corpus.txt.gz` (a chapter a line: name, tab, text) and `held_out.json` (names, prompts)."""
    everything = list(chapters(raw))
    rng = random.Random(seed)
    counts = Counter(g for _, text in everything for g in grams(text))
    apart = [chapter for chapter in everything if share_in(chapter[1], counts) < MAX_PARALLEL]
    held_out = rng.sample(apart, N_HELD_OUT_CHAPTERS)
    prompts = [opening(text) for _, text in held_out[:N_PROMPTS]]
    out.mkdir(parents=True, exist_ok=True)
    body = "".join(f"{name}\t{text}\n" for name, text in everything).encode()
    with (out / "corpus.txt.gz").open("wb") as file, gzip.GzipFile(fileobj=file, mode="wb", mtime=0, filename="") as z:
        z.write(body)
    names = [name for name, _ in held_out]
    (out / "held_out.json").write_text(json.dumps({"chapters": names, "prompts": prompts}, indent=1) + "\n")


def load_corpus(folder: Path = ASSETS) -> tuple[list[str], list[str]]:
    """(training chapters, held-out chapters)."""
    held_out = set(json.loads((folder / "held_out.json").read_text())["chapters"])
    with gzip.open(folder / "corpus.txt.gz", "rt", encoding="utf-8") as file:
        pairs = [line.rstrip("\n").split("\t", 1) for line in file]
    return [t for n, t in pairs if n not in held_out], [t for n, t in pairs if n in held_out]


def load_prompts(folder: Path = ASSETS) -> list[str]:
    """The openings of 16 held-out chapters, on which everything is measured."""
    prompts: list[str] = json.loads((folder / "held_out.json").read_text(encoding="utf-8"))["prompts"]
    return prompts
