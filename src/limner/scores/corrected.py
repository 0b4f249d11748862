"""Corrected scores, and what users pass to correct scores: a name, a bank of queries, or saved statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

from limner.core.arrays import Float32, IntArray, array
from limner.core.collection import Collection
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError, shown
from limner.core.progress import Progress, ProgressLike, as_progress
from limner.scores.base import Best, Scores
from limner.scores.correction import CORRECTIONS, TUNERS, Correction, Statistics, correction
from limner.scores.lowprecision import Shifted, ShiftedListRequest
from limner.scores.parallel_blocks import Block, Result, WorkerMap

Bank = tuple[Embeddings, Embeddings] | tuple[Statistics, Statistics] | Embeddings | Scores | Statistics


@dataclass(frozen=True, eq=False)
class CorrectedScores(Scores):
    """Corrected scores: statistics are gathered on first use, and blocks are corrected as they are read."""

    base: Scores
    correction: Correction
    bank: Bank | None = None
    _gathered: list[Statistics] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        """Uses the ids of the scores; refuses statistics of other candidates."""
        for bank in self.bank if isinstance(self.bank, tuple) else (self.bank,):
            if isinstance(bank, Statistics):
                bank.refuse_other(self.correction)
        object.__setattr__(self, "queries", self.base.queries)
        object.__setattr__(self, "candidates", self.base.candidates)

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The type of the uncorrected scores."""
        return self.base.dtype

    @property
    def statistics(self) -> Statistics:
        """The statistics of each candidate, from the bank."""
        return self.gather()

    def gather(self, *, progress: ProgressLike = None) -> Statistics:
        """The statistics of each candidate; `progress` is called with (queries done, queries in total)."""
        if not self._gathered:
            self._gathered.append(self._from_bank(as_progress(progress)))
        return self._gathered[0]

    def _from_bank(self, progress: Progress) -> Statistics:
        statistics = self.bank[0] if isinstance(self.bank, tuple) else self.bank
        if isinstance(statistics, Statistics):
            if statistics.candidates != self.candidates:
                raise LimnerError(
                    f"saved statistics are for {len(statistics.candidates)} candidates, the scores for "
                    f"{len(self.candidates)}, or in another order: gather them again for these candidates"
                )
            return statistics
        bank = self._bank_scores()
        if bank.shape[0] < 2:
            raise LimnerError(
                f"a bank of {bank.shape[0]} query: expected two or more; give training queries as the bank"
            )
        return Statistics.gathered(self.correction, bank, identify_rows=self.bank is None, progress=progress)

    @cached_property
    def _in_bank(self) -> IntArray | None:
        """Looked up once rather than per block, because workers of a cluster do not have the ids."""
        return self.statistics.positions(self.queries)

    def _bank_scores(self) -> Scores:
        if self.bank is None:
            return self.base
        if isinstance(self.bank, Scores):
            if self.bank.candidates != self.candidates:
                raise LimnerError(
                    "the bank has scores for other candidates: give scores of its queries against the same candidates"
                )
            return self.bank
        queries = self.bank[0] if isinstance(self.bank, tuple) else self.bank
        with_queries = getattr(self.base, "with_queries", None)
        if with_queries is None:
            raise LimnerError(
                "a bank of embeddings needs scores from embeddings: give Scores of the bank's queries instead"
            )
        scores = cast(Scores, with_queries(queries))
        sides: Any = (queries, getattr(self.base, "candidate_vectors", queries))
        sizes = [np.shape(side)[1] for side in sides]
        if sizes[0] != sizes[1]:
            raise LimnerError(
                f"a bank of vectors of {sizes[0]} dimensions for candidates of {sizes[1]}: expected the same; encode "
                "the bank with the same model"
            )
        return scores

    @property
    def T(self) -> CorrectedScores:
        """The same correction in the other direction, with the bank's candidates as its queries."""
        if self.bank is None:
            return CorrectedScores(self.base.T, self.correction)
        if isinstance(self.bank, tuple):
            return CorrectedScores(self.base.T, self.correction, (self.bank[1], self.bank[0]))  # type: ignore[arg-type]
        raise LimnerError(
            "this bank has only one direction: give bank=(embeddings of bank queries, embeddings of bank candidates) "
            "for both, or correct each direction separately"
        )

    def prepare(self) -> None:
        """Gathers the statistics, first those of the underlying scores."""
        self.base.prepare()
        _ = self.statistics, self._in_bank

    @property
    def block_rows(self) -> int:
        """The same as for the uncorrected scores."""
        return self.base.block_rows

    def memory(self) -> Float32 | None:
        """The same as for the uncorrected scores."""
        return self.base.memory()

    def workers(self, count: int | None) -> AbstractContextManager[WorkerMap]:
        """The same as for the uncorrected scores."""
        return self.base.workers(count)

    def stream(
        self, consume: Callable[[int, Block], Result], *, workers: int | None = None, progress: ProgressLike = None
    ) -> Iterator[Result]:
        """Like `Scores.stream`; finds the best with low-precision products if that gives the same result faster."""
        by_filter = getattr(self.base, "filter", None)
        if isinstance(consume, Best) and by_filter is not None and not self.correction.limit(self.base).reach:
            shift = self.correction.shift(self.statistics.known)
            if shift and (self.bank is None or self._in_bank is None):
                request = ShiftedListRequest(consume, Shifted(*shift, self._applied, self.correction.rounding))
                if chosen := by_filter(workers, request):
                    return cast(Iterator[Result], chosen.stream(request, workers=workers, progress=progress))
        return super().stream(consume, workers=workers, progress=progress)

    def _applied(self, scores: Float32, places: IntArray, start: int) -> Block:
        """Corrects the scores of some candidates, from query `start` on."""
        statistics = {name: values[places] for name, values in self.statistics.known.items() if name != "seen"}
        rows = np.arange(start, start + len(scores)) if self.bank is None else None
        return self.correction.apply(scores, statistics, rows)

    def block(self, start: int, stop: int, out: Float32 | None = None) -> Block:
        """Corrected scores of these queries."""
        statistics, block = self.statistics, self.base.block(start, stop, out)
        if self.bank is None:  # checked when the statistics were gathered
            return self.correction.apply(block, statistics.known, np.arange(start, stop))
        self.correction.limit(self.base)(block, start)
        positions = None if self._in_bank is None else self._in_bank[start:stop]
        return self.correction.apply(block, statistics.known, statistics.rows(positions, block))


