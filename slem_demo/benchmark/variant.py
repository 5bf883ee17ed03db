"""A method with settings of its own, in one word: `slem`, `slem@6`, `slem@auto:independent`, `slem-int8`."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal, cast

from slem_demo.errors import SlemError
from slem_demo.models.loading import Lever, Pair
from slem_demo.trace import DraftNoise, Method, Request

GRAMMAR = re.compile(
    r"(?P<method>\w+)(@(?P<k>\d+|auto))?(:(?P<noise>greedy|independent|shared))?(-(?P<without>lean|packed|int8|compiled))?"
)
DRAFTING = (Method.SLEM, Method.TLI, Method.HF)
OURS = {Method.TARGET: (Lever.LEAN, Lever.PACKED), Method.SLEM: tuple(Lever), Method.TLI: tuple(Lever)}


@dataclass(frozen=True)
class Variant:
    """What differs from the benchmark's own settings: K, the draft's noise, a lever that is switched off."""

    method: Method
    k: int | Literal["auto"] | None = None
    noise: DraftNoise | None = None
    without: Lever | None = None

    @classmethod
    def parse(cls, text: str) -> Variant:
        """Reads `METHOD[@K|@auto][:NOISE][-LEVER]`.

        Raises:
            SlemError: it is written otherwise, or the method has no such setting.
        """
        match = GRAMMAR.fullmatch(text)
        if match is None or match["method"] not in list(Method):
            raise SlemError(
                f"There is no method {text!r}: write METHOD[@K|@auto][:greedy|:independent|:shared][-lean|-packed|-int8|-compiled], "
                f"METHOD one of {', '.join(Method)}."
            )
        method, k = Method(match["method"]), match["k"]
        if k and (method not in DRAFTING or (method is Method.HF and k == "auto")):
            raise SlemError(f"{text}: {method} has no such K.")
        if match["noise"] and method is not Method.SLEM:
            raise SlemError(f"{text}: only slem has a choice of noise for its draft.")
        without = Lever(match["without"]) if match["without"] else None
        if without and without not in OURS.get(method, ()):
            raise SlemError(f"{text}: {method} is computed without {without} as it is.")
        noise = cast("DraftNoise | None", match["noise"])
        return cls(method, "auto" if k == "auto" else int(k) if k else None, noise, without)

    def __str__(self) -> str:
        return (
            self.method
            + f"@{self.k}" * (self.k is not None)
            + f":{self.noise}" * bool(self.noise)
            + f"-{self.without}" * bool(self.without)
        )

    @property
    def family(self) -> Variant:
        """The same for every fixed K."""
        return self if self.k in (None, "auto") else replace(self, k=0)

    @property
    def whole(self) -> Variant:
        """The same with every lever."""
        return replace(self, without=None)

    def request(self, request: Request) -> Request:
        """The request in this variant."""
        own = {"k": self.k, "draft_noise": self.noise}
        fields = request.model_dump() | {"method": self.method} | {name: value for name, value in own.items() if value is not None}
        return Request.checked(**fields)

    def pair(self, pair: Pair) -> Pair:
        """The pair with the lever off."""
        return pair.without(self.without) if self.without else pair
