"""What each correction for hubs gains and loses on real data, with the options tuned on a dev split and without.

Two spaces: CLIP vectors of 500 photographs with a text each (`clip-unsplash500`; half of them, drawn with a fixed seed,
are the dev split), and Flickr8k, where a closed form (canonical correlation of bags of words and EfficientNet
features) makes the space from the 6,000 training images. Needs `--data`. The table is written beside the claims, in
`results/corrections.KIND.md`; the page of the documentation shows it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from claims import Claim, log, main, result_file
from limner import Collection, Embeddings, Hubs, Items, Judgements, Report, Scores, compare, evaluate, load
from limner.encoders.words import BagOfWords
from limner.evaluation.tuning import tune
from limner.match import CORRECTIONS
from limner.systems.canonical import canonical_maps

MEASURES = ("R@1", "R@5", "R@10")
DIRECTIONS = {"i2t": "image → text", "t2i": "text → image"}
HEADER = (
    "| direction | correction | options | R@1 | change of R@1 | R@5 | change of R@5 | R@10 | change of R@10 "
    "| hub skewness | greatest hub |\n|---|---|---|---|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True)
class World:
    """A collection with dev and test splits, and the scores of both, images by texts."""

    name: str
    collection: Collection
    scores: Scores

    def part(self, split: str) -> tuple[Scores, Collection]:
        """A split and its scores."""
        part = self.collection.split(split)
        return self.scores.restrict(queries=part.images.ids, candidates=part.texts.ids), part


def unsplash(folder: Path) -> World:
    """CLIP vectors of photographs and texts, one to one."""
    ids = [str(path).rsplit("/", 1)[-1] for path in np.load(folder / "image_paths.npy")]
    texts = [f"text of {i}" for i in ids]
    order = np.random.default_rng(0).permutation(len(ids))
    splits = {"dev": [ids[i] for i in order[:250]], "test": [ids[i] for i in order[250:]]}
    judged = Judgements.from_pairs(zip(ids, texts, strict=True), queries=ids, candidates=texts)
    collection = Collection(
        "clip-unsplash500", Items(ids, [None] * len(ids)), Items(texts, texts, kind="text"), judged, splits
    )
    sides = [np.load(folder / f"{side}_embeddings.npy") for side in ("image", "text")]
    return World(
        "clip-unsplash500", collection, Scores.from_embeddings(Embeddings(ids, sides[0]), Embeddings(texts, sides[1]))
    )


def flickr8k(folder: Path, *, words: int) -> World:
    """Bags of words and EfficientNet features in one space, from the training pairs, in closed form."""
    pairs = load(f"flickr8k:{folder}", check_images=False)
    names = (folder / "features" / "image_names.txt").read_text().split()
    stored = np.load(folder / "features" / "efficientnet_lite0_pool1280_fp16.npy").astype(np.float32)
    features = Embeddings(names, stored).normalised()
    train = pairs.train
    bag = BagOfWords.fit(train.texts.values, max_words=words)
    judged = train.judgements.relevant
    from scipy.sparse import csr_array

    weights = csr_array(
        (np.ones(len(judged.rows)), (judged.rows, judged.columns)), shape=(len(train.images), len(train.texts))
    )
    maps = canonical_maps(
        features.subset(train.images.ids).matrix, bag.vectors(train.texts.values), weights, ridge=0.3, dimensions=512
    )
    images = Embeddings(pairs.images.ids, maps[0](features.subset(pairs.images.ids).matrix))
    texts = Embeddings(pairs.texts.ids, maps[1](bag.vectors(pairs.texts.values)))
    return World("Flickr8k, closed form", pairs, Scores.from_embeddings(images, texts))


@dataclass(frozen=True)
class Row:
    """One correction on one data set: its report, beside the uncorrected one."""

    correction: str
    options: str
    report: Report
    base: Report | None = None

    def lines(self) -> Iterator[str]:
        """The rows of the Markdown table, one for each direction."""
        for direction, direction_name in DIRECTIONS.items():
            hubs = Hubs.of(self.report.top[direction], k=10)
            cells = " | ".join(self._cells(direction))
            hub_cells = f"{hubs.skewness:.2f} | {hubs.largest}"
            yield f"| {direction_name} | {self.correction} | {self.options} | {cells} | {hub_cells} |"

    def _cells(self, direction: str) -> Iterator[str]:
        against = None if self.base is None else compare([self.report, self.base], samples=20_000)
        for measure in MEASURES:
            yield f"{100 * self.report.value(measure, direction=direction, view='pairs'):.1f}"
            if against is None:
                yield ""
                continue
            difference = against.line(measure, direction=direction, view="pairs").between(0, 1)
            low, high = 100 * difference.interval.low, 100 * difference.interval.high
            mark = "**" if difference.significant() else ""
            yield f"{mark}{100 * difference.value:+.1f}{mark} [{low:+.1f}, {high:+.1f}]"


def rows(world: World) -> Iterator[Row]:
    """The uncorrected system, then every correction with its defaults and tuned on the dev split."""
    scores, part = world.part("test")
    dev = world.part("dev")
    base = evaluate(scores, part, measures=[*MEASURES, "rsum"], name="uncorrected")
    yield Row("none", "", base)
    for name in CORRECTIONS:
        tuned = tune(name, *dev)
        log(f"{world.name}: {name} tuned to {tuned}")
        for kind, options in (("defaults", {}), ("tuned", tuned)):
            corrected = scores.correct(name, **options)
            report = evaluate(corrected, part, measures=[*MEASURES, "rsum"], name=f"{name}, {kind}")
            title = kind + (": " + ", ".join(f"{k} = {v:g}" for k, v in options.items()) if options else "")
            yield Row(name, title, report, base)


def uneven(world: World) -> Iterator[tuple[str, Report, Report]]:
    """Text queries that ask for a tenth of the images only: a hub in the test queries is then what was asked for.

    Corrected by the test queries themselves, and by the texts of the dev split.
    """
    scores, part = world.part("test")
    query_ids = part.restrict(part.images.ids[: len(part.images) // 10]).texts.ids
    part_scores = scores.T.restrict(queries=query_ids)
    bank = world.part("dev")[0].candidate_vectors
    judged = part.judged("pairs", "t2i").restrict(queries=query_ids)
    base = evaluate(part_scores, judged, measures=MEASURES, name="uncorrected")
    yield "none", base, base
    for name in CORRECTIONS:
        for kind, corrected in (
            ("the queries", part_scores.correct(name)),
            ("dev texts", part_scores.correct(name, bank=bank)),
        ):
            yield f"{name}, bank: {kind}", evaluate(corrected, judged, measures=MEASURES, name=name), base


def uneven_table(world: World) -> tuple[str, list[Claim]]:
    lines, claims = ["| correction | R@1 | change of R@1 | R@10 | hub skewness |\n|---|---|---|---|---|"], []
    for name, report, base in uneven(world):
        hubs = Hubs.of(report.top["run"], k=10)
        change = ""
        if name != "none":
            r1_change = compare([report, base], samples=20_000).line("R@1").between(0, 1)
            mark = "**" if r1_change.significant() else ""
            interval = f"[{100 * r1_change.interval.low:+.1f}, {100 * r1_change.interval.high:+.1f}]"
            change = f"{mark}{100 * r1_change.value:+.1f}{mark} {interval}"
            goal = f"{world.name}, queries for a tenth of the images: R@1 after {name} vs before"
            note = f"change {change.replace('*', '')} points"
            if name.endswith("the queries"):
                note += "; an image that many of these queries ask for looks like a hub to a bank of these queries"
            rates = report.value("R@1"), base.value("R@1")
            claims.append(Claim(goal, *rates, goal=">= 1", note=note, source="limner"))
        cells = f"{100 * report.value('R@1'):.1f} | {change} | {100 * report.value('R@10'):.1f}"
        lines.append(f"| {name} | {cells} | {hubs.skewness:.2f} |")
    title = f"**{world.name}, text → image, queries that ask for a tenth of the images only**"
    return "\n".join([title, "", *lines]), claims


def claims_of(world: World, table_rows: list[Row]) -> Iterator[Claim]:
    base = table_rows[0].report
    for row in table_rows[1:]:
        kind = row.options.split(":")[0]
        note = f"{row.options}, chosen on the dev split" if kind == "tuned" else ""
        yield Claim(
            f"{world.name}: rsum after {row.correction} ({kind}) vs before",
            row.report.value("rsum", view="pairs"), base.value("rsum", view="pairs"),
            goal=">= 1", note=note, source="limner")  # fmt: skip


def reference_claims(world: World, base: Report) -> Iterator[Claim]:
    """What is known of the two spaces."""
    if world.name == "clip-unsplash500":
        full_report = evaluate(world.scores, world.collection, measures="R@1")
        yield Claim(
            "clip-unsplash500, all 500: image to text R@1",
            full_report.value("R@1", direction="i2t"),
            0.492,
            goal="within 0.0005",
            source="peer",
        )
        return
    for measure, value in (("R@1", 13.5), ("R@5", 36.0), ("R@10", 48.3)):
        yield Claim(
            f"Flickr8k closed form: text to image {measure} vs ridge regression on the same features",
            100 * base.value(measure, direction="t2i", view="pairs"), value, goal=">= 1", source="peer")  # fmt: skip


def run(options: argparse.Namespace) -> Iterator[Claim]:
    if options.data is None:
        raise SystemExit("proofs/corrections.py needs --data DIR, the folder of real data sets (or LIMNER_DATA)")
    worlds = [unsplash(options.data / "clip-unsplash500")]
    if not options.quick:
        worlds.append(flickr8k(options.data / "flickr8k", words=3000))
    tables = []
    for world in worlds:
        table_rows = list(rows(world))
        yield from reference_claims(world, table_rows[0].report)
        yield from claims_of(world, table_rows)
        test = world.collection.split("test")
        title = f"**{world.name}**: {len(test.images):,} images and {len(test.texts):,} texts of the test split"
        tables.append("\n".join([title, "", HEADER, *(line for row in table_rows for line in row.lines())]))
    if not options.quick:
        table, claims = uneven_table(worlds[-1])
        tables.append(table)
        yield from claims
    text = "\n\n".join(tables) + "\n"
    if options.save and not options.quick:
        result_file(Path(__file__), options, ".md").write_text(text, encoding="utf-8")
    log(text)


if __name__ == "__main__":
    main(run, __doc__)
