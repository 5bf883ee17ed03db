"""The two tokenizers: another algorithm each, another spelling of the space, another size."""

from __future__ import annotations

import json
import random
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

EOS = "<|end|>"


def stored_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast.from_pretrained(folder)


def target_tokenizer(texts: list[str], vocab_size: int = 4096) -> PreTrainedTokenizerFast:
    """Byte-level BPE, GPT-2 style: any string is representable and round-trips."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[EOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tok.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tok, eos_token=EOS, clean_up_tokenization_spaces=False)


def draft_tokenizer(texts: list[str], vocab_size: int = 3072) -> PreTrainedTokenizerFast:
    """Unigram with Metaspace and byte fall-back: another algorithm, another spelling of the space."""
    byte_tokens = [f"<0x{b:02X}>" for b in range(256)]
    tok = Tokenizer(models.Unigram())
    tok.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="never", split=True)
    trainer = trainers.UnigramTrainer(
        vocab_size=vocab_size - len(byte_tokens), special_tokens=["<unk>", EOS], unk_token="<unk>", show_progress=False
    )
    tok.train_from_iterator(texts, trainer)
    spec = json.loads(tok.to_str())
    floor = min(score for _, score in spec["model"]["vocab"]) - 10
    spec["model"]["vocab"] += [[token, floor] for token in byte_tokens]
    spec["model"]["byte_fallback"] = True
    spec["decoder"] = {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
        ],
    }
    tok = Tokenizer.from_str(json.dumps(spec))
    return PreTrainedTokenizerFast(tokenizer_object=tok, eos_token=EOS, unk_token="<unk>", clean_up_tokenization_spaces=False)


def token_stream(tokenizer: PreTrainedTokenizerFast, texts: list[str], seed: int) -> torch.Tensor:
    """One id tensor: the texts in a shuffled order, each followed by the end token."""
    order = random.Random(seed).sample(range(len(texts)), len(texts))
    encoded = tokenizer([texts[i] for i in order], add_special_tokens=False)["input_ids"]
    return torch.tensor([i for ids in encoded for i in [*ids, tokenizer.eos_token_id]])
