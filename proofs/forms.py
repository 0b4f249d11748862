"""The forms and studies of the papers beside their print: preference study, judged failures, the crowd form.

What is in the print is recomputed with limner's own forms: the measures of rankings A to D and the totals of Table D.1
(Chun et al. 2022), the marks of Table 2 (Lymperaiou et al. 2022), and, with --data, the shape of Flickr8k's crowd
judgements (Hodosh et al. 2013). Takes seconds; the quick run is the full one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from claims import Claim, log, main
from limner.annotate.preference import add_study, comparisons, study_of_rankings
from limner.annotate.preference_results import preferences
from limner.annotate.store import open_store
from limner.annotate.store.people import add_annotator
from limner.annotate.store.studies import add_answers
from limner.core.judgements import Judgements
from limner.papers.published_tables import table

PRINTED = {"A": (0, 100, 66.0), "B": (100, 100, 12.5), "C": (0, 0, 10.3), "D": (0, 100, 2.5)}
"""Section 4.1, eight positives: R@1, R@5, mAP@R."""
MARKS = {"alternative": 24, "object": 6, "colour": 18, "number": 12, "action": 8, "detail": 56}
"""Table 2 of the explainable-evaluation paper as counts of its 103 pairs, size left out."""


def judged(sizes: list[int]) -> Judgements:
    """Queries with so many right answers each, among two hundred wrong ones."""
    pairs = [(f"q{n}", f"q{n}-{k}") for n, size in enumerate(sizes) for k in range(size)]
    return Judgements.from_pairs(pairs, candidates=[c for _, c in pairs] + [f"wrong{k}" for k in range(200)])


def preference(folder: Path) -> Iterator[Claim]:
    """Rankings A to E with the paper's measures, and the totals of its table from a study of the paper's size."""
    with open_store(folder / "eight.db") as store:
        add_study(store, study_of_rankings(judged([8]), queries=1))
        values = {each.measure: each.values for each in preferences(store).measures}
    for name, row in PRINTED.items():
        for measure, printed in zip(("R@1", "R@5", "mAP@R"), row, strict=True):
            yield Claim(
                f"ranking {name}, {measure}", 100 * values[measure][name], printed, "within 0.05", source="print"
            )
    with open_store(folder / "study.db") as store:
        study = study_of_rankings(judged([5] * 3 + [6, 7, 8] * 12 + [8]), queries=40)
        questions = add_study(store, study, people=8)
        people = [add_annotator(store, f"p{n}").id for n in range(8)]
        votes = add_answers(
            store,
            "preference",
            [(n, person, {"choice": "left"}, None) for person in people for n in comparisons(store)],
        )
        counts = preferences(store, samples=0).counts
    yield Claim("comparisons of 40 queries", questions, 400, "== 1", source="print")
    yield Claim("votes of eight people", votes, 3200, "== 1", source="print")
    ours, theirs = (sorted(map(int, (c + c.T)[np.triu_indices(5, 1)])) for c in (counts, table("eccv-d1").values))
    log(f"totals of pairs, three queries with five positives: {ours}; printed {theirs}")
    agreed = sum(a == b for a, b in zip(ours, theirs, strict=True))
    yield Claim(
        "totals of pairs as in Table D.1",
        agreed,
        10,
        "== 1",
        "C counts as E where five answers are right",
        source="print",
    )
    yield Claim("votes E against E", counts[4, 4], table("eccv-d1").values[4, 4], "== 1", source="print")


def failures() -> Iterator[Claim]:
    """Whether Table 2 and figure 10 of the explainable-evaluation paper fit each other."""
    note = "85 pairs with one mark, 15 with two, 3 with three; so no mark is left for size, printed as 6.14%"
    yield Claim("marks of Table 2 without size", sum(MARKS.values()), 85 + 2 * 15 + 3 * 3, "== 1", note, source="print")
    note = "the share of details among all pairs; printed as the confidence of action -> details"
    yield Claim("share of details, %", 100 * MARKS["detail"] / 103, 54.37, "within 0.005", note, source="print")


def crowd(data: Path) -> Iterator[Claim]:
    """The shape of Flickr8k's crowd judgements: blocks of ten captions, three judges."""
    from limner.datasets.flickr import crowd_votes

    raw = crowd_votes(data / "flickr8k")
    captions = Counter(raw.images)
    note = "section 4.3.2: every image is paired with a multiple of ten captions"
    yield Claim(
        "images with a multiple of ten captions",
        sum(n % 10 == 0 for n in captions.values()),
        1000,
        "== 1",
        note,
        source="print",
    )
    judges = raw.values.sum(axis=1)
    fewest = int(judges.min())
    note = f"section 4.3.2: three annotators each; {int((judges > 3).sum()):,} pairs of {len(judges):,} have more"
    yield Claim("fewest judges of a pair", fewest, 3, "== 1", note, source="print")
    note = (
        "the published file; in print 30,781 pairs that pass the filter and 10,374 that do not; why the file has more "
    )
    note += "is not known"
    yield Claim("pairs that the crowd judged", len(judges), 30_781 + 10_374, "== 1", note, source="print")


def run(options: argparse.Namespace) -> Iterator[Claim]:
    with tempfile.TemporaryDirectory() as folder:
        yield from preference(Path(folder))
    yield from failures()
    if options.data is None:
        log("no data: the crowd form is left out; give --data DIR (or LIMNER_DATA) with flickr8k/ in it")
    else:
        yield from crowd(Path(options.data))


if __name__ == "__main__":
    main(run, __doc__)
