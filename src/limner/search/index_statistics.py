"""Statistics that an index keeps beside its vectors: those of a correction, and cut-offs from judged queries.

Both are gathered once, for every search that wants them, and again after every change of the index.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from limner.core.arrays import Array, FloatArray
from limner.core.errors import LimnerError
from limner.core.judgements import Judgements
from limner.core.paths import parse_json
from limner.core.progress import ProgressLike
from limner.scores.correction import Correction, Statistics
from limner.search.cut_off import ABSENT, NEIGHBOURS, Calibration, CutOff, calibrate
from limner.search.hits import Hits
from limner.search.index import Index
from limner.search.index_table import Queries
from limner.search.items import Row
from limner.search.store import among, connect

if TYPE_CHECKING:
    import pyarrow as pa

    from limner.stats.selective import Answers

EVIDENCE, NEAR = "calibration", "near"
"""Tables next to that of the vectors: results of judged queries, and one number per item."""
COLUMNS = ("confidence", "right", "without", "cluster", "proposing")


def calibrate_index(
    index: Index,
    queries: Queries,
    judgements: Judgements,
    images: Iterable[object] | None = None,
    *,
    absent: float = ABSENT,
    progress: ProgressLike = None,
) -> Calibration:
    """Calibrates cut-offs of an index, and stores the calibration in it.

    Args:
        index: The index; calibrate it again after every change.
        queries: Judged queries that its system was not trained on: vectors, or items that it encodes.
        judgements: Which items of the index are right, by the ids of the queries.
        images: The image that each query belongs to; by default all queries are independent.
        absent: The share of future queries that have no right answer in the index.
        progress: Called with (queries done, queries in total).
    """
    scores = index.scores(queries)
    calibration = calibrate(scores, judgements, images=images, absent=absent, progress=progress)
    _keep(index, calibration)
    return calibration


def search_sure(
    index: Index,
    queries: Queries,
    k: int = 10,
    *,
    precision: float,
    level: float = 0.95,
    one_right: bool = False,
    progress: ProgressLike = None,
) -> Hits:
    """Searches an index and returns only hits with a guaranteed precision; a query without a match gets none.

    Args:
        index: A calibrated index.
        queries: As for `index.search`.
        k: Maximum number of hits per query.
        precision: The precision to guarantee.
        level: The probability that the guarantee holds.
        one_right: Whether a query gets all its k hits or none, and it is enough that one of them is right.
        progress: Called with (rows done, rows in total).
    """
    calibration = calibration_of(index)
    cut_off = calibration.cut_off(precision, k=k, level=level, one_right=one_right)
    return cut_hits(calibration, cut_off, index.search(queries, max(k, NEIGHBOURS), exact=True, progress=progress))


def cut_hits(calibration: Calibration, cut_off: CutOff, hits: Hits) -> Hits:
    """The hits above the cut-off."""
    if hits.correction is not None or not hits.exact:
        raise LimnerError("a cut-off needs exact, uncorrected hits: leave out the correction and approximate search")
    return replace(hits, ranking=calibration.cut(hits.ranking, cut_off), cut_off=cut_off)


def calibration_of(index: Index) -> Calibration:
    """The calibration stored in an index; refused if there is none, or if the index has changed since."""
    path, database = index.store.path, connect(index.store.path)
    try:
        with index.store.explained():  # a damaged file may even be a panic of compiled code
            evidence, table = database.open_table(EVIDENCE).to_arrow(), database.open_table(NEAR)
    except LimnerError:
        raise LimnerError(
            f"the index {path} is not calibrated: give judged queries with 'limner index {path} --calibrate "
            "COLLECTION', or limner.search.calibrate_index(...)"
        ) from None
    about, answers = _evidence(evidence, path)
    if (about["version"], about["rows"]) != (index.version, len(index)):
        raise LimnerError(
            f"the index {path} has changed since it was calibrated ({about['rows']:,} items then, {len(index):,} now): "
            "calibrate it again"
        )
    return Calibration(
        answers,
        lambda ids: _looked_up(index, table, ids),
        about["absent"],
        confidence=about["confidence"],
        spread=about["spread"],
    )


def _evidence(evidence: pa.Table, path: str) -> tuple[Row, Answers]:
    """The description of a calibration and the answers to judged queries; refused if they are damaged."""
    from limner.stats.selective import Answers

    try:
        about = dict(parse_json((evidence.schema.metadata or {})[b"limner"].decode(), where="it"))
        numbers = {name: about[name] for name in ("version", "rows", "absent", "spread")}
        columns = [np.array(evidence[name].to_pylist()) for name in COLUMNS]
        kinds = "fbfib"
        tables = [each.ndim == 2 and each.dtype.kind == kind for each, kind in zip(columns, kinds, strict=False)]
        sound = all(tables[:3]) and len({each.shape for each in columns[:3]}) == 1 and columns[3].ndim == 1
        sound = sound and columns[4].shape == columns[3].shape and columns[4].dtype == bool
        if not sound or not all(isinstance(each, (int, float)) for each in numbers.values()):
            raise ValueError("not as written")
        if about["confidence"] not in ("csls", "share") or not 0 < numbers["spread"] < float("inf"):
            raise ValueError("not as written")
        return about, Answers(*columns)
    except (ValueError, KeyError, TypeError, UnicodeDecodeError, LimnerError):
        raise LimnerError(f"the calibration in the index {path} is damaged: calibrate it again") from None


def _keep(index: Index, calibration: Calibration) -> None:
    """Writes the item statistics first, so that a killed run leaves no calibration that refers to old ones."""
    import pyarrow as pa

    database, answers, ids = connect(index.store.path), calibration.answers, list(index.ids)
    about: dict[str, object] = {"version": index.version, "rows": len(ids), "absent": calibration.absent}
    about |= {"confidence": calibration.confidence, "spread": calibration.spread}
    lists = (list(answers.confidence), list(answers.right), list(answers.without))
    parts = (*lists, np.asarray(answers.clusters), answers.proposing)
    evidence = pa.table(dict(zip(COLUMNS, parts, strict=True))).replace_schema_metadata({"limner": json.dumps(about)})
    with index.store.writing():
        for name in (EVIDENCE, NEAR):
            database.drop_table(name, ignore_missing=True)
        database.create_table(NEAR, pa.table({"id": ids, "near": calibration.near(ids)}))
        database.create_table(EVIDENCE, evidence)


def _looked_up(index: Index, table: Any, ids: Iterable[str]) -> FloatArray:
    keys: list[str] = list(ids)
    if not keys:
        return np.empty(0)
    with index.store.explained():
        rows = table.search().where(among(keys)).select(["id", "near"]).limit(len(keys)).to_arrow().to_pylist()
    by_id = {row["id"]: row["near"] for row in rows}
    if any(not isinstance(by_id.get(key), float) for key in keys):
        raise LimnerError(f"the calibration in the index {index.store.path} is damaged: calibrate it again")
    nearness: Array = np.array([by_id[key] for key in keys], dtype=np.float64)
    return nearness


TABLE = "correction"
"""The table next to that of the vectors; its one row holds the file of statistics."""
KEPT = "kept"
"""What `limner search --correct` calls the statistics that the index keeps."""


def keep_correction(
    index: Index,
    method: str | type[Correction] | Correction,
    bank: Queries,
    *,
    progress: ProgressLike = None,
    **options: object,
) -> Statistics:
    """Gathers the statistics of a query bank, and keeps them in the index; they replace those it kept before.

    Args:
        index: The index; gather them again after every change.
        method: The correction: a name of `limner list corrections`, or the correction itself.
        bank: Queries like those to come, not the judged ones of a test: vectors, or items that the index encodes.
        progress: Called with (queries done, queries in total).
        options: Options of the correction.
    """
    import pyarrow as pa

    statistics = index.statistics(method, bank, progress=progress, **options)
    with tempfile.TemporaryDirectory() as folder:
        data = statistics.save(Path(folder, "statistics.npz")).read_bytes()
    about = {"version": index.version, "rows": len(index), "correction": statistics.correction.name}
    table = pa.table({"statistics": pa.array([data], pa.large_binary())})
    database = connect(index.store.path)
    with index.store.writing():
        database.drop_table(TABLE, ignore_missing=True)
        database.create_table(TABLE, table.replace_schema_metadata({"limner": json.dumps(about)}))
    return statistics


def kept_correction(index: Index, *, trust: bool = False) -> Statistics:
    """The statistics that an index keeps; refused where there are none, or the index has changed since.

    Args:
        index: The index.
        trust: Whether they may name a correction of your own, module:class.
    """
    path = index.store.path
    try:
        with index.store.explained():  # a damaged file may even be a panic of compiled code
            table = connect(path).open_table(TABLE).to_arrow()
            about = dict(parse_json((table.schema.metadata or {}).get(b"limner", b"{}").decode(), where="it"))
            data = table["statistics"].to_pylist()[0]
    except (LimnerError, KeyError, IndexError, TypeError):
        raise LimnerError(
            f"the index {path} keeps no correction: gather one with 'limner index {path} --correct csls -O bank=FILE', "
            "or limner.search.keep_correction(...)"
        ) from None
    if (about.get("version"), about.get("rows")) != (index.version, len(index)):
        raise LimnerError(f"the index {path} has changed since its correction was gathered: gather it again")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "statistics.npz")
        file.write_bytes(data if isinstance(data, bytes) else b"")
        return Statistics.load(file, trust=trust)
