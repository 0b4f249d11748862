"""ECCV Caption (Chun et al. 2022) as far as it can be recomputed: bias, preferences, how many positives there are more.

From the paper's own tables (`limner.evaluation.published`) and from the judgements in the package `eccv_caption`. What
the authors' annotators rejected is not shipped, so precision and recall of the older data sets are taken against the
final judgements; where that differs from the paper's table, the reason is said.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from claims import Claim, log, main
from limner.annotate.bias import bias_of, by_size
from limner.annotate.merge import precision_recall
from limner.core.judgements import Judgements
from limner.datasets.extended import read_coco_pairs, read_cxc_positives, read_eccv
from limner.evaluation.published import Table, table
from limner.stats import bradley_terry

TEXT = {"A": 70.85, "B": 13.15, "C": 10.66, "D": 4.89, "E": 0.44}
ROWS = {"A": 10.66, "B": 4.89, "C": 70.85, "D": 13.15, "E": 0.44}
POSITIVES = {"i2t": (22550, 6305, 8906), "t2i": (11279, 1332, 1895)}
FACTORS = {"i2t": (3.58, 1.41), "t2i": (8.47, 1.42)}
PER_QUERY = {"i2t": 17.9, "t2i": 8.5}
TABLE_2 = {"i2t": (96.9, 21.1), "t2i": (96.4, 13.8)}
INVALID = (
    607516, 607486, 433639, 248212, 469834, 462530, 469102, 743575, 246706, 61717, 500797, 19273, 630298, 576409,
    390637, 296557, 450553, 44809, 610564, 359139, 218995, 609235, 143250, 375316, 712683, 75083, 625605, 620511,
    613949, 129825, 605566, 634829,
)  # fmt: skip
"""Appendix C.1: 18 captions that describe nothing and 14 that are wrong."""
WIDER = "Table 2 is against what people verified; the shipped file joins CxC to it, which holds nearly all of COCO"


def biases(found: Table) -> dict[str, tuple[float, float, float]]:
    """Bias, self and non-self of the judgements that each model pooled alone."""
    full = dict(zip(found.labels, found.column("All").tolist(), strict=True))
    each = {n: bias_of(dict(zip(found.labels, found.column(n).tolist(), strict=True)), full, [n]) for n in found.labels}
    mean = by_size(each.values())[1]
    log(f"{found.name}, one model: bias {mean.overall:.2f}, self {mean.own:.2f}, non-self {mean.others:.2f}")
    return {name: (b.overall, b.own, b.others) for name, b in each.items()}


def bias_claims() -> Iterator[Claim]:
    """The paper's example, and that every model's own judgements flatter it."""
    recall, precision = biases(table("eccv-e1a")), biases(table("eccv-e1b"))
    for what, ours, published in zip(("bias", "self", "non-self"), recall["PVSE"], (9.5, 0.1, 11.8), strict=True):
        yield Claim(
            f"judgements pooled by PVSE alone, R@1: {what}", round(ours, 2), published, "within 0.05", source="print"
        )
    smaller = sum(own < others for _, own, others in recall.values())
    note = "of 5; by R-Precision the self part is the larger one, as in figure E.2"
    yield Claim("models whose self-bias is below their non-self-bias, R@1", smaller, None, "== 5", note)
    larger = sum(own > others for _, own, others in precision.values())
    yield Claim("models whose self-bias is above their non-self-bias, R-Precision", larger, None, "== 5")


def preference_claims() -> Iterator[Claim]:
    """Bradley-Terry scores of table D.1: the numbers of the text under other labels."""
    counts = table("eccv-d1")
    found = bradley_terry(counts.values, counts.labels)
    for name, score in zip(counts.labels, found.scores.tolist(), strict=True):
        yield Claim(
            f"Table D.1, row {name}: Bradley-Terry score", round(score, 3), ROWS[name], "within 0.005", source="print"
        )
    for (name, value), ours in zip(
        sorted(TEXT.items(), key=lambda e: e[1]), sorted(found.scores.tolist()), strict=True
    ):
        row = counts.labels[int(np.argmin(np.abs(found.scores - ours)))]
        note = f"row {row} of the table: its labels are permuted" if row != name else ""
        yield Claim(
            f"score that the text gives ranking {name}", round(ours, 3), value, "within 0.005", note, source="print"
        )


def count_claims() -> Iterator[Claim]:
    """Positives and factors of ECCV Caption and CxC over the original, on ECCV Caption's queries."""
    totals = np.zeros(2)
    for direction, eccv, cxc, coco in _directions():
        original, wider = (j.restrict(queries=eccv.queries) for j in (coco, cxc))
        sizes = (len(eccv), len(original), len(wider))
        for name, ours, published in zip(("ECCV", "COCO", "CxC"), sizes, POSITIVES[direction], strict=True):
            yield Claim(f"{direction}: positives of {name}", ours, published, "within 0", source="print")
        factors = sizes[0] / sizes[1], sizes[2] / sizes[1]
        for name, ours, published in zip(("ECCV", "CxC"), factors, FACTORS[direction], strict=True):
            yield Claim(
                f"{direction}: {name} over COCO, times", round(ours, 3), published, "within 0.005", source="print"
            )
        per_query = sizes[0] / len(eccv.queries)
        yield Claim(f"{direction}: positives per query", per_query, PER_QUERY[direction], "within 0.05", source="print")
        totals += np.array(sizes[:2])
        left = sorted({str(key) for key in INVALID} & {*eccv.queries, *eccv.candidates})
        note = f"the shipped file still holds {', '.join(left)}" if left else ""
        yield Claim(f"{direction}: captions of appendix C.1 that are left", len(left), None, "== 0", note)
    yield Claim("both directions: ECCV over COCO, times", totals[0] / totals[1], 4.4, "within 0.05", source="print")


def _directions() -> Iterator[tuple[str, Judgements, Judgements, Judgements]]:
    yield from zip(("i2t", "t2i"), read_eccv(), read_cxc_positives(), read_coco_pairs(), strict=True)


def share_claims() -> Iterator[Claim]:
    """Precision and recall of COCO against the final judgements."""
    for direction, eccv, _, coco in _directions():
        kept = coco.restrict(queries=eccv.queries, candidates=eccv.candidates).relevant
        # The final judgements list positives only: what COCO has beyond them counts as judged no.
        judged = eccv | kept.at_least(np.inf)
        ours = [round(100 * value, 2) for value in precision_recall(kept, judged)]
        for name, value, published in zip(("precision", "recall"), ours, TABLE_2[direction], strict=True):
            yield Claim(f"{direction}: {name} of COCO, percent", value, published, "within 0.5", WIDER, source="print")


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Everything; it takes seconds."""
    yield from bias_claims()
    yield from preference_claims()
    yield from count_claims()
    yield from share_claims()


if __name__ == "__main__":
    main(run, __doc__)
