"""Texts that are longer than a model reads: counted where they are cut, and told once, wherever that happens.

What cuts texts calls `count`. What makes a result of them adds a note to it (`collected`, `noted`); where there is no
result, there is one warning (`warned_once`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, ClassVar, ParamSpec, Protocol, TypeVar

from limner.core.errors import LimnerWarning
from limner.core.options import OptionValues


class HasNotes(Protocol):
    """A dataclass with notes."""

    __dataclass_fields__: ClassVar[OptionValues]

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks."""
        ...


class HasTexts(Protocol):
    """Texts with ids, such as `limner.Items`."""

    @property
    def ids(self) -> Iterable[str]:
        """The id of each."""
        ...

    @property
    def values(self) -> Sequence[Any]:
        """The texts."""
        ...


Inputs = ParamSpec("Inputs")
Noted = TypeVar("Noted", bound=HasNotes)


@dataclass
class _Read:
    """The texts that were read up to one length, by their hashes."""

    texts: set[int] = field(default_factory=set)
    cut: dict[int, int] = field(default_factory=dict)
    """The length of each text that is cut."""


class CutTexts:
    """Counts of texts by the length up to which they are read; the same text counts once.

    >>> with collected() as cut:
    ...     count(["a", "b", "c"], [5, 90, 8], limit=8)
    ...     count(["b"], [90], limit=8)
    >>> cut.notes[0]
    '1 of 3 distinct texts is longer than the 8 tokens that the model reads (the longest has 90): the rest is ignored'
    """

    def __init__(self) -> None:
        self._read: dict[tuple[str, int, str], _Read] = {}
        self.passed: dict[str, None] = {}
        """Notes of results that were made before."""

    def add(self, texts: Iterable[Hashable], lengths: Iterable[int], *, limit: int, unit: str, kind: str) -> None:
        """See `count`."""
        read = self._read.setdefault((kind, limit, unit), _Read())
        for text, length in zip(texts, lengths, strict=True):
            read.texts.add(hash(text))
            if length > limit:
                read.cut[hash(text)] = length

    def lengths(self, texts: Iterable[Hashable]) -> list[tuple[int, int]]:
        """The limit and the length of each text; zeros for one that is not cut."""
        cut = {key: (limit, length) for (_, limit, _), read in self._read.items() for key, length in read.cut.items()}
        return [cut.get(hash(text), (0, 0)) for text in texts]

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence for each length that some text exceeds."""
        counted = (
            f"{len(read.cut):,} of {len(read.texts):,} distinct {kind} {'is' if len(read.cut) == 1 else 'are'} longer "
            f"than the {limit:,} {unit} {_READ} {max(read.cut.values()):,}): the rest is ignored"
            for (kind, limit, unit), read in self._read.items()
            if read.cut
        )
        return (*self.passed, *counted)


def is_cut_note(note: str) -> bool:
    """Whether a note of a report says that texts were cut, or what that changes."""
    return _READ in note or THAT_ARE_CUT in note


_READ = "that the model reads (the longest has"
THAT_ARE_CUT = "that are cut"
"""Part of the notes that compare texts that are cut with the others."""
_COLLECTING: ContextVar[CutTexts | None] = ContextVar("collecting", default=None)


def count(
    texts: Iterable[Hashable], lengths: Iterable[int], *, limit: int, unit: str = "tokens", kind: str = "texts"
) -> None:
    """Counts texts that a model reads up to a length.

    Args:
        texts: The texts.
        lengths: The length of each, before it is cut.
        limit: The length up to which they are read.
        unit: What their length counts.
        kind: What they are: "texts", or "pairs" of two.
    """
    with warned_once():
        _current().add(texts, lengths, limit=limit, unit=unit, kind=kind)


def _current() -> CutTexts:
    collecting = _COLLECTING.get()
    assert collecting is not None, "inside of a block that collects"
    return collecting


def pass_on(note: str) -> None:
    """Passes on the note of a result that has no notes where it goes."""
    with warned_once():
        _current().passed[note] = None


def cut_notes() -> tuple[str, ...]:
    """The notes on what is being collected."""
    collecting = _COLLECTING.get()
    return () if collecting is None else collecting.notes


def cut_ids(items: HasTexts) -> frozenset[str]:
    """The ids of the texts that were cut, among what is being collected."""
    collecting = _COLLECTING.get()
    if collecting is None or not collecting.notes:
        return frozenset()
    return frozenset(key for key, (limit, _) in zip(items.ids, collecting.lengths(items.values), strict=True) if limit)


@contextmanager
def collected() -> Iterator[CutTexts]:
    """Collects what is counted in a block, for a note on its result."""
    collecting = CutTexts()
    token = _COLLECTING.set(collecting)
    try:
        yield collecting
    finally:
        _COLLECTING.reset(token)


def noted(function: Callable[Inputs, Noted]) -> Callable[Inputs, Noted]:
    """Makes a function add to the notes of its result which texts were cut."""

    @wraps(function)
    def wrapped(*positional: Inputs.args, **named: Inputs.kwargs) -> Noted:
        with collected() as cut:
            result = function(*positional, **named)
        return replace(result, notes=(*result.notes, *cut.notes)) if cut.notes else result

    return wrapped


@contextmanager
def warned_once() -> Iterator[None]:
    """Warns once of what is counted in a block, unless a block around it collects."""
    if _COLLECTING.get() is not None:
        yield
        return
    with collected() as cut:
        yield
    for note in cut.notes:
        warnings.warn(note, LimnerWarning, stacklevel=3)
