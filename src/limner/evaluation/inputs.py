"""Converts the inputs of `evaluate` to scores or rankings by direction, and judgements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from limner.core.arrays import array, is_lazy, is_matrix
from limner.core.collection import Collection
from limner.core.embeddings import Embeddings, named_vectors
from limner.core.errors import LimnerError, UnknownName, shown
from limner.core.ids import Ids
from limner.core.judgements import Judgements
from limner.core.progress import Progress, ProgressLike, as_progress
from limner.core.ranking import Ranking
from limner.datasets.memory_tables import rows
from limner.datasets.trec import COLUMNS, cell, has_columns
from limner.encoders.contract import is_model, scores_of_model
from limner.scores import Scores

Source = Scores | Ranking

EXPECTED = "expected Scores, a Ranking, a model, or a mapping from 'i2t' and 't2i' to scores or rankings"


def evaluation_inputs(
    system: Any, truth: Any, *, per_image: int | None = None, progress: ProgressLike = None
) -> tuple[object, Collection | Judgements]:
    """Converts system and truth to the types that `evaluate` works on.

    Args:
        system: Scores, a ranking, a mapping of directions; image vectors; a model or encoder; or a run as a mapping.
        truth: A collection or judgements; text vectors; judgements as {query: {candidate: grade}}, {query: [ids]}, a
            list of (query, candidate[, grade]), or a table of them.
        per_image: Texts per image, for image and text vectors, or a matrix of similarities, in order.
        progress: Passed to an encoder.
    """
    progress = as_progress(progress)
    system, truth = (argument.collect() if is_lazy(argument) else argument for argument in (system, truth))
    if truth is None:
        return _matrix_in_order(system, 1 if per_image is None else per_image)
    if _are_vectors(system) and _are_vectors(truth):
        return _aligned(system, truth, 1 if per_image is None else per_image)
    if per_image is not None:
        raise LimnerError(
            "per_image is for evaluate(images, texts) with two sets of vectors, or evaluate(similarities) with a "
            "matrix; leave it out"
        )
    if isinstance(truth, Mapping):
        truth = _judgements(truth)
    elif _is_listed(truth):
        truth = Judgements.from_pairs(_triples(truth), name="judgements")
    if isinstance(truth, Judgements):
        system = _by_query(_triples(system)) if _is_listed(system) else system
        is_run = isinstance(system, Mapping) and all(isinstance(row, (list, tuple, Mapping)) for row in system.values())
        return Ranking.from_lists(system) if is_run else system, truth
    if not isinstance(truth, Collection):
        raise LimnerError(
            f"truth of type {type(truth).__name__}: expected a Collection, Judgements, "
            "{query: {candidate: grade}}, a list or table of (query, candidate, grade), or text vectors together "
            "with image vectors"
        )
    return _on(system, truth, progress), truth


def _are_vectors(argument: object) -> bool:
    if isinstance(argument, (Embeddings, Scores, Collection, Mapping)):
        return isinstance(argument, Embeddings)
    named = named_vectors(argument)
    return is_matrix(argument if named is None else named[1])


def _aligned(images: object, texts: object, per_image: int) -> tuple[Scores, Collection]:
    """Scores and collection of aligned vectors: row n of the texts belongs to row n // per_image of the images."""
    sides = Embeddings.of(images, prefix="image-"), Embeddings.of(texts, prefix="text-")
    if len(sides[1]) != per_image * len(sides[0]):
        raise LimnerError(
            f"{len(sides[0]):,} vectors of images and {len(sides[1]):,} of texts, {per_image} per image: expected "
            f"{per_image * len(sides[0]):,} texts, those of the first image first; set it with per_image=5, or "
            "give Scores.from_embeddings(images, texts) and a Collection"
        )
    if set(sides[0].ids) == set(sides[1].ids):
        sides = sides[0], sides[1].subset(sides[0].ids)  # the same ids in a different order
    if set(sides[0].ids) & set(sides[1].ids):
        sides = _prefixed("image-", sides[0]), _prefixed("text-", sides[1])
    collection = Collection.in_order(sides[0].ids, sides[1].ids, per_image=per_image)
    return Scores.from_embeddings(*sides), collection


