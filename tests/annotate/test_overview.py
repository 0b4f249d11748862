"""What a lead looks at: disagreements, throughput, the guideline and its versions."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

import limner
from limner.annotate.guideline import GuidelineExample, guidelines, known_version, newest, revise
from limner.annotate.overview import DAY, disagreements, throughput
from limner.annotate.quality import annotator_table
from limner.annotate.store import open_store
from limner.annotate.store.answers import Answer

NOW = 1_700_000_000_000


def answer(person, pair, grade, *, role="real", ago=0, took=4000):
    return Answer(1, 1, 1, pair, pair, person, f"i{pair}", f"t{pair}", role, grade, (), 1, took, "2", NOW - ago)


def test_yes_against_no_comes_first_then_the_widest_and_controls_do_not_count():
    listed = [
        answer("a", 1, 4), answer("b", 1, 4),  # the same
        answer("a", 2, 4), answer("b", 2, 3),  # both yes
        answer("a", 3, 1), answer("b", 3, 4),
        answer("a", 4, 2), answer("b", 4, 3),
        answer("a", 5, 1, role="gold_neg"), answer("b", 5, 4, role="gold_neg"),
        answer("a", 6, 1),  # alone
    ]  # fmt: skip
    ranked = disagreements(listed)
    assert [(each.image, each.spread, each.opposed) for each in ranked] == [
        ("i3", 3, True), ("i4", 1, True), ("i2", 1, False),
    ]  # fmt: skip
    assert [answer.annotator for answer in ranked[0].answers] == ["a", "b"]


def test_throughput_counts_days_people_and_what_is_left_without_controls():
    listed = [answer("a", n, 4, ago=n * DAY // 20, took=2000 + 100 * n) for n in range(24)]
    listed += [answer("b", 90 + n, 1, role="gold_neg", took=90_000) for n in range(9)]
    pace = throughput(listed, requested=44, timestamp=NOW)
    assert (pace.today, pace.people, pace.left, pace.seconds) == (20, 1, 20, 3.15)
    assert sum(count for _, count in pace.days) == 24 and len(pace.days) == 14
    assert pace.work_left == pytest.approx(20 * 3.15 / 3600) and pace.days_left == 1.0
    none = throughput([], requested=3, timestamp=NOW)
    assert none.left == 3 and math.isnan(none.seconds) and math.isnan(none.days_left)


def test_nothing_is_forecast_before_there_is_enough_to_forecast_from():
    """The rate of a day needs a day, and the median time of an answer more than a few answers."""
    first_day = [answer("a", n, 4, ago=n * DAY // 24, took=3000) for n in range(24)]
    assert math.isnan(throughput(first_day, requested=400, timestamp=NOW).days_left)
    assert throughput(first_day, requested=400, timestamp=NOW).work_left == pytest.approx(376 * 3 / 3600)
    assert throughput([*first_day, answer("a", 24, 4, ago=DAY)], requested=400, timestamp=NOW).days_left == 375 / 24
    short_day = throughput(first_day[:19], requested=400, timestamp=NOW)
    assert math.isnan(short_day.work_left) and short_day.seconds == 3.0


def test_a_quick_person_is_seen_against_the_others_also_when_they_give_most_answers():
    """With the median of all answers, the quick one would set the pace."""
    listed = [answer("quick", n, 4 - n % 2, took=300) for n in range(30)]
    listed += [answer("slow", n, 4, took=4000) for n in range(5)]
    records = {record.annotator: record for record in annotator_table(listed)}
    assert "answers in 0.3 s, others in 4.0 s" in records["quick"].suspicious
    assert records["slow"].suspicious == ()


def test_versions_of_the_guideline_are_kept_and_unchanged_words_make_none(tmp_path):
    with open_store(tmp_path / "work.db") as store:
        first = newest(store)
        assert first.version == "1" and len(first.lines) == 6
        example = GuidelineExample("i1", "a dog", 4, "There it is.")
        second = revise(store, "Look.\nLook again.", [example])
        assert revise(store, "Look.\nLook again.\n", [example]) == second
        third = revise(store, "Look once.", [replace(example, grade=3)])
        assert [each.version for each in guidelines(store)] == ["1", "2", "3"]
        assert guidelines(store)[1] == second and newest(store) == third
        assert known_version(store, None) == "3" and known_version(store, "2") == "2"
        with pytest.raises(limner.LimnerError, match="no such version"):
            known_version(store, "9")
        for text, examples in (("", ()), ("x", [replace(example, grade=7)]), ("x", [replace(example, text=" ")])):
            with pytest.raises(limner.LimnerError):
                revise(store, text, examples)
