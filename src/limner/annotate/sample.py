"""Which pairs must be judged to know a measure under complete judgements, and which of them are.

The given positives count as true. Two kinds of units can be drawn:

- a pair, if every measure is a weighted sum over pairs: R@1, S@1, MRR@1, P@k;
- a query with all its unjudged pairs, for R@k, S@k and MRR@k: whether any of the first k is a match is known once all
  of them above the first given positive are judged. A query with a given positive at rank 1 needs no label.

A measure is the mean over the queries that have a given positive, as in the view "pairs": whether another query has a
match anywhere is known only when its whole pool is judged. Its pairs can be drawn too, which tells how many of these
queries have one. Measures that need the number of all matches of a query (mAP@R, RP, Recall@k, nDCG, MAP) need a design
of levels: `limner.annotate.levels`.

A plan stores its inputs with the design (given pairs, the systems' lists, the target half-width), so a page that shows
intervals needs neither the systems nor the collection. A sample is the answered part of a design, in the order of the
draws, up to the first gap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from limner.annotate.bias import grades_at
from limner.annotate.levels import refuse_unfit
from limner.annotate.merge import boolean_labels, by_majority, taken_out
from limner.annotate.pool import Lists, lists_of
from limner.annotate.store import Store
from limner.annotate.store.answers import Answer, answers
from limner.annotate.store.contents import Key
from limner.annotate.store.designs import LEVEL, Design, designs
from limner.annotate.store.schema import caption, image, sa
from limner.core.arrays import BoolArray, FloatArray
from limner.core.collection import Collection, Items
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.core.judgements import Judgements
from limner.core.paths import damage_told
from limner.core.progress import ProgressLike, as_progress
from limner.core.ranking import Ranking
from limner.evaluation.measures import Measure

Needed = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class SamplingFrame:
    """The units that may be drawn in one direction.

    Args:
        unit: "pair" or "query".
        units: (query, candidates to judge), without duplicates.
        ranks: The best rank at which a system returns one of them.
    """

    unit: str
    units: tuple[tuple[str, tuple[str, ...]], ...]
    ranks: tuple[int, ...]

    @property
    def deeper(self) -> BoolArray:
        """Whether each unit is a pair that no system returns first."""
        return np.array(self.ranks) > 1 if self.unit == "pair" else np.zeros(len(self.units), dtype=bool)


def unit_of(measures: Sequence[Measure]) -> str:
    """The sampling unit: a "pair" if every measure is a weighted sum over pairs, else a "query" or a "level" of one.

    >>> unit_of([Measure.parse("R@1"), Measure.parse("P@5")]), unit_of([Measure.parse("R@5")])
    ('pair', 'query')
    >>> unit_of([Measure.parse("R@5"), Measure.parse("mAP@R")])
    'level'
    """
    refuse_unfit(measures)
    if any(m.kind.decided_by == "all" or m.k is None for m in measures):
        return LEVEL
    return "pair" if all(m.k == 1 or m.kind.decided_by == "each" for m in measures) else "query"


def needed(ranking: Ranking, judgements: Judgements, measure: Measure) -> Needed:
    """For each query, the candidates that decide the measure and are not given positives, in order of rank.

    >>> lists = Ranking.from_lists({"q": "abc", "r": "bca"}, candidates="abc")
    >>> needed(lists, Judgements.from_pairs([("q", "a"), ("r", "a")]), Measure.parse("R@2"))
    {'r': ('b', 'c')}
    """
    k = measure.k or 1
    places = np.asarray(ranking.indices[:, :k])
    positive = grades_at(ranking, judgements, depth=k) > 0
    open_ = (places >= 0) & ~positive
    if measure.kind.hit:
        open_ &= ~positive.any(axis=1, keepdims=True)
    elif measure.kind.decided_by == "first":
        open_ &= np.cumsum(positive, axis=1) == 0
    return {
        ranking.queries[row]: tuple(ranking.candidates[c] for c in places[row][open_[row]].tolist())
        for row in np.flatnonzero(open_.any(axis=1)).tolist()
    }


def frame(lists: Mapping[str, Ranking], judgements: Judgements, measures: Sequence[Measure]) -> SamplingFrame:
    """The sampling units of a study: all pairs that one of its systems and measures needs.

    Args:
        lists: Each system's ranking in one direction, up to the depth of the deepest measure.
        judgements: The given positives, query -> candidate.
        measures: The measures to estimate.
    """
    unit = unit_of(measures)
    ranks_by_query: dict[str, dict[str, int]] = {}
    for ranking in lists.values():
        for measure in measures:
            for query, candidates in needed(ranking, judgements, measure).items():
                query_ranks = ranks_by_query.setdefault(query, {})
                for rank, candidate in enumerate(candidates, start=1):
                    query_ranks[candidate] = min(rank, query_ranks.get(candidate, rank))
    if unit == "query":
        ranks = tuple(min(query_ranks.values()) for query_ranks in ranks_by_query.values())
        return SamplingFrame(
            unit, tuple((query, tuple(query_ranks)) for query, query_ranks in ranks_by_query.items()), ranks
        )
    pairs = [(q, (c,), rank) for q, query_ranks in ranks_by_query.items() for c, rank in query_ranks.items()]
    return SamplingFrame(unit, tuple((q, c) for q, c, _ in pairs), tuple(rank for _, _, rank in pairs))


def values(ranking: Ranking, truth: Judgements, measure: Measure) -> FloatArray:
    """The measure of every query, with `truth` as complete judgements.

    >>> lists = Ranking.from_lists({"q": "abc"}, candidates="abc")
    >>> [values(lists, Judgements.from_pairs([("q", "b")]), Measure.parse(m)).tolist() for m in ("R@2", "MRR@2", "P@2")]
    [[1.0], [0.5], [0.5]]
    """
    hits = grades_at(ranking, truth, depth=measure.k or 1) > 0
    first = np.where(hits.any(axis=1), 1 / (hits.argmax(axis=1) + 1), 0.0)
    per_query = {"P": hits.mean(axis=1), "MRR": first}.get(measure.name, hits.any(axis=1))
    return np.asarray(per_query, dtype=np.float64)


@dataclass(frozen=True)
class Sample:
    """The answered part of a design.

    Args:
        design: The design.
        known: The given positives, query -> candidate.
        truth: The same plus the matches that people found.
        said: The human label of each pair, (image, caption).
        units: The drawn units up to the first unanswered one, in order of draw.
        open: Number of drawn units without answers.
    """

    design: Design
    known: Judgements
    truth: Judgements
    said: Mapping[Key, bool]
    units: tuple[int, ...]
    open: int

    @property
    def labels(self) -> int:
        """The number of judged pairs."""
        return len({pair for n in self.units for pair in self.design.units[n].pairs(self.design.direction)})

    @property
    def left_out(self) -> int:
        """The number of queries without a given match."""
        return int((self.known.counts == 0).sum())


def read_sample(
    store: Store, collection: Collection, direction: str, collected: Sequence[Answer] | None = None
) -> Sample | None:
    """The last design of a direction with its answers (read from the store by default); None if there is no design."""
    matching = [d for d in designs(store) if d.direction == direction]
    if not matching:
        return None
    design = matching[-1]
    labels = boolean_labels(by_majority(answers(store) if collected is None else collected))
    images, captions = map(set, taken_out(store))
    drawn, done = design.drawn, set(labels)
    if design.unit == LEVEL:  # a whole pool stays complete: excluded pairs count as no match
        done |= {p for n in drawn for p in design.units[n].pairs(direction) if _barred([p], images, captions)}
    else:
        drawn = [n for n in drawn if not _barred(design.units[n].pairs(direction), images, captions)]
    complete = [all(pair in done for pair in design.units[n].pairs(direction)) for n in drawn]
    units = drawn[: complete.index(False)] if False in complete else drawn
    judgements = collection.judged("pairs", direction)
    yes = [pair if direction == "i2t" else pair[::-1] for pair, right in labels.items() if right]
    in_collection = [p for p in yes if p[0] in judgements.queries and p[1] in judgements.candidates]
    matches = Judgements.from_pairs(in_collection, queries=judgements.queries, candidates=judgements.candidates)
    return Sample(design, judgements, judgements.relevant | matches, labels, tuple(units), len(drawn) - len(units))


def _barred(pairs: Sequence[Key], images: set[str], captions: set[str]) -> bool:
    """Whether a unit is excluded because its image or caption is."""
    return any(image in images or caption in captions for image, caption in pairs)


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
