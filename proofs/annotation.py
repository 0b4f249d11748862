"""ECCV Caption (Chun et al. 2022) as far as it can be recomputed: bias, preferences, how many positives there are more.

From the paper's own tables (`limner.papers.published_tables`) and from the judgements in the package `eccv_caption`.

Table 2 is measured against what people verified. The package has only this joined with CxC, and nothing of what people
rejected. Recall needs what was verified only: outside CxC that is known pair by pair, and Table 3 has the total, so the
number of CxC's pairs among it follows. How many of these are COCO's originals does not follow: every split is tried,
with pairs drawn at random, and the one that fits both printed recalls best is shown, with the range of all. Precision
needs what was rejected: against the final judgements it is nearly 100 by construction, as CxC holds nearly all of COCO.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from claims import Claim, log, main
from limner.annotate.bias import bias_of, by_size
from limner.annotate.merge import precision_recall
from limner.core.judgements import Judgements
from limner.datasets.coco_judgements import read_coco_pairs, read_cxc_positives, read_eccv
from limner.papers.published_tables import Table, table
from limner.stats import bradley_terry

TEXT = {"A": 70.85, "B": 13.15, "C": 10.66, "D": 4.89, "E": 0.44}
ROWS = {"A": 10.66, "B": 4.89, "C": 70.85, "D": 13.15, "E": 0.44}
POSITIVES = {"i2t": (22550, 6305, 8906), "t2i": (11279, 1332, 1895)}
FACTORS = {"i2t": (3.58, 1.41), "t2i": (8.47, 1.42)}
PER_QUERY = {"i2t": 17.9, "t2i": 8.5}
PRECISION = {"i2t": 96.9, "t2i": 96.4}
RECALL = {"i2t": {"COCO": 21.1, "CxC": 23.0}, "t2i": {"COCO": 13.8, "CxC": 16.1}}
VERIFIED = {"i2t": 16990, "t2i": 10814}
"""Positives that people verified (Table 3)."""
INVALID = (
    607516, 607486, 433639, 248212, 469834, 462530, 469102, 743575, 246706, 61717, 500797, 19273, 630298, 576409,
    390637, 296557, 450553, 44809, 610564, 359139, 218995, 609235, 143250, 375316, 712683, 75083, 625605, 620511,
    613949, 129825, 605566, 634829,
)  # fmt: skip
"""Appendix C.1: 18 captions that describe nothing and 14 that are wrong."""
WIDER = (
    "cannot be computed: what people rejected is not published; against the final judgements it is 100 by construction"
)
DRAWS = 20


def biases(counts: Table) -> dict[str, tuple[float, float, float]]:
    """Bias, self and non-self of the judgements that each model pooled alone."""
    full = dict(zip(counts.labels, counts.column("All").tolist(), strict=True))
    each = {
        n: bias_of(dict(zip(counts.labels, counts.column(n).tolist(), strict=True)), full, [n]) for n in counts.labels
    }
    mean = by_size(each.values())[1]
    log(f"{counts.name}, one model: bias {mean.overall:.2f}, self {mean.own:.2f}, non-self {mean.others:.2f}")
    return {name: (b.overall, b.own, b.others) for name, b in each.items()}


def bias_claims() -> Iterator[Claim]:
    """The paper's example, and that every model's own judgements flatter it."""
    recall, precision = biases(table("eccv-e1a")), biases(table("eccv-e1b"))
    for part, ours, published in zip(("bias", "self", "non-self"), recall["PVSE"], (9.5, 0.1, 11.8), strict=True):
        yield Claim(
            f"judgements pooled by PVSE alone, R@1: {part}", round(ours, 2), published, "within 0.05", source="print"
        )
    smaller = sum(own_bias < other_bias for _, own_bias, other_bias in recall.values())
    note = "of 5; by R-Precision the self part is the larger one, as in figure E.2"
    yield Claim("models whose self-bias is below their non-self-bias, R@1", smaller, None, "== 5", note)
    larger = sum(own_bias > other_bias for _, own_bias, other_bias in precision.values())
    yield Claim("models whose self-bias is above their non-self-bias, R-Precision", larger, None, "== 5")


def preference_claims() -> Iterator[Claim]:
    """Bradley-Terry scores of table D.1: the numbers of the text under other labels."""
    counts = table("eccv-d1")
    strengths = bradley_terry(counts.values, counts.labels)
    for name, score in zip(counts.labels, strengths.scores.tolist(), strict=True):
        yield Claim(
            f"Table D.1, row {name}: Bradley-Terry score", round(score, 3), ROWS[name], "within 0.005", source="print"
        )
    for (name, value), ours in zip(
        sorted(TEXT.items(), key=lambda e: e[1]), sorted(strengths.scores.tolist()), strict=True
    ):
        row = counts.labels[int(np.argmin(np.abs(strengths.scores - ours)))]
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
    """Precision of COCO against the final judgements, and the recalls of COCO and CxC that Table 3 leaves possible."""
    for direction, eccv, cxc, coco in _directions():
        originals = coco.restrict(queries=eccv.queries, candidates=eccv.candidates).relevant
        # The final judgements list positives only: what COCO has beyond them counts as judged no.
        judged = eccv | originals.at_least(np.inf)
        ours = round(100 * precision_recall(originals, judged)[0], 2)
        printed = PRECISION[direction]
        yield Claim(f"{direction}: precision of COCO, percent", ours, printed, "within 0.5", WIDER, source="print")
        sizes = Sizes.of(eccv, cxc, coco)
        verified = VERIFIED[direction] - int(sizes.others.sum())
        recalls = sizes.recalls(verified)
        published = RECALL[direction]
        split = min(recalls, key=lambda n: max(abs(recalls[n][name] - value) for name, value in published.items()))
        for name, value in published.items():
            low, high = (bound(each[name] for each in recalls.values()) for bound in (min, max))
            note = f"{low:.1f} to {high:.1f} by the split, which is fitted: {split:,} of {verified:,} are originals"
            claim = f"{direction}: recall of {name} with the split that fits both best, percent"
            yield Claim(claim, recalls[split][name], value, "within 0.5", note, source="print")


@dataclass(frozen=True)
class Sizes:
    """How many final positives of each query are COCO's originals, further pairs of CxC, and found by people alone."""

    originals: np.ndarray
    further: np.ndarray
    others: np.ndarray

    @classmethod
    def of(cls, eccv: Judgements, cxc: Judgements, coco: Judgements) -> Sizes:
        """Counts by query."""
        counts = []
        pairs, wider, first = (_by_query(each) for each in (eccv, cxc, coco))
        for query, positives in pairs.items():
            known_positives = positives & wider[query]
            original = known_positives & first[query]
            counts.append((len(original), len(known_positives - original), len(positives - known_positives)))
        return cls(*np.array(counts).T)

    def recalls(self, verified: int, *, steps: int = 50) -> dict[int, dict[str, float]]:
        """Mean recall in percent of COCO and CxC, by how many of the verified pairs of CxC are originals.

        As in the paper, queries without a verified pair of the data set are left out.

        Args:
            verified: Pairs of CxC that people verified, originals included.
            steps: How many splits are tried.
        """
        upper = min(verified, int(self.originals.sum()))
        lower = max(0, verified - int(self.further.sum()))
        by_split = {}
        for originals in np.linspace(lower, upper, steps).astype(int).tolist():
            shares = originals / self.originals.sum(), (verified - originals) / self.further.sum()
            each = [self._drawn(np.random.default_rng(seed), *shares) for seed in range(DRAWS)]
            by_split[originals] = dict(zip(("COCO", "CxC"), np.mean(each, axis=0).tolist(), strict=True))
        return by_split

    def _drawn(self, rng: np.random.Generator, original: float, further: float) -> tuple[float, float]:
        """Mean recall of COCO and of CxC, if these shares of their pairs were verified."""
        first, further_verified = rng.binomial(self.originals, original), rng.binomial(self.further, further)
        total = first + further_verified + self.others
        coco, cxc = (
            100 * float(np.mean(counts[counts > 0] / total[counts > 0])) for counts in (first, first + further_verified)
        )
        return coco, cxc


def _by_query(judgements: Judgements) -> defaultdict[str, set[str]]:
    by_query: defaultdict[str, set[str]] = defaultdict(set)
    for query, candidate, _ in judgements.relevant:
        by_query[query].add(candidate)
    return by_query


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Everything; it takes seconds."""
    yield from bias_claims()
    yield from preference_claims()
    yield from count_claims()
    yield from share_claims()


if __name__ == "__main__":
    main(run, __doc__)
