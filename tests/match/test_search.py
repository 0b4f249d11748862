"""Search: the lists of Scores.top to the last bit, corrections, approximate search, hits, and the two commands."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from typer.testing import CliRunner

import limner
from limner import Embeddings, Items, LimnerError, Scores
from limner.cli import app
from limner.encoders.contract import encoded
from limner.scores.correction import Statistics
from limner.search import Ann, Index, exact_search, index, open_index
from limner.search.items import read

pytest.importorskip("lancedb")


def some(count: int, dim: int = 16, *, seed: int = 0, prefix: str = "i", decimals: int | None = None) -> Embeddings:
    rows = np.random.default_rng(seed).standard_normal((count, dim))
    if decimals is not None:
        rows = np.round(rows, decimals) + 0.01
    return Embeddings([f"{prefix}{row}" for row in range(count)], rows.astype(np.float32))


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """3,000 vectors of few different values, so that many scores are equal, put in by several commits."""
    folder = tmp_path_factory.mktemp("stored") / "index"
    items = some(3000, 6, decimals=0)
    vector_index = index(folder, Embeddings(items.ids[:1000], items.matrix[:1000]))
    for low in range(1000, 3000, 500):
        vector_index.add(Embeddings(items.ids[low : low + 500], items.matrix[low : low + 500]))
    return folder, items


# --- exact --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [2**30, 0], ids=["in memory", "streamed"])
@pytest.mark.parametrize("count", [1, 7, 256, 300])
def test_the_hits_are_those_of_scores_top_ties_and_bits_included(stored, memory, count):
    folder, items = stored
    queries = some(count, 6, seed=1, prefix="q", decimals=0)
    expected = Scores.from_embeddings(queries, items).top(11)
    hits = open_index(folder, memory=memory).search(queries, 11)
    assert any(len(set(row)) < 11 for row in np.asarray(expected.scores).tolist())  # there are ties to get wrong
    assert [hits.ranking[q] for q in queries.ids] == [expected[q] for q in queries.ids]
    assert np.array_equal(hits.ranking.scores, expected.scores)
    assert hits.ranking.n_candidates == 3000 and hits.recall is None


@st.composite
def vector_sets(draw):
    dim = draw(st.integers(1, 9))
    number = st.sampled_from([-2.0, -1.0, -0.3, 0.0, 1e-3, 0.3, 1.0, 1.0000001, 700.0])
    row = st.lists(number, min_size=dim, max_size=dim).filter(any)
    rows = draw(st.lists(row, min_size=1, max_size=40))
    queries = draw(st.lists(row, min_size=1, max_size=4))
    return np.array(queries, np.float32), np.array(rows, np.float32), draw(st.integers(1, 45)), draw(st.integers(1, 12))


@given(vector_sets())
def test_any_cut_into_blocks_gives_the_lists_of_the_whole(case):
    queries, rows, k, cut = case
    embeddings = Embeddings(range(len(queries)), queries)
    expected = Scores.from_embeddings(embeddings, Embeddings(range(len(rows)), rows), similarity="dot").top(k)
    blocks = [rows[low : low + cut] for low in range(0, len(rows), cut)]
    for few_queries in (True, False):
        chosen = exact_search._few_queries if few_queries else exact_search._many_queries
        numbered = zip(range(0, len(rows), cut), blocks, strict=True)
        places, scores = chosen(embeddings, numbered, min(k, len(rows)))
        assert places.tolist() == expected.indices.tolist()
        assert np.array_equal(scores, expected.scores)


def test_a_store_of_equals_is_searched_in_bounded_memory(monkeypatch):
    """All rows equal: everything could be among the best, and the grid has to decide again and again."""
    monkeypatch.setattr(exact_search, "HELD", 100)
    counts = []
    decide = exact_search._Candidates.decide
    monkeypatch.setattr(
        exact_search._Candidates, "decide", lambda self, q: (counts.append(self.count), decide(self, q))[1]
    )
    rows = np.ones((1000, 5), dtype=np.float32)
    places, _ = exact_search.top(some(3, 5), (rows[low : low + 50] for low in range(0, 1000, 50)), 4, rows=1000)
    assert places.tolist() == [[0, 1, 2, 3]] * 3
    assert max(counts) <= 150 and len(counts) > 5


def test_fast_products_alone_would_not_do():
    """The plain product and the grid round differently: without the margin, lists would differ."""
    rng = np.random.default_rng(0)
    base = rng.standard_normal(333).astype(np.float32)
    rows = base + rng.standard_normal((4000, 333)).astype(np.float32) * np.float32(3e-7)
    query = Embeddings(["q"], base[None])
    expected = Scores.from_embeddings(query, Embeddings(range(4000), rows), similarity="dot").top(20)
    blocks = ((low, rows[low : low + 640]) for low in range(0, 4000, 640))
    places, scores = exact_search._few_queries(query, blocks, 20)
    assert places.tolist() == expected.indices.tolist()
    assert np.array_equal(scores, expected.scores)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_both_similarities(tmp_path, similarity):
    items, queries = some(300), some(5, seed=1, prefix="q")
    hits = index(tmp_path / "i", items, similarity=similarity).search(queries, 5)
    expected = Scores.from_embeddings(queries, items, similarity=similarity).top(5)
    assert [hits.ranking[q] for q in queries.ids] == [expected[q] for q in queries.ids]


@pytest.mark.parametrize("memory", [2**30, 0], ids=["in memory", "streamed"])
@pytest.mark.parametrize("count", [1, 300])
def test_products_that_overflow_are_refused(tmp_path, memory, count):
    rows, vectors = np.full((5, 4), 1.0), np.full((count, 4), 1.0)
    rows[3, :2], vectors[0, :2] = [1e20, -1e20], [1e20, 1e20]  # inf - inf: a NaN that no comparison sees
    index(tmp_path / "i", Embeddings("abcde", rows), similarity="dot")
    opened = open_index(tmp_path / "i", memory=memory)
    queries = Embeddings([f"q{n}" for n in range(count)], vectors)
    for correct in ({}, {"correct": "nnn", "bank": some(5, 4, prefix="b")}):
        with pytest.raises(LimnerError, match="query 'q0' and .* overflows single precision"):
            opened.search(queries, 2, **correct)


def test_more_than_there_are_and_arrays_as_queries(tmp_path):
    vector_index = index(tmp_path / "i", some(3))
    hits = vector_index.search(np.ones(16, dtype=np.float32), 10)
    assert len(hits[0]) == 3 and [hit.rank for hit in hits[0]] == [1, 2, 3]
    assert len(vector_index.search(np.ones((4, 16), dtype=np.float32), 2)[3]) == 2
    with pytest.raises(LimnerError, match="search for the 0 best"):
        vector_index.search(np.ones(16, dtype=np.float32), 0)
    with pytest.raises(LimnerError, match="vectors have 3 dimensions, the index 16"):
        vector_index.search(np.ones(3, dtype=np.float32))
    with pytest.raises(LimnerError, match="needs an encoder"):
        vector_index.search("two dogs")
    with pytest.raises(LimnerError, match=r"row 1 .* holds NaN"):
        vector_index.add(Embeddings(["a", "b"], np.array([[1.0] * 16, [np.nan] * 16])))


# --- corrections --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [2**30, 0], ids=["in memory", "streamed"])
@pytest.mark.parametrize(
    "name", ["csls", "inverted_softmax", "dual_softmax", "dynamic_inverted_softmax", "nnn", "centred", "sinkhorn"]
)
def test_corrections_from_a_bank_are_those_of_scores(stored, tmp_path, memory, name):
    folder, items = stored
    queries, bank = some(6, 6, seed=2, prefix="q"), some(60, 6, seed=3, prefix="b")
    opened = open_index(folder, memory=memory)
    expected = Scores.from_embeddings(queries, items).correct(name, bank=bank).top(5)
    hits = opened.search(queries, 5, correct=name, bank=bank)
    assert [hits.ranking[q] for q in queries.ids] == [expected[q] for q in queries.ids]
    np.testing.assert_allclose(hits.ranking.scores, expected.scores, rtol=1e-5, atol=1e-5)
    assert hits.correction == name
    saved = opened.statistics(name, bank).save(tmp_path / "bank.npz")
    one = queries.subset(["q3"])  # a single live query
    for live in (opened.search(one, 5, correct=saved), opened.search(one, 5, correct=name, bank=saved)):
        assert live.ranking["q3"] == expected["q3"]


def test_corrections_that_cannot_be_are_refused(stored, tmp_path):
    opened = open_index(stored[0])
    one = some(1, 6)
    with pytest.raises(LimnerError, match="a bank of 1 query"):
        opened.search(one, correct="csls")
    with pytest.raises(LimnerError, match="without a correction"):
        opened.search(one, bank=some(9, 6))
    with pytest.raises(LimnerError, match="unknown option 'beta' of correction 'csls'"):
        opened.search(one, correct="csls", bank=some(9, 6), beta=3)
    with pytest.raises(LimnerError, match="uses every item"):
        opened.search(one, correct="csls", bank=some(9, 6), exact=False)
    foreign = index(tmp_path / "i", some(9, 6)).statistics("nnn", some(9, 6))
    with pytest.raises(LimnerError, match="gather them again"):
        opened.search(one, correct=foreign)
    with pytest.raises(LimnerError, match="statistics are for nnn.k=16, alpha=0.75., but csls"):
        opened.search(one, correct="csls", bank=foreign)


# --- approximate --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large") / "index"
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((40, 32))
    rows = centres[rng.integers(0, 40, 2000)] + 0.4 * rng.standard_normal((2000, 32))
    return folder, index(folder, Embeddings([f"i{n}" for n in range(2000)], rows))


@pytest.mark.parametrize("kind", ["ivf_sq", "ivf_pq"])
def test_the_recall_of_an_approximate_index_is_measured_kept_and_true(large, kind):
    folder, vector_index = large
    ann = vector_index.approximate(kind, recall=0.9)
    queries = some(20, 32, seed=5, prefix="q")
    reopened = open_index(folder)
    hits, truth = reopened.search(queries, exact=False), reopened.search(queries, exact=True)
    assert (hits.recall, truth.recall) == (ann.recall, None)
    assert ann.recall.of == "stored" and ann.recall.rows == 2000
    measured = reopened.recall(queries=queries)
    share = np.mean([len(set(hits.ranking[q]) & set(truth.ranking[q])) / 10 for q in queries.ids])
    assert measured.value == pytest.approx(share) and measured.of == "given"
    assert open_index(folder).search(queries, 3, exact=False).recall == measured
    for q in queries.ids:  # what both found has the same score to the last bit
        right = {hit.id: hit.score for hit in truth[q]}
        assert all(hit.score == right[hit.id] for hit in hits[q] if hit.id in right)
        assert [hit.score for hit in hits[q]] == sorted((hit.score for hit in hits[q]), reverse=True)


@pytest.mark.parametrize(
    ("seconds", "exact_seconds", "queries", "exact"),
    [(0.4, (0.1, 0.1), 1, True), (0.1, (0.4, 0.01), 1, False), (0.1, (0.4, 0.01), 20, True)],
)
def test_the_approximate_index_is_used_where_it_is_faster(large, seconds, exact_seconds, queries, exact):
    folder, vector_index = large
    ann = vector_index.approximate("ivf_flat", recall=1.0)
    assert ann.seconds > 0 and min(ann.exact_seconds) >= 0 and Ann.noted(vector_index.store) == ann
    replace(ann, seconds=seconds, exact_seconds=exact_seconds).keep(vector_index.store)
    opened, query_vectors = open_index(folder), some(queries, 32, seed=5, prefix="q")
    assert opened.search(query_vectors).exact is exact
    assert opened.search(query_vectors, exact=False).exact is False


NOTE = {"kind": "ivf_sq", "probes": 4, "recall": None, "wanted": 0.9, "seconds": 1.0, "exact_seconds": [1.0, 1.0]}


@pytest.mark.parametrize(
    "note",
    [
        [1], "ivf_sq", {"kind": "ivf_sq"}, {**NOTE, "kind": 3}, {**NOTE, "kind": "none"}, {**NOTE, "probes": "x"},
        {**NOTE, "probes": -1}, {**NOTE, "recall": {"value": 1}}, {**NOTE, "recall": {"a": 1}}, {**NOTE, "wanted": "x"},
        {**NOTE, "seconds": None}, {**NOTE, "exact_seconds": 3}, {**NOTE, "exact_seconds": [1.0]}, {**NOTE, "more": 1},
    ],
)  # fmt: skip
def test_damaged_notes_of_an_approximate_index_are_refused(tmp_path, note):
    vector_index = index(tmp_path / "i", some(300))
    vector_index.store.note(ann=NOTE)
    assert Ann.noted(open_index(tmp_path / "i").store) is not None
    vector_index.store.note(ann=note)
    with pytest.raises(LimnerError):
        open_index(tmp_path / "i").search(some(1, seed=5))


def test_an_approximate_index_that_probes_everything_is_not_chosen_by_itself(tmp_path):
    vector_index = index(tmp_path / "i", some(3000, 64))
    ann = vector_index.approximate("ivf_sq", recall=1.0)
    slower = 100 * ann.seconds > ann.exact_seconds[0] + 99 * ann.exact_seconds[1]
    assert vector_index.search(some(100, 64, seed=5, prefix="q")).exact is slower


def test_rows_added_after_the_approximate_index_are_found(large):
    _, vector_index = large
    vector_index.approximate("ivf_sq")
    late = Embeddings(["late"], np.full((1, 32), 5.0))
    vector_index.add(late, existing="replace")
    assert vector_index.search(late, 1, exact=False).ranking["late"] == ["late"]
    vector_index.delete(["late"])
    assert "late" not in vector_index.search(late, 10, exact=False).ranking["late"]


def unlike(count: int, seed: int = 0, *, dim: int = 32) -> np.ndarray:
    """Rows of many lengths around forty centres."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(9).standard_normal((40, dim))[rng.integers(0, 40, count)]
    return (centres + 0.4 * rng.standard_normal((count, dim))) * rng.uniform(0.5, 2, (count, 1))


