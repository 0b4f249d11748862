"""Protocols: the pool, the judgements and the measures behind published numbers; folds, which are evaluated alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from limner.core.arrays import IntArray
from limner.core.collection import Collection, Items
from limner.core.errors import LimnerError, UnknownName
from limner.core.ids import Ids
from limner.evaluation.measures import DEFAULT, Measure, parse


@dataclass(frozen=True)
class View:
    """One view of a system: judgements, measures, and the candidate pool.

    Args:
        name: Name in reports.
        judgements: The name of judgements in the collection.
        measures: The measures.
        folds: A field of images and texts that splits the pool into folds; each query is ranked only within its own
            fold, and the result is the mean over folds.
        outside: "drop" relevant candidates that are not in the pool, or "count" them in R as never found.
        directions: The directions it applies to.
        pool: The name of judgements that restrict the pool to judged candidates; None for the whole pool.
        originals: Which of the original pairs count as well: "none", those that are "unjudged", or "all".
        threshold: The lowest rating of a relevant pair, if the collection has ratings of that name; None for the
            judgements of the collection.
    """

    name: str
    judgements: str = "pairs"
    measures: tuple[Measure, ...] = DEFAULT
    folds: str | None = None
    outside: str = "drop"
    directions: tuple[str, ...] = ("i2t", "t2i")
    pool: str | None = None
    originals: str = "none"
    threshold: float | None = None


@dataclass(frozen=True)
class Protocol:
    """A named protocol: its views, and the size of the test set it is defined on."""

    name: str
    about: str
    views: tuple[View, ...]
    images: int | None = None
    texts: int | None = None

    def notes(self, collection: Collection) -> list[str]:
        """Notes on differences from the test set behind the published numbers of this protocol."""
        notes = []
        for noun, expected, size in (
            ("images", self.images, self._size(collection, "i2t")),
            ("texts", self.texts, self._size(collection, "t2i")),
        ):
            if expected is not None and size != expected:
                variant = _VARIANTS.get((self.name, size))
                variant_note = f" ({variant})" if variant else ""
                notes.append(
                    f"{self.name} is defined on {expected:,} {noun}; this collection has {size:,}{variant_note}: "
                    "not comparable with published numbers"
                )
        return notes

    def _size(self, collection: Collection, direction: str) -> int:
        """The number of images ("i2t") or texts ("t2i") that are queries: all, or the judged ones."""
        pool = self.views[0].pool
        if pool is None or pool not in collection.all_judgements:
            return len(collection.images if direction == "i2t" else collection.texts)
        return len(np.unique(collection.judged(pool, direction).rows))


HALF_OF_THE_VOTES = 0.5
"""The lowest share of yes votes of a relevant pair in Flickr8k; it adds the paper's 2,031 pairs (0.66 adds 1,996)."""

_VARIANTS = {
    ("coco-5k", 25_010): "Karpathy's test set without the cut to five captions per image",
    ("coco-5k", 24_824): "every text once",
}
_RECALLS = parse("R@1 R@5 R@10 MedR rsum")
_SUCCESS = parse("S@1 S@5 S@10 RP")

PROTOCOLS: Mapping[str, Protocol] = MappingProxyType(
    {
        p.name: p
        for p in (
            Protocol(
                "flickr8k-1k",
                "Flickr8k test: 1,000 images, five captions each",
                (View("flickr8k-1k", measures=_RECALLS),),
                1000,
                5000,
            ),
            Protocol(
                "flickr8k-judged",
                "Flickr8k test, the judged caption of each image: originals and what people added (Hodosh et al. 2013)",
                (
                    View("flickr8k-judged", measures=parse("R@1 R@5 R@10 MedR"), pool="crowd"),
                    View("crowd", "crowd", _SUCCESS, pool="crowd", originals="all", threshold=HALF_OF_THE_VOTES),
                    View("expert", "expert", _SUCCESS, pool="crowd", originals="all"),
                ),
                1000,
                1000,
            ),
            Protocol(
                "flickr30k-1k",
                "Flickr30k test: 1,000 images, five captions each",
                (View("flickr30k-1k", measures=_RECALLS),),
                1000,
                5000,
            ),
            Protocol(
                "coco-1k",
                "COCO test in five folds of 1,000 images; mean of five",
                (View("coco-1k", measures=_RECALLS, folds="fold"),),
                5000,
                25000,
            ),
            Protocol(
                "coco-5k",
                "COCO test: 5,000 images, 25,000 captions",
                (View("coco-5k", measures=_RECALLS),),
                5000,
                25000,
            ),
            Protocol(
                "cxc",
                "COCO 5K pool with CrissCrossed Captions positives (rated 3.0 or higher)",
                (View("cxc", "cxc", parse("R@1 R@5 R@10")),),
                5000,
                25000,
            ),
            Protocol(
                "eccv",
                "COCO 5K pool with ECCV Caption positives",
                (View("eccv", "eccv", parse("mAP@R RP R@1"), outside="count"),),
                5000,
                25000,
            ),
            Protocol(
                "wit",
                "Wikipedia image-caption matching: nDCG@5, image queries (Messina et al. 2022)",
                (View("wit", measures=parse("nDCG@5 R@1 R@5 R@10 MedR"), directions=("i2t",)),),
            ),
        )
    }
)


