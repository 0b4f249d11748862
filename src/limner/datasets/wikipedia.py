"""WIT and Kaggle-WIT: Wikipedia's images with captions in many languages."""

from __future__ import annotations

import base64
import binascii
import csv
import re
from collections.abc import Collection as Group
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import numpy as np

from limner.core.collection import Collection, Items
from limner.core.errors import LimnerError, UnknownName, shown
from limner.core.files import replacing
from limner.core.ranking import Ranking
from limner.datasets.assembly import Assembly, Check, split_name
from limner.datasets.text_files import At, existing, lines, refuse, table

CAPTIONS = {
    "reference": "caption_reference_description",
    "attribution": "caption_attribution_description",
    "alt_text": "caption_alt_text_description",
    "title_and_reference": "caption_title_and_reference_description",
}
"""Kind of caption -> its column. The last one is Kaggle's target: page title, " [SEP] " and the reference caption."""

_SHARD_SPLIT = re.compile(r"(?:^|[._-])(train|val|test)(?:[._-]|$)")
_EXTENSION = re.compile(r"\.[A-Za-z0-9]{1,5}$")
_IMAGE_FIELDS = {
    "image_url": "image_url",
    "mime_type": "mime_type",
    "original_width": "width",
    "original_height": "height",
}
_TEXT_FIELDS = ("language", "page_title", "section_title", "page_url")


def clean_file_name(name: str) -> str:
    """Converts a file name to words: removes path, extension and percent encoding, and turns underscores into spaces.

    >>> clean_file_name("https://upload.example/commons/8/8e/Plaque_81_boulevard%2C_Paris_5.jpg")
    'Plaque 81 boulevard, Paris 5'
    """
    last = re.split(r"[?#]", name, maxsplit=1)[0].rstrip("/").rsplit("/", 1)[-1]
    return _EXTENSION.sub("", unquote(last)).replace("_", " ").strip()


def image_names(images: Items) -> list[str]:
    """The file names of images as words: the field "file_name", or the cleaned name of the file or id.

    >>> image_names(Items(["a/Red_dog.jpg"], [None]))
    ['Red dog']
    """
    if "file_name" in images.fields:
        return [str(name) for name in images.field("file_name")]
    valued = zip(images.values, images.ids, strict=True)
    return [clean_file_name(str(value) if isinstance(value, (str, Path)) else key) for value, key in valued]


def write_submission(ranking: Ranking, texts: Items, path: str | Path, *, places: int = 5) -> Path:
    """Writes a Kaggle submission: a csv of image ids and captions, five lines per image, best first.

    Args:
        ranking: Images as queries, texts as candidates.
        texts: The captions by id.
        path: The csv.
        places: Number of captions per image.
    """
    if (ranking.lengths < min(places, len(texts))).any():
        short = ranking.queries[int(np.argmin(ranking.lengths))]
        raise LimnerError(f"image {short!r} has {int(ranking.lengths.min())} captions: expected {places} for each")
    words = dict(zip(texts.ids, texts.values, strict=True))
    with replacing(path) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["id", CAPTIONS["title_and_reference"]])
        for query in ranking.queries:
            writer.writerows([query, words[candidate]] for candidate in ranking[query][:places])
    return Path(path)


def load_wit(
    path: str | Path,
    *,
    split: str | None = None,
    captions: Sequence[str] | None = None,
    languages: Group[str] | None = None,
    pixels: bool = False,
    check_images: Check = False,
    strict: bool = False,
) -> Collection:
    """Loads WIT (Srinivasan et al. 2021) or Kaggle's Wikipedia image-caption files, any number of shards.

    Images are named by their URL (Kaggle's test images by their id) and have the field "file_name", their cleaned
    name, and "image_url", "mime_type", "width" and "height". Texts have "language", "kind" of caption,
    "page_title", "section_title" and "page_url". A row without the requested captions is skipped and listed. Kaggle's
    test split has no ground truth: its images and the captions of `test_caption_list.csv` come without pairs.

    Args:
        path: One tsv (or tsv.gz), or a folder that is searched for them; the split is in each file name.
        split: "train", "dev" ("val" is "dev") or "test"; only those files are read.
        captions: Kinds to keep: "reference", "attribution", "alt_text", "title_and_reference"; by default, the last
            one if the file has it (Kaggle), else the first.
        languages: Languages to keep; all by default.
        pixels: Read the images from the folders `image_pixels` (Kaggle).
        check_images: Open every image; skip and list those that cannot be opened.
        strict: Raise an error instead of listing a warning.
    """
    for kind in captions or ():
        if kind not in CAPTIONS:
            raise UnknownName("kind of caption", kind, CAPTIONS)
    root = existing(path, what="WIT file or folder")
    assembly = Assembly("wit", strict=strict)
    for part, shard in _shards(root, None if split is None else split_name(split)):
        _add_shard(assembly, shard, part, captions, languages)
    if pixels:
        _add_pixels(assembly, root)
    loaded = assembly.finish(check_images=check_images)
    return loaded if split is None else replace(loaded, name=f"wit/{split_name(split)}", splits={})


