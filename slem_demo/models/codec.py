"""A transformers tokenizer as the bridge's `Codec`: ids, their bytes, and where encoding can be started afresh."""

from __future__ import annotations

import copy
import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

from tokenizers import Tokenizer
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from slem_demo.engine.sampling import token_keys
from slem_demo.errors import SlemError

BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")
REASONING_TAG = re.compile(r"</?(think|thinking|thought|reasoning)>|\[/?THINK\]")
SPACE_RUN = re.compile(r"(?<=\S) (?=\S)")


class HubCodec:
    """The bytes of a fast tokenizer's ids, padded with byteless ids to the width of the model's logits; ids beyond it are byteless too.

    Special tokens have no bytes and are never made from text, whatever the text says. Tags of reasoning such as `<think>` are always
    text, as they are part of what a model writes: they are special tokens in some vocabularies, and words in others.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, n_logits: int):
        if not getattr(tokenizer, "is_fast", False):
            raise SlemError(f"The tokenizer {tokenizer.name_or_path} has no tokenizer.json; only fast tokenizers are supported.")
        self.tokenizer, self.n_logits = tokenizer, n_logits
        self._backend = _with_reasoning_as_text(copy.deepcopy(tokenizer.backend_tokenizer))
        self._backend.no_truncation()
        self._backend.no_padding()
        self._backend.encode_special_tokens = True
        self.vocab: Sequence[bytes] = _vocabulary_bytes(self._backend, n_logits)
        self._byteless = frozenset(i for i, data in enumerate(self.vocab) if not data)
        names = {tokenizer.unk_token, *(t.content for t in tokenizer.added_tokens_decoder.values() if t.special)} - {None}
        self._special = re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))) or r"(?!)")

    def encode(self, text: str) -> list[int]:
        """Ids of the text. Some models hold their special tokens as pieces: a text that spells one is then cut inside it."""
        ids = self._encode(text)
        if self._byteless.isdisjoint(ids):
            return ids
        cuts = [0, *(match.start() + 1 for match in self._special.finditer(text)), len(text)]
        return [i for start, end in pairwise(cuts) for i in self._encode(text[start:end])]

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._backend.encode_batch_fast([text], add_special_tokens=False)[0].ids  # fast: without offsets
        return ids

    def spells_special(self, text: str) -> bool:
        return self._special.search(text) is not None

    def encode_rendered(self, text: str, written: Sequence[tuple[int, int]]) -> list[int]:
        """Ids of a rendered chat template: special tokens where the template has them, not in the spans that a person has written."""
        ids, at = list[int](), 0
        for match in self._special.finditer(text):
            if not any(start <= match.start() < end for start, end in written):
                token = self.tokenizer.convert_tokens_to_ids(match[0])
                ids += [*self.encode(text[at : match.start()]), token]
                at = match.end()
        return ids + self.encode(text[at:])

    def starts(self, text: str) -> list[int]:
        """Pre-token starts where the kind of character changes (so a scan that began elsewhere finds them too).

        A tokenizer without a pre-tokenizer has them at single spaces between words.
        """
        normalizer, splitter = self._backend.normalizer, self._backend.pre_tokenizer
        normal = normalizer.normalize_str(text) if normalizer else text
        if splitter is not None and len(normal) == len(text):
            found = [start for _, (start, _) in splitter.pre_tokenize_str(normal)]
            starts = [s for s in found if 0 < s < len(text) and _kind(text[s - 1]) != _kind(text[s])]
            if starts:
                return starts
        return [match.start() for match in SPACE_RUN.finditer(text)]

    @cached_property
    def token_keys(self) -> Tensor:
        """int64 [logits]: see `sampling.token_keys`. Rank 0 of ids with equal bytes is the one the tokenizer itself writes."""
        ids_of: dict[bytes, list[int]] = defaultdict(list)
        for token, data in enumerate(self.vocab):
            if data:
                ids_of[data].append(token)
        ranks = [0] * len(self.vocab)
        for data, ids in ids_of.items():
            if len(ids) > 1:
                written = self.encode(data.decode("utf-8", "replace"))
                for rank, token in enumerate(sorted(ids, key=lambda i: (written != [i], i))):
                    ranks[token] = rank
        return token_keys(list(zip(self.vocab, ranks, strict=True)))


def _kind(character: str) -> str:
    category = unicodedata.category(character)[0]
    return category if category in "LNZ" else "Z" if character.isspace() else "other"


def _with_reasoning_as_text(backend: Tokenizer) -> Tokenizer:
    if not any(token.special and REASONING_TAG.fullmatch(token.content) for token in backend.get_added_tokens_decoder().values()):
        return backend
    spec = json.loads(backend.to_str())
    for entry in spec["added_tokens"]:
        entry["special"] = entry["special"] and not REASONING_TAG.fullmatch(entry["content"])
    return Tokenizer.from_str(json.dumps(spec))


def _vocabulary_bytes(backend: Tokenizer, n_logits: int) -> list[bytes]:
    spec = json.loads(backend.to_str())
    is_byte_level = '"ByteLevel"' in json.dumps(spec["decoder"])
    id_of = backend.get_vocab(with_added_tokens=True)
    vocab = [b""] * max(n_logits, *(token + 1 for token in id_of.values()))
    added = {entry["id"]: entry for entry in spec["added_tokens"]}
    special_names = {spec["model"].get("unk_token")}
    for piece, token in id_of.items():
        if token >= n_logits:
            continue
        if token in added:
            vocab[token] = b"" if added[token]["special"] else piece.encode()
        elif piece not in special_names:
            vocab[token] = _byte_level(piece) if is_byte_level else _spelled(piece)
    return vocab


def _spelled(piece: str) -> bytes:
    """SentencePiece's spelling: `▁` is a space, `<0x0A>` is a byte."""
    match = BYTE_TOKEN.fullmatch(piece)
    return bytes([int(match[1], 16)]) if match else piece.replace("▁", " ").encode()


def _byte_level(piece: str) -> bytes:
    return b"".join(bytes([BYTE_OF[c]]) if c in BYTE_OF else c.encode() for c in piece)


def _byte_characters() -> dict[str, int]:
    """GPT-2's spelling of bytes: printable Latin-1 stands for itself, the rest is moved to U+0100 and up, in order."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(0x100 + i): b for i, b in enumerate(others)}


BYTE_OF = _byte_characters()
