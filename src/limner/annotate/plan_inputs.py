"""The inputs of a plan that are stored with its design: given pairs, the systems' lists, the target half-width.

So a page that shows intervals, or a later comparison, needs neither the systems nor the collection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from limner.annotate._sql import sa
from limner.annotate.pool import Lists, lists_of
from limner.annotate.store import Store
from limner.annotate.store.designs import Design
from limner.annotate.store.schema import caption, image
from limner.core.collection import Collection, Items
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.core.judgements import Judgements
from limner.core.paths import damage_told
from limner.core.progress import ProgressLike, as_progress
from limner.core.ranking import Ranking
from limner.evaluation.measures import Measure

ORIGINAL = "original"
"""The name of the store setting with the given pairs."""
DEPTH = 50
"""Ranks of each list that are stored for a measure without a cut-off."""


def keep_original(store: Store, pairs: Judgements) -> None:
    """Stores the given pairs, image -> text."""
    store.set(ORIGINAL, [[i, t, g] for i, t, g in pairs.relevant])


def original(store: Store) -> Judgements:
    """The given pairs over all images and captions of the store."""
    rows = store.setting(ORIGINAL)
    if rows is None:
        raise LimnerError("the store has no original pairs: create it with 'limner annotate pool' or 'plan'")
    images, captions = (_keys(store, table) for table in (image, caption))
    with damage_told(store.location, what="store of original pairs"):
        pairs = [(i, t, g) for i, t, g in rows]
        return Judgements.from_pairs(pairs, queries=images, candidates=captions, name=ORIGINAL)


def stored_collection(store: Store) -> Collection:
    """Images, captions and given pairs from the store; without image files."""
    judgements = original(store).with_name("pairs")
    images = Items(judgements.queries, [None] * len(judgements.queries))
    texts = Items(judgements.candidates, list(judgements.candidates), kind="text")
    name = (store.setting("collection") or {}).get("name") or "collection"
    return Collection(str(name), images, texts, judgements)


def _keys(store: Store, table: sa.Table) -> list[str]:
    return [row["key"] for row in store.rows(sa.select(table.c.key).order_by(table.c.id))]


def keep_study(
    store: Store,
    collection: Collection,
    systems: Mapping[str, Lists],
    measures: Sequence[Measure],
    directions: Sequence[str],
    half_width: float,
    *,
    progress: ProgressLike = None,
) -> None:
    """Stores the inputs of a plan: given pairs, each system's lists, and the target half-width in points."""
    progress = as_progress(progress)
    keep_original(store, collection.judgements)
    depth = max((m.k or DEPTH) for m in measures)
    lists = {}
    for number, (name, each) in enumerate(systems.items()):
        progress(number, len(systems))
        lists[name] = lists_of(each, depth=depth)
    for direction in directions:
        rankings = {name: each[direction] for name, each in lists.items() if direction in each}
        inputs = {
            "measures": [str(m) for m in measures],
            "half_width": half_width,
            **_numbered(store, rankings, direction),
        }
        store.set(f"study {direction}", inputs)


def _numbered(store: Store, lists: Mapping[str, Ranking], direction: str) -> dict[str, object]:
    """Lists as the store's ids of images and captions."""
    queries, candidates = (Ids(keys) for keys in _sides(store, direction))
    study_queries = next(iter(lists.values())).queries if lists else Ids([])
    rows = {name: _places(ranking, study_queries, candidates) for name, ranking in lists.items()}
    return {"queries": queries.positions(study_queries).tolist(), "systems": rows}


def _sides(store: Store, direction: str) -> tuple[list[str], list[str]]:
    """The keys of queries and candidates, in the store's order."""
    images, captions = (_keys(store, table) for table in (image, caption))
    return (images, captions) if direction == "i2t" else (captions, images)


def _places(ranking: Ranking, queries: Ids, candidates: Ids) -> list[list[int]]:
    """The lists as ids, in the order of these queries."""
    numbers = np.append(candidates.positions(ranking.candidates), -1)
    listed: list[list[int]] = numbers[ranking.indices[ranking.queries.positions(queries)]].tolist()
    return listed


@dataclass(frozen=True)
class KeptStudy:
    """The stored inputs of a plan.

    Args:
        lists: Each system's rankings.
        half_width: The target half-width of the widest interval, in points.
    """

    lists: Mapping[str, Ranking]
    half_width: float


def kept_study(store: Store, design: Design) -> KeptStudy | None:
    """The stored inputs of a design's plan; None if an earlier version of limner created it."""
    inputs = store.setting(f"study {design.direction}")
    if inputs is None or not set(design.settings["systems"]) <= set(inputs["systems"]):
        return None
    queries, candidates = _sides(store, design.direction)
    with damage_told(store.location, what="store of a study"):
        study_queries, pool = Ids([queries[n] for n in inputs["queries"]]), Ids(candidates)
        lists = {
            name: Ranking(study_queries, pool, np.array(inputs["systems"][name], dtype=np.int64), None, len(pool))
            for name in design.settings["systems"]
        }
        return KeptStudy(lists, float(inputs["half_width"]))
