"""Karpathy's JSON files and the `*_caps.txt` folders of VSE++ and SCAN, the formats that most retrieval papers use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from limner.core.collection import Collection
from limner.core.errors import LimnerError, UnknownName, shown
from limner.datasets.assembly import Assembly, Check, split_name
from limner.datasets.text_files import (
    At,
    JsonObject,
    existing,
    filled_lines,
    find_file,
    json_file,
    lines,
    refuse,
    refuse_missing,
)

_RESTVAL = ("train", "restval", "drop")
_PARTS = ("train", "dev", "test")


def load_json(
    path: str | Path,
    *,
    split: str | None = None,
    images: str | Path | None = None,
    restval: str = "train",
    first: int | None = None,
    check_images: Check = False,
    strict: bool = False,
) -> Collection:
    """Loads `dataset_flickr8k.json`, `dataset_flickr30k.json` or `dataset_coco.json`.

    The ids of COCO are its image and annotation numbers, as in CxC and ECCV Caption. The ids of Flickr are the file
    names of the images and the `sentid` of the captions.

    Args:
        path: The JSON file, or a folder that contains one.
        split: "train", "dev" or "test" ("val" is "dev"); everything by default.
        images: Folder with the images.
        restval: Where the 30,504 images of COCO's `restval` go: "train" (as nearly all papers do), "restval" (a
            separate split) or "drop".
        first: Number of captions to keep per image. COCO's test split has 25,010 captions; most papers use the first
            five of each image, 25,000.
        check_images: Open every image; skip and list those that cannot be opened.
        strict: Raise an error instead of listing a warning.
    """
    if restval not in _RESTVAL:
        raise UnknownName("choice for restval", restval, _RESTVAL)
    file = find_file(existing(path, what="Karpathy JSON"), ("dataset_*.json", "dataset.json"), what="Karpathy JSON")
    content = json_file(file, keys=["images"])
    assembly = Assembly(str(content.get("dataset") or file.stem.removeprefix("dataset_")), strict=strict)
    for row, entry in enumerate(content["images"]):
        _add_entry(assembly, entry, At(file), row, restval, first)
    folders = [file.parent, *(file.parent / name for name in ("images", f"{assembly.name}-images"))]
    return assembly.finish(split=split, images=images, folders=folders, check_images=check_images)


def _add_entry(assembly: Assembly, entry: JsonObject, at: At, row: int, restval: str, first: int | None) -> None:
    refuse_missing(entry, ("filename", "sentences", "split"), at, f"image {row}")
    part = restval if entry["split"] == "restval" else entry["split"]
    if part == "drop":
        return
    key = str(entry.get("cocoid", entry["filename"]))
    if key in assembly.images.row:
        refuse(at, f"image {row} has the id {key!r} of an earlier one; ids must be unique")
    assembly.image(key, at, split=part, value=str(Path(entry.get("filepath", "")) / entry["filename"]))
    for sentence in entry["sentences"][:first]:
        refuse_missing(sentence, ("raw", "sentid"), at, f"a sentence of image {row} ({key})")
        assembly.text(str(sentence["sentid"]), str(sentence["raw"]).strip(), key, at)


def load_precomp(
    path: str | Path,
    *,
    split: str | None = None,
    images: str | Path | None = None,
    captions_per_image: int = 5,
    check_images: Check = False,
    strict: bool = False,
) -> Collection:
    """Loads a folder of VSE++ or SCAN: `train_caps.txt`, `dev_caps.txt`, `test_caps.txt`, with or without `*_ids.txt`.

    Each line is a caption, and a fixed number of consecutive lines belong to one image. A file of ids may contain one
    id per image, the image's id repeated for every caption, or a different id for each caption; any other number of
    lines is refused. Without ids, images are named `test-0` and captions `test-0#0`, by their order.

    Args:
        path: The folder.
        split: "train", "dev", "test" or "testall" (COCO's 5,000 images, of which "test" is the first thousand); the
            first three by default.
        images: Folder with the images, if the ids name files.
        captions_per_image: Number of lines per image.
        check_images: Open every image; skip and list those that cannot be opened.
        strict: Raise an error instead of listing a warning.
    """
    if captions_per_image < 1:
        raise LimnerError(f"captions_per_image={captions_per_image}: expected 1 or more")
    folder = existing(path, what="folder with *_caps.txt")
    folder = folder.parent if folder.is_file() else folder
    assembly = Assembly(folder.resolve().name.removesuffix("_precomp"), strict=strict)
    chosen_split = None if split is None else split_name(split)
    for part, file in _parts(folder, chosen_split):
        _add_part(assembly, part, file, captions_per_image)
    return assembly.finish(split=chosen_split, images=images, check_images=check_images)


def _parts(folder: Path, split: str | None) -> Iterator[tuple[str, Path]]:
    names = _PARTS if split is None else (split,)
    files = {name: file for name in names for file in _caption_files(folder, name) if file.is_file()}
    if not files:
        present = sorted(file.name for file in folder.glob("*_caps.txt"))
        expected = " or ".join(f"{name}_caps.txt" for name in names)
        raise LimnerError(f"no {expected} in {folder}; it has {shown(present) or 'no *_caps.txt at all'}")
    yield from files.items()


def _caption_files(folder: Path, name: str) -> list[Path]:
    return [folder / f"{stem}_caps.txt" for stem in ([name, "val"] if name == "dev" else [name])]


def _add_part(assembly: Assembly, part: str, file: Path, per_image: int) -> None:
    captions = list(lines(file))  # an empty line is an empty caption: dropping it would shift the rest
    images, keys = _precomp_ids(part, file, len(captions), per_image)
    for (line, caption), image, key in zip(captions, images, keys, strict=True):
        assembly.image(image, At(file, line), split=part)
        assembly.text(key, caption.strip(), image, At(file, line))


def _precomp_ids(part: str, file: Path, captions: int, per_image: int) -> tuple[list[str], list[str]]:
    """Image id and caption id of every line."""
    numbered = [f"{part}-{row // per_image}" for row in range(captions)]
    ids_file = file.with_name(file.name.replace("_caps.txt", "_ids.txt"))
    ids = [text.strip() for _, text in filled_lines(ids_file)] if ids_file.is_file() else None
    if ids is not None and len(ids) == captions and len(set(ids)) < captions:
        _refuse_uneven(ids, ids_file, per_image)
        return ids, _caption_ids(ids, per_image)
    if captions % per_image:
        refuse(
            At(file), f"{captions:,} captions are not a multiple of {per_image} per image; pass captions_per_image=N"
        )
    if ids is None:
        return numbered, _caption_ids(numbered, per_image)
    if len(ids) == captions:
        return numbered, ids
    if len(ids) * per_image != captions:
        message = f"{len(ids):,} ids for {captions:,} captions in {file.name}"
        refuse(At(ids_file), f"{message}; expected one per caption or one per {per_image} captions")
    repeated = [image for image in ids for _ in range(per_image)]
    return repeated, _caption_ids(repeated, per_image)


def _refuse_uneven(ids: list[str], file: Path, per_image: int) -> None:
    for row in range(0, len(ids), per_image):
        if len(set(ids[row : row + per_image])) > 1:
            at = At(file, row + 1)
            refuse(
                at, f"image ids change within {per_image} lines ({shown(ids[row : row + per_image], most=per_image)})"
            )


def _caption_ids(images: list[str], per_image: int) -> list[str]:
    return [f"{image}#{row % per_image}" for row, image in enumerate(images)]
