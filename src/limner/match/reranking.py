"""Cascade: a fast system proposes candidates, a more accurate one re-ranks them (Messina et al. 2022).

The proposer's best candidates of each query are scored again, pair by pair; candidates with equal scores keep the
proposer's order. Scores can be cached in a folder: a killed run can then be resumed, and a deeper one scores only the
new pairs. With a weight below 1, the scores of the proposer count too.
"""

from __future__ import annotations

import hashlib
import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from limner.core.arrays import IntArray
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.core.progress import Progress, ProgressLike, as_progress, progress_for
from limner.core.ranking import Ranking
from limner.core.registry import Registry
from limner.encoders.batching import PART_SECONDS, paced
from limner.encoders.cache import Keys, RowStore, keys_of, owner_of
from limner.encoders.named_models import is_model_name, named_model
from limner.match.fusion import normalised
from limner.scores import Scorer, Scores
from limner.scores.inputs import as_scorer

DEPTH = 1000
AT_ONCE = 65_536
"""Number of pairs per call of the scorer, enough to group by length; fewer if slow scores are cached."""
SCORERS: Registry[object] = Registry(
    "pair scorer",
    {
        "blip-itm": "limner.systems.towers.image_pairs:ItmScorer",
        "cross-encoder": "limner.systems.towers.pairs:CrossEncoderScorer",
        "image-cross-encoder": "limner.systems.towers.image_pairs:ImageCrossEncoder",
        "levenshtein": "limner.papers.file_name_systems:Levenshtein",
        "vilt": "limner.systems.towers.image_pairs:ViltScorer",
    },
)
"""Pair scorers by name: classes or functions that are called with the options, or scorer objects."""
Block = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Cascade(Ranking):
    """A re-ranked ranking, with the cost of re-ranking.

    Args:
        pairs: Number of pairs scored in this run.
        reused: Number of pairs whose scores came from the cache.
        seconds: Time taken by the scorer.
    """

    pairs: int = field(default=0, kw_only=True)
    reused: int = field(default=0, kw_only=True)
    seconds: float = field(default=0.0, kw_only=True)

    @property
    def throughput(self) -> float:
        """Pairs scored per second."""
        return self.pairs / self.seconds if self.seconds else 0.0

    def __repr__(self) -> str:
        cached = f", {self.reused:,} from the cache" if self.reused else ""
        pace = f"{self.pairs:,} pairs at {self.throughput:,.0f} pairs/s{cached}"
        return f"Cascade({len(self):,} queries, depth {self.depth:,}, {pace})"


def cascade(
    proposer: Scores | Ranking,
    scorer: Scorer | Callable[..., object],
    *,
    queries: object,
    candidates: object,
    depth: int | float = DEPTH,
    weight: float = 1.0,
    keep_rest: bool = False,
    cache: str | Path | None = None,
    name: str | None = None,
    progress: ProgressLike = None,
) -> Cascade:
    """Re-ranks the proposer's best candidates of each query by the scorer; equal scores keep the proposer's order.

    Args:
        proposer: Scores, or a ranking that is deep enough.
        scorer: An object with `score_pairs(queries, candidates)` (a trained CRank, a CrossEncoder, ...), or a function.
        queries: The queries for the scorer: items, {id: value}, or a list in the order of the proposer's queries.
        candidates: Likewise.
        depth: How many candidates of each query are re-ranked: a number (1000), or a share of the pool (0.2).
        weight: The weight of the scorer, above 0 and up to 1. At 1 only the scorer counts; below 1, both scores are
            standardised within each list of re-ranked candidates, and weight z(scorer) + (1 - weight) z(proposer)
            gives the order.
        keep_rest: Whether the proposer's other candidates follow at the end, in its order, with a score of -inf.
        cache: A folder that caches every score, by scorer and content.
        name: Name of the scorer and its version, for a cache with a scorer that has no `fingerprint`.
        progress: Called with (pairs done, pairs in total).

    >>> class Longest:
    ...     def score_pairs(self, queries, candidates):
    ...         return [len(c) for c in candidates]
    >>> first = Scores.from_matrix(np.array([[0.9, 0.8, 0.7]]), ["q"], ["a", "b", "c"])
    >>> cascade(first, Longest(), queries=["?"], candidates=["xx", "yy", "zzz"], depth=2)["q"]  # a tie: a stays first
    ['a', 'b']
    """
    progress = as_progress(progress)
    if not 0 < weight <= 1:
        raise LimnerError(f"weight={weight}: expected the weight of the scorer, above 0 and up to 1")
    scorer, chosen_depth = as_scorer(scorer), _depth(depth, proposer)
    proposed = _proposed(proposer, chosen_depth, keep_rest)
    sides = _values(queries, proposed.queries, "query"), _values(candidates, proposed.candidates, "candidate")
    scoring = _Scoring(scorer, sides, _store(scorer, cache, name))
    first = proposed.indices[:, :chosen_depth].astype(np.int64)
    scored = _mixed(scoring.all(first, progress), proposed, weight)
    order = np.argsort(-scored, axis=1, kind="stable")
    indices, scores = np.take_along_axis(first, order, axis=1), np.take_along_axis(scored, order, axis=1)
    if keep_rest:
        indices = np.concatenate([indices, proposed.indices[:, chosen_depth:]], axis=1)
        behind = np.full((len(indices), indices.shape[1] - scores.shape[1]), -np.inf)
        scores = np.concatenate([scores, behind], axis=1)
    work: dict[str, Any] = {"pairs": scoring.asked, "reused": scoring.reused, "seconds": scoring.seconds}
    return Cascade(proposed.queries, proposed.candidates, indices, scores, proposed.n_candidates, **work)