@pytest.fixture
def sample_size(monkeypatch) -> int:
    """How many queries recall is measured with in these tests, instead of a hundred."""
    monkeypatch.setattr(sys.modules[Index.__module__], "SAMPLE", 20)
    return 20


def share_found(vector_index, queries: Embeddings, k: int = 10) -> float:
    """Recall by hand: what an approximate search has of the exact answer."""
    approximate = vector_index.search(queries, k, exact=False).ranking
    truth = vector_index.search(queries, k, exact=True).ranking
    return float(np.mean([len(set(approximate[q]) & set(truth[q])) / k for q in queries.ids]))


@pytest.mark.parametrize(("kind", "similarity"), [("ivf_pq", "dot"), ("ivf_rq", "cosine"), ("ivf_sq", "dot")])
def test_compacting_does_not_cost_recall(tmp_path, sample_size, kind, similarity):
    """LanceDB joins small clusters when it optimises, and keeps codes that were learnt for the clusters before."""
    vector_index = index(tmp_path / "i", Embeddings(range(1000), unlike(1000)), similarity=similarity)
    before = vector_index.approximate(kind)
    queries = Embeddings([f"q{n}" for n in range(30)], unlike(30, 5))
    shares = [share_found(vector_index, queries)]
    for _ in range(2):
        vector_index.compact()
        shares.append(share_found(vector_index, queries))
        recall = open_index(tmp_path / "i").search(queries, exact=False).recall
        assert vector_index.search(queries, exact=False).recall == recall == vector_index.recall(sample_size)
    assert min(shares) > shares[0] - 0.05
    assert vector_index.search(queries, exact=False).recall.value > before.recall.value - 0.05


