"""Retrieval measures, which print in the form they are parsed from: `R@1`, `mAP@R`, `nDCG@5`, `MedR(floor)`.

The kind of a measure, in `MEASURES`, is a function from `Placements` to one number per query, and its traits.
If candidates are tied, every function returns the expectation over random orders of the tied ones (McSherry & Najork,
ECIR 2008), so a constant scorer gets chance level. For a truncated list, a measure is computed if no continuation of
the list can change it (`bounds`), and refused otherwise.

Symbols: R = relevant candidates of the query; rank_1 = rank of the first relevant candidate; rel_i = 1 where the i-th
candidate is relevant; P@i = share of relevant ones among the first i.

Example: a query with five candidates, of which the second is relevant and the fourth has grade 0.5:

>>> import limner
>>> run = limner.Ranking.from_lists({"q": "abcde"}, candidates="abcde")
>>> truth = limner.Judgements.from_pairs([("q", "b", 1), ("q", "d", 0.5)])
>>> for name in ("R@1 R@2 S@2 Recall@2 P@2", "MeanR MRR nDCG@5 MAP", "mAP@R RP PMRP RP(graded)"):
...     print({str(r.measure): round(r.value, 3) for r in limner.evaluate(run, truth, measures=name).results})
{'R@1': 0.0, 'R@2': 1.0, 'S@2': 1.0, 'Recall@2': 0.5, 'P@2': 0.5}
{'MeanR': 2.0, 'MRR': 0.5, 'nDCG@5': 0.642, 'MAP': 0.5}
{'mAP@R': 0.25, 'RP': 0.5, 'PMRP': 0.5, 'RP(graded)': 0.667}
"""

from limner.evaluation.measures.built_in import BUILT_IN, at_rank, total
from limner.evaluation.measures.kinds import MEASURES, Composite, MeasureKind
from limner.evaluation.measures.measure import Measure, bounds, parse

for _kind in BUILT_IN:
    MEASURES.register(_kind.name)(_kind)

DEFAULT = parse("R@1 R@5 R@10 MedR MRR mAP@R RP rsum")
"""The default measures."""

__all__ = ["DEFAULT", "MEASURES", "Composite", "Measure", "MeasureKind", "at_rank", "bounds", "parse", "total"]
