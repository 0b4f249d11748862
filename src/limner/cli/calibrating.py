"""What an index stores about queries: cut-offs from judged queries, and the bank statistics of a correction."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from limner.cli.console import progress, tell
from limner.cli.encoding import opened
from limner.cli.options import load
from limner.core.errors import LimnerError

if TYPE_CHECKING:
    from limner.core.collection import Collection

SHOWN = (0.5, 0.7, 0.8, 0.9, 0.95)
"""Precisions to try, to report which are reachable."""


def calibrated(
    path: str, collection: str, option: list[str] | None, system: str | None, *, features: str | None, trust: bool
) -> dict[str, object]:
    """Calibrates an index with queries that its system was not trained on; returns a message."""
    from limner.search import calibrate_index, judged_queries

    index = opened(path, system, features=features, trust=trust)
    whole = load(collection, option)
    asked = _unseen(whole, index.system, index.about.kind)
    direction, queries = ("t2i", asked.texts) if index.about.kind == "image" else ("i2t", asked.images)
    with progress(f"calibrating with {len(queries):,} judged queries") as told:
        known = calibrate_index(index, queries, *judged_queries(asked, direction), progress=told)
    tell(f"calibrated with {len(queries):,} queries of {asked.name}, relevant by {' or '.join(asked.all_judgements)}")
    return {"calibrated": {str(precision): reached(known, precision) for precision in SHOWN}}


def with_correction(
    path: str, how: str, bank: Path, system: str | None, *, features: str | None, trust: bool
) -> dict[str, object]:
    """Keeps a correction in an index; returns what to say about it."""
    from limner.core.embeddings import Embeddings
    from limner.search import keep_correction, read

    queries = read(bank)
    needed = not isinstance(queries, Embeddings)
    index = opened(path, system, needed=needed, features=features, trust=trust)
    with progress(f"gathering the statistics of {how} with {len(queries):,} queries"):
        keep_correction(index, how, queries)
    return {"corrected": f"{how}, with {len(queries):,} queries of {bank}"}


def _unseen(whole: Collection, system: object, kind: str) -> Collection:
    """The part of a collection that a system was not trained on."""
    if kind == "item":
        raise LimnerError("the index contains vectors without images or texts: relevant answers are unknown")
    trained = getattr(system, "trained_on", None)
    if trained is None:
        return whole
    fresh = [key for key, seen in zip(whole.images.ids, trained.saw(whole), strict=True) if not seen]
    if not fresh:
        raise LimnerError(f"the system was trained on all images of {whole.name!r}: calibrate with other queries")
    return whole.restrict(fresh, name=f"{whole.name}, not trained on")


def reached(known: Any, precision: float) -> str:
    """The share of queries that get an answer for a given precision, as text."""
    try:
        return f"{known.cut_off(precision).threshold.answered:.0%} answered"
    except LimnerError:
        return "out of reach"
