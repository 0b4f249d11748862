"""Rankings and TREC run files."""

import numpy as np
import pytest

from limner import LimnerError, Ranking, Scores
from limner.datasets.runs import read_run


def test_knows_when_it_is_truncated():
    scores = Scores.from_matrix(np.random.default_rng(0).standard_normal((3, 6)), "abc", range(6))
    assert scores.top(5).truncated and not scores.ranking().truncated
    assert Ranking.from_lists({"q": ["a", "b"]}).truncated  # the pool is unknown
    assert not Ranking.from_lists({"q": ["a", "b"]}, candidates="ab").truncated


@pytest.mark.parametrize("name", ["run.txt", "run.json"])
def test_round_trip(tmp_path, name):
    scores = Scores.from_matrix(np.random.default_rng(0).standard_normal((4, 9)), "abcd", range(9))
    ranking = scores.top(5)
    reloaded = read_run(ranking.save(tmp_path / name), candidates=range(9))
    assert all(reloaded[q] == ranking[q] for q in "abcd") and reloaded.n_candidates == 9


def test_a_run_is_ordered_by_score_and_ties_keep_the_files_order(tmp_path):
    (tmp_path / "r").write_text("q2 Q0 x 1 1.0 t\nq1 Q0 a 9 0.5 t\nq1 Q0 b 1 0.5 t\nq2 Q0 y 2 3e0 t\nq1 Q0 c 2 0.7 t\n")
    run = read_run(tmp_path / "r")
    assert run["q1"] == ["c", "a", "b"] and run["q2"] == ["y", "x"] and run.lengths.tolist() == [2, 3]


@pytest.mark.parametrize("between", [" ", "\t", "   ", " \t"])
def test_any_white_space(tmp_path, between):
    (tmp_path / "r").write_text(
        "".join(between.join(["q", "Q0", c, "1", s, "t"]) + "\n" for c, s in (("a", "1"), ("b", "2")))
    )
    assert read_run(tmp_path / "r")["q"] == ["b", "a"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q Q0 a 1 2.0 t\nq Q0 b 2 t\n", "line 2: 5 columns; expected 6"),
        ("q Q0 a 1 high t\n", "line 1: the score is 'high'"),
        ("q Q0 a 1 2 t\nq Q0 b 1 nan t\n", "line 2: the score is NaN"),
        ("q Q0 a 1 2 t\nq Q0 a 2 1 t\n", "query 'q' ranks candidate 'a' twice"),
    ],
)
def test_bad_runs_name_the_line(tmp_path, text, message):
    (tmp_path / "r").write_text(text)
    with pytest.raises(LimnerError, match=message):
        read_run(tmp_path / "r")


def test_bad_bytes_name_the_line(tmp_path):
    (tmp_path / "r").write_bytes(b"q Q0 a 1 2 t\nq Q0 \xff 1 1 t\n")
    with pytest.raises(LimnerError, match="line 2: not UTF-8"):
        read_run(tmp_path / "r")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ranking.from_lists({"q": ["a", "b", "a"]}), r"ranks candidate 'a' twice \(again at rank 3\)"),
        (lambda: Ranking("q", "ab", np.array([[0, 2]])), "outside 0 to 1"),
        (lambda: Ranking("q", "ab", np.array([[0.0, 1.0]])), "expected whole numbers"),
        (lambda: Ranking("q", "ab", np.array([[0, 1]]), np.array([[1.0, 2.0]])), "rise along the list"),
        (lambda: Ranking("q", "ab", np.array([[0, 1]]), np.array([[1.0, np.nan]])), "is NaN"),
        (lambda: Ranking("q", "ab", np.array([[0, 1]]), np.array([[1.0]])), "same shape"),
        (lambda: Ranking("q", "ab", np.array([[0, 1]]), None, 1), "fewer than the 2 candidates"),
        (lambda: Ranking.from_lists({"q": ["z"]}, candidates="ab"), "unknown"),
        (lambda: read_run("nowhere.txt"), "no ranking file"),
    ],
)
def test_refused(make, message):
    with pytest.raises(LimnerError, match=message):
        make()


def test_top_keeps_the_pool():
    ranking = Scores.from_matrix(np.arange(6.0)[None], "q", range(6)).ranking()
    assert ranking.top(2)["q"] == ["5", "4"] and ranking.top(2).truncated
