"""The preference study of Chun et al. (2022, appendix D.1), from the shell, the page and Python, against the print."""

from __future__ import annotations

import csv
import json
import random
import re
from collections import Counter

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
from limner.annotate.preference import (
    FAULTS,
    Vote,
    add_study,
    comparisons,
    counted,
    study,
    study_of_rankings,
    study_of_systems,
    votes,
)
from limner.annotate.preference_results import preferences, same_lists
from limner.annotate.store import open_store
from limner.annotate.store.contents import add_collection
from limner.annotate.store.people import add_annotator
from limner.annotate.store.studies import add_answers, give_answer, next_question, studies
from limner.annotate.study_files import read_study_answers, write_study_answers
from limner.cli import app
from limner.core.errors import LimnerError, UnknownName
from limner.core.judgements import Judgements
from limner.core.ranking import Ranking
from limner.papers.published_tables import table
from limner.stats import bradley_terry

WORLD = ("scenes", "-O", "images=120")


def run(*args, status=0):
    done = CliRunner().invoke(app, ["annotate", *map(str, args)])
    assert done.exit_code == status, done.output
    return done.stdout


def judged(sizes):
    """Queries with so many right answers each, among many wrong ones."""
    pairs = [(f"q{n}", f"q{n}-right{k}") for n, size in enumerate(sizes) for k in range(size)]
    return Judgements.from_pairs(pairs, candidates=[c for _, c in pairs] + [f"wrong{k}" for k in range(200)])


def marks(rivals):
    """What each ranking shows: + for right, - for wrong."""
    sides = [side for r in rivals for side in ((r.left, r.left_items), (r.right, r.right_items))]
    return {name: "".join("+" if "right" in item else "-" for item in items) for name, items in sides}


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (8, {"A": "-+++++++", "B": "+-------", "C": "-----+++", "D": "----+---", "E": "--------"}),
        (6, {"A": "-+++++", "B": "+-----", "C": "-----+", "D": "----+-", "E": "------"}),
        (5, {"A": "-++++", "B": "+----", "C": "-----", "D": "----+", "E": "-----"}),
    ],
)
def test_every_two_of_the_five_rankings_are_compared(size, expected):
    study = study_of_rankings(judged([size]), queries=1)
    assert marks(study.rivals) == expected
    assert len(study.rivals) == 10
    assert {frozenset((r.left, r.right)) for r in study.rivals} == {
        frozenset((a, b)) for a in FAULTS for b in FAULTS if a < b
    }


def test_measures_of_the_rankings_are_those_of_the_paper(tmp_path):
    """Section 4.1, eight positives: A 0 / 100 / 66.0, B 100 / 100 / 12.5, C 0 / 0 / 10.3, D 0 / 100 / 2.5."""
    study = study_of_rankings(judged([8]), queries=1)
    with open_store(tmp_path / "s.db") as store:
        add_study(store, study)
        by_measure = {m.measure: m.values for m in preferences(store).measures}
    printed = {"A": (0, 100, 66.0), "B": (100, 100, 12.5), "C": (0, 0, 10.3), "D": (0, 100, 2.5), "E": (0, 0, 0)}
    for name, row in printed.items():
        assert tuple(round(100 * by_measure[m][name], 1) for m in ("R@1", "R@5", "mAP@R")) == row


def test_totals_are_those_of_the_printed_table(tmp_path):
    """40 captions, three of them with five images, eight people: 320 votes a pair, C counted as E for the three."""
    study = study_of_rankings(judged([5] * 3 + [6, 7, 8] * 12 + [8]), queries=40)
    with open_store(tmp_path / "s.db") as store:
        assert add_study(store, study, people=8) == 400
        _vote_all(store, people=8, choose=lambda left, right: "left")
        result = preferences(store, samples=0)
    totals = result.counts + result.counts.T
    by_pair = {(a, b): totals[i, j] for i, a in enumerate(result.names) for j, b in enumerate(result.names) if a < b}
    assert result.votes == 3200
    assert result.counts[4, 4] == 24
    assert {pair: int(n) for pair, n in by_pair.items()} == {
        (a, b): 320 - 24 * ("C" in (a, b)) + 24 * (b == "E" and a != "C") for a, b in by_pair
    }
    printed = table("eccv-d1").values
    assert Counter(by_pair.values()) == Counter((printed + printed.T)[np.triu_indices(5, 1)])
    assert printed[4, 4] == 24
    row_d = (printed + printed.T)[3]
    assert [row_d[k] for k in (0, 1, 2, 4)] == [296] * 4  # so row D of the table is ranking C


