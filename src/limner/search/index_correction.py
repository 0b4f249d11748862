"""A correction that an index keeps: the statistics of a query bank, gathered once, for every search that wants it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from limner.core.errors import LimnerError
from limner.core.paths import parse_json
from limner.core.progress import ProgressLike
from limner.scores.correction import Correction, Statistics
from limner.search.index import Index
from limner.search.index_table import Queries
from limner.search.store import connect

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