def test_the_recall_that_a_search_shows_is_of_the_index_as_it_is(tmp_path, sample_size):
    vector_index = index(tmp_path / "i", Embeddings(range(600), unlike(600)), similarity="dot")
    vector_index.approximate("ivf_pq")
    query = Embeddings(["q"], unlike(1, 7))

    def shown_recall():
        recall = open_index(tmp_path / "i").search(query, exact=False).recall
        assert recall == vector_index.search(query, exact=False).recall
        assert recall.value == vector_index.recall(sample_size).value and recall.rows == len(vector_index)
        return recall

    shown_recall()
    vector_index.add(Embeddings([f"n{n}" for n in range(300)], unlike(300, 1)))
    assert shown_recall().rows == 900
    vector_index.add(Embeddings(["n3", "late"], unlike(2, 2)), existing="replace")
    vector_index.delete([str(n) for n in range(400)])
    assert shown_recall().rows == 501
    vector_index.compact()
    assert shown_recall().rows == 501


def test_a_recall_that_was_not_measured_again_is_not_shown(tmp_path):
    vector_index = index(tmp_path / "i", Embeddings(range(600), unlike(600)))
    vector_index.approximate("ivf_sq")
    query = Embeddings(["q"], unlike(1, 7))
    vector_index.add(Embeddings(["a"], unlike(1, 1)), measure=False)
    for opened in (vector_index, open_index(tmp_path / "i")):
        hits = opened.search(query, exact=False)
        assert hits.recall is None and not hits.exact and "approximate, recall not measured" in hits.summary
        assert hits.as_dict()["exact"] is False and hits.as_dict()["recall"] is None
    vector_index.recall()
    assert vector_index.search(query, exact=False).recall is not None
    open_index(tmp_path / "i").store.table.delete("id = 'a'")  # by another program
    vector_index.refresh()
    assert vector_index.search(query, exact=False).recall is None
    vector_index.delete([str(n) for n in range(500)], measure=False)
    vector_index.compact()  # too few rows are left for an approximate index
    assert vector_index.search(query).exact and "exact" in vector_index.search(query).summary
    with pytest.raises(LimnerError, match="there is no approximate index"):
        vector_index.search(query, exact=False)


