"""Captions to be scored: those of a captioning system for the images of a collection, and those that people judged.

System captions are in the form of COCO's results (`[{"image_id": 42, "caption": "a dog"}]`), a JSON object from image
to caption, or a table (csv, tsv, jsonl) with the columns image and caption. Judged captions are Flickr8k's own, or a
table with the columns image, caption, and any number of columns that begin with "reference" and with "rating".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from limner.core.collection import Collection
from limner.core.errors import LimnerError, UnknownName, shown
from limner.core.paths import read_json
from limner.datasets.flickr import RawJudgements, crowd_votes, expert_scores, load_flickr8k
from limner.datasets.text_files import At, existing, json_lines, number, refuse, table

OWN_CAPTIONS = ("leave-out", "keep", "other-references", "image-references")
"""What to do with a judged caption that is one of its references: leave the pair out; keep it; compare it with the
other references; or compare nothing with it, so that its image has fewer references in all of its pairs."""

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_IMAGE = ("image", "image_id", "file_name")
_CAPTION = ("caption", "candidate")


@dataclass(frozen=True, eq=False)
class CandidateCaptions:
    """Captions to be scored, each for an image.

    Args:
        name: Name of the system, or of the judgements.
        images: The id of each caption's image.
        captions: The texts.
        references: For each caption the texts it is compared with; none where there are none.
        notes: Remarks.
    """

    name: str
    images: tuple[str, ...]
    captions: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuses an empty set, and columns of different lengths."""
        if not self.captions or not len(self.images) == len(self.captions) == len(self.references):
            raise LimnerError(
                f"{self.name!r}: got {len(self.images)} images, {len(self.captions)} captions and "
                f"{len(self.references)} sets of references, expected one of each for every caption, and a caption"
            )

    def __len__(self) -> int:
        """The number of captions."""
        return len(self.captions)


@dataclass(frozen=True, eq=False)
class JudgedCaptions(CandidateCaptions):
    """Captions that people rated.

    Args:
        ratings: The ratings of each caption; more is better.
        coefficient: The rank correlation that is usual for these ratings.
        aggregation: How several ratings of a caption are usually taken: "each", "mean" or "median".
    """

    ratings: tuple[tuple[float, ...], ...] = ()
    coefficient: str = "tau-c"
    aggregation: str = "each"

    def __post_init__(self) -> None:
        """Refuses captions without a rating."""
        super().__post_init__()
        if len(self.ratings) != len(self.captions) or not all(self.ratings):
            raise LimnerError(f"{self.name!r}: expected at least one rating of every caption")

    def rows(self, chosen: Sequence[int]) -> JudgedCaptions:
        """These captions only."""
        return replace(
            self,
            images=tuple(self.images[row] for row in chosen),
            captions=tuple(self.captions[row] for row in chosen),
            references=tuple(self.references[row] for row in chosen),
            ratings=tuple(self.ratings[row] for row in chosen),
        )


def read_candidates(path: str | Path, collection: Collection, *, full: Collection | None = None) -> CandidateCaptions:
    """The captions of a system for every image of a collection, with the collection's own texts as references.

    Args:
        path: The file.
        collection: The evaluated images and their texts.
        full: The whole collection, if only a split is evaluated: captions of its other images are left out.
    """
    file = existing(path, what="file of captions")
    captions = _by_image(file)
    id_by_key = {_key(image): image for image in (full or collection).images.ids}
    foreign = [image for image in captions if _key(image) not in id_by_key]
    if foreign:
        raise LimnerError(
            f"{file}: {len(foreign):,} captions are of images that {collection.name!r} does not have "
            f"({shown(foreign)}): expected its ids, such as {collection.images.ids[0]!r}"
        )
    by_id = {id_by_key[_key(image)]: caption for image, caption in captions.items()}
    missing = [image for image in collection.images.ids if image not in by_id]
    if missing:
        raise LimnerError(
            f"{file} has no caption of {len(missing):,} of {len(collection.images):,} images ({shown(missing)}): a "
            "mean over some images is no result; add them, or evaluate the --split that the file is for"
        )
    references = _references(collection)
    images = tuple(collection.images.ids)
    return CandidateCaptions(
        file.stem, images, tuple(by_id[image] for image in images), tuple(references[image] for image in images)
    )


