"""Folders of clip-retrieval, read and written: img_emb, text_emb and metadata, one row per image with its caption."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from limner.core.arrow_tables import arrow_module, parquet_batches, parquet_columns, parquet_module
from limner.core.collection import Collection
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError
from limner.core.files import replacing_folder
from limner.core.paths import damage_told, refuse_irregular
from limner.datasets.assembly import Assembly, Check
from limner.datasets.image_folder import new_folder
from limner.datasets.text_files import At, existing, refuse

IMAGES, TEXTS, METADATA = "img_emb", "text_emb", "metadata"
_NAMES = ("image_path", "key")
"""Columns that name an image, the first that is there and has no value twice."""


def load_clip_retrieval(
    path: str | Path, *, split: str | None = None, images: str | Path | None = None, check_images: Check = False
) -> Collection:
    """Loads images and captions of a clip-retrieval folder, in the order of its embeddings.

    Rows of `metadata/metadata_N.parquet` have "caption", and "image_path" or "key". Every row is an image with one
    caption, so that `limner evaluate clip-retrieval:DIR --images DIR/img_emb --texts DIR/text_emb` fits row by row.

    Args:
        path: The folder.
        split: Not supported: there are no splits.
        images: Folder that the names of images start from; as they are written by default.
        check_images: Open every image; skip and list those that cannot be opened.
    """
    if split is not None:
        raise LimnerError(f"split={split!r}: clip-retrieval folders have no splits")
    root = existing(path, what="clip-retrieval folder")
    assembly = Assembly(root.name)
    rows = [row for file in _files(root) for row in _rows(file)]
    name = next((n for n in _NAMES if len({row.get(n) for _, row in rows} - {None, ""}) == len(rows)), None)
    for number, (at, row) in enumerate(rows):
        key = f"{number:09d}" if name is None else str(row[name])
        assembly.image(key, at, value=str(row.get("image_path") or key))
        assembly.text(f"{key}#0", str(row.get("caption") or ""), key, at, blank=True)
    return assembly.finish(split=None, images=images, folders=[Path()], check_images=check_images)


def _files(root: Path) -> list[Path]:
    numbered = {file: re.search(r"(\d+)$", file.stem) for file in (root / METADATA).glob("*.parquet")}
    files = sorted((int(number[1]), file) for file, number in numbered.items() if number)
    if not files:
        raise LimnerError(f"no metadata in {root}: expected {METADATA}/metadata_0.parquet")
    return [file for _, file in files]


def _rows(file: Path) -> list[tuple[At, dict[str, object]]]:
    refuse_irregular(file, what="metadata")
    with damage_told(file, what="parquet file"):
        names = parquet_columns(file)
        rows = [row for batch in parquet_batches(file, columns=("caption", *_NAMES)) for row in batch.to_pylist()]
    if "caption" not in names:
        refuse(At(file), f"columns {', '.join(names)[:120]}: expected caption, and image_path or key")
    return [(At(file, number), row) for number, row in enumerate(rows, start=1)]


def write_clip_retrieval(collection: Collection, images: object, texts: object, path: str | Path) -> tuple[str, ...]:
    """Writes a clip-retrieval folder: a row for each text with the vector of its image.

    Args:
        collection: Images, texts and pairs.
        images: Embeddings of the images, written as they are; `limner data convert` gives unit vectors.
        texts: Embeddings of the texts, as well.
        path: A new folder.

    Returns:
        What the form cannot hold, one sentence each.
    """
    pa, pq = arrow_module("a Parquet file"), parquet_module()

    folder = new_folder(path)
    pairs = collection.judgements.relevant.restrict(candidates=collection.texts.ids)
    if not len(pairs.rows):
        raise LimnerError(f"{collection.name!r} has no pairs to write")
    image_vectors, text_vectors = (
        np.asarray(Embeddings.of(side).subset(ids).matrix, dtype=np.float32)
        for side, ids in ((images, collection.images.ids), (texts, collection.texts.ids))
    )
    rows: Sequence[dict[str, object]] = [
        {"image_path": _named(collection, int(i)), "caption": collection.texts.values[int(t)]}
        for i, t in zip(pairs.rows, pairs.columns, strict=True)
    ]
    with replacing_folder(folder, head=METADATA, own=()) as draft:
        for name, matrix in ((IMAGES, image_vectors[pairs.rows]), (TEXTS, text_vectors[pairs.columns])):
            (draft / name).mkdir()
            np.save(draft / name / f"{name}_0.npy", matrix)
        (draft / METADATA).mkdir()
        pq.write_table(pa.Table.from_pylist(list(rows)), draft / METADATA / "metadata_0.parquet")
    lost = {
        "an image with several texts comes once for each of them": bool((pairs.counts > 1).any()),
        "splits were left out": bool(collection.splits),
    }
    return tuple(sentence for sentence, is_lost in lost.items() if is_lost)


def _named(collection: Collection, row: int) -> str:
    value = collection.images.values[row]
    return str(value) if isinstance(value, (str, Path)) else collection.images.ids[row]
