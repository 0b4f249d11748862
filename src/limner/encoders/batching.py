"""Batches of texts of similar length, to reduce padding, and work in pieces of a few seconds.

Texts are cut to the length that a model reads; those that are longer are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Array, IntArray
from limner.core.cut_texts import count
from limner.core.errors import LimnerError

PART_SECONDS = 5.0
"""Seconds of work per piece: at most this much is lost if the process is killed."""
_FIRST = 32  # items in the first piece, before the speed is known


def at_least_one(value: int | None, name: str, *, default: int) -> int:
    """The given batch size, or the default; a size below 1 is refused.

    >>> at_least_one(None, "batch_size", default=16), at_least_one(4, "batch_size", default=16)
    (16, 4)
    >>> at_least_one(0, "batch_size", default=16)
    Traceback (most recent call last):
    limner.core.errors.LimnerError: batch_size=0: expected at least 1
    """
    if value is not None and value < 1:
        raise LimnerError(f"{name}={value}: expected at least 1")
    return default if value is None else value


def by_length(lengths: Sequence[int] | Array, *, budget: int, max_rows: int = 4096) -> Iterator[IntArray]:
    """Groups rows into batches, the longest first, of at most `budget` tokens each, including padding.

    The longest rows come first, so that running out of memory happens at the start and not after an hour.

    Args:
        lengths: Number of tokens of each row.
        budget: Maximum number of tokens in a batch, padding included; a longer row gets its own batch.
        max_rows: Maximum number of rows in a batch.

    >>> [rows.tolist() for rows in by_length([3, 9, 2, 4, 8], budget=18)]
    [[1, 4], [3, 0, 2]]
    """
    if budget < 1 or max_rows < 1:
        raise LimnerError(f"batches of {budget} tokens and {max_rows} rows: expected at least 1 of each")
    token_counts = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-token_counts, kind="stable")
    start = 0
    while start < len(order):
        size = max(1, min(max_rows, budget // max(int(token_counts[order[start]]), 1)))
        yield order[start : start + size]
        start += size


def paced(total: int, *, max_items: int, seconds: float | None = PART_SECONDS) -> Iterator[slice]:
    """Splits work into pieces of a few seconds and at most `max_items` items, so that little is lost if it is killed.

    The time of a piece is measured until the next one is requested.

    Args:
        total: Total number of items.
        max_items: Maximum number of items in a piece.
        seconds: Target time of a piece; None for no target.

    >>> list(paced(100, max_items=60))
    [slice(0, 32, None), slice(32, 92, None), slice(92, 100, None)]
    """
    low, size = 0, max_items if seconds is None else min(_FIRST, max_items)
    while low < total:
        began = monotonic()
        yield slice(low, min(low + size, total))
        low += size
        if seconds is not None:
            ideal = size * min(8.0, seconds / max(monotonic() - began, 1e-9))
            size = max_items if ideal >= max_items else 1 << max(0, int(ideal).bit_length() - 1)


def padded(rows: Sequence[Sequence[int]], *, fill: int = 0) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Pads rows to one matrix; returns it with the mask of its filled positions.

    >>> matrix, filled = padded([[5, 6], [7]])
    >>> matrix.tolist(), filled.tolist()
    ([[5, 6], [7, 0]], [[True, True], [True, False]])
    """
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    filled = np.arange(lengths.max(initial=1))[None, :] < lengths[:, None]
    matrix = np.full(filled.shape, fill, dtype=np.int64)
    matrix[filled] = np.fromiter((n for row in rows for n in row), dtype=np.int64, count=int(lengths.sum()))
    return matrix, filled


class Tokenizer(Protocol):
    """A tokenizer of transformers: texts and options become lists of numbers by name."""

    model_max_length: int
    model_input_names: list[str]

    def __call__(self, texts: object, *pairs: object, **options: object) -> Any:
        """The tokens of texts, or of pairs of texts."""

    def save_pretrained(self, folder: Path) -> object:
        """Writes its files."""


class TextEncoding(Protocol):
    """A text as a fast tokenizer has cut it; the rest is in further pieces."""

    ids: list[int]
    attention_mask: list[int]
    special_tokens_mask: list[int]
    overflowing: list[TextEncoding]


def cut_tokens(
    tokenizer: Tokenizer, texts: Sequence[str], *, limit: int, prompt: str = "", **options: object
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


def count_texts(tokenizer: Tokenizer, texts: Sequence[str], *, limit: int | None, prompt: str = "") -> None:
    """Counts texts for a library that cuts them itself.

    Args:
        tokenizer: A tokenizer of transformers.
        texts: The texts.
        limit: Tokens per text; None if they are not cut.
        prompt: Prepended to every text.
    """
    if limit is not None:
        count(texts, _whole_lengths(tokenizer, [prompt + text for text in texts]), limit=limit)


def count_for_library(model: object, texts: Sequence[str], *, role: str = "") -> None:
    """Counts the texts that a model of sentence-transformers cuts itself, with the prompt that it prepends.

    Args:
        model: The model; one without a tokenizer or a limit cuts nothing that can be counted.
        texts: The texts.
        role: Name of the prompt, such as "query"; by default the model's own.
    """
    tokenizer, limit = getattr(model, "tokenizer", None), getattr(model, "max_seq_length", None)
    if callable(tokenizer) and isinstance(limit, int):
        count_texts(tokenizer, texts, limit=limit, prompt=default_prompt(model, role))


def default_prompt(model: object, role: str) -> str:
    """The prompt that a sentence-transformers model prepends if none is given."""
    prompts = getattr(model, "prompts", None) or {}
    return str(prompts.get(role) or prompts.get(getattr(model, "default_prompt_name", None)) or "")


def _whole_lengths(tokenizer: Tokenizer, texts: Sequence[str]) -> Iterable[int]:
    uncut = tokenizer(list(texts), truncation=False, padding=False, verbose=False)["input_ids"]
    return map(len, uncut)


def uncut_length(encoding: TextEncoding) -> int:
    """The tokens of a text before it was cut, from the encoding of a fast tokenizer, which keeps the rest in pieces."""
    if not encoding.overflowing:
        return len(encoding.ids)
    marks = sum(encoding.special_tokens_mask) - _padding(encoding)
    overflow = sum(_filled(piece) - marks for piece in encoding.overflowing)
    return int(_filled(encoding) + overflow)


def _filled(encoding: TextEncoding) -> int:
    return sum(encoding.attention_mask)


def _padding(encoding: TextEncoding) -> int:
    return len(encoding.attention_mask) - _filled(encoding)
