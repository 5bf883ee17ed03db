"""The shelf: a pair is loaded once, weights are shared, and the least recently used go when memory is short."""

from __future__ import annotations

from pathlib import Path

import pytest

import slem_demo
from slem_demo.errors import SlemError
from slem_demo.models.loading import LoadedModel, Pair, Placement, load_model
from slem_demo.models.pairs import Source
from slem_demo.models.shelf import Shelf
from tests.models import tiny

CPU = Placement("cpu", "float32")
SELF = "builtin-target::builtin-target"


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the models that were really loaded, in order."""
    names: list[str] = []

    def spy(source: Source, placement: Placement) -> LoadedModel:
        names.append(source.name)
        return load_model(source, placement)

    monkeypatch.setattr("slem_demo.models.shelf.load_model", spy)
    return names


def test_a_pair_is_loaded_when_first_asked_for_and_weights_are_shared(loads: list[str]) -> None:
    shelf = Shelf(["builtin", SELF], placement=CPU)
    assert loads == [] and not shelf.has("builtin")
    assert shelf.get("builtin") is shelf.get("builtin")
    assert shelf.get(SELF).draft is shelf.get("builtin").target
    assert loads == ["builtin-target", "builtin-draft"]


def test_the_least_recently_used_go_when_memory_is_short(tmp_path: Path, loads: list[str]) -> None:
    names = [f"{tiny.save('llama', tmp_path / letter, seed=i)}" for i, letter in enumerate("abc")]
    pairs = [f"{name}::{name}" for name in names]
    one = Shelf(pairs, placement=CPU).get(pairs[0]).target.n_bytes
    loads.clear()
    shelf = Shelf(pairs, max_bytes=2.5 * one, placement=CPU)
    for index in (0, 1, 0, 2):
        shelf.get(pairs[index])
    assert [shelf.has(pair) for pair in pairs] == [True, False, True], "the second was used longest ago"
    shelf.get(pairs[1])
    assert loads == [names[0], names[1], names[2], names[1]]


def test_a_pair_larger_than_the_cap_is_kept_while_it_is_the_only_one(loads: list[str]) -> None:
    shelf = Shelf(["builtin"], max_bytes=1, placement=CPU)
    assert shelf.get("builtin") is shelf.get("builtin")
    assert len(loads) == 2


def test_a_run_goes_on_while_its_pair_is_dropped(tmp_path: Path) -> None:
    names = [str(tiny.save("llama", tmp_path / letter, seed=i)) for i, letter in enumerate("ab")]
    pairs = [f"{name}::{name}" for name in names]
    shelf = Shelf(pairs, max_bytes=1, placement=CPU)
    running = slem_demo.decode(shelf.get(pairs[0]), "And God said", max_new_tokens=12)
    first = [next(running), next(running)]
    shelf.get(pairs[1])
    assert not shelf.has(pairs[0])
    events = [*first, *running]
    again = list(slem_demo.decode(shelf.get(pairs[0]), "And God said", max_new_tokens=12))
    assert events[-1] == again[-1]


def test_what_is_not_on_offer_is_refused_and_names_are_checked_at_once(builtin: Pair) -> None:
    shelf = Shelf.holding(builtin)
    assert shelf.get("builtin") is builtin
    with pytest.raises(SlemError, match="'some/model::other/model' is not on offer here; there is builtin"):
        shelf.get("some/model::other/model")
    with pytest.raises(SlemError, match="There is no pair 'nonsense'"):
        Shelf(["builtin", "nonsense"])


def test_after_a_failed_load_the_next_one_works(tmp_path: Path) -> None:
    folder = tiny.save("llama", tmp_path / "a")
    name = f"{folder}::{folder}"
    shelf = Shelf(["builtin", name], placement=CPU)
    weights = folder / "model.safetensors"
    kept = weights.read_bytes()
    weights.write_bytes(b"broken")
    with pytest.raises(SlemError, match="cannot be read"):
        shelf.get(name)
    assert shelf.get("builtin").name == "builtin"
    weights.write_bytes(kept)
    assert shelf.get(name).name == name
