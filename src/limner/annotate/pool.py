"""Pooling: people judge the pairs that several systems rank high (Chun et al. 2022, section 3.2).

The pool is the top five of each system in both directions, without duplicates; each pair keeps all its proposals, with
system, direction, rank and score. The pool limits what can be found: a match that no system ranks high is never judged;
`limner.annotate.bias` measures this bias.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence

from limner.annotate.store import Store
from limner.annotate.store.contents import DEPTH, DIRECTIONS, Key, Listed, Proposal, add_pool, pairs, proposals
from limner.core.collection import Collection
from limner.core.errors import LimnerError, UnknownName
from limner.core.ids import Ids
from limner.core.progress import ProgressLike, as_progress
from limner.core.ranking import Ranking
from limner.language.word_overlap import bleu, content_words
from limner.scores import Scores

TOP = 5
"""Pool depth: number of ranks of every list that are pooled."""
BLEU = 0.25
"""The usual minimum BLEU-pre of a caption with the image's own captions (Hodosh et al. 2013)."""

Lists = Scores | Mapping[str, Ranking]
"""A system: scores (images by texts), or rankings by direction ("i2t", "t2i")."""


def lists_of(system: Lists, *, depth: int = DEPTH) -> dict[str, Ranking]:
    """The top of a system's lists, in each available direction."""
    if isinstance(system, Scores):
        return {"i2t": system.top(depth), "t2i": system.T.top(depth)}
    return {direction: ranking.top(depth) for direction, ranking in system.items()}


def proposed(systems: Mapping[str, Lists], *, depth: int = TOP, turn: int = 1) -> list[Proposal]:
    """Every proposal of every system, in both directions.

    >>> import numpy as np
    >>> scores = Scores.from_matrix(np.array([[0.9, 0.1], [0.2, 0.8]]), ["a.jpg", "b.jpg"], ["a", "b"])
    >>> [(p.direction, p.image, p.caption, p.rank) for p in proposed({"eyes": scores}, depth=1)][1:3]
    [('i2t', 'b.jpg', 'b', 1), ('t2i', 'a.jpg', 'a', 1)]
    """
    proposals = []
    for name, system in systems.items():
        for direction, ranking in lists_of(system, depth=depth).items():
            proposals += _of_lists(name, direction, ranking, turn)
    return proposals


def _of_lists(name: str, direction: str, ranking: Ranking, turn: int) -> list[Proposal]:
    proposals = []
    for row, query in enumerate(ranking.queries):
        for place, column in enumerate(ranking.indices[row].tolist()):
            if column >= 0:
                candidate = ranking.candidates[column]
                image, caption = (query, candidate) if direction == "i2t" else (candidate, query)
                score = None if ranking.scores is None else float(ranking.scores[row, place])
                proposals.append(Proposal(name, direction, image, caption, place + 1, score, turn))
    return proposals


def merged(proposals: Iterable[Proposal], *, depth: int = TOP) -> dict[Key, list[Proposal]]:
    """The pooled pairs in order of first proposal, each with all its proposals up to a rank."""
    pool: dict[Key, list[Proposal]] = {}
    for each in proposals:
        if each.rank <= depth:
            pool.setdefault((each.image, each.caption), []).append(each)
    return pool


def alike(pool: Iterable[Key], collection: Collection, *, min_bleu: float = BLEU) -> list[Key]:
    """The pairs whose caption shares enough words with the image's own captions: BLEU-pre of `min_bleu` or more.

    Hodosh et al. (2013) filtered out 86% of all pairs this way, and 3.5% of those that experts call matches. An image
    without its own captions keeps all its pairs.
    """
    listed = list(pool)
    captions_of: dict[str, list[str]] = {key: [] for key in collection.images.ids}
    texts = dict(zip(collection.texts.ids, collection.texts.values, strict=True))
    for image, caption, _ in collection.judgements.relevant:
        captions_of[image].append(texts.get(caption, ""))
    comparable = [pair for pair in listed if captions_of[pair[0]]]
    values = bleu([texts[c] for _, c in comparable], [captions_of[i] for i, _ in comparable], words=content_words)
    low = {pair for pair, value in zip(comparable, values, strict=True) if value < min_bleu}
    return [pair for pair in listed if pair not in low]


