"""Local and cluster results are the same to the last bit: top-k, every correction, evaluation; whole and in shards."""

from __future__ import annotations

import numpy as np
import pytest

import limner
from limner import Collection, Embeddings, Items, Judgements, LimnerError, Scores
from limner.cluster import candidate_shards, connect, ray_cluster
from limner.evaluation.placements import TIES, RankOptions, RankRequest, place
from limner.match import CORRECTIONS


def vectors(name, n, seed, *, d=24, whole=False):
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-1, 2, (n, d)).astype(np.float32) if whole else rng.standard_normal((n, d)) + 0.4
    matrix[~matrix.any(axis=1), 0] = 1
    return Embeddings([f"{name}{row}" for row in range(n)], matrix)


@pytest.fixture(scope="module")
def scores():
    return Scores.from_embeddings(vectors("i", 1300, 1), vectors("t", 2600, 2))


@pytest.fixture(scope="module")
def tied():
    """Small whole numbers: most scores occur many times, in every shard."""
    return Scores.from_embeddings(vectors("i", 700, 3, whole=True), vectors("t", 3500, 4, whole=True), similarity="dot")


@pytest.fixture(scope="module")
def pairs():
    return Judgements.from_pairs([(f"i{t // 5}", f"t{t}", 1 + t % 3) for t in range(3500)])


def are_equal(local, there):
    return np.array_equal(local.indices, there.indices) and np.array_equal(local.scores, there.scores)


def equal_places(local, there):
    return all(
        np.array_equal(getattr(local, name), getattr(there, name)) for name in ("indptr", "above", "tied", "grades")
    )


def test_top_and_matrix(joined, scores):
    turned, plain = scores.T.top(4), scores.matrix()
    grid = Scores.from_matrix(plain.astype(np.float64), scores.queries, scores.candidates)
    local = scores.top(7), grid.top(3), grid.T.top(3)
    with connect() as cluster:
        assert cluster.cores == 2
        assert all(map(are_equal, local, (scores.top(7), grid.top(3), grid.T.top(3))))
        assert are_equal(turned, scores.T.top(4))
        assert np.array_equal(plain, scores.matrix())


@pytest.mark.parametrize("name", CORRECTIONS)
def test_corrections(joined, scores, name):
    bank = vectors("b", 600, 5)
    own_bank = scores.correct(name).statistics  # of the queries themselves, which are recognised
    local = scores.correct(name).top(5), scores.correct(name, bank=bank).top(5), scores.correct(own_bank).top(5)
    with connect():
        remote = (
            scores.correct(name).top(5),
            scores.correct(name, bank=bank).top(5),
            scores.correct(own_bank).top(5),
        )
    assert all(map(are_equal, local, remote))


