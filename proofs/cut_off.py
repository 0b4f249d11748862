"""Is the promised precision of a cut-off kept? 1,000 calibrations of each collection, beside two usual thresholds.

A collection is taken as the whole population: its precision at a threshold is then known exactly. A calibration draws
images from it at random, with replacement, and looks for the cut-off of a promise; a promise is broken where the
precision over the population is below it, and may be in at most 5 percent of calibrations. Four in five queries are
asked as they are, one in five with all its right answers removed. Beside it: the lowest threshold that had the
promised precision on the same draw with all answers there (the usual way), and one fixed cosine and one fixed z-score
of the query's scores for all collections, set once to give the promise on the first. A third of the images are the
bank and propose, in one of 4 or 20 random ways; the precision is that over the others.

The same with sets: a query shows its three best hits or none, and the promise is that one of them is right.

A promise for which no calibration finds a cut-off is out of reach: that says nothing about how well it is kept, and
counts as a miss.

Systems: "histograms" is limner's small model; "captions" scores an image by its other captions (TF-IDF); the simulated
one is the truth with noise; "CLIP" are stored vectors of CLIP ViT-B/32. Flickr8k, COCO and CLIP's vectors are used
where LIMNER_DATA has them. With `--uneven` the collections are simulated: images have different numbers of queries, and
the more queries an image has, the vaguer they are, so that a precision over images is far above that over queries.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import limner
from claims import Claim, log, main, set_part
from limner.core.judgements import Judgements
from limner.search.cut_off import calibrate, confidence_of_sets, judged_queries
from limner.stats import precision_threshold
from limner.stats.selective import Answers
from limner.systems.hold_out import outside

PROMISES = (0.5, 0.7, 0.9)
CLIP, ANSWERED = "Unsplash, CLIP", {0.7: 30, 0.9: 15}
"""The share of the queries of a real system that each promise is to answer, in percent."""
BANKS = 20
"""Random thirds of the images as banks, a fifth as many for many queries; calibrations take them in turn."""
SET = 3
"""The size of a set of hits of which one is to be right."""
ABSENT, K, DRAWS, USUAL = 0.2, 10, 1000, 100
FOLD = 1000
"""Images of COCO's test split: the first of the five usual folds."""
IMAGES = 500
"""Images of a simulated collection, and of each sample from it."""
SIZES = {
    "1 or 9 queries of an image": ((1, 9), (0.75, 0.25)),
    "1 or 5 queries of an image": ((1, 5), (0.75, 0.25)),
    "1 to 20 queries of an image": (tuple(range(1, 21)), tuple(0.7**n * 0.3 / (1 - 0.7**20) for n in range(20))),
}
SKILLS = {"confidences that say nothing": 0.0, "confidences that say much": 3.0}


