"""A prompt in one model's own rendering: as it is, or as a conversation in the model's chat template."""

from __future__ import annotations

from jinja2.exceptions import TemplateError
from transformers import PreTrainedTokenizerBase

from slem_demo.errors import SlemError
from slem_demo.models.codec import HubCodec
from slem_demo.trace import Request


def prompt_ids(codec: HubCodec, request: Request) -> list[int]:
    """The request's prompt in the ids of one model, see `_render`.

    Raises:
        SlemError: the template can't render the conversation, or the tokenizer has a token for it that the model does not know.
    """
    ids = _render(codec, request)
    unknown = [i for i in ids if i >= codec.n_logits]
    if unknown:
        token = codec.tokenizer.convert_ids_to_tokens(unknown[0])
        raise SlemError(f"The prompt holds {token!r}, a token of the tokenizer that its model does not know; leave it out.")
    return ids


def _render(codec: HubCodec, request: Request) -> list[int]:
    """A prompt in the ids of one model: its BOS once, special tokens only where the model's own rendering has them.

    What a person wrote is text, also `<|end|>`. A model without a chat template renders a conversation plainly:

        {system prompt}

        User: {prompt}
        Assistant:
    """
    tokenizer = codec.tokenizer
    if request.chat and tokenizer.chat_template:
        return _in_template(codec, request)
    bos = tokenizer.bos_token_id
    begins = tokenizer("").input_ids[:1] == [bos] if bos is not None else False
    return [bos] * begins + codec.encode(_plainly(request) if request.chat else request.prompt)


def _plainly(request: Request) -> str:
    return f"{request.system}\n\n" * bool(request.system) + f"User: {request.prompt}\nAssistant:"


def _in_template(codec: HubCodec, request: Request) -> list[int]:
    text = _rendered(codec.tokenizer, request.system, request.prompt)
    if not codec.spells_special(request.system + request.prompt):
        ids: list[int] = codec.tokenizer(text, add_special_tokens=False).input_ids
        return ids
    return codec.encode_rendered(text, _written(codec.tokenizer, request, text))


def _rendered(tokenizer: PreTrainedTokenizerBase, system: str, prompt: str) -> str:
    user, together = ({"role": "user", "content": content} for content in (prompt, f"{system}\n\n{prompt}"))
    tries = [[{"role": "system", "content": system}, user], [together]] if system else [[user]]
    for messages in tries:  # some templates refuse a system prompt
        try:
            return str(tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False))
        except (TemplateError, TypeError, ValueError) as error:
            problem = error
    raise SlemError(f"The chat template of {tokenizer.name_or_path} cannot render this prompt ({problem}); use a raw prompt.")


def _written(tokenizer: PreTrainedTokenizerBase, request: Request, text: str) -> list[tuple[int, int]]:
    """The spans of a rendered text that a person wrote: where two marks stand if they are rendered instead."""
    marks = ("\ue000" * 9, "\ue001" * 9)
    of_marks = _rendered(tokenizer, request.system and marks[0], marks[1])
    for strip in (False, True):
        parts = [part.strip() if strip else part for part in (request.system, request.prompt)]
        spans, filled = [], of_marks
        for mark, part in zip(marks, parts, strict=True):
            if mark in filled:
                spans.append((filled.index(mark), filled.index(mark) + len(part)))
                filled = filled.replace(mark, part, 1)
        if filled == text:
            return spans
    raise SlemError("The prompt spells a special token of the model, and its chat template changes it; use a raw prompt.")
