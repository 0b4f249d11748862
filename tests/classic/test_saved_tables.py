"""`proofs/saved_tables.py`: reading saved tables, and what it compares with the papers."""

from __future__ import annotations

import pytest


@pytest.fixture
def saved(proof_script):
    pytest.importorskip("torch", reason="the scripts that train import torch")
    return proof_script("saved_tables")


def test_rows_are_found_by_their_first_cells(saved):
    first = "| a | x |\n|---|---|\n| one | 1 |\n| two | 2 |"
    text = f"{first}\n\n| b | how | y |\n|---|---|---|\n| i | p | 3 |\n| i | q | 4 |\n"
    assert saved.rows_of(text, "a") == {"one": ["1"], "two": ["2"]}
    assert saved.rows_of(text, "b") == {"i, p": ["3"], "i, q": ["4"]}


def test_copies_of_images_do_not_count_as_items(saved):
    shares = {"0": 80.0, "1": 5.0, ">=2": 15.0, ">=5": 10.0}
    assert saved.among_nearest(shares) == pytest.approx({"1": 25.0, ">=2": 75.0, ">=5": 50.0})


def test_a_published_gain_inside_the_interval_is_met_and_one_outside_is_missed(saved):
    cells = "{0} | +{1:.1f} [{2:+.1f}, {3:+.1f}]"
    lines = ["| direction | ranked by | R@1 | change | R@5 | change | R@10 | change |", "|---|---|" + "---|" * 6]
    for how, direction in saved.GAINS:
        row = " | ".join(cells.format(30.0, 5.0, 4.0, 6.0) for _ in range(3))
        lines.append(f"| {saved.DIRECTIONS[direction]} | {how} | {row} |")
    assert not any(claim.met for claim in saved.gains("\n".join(lines)))  # every published gain is below 4 points
    wide = "\n".join(lines).replace("+4.0", "-4.0")
    assert all(claim.met for claim in saved.gains(wide))


def test_the_exchanged_reading_moves_figures_between_the_two_tasks_only(saved):
    for name in ("Tri5Sem", "Tri5-idf"):
        printed = [saved.PUBLISHED[name, task, "RP"] for task in ("i2t", "t2i")]
        exchanged = [saved.EXCHANGED[name, task, "RP"] for task in ("t2i", "i2t")]
        assert printed == exchanged


def test_the_order_of_two_losses_is_that_of_their_paired_differences(saved):
    from scipy.stats import ttest_rel

    sums, maxima = [240.0, 243.0, 241.0, 246.0, 247.0], [236.0, 244.0, 238.0, 240.0, 239.0]
    cells = [", ".join(map(str, side)) for side in (sums, maxima)]
    names = "the paper's own", "0.001 /10 every 10 for both"
    rows = "\n".join(f"| {name} | {' | '.join(cells)} |" for name in names)
    first, added, ratio, second, _ = saved.seeds(f"| condition | rsum, sum | rsum, max |\n|---|---|---|\n{rows}\n")
    ends = ttest_rel(sums, maxima).confidence_interval()
    assert first.ours == pytest.approx(ends.low)
    assert second.ours == pytest.approx(-ends.high)
    assert ratio.ours == pytest.approx(sum(maxima) / sum(sums))
    assert "4 of them" in first.note and "too narrow" in first.note
    assert added.ours == pytest.approx(ttest_rel(sums[3:], maxima[3:]).confidence_interval().low)
    assert "2 of them" in added.note and "added after a look" in added.claim


def test_what_a_guess_leaves_for_the_names_that_say_something(saved):
    """78% and 74% of 929; a guess finds 10 of 929 names for each of 157: 1.7."""
    told = saved.without_empty(74.0, 78.0)
    assert "88.8 on the 772 others" in told and "more than 39 of the 157" in told


def test_gains_of_the_second_stage_stand_in_a_column_per_system(saved):
    what = "{}, {} gained by the second stage over a frozen one, image → text: lower end of the 95% interval, points"
    cells = {("VSE0", "R@1"): "+5.0 [+2.1, +7.8]", ("VSE0", "R@10"): "+6.4 [+3.7, +9.1]",
             ("PCME", "R@1"): "+2.1 [-0.6, +4.8]", ("PCME", "R@10"): "+2.6 [+0.3, +4.9]"}  # fmt: skip
    claims = [{"claim": what.format(*key), "note": f"{cell}; 1 seeds; rates"} for key, cell in cells.items()]
    claims.append({"claim": "VSE0: largest rise of dev rsum", "note": "a model that still rises has not converged"})
    assert saved.second_stages(claims).splitlines() == [
        "| points gained | VSE0 | PCME |",
        "|---|---:|---:|",
        "| R@1, image → text | +5.0 [+2.1, +7.8] | +2.1 [-0.6, +4.8] |",
        "| R@10, image → text | +6.4 [+3.7, +9.1] | +2.6 [+0.3, +4.9] |",
    ]


def test_r_precision_stands_beside_what_is_assumed_of_never_judged_answers(saved):
    start = "Tri5Sem R-precision, {}, if never judged answers are right as often as judged ones"
    note = "12.22 if all are wrong, 14.15 if all are right; {}% of 332 are taken to be right; the first ten"
    ways = ("here", 12.34, 5.3), ("there", 12.44, 9.7)
    claims = [{"claim": f"{start.format(title)} {way}", "ours": ours, "reference": 13.7, "note": note.format(share)}
              for title in ("annotation", "search") for way, ours, share in ways]  # fmt: skip
    assert saved.unjudged(claims).splitlines()[2:] == [
        "| never judged answers of the first ten, of 10,000 | 332 | 332 |",
        "| all of them wrong | 12.22 | 12.22 |",
        "| right as often as judged ones here | 12.34 (5.3% are right) | 12.34 (5.3% are right) |",
        "| right as often as judged ones there | 12.44 (9.7% are right) | 12.44 (9.7% are right) |",
        "| all of them right (upper bound) | 14.15 | 14.15 |",
        "| published | 13.7 | 13.7 |",
    ]


def test_the_table_by_k_takes_rsum_and_r1_from_the_table_of_losses(saved):
    """What is saved must still have every loss that the table names."""
    text = (saved.RESULTS / saved.TABLES["towers"]).read_text(encoding="utf-8")
    lines = saved.by_k(text).splitlines()
    assert lines[0].count("|") == 5 and len(lines) == 9
    assert "| kNN (k = 3) | 300.2 ± 6.4 | 29.2 ± 0.9 | 22.8 ± 1.2 |" in lines