def _vote_all(store, *, people, choose, name="preference"):
    rows = [
        (number, add_annotator(store, f"p{person}", existing=True).id, {"choice": choose(r.left, r.right)}, None)
        for person in range(people)
        for number, r in comparisons(store, study=name).items()
    ]
    assert add_answers(store, name, rows) == len(rows)
    assert add_answers(store, name, rows) == 0


def _like_people(seed):
    """Somebody who prefers by the published scores, A 70.85 to E 0.44."""
    draw, strength = random.Random(seed), {"A": 70.85, "B": 13.15, "C": 10.66, "D": 4.89, "E": 0.44}
    return lambda left, right: (
        "left" if draw.random() < strength[left] / (strength[left] + strength[right]) else "right"
    )


def test_scores_are_found_again_and_mapr_agrees_best(tmp_path):
    """Votes drawn from the published scores give them back within their intervals; mAP@R is the measure that agrees."""
    study = study_of_rankings(judged([8] * 40), queries=40)
    with open_store(tmp_path / "s.db") as store:
        add_study(store, study, people=8)
        _vote_all(store, people=8, choose=_like_people(1))
        result = preferences(store, samples=200)
    for name, score in (("A", 70.85), ("B", 13.15), ("C", 10.66), ("D", 4.89), ("E", 0.44)):
        at = result.names.index(name)
        width = result.scores.high[at] - result.scores.low[at]
        assert abs(result.scores.scores[at] - score) < width
    votes = _votes_of(tmp_path)
    by_query = [
        counted([v for v in votes if v.query == q], result.names)[1] for q in dict.fromkeys(v.query for v in votes)
    ]
    fit = bradley_terry(result.counts, result.names, clusters=by_query, samples=200)
    assert np.array_equal([result.scores.low, result.scores.high], [fit.low, fit.high]), "queries are drawn"
    by_measure = {m.measure: m for m in result.measures}
    assert by_measure["mAP@R"].tau == pytest.approx(1)
    assert by_measure["mAP@R"].tau > by_measure["R@5"].tau > by_measure["R@1"].tau
    assert by_measure["mAP@R"].decided == 3200 > by_measure["R@1"].decided
    best = by_measure["mAP@R"]
    assert best.interval.low < best.agreed < best.interval.high
    by_hand = [(v.choice == "left") == (v.left < v.right) for v in _votes_of(tmp_path)]
    assert best.agreed == pytest.approx(np.mean(by_hand))  # A to E is the order of mAP@R


def _votes_of(folder):
    with open_store(folder / "s.db") as store:
        return votes(store)


def test_a_list_that_two_rankings_share_counts_once():
    votes = [Vote("s", "q", "C", "A", "left", "p", 0), Vote("s", "r", "C", "A", "left", "p", 0)]
    names, counts = counted(votes, "ACE", identical={("q", "C"): "E"})
    assert (names, counts.tolist()) == (("A", "C", "E"), [[0, 0, 0], [1, 0, 0], [1, 0, 0]])
    assert same_lists({("A", "q"): ("x",), ("B", "q"): ("x",), ("C", "q"): ("x",), ("A", "r"): ("x",)}) == {
        ("q", "A"): "C",
        ("q", "B"): "C",
    }


# --- systems ----------------------------------------------------------------------------------------------------


