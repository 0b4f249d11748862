"""probe: does a system read its captions? Accuracy on hard negatives, against baselines that see no image.

- Pair accuracy: the right caption scores higher than every foil. Tied scores count as a random guess, so that a system
  that cannot tell captions apart gets chance accuracy.
- Text score: each of two images prefers its own caption. Image score: each of two captions prefers its own image. Group
  score: both (Thrush et al. 2022). Equal scores do not count here, as published.

Every table has two blind baselines: a bigram language model of captions, and caption length. A subset that they solve
does not test whether a system uses images.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from limner import stats
from limner.core.arrays import FloatArray
from limner.core.errors import LimnerError
from limner.core.progress import Progress, ProgressLike, Stages, as_progress, counting
from limner.datasets.probe_files import Probe, ProbeCase
from limner.evaluation.tables import Document, Grid, TableReport, json_ready, percent
from limner.language.bigram import BigramModel, words
from limner.scores import Scores

PAIR, TEXT, IMAGE, GROUP = "pair accuracy", "text score", "image score", "group score"
BLIND = ("bigrams", "length")
LEFT_OUT = "the right captions of this probe, for each case without the images that have one of its captions"
SOLVED = 0.1
"""A subset counts as solved by a blind baseline that is this far above chance, with its interval above chance too."""

_SYSTEM = "system"
CaptionScores = Callable[[ProbeCase], list[float]]
"""The scores of the captions of a case, right ones first, by a baseline that sees no image."""


@dataclass(frozen=True)
class ProbeLine:
    """One measure on one subset.

    Args:
        subset: The subset; "all" for all of them.
        measure: `PAIR`, `TEXT`, `IMAGE` or `GROUP`.
        cases: How many cases.
        chance: Expected value of random guessing.
        system: The system's value with its interval; None without a system.
        blind: Values of the blind baselines by name, with their intervals.
    """

    subset: str
    measure: str
    cases: int
    chance: float
    system: stats.Interval | None
    blind: dict[str, stats.Interval]

    @property
    def solved_blind(self) -> bool:
        """Whether a baseline that sees no image is clearly better than chance."""
        return any(each.low > self.chance and each.estimate >= self.chance + SOLVED for each in self.blind.values())


@dataclass(frozen=True)
class ProbeReport(TableReport):
    """The results of a probe. Prints as a table.

    Args:
        system: Name of the system; "" without one.
        probe: Name of the probe.
        lines: By subset and measure.
        notes: Remarks needed to read the table.
    """

    kind = "probe"
    system: str
    probe: str
    lines: tuple[ProbeLine, ...]
    notes: tuple[str, ...] = ()

    def line(self, measure: str = PAIR, *, subset: str = "all") -> ProbeLine:
        """The line of a measure and subset."""
        matching = [line for line in self.lines if (line.subset, line.measure) == (subset, measure)]
        if not matching:
            available = "; ".join(f"{line.subset} {line.measure}" for line in self.lines)
            raise LimnerError(f"no line {subset} {measure}: there are {available}")
        return matching[0]

    def rows(self) -> list[dict[str, object]]:
        """One flat record per line, as in the CSV file."""
        return [_record(line) for line in self.lines]

    def describe(self) -> dict[str, object]:
        """The whole report as plain values."""
        return {"system": self.system, "probe": self.probe, "lines": json_ready(self.rows()), "notes": list(self.notes)}

    def document(self) -> Document:
        """What the report shows."""
        head = ["subset", "measure", "cases", "chance", *([self.system] if self.system else []), *BLIND, "solved blind"]
        rows = [tuple(head)]
        for line in self.lines:
            values = [*([line.system] if line.system else []), *(line.blind[name] for name in BLIND)]
            cells = [line.subset, line.measure, f"{line.cases:,}", f"{100 * line.chance:.1f}", *map(percent, values)]
            rows.append((*cells, "yes" if line.solved_blind else ""))
        title = f"{self.system + ' on ' if self.system else ''}{self.probe}"
        return Document(title, [Grid(title, tuple(rows))], self.notes)


def _record(line: ProbeLine) -> dict[str, object]:
    record: dict[str, object] = {
        "subset": line.subset,
        "measure": line.measure,
        "cases": line.cases,
        "chance": line.chance,
    }
    named = {"system": line.system} if line.system else {}
    for name, value in {**named, **line.blind}.items():
        record |= {name: value.estimate, f"{name}_low": value.low, f"{name}_high": value.high}
    return {**record, "solved_blind": line.solved_blind}


def probe(
    source: Probe,
    scores: Scores | None = None,
    *,
    name: str = "system",
    corpus: Sequence[str] | None = None,
    progress: ProgressLike = None,
) -> ProbeReport:
    """Measures a system on a probe, against baselines that see no image.

    Args:
        source: The probe.
        scores: Scores of the system, images by texts of `source.collection()`; None for the baselines alone.
        name: Name of the system in the table.
        corpus: Captions to train the language model on. Without it, the right captions of the probe itself, for each
            case without those of its images and of every image that has one of its captions or foils as a caption.
        progress: Called with (cases done, cases in total); each case is scored by every baseline and the system.

    Returns:
        The report.
    """
    progress = as_progress(progress)
    blind: dict[str, CaptionScores] = {
        "bigrams": _bigrams(source, corpus),
        "length": lambda case: [-float(len(words(text))) for text in case.texts],
    }
    stages = Stages(progress, **dict.fromkeys([*blind, *([] if scores is None else [_SYSTEM])], len(source.cases)))
    tables = {
        each: [np.array([scored(case)] * len(case.images)) for case in counting(source.cases, stages[each])]
        for each, scored in blind.items()
    }
    if scores is not None:
        tables[_SYSTEM] = _scored(source, scores, stages[_SYSTEM])
    lines = []
    subsets = list(dict.fromkeys(case.subset for case in source.cases))
    every = ["all", *(subsets if len(subsets) > 1 else [])]
    for subset in counting(every, progress.step("computing intervals", "subsets", total=len(every))):
        rows = [row for row, case in enumerate(source.cases) if subset in ("all", case.subset)]
        subset_tables = {each: [table[row] for row in rows] for each, table in tables.items()}
        lines += _lines(subset, [source.cases[row] for row in rows], subset_tables)
    trained = f"{len(corpus):,} captions" if corpus is not None else LEFT_OUT
    notes = (f"the language model was trained on {trained}",)
    return ProbeReport(name if scores is not None else "", source.name, tuple(lines), notes)


def _bigrams(source: Probe, corpus: Sequence[str] | None) -> CaptionScores:
    """The scores of captions by a language model that was trained neither on the captions of the case nor on its foils.

    A foil may be the caption of another image. If its image were not left out like the image of the case, the foil
    would be the only one of the two that the model knows.
    """
    if corpus is not None:
        model = BigramModel(corpus)
        return lambda case: [model.score(text) for text in case.texts]
    pairs = list(dict.fromkeys(pair for case in source.cases for pair in case.matches))
    captions, images = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for image, text in pairs:
        captions[image].append(text)
        images[text].append(image)
    model = BigramModel(text for _, text in pairs)

    def scored(case: ProbeCase) -> list[float]:
        case_images = {image for text in case.texts for image in images.get(text, ())}
        with model.leaving_out([text for image in case_images for text in captions[image]]):
            return [model.score(text) for text in case.texts]

    return scored


def _table(case: ProbeCase, score: Callable[[str, str], float]) -> FloatArray:
    """The scores of a case: images by captions, right captions first."""
    return np.array([[score(image, text) for text in case.texts] for image in case.images])


def _scored(source: Probe, scores: Scores, progress: Progress) -> list[FloatArray]:
    collection = source.collection()
    row = {image: at for at, image in enumerate(scores.queries)}
    column = {text: collection.texts.ids[at] for at, text in enumerate(collection.texts.values)}
    place = {text: at for at, text in enumerate(scores.candidates)}
    lost = [i for i in collection.images.ids if i not in row] + [t for t in collection.texts.ids if t not in place]
    if lost:
        raise LimnerError(f"the scores lack {len(lost):,} images or texts of the probe, such as {lost[0]!r}")
    matrix = scores.matrix()
    return [
        _table(case, lambda i, t: float(matrix[row[i], place[column[t]]])) for case in counting(source.cases, progress)
    ]


# --- measures ---------------------------------------------------------------------------------------------------


def _lines(subset: str, cases: list[ProbeCase], tables: dict[str, list[FloatArray]]) -> list[ProbeLine]:
    """The lines of one subset: pair accuracy, or the three scores for two images."""
    lines = []
    for paired, measures in ((False, (PAIR,)), (True, (PAIR, TEXT, IMAGE, GROUP))):
        rows = [row for row, case in enumerate(cases) if case.paired is paired]
        for measure in measures if rows else ():
            chosen = [cases[row] for row in rows]
            clusters = [case.images[0] for case in chosen]
            values = {
                each: stats.mean_interval(
                    [value(case, t[row], measure) for case, row in zip(chosen, rows, strict=True)], clusters=clusters
                )
                for each, t in tables.items()
            }
            chance = float(np.mean([_chance(case, measure) for case in chosen]))
            blind = {each: values[each] for each in BLIND}
            lines.append(ProbeLine(subset, measure, len(chosen), chance, values.get(_SYSTEM), blind))
    return lines


def value(case: ProbeCase, scores: FloatArray, measure: str) -> float:
    """The value of one case, computed from its scores: images by captions, right captions first.

    >>> case = ProbeCase("0", "swap", ("a", "b"), ("x", "y"))
    >>> [value(case, np.array([[2.0, 1.0], [3.0, 4.0]]), m) for m in (PAIR, TEXT, IMAGE, GROUP)]
    [1.0, 1.0, 0.0, 0.0]
    """
    if measure == PAIR:
        if case.paired:
            return float(np.mean([_best(scores[0], 1), _best(scores[1][::-1], 1)]))
        return _best(scores[0], len(case.right))
    text = scores[0, 0] > scores[0, 1] and scores[1, 1] > scores[1, 0]
    image = scores[0, 0] > scores[1, 0] and scores[1, 1] > scores[0, 1]
    return float({TEXT: text, IMAGE: image, GROUP: text and image}[measure])


def _best(scores: FloatArray, right: int) -> float:
    """Whether all right captions score above all foils.

    If r right captions tie with f foils, it is the share of their orders in which the right ones come first:
    r! f! / (r + f)!.
    """
    lowest, foils = scores[:right].min(), scores[right:]
    if (foils > lowest).any():
        return 0.0
    tied_right, tied_foils = int((scores[:right] == lowest).sum()), int((foils == lowest).sum())
    return 1.0 / math.comb(tied_right + tied_foils, tied_foils)


def _chance(case: ProbeCase, measure: str) -> float:
    """The value of a random order: r right captions come before f foils in r! f! of (r + f)! orders."""
    if measure == PAIR:
        if case.paired:
            return 0.5
        right, foils = len(case.right), len(case.foils)
        orders = np.arange(1, right + 1) / np.arange(foils + 1, foils + right + 1)
        return float(np.prod(orders))
    return 1 / 6 if measure == GROUP else 1 / 4
