"""Slices: the test against slow loops, control of false discoveries, groups of queries, shell and page."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import limner
from limner.core.errors import LimnerError, UnknownName
from limner.core.ids import Ids
from limner.evaluation import slices
from limner.evaluation.query_groups import query_groups
from limner.evaluation.reports.page import render
from limner.evaluation.results import Result
from limner.stats import false_discovery, group_tests
from limner.stats.groups import smallest_needed


@pytest.fixture(scope="module")
def world():
    collection = limner.load("scenes", images=80)
    images = collection.images.with_fields(
        camera=["old" if n % 4 == 0 else "new" for n in range(len(collection.images))],
        year=list(range(1900, 1900 + len(collection.images))),
    )
    return replace(collection, images=images)


@pytest.fixture(scope="module")
def report(world):
    """A system that misses three quarters of what the old camera took, captions of one image alike."""
    rng = np.random.default_rng(0)
    truth = np.array([[(world.judgements.grade(i, t) or 0) > 0 for t in world.texts.ids] for i in world.images.ids])
    weight = np.where(np.array(world.images.field("camera")) == "old", 0.4, 4.0)[:, None]
    scores = limner.Scores.from_matrix(weight * truth + rng.normal(size=truth.shape), world.images.ids, world.texts.ids)
    return limner.evaluate(scores, world, measures="R@1 R@5", name="mine")


def test_the_statistic_is_that_of_a_slow_loop():
    rng = np.random.default_rng(3)
    clusters = rng.integers(12, size=40)
    values, members = rng.random(40), rng.random((3, 40)) < 0.4
    for row, test in zip(members, group_tests(values, members, clusters=clusters, samples=10), strict=True):
        one, outside = values[row].mean(), values[~row].mean()
        spread = 0.0
        for cluster in set(clusters):
            in_cluster = clusters == cluster
            influence = sum((v - one) / row.sum() for v in values[in_cluster & row])
            influence -= sum((v - outside) / (~row).sum() for v in values[in_cluster & ~row])
            spread += influence**2
        assert test.statistic == pytest.approx((one - outside) / np.sqrt(spread))
        assert test.difference == pytest.approx(one - outside)


def test_the_p_value_is_that_of_all_permutations():
    from itertools import permutations

    values, members = np.array([0.0, 0.1, 0.9, 1.0, 0.8, 0.3]), np.array([[True, True, False, False, False, False]])

    def extreme(row):
        one, outside = values[row], values[~row]
        se = np.sqrt(((one - one.mean()) ** 2).sum() / 4 + ((outside - outside.mean()) ** 2).sum() / 16)
        return abs(one.mean() - outside.mean()) / se

    observed = extreme(members[0])
    every = [extreme(members[0][list(order)]) for order in permutations(range(6))]
    exact = np.mean([each >= observed - 1e-9 for each in every])
    [test] = group_tests(values, members, samples=20_000)
    assert test.p_value == pytest.approx(exact, abs=0.03)


def test_captions_of_one_image_are_one_piece_of_evidence():
    """Twenty images, all captions alike: as 200 independent captions the difference would be sure."""
    rng, lost = np.random.default_rng(0), {True: 0, False: 0}
    for draw in range(60):
        hits = np.repeat(rng.random(20) < 0.5, 10).astype(float)
        members = np.repeat(rng.permutation(20) < 8, 10)[None]
        for together in (True, False):
            [test] = group_tests(hits, members, clusters=np.repeat(np.arange(20), 10) if together else None,
                                 samples=200, seed=draw)  # fmt: skip
            lost[together] += test.p_value <= 0.05
    assert lost[True] <= 8 < 20 < lost[False]


def test_false_discovery_is_the_definition():
    p = np.array([0.2, 0.001, 0.03, 0.012, 0.7])
    order = np.sort(p)
    for method, factor in (("bh", 1.0), ("by", sum(1 / n for n in range(1, 6)))):
        slow = [min(1.0, *(factor * 5 * order[j] / (j + 1) for j in range(list(order).index(x), 5))) for x in p]
        assert false_discovery(p, method=method) == pytest.approx(slow)
        assert smallest_needed(5, 0.05, method=method) == pytest.approx(0.01 / factor)
    with pytest.raises(LimnerError, match="between 0 and 1"):
        false_discovery([1.2])


def test_a_planted_group_is_found_and_the_others_are_not(report, world):
    sliced = slices(report, world, by=("camera", "length", "objects"), min_size=15)
    weak = {(each.by, each.name, each.direction) for each in sliced.marked if each.verdict == "weaker"}
    assert {("camera", "old", "t2i"), ("camera", "old", "i2t")} <= weak
    assert {each.by for each in sliced.marked} == {"camera"}
    first = sliced.slices[0]
    result = report.find("R@1", direction=first.direction, view=first.view)
    old = [world.images.field("camera")[world.images.ids.index(_image(world, q))] == "old" for q in result.queries]
    assert first.value == pytest.approx(result.values[old].mean())
    assert first.rest == pytest.approx(result.values[~np.array(old)].mean())
    assert -1 <= first.difference_interval.low <= first.difference < first.difference_interval.high < 0
    assert first.interval.low <= first.value <= first.interval.high


def _image(world, query):
    if query in world.images.ids:
        return query
    pairs = world.judgements.T
    return next(image for text, image, grade in pairs if text == query and grade > 0)


def test_the_difference_of_two_systems(report, world):
    changed = tuple(
        r if r.direction != "t2i" else replace(r, values=np.where(_short(world, r), 0.0, r.values))
        for r in report.results
    )
    worse = replace(report, results=changed, system="worse")
    sliced = slices(report, world, by="length", against=worse, min_size=20)
    assert sliced.against == "worse" and {s.direction for s in sliced.slices} == {"t2i", "i2t"}
    best = max((s for s in sliced.slices if s.direction == "t2i"), key=lambda s: s.difference)
    assert best.name.startswith("up to") and best.verdict == "stronger"
    a, b = (x.find("R@1", direction="t2i", view=best.view) for x in (report, worse))
    short = _short(world, a)
    assert best.value == pytest.approx((a.values - b.values)[short].mean())


def _short(world, result: Result):
    texts = dict(zip(world.texts.ids, world.texts.values, strict=True))
    counts = np.array([len(texts[query].replace(".", " ").split()) for query in result.queries])
    return counts <= np.quantile(counts, 1 / 3)


def test_groups_are_by_words_objects_fields_and_numbers(world):
    ids = Ids(world.texts.ids)
    groups = {g.name: g for g in query_groups(world, "t2i", ids, ["words", "objects", "camera", "year"], min_size=10)}
    assert {"camera: old", "camera: new"} <= set(groups)
    assert sum(name.startswith("year: ") for name in groups) == 3
    word = next(g for g in groups.values() if g.by == "words")
    assert all((word.value in text.lower()) or not inside
               for text, inside in zip(world.texts.values, word.members, strict=True))  # fmt: skip
    group = next(g for g in groups.values() if g.by == "objects")
    objects = dict(zip(world.images.ids, world.images.field("objects"), strict=True))
    for text, inside in zip(ids, group.members, strict=True):
        assert inside == any(o["name"] == group.value for o in objects[_image(world, text)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "colour of the sky"}, "expected one of|unknown"),
        ({"by": ("length", "length")}, "each only once"),
        ({"control": "none"}, "control of false discoveries"),
        ({"min_size": 1}, "2 or more"),
        ({"min_size": 10_000}, "lower min_size"),
        ({"measure": "MedR"}, "no result|mean"),
        ({"view": "nobody"}, "no result"),
    ],
)
def test_bad_requests_are_refused(report, world, options, message):
    with pytest.raises((LimnerError, UnknownName), match=message):
        slices(report, world, **options)


def test_tables_files_and_page(report, world, tmp_path):
    sliced = slices(report, world, by="camera", min_size=15)
    text = str(sliced)
    assert "camera: old" in text and "weaker" in text and "Benjamini & Yekutieli" in text
    for ending in ("json", "csv", "md", "tex", "txt"):
        sliced.save(tmp_path / f"x.{ending}")
    document = json.loads((tmp_path / "x.json").read_text())
    assert document["slices"][0]["slice"] == sliced.slices[0].name
    assert len((tmp_path / "x.csv").read_text().splitlines()) == len(sliced.slices) + 1
    page = render(report, collection=world, sliced=sliced, examples=0)
    assert 'id="slices"' in page and "weaker than the rest" in page
    assert 'id="slices"' not in render(report, examples=0)
    assert sliced.to_arrow().num_rows == len(sliced.slices)


def test_from_the_shell(report, world, tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from limner.cli import app

    monkeypatch.chdir(tmp_path)
    report.save("mine.json")
    page = ["report", "mine.json", "--collection", "scenes", "-O", "images=80", "--split", "all"]
    words = ["explain", "slices", "mine.json", "scenes", "-O", "images=80", "--split", "all", "--by", "objects"]
    done = CliRunner().invoke(app, [*words, "-o", "slices.csv"])
    assert done.exit_code == 0 and "objects: " in done.output
    assert (tmp_path / "slices.csv").exists()
    done = CliRunner().invoke(app, [*page, "--slices", "length", "-o", "mine.html"])
    assert done.exit_code == 0 and 'id="slices"' in (tmp_path / "mine.html").read_text(encoding="utf-8")
    done = CliRunner().invoke(app, [*words, "--by", "nothing"])
    assert done.exit_code == 3 and "nothing" in done.stderr
