"""An index of items with several vectors each: the bits of Scores.from_sets, changes, kills, the commands."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import limner
from limner import Embeddings, Items, Judgements, LimnerError, Scores
from limner.cli import app
from limner.scores import VectorSets
from limner.search import (
    Index,
    calibrate_index,
    index,
    keep_correction,
    kept_correction,
    open_index,
    search_sure,
    search_words,
    set_search,
)
from limner.search.items import read
from limner.search.set_search import Piece, pieces_of
from limner.search.store import VectorStore

pytest.importorskip("lancedb")
CHILDREN = multiprocessing.get_context("forkserver")
CHILDREN.set_forkserver_preload(["limner.search", "lancedb", "filelock", "pyarrow.compute"])
each_memory = pytest.mark.parametrize("memory", [2**30, 0], ids=["in memory", "streamed"])


def some(count: int, *, seed: int = 0, dim: int = 6, max_vectors: int = 9, prefix: str = "i", decimals: int | None = 0):
    """Items with 1 to `max_vectors` vectors each, of few different values unless `decimals` is None."""
    rng = np.random.default_rng(seed)
    rows = [rng.standard_normal((int(rng.integers(1, max_vectors + 1)), dim)) for _ in range(count)]
    if decimals is not None:
        rows = [np.round(each, decimals) + 0.01 for each in rows]
    return VectorSets.of({f"{prefix}{n}": each.astype(np.float32) for n, each in enumerate(rows)})


def expected(queries: VectorSets, items: VectorSets, k: int, **options):
    return Scores.from_sets(queries, items, pooling="maxsim", **options).top(k)


def same_hits(hits, ranking) -> bool:
    """Whether hits are those of a ranking: the same ids in the same order, and the same bits."""
    lists = all(hits.ranking[q] == ranking[q] for q in ranking.queries)
    return lists and np.array_equal(hits.ranking.scores, ranking.scores)


def by_hand(queries: VectorSets, items: VectorSets) -> np.ndarray:
    """MaxSim in double precision, pair by pair."""
    scores = np.zeros((len(queries), len(items)))
    sides = [each.normalised() for each in (queries, items)]
    for row in range(len(queries)):
        for column in range(len(items)):
            q, c = sides[0].part(row, row + 1), sides[1].part(column, column + 1)
            for vector in q.vectors.matrix.astype(np.float64):
                scores[row, column] += max(
                    float(vector @ candidate) for candidate in c.vectors.matrix.astype(np.float64)
                )
    return scores


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """400 items of few different vectors, so that many scores are equal, put in by several commits."""
    folder, items = tmp_path_factory.mktemp("stored") / "index", some(400)
    vector_index = index(folder, items.part(0, 150))
    for low in (150, 250, 330):
        vector_index.add(items.part(low, {150: 250, 250: 330, 330: 400}[low]))
    return folder, items


# --- exact --------------------------------------------------------------------------------------------------------


@each_memory
@pytest.mark.parametrize("count", [1, 7, 300])
def test_the_hits_are_those_of_scores_ties_and_bits_included(stored, memory, count, monkeypatch):
    folder, items = stored
    monkeypatch.setattr(set_search, "PIECE", 4 * 6 * 100)
    queries = some(count, seed=1, prefix="q", max_vectors=5)
    copies = VectorSets.of({f"c{n}": items.part(n, n + 1).vectors.matrix for n in range(3)})
    hits = open_index(folder, memory=memory).search(queries, 11)
    assert same_hits(hits, expected(queries, items, 11))
    assert hits.summary == "400 items searched, exact" and hits.ranking.n_candidates == 400 and hits.recall is None
    assert same_hits(open_index(folder, memory=memory).search(copies, 400), expected(copies, items, 400))


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_the_scores_are_those_of_a_slow_loop(tmp_path, similarity):
    items, queries = some(30, decimals=None), some(4, seed=1, prefix="q", decimals=None)
    if similarity == "dot":
        items, queries = items.normalised(), queries.normalised()
    hits = index(tmp_path / "i", items, similarity=similarity).search(queries, 30)
    slow = by_hand(queries, items)
    for row, key in enumerate(queries.ids):
        assert hits.ranking[key] == [items.ids[column] for column in np.argsort(-slow[row], kind="stable")]
        assert np.allclose([hit.score for hit in hits[key]], np.sort(slow[row])[::-1], atol=1e-5)


@st.composite
def cases(draw):
    """Sets of few different numbers, how they are cut, and how many are asked for."""
    dim = draw(st.integers(1, 5))
    number = st.sampled_from([-2.0, -1.0, -0.3, 0.0, 1e-3, 0.3, 1.0, 1.0000001, 700.0])
    row = st.lists(number, min_size=dim, max_size=dim).filter(any)
    one = st.lists(row, min_size=1, max_size=6).map(lambda rows: np.array(rows, np.float32))
    items, queries = draw(st.lists(one, min_size=1, max_size=25)), draw(st.lists(one, min_size=1, max_size=4))
    named = [VectorSets.of({str(n): rows for n, rows in enumerate(each)}) for each in (queries, items)]
    mask = draw(st.none() | st.lists(st.booleans(), min_size=len(items), max_size=len(items)).map(np.array))
    return *named, draw(st.integers(1, 30)), draw(st.integers(1, 12)), mask


@settings(max_examples=60)
@given(cases())
def test_any_cut_into_pieces_gives_the_lists_of_the_whole(case):
    queries, items, k, cut, mask = case
    pieces = [
        Piece(np.arange(low, min(low + cut, len(items))), items.part(low, min(low + cut, len(items))))
        for low in range(0, len(items), cut)
    ]
    places, scores = set_search.top(queries, pieces_of(pieces, mask), k, rows=len(items), pooling="maxsim")
    allowed = np.arange(len(items)) if mask is None else np.flatnonzero(mask)
    if not len(allowed):
        assert places.shape == scores.shape == (len(queries), 0)
        return
    right = expected(queries, items.subset(items.ids[allowed]), k, similarity="dot")
    assert places.tolist() == allowed[right.indices].tolist()
    assert np.array_equal(scores, right.scores)


def test_one_vector_each_is_the_ranking_of_an_index_of_single_vectors(tmp_path):
    items, queries = some(200, max_vectors=1), some(5, seed=1, max_vectors=1, prefix="q")
    singles = [Embeddings(each.ids, each.vectors.matrix) for each in (items, queries)]
    several = index(tmp_path / "s", items).search(queries, 20)
    one = index(tmp_path / "e", singles[0]).search(singles[1], 20)
    assert [several.ranking[q] for q in queries.ids] == [one.ranking[q] for q in queries.ids]
    assert np.array_equal(several.ranking.scores, one.ranking.scores)


def test_no_more_is_read_at_once_than_a_piece_may_have(tmp_path, monkeypatch):
    """Not timings and not megabytes: how many vectors each reading of the store gives."""
    counts = [3, 1, 40, 2, 2, 5, 1, 1, 30, 4] * 5
    items = VectorSets.of({str(n): np.full((count, 4), n + 1.0) for n, count in enumerate(counts)})
    index(tmp_path / "i", items, similarity="dot")
    monkeypatch.setattr(set_search, "PIECE", 4 * 4 * 10)  # ten vectors
    reads = []
    read_sets = VectorStore.sets

    def counted(store, places):
        arrays = read_sets(store, places)
        reads.append((len(places), len(arrays[1])))
        return arrays

    monkeypatch.setattr(VectorStore, "sets", counted)
    opened = open_index(tmp_path / "i", memory=0)
    queries = some(300, dim=4, prefix="q")
    assert same_hits(opened.search(queries, 3), expected(queries, items, 3, similarity="dot"))
    assert all(vectors <= 10 or rows == 1 for rows, vectors in reads)  # a larger item is read alone
    assert sum(vectors for _, vectors in reads) == sum(counts)  # each vector once, for 300 queries
    reads.clear()
    opened.nearest(queries, 3, among=np.arange(50) % 10 == 7)
    assert sum(vectors for _, vectors in reads) == 5  # of filtered items, no others are read
    reads.clear()
    in_memory = open_index(tmp_path / "i")
    for _ in range(2):
        in_memory.search(queries, 3)
    assert sum(vectors for _, vectors in reads) == sum(counts)  # kept in memory between searches


# --- corrections, filters -----------------------------------------------------------------------------------------


@each_memory
@pytest.mark.parametrize("name", ["csls", "inverted_softmax", "dual_softmax", "nnn", "centred", "sinkhorn"])
def test_corrections_from_a_bank_are_those_of_scores(stored, tmp_path, memory, name):
    folder, items = stored
    queries, bank = some(6, seed=2, prefix="q"), some(40, seed=3, prefix="b")
    opened = open_index(folder, memory=memory)
    scores, of_bank = (Scores.from_sets(each, items, pooling="maxsim") for each in (queries, bank))
    right = scores.correct(name, bank=of_bank).top(5)
    hits = opened.search(queries, 5, correct=name, bank=bank)
    assert [hits.ranking[q] for q in queries.ids] == [right[q] for q in queries.ids]
    np.testing.assert_allclose(hits.ranking.scores, right.scores, rtol=1e-5, atol=1e-5)
    saved = opened.statistics(name, bank).save(tmp_path / "bank.npz")
    one = queries.subset(["q3"])
    assert opened.search(one, 5, correct=saved).ranking["q3"] == right["q3"]
    assert np.array_equal(opened.scores(queries).matrix(), scores.matrix())
    with pytest.raises(LimnerError, match="only one direction"):
        _ = opened.scores(queries).T


def test_an_index_keeps_a_correction(tmp_path):
    items, bank, queries = some(60), some(40, seed=3, prefix="b"), some(3, seed=4, prefix="q")
    vector_index = index(tmp_path / "i", items)
    keep_correction(vector_index, "csls", bank)
    hits = vector_index.search(queries, 5, correct=kept_correction(open_index(tmp_path / "i")))
    assert same_hits(hits, vector_index.search(queries, 5, correct="csls", bank=bank).ranking)
    vector_index.delete(["i0"])
    with pytest.raises(LimnerError, match="has changed since its correction"):
        kept_correction(vector_index)


@each_memory
def test_a_cut_off_is_calibrated(tmp_path, memory):
    rng = np.random.default_rng(0)
    rows = [rng.standard_normal((1 + n % 3, 24)) for n in range(400)]
    items = VectorSets.of({str(n): each for n, each in enumerate(rows)})
    queries = VectorSets.of({str(n): each + 0.4 * rng.standard_normal(each.shape) for n, each in enumerate(rows)})
    index(tmp_path / "i", items)
    opened = open_index(tmp_path / "i", memory=memory)
    part = opened.scores(queries).restrict(queries=["7", "3"], candidates=["2", "9"])
    assert np.array_equal(part.matrix(), Scores.from_sets(queries, items, pooling="maxsim").matrix()[[7, 3]][:, [2, 9]])
    calibrate_index(opened, queries, Judgements.from_pairs((str(n), str(n)) for n in range(400)))
    far = VectorSets.of({"far": rng.standard_normal((2, 24))})
    answers = [search_sure(opened, each, 5, precision=0.7) for each in (queries.subset(["7"]), far)]
    assert [hit.id for hit in answers[0]["7"]] == ["7"] and not answers[1]["far"]


class Letters:
    """An encoder: a vector for every letter of a text."""

    fingerprint = "letters 1"

    def encode_sets(self, items: Items, *, queries: bool = False) -> list[np.ndarray]:
        letters = [[letter for letter in text.lower() if "a" <= letter <= "z"] for text in items.values]
        weight = 2.0 if queries else 1.0
        return [np.eye(26, dtype=np.float32)[[ord(each) - 97 for each in text]] * weight for text in letters]


TEXTS = Items(
    ["x", "y", "z", "u"], ["a red dog", "a cat", "red cars", "dogs"], {"split": ["test", "train", "test", "test"]},
    kind="text",
)  # fmt: skip


@pytest.fixture
def lettered(tmp_path) -> Index:
    system = Letters()
    return index(tmp_path / "i", VectorSets.of(dict(zip(TEXTS.ids, system.encode_sets(TEXTS), strict=True))), TEXTS,
                 system=system)  # fmt: skip


def test_texts_are_encoded_as_queries_and_filtered(lettered):
    hits = lettered.search(["red", "cat"], 2)
    assert [hit.id for hit in hits["0"]] == ["x", "z"] and hits["1"][0].value == "a cat"
    assert [hit.score for hit in hits["0"]] == [3.0, 3.0]
    assert [hit.id for hit in search_words(lettered, "cat split:test", 4, by="vectors")["0"]] == ["z", "x", "u"]
    assert [hit.id for hit in search_words(lettered, "cat -dog", 4, by="vectors")["0"]] == ["y", "z"]
    mixed = search_words(lettered, "red dog", 4, by="hybrid", where=["split=test"])
    assert [hit.id for hit in mixed["0"]] == ["x", "u", "z"] and mixed["0"][0].match.by_words == 1
    sets_asked = search_words(lettered, VectorSets.of({"q": np.eye(26)[:1]}), 2, by="vectors", where=["split=train"])
    assert [hit.id for hit in sets_asked["q"]] == ["y"]


def test_a_minus_term_without_captions_is_refused(tmp_path):
    vector_index = index(tmp_path / "i", VectorSets.of({"a": np.eye(26)[:3]}), system=Letters())
    with pytest.raises(LimnerError, match="the minus term 'dog': .* a query has several vectors here; leave it out"):
        search_words(vector_index, "cat -dog", by="vectors")


# --- what is refused ----------------------------------------------------------------------------------------------


def test_what_does_not_fit_is_refused(tmp_path, stored):
    several, one = open_index(stored[0]), index(tmp_path / "e", Embeddings(["a"], np.ones((1, 6))))
    queries = some(2, prefix="q")
    for query in (np.ones(6), np.ones((3, 6)), Embeddings(["q"], np.ones((1, 6)))):
        with pytest.raises(LimnerError, match="one vector for each of . items, but the index has several"):
            several.search(query)
    with pytest.raises(LimnerError, match="one vector for each of 1 items, but the index has several"):
        several.add(Embeddings(["new"], np.ones((1, 6))))
    for call in (lambda: one.search(queries), lambda: one.add(queries), lambda: one.scores(queries)):
        with pytest.raises(LimnerError, match="several vectors for each of 2 items, but the index has one"):
            call()
    with pytest.raises(LimnerError, match="vectors have 3 dimensions, the index 6"):
        several.search(some(1, dim=3))
    with pytest.raises(LimnerError, match="vectors have 3 dimensions, the index 6"):
        several.add(some(1, dim=3, prefix="new"))
    with pytest.raises(LimnerError, match="text items for an index of items"):
        several.add(some(1, prefix="new"), Items(["new0"], ["a"], kind="text"))
    with pytest.raises(LimnerError, match="search for the 0 best"):
        several.search(queries, 0)
    with pytest.raises(LimnerError, match="needs an encoder"):
        several.search("two dogs")
    with pytest.raises(LimnerError, match="without a correction"):
        several.search(queries, bank=queries)
    assert len(several) == 400 and several.search({"q": np.ones((2, 6))}, 1).ranking.depth == 1


def test_an_approximate_index_is_refused(stored):
    opened = open_index(stored[0])
    calls = [
        opened.approximate,
        opened.recall,
        lambda: opened.approximate("ivf_flat", queries=some(3)),
        lambda: opened.search(some(1), exact=False),
    ]
    for call in calls:
        with pytest.raises(LimnerError, match="compares single vectors, but this index has several per item"):
            call()
    assert opened.search(some(1), 1, exact=True).exact


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.empty((0, 3)), "item 'b' has vectors of shape"),
        ([[np.nan, 0, 1]], r"id 'b#0'. holds NaN or an infinite value"),
        ([[1, 2, 3], [-np.inf, 0, 1]], r"id 'b#1'. holds NaN or an infinite value"),
        ([[1e39, 0, 1]], "too large for single precision"),
        ([[0, 0, 0]], r"id 'b#0'. is all zeros"),
        ([[1, 2]], r"shape \(1, 2\): expected one row or more, of 3 numbers"),
    ],
)
def test_bad_vectors_do_not_come_in(rows, message):
    with pytest.raises(LimnerError, match=message):
        VectorSets.of({"a": np.eye(3), "b": np.array(rows, np.float64)})


@each_memory
def test_products_that_overflow_are_refused_and_named(tmp_path, memory):
    rows = {"a": np.ones((2, 4)), "b": np.array([[1.0] * 4, [1e20, -1e20, 1, 1]])}
    index(tmp_path / "i", VectorSets.of(rows), similarity="dot")
    opened, query = open_index(tmp_path / "i", memory=memory), VectorSets.of({"q": np.array([[1e20, 1e20, 0, 0]])})
    for correct in ({}, {"correct": "nnn", "bank": some(20, dim=4)}):
        with pytest.raises(LimnerError, match=r"query 'q#0' and candidate 'b#1' .* overflows single precision"):
            opened.search(query, 2, **correct)
    with pytest.raises(LimnerError, match="the score of query 'q' and candidate 'b', a sum of products, overflows"):
        opened.search(VectorSets.of({"q": np.array([[1.7e18, 0, 0, 0]] * 3)}), 2)
    large = VectorSets.of({"q": np.full((3, 4), 1e17)})
    assert same_hits(opened.search(large, 2), expected(large, VectorSets.of(rows), 2, similarity="dot"))


def test_an_encoder_that_fits_the_index_is_needed(tmp_path, lettered, stored):
    class One:
        fingerprint = "one"

        def encode(self, items):
            return np.ones((len(items), 26))

    class OneSetEncoder(Letters):
        def encode_sets(self, items):
            return [np.eye(26)[:1]]

    class Fails(Letters):
        def encode_sets(self, items):
            raise RuntimeError("no such letter")

    path = lettered.store.path
    assert open_index(path).about.model == "letters 1" and lettered.about.pooling == "maxsim"
    with pytest.raises(LimnerError, match="vectors of two models cannot be compared"):
        open_index(path, system=One())
    with pytest.raises(LimnerError, match=r"One has no encode_sets\(items\), but several vectors per item are needed"):
        Index(open_index(stored[0]).store, One()).search("a")
    with pytest.raises(LimnerError, match="gave 1 sets of vectors for 2 items"):
        Index(lettered.store, OneSetEncoder()).search(["a", "b"])
    with pytest.raises(LimnerError, match="Fails failed on 1 texts .RuntimeError: no such letter"):
        Index(lettered.store, Fails()).search("a")
    with pytest.raises(LimnerError, match="Letters returns several vectors per item, but one is needed"):
        index(tmp_path / "e", Embeddings(["a"], np.ones((1, 26))), system=Letters()).search("a")


# --- changes ------------------------------------------------------------------------------------------------------


def test_existing_ids_are_refused_replaced_or_skipped(tmp_path):
    vector_index = index(tmp_path / "i", some(5), similarity="dot")
    mixed = VectorSets.of({"i0": np.full((3, 6), 9.0), "new": np.full((2, 6), 7.0)})
    with pytest.raises(LimnerError, match=r"1 of 2 ids are in the index already \('i0'\)"):
        vector_index.add(mixed)
    assert vector_index.add(mixed, existing="skip") == 1
    assert list(vector_index.ids) == [f"i{n}" for n in range(5)] + ["new"]
    assert vector_index.add(mixed.part(0, 1), existing="replace") == 1 and len(vector_index) == 6
    left = set_search.all_sets(vector_index.store)
    assert left.subset(["i0", "new"]).counts.tolist() == [3, 2]
    assert left.subset(["i0"]).vectors.matrix.tolist() == [[9.0] * 6] * 3
    queries = some(3, seed=1, prefix="q")
    assert same_hits(vector_index.search(queries, 6), expected(queries, left, 6, similarity="dot"))


def test_every_version_is_searched_as_it_was(tmp_path):
    items, queries = some(60), some(3, seed=1, prefix="q")
    vector_index = index(tmp_path / "i", items.part(0, 40))
    reader, before = open_index(tmp_path / "i"), vector_index.version
    vector_index.add(items.part(40, 60))
    vector_index.delete(["i3", "i41"])
    vector_index.compact()
    left = items.subset([key for key in items.ids if key not in ("i3", "i41")])
    assert list(vector_index.ids) == list(left.ids)
    assert same_hits(vector_index.search(queries, 9), expected(queries, left, 9))
    assert same_hits(reader.search(queries, 9), expected(queries, items.part(0, 40), 9))
    assert same_hits(
        open_index(tmp_path / "i", version=before).search(queries, 9), expected(queries, items.part(0, 40), 9)
    )
    reader.refresh()
    assert same_hits(reader.search(queries, 9), expected(queries, left, 9))
    assert [each.rows for each in vector_index.versions()][:3] == [40, 60, 58]
    with pytest.raises(LimnerError, match="opened at version"):
        open_index(tmp_path / "i", version=before).add(some(1, prefix="n"))


@settings(max_examples=12)
@given(st.lists(st.tuples(st.sampled_from(["add", "replace", "skip", "delete", "compact"]), st.integers(0, 2**16)),
                min_size=1, max_size=8))  # fmt: skip
def test_any_changes_leave_what_a_dictionary_would_hold(tmp_path_factory, changes):
    """Ids, order, vectors and hits after additions, replacements (which move to the end), deletions and compaction."""
    first = some(6, max_vectors=4)
    path = tmp_path_factory.mktemp("changes") / "i"
    vector_index = index(path, first, similarity="dot")
    right = {key: first.subset([key]).vectors.matrix for key in first.ids}
    for number, (change, seed) in enumerate(changes):
        rng = np.random.default_rng(seed)
        if change == "compact":
            vector_index.compact()
        elif change == "delete":
            gone = [key for key in right if rng.random() < 0.4 and len(right) > 1][: len(right) - 1]
            vector_index.delete(gone)
            right = {key: rows for key, rows in right.items() if key not in gone}
        else:
            old = [] if change == "add" else [key for key in right if rng.random() < 0.4]
            new = {key: rng.integers(1, 4, (int(rng.integers(1, 5)), 6)) for key in [*old, f"n{number}"]}
            vector_index.add(VectorSets.of(new), existing="refuse" if change == "add" else change)
            remaining = right if change != "replace" else {key: rows for key, rows in right.items() if key not in new}
            right = remaining | {key: rows for key, rows in new.items() if key not in remaining}
    items, queries = VectorSets.of(right), some(2, seed=9, prefix="q")
    assert list(vector_index.ids) == list(right)
    for memory in (2**30, 0):
        opened = open_index(path, memory=memory)
        assert same_hits(opened.search(queries, 5), expected(queries, items, 5, similarity="dot"))


def test_an_index_may_be_at_any_address(tmp_path):
    items, queries = some(20), some(2, seed=1, prefix="q")
    for address in (f"file://{tmp_path}/by-address", "memory://of-sets"):
        vector_index = index(address, items.part(0, 15))
        vector_index.add(items.part(15, 20))
        assert same_hits(vector_index.search(queries, 5), expected(queries, items, 5))


def test_an_index_that_was_emptied_gives_nothing(tmp_path):
    vector_index = index(tmp_path / "i", some(3))
    vector_index.delete(["i0", "i1", "i2"])
    for memory in (2**30, 0):
        opened = open_index(tmp_path / "i", memory=memory)
        assert opened.search(some(2, prefix="q"), 4).ranking.depth == 0
    assert vector_index.add(some(2)) == 2 and vector_index.search(some(1, prefix="q"), 4).ranking.depth == 2


def test_a_damaged_store_is_told(tmp_path):
    import lancedb

    vector_index = index(tmp_path / "i", some(5))
    table = vector_index.store.table.to_arrow()
    for column, values in (("count", [9] * 5), ("vector", [[]] * 5)):
        kind = table.schema.field(column)
        spoilt = table.set_column(table.schema.get_field_index(column), kind, [_array(values, kind.type)])
        lancedb.connect(tmp_path / "i").create_table("items", spoilt, mode="overwrite")
        with pytest.raises(LimnerError, match="is damaged near item 'i0': index again"):
            open_index(tmp_path / "i").search(some(1, prefix="q"))


def _array(values, kind):
    import pyarrow as pa

    return pa.array(values, kind)


def batch(prefix: str) -> VectorSets:
    """Fifty items whose vectors are the same number over and over, so that half a batch or a mixed row would show."""
    value = 1.0 + sum(map(ord, prefix)) % 97
    return VectorSets.of({f"{prefix}-{n}": np.full((1 + n % 4, 4), value) for n in range(50)})


def keep_adding(path, name: str, pipe) -> None:
    """A child: adds batches, replaces and compacts now and then, and acknowledges each batch after it is added."""
    opened = open_index(path)
    for number in range(10_000):
        opened.add(batch(f"{name}.{number}"))
        pipe.send(f"{name}.{number}")
        if number % 4 == 3:
            opened.add(batch(f"{name}.{number}"), existing="replace")
            opened.compact()


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL and the fork server are of Unix")
def test_a_killed_writer_loses_nothing_that_was_acknowledged_and_leaves_nothing_half_there(tmp_path):
    index(tmp_path / "i", batch("first"), similarity="dot")
    heard, rng = ["first"], np.random.default_rng(5)
    for round_ in range(5):
        receiver, sender = CHILDREN.Pipe(duplex=False)
        child = CHILDREN.Process(target=keep_adding, args=(tmp_path / "i", f"r{round_}", sender))
        child.start()
        sender.close()
        assert receiver.poll(120)
        heard.append(receiver.recv())
        time.sleep(float(rng.uniform(0, 0.15)))
        os.kill(child.pid, signal.SIGKILL)
        child.join(30)
        while receiver.poll(0):
            try:
                heard.append(receiver.recv())
            except EOFError:
                break
        stored_sets = set_search.all_sets(open_index(tmp_path / "i").store)
        prefixes = {key.rsplit("-", 1)[0] for key in stored_sets.ids}
        assert set(heard) <= prefixes and len(stored_sets) == 50 * len(prefixes)
        for prefix in prefixes:
            right = batch(prefix)
            subset = stored_sets.subset(right.ids)
            assert subset.starts.tolist() == right.starts.tolist()
            assert np.array_equal(subset.vectors.matrix, right.vectors.matrix)
    assert open_index(tmp_path / "i").add(batch("after")) == 50  # nothing is locked, nothing in the way


# --- evaluation and the page --------------------------------------------------------------------------------------


class Patches:
    """An encoder of images and texts: colours of patches, and of words."""

    fingerprint, similarity = "patches 1", "dot"

    def encode_sets(self, items: Items, *, queries: bool = False) -> dict[str, np.ndarray]:
        arrays = {}
        for row, key in enumerate(items.ids):
            if items.kind == "text":
                rng = np.random.default_rng(sum(map(ord, items.values[row])))
                arrays[key] = rng.random((1 + row % 3, 3)).astype(np.float32) + 0.1
            else:
                pixels = np.asarray(items.open(row).resize((2, 2)), dtype=np.float32)[..., :3]
                arrays[key] = pixels.reshape(-1, 3)[: 1 + row % 4] / 255 + 0.1
        return arrays


def test_a_system_with_several_vectors_is_evaluated_as_an_object_and_from_an_index(tmp_path):
    world, system = limner.load("scenes", images=20), Patches()
    sides = [VectorSets.of(system.encode_sets(each)) for each in (world.texts, world.images)]
    right = Scores.from_sets(*sides, similarity="dot", pooling="maxsim").T
    from limner.systems.opening import open_system

    opened = open_system(system, world, split="all")
    assert np.array_equal(opened.scores.matrix(), right.matrix())
    vector_index = index(tmp_path / "i", sides[1], world.images, system=system)
    assert vector_index.about.similarity == "dot"  # as the system says
    scores = set_search.scores_of_items(vector_index.store, world.images.ids, vector_index.read_queries(world.texts)[1])
    assert list(scores.queries) == list(world.images.ids)
    assert np.array_equal(scores.matrix(), right.matrix())


def test_the_page_searches_an_index_of_several_vectors(tmp_path):
    pytest.importorskip("starlette")
    from limner.web.search_request import SearchRequest
    from limner.web.served_index import ServedIndex

    world, system = limner.load("scenes", images=12), Patches()
    vector_index = index(tmp_path / "i", VectorSets.of(system.encode_sets(world.images)), world.images)
    served = ServedIndex.open("pages", str(tmp_path / "i"))
    first = world.images.ids[3]
    answer = served.search({}, SearchRequest("pages", image=first, find="images", k=4), lambda name: None)
    query = VectorSets.of(system.encode_sets(world.images)).subset([first])
    assert [hit.id for hit in answer.hits] == [
        key for key in vector_index.search(query, 5).ranking[first] if key != first
    ][:4]


# --- the commands -------------------------------------------------------------------------------------------------


def run(*words: object, status: int = 0):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == status, done.output
    assert "Traceback" not in done.output
    return done


@pytest.fixture(scope="module")
def commanded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("commanded")
    some(30, decimals=None).save(folder / "pages.npz")
    some(3, seed=1, prefix="q", decimals=None).save(folder / "questions.npz")
    run("index", folder / "pages.index", "--embeddings", folder / "pages.npz")
    return folder


def test_the_commands_find_what_python_finds(commanded):
    items, queries = (VectorSets.load(commanded / name) for name in ("pages.npz", "questions.npz"))
    output = run("index", commanded / "pages.index").stdout
    counts = items.counts
    assert f"{counts.sum()}, {counts.min()} to {counts.max()} per item (maxsim)" in " ".join(output.split())
    described = json.loads(run("index", commanded / "pages.index", "--json").stdout)
    assert described["vectors"] == {
        "total": counts.sum(), "fewest": counts.min(), "most": counts.max(), "pooling": "maxsim",
    }  # fmt: skip
    ask = ("search", commanded / "pages.index", "--queries", commanded / "questions.npz", "-k", 3)
    data = json.loads(run(*ask, "--json").stdout)
    right = expected(queries, items, 3)
    assert [hit["id"] for hit in data["hits"]] == [key for q in queries.ids for key in right[q]]
    assert [hit["score"] for hit in data["hits"]] == np.asarray(right.scores, dtype=float).ravel().tolist()
    assert "30 items searched, exact" in run(*ask).stdout
    run(*ask, "-o", commanded / "found.run", "-o", commanded / "found.csv")
    assert len((commanded / "found.run").read_text().splitlines()) == 9


def test_a_bank_of_sets_corrects_and_is_kept(commanded, tmp_path):
    some(25, seed=5, prefix="b", decimals=None).save(tmp_path / "bank.safetensors")
    ask = ("search", commanded / "pages.index", "--queries", commanded / "questions.npz", "-k", 3, "--json")
    run("index", commanded / "pages.index", "--correct", "csls", "-O", f"bank={tmp_path / 'bank.safetensors'}")
    document = json.loads(run(*ask, "--correct", "kept").stdout)
    once = json.loads(run(*ask, "--correct", "csls", "-O", f"bank={tmp_path / 'bank.safetensors'}").stdout)
    assert document["hits"] == once["hits"] and document["correction"] == "csls"


def test_an_index_grows_shrinks_and_resumes(tmp_path):
    items = some(40)
    items.part(0, 30).save(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", vectors=items.part(30, 40).vectors.matrix, counts=items.part(30, 40).counts)
    (tmp_path / "b.txt").write_text("\n".join(items.ids[30:40]))
    add = ("index", tmp_path / "i", "--json", "--embeddings")
    assert json.loads(run(*add, tmp_path / "a.npz").stdout)["items"] == 30
    assert "in the index already" in run(*add, tmp_path / "a.npz", status=3).stderr
    assert json.loads(run(*add, tmp_path / "a.npz", "--resume").stdout)["added"] == 0
    assert json.loads(run(*add, tmp_path / "a.npz", "--replace").stdout)["added"] == 30
    assert json.loads(run(*add, tmp_path / "b.npz", "--ids", tmp_path / "b.txt").stdout)["items"] == 40
    after = json.loads(run("index", tmp_path / "i", "--delete", "i7", "--compact", "--json").stdout)
    assert (after["deleted"], after["items"]) == (1, 39)
    some(1, seed=1).save(tmp_path / "q.npz")
    old = run("search", tmp_path / "i", "--queries", tmp_path / "q.npz", "-k", 99, "-O", "version=1", "--json")
    assert len(json.loads(old.stdout)["hits"]) == 30


def test_texts_are_encoded_by_a_system_with_several_vectors(tmp_path, monkeypatch):
    code = "import numpy as np\nclass Letters:\n    fingerprint = 'own 1'\n    def encode_sets(self, items):\n"
    code += "        return [np.eye(128)[[ord(c) % 128 for c in text]] for text in items.values]\n"
    (tmp_path / "own_sets.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "t.csv").write_text("id,text\nx,two red dogs\ny,a cat\nz,a car\n")
    model_options = ("--model", "own_sets:Letters")
    words = ("index", tmp_path / "i", "--items", tmp_path / "t.csv", *model_options, "--json")
    document = json.loads(run(*words).stdout)
    assert (document["items"], document["kind"], document["model"], document["vectors"]["most"]) == (
        3,
        "text",
        "own 1",
        12,
    )
    assert json.loads(run(*words, "--resume").stdout)["added"] == 0
    hits = json.loads(run("search", tmp_path / "i", "red", "a cat", "-k", 1, *model_options, "--json").stdout)["hits"]
    assert [(hit["id"], hit["score"]) for hit in hits] == [("x", 3.0), ("y", 5.0)]
    filtered = run("search", tmp_path / "i", "cat -car", *model_options, "--by", "hybrid", "--json")
    assert [hit["id"] for hit in json.loads(filtered.stdout)["hits"]] == ["y", "x"]
    assert "leave out --cluster" in " ".join(run(*words, "--replace", "--cluster", "local", status=3).stderr.split())


def test_sets_without_ids_get_those_of_the_items(tmp_path):
    (tmp_path / "t.txt").write_text("two dogs\na cat\n")
    np.savez(tmp_path / "v.npz", vectors=np.eye(3), counts=[1, 2])
    add = ("index", tmp_path / "i", "--items", tmp_path / "t.txt", "--json", "--embeddings")
    done = run(*add, tmp_path / "v.npz")
    assert "its sets are used in the order of the texts" in " ".join(done.stderr.split())
    assert list(open_index(tmp_path / "i").ids) == ["1", "2"]
    np.savez(tmp_path / "w.npz", vectors=np.eye(3), counts=[1, 1, 1])
    message = " ".join(run(*add, tmp_path / "w.npz", "--replace", status=3).stderr.split())
    assert "has 3 sets and no ids for 2 texts: expected one each" in message


def spoilt(folder, name: str, **arrays) -> str:
    np.savez(folder / name, **arrays)
    return str(folder / name)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"vectors": np.full((3, 6), np.nan), "counts": [1, 2]}, "holds NaN or an infinite value"),
        ({"vectors": np.ones((3, 6)), "counts": [1, 1]}, "counts add up to 2, but there are 3 vectors"),
        ({"vectors": np.ones((3, 6)), "counts": [3, 0]}, "item '1' has 0 of 3 vectors"),
        ({"vectors": np.ones((3, 6)), "counts": [1, 2], "ids": ["a", "a"]}, "duplicate item id 'a'"),
        ({"vectors": np.ones((3, 5)), "counts": [1, 2]}, "vectors have 5 dimensions, the index 6"),
        ({"vectors": np.ones((2, 3, 6)), "counts": [1, 1]}, "expected one row per vector"),
        ({"counts": [1, 2]}, "expected the arrays 'vectors'"),
    ],
)
def test_bad_files_are_told_in_a_line(commanded, tmp_path, arrays, message):
    file = spoilt(tmp_path, "bad.npz", **arrays)
    for words in (("index", commanded / "pages.index", "--embeddings", file),
                  ("search", commanded / "pages.index", "--queries", file)):  # fmt: skip
        assert message in " ".join(run(*words, status=3).stderr.split())
    assert len(open_index(commanded / "pages.index")) == 30


def test_what_cannot_be_is_told_in_a_line(commanded, tmp_path):
    single = spoilt(tmp_path, "single.npz", embeddings=np.ones((3, 6)), ids=["a", "b", "c"])
    (tmp_path / "cut.npz").write_bytes((commanded / "pages.npz").read_bytes()[:500])
    pages, ask = commanded / "pages.index", ("search", commanded / "pages.index", "--queries")
    for words, status, message in [
        ((*ask, single), 3, "one vector for each of 3 items, but the index has several vectors per item"),
        ((*ask, commanded / "questions.npz", "--approximate"), 3, "compares single vectors"),
        ((*ask, commanded / "questions.npz", "--by", "words"), 3, "that are not texts cannot be ranked by words"),
        ((*ask, commanded / "questions.npz", "--precision", 0.9), 3, "is not calibrated"),
        ((*ask, tmp_path / "cut.npz"), 3, "cut.npz"),
        (("search", pages, "a dog"), 3, "needs an encoder"),
        (("index", pages, "--embeddings", single), 3, "one vector for each of 3 items"),
        (("index", pages, "--ann", "ivf_flat"), 3, "compares single vectors"),
        (("index", pages, "--embeddings", commanded / "pages.npz", "-O", "similarity=dot"), 3, "compares by cosine"),
        (("index", tmp_path / "new", "--embeddings", tmp_path / "cut.npz"), 3, "cut.npz"),
    ]:
        assert message in " ".join(run(*words, status=status).stderr.split())
    assert not (tmp_path / "new").exists()
    assert isinstance(read(commanded / "questions.npz"), VectorSets)
