"""Statistics: arrays in, numbers out.

Bootstrap intervals, paired tests, effect sizes, correction for multiple comparisons, agreement of raters and of
rankings, sampling designs and estimators. Inputs have one number per query, in the same order for all systems.
"""

from limner.stats.agreement import Undefined, alpha_interval, cohen_kappa, krippendorff_alpha
from limner.stats.bootstrap import Interval, Part, bootstrap, bootstrap_difference, bootstrap_sum
from limner.stats.bounded import mean_interval, sum_interval
from limner.stats.bradley_terry import Preference, bradley_terry
from limner.stats.chained import chained_means
from limner.stats.correlation import correlation_matrix, kendall_tau_b, spearman
from limner.stats.dawid_skene import DawidSkene, dawid_skene
from limner.stats.effects import cliff_delta, cohen_d, cohen_g, odds_ratio, rank_biserial
from limner.stats.estimators import (
    Estimate,
    hajek,
    horvitz_thompson,
    power_tuning,
    stratified,
    sum_of_means,
)
from limner.stats.groups import GroupTest, false_discovery, group_tests
from limner.stats.paired import PairedTest, holm, mcnemar, sign_test, wilcoxon
from limner.stats.randomisation import randomisation, randomisation_of
from limner.stats.rank_sets import RankSets, queries_needed, rank_sets, rank_sets_of_means, rank_sets_of_sum
from limner.stats.sampling import Drawn, draw, inclusion, neyman, strata_of, systematic
from limner.stats.selective import Answers, Threshold, precision_threshold, precision_within_reach
from limner.stats.sequences import confidence_sequence, sequential

__all__ = [
    "Answers",
    "DawidSkene",
    "Drawn",
    "Estimate",
    "GroupTest",
    "Interval",
    "PairedTest",
    "Part",
    "Preference",
    "RankSets",
    "Threshold",
    "Undefined",
    "alpha_interval",
    "bootstrap",
    "bootstrap_difference",
    "bootstrap_sum",
    "bradley_terry",
    "chained_means",
    "cliff_delta",
    "cohen_d",
    "cohen_g",
    "cohen_kappa",
    "confidence_sequence",
    "correlation_matrix",
    "dawid_skene",
    "draw",
    "false_discovery",
    "group_tests",
    "hajek",
    "holm",
    "horvitz_thompson",
    "inclusion",
    "kendall_tau_b",
    "krippendorff_alpha",
    "mcnemar",
    "mean_interval",
    "neyman",
    "odds_ratio",
    "power_tuning",
    "precision_threshold",
    "precision_within_reach",
    "queries_needed",
    "randomisation",
    "randomisation_of",
    "rank_biserial",
    "rank_sets",
    "rank_sets_of_means",
    "rank_sets_of_sum",
    "sequential",
    "sign_test",
    "spearman",
    "strata_of",
    "stratified",
    "sum_interval",
    "sum_of_means",
    "systematic",
    "wilcoxon",
]