def scorer(name: str, **options: object) -> Scorer:
    """A pair scorer by name.

    Args:
        name: A key of `SCORERS` or "module:thing", either with options such as "blip-itm(model=DIR)"; a class or
            function is called with the options. Or the name of a model, such as "Salesforce/blip-itm-base-coco".
        options: Options of the scorer, such as `model` and `device`.

    >>> scorer("levenshtein").score_pairs(["red"], ["bed"]).round(2).tolist()
    [0.67]
    """
    if not SCORERS.names(name) and is_model_name(name):
        model = named_model(name)
        if not model.adapter.is_scorer:
            raise LimnerError(f"{name} is read by {model.adapter.name!r}, which encodes items and scores no pairs")
        name, options = model.adapter.name, {**model.settings, **options}
    name, options = SCORERS.parsed(name, options)
    registered = SCORERS.find(name)
    if hasattr(registered, "score_pairs") and not inspect.isclass(registered):
        if options:
            raise LimnerError(f"pair scorer {name!r} is an object and takes no options; got {', '.join(options)}")
        return cast("Scorer", registered)
    instance = SCORERS.make(name, options) if callable(registered) else registered
    if not hasattr(instance, "score_pairs"):
        raise LimnerError(f"{name} is a {type(instance).__name__}, which cannot score pairs: expected score_pairs")
    return cast("Scorer", instance)


def _mixed(scored: Block, proposed: Ranking, weight: float) -> Block:
    """The weighted scores of both stages, list by list; the scores of the scorer for weight 1."""
    if weight == 1:
        return scored
    if proposed.scores is None:
        raise LimnerError(f"weight={weight} with a ranking that has no scores: give the proposer's scores, or weight=1")
    before = np.asarray(proposed.scores[:, : scored.shape[1]], dtype=np.float64)
    scored_twice = (scored > -np.inf) & (before > -np.inf)
    ours, theirs = (normalised(np.where(scored_twice, each, -np.inf), "zscore") for each in (scored, before))
    return weight * ours + (1 - weight) * theirs


def _depth(depth: int | float, proposer: Scores | Ranking) -> int:
    pool = len(proposer.candidates) if isinstance(proposer, Scores) else proposer.n_candidates
    if isinstance(depth, float):
        if not 0 < depth <= 1:
            raise LimnerError(f"depth={depth}: expected a share above 0 and up to 1, or a whole number of candidates")
        if pool is None:
            raise LimnerError(
                f"depth={depth} is a share, but the ranking's pool is unknown: give a whole number of candidates"
            )
        return max(1, round(depth * pool))
    if depth < 1:
        raise LimnerError(f"depth={depth}: expected at least 1 candidate, or a share such as 0.2")
    return depth if pool is None else min(depth, pool)


def _proposed(proposer: Scores | Ranking, depth: int, keep_rest: bool) -> Ranking:
    if isinstance(proposer, Scores):
        return proposer.ranking() if keep_rest else proposer.top(depth)
    if proposer.depth < depth and proposer.truncated:
        pool = "an unknown pool" if proposer.n_candidates is None else f"{proposer.n_candidates:,} candidates"
        raise LimnerError(
            f"the proposer ranks {proposer.depth:,} of {pool}, but depth is {depth:,}: rank deeper, or lower depth"
        )
    return proposer if keep_rest else proposer.top(depth)


