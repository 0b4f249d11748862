"""The built-in measures. Each row is a function from placements to values, and its traits."""

from __future__ import annotations

from limner.evaluation.measures import values
from limner.evaluation.measures.kinds import Composite, MeasureKind

GAIN = (
    "nDCG takes the gain 2^grade - 1, as ranx's ndcg_burges; nDCG(linear) takes the grade itself, as trec_eval and "
    "ranx's ndcg"
)
_BINARY = {"min_grade": 0.0}
_GRADED = {"min_grade": 0.0, "graded": False}
_FIELD = "Hodosh, Young & Hockenmaier 2013"

_VAN_RIJSBERGEN = "van Rijsbergen 1979"

BUILT_IN = (
    MeasureKind(
        "R",
        values.hit,
        "1 if any of the first k is relevant, else 0",
        _FIELD,
        "required",
        _GRADED,
        hit=True,
        decided_by="first",
        sees="k",
        needs_total=False,
    ),
    MeasureKind(
        "S",
        values.hit,
        "as R@k, on people's judgements",
        _FIELD,
        "required",
        _GRADED,
        hit=True,
        decided_by="first",
        sees="k",
        needs_total=False,
    ),
    MeasureKind("Recall", values.recall, "relevant in the first k / R", _VAN_RIJSBERGEN, "required", _GRADED, sees="k"),
    MeasureKind(
        "P",
        values.precision,
        "relevant in the first k / k",
        _VAN_RIJSBERGEN,
        "required",
        _GRADED,
        sees="k",
        decided_by="each",
        needs_total=False,
    ),
    MeasureKind(
        "MedR",
        values.first_rank,
        "median of rank_1; (floor): floor(median of rank_1 - 1) + 1, as the VSE++ code prints it",
        _FIELD,
        options={"min_grade": 0.0, "floor": False},
        summary="median",
        variants={"floor": values.floored_median},
        better=-1,
        bounds=None,
        percent=False,
        rank=True,
        needs_total=False,
    ),
    MeasureKind(
        "MeanR",
        values.first_rank,
        "mean of rank_1",
        "Faghri et al. 2018",
        options=_BINARY,
        better=-1,
        bounds=None,
        percent=False,
        rank=True,
        needs_total=False,
    ),
    MeasureKind(
        "MRR",
        values.reciprocal_rank,
        "mean of 1 / rank_1, 0 beyond k",
        "Voorhees 1999",
        "optional",
        _BINARY,
        decided_by="first",
    ),
    MeasureKind(
        "nDCG",
        values.ndcg,
        "DCG / ideal DCG, discount log2(rank + 1), gain 2^grade - 1; (linear): gain grade",
        "Burges et al. 2005; Järvelin & Kekäläinen 2002",
        "optional",
        {"exponential": True, "linear": False},
        alternatives=("linear", "exponential"),
        on_grades=lambda measure: "" if measure.option("linear") else GAIN,
    ),
    MeasureKind(
        "MAP",
        values.average_precision,
        "(1/R) sum of rel_i P@i (i <= k); (capped): divided by min(k, R), as CIRCO does",
        "Buckley & Voorhees 2000; Baldrati et al. 2023",
        "optional",
        {"min_grade": 0.0, "capped": False},
    ),
    MeasureKind(
        "mAP@R",
        values.average_precision_at_r,
        "(1/R) sum of rel_i P@i over i <= R",
        "Musgrave et al. 2020; Chun et al. 2022",
        options=_BINARY,
        sees="R",
    ),
    MeasureKind(
        "RP",
        values.r_precision,
        "relevant in the first R / R; (graded): their grades / all grades",
        "Buckley & Voorhees 2000",
        options=_GRADED,
        sees="R",
    ),
    MeasureKind(
        "PMRP",
        values.capped_r_precision,
        "RP with R = min(R, 50), on plausible matches",
        "Musgrave et al. 2020; Chun et al. 2021",
        options={**_GRADED, "cap": 50},
        sees="R",
        judgements="plausible",
    ),
    MeasureKind(
        "Judged",
        values.judged,
        "judged candidates, relevant or not, among the first k / k",
        "Sakai & Kando 2008",
        "required",
        judged=True,
        sees="k",
    ),
    MeasureKind(
        "rsum",
        None,
        "100 (R@1 + R@5 + R@10), both directions added",
        "Faghri et al. 2018",
        bounds=None,
        percent=False,
        composite=Composite(("R@1", "R@5", "R@10"), 100.0),
    ),
)