def _shards(root: Path, split: str | None) -> Iterator[tuple[str | None, Path]]:
    files = [root] if root.is_file() else sorted([*root.rglob("*.tsv"), *root.rglob("*.tsv.gz")])
    parts = [(_part(file), file) for file in files]
    shards = [(part, file) for part, file in parts if split is None or part == split]
    if not shards:
        splits = sorted({str(part) for part, _ in parts})
        raise LimnerError(
            f"no tsv of split {split!r} in {root}; it has {shown(splits)}" if splits else f"no tsv or tsv.gz in {root}"
        )
    yield from shards


def _part(file: Path) -> str | None:
    match = _SHARD_SPLIT.search(file.name)
    return split_name(match[1]) if match else None


def _add_shard(
    assembly: Assembly, shard: Path, part: str | None, captions: Sequence[str] | None, languages: Group[str] | None
) -> None:
    for at, row in table(shard, delimiter="\t", notes=assembly.notes):
        if "image_url" not in row:
            refuse(At(shard, 1), f"no column 'image_url'; the header has {shown(row, most=20)}")
        if "id" in row and not any(column in row for column in CAPTIONS.values()):
            _add_image(
                assembly, row["id"], row, at, part
            )  # Kaggle's test split: the matching captions are not published
        elif languages is None or row.get("language") in languages:
            _add_row(assembly, row, at, part, captions)
    listed = shard.with_name("test_caption_list.csv")
    if part == "test" and listed.is_file():
        _add_candidates(assembly, listed)


def _add_row(
    assembly: Assembly, row: Mapping[str, str], at: At, part: str | None, captions: Sequence[str] | None
) -> None:
    kinds = captions or ["title_and_reference" if CAPTIONS["title_and_reference"] in row else "reference"]
    texts = {kind: row.get(CAPTIONS[kind], "") for kind in kinds}
    if not row["image_url"]:
        assembly.notes.add(at, "no image_url; row left out")
    elif not any(text.strip() for text in texts.values()):
        assembly.notes.add(at, f"no {' or '.join(kinds)} caption; row left out")
    else:
        _add_image(assembly, row["image_url"], row, at, part)
        fields = {name: row.get(name, "") for name in _TEXT_FIELDS}
        for kind, text in texts.items():
            if text.strip():
                key = assembly.next_text(row["image_url"])
                assembly.text(key, text, row["image_url"], at, fields={**fields, "kind": kind})


def _add_image(assembly: Assembly, key: str, row: Mapping[str, str], at: At, part: str | None) -> None:
    fields = {name: row[column] for column, name in _IMAGE_FIELDS.items() if column in row}
    sizes = {name: int(fields[name]) for name in ("width", "height") if fields.get(name, "").isdecimal()}
    before = assembly.split_of.get(key)
    if part and before not in (None, part):  # refused elsewhere, but a crawl of this size may contain such images
        assembly.notes.add(at, f"image of split {part!r} is already in {before!r}; kept there")
        part = before
    assembly.image(key, at, split=part, fields={"file_name": clean_file_name(row["image_url"]), **fields, **sizes})


def _add_candidates(assembly: Assembly, file: Path) -> None:
    column = CAPTIONS["title_and_reference"]
    for row, (at, cells) in enumerate(table(file, delimiter=",")):
        if column not in cells:
            refuse(At(file, 1), f"no column {column!r}; the header has {shown(cells, most=8)}")
        assembly.texts.add(f"caption-{row}", cells[column], at, {"kind": "title_and_reference"})


def _add_pixels(assembly: Assembly, root: Path) -> None:
    """Adds Kaggle's images, from lines of URL, base64 data and the URL of the metadata."""
    files = sorted(root.rglob("image_pixels/*.csv*"))
    if not files:
        raise LimnerError(f"pixels=True, but no image_pixels/*.csv or *.csv.gz below {root}")
    rows_by_url: dict[object, list[int]] = {}
    urls = assembly.images.fields.get("image_url", [])
    for row, url in enumerate(urls):
        rows_by_url.setdefault(url, []).append(row)
    for file in files:
        for line, text in lines(file):
            url, _, fields = text.partition("\t")
            for row in rows_by_url.pop(url, ()):
                assembly.images.values[row] = _bytes(fields.partition("\t")[0], At(file, line))
    if rows_by_url:
        missing = f"{len(rows_by_url):,} of {len(set(urls)):,} images ({shown(rows_by_url)})"
        message = f"no pixels for {missing}; kept without pixels"
        assembly.notes.add(At(root), message)


def _bytes(text: str, at: At) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        refuse(at, f"the image is not base64: {error}")
