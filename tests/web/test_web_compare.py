"""Side by side: intervals, p-values and the best in a row are the library's; who wins where is counted slowly."""

from __future__ import annotations

import html
import re

import numpy as np
import pytest
from starlette.testclient import TestClient

import limner
import websites
from limner.web import make_app
from websites import patient, words


@pytest.fixture(scope="module")
def matrices():
    """Scores of three systems: one that knows much, one that knows little, and the same one again."""
    test_part = websites.world(100).test
    truth = np.array(
        [[(test_part.judgements.grade(i, t) or 0) > 0 for t in test_part.texts.ids] for i in test_part.images.ids]
    )
    noise = np.random.default_rng(0).normal(size=(2, *truth.shape))
    good, bad = (weight * truth + some for weight, some in zip((3.0, 0.7), noise, strict=True))
    return {"good": good, "bad": bad, "again": good}


@pytest.fixture(scope="module")
def visitor(tmp_path_factory, matrices):
    folder = tmp_path_factory.mktemp("compare")
    for name, matrix in matrices.items():
        np.save(folder / f"{name}.npy", matrix)
    files = {name: folder / f"{name}.npy" for name in matrices}
    app = make_app([websites.world(100)], systems={}, matrices=files, store=folder / "answers.db")
    return TestClient(app, base_url="http://localhost")


def test_intervals_p_values_and_the_best_are_those_of_the_library(visitor, matrices):
    test_part = websites.world(100).test
    reports = [
        limner.evaluate(
            limner.Scores.from_matrix(matrices[name], test_part.images.ids, test_part.texts.ids),
            test_part,
            measures="R@1 R@5 R@10 mAP@R",
            name=name,
        )
        for name in ("good", "bad")
    ]
    comparison = limner.compare(reports, samples=10_000)
    page = patient(visitor, "/compare?s=good&s=bad").text
    plain = html.unescape(words(patient(visitor, "/compare?s=good&s=bad")))
    good, bad = (report.results[0] for report in reports)
    show = good.measure.show
    line = comparison.line("R@1", direction="i2t", view=good.view)
    difference = line.differences[0]
    assert f"<strong>{show(good.value)}</strong>" in page and f"<strong>{show(bad.value)}</strong>" not in page
    assert f"{show(good.interval.low)} to {show(good.interval.high)}" in plain
    p = difference.p_adjusted
    p_text = "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
    assert f"−{show(good.value - bad.value)}, {p_text}" in plain
    assert "(Holm)" in plain
    assert "p = 1.000" in words(patient(visitor, "/compare?s=good&s=again"))


@pytest.mark.parametrize("direction", ["t2i", "i2t"])
def test_wins_are_the_queries_that_a_slow_count_finds(visitor, matrices, direction):
    test_part = websites.world(100).test
    pairs = test_part.judged(test_part.judgements.name, direction)
    ranks = {}
    for name in ("good", "bad"):
        matrix = matrices[name].T if direction == "t2i" else matrices[name]
        queries, candidates = (test_part.texts.ids, test_part.images.ids)[:: 1 if direction == "t2i" else -1]
        for query, row in zip(queries, matrix.astype(np.float32), strict=True):
            best = max(row[n] for n, key in enumerate(candidates) if (pairs.grade(query, key) or 0) > 0)
            ranks[name, query] = 1 + int((row > best).sum())
    won = [q for q in queries if ranks["good", q] == 1 < ranks["bad", q]]
    page = patient(visitor, f"/wins?a=good&b=bad&d={direction}")
    assert f"{len(won)} of {len(queries)} queries" in words(page).replace(" ", " ")
    distances = [int(n.replace(",", "")) for n in re.findall(r"([\d,]+) places apart", page.text)]
    expected = sorted((ranks["bad", q] - ranks["good", q] for q in won), reverse=True)
    assert distances == expected[:24]
    better = [q for q in queries if ranks["bad", q] < ranks["good", q]]
    reversed_page = patient(visitor, f"/wins?a=bad&b=good&d={direction}&kind=better")
    assert f"{len(better)} of {len(queries)} queries" in words(reversed_page)


