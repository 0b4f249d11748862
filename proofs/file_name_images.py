"""Why images gain more for MCProp on our file names than in print: by language, and with images that say less.

Messina et al. (2022), Table 1: nDCG@5 rises by 0.016 from the file name alone to name and image with attentive fusion
(0.011 with concatenation). `file_names.py` finds 0.054, `file_name_limits.py` 0.049 without camera's names. Two causes
are tried, each MCProp with three seeds and no camera's names, so that only the words of a name count:

- language: the backbone here knows English, that of the paper a hundred languages. What an image gains is told apart
  for queries whose name and target are both English, both German or both French, and in different languages;
- what an image tells: Flickr8k's captions describe what is seen, those of Wikipedia name persons and places, which a
  picture often does not tell. A half, then three quarters of the images are exchanged for another one of the split, in
  training as in test: such a picture says nothing about its caption.

Needs `--data` and a GPU; for `--kept`, `--workers` and `--minutes` see `file_names.py`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from file_name_limits import GROUPS, NAMED, group_of, mean, report_of
from file_name_models import Run, Work, all_trained, backbone_folder, pools
from file_names import configure, device_of, difference

from claims import Claim, log, main, result_file

PRINTED = 0.016
"""Table 1, 10,000 elements: MCProp with images and attentive fusion over text only."""
TEXT, SEEN = "MCProp text", "MCProp"
SHARES = {"half of the images exchanged": 0.5, "three quarters exchanged": 0.25}


def wanted(seeds: int) -> list[Run]:
    """Every model, seed by seed."""
    first = [Run(TEXT, "mcprop", {"fusion": "text"}), Run(SEEN, "mcprop", {"fusion": "attentive"})]
    first += [replace(first[1], name=f"{SEEN}, {what}", pictures=share) for what, share in SHARES.items()]
    return [replace(run, seed=seed, sum_epochs=2, task=NAMED) for seed in range(seeds) for run in first]


def part(reports: list[Any], groups: list[str], group: str) -> list[np.ndarray]:
    """The nDCG@5 of every query of a group, seed by seed."""
    rows = np.array([each == group for each in groups])
    return [np.asarray(r.find("nDCG@5", direction="i2t").values)[rows] for r in reports]


def gained(better: list[np.ndarray], worse: list[np.ndarray]) -> np.ndarray:
    """The mean difference with its 95% interval; queries are drawn anew, and the seeds of both."""
    rng = np.random.default_rng(0)
    one, other = np.array(better), np.array(worse)
    means = []
    for _ in range(4000):
        rows = rng.integers(0, one.shape[1], one.shape[1])
        pair = (each[rng.integers(0, len(each), len(each))][:, rows].mean() for each in (one, other))
        means.append(next(pair) - next(pair))
    return np.array([one.mean() - other.mean(), *np.quantile(means, (0.025, 0.975))])


def table(reports: Mapping[str, list[Any]], groups: list[str]) -> str:
    """A row for each model: nDCG@5, what it gains over the name alone, and both by group."""
    own = [group for group in GROUPS if group in groups]
    lines = [f"| model | seeds | nDCG@5 | {' | '.join(own)} |", "|---|" + "---:|" * (2 + len(own))]
    lines.append(f"| *queries* | | {len(groups)} | {' | '.join(str(groups.count(g)) for g in own)} |")
    for name, each in reports.items():
        cells = [f"{mean(each):.3f}"] + [f"{np.mean(part(each, groups, g)):.3f}" for g in own]
        if name != TEXT:
            cells[0] += " {:+.3f} [{:+.3f}, {:+.3f}]".format(*difference(each, reports[TEXT], "nDCG@5"))
            for at, group in enumerate(own, start=1):
                moved = gained(part(each, groups, group), part(reports[TEXT], groups, group))
                cells[at] += " {:+.3f} [{:+.3f}, {:+.3f}]".format(*moved)
        lines.append(f"| {name} | {len(each)} | {' | '.join(cells)} |")
    return "\n".join(
        [*lines, "", "Differences to the name alone with their 95% intervals, queries and seeds drawn anew."]
    )


def claimed(reports: Mapping[str, list[Any]], groups: list[str]) -> Iterator[Claim]:
    """The gain beside the print: of all queries, by group, and with images that say less."""
    for name in (name for name in reports if name != TEXT):
        moved = difference(reports[name], reports[TEXT], "nDCG@5")
        note = "{:+.3f} [{:+.3f}, {:+.3f}]; ".format(*moved) + f"{len(reports[name])} seeds"
        yield Claim(f"nDCG@5 gained by {name} over {TEXT}", moved[0], PRINTED, "within 0.02", note, source="print")
    for group in (group for group in GROUPS if group in groups):
        moved = gained(part(reports[SEEN], groups, group), part(reports[TEXT], groups, group))
        note = "{:+.3f} [{:+.3f}, {:+.3f}]; ".format(*moved) + f"{groups.count(group)} queries"
        what = f"nDCG@5 gained by {SEEN} over {TEXT}, queries: {group}"
        yield Claim(what, float(moved[0]), PRINTED, "within 0.02", note, source="print")


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Trains what is not kept, and tells the gain apart."""
    if options.data is None:
        raise SystemExit("file_name_images needs Flickr8k with its translations and features: --data DIR")
    folder = Path(options.kept or tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    deadline = None if options.minutes is None else time.time() + 60 * options.minutes
    backbone = backbone_folder(options.minilm, folder)
    work = Work(options.data, folder, backbone, device_of(options), options.quick, deadline)
    asked = wanted(options.seeds)
    all_trained(asked, work, workers=options.workers)
    reports: dict[str, list[Any]] = {}
    for each in (each for each in asked if (folder / each.file).is_file()):
        reports.setdefault(each.name, []).append(report_of(each, work))
    groups = group_of(pools(work, **NAMED)["test"])
    text = table(reports, groups)
    log(text)
    if options.save and not options.quick:
        result_file(Path(sys.argv[0]), options, ".md").write_text(text + "\n", encoding="utf-8")
    yield from claimed(reports, groups)


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