def test_systems_are_compared_where_they_differ(tmp_path):
    one = Ranking.from_lists({"q": ["a", "b", "c"], "r": ["a", "b", "c"]}, candidates="abc")
    two = Ranking.from_lists({"q": ["b", "a", "c"], "r": ["a", "b", "c"]}, candidates="abc")
    truth = Judgements.from_pairs([("q", "a"), ("r", "a")], candidates="abc")
    study = study_of_systems({"one": one, "two": two}, judgements=truth, length=2)
    assert [(r.query, r.left_items, r.right_items) for r in study.rivals] == [("q", ("a", "b"), ("b", "a"))]
    with open_store(tmp_path / "s.db") as store:
        add_study(store, study, people=2)
        _vote_all(store, people=2, choose=lambda left, right: "tie")
        result = preferences(store, measures=["R@1"], samples=0)
    assert result.counts.tolist() == [[0, 1], [1, 0]]
    assert (result.measures[0].decided, result.measures[0].values) == (0, {"one": 1.0, "two": 0.0})
    with pytest.raises(LimnerError, match="same lists"):
        study_of_systems({"one": one, "same": one})
    with pytest.raises(LimnerError, match="at least two"):
        study_of_systems({"one": one})


# --- refused ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"queries": 3}, "2 queries of .* have 5 to 8 right answers, 3 are wanted"),
        ({"min_relevant": 4}, "expected 5 or more"),
        ({"min_relevant": 9}, "the smaller number first"),
        ({"queries": 0}, "expected 1 or more"),
    ],
)
def test_studies_that_cannot_be_are_refused(options, words):
    with pytest.raises(LimnerError, match=words):
        study_of_rankings(judged([5, 8, 9, 1]), **{"queries": 1, **options})


@pytest.mark.parametrize("places", [{"length": 9}, {"length": 4}, {"length": 0}])
def test_rankings_of_too_few_answers_are_refused(places):
    with pytest.raises(LimnerError, match="expected 5 places"):
        study([f"p{k}" for k in range(8)], [f"n{k}" for k in range(8)], "q", **places)


def test_a_binary_study_takes_no_ties_and_a_name_is_used_once(tmp_path):
    with open_store(tmp_path / "s.db") as store:
        add_study(store, study_of_rankings(judged([6]), queries=1))
        annotator = add_annotator(store, "ada").id
        question = next_question(store, annotator)
        with pytest.raises(UnknownName, match="unknown choice 'tie'"):
            give_answer(store, annotator, question.id, key="k", answer={"choice": "tie"})
        assert give_answer(store, annotator, question.id, key="k", answer={"choice": "left"})
        for name in ("preference", ""):
            with pytest.raises(LimnerError, match="expected a name"):
                add_study(store, study_of_rankings(judged([6]), queries=1), name=name)
        with pytest.raises(UnknownName):
            preferences(store, study="other")
        assert list(studies(store)) == ["preference"]


GOOD = {"query": "q0", "left": "A", "right": "B", "choice": "left", "annotator": "ada"}


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{**GOOD, "choice": "both"}], "line 2: unknown choice 'both'"),
        ([{**GOOD, "query": "q9"}], "no question with query 'q9', left 'A', right 'B'"),
        ([{**GOOD, "annotator": ""}], "no annotator"),
        ([GOOD, {**GOOD, "choice": "right"}], "answered question 1 differently|answered question [0-9]+ differently"),
        ([GOOD, {**GOOD, "annotator": "bob"}], "would get 2 answers instead of 1"),
        ([GOOD, {**GOOD, "annotator": GOOD["annotator"].upper()}], "are one name"),
        ([{**GOOD, "choice": "tie"}], "unknown choice 'tie'"),
        ([{"query": "q0"}], "no left"),
    ],
)
def test_files_of_votes_that_do_not_fit_add_nothing(tmp_path, rows, words):
    path = tmp_path / "votes.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    with open_store(tmp_path / "s.db") as store:
        add_study(store, study_of_rankings(judged([6]), queries=1))
        with pytest.raises(LimnerError, match=words):
            read_study_answers(store, path, "preference")
        assert votes(store) == []


def test_votes_are_written_and_read_again_in_any_order_of_the_two(tmp_path):
    turned = {"left": "right", "right": "left"}
    for name in ("one.db", "two.db"):
        with open_store(tmp_path / name) as store:
            add_study(store, study_of_rankings(judged([8]), queries=1), people=2, seed=len(name))
            if name == "one.db":
                _vote_all(store, people=2, choose=_like_people(3))
                assert write_study_answers(store, tmp_path / "v.csv", "preference") == 20
                before = preferences(store, samples=0).counts
                rows = list(csv.DictReader((tmp_path / "v.csv").open()))
                for row in rows[::2]:
                    row["left"], row["right"], row["choice"] = row["right"], row["left"], turned[row["choice"]]
                with (tmp_path / "v.csv").open("w", newline="") as file:
                    writer = csv.DictWriter(file, rows[0])
                    writer.writeheader()
                    writer.writerows(rows)
            else:
                assert [read_study_answers(store, tmp_path / "v.csv", "preference") for _ in range(2)] == [20, 0]
                np.testing.assert_array_equal(preferences(store, samples=0).counts, before)


