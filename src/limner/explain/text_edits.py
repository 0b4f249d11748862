"""One edit of a text: its words with their positions, the changes, and a record of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from limner.language.tagging import article
from limner.language.wordnet import WordNet


@dataclass(frozen=True)
class Edit:
    """One adversarial query.

    Args:
        kind: The kind of change.
        before: The original text.
        after: The changed text.
        start: Start position of the change.
        old: The original words.
        new: The new words.
        word: The claim that was changed, such as "red".
    """

    kind: str
    before: str
    after: str
    start: int
    old: str
    new: str
    word: str


@dataclass(frozen=True)
class Token:
    """A word of a text and its position."""

    text: str
    start: int

    @property
    def low(self) -> str:
        """In lower case."""
        return self.text.lower()

    @property
    def stop(self) -> int:
        """Its end position."""
        return self.start + len(self.text)


@dataclass(frozen=True)
class Context:
    """Resources for an edit: WordNet, a random generator, the colours in the data."""

    wordnet: WordNet
    dice: np.random.Generator
    colours: Sequence[str]

    def choose(self, options: Sequence[str]) -> str:
        """A random choice."""
        return options[int(self.dice.integers(len(options)))]


def word_set(text: str) -> frozenset[str]:
    """The words of a text that are separated by white space.

    >>> sorted(word_set("a dog"))
    ['a', 'dog']
    """
    return frozenset(text.split())


Change = tuple[Token, str]
"""A word and its replacement; an empty replacement removes it."""


def edited(text: str, kind: str, changes: Sequence[Change], word: str) -> Edit:
    """Applies changes to one span of the text."""
    ordered = sorted(changes, key=lambda change: change[0].start)
    start, stop = ordered[0][0].start, ordered[-1][0].stop
    new, place = "", start
    for token, replacement in ordered:
        new += text[place : token.start] + replacement
        place = token.stop
        if not replacement and text[place : place + 1] == " ":
            place += 1
    stop = max(stop, place)
    after = text[:start] + new + text[stop:]
    if start == 0:
        after = after[:1].upper() + after[1:] if text[:1].isupper() else after
    return Edit(kind, text, after, start, text[start:stop].strip(), after[start : start + len(new)].strip(), word)


def cased(old: str, new: str) -> str:
    """The new word, capitalised if the old one is."""
    return new[:1].upper() + new[1:] if old[:1].isupper() else new


def agreeing_article(tokens: list[Token], at: int, new: str) -> list[Change]:
    """The change of the article before a changed word, if needed."""
    if at == 0 or tokens[at - 1].low not in ("a", "an"):
        return []
    right = article(new)
    return [(tokens[at - 1], cased(tokens[at - 1].text, right))] if tokens[at - 1].low != right else []
