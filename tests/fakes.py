"""Toy tokenizers of two vocabularies and scripted models, with the product's own protocols.

Random tiny models almost never agree; these agree as often as a test wants, so they carry the losslessness tests.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from slem_demo.engine.sampling import token_keys

TEXT = (
    " the heaven and the earth. And the earth was without form, and void; naïve café — 日本語 の 😀👍🏽 text  with   runs"
    " and the end\n\nof the land, the landscape and the lander. "
)


class ToyCodec:
    """Longest match from the left over a list of pieces, then single bytes. Id 0 is a special token without bytes."""

    def __init__(self, pieces: Sequence[str], prepends_space: bool = False):
        self.pieces = sorted((p.encode() for p in pieces), key=lambda piece: (-len(piece), piece))
        self.vocab: list[bytes] = [b"", *(bytes([b]) for b in range(256)), *self.pieces]
        self.id_of = {piece: i for i, piece in enumerate(self.vocab) if piece}
        self.prepends_space = prepends_space

    def encode(self, text: str) -> list[int]:
        if self.prepends_space and text:
            text = " " + text
        ids = []
        for word in re.findall(r" ?[^ ]+| +(?! )| +", text):
            data = word.encode()
            while data:
                piece = next((p for p in self.pieces if data.startswith(p)), data[:1])
                ids.append(self.id_of[piece])
                data = data[len(piece) :]
        return ids

    def starts(self, text: str) -> list[int]:
        return [m.start() for m in re.finditer(r"(?<=[^ ]) (?=[^ ])", text)]


LONG = ToyCodec([" the", " heaven", " and", " earth", " land", "scape", " with", "out", " form", "é", "日本", "語", "😀", "\n\n", "  "])
SHORT = ToyCodec([" t", "he", " th", "e ", " a", "nd", " e", "ar", "th", " l", "an", "ds", "ca", "pe", " w", "ï", "本語", "👍", " "], True)
CODECS = {"long": LONG, "short": SHORT}


def dice(*parts: object) -> float:
    """A number in [0, 1) that depends on nothing but `parts`."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") / 2**64


@dataclass
class FakeModel:
    """Scores what `score` says for each prefix; `calls` keeps (number of ids, rows) of every pass."""

    codec: ToyCodec
    score: Callable[[Sequence[int]], Tensor]
    eos_ids: frozenset[int] = frozenset({0})
    max_context: int = 100_000
    calls: list[tuple[int, int]] = field(default_factory=list)

    @cached_property
    def token_keys(self) -> Tensor:
        return token_keys([(data, 0) for data in self.codec.vocab])

    def logits(self, ids: Sequence[int], n: int) -> Tensor:
        assert 1 <= n <= len(ids)
        assert all(0 <= i < len(self.codec.vocab) for i in ids), "an id of another vocabulary"
        self.calls.append((len(ids), n))
        return torch.stack([self.score(ids[: len(ids) - n + 1 + row]) for row in range(n)])


def one_hot(codec: ToyCodec, token: int) -> Tensor:
    scores = torch.zeros(len(codec.vocab))
    scores[token] = 1.0
    return scores


def scripted_target(codec: ToyCodec, prompt_ids: Sequence[int], output_ids: Sequence[int]) -> FakeModel:
    """Writes `output_ids` and then EOS, but only after its own ids: after any others it writes an id that depends on them all."""
    wanted = [*prompt_ids, *output_ids, 0]

    def score(ids: Sequence[int]) -> Tensor:
        on_script = list(ids) == wanted[: len(ids)] and len(ids) < len(wanted)
        token = wanted[len(ids)] if on_script else 1 + int(dice(*ids) * (len(codec.vocab) - 1))
        return one_hot(codec, token)

    return FakeModel(codec, score)


def scripted_drafter(codec: ToyCodec, truth: str, error_rate: float) -> FakeModel:
    """Knows the whole text (prompt and output) and writes it in its own tokens, wrong at a given rate."""
    ids_of_truth = codec.encode(truth)

    def score(ids: Sequence[int]) -> Tensor:
        written = b"".join(codec.vocab[i] for i in ids)
        at = 0
        if dice("error", *ids) < error_rate:
            rest = truth.encode()[len(written) - codec.prepends_space :]
            wrong = [token for token, data in enumerate(codec.vocab) if data and data[:1] != rest[:1]]
            return one_hot(codec, wrong[int(dice(*ids) * len(wrong))])
        for token in ids_of_truth:
            if at == len(written):
                return one_hot(codec, token)
            at += len(codec.vocab[token])
        rest = truth.encode()[len(written) - codec.prepends_space :]
        return one_hot(codec, codec.id_of[rest[:1]] if rest else 0)

    return FakeModel(codec, score)


def random_model(codec: ToyCodec, seed: int, n_live: int | None = None) -> FakeModel:
    """Smooth random scores that depend on the last two ids; with `n_live`, only so many tokens are likely."""

    def score(ids: Sequence[int]) -> Tensor:
        generator = torch.Generator().manual_seed(int(dice(seed, *ids[-2:]) * 2**31))
        scores = torch.randn(len(codec.vocab), generator=generator) * 2
        if n_live is not None:
            scores[n_live:] = -50
        return scores

    return FakeModel(codec, score)
