"""Writes the scenes to a folder of plain files, for tools that need files."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from limner.core.collection import Collection
from limner.core.files import replacing, replacing_folder, write_text

FILES = ("images", "captions.csv", "objects.json", "complete.qrels")
"""All files that are written."""


def write(collection: Collection, folder: str | Path) -> Path:
    """Writes a collection of scenes as files and returns the folder.

    - `images/*.png`: the images;
    - `captions.csv`: image, image_id, caption, id, split (readable as a plain table of captions);
    - `objects.json`: per image its background, objects with boxes, and relations; per text its meaning;
    - `complete.qrels`: every true pair, as TREC judgements text -> image.

    Args:
        collection: The result of `load`, or a split of it.
        folder: The output folder; created if missing, but its parent must exist.
    """
    own = FILES if (Path(folder) / "complete.qrels").is_file() else ()
    with replacing_folder(folder, head="captions.csv", own=own) as draft:
        (draft / "images").mkdir()
        for row, name in enumerate(collection.images.ids):
            collection.images.open(row).save(draft / "images" / f"{name}.png")
        _write_captions(collection, draft / "captions.csv")
        write_text(draft / "objects.json", json.dumps(_described(collection), indent=1) + "\n")
        lines = (f"{text} 0 {image} 1\n" for text, image, grade in collection.judged("complete", "t2i") if grade)
        write_text(draft / "complete.qrels", "".join(lines))
    return Path(folder)


def _write_captions(collection: Collection, path: Path) -> None:
    split_of = {image: name for name, ids in collection.splits.items() for image in ids}
    texts = collection.texts
    with replacing(path) as draft, draft.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["image", "image_id", "caption", "id", *(["split"] if split_of else [])])
        for name, caption, image in zip(texts.ids, texts.values, texts.field("image"), strict=True):
            writer.writerow([f"{image}.png", image, caption, name, *([split_of[image]] if split_of else [])])


def _described(collection: Collection) -> dict[str, object]:
    images, texts = collection.images, collection.texts
    columns = (images.ids, images.field("background"), images.field("objects"), images.field("relations"))
    return {
        "images": {
            image: {"background": background, "objects": objects, "relations": relations}
            for image, background, objects, relations in zip(*columns, strict=True)
        },
        "texts": {text: meaning.as_dict() for text, meaning in zip(texts.ids, texts.field("meaning"), strict=True)},
    }
