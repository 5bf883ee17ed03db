"""What happened, as frozen values. Everything on screen, in a table, in a report or in a test comes from a `Trace`.

Facts only: rates, speedups and fates are derived (`metrics.py`, `views/`), so they cannot disagree with the rounds.
Times are seconds. `None` means unknown; an empty tuple or 0 means "none".
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_serializer, field_validator, model_validator

from slem_demo.errors import SlemError

SCHEMA_VERSION = 1  # of `Trace.schema_version`


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


Seconds = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]


class Method(StrEnum):
    """Ways of decoding with one pair; all but `generate` write the same events."""

    TARGET = "target"
    SLEM = "slem"
    TLI = "tli"
    HF = "hf"
    GENERATE = "generate"


class Reason(StrEnum):
    """Why a round proposed nothing and was a plain target step. The list is closed."""

    TARGET_ONLY = "target_only"
    K_ZERO = "k_zero"
    NOT_WORTH = "not_worth"
    LAST_TOKEN = "last_token"
    DRAFTER_CONTEXT = "drafter_context"
    DRAFTER_ROUND_TRIP = "drafter_round_trip"
    NO_DRAFT_TEXT = "no_draft_text"
    UNFINISHED_CHARACTER = "unfinished_character"
    INSIDE_CHARACTER = "inside_character"
    NO_BOUNDARY = "no_boundary"
    TARGET_ROUND_TRIP = "target_round_trip"


REASON_TEXT: dict[Reason, str] = {
    Reason.TARGET_ONLY: "this method does not draft",
    Reason.K_ZERO: "K is 0, so nothing was drafted",
    Reason.NOT_WORTH: "plain steps are quicker here, so drafting pauses",
    Reason.LAST_TOKEN: "only one token was left to write",
    Reason.DRAFTER_CONTEXT: "the draft model's context has no room for a draft",
    Reason.DRAFTER_ROUND_TRIP: "the draft's tokenizer cannot write the text so far exactly",
    Reason.NO_DRAFT_TEXT: "the draft model proposed no text",
    Reason.UNFINISHED_CHARACTER: "the draft ended inside a character",
    Reason.INSIDE_CHARACTER: "the text so far ends inside a character, which the draft does not continue",
    Reason.NO_BOUNDARY: "the target's tokenizer has no token boundary where the draft begins",
    Reason.TARGET_ROUND_TRIP: "the target's tokenizer cannot write the drafted text exactly",
}


class StopReason(StrEnum):
    EOS = "eos"
    STOP_STRING = "stop_string"
    LENGTH = "length"


DraftNoise = Literal["greedy", "independent", "shared"]  # how a draft is chosen at a temperature: its dice are none, its own, the target's


class Request(Frozen):
    """What was asked for. Built by `Request.checked`, which turns a bad value into one readable sentence."""

    pair: str
    prompt: str
    chat: bool = False
    system: str = ""
    method: Method = Method.SLEM
    max_new_tokens: Annotated[int, Field(ge=1, le=8192)] = 128
    k: Annotated[int, Field(ge=0, le=64)] | Literal["auto"] = 4
    temperature: Annotated[float, Field(ge=0, le=10)] = 0.0
    top_k: Annotated[int, Field(ge=1)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    stop: tuple[str, ...] = ()
    draft_noise: DraftNoise = "shared"
    alternatives: Annotated[int, Field(ge=0, le=20)] = 0

    @field_validator("prompt")
    @classmethod
    def _prompt_is_text(cls, prompt: str) -> str:
        if not prompt.strip():
            raise ValueError("it is empty: write some text for the models to continue")
        return _encodable(prompt)

    @field_validator("system")
    @classmethod
    def _system_is_text(cls, system: str) -> str:
        return _encodable(system)

    @field_validator("stop")
    @classmethod
    def _stops_are_text(cls, stop: tuple[str, ...]) -> tuple[str, ...]:
        if any(not s for s in stop):
            raise ValueError("a stop string is empty")
        return tuple(_encodable(s) for s in stop)

    @classmethod
    def checked(cls, **fields: object) -> Self:
        """A validated request.

        Raises:
            SlemError: names the field that is wrong, the value, and what is allowed.
        """
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            raise SlemError(_sentence(error)) from None


class Token(Frozen):
    """One id of one vocabulary. `text` is for people (incomplete characters as U+FFFD); `bytes` is what counts."""

    id: int
    text: str
    bytes: builtins.bytes

    @field_serializer("bytes", when_used="json")
    def _hex(self, value: builtins.bytes) -> str:
        return value.hex()

    @field_validator("bytes", mode="before")
    @classmethod
    def _from_hex(cls, value: object) -> object:
        return builtins.bytes.fromhex(value) if isinstance(value, str) else value


class Alternative(Frozen):
    """A token that the target could have chosen, with its probability at the run's temperature (1 when greedy)."""

    token: Token
    probability: Annotated[float, Field(ge=0, le=1.001)]


class Position(Frozen):
    """One tested position: the candidate's probability (None after the last), the target's best, and its choice if that is another."""

    candidate_probability: Annotated[float, Field(ge=0, le=1.001)] | None
    alternatives: tuple[Alternative, ...]


