"""How a draft for SmolLM2 is made: its tokenizer, its lessons, its training. The built-in target stands in for SmolLM2."""

from __future__ import annotations

import hashlib
import json

import pytest
import torch

from slem_demo.models.builtin.corpus import load_corpus
from slem_demo.models.builtin.training import Schedule, stored
from slem_demo.models.codec import HubCodec
from slem_demo.models.pairs import ASSETS
from slem_demo.models.smollm2.card import card_text
from slem_demo.models.smollm2.tokenizer import pruned
from slem_demo.models.smollm2.training import IGNORED, first_pieces, lesson, new_draft, stream_of, train
from slem_demo.models.smollm2.writing import N_BEST, Answer, Plan, label, write_answers

FOLDER = ASSETS / "smollm2"
TARGET_LM, TARGET_TOKENIZER = stored(ASSETS / "builtin" / "target")
TARGET = HubCodec(TARGET_TOKENIZER, len(TARGET_TOKENIZER))
TEXTS = [text[:400] for text in load_corpus()[0][:20]]
ANSWERS = [
    Answer("Who built it?", "And the king built the house of the LORD.", complete=True),
    Answer("Say more.", "Unrighteousness and\n  lovingkindness: 日", complete=False),
]


def draft_codec(vocab_size: int = 400) -> HubCodec:
    tokenizer = pruned(TARGET_TOKENIZER, TEXTS, vocab_size)
    return HubCodec(tokenizer, len(tokenizer))


def test_a_pruned_tokenizer_holds_single_bytes_and_pieces_of_the_targets() -> None:
    draft = draft_codec()
    assert 257 < len(draft.vocab) <= 400
    pieces = set(TARGET.vocab)
    assert all(data in pieces for data in draft.vocab)
    assert {bytes([b]) for b in range(256)} <= set(draft.vocab)


@pytest.mark.parametrize("text", [*TEXTS[:5], "日本 😀\n\n  x", "<|end|>", "\x00\t"])
def test_a_pruned_tokenizer_writes_any_text(text: str) -> None:
    draft = draft_codec()
    assert b"".join(draft.vocab[i] for i in draft.encode(text)) == text.encode()


def test_with_all_pieces_it_is_the_targets_tokenizer() -> None:
    whole = pruned(TARGET_TOKENIZER, [TARGET_TOKENIZER.decode([i]) for i in range(len(TARGET_TOKENIZER))], len(TARGET_TOKENIZER) + 1)
    codec = HubCodec(whole, len(whole))
    for text in TEXTS[:5]:
        assert [codec.vocab[i] for i in codec.encode(text)] == [TARGET.vocab[i] for i in TARGET.encode(text)]


def test_a_target_token_is_guessed_by_the_draft_token_that_begins_it() -> None:
    draft = draft_codec()
    firsts = first_pieces(TARGET, draft).tolist()
    assert firsts[TARGET.tokenizer.eos_token_id] == draft.tokenizer.eos_token_id
    for data, first in zip(TARGET.vocab, firsts, strict=True):
        assert first == IGNORED or not data or data.startswith(draft.vocab[first])
    assert IGNORED not in [first for data, first in zip(TARGET.vocab, firsts, strict=True) if data]


def test_what_the_target_finds_likely_is_what_a_pass_over_the_answer_says() -> None:
    rows = list(label(TARGET_LM, TARGET, ANSWERS, n_rows=2))
    assert len(rows) == len(ANSWERS)
    for row in rows:
        assert b"".join(TARGET.vocab[i] for i in row.ids[row.n_before :]) == row.answer.text.encode()
        p = TARGET_LM(torch.tensor([row.ids])).logits[0].softmax(-1).topk(N_BEST)
        assert torch.allclose(row.best_p.float(), p.values, atol=2e-3)
        assert (row.best_ids[:, 0] == p.indices[:, 0]).float().mean() > 0.95  # but for near-ties


def test_a_lesson_teaches_the_targets_probabilities_where_its_tokens_begin_and_the_text_elsewhere() -> None:
    draft = draft_codec()
    firsts = first_pieces(TARGET, draft)
    n_soft = n_hard = 0
    for row in label(TARGET_LM, TARGET, ANSWERS):
        taught = lesson(TARGET, draft, firsts, row)
        assert torch.allclose(taught.best_p[:-1].sum(-1), torch.ones(len(taught.ids) - 1), atol=2e-3)
        answer_ids = draft.encode(row.answer.text)
        start = len(taught.ids) - len(answer_ids) - row.answer.complete
        assert taught.ids[start : start + len(answer_ids)].tolist() == answer_ids
        ends = {0}
        for i in row.ids[row.n_before :]:
            ends.add(max(ends) + len(TARGET.vocab[i]))
        place = 0
        for j, token in enumerate(answer_ids):
            wanted, p = taught.best_ids[start - 1 + j], taught.best_p[start - 1 + j]
            if place in ends:
                at = row.n_before - 1 + sorted(ends).index(place)
                best = int(row.best_ids[at, 0])
                assert int(wanted[0]) == firsts[best]
                assert float(p[0]) >= float(row.best_p[at, 0]) - 2e-3
                n_soft += 1
            else:
                assert (int(wanted[0]), float(p[0])) == (token, 1.0)
                n_hard += 1
            place += len(draft.vocab[token])
        if row.answer.complete:
            assert taught.ids[-1] == draft.tokenizer.eos_token_id
    assert n_soft > 10 and n_hard > 10


def test_twenty_steps_lower_the_loss_and_repeat_exactly() -> None:
    draft = draft_codec()
    firsts = first_pieces(TARGET, draft)
    stream = stream_of((lesson(TARGET, draft, firsts, row) for row in label(TARGET_LM, TARGET, ANSWERS * 3)), seed=0)
    losses = []
    for _ in range(2):
        torch.manual_seed(0)
        losses.append(train(new_draft(draft.tokenizer), stream, Schedule(steps=20, batch=4, window=24, lr=4e-3, warmup=5), seed=0))
    assert losses[0] == losses[1]
    assert sum(losses[0][-4:]) < 0.8 * sum(losses[0][:4])


def test_answers_are_the_targets_greedy_words_after_a_sampled_lead() -> None:
    prompts = ["And God said", "In the beginning"]
    answers = list(write_answers(TARGET_LM, TARGET, prompts, Plan(leads=(0, 3), new=6, batch=2), seed=1))
    assert sorted(answer.prompt for answer in answers) == sorted(prompts * 2)
    assert answers == list(write_answers(TARGET_LM, TARGET, prompts, Plan(leads=(0, 3), new=6, batch=2), seed=1))
    assert [Answer.from_json(answer.to_json()) for answer in answers] == answers


def test_files_are_small_and_are_those_of_the_card() -> None:
    card = json.loads((FOLDER / "card.json").read_text(encoding="utf-8"))
    assert max(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 10e6
    assert hashlib.sha256((FOLDER / "draft" / "model.safetensors").read_bytes()).hexdigest() == card["weights_sha256"]
    for name, digest in card["data"].items():
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == digest
    assert (FOLDER / "README.md").read_text(encoding="utf-8") == card_text(card)
    assert min(card["mean_acceptance_length"].values()) > 1.3
