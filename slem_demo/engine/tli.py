"""Token-level intersection (Timor et al. 2025, arXiv 2502.05202, Algorithm 4): the drafter writes only tokens that both vocabularies have.

A draft token is then a candidate as it is, and rejection sampling (Leviathan et al. 2023) keeps the target's distribution:

    keep candidate x with probability min(1, p(x) / q(x)), else write a token from max(0, p - q), scaled to sum to 1

Greedily the ids are the target's own. At a temperature the output is equal in distribution only: an accepted token is the drafter's draw,
so ids differ from target-only decoding and change with K.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field

import torch
from torch import Tensor

from slem_demo.engine.decode import Drafting, exact_match, lookahead_of, speculate
from slem_demo.engine.run import Clock, Events, Model, Prompts, Run
from slem_demo.engine.sampling import Chosen, Place, filtered
from slem_demo.trace import Reason, Request


@dataclass(frozen=True)
class Intersection:
    """The tokens of equal bytes in two vocabularies, and the two end tokens.

    `draft_ids` and `target_ids`, int64 [shared]: the same token in either. Of several ids with the same bytes, those of the same rank meet.
    """

    draft_ids: Tensor
    target_ids: Tensor

    @classmethod
    def of(cls, target: Model, drafter: Model) -> Intersection:
        pairs = {}
        ids_of = {key: i for i, key in enumerate(target.token_keys.tolist()) if target.codec.vocab[i]}
        for i, key in enumerate(drafter.token_keys.tolist()):
            if key in ids_of and drafter.codec.vocab[i]:
                pairs[i] = ids_of[key]
        if target.eos_ids and drafter.eos_ids:
            pairs[min(drafter.eos_ids)] = min(target.eos_ids)
        device = target.token_keys.device
        return cls(torch.tensor(list(pairs), dtype=torch.int64, device=device), torch.tensor(list(pairs.values()), device=device))

    def __len__(self) -> int:
        return len(self.draft_ids)


def tli(
    target: Model, drafter: Model, shared: Intersection, prompts: Prompts, request: Request, clock: Clock = time.perf_counter
) -> Events:
    """The same rounds and events as `decode.slem`; the same seed and settings write the same ids again."""
    run = Run(target, prompts.target_ids, request, clock)
    dice = Dice(run, shared)
    judge = exact_match(run) if request.temperature == 0 else dice.judge
    yield from speculate(run, Drafting(drafter, dice.choose, lookahead_of(request), dice.translate), prompts, judge)


@dataclass
class Dice:
    """The drafter's choice among shared tokens, and the judgement that makes up for it."""

    run: Run
    shared: Intersection
    _drawn: list[Tensor] = field(default_factory=list)  # float64 [shared]: the distribution of each token of this round's draft

    def __post_init__(self) -> None:
        seed = int.from_bytes(hashlib.blake2b(self.run.key, digest_size=7, person=b"slem tli").digest(), "little")
        self._generator = torch.Generator(self.shared.draft_ids.device).manual_seed(seed)
        self._index = {token: i for i, token in enumerate(self.shared.draft_ids.tolist())}

    def choose(self, logits: Tensor, _: Place) -> Chosen:
        """The drafter's id among those that both have. `logits` [vocabulary]."""
        scores = logits.to(self.shared.draft_ids.device)[self.shared.draft_ids].double()
        if self.run.request.temperature == 0:
            at = int(scores.argmax())
        else:
            scores = self._filtered(scores)
            self._drawn.append(scores.softmax(-1))
            at = self._draw(self._drawn[-1])
        return Chosen(int(self.shared.draft_ids[at]), scores, at)

    def translate(self, draft_ids: list[int]) -> tuple[list[int], Reason | None]:
        if self.run.output.pending:  # the drafter begins the character again
            self._drawn.clear()
            return [], Reason.INSIDE_CHARACTER
        return [int(self.shared.target_ids[self._index[i]]) for i in draft_ids], None

    def judge(self, logits: Tensor, candidate_ids: list[int]) -> list[int]:
        """Rejection sampling over the candidates. `logits` [n + 1, vocabulary]."""
        p = self._filtered(logits.to(self.shared.target_ids.device).double()).softmax(-1)
        drawn, self._drawn = self._drawn, []
        for n, candidate in enumerate(candidate_ids):
            q = torch.zeros_like(p[n]).index_add_(0, self.shared.target_ids, drawn[n])
            if self._uniform() * q[candidate] >= p[n, candidate]:
                return [*candidate_ids[:n], self._draw(residual(p[n], q))]
        return [*candidate_ids, self._draw(p[len(candidate_ids)])]

    def _filtered(self, scores: Tensor) -> Tensor:
        request = self.run.request
        rows = scores.view(-1, scores.shape[-1]) / request.temperature
        return filtered(rows, request.top_k, request.top_p).view(scores.shape)

    def _draw(self, weights: Tensor) -> int:
        return int(torch.multinomial(weights, 1, generator=self._generator))

    def _uniform(self) -> Tensor:
        return torch.rand((), dtype=torch.float64, device=self.shared.draft_ids.device, generator=self._generator)


def residual(p: Tensor, q: Tensor) -> Tensor:
    """Weights [vocabulary] of what a refused draw from `q` leaves to be drawn from `p`."""
    left = (p - q).clamp(min=0)
    return left if left.any() else p  # equal but for rounding