def test_without_its_approximate_index_a_store_is_still_searched_by_product(tmp_path):
    """As after a process that was killed while it compacted: LanceDB's own distance would not be the product."""
    vector_index = index(tmp_path / "i", Embeddings(range(600), unlike(600)), similarity="dot")
    vector_index.approximate("ivf_sq")
    vector_index.store.drop_index()
    queries = Embeddings([f"q{n}" for n in range(20)], unlike(20, 7))
    assert share_found(vector_index, queries) == 1.0 and vector_index.search(queries, exact=False).recall is None


def test_an_approximate_index_that_cannot_be_is_refused(stored, tmp_path):
    with pytest.raises(LimnerError, match="there is no approximate index"):
        open_index(stored[0]).search(some(1, 6), exact=False)
    with pytest.raises(LimnerError, match="3 rows: an approximate index needs 256 or more"):
        index(tmp_path / "i", some(3)).approximate()
    with pytest.raises(LimnerError, match="unknown approximate index 'hnws'"):
        open_index(stored[0]).approximate("hnws")


# --- items, systems, hits -----------------------------------------------------------------------------------------


class Lengths:
    """An encoder: how long a text is, and whether it has an a."""

    def encode(self, items: Items) -> np.ndarray:
        return np.array([[len(value), 1 + value.count("a")] for value in items.values], dtype=np.float32)


