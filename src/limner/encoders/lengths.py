"""Tokens of texts, cut to the length that a model reads; texts that are longer are counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from limner.core.cut_texts import count


def cut_tokens(
    tokenizer: Any, texts: Sequence[str], *, limit: int, prompt: str = "", **options: object
) -> list[list[int]]:
    """Token indices of texts, including special tokens.

    Args:
        tokenizer: A tokenizer of transformers.
        texts: The texts.
        limit: Tokens per text; what comes after is cut off.
        prompt: Prepended to every text.
        options: Further options of the tokenizer.
    """
    prompted = [prompt + text for text in texts]
    cut = tokenizer(prompted, truncation=True, max_length=limit, **options)
    encodings = getattr(cut, "encodings", None)
    lengths = _whole_lengths(tokenizer, prompted) if encodings is None else map(uncut_length, encodings)
    count(texts, lengths, limit=limit)
    return list(cut["input_ids"])


def count_texts(tokenizer: Any, texts: Sequence[str], *, limit: int | None, prompt: str = "") -> None:
    """Counts texts for a library that cuts them itself.

    Args:
        tokenizer: A tokenizer of transformers.
        texts: The texts.
        limit: Tokens per text; None if they are not cut.
        prompt: Prepended to every text.
    """
    if limit is not None:
        count(texts, _whole_lengths(tokenizer, [prompt + text for text in texts]), limit=limit)


def count_for_library(model: Any, texts: Sequence[str], *, role: str = "") -> None:
    """Counts the texts that a model of sentence-transformers cuts itself, with the prompt that it prepends.

    Args:
        model: The model; one without a tokenizer or a limit cuts nothing that can be counted.
        texts: The texts.
        role: Name of the prompt, such as "query"; by default the model's own.
    """
    tokenizer, limit = getattr(model, "tokenizer", None), getattr(model, "max_seq_length", None)
    if callable(tokenizer) and isinstance(limit, int):
        count_texts(tokenizer, texts, limit=limit, prompt=default_prompt(model, role))


def default_prompt(model: Any, role: str) -> str:
    """The prompt that a sentence-transformers model prepends if none is given."""
    prompts = getattr(model, "prompts", None) or {}
    return str(prompts.get(role) or prompts.get(getattr(model, "default_prompt_name", None)) or "")


def _whole_lengths(tokenizer: Any, texts: Sequence[str]) -> Iterable[int]:
    uncut = tokenizer(list(texts), truncation=False, padding=False, verbose=False)["input_ids"]
    return map(len, uncut)


def uncut_length(encoding: Any) -> int:
    """The tokens of a text before it was cut, from the encoding of a fast tokenizer, which keeps the rest in pieces."""
    if not encoding.overflowing:
        return len(encoding.ids)
    marks = sum(encoding.special_tokens_mask) - _padding(encoding)
    overflow = sum(_filled(piece) - marks for piece in encoding.overflowing)
    return int(_filled(encoding) + overflow)


def _filled(encoding: Any) -> int:
    return sum(encoding.attention_mask)


def _padding(encoding: Any) -> int:
    return len(encoding.attention_mask) - _filled(encoding)
