"""Names of measures in other programs, for suggestions: MTEB, trec_eval, ranx, ir_measures, torchmetrics."""

from __future__ import annotations

import re

OTHER_NAMES = (
    (r"ndcg(?:_at_|_cut_)(\d+)", "nDCG@{}(linear)"),
    (r"(?:retrieval_?)?(?:normalized_?dcg|normalizeddcg)", "nDCG(linear)"),
    (r"ndcg_burges@(\d+)", "nDCG@{}"),
    (r"map(?:_at_|_cut_)(\d+)|AP@(\d+)", "MAP@{}"),
    (r"AP|average_precision", "MAP"),
    (r"(?:cv_recall|hit_rate|accuracy|hits|success)(?:_at_|@|_)(\d+)", "R@{}"),
    (r"recall(?:_at_|_)(\d+)", "Recall@{}"),
    (r"(?:precision(?:_at_|_|@)|P_)(\d+)", "P@{}"),
    (r"(?:mrr_at_|RR@)(\d+)", "MRR@{}"),
    (r"recip_rank|RR|mean_reciprocal_rank", "MRR"),
    (r"r[-_]?prec(?:ision)?", "RP"),
    (r"median_rank|med_?r", "MedR"),
    (r"mean_rank", "MeanR"),
)
"""Patterns of names, and the measure of limner that they mean."""


def limner_name(text: str) -> str:
    """The measure that a name of another program means; "" if there is none.

    >>> limner_name("ndcg_at_10"), limner_name("P_5"), limner_name("hit_rate@1"), limner_name("R@1")
    ('nDCG@10(linear)', 'P@5', 'R@1', '')
    """
    for pattern, name in OTHER_NAMES:
        match = re.fullmatch(pattern, text.strip(), re.IGNORECASE)
        if match is not None:
            return name.format(next((cut for cut in match.groups() if cut), ""))
    return ""
