"""The draft's tokenizer: the target's own, without the pieces that it seldom uses.

A draft token is then nearly always a whole token of the target, so K draft tokens go about as far as K target tokens, at a fraction of
the vocabulary.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

from tokenizers import Tokenizer, pre_tokenizers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

CHAT = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"


def pruned(tokenizer: PreTrainedTokenizerBase, texts: Iterable[str], vocab_size: int) -> PreTrainedTokenizerFast:
    """At most `vocab_size` tokens: single bytes, the most frequent tokens of `texts`, what these are merged from, and the end."""
    spec = json.loads(tokenizer.backend_tokenizer.to_str())
    merges = [tuple(merge) for merge in spec["model"]["merges"]]
    parts = {a + b: (a, b) for a, b in reversed(merges)}
    kept = set(pre_tokenizers.ByteLevel.alphabet()) & spec["model"]["vocab"].keys()
    counts = Counter(piece for text in texts for piece in tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).tokens)
    for piece, _ in counts.most_common():
        wanted = _with_parts(piece, parts)
        if wanted and len(kept | wanted) < vocab_size:
            kept |= wanted
    eos = tokenizer.eos_token
    order = sorted(kept, key=spec["model"]["vocab"].__getitem__)
    spec["model"]["vocab"] = {piece: i for i, piece in enumerate([eos, *order])}
    spec["model"]["merges"] = [[a, b] for a, b in merges if {a, b, a + b} <= kept]
    spec["added_tokens"] = [{**entry, "id": 0} for entry in spec["added_tokens"] if entry["content"] == eos]
    spec["post_processor"] = None
    small = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(spec)), eos_token=eos)
    small.chat_template = CHAT
    return small


def _with_parts(piece: str, parts: dict[str, tuple[str, str]]) -> set[str]:
    """The piece and all that it is merged from; nothing for a special token, which no merge makes."""
    if len(piece) == 1:
        return {piece}
    if piece not in parts:
        return set()
    first, second = (_with_parts(part, parts) for part in parts[piece])
    return {piece} | first | second if first and second else set()
