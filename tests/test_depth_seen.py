"""Ranks that no measure sees are not counted: every number of a report is the same as with all ranks."""

import importlib

import numpy as np
import pytest

from limner import Collection, Embeddings, Ids, Items, Judgements, Scores
from limner.evaluation import evaluate
from limner.evaluation.evaluate import depth_seen
from limner.evaluation.measures import parse
from limner.evaluation.placements import NEVER, RankOptions, RankRequest, place

module = importlib.import_module("limner.evaluation.evaluate")
unjudged = importlib.import_module("limner.evaluation.partial_judgements")


def world(rng):
    """Images with two texts each, and judgements of more pairs, half of them not relevant; some scores are equal."""
    images, texts = Ids([f"i{n}" for n in range(60)]), Ids([f"t{n}" for n in range(120)])
    pairs = Judgements.from_pairs([(f"i{n // 2}", f"t{n}") for n in range(120)])
    drawn = {(int(i), int(t)) for i, t in zip(rng.integers(0, 60, 300), rng.integers(0, 120, 300), strict=True)}
    judgements = Judgements.from_pairs([(f"i{i}", f"t{t}", float((i + t) % 2)) for i, t in sorted(drawn)], name="more")
    vectors = np.round(rng.standard_normal((60, 3)), 1)
    sides = vectors, np.repeat(vectors, 2, axis=0) + np.round(rng.standard_normal((120, 3)), 1)
    fold = [{"fold": [n * 2 // count for n in range(count)]} for count in (60, 120)]
    collection = Collection(
        "world", Items(images, [None] * 60, fold[0]), Items(texts, [""] * 120, fold[1], "text"), pairs
    )
    scores = Scores.from_embeddings(Embeddings(images, sides[0]), Embeddings(texts, sides[1]), similarity="dot")
    return scores, collection, judgements


@pytest.mark.parametrize("in_blocks", [True, False])
@pytest.mark.parametrize("ties", ["expected", "order", "pessimistic"])
@pytest.mark.parametrize("measures", ["R@1 R@20 MedR mAP@R RP rsum Judged@5", "MRR MAP nDCG@3", "MeanR P@3 Recall@30"])
def test_numbers_are_those_of_all_ranks(measures, ties, in_blocks, monkeypatch):
    scores, collection, judgements = world(np.random.default_rng(0))
    if in_blocks:
        for part in (module, unjudged):
            monkeypatch.setattr(part, "MOST_CELLS", 100)

    def numbers():
        report = evaluate(scores, collection, judgements=judgements, measures=measures, ties=ties, protocol=None)
        return [(r.key, r.values.tolist(), r.possible) for r in report.results]

    actual = numbers()
    monkeypatch.setattr(module, "depth_seen", lambda *given: None)
    assert actual == numbers()


@pytest.mark.parametrize("keep", [1, 4, 10, 40])
@pytest.mark.parametrize("holes", [False, True])
def test_ranks_that_the_best_decide_are_those_of_a_slow_count(keep, holes):
    """With ties, folds, several requests and depths, and candidates that are excluded by a score of -inf."""
    rng = np.random.default_rng(keep)
    matrix = np.round(rng.standard_normal((50, 40)), 1).astype(np.float32)
    pairs = Judgements.from_pairs(
        [(str(q), str(c), float(rng.integers(0, 2))) for q in range(50) for c in range(0, 40, 3)]
    )
    if holes:
        matrix[:, 1::3][rng.random((50, 13)) < 0.3] = -np.inf
    folds, depth = (rng.integers(-1, 3, 50), rng.integers(-1, 3, 40)), rng.integers(1, 30, 50)
    requests = [
        RankRequest(pairs),
        RankRequest(pairs, *folds),
        RankRequest(pairs, depth=depth),
        RankRequest(pairs, *folds, depth=7),
    ]
    scores = Scores.from_matrix(matrix, range(50), range(40))
    for all_ranks, best_only, request in zip(
        place(scores, requests)[0], place(scores, requests, RankOptions(keep=keep))[0], requests, strict=True
    ):
        for name in ("indptr", "above", "tied", "grades"):
            assert np.array_equal(getattr(all_ranks, name), getattr(best_only, name)), name
        assert np.array_equal(best_only.judged.above, slowly(matrix, request, best_only.judged))


def slowly(matrix, request, placed):
    """Ranks of the judged candidates of these queries, in the order of placements, by comparing single scores."""
    ranks_of_all, judged = [], request.judgements
    for q in (int(name) for name in placed.queries):
        pool = [
            c
            for c in range(40)
            if request.query_pools is None or request.candidate_pools[c] == request.query_pools[q] >= 0
        ]
        judged_grades = {int(c): g for query, c, g in judged if int(query) == q and int(c) in pool}
        ranks = {c: sum(matrix[q, rival] > matrix[q, c] for rival in pool) for c in judged_grades}
        best = min((ranks[c] for c in judged_grades if judged_grades[c] > 0), default=None)
        depth = NEVER if request.depth is None else np.broadcast_to(request.depth, 50)[judged.queries.index(q)]
        ranks_of_all += sorted(
            r if r < depth or (judged_grades[c] > 0 and r == best) else NEVER for c, r in ranks.items()
        )
    return ranks_of_all


@pytest.mark.parametrize(
    ("measures", "pool", "depth"),
    [
        ("R@1 R@20 MedR", 100, [20]),
        ("R@1", 100, [10]),
        ("mAP@R RP", 10**9, [10]),
        ("mAP@R", 100, None),  # small pools: what unjudged candidates could change is computed from all ranks
        ("MRR", 100, None),
        ("MAP", 10**9, None),
        ("R@1 nDCG@10", 10**9, None),
        ("Judged@30 R@1", 100, [30]),
    ],
)
def test_the_depth_is_what_the_measures_see(measures, pool, depth):
    judged = Judgements.from_pairs([("q", "a", 1.0), ("q", "b", 0.0)])
    depths = depth_seen(judged, parse(measures), pool)
    assert (depths if depths is None else depths.tolist()) == depth


def test_a_query_with_many_relevant_candidates_is_seen_to_the_last():
    judged = Judgements.from_pairs([("q", f"c{n}") for n in range(40)] + [("other", "c0")])
    assert depth_seen(judged, parse("R@1 mAP@R"), 100).tolist() == [40, 10]
