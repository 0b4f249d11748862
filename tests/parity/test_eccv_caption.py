"""All metrics of the package `eccv_caption`: the same numbers on random and hostile input, and its faults refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from limner import Collection, Items, Judgements, LimnerError, Ranking, Scores, evaluate
from limner.core.errors import TooShort, UnknownName
from limner.datasets.coco import load_karpathy_5k
from limner.evaluation.measures import parse
from limner.evaluation.placements import RankRequest, place

eccv_caption = pytest.importorskip("eccv_caption", reason="the package eccv_caption is not installed")

ALMOST = 1e-15  # sums in another order
PROTOCOLS = ("coco-5k", "coco-1k", "cxc", "eccv")
VIEWS = {"coco_1k": "coco-1k", "coco_5k": "coco-5k", "cxc": "cxc", "eccv": "eccv"}


@dataclass(frozen=True)
class World:
    """The same ground truth as the package wants it (integers) and as limner does (strings)."""

    peer: Any
    collection: Collection
    images: np.ndarray
    texts: np.ndarray


def world(seed: int, n: int = 50) -> World:
    """n images in five folds, five captions each; richer judgements in each direction, apart from one another."""
    rng = np.random.default_rng(seed)
    images, texts = rng.permutation(10 * n)[:n], 100_000 + rng.permutation(50 * n)[: 5 * n]
    owner = np.repeat(images, 5)
    pairs = {int(i): [int(t) for t in texts[owner == i]] for i in images}
    owners = {int(t): [int(i)] for t, i in zip(texts, owner, strict=True)}
    cxc = {i: with_extra(rng, captions, texts, max_extra=3) for i, captions in pairs.items()}
    cxc[int(images[0])] = [int(texts[-1])]  # an original pair that was rated low
    rated = {int(t): [i for i, rated_texts in cxc.items() if t in rated_texts] for t in texts}
    eccv_i2t = {int(i): with_extra(rng, pairs[int(i)], texts, max_extra=12) for i in images[::3]}
    eccv_i2t[int(images[3])].append(999_999)  # a positive outside the gallery, as two of the real ones are
    eccv_t2i = {int(t): with_extra(rng, owners[int(t)], images, max_extra=6) for t in texts[::7]}
    plausible = {int(i): with_extra(rng, [], texts, max_extra=80, min_extra=1) for i in images}
    plausible_t2i = {int(t): with_extra(rng, [], images, max_extra=20, min_extra=1) for t in texts}
    peer = eccv_caption.Metrics()
    peer.coco_gts = {"i2t": pairs, "t2i": owners}
    peer.cxc_gts = {"i2t": cxc, "t2i": {t: relevant for t, relevant in rated.items() if relevant}}
    peer.eccv_gts = {"i2t": eccv_i2t, "t2i": eccv_t2i}
    peer.pm_gts = {"i2t": plausible, "t2i": plausible_t2i}
    peer.coco_ids = texts
    folds = np.arange(n) * 5 // n
    collection = Collection(
        "world",
        Items(images, [None] * n, {"fold": folds}),
        Items(texts, [""] * 5 * n, {"fold": np.repeat(folds, 5)}, "text"),
        judged(pairs, "pairs"),
        extra={
            "cxc": judged(cxc, "cxc"),
            "eccv": judged(eccv_i2t, "eccv"),
            "plausible": judged(plausible, "plausible"),
        },
        reverse={"eccv": judged(eccv_t2i, "eccv"), "plausible": judged(plausible_t2i, "plausible")},
    )
    return World(peer, collection, images, texts)


def with_extra(
    rng: np.random.Generator, positives: list[int], pool: np.ndarray, *, max_extra: int, min_extra: int = 0
) -> list[int]:
    extra = rng.choice(pool, int(rng.integers(min_extra, max_extra + 1)), replace=False)
    return list(dict.fromkeys([*positives, *map(int, extra)]))


def judged(positives: dict[int, list[int]], name: str) -> Judgements:
    return Judgements.from_pairs(((q, c) for q, relevant in positives.items() for c in relevant), name=name)


def similarities(world: World, kind: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    shape = (len(world.images), len(world.texts))
    matches = np.repeat(np.eye(shape[0]), 5, axis=1)
    return {
        "random": lambda: rng.standard_normal(shape),
        "good": lambda: 2.5 * matches + rng.standard_normal(shape),
        "perfect": lambda: matches + 1e-3 * rng.random(shape),
        "worst": lambda: -matches - 1e-3 * rng.random(shape),
        "negative": lambda: -100 + rng.random(shape),
        "float32": lambda: (matches + rng.standard_normal(shape)).astype(np.float32),
        "many ties": lambda: np.round(matches + rng.standard_normal(shape)),
        "constant": lambda: np.zeros(shape),
    }[kind]()


def lists(matrix: np.ndarray, queries: np.ndarray, candidates: np.ndarray) -> dict[int, list[int]]:
    """{query id: [candidate ids, best first]}, equal scores in candidate order."""
    order = np.argsort(-matrix, axis=1, kind="stable")
    return {int(q): [int(c) for c in candidates[row]] for q, row in zip(queries, order, strict=True)}


def asked_of_peer(peer: Any, i2t: dict[int, list[int]], t2i: dict[int, list[int]]) -> dict[tuple[str, str, str], float]:
    recalls = peer.compute_all_metrics(i2t, t2i, [f"{name}_recalls" for name in VIEWS], Ks=(1, 5, 10))
    aggregate = peer.compute_all_metrics(i2t, t2i, ["eccv_map_at_r", "eccv_rprecision", "eccv_r1"])
    values = {}
    for name, by_direction in {**recalls, **aggregate}.items():
        data, _, metric = name.rpartition("_r") if name[-1].isdigit() else name.partition("eccv_")
        measure = f"R@{metric}" if data in VIEWS else {"map_at_r": "mAP@R", "rprecision": "RP"}[metric]
        for direction, value in by_direction.items():
            values[VIEWS.get(data, "eccv"), direction, measure] = value
    return values


def compared(report, expected):
    actual = {r.key: r.value for r in report.results}
    assert len(expected) == 2 * (3 * 4 + 2)
    assert {key: actual[key] for key in expected} == pytest.approx(expected, abs=ALMOST, rel=0)


KINDS = ("random", "good", "perfect", "worst", "negative", "float32", "many ties", "constant")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("source", ["scores", "rankings"])
def test_every_metric(kind, source):
    seed = KINDS.index(kind)
    small_world = world(seed)
    matrix = similarities(small_world, kind, seed)
    i2t, t2i = (
        lists(matrix, small_world.images, small_world.texts),
        lists(matrix.T, small_world.texts, small_world.images),
    )
    system = Scores.from_matrix(matrix, small_world.images, small_world.texts)
    if source == "rankings":
        system = {
            "i2t": Ranking.from_lists(i2t, candidates=small_world.texts),
            "t2i": Ranking.from_lists(t2i, candidates=small_world.images),
        }
    measures = "R@1 R@5 R@10 mAP@R RP"
    report = evaluate(system, small_world.collection, protocol=PROTOCOLS, measures=measures, ties="order")
    compared(report, asked_of_peer(small_world.peer, i2t, t2i))


@pytest.mark.parametrize("depth", [None, 50])
@pytest.mark.parametrize("kind", ["random", "good"])
def test_plausible_match_r_precision(kind, depth):
    """Prec@min(R, length of the list): R-precision on full lists, the famous min(R, 50) on lists of 50."""
    small_world = world(9, n=75)
    matrix = similarities(small_world, kind, 9)
    values = {
        "i2t": {q: row[:depth] for q, row in lists(matrix, small_world.images, small_world.texts).items()},
        "t2i": {q: row[:depth] for q, row in lists(matrix.T, small_world.texts, small_world.images).items()},
    }
    expected = small_world.peer.pmrp(values, "all")
    system = {
        "i2t": Ranking.from_lists(values["i2t"], candidates=small_world.texts),
        "t2i": Ranking.from_lists(values["t2i"], candidates=small_world.images),
    }
    measure = "RP" if depth is None else "PMRP"
    for source in (system, Scores.from_matrix(matrix, small_world.images, small_world.texts)):
        report = evaluate(source, plausible_only(small_world.collection), measures=measure)
        actual = {d: report.value(measure, direction=d, view="plausible") for d in ("i2t", "t2i")}
        assert actual == pytest.approx(expected, abs=ALMOST, rel=0)


def plausible_only(of: Collection) -> Collection:
    plausible = of.extra["plausible"]
    return Collection("plausible", of.images, of.texts, plausible, reverse={"plausible": of.reverse["plausible"]})


def test_real_ground_truth():
    """The files of the package and its full pools, for some of the queries."""
    rng = np.random.default_rng(3)
    collection, peer = load_karpathy_5k(), eccv_caption.Metrics()
    pools = {
        "i2t": np.array([int(t) for t in collection.texts.ids]),
        "t2i": np.array([int(i) for i in collection.images.ids]),
    }
    outside = [575916, 421999]  # the two image queries with a positive outside the gallery
    for direction in ("i2t", "t2i"):
        queries = [*rng.choice(list(peer.eccv_gts[direction]), 10, replace=False).tolist()]
        queries += outside if direction == "i2t" else []
        ranked_lists = {q: half_right(rng, peer.eccv_gts[direction][q], pools[direction]) for q in queries}
        expected = eccv_caption._metrics.compute_eccv_metrics(
            ranked_lists, {q: peer.eccv_gts[direction][q] for q in queries}
        )
        ranking = Ranking.from_lists(ranked_lists, candidates=pools[direction])
        truth = collection.judged("eccv", direction).restrict(queries=queries)
        (placed,), _ = place(ranking, [RankRequest(truth, outside="count")])
        actual = [m.summarise(m(placed)) for m in parse("mAP@R RP R@1")]
        assert actual == pytest.approx(list(expected.values()), abs=ALMOST, rel=0)
        assert placed.outside == (2 if direction == "i2t" else 0)


def half_right(rng: np.random.Generator, positives: list[int], pool: np.ndarray) -> list[int]:
    """A ranking whose head holds about half of the positives, in random order."""
    some = rng.permutation([p for p in positives if p in pool])[: max(1, len(positives) // 2)]
    head = rng.permutation(np.concatenate([some, rng.choice(pool, len(positives))]))
    return list(dict.fromkeys(map(int, [*head, *rng.permutation(pool)])))


def test_the_best_possible_eccv_number_is_below_one():
    """Two positives are outside the gallery and still count, as in the published figures: no system reaches 1."""
    truth = load_karpathy_5k().judged("eccv", "i2t").relevant
    texts = [str(int(t)) for t in eccv_caption.Metrics().coco_ids]
    text_ids = set(texts)
    best = {q: [] for q in truth.queries}
    for query, text, _ in truth:
        best[query] += [text] if text in text_ids else []
    judged_only = {
        q: best_texts + [t for t in texts[:60] if t not in best_texts] for q, best_texts in best.items() if best_texts
    }
    ranking = Ranking.from_lists(judged_only, candidates=texts)
    (placed,), _ = place(ranking, [RankRequest(truth.restrict(queries=judged_only), outside="count")])
    (value,) = [m.summarise(m(placed)) for m in parse("mAP@R")]
    assert len(placed.queries) == 1261 and 0.99985 < value < 0.99995


# --- its faults -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small() -> World:
    return world(1)


@pytest.fixture(scope="module")
def full(small) -> dict[str, dict[int, list[int]]]:
    matrix = similarities(small, "random", 1)
    return {"i2t": lists(matrix, small.images, small.texts), "t2i": lists(matrix.T, small.texts, small.images)}


def test_a_repeated_positive_is_refused(small, full):
    cheat = {q: [relevant[0]] * 60 for q, relevant in small.peer.eccv_gts["i2t"].items()}
    assert small.peer.eccv_metrics({"i2t": cheat}, "i2t")["eccv_map_at_r"]["i2t"] == 1.0
    with pytest.raises(LimnerError, match=r"ranks candidate '\d+' twice"):
        Ranking.from_lists(cheat)


def test_an_unknown_metric_is_refused(small, full):
    assert small.peer.compute_all_metrics(full["i2t"], full["t2i"], ["eccv_map"]) == {}
    ranking = Ranking.from_lists(full["i2t"], candidates=small.texts)
    with pytest.raises(UnknownName, match=r"did you mean 'mAP@R'"):
        evaluate(ranking, small.collection, measures="eccvmAP@R")
    with pytest.raises(UnknownName, match="did you mean 'eccv'"):
        evaluate(ranking, small.collection, protocol="ecv")


def test_asking_for_one_number_does_not_drop_another(small, full):
    metrics = ["eccv_recalls", "eccv_map_at_r"]
    assert set(small.peer.compute_all_metrics(full["i2t"], full["t2i"], metrics)) == {"eccv_map_at_r"}
    assert small.peer.compute_all_metrics(full["i2t"], full["t2i"], ["eccv_rprecision"]) == {}
    ranking = Ranking.from_lists(full["i2t"], candidates=small.texts)
    report = evaluate(ranking, small.collection, protocol="eccv", measures="mAP@R R@1 R@5 R@10 RP")
    assert [str(r.measure) for r in report.results] == ["mAP@R", "R@1", "R@5", "R@10", "RP"]


@pytest.mark.parametrize(("protocol", "depth"), [("eccv", 2), ("coco-1k", 3)])
def test_a_list_that_is_too_short_is_refused_by_name(small, full, protocol, depth):
    """IndexError without a word in the package; here the query, the depth and what to do."""
    short = {d: {q: row[:depth] for q, row in ranked_lists.items()} for d, ranked_lists in full.items()}
    with pytest.raises(IndexError):
        small.peer.eccv_metrics(short, "all") if protocol == "eccv" else small.peer.coco_1k_recalls(short, "all")
    ranking = Ranking.from_lists(short["i2t"], candidates=small.texts)
    with pytest.raises(TooShort, match=r"of query '\d+' ends at \d"):
        evaluate(ranking, small.collection, protocol=protocol)


def test_a_missing_query_is_refused_by_name(small, full):
    lost = int(small.images[0])
    fewer = {q: row for q, row in full["i2t"].items() if q != lost}
    with pytest.raises(KeyError):
        small.peer.coco_5k_recalls({"i2t": fewer}, "i2t")
    with pytest.raises(LimnerError, match=f"1 queries of the judgements 'pairs' are not ranked \\('{lost}'\\)"):
        evaluate(Ranking.from_lists(fewer, candidates=small.texts), small.collection, protocol="coco-5k")