def protocol_views(
    collection: Collection, protocol: str | Iterable[str], measures: tuple[Measure, ...] | None
) -> tuple[list[View], list[str]]:
    """The views of one or several protocols, and notes on differences from their definitions."""
    chosen: list[View] = []
    notes: list[str] = []
    for name in [protocol] if isinstance(protocol, str) else protocol:
        if name not in PROTOCOLS:
            raise UnknownName("protocol", name, PROTOCOLS)
        notes += PROTOCOLS[name].notes(collection)
        chosen += [_with_measures(view, measures) for view in PROTOCOLS[name].views]
    for view in chosen:
        _refuse_unfit(view, collection)
    return chosen, notes


def with_defined_measures(requested: Iterable[View], collection: Collection) -> list[View]:
    """The views with the measures that are defined on their judgements; refuses a measure that fits no view."""
    requested = list(requested)
    for measure in dict.fromkeys(m for view in requested for m in view.measures):
        if not any(_is_defined(measure, view.judgements) for view in requested):
            raise LimnerError(
                f"{measure} is defined on {measure.kind.judgements} matches, which {collection.name!r} does not have "
                f"(it has {', '.join(view.judgements for view in requested)}): load COCO with its objects "
                "(coco-5k with instances=FILE), name your own judgements "
                f"'{measure.kind.judgements}...', or choose RP"
            )
    defined = ((view, tuple(m for m in view.measures if _is_defined(m, view.judgements))) for view in requested)
    return [replace(view, measures=measures) for view, measures in defined if measures]


def undefined_notes(measures: Iterable[Measure], judgements: str) -> list[str]:
    """Notes on measures that are defined on other judgements than those of this name."""
    return [
        f"{m} is defined on {m.kind.judgements} matches; {judgements!r} counts as such"
        for m in measures
        if not _is_defined(m, judgements)
    ]


def _is_defined(measure: Measure, judgements: str) -> bool:
    return judgements.lower().startswith(measure.kind.judgements)


def _with_measures(view: View, measures: tuple[Measure, ...] | None) -> View:
    return view if measures is None else replace(view, measures=measures)


def _refuse_unfit(view: View, collection: Collection) -> None:
    if view.judgements not in collection.all_judgements:
        raise LimnerError(
            f"view {view.name!r} needs the judgements {view.judgements!r}, which {collection.name!r} does not have "
            f"(it has {', '.join(collection.all_judgements)}): load the collection with them"
        )
    for items in (collection.images, collection.texts):
        if view.folds is not None and view.folds not in items.fields:
            raise LimnerError(
                f"view {view.name!r} splits the pool by the field {view.folds!r}, which the {items.kind}s of "
                f"{collection.name!r} do not have: load the collection with its folds, or use 'coco-5k'"
            )


class Folds:
    """The folds of the images and texts of a collection, as numbers from 0 in order of appearance.

    Args:
        collection: The collection, whose images and texts have the same folds.
        name: The field that names the folds.
    """

    def __init__(self, collection: Collection, name: str) -> None:
        number = _numbers(collection, name)
        self._ids: dict[str, Ids] = {}
        self._folds: dict[str, IntArray] = {}
        for kind, items in (("image", collection.images), ("text", collection.texts)):
            values, labels = _labelled(items, name)
            self._ids[kind] = items.ids
            self._folds[kind] = np.array([*(number[labels[value]] for value in values), -1])

    def of(self, ids: Ids, kind: str) -> IntArray:
        """The fold of each id of an "image" or a "text"; -1 for none and for unknown ids."""
        return self._folds[kind][self._ids[kind].find(ids)]


def _numbers(collection: Collection, name: str) -> dict[str | None, int]:
    """The number of every label, in order of appearance."""
    numbers: dict[str | None, int] = {None: -1}
    for items in (collection.images, collection.texts):
        for label in _labelled(items, name)[1].values():
            numbers.setdefault(label, len(numbers) - 1)
    return numbers


def _labelled(items: Items, name: str) -> tuple[Sequence[object], dict[object, str | None]]:
    """A value for every item, and the label of every distinct value; values of other types than these are labels."""
    values: Sequence[object] = items.field(name)
    if set(map(type, values)) <= {str, int}:
        return values, {value: str(value) for value in dict.fromkeys(values)}
    labels = [_label(value) for value in values]
    return labels, {label: label for label in labels}


def _label(fold: object) -> str | None:
    """The name of a fold: 1, 1.0 and "1" are the same fold; None and NaN are no fold."""
    if fold is None or fold != fold:
        return None
    return str(int(fold)) if isinstance(fold, (float, np.floating)) and float(fold).is_integer() else str(fold)