def gather_first(scores: object, progress: Progress) -> None:
    """Gathers the statistics of corrected scores before a pass over them, as a step of its own."""
    if isinstance(scores, CorrectedScores):
        scores.gather(progress=progress.step(f"gathering statistics for {scores.correction}", "queries"))


def correct(
    scores: Scores,
    method: str | Path | type[Correction] | Correction | Statistics,
    *,
    bank: object = None,
    tune: tuple[Scores, Collection] | None = None,
    trust: bool = False,
    **options: Any,
) -> CorrectedScores:
    """Corrects scores for hubs.

    Args:
        scores: The scores to correct.
        method: A name in `CORRECTIONS` or "module:class", either with options such as "csls(k=5)"; a correction or its
            class; statistics, or a file of statistics.
        bank: The queries that statistics are gathered from. None for the queries themselves; vectors of other queries
            (and of other candidates, for both directions), as embeddings or arrays; scores of other queries, as a
            matrix if the scores are a matrix; or saved statistics of this correction, or their file.
        tune: Scores and collection of a dev split, on which options that are not given are chosen; see
            `limner.evaluation.tune`.
        trust: Whether a file of statistics may name a correction that is not registered.
        options: Options of the correction. With statistics they can be left out, and different ones are refused.
    """
    if isinstance(method, Path) or (isinstance(method, str) and method.endswith(".npz")):
        statistics = Statistics.load_all(method, trust=trust)
        if isinstance(statistics, tuple):
            return _with_statistics(scores, type(statistics[0].correction), _facing(statistics, scores), options)
        method = statistics
    if isinstance(method, str):
        method, options = CORRECTIONS.parsed(method, options)
    bank = _as_bank(bank, scores, trust)
    if tune is not None and isinstance(method, (Correction, Statistics)):
        raise LimnerError(
            f"{method if isinstance(method, Correction) else method.correction} has options: leave out tune="
        )
    if isinstance(method, Statistics):
        if bank is not None:
            raise LimnerError("got statistics and a bank: the statistics already come from a bank; leave out the bank")
        return _with_statistics(scores, type(method.correction), method, options)
    if isinstance(method, Correction):
        if options:
            raise LimnerError(f"{method} with options {shown(options)}: give them to the correction itself")
        return CorrectedScores(scores, method, bank)
    if isinstance(bank, Statistics) or (isinstance(bank, tuple) and isinstance(bank[0], Statistics)):
        return _with_statistics(scores, method, bank, options)
    if tune is not None:
        options = dict(TUNERS["grid"](method, *tune, fixed=options))
    return CorrectedScores(scores, correction(method, **options), bank)


def _as_bank(bank: object, scores: Scores, trust: bool) -> Bank | None:
    """Converts user input to a bank: arrays are vectors, or scores of the same candidates if scores are a matrix."""
    if bank is None or isinstance(bank, (Embeddings, Scores, Statistics)):
        return bank
    if isinstance(bank, (str, Path)):
        statistics = Statistics.load_all(bank, trust=trust)
        return _facing(statistics, scores) if isinstance(statistics, tuple) else statistics
    by_vectors = hasattr(scores, "with_queries")
    if isinstance(bank, tuple) and len(bank) == 2 and by_vectors:
        return Embeddings.of(bank[0], prefix="bank-"), Embeddings.of(bank[1], prefix="bank-")
    rows = array(bank, "bank")
    if by_vectors:
        return Embeddings.of(rows, prefix="bank-")
    if rows.ndim != 2 or rows.shape[1] != len(scores.candidates):
        raise LimnerError(
            f"a bank of shape {rows.shape} for scores that are not products of vectors: expected the bank's own scores "
            f"of the same {len(scores.candidates)} candidates, a row per bank query"
        )
    return Scores.from_matrix(rows, [f"bank-{row}" for row in range(len(rows))], scores.candidates)


def _facing(directions: tuple[Statistics, Statistics], scores: Scores) -> tuple[Statistics, Statistics]:
    """Statistics of both directions, those for these candidates first."""
    return directions if directions[0].candidates == scores.candidates else (directions[1], directions[0])


def _with_statistics(
    scores: Scores,
    method: str | type[Correction],
    statistics: Statistics | tuple[Statistics, Statistics],
    options: Mapping[str, object],
) -> CorrectedScores:
    """The correction to apply: options that are not given are taken from the statistics."""
    kind = method if isinstance(method, type) else CORRECTIONS.find(method)
    gathered_by = statistics[0].correction if isinstance(statistics, tuple) else statistics.correction
    saved_options = asdict(gathered_by) if kind is type(gathered_by) else {}
    return CorrectedScores(scores, correction(kind, **(saved_options | dict(options))), statistics)
