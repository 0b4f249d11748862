"""WordNet as an immutable graph: synsets, lemmas, hypernyms, antonyms, base forms, path similarity.

limner ships WordNet 3.0 (everything but the definitions and examples, 2 MB packed; see `pack.py`), so that it
works on a fresh machine without a download. `WordNet.read` reads a folder of WordNet's own database files.
The graph is read once and never changed, so threads can share it; cached values depend only on the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from limner.core.errors import LimnerError, UnknownName
from limner.core.paths import damage_told
from limner.language.wordnet.synset import Synset

if not TYPE_CHECKING:
    from limner.core.extras import submodules

    __getattr__ = submodules(__name__)

Distances = npt.NDArray[np.uint8]

FAR = 255
"""The distance between concepts without a connecting path."""

SUFFIXES = {
    "n": (("s", ""), ("ses", "s"), ("ves", "f"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"),
          ("men", "man"), ("ies", "y")),
    "v": (("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
    "a": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "r": (),
}  # fmt: skip
"""WordNet's own rules of detachment (morphy)."""


class WordNet:
    """The graph, from `WordNet.load` (cached) or `WordNet.read`.

    Args:
        synsets: All synsets.
        senses: For every (lower-case word, part of speech), the positions of its synsets, the most common one first.
        exceptions: For every irregular (inflected form, part of speech), its base forms.
    """

    def __init__(
        self,
        synsets: Sequence[Synset],
        senses: Mapping[tuple[str, str], tuple[int, ...]],
        exceptions: Mapping[tuple[str, str], tuple[str, ...]],
    ) -> None:
        """Keeps the parts, which nobody may change."""
        self._synsets = synsets
        self._senses = senses
        self._exceptions = exceptions
        self._ancestors = lru_cache(maxsize=None)(self._find_ancestors)

    @cached_property
    def _at(self) -> dict[str, int]:
        """The position of every name."""
        return {synset.name: number for number, synset in enumerate(self._synsets)}

    @staticmethod
    @cache
    def load() -> WordNet:
        """The WordNet 3.0 shipped with limner, read once per process (a few tenths of a second)."""
        from limner.language.wordnet.pack import opened

        return WordNet(*opened((files("limner.language.wordnet") / "wordnet30.xz").read_bytes()))

    @staticmethod
    def read(folder: str | Path) -> WordNet:
        """Reads a folder of WordNet 3.x database files (data.noun, index.noun, noun.exc, ...)."""
        from limner.language.wordnet.pack import read

        with damage_told(folder, what="folder of WordNet files"):
            return WordNet(*read(Path(folder)))

    def __len__(self) -> int:
        return len(self._synsets)

    def __contains__(self, name: object) -> bool:
        return name in self._at

    def __getitem__(self, name: str) -> Synset:
        if name not in self._at:
            word, _, sense = name.partition(".")
            suggestions = [s.name for p in "nvar" for s in self.synsets(word, p)]
            raise UnknownName("synset", name, suggestions or [f"{word}.n.01" if sense else "dog.n.01"])
        return self._synsets[self._at[name]]

    def synsets(self, word: str, pos: str = "n") -> tuple[Synset, ...]:
        """Meanings of a word in this form (see `base` for inflected forms), the most common one first.

        >>> [s.name for s in WordNet.load().synsets("frisbee")]
        ['frisbee.n.01']
        """
        key = word.lower().replace(" ", "_"), pos
        return tuple(self._synsets[at] for at in self._senses.get(key, ()))

    def has(self, word: str, pos: str = "n") -> bool:
        """Whether a word, in this form, is in WordNet."""
        return (word.lower().replace(" ", "_"), pos) in self._senses

    def base(self, word: str, pos: str = "n") -> str | None:
        """The base form of a word by WordNet's own rules, or None if it has no base form in WordNet.

        >>> WordNet.load().base("geese"), WordNet.load().base("running", "v"), WordNet.load().base("xyzzy")
        ('goose', 'run', None)
        """
        form = word.lower().replace(" ", "_")
        listed = self._exceptions.get((form, pos), ())
        ruled = [form[: -len(old)] + new for old, new in SUFFIXES[pos] if form.endswith(old)]
        candidates = listed or ([form, *ruled] if self.has(form, pos) else ruled)
        return next((c for c in candidates if c and self.has(c, pos)), form if self.has(form, pos) else None)

    def ancestors(self, name: str) -> Mapping[str, int]:
        """Every hypernym of a synset with its distance; the synset itself is at 0.

        >>> WordNet.load().ancestors("dog.n.01")["canine.n.02"]
        1
        """
        self[name]  # refuses an unknown name
        return {self._synsets[at].name: far for at, far in self._ancestors(self._at[name]).items()}

    def is_a(self, name: str, ancestor: str) -> bool:
        """Whether the first synset equals the second or is one of its hyponyms."""
        return name in self and ancestor in self and self._at[ancestor] in self._ancestors(self._at[name])

    def _find_ancestors(self, at: int) -> Mapping[int, int]:
        distances, edge = {at: 0}, [at]
        while edge:
            further = dict.fromkeys(up for this in edge for up in self._synsets[this].above if up not in distances)
            distances.update(dict.fromkeys(further, distances[edge[0]] + 1))
            edge = list(further)
        return distances

    def antonyms(self, word: str, pos: str) -> tuple[str, ...]:
        """Antonyms of a word in any of its meanings, the most common meaning first.

        >>> WordNet.load().antonyms("hot", "a")
        ('cold',)
        """
        form = word.lower().replace(" ", "_")
        opposites = [
            antonym
            for synset in self.synsets(form, pos)
            for at, antonym in synset.antonyms
            if synset.lemmas[at].lower() == form
        ]
        return tuple(dict.fromkeys(opposites))

    def path_similarity(self, one: str, second: str) -> float:
        """1 / (1 + length of the shortest path over hypernyms); 0 without a path (Fellbaum 1998; as in NLTK).

        Verbs, adjectives and adverbs have no common root, so an artificial one is added.

        >>> wordnet = WordNet.load()
        >>> wordnet.path_similarity("tree.n.01", "grass.n.01"), wordnet.path_similarity("dog.n.01", "dog.n.01")
        (0.16666666666666666, 1.0)
        """
        distance = self.distances([one, second])[0, 1]
        return 0.0 if distance == FAR else 1.0 / (1.0 + int(distance))

    def distances(self, names: Sequence[str]) -> Distances:
        """The length of the shortest path between any two of these synsets; `FAR` without a path.

        A shortest path over hypernyms goes up to a common hypernym and down again, so for every hypernym of a synset
        all synsets below it are reached at once.
        """
        ups = [self._rooted(name) for name in names]
        reached: dict[int, list[tuple[int, int]]] = {}
        for column, up in enumerate(ups):
            for at, far in up.items():
                reached.setdefault(at, []).append((column, far))
        lists = {at: tuple(np.array(part) for part in zip(*rows, strict=True)) for at, rows in reached.items()}
        table = np.full((len(names), len(names)), FAR, dtype=np.uint8)
        for row, up in zip(table, ups, strict=True):
            for at, far in up.items():
                columns, further = lists[at]
                row[columns] = np.minimum(row[columns], further + far)
        return table

    def _rooted(self, name: str) -> Mapping[int, int]:
        """The hypernyms of a synset; parts of speech other than nouns get an artificial root (-1)."""
        pos = self[name].pos
        up = self._ancestors(self._at[name])
        return up if pos == "n" else {**up, -1 - "nvar".index(pos): max(up.values()) + 1}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All names."""
        return tuple(self._at)

    def __repr__(self) -> str:
        return f"WordNet({len(self):,} synsets)"


class Similarities:
    """A precomputed table of path similarities between concepts.

    Args:
        wordnet: The graph.
        names: Concepts; those that are not in WordNet are listed in `unknown` and have no row.

    >>> similar = Similarities(WordNet.load(), ["hill.n.01", "grassland.n.01", "no such thing"])
    >>> round(float(similar.of(["hill.n.01"], ["grassland.n.01"])[0, 0]), 3), similar.unknown
    (0.111, ('no such thing',))
    """

    def __init__(self, wordnet: WordNet, names: Iterable[str]) -> None:
        """Fills the table."""
        synsets = sorted(set(names))
        self.known = tuple(name for name in synsets if name in wordnet)
        self.unknown = tuple(name for name in synsets if name not in wordnet)
        self.row = {name: at for at, name in enumerate(self.known)}
        self._distances = wordnet.distances(self.known)
        values: npt.NDArray[np.float64] = 1.0 / (1.0 + np.arange(FAR + 1, dtype=np.float64))
        values[FAR] = 0.0
        self._values = values

    def of(self, rows: Sequence[str], columns: Sequence[str]) -> npt.NDArray[np.float64]:
        """The similarities between two lists of concepts, which must all be in the table."""
        try:
            at = [[self.row[name] for name in side] for side in (rows, columns)]
        except KeyError as error:
            raise LimnerError(f"concept {error.args[0]!r} is not in this table of similarities") from None
        return np.asarray(self._values[self._distances[np.ix_(at[0], at[1])]], dtype=np.float64)