def test_wins_of_nonsense_are_refused(visitor):
    for bad in ("a=nosuch", "kind=x", "order=x", "d=x"):
        assert visitor.get(f"/wins?{bad}").status_code == 404


def test_wins_of_a_group_of_queries_and_of_a_class(visitor):
    test_part = websites.world(100).test
    every = re.findall(r"([\d,]+) places apart", patient(visitor, "/wins?a=good&b=bad&kind=better").text)
    counted = {}
    for place in sorted(set(test_part.images.field("background"))):
        page = patient(visitor, f"/wins?a=good&b=bad&kind=better&by=background&value={place}")
        if page.status_code == 200:
            counted[place] = int(re.search(r"<strong>([\d,]+)</strong> of", page.text)[1])
            assert f"background: {place}" in words(page)
    total = int(re.search(r"<strong>([\d,]+)</strong> of", patient(visitor, "/wins?a=good&b=bad&kind=better").text)[1])
    assert sum(counted.values()) == total and len(every) <= total
    closest = re.findall(r"([\d,]+) places apart", patient(visitor, "/wins?a=good&b=bad&kind=better&order=close").text)
    assert [int(n) for n in closest] == sorted(int(n) for n in closest)
    part = patient(visitor, "/wins?a=good&b=bad&kind=better&class=object")
    assert part.status_code == 200 and int(re.search(r"<strong>([\d,]+)</strong> of", part.text)[1]) < total
    assert visitor.get("/wins?a=good&b=bad&by=nothing&value=x").status_code == 404
    assert visitor.get("/wins?a=good&b=bad&by=background&value=nowhere").status_code == 404


def test_slices_are_those_of_the_library(visitor, matrices):
    from limner.evaluation import slices

    test_part = websites.world(100).test
    reports = {
        name: limner.evaluate(
            limner.Scores.from_matrix(matrices[name], test_part.images.ids, test_part.texts.ids),
            test_part,
            measures="R@1",
            name=name,
        )
        for name in ("good", "bad")
    }
    expected = slices(reports["good"], test_part, by="length", against=reports["bad"], measure="R@1", min_size=5)
    page = patient(visitor, "/slices?a=good&b=bad&by=length&n=5")
    plain = html.unescape(words(page))
    for each in expected.slices:
        assert each.name in plain and each.measure.show_change(each.difference) in plain
    assert "Benjamini & Yekutieli" in plain and f"of {len(expected.slices)} slices" in plain
    assert "by=length" in page.text and "/wins?" in page.text
    assert visitor.get("/slices?m=nothing").status_code == 404
    assert visitor.get("/slices?by=nothing").status_code == 404


def test_the_chart_says_its_numbers(visitor):
    page = patient(visitor, "/compare?s=good&s=bad").text
    assert page.count('class="chart"') >= 2 and page.count('class="dot s1"') >= 6
    assert re.search(r"<desc[^>]*>R@1: good [\d.]+% \([\d.]+ to [\d.]+\), bad", page)


def test_items_are_called_held_out_only_if_there_are_others(tmp_path, visitor):
    collection, test_part = websites.world(100), websites.world(100).test
    counted = f"{len(test_part.images)} images and {len(test_part.texts)} texts"
    assert f"{counted}, held out of {len(collection.images)} images" in words(patient(visitor, "/compare"))
    alone = limner.Collection("alone", test_part.images, test_part.texts, test_part.judgements)
    np.save(tmp_path / "mine.npy", np.random.default_rng(0).normal(size=(len(test_part.images), len(test_part.texts))))
    app = make_app([alone], systems={}, matrices={"mine": tmp_path / "mine.npy"}, store=tmp_path / "answers.db")
    page = words(patient(TestClient(app, base_url="http://localhost"), "/compare"))
    assert counted in page and "held out" not in page