def read_judged(source: str, *, own: str | None = None) -> JudgedCaptions:
    """Captions that people rated.

    Args:
        source: "flickr8k-expert:DIR", "flickr8k-cf:DIR", or a table.
        own: One of `OWN_CAPTIONS`; the usual one of the source by default.
    """
    if own is not None and own not in OWN_CAPTIONS:
        raise UnknownName("way to treat own captions", own, OWN_CAPTIONS)
    name, colon, folder = source.partition(":")
    if colon and name in _FLICKR8K and not Path(source).exists():
        judged, usual = _FLICKR8K[name](Path(folder))
    else:
        judged, usual = _judged_table(existing(source, what="table of judged captions")), "leave-out"
    return without_own_captions(judged, own or usual)


def without_own_captions(judged: JudgedCaptions, own: str) -> JudgedCaptions:
    """Judged captions after what is done with those that are one of their references.

    Args:
        judged: The captions.
        own: One of `OWN_CAPTIONS`.

    >>> two = JudgedCaptions("two", ("i", "i"), ("a dog", "a cat"), (("a dog", "dogs"),) * 2, ratings=((4,), (1,)))
    >>> without_own_captions(two, "leave-out").captions, without_own_captions(two, "image-references").references
    (('a cat',), (('dogs',), ('dogs',)))
    """
    in_references = [caption in texts for caption, texts in zip(judged.captions, judged.references, strict=True)]
    if own == "keep" or not any(in_references):
        return judged
    note = f"{sum(in_references):,} of {len(in_references):,} captions are one of their references: {_OWN_NOTES[own]}"
    if own == "leave-out":
        judged = judged.rows(np.flatnonzero(~np.array(in_references)).tolist())
    else:
        judged = replace(
            judged, references=tuple(_fewer_references(judged, in_references, whole_image=own == "image-references"))
        )
    return replace(judged, notes=(*judged.notes, note))


_OWN_NOTES = {
    "leave-out": "left out",
    "other-references": "compared with the other references",
    "image-references": "no longer references of their image in any pair, so that images differ in their number",
}


def _fewer_references(
    judged: JudgedCaptions, in_references: Sequence[bool], *, whole_image: bool
) -> Iterator[tuple[str, ...]]:
    rows = list(zip(judged.images, judged.captions, judged.references, in_references, strict=True))
    of_image: dict[str, set[str]] = {}
    for image, caption, _, is_reference in rows:
        if is_reference and whole_image:
            of_image.setdefault(image, set()).add(caption)
    for image, caption, texts, _ in rows:
        left_out = of_image.get(image, set()) if whole_image else {caption}
        yield tuple(text for text in texts if text not in left_out)


def _references(collection: Collection) -> dict[str, tuple[str, ...]]:
    pairs = collection.judgements.relevant
    texts: dict[int, list[str]] = {}
    for row, column in zip(pairs.rows.tolist(), pairs.columns.tolist(), strict=True):
        texts.setdefault(row, []).append(collection.texts.values[column])
    without_text = [image for row, image in enumerate(collection.images.ids) if row not in texts]
    if without_text:
        raise LimnerError(
            f"{collection.name!r}: {len(without_text):,} images have no text to compare with ({shown(without_text)})"
        )
    return {image: tuple(texts[row]) for row, image in enumerate(collection.images.ids)}


def _key(image: str) -> str:
    """An image by what its ids in COCO have in common: 42, "42", "000000000042.jpg" and "COCO_val2014_000000000042"."""
    stem = Path(image).stem if Path(image).suffix.lower() in (".jpg", ".jpeg", ".png") else image
    last = stem.rpartition("_")[2] if stem.startswith("COCO_") else stem
    return str(int(last)) if last.isascii() and last.isdigit() else image


# --- files -----------------------------------------------------------------------------------------------------------


def _by_image(file: Path) -> dict[str, str]:
    captions: dict[str, str] = {}
    for at, image, caption in _caption_rows(file):
        if image in captions:
            refuse(at, f"image {image!r} has a second caption; expected one for each image")
        if not caption.strip():
            refuse(at, f"the caption of image {image!r} is empty; expected a text")
        captions[image] = caption
    if not captions:
        raise LimnerError(f"{file} has no captions: expected an image and a caption in each row")
    return captions


