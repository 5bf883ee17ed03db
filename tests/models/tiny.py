"""Tiny random models of several architectures, saved with a tokenizer as a folder a person could have."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    JambaConfig,
    LlamaConfig,
    MambaConfig,
    PreTrainedConfig,
    Qwen2Config,
    RwkvConfig,
)

from slem_demo.models.builtin.tokenizers import stored_tokenizer
from slem_demo.models.pairs import ASSETS

SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2}


def configs(vocab: int) -> dict[str, PreTrainedConfig]:
    shared = {"vocab_size": vocab, "max_position_embeddings": 256, "bos_token_id": None, "eos_token_id": 0, "pad_token_id": None}
    return {
        "llama": LlamaConfig(**SIZES, **shared),
        "qwen2": Qwen2Config(**SIZES, **shared),
        "gpt2": GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=256, vocab_size=vocab, bos_token_id=0, eos_token_id=0),
        "sliding window": Gemma3TextConfig(
            **SIZES, **shared, head_dim=8, sliding_window=16, layer_types=["sliding_attention", "full_attention"] * 2
        ),
        "recurrent": MambaConfig(hidden_size=32, num_hidden_layers=2, vocab_size=vocab, eos_token_id=0),
        "state of its own": RwkvConfig(hidden_size=32, num_hidden_layers=2, vocab_size=vocab, eos_token_id=0, bos_token_id=0),
        "hybrid": JambaConfig(**SIZES, **shared, num_experts=1, use_mamba_kernels=False),
    }


def save(kind: str, folder: Path, seed: int = 0, tokenizer: str = "target", scale: float = 8.0) -> Path:
    """A random model in `folder`; `scale` sharpens its choices, so that near-ties are rare."""
    tok = stored_tokenizer(ASSETS / "builtin" / tokenizer)
    torch.manual_seed(seed)
    lm = AutoModelForCausalLM.from_config(configs(len(tok))[kind])
    with torch.no_grad():
        for parameter in lm.parameters():
            if parameter.ndim == 2:
                parameter.mul_(scale)
    lm.save_pretrained(folder)
    tok.save_pretrained(folder)
    return folder
