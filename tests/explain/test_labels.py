"""Failure classes: by hand, against the true differences of the built-in world, and from people's csv; rules."""

from __future__ import annotations

import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import limner
from limner.core.errors import LimnerError, UnknownName
from limner.explain.concepts import Concepts, ImageObject
from limner.explain.failure_classes import (
    CLASSES,
    ClaimReader,
    label,
    label_all,
    rates,
    read_labels,
    rules,
    rules_table,
    setting_words,
    together,
)
from limner.explain.failures import Failure
from limner.language.wordnet import WordNet

READER = ClaimReader(WordNet.load(), {"beach": frozenset({"beach"})})


def named_object(name: str, **attributes: str) -> ImageObject:
    return ImageObject(f"{name}.n.01", attributes=frozenset(attributes.items()))


def classes(text: str, truth: Concepts, returned: Concepts, **more) -> set[str]:
    return set(label(Failure("q", text, "g", "r", **more), truth, returned, READER))


TWO_RED_DOGS = Concepts(
    (named_object("dog", colour="red", size="small"), named_object("dog", colour="red", size="small")), setting="beach"
)


@pytest.mark.parametrize(
    ("text", "returned", "expected"),
    [
        ("two red dogs", TWO_RED_DOGS, set()),
        ("two red dogs", Concepts((named_object("cat", colour="red"),)), {"object"}),
        ("two red dogs", Concepts((named_object("dog", colour="blue"),) * 2), {"colour"}),
        ("two red dogs", Concepts((named_object("dog", colour="red"),)), {"number"}),
        ("a small red dog", Concepts((named_object("dog", colour="blue", size="large"),)), {"colour", "size"}),
        ("a small red animal", Concepts((named_object("cat", colour="red", size="large"),)), {"size"}),
        ("some dogs at the beach", Concepts(TWO_RED_DOGS.things, setting="street"), {"detail"}),
        ("two red dogs", Concepts((named_object("dog"),) * 2), set()),  # a colour that is not known is no failure
        ("", TWO_RED_DOGS, set()),
        ("zwei rote Hunde", Concepts(), set()),
    ],
)
def test_classes_by_hand(text, returned, expected):
    assert classes(text, TWO_RED_DOGS, returned) == expected


def test_a_claim_that_the_truth_breaks_too_says_nothing():
    assert classes("a dog and a zeppelin", TWO_RED_DOGS, Concepts((named_object("dog"),))) == set()


def test_actions_and_relations():
    on = Concepts((named_object("cat"), named_object("table")), frozenset({("cat.n.01", "on", "table.n.01")}))
    off = Concepts(on.things)
    assert classes("a cat on top of a table", on, off) == {"detail"}
    assert classes("a cat on top of a table", on, on) == set()
    flying = Concepts((named_object("bird", place="air"),))
    assert classes("a flying bird", flying, Concepts((named_object("bird", place="ground"),))) == {"action"}
    assert classes("a bird in the air", flying, Concepts((named_object("bird", place="ground"),))) == {"detail"}


def test_an_image_that_asked_is_held_against_the_caption_it_got():
    blue = Concepts((named_object("dog", colour="blue"),) * 2)
    assert classes("two red dogs", blue, TWO_RED_DOGS, by_text=False) == {"colour"}


def test_fuller_judgements_decide_first():
    assert classes("two red dogs", TWO_RED_DOGS, Concepts(), alternative=True) == {"alternative"}


def test_words_for_backgrounds_are_learned():
    world = limner.load("scenes", images=300)
    settings = setting_words(world, WordNet.load())
    assert settings["beach"] == {"beach"} and settings["snow"] == {"snow"} and settings["countryside"] == {"meadow"}
    assert settings["room"] == {"room"}  # no object is a room, though the car of a lift is one
    assert "boat" not in settings and "dog" not in settings
    assert (
        setting_words(
            limner.Collection("x", limner.Items(["a"], [None]), world.texts, world.judgements), WordNet.load()
        )
        == {}
    )


def test_precision_and_recall_on_the_built_in_world(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(Path(__file__).parents[2] / "proofs"), *sys.path])
    from failure_classes import compared

    pairs = compared(250, 4)
    for name in ("object", "colour", "number", "size", "detail"):
        guessed = [g for g in pairs if name in g[0]]
        true = [g for g in pairs if name in g[1]]
        hits = sum(name in t for _, t in guessed)
        assert hits / len(guessed) > 0.85, name
        assert hits / len(true) > 0.85, name


# --- people's labels --------------------------------------------------------------------------------------------


def test_labels_of_people(tmp_path):
    file = tmp_path / "labels.csv"
    file.write_text("query,label\nq1,color; details\nq1,number\nq2,\nq3,none\n")
    assert read_labels(file) == {
        "q1": {"colour", "detail", "number"}, "q2": {"alternative"}, "q3": {"alternative"},
    }  # fmt: skip
    file.write_text("query,label\nq1,colourr\n")
    with pytest.raises(UnknownName, match="line 2"):
        read_labels(file)
    file.write_text("question,label\n")
    with pytest.raises(LimnerError, match="expected the columns query and label"):
        read_labels(file)
    file.write_text("query,label\n,colour\n")
    with pytest.raises(LimnerError, match="line 2: no query"):
        read_labels(file)
    with pytest.raises(LimnerError, match="no file"):
        read_labels(tmp_path / "none.csv")


# --- rules ------------------------------------------------------------------------------------------------------


def test_rules_against_counting():
    dice = np.random.default_rng(2)
    names = CLASSES[:-1]
    sets = [frozenset(n for n in names if dice.random() < 0.3) for _ in range(200)]
    by_pair = {(r.a, r.b): r for r in rules(sets, support=0, confidence=0)}
    for a, b in combinations(names, 2):
        joint = [s for s in sets if {a, b} <= s]
        rule = by_pair[a, b]
        assert rule.support == pytest.approx(len(joint) / 200)
        assert rule.confidence == pytest.approx(len(joint) / len([s for s in sets if a in s]))
        assert rule.lift == pytest.approx(by_pair[b, a].lift)
        assert together(sets)[min(a, b), max(a, b)] == len(joint)
    assert all(r.confidence >= 0.3 for r in rules(sets, confidence=0.3))


def test_rates_and_table():
    labels = {"a": frozenset({"colour"}), "b": frozenset(), "c": frozenset({"alternative"})}
    assert rates(labels)["none found"] == (1, pytest.approx(1 / 3))
    assert rates({})["colour"] == (0, 0)
    assert rules([]) == []
    assert "colour" in rules_table(labels, [])


def test_label_all_is_label_of_each():
    failures = [Failure("q", "a dog", "g", "r"), Failure("p", "a cat", "g", "r")]
    concepts = {"g": Concepts((named_object("dog"), named_object("cat"))), "r": Concepts((named_object("dog"),))}
    assert label_all(failures, concepts, READER) == {"q": frozenset(), "p": frozenset({"object"})}
