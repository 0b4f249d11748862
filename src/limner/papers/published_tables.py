"""Published results as data: tables of Chun et al. 2022 (*ECCV Caption*), and the rank of a model among their 25.

A table is a csv file in `published/` whose first lines, after `#`, give its source and known errors.
A value that contradicts the rest of its paper ends in `?`; it is kept, marked as doubtful, and left out
when a model is ranked.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Literal

import numpy as np
import numpy.typing as npt

from limner.core.errors import LimnerError, UnknownName
from limner.evaluation.boards.board import BoardEntry
from limner.evaluation.boards.board_reading import as_share, view_and_measure
from limner.evaluation.boards.board_tables import SystemRanks
from limner.evaluation.measures import Measure

Direction = Literal["mean", "i2t", "t2i"]
DIRECTIONS: dict[str, str] = {"mean": "eccv-4", "i2t": "eccv-d2", "t2i": "eccv-d3"}
SIZES: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "eccv-d2": {"coco-5k": (5000, 5000), "coco-1k": (5000, 5000), "cxc": (5000, 5000), "eccv": (1261, 1261)},
    "eccv-d3": {"coco-5k": (25_000, 5000), "coco-1k": (25_000, 5000), "cxc": (24_972, 5000), "eccv": (1332, 1001)},
}
"""The numbers of queries, and of their images, in published tables."""
NAMES = ("eccv-4", "eccv-5", "eccv-d1", "eccv-d2", "eccv-d3", "eccv-e1a", "eccv-e1b")


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A published table.

    Attributes:
        name: name for `table`.
        notes: source and remarks.
        labels: row labels: models, measures, rankings.
        columns: names of the numeric columns.
        values: rows by columns.
        doubtful: True for printed values that contradict the rest of the paper.
        decimals: number of printed decimals of each column.
        fields: the text columns, by name.
    """

    name: str
    notes: str
    labels: tuple[str, ...]
    columns: tuple[str, ...]
    values: npt.NDArray[np.float64]
    doubtful: npt.NDArray[np.bool_]
    decimals: tuple[int, ...]
    fields: Mapping[str, tuple[str, ...]]

    def __post_init__(self) -> None:
        """Freezes the arrays, because tables are shared."""
        self.values.flags.writeable = self.doubtful.flags.writeable = False

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.labels)

    def column(self, name: str) -> npt.NDArray[np.float64]:
        """One column of numbers, a value per row.

        >>> table("eccv-4").column("eccv mAP@R")[:2]
        array([22.67, 35.01])
        """
        return self.values[:, self._position(name)]

    def row(self, label: str) -> dict[str, float]:
        """One row, a value per column.

        >>> table("eccv-4").row("CLIP ViT-L/14")["coco-5k R@1"]
        46.44
        """
        if label not in self.labels:
            raise UnknownName("row", label, self.labels, of=self.name)
        return dict(zip(self.columns, self.values[self.labels.index(label)].tolist(), strict=True))

    def _position(self, name: str) -> int:
        if name not in self.columns:
            raise UnknownName("column", name, self.columns, of=self.name)
        return self.columns.index(name)


@dataclass(frozen=True, slots=True)
class Placement:
    """The rank of a value among published ones.

    Attributes:
        measure: the column it is compared in, `eccv mAP@R`.
        direction: `i2t`, `t2i` or `mean` of both.
        value: the value, in percent.
        rank: 1 is best; 1 + the number of better models.
        models: number of published models it is compared with.
        better: the better models and their values, nearest first.
        equal: models with the same printed value.
        worse: the worse models, nearest first.
        decimals: number of decimals of the published values.
    """

    measure: str
    direction: str
    value: float
    rank: int
    models: int
    better: tuple[tuple[str, float], ...]
    equal: tuple[tuple[str, float], ...]
    worse: tuple[tuple[str, float], ...]
    decimals: int = 2

    def __str__(self) -> str:
        """One line with the rank and the neighbours on either side."""
        digits = self.decimals
        neighbours = [("below", self.better[:1]), ("level with", self.equal), ("above", self.worse[:1])]
        named = [f"{word} {name} ({value:.{digits}f})" for word, group in neighbours for name, value in group]
        placed = f"{self.measure} {self.direction} {self.value:.{digits}f}: rank {self.rank} of {self.models + 1}"
        return ", ".join([placed, *named])