def _caption_rows(file: Path) -> Iterator[tuple[At, str, str]]:
    content = read_json(file, what="file of captions") if file.suffix.lower() == ".json" else None
    if isinstance(content, Mapping):
        content = [{"image": image, "caption": caption} for image, caption in content.items()]
    if content is not None and not isinstance(content, list):
        refuse(At(file), f"holds {type(content).__name__}; expected a list of image_id and caption")
    records = _table_rows(file) if content is None else ((At(file, n), row) for n, row in enumerate(content, 1))
    for at, record in records:
        yield at, str(_cell(at, record, _IMAGE)), _text(at, _cell(at, record, _CAPTION))


def _table_rows(file: Path) -> Iterator[tuple[At, Mapping[str, object]]]:
    ending = file.suffix.lower()
    if ending not in (*_DELIMITERS, ".jsonl"):
        raise LimnerError(f"{file}: expected captions as .json, .jsonl, .csv or .tsv")
    return (
        json_lines(file) if ending == ".jsonl" else table(file, delimiter=_DELIMITERS[ending], quoted=ending == ".csv")
    )


def _cell(at: At, record: object, names: Sequence[str]) -> object:
    if not isinstance(record, Mapping) or not any(name in record for name in names):
        listed = shown(record, most=8) if isinstance(record, Mapping) else type(record).__name__
        refuse(at, f"has {listed}; expected {names[0]!r} (or {', '.join(map(repr, names[1:]))})")
    return next(record[name] for name in names if name in record)


def _text(at: At, value: object) -> str:
    if not isinstance(value, str):
        refuse(at, f"a caption is {type(value).__name__}, expected text")
    return value


def _judged_table(file: Path) -> JudgedCaptions:
    rows = []
    for at, record in _table_rows(file):
        caption = _text(at, _cell(at, record, _CAPTION))
        references = tuple(_text(at, text) for text in _cells(record, "reference"))
        ratings = tuple(number(cell, at, what="rating") for cell in _cells(record, "rating"))
        if not ratings:
            refuse(at, f"has {shown(record, most=8)} and no rating; expected columns that begin with 'rating'")
        rows.append((str(_cell(at, record, _IMAGE)), caption, references, ratings))
    if not rows:
        refuse(At(file), "the table has no rows; expected image, caption, references and ratings")
    images, captions, references_of, ratings_of = zip(*rows, strict=True)
    return JudgedCaptions(file.stem, images, captions, references_of, ratings=ratings_of)


def _cells(record: Mapping[str, object], beginning: str) -> Iterator[object]:
    """What the columns of one kind hold, one by one; empty cells hold nothing."""
    for name, value in record.items():
        if name.startswith(beginning):
            listed: Iterable[object] = value if isinstance(value, list) else (value,)
            yield from (each for each in listed if each is not None and each != "")


# --- Flickr8k --------------------------------------------------------------------------------------------------------


def _expert(folder: Path) -> tuple[JudgedCaptions, str]:
    raw = expert_scores(folder)
    return _flickr8k("flickr8k-expert", folder, raw, [tuple(map(float, row)) for row in raw.values]), "leave-out"


def _crowd(folder: Path) -> tuple[JudgedCaptions, str]:
    raw = crowd_votes(folder)
    ratings = [(1.0,) * int(yes) + (0.0,) * int(no) for yes, no in raw.values]
    judged = _flickr8k("flickr8k-cf", folder, raw, ratings)
    return replace(judged, coefficient="tau-b", aggregation="mean"), "image-references"


_FLICKR8K = {"flickr8k-expert": _expert, "flickr8k-cf": _crowd}


def _flickr8k(name: str, folder: Path, raw: RawJudgements, ratings: Sequence[tuple[float, ...]]) -> JudgedCaptions:
    collection = load_flickr8k(folder)
    texts = dict(zip(collection.texts.ids, collection.texts.values, strict=True))
    references = _references(collection)
    captions = tuple(texts[caption] for caption in raw.captions)
    return JudgedCaptions(
        name, raw.images, captions, tuple(references[image] for image in raw.images), ratings=tuple(ratings)
    )
