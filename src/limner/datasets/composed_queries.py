"""Composed queries: a reference image and a text that says what should be different; the answers are images.

Read from local files in the formats of CIRR (Liu et al. 2021), CIRCO (Baldrati et al. 2023), FashionIQ (Wu et al.
2021) and plain JSON lines. A file is data: nothing in it is executed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from limner.core.collection import Items
from limner.core.errors import LimnerError, shown
from limner.core.ids import Ids
from limner.core.judgements import Judgements
from limner.core.paths import damage_told, read_json
from limner.datasets.text_files import At, JsonObject, Notes, existing, json_lines, refuse

ENDINGS = (".json", ".jsonl")


@dataclass(frozen=True)
class ComposedQuery:
    """One query.

    Args:
        id: Its name.
        reference: The id of the reference image, which is never an answer.
        text: What should be different.
        answers: The ids of all known right images.
        group: Similar images, without the reference, for a separate ranking (the subset of CIRR).
        subset: The kind of change, such as "colour"; "" if the data set does not say.
    """

    id: str
    reference: str
    text: str
    answers: tuple[str, ...]
    group: tuple[str, ...] = ()
    subset: str = ""


@dataclass(frozen=True, eq=False)
class ComposedQueries:
    """Queries of an image and a text, and the pool of candidate images.

    Args:
        name: Name in tables.
        queries: The queries.
        images: The pool: all candidates, the reference images among them.
        complete: Whether all right answers are known, as in `scenes`.
        warnings: Queries that were left out, and why.
    """

    name: str
    queries: tuple[ComposedQuery, ...]
    images: Items
    complete: bool = False
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuses queries with images that are not in the pool."""
        if not self.queries:
            raise LimnerError(f"{self.name!r} has no queries: expected at least one")
        named = dict.fromkeys(i for q in self.queries for i in (q.reference, *q.answers, *q.group))
        lost = [image for image in named if image not in self.images.ids]
        if lost:
            raise LimnerError(
                f"{len(lost):,} images of the queries are not in the pool ({shown(lost)}): check the pool"
            )

    @cached_property
    def texts(self) -> Items:
        """The texts of the queries, by query id."""
        ids = Ids((query.id for query in self.queries), what="query")
        return Items(ids, [query.text for query in self.queries], kind="text")

    @cached_property
    def judgements(self) -> Judgements:
        """Query -> image, grade 1 for every known answer."""
        pairs = [(query.id, answer) for query in self.queries for answer in query.answers]
        return Judgements.from_pairs(pairs, queries=self.texts.ids, candidates=self.images.ids).with_name("answers")

    def describe(self) -> dict[str, object]:
        """Summary statistics as JSON values."""
        answers = sum(len(query.answers) for query in self.queries)
        counts = {"queries": len(self.queries), "images": len(self.images), "answers": answers}
        return {"name": self.name, **counts, "complete": self.complete, "warnings": list(self.warnings)}


def read_composed(
    path: str | Path, *, images: str | Path | None = None, pool: str | Path | None = None
) -> ComposedQueries:
    """Reads composed queries.

    Args:
        path: JSON of CIRR (`cap.rc2.val.json`), CIRCO (`val.json`) or FashionIQ (`cap.dress.val.json`); or JSON lines
            with "reference", "text" and "answers", and "id", "group" and "subset" if there are any.
        images: Folder with the images; without it, only their names are known.
        pool: The list of all candidates: `split.rc2.val.json` of CIRR, `split.dress.val.json` of FashionIQ, the file
            of image information of CIRCO, or a JSON list of names. By default a split file next to `path`, or in
            `image_splits` next to its folder; if there is none, the pool is the images named in the queries.
    """
    file = existing(path, what="file of composed queries")
    if file.suffix not in ENDINGS:
        raise LimnerError(f"{file} is not a file of composed queries: expected {' or '.join(ENDINGS)}")
    notes = Notes()
    with damage_told(file, what="file of composed queries"):
        queries = tuple(_read(file, notes))
    listed = _split_file(file) if pool is None else existing(pool, what="list of candidates")
    named = dict.fromkeys(i for q in queries for i in (q.reference, *q.answers, *q.group))
    if listed is None:
        notes.add(At(file), "no list of candidates: the pool is only the images named in the queries, which is easier")
        files = {name: name for name in named}
    else:
        with damage_told(listed, what="list of candidates"):
            files = _pool(listed, read_json(listed, what="list of candidates"))
    folder = None if images is None else existing(images, what="folder of images")
    values = [None if folder is None else _image_file(folder, name) for name in files.values()]
    return ComposedQueries(file.stem, queries, Items(Ids(files, what="image"), values), warnings=notes.listed())


