"""One word for a method with settings of its own; and no lever changes an id."""

from __future__ import annotations

import pytest

from slem_demo.benchmark import Variant
from slem_demo.errors import SlemError
from slem_demo.models.cached import HubReader
from slem_demo.models.lean import LeanReader, PackedLinear
from slem_demo.models.loading import Lever, Pair
from slem_demo.models.step import StepReader
from slem_demo.trace import Method, Request
from tests.models.test_difference import ids_of

REQUEST = Request.checked(pair="builtin", prompt="And the LORD spake unto Moses, saying", max_new_tokens=32)


@pytest.mark.parametrize(
    "text",
    ["target", "slem", "slem@6", "slem@auto:independent", "tli@3", "hf@4", "generate", "slem-int8", "slem@2:greedy-lean", "target-packed"],
)
def test_a_variant_is_written_as_it_is_read(text: str) -> None:
    assert str(Variant.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("magic", "There is no method 'magic'"),
        ("slem@", "There is no method"),
        ("slem@-1", "There is no method"),
        ("slem-turbo", "There is no method"),
        ("target@3", "target has no such K"),
        ("hf@auto", "hf has no such K"),
        ("tli:shared", "only slem has a choice"),
        ("hf-lean", "hf is computed without lean"),
        ("target-int8", "target is computed without int8"),
        ("", "There is no method"),
    ],
)
def test_what_no_method_has_is_refused(text: str, message: str) -> None:
    with pytest.raises(SlemError, match=message):
        Variant.parse(text)


def test_a_variant_changes_only_what_it_names() -> None:
    base = Request.checked(pair="builtin", prompt="x", k=5, temperature=0.5)
    assert Variant.parse("slem").request(base) == base
    assert Variant.parse("slem@auto:greedy").request(base) == base.model_copy(update={"k": "auto", "draft_noise": "greedy"})
    assert Variant.parse("tli").request(base) == base.model_copy(update={"method": Method.TLI})
    with pytest.raises(SlemError, match="k: "):
        Variant.parse("slem@99").request(base)


def test_a_lever_that_is_off_is_off(builtin: Pair) -> None:
    lean, packed, int8, compiled = (builtin.without(lever) for lever in Lever)
    assert isinstance(lean.target.reader(), HubReader) and isinstance(lean.draft.rough_reader(), HubReader)
    for pair, is_packed in ((builtin, True), (packed, False)):
        reader = pair.target.reader()
        assert isinstance(reader, LeanReader) and isinstance(reader.llama.head, PackedLinear) == is_packed
    assert [pair.draft_info.compute for pair in (builtin, lean, packed, int8, compiled)] == [
        "int8 weights",
        "float32",
        "int8 weights",
        "float32",
        "int8 weights",
    ]
    assert [type(pair.draft.rough_reader()) for pair in (builtin, compiled)] == [StepReader, LeanReader]
    assert builtin.target.without == frozenset(), "the pair itself is as it was"


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize(
    "text", [*(f"slem-{lever}" for lever in Lever), "target-lean", "target-packed", "slem@auto", "slem:greedy", "slem:independent"]
)
def test_no_lever_changes_an_id(builtin: Pair, text: str, temperature: float) -> None:
    variant, base = Variant.parse(text), REQUEST.model_copy(update={"temperature": temperature, "seed": 4})
    wanted = ids_of(builtin, base.model_copy(update={"method": Method.TARGET}))
    assert ids_of(variant.pair(builtin), variant.request(base)) == wanted