@cache
def table(name: str) -> Table:
    """A published table by name.

    `eccv-4` (25 models, mean of both directions), `eccv-d2` (image-to-text), `eccv-d3` (text-to-image), `eccv-5` (tau-b
    between measures), `eccv-d1` (counts of preferences), `eccv-e1a` and `eccv-e1b` (scores by the source of the pairs).

    Args:
        name: one of `NAMES`.

    Returns:
        The table: the same object each time, with read-only arrays.

    >>> table("eccv-4").labels[:2], table("eccv-4").columns[:2]
    (('VSE0', 'VSE++'), ('eccv mAP@R', 'eccv RP'))
    """
    if name not in NAMES:
        raise UnknownName("published table", name, NAMES)
    text = (files("limner.papers") / "published" / f"{name}.csv").read_text(encoding="utf-8")
    lines = text.splitlines()
    notes = " ".join(line.removeprefix("#").strip() for line in lines if line.startswith("#"))
    header, *rows = csv.reader(line for line in lines if not line.startswith("#"))
    return _typed(name, notes, header, rows)


def _typed(name: str, notes: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Splits the columns into text and numbers."""
    texts = {title: tuple(column) for title, column in zip(header, zip(*rows, strict=True), strict=True)}
    numeric = [title for title in header if all(_is_number(cell) for cell in texts[title])]
    cells = np.array([texts[title] for title in numeric]).T
    values, doubtful = np.strings.rstrip(cells, "?").astype(np.float64), np.strings.endswith(cells, "?")
    fields = MappingProxyType({title: texts[title] for title in header[1:] if title not in numeric})
    decimals = tuple(max(_decimals(cell) for cell in texts[title]) for title in numeric)
    return Table(name, notes, texts[header[0]], tuple(numeric), values, doubtful, decimals, fields)


def _is_number(cell: str) -> bool:
    return cell.removesuffix("?").replace(".", "", 1).isdigit()


def _decimals(cell: str) -> int:
    return len(cell.removesuffix("?").partition(".")[2])


@cache
def scores(direction: Direction = "mean") -> Table:
    """The 25 models under every measure that the paper reports for a direction.

    `i2t` and `t2i` are Tables D.2 and D.3. `mean` is Table 4; for R@5 and R@10, which it does not have, it is the mean
    of D.2 and D.3.

    Args:
        direction: `mean`, `i2t` or `t2i`.

    Returns:
        Models by measures.

    >>> len(scores().columns), scores().row("BLIP")["coco-5k R@10"]
    (12, 94.685)
    """
    if direction not in DIRECTIONS:
        raise UnknownName("direction", direction, DIRECTIONS)
    base = table(DIRECTIONS[direction])
    if direction != "mean":
        return base
    image_queries, text_queries = table(DIRECTIONS["i2t"]), table(DIRECTIONS["t2i"])
    further = [name for name in image_queries.columns if name not in base.columns]
    halves = np.column_stack([(image_queries.column(name) + text_queries.column(name)) / 2 for name in further])
    values = np.column_stack([base.values, np.round(halves, 3)])  # a mean of two decimals has three
    doubtful = np.zeros(values.shape, dtype=bool)
    decimals = (*base.decimals, *(2 for _ in further))
    columns = (*base.columns, *further)
    return Table("eccv mean", base.notes, base.labels, columns, values, doubtful, decimals, base.fields)


def place(
    values: Mapping[str, float] | Mapping[tuple[str, str], float],
    *,
    direction: Direction = "mean",
    unit: Literal["percent", "fraction"] | None = None,
) -> list[Placement]:
    """Ranks a model among the published ones, measure by measure.

    A measure is given by protocol and measure, `eccv mAP@R` or `("eccv", "mAP@R")`; `PMRP` has no protocol, and `rsum`
    is `coco-1k rsum`. A value that prints like a published one ties with it. Doubtful published values are left out.

    Args:
        values: the model's values; unpublished measures are refused.
        direction: `mean` of both directions, `i2t` or `t2i`.
        unit: `percent` as published, or `fraction` (0 to 1). By default percent; required if no value is above 1.

    Returns:
        One placement per value, in the order given.

    >>> print(place({"eccv mAP@R": 40.5})[0])
    eccv mAP@R mean 40.50: rank 7 of 26, below BLIP (40.52), above VSE∞ (BUTD region) (40.46)
    """
    named = {_measure_name(key): float(value) for key, value in values.items()}
    scale = _scale(named, unit)
    published = scores(direction)
    return [_placed(published, direction, name, value * scale) for name, value in named.items()]


def measures(direction: Direction = "mean") -> tuple[str, ...]:
    """The measures by which a model can be ranked.

    >>> "coco-1k rsum" in measures(), "coco-1k rsum" in measures("i2t")
    (True, False)
    """
    return scores(direction).columns


def board_entries(name: str) -> list[BoardEntry]:
    """The models in a published table, for a leaderboard; doubtful values are left out.

    Args:
        name: A table of models by measures, such as "eccv-d2".
    """
    models = table(name)
    sizes, entries = SIZES.get(name, {}), []
    for at, column in enumerate(models.columns):
        view, measure = view_and_measure(column)
        queries, images = sizes.get(view, (None, None))
        for row, system in enumerate(models.labels):
            if not models.doubtful[row, at]:
                value = as_share(measure, float(models.values[row, at]), "percent")
                entries.append(BoardEntry(system, name, view, "", measure, value, queries, images))
    return entries


def ranks_of(table: Table) -> SystemRanks:
    """Published models under the measures of their table, for all of which higher is better.

    >>> ranks = ranks_of(scores()).only(columns=["coco-5k R@1", "eccv mAP@R"])
    >>> round(float(ranks.tau[0, 1]), 2)
    0.39
    """
    return SystemRanks(table.labels, table.columns, np.asarray(table.values), (1,) * len(table.columns))


def _measure_name(key: str | tuple[str, str]) -> str:
    """The column with this name, or with this measure if only one protocol has it."""
    name = key if isinstance(key, str) else " ".join(part for part in key if part)
    matching = [column for column in scores().columns if column.split()[-1] == name]
    return matching[0] if len(matching) == 1 else name


def _highest_value(name: str) -> float:
    """The maximum value of a column: 1 for a share, more for a composite, which sums its parts over both directions."""
    try:
        return float(2 * len(Measure.parse(name.split()[-1]).parts) or 1)
    except LimnerError:
        return 1.0  # not a measure of limner: refused later, with its name


def _scale(values: Mapping[str, float], unit: str | None) -> float:
    if unit not in (None, "percent", "fraction"):
        raise LimnerError(f"unit: got {unit!r}, expected 'percent' or 'fraction'")
    bad = [name for name, value in values.items() if not np.isfinite(value)]
    if bad:
        raise LimnerError(f"got {values[bad[0]]} for {bad[0]!r}, expected a finite number; leave it out")
    highest = max((value / _highest_value(name) for name, value in values.items()), default=0.0)
    if unit is None and 0 < highest <= 1:
        raise LimnerError(
            "got no value above 1 (6 for rsum), expected percent as published; "
            "pass unit='fraction' for values from 0 to 1, or unit='percent' if they are percentages"
        )
    return 100.0 if unit == "fraction" else 1.0


def _placed(published: Table, direction: str, name: str, value: float) -> Placement:
    position = published._position(name)
    trusted = ~published.doubtful[:, position]
    rows = [(label, float(score)) for label, score in zip(published.labels, published.column(name), strict=True)]
    rows = [row for row, keep in zip(rows, trusted, strict=True) if keep]
    half = 0.5 * 10.0 ** -published.decimals[position] * (1 + 1e-9)  # ignore differences in the last bits
    better = sorted((row for row in rows if row[1] - value > half), key=lambda row: row[1])
    worse = sorted((row for row in rows if value - row[1] > half), key=lambda row: -row[1])
    equal = _other_models(rows, [*better, *worse])
    return Placement(
        name,
        direction,
        value,
        1 + len(better),
        len(rows),
        tuple(better),
        equal,
        tuple(worse),
        published.decimals[position],
    )


def _other_models(
    rows: Iterable[tuple[str, float]], excluded: Sequence[tuple[str, float]]
) -> tuple[tuple[str, float], ...]:
    return tuple(row for row in rows if row not in excluded)
