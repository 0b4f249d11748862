"""The index over images or texts: create it, add and delete items, and search it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from limner.core.arrays import Array
from limner.core.collection import Items
from limner.core.cut_texts import noted
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError, UnknownId, UnknownName, shown
from limner.core.ids import Ids
from limner.core.progress import Progress, ProgressLike, as_progress
from limner.core.ranking import Ranking
from limner.encoders.contract import Encoder, SetEncoder, TwoSided, identity, set_similarity
from limner.scores import Scores, VectorSets
from limner.scores.corrected import CorrectedScores, correct
from limner.scores.correction import Correction, Statistics
from limner.scores.vectors import VectorScores
from limner.search import approximate, exact_search, index_table, set_search
from limner.search.approximate import Ann, Recall
from limner.search.hits import Hits
from limner.search.index_table import About, Queries, Vectors, as_vectors, batches, numbered
from limner.search.items import Row, encoded_queries
from limner.search.store import VectorStore, Version
from limner.search.stored_vectors import HeldVersion, StoredScores

System = Encoder | TwoSided | SetEncoder | Callable[..., object]
Named = str | type[Correction] | Correction
How = Named | Path | Statistics

EXISTING = ("refuse", "replace", "skip")
MEMORY = 2**30
"""Maximum size of vectors kept in memory between searches."""
PROPOSED = 2
"""If the vectors are not in memory, up to this many queries use LanceDB's scan; for more, vectors are read once."""
SAMPLE, K = 100, 10
"""Recall is measured with this many queries, for this many neighbours."""