def test_texts_are_kept_and_found_by_an_encoder(tmp_path):
    texts = Items(["x", "y", "z"], ["a", "bbbb", "<script>alert('a')</script>"], kind="text")
    vector_index = index(tmp_path / "i", encoded(Lengths(), texts), texts, system=Lengths())
    hits = vector_index.search(["b" * 4, "a"], 2)
    assert (hits["0"][0].value, hits[1][0].value) == ("bbbb", "a")
    assert hits.records()[0] == {
        "query": "0", "query_value": "bbbb", "rank": 1, "id": "y", "score": hits[0][0].score, "value": "bbbb",
    }  # fmt: skip
    assert str(hits).splitlines()[0] == "bbbb" and "3 texts searched, exact" in str(hits)
    with pytest.raises(LimnerError, match="image items for an index of texts"):
        vector_index.add(some(1, 2), Items(["i0"], [None]))
    with pytest.raises(LimnerError, match="1 of 1 text ids are unknown"):
        vector_index.add(some(1, 2), Items(["other"], ["t"], kind="text"))
    with pytest.raises(LimnerError, match="dict cannot encode"):
        encoded({}, texts)


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict]] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_the_page_is_one_file_with_everything_escaped(tmp_path):
    evil = "<script>alert('x')</script>\"'><img src=x onerror=alert(1)>"
    photo = tmp_path / "photo.png"
    Image.new("RGB", (300, 200), "red").save(photo)
    pictures = Items(
        [evil, "drawn", "gone"], [str(photo), lambda: Image.new("RGB", (9, 9), "blue"), str(tmp_path / "no.png")]
    )
    vector_index = index(tmp_path / "i", Embeddings(pictures.ids, np.eye(3)), pictures)
    hits = vector_index.search(Embeddings([evil], np.ones((1, 3))))
    page = hits.html()
    tags = Tags(page).found
    assert [tag for tag, _ in tags if tag == "script"] == []
    images = [attrs["src"] for tag, attrs in tags if tag == "img"]
    assert len(images) == 2 and all(src.startswith("data:image/") for src in images)
    assert not any(name.startswith("on") for _, attrs in tags for name in attrs)
    assert "no file" in page and evil not in page and "&lt;script&gt;" in page
    assert not re.search(r"""(?:src|href)=["'](?!data:)""", page)
    for ending in ("html", "json", "csv"):
        assert hits.save(tmp_path / f"hits.{ending}").stat().st_size > 0
    assert json.loads((tmp_path / "hits.json").read_text())["hits"][0]["id"] in pictures.ids
    with pytest.raises(LimnerError, match="hits are written as"):
        hits.save(tmp_path / "hits.pdf")


