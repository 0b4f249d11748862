"""CA, NCS, CE, SD: how much a returned image has in common with the relevant one.

After Lymperaiou et al. (2022). V(.) is the set of concepts in an image, g the relevant image, r the returned one.

- CA, concept agreement: |V(g) & V(r)| / |V(g)|; higher is better; undefined if V(g) is empty.
- NCS, similarity of the other concepts: mean path similarity of the best matching of V(g) - V(r) with V(r) - V(g);
  higher is better; undefined if either is empty.
- CE, enumeration: summed difference in counts of the common concepts; lower is better; undefined without any. "CE sum"
  is the same as the paper prints it: 0 for two images that have no concept in common.
- SD, size disagreement: share of matched boxes whose areas differ by T or more; lower is better; undefined if there are
  no boxes to match. The continuous form has two readings: "SD mean", the mean over all pairs, and "SD sum", as the
  paper prints it, the sum over the common concepts of the mean over the pairs of each.
- AA, attributes: share of the attributes of common concepts in g that r has too; higher is better.
- RA, relations: share of the relations in g that hold in r too; higher is better.

The difference between two areas is relative to the smaller one, |a - b| / min(a, b), so that twice as large and half as
large are the same; boxes of a concept are matched so that the sum of differences is minimal. Undefined values are NaN.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from limner.explain.concepts import Concepts
from limner.language.wordnet import Similarities, WordNet

THRESHOLD = 1.0
SCORES = ("CA", "NCS", "CE", "CE sum", "SD", "SD mean", "SD sum", "AA", "RA")
HIGHER = {"CA", "NCS", "AA", "RA"}
SHARES = {"CA", "NCS", "SD", "AA", "RA"}


@dataclass(frozen=True)
class ConceptAgreement:
    """What one returned image has in common with the relevant one.

    Args:
        common: Concepts in both images.
        missing: Concepts of the relevant image only.
        added: Concepts of the returned image only.
        matched: (missing, added, path similarity): the pairs behind NCS.
        counts: For every common concept, its counts in the relevant and in the returned image.
        sizes: (concept, relative difference) of every matched pair of boxes.
        values: The scores by name; NaN where undefined.
    """

    common: tuple[str, ...]
    missing: tuple[str, ...]
    added: tuple[str, ...]
    matched: tuple[tuple[str, str, float], ...]
    counts: Mapping[str, tuple[int, int]]
    sizes: tuple[tuple[str, float], ...]
    values: Mapping[str, float]

    def __getitem__(self, score: str) -> float:
        return self.values[score]


def similarities(concepts: Iterable[Concepts], wordnet: WordNet) -> Similarities:
    """The path similarities of all concepts in many images, as one table."""
    return Similarities(wordnet, {name for each in concepts for name in each.names})


def agreement(
    truth: Concepts, returned: Concepts, similar: Similarities, *, threshold: float = THRESHOLD
) -> ConceptAgreement:
    """Compares the contents of two images.

    >>> from limner.explain.concepts import ImageObject
    >>> dog, ball, park, frisbee = (ImageObject(f"{word}.n.01") for word in ("dog", "ball", "park", "frisbee"))
    >>> g, r = Concepts((dog, ball, park)), Concepts((dog, frisbee, park))
    >>> round(agreement(g, r, similarities((g, r), WordNet.load()))["CA"], 4)
    0.6667
    """
    common = sorted(truth.names & returned.names)
    missing, added = sorted(truth.names - returned.names), sorted(returned.names - truth.names)
    matched = match(missing, added, similar)
    counts = {name: (truth.counts[name], returned.counts[name]) for name in common}
    gaps = {name: size_gaps(truth, returned, name) for name in common}
    sizes = tuple((name, gap) for name in common for gap in gaps[name])
    values = {
        "CA": len(common) / len(truth.names) if truth.names else math.nan,
        "NCS": _mean([similarity for *_, similarity in matched]),
        "CE": float(sum(abs(a - b) for a, b in counts.values())) if common else math.nan,
        "CE sum": float(sum(abs(a - b) for a, b in counts.values())) if truth.names and returned.names else math.nan,
        "SD": _mean([float(gap >= threshold) for _, gap in sizes]),
        "SD mean": _mean([gap for _, gap in sizes]),
        "SD sum": sum(_mean(each) for each in gaps.values() if each) if sizes else math.nan,
        "AA": _attributes(truth, returned, frozenset(common)),
        "RA": len(truth.relations & returned.relations) / len(truth.relations) if truth.relations else math.nan,
    }
    return ConceptAgreement(tuple(common), tuple(missing), tuple(added), matched, counts, sizes, values)


def match(missing: Iterable[str], added: Iterable[str], similar: Similarities) -> tuple[tuple[str, str, float], ...]:
    """The matching of two sets of concepts with the highest sum of path similarities; unknown concepts are ignored.

    Uses scipy's linear assignment on the table of similarities; the paper used NetworkX.
    """
    from scipy.optimize import linear_sum_assignment

    rows, columns = ([name for name in side if name in similar.row] for side in (missing, added))
    if not rows or not columns:
        return ()
    table = similar.of(rows, columns)
    chosen = zip(*linear_sum_assignment(table, maximize=True), strict=True)
    return tuple((rows[i], columns[j], float(table[i, j])) for i, j in chosen)


def size_gaps(truth: Concepts, returned: Concepts, name: str) -> list[float]:
    """Relative size differences of the boxes of one concept, matched so that their sum is minimal."""
    from scipy.optimize import linear_sum_assignment

    sides = [
        np.array([t.area for t in image.things if t.concept == name and t.area], dtype=np.float64)
        for image in (truth, returned)
    ]
    if not len(sides[0]) or not len(sides[1]):
        return []
    gaps = np.abs(sides[0][:, None] - sides[1]) / np.minimum(sides[0][:, None], sides[1])
    return [float(gap) for gap in gaps[linear_sum_assignment(gaps)]] if gaps.size > 1 else [float(gaps[0, 0])]


def _attributes(truth: Concepts, returned: Concepts, common: frozenset[str]) -> float:
    ours, theirs = (
        Counter(
            (t.concept, attribute, value)
            for t in image.things
            if t.concept in common
            for attribute, value in t.attributes
        )
        for image in (truth, returned)
    )
    return (ours & theirs).total() / ours.total() if ours else math.nan


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan
