"""Hubs and CSLS of Liu & Ye (2019): what moves the shares of Table 5 and the gains of Table 4, one thing at a time.

On Flickr8k two of the four shares of Table 5 are more than 5 points off, and four of the six gains of CSLS in Table 4
are outside our intervals (`tower_losses.py`, `saved_tables.py`). Here the pool (250 to 2,000 images; the paper has
1,000, for COCO as means of five folds), the strength of the model (epochs, training images, several towers together,
and images moved towards the mean of their captions until R@1 is the paper's) and the reading (copies of an image told
apart; the other direction; copies counted among the neighbours of a text, so that ten neighbours are two images) are
changed one at a time. A printed gain comes from 1,000 queries and one model as well: the same gains are measured on
1,000 other images (dev, where the epoch was chosen) with one model, and intervals that have this chance too are put
around the difference to the print.

The sum loss for hubs, kNN with k = 3 for CSLS, both with the settings that dev chose in `tower_losses.py` and three
seeds. Needs `--data`. `--size N` is the dimension of the GRU and of the joint space (the paper has 1024), which takes a
GPU; `--workers N` trains N at once, `--kept FOLDER` keeps the vectors of every model and goes on from what is there,
`--minutes N` begins no further model after so many minutes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import training_runs
from hub_counts import EACH, NEAREST, WAYS, Side, Vector, apart, counts, gained, hits, shares, turned, unit
from max_against_sum import WORDS
from tower_losses import COMMON, GAINS, KNN, LOSSES, TRIES
from training_runs import (
    DIRECTIONS,
    MEASURES,
    QUICK_IMAGES,
    Job,
    Task,
    data_folder,
    keep_tables,
    model_of,
    name_of,
    prepare,
    world,
)

from claims import Claim, log, main, set_part
from limner.stats import bootstrap

TRY = TRIES["0.001 /10 every 10 of 30, dropout 0.5"]
EPOCHS, IMAGES, POOLS = (2, 5, 10), (1500, 3000), (250, 500, 2000)
MOVED = (0.05, 0.1, 0.2, 0.4)
"""How far images move towards the mean of their captions."""
FULL = "as in tower_losses.py"
STRENGTH = 38.3
"""R@1 in print, text to image, of the model of Table 5: Table 2, line 2.1."""
OFF = 5.0
"""Points."""


@dataclass(frozen=True)
class Row:
    """One level of one thing that was changed: R@1 of text to image, and the shares."""

    thing: str
    level: str
    recall: float
    shares: Mapping[str, float]

    @property
    def off(self) -> float:
        """The largest of the four differences to the print, in points."""
        return max(abs(self.shares[name] - printed) for name, printed in NEAREST.items())


def row(thing: str, level: str, sides: Sequence[Side], count: Callable[[Side], Any] = counts) -> Row:
    """Means over models and pools."""
    told = [shares(count(side)) for side in sides]
    recall = float(np.mean([hits(side.scores)["t2i", "R@1"].mean() for side in sides]))
    return Row(thing, level, recall, {name: float(np.mean([each[name] for each in told])) for name in NEAREST})


Models = Mapping[str, Sequence[Mapping[str, Side]]]
"""By strength the models, one for each seed, each with the sides of test and dev."""


def in_pools(models: Sequence[Mapping[str, Side]], size: int) -> list[Side]:
    """All pools of a size; more than the test images are filled up with those of dev."""
    if size <= len(models[0]["test"].images):
        return [pool for each in models for pool in each["test"].pools(size)]
    return [
        Side(*(np.concatenate([getattr(each[part], side) for part in each]) for side in ("images", "texts")))
        for each in models
    ]


def hub_rows(models: Models) -> Iterator[Row]:
    """Every level of every thing that is changed."""
    tests = [each["test"] for each in models[FULL]]
    yield row("nothing", FULL, tests)
    for size in POOLS:
        yield row("pool", f"{size:,} images", in_pools(models[FULL], size))
    for name in (name for name in models if name != FULL):
        yield row(name.split(" ", 1)[1], name, [each["test"] for each in models[name]])
    yield row("towers together", f"{len(tests)} seeds", [Side.together(tests)])
    for share in MOVED:
        yield row("images moved to their captions", f"{share:g}", [side.moved(share) for side in tests])
    yield row("reading", "copies of an image told apart by chance", tests, apart)
    yield row("reading", "image to text", tests, turned)


def at_strength(rows: Sequence[Row], strength: float = STRENGTH) -> dict[str, float]:
    """The shares at some R@1, between those rows that differ in strength only; the nearest row beyond the ends."""
    held = sorted((each for each in rows if each.thing not in ("pool", "reading")), key=lambda each: each.recall)
    recalls = [each.recall for each in held]
    return {name: float(np.interp(strength, recalls, [each.shares[name] for each in held])) for name in NEAREST}


def hub_claims(rows: Sequence[Row]) -> Iterator[Claim]:
    """Which of the things brings the four shares to the print, and the shares at the print's strength."""
    for thing in dict.fromkeys(each.thing for each in rows):
        held = [each for each in rows if each.thing == thing]
        note = "; ".join(f"{each.level}: R@1 {each.recall:.1f}, {each.off:.1f}" for each in held)
        what = f"hubs, sum loss, changed: {thing}; largest difference of four shares to Table 5, points, nearest level"
        yield Claim(what, min(each.off for each in held), goal=f"<= {OFF:g}", note=note)
    found, strongest = at_strength(rows), max(each.recall for each in rows)
    for name, printed in NEAREST.items():
        note = f"{rows[0].shares[name]:.1f} with R@1 {rows[0].recall:.1f}; the strongest has R@1 {strongest:.1f}"
        what = f"hubs, sum loss, with the published R@1 ({STRENGTH}): of the items nearest to some query"
        yield Claim(
            f"{what} those nearest to {name}, percent", found[name], printed, f"within {OFF:g}", note, source="print"
        )


@dataclass(frozen=True)
class Gain:
    """A gain in points with its 95% interval over queries."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, queries: Vector, direction: str) -> Gain:
        """Captions of an image are drawn together."""
        groups = None if direction == "i2t" else np.repeat(np.arange(len(queries) // EACH), EACH)
        drawn = bootstrap(queries, clusters=groups)
        return cls(float(queries.mean()), drawn.low, drawn.high)

    @property
    def shown(self) -> str:
        """With one decimal."""
        return f"{self.value:+.1f} [{self.low:+.1f}, {self.high:+.1f}]"

    @property
    def error(self) -> float:
        """Half the interval, in standard errors of 1.96."""
        return (self.high - self.low) / (2 * 1.96)

    def has(self, value: float) -> bool:
        """Whether a value is inside, to the one decimal that is printed."""
        return self.low - 0.05 <= value <= self.high + 0.05


Gains = dict[tuple[str, str], Gain]


def gains(sides: Sequence[Side], way: str, *, copies: int = 1) -> Gains:
    """Means over models of the same size, query by query."""
    each = [gained(side, way, copies=copies) for side in sides]
    return {key: Gain.of(np.mean([one[key] for one in each], axis=0), key[0]) for key in each[0]}


def printed(way: str) -> dict[tuple[str, str], float]:
    """The published gains of a way."""
    return {(d, m): GAINS[way, d][at] for d in DIRECTIONS for at, m in enumerate(MEASURES)}


def inside(found: Gains, way: str) -> int:
    """How many of the six published gains are inside."""
    return sum(found[key].has(value) for key, value in printed(way).items())


def pooled(models: Sequence[Mapping[str, Side]], size: int, way: str) -> Gains:
    """Gains in pools of a size: the queries of all pools stand one after the other."""
    if size > len(models[0]["test"].images):
        return gains(in_pools(models, size), way)
    each = [[gained(pool, way) for pool in one["test"].pools(size)] for one in models]
    joined = [{key: np.concatenate([pool[key] for pool in pools]) for key in pools[0]} for pools in each]
    return {key: Gain.of(np.mean([one[key] for one in joined], axis=0), key[0]) for key in joined[0]}


def gain_rows(models: Models) -> dict[tuple[str, str], Gains]:
    """The gains of CSLS at every level of every thing that is changed."""
    way, tests = WAYS[1], [each["test"] for each in models[FULL]]
    found = {("nothing", FULL): gains(tests, way)}
    found |= {("pool", f"{size:,} images"): pooled(models[FULL], size, way) for size in POOLS}
    for name in (name for name in models if name != FULL):
        found["training", name] = gains([each["test"] for each in models[name]], way)
    found["reading", "copies counted among ten neighbours"] = gains(tests, way, copies=EACH)
    found["other images", "dev"] = gains([each["dev"] for each in models[FULL]], way)
    return found


def with_chance_of_both(models: Sequence[Mapping[str, Side]], way: str) -> Gains:
    """Our gains with the intervals of a difference to one other model on 1,000 other images."""
    ours = gains([each["test"] for each in models], way)
    single = [gains([each["test"]], way) for each in models]
    wide = {}
    for key, own in ours.items():
        seeds = float(np.var([one[key].value for one in single], ddof=1)) if len(single) > 1 else 0.0
        theirs = float(np.mean([one[key].error ** 2 for one in single])) + seeds
        half = 1.96 * float(np.sqrt(own.error**2 + theirs + seeds / len(single)))
        wide[key] = Gain(own.value, own.value - half, own.value + half)
    return wide


def gain_claims(models: Models, rows: Mapping[tuple[str, str], Gains]) -> Iterator[Claim]:
    """How many published gains are inside our intervals under each change, and how many dev's would be."""
    way, count = WAYS[1], len(printed(WAYS[1]))
    for thing in dict.fromkeys(thing for thing, _ in rows):
        held = {level: inside(found, way) for (each, level), found in rows.items() if each == thing}
        note = "; ".join(f"{level}: {number}" for level, number in held.items())
        what = f"CSLS, kNN loss, changed: {thing}; published gains inside our intervals, best level"
        yield Claim(what, max(held.values()), count, ">= 1", note, source="print")
    every = {each: gains([one["test"] for one in models[FULL]], each) for each in WAYS}
    outside = sum(count - inside(found, each) for each, found in every.items())
    others = [
        sum(
            not every[each][key].has(float(gained(one["dev"], each)[key].mean()))
            for each in WAYS
            for key in every[each]
        )
        for one in models[FULL]
    ]
    note = f"by seed: {', '.join(map(str, others))}; of the published gains {outside} of {2 * count} are outside"
    what = "gains of one model on 1,000 other images (dev) outside our intervals, as a share of 12, mean of the seeds"
    yield Claim(what, float(np.mean(others)) / (2 * count), goal="<= 0.05", note=note)
    wide = {each: with_chance_of_both(models[FULL], each) for each in WAYS}
    note = "; ".join(
        f"{each} {DIRECTIONS[d]} {m}: {found[d, m].shown}, published {value:+.1f}"
        for each, found in wide.items() for (d, m), value in printed(each).items() if not found[d, m].has(value)
    )  # fmt: skip
    what = "published gains inside intervals that have the chance of the paper's 1,000 queries and one model too"
    number = sum(inside(found, each) for each, found in wide.items())
    yield Claim(what, number, 2 * count, ">= 1", note and f"outside: {note}", source="print")


def tables(rows: Sequence[Row], gained_by: Mapping[tuple[str, str], Gains]) -> str:
    """Both tables as Markdown."""
    heads = [name.replace(">=", "at least ") for name in NEAREST]
    lines = [f"| changed | level | text → image R@1 | nearest to {' | '.join(heads)} | largest difference |"]
    lines.append("|---|---|---:" + "|---:" * (len(heads) + 1) + "|")
    for each in rows:
        cells = " | ".join(f"{each.shares[name]:.1f}%" for name in NEAREST)
        lines.append(f"| {each.thing} | {each.level} | {each.recall:.1f} | {cells} | {each.off:.1f} |")
    lines.append(f"| *published* | COCO | {STRENGTH} | {' | '.join(f'{value:.1f}%' for value in NEAREST.values())} | |")
    keys = list(printed(WAYS[1]))
    lines += ["", f"| changed | level | {' | '.join(f'{DIRECTIONS[d]} {m}' for d, m in keys)} | published inside |"]
    lines.append("|---|---" + "|---:" * (len(keys) + 1) + "|")
    for (thing, level), found in gained_by.items():
        cells = [found[key].shown for key in keys]
        lines.append(f"| {thing} | {level} | {' | '.join(cells)} | {inside(found, WAYS[1])} of {len(keys)} |")
    told = " | ".join(f"{value:+.1f}" for value in printed(WAYS[1]).values())
    return "\n".join([*lines, f"| *published* | Flickr30k | {told} | |"])


def strengths(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """What differs in the training of each strength; two of them for `--quick`."""
    found: dict[str, dict[str, Any]] = {FULL: {}}
    found |= {f"{count} epochs": {"epochs": count} for count in EPOCHS}
    found |= {f"{count:,} training images": {"images": count} for count in IMAGES}
    return dict(list(found.items())[:2]) if options.quick else found


def job(loss: str, seed: int, changed: Mapping[str, Any], options: argparse.Namespace) -> Job:
    """The model of one loss, seed and strength."""
    settings = {**COMMON, **TRY, "device": options.device, **LOSSES[loss]}
    settings |= {"word_dim": min(WORDS, options.size), "hidden_dim": options.size, "embedding_dim": options.size}
    settings |= {"epochs": changed["epochs"]} if "epochs" in changed else {}
    settings |= {"epochs": 3, "learning_rate": 0.002, "dropout": 0.0} if options.quick and not changed else {}
    return Job(loss, seed, settings, images=QUICK_IMAGES if options.quick else changed.get("images"))


def trained(task: Task) -> bool:
    """Trains one model in a process of its own and keeps its vectors; whether they are there."""
    import torch

    if task.kept is None or task.kept.is_file():
        return task.kept is not None
    if task.deadline is not None and time.time() > task.deadline:
        return False
    torch.set_num_threads(1)
    pairs, began = world(task.folder)[0], time.perf_counter()
    model, found = model_of(task), {}
    for name, part in (("test", pairs.test), ("dev", pairs.dev)):
        near = part.judgements.relevant
        order = [near.candidates[int(column)] for column in near.columns]
        if (np.diff(near.indptr) != EACH).any():
            raise SystemExit(f"{name}: expected {EACH} captions of every image")
        found[f"{name} images"] = np.asarray(model.encode_images(part.images).subset(near.queries))
        found[f"{name} texts"] = np.asarray(model.encode_texts(part.texts).subset(order))
    log(f"{task.job.label}, seed {task.job.seed}: {time.perf_counter() - began:.0f} s")
    part_file = task.kept.with_suffix(".part.npz")
    np.savez(part_file, **{name: unit(rows) for name, rows in found.items()})  # type: ignore[arg-type]
    part_file.replace(task.kept)
    return True


def sides_of(file: Path) -> dict[str, Side]:
    """Test and dev as a model sees them."""
    with np.load(file) as held:
        return {name: Side(held[f"{name} images"], held[f"{name} texts"]) for name in ("test", "dev")}


def models(options: argparse.Namespace, folder: Path, kept: Path) -> dict[str, dict[str, list[dict[str, Side]]]]:
    """Trains what is not kept yet, the longest first; by loss and strength what there is."""
    prepare(folder)
    deadline = None if options.minutes is None else time.time() + 60 * options.minutes
    wanted = {
        (loss, name, seed): job(loss, seed, changed, options)
        for name, changed in strengths(options).items()
        for seed in range(options.seeds)
        for loss in ("sum", KNN)
    }
    files = {each: kept / Path(name_of(each_job)).with_suffix(".npz") for each, each_job in wanted.items()}
    tasks = [Task(wanted[each], folder, False, None, file, deadline) for each, file in files.items()]
    if options.workers == 1:
        done = [trained(task) for task in tasks]
    else:
        with multiprocessing.get_context("fork").Pool(options.workers) as pool:
            done = list(pool.imap(trained, tasks, chunksize=1))
    if not all(done):
        log(f"{done.count(False)} of {len(done)} models were not trained: the time was over")
    found: dict[str, dict[str, list[dict[str, Side]]]] = {}
    for (loss, name, _), file in files.items():
        if file.is_file():
            found.setdefault(loss, {}).setdefault(name, []).append(sides_of(file))
    return found


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Trains, changes one thing at a time, and says what brings the shares and the gains to the print."""
    folder = data_folder(options)
    if options.quick:
        options.size, options.seeds = 64, 1
    if options.size != 1024:
        set_part(options, f"{options.size}-d")
    with tempfile.TemporaryDirectory() as instead:
        kept = options.kept or Path(instead)
        kept.mkdir(parents=True, exist_ok=True)
        found = models(options, folder, kept)
    if missing := [loss for loss in ("sum", KNN) if FULL not in found.get(loss, {})]:
        raise SystemExit(f"no model was trained with the loss {missing[0]}: give it more --minutes")
    rows, gained_by = list(hub_rows(found["sum"])), gain_rows(found[KNN])
    some = {name: len(each) for held in found.values() for name, each in held.items() if len(each) < options.seeds}
    fewer = "".join(f", {count} of {name}" for name, count in some.items())
    text = tables(rows, gained_by) + (
        f"\n\nGRU and joint space {options.size}; means over {options.seeds} seeds{fewer}. Shares are those of the "
        "items that are nearest to some query, sum loss; gains are those of CSLS (k = 10), kNN loss, with 95% "
        "intervals over queries.\n"
    )
    log(text)
    if options.save and not options.quick:
        keep_tables(text, options)
    yield from hub_claims(rows)
    yield from gain_claims(found[KNN], gained_by)


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of this proof beside those of every proof that trains towers."""
    training_runs.configure(parser)
    parser.add_argument("--minutes", type=float, help="no further model is begun after so many minutes")
    parser.add_argument("--size", type=int, default=1024, help="dimension of the GRU and of the joint space")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
