"""The thirty systems of the ranking paper: names, kernels, and a few of them trained on the built-in world."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
from limner.cli import app
from limner.core.errors import LimnerError
from limner.papers import nearest_neighbours as nearest
from limner.papers.lexical_kernel import LexicalKernel
from limner.papers.tagrank import TagRank
from limner.papers.thirty_systems import SYSTEMS, system
from limner.papers.word_similarity import Alignment, Distributional, Lin, Maximum, Mean
from limner.systems.classic import training
from limner.systems.classic.kernels import Pyramid
from limner.systems.classic.strings import OverlapF1, StringKernel

CORPUS = ("a dog runs", "a cat sleeps on the mat")


def test_there_are_thirty_and_each_is_different():
    assert len(SYSTEMS) == 30
    assert Counter(s.method for s in SYSTEMS.values()) == {"kcca": 27, "nearest": 3}
    assert len({dataclasses.replace(s, name="") for s in SYSTEMS.values()}) == 30
    assert all(s.name == name for name, s in SYSTEMS.items())


def test_the_names_of_the_papers_text():
    assert system("Tri5Sem") is SYSTEMS["Tri5-A-BNC+ic-idf"]
    assert system("NN").text.kernel() == OverlapF1("idf")
    with pytest.raises(LimnerError, match="did you mean 'Tri5Sem'"):
        system("Tri5Sm")


def test_kernels_are_those_of_the_paper():
    assert SYSTEMS["BoW1"].text.kernel() == StringKernel(length=1, captions=1)
    assert SYSTEMS["BoW5-rootidf"].text.kernel() == StringKernel(length=1, weights="root idf")
    assert SYSTEMS["Tri5"].text.kernel() == StringKernel()
    assert SYSTEMS["TagRank"].text.kernel() == TagRank()
    assert SYSTEMS["Tri5-Lin"].text.kernel() == LexicalKernel(Lin())
    assert SYSTEMS["Tri5-A"].text.kernel() == LexicalKernel(Alignment())
    assert SYSTEMS["Tri5-ic-idf"].text.kernel() == LexicalKernel(Distributional(), StringKernel(weights="root idf"))
    distributional = Mean((Distributional(CORPUS), Distributional()))
    full = LexicalKernel(Maximum((distributional, Alignment())), StringKernel(weights="root idf"))
    assert system("Tri5Sem").text.kernel(corpus=CORPUS) == full


def test_a_system_with_an_outside_corpus_asks_for_one():
    with pytest.raises(LimnerError, match="corpus="):
        SYSTEMS["Tri5-BNC"].text.kernel()


@pytest.fixture(scope="module")
def world():
    return limner.load("scenes")


@pytest.mark.parametrize("name", ["NN", "BoW5", "Tri5Sem", "Tri5/histogram"])
def test_systems_train_and_beat_chance(name, world):
    some, dev, test = (
        part.restrict(list(part.images.ids)[:count])
        for part, count in ((world.train, 120), (world.dev, 40), (world.test, 40))
    )
    options = {"side": 48, "points": 100, "workers": 1}
    if system(name).method == "kcca":
        options |= {"kappas": (1.0,), "dimensions": (10, 20, 40)}
    model = system(name).train(some, dev=dev, corpus=tuple(some.texts.values), **options)
    report = limner.evaluate(model.scores(test), test, measures="R@10")
    values = {r.direction: r.value for r in report.results}
    assert model.name == system(name).name
    assert values["t2i"] > 0.3 and values["i2t"] > 0.3 and np.isfinite(list(values.values())).all()


def test_the_public_way_has_the_papers_settings(world, monkeypatch):
    calls = {}
    monkeypatch.setattr(training, "train", lambda collection, **options: calls.setdefault("kcca", options))
    monkeypatch.setattr(nearest, "train", lambda collection, **options: calls.setdefault("nearest", options))
    limner.train(world, "ranking-paper", variant="BoW5", rank=50)
    limner.train(world, "ranking-paper", variant="NN")
    assert calls["kcca"]["points"] == calls["nearest"]["points"] == 1000
    assert calls["kcca"]["kappas"] == (0.1, 0.5, 1.0, 5.0) and calls["kcca"]["text_kappas"] is None
    assert calls["kcca"]["powers"] == (2.0, 3.0) and set(calls["kcca"]["diagonals"]) >= {1.0, 15.0}
    assert calls["kcca"]["fuse"] is True and calls["kcca"]["rank"] == 50
    assert calls["kcca"]["texts"] == SYSTEMS["BoW5"].text.kernel() and calls["kcca"]["images"] == "pyramid"


def test_a_system_is_trained_by_its_name():
    some = limner.load("scenes", images=100)
    features = Pyramid(side=48, points=40).fit(some.train.images).features(some.images)
    model = limner.train(some, "ranking-paper", variant="BoW1", features=features, rank=30)
    assert model.name == "BoW1" and len(model.settings["i2t"]) == 15
    assert max(s.n for settings in model.settings.values() for s in settings) <= 30


def test_names_and_options_at_the_shell(tmp_path):
    shell = ["limner", "train", "ranking-paper", "scenes", "-O", "images=20", "-o", str(tmp_path / "m")]
    for words, message in (
        (["variant=Tri5Sm"], "did you mean 'Tri5Sem'"),
        (["variant=Tri5Sem"], "give corpus="),
        (["variant=NN", "rank=5"], "nearest neighbours do not decompose kernels"),
    ):
        options = [part for word in words for part in ("-O", word)]
        done = CliRunner().invoke(app, [*shell[1:], *options])
        assert done.exit_code in (2, 3) and message in " ".join(done.stderr.split()), done.stderr