# --- the shell --------------------------------------------------------------------------------------------------


def test_the_whole_study_from_the_shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = ("--judgements", "complete", "--limit", 6, "--people", 4, "--split", "all")
    added = json.loads(run("study", "add", "s.db", "preference", *WORLD, *options, "--json"))
    assert added == {"study": "preference", "questions": 60, "queries": 6, "people": 4, "answers": 240}
    with open_store("s.db") as store:
        _vote_all(store, people=4, choose=_like_people(2))
    assert "240 answers" in run("study", "export", "s.db", "preference", "-o", "v.csv")
    assert "0 answers added" in run("study", "import", "s.db", "preference", "v.csv")
    document = json.loads(run("study", "results", "s.db", "preference", "--json"))
    scores = {name: row["score"] for name, row in document["scores"].items()}
    assert max(scores, key=scores.get) == "A" and min(scores, key=scores.get) == "E"
    assert sum(scores.values()) == pytest.approx(100)
    assert [m["measure"] for m in document["measures"]] == ["R@1", "R@5", "mAP@R"]
    text = run("study", "results", "s.db", "preference", "--measures", "R@1 nDCG@5")
    assert "nDCG@5" in text and "over E" in text


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("study", "add", "s.db", "preference", *WORLD), "right answers, 40 are wanted"),
        (("study", "add", "s.db", "preference", *WORLD, "--judgements", "nosuch"), "unknown judgements"),
        (("study", "add", "s.db", "preference", *WORLD, "--direction", "up"), "unknown direction"),
        (("study", "add", "s.db", "preference", *WORLD, "--model", "colours"), "at least two"),
        (("study", "results", "nosuch.db", "preference"), "no store"),
        (("study", "results", "empty.db", "preference"), "unknown study"),
        (("study", "import", "full.db", "preference", "nosuch.csv"), "no file"),
        (("study", "results", "full.db", "preference", "--measures", "R@x"), "R@x"),
    ],
)
def test_bad_words_at_the_shell_are_told_in_a_line(tmp_path, monkeypatch, args, words):
    monkeypatch.chdir(tmp_path)
    open_store("empty.db").close()
    with open_store("full.db") as store:
        add_study(store, study_of_rankings(judged([6]), queries=1))
    done = CliRunner().invoke(app, ["annotate", *map(str, args)])
    assert words in done.output
    assert done.exit_code in (0, 2, 3) and "Traceback" not in done.output


# --- the page ---------------------------------------------------------------------------------------------------


def test_the_page_shows_all_places_and_what_the_votes_say(tmp_path):
    from starlette.testclient import TestClient

    from limner.web import make_app

    world = limner.load("scenes", images=120)
    site = make_app([world], systems=("colours",), store=tmp_path / "a.db")
    client = TestClient(site, base_url="http://localhost", follow_redirects=False)
    truth = world.extra["complete"].T
    with open_store(tmp_path / "a.db") as store:
        add_collection(store, world, spec="scenes")
        add_study(store, study_of_rankings(truth, queries=2, min_relevant=6), name="ours")
    pages = {}
    for _ in range(20):
        page = client.get("/study").text
        assert 'value="tie"' not in page and "Ranking A" in page
        number = int(re.search(r'name="question" value="(\d+)"', page)[1])
        pictures = [re.findall(r"[?&;]id=([^&]+)&", part) for part in page.split("<section")[1:]]
        pages[number] = pictures
        key = re.search(r'name="key" value="([^"]+)"', page)[1]
        assert client.post("/study", data={"question": number, "key": key, "choice": "left"}).status_code == 303
    assert "Nothing left" in client.get("/study").text
    with open_store(tmp_path / "a.db") as store:
        for number, rivals in comparisons(store, study="ours").items():
            assert pages[number] == [list(rivals.left_items), list(rivals.right_items)]
            assert rivals.left_items != rivals.right_items and 6 <= len(rivals.left_items) <= 8
    page = client.get("/studies").text
    assert "ours" in page and "20 of 20 answers" in page and "mAP@R" in page


