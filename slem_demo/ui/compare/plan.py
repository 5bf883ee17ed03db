"""What is to be compared, checked."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from slem_demo.benchmark import Case, Variant, requests
from slem_demo.benchmark.prompt_sets import PromptSet, load_sets, names
from slem_demo.errors import SlemError
from slem_demo.models.loading import Pair
from slem_demo.trace import Method, Request

TARGET = Variant(Method.TARGET)


OWN = "one prompt of your own"


OWN_SET = "your prompt"  # what its cases are called


MAX_METHODS, MAX_WITHOUT, MAX_REPEATS, MAX_PROMPTS = 12, 2, 5, 16


@dataclass(frozen=True)
class Plan:
    """What is to be measured, checked. `set_name` is one of `prompt_sets.names()` or `OWN`."""

    pair: str
    variants: tuple[Variant, ...]
    set_name: str
    n_prompts: int
    prompt: str
    settings: Mapping[str, object]
    repeats: int

    @classmethod
    def checked(cls, values: Sequence[Any]) -> Self:
        """From the controls' values, whatever a client posted.

        Raises:
            SlemError: one of them is out of range, or a method can't run with these settings.
        """
        pair, methods, more, set_name, n_prompts, prompt, max_new_tokens, temperature, seed, repeats = values
        if set_name not in (OWN, *names()):
            raise SlemError(f"There are no prompts {set_name!r}; there is {', '.join(names())}.")
        settings = {"max_new_tokens": max_new_tokens, "temperature": temperature, "seed": seed}
        checked = Request.checked(pair=pair, prompt=prompt if set_name == OWN else "x", **settings)
        return cls(
            checked.pair,
            chosen(methods or [], more or "", checked.temperature),
            set_name,
            _whole("How many prompts", n_prompts, MAX_PROMPTS),
            checked.prompt,
            {name: getattr(checked, name) for name in settings},
            _whole("Repeats", repeats, MAX_REPEATS),
        )

    def requests(self, pair: Pair) -> dict[Case, Request]:
        """One a prompt. Raises SlemError if one does not fit the pair."""
        own = PromptSet(OWN_SET, "", "", chat=False, prompts=(self.prompt,))
        sets = [own] if self.set_name == OWN else [s.begun(self.n_prompts) for s in load_sets(self.set_name)]
        return requests(pair, sets, self.settings)

    @property
    def command(self) -> str:
        """The same measurement in a shell; none for a prompt of one's own, which would have to be a file."""
        if self.set_name == OWN:
            return ""
        words = ["python", "-m", "slem_demo", "bench", "--pair", self.pair, "--methods", ",".join(map(str, self.variants))]
        words += ["--prompts", self.set_name, "--first", str(self.n_prompts), "--repeats", str(self.repeats)]
        for name, value in self.settings.items():
            if value != Request.model_fields[name].default:
                words += [f"--{name.replace('_', '-')}", f"{value:g}" if isinstance(value, float) else str(value)]
        return shlex.join(words)

    @property
    def in_words(self) -> str:
        prompts = OWN if self.set_name == OWN else f"the first {plural(self.n_prompts, 'prompt')} of “{self.set_name}”"
        dice = f"temperature {self.settings['temperature']:g}, seed {self.settings['seed']}" if self.settings["temperature"] else "greedy"
        length = f"{self.settings['max_new_tokens']} new tokens"
        return " · ".join([self.pair, prompts, length, dice, *[f"{self.repeats} times each"] * (self.repeats > 1)])


def chosen(methods: Sequence[str], more: str, temperature: float) -> tuple[Variant, ...]:
    """The target, then every named variant once.

    Raises:
        SlemError: there is none, too many, or one that can't run at this temperature.
    """
    words = [*methods, *more.replace(",", " ").split()]
    found = tuple(dict.fromkeys([TARGET, *map(Variant.parse, words)]))
    if len(found) == 1:
        raise SlemError("Choose at least one method: the target alone has nothing to be compared with.")
    if len(found) > MAX_METHODS:
        raise SlemError(f"{len(found)} methods were chosen; {MAX_METHODS} at a time are compared here.")
    if sum(variant.without is not None for variant in found) > MAX_WITHOUT:
        raise SlemError(f"At most {MAX_WITHOUT} methods with a lever off at a time: each needs the weights once more.")
    greedy = [str(variant) for variant in found if variant.method in (Method.HF, Method.GENERATE)]
    if temperature and greedy:
        raise SlemError(f"{greedy[0]} is greedy only: set the temperature to 0, or leave it out.")
    return found


def _whole(name: str, value: object, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value) or not 1 <= value <= most:
        raise SlemError(f"{name} must be a whole number from 1 to {most} (got {value!r}).")
    return int(value)


def plural(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"
