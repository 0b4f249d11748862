"""The metrics of a caption for an image, a row each: formula, source, and what they need besides the caption."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from limner.core.arrays import FloatArray
from limner.core.collection import Items
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError, UnknownName
from limner.core.ids import Ids
from limner.core.registry import imported
from limner.datasets.candidate_captions import CandidateCaptions
from limner.language.caption_overlap import bleu, cider, cider_d, rouge_l

CLIP_WEIGHT = 2.5
"""Stretches cosines of CLIP to about 0 to 1."""
PROMPT = "A photo depicts "
"""What stands before every text that CLIPScore encodes."""


@dataclass(frozen=True, eq=False)
class CaptionCosines:
    """Cosines of an encoder.

    Args:
        image: Of each caption with its image.
        reference: Of each caption with the most similar of its references; NaN without references.
    """

    image: FloatArray
    reference: FloatArray


@dataclass(frozen=True, eq=False)
class MetricInputs:
    """What metrics are computed from.

    Args:
        candidates: The captions.
        cosines: Those of an encoder, if there is one.
        pair_scores: The scores of caption and image by a pair scorer, if there is one.
    """

    candidates: CandidateCaptions
    cosines: CaptionCosines | None = None
    pair_scores: FloatArray | None = None

    @property
    def sources(self) -> frozenset[str]:
        """What there is."""
        available = {
            "references": all(self.candidates.references),
            "an encoder": self.cosines is not None,
            "a scorer": self.pair_scores is not None,
        }
        return frozenset(name for name, is_available in available.items() if is_available)


class TextMetric(Protocol):
    """A metric that reads captions and references only: a number for each caption."""

    def __call__(self, captions: Sequence[str], references: Sequence[Sequence[str]], /) -> Any:
        """The numbers, higher for a better caption."""


@dataclass(frozen=True)
class CaptionMetric:
    """A metric of captions.

    Args:
        name: How it is written.
        formula: What it computes.
        source: Where it is defined.
        needs: "references", "an encoder", "a scorer".
        score: Function of the inputs.
        order: Of BLEU, the largest length of n-grams; 0 for a metric whose corpus value is the mean of its captions.
    """

    name: str
    formula: str
    source: str
    needs: tuple[str, ...]
    score: Callable[[MetricInputs], Any]
    order: int = 0

    def of(self, inputs: MetricInputs) -> FloatArray:
        """A number for each caption; what the metric needs and does not have is refused."""
        missing_needs = [need for need in self.needs if need not in inputs.sources]
        if missing_needs:
            raise LimnerError(
                f"{self.name} needs {' and '.join(missing_needs)} for {inputs.candidates.name!r}: "
                f"{_HELP[missing_needs[0]]}"
            )
        values = np.asarray(self.score(inputs), dtype=np.float64)
        if values.shape != (len(inputs.candidates),) or not np.isfinite(values).all():
            raise LimnerError(
                f"{self.name} gave shape {values.shape} for {len(inputs.candidates)} captions, or numbers that are not "
                "finite: expected a finite number for each caption"
            )
        return values


_HELP = {
    "references": "every caption needs at least one; leave the metric out, or add columns that begin with 'reference'",
    "an encoder": "give one with --model, such as --model openai/clip-vit-base-patch32",
    "a scorer": "give one with -O scorer=NAME; see 'limner list scorers'",
}


def clip_score(cosines: CaptionCosines) -> FloatArray:
    """CLIPScore: `2.5 * max(0, cos(image, "A photo depicts " + caption))`.

    Source: Hessel et al. 2021, with CLIP ViT-B/32; any encoder with one space for images and texts will do.

    >>> clip_score(CaptionCosines(np.array([0.3, -0.1]), np.array([0.9, 0.5])))
    array([0.75, 0.  ])
    """
    return np.asarray(CLIP_WEIGHT * np.maximum(cosines.image, 0))


def ref_clip_score(cosines: CaptionCosines) -> FloatArray:
    """RefCLIPScore: the harmonic mean of CLIPScore and the largest cosine with a reference, at least 0.

    Source: Hessel et al. 2021.

    >>> ref_clip_score(CaptionCosines(np.array([0.3, -0.1]), np.array([0.75, 0.5])))
    array([0.75, 0.  ])
    """
    image, text = clip_score(cosines), np.maximum(cosines.reference, 0)
    total = image + text
    return np.divide(2 * image * text, total, out=np.zeros_like(total), where=total > 0)


def encoder_cosines(
    candidates: CandidateCaptions, images: Items, encode: Callable[[Items], Embeddings], *, prompt: str = PROMPT
) -> CaptionCosines:
    """The cosines of an encoder, which reads each image and each different text once.

    Args:
        candidates: The captions.
        images: Their images.
        encode: The encoder: vectors of items.
        prompt: What stands before every text.
    """
    texts = list(dict.fromkeys([*candidates.captions, *(t for texts in candidates.references for t in texts)]))
    place = {text: row for row, text in enumerate(texts)}
    words = encode(
        Items(Ids(f"text {row}" for row in range(len(texts))), [prompt + text for text in texts], kind="text")
    )
    pixels = encode(images.subset(dict.fromkeys(candidates.images)))
    text_rows, image_rows = words.normalised().matrix, pixels.normalised().matrix
    ours = text_rows[[place[caption] for caption in candidates.captions]]
    of_image = np.einsum("nd,nd->n", ours, image_rows[pixels.ids.positions(candidates.images)])
    nearest = [
        float((text_rows[[place[text] for text in listed]] @ vector).max()) if listed else np.nan
        for vector, listed in zip(ours, candidates.references, strict=True)
    ]
    return CaptionCosines(of_image.astype(np.float64), np.array(nearest))


def _of_texts(metric: TextMetric, inputs: MetricInputs) -> Any:
    return metric(inputs.candidates.captions, inputs.candidates.references)


def _of_cosines(metric: Callable[[CaptionCosines], FloatArray], inputs: MetricInputs) -> Any:
    return metric(inputs.cosines)  # type: ignore[arg-type]  # refused before if there are none


def _concepts(inputs: MetricInputs) -> Any:
    """Concepts are read a floor above, by name."""
    metric = imported("limner.explain.caption_concepts:concept_f", what="metric")
    return metric(inputs.candidates.captions, inputs.candidates.references)


def _rows() -> Iterator[CaptionMetric]:
    for order in (1, 2, 3, 4):
        formula = "length penalty * (product of n-gram precisions)^(1/N)"
        score = partial(_of_texts, partial(bleu, order=order))
        yield CaptionMetric(f"BLEU-{order}", formula, "Papineni et al. 2002", ("references",), score, order)
    lcs = "F-score (beta 1.2) of the longest common subsequence"
    yield CaptionMetric("ROUGE-L", lcs, "Lin 2004", ("references",), partial(_of_texts, rouge_l))
    vedantam = "Vedantam et al. 2015"
    tf_idf = "10 * mean over n and references of cos(TF-IDF)"
    yield CaptionMetric("CIDEr", tf_idf, vedantam, ("references",), partial(_of_texts, cider))
    clipped = "CIDEr with clipped counts and a penalty for length"
    yield CaptionMetric("CIDEr-D", clipped, vedantam, ("references",), partial(_of_texts, cider_d))
    concepts = "F-score of objects, colours, sizes and numbers"
    yield CaptionMetric("concept-F", concepts, "form of Anderson et al. 2016 (SPICE)", ("references",), _concepts)
    hessel = "Hessel et al. 2021"
    cosine = "2.5 * max(0, cos(image, caption))"
    yield CaptionMetric("CLIPScore", cosine, hessel, ("an encoder",), partial(_of_cosines, clip_score))
    harmonic, needs = "harmonic mean of CLIPScore and the best reference's cosine", ("an encoder", "references")
    yield CaptionMetric("RefCLIPScore", harmonic, hessel, needs, partial(_of_cosines, ref_clip_score))
    pair = "the score of image and caption by a pair scorer"
    yield CaptionMetric(
        "pair-score", pair, "form of Lin et al. 2024 (VQAScore)", ("a scorer",), lambda i: i.pair_scores
    )


CAPTION_METRICS: Mapping[str, CaptionMetric] = {metric.name: metric for metric in _rows()}
"""The metrics by name. pycocoevalcap calls CIDEr-D "CIDEr"."""


def caption_metrics(names: str | None, sources: frozenset[str]) -> list[CaptionMetric]:
    """Metrics by their names, separated by blanks; by default all that can be computed from what there is.

    Args:
        names: Such as "BLEU-4 CIDEr-D"; or "module:function" for a function of captions and references.
        sources: What there is, as in `MetricInputs.sources`.

    >>> [metric.name for metric in caption_metrics("bleu-4 CIDEr-D", frozenset())]
    ['BLEU-4', 'CIDEr-D']
    """
    if names is None:
        chosen = [metric for metric in CAPTION_METRICS.values() if sources.issuperset(metric.needs)]
        if not chosen:
            raise LimnerError("there are no references, no encoder and no scorer: no metric can be computed; give one")
        return chosen
    by_name = {name.lower(): metric for name, metric in CAPTION_METRICS.items()}
    return [by_name[name.lower()] if name.lower() in by_name else _custom(name) for name in names.split()]


def _custom(name: str) -> CaptionMetric:
    if ":" not in name:
        raise UnknownName("metric of captions", name, CAPTION_METRICS)
    return CaptionMetric(name, "", "", ("references",), partial(_of_texts, imported(name, what="metric")))
