"""The statistics of a correction for each candidate: gathered from a bank of queries, saved and loaded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from limner.core.arrays import Array, IntArray
from limner.core.errors import LimnerError
from limner.core.files import replacing
from limner.core.ids import Ids
from limner.core.paths import damage_told, parse_json, read_arrays
from limner.core.progress import ProgressLike, progress_for
from limner.scores.base import Scores
from limner.scores.correction import CORRECTIONS, Correction, correction
from limner.scores.parallel_blocks import Block, on_host

RESERVED = ("head", "candidates", "bank")
"""Reserved names in a file of statistics."""
_OTHER = "other direction: "  # prefix of array names in a file for both directions
SEEN = 16
"""Number of scores compared to check that a query is the one in the bank with the same id."""


def some_places(width: int) -> IntArray:
    """Positions of a few candidates, evenly spaced."""
    return np.unique(np.linspace(0, width - 1, min(SEEN, width)).round().astype(np.int64))


@dataclass(frozen=True, eq=False)
class Statistics:
    """The statistics of a correction for each candidate: enough to correct any further query.

    Args:
        correction: The correction with its options; statistics are valid for this correction only.
        candidates: The candidates the numbers belong to.
        known: Numbers per candidate, by name. "seen" holds, per query of the bank, its scores of a few candidates.
        bank: Ids of the bank's queries if the bank was the queries of the scores themselves, else None. A query that is
            one of them, by its id and its scores, is corrected without its own term, all others with the whole bank.
    """

    correction: Correction
    candidates: Ids
    known: Mapping[str, Array]
    bank: Ids | None = None

    @classmethod
    def gathered(cls, correction: Correction, bank: Scores, *, own: bool, progress: ProgressLike = None) -> Statistics:
        """Gathers the statistics in one or more passes over the bank."""
        known = correction.gather(bank, **cast(Any, progress_for(correction.gather, progress)))
        if not own:
            known.pop("seen", None)
        return cls(correction, bank.candidates, known, bank.queries if "seen" in known else None)

    def positions(self, queries: Ids) -> IntArray | None:
        """The position of each of these ids among the bank's queries, -1 if absent; None if it makes no difference."""
        return None if self.bank is None else self.bank.find(queries)

    def rows(self, positions: IntArray | None, block: Block) -> IntArray | None:
        """The position of each of these queries in the bank, -1 if absent; None if it makes no difference.

        Args:
            positions: The result of `positions` for their ids.
            block: Their scores.
        """
        if positions is None:
            return None
        found, seen = positions, self.known["seen"]
        scores = on_host(block[:, some_places(block.shape[1])])
        same = np.isclose(scores, seen[np.maximum(found, 0)], rtol=1e-5, atol=1e-6).all(axis=1)
        return np.where(same, found, -1)

    def refuse_other(self, correction: Correction) -> None:
        """Refuses another correction, or the same one with other options."""
        if correction != self.correction:
            raise LimnerError(
                f"the statistics are for {self.correction}, but {correction} was requested: gather them "
                "again for these options, or leave the options out"
            )

    def save(self, path: str | Path, *, other: Statistics | None = None) -> Path:
        """Writes an npz file; `load` reads it, and `scores.correct(path)` applies it.

        Args:
            path: The file.
            other: Statistics of the other direction: one file then corrects both.
        """
        target = Path(path)
        arrays = self._arrays() | ({} if other is None else {_OTHER + k: v for k, v in other._arrays().items()})
        with replacing(target) as draft, draft.open("wb") as file:
            np.savez(file, **arrays)
        return target

    def _arrays(self) -> dict[str, Any]:
        self._refuse_unfit()
        head = {"correction": self.correction.name, **asdict(self.correction)}
        arrays: dict[str, object] = {"head": np.array(json.dumps(head)), "candidates": _words(self.candidates)}
        return arrays | dict(self.known) | ({} if self.bank is None else {"bank": _words(self.bank)})

    def _refuse_unfit(self) -> None:
        """Refuses statistics that could not be loaded again."""
        if taken := [name for name in self.known if name in RESERVED]:
            raise LimnerError(f"{self.correction.name}: gather returns the reserved name {taken[0]!r}: choose another")
        if not CORRECTIONS.finds(type(self.correction)):
            raise LimnerError(
                f"{self.correction.name} cannot be found again when the file is read: define the class at the top of a "
                "module, or register it with @limner.match.CORRECTIONS.register('name')"
            )

    @classmethod
    def load(cls, path: str | Path, *, trust: bool = False) -> Statistics:
        """Loads saved statistics; from a file for both directions, those of the first.

        Args:
            path: The file. It is data: nothing in it is run.
            trust: Whether it may name a correction that is not registered, as "module:class", which is then imported.
        """
        found = cls.load_all(path, trust=trust)
        return found[0] if isinstance(found, tuple) else found

    @classmethod
    def load_all(cls, path: str | Path, *, trust: bool = False) -> Statistics | tuple[Statistics, Statistics]:
        """Loads saved statistics, of one direction or of both."""
        if not Path(path).exists():
            raise LimnerError(f"no saved statistics {path}: create them with scores.correct(...).statistics.save(...)")
        arrays = read_arrays(path, what="statistics of a correction")
        with damage_told(path, what="file of statistics", mend="gather them again"):
            other = {k.removeprefix(_OTHER): arrays.pop(k) for k in list(arrays) if k.startswith(_OTHER)}
            first = cls._read(arrays, path, trust)
            return (first, cls._read(other, path, trust)) if other else first

    @classmethod
    def _read(cls, arrays: dict[str, Array], path: str | Path, trust: bool) -> Statistics:
        head = parse_json(str(arrays.pop("head")), where=f"statistics of a correction {path}")
        candidates = Ids(arrays.pop("candidates").tolist(), what="candidate")
        bank = Ids(arrays.pop("bank").tolist(), what="query") if "bank" in arrays else None
        made = correction(head.pop("correction"), trusted=trust, **head)
        return cls(made, candidates, arrays, bank)


def _words(ids: Ids) -> Array:
    return np.array(list(ids), dtype=np.str_)
