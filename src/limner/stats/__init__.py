"""Statistics: arrays in, numbers out.

Bootstrap intervals, paired tests, effect sizes, correction for multiple comparisons, agreement of raters and of
rankings, sampling designs and estimators. Inputs have one number per query, in the same order for all systems.
"""

from limner.stats.agreement import cohen_kappa, dawid_skene, krippendorff_alpha
from limner.stats.bootstrap import Interval, Part, bootstrap, bootstrap_difference
from limner.stats.bounded import mean_interval, sum_interval
from limner.stats.bradley_terry import bradley_terry
from limner.stats.chained import chained_means
from limner.stats.correlation import correlation_matrix, kendall_tau_b, spearman
from limner.stats.estimators import Estimate, power_tuning, stratified
from limner.stats.groups import false_discovery, group_tests
from limner.stats.paired import (
    cliff_delta,
    cohen_d,
    cohen_g,
    holm,
    mcnemar,
    odds_ratio,
    randomisation,
    rank_biserial,
    sign_test,
    wilcoxon,
)
from limner.stats.rank_sets import queries_needed, rank_sets
from limner.stats.selective import precision_threshold
from limner.stats.sequences import confidence_sequence, sequential

__all__ = [
    "Estimate",
    "Interval",
    "Part",
    "bootstrap",
    "bootstrap_difference",
    "bradley_terry",
    "chained_means",
    "cliff_delta",
    "cohen_d",
    "cohen_g",
    "cohen_kappa",
    "confidence_sequence",
    "correlation_matrix",
    "dawid_skene",
    "false_discovery",
    "group_tests",
    "holm",
    "kendall_tau_b",
    "krippendorff_alpha",
    "mcnemar",
    "mean_interval",
    "odds_ratio",
    "power_tuning",
    "precision_threshold",
    "queries_needed",
    "randomisation",
    "rank_biserial",
    "rank_sets",
    "sequential",
    "sign_test",
    "spearman",
    "stratified",
    "sum_interval",
    "wilcoxon",
]