def test_lists_are_read_as_people_have_them(tmp_path):
    (tmp_path / "a.txt").write_text("two dogs\n\na cat\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("id,text\nx,two dogs\ny,a cat\n", encoding="utf-8")
    (tmp_path / "c.jsonl").write_text('{"id": "x", "image": "p.png"}\n', encoding="utf-8")
    Image.new("RGB", (4, 4)).save(tmp_path / "p.png")
    some(2).save(tmp_path / "v.npz")
    lines, table, lists = read(tmp_path / "a.txt"), read(tmp_path / "b.csv"), read(tmp_path / "c.jsonl")
    assert (list(lines.ids), lines.values, lines.kind) == (["1", "3"], ("two dogs", "a cat"), "text")
    assert (list(table.ids), table.values) == (["x", "y"], ("two dogs", "a cat"))
    assert (lists.kind, lists.values) == ("image", (str(tmp_path / "p.png"),))
    assert list(read(tmp_path).ids) == list(read(tmp_path / "p.png").ids) == ["p.png"]
    assert list(read(tmp_path / "v.npz").ids) == ["i0", "i1"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "\n \n", "is empty: expected one text per line"),
        ("a.csv", "id,size\nx,3\n", "has columns 'id', 'size': expected a column of texts"),
        ("a.csv", "id,text\nx,\n", r"a.csv, line 2: column 'text' is empty"),
        ("a.csv", "id,text\nx,a\nx,b\n", "duplicate id id 'x' in rows 0 and 1"),
        ("a.jsonl", '{"text": 3}\n', "line 1: column 'text' is empty or not text"),
        ("a.jsonl", "{\n", "line 1 is not JSON"),
        ("a.pdf", "x", "expected a folder or a file that ends in"),
    ],
)
def test_bad_lists_are_refused(tmp_path, name, content, message):
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(LimnerError, match=message):
        read(tmp_path / name)


def test_a_list_of_image_paths_is_images(tmp_path, monkeypatch):
    (tmp_path / "photos").mkdir()
    for name in ("a.png", "b c.JPG"):
        Image.new("RGB", (4, 4)).save(tmp_path / "photos" / name)
    (tmp_path / "list.txt").write_text(f"photos/a.png\n{tmp_path}/photos/b c.JPG\nphotos/gone.png\n")
    listed = read(tmp_path / "list.txt")
    assert (listed.kind, listed.ids[0]) == ("image", "photos/a.png")
    assert [value.replace(str(tmp_path), "") for value in listed.values] == [
        "/photos/a.png", "/photos/b c.JPG", "/photos/gone.png"]  # fmt: skip
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "from-here.txt").write_text("photos/a.png\n")
    monkeypatch.chdir(tmp_path)
    assert read("lists/from-here.txt").values == ("photos/a.png",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x/a.jpg\nx/b.jpg\n", r"lists 2 image files, and none of them exists, such as 'x/a.jpg': expected paths rel"),
        ("a dog\nhere.png\n", r"line 2 is an image file, and line 1 is not \('a dog'\)"),
        ("x/a.jpg\nx/b.jpg\n# the rest\n", r"line 1 is an image file, and line 3 is not"),
        ("a.txt\na.txt\n", r"lists files, such as 'a.txt': expected texts, or images"),
    ],
)
def test_lists_of_images_that_cannot_be_are_refused(tmp_path, content, message):
    Image.new("RGB", (4, 4)).save(tmp_path / "here.png")
    (tmp_path / "a.txt").write_text(content)
    with pytest.raises(LimnerError, match=message):
        read(tmp_path / "a.txt")


def test_a_text_may_end_in_the_name_of_a_file(tmp_path):
    (tmp_path / "a.txt").write_text("a dog\nsee photo.jpg\n")
    assert read(tmp_path / "a.txt").kind == "text"


def test_missing_and_empty_lists_are_refused(tmp_path):
    with pytest.raises(LimnerError, match="no images in"):
        read(tmp_path)
    with pytest.raises(LimnerError, match="no file .*nowhere.txt"):
        read(tmp_path / "nowhere.txt")


# --- the commands -------------------------------------------------------------------------------------------------

WORLD = ["scenes", "-O", "images=60"]


def run(*words: object, status: int = 0):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == status, done.output
    assert "Traceback" not in done.output
    return done


@pytest.fixture(scope="module")
def commanded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("commanded")
    run("index", folder / "i", *WORLD, "--model", "histograms")
    return folder


def test_the_commands_find_what_python_finds(commanded):
    world = limner.load("scenes", images=60)
    model = limner.train(world)
    queries = Items(["0"], ["two red dogs"], kind="text")
    expected = Scores.from_embeddings(model.encode_texts(queries), model.encode_images(world.images)).top(4)
    data = json.loads(run("search", commanded / "i", "two red dogs", "-k", 4, "--json").stdout)
    assert [hit["id"] for hit in data["hits"]] == expected["0"]
    assert [hit["score"] for hit in data["hits"]] == np.asarray(expected.scores)[0].tolist()
    assert (data["searched"], data["exact"], data["kind"]) == (60, True, "image")
    described = json.loads(run("index", commanded / "i", "--json").stdout)
    assert (described["items"], described["dimensions"], described["system"]) == (60, 32, "system")


