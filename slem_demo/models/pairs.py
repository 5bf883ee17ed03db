"""What is on offer: models and pairs by name, and how other names are read. Data only; `loading.py` fetches and loads."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from slem_demo.errors import SlemError

ASSETS = Path(__file__).resolve().parents[2] / "assets"
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")


@dataclass(frozen=True)
class ModelOffer:
    """A model with a short name: a folder in `assets/`, with its licence and what it is in a few words."""

    name: str
    folder: Path
    licence: str
    about: str

    @property
    def is_here(self) -> bool:
        return (self.folder / "model.safetensors").is_file()

    @property
    def vocabulary(self) -> str:
        """How many ids the model has, from its config, or a dash."""
        config = self.folder / "config.json"
        return f"{json.loads(config.read_text())['vocab_size']:,}" if config.is_file() else "–"


@dataclass(frozen=True)
class PairOffer:
    """Two models by their short names."""

    name: str
    target: str
    draft: str
    about: str


MODELS = {
    offer.name: offer
    for offer in (
        ModelOffer("builtin-target", ASSETS / "builtin" / "target", "Apache-2.0", "Llama, 12 layers × 160; byte-level BPE"),
        ModelOffer("builtin-draft", ASSETS / "builtin" / "draft", "Apache-2.0", "Llama, 1 layer × 256; Unigram, Metaspace"),
    )
}
PAIRS = {
    offer.name: offer
    for offer in (PairOffer("builtin", "builtin-target", "builtin-draft", "trained by this project on the King James Bible"),)
}


@dataclass(frozen=True)
class Source:
    """Where one model comes from: a local folder, or a hub id with an optional revision."""

    name: str
    folder: Path | None = None
    hub_id: str | None = None
    revision: str | None = None


def model_source(name: str) -> Source:
    """Reads `builtin-target`, `org/name[@revision]` or the path of a folder.

    Raises:
        SlemError: it is none of these.
    """
    if name in MODELS:
        return Source(name, folder=MODELS[name].folder)
    path = Path(name).expanduser()
    if path.is_dir():
        return Source(name, folder=path)
    if name.startswith((".", "/", "~")) or not HUB_ID.fullmatch(name):
        raise SlemError(
            f"There is no model {name!r}: use one of {', '.join(MODELS)}, a hub id like org/name, or the path of a folder that exists."
        )
    hub_id, _, revision = name.partition("@")
    return Source(name, hub_id=hub_id, revision=revision or None)


def pair_sources(name: str) -> tuple[Source, Source]:
    """(target, draft) of a pair on offer, or of `TARGET::DRAFT`.

    Raises:
        SlemError: the name is neither.
    """
    if name in PAIRS:
        offer = PAIRS[name]
        return model_source(offer.target), model_source(offer.draft)
    target, separator, draft = name.partition("::")
    if not separator or not target or not draft:
        raise SlemError(f"There is no pair {name!r}: use one of {', '.join(PAIRS)}, or TARGET::DRAFT.")
    return model_source(target), model_source(draft)
