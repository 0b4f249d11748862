"""Writes a Collection as a Croissant folder: tables, image files, and croissant.json (JSON-LD), which describes them.

Croissant is the metadata format of MLCommons: https://docs.mlcommons.org/croissant/. The library mlcroissant opens the
folder and iterates over its record sets: images, captions, judgements and splits.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from limner.core.arrow_tables import arrow_module, parquet_module
from limner.core.collection import Collection
from limner.core.errors import UnknownName, shown
from limner.core.files import replacing_folder
from limner.core.progress import ProgressLike, counting
from limner.datasets.image_folder import new_folder, write_image
from limner.datasets.text_files import JsonObject

HEAD = "croissant.json"
FILES = "image-files"
"""The FileSet of the images."""
ABOUT = ("citeAs", "creator", "datePublished", "description", "license", "name", "url", "version")
"""What can be said about a data set; everything is text."""
_VERSION = "http://mlcommons.org/croissant/1.0"
_PARTS = {"train": "cr:TrainingSplit", "dev": "cr:ValidationSplit", "test": "cr:TestSplit"}
_TERMS = (
    "citeAs", "column", "equivalentProperty", "extract", "field", "fileObject", "fileProperty", "fileSet", "format",
    "includes", "isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet", "references", "regex",
    "repeated", "replace", "samplingRate", "separator", "source", "subField", "transform",
)  # fmt: skip


def write_croissant(
    collection: Collection,
    path: str | Path,
    *,
    about: Mapping[str, str] | None = None,
    progress: ProgressLike = None,
) -> tuple[str, ...]:
    """Writes a new folder with croissant.json, three parquet tables, and the images in `images/`.

    Args:
        collection: The collection.
        path: A new folder.
        about: What is known of the data set, by the keys of `ABOUT`, such as its license. limner invents none of it.
        progress: Called with (images written, images in total).

    Returns:
        What the folder cannot store, one sentence each.
    """
    for name in about or {}:
        if name not in ABOUT:
            raise UnknownName("property", name, ABOUT, of="a data set")
    folder = new_folder(path)
    with replacing_folder(folder, head=HEAD, own=()) as draft:
        (draft / "images").mkdir()
        rows = counting(range(len(collection.images)), progress)
        files = [write_image(collection.images, row, draft / "images") for row in rows]
        hashes = {name: _write_table(draft / f"{name}.parquet", rows) for name, rows in _tables(collection, files)}
        description = described(collection, hashes, has_files=any(files), about=about or {})
        (draft / HEAD).write_text(json.dumps(description, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return tuple(_lost(collection, files))


# --- tables -----------------------------------------------------------------------------------------------------


def _tables(collection: Collection, files: list[str | None]) -> Iterator[tuple[str, Mapping[str, Sequence[object]]]]:
    split = {image: name for name, ids in collection.splits.items() for image in ids}
    images, texts = collection.images.ids, collection.texts.ids
    yield "images", {"id": list(images), "file": files, "split": [split.get(image) for image in images]}
    yield "captions", {"id": list(texts), "text": list(collection.texts.values)}
    rows = [(name, *pair) for name, judged in collection.all_judgements.items() for pair in judged if pair[1] in texts]
    named = enumerate(("set", "image", "caption", "grade"))
    yield "judgements", {name: [row[at] for row in rows] for at, name in named}


def _write_table(path: Path, columns: Mapping[str, Sequence[object]]) -> str:
    """Writes a parquet table; returns the hash of the file."""
    pa, pq = arrow_module("a Parquet file"), parquet_module()

    types = {name: pa.float64() if name == "grade" else pa.string() for name in columns}
    pq.write_table(pa.table({name: pa.array(cells, types[name]) for name, cells in columns.items()}), path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _lost(collection: Collection, files: list[str | None]) -> Iterator[str]:
    bare = sum(file is None for file in files)
    if bare:
        yield f"{bare:,} images have no file, so the folder has only their ids"
    if collection.reverse:
        yield f"judgements from texts to images were left out: {shown(collection.reverse, most=9)}"
    if collection.ratings:
        yield f"ratings were left out: {shown(collection.ratings, most=9)}"
    if collection.texts.fields or collection.images.fields:
        yield "fields of images and texts were left out"
    listed = [image for ids in collection.splits.values() for image in ids]
    if len(set(listed)) < len(listed):
        yield "some images are in several splits; each has the last one"


# --- JSON-LD ----------------------------------------------------------------------------------------------------


def described(
    collection: Collection, hashes: Mapping[str, str], *, has_files: bool, about: Mapping[str, str]
) -> dict[str, object]:
    """The JSON-LD of a written folder.

    Args:
        collection: The collection.
        hashes: SHA-256 of each table, by name.
        has_files: Whether there are image files.
        about: What is known of the data set.
    """
    counted = f"{len(collection.images):,} images and {len(collection.texts):,} captions with relevance judgements"
    facts = {"name": collection.name, "description": f"{collection.name}: {counted}.", **about}
    sets = [_images(has_files, bool(collection.splits)), *_texts()]
    return {
        "@context": _context(),
        "@type": "sc:Dataset",
        "conformsTo": _VERSION,
        **facts,
        "distribution": [_table(name, value) for name, value in hashes.items()] + ([_files()] if has_files else []),
        "recordSet": ([_splits(collection)] if collection.splits else []) + sets,
    }


def _context() -> dict[str, object]:
    return {
        "@language": "en",
        "@vocab": "https://schema.org/",
        "sc": "https://schema.org/",
        "cr": "http://mlcommons.org/croissant/",
        "rai": "http://mlcommons.org/croissant/RAI/",
        "dct": "http://purl.org/dc/terms/",
        "conformsTo": "dct:conformsTo",
        "data": {"@id": "cr:data", "@type": "@json"},
        "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
        "examples": {"@id": "cr:examples", "@type": "@json"},
        **{term: f"cr:{term}" for term in _TERMS},
    }


def _table(name: str, value: str) -> dict[str, object]:
    file = f"{name}.parquet"
    properties = {"contentUrl": file, "encodingFormat": "application/x-parquet", "sha256": value}
    return {"@type": "cr:FileObject", "@id": file, "name": file, **properties}


def _files() -> dict[str, object]:
    properties = {"encodingFormat": ["image/jpeg", "image/png"], "includes": "images/*"}
    return {"@type": "cr:FileSet", "@id": FILES, "name": FILES, **properties}


def _set(name: str, about: str, fields: Sequence[Mapping[str, object]], key: str | None = None) -> dict[str, object]:
    keyed = {} if key is None else {"key": {"@id": f"{name}/{key}"}}
    return {"@type": "cr:RecordSet", "@id": name, "name": name, "description": about, **keyed, "field": fields}


def _field(table: str, name: str, about: str, *, kind: str = "sc:Text", **more: object) -> dict[str, object]:
    column = {"fileObject": {"@id": f"{table}.parquet"}, "extract": {"column": name}}
    head = {"@type": "cr:Field", "@id": f"{table}/{name}", "name": f"{table}/{name}", "description": about}
    return {**head, "dataType": kind, "source": column, **more}


def _images(images: bool, splits: bool) -> dict[str, object]:
    joined: JsonObject = (
        {"references": {"fileSet": {"@id": FILES}, "extract": {"fileProperty": "filename"}}} if images else {}
    )
    fields = [_field("images", "id", "Id of the image."), _field("images", "file", "Name of its file.", **joined)]
    if images:
        content = {"fileSet": {"@id": FILES}, "extract": {"fileProperty": "content"}}
        image = _field("images", "content", "The image.", kind="sc:ImageObject")
        fields.append({**image, "source": content})
    if splits:
        fields.append(_field("images", "split", "The split that the image is in."))
    return _set("images", "The images.", fields, key="id")


def _texts() -> list[dict[str, object]]:
    # Without references to the ids of images and captions: mlcroissant makes one join per record set.
    captions = [_field("captions", "id", "Id of the caption."), _field("captions", "text", "The caption.")]
    judged = [
        _field("judgements", "set", "Name of the judgements that the pair is from; 'pairs' are the usual ones."),
        _field("judgements", "image", "Id of the image."),
        _field("judgements", "caption", "Id of the caption."),
        _field("judgements", "grade", "Relevance: above 0 is relevant, 0 is judged and not.", kind="sc:Float"),
    ]
    return [
        _set("captions", "The captions.", captions, key="id"),
        _set("judgements", "Judged pairs of image and caption; a missing pair was not judged.", judged),
    ]


def _splits(collection: Collection) -> dict[str, object]:
    """The splits, as data inside the JSON-LD."""
    label = {"@type": "cr:Field", "@id": "splits/name", "name": "splits/name", "dataType": "sc:Text"}
    url = {"@type": "cr:Field", "@id": "splits/url", "name": "splits/url", "dataType": "sc:URL"}
    record_set = _set("splits", "Splits of the images.", [label, url], key="name")
    rows = [{"splits/name": name, "splits/url": _PARTS.get(name, "cr:Split")} for name in collection.splits]
    return {**record_set, "dataType": "cr:Split", "data": rows}