@dataclass(eq=False)
class Index:
    """Vectors with ids on disk or in object storage, and their items.

    Created by `index`, opened by `open_index`. One process may add items while others search: a search sees the newest
    version at the time when the index was opened, changed through this object, or refreshed.

    Args:
        store: The vector store.
        system: Encodes queries that are not vectors; None to accept vectors only.
        memory: Vectors up to this many bytes stay in memory between searches; larger stores are streamed.
    """

    store: VectorStore
    system: System | None = None
    memory: int = MEMORY
    _held: HeldVersion | None = field(default=None, repr=False)
    _searched: int | None = field(default=None, repr=False)  # the version that was searched without loading it

    def __len__(self) -> int:
        return len(self.store)

    @property
    def about(self) -> About:
        """The description of the index: dimension, kind of items, similarity, system."""
        return self.store.about

    @property
    def version(self) -> int:
        """The number of the version that is searched; every change creates a new one."""
        return self.store.version

    def versions(self) -> list[Version]:
        """The versions that `open_index(path, version=...)` can still open."""
        return self.store.versions()

    @property
    def ids(self) -> Ids:
        """All ids, in the order of the store."""
        return Ids(self.store.ids(), what=self.about.kind)

    def refresh(self) -> None:
        """Moves to the newest version, written by other processes."""
        self.store.refresh()

    # --- changing --------------------------------------------------------------------------------------------------

    def add(
        self,
        embeddings: Vectors,
        items: Items | None = None,
        *,
        existing: str = "refuse",
        system: System | None = None,
        measure: bool = True,
        progress: ProgressLike = None,
    ) -> int:
        """Adds vectors in one commit, and returns their number.

        Args:
            embeddings: Vectors with ids, with the dimension of the index: one per item, or `VectorSets`.
            items: The items; must contain every id of the embeddings.
            existing: What to do with existing ids: "refuse" all, "replace" their rows, or "skip" them.
            system: Their encoder; refused if the index was made with another model.
            measure: Whether to measure the recall of an approximate index again, which takes about a hundred searches;
                otherwise no recall is shown until `recall` or `compact` is called.
            progress: Called with (rows written, rows in total).
        """
        if existing not in EXISTING:
            raise UnknownName("policy for existing ids", existing, EXISTING)
        index_table.refuse_unlike(self.about, embeddings, items)
        self.refuse_other(system)
        with self.store.writing():
            present = self.store.present(embeddings.ids)
            if present and existing == "refuse":
                raise LimnerError(
                    f"{len(present)} of {len(embeddings)} ids are in the index already ({shown(sorted(present))}): "
                    "replace them with existing='replace' (--replace), or leave them with existing='skip' (--resume)"
                )
            if existing == "skip":
                embeddings = embeddings.subset([key for key in embeddings.ids if key not in present])
            if len(embeddings):
                write = self.store.replace if present and existing == "replace" else self.store.append
                write(batches(self.about, embeddings, items, as_progress(progress)))
                self._measure_again(measure)
        return len(embeddings)

    def refuse_other(self, system: System | None, name: str | None = None) -> None:
        """Refuses a system that differs from the model of the index; unknown models are accepted.

        Args:
            system: The encoder.
            name: The name the user gave.
        """
        index_table.refuse_other_model(self.about, system, name)

    def holds(self, ids: Iterable[object]) -> list[bool]:
        """Which of these ids are in the index."""
        present = self.store.present(keys := [str(key) for key in ids])
        return [key in present for key in keys]

    def delete(self, ids: Iterable[object], *, measure: bool = True) -> int:
        """Removes items in one commit, and returns their number; refuses unknown ids. `measure` is as in `add`."""
        gone = Ids(ids, what=self.about.kind)
        with self.store.writing():
            missing = set(gone) - self.store.present(gone)
            if missing:
                raise UnknownId(
                    f"{len(missing)} of {len(gone)} ids are not in the index ({shown(sorted(missing))}): nothing "
                    "is deleted; check the ids"
                )
            if len(gone):
                self.store.delete(gone)
                self._measure_again(measure)
        return len(gone)

    def compact(self, *, keep_days: float = 7, progress: ProgressLike = None) -> None:
        """Merges the fragments of many small additions, and drops versions older than `keep_days` days.

        An approximate index is rebuilt over all rows, and its recall is measured again.
        """
        progress = as_progress(progress)
        with self.store.writing():
            ann = Ann.noted(self.store)
            self.store.drop_index()
            progress.step(f"merging the pieces of {len(self):,} items")
            self.store.compact(keep=timedelta(days=keep_days))
            if ann is not None and len(self) >= approximate.FEWEST:
                self._build(ann.kind, ann.wanted, *self._sample(None, SAMPLE), K, progress)
            elif ann is not None:
                self.store.note(ann=None)

    # --- searching -------------------------------------------------------------------------------------------------

    @noted
    def search(
        self,
        queries: Queries,
        k: int = 10,
        *,
        correct: How | None = None,
        bank: Queries | Statistics | str | Path | None = None,
        exact: bool | None = None,
        progress: ProgressLike = None,
        **options: object,
    ) -> Hits:
        """The k best items of every query.

        Args:
            queries: Vectors, of the kind of the index; or texts or items, if the index has a system.
            k: Number of hits per query.
            correct: A correction for hubs, by name, or saved statistics; it needs exact search.
            bank: The query bank of the correction: other queries (vectors, texts, items), or saved statistics; by
                default the queries themselves.
            exact: False for approximate search, True for exact; by default the faster one when the index was built.
            progress: Called with (rows done, rows in total).
            options: Options of the correction; and trust=True if a file of statistics may name a custom correction.
        """
        progress = as_progress(progress)
        if k < 1:
            raise LimnerError(f"search for the {k} best: expected at least 1")
        items, vectors = self.read_queries(queries)
        ann = self._ann(exact, correct is not None)
        if correct is not None:
            return self._corrected(items, vectors, k, self._correction(vectors, correct, bank, options), progress)
        if bank is not None or options:
            extra = "a bank" if bank is not None else shown(options)
            raise LimnerError(f"{extra} without a correction: name one, such as correct='csls'")
        if ann is not None and isinstance(vectors, Embeddings) and (exact is False or ann.is_faster(len(vectors))):
            neighbours = approximate.joined(list(approximate.nearest_rows(self.store, vectors, k, ann.probes)))
            return replace(self._hits(items, *neighbours), recall=ann.recall, exact=False)
        if (proposed := self._proposed(vectors, k, progress)) is not None:
            return self._hits(items, *approximate.joined(proposed))
        return self.hits_at(items, *self.nearest(vectors, k, progress=progress))

    def scores(self, queries: Queries) -> Scores:
        """Scores of queries against all items in the index."""
        vectors = self.read_queries(queries)[1]
        in_memory = self._in_memory()
        if isinstance(vectors, VectorSets):
            source = self.store if in_memory is None else in_memory.pieces
            return set_search.StoredSetScores(vectors, source, self.ids, str(self.about.pooling))
        if in_memory is not None:
            return VectorScores(vectors, Embeddings(self.ids, in_memory.vectors))
        return StoredScores(vectors, self.store, self.ids)

    def statistics(self, method: Named, bank: Queries, *, progress: ProgressLike = None, **options: Any) -> Statistics:
        """The statistics of a query bank, which can be saved to correct single live queries."""
        bank_scores = self.scores(bank)
        return correct(bank_scores, method, bank=bank_scores, **options).gather(progress=progress)

    def approximate(
        self,
        kind: str = "ivf_sq",
        *,
        recall: float = 0.95,
        queries: Queries | None = None,
        k: int = K,
        progress: ProgressLike = None,
    ) -> Ann:
        """Builds LanceDB's approximate index, and probes as many clusters as the target recall needs.

        Args:
            kind: A key of `limner.search.approximate.KINDS`.
            recall: The target recall: the mean share of the exact k best that a search should return.
            queries: Queries to measure it with; by default rows of the index itself, which are easier to find.
            k: Number of neighbours.
            progress: A display, which shows the steps and counts the queries that recall is measured with.
        """
        approximate.refuse_sets(self.about)
        with self.store.writing():
            return self._build(kind, recall, *self._sample(queries, SAMPLE), k, as_progress(progress))

    def recall(
        self, sample: int = SAMPLE, *, queries: Queries | None = None, k: int = K, progress: ProgressLike = None
    ) -> Recall:
        """Measures the recall of the approximate index now, and saves it in the store."""
        with self.store.writing():
            ann = self._needed_ann()
            sampled, of = self._sample(queries, sample)
            measured = approximate.measured(
                self.store, sampled, of, self.nearest(sampled, k)[0], k, ann.probes, progress
            )
            self._keep(replace(ann, recall=measured))
        return measured

    # --- how -------------------------------------------------------------------------------------------------------

    def _build(self, kind: str, recall: float, sampled: Embeddings, of: str, k: int, progress: Progress) -> Ann:
        """Builds the approximate index, with the fewest probes that reach the target recall, or else the maximum."""
        progress.step(f"building an approximate index ({kind}) of {len(self):,} items")
        approximate.build(self.store, kind)
        step = progress.step(f"finding the exact neighbours of {len(sampled):,} queries", "rows")
        self._in_memory()
        answer, exact_seconds = approximate.timed_exact(
            sampled, lambda: self.nearest(sampled, k, progress=step)[0], lambda one: self.search(one, k, exact=True)
        )
        probes, measured = approximate.fewest_probes(self.store, sampled, of, answer, k, recall, progress)
        ann = Ann(kind, probes, measured, recall, measured.seconds, exact_seconds)
        self._keep(ann)
        return ann

    def _measure_again(self, remeasure: bool) -> None:
        """Measures recall again after a change."""
        ann = Ann.noted(self.store) if remeasure and len(self) else None
        if ann is not None:
            sampled, of = self._sample(None, SAMPLE)
            recall = approximate.measured(self.store, sampled, of, self.nearest(sampled, K)[0], K, ann.probes)
            self._keep(replace(ann, recall=recall))

    def _keep(self, ann: Ann) -> None:
        """Saves the settings, which creates a new version of the same rows."""
        loaded = self._loaded_version()
        ann.keep(self.store)
        self._held = loaded and replace(loaded, version=self.version)

    def read_queries(self, queries: Queries) -> tuple[Items, Vectors]:
        """The queries as items and as vectors, normalised for cosine similarity."""
        vectors = as_vectors(queries, sets=self.about.has_sets)
        if vectors is not None:
            return Items(vectors.ids, [None] * len(vectors)), self._checked(vectors)
        queries = Items.of(queries)
        if self.system is None:
            raise LimnerError(
                f"a {queries.kind} query needs an encoder, and the index has none: give vectors, or a system "
                "(open_index(path, system=...), --model)"
            )
        self.refuse_other(self.system)
        return queries, self._checked(encoded_queries(self.system, queries, sets=self.about.has_sets))

    def _checked(self, vectors: Vectors) -> Vectors:
        index_table.refuse_unlike(self.about, vectors)
        return vectors.normalised() if self.about.similarity == "cosine" else vectors

    def _ann(self, exactly: bool | None, corrected: bool) -> Ann | None:
        if exactly is False and corrected:
            raise LimnerError("a correction uses every item: leave out exact=False (--approximate)")
        if exactly is True or corrected:
            return None
        return self._needed_ann() if exactly is False else Ann.noted(self.store)

    def _needed_ann(self) -> Ann:
        approximate.refuse_sets(self.about)
        ann = Ann.noted(self.store)
        if ann is None:
            raise LimnerError("there is no approximate index: build one with index.approximate() (limner index --ann)")
        return ann

    def _in_memory(self) -> HeldVersion | None:
        """All vectors, or None if they are too large."""
        if self.store.size > self.memory:
            return None
        loaded = self._loaded_version() or HeldVersion.of(self.store)
        self._held = loaded
        return loaded

    def _loaded_version(self) -> HeldVersion | None:
        """The version in memory, if it is the one that is searched."""
        return self._held if self._held is not None and self._held.version == self.version else None

    def _proposed(self, vectors: Vectors, k: int, progress: Progress) -> list[list[Row]] | None:
        """The hits of one or two queries from LanceDB's scan; None if the vectors are in memory or should be loaded."""
        version = self.version
        if isinstance(vectors, VectorSets) or len(vectors) > PROPOSED or self.about.similarity != "cosine":
            return None
        if self._loaded_version() is not None or (self._searched == version and self.store.size <= self.memory):
            return None
        self._searched = version
        progress(0, len(self))
        rows = exact_search.proven(self.store, vectors, k)
        progress(len(self), len(self))
        return rows

    def nearest(
        self, vectors: Vectors, k: int, *, among: Array | None = None, progress: ProgressLike = None
    ) -> exact_search.Best:
        """The exact k best rows: positions in the store and scores; only among the rows of a mask, if one is given."""
        loaded = self._in_memory()
        if isinstance(vectors, VectorSets):
            pieces = set_search.pieces_of(self.store if loaded is None else loaded.pieces, among)
            pooling = str(self.about.pooling)
            return set_search.top(vectors, pieces, k, rows=len(self), pooling=pooling, progress=progress)
        blocks = self.store.vectors() if loaded is None else iter([loaded.vectors] if len(loaded.vectors) else [])
        longest = 1.0 if self.about.similarity == "cosine" else None
        return exact_search.top(vectors, blocks, k, rows=len(self), max_norm=longest, among=among, progress=progress)

    def _correction(self, vectors: Vectors, method: How, bank: object, options: Mapping[str, Any]) -> CorrectedScores:
        if isinstance(bank, (str, Path)):
            bank = Statistics.load(bank, trust=bool(options.get("trust")))
        if bank is not None and not isinstance(bank, Statistics):
            bank = self.scores(bank)
        return correct(self.scores(vectors), method, bank=bank, **options)

    def _corrected(self, items: Items, vectors: Vectors, k: int, scores: CorrectedScores, progress: Progress) -> Hits:
        ranking = scores.top(k, progress=progress)
        return replace(self.hits_at(items, ranking.indices, ranking.scores), correction=scores.correction.name)

    def hits_at(self, items: Items, places: Array, scores: Array | None) -> Hits:
        """The hits at these positions of the store, one row per query; -1 for none."""
        unique, loaded = np.unique(places[places >= 0]), self._loaded_version()
        rows = self.store.take(unique) if loaded is None else loaded.take(self.store, unique)
        return self._hits(items, rows, np.where(places < 0, -1, np.searchsorted(unique, places)), scores)

    def _hits(self, items: Items, rows: list[Row], indices: Array, scores: Array | None) -> Hits:
        ranking = Ranking(items.ids, Ids([row["id"] for row in rows], what="candidate"), indices, scores, len(self))
        return Hits(items, ranking, {row["id"]: row for row in rows}, self.about.kind)

    def _sample(self, queries: Queries | None, sample: int) -> tuple[Embeddings, str]:
        vectors = None if queries is None else self.read_queries(queries)[1]
        if isinstance(vectors, Embeddings):
            return vectors, "given"
        return numbered(approximate.sample(self.store, sample)), "stored"