def _matrix_in_order(similarities: object, per_image: int) -> tuple[Scores, Collection]:
    """Scores and collection of a matrix, images by texts: column n belongs to row n // per_image."""
    if isinstance(similarities, (Embeddings, Scores, Collection, Mapping)) or not is_matrix(similarities):
        raise LimnerError(
            f"got {type(similarities).__name__} alone: expected evaluate(system, collection), evaluate(images, texts), "
            "or a matrix of similarities, images by texts"
        )
    matrix = array(similarities, "similarities")
    images, texts = matrix.shape
    if texts != per_image * images:
        turned = images == per_image * texts and images != texts
        hint = "it looks transposed; give matrix.T" if turned else "set it with per_image=5, or give a Collection"
        raise LimnerError(
            f"similarities of {images:,} images and {texts:,} texts, {per_image} per image: expected "
            f"{per_image * images:,} columns, the texts of the first image first; {hint}"
        )
    ids = [f"image-{n}" for n in range(images)], [f"text-{n}" for n in range(texts)]
    return Scores.from_matrix(matrix, *ids), Collection.in_order(*ids, per_image=per_image)


def _prefixed(prefix: str, side: Embeddings) -> Embeddings:
    return Embeddings.of(side.matrix, ids=[f"{prefix}{key}" for key in side.ids])


def _is_listed(argument: object) -> bool:
    """Whether the input is a table of runs or judgements, or a list of (query, candidate[, number])."""
    columns = [str(name) for name in getattr(argument, "column_names", getattr(argument, "columns", ()))]
    if columns:
        return has_columns(columns)
    first = argument[0] if isinstance(argument, (list, tuple)) and len(argument) else None
    return isinstance(first, (list, tuple)) and len(first) in (2, 3) and isinstance(first[0], str)


def _triples(table: object) -> list[tuple[object, object, float]]:
    """Yields (query, candidate, number); the number is 1 if there is none."""
    if isinstance(table, (list, tuple)):
        return [(row[0], row[1], _number(row[2], row[1]) if len(row) > 2 else 1.0) for row in table]
    triples = []
    for row in rows(table):
        query, candidate, number = (cell(row, role) for role in COLUMNS)
        triples.append((query, candidate, 1.0 if number is None else _number(number, candidate)))
    return triples


def _number(value: Any, candidate: object) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise LimnerError(f"the number of candidate {candidate!r} is {value!r}: expected a grade or a score") from error


def _by_query(triples: list[tuple[object, object, float]]) -> dict[str, dict[str, float]]:
    run: dict[str, dict[str, float]] = {}
    for query, candidate, score in triples:
        run.setdefault(str(query), {})[str(candidate)] = score
    return run


def _judgements(grades: Mapping[object, object]) -> Judgements:
    """Judgements in common formats: {query: {candidate: grade}}, or {query: [relevant candidates]}."""
    pairs = []
    for query, judged in grades.items():
        if isinstance(judged, (str, bytes)) or not hasattr(judged, "__iter__"):
            raise LimnerError(
                f"judgements of query {query!r} are {judged!r}: expected {{candidate: grade}} or a list of candidates"
            )
        graded = judged if isinstance(judged, Mapping) else dict.fromkeys(judged, 1.0)
        pairs += [(query, candidate, float(grade)) for candidate, grade in graded.items()]
    return Judgements.from_pairs(pairs, queries=list(grades), name="judgements")


def _on(system: Any, truth: Collection, progress: Progress) -> object:
    """Scores a collection with a system: a model scores it, an encoder encodes images and texts."""
    if isinstance(system, (Scores, Ranking, Mapping)):
        return system
    if is_model(system):
        return scores_of_model(system, truth, progress=progress)
    if is_matrix(system):
        raise LimnerError(
            f"got {type(system).__name__} of shape {array(system, 'scores').shape} for {truth.name!r}: its rows have "
            "no ids; add them with Scores.from_matrix(matrix, image ids, text ids)"
        )
    raise LimnerError(f"got {type(system).__name__}: {EXPECTED}")