def collection(n=300, per_image=5):
    images, texts = [f"i{k}" for k in range(n)], [f"t{k}" for k in range(n * per_image)]
    pictures = Items(images, [None] * n, {"fold": [k * 5 // n for k in range(n)]})
    words = Items(texts, texts, {"fold": [k // per_image * 5 // n for k in range(n * per_image)]}, "text")
    pairs = Judgements.from_pairs([(f"i{k // per_image}", f"t{k}") for k in range(n * per_image)])
    return Collection("toy", pictures, words, pairs)


def test_evaluation_with_folds_and_a_correction(joined):
    truth = collection()
    scores = Scores.from_embeddings(vectors("i", 300, 6), vectors("t", 1500, 7)).correct("csls")
    local = limner.evaluate(scores, truth, protocol=["coco-1k", "coco-5k"])
    with connect():
        remote = limner.evaluate(scores, truth, protocol=["coco-1k", "coco-5k"])
    assert local.rows() == remote.rows()
    for here_result, there_result in zip(local.results, remote.results, strict=True):
        assert np.array_equal(here_result.values, there_result.values)
    assert all(are_equal(local.top[direction], remote.top[direction]) for direction in ("i2t", "t2i"))


@pytest.mark.parametrize("ties", TIES)
def test_places_in_shards(joined, tied, pairs, ties):
    questions = [RankRequest(pairs), RankRequest(pairs.at_least(2))]
    local, kept_columns = place(tied, questions, RankOptions(ties=ties, keep=12))
    with connect(shard=1024):
        remote, remote_kept = place(tied, questions, RankOptions(ties=ties, keep=12))
    assert all(map(equal_places, local, remote))
    assert are_equal(kept_columns, remote_kept)


def test_folds_are_counted_in_whole_rows(joined, tied, pairs):
    folds = np.arange(700) % 4, np.arange(3500) // 5 % 4
    local, _ = place(tied, [RankRequest(pairs, *folds)])
    with connect(shard=1024):
        remote, _ = place(tied, [RankRequest(pairs, *folds)])
    assert all(map(equal_places, local, remote))


@pytest.mark.parametrize("k", [1, 10, 2000])
@pytest.mark.parametrize(("joined_here", "store"), [(16, 1 << 40), (16, 0), (1, 1 << 40)])
def test_top_in_shards(joined, tied, k, joined_here, store, monkeypatch):
    """Also with more asked for than a shard has, and ties across shards in candidate order.

    Pieces are joined here or on a worker, and tasks run anywhere or where their shard is.
    """
    monkeypatch.setattr(candidate_shards, "JOINED_HERE", joined_here)
    monkeypatch.setattr(ray_cluster, "_smallest_store", lambda: store)
    local = tied.top(k)
    with connect(shard=1024) as cluster:
        assert cluster._shards(tied, limner.scores.base.Best(k)).anywhere == (store > 0)
        assert are_equal(local, tied.top(k))


def test_shards_are_cut_when_the_store_is_small(joined):
    """Vectors of 120 MB do not go whole into stores of 200 MB."""
    wide = Scores.from_embeddings(vectors("q", 300, 8, d=1024), vectors("c", 30_000, 9, d=1024), similarity="dot")
    local = wide.top(5)
    with connect() as cluster:
        assert cluster._shards(wide, limner.scores.base.Best(5)).width < 30_000
        assert are_equal(local, wide.top(5))


def test_progress_ends_at_all_rows(joined, scores):
    progress_seen = []
    with connect():
        scores.top(1, progress=lambda done, total: progress_seen.append((done, total)))
    assert progress_seen[-1] == (1300, 1300) and progress_seen == sorted(progress_seen) and len(progress_seen) > 1


def test_vectors_are_sent_once(joined):
    scores = Scores.from_embeddings(vectors("i", 600, 1, d=512), vectors("t", 700, 2, d=512))
    with connect() as cluster:
        scores.correct("csls").top(5), scores.T.top(5)
        assert sorted(high for _, _, high in cluster.post._sent) == [600, 700]


def test_a_file_on_shared_storage_is_not_sent(joined, tmp_path):
    for name, seed in (("q", 1), ("c", 2)):
        vectors(name, 700, seed, d=512).save(tmp_path / f"{name}.npy")
    mapped = [Embeddings.load(tmp_path / f"{name}.npy") for name in "qc"]
    scores = Scores.from_embeddings(*mapped, similarity="dot")
    local = scores.top(5)
    with connect(shared=tmp_path) as cluster:
        assert are_equal(local, scores.top(5)) and cluster.post._sent == {}
        assert cluster.post.mapped(mapped[0].matrix[256:300]).open().tolist() == mapped[0].matrix[256:300].tolist()
        assert cluster.post.mapped(np.asarray(mapped[0].matrix)) is None
    with connect(shared=tmp_path, shard=512 * 2):
        assert are_equal(local, scores.top(5))
    with connect(shared=tmp_path / "elsewhere") as cluster:
        assert are_equal(local, scores.top(5)) and len(cluster.post._sent) == 2


def test_passes_are_local_again_afterwards(joined, scores):
    from limner.scores.base import RUNNER

    with pytest.raises(LimnerError, match="workers=2 on a cluster"), connect():
        scores.top(1, workers=2)
    assert RUNNER.get() is None
    scores.top(1, workers=2)


def test_what_goes_wrong_on_a_worker_is_told_as_here(joined):
    matrix = np.ones((300, 4))
    broken = Scores.from_matrix(matrix, range(300), range(4)).correct("csls")
    object.__setattr__(broken.correction, "k", "three")
    with pytest.raises(TypeError), connect():
        broken.top(2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: connect(shard=1000), "shard=1000: expected a multiple of 1024"),
        (lambda: connect("local"), "in a Ray cluster already, got 'local'"),
    ],
)
def test_refused(joined, make, message):
    with pytest.raises(LimnerError, match=message), make():
        pass