def index(
    path: str | Path,
    embeddings: object,
    items: Items | None = None,
    *,
    similarity: str | None = None,
    system: System | None = None,
    system_name: str | None = None,
    model_label: str | None = None,
    progress: ProgressLike = None,
) -> Index:
    """Creates an index, in one commit.

    Args:
        path: A folder without an index, or an address that LanceDB opens (s3://, gs://, az://).
        embeddings: Vectors with ids; plain rows of numbers get the ids of the items, or row numbers. `VectorSets`, with
            several vectors per item, are searched by late interaction (see `limner.search.set_search`).
        items: The images or texts of the vectors; must contain every id. Texts and paths are stored, and thumbnails of
            images without a path.
        similarity: "cosine" (vectors are stored with length 1) or "dot"; by default cosine, or as the system says.
        system: The model that made the vectors, which also encodes queries; other models are refused afterwards.
        system_name: The system that `limner search` loads to encode queries: a file, or "module:thing".
        model_label: Name of the system in messages; its name by default.
        progress: Called with (rows written, rows in total).
    """
    several = isinstance(embeddings, VectorSets)
    vectors: Any = embeddings if several else Embeddings.of(embeddings, ids=None if items is None else items.ids)
    chosen_similarity = similarity or (set_similarity(system) if several else "cosine")
    called = model_label or getattr(system, "name", None) or system_name
    kind, model = "item" if items is None else items.kind, identity(system, system_name)
    about = About(vectors.dim, kind, chosen_similarity, system_name, model, called, "maxsim" if several else None)
    if not len(vectors):
        raise LimnerError("no vectors to index: expected at least one")
    return Index(VectorStore.create(path, about, batches(about, vectors, items, as_progress(progress))), system)


def open_index(
    path: str | Path, *, version: int | None = None, system: System | None = None, memory: int = MEMORY
) -> Index:
    """Opens an index at its newest version, or at an older one.

    Args:
        path: The folder or address of the index.
        version: One of `index.versions()`; an old version can be searched, but not changed.
        system: Encodes queries that are not vectors.
        memory: Vectors up to this many bytes stay in memory between searches.
    """
    opened = Index(VectorStore.open(path, version=version), system, memory)
    opened.refuse_other(system)
    return opened
