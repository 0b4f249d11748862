"""Matching by file names (Messina et al. 2022): MCProp and CRank, without loading torch, and a string similarity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Array
from limner.core.extras import needed
from limner.core.progress import ProgressLike
from limner.core.registry import takes
from limner.scores import Scores

if TYPE_CHECKING:
    from limner.core.collection import Collection
    from limner.papers.file_name_models.crank import CrankModel
    from limner.papers.file_name_models.mcprop import McpropModel


@takes("limner.papers.file_name_models.mcprop:train")
def mcprop(
    collection: Collection, *, dev: Collection | None = None, progress: ProgressLike = None, **options: object
) -> McpropModel:
    """An image and its file name fused into one query for captions (MCProp).

    Messina et al. 2022. Needs torch.

    Args:
        collection: The training collection; images have the field "file_name", or the names of their files or ids are
            used.
        dev: Collection that selects the best epoch, by nDCG@5; without it the last epoch is kept.
        progress: Called with (steps done, steps in total).
        options: Inputs: features (image vectors, their file, or an encoder; colours and shapes by default), backbone
            (of texts: "words", "use-multilingual", or a transformer), max_tokens, min_count, name. Heads: hidden_dim,
            layers, heads, dropout, fusion ("attentive", "concat", "text", "image"). Loss: loss ("max"), margin, k.
            Training: as for "towers".
    """
    from limner.papers.file_name_models.mcprop import train

    return train(collection, dev=dev, progress=progress, **options)


@takes("limner.papers.file_name_models.crank:train")
def crank(
    collection: Collection, *, dev: Collection | None = None, progress: ProgressLike = None, **options: object
) -> CrankModel:
    """A classifier of pairs of file name and caption, for re-ranking another system's candidates (CRank).

    Messina et al. 2022. Needs torch.

    Args:
        collection: The training collection; images have the field "file_name", or the names of their files or ids are
            used.
        dev: Collection that selects the best epoch, by AUC.
        progress: Called with (steps done, steps in total).
        options: Inputs: backbone (of texts: "words", "use-multilingual", or a transformer, fine-tuned as a whole),
            use_images (whether it also sees the image), features (of the images), max_tokens, min_count, name, proposer
            (its errors become hard negatives), hard_negative_share, hard_negative_depth. Shape: hidden_dim, layers,
            heads, dropout. Training: as for "towers".
    """
    from limner.papers.file_name_models.crank import train

    return train(collection, dev=dev, progress=progress, **options)


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

    def scores(self, texts: object, candidates: object, /, **ids: Iterable[object]) -> Scores:
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
