"""SentencePiece models as fast tokenizers, for folders that hold a `tokenizer.model` and no `tokenizer.json`."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, processors
from transformers import PreTrainedTokenizerFast

from slem_demo.errors import SlemError

SPECIAL = ("bos_token", "eos_token", "unk_token", "pad_token")


def from_sentencepiece(file: Path) -> PreTrainedTokenizerFast:
    """BPE with byte fallback and one space before any text, as Llama 2 and Mistral have it.

    The settings in a `tokenizer_config.json` beside it are heeded: names of special tokens, BOS, chat template.

    Raises:
        SlemError: the package sentencepiece is not installed, or the file is of another kind.
    """
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError:
        raise SlemError("Reading a tokenizer.model needs the package sentencepiece; install it with pip.") from None
    try:
        spm = SentencePieceProcessor(model_file=str(file))
    except (OSError, RuntimeError):
        raise SlemError(f"{file} is no SentencePiece model.") from None
    pieces = [spm.id_to_piece(i) for i in range(spm.get_piece_size())]
    rank = {piece: i for i, piece in enumerate(pieces)}
    if not any(map(spm.is_byte, range(len(pieces)))):
        raise SlemError(f"{file} has no byte tokens; only SentencePiece models with byte fallback are supported.")
    merges: list[tuple[str, str]] = []
    for i in sorted(range(len(pieces)), key=lambda i: (-spm.get_score(i), i)):
        piece = pieces[i]
        if not (spm.is_control(i) or spm.is_byte(i) or spm.is_unknown(i)):
            merges += [(piece[:n], piece[n:]) for n in range(1, len(piece)) if piece[:n] in rank and piece[n:] in rank]
    tokenizer = Tokenizer(models.BPE(rank, merges, unk_token=pieces[spm.unk_id()], fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens([piece for i, piece in enumerate(pieces) if spm.is_control(i) or spm.is_unknown(i)])
    return _configured(tokenizer, file.with_name("tokenizer_config.json"))


def _configured(tokenizer: Tokenizer, file: Path) -> PreTrainedTokenizerFast:
    config = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    named = {name: config[name] if isinstance(config[name], str) else config[name]["content"] for name in SPECIAL if config.get(name)}
    bos = named.get("bos_token")
    if bos and config.get("add_bos_token"):
        begin = [(bos, tokenizer.token_to_id(bos))]
        tokenizer.post_processor = processors.TemplateProcessing(single=f"{bos} $A", pair=f"{bos} $A $B", special_tokens=begin)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, chat_template=config.get("chat_template"), **named)
