"""Search by words and vectors: BM25 and fusion against slow oracles, minus terms, filters, and what an index keeps."""

from __future__ import annotations

import csv
import json
import math
from collections import Counter

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
from limner import Embeddings, Items
from limner.cli import app
from limner.core.errors import LimnerError, UnknownName
from limner.language.bm25 import BM25
from limner.language.word_overlap import content_words
from limner.search import index, open_index, search_words, with_captions
from limner.search.item_texts import ItemTexts
from limner.search.query_terms import FieldFilter, read_filters, read_terms

CAPTIONS = [
    ["a dog runs on a beach", "the dog is wet"],
    ["two dogs on the grass"],
    ["a cat sleeps", "a cat on a sofa"],
    ["a dog and a cat"],
    [],
    ["an empty beach at dawn"],
]
COLOURS = ["red", "red", "blue", "blue", "red", "dark blue"]


class Letters:
    """Encodes a text as the counts of its letters."""

    name = "letters"

    def encode(self, items):
        return np.array([[1.0 + str(v).lower().count(chr(97 + n)) for n in range(26)] for v in items.values])


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    rng = np.random.default_rng(0)
    ids = [f"i{n}" for n in range(len(CAPTIONS))]
    items = Items(
        ids, [None] * len(ids), {"captions": CAPTIONS, "colour": COLOURS, "year": [2001 + n for n in range(6)]}
    )
    path = tmp_path_factory.mktemp("hybrid") / "photos.index"
    return index(path, Embeddings(ids, rng.random((6, 26))), items, system=Letters())


def slow_bm25(documents, query, k1=1.2, b=0.75):
    """The formula, word by word."""
    bags = [Counter(word for text in texts for word in content_words(text)) for texts in documents]
    mean = sum(sum(bag.values()) for bag in bags) / len(bags)
    totals = []
    for bag in bags:
        total = 0.0
        for word in dict.fromkeys(content_words(query)):
            having = sum(word in candidate_bag for candidate_bag in bags)
            idf = math.log(1 + (len(bags) - having + 0.5) / (having + 0.5))
            length = 1 - b + b * sum(bag.values()) / mean
            total += idf * bag[word] * (k1 + 1) / (bag[word] + k1 * length)
        totals.append(total)
    return totals


@pytest.mark.parametrize("query", ["dogs", "a dog on the beach", "cat cat dog", "xyzzy", "the of", ""])
def test_bm25_is_the_formula(query):
    assert BM25.of(CAPTIONS).scores(query) == pytest.approx(slow_bm25(CAPTIONS, query), abs=1e-6)


def test_nothing_has_no_words():
    assert len(BM25.of([]).scores("dog")) == 0
    assert BM25.of([[], [""]]).scores("dog").tolist() == [0, 0]
    assert BM25.of(CAPTIONS).having("the").tolist() == [False] * 6


def slow_fusion(index, query, allowed):
    """Reciprocal ranks of both lists, added up."""
    vectors = index.scores([query]).matrix()[0]
    words = np.array(slow_bm25(CAPTIONS, query))
    sums = Counter()
    for scores, floor in ((vectors, None), (words, 0.0)):
        listed = [n for n in np.argsort(-scores, kind="stable") if allowed[n] and (floor is None or scores[n] > floor)]
        for place in listed:
            shared = [rank for rank, peer in enumerate(listed, start=1) if scores[peer] == scores[place]]
            sums[int(place)] += 1 / (60 + np.mean(shared))
    return [f"i{n}" for n in sorted(sums, key=lambda n: (-sums[n], n))]


@pytest.mark.parametrize("query", ["a dog on the beach", "cat", "dogs and cats"])
def test_hybrid_is_reciprocal_rank_fusion_of_both_lists(photos, query):
    hits = search_words(photos, query, 6)
    assert [hit.id for hit in hits["0"]] == slow_fusion(photos, query, [True] * 6)
    filtered = search_words(photos, query, 6, where=["colour=red"])
    assert [hit.id for hit in filtered["0"]] == slow_fusion(photos, query, [c == "red" for c in COLOURS])
    assert hits.summary.startswith("6 images searched by words and vectors, fused by reciprocal rank, exact")


def test_hits_say_which_words_matched_and_where(photos):
    first = search_words(photos, "dogs at the beach", by="words")["0"][0]
    assert (first.id, first.match.words, first.match.by_words) == ("i0", ("dogs", "beach"), 1)
    assert first.match.text == "a dog runs on a beach" and str(first.match) == "rank 1 by words (dogs, beach)"
    matches = {hit.id: hit.match for hit in search_words(photos, "dogs", 6)["0"]}
    assert matches["i4"].words == () and matches["i4"].by_words == 0 and matches["i4"].by_vectors > 0


