"""GGUF files as folders of safetensors: found in a package or on disk, checked, converted once and kept in a cache."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext, redirect_stderr
from pathlib import Path

from tokenizers import normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from slem_demo.errors import SlemError
from slem_demo.models.pairs import Package

BLOCK = 1 << 20
DIGITS_ALONE = {"smollm", "starcoder", "refact", "deepseek-llm", "deepseek-coder"}  # rules that part digits before anything else


def cache_folder() -> Path:
    """Where converted models are kept: `SLEM_CACHE`, or a folder in the user's cache."""
    named = os.environ.get("SLEM_CACHE")
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "slem-demo"


def folder_of(name: str, key: str) -> Path:
    """Where a model is kept once it is converted; `key` begins the sha256 of its file."""
    return cache_folder() / f"{name}-{key[:12]}"


def pieces_of(package: Package) -> list[Path] | None:
    """The files of an installed package, or None if a piece is missing. The package is found, not imported."""
    found = []
    for module, path in package.pieces:
        spec = importlib.util.find_spec(module)
        places = [Path(place) / path for place in (spec.submodule_search_locations or ())] if spec else []
        found += [place for place in places if place.is_file()][:1]
    return found if len(found) == len(package.pieces) else None


def converted(name: str, pieces: list[Path], sha256: str | None = None) -> tuple[Path, str]:
    """(folder of safetensors, first digits of the file's sha256) of a GGUF file that lies in one piece or several.

    Raises:
        SlemError: the file has another hash than `sha256`, can't be read, or there is no room for the result.
    """
    key = (sha256 or _digest(pieces))[:12]
    folder = folder_of(name, key)
    if (folder / "model.safetensors").is_file():
        return folder, key
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            if sha256 is not None and _digest(pieces) != sha256:
                raise SlemError(f"{name}: the file in its package is not the one that is expected (another sha256); install it again.")
            _convert(_joined(pieces, Path(scratch)), Path(scratch) / "out", name)
            shutil.rmtree(folder, ignore_errors=True)
            (Path(scratch) / "out").rename(folder)
    except OSError as error:
        raise SlemError(f"{name}: it cannot be converted into {folder.parent} ({error.strerror or error}).") from None
    return folder, key


def _convert(file: Path, out: Path, name: str) -> None:
    """Weights dequantised to float32, and the tokenizer. Takes a minute."""
    import torch
    from transformers import AutoModelForCausalLM

    bar = nullcontext() if sys.stderr.isatty() else redirect_stderr(io.StringIO())  # transformers draws one wherever it is
    try:
        with bar:
            lm = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
            tokenizer = gguf_tokenizer(file)
    except ImportError:
        raise SlemError(f"{name}: reading a .gguf file needs the package gguf; install it with pip.") from None
    except (OSError, ValueError, KeyError, RuntimeError, IndexError) as error:
        raise SlemError(f"{name}: this .gguf file cannot be read ({(str(error).splitlines() or ['?'])[0][:160]}).") from None
    for holder, attribute in ((lm.config, "quantization_config"), (lm, "hf_quantizer"), (lm, "quantization_method")):
        if hasattr(holder, attribute):
            delattr(holder, attribute)
    lm.save_pretrained(out)
    tokenizer.save_pretrained(out)


def gguf_tokenizer(file: Path) -> PreTrainedTokenizerFast:
    """The tokenizer in a GGUF file, as its makers have it: transformers reads the vocabulary and the merges, but not all rules."""
    from gguf import GGUFReader
    from transformers import AutoTokenizer

    fields = GGUFReader(file).fields
    model, rules = (fields[f"tokenizer.ggml.{name}"].contents() if f"tokenizer.ggml.{name}" in fields else "" for name in ("model", "pre"))
    tokenizer: PreTrainedTokenizerFast = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    backend = tokenizer.backend_tokenizer
    if rules == "llama-bpe":
        backend.model.ignore_merges = True
    elif rules in DIGITS_ALONE:
        backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), backend.pre_tokenizer])
    elif model == "llama" and isinstance(backend.pre_tokenizer, pre_tokenizers.Metaspace):
        # A pre-tokenizer that begins anew after each special token loses spaces; the original puts one space before any text.
        backend.pre_tokenizer = None
        backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return tokenizer


def _joined(pieces: list[Path], scratch: Path) -> Path:
    """One file, in a folder of its own."""
    whole = scratch / "in" / "model.gguf"
    whole.parent.mkdir()
    if len(pieces) == 1:
        whole.symlink_to(pieces[0].resolve())
        return whole
    with whole.open("wb") as file:
        for block in _blocks(pieces):
            file.write(block)
    return whole


def _digest(pieces: list[Path]) -> str:
    digest = hashlib.sha256()
    for block in _blocks(pieces):
        digest.update(block)
    return digest.hexdigest()


def _blocks(pieces: list[Path]) -> Iterator[bytes]:
    for piece in pieces:
        with piece.open("rb") as file:
            while block := file.read(BLOCK):
                yield block
