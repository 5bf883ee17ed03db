"""An ideal drafter: it writes the target's own continuation in its own vocabulary. What is refused then is the bridge's fault.

python -m tests.real.ideal [--targets A,B] [--drafts C,D] [--k 1 5]      # the table of all pairs
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cache, cached_property

import torch
from torch import Tensor

from slem_demo.engine import bridge
from slem_demo.engine.bridge import unfinished
from slem_demo.engine.decode import slem
from slem_demo.engine.run import Prompts
from slem_demo.models.codec import HubCodec
from slem_demo.trace import Request, RoundEvent, StopEvent
from tests.real.families import BUILD, codec
from tests.real.texts import TEXTS

PROMPT = "Text 7"  # ends where every tokenizer has a boundary


@dataclass
class Knowing:
    """A model that knows what comes after its prompt, in its own ids."""

    codec: HubCodec
    prompt_ids: Sequence[int]
    text: str
    eos_ids: frozenset[int] = frozenset()
    max_context: int = 100_000

    @property
    def token_keys(self) -> Tensor:
        return self.codec.token_keys

    def one(self, token: int) -> Tensor:
        row = torch.zeros(1, len(self.codec.vocab))
        row[0, token] = 1.0
        return row


@dataclass
class Author(Knowing):
    """The target: writes the ids that its tokenizer gives to prompt and text."""

    @cached_property
    def ids(self) -> list[int]:
        return self.codec.encode(PROMPT + self.text)

    def logits(self, ids: Sequence[int], n: int) -> Tensor:
        first = len(ids) - n + 1
        return torch.cat([self.one(self.ids[min(first + row, len(self.ids) - 1)]) for row in range(n)])


@dataclass
class Copyist(Knowing):
    """The drafter: the next of its tokens that spells what comes, as its tokenizer would write it in its place."""

    @cached_property
    def truth(self) -> bridge.Encoded:
        found = bridge.encode_exactly(self.codec, PROMPT + self.text)
        assert found is not None
        return found

    def logits(self, ids: Sequence[int], n: int) -> Tensor:
        assert n == 1
        written = sum(len(self.codec.vocab[i]) for i in ids) - self.truth.lead
        ahead, rest = self.truth.after(written), (PROMPT + self.text).encode()[written:]
        if not rest:
            return self.one(next((i for i, data in enumerate(self.codec.vocab) if not data), 0))  # the text is over
        if ahead is None and not 0x80 <= rest[0] < 0xC0:
            ahead = bridge._alone(self.codec, rest.decode())
        return self.one(ahead.ids[0] if ahead else next(i for i, data in enumerate(self.codec.vocab) if data == rest[:1]))


@dataclass
class Counts:
    """Candidates of one pair, and rounds without a candidate, by reason.

    What the draft's end may change is refused for no fault of the bridge: the last candidate (`cut`), and others of the unfinished last
    piece of text (`recut`), which is a word, or in scripts without spaces a phrase. `refused` are all others.
    """

    accepted: int = 0
    cut: int = 0
    recut: int = 0
    refused: int = 0
    rounds: int = 0
    rounds_inside: int = 0  # begun inside a character
    accepted_inside: int = 0  # candidates accepted in those
    silent: Counter[str] = field(default_factory=Counter)
    refusals: list[str] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Accepted, of the candidates that the draft's end can't change."""
        return self.accepted / max(1, self.accepted + self.refused)

    @property
    def strict_share(self) -> float:
        """Accepted, of all candidates but the cut last one."""
        return self.accepted / max(1, self.accepted + self.recut + self.refused)

    def __add__(self, other: Counts) -> Counts:
        return Counts(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})

    def add(self, r: RoundEvent, before: bytes, codec: HubCodec) -> None:
        """One round behind the committed bytes. What lies behind a draft's last safe start may be cut otherwise when more text follows."""
        candidate, is_inside = r.candidate or (), unfinished(before) > 0
        self.rounds += 1
        self.rounds_inside += is_inside
        self.accepted += r.n_accepted
        self.accepted_inside += is_inside * r.n_accepted
        if r.reason:
            self.silent[r.reason.value] += 1
        if r.n_accepted < len(candidate) and r.own is not None:
            before += b"".join(token.bytes for token in candidate[: r.n_accepted])
            rest = b"".join(token.bytes for token in candidate[r.n_accepted :])
            text = before.decode("utf-8", "ignore")[-40:]
            seen = f"{text[-20:]!r} + {[t.text for t in candidate[r.n_accepted :]]} ≠ {r.own.text!r}"
            whole = text + (before[len(before) - unfinished(before) :] + rest).decode("utf-8", "ignore")
            if r.n_accepted == len(candidate) - 1:
                self.cut += 1
            elif any(start > len(text) for start in codec.starts(whole)):
                self.refused += len(candidate) - r.n_accepted
                self.refusals.append(seen)
            else:
                self.recut += len(candidate) - r.n_accepted


@cache
def measure(target: str, draft: str, name: str, k: int) -> Counts:
    """One text, one pair of families. Fails if the output is not the target's own."""
    author = Author(codec(target), codec(target).encode(PROMPT), TEXTS[name])
    copyist = Copyist(codec(draft), codec(draft).encode(PROMPT), TEXTS[name])
    n_prompt = len(author.prompt_ids)
    assert author.ids[:n_prompt] == author.prompt_ids
    request = Request.checked(pair="ideal", prompt=PROMPT, k=k, max_new_tokens=len(author.ids) - n_prompt)
    *events, stop = slem(author, copyist, Prompts(author.prompt_ids, copyist.prompt_ids), request)
    assert isinstance(stop, StopEvent) and list(stop.output_ids) == author.ids[n_prompt:], (target, draft, name)
    counts, before = Counts(), PROMPT.encode()
    for event in events:
        if isinstance(event, RoundEvent):
            counts.add(event, before, author.codec)
            before += b"".join(token.bytes for token in event.committed)
    return counts


def measure_all(target: str, draft: str, ks: Sequence[int] = (1, 5)) -> Counts:
    """All texts of one pair."""
    return sum((measure(target, draft, name, k) for name in TEXTS for k in ks), Counts())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--targets", default=",".join(BUILD))
    parser.add_argument("--drafts", default=",".join(BUILD))
    parser.add_argument("--k", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--examples", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    for target in args.targets.split(","):
        row = {draft: measure_all(target, draft, args.k) for draft in args.drafts.split(",") if draft != target}
        whole = sum(row.values(), Counts())
        print(
            f"{target}: {whole.share:.2%} accepted ({whole.accepted}), {whole.strict_share:.2%} with recut ones; cut {whole.cut}, recut {whole.recut}, refused {whole.refused};"
            f" {whole.rounds_inside} of {whole.rounds} rounds begin inside a character, {whole.accepted_inside} accepted there; {dict(whole.silent)}"
        )
        print("   ", "  ".join(f"{draft} {counts.share:.1%} ({counts.strict_share:.1%})" for draft, counts in row.items()), flush=True)
        for example in whole.refusals[: args.examples]:
            print("       ", example)


if __name__ == "__main__":
    main()
