"""The table of measures. To add one, write a function from placements to values, and a row here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from limner.core.judgements import FloatArray
from limner.evaluation.measures import values
from limner.evaluation.placements import Placements

if TYPE_CHECKING:
    from limner.evaluation.measures.measure import Measure


@dataclass(frozen=True)
class Kind:
    """One row of the table of measures.

    Args:
        name: As it is written before the cut.
        compute: One value per query, from placements.
        formula: The definition in one line.
        source: Where it comes from.
        cut: Whether `@k` is "required", "optional" or "none".
        options: Names allowed in parentheses, each with its default: False for a word that stands alone (True where it
            is done anyhow), a whole number, or any number of 0 or above.
        summary: How values become one number: "mean", "median" or "median floor".
        share: Whether the value is a share in 0..1, which tables show in percent.
        better: 1 where higher is better, -1 where lower is better.
    """

    name: str
    compute: Callable[[Placements, Measure], FloatArray]
    formula: str
    source: str
    cut: str = "none"
    options: Mapping[str, Any] = field(default_factory=dict)
    summary: str = "mean"
    share: bool = True
    better: int = 1


_BINARY = {"min_grade": 0.0}
_GRADED = {"min_grade": 0.0, "graded": False}
_FIELD = "Hodosh, Young & Hockenmaier 2013"

KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            Kind("R", values.hit, "1 if any of the first k is relevant, else 0", _FIELD, "required", _GRADED),
            Kind("S", values.hit, "as R@k, on people's judgements", _FIELD, "required", _GRADED),
            Kind("Recall", values.recall, "relevant in the first k / R", "van Rijsbergen 1979", "required", _GRADED),
            Kind("P", values.precision, "relevant in the first k / k", "van Rijsbergen 1979", "required", _GRADED),
            Kind(
                "MedR",
                values.first_rank,
                "median of rank_1; (floor): floor(median of rank_1 - 1) + 1, as the VSE++ code prints it",
                _FIELD,
                "none",
                {"min_grade": 0.0, "floor": False},
                "median",
                False,
                -1,
            ),
            Kind(
                "MeanR",
                values.first_rank,
                "mean of rank_1",
                "Faghri et al. 2018",
                "none",
                _BINARY,
                "mean",
                False,
                -1,
            ),
            Kind(
                "MRR",
                values.reciprocal_rank,
                "mean of 1 / rank_1, 0 beyond k",
                "Voorhees 1999",
                "optional",
                _BINARY,
            ),
            Kind(
                "nDCG",
                values.ndcg,
                "DCG / ideal DCG, discount log2(rank + 1), gain 2^grade - 1 as ranx's ndcg_burges (exponential); "
                "(linear): the grade itself, as trec_eval and ranx's ndcg",
                "Burges et al. 2005; Järvelin & Kekäläinen 2002",
                "optional",
                {"exponential": True, "linear": False},
            ),
            Kind(
                "MAP",
                values.average_precision,
                "(1/R) sum of rel_i P@i (i <= k)",
                "Buckley & Voorhees 2000",
                "optional",
                _BINARY,
            ),
            Kind(
                "mAP@R",
                values.average_precision_at_r,
                "(1/R) sum of rel_i P@i over i <= R",
                "Musgrave et al. 2020; Chun et al. 2022",
                "none",
                _BINARY,
            ),
            Kind(
                "RP",
                values.r_precision,
                "relevant in the first R / R; (graded): their grades / all grades",
                "Buckley & Voorhees 2000",
                "none",
                _GRADED,
            ),
            Kind(
                "PMRP",
                values.capped_r_precision,
                "RP with R = min(R, 50), on plausible matches",
                "Musgrave et al. 2020; Chun et al. 2021",
                "none",
                {**_GRADED, "cap": 50},
            ),
            Kind(
                "rsum",
                values.rsum,
                "100 (R@1 + R@5 + R@10), both directions added",
                "Faghri et al. 2018",
                "none",
                {},
                "mean",
                False,
            ),
        )
    }
)
"""All measures by name."""
