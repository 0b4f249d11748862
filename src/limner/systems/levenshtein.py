"""String similarity of two texts: the baseline for matching by file names."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Array
from limner.core.extras import needed
from limner.scores import Scores


class Levenshtein:
    """Levenshtein similarity: 1 - (insertions + deletions + substitutions) / length of the longer text.

    Both texts are lower-cased (Levenshtein 1966; the baseline of Messina et al. 2022).

    >>> Levenshtein().score_pairs(["Red dog", "abc"], ["red dogs", "xyz"]).tolist()
    [0.875, 0.0]
    """

    fingerprint = "levenshtein 1"

    def score_pairs(self, queries: Sequence[str], candidates: Sequence[str]) -> npt.NDArray[np.float64]:
        """One number from 0 to 1 for each pair."""
        alike = _library().distance.Levenshtein.normalized_similarity
        pairs = zip(queries, candidates, strict=True)
        return np.array([alike(q.lower(), c.lower()) for q, c in pairs], dtype=np.float64)

    def scores(self, texts: object, candidates: object, /, **ids: Any) -> Scores:
        """Scores of all pairs of two lists of texts or items; `queries` and `candidates` are ids for plain texts."""
        return Scores.from_kernel(_block, texts, candidates, **ids)


def _block(queries: Sequence[str], candidates: Sequence[str]) -> Array:
    library = _library()
    small = [[text.lower() for text in side] for side in (queries, candidates)]
    alike = library.distance.Levenshtein.normalized_similarity
    return np.asarray(library.process.cdist(*small, scorer=alike, dtype=np.float64))


def _library() -> ModuleType:
    for part in ("distance", "process"):
        needed(f"rapidfuzz.{part}", what="Levenshtein similarity")
    return needed("rapidfuzz", what="Levenshtein similarity")
