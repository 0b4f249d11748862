"""Edits that a reader has judged: the good ones are still made, the others are not made with any seed."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

import pytest

from limner.explain.adversarial import KINDS, attack
from limner.explain.noun_heads import colours_in

FILE = Path(__file__).with_name("judged_edits.csv")
ROWS = list(csv.DictReader(FILE.open(encoding="utf-8", newline="")))
COLOURS = ("brown", "white", "red", "blue", "green", "black", "yellow", "orange")


def rows(verdicts: Iterable[str]) -> list[dict[str, str]]:
    return [row for row in ROWS if row["verdict"] in verdicts]


def test_every_kind_is_judged():
    assert {row["kind"] for row in rows(["good"])} == set(KINDS)
    assert {row["verdict"] for row in ROWS} == {"good", "ungrammatical", "wrong sense", "same meaning"}
    assert set(colours_in(row["before"] for row in ROWS)) == set(COLOURS)


@pytest.mark.parametrize("kind", KINDS)
def test_good_edits_are_made(kind):
    good = [row for row in rows(["good"]) if row["kind"] == kind]
    edits = [attack(row["before"], kind, colours=COLOURS) for row in good]
    assert [edit.after if edit else None for edit in edits] == [row["after"] for row in good]


@pytest.mark.parametrize("row", rows(["ungrammatical", "wrong sense", "same meaning"]), ids=lambda row: row["after"])
def test_bad_edits_are_not_made(row):
    edits = [attack(row["before"], row["kind"], seed=seed, colours=COLOURS) for seed in range(5)]
    assert row["after"] not in {edit.after for edit in edits if edit}