def _read(file: Path, notes: Notes) -> Iterable[ComposedQuery]:
    """The queries in a file; a query without answers is refused, because nothing could be measured."""
    ids: set[str] = set()
    for number, (at, record) in enumerate(_records(file)):
        make = next((make for keys, make in FORMS if keys <= set(record)), None)
        if make is None:
            keys = ", ".join(sorted(map(str, record)))[:120]
            refuse(at, f"query {number} has {keys}; expected the keys of CIRR, CIRCO or FashionIQ, with answers")
        query = make(number, record)
        _refuse_bad(at, query)
        if query.id in ids:
            refuse(at, f"query {query.id!r} is there twice; every query needs its own id")
        ids.add(query.id)
        if query.reference in query.answers:
            notes.add(at, "the reference image is among the answers: the query is left out")
            continue
        yield query


def _records(file: Path) -> Iterable[tuple[At, Mapping[str, object]]]:
    if file.suffix == ".jsonl":
        yield from json_lines(file)
        return
    content = read_json(file, what="file of composed queries")
    if not isinstance(content, list):
        refuse(At(file), f"holds {type(content).__name__}; expected a list of queries")
    for number, record in enumerate(content):
        if not isinstance(record, Mapping):
            refuse(At(file), f"query {number} is {type(record).__name__}; expected an object for each query")
        yield At(file), record


def _refuse_bad(at: At, query: ComposedQuery) -> None:
    words = (query.id, query.reference, query.text, *query.answers, *query.group)
    if not query.answers or not all(isinstance(word, str) and word.strip() for word in words):
        refuse(at, f"query {query.id!r} lacks an image, its text or its answers; expected all of them")
    if not isinstance(query.subset, str):
        refuse(at, f"query {query.id!r}: subset is {type(query.subset).__name__}; expected text")


Name = TypeVar("Name")


def _once(names: Iterable[Name]) -> tuple[Name, ...]:
    return tuple(dict.fromkeys(names))


def _cirr(number: int, record: JsonObject) -> ComposedQuery:
    reference, members = record["reference"], record.get("img_set", {}).get("members", [])
    group = tuple(member for member in _once(members) if member != reference)
    name = str(record.get("pairid", number))
    return ComposedQuery(name, reference, record["caption"], (record["target_hard"],), group)


def _circo(number: int, record: JsonObject) -> ComposedQuery:
    answers = _once(str(image) for image in (record["target_img_id"], *record["gt_img_ids"]))
    name, reference = str(record.get("id", number)), str(record["reference_img_id"])
    return ComposedQuery(name, reference, record["relative_caption"], answers)


def _fashion_iq(number: int, record: JsonObject) -> ComposedQuery:
    text = " and ".join(str(caption).strip() for caption in record["captions"])
    return ComposedQuery(str(number), record["candidate"], text, (record["target"],))


def _plain(number: int, record: JsonObject) -> ComposedQuery:
    if not all(isinstance(record.get(key, []), list) for key in ("answers", "group")):
        raise LimnerError(f"query {number}: answers and group are lists of images; got something else")
    name = str(record.get("id", number))
    parts = _once(record["answers"]), _once(record.get("group", [])), record.get("subset", "")
    return ComposedQuery(name, record["reference"], record["text"], *parts)


FORMS: Sequence[tuple[frozenset[str], Callable[[int, JsonObject], ComposedQuery]]] = (
    (frozenset({"reference", "target_hard", "caption"}), _cirr),
    (frozenset({"reference_img_id", "target_img_id", "gt_img_ids", "relative_caption"}), _circo),
    (frozenset({"candidate", "target", "captions"}), _fashion_iq),
    (frozenset({"reference", "text", "answers"}), _plain),
)
"""Forms of queries, by the keys that they have; the first that fits is taken."""


def _split_file(file: Path) -> Path | None:
    """The list of candidates for a file: `split.dress.val.json` for `cap.dress.val.json`."""
    if not file.name.startswith("cap."):
        return None
    name = f"split.{file.name.removeprefix('cap.')}"
    places = (file.parent, file.parent.parent / "image_splits", file.parent / "image_splits")
    return next((place / name for place in places if (place / name).is_file()), None)


def _pool(file: Path, content: object) -> dict[str, str]:
    """File names by image id, from a list, from {id: file}, or from COCO's {"images": [{"id", "file_name"}]}."""
    if isinstance(content, Mapping) and isinstance(content.get("images"), list):
        return {str(each["id"]): str(each["file_name"]) for each in content["images"]}
    if isinstance(content, Mapping):
        return {str(name): str(place) for name, place in content.items()}
    if not isinstance(content, list) or not all(isinstance(name, str) for name in content):
        refuse(At(file), f"holds {type(content).__name__}; expected a list of names, or files by name")
    return {name: name for name in _once(content)}


def _image_file(folder: Path, name: str) -> str:
    """The file of an image; a name without an extension gets that of the existing file."""
    place = folder / name.removeprefix("./")
    if place.suffix.lower() in (".jpg", ".jpeg", ".png", ".webp"):
        return str(place)
    candidates = (place.with_name(f"{place.name}{ending}") for ending in (".jpg", ".png", ".jpeg", ".webp"))
    return str(next((each for each in candidates if os.path.isfile(each)), place))
