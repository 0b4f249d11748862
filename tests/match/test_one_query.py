"""One query over an index, exactly: LanceDB's scan proposes, the bound proves, and little is loaded for it."""

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from limner import Embeddings, Ranking, Scores
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.scores import exact_products
from limner.scores.vectors import VectorScores
from limner.search import exact_search, index, open_index
from limner.search.index_table import About

pytest.importorskip("lancedb", reason="lancedb is not installed")


def rows_of(kind, n, d, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, d))
    if kind == "close":
        rows = rng.standard_normal((1, d)) + 1e-7 * rows
    if kind == "copies":
        rows = rows[rng.integers(0, n // 3, n)]
    if kind == "tied":
        rows = rng.integers(-1, 2, (n, d)) + np.eye(1, d) * 1e-3
    return rows.astype(np.float32)


@pytest.fixture(scope="module", params=["random", "close", "copies", "tied"])
def stored(request, tmp_path_factory):
    """An index of 700 vectors in two commits, and queries beside and among them."""
    rows = rows_of(request.param, 700, 24)
    path = tmp_path_factory.mktemp("one") / request.param
    vector_index = index(path, Embeddings(range(400), rows[:400]))
    vector_index.add(Embeddings(range(400, 700), rows[400:]))
    return request.param, path, rows, np.concatenate([rows[:20], rows_of("random", 20, 24, seed=1)])


def test_lists_are_those_of_the_plain_way(stored):
    kind, path, rows, queries = stored
    plain = Scores.from_embeddings(Embeddings(range(40), queries), Embeddings(range(700), rows)).top(10)
    for number, query in enumerate(queries):
        opened = open_index(path, memory=0)  # nothing is held: every search is the first
        ranking = opened.search(query, 10).ranking
        assert ranking["0"] == plain[str(number)], kind
        assert np.array_equal(ranking.scores[0], plain.scores[number])


def test_random_vectors_are_proven_and_copies_are_left_to_the_plain_way(stored):
    kind, path, _, queries = stored
    store = open_index(path).store
    unit_queries = Embeddings(range(20), queries[:20]).normalised()
    proven = [
        exact_search.proven(store, Embeddings(Ids([key]), unit_queries.matrix[[n]]), 10)
        for n, key in enumerate(unit_queries.ids)
    ]
    if kind == "random":
        assert all(proven)
    if kind in ("copies", "tied"):  # a tie is in the order of the store
        assert None in proven


class AdversarialStore:
    """A store whose scan adds up in an order of its own, as far from the grid as the bound allows."""

    about = About(8)

    def __init__(self, rows, rng):
        self.rows, self.rng, self.asked = rows, rng, []

    def explained(self):
        from contextlib import nullcontext

        return nullcontext()

    @property
    def table(self):
        return self

    def search(self, vector, vector_column_name):
        from limner.search.exact_search import gamma

        d = self.rows.shape[1]
        exact = self.rows.astype(np.float64) @ vector.astype(np.float64)
        worst = self.rng.choice([-1, 1], len(self.rows)) * gamma(d)
        self.distance = (1 - (exact + worst)).astype(np.float32)
        return self

    def distance_type(self, name):
        return self

    def bypass_vector_index(self):
        return self

    def limit(self, count):
        self.asked.append(count)
        self.first = np.argsort(self.distance, kind="stable")[:count]
        return self

    def select(self, columns):
        return self

    def to_arrow(self):
        at = self.first
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(self.rows[at].ravel()), self.rows.shape[1])
        columns = [pa.array([str(n) for n in at]), vectors, pa.nulls(len(at)), pa.nulls(len(at))]
        return pa.table([*columns, pa.array(self.distance[at])], names=exact_search.COLUMNS)


def _against_the_grid():
    """(lists proven, lists proven that are wrong) of queries among rows that float32 hardly tells apart."""
    rng, proven, wrong = np.random.default_rng(3), 0, 0
    for spread in 10.0 ** rng.uniform(-8, -2, 60):
        rows = Embeddings(range(2000), rng.standard_normal(64) + spread * rng.standard_normal((2000, 64))).normalised()
        query = Embeddings(range(1), rng.standard_normal((1, 64))).normalised()
        proven_lists = exact_search.proven(AdversarialStore(rows.matrix, rng), query, 5)
        if proven_lists is not None:
            proven += 1
            wrong += [row["id"] for row in proven_lists[0]] != VectorScores(query, rows).top(5)["0"]
    return proven, wrong


def test_a_scan_at_the_edge_of_the_bound_never_gives_a_wrong_list(monkeypatch):
    proven, wrong = _against_the_grid()
    assert proven > 10
    assert wrong == 0
    monkeypatch.setattr(exact_search, "_outside", lambda distance, dim: 1 - distance)
    monkeypatch.setattr(exact_search, "_nearest_table", lambda store, vector, limit: _head_of(store, vector))
    assert _against_the_grid()[1] > 0  # without the bound it does


def _head_of(store, vector):
    return store.search(vector, "vector").limit(26).to_arrow().slice(0, 6)


@pytest.mark.parametrize("dimensions", [1, 2, 7, 64, 129, 256, 600])
def test_small_tiles_round_as_whole_ones_do(dimensions):
    rng = np.random.default_rng(dimensions)
    one, candidates = (Embeddings(range(n), rng.standard_normal((n, dimensions))) for n in (37, 301))
    scores = Scores.from_embeddings(one, candidates, similarity="dot")
    assert np.array_equal(scores.small(), scores.matrix())


def test_a_small_tile_that_rounds_otherwise_is_not_taken(monkeypatch):
    plain = exact_products._tiled

    def backwards(rows, columns, shape):
        return plain(rows[:, ::-1], columns[:, ::-1], shape)

    monkeypatch.setattr(exact_products, "_tiled", backwards)
    exact_products._equal_tiles.cache_clear()
    assert exact_products._equal_tiles(64) == (exact_products.WHOLE,)
    exact_products._equal_tiles.cache_clear()


def test_a_first_search_loads_little(tmp_path):
    """The compiled loops and the client of a catalogue server are not needed, and can still be used afterwards."""
    index(tmp_path / "a", Embeddings(range(50), rows_of("random", 50, 8)))
    script = (
        "import json, sys; import numpy as np; from limner.search import open_index\n"
        f"open_index({str(tmp_path / 'a')!r}).search(np.ones(8), 3)\n"
        "unwanted = ['numba', 'lance_namespace_urllib3_client.api', 'torch', 'limner.systems', 'limner.stats']\n"
        "loaded = [name for name in unwanted if name in sys.modules]\n"
        "import lance_namespace_urllib3_client as client, lance_namespace, lancedb\n"
        "same = client.models.ListTablesResponse is lance_namespace.ListTablesResponse\n"
        f"named = lancedb.connect_namespace('dir', {{'root': {str(tmp_path)!r}}})\n"
        "print(json.dumps([loaded, client.ApiClient.__name__, same, type(named).__name__]))"
    )
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert json.loads(output) == [[], "ApiClient", True, "LanceNamespaceDBConnection"]


def test_the_second_search_holds_the_vectors(tmp_path, monkeypatch):
    """What reading them needed goes back to the system once."""
    returned: list[bool] = []
    monkeypatch.setattr("limner.search.stored_vectors.give_back", lambda: returned.append(True))
    vector_index = index(tmp_path / "a", Embeddings(range(50), rows_of("random", 50, 8)))
    query = np.ones(8)
    first = vector_index.search(query, 3)
    assert vector_index._held is None
    assert dict(vector_index.search(query, 3).ranking) == dict(first.ranking)
    assert vector_index._held is not None
    vector_index.search(query, 3)
    assert returned == [True]


def test_short_rankings_are_checked_without_compiled_loops():
    for indices, scores in (([[0, 0]], None), ([[0, 7]], None), ([[0, 1]], [[1.0, 2.0]]), ([[0, 1]], [[1.0, np.nan]])):
        with pytest.raises(LimnerError):
            Ranking(["q"], ["a", "b"], np.array(indices), None if scores is None else np.array(scores))
