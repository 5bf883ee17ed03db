"""How the target chooses: argmax, or Gumbel-max with keyed noise; and how a drafter may roll the same dice.

A sample is argmax(logit / T + noise) over the tokens that top-k and top-p keep, with noise that is a pure function of
(run key, byte offset, ordinal, token key). The choice at a position then depends on nothing but the text before it: not on the
method, not on what was drafted, not on how many positions share a pass. That makes sampled speculative decoding comparable with
target-only decoding id for id. Parts of a key are hashed, never added; each position meets noise that nothing else has used.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

NO_BYTES, HAS_BYTES = b"\0", b"\1"
N_DRAFTED = 64  # a drafter chooses among so many of its likeliest tokens: it only guesses, and noise costs time
DRAFTERS_OWN = 0x5EED_D4AF7  # moves the keys of a drafter's tokens of no bytes away from the target's


@dataclass(frozen=True)
class Place:
    """Where a token is written: bytes of output before it, and tokens of no bytes since that number last moved."""

    offset: int
    ordinal: int


def run_key(seed: int, prompt_ids: Sequence[int]) -> bytes:
    """16 bytes from the seed and the target's prompt ids, so prompts under one seed are not correlated."""
    body = f"{seed}:{','.join(map(str, prompt_ids))}".encode()
    return hashlib.blake2b(body, digest_size=16, person=b"slem run").digest()


def token_keys(names: Sequence[tuple[bytes, int]]) -> Tensor:
    """int64 [vocabulary]: a hash of each token's (bytes, rank among ids of equal bytes).

    A token of no bytes is keyed by its id, in a name space of its own.
    """
    keys = []
    for token_id, (data, rank) in enumerate(names):
        name = HAS_BYTES + rank.to_bytes(4, "little") + data if data else NO_BYTES + token_id.to_bytes(8, "little")
        keys.append(int.from_bytes(hashlib.blake2b(name, digest_size=8, person=b"slem token").digest(), "little", signed=True))
    return torch.tensor(keys, dtype=torch.int64)


def _shift_right(x: Tensor, n: int) -> Tensor:
    """Logical shift of int64 (torch's own copies the sign bit)."""
    return (x >> n) & ((1 << (64 - n)) - 1)


def _mix(x: Tensor) -> Tensor:
    """The 64-bit finaliser of SplitMix64 (Steele, Lea, Flood 2014), on wrapping int64."""
    x = (x ^ _shift_right(x, 30)) * -0x40A7B892E31B1A47
    x = (x ^ _shift_right(x, 27)) * -0x6B2FB644ECCEEE15
    return x ^ _shift_right(x, 31)


def uniforms(key: bytes, places: Sequence[Place], keys: Tensor) -> Tensor:
    """float64 [places, vocabulary] in (0, 1), of 53 bits each."""
    halves = []
    for place in places:
        body = key + place.offset.to_bytes(8, "little") + place.ordinal.to_bytes(8, "little")
        digest = hashlib.blake2b(body, digest_size=16, person=b"slem place").digest()
        halves.append([int.from_bytes(digest[i : i + 8], "little", signed=True) for i in (0, 8)])
    first, second = torch.tensor(halves, dtype=torch.int64, device=keys.device).T.unsqueeze(-1)
    bits = _shift_right(_mix(_mix(keys ^ first) ^ second), 11)
    return ((bits.double() + 0.5) * 2.0**-53).clamp(max=1 - 2.0**-53)


def gumbel(key: bytes, places: Sequence[Place], keys: Tensor) -> Tensor:
    """float64 [places, vocabulary]: standard Gumbel noise."""
    return -torch.log(-torch.log(uniforms(key, places, keys)))


def filtered(scores: Tensor, top_k: int | None, top_p: float | None) -> Tensor:
    """`scores` [n, vocabulary] with the tokens that a filter drops at -inf: top-k first, then top-p of what is left.

    Top-p keeps the smallest set of most likely tokens whose probabilities sum to at least `top_p`.
    """
    if top_k is not None and top_k < scores.shape[-1]:
        kth = scores.topk(top_k).values[..., -1:]
        scores = scores.masked_fill(scores < kth, -math.inf)
    if top_p is not None and top_p < 1:
        ordered, index = scores.sort(descending=True, stable=True)
        probabilities = ordered.softmax(-1)
        before = probabilities.cumsum(-1) - probabilities
        dropped = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, index, before >= top_p)
        scores = scores.masked_fill(dropped, -math.inf)
    return scores


@dataclass(frozen=True)
class Chooser:
    """The target's rule of choice for one run."""

    temperature: float
    top_k: int | None
    top_p: float | None
    key: bytes
    keys: Tensor

    def scores(self, logits: Tensor, places: Sequence[Place]) -> Tensor:
        """[n, vocabulary]: what the choice is the argmax of. `logits` [n, vocabulary], one place for each row."""
        if self.temperature == 0:
            return logits
        logits = logits.to(self.keys.device, torch.float64)
        kept = filtered(logits / self.temperature, self.top_k, self.top_p)
        return kept + gumbel(self.key, places, self.keys[: logits.shape[-1]])

    def choose(self, logits: Tensor, places: Sequence[Place]) -> list[int]:
        """The target's own id at each place."""
        choices: list[int] = self.scores(logits, places).argmax(-1).tolist()
        return choices


def independent_key(key: bytes) -> bytes:
    """The run key in a name space of its own, for a drafter that shares nothing with the target."""
    return hashlib.blake2b(key, digest_size=16, person=b"slem draft").digest()


def shared_keys(keys: Tensor, vocab: Sequence[bytes], eos_ids: frozenset[int], target_eos_key: int | None) -> Tensor:
    """A drafter's token keys [vocabulary], so that it meets the target's noise: equal bytes have equal keys in both vocabularies.

    Tokens of no bytes are keyed by id, which means something else in either: they share nothing, but its EOS meets that of the target.
    """
    special = torch.tensor([i for i, data in enumerate(vocab) if not data], dtype=torch.int64, device=keys.device)
    shared = keys.clone()
    shared[special] = _mix(keys[special] ^ DRAFTERS_OWN)
    if eos_ids and target_eos_key is not None:
        shared[min(eos_ids)] = target_eos_key
    return shared


class Chosen(NamedTuple):
    """A drafter's token, and the scores among which it has this place."""

    token: int
    scores: Tensor
    at: int

    @property
    def confidence(self) -> float:
        """How likely the token is to be the target's too, as far as the drafter can know."""
        return float(self.scores.softmax(-1)[self.at])


def best_guess(logits: Tensor, _: Place) -> Chosen:
    """The drafter's likeliest token."""
    token = int(logits.argmax())
    return Chosen(token, logits, token)


@dataclass(frozen=True)
class DraftChooser:
    """A drafter's rule of choice at a temperature: Gumbel-max over its likeliest tokens."""

    temperature: float
    top_k: int | None
    top_p: float | None
    key: bytes
    keys: Tensor
    is_shared: bool

    def choose(self, logits: Tensor, place: Place) -> Chosen:
        """The drafter's id at a place. `logits` [vocabulary].

        With shared noise the target maximises nearly the same sums, so these say how sure it is; with other noise the scores do.
        """
        best = logits.to(self.keys.device).topk(min(N_DRAFTED, self.top_k or N_DRAFTED, len(logits)))
        kept = filtered(best.values[None].double() / self.temperature, None, self.top_p)[0]
        perturbed = kept + gumbel(self.key, [place], self.keys[best.indices])[0]
        index = int(perturbed.argmax())
        return Chosen(int(best.indices[index]), perturbed if self.is_shared else kept, index)