def test_a_minus_term_removes_what_has_it_in_its_captions(photos):
    for by in ("vectors", "words", "hybrid"):
        hits = search_words(photos, "dog -beach", 6, by=by)
        assert not {"i0", "i5"} & {hit.id for hit in hits["0"]}
        assert "without “beach”: images whose own captions have it are removed" in hits.summary
    assert "i0" in {hit.id for hit in search_words(photos, "dog -beach", 6, literal=True)["0"]}
    phrase = search_words(photos, 'dog -"dog cat"', 6)["0"]
    assert "i3" not in {hit.id for hit in phrase} and "i0" in {hit.id for hit in phrase}


def test_without_captions_the_direction_of_a_minus_term_is_removed_from_the_query(tmp_path):
    rng = np.random.default_rng(1)
    vector_index = index(tmp_path / "i", Embeddings([f"i{n}" for n in range(9)], rng.random((9, 26))), system=Letters())
    hits = search_words(vector_index, "dog -beach", 9, by="vectors")
    query, minus = (vector_index.read_queries([text])[1].matrix[0].astype(float) for text in ("dog", "beach"))
    left = query - (query @ minus) / (minus @ minus) * minus
    scores = vector_index.scores(np.eye(26)).matrix().T @ (left / np.linalg.norm(left))
    assert [hit.id for hit in hits["0"]] == [f"i{n}" for n in np.argsort(-scores)]
    assert "its direction is removed from the query vector; items that show it can still be found" in hits.summary
    with pytest.raises(LimnerError, match="these items have no texts in the index"):
        search_words(vector_index, "dog")


def test_filters_are_alternatives_within_a_field_and_conditions_across(photos):
    def ids(*where, by="vectors"):
        return {hit.id for hit in search_words(photos, "dog", 6, by=by, where=where)["0"]}

    assert ids("colour=RED", "colour=dark blue") == {"i0", "i1", "i4", "i5"}
    assert ids("colour=red", "year=2002") == {"i1"} and ids("-colour=red") == {"i2", "i3", "i5"}
    assert ids("colour=green") == set() and ids(FieldFilter("year", "2001")) == {"i0"}
    assert {hit.id for hit in search_words(photos, 'dog colour:"dark blue"', 6, by="vectors")["0"]} == {"i5"}
    with pytest.raises(UnknownName, match="color"):
        ids("color=red")
    with pytest.raises(LimnerError, match="expected FIELD=VALUE"):
        ids("red")


def test_filtered_scores_are_those_of_the_plain_search(photos):
    plain = {hit.id: hit.score for hit in photos.search(["a dog"], 6)["0"]}
    scores = {hit.id: hit.score for hit in search_words(photos, "a dog", 6, by="vectors", where=["colour=red"])["0"]}
    assert scores == {key: plain[key] for key in ("i0", "i1", "i4")}
    by_vector = search_words(photos, np.eye(26)[:2], 2, by="vectors", where=["year=2003"])
    assert [[hit.id for hit in by_vector[key]] for key in by_vector.queries.ids] == [["i2"], ["i2"]]
    with pytest.raises(LimnerError, match="cannot be ranked by words"):
        search_words(photos, np.eye(26)[:2])


@pytest.mark.parametrize(
    ("text", "words", "excluded", "filters"),
    [
        ("dog -beach", "dog", ["beach"], []),
        ("-beach dog", "dog", ["beach"], []),
        ('dog -"red car" colour:blue', "dog", ["red car"], ["colour:blue"]),
        ("Colour:blue -year:2001 x", "x", [], ["colour:blue", "-year:2001"]),
        ("a black-and-white cat - asleep", "a black-and-white cat - asleep", [], []),
        ("at 12:30, note: this", "at 12:30, note: this", [], []),
        ("  two  spaces ", "  two  spaces ", [], []),
        ("dog --", "dog --", [], []),
        ('an open " quote -', 'an open " quote -', [], []),
    ],
)
def test_queries_as_people_type_them(text, words, excluded, filters):
    read = read_terms(text, ["colour", "year"])
    assert (read.words, list(read.without), list(map(str, read.where))) == (words, excluded, filters)


def test_a_query_of_minus_terms_alone_is_refused(photos):
    with pytest.raises(LimnerError, match="a query without words"):
        search_words(photos, "-beach")
    with pytest.raises(UnknownName):
        search_words(photos, "dog", by="magic")
    assert read_filters(["a=b=c"]) == (FieldFilter("a", "b=c"),)


def test_a_collection_gives_captions_and_splits(tmp_path):
    world = limner.load("scenes", images=40)
    items = with_captions(world)
    first = world.images.ids[0]
    assert set(items.field("captions")[0]) == {
        text for key, text in zip(world.texts.ids, world.texts.values, strict=True) if key.startswith(f"{first}#")
    }
    assert items.field("split")[0] == [name for name, ids in world.splits.items() if first in ids]
    texts = with_captions(world, "texts")
    vector_index = index(tmp_path / "t", np.random.default_rng(0).random((len(texts), 8)), texts)
    texts_of_index = ItemTexts.of_index(open_index(tmp_path / "t"))
    assert texts_of_index.choices["split"] == sorted(world.splits) and texts_of_index.texts[3] == [texts.values[3]]
    hit = search_words(vector_index, texts.values[3], 1, by="words")["0"][0]
    assert hit.match.text == texts.values[3]