def by_captions(part: limner.Collection) -> np.ndarray:
    """Texts by images: the similarity of a caption to the image's other captions."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(sublinear_tf=True).fit_transform(part.texts.values)
    pairs = part.judged(part.judgements.name, "t2i").relevant
    about = np.zeros(len(part.texts), dtype=np.int64)
    about[pairs.rows] = pairs.columns
    sums = np.zeros((len(part.images), words.shape[1]), dtype=np.float32)
    np.add.at(sums, about, words.toarray().astype(np.float32))
    similarities = np.asarray(words @ (sums / np.linalg.norm(sums, axis=1, keepdims=True)).T)
    left = sums[about] - words.toarray()
    left /= np.maximum(np.linalg.norm(left, axis=1, keepdims=True), 1e-9)
    similarities[np.arange(len(similarities)), about] = np.asarray(words.multiply(left).sum(axis=1)).ravel()
    return similarities


def simulated(part: limner.Collection) -> limner.Scores:
    """The complete truth with noise, hubs among the images and vague texts."""
    right, rng = part.judged("complete", "t2i").relevant, np.random.default_rng(0)
    texts, images = len(part.texts), len(part.images)
    scores = 0.18 * rng.standard_normal((texts, images)) + 0.15 * rng.standard_normal(images)
    scores[right.rows, right.columns] += rng.choice([0.2, 1.0], texts, p=[0.4, 0.6])[right.rows]
    return limner.Scores.from_matrix(scores, part.texts.ids, part.images.ids)


def collections(quick: bool) -> Iterator[tuple[str, list[Answers], Answers, Answers]]:
    """Name, confidences with several banks, plain scores in the same form, and their z-scores."""
    world = limner.load("scenes", images=400 if quick else 1000)
    outside_part = outside(world, world.train)
    model = limner.train(world, "histograms")
    vectors = (model.encode_texts(outside_part.texts), model.encode_images(outside_part.images))
    yield (
        "scenes by captions",
        *text_query_answers(
            limner.Scores.from_matrix(by_captions(outside_part), outside_part.texts.ids, outside_part.images.ids),
            outside_part,
        ),
    )
    yield "scenes, a good system (simulated)", *text_query_answers(simulated(outside_part), outside_part)
    yield "scenes, histograms", *text_query_answers(limner.Scores.from_embeddings(*vectors), outside_part)
    data = Path(os.environ.get("LIMNER_DATA", "no folder"))
    if (data / "flickr8k").is_dir() and not quick:
        photographs = limner.load(f"flickr8k:{data / 'flickr8k'}")
        tested = photographs.restrict([*photographs.dev.images.ids, *photographs.test.images.ids])
        scores = limner.Scores.from_matrix(by_captions(tested), tested.texts.ids, tested.images.ids)
        yield "Flickr8k by captions", *text_query_answers(scores, tested)
    if (data / "coco").is_dir() and not quick:
        photographs = limner.load(f"coco-5k:{data / 'coco'}")
        tested = photographs.restrict(photographs.images.ids[:FOLD])
        scores = limner.Scores.from_matrix(by_captions(tested), tested.texts.ids, tested.images.ids)
        yield "COCO by captions, judged by CxC and ECCV Caption", *text_query_answers(scores, tested)
    if (data / "clip-unsplash500").is_dir() and not quick:
        texts, images = (np.load(data / f"clip-unsplash500/{side}_embeddings.npy") for side in ("text", "image"))
        pairs = Judgements.from_pairs((i, i) for i in range(len(texts)))
        yield CLIP, *evidence(limner.Scores.from_embeddings(texts, images), pairs, None)


def text_query_answers(scores: limner.Scores, part: limner.Collection) -> tuple[list[Answers], Answers, Answers]:
    return evidence(scores, *judged_queries(part, "t2i"))


def evidence(scores: limner.Scores, right: Judgements, images: object) -> tuple[list[Answers], Answers, Answers]:
    banks = BANKS if len(scores.queries) <= 2000 else BANKS // 5
    calibrated = [calibrate(scores, right, images=images, seed=seed).answers.first(K) for seed in range(banks)]
    matrix = np.asarray(scores)
    standard = (matrix - matrix.mean(axis=1, keepdims=True)) / matrix.std(axis=1, keepdims=True)
    return calibrated, plain(scores, matrix, right, calibrated[0]), plain(scores, standard, right, calibrated[0])


def plain(scores: limner.Scores, matrix: np.ndarray, right: Judgements, calibrated: Answers) -> Answers:
    """The same lists with plain scores as confidences."""
    owner = np.asarray(calibrated.clusters)
    is_right = np.zeros(matrix.shape, dtype=bool)
    is_right[
        scores.queries.positions(right.queries)[right.rows],
        scores.candidates.positions(right.candidates)[right.columns],
    ] = True
    rows = np.linspace(0, len(matrix) - 1, len(owner)).astype(int)
    order = np.argsort(-matrix[rows], axis=1, kind="stable")[:, :K]
    left = np.sort(np.where(is_right[rows], -np.inf, matrix[rows]), axis=1)[:, ::-1][:, :K]
    top_values = (np.take_along_axis(each[rows], order, axis=1) for each in (matrix, is_right))
    return Answers(*top_values, left, np.arange(len(rows)))


def uneven(size: tuple[int, ...], chances: tuple[float, ...], skill: float) -> Answers:
    """Queries with one hit each: right nearly always for an image with one query, rarely for one with most."""
    rng = np.random.default_rng(0)
    sizes = rng.choice(size, IMAGES, p=chances)
    clusters = np.repeat(np.arange(IMAGES), sizes)
    vague = (sizes[clusters] - 1) / (max(size) - 1)
    luck = rng.standard_normal(IMAGES)[clusters]
    right = rng.random(len(clusters)) < 0.97 - 0.7 * vague
    confidence = skill * right + luck + rng.standard_normal(len(clusters))
    null_values = luck + rng.standard_normal(len(clusters)) - 2 * (skill > 0)
    return Answers(confidence[:, None], right[:, None], null_values[:, None], clusters)


class Population:
    """A collection as a population: exact precision at any threshold, and samples of its images."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        proposing = np.zeros(len(answers.confidence), bool) if answers.proposing is None else answers.proposing
        self.proposing, self.testing = (_images(answers, rows) for rows in (proposing, ~proposing))
        tests = answers.take(~proposing)
        best = tests.confidence.max(axis=1)
        self.grid = np.unique(np.concatenate([best, tests.without.max(axis=1)]))
        parts = [tests.responses(some) for some in np.array_split(self.grid, max(len(self.grid) // 500, 1))]
        self.precision = np.concatenate([part.precision(ABSENT) for part in parts])
        self.answered, self.silent = (
            np.concatenate([value.mean(axis=0) for value in values])
            for values in ([part.answered for part in parts], [~part.fooled for part in parts])
        )

    def place(self, threshold: float) -> int:
        """The threshold lies between two of the confidences of the population: the upper of them."""
        return int(min(np.searchsorted(self.grid, threshold), len(self.grid) - 1))

    def at(self, threshold: float) -> float:
        """The precision over the population."""
        return float(self.precision[self.place(threshold)])

    def drawn(self, rng: np.random.Generator) -> Answers:
        """The queries of random images; an image that is drawn twice counts as two."""
        chosen = [
            images[int(place)]
            for images in (self.proposing, self.testing)
            for place in rng.integers(0, max(len(images), 1), len(images))
        ]
        sample = self.answers.take(np.concatenate(chosen))
        return replace(sample, clusters=np.repeat(np.arange(len(chosen)), [*map(len, chosen)]))


def _images(answers: Answers, rows: np.ndarray) -> list[np.ndarray]:
    """The rows of each image among some rows."""
    places = np.flatnonzero(rows)
    labels = np.unique(np.asarray(answers.clusters)[places], return_inverse=True)[1]
    order = np.argsort(labels, kind="stable")
    return np.split(places[order], np.flatnonzero(np.diff(labels[order])) + 1) if len(places) else []


def usual(sample: Answers, promise: float) -> float:
    """The lowest threshold with the promised precision on the sample, with all its answers there."""
    levels = np.unique(np.quantile(sample.confidence.max(axis=1), 1 - np.geomspace(1, 0.002, 60)))
    enough = sample.responses(levels).precision(0.0) >= promise
    return float(levels[np.argmax(enough)]) if enough.any() else float(levels[-1])


def run(options: argparse.Namespace) -> Iterator[Claim]:
    draws = 40 if options.quick else DRAWS
    if options.uneven:
        set_part(options, "uneven")
        yield from run_uneven(draws)
        return
    _tasks.extend(tasks(draws, options.quick))
    with multiprocessing.get_context("fork").Pool(options.workers) as pool:
        for claims in pool.imap(_claims_of, range(len(_tasks)), chunksize=1):
            yield from claims


_tasks: list[tuple[Any, ...]] = []
"""The arguments of `calibrations`, for processes that are forked after they are known."""


def tasks(draws: int, quick: bool) -> Iterator[tuple[Any, ...]]:
    """Every collection with every promise, for single hits and for sets."""
    fixed = None
    for name, answers, *others in collections(quick):
        populations, plain_populations = [Population(each) for each in answers], [Population(each) for each in others]
        if fixed is None:
            fixed = {promise: [usual(each.answers, promise) for each in plain_populations] for promise in PROMISES}
        for promise in PROMISES:
            note_end = "".join(
                f"; fixed {kind} {threshold:.2f}: {each.at(threshold):.3f}"
                for kind, each, threshold in zip(("cosine", "z-score"), plain_populations, fixed[promise], strict=True)
            )
            yield name, populations, promise, draws, note_end
        sets = [Population(each.sets(SET, partial(confidence_of_sets, "sum"))) for each in answers]
        for promise in PROMISES:
            yield f"{name}, one of {SET} right", sets, promise, draws, ""


def _claims_of(number: int) -> list[Claim]:
    return list(calibrations(*_tasks[number]))


def run_uneven(draws: int) -> Iterator[Claim]:
    """Images with different numbers of queries; the precision over images stands beside.

    Where confidences say nothing, hardly a threshold keeps any of the promises over queries, and none may be made.
    """
    for sizes, (size, chances) in SIZES.items():
        for words, skill in SKILLS.items():
            answers = uneven(size, chances, skill)
            counts = answers.sizes[np.asarray(answers.clusters)]
            alike = np.average(answers.right[:, 0], weights=1 / counts)
            note_end = f"; all first hits: {answers.right.mean():.3f} right over queries, {alike:.3f} over images"
            for promise in PROMISES[:2]:
                name = f"{sizes}, {words}"
                yield from calibrations(name, [Population(answers)], promise, draws, note_end, reachable=skill > 0)


def calibrations(
    name: str, populations: list[Population], promise: float, draws: int, note_end: str, *, reachable: bool = True
) -> Iterator[Claim]:
    """How often a promise is broken, or that no calibration finds a cut-off for one that should be within reach."""
    rng = np.random.default_rng(0)
    cut_offs, loose = [], []
    for seed in range(draws):
        population = populations[seed % len(populations)]
        sample = population.drawn(rng)
        threshold = precision_threshold(sample, precision=promise, absent=ABSENT, seed=seed).value
        if threshold is not None:
            place = population.place(threshold)
            cut_offs.append((population.precision[place], population.answered[place], population.silent[place]))
        if seed < USUAL:
            loose.append(population.at(usual(sample, promise)))
    precisions, answered, silent = np.array(cut_offs).reshape(-1, 3).T
    broken = 100 * float((precisions < promise).sum()) / draws
    summary = (
        f"precision {precisions.mean():.3f} on average, {precisions.min():.3f} at least"
        if len(precisions)
        else "out of reach"
    )
    note = (
        f"cut-off found in {len(precisions)} of {draws}: {summary}, {100 * answered.sum() / draws:.1f}% answered, "
        f"{100 * (1 - (1 - silent).sum() / draws):.1f}% of those without an answer get none; usual threshold "
        f"{np.mean(loose):.3f}, broken in {100 * np.mean(np.array(loose) < promise):.0f}%{note_end}"
    )
    log(f"{name}, promise {promise}: broken {broken:.1f}%; {note}")
    if len(precisions) or not reachable:
        yield Claim(f"{name}, promise {promise}: calibrations that break it, percent", broken, goal="<= 5", note=note)
    else:
        claim = f"{name}, promise {promise}: calibrations that find a cut-off, percent"
        yield Claim(claim, 0, goal=">= 1", note=note)
    if name == CLIP and promise in ANSWERED:
        claim = f"{name}, promise {promise}: queries answered, percent"
        yield Claim(claim, 100 * float(answered.sum()) / draws, goal=f">= {ANSWERED[promise]}", note=note)
    if promise == max(PROMISES):
        claim = f"{name}, promise {promise}: queries without an answer that get none, percent"
        yield Claim(claim, 100 * (1 - float((1 - silent).sum()) / draws), goal=">= 95", note=note)


def configure(parser: argparse.ArgumentParser) -> None:
    """Which collections."""
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--uneven", action="store_true", help="only simulated images with uneven numbers of queries")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