def test_queries_from_files_pictures_and_vectors(commanded, tmp_path):
    world = limner.load("scenes", images=60)
    picture = tmp_path / "p.png"
    world.images.open(7).save(picture)
    document = json.loads(run("search", commanded / "i", "--image", picture, "-k", 1, "--json").stdout)
    assert document["hits"][0]["id"] == world.images.ids[7]
    (tmp_path / "q.txt").write_text("two red dogs\na cat\n")
    page = tmp_path / "found.html"
    run("search", commanded / "i", "--queries", tmp_path / "q.txt", "-o", page, "-o", tmp_path / "found.run")
    assert page.read_text().count("data:image/") == 20
    assert len((tmp_path / "found.run").read_text().splitlines()) == 20
    vectors = limner.train(world).encode_texts(world.texts[:3])
    vectors.save(tmp_path / "q.npy")
    hits = json.loads(run("search", commanded / "i", "--queries", tmp_path / "q.npy", "-k", 2, "--json").stdout)["hits"]
    assert [hit["query"] for hit in hits] == [key for key in vectors.ids for _ in range(2)]


def test_a_bank_and_its_statistics(commanded, tmp_path):
    (tmp_path / "bank.txt").write_text("\n".join(limner.load("scenes", images=60).train.texts.values[:40]))
    ask = ("search", commanded / "i", "a cat", "-k", 5, "--json", "--correct")
    first = run(*ask, "csls", "-O", f"bank={tmp_path / 'bank.txt'}", "-O", "k=5", "-o", tmp_path / "b.npz")
    assert Statistics.load(tmp_path / "b.npz").correction.k == 5
    reused = run(*ask, tmp_path / "b.npz")
    named = run(*ask, "csls", "-O", f"bank={tmp_path / 'b.npz'}")
    answers = [json.loads(done.stdout) for done in (first, reused, named)]
    assert answers[0] == answers[1] == answers[2] and answers[0]["correction"] == "csls"
    plain = json.loads(run("search", commanded / "i", "a cat", "-k", 5, "--json").stdout)
    assert [h["score"] for h in plain["hits"]] != [h["score"] for h in answers[0]["hits"]]


def test_an_index_from_vectors_grows_shrinks_and_resumes(tmp_path):
    (tmp_path / "t.csv").write_text("id,text\n" + "".join(f"t{n},caption {n}\n" for n in range(300)))
    np.save(tmp_path / "v.npy", some(300).matrix)
    inputs = ("--items", tmp_path / "t.csv", "--embeddings", tmp_path / "v.npy", "--json")
    done = run("index", tmp_path / "i", *inputs)
    assert "has no ids: its rows are used in the order of the texts" in done.stderr
    assert json.loads(done.stdout)["added"] == 300
    assert "in the index already" in run("index", tmp_path / "i", *inputs, status=3).stderr
    assert json.loads(run("index", tmp_path / "i", *inputs, "--resume").stdout)["added"] == 0
    assert json.loads(run("index", tmp_path / "i", *inputs, "--replace").stdout)["added"] == 300
    after = json.loads(run("index", tmp_path / "i", "--delete", "t7", "--delete", "t8", "--compact", "--json").stdout)
    assert (after["deleted"], after["items"]) == (2, 298)
    built = run("index", tmp_path / "i", "--ann", "ivf_sq", "--json")
    assert "recall@10" in json.loads(built.stdout)["approximate"]["recall"]
    some(1, seed=9).save(tmp_path / "q.npy")
    approximate = run("search", tmp_path / "i", "--queries", tmp_path / "q.npy", "--json", "--approximate")
    hits = json.loads(approximate.stdout)
    assert hits["exact"] is False and hits["recall"] > 0.5 and hits["hits"][0]["value"].startswith("caption")
    exactly = run("search", tmp_path / "i", "--queries", tmp_path / "q.npy", "--json", "--exact")
    assert json.loads(exactly.stdout)["exact"] is True
    old = run("search", tmp_path / "i", "--queries", tmp_path / "q.npy", "-k", 300, "-O", "version=1", "--json")
    assert len(json.loads(old.stdout)["hits"]) == 300


