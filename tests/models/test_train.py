"""The training script: 30 steps on the real texts lower the loss, and what is exported is what was measured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from slem_demo.models.builtin.__main__ import SEED
from slem_demo.models.builtin.card import card_text
from slem_demo.models.builtin.corpus import chapters, load_corpus, load_prompts, opening, write_corpus
from slem_demo.models.builtin.tokenizers import draft_tokenizer, stored_tokenizer, target_tokenizer, token_stream
from slem_demo.models.builtin.training import (
    LoopSchedule,
    Samples,
    Schedule,
    continued,
    new_draft,
    repeats,
    stored,
    train,
    unlearn_loops,
    write_samples,
)
from slem_demo.models.pairs import ASSETS


def test_chapters_are_joined_from_verses() -> None:
    verses = ["Ge1:1 In the beginning.", "Ge1:2 And  the earth.\n", "Ge2:1 Thus."]
    assert list(chapters(verses)) == [("Ge1", "In the beginning. And the earth."), ("Ge2", "Thus.")]


def test_an_opening_ends_with_a_whole_word() -> None:
    assert opening("one two three four", n_chars=5) == "one two"
    assert opening("one", n_chars=5) == "one"


def test_held_out_chapters_are_not_trained_on_and_hardly_told_twice() -> None:
    texts, held_out = load_corpus()
    assert len(held_out) == 60
    assert not set(texts) & set(held_out)
    prompts = load_prompts()
    assert len(prompts) == 16
    assert all(any(text.startswith(prompt) for text in held_out) for prompt in prompts)


def test_the_corpus_file_is_reproducible(tmp_path: Path) -> None:
    verses = [f"B{chapter}:{verse} word{chapter} word{verse} and more words here now" for chapter in range(80) for verse in range(1, 9)]
    for name in ("a", "b"):
        write_corpus(verses, tmp_path / name)
    assert (tmp_path / "a" / "corpus.txt.gz").read_bytes() == (tmp_path / "b" / "corpus.txt.gz").read_bytes()


def test_the_targets_tokenizer_is_what_the_script_makes() -> None:
    texts, held_out = load_corpus()
    fresh, stored = target_tokenizer(texts), stored_tokenizer(ASSETS / "builtin" / "target")
    assert fresh.get_vocab() == stored.get_vocab()
    assert [fresh(text).input_ids for text in held_out[:10]] == [stored(text).input_ids for text in held_out[:10]]


def test_the_drafts_tokenizer_is_of_the_kind_that_the_script_makes() -> None:
    """The trainer of Unigram pieces does not repeat exactly (so the stored file is data, with its hash in the card)."""
    texts, _ = load_corpus()
    fresh, stored = draft_tokenizer(texts), stored_tokenizer(ASSETS / "builtin" / "draft")
    assert len(fresh) == len(stored)
    assert len(set(fresh.get_vocab()) ^ set(stored.get_vocab())) < 0.02 * len(stored)
    text = "And it came to pass\n  in those days: 日本 😀"
    assert stored.decode(stored(text).input_ids) == fresh.decode(fresh(text).input_ids) == text


def test_the_learning_rate_rises_stays_and_falls_and_windows_are_joined_at_the_end() -> None:
    schedule = Schedule(steps=1000, batch=8, window=256, lr=1.0, warmup=100, decay=0.2, n_joined=4)
    assert schedule.lr_at(0) == pytest.approx(0.01)
    assert schedule.lr_at(500) == 1.0
    assert schedule.lr_at(900) == pytest.approx(0.5)
    assert (schedule.shape_at(0), schedule.shape_at(900)) == ((8, 256), (2, 1024))


def test_thirty_steps_lower_the_loss_and_repeat_exactly() -> None:
    texts, _ = load_corpus()
    tokenizer = draft_tokenizer(texts[:200])
    stream = token_stream(tokenizer, texts[:200], SEED)
    schedule = Schedule(steps=30, batch=4, window=64, lr=5e-3, warmup=5)
    losses = []
    for _ in range(2):
        torch.manual_seed(SEED)
        losses.append(train(new_draft(tokenizer), stream, schedule, SEED))
    assert losses[0] == losses[1]
    assert sum(losses[0][-5:]) < 0.85 * sum(losses[0][:5])


def test_a_repeat_is_marked_where_it_is_complete() -> None:
    marks = repeats([[1, 2, 3, 1, 2, 3, 1, 2], [5, 5, 5, 5, 6, 5, 5, 5]], n=3, start=2)
    assert marks.tolist() == [[0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 0, 0, 0, 1]]
    assert repeats([[1, 2, 1, 2, 1, 2]], n=2, start=4).tolist() == [[0, 0, 0, 0, 1, 1]]


def test_unlearning_loops_makes_repeats_rarer() -> None:
    texts, _ = load_corpus()
    model, tokenizer = stored(ASSETS / "builtin" / "draft")
    stream = token_stream(tokenizer, texts[:200], SEED)
    schedule = LoopSchedule(steps=16, lr=2e-3, rows=8, prefix=16, new=64, n_gram=4, weight=1.0, text_rows=4, text_window=64)
    shares = unlearn_loops(model, stream, schedule, SEED)
    assert sum(shares[-4:]) < 0.6 * sum(shares[:4])


def test_samples_are_of_the_lengths_asked_for_and_begin_with_the_texts() -> None:
    texts, _ = load_corpus()
    tokenizer = draft_tokenizer(texts[:100])
    stream = token_stream(tokenizer, texts[:100], SEED)
    model = new_draft(tokenizer).eval()
    samples = Samples(n=4, prefix=3, lead=2, new=5, batch=2, temperatures=(0.0, 1.0))
    rows = list(write_samples(model, stream, samples, SEED))
    assert [len(row) for row in rows] == [10] * 4
    joined = " ".join(map(str, stream.tolist()))
    assert all(" ".join(map(str, row[:3])) in joined for row in rows)
    greedy = continued(model, torch.tensor([rows[0][:5]]), 5, temperature=0.0)
    assert greedy[0].tolist() == rows[0]
    assert rows == list(write_samples(model, stream, samples, SEED))


def test_the_whole_script_runs_in_a_few_steps(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "slem_demo.models.builtin", "--work", str(tmp_path), "--out", str(tmp_path / "out"), "--steps", "3"]
    done = subprocess.run(command, cwd=ASSETS.parent, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-2000:]
    card = json.loads((tmp_path / "out" / "card.json").read_text())
    assert card["data"] == json.loads((ASSETS / "builtin" / "card.json").read_text())["data"]
    assert (tmp_path / "out" / "target" / "model.safetensors").stat().st_size < 10e6
    assert card["target"]["parameters"] == json.loads((ASSETS / "builtin" / "card.json").read_text())["target"]["parameters"]
    assert (tmp_path / "out" / "README.md").read_text() == card_text(card)