def directions(
    system: Source | Mapping[str, Source], collection: Collection, direction: str | None = None
) -> dict[str, Source]:
    """Assigns sources to directions: as given, or by their ids, but never by guessing.

    Args:
        system: Scores (which cover both directions), a ranking (which covers one), or a mapping by direction.
        collection: The images and texts.
        direction: "i2t" if the queries are images, "t2i" if they are texts; None to infer it from the ids.

    Returns:
        Sources by direction, image queries first.
    """
    if isinstance(system, Mapping):
        if direction is not None:
            raise LimnerError("direction with a mapping: a mapping already has directions; leave one of them out")
        unknown = set(system) - {"i2t", "t2i"}
        if unknown:
            raise LimnerError(f"directions {shown(unknown)}: expected 'i2t' (image queries) and 't2i' (text queries)")
        _refuse_swapped(system, collection)
        return {d: system[d] for d in ("i2t", "t2i") if d in system}
    if not isinstance(system, (Scores, Ranking)):
        raise LimnerError(f"got {type(system).__name__}: {EXPECTED}")
    inferred = direction_of(system, collection, direction)
    if isinstance(system, Ranking):
        return {inferred: system}
    return {"i2t": system, "t2i": system.T} if inferred == "i2t" else {"i2t": system.T, "t2i": system}


def _refuse_swapped(system: Mapping[str, Source], collection: Collection) -> None:
    """Refuses a mapping whose ids show that its two directions are swapped."""
    sides = {"i2t": (collection.images, collection.texts), "t2i": (collection.texts, collection.images)}
    for direction, source in system.items():
        (queries, candidates), ids = sides[direction], source.queries
        if not _all_in(ids, queries.ids) and _all_in(ids, candidates.ids):
            raise LimnerError(
                f"{direction!r} has queries ({shown(ids, most=2)}) that are {candidates.kind}s of {collection.name!r}: "
                f"expected its {queries.kind}s; the two directions seem to be swapped"
            )


def direction_of(system: Source, collection: Collection, direction: str | None = None) -> str:
    """The direction of scores or a ranking, "i2t" or "t2i": as given, or by their ids."""
    if direction is None:
        return _inferred_direction(system, collection)
    if direction not in ("i2t", "t2i"):
        raise UnknownName("direction", direction, ("i2t", "t2i"))
    items = collection.images if direction == "i2t" else collection.texts
    strange = [query for query in system.queries if query not in items.ids]
    if strange:
        raise LimnerError(
            f"direction {direction!r} with queries ({shown(strange, most=2)}) that are not {items.kind}s of "
            f"{collection.name!r} ({shown(items.ids, most=2)}): give scores and collection the same ids"
        )
    return direction


def _inferred_direction(system: Source, collection: Collection) -> str:
    """The only direction that the ids allow; candidates may be outside the collection only if nothing else matches."""
    sides = {"i2t": (collection.images, collection.texts), "t2i": (collection.texts, collection.images)}
    for fits in (_all_in, _any_in):
        matches = [
            d for d, (queries, pool) in sides.items()
            if _all_in(system.queries, queries.ids) and fits(system.candidates, pool.ids)
        ]  # fmt: skip
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise LimnerError(
                f"the queries ({shown(system.queries, most=2)}) could be images or texts of {collection.name!r}, which "
                "share ids: choose direction='i2t' (images) or 't2i' (texts), or give a mapping "
                "{'i2t': ..., 't2i': ...}"
            )
    raise LimnerError(
        f"the queries ({shown(system.queries, most=2)}) are neither the images "
        f"({shown(collection.images.ids, most=2)}) nor the texts ({shown(collection.texts.ids, most=2)}) of "
        f"{collection.name!r}: give scores and collection the same ids"
    )


def _all_in(ids: Ids, collection_ids: Ids) -> bool:
    return ids == collection_ids or all(i in collection_ids for i in ids)


def _any_in(ids: Ids, collection_ids: Ids) -> bool:
    return ids == collection_ids or any(i in collection_ids for i in ids)