def test_the_paper_study_is_made_on_the_page(tmp_path):
    import time

    from starlette.testclient import TestClient

    from limner.web import make_app

    site = make_app([limner.load("scenes", images=300).test], systems=(), store=tmp_path / "a.db")
    client = TestClient(site, base_url="http://localhost", follow_redirects=False)
    for name in ("rankings", "rankings 2"):
        assert client.post("/admin/study", data={"kind": "rankings", "queries": "2"}).status_code == 303
        for _ in range(400):
            store = site.state.site.store
            if name in studies(store) and comparisons(store, study=name):
                break
            client.get("/admin")
            time.sleep(0.05)
        assert len(comparisons(site.state.site.store, study=name)) == 20
    assert client.post("/admin/study", data={"kind": "=1+1"}).status_code == 400


@pytest.mark.parametrize("seed", range(4))
def test_bradley_terry_scores_are_those_of_highest_likelihood(seed):
    """Each option wins as often as its score expects, and evalica finds the same."""
    rng = np.random.default_rng(seed)
    strength, n = np.exp(rng.standard_normal(5)), 5
    wins = rng.poisson(12 * strength[:, None] / (strength[:, None] + strength))
    np.fill_diagonal(wins, 0)
    scores = bradley_terry(wins, list("abcde"), samples=0).scores
    expected = ((wins + wins.T) * scores[:, None] / (scores[:, None] + scores)).sum(axis=1)
    assert expected == pytest.approx(wins.sum(axis=1), abs=1e-6)
    evalica, (rows, columns) = pytest.importorskip("evalica"), np.nonzero(wins)
    options = {"weights": wins[rows, columns].astype(float).tolist(), "tolerance": 1e-10, "limit": 10**5}
    theirs = evalica.bradley_terry(rows.tolist(), columns.tolist(), [evalica.Winner.X] * len(rows), **options).scores
    assert scores / 100 == pytest.approx([theirs[k] / sum(theirs) for k in range(n)], abs=1e-7)


def test_intervals_of_scores_cover_if_people_agree_about_a_query():
    """40 queries with five votes each; with independent votes, the intervals cover about 79%."""
    rng = np.random.default_rng(0)
    share = (1 / (1 + np.exp(-0.6 - rng.normal(0, 2, 400_000)))).mean()
    hits = []
    for _ in range(100):
        wins = rng.binomial(5, 1 / (1 + np.exp(-0.6 - rng.normal(0, 2, 40))))
        clusters = np.array([[[0, won], [5 - won, 0]] for won in wins])
        fit = bradley_terry(clusters.sum(axis=0), "ab", clusters=clusters, samples=200)
        hits.append(fit.low[0] <= 100 * share <= fit.high[0])
    assert np.mean(hits) >= 0.9


def test_whole_queries_are_drawn():
    widths = []
    for people in (1, 8):
        votes = [(f"q{n}", "a", "b", "left" if n % 3 else "right") for n in range(30) for _ in range(people)]
        names, counts = counted([Vote("s", *vote, "someone", 0) for vote in votes], "ab")
        of_each = [counted([Vote("s", *v, "someone", 0) for v in votes if v[0] == f"q{n}"], "ab")[1] for n in range(30)]
        fit = bradley_terry(counts, names, clusters=of_each)
        widths.append(fit.high[0] - fit.low[0])
    assert widths[0] == pytest.approx(widths[1]), "more people who agree say nothing of further queries"
    assert np.isnan(bradley_terry(of_each[0] + of_each[1], names, clusters=[of_each[0] + of_each[1]]).low).all()
    with pytest.raises(LimnerError, match="add up"):
        bradley_terry(counts, names, clusters=of_each[1:])
    with pytest.raises(LimnerError, match="one table of"):
        bradley_terry(counts, names, clusters=counts)
