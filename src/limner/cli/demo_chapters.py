"""The demo: an evaluation on the built-in synthetic data, step by step.

Two systems are trained on `scenes`, evaluated in both directions against the usual labels and against complete
judgements, compared, and reported on a page. All numbers are measured during the run.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import scipy.linalg  # noqa: F401  # its BLAS is loaded first, so that the limit on threads holds for decompositions, too

import limner
from limner.core.collection import Collection, Items
from limner.core.options import OptionValues
from limner.core.paths import folder_for
from limner.core.progress import SILENT, Progress
from limner.evaluation.comparison import Comparison, Difference
from limner.evaluation.reports.report import Report
from limner.scores.parallel_blocks import one_thread_per_product

Stage = Callable[[str], AbstractContextManager[Progress]]
"""Opens a named stage and returns a progress callback."""

BASELINE, BETTER = "colours", "histograms"
FILES = ("report.html", "report.json", "baseline.json", "comparison.json", "comparison.md")
_DIRECTIONS = {"i2t": "image -> caption", "t2i": "caption -> image"}
_LABELS = {"pairs": "the usual labels", "complete": "every true pair"}


@dataclass(frozen=True)
class Chapter:
    """One section of the demo, as text and as plain values."""

    title: str
    text: str
    data: OptionValues = field(default_factory=dict)


def silent(_: str) -> AbstractContextManager[Progress]:
    """A stage that shows nothing."""
    return nullcontext(SILENT)


def chapters(out: str | Path, *, images: int = 1000, seed: int = 0, stage: Stage = silent) -> Iterator[Chapter]:
    """Runs the demo section by section, and writes the files to `out`.

    Args:
        out: Output folder; created if missing.
        images: Number of images.
        seed: Random seed.
        stage: Shows progress.
    """
    began = time.perf_counter()
    folder = folder_for(out)
    with stage(f"composing {images:,} scenes"):
        world = limner.load("scenes", images=images, seed=seed)
    yield _world(world)
    with stage("drawing the images") as step:
        world = _drawn(world, step)
    unseen = world.test
    with one_thread_per_product():  # the matrices are small: further threads would mostly wait for each other
        reports = [_system(name, world, unseen, stage) for name in (BETTER, BASELINE)]
    yield _systems(world)
    yield _numbers(reports, unseen)
    yield _hidden(reports[0])
    with stage("comparing the two systems"):
        compared = limner.compare(reports)
    yield _significance(compared)
    with stage("writing the report"):
        _write(folder, reports, compared, unseen)
    yield _next_steps(folder, time.perf_counter() - began)


# --- the work ---------------------------------------------------------------------------------------------------


def _system(name: str, world: Collection, unseen: Collection, stage: Stage) -> Report:
    """Trains a system on the training split and evaluates it on images that it has not seen."""
    with stage(f"training {name}") as step:
        model: Any = limner.train(world, name, progress=step)
    with stage(f"evaluating {name}") as step:
        return limner.evaluate(model.scores(unseen, progress=step), unseen, name=name)


def _drawn(world: Collection, progress: Progress) -> Collection:
    """The collection with its images drawn once: both systems read them, and the report shows some.

    Images for development stay undrawn: neither system chooses settings on them.
    """
    pictures = list(world.images.values)
    needed = sorted(world.images.ids.find([*world.train.images.ids, *world.test.images.ids]).tolist())
    for done, row in enumerate(needed, start=1):
        pictures[row] = pictures[row]()
        progress(done, len(needed))
    return replace(world, images=Items(world.images.ids, pictures, world.images.fields))


def _write(folder: Path, reports: Sequence[Report], compared: Comparison, collection: Collection) -> None:
    better, baseline = reports
    better.save(folder / "report.html", collection=collection, other_reports=[baseline], comparison=compared)
    better.save(folder / "report.json")
    baseline.save(folder / "baseline.json")
    compared.save(folder / "comparison.json")
    compared.save(folder / "comparison.md")


# --- the text ---------------------------------------------------------------------------------------------------


def _world(world: Collection) -> Chapter:
    labelled, true = len(world.judgements), len(world.extra["complete"])
    data = {"images": len(world.images), "texts": len(world.texts), "labelled": labelled, "true": true}
    image_counts = world.judged("complete", "t2i").counts
    common = int(image_counts[:100].argmax())
    text = _wrapped(
        f"limner drew {data['images']:,} images and wrote {data['texts']:,} captions. The usual labels only tell "
        f'which caption was written for which image: {labelled:,} pairs. But "{world.texts.values[common]}" is true '
        f"of {image_counts[common]:,} images, and limner knows what each caption means, so it knows all {true:,} true "
        f"pairs. The labels miss {1 - labelled / true:.0%} of them."
    )
    return Chapter("A data set in which all matches are known", text, data)


def _systems(world: Collection) -> Chapter:
    train, unseen = world.train, world.test
    data = {"systems": [BASELINE, BETTER], "trained on": len(train.images), "measured on": len(unseen.images)}
    text = (
        f"{BASELINE:<12}which colours are where in the image against the words of the\n"
        f"{'':<12}caption, mapped into one space in closed form\n"
        f"{BETTER:<12}the same with colours and the directions of edges\n"
        f"Both are trained on {len(train.images):,} images and evaluated on {len(unseen.images):,} others with\n"
        f"{len(unseen.texts):,} captions."
    )
    return Chapter("Two simple systems", text, data)


def _numbers(reports: Sequence[Report], collection: Collection) -> Chapter:
    head = ("R@1, %", *((*(r.system for r in reversed(reports)), "by chance") * len(_LABELS)))
    rows, data = [head], {}
    for direction, title in _DIRECTIONS.items():
        cells: list[str] = []
        for view in _LABELS:
            values = [_r1(r, direction, view) for r in reversed(reports)] + [_chance(collection, direction, view)]
            cells += [f"{100 * value:.1f}" for value in values]
            data[f"{view} {direction}"] = dict(zip((BASELINE, BETTER, "chance"), values, strict=True))
        rows.append((title, *cells))
    first, widths = len(_DIRECTIONS["t2i"]), [len(name) + 1 for name in head[1:]]
    across = sum(widths) // len(_LABELS)
    header = " " * first + "".join(f"{label:^{across}}" for label in _LABELS.values())
    lines = [
        row[0].ljust(first) + "".join(cell.rjust(width) for cell, width in zip(row[1:], widths, strict=True))
        for row in rows
    ]
    return Chapter("How often is the first answer right?", "\n".join([header.rstrip(), *lines]), data)


def _hidden(report: Report) -> Chapter:
    """Relevant answers that the usual labels count as wrong, and R-precision."""
    rescued = {}
    for direction in _DIRECTIONS:
        labelled, true = (_r1(report, direction, view) for view in ("pairs", "complete"))
        rescued[direction] = (true - labelled) / max(1 - labelled, 1e-12)
    r_precision = report.value("RP", direction="t2i", view="complete")
    text = _wrapped(
        f"Of the first answers of {report.system} that the usual labels count as wrong, {rescued['i2t']:.0%} of the "
        f"captions and {rescued['t2i']:.0%} of the images are right. And the first answer is not everything: of all "
        f"images that match a caption, the system ranks {r_precision:.0%} within the top R, where R is their number "
        "(R-precision)."
    )
    return Chapter(
        "What one-to-five labels hide", text, {"wrong that are right": rescued, "RP t2i complete": r_precision}
    )


def _significance(compared: Comparison) -> Chapter:
    """Whether the difference is significant."""
    lines = [compared.line("R@1", direction=d, view="complete") for d in _DIRECTIONS]
    differences = [f"{_DIRECTIONS[n.direction]:<20}{_gain(n.differences[0])}" for n in lines]
    tested = [n for n in compared.lines if n.differences]
    won = sum(bool(n.beaten(0, compared.level)) for n in tested)
    lost = sum(bool(n.beaten(1, compared.level)) for n in tested)
    verdict = (
        f"{compared.systems[0]} is significantly better on {won} of {len(tested)} measures, worse on {lost} "
        f"(p < {compared.level:g})."
    )
    data = {"better on": won, "worse on": lost, "measures": len(tested), "rows": compared.rows()}
    return Chapter("Is the difference significant?", "\n".join(["R@1, every true pair", *differences, verdict]), data)


def _gain(difference: Difference) -> str:
    span, p = difference.interval, difference.test.p_value
    interval = "" if span is None else f" [{100 * span.low:+.1f}, {100 * span.high:+.1f}]"
    return f"{100 * difference.value:+.1f}{interval}, p {'< 0.0001' if p < 0.0001 else f'= {p:.4f}'}"


def _next_steps(folder: Path, seconds: float) -> Chapter:
    text = (
        f"Query by query: limner compare {folder / 'report.json'} {folder / 'baseline.json'}\n"
        "With your own embeddings, similarities, runs, or images and captions:\n"
        "limner evaluate --help\n"
        f"Done in {seconds:.0f} s. The report: {folder / 'report.html'}"
    )
    return Chapter(
        "Where to look", text, {"files": [str(folder / name) for name in FILES], "seconds": round(seconds, 1)}
    )


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 76, break_long_words=False, break_on_hyphens=False)


def _r1(report: Report, direction: str, view: str) -> float:
    return report.value("R@1", direction=direction, view=view)


def _chance(collection: Collection, direction: str, view: str) -> float:
    """How often a random answer is right."""
    judged = collection.judged(view, direction)
    return float(judged.counts.mean()) / len(judged.candidates)