def _values(items: Any, ids: Ids, noun: str) -> Sequence[object]:
    """The values for the scorer, in the order of the ids."""
    if hasattr(items, "subset"):
        part: Any = items.subset(ids)
        part_values: Sequence[object] = part.values if hasattr(part, "values") else part.matrix
        return part_values
    if isinstance(items, dict):
        missing = [i for i in ids if i not in items]
        if missing:
            raise LimnerError(f"{len(missing)} of {len(ids)} {noun} ids have no value, e.g. {missing[0]!r}")
        return [items[i] for i in ids]
    if len(items) != len(ids):
        raise LimnerError(f"{len(items)} {noun} values for {len(ids)} {noun} ids: expected one each, in their order")
    values: Sequence[object] = items
    return values


def _store(scorer: Scorer, cache: str | Path | None, name: str | None) -> RowStore | None:
    if cache is None:
        return None
    return RowStore(cache, owner=f"pairs {owner_of(scorer, name)}", width=1, dtype="float64")


@dataclass
class _Scoring:
    """Scores the pairs of a ranking in batches, and caches the scores."""

    scorer: Scorer
    sides: tuple[Sequence[object], Sequence[object]]
    store: RowStore | None
    asked: int = 0
    reused: int = 0
    seconds: float = 0.0

    def all(self, indices: IntArray, progress: Progress) -> Block:
        """Scores of every entry of every list; -inf where a list is shorter."""
        scored = np.full(indices.shape, -np.inf)
        keys = self._content_keys()
        places, total, done = np.argwhere(indices >= 0), int((indices >= 0).sum()), 0
        pace = None if self.store is None else PART_SECONDS
        for piece in paced(total, max_items=AT_ONCE, seconds=pace):
            part = places[piece]
            pairs = part[:, 0], indices[part[:, 0], part[:, 1]]
            scored[part[:, 0], part[:, 1]] = self._part(*pairs, keys, progress.part(done, total))
            done += len(part)
            progress(done, total)
        return scored

    def _content_keys(self) -> tuple[Keys, Keys] | None:
        if self.store is None:
            return None
        query_key = getattr(
            self.scorer, "query_key", _content
        )  # images are identified by their content, not by their path
        queries, candidates = (
            keys_of(map(key_of, side)) for key_of, side in zip((query_key, _content), self.sides, strict=True)
        )
        return queries, np.roll(candidates, 1, axis=1)  # rotated, so that (a, b) differs from (b, a)

    def _part(self, rows: IntArray, columns: IntArray, keys: Any, progress: Progress) -> Block:
        if self.store is None or keys is None:
            return self._ask(rows, columns, progress)
        # Sums of independent hashes collide as rarely as the hashes themselves.
        mixed = keys[0][rows] + keys[1][columns]
        cached, stored = self.store.get(mixed)
        scores: Block = stored[:, 0]
        if not cached.all():
            scores[~cached] = self._ask(rows[~cached], columns[~cached], progress)
            self.store.put(mixed[~cached], scores[~cached])
        self.reused += int(cached.sum())
        return scores

    def _ask(self, rows: IntArray, columns: IntArray, progress: Progress) -> Block:
        queries, candidates = self.sides
        pairs = [queries[r] for r in rows.tolist()], [candidates[c] for c in columns.tolist()]
        began = time.perf_counter()
        answer = np.asarray(
            self.scorer.score_pairs(*pairs, **progress_for(self.scorer.score_pairs, progress)), np.float64
        )
        self.seconds += time.perf_counter() - began
        self.asked += len(rows)
        if answer.shape != (len(rows),):
            raise LimnerError(f"score_pairs gave shape {answer.shape} for {len(rows)} pairs: expected one number each")
        if np.isnan(answer).any():
            at = int(np.flatnonzero(np.isnan(answer))[0])
            raise LimnerError(f"the score of query {pairs[0][at]!r} and candidate {pairs[1][at]!r} is NaN")
        return answer


def _content(value: object) -> bytes:
    """A hash of a scorer's input: a text, numbers, or several of them."""
    digest = hashlib.blake2b(digest_size=16)
    for part in value if isinstance(value, tuple) else (value,):
        data = part.encode() if isinstance(part, str) else np.ascontiguousarray(part).tobytes()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.digest()