def fill(
    store: Store,
    systems: Mapping[str, Lists],
    *,
    depth: int = TOP,
    keep: int = DEPTH,
    turn: int = 1,
    filtered: Callable[[Sequence[Key]], Sequence[Key]] | None = None,
    progress: ProgressLike = None,
) -> dict[str, int]:
    """Writes the systems' proposals and the pooled pairs to a store that contains their collection, in one transaction.

    It can be repeated: after an interruption, with a larger depth, or with more systems; existing pairs stay.

    Args:
        store: The store.
        systems: By name.
        depth: Number of ranks of each list that are pooled.
        keep: Ranks of each list to store, so that known negatives can be chosen outside all lists; at most half of a
            small pool.
        turn: The annotation round.
        filtered: Takes the pooled pairs and returns those to keep, such as `alike`.
        progress: Called with (systems done, systems in total).

    Returns:
        The numbers of proposals, merged pairs, pairs kept by the filter, and new pairs.
    """
    progress = as_progress(progress)
    if keep < depth:
        raise LimnerError(f"keep {keep} with depth {depth}: expected keep to be at least the depth")
    proposals: list[Proposal] = []
    lists: list[Listed] = []
    for number, (name, system) in enumerate(systems.items()):
        progress(number, len(systems))
        for direction, ranking in lists_of(system, depth=keep).items():
            limit = max(depth, len(ranking.candidates) // 2)  # in a small pool the whole list would leave no negative
            lists.append(Listed(name, direction, ranking, min(keep, limit)))
            proposals += _of_lists(name, direction, ranking.top(depth), turn)
    pool = list(merged(proposals, depth=depth))
    chosen = list(filtered(pool)) if filtered is not None else pool
    _, added = add_pool(store, lists, chosen, turn=turn)
    return {"proposals": len(proposals), "merged": len(pool), "kept": len(chosen), "new": added}


def drawn(pool: Sequence[Key], limit: int, *, seed: int = 0) -> list[Key]:
    """At most so many pooled pairs: images in random order, each with all its pairs.

    >>> drawn([("a", "1"), ("b", "1"), ("a", "2"), ("b", "2")], 3)
    [('b', '1'), ('b', '2'), ('a', '1')]
    """
    images = list(dict.fromkeys(image for image, _ in pool))
    place = {image: at for at, image in enumerate(random.Random(seed).sample(images, len(images)))}
    return sorted(pool, key=lambda pair: place[pair[0]])[:limit]


def waiting(store: Store, *, direction: str | None = None, depth: int | None = None) -> list[Key]:
    """Pooled pairs without a task.

    Args:
        store: The store.
        direction: Only pairs that some system proposed in this direction, "i2t" or "t2i", for a separate stage.
        depth: Number of top ranks of the lists that count; by default as many as it takes to reach every pooled pair,
            so that two stages, one for each direction, ask for all of them.
    """
    pooled = [p for p in pairs(store) if p.origin == "pool"]
    open_pairs = [(p.image, p.caption) for p in pooled if not p.asked]
    if direction is None:
        return open_pairs
    if direction not in DIRECTIONS:
        raise UnknownName("direction", direction, DIRECTIONS)
    proposed_pairs = proposals(store, depth=depth)
    if depth is None:
        best: dict[Key, int] = {}
        for p in proposed_pairs:
            best[p.image, p.caption] = min(p.rank, best.get((p.image, p.caption), p.rank))
        depth = max((best.get((p.image, p.caption), 0) for p in pooled), default=0)
    in_direction = {(p.image, p.caption) for p in proposed_pairs if p.direction == direction and p.rank <= depth}
    return [pair for pair in open_pairs if pair in in_direction]


def subsampled(
    systems: Mapping[str, Lists], queries: Mapping[str, int], *, depth: int = DEPTH, seed: int = 0
) -> dict[str, dict[str, Ranking]]:
    """Every system's lists for a random subset of queries, the same for all systems.

    Chun et al. (2022) pooled for 1,261 images and 1,333 captions of 5,000 and 25,000.

    Args:
        systems: By name.
        queries: Number of queries per direction, "i2t" (images) and "t2i" (captions); a direction that is not named
            keeps all its queries.
        depth: Number of ranks of each list.
        seed: Seed of the random queries.
    """
    for direction, number in queries.items():
        if direction not in DIRECTIONS:
            raise UnknownName("direction", direction, DIRECTIONS)
        if number < 1:
            raise LimnerError(f"{number} queries of {direction}: expected 1 or more")
    lists_by_system = {name: lists_of(system, depth=depth) for name, system in systems.items()}
    for direction, number in queries.items():
        sides = [lists[direction] for lists in lists_by_system.values() if direction in lists]
        all_queries = sorted({query for ranking in sides for query in ranking.queries})
        if len(all_queries) < number:
            raise LimnerError(f"{len(all_queries):,} queries of {direction}, {number:,} were requested: ask for fewer")
        drawn = set(random.Random(f"{seed} {direction}").sample(all_queries, number))
        for lists in lists_by_system.values():
            if direction in lists:
                lists[direction] = _only(lists[direction], drawn)
    return lists_by_system


def _only(ranking: Ranking, queries: set[str]) -> Ranking:
    rows = [row for row, query in enumerate(ranking.queries) if query in queries]
    scores = None if ranking.scores is None else ranking.scores[rows]
    names = [ranking.queries[row] for row in rows]
    return Ranking(Ids(names, what="query"), ranking.candidates, ranking.indices[rows], scores, ranking.n_candidates)
