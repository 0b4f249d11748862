"""Does the system read the query? Re-rank with adversarial queries and compare.

A query is changed to contradict the original. The relevant image should drop in rank, since it no longer matches.
*Blindness*: of the queries with the relevant image in first place, the share that still have it there after the change.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Array, FloatArray
from limner.core.errors import LimnerError
from limner.core.progress import ProgressLike, as_progress
from limner.explain.adversarial import DENIES
from limner.explain.noun_phrases import WORD
from limner.explain.text_edits import Edit

Ask = Callable[[Sequence[str]], Array]


@dataclass(frozen=True)
class Attack:
    """The effect of one kind of change.

    Args:
        kind: The kind.
        edits: The edits.
        queries: Total number of queries.
        before: Rank of the relevant image for each edited query, before the edit (may be fractional for tied scores).
        after: The same, after the edit.
        moved: Change in the score of the relevant image, for each.
        unedited: Ranks of the relevant image for the queries in which nothing could be changed.
    """

    kind: str
    edits: tuple[Edit, ...]
    queries: int
    before: FloatArray
    after: FloatArray
    moved: FloatArray
    unedited: FloatArray

    @cached_property
    def shares(self) -> dict[str, float]:
        """Shares of changed queries whose relevant image is now ranked lower, higher, the same."""
        lower, higher = self.after > self.before, self.after < self.before
        return {"lower": _share(lower), "higher": _share(higher), "same": _share(~(lower | higher))}

    @property
    def blindness(self) -> float:
        """Share of queries with the relevant image first that still have it first after the change; NaN without any."""
        return _share(self.after[self.before == 1] == 1)

    @property
    def fell(self) -> float:
        """Of the changed queries, the share whose relevant image is now less similar to the query."""
        return _share(self.moved < 0)

    def words(self, *, min_count: int = 5) -> dict[str, tuple[int, float]]:
        """Count and blindness for words changed in at least `min_count` queries that had the relevant image first."""
        first_after: dict[str, list[bool]] = defaultdict(list)
        for edit, before, after in zip(self.edits, self.before, self.after, strict=True):
            if before == 1:
                first_after[edit.word].append(bool(after == 1))
        blindness = {
            word: (len(each), sum(each) / len(each)) for word, each in first_after.items() if len(each) >= min_count
        }
        return dict(sorted(blindness.items(), key=lambda item: (-item[1][1], -item[1][0])))

    def metrics(self) -> dict[str, tuple[float, float]]:
        """Measures over all queries, before and after, in percent."""
        before, after = (np.concatenate([ranks, self.unedited]) for ranks in (self.before, self.after))
        return {name: (100 * measure(before), 100 * measure(after)) for name, measure in METRICS.items()}

    def record(self) -> dict[str, object]:
        """Everything except the edits, as plain values."""
        values: dict[str, object] = {
            "kind": self.kind,
            "queries": self.queries,
            "changed": len(self.edits),
            **self.shares,
        }
        values |= {"similarity fell": self.fell, "moved": _mean(self.moved)}
        if self.kind in DENIES:
            values["blindness"] = self.blindness
        return values | {name: {"before": a, "after": b} for name, (a, b) in self.metrics().items()}


METRICS: dict[str, Callable[[FloatArray], float]] = {
    "R@1": lambda ranks: _share(ranks <= 1),
    "R@5": lambda ranks: _share(ranks <= 5),
    "R@10": lambda ranks: _share(ranks <= 10),
    "MRR@10": lambda ranks: _mean(np.where(ranks <= 10, 1 / ranks, 0.0)),
    "MRR": lambda ranks: _mean(1 / ranks),
}


def rerank(kind: str, edits: Sequence[Edit | None], before: Array, truth: npt.NDArray[np.int64], ask: Ask) -> Attack:
    """Re-ranks with the changed queries.

    Args:
        kind: The kind of change.
        edits: One per query; None if nothing could be changed.
        before: Scores of the queries as they were, queries by candidates.
        truth: The column of the relevant image of each query.
        ask: A function from texts to their scores with the same candidates, texts by candidates.
    """
    changed = np.array([at for at, edit in enumerate(edits) if edit is not None], dtype=np.int64)
    applied = tuple(edit for edit in edits if edit is not None)
    old = ranks(before, truth)
    if not applied:
        return Attack(kind, (), len(edits), np.zeros(0), np.zeros(0), np.zeros(0), old)
    after = np.asarray(ask([edit.after for edit in applied]))
    if after.shape != (len(applied), before.shape[1]):
        raise LimnerError(
            f"the system gave scores of shape {after.shape} for {len(applied)} texts: expected one row per text "
            f"and {before.shape[1]} columns"
        )
    place = np.arange(len(changed))
    moved = after[place, truth[changed]].astype(np.float64) - before[changed, truth[changed]]
    unedited = np.setdiff1d(np.arange(len(edits)), changed)
    return Attack(kind, applied, len(edits), old[changed], ranks(after, truth[changed]), moved, old[unedited])


def ranks(scores: Array, truth: npt.NDArray[np.int64]) -> FloatArray:
    """The expected rank of the relevant image of each row, with ties in random order."""
    relevant_scores = scores[np.arange(len(scores)), truth][:, None]
    return np.asarray(
        1 + (scores > relevant_scores).sum(axis=1) + ((scores == relevant_scores).sum(axis=1) - 1) / 2, dtype=np.float64
    )


def blind_baseline(edits: Iterable[Edit], texts: Iterable[str]) -> float:
    """How often a language model alone, without the image, can tell the original query from the changed one.

    Uses a bigram model of the texts (which must not contain the queries themselves). If the value is near 0.5,
    detecting the change requires the image; if it is near 1, the text alone is enough, and a good result means little.
    """
    return _discrimination(edits, _usual(texts))


def blind_baselines(
    kinds: Mapping[str, Sequence[Edit]], texts: Iterable[str], *, progress: ProgressLike = None
) -> dict[str, float]:
    """`blind_baseline` of every kind of change; the texts are read once.

    Args:
        kinds: Edits by kind.
        texts: Texts of the language model.
        progress: Called with (kinds done, kinds in total).
    """
    progress = as_progress(progress)
    usual, accuracies = _usual(texts), {}
    for number, (kind, edits) in enumerate(kinds.items(), start=1):
        accuracies[kind] = _discrimination(edits, usual)
        progress(number, len(kinds))
    return accuracies


def _discrimination(edits: Iterable[Edit], usual: Callable[[str], float]) -> float:
    outcomes = [(usual(e.before) > usual(e.after)) + 0.5 * (usual(e.before) == usual(e.after)) for e in edits]
    return sum(outcomes) / len(outcomes) if outcomes else math.nan


def _usual(texts: Iterable[str]) -> Callable[[str], float]:
    """The mean log-probability of the words of a text, under a bigram model of the texts."""
    one: Counter[str] = Counter()
    two: Counter[tuple[str, str]] = Counter()
    for text in texts:
        words = _words(text)
        one.update(words[:-1])
        two.update(pairwise(words))
    if not one:
        raise LimnerError("a text-only baseline needs texts to train on; got none")

    def usual(text: str) -> float:
        words = _words(text)
        steps = [math.log((two[a, b] + 0.1) / (one[a] + 0.1 * len(one))) for a, b in pairwise(words)]
        return sum(steps) / len(steps)

    return usual


def _words(text: str) -> list[str]:
    return ["<", *(word.lower() for word in WORD.findall(text)), ">"]


def table(attacks: Sequence[Attack], baselines: Mapping[str, float] | None = None) -> str:
    """The attacks as a table for a terminal of 80 columns; two lines of head."""
    only = (("text", "only"),) if baselines else ()
    head = (("", "kind"), ("", "changed"), ("", "lower"), ("", "higher"), ("", "same"), ("sim", "fell"))
    head += (("", "blindness"), ("R@1", "before"), ("R@1", "after"), *only)
    rows = [[line[0] for line in head], [line[1] for line in head]]
    for each in attacks:
        blind = _percent(each.blindness) if each.kind in DENIES else "–"
        first = (f"{value:.2f}" for value in each.metrics()["R@1"][:2])
        shares = map(_percent, each.shares.values())
        row = [each.kind, f"{len(each.edits):,}", *shares, _percent(each.fell), blind, *first]
        rows.append(row + ([_percent(baselines[each.kind])] if baselines else []))
    return _aligned(rows)


def measure_table(attacks: Sequence[Attack]) -> str:
    """Measures over all queries, first the original ones, then those of every attack; fails are 100 - R@1."""
    listed = [("original", [before for before, _ in each.metrics().values()]) for each in attacks[:1]]
    listed += [(each.kind, [after for _, after in each.metrics().values()]) for each in attacks]
    rows = [["", *METRICS, "fails"]]
    rows += [[name, *(f"{value:.2f}" for value in [*values, 100 - values[0]])] for name, values in listed]
    return _aligned(rows)


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of a table with columns of equal width, the first to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in rows)
    return "\n".join(" ".join(line).rstrip() for line in lines)


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.1%}"


def _share(mask: npt.NDArray[np.bool_]) -> float:
    return float(mask.mean()) if len(mask) else math.nan


def _mean(values: FloatArray) -> float:
    return float(values.mean()) if len(values) else math.nan