def test_an_interrupted_encoding_goes_on_where_it_stopped(tmp_path, monkeypatch):
    from limner.cli.commands import index as command

    monkeypatch.setattr(command, "AT_ONCE", 20)
    world = limner.load("scenes", images=60)
    model = limner.train(world).save(tmp_path / "m.npz")
    words = ("index", tmp_path / "i", *WORLD, "--model", model, "--json")
    sizes = []

    def stops(system, items, **options):
        sizes.append(len(items))
        if len(sizes) == 3:
            raise KeyboardInterrupt
        return encoded(system, items, **options)

    monkeypatch.setattr("limner.search.items.encoded", stops)
    run(*words, status=130)
    assert len(open_index(tmp_path / "i")) == 40
    done = json.loads(run(*words, "--resume").stdout)
    assert (done["added"], done["items"], sizes) == (20, 60, [20, 20, 20, 20])
    assert list(open_index(tmp_path / "i").ids) == list(world.images.ids)


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["search", "nowhere", "a"], 3, "no index at nowhere, and no folder of photographs: check the path"),
        (["search", "i", " "], 2, "TEXT is empty"),
        (["search", "I"], 2, "give TEXT, --image FILE, both"),
        (["search", "I", "a", "--queries", "q.txt"], 2, "give TEXT, --image FILE, both"),
        (["search", "I", "a", "-o", "x.pdf"], 3, "a list of hits is written as"),
        (["search", "I", "a", "-O", "bank=b.npy"], 2, "-O bank without --correct"),
        (["search", "I", "a", "--correct", "clss"], 3, "unknown correction 'clss': did you mean 'csls'"),
        (["search", "I", "a", "--correct", "nothing.npz"], 3, "no saved statistics"),
        (["search", "I", "a", "--model", "nothing"], 3, "unknown system, saved model or file 'nothing'"),
        (["search", "I", "a", "--model", "json:loads"], 3, "cannot encode"),
        (["search", "I", "a", "--approximate"], 3, "there is no approximate index"),
        (["search", "I", "--image", "nothing.png"], 3, "no file"),
        (["index", "I", "--model", "histograms"], 2, "nothing to add"),
        (["index", "I", *WORLD, "--replace", "--resume"], 2, "give only one of them"),
        (["index", "I", *WORLD, "--side", "sounds"], 2, "expected images or texts"),
        (["index", "I", *WORLD, "--side", "texts", "--replace"], 3, "text items for an index of images"),
        (["index", "I", "--delete", "nobody"], 3, "not in the index"),
        (["index", "new", *WORLD], 2, "give --embeddings or --model"),
        (["index", "new", "--items", "I", "--model", "histograms"], 3, "no images in"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(commanded, monkeypatch, tmp_path, words, status, message):
    monkeypatch.chdir(tmp_path)
    done = run(*[str(commanded / "i") if word == "I" else word for word in words], status=status)
    assert message in " ".join(done.stderr.split())
    assert not (tmp_path / "new").exists()


def test_an_encoder_of_ones_own_encodes_items_and_queries(tmp_path, monkeypatch):
    code = "class Colour:\n    def encode(self, items):\n        import numpy as np\n"
    code += "        return np.array([np.asarray(items.open(i)).mean(axis=(0, 1)) + 1 for i in range(len(items))])\n"
    (tmp_path / "my_encoders.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "photos").mkdir()
    for colour in ("red", "blue", "green"):
        Image.new("RGB", (8, 8), colour).save(tmp_path / "photos" / f"{colour}.png")
    words = ("index", tmp_path / "i", "--items", tmp_path / "photos", "--model", "my_encoders:Colour", "--json")
    document = json.loads(run(*words).stdout)
    assert (document["items"], document["kind"], document["system"]) == (3, "image", "my_encoders:Colour")
    Image.new("RGB", (5, 5), (20, 30, 220)).save(tmp_path / "query.png")
    monkeypatch.chdir(tmp_path / "photos")  # paths are kept so that they open from anywhere
    model_options = ("--model", "my_encoders:Colour", "--json")
    result = run("search", tmp_path / "i", "--image", tmp_path / "query.png", "-o", tmp_path / "p.html", *model_options)
    first = json.loads(result.stdout)["hits"][0]
    assert (first["id"], first["value"]) == ("blue.png", str(tmp_path / "photos" / "blue.png"))
    assert (tmp_path / "p.html").read_text().count("data:image/") == 4  # three hits and the query
    dot = run("index", tmp_path / "i", "--items", tmp_path / "photos", "-O", "similarity=dot", "--replace", status=3)
    assert "the index compares by cosine" in dot.stderr
