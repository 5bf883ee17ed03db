"""What is on this machine of the models on offer, without loading or asking for anything."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import snapshot_download

from slem_demo.models.gguf import folder_of, pieces_of
from slem_demo.models.pairs import ModelOffer


@dataclass(frozen=True)
class Here:
    """`where` in words; bytes of the weights and ids of the vocabulary where the files are here."""

    where: str
    n_bytes: int | None = None
    n_ids: int | None = None


def here(offer: ModelOffer) -> Here:
    for where, folder in _places(offer):
        if any(folder.glob("*.safetensors")):
            n_ids = json.loads((folder / "config.json").read_text(encoding="utf-8"))["vocab_size"]
            return Here(where, sum(file.stat().st_size for file in folder.glob("*.safetensors")), n_ids)
    if offer.package and pieces_of(offer.package):
        return Here("in an installed package, converted when first used")
    return Here("missing" if offer.folder else "not here")


def _places(offer: ModelOffer) -> list[tuple[str, Path]]:
    found = []
    if offer.folder:
        found.append(("in assets/", offer.folder))
    if offer.package and pieces_of(offer.package):
        found.append(("converted from an installed package", folder_of(offer.name, offer.package.sha256)))
    if offer.hub_id:
        with suppress(OSError, ValueError):  # not in the cache
            found.append(("in the hub's cache", Path(snapshot_download(offer.hub_id, local_files_only=True))))
    return found
