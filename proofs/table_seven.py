"""Table 7 of the ranking paper, by group of systems: why R@1 agrees with people here, and not in the paper.

Hodosh, Young & Hockenmaier (2013), section 4.3.5: over their thirty systems R@5, R@10 and the median rank agree well
with the measures of people, R@1 does not. Over ours R@1 does (`thirty_systems.py`). Here the rank correlations of its
saved table are computed again over smaller groups, without the systems that are far behind and therefore last under
every measure: nearest neighbours, and image histograms in place of pyramids. Intervals draw the systems of a group
anew; values are those of the table, with one decimal. Needs nothing but the saved table.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from ranking_bench import TASKS

from claims import Claim, log, main, result_file
from limner.papers.thirty_systems import ALIASES, SYSTEMS, system
from limner.stats import spearman

TABLE = Path(__file__).parent / "results" / "thirty_systems.x86_64.md"
SIMILARITIES = tuple(
    name for name, each in SYSTEMS.items()
    if name.startswith("Tri5-") and each.images == "pyramid" and {*each.text.similarities} - {"lin"}
)  # fmt: skip
"""The fourteen variants of Tri5 in Table 6 with lexical similarities of any kind."""
PEOPLE = {"R@1": ("S@1", "RP"), "R@5": ("S@5", "RP"), "R@10": ("S@10", "RP")}
"""The measures of people that each is compared with in Table 7."""
LIKE = "with pyramids of visual words"
"""The group whose systems differ in their text kernels only."""
DRAWS = 4_000

Levels = Mapping[str, Mapping[str, float]]
"""Of each system the value of each measure."""


def groups(names: Sequence[str]) -> dict[str, list[str]]:
    """All systems, and those that are nearer to each other."""
    trained = [name for name in names if system(name).method == "kcca"]
    pyramids = [name for name in trained if system(name).images == "pyramid"]
    similar = [name for name in pyramids if ALIASES.get(name, name) in SIMILARITIES]
    return {"all": list(names), "without nearest neighbours": trained, LIKE: pyramids,
            "with lexical similarities": similar}  # fmt: skip


def by_group(by_task: Mapping[str, Levels]) -> str:
    """Spearman's rho of each measure with those of people, over each group; tasks by systems by measures."""
    heads = [f"{measure}, {human}" for measure, each in PEOPLE.items() for human in each]
    parts = []
    for task, title in TASKS.items():
        parts += ["", f"| rho, {title} | systems | {' | '.join(heads)} |", "|---|---:" + "|---:" * len(heads) + "|"]
        for label, names in groups(list(by_task[task])).items():
            cells = [f"{agreement(by_task[task], names, a, b):.2f}" for a, each in PEOPLE.items() for b in each]
            parts.append(f"| {label} | {len(names)} | {' | '.join(cells)} |")
    return "\n".join(parts)


def agreement(levels: Levels, names: Sequence[str], measure: str, human: str) -> float:
    """Spearman's rho of two measures over these systems."""
    return spearman(*(np.array([levels[name][each] for name in names]) for each in (measure, human)))


def read(text: str) -> dict[str, Levels]:
    """The tables of both tasks, as `thirty_systems.py` writes them, without its marks and the published values."""
    by_task: dict[str, Levels] = {}
    for task, title in TASKS.items():
        head, _, *rows = text[text.index(f"| {title} |") :].partition("\n\n")[0].splitlines()
        measures = [cell.strip() for cell in head.strip("| ").split("|")][1:]
        cells = [[cell.strip() for cell in row.strip("| ").split("|")] for row in rows]
        by_task[task] = {
            name: dict(zip(measures, map(_number, cell_texts), strict=True)) for name, *cell_texts in cells
        }
    return by_task


def _number(cell: str) -> float:
    return float(cell.split(" ")[0].replace("\\*", ""))


def claimed(by_task: Mapping[str, Levels]) -> Iterator[Claim]:
    """Whether R@10 agrees better with people than R@1 does, among systems that differ in their text kernels only."""
    rng = np.random.default_rng(0)
    for task, title in TASKS.items():
        levels = by_task[task]
        names = groups(list(levels))[LIKE]
        for measure, human, base in (("R@10", "S@10", "S@1"), ("R@10", "RP", "RP")):
            pairs = (measure, human), ("R@1", base)
            high, low = (agreement(levels, names, *pair) for pair in pairs)
            drawn = []
            for _ in range(DRAWS):
                sampled_names = [names[place] for place in rng.integers(0, len(names), len(names))]
                one, base_rho = (agreement(levels, sampled_names, *pair) for pair in pairs)
                drawn.append(one - base_rho)
            low_end, high_end = np.nanquantile(drawn, (0.025, 0.975))
            full_rho = agreement(levels, list(levels), "R@1", base)
            note = f"rho {high:.2f} and {low:.2f}, {high - low:+.2f} [{low_end:+.2f}, {high_end:+.2f}]; "
            note += f"over all thirty systems R@1 with {base} {full_rho:.2f}"
            claim_text = (
                f"{len(names)} systems {LIKE}: rho of {measure} and {human} minus that of R@1 and {base}, {title}"
            )
            yield Claim(f"{claim_text}: lower end of the 95% interval", float(low_end), goal="> 0", note=note)


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """The saved table, by group."""
    by_task = read(options.table.read_text(encoding="utf-8"))
    text = by_group(by_task).strip()
    log(text)
    if options.save and not options.quick:
        result_file(Path(__file__), options, ".md").write_text(text + "\n", encoding="utf-8")
    yield from claimed(by_task)


def configure(parser: argparse.ArgumentParser) -> None:
    """Which table."""
    parser.add_argument("--table", type=Path, default=TABLE, help="table that thirty_systems.py saved")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
