"""The prompts that are measured: named sets and files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slem_demo.benchmark.prompt_sets import PromptSet, default_sets, load_sets, names, read_prompts
from slem_demo.errors import SlemError
from slem_demo.models.builtin.corpus import load_prompts
from slem_demo.models.loading import Pair
from slem_demo.models.pairs import ASSETS, PAIRS


def test_every_set_is_whole() -> None:
    assert names() == ["code", "instructions", "openings", "prose", "stories"]
    for prompt_set in load_sets(",".join(names())):
        assert len(set(prompt_set.prompts)) == 16 and all(p.strip() for p in prompt_set.prompts)
        assert prompt_set.about and prompt_set.licence
        assert prompt_set.chat == (prompt_set.name in ("instructions", "stories"))
    for pair in PAIRS:
        assert load_sets(default_sets(pair))


def test_nothing_that_is_measured_was_learnt_from() -> None:
    openings, stories, instructions = load_sets("openings,stories,instructions")
    assert openings.prompts == tuple(load_prompts())
    prompts = json.loads((ASSETS / "smollm2" / "prompts.json").read_text(encoding="utf-8"))
    assert {*stories.prompts, *instructions.prompts} <= set(prompts["held_out"])
    assert not set(prompts["held_out"]) & set(prompts["training"])
    assert not set(stories.prompts) & set(instructions.prompts)


def test_a_context_of_so_many_tokens_stands_before_each_prompt(builtin: Pair) -> None:
    (prose,) = load_sets("prose")
    codec = builtin.target.codec
    behind = prose.after(codec, 50)
    assert [text.split("\n\n")[-1] for text in behind] == list(prose.prompts)
    assert prose.context.endswith(behind[0].removesuffix(f"\n\n{prose.prompts[0]}"))
    assert prose.after(codec, None) == prose.prompts
    with pytest.raises(SlemError, match="have a context of 0 tokens; 10 were asked for"):
        PromptSet("none", "", "", chat=False, prompts=("a",)).after(codec, 10)


@pytest.mark.parametrize(("content", "prompts"), [('["a", "b c"]', ("a", "b c")), ("one\n\ntwo\n", ("one", "two"))])
def test_prompts_files(content: str, prompts: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "p").write_text(content, encoding="utf-8")
    assert read_prompts(tmp_path / "p") == prompts
    assert load_sets(str(tmp_path / "p"))[0].prompts == prompts


@pytest.mark.parametrize("content", ["", "[]", "[1]", "[", "\n\n"])
def test_bad_prompts_files(content: str, tmp_path: Path) -> None:
    (tmp_path / "p").write_text(content, encoding="utf-8")
    with pytest.raises(SlemError):
        load_sets(str(tmp_path / "p"))


@pytest.mark.parametrize("text", ["", "nothing", "prose,nothing", "/no/such/file", "../assets/prompts/prose"])
def test_an_unknown_set_is_refused(text: str) -> None:
    with pytest.raises(SlemError, match="There are no prompts"):
        load_sets(text)
