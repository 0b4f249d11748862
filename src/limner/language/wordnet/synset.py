"""Synsets and the other parts of the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Synset:
    """A meaning and the words that express it.

    Args:
        name: First lemma, part of speech, number of the sense, such as "dog.n.01".
        lemmas: The words, with underscores for spaces.
        counts: How often each word had this meaning in WordNet's tagged texts.
        above: Positions of its hypernyms.
        antonyms: (position of a word in `lemmas`, its antonym).
    """

    name: str
    lemmas: tuple[str, ...]
    counts: tuple[int, ...]
    above: tuple[int, ...]
    antonyms: tuple[tuple[int, str], ...] = ()

    @property
    def pos(self) -> str:
        """Part of speech: "n", "v", "a" (also for satellites) or "r"."""
        letter = self.name.rsplit(".", 2)[1]
        return "a" if letter == "s" else letter


class Parts(NamedTuple):
    """The arguments of `WordNet`."""

    synsets: Sequence[Synset]
    senses: Mapping[tuple[str, str], tuple[int, ...]]
    exceptions: Mapping[tuple[str, str], tuple[str, ...]]
