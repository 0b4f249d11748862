"""Concepts that a caption shares with its references: an F-score in the form of SPICE, from noun phrases and WordNet.

SPICE (Anderson et al. 2016) parses captions into scene graphs with a Java program. Here a caption is the set of its
objects and of what it says of them, read by `noun_phrases`: (dog), (dog, brown), (dog, large), (dog, 2). There are no
relations, so the numbers are not SPICE's; the form of the score is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from limner.core.arrays import FloatArray
from limner.explain.noun_phrases import phrases
from limner.language.wordnet import WordNet

Tuple = tuple[str, ...]


def concept_f(
    captions: Sequence[str], references: Sequence[Sequence[str]], *, wordnet: WordNet | None = None
) -> FloatArray:
    """The F-score of the concepts of each caption with those of all its references together.

    `2 P R / (P + R)`, where P and R are the shares of the caption's and of the references' tuples that are common:
    objects by their usual sense, and each with a colour, a size or a number above one. 0 if nothing is common.

    Source: the form of SPICE (Anderson et al. 2016), without relations.

    Args:
        captions: The captions.
        references: For each caption the texts it is compared with.
        wordnet: The one that comes with limner by default.

    >>> concept_f(["two brown dogs on a lawn"], [["a brown dog", "a dog on the grass"]]).round(3)
    array([0.571])
    """
    lexicon = wordnet or WordNet.load()
    tuples = lru_cache(maxsize=None)(lambda text: frozenset(_tuples(text, lexicon)))
    scores = []
    for caption, texts in zip(captions, references, strict=True):
        ours, theirs = tuples(caption), frozenset[Tuple]().union(*map(tuples, texts))
        total = len(ours) + len(theirs)
        scores.append(2 * len(ours & theirs) / total if total else 0.0)
    return np.array(scores)


def _tuples(text: str, wordnet: WordNet) -> Iterator[Tuple]:
    for phrase in phrases(text, wordnet):
        concept = phrase.senses[0] if phrase.senses else phrase.noun
        yield (concept,)
        yield from ((concept, attribute) for attribute in (phrase.colour, phrase.size) if attribute)
        if phrase.number > 1:
            yield concept, str(phrase.number)
