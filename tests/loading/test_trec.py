"""TREC qrels, there and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import put

from limner.core.errors import LimnerError, UnknownName
from limner.core.judgements import Judgements
from limner.datasets.trec import load_qrels, read_qrels, write_qrels

NAMES = st.text("abcé狗#.-0123", min_size=1, max_size=4)
GRADES = st.dictionaries(st.tuples(NAMES, NAMES), st.floats(0, 10, allow_nan=False), min_size=1, max_size=20)


@given(GRADES)
def test_written_and_read_back_is_the_same(tmp_path_factory, grades):
    file = tmp_path_factory.mktemp("qrels") / "j.qrels"
    written = Judgements.from_pairs((q, c, g) for (q, c), g in grades.items())
    write_qrels(written, file)
    assert {(q, c): g for q, c, g in read_qrels(file)} == grades


def test_tabs_blanks_and_whole_grades(tmp_path):
    file = put(tmp_path, j__qrels="q1\t0\td1\t2\nq1  Q0  d2 0\n\n") / "j.qrels"
    read = read_qrels(file, name="mine")
    assert ([tuple(j) for j in read], read.name) == ([("q1", "d1", 2), ("q1", "d2", 0)], "mine")
    write_qrels(read, tmp_path / "out.qrels")
    assert (tmp_path / "out.qrels").read_text() == "q1 0 d1 2\nq1 0 d2 0\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("q 0 d 1\nq 0 d 2\n", "line 2: query 'q' and candidate 'd' are judged a second time"),
        ("q 0 d yes\n", "line 1: grade is 'yes', expected a number"),
        ("q 0 d 1 run\n", "line 1: grade is '1 run', expected a number"),
        ("q 0 d -1\n", "line 1: grade -1 is negative; pass negative='zero'"),
        ("\n", "no judgements; expected lines of query, 0, candidate, grade"),
    ],
)
def test_bad_lines(tmp_path, content, message):
    with pytest.raises(LimnerError, match=message):
        read_qrels(put(tmp_path, j__qrels=content) / "j.qrels")


def test_negative_grades_on_request(tmp_path):
    file = put(tmp_path, j__qrels="q 0 d -2\n") / "j.qrels"
    assert [tuple(j) for j in read_qrels(file, negative="zero")] == [("q", "d", 0)]
    with pytest.raises(UnknownName, match="'zero'"):
        read_qrels(file, negative="zer0")


def test_ids_with_blanks_are_not_written(tmp_path):
    with pytest.raises(LimnerError, match="id 'my dog' contains a blank"):
        write_qrels(Judgements.from_pairs([("my dog", "x")]), tmp_path / "j.qrels")


def test_as_a_collection(tmp_path):
    file = put(tmp_path, j__qrels="a 0 x 1\na 0 y 0\n") / "j.qrels"
    images, texts = load_qrels(file), load_qrels(file, direction="t2i")
    assert (list(images.images.ids), list(images.texts.ids), len(images.judgements)) == (["a"], ["x", "y"], 1)
    assert (list(texts.images.ids), list(texts.texts.ids)) == (["x", "y"], ["a"])
    assert "every text is empty" in images.warnings[0]
    with pytest.raises(UnknownName, match="direction"):
        load_qrels(file, direction="i2i")
    with pytest.raises(LimnerError, match="qrels have no splits"):
        load_qrels(file, split="test")