class PrefillEvent(Frozen):
    """Both models have read the prompt but its last id. `None`: no such model in this method, or it does not say."""

    event: Literal["prefill"] = "prefill"
    target_prompt_ids: tuple[int, ...]
    draft_prompt_ids: tuple[int, ...] | None
    target_s: Seconds | None
    draft_s: Seconds | None

    @property
    def seconds(self) -> float:
        """Of both models, as far as they are known."""
        return (self.target_s or 0.0) + (self.draft_s or 0.0)


class RoundEvent(Frozen):
    """One target pass: what was proposed, how much of it the target kept, and the target's own next token.

    `draft`, `draft_text` and `candidate` are empty when nothing was proposed (`reason` says why). `own` is None when the run
    ended inside the accepted candidates. `text` is what became certain in this round: an unfinished character waits.
    Where a method does not show its candidates, `candidate` is None and `accepted` holds those that were kept.
    """

    event: Literal["round"] = "round"
    round: Count
    draft: tuple[Token, ...] | None = ()
    draft_text: str | None = ""
    candidate: tuple[Token, ...] | None = ()
    accepted: tuple[Token, ...] | None = None
    n_accepted: Count
    own: Token | None
    text: str
    reason: Reason | None = None
    draft_s: Seconds | None = None
    retokenise_s: Seconds | None = None
    verify_s: Seconds | None = None
    round_s: Seconds
    positions: tuple[Position, ...] | None = None

    @model_validator(mode="after")
    def _accepts_what_was_sent(self) -> Self:
        sent = (self.accepted or ()) if self.candidate is None else self.candidate
        if self.n_accepted > len(sent):
            raise ValueError(f"{self.n_accepted} candidates were accepted of {len(sent)}")
        return self

    @property
    def committed(self) -> tuple[Token, ...]:
        """The tokens that this round added to the output."""
        kept = (self.accepted or ()) if self.candidate is None else self.candidate[: self.n_accepted]
        return kept if self.own is None else (*kept, self.own)


def n_accepted_draft(r: RoundEvent, n_pending: int) -> int:
    """Draft tokens of which every byte was accepted.

    `n_pending`: bytes of a character that the committed ids had begun; the draft repeats them.

        draft       | th|e| land|scape      candidates  | the| landsca|pe, the first accepted (4 bytes)
        ends at      3  4  9    14          → 2 draft tokens
    """
    left = n_pending + sum(len(token.bytes) for token in (r.candidate or ())[: r.n_accepted])
    n = 0
    for token in r.draft or ():
        left -= len(token.bytes)
        if left < 0 or (not token.bytes and r.n_accepted != len(r.candidate or ())):
            break
        n += 1
    return n


class StopEvent(Frozen):
    """The end. `tail` is text that had waited (an unfinished character), so all texts and the tail make `text`."""

    event: Literal["stop"] = "stop"
    reason: StopReason
    output_ids: tuple[int, ...]
    text: str
    tail: str


Event = PrefillEvent | RoundEvent | StopEvent
_EVENT: TypeAdapter[Event] = TypeAdapter(Event)


def event_of(data: dict[str, object]) -> Event:
    """The event whose `model_dump` is `data`."""
    return _EVENT.validate_python(data)


class ModelInfo(Frozen):
    """Which weights ran: `source` says where they came from, `revision` which version of them, `compute` in which numbers they ran."""

    name: str
    source: str
    revision: str | None
    vocab_size: int
    n_layers: int
    n_parameters: int
    compute: str


class Environment(Frozen):
    """Where it ran."""

    device: str
    dtype: str
    threads: int
    machine: str
    versions: dict[str, str]


class Trace(Frozen):
    """A run: a fold of its events. Without `stop` the run was interrupted and holds what had been written."""

    schema_version: Literal[1] = 1
    request: Request
    target: ModelInfo
    draft: ModelInfo | None
    environment: Environment
    prefill: PrefillEvent | None = None
    rounds: tuple[RoundEvent, ...] = ()
    stop: StopEvent | None = None

    def with_events(self, events: Iterable[Event]) -> Trace:
        """This trace and what `events` add to it."""
        prefill, rounds, stop = self.prefill, list(self.rounds), self.stop
        for event in events:
            match event:
                case PrefillEvent():
                    prefill = event
                case RoundEvent():
                    rounds.append(event)
                case StopEvent():
                    stop = event
        return self.model_copy(update={"prefill": prefill, "rounds": tuple(rounds), "stop": stop})

    @property
    def output_ids(self) -> tuple[int, ...]:
        return tuple(token.id for r in self.rounds for token in r.committed)

    @property
    def text(self) -> str:
        return "".join(r.text for r in self.rounds) + (self.stop.tail if self.stop else "")

    def to_json(self) -> str:
        return self.model_dump_json()

    @classmethod
    def from_json(cls, data: str | bytes) -> Trace:
        """The trace in `data`.

        Raises:
            SlemError: it is not JSON, not a trace, or of another schema version.
        """
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            first = error.errors()[0]
            if first["loc"] == ("schema_version",):
                raise SlemError(f"This trace has another schema version; version {SCHEMA_VERSION} is needed.") from None
            raise SlemError(f"This is not a trace of a run: {_sentence(error)}") from None


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it holds half of a surrogate pair, which is no character") from None
    return text


def _sentence(error: ValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if str(part).isidentifier() or isinstance(part, int)) or "file"
    message = first["msg"].removeprefix("Value error, ")
    value = first["input"]
    shown = f" (got {value!r})" if isinstance(value, int | float | None) or (isinstance(value, str) and len(value) < 40) else ""
    return f"{place}: {message}{shown}."