def run(*words):
    return CliRunner().invoke(app, list(map(str, words)))


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    path = tmp_path_factory.mktemp("commanded") / "i"
    result = run("index", path, "scenes", "-O", "images=60", "--model", "colours")
    assert result.exit_code == 0, result.output
    return path


def test_the_command(scenes, tmp_path):
    caption = limner.load("scenes", images=60).texts.values[0]
    document = json.loads(run("search", scenes, caption, "--by", "words", "-k", 2, "--json").stdout)
    assert document["by"] == "words" and document["hits"][0]["id"] == "scene-000000"
    assert document["hits"][0]["words"] and document["hits"][0]["text"] == caption
    output = run("search", scenes, "a tree -house split:test", "--by", "hybrid", "-k", 3).output
    assert "60 images searched by words and vectors" in output and "without “house”" in output
    assert "only split:test" in output and "by vectors" in output
    saved = [tmp_path / "h.csv", tmp_path / "h.html", tmp_path / "h.json", tmp_path / "h.run"]
    result = run("search", scenes, "tree", "--where", "split=test", *(w for file in saved for w in ("-o", file)))
    assert result.exit_code == 0 and all(file.stat().st_size for file in saved)
    assert next(csv.DictReader(saved[0].open()))["by_vectors"] == "1"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tree", "--by", "magic"], "magic"),
        (["tree", "--where", "splits=test"], "splits"),
        (["tree", "--where", "test"], "expected FIELD=VALUE"),
        (["tree", "--by", "words", "--precision", "0.9"], "are for plain searches"),
        (["tree -house", "--correct", "csls"], "are for plain searches"),
        (["--queries", "V", "--by", "words"], "cannot be ranked by words"),
    ],
)
def test_the_command_refuses(scenes, tmp_path, words, message):
    np.save(tmp_path / "v.npy", np.eye(26)[:2])
    refused = run("search", scenes, *(tmp_path / "v.npy" if word == "V" else word for word in words))
    assert refused.exit_code in (2, 3) and message in refused.output


# --- ranges -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dated(tmp_path_factory):
    ids = [f"i{n}" for n in range(6)]
    dates = [
        "2018-12-31T23:59:59",
        "2019-01-01T00:00:00",
        "2020-05-01T08:30:00",
        "2020-05-31T20:00:00",
        "2021-03",
        None,
    ]
    fields = {"date": dates, "width": [640, 1000, 1001, 4000, 320.5, None], "note": ["a..b", "x", "3", "x", "x", "x"]}
    items = Items(ids, ["a dog"] * 6, fields, kind="text")
    return index(tmp_path_factory.mktemp("dated") / "i", Embeddings(ids, np.eye(6, 26)), items, system=Letters())


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (["date:2019..2020"], "123"),
        (["date:2020-05.."], "234"),
        (["date=..2019-01-01"], "01"),
        (["date:2020-05"], "23"),
        (["date:2020-05-01 08:30"], "2"),
        (["date>2020"], "4"),
        (["date>=2020"], "234"),
        (["date<2019"], "0"),
        (["-date:2019..2020"], "045"),
        (["width>1000"], "23"),
        (["width:>=1000", "width < 4000"], "12"),
        (["width:..640", "width:4000"], "034"),
        (["width:1000"], "1"),
        (["note:a..b"], "0"),
        (["note>2"], "2"),
    ],
)
def test_a_range_of_numbers_or_dates_is_a_filter(dated, filters, expected):
    hits = search_words(dated, "dog", 6, by="vectors", where=filters)
    assert "".join(sorted(hit.id[1] for hit in hits["0"])) == expected
    typed = " ".join(f'"{each}"' if " " in each else each for each in filters)
    if '"' not in typed:
        hits = search_words(
            dated, f"dog {typed.replace('=', ':')}" if ">" not in typed else f"dog {typed}", 6, by="vectors"
        )
        assert "".join(sorted(hit.id[1] for hit in hits["0"])) == expected


@pytest.mark.parametrize(("filter", "message"), [("width>big", "a number or a date"), ("date:2021..2019", "is empty")])
def test_an_impossible_range_is_refused(dated, filter, message):
    with pytest.raises(LimnerError, match=message):
        search_words(dated, "dog", 6, by="vectors", where=[filter])


def test_words_with_signs_are_words_where_there_is_no_such_field():
    assert read_terms("I <3 dogs, a>b and x:y", ["width"]).words == "I <3 dogs, a>b and x:y"
    assert [str(each) for each in read_terms("dog width>1000 -width:5..6", ["width"]).where] == [
        "width>1000",
        "-width:5..6",
    ]
