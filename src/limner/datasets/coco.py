"""COCO: the official caption and instance files, and the 5,000-image test split with all its judgements."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from limner.core.collection import Collection
from limner.core.errors import LimnerError, MissingExtra, UnknownName, shown
from limner.core.judgements import Judgements
from limner.core.tensors import read_array
from limner.datasets import coco_judgements
from limner.datasets.assembly import Assembly, Check
from limner.datasets.text_files import At, JsonObject, existing, json_file, optional_file, refuse, refuse_missing, table

Named = dict[str, Judgements]
_YEAR = re.compile(r"(19|20)\d\d$")


def load_captions(
    path: str | Path,
    *,
    split: str | None = None,
    images: str | Path | None = None,
    objects: bool = False,
    check_images: Check = False,
    strict: bool = False,
) -> Collection:
    """Loads COCO's official caption files, such as `captions_val2017.json`.

    Args:
        path: One file, or a folder with one or more (also in `annotations/`); the split is part of each file name.
        split: "train", "dev" ("val" is "dev") or "test"; everything by default.
        images: Folder with the images, or with subfolders such as `val2017`.
        objects: Read the `instances_*.json` next to each caption file into the image field "objects".
        check_images: Open every image; skip and list those that cannot be opened.
        strict: Raise an error instead of listing a warning.
    """
    files = _caption_files(existing(path, what="COCO captions"))
    assembly = Assembly("coco", strict=strict)
    root = files[0].parent.parent if files[0].parent.name == "annotations" else files[0].parent
    for file in files:
        _add_file(assembly, file, root if images is None else Path(images), objects=objects)
    folders = [root, root / "images"]
    return assembly.finish(split=split, images=images, folders=folders, check_images=check_images)


def _caption_files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    files = sorted(path.glob("captions_*.json")) or sorted(path.glob("annotations/captions_*.json"))
    if not files:
        raise LimnerError(f"no captions_*.json in {path} or its annotations/: expected COCO's caption files")
    return files


def _add_file(assembly: Assembly, file: Path, root: Path, *, objects: bool) -> None:
    content = json_file(file, keys=("images", "annotations"))
    year = file.stem.removeprefix("captions_")  # "val2017", which is also the name of the image folder
    folder = f"{year}/" if (root / year).is_dir() else ""
    objects_of = read_instances(file.with_name(f"instances_{year}.json")) if objects else None
    at = At(file)
    for row, entry in enumerate(content["images"]):
        refuse_missing(entry, ("id", "file_name"), at, f"images[{row}]")
        fields = {name: entry[name] for name in ("file_name", "width", "height") if name in entry}
        if objects_of is not None:
            fields["objects"] = objects_of.get(str(entry["id"]), ())
        if str(entry["id"]) in assembly.images.row:
            refuse(at, f"images[{row}] has the id {entry['id']} of an earlier image; ids must be unique")
        assembly.image(
            str(entry["id"]), at, split=_YEAR.sub("", year), value=folder + entry["file_name"], fields=fields
        )
    _add_annotations(assembly, content["annotations"], at)


def _add_annotations(assembly: Assembly, annotations: list[dict[str, object]], at: At) -> None:
    captioned = set()
    for row, entry in enumerate(annotations):
        refuse_missing(entry, ("id", "image_id", "caption"), at, f"annotations[{row}]")
        image = str(entry["image_id"])
        if image not in assembly.images.row:
            refuse(at, f"annotations[{row}] (caption {entry['id']}) names image {image}, which 'images' does not list")
        captioned.add(image)
        assembly.text(str(entry["id"]), str(entry["caption"]).strip(), image, at)
    bare = [
        key for key, row in assembly.images.row.items() if assembly.images.places[row] == at and key not in captioned
    ]
    if bare:
        assembly.notes.add(at, f"{len(bare):,} images without captions ({shown(bare)}); kept without captions")


def read_instances(path: str | Path) -> dict[str, tuple[JsonObject, ...]]:
    """The objects of each image in an instances file, by image id.

    An object is a dict with "name", "supercategory", "category" (COCO's number), "box" (left, top, right, bottom in
    pixels of the original image), "area" and "crowd" (whether the box contains a group too dense to count).
    """
    at = At(existing(path, what="COCO instances"))
    content = json_file(at.path, keys=("annotations", "categories"))
    categories = {entry["id"]: entry for entry in content["categories"]}
    objects_of: dict[str, list[dict[str, object]]] = {}
    for row, entry in enumerate(content["annotations"]):
        refuse_missing(entry, ("image_id", "category_id", "bbox"), at, f"annotations[{row}]")
        if entry["category_id"] not in categories:
            refuse(at, f"annotations[{row}] has category {entry['category_id']}, which 'categories' does not list")
        objects_of.setdefault(str(entry["image_id"]), []).append(_object(entry, categories[entry["category_id"]]))
    return {image: tuple(objects) for image, objects in objects_of.items()}


def _object(entry: JsonObject, category: JsonObject) -> dict[str, object]:
    left, top, width, height = entry["bbox"]
    return {
        "name": category["name"],
        "supercategory": category.get("supercategory", ""),
        "category": category["id"],
        "box": (left, top, left + width, top + height),
        "area": entry.get("area", width * height),
        "crowd": bool(entry.get("iscrowd", 0)),
    }


def load_karpathy_5k(
    path: str | Path | None = None,
    *,
    split: str | None = None,
    images: str | Path | None = None,
    cxc: str | Path | None = None,
    eccv: str | Path | None = None,
    instances: str | Path | None = None,
    check_images: Check = False,
    strict: bool = False,
) -> Collection:
    """Loads the COCO test split of 5,000 images and 25,000 captions, with all its judgements.

    Images and captions are in the order of `coco_test_ids.npy`, and both have an integer field "fold" from 0 to 4:
    the blocks of 5,000 captions of the 1K protocol. Judgements: "pairs"; "cxc" (rated 3 or more; the ratings
    themselves are in `ratings` if the csv exists); "eccv", whose caption queries are in `reverse`; "plausible-0",
    "-1", "-2" and "plausible-eccv" if instances are given.

    Args:
        path: Karpathy's `dataset_coco.json`, or `karpathy_test_5k.tsv` (columns image_id, caption_id, caption), or a
            folder with one of them and, if you have it, `coco_test_ids.npy`. By default, the ids come from the
            installed package `eccv_caption`, and texts are "": enough for scores and runs, refused by encoders.
        split: "test" or None: this is a test split.
        images: Folder with COCO's val2014 or val2017 images.
        cxc: `sits_test.csv`; by default searched next to the tsv and in `cxc/` next to its folder, then in the package.
        eccv: Folder with ECCV Caption's JSON files; the package's by default.
        instances: An instances file that covers these images, for objects and plausible matches.
        check_images: Open every image; skip and list those that cannot be opened.
        strict: Raise an error instead of listing a warning.
    """
    if split not in (None, "test"):
        raise UnknownName("split", str(split), ["test"], of="'coco-5k'")
    assembly = Assembly("coco-5k", strict=strict)
    file = None if path is None else _captions_file(existing(path, what="COCO test split"))
    captions = _captions_from_package(assembly) if file is None else _captions_from_file(file)
    objects = None if instances is None else read_instances(instances)
    _add_in_folds(assembly, captions, _fold_order(assembly, file, captions), _image_name(images, captions), objects)
    assembly.refuse_wrong_counts(5)
    extra, reverse, ratings = _judged(file, cxc, eccv)
    loaded = assembly.finish(images=images, check_images=check_images, extra=extra, reverse=reverse, ratings=ratings)
    if objects is None:
        return loaded
    matches = [coco_judgements.plausible_matches(loaded, zeta=zeta) for zeta in (0, 1, 2)]
    matches.append(coco_judgements.plausible_matches(loaded, form="eccv"))
    return replace(loaded, extra={**loaded.extra, **{j.name: j for j in matches}})


def with_folds(collection: Collection, folds: int = 5) -> Collection:
    """Adds a field "fold" to images and texts: consecutive blocks of images of equal size.

    For COCO's test split in another format (Karpathy's JSON with `first=5`, `testall_caps.txt`), whose order is that of
    the 1K protocol.
    """
    size = len(collection.images)
    if folds < 1 or size % folds:
        raise LimnerError(f"{size:,} images of {collection.name!r} cannot be split into {folds} equal folds")
    image_fold = np.arange(size) * folds // max(size, 1)
    pairs = collection.judgements.relevant
    if (pairs.T.counts != 1).any():
        raise LimnerError(f"folds of {collection.name!r}: some texts have no image or several; expected one each")
    text_fold = np.zeros(len(collection.texts), dtype=np.int64)
    text_fold[pairs.columns] = image_fold[pairs.rows]
    images = collection.images.with_fields(fold=image_fold.tolist())
    return replace(collection, images=images, texts=collection.texts.with_fields(fold=text_fold.tolist()))


Captions = dict[str, tuple[str, str, At]]  # caption id -> image id, text, where


_CAPTION_FILES = ("karpathy_test_5k.tsv", "dataset_coco.json", "*test*.tsv")


def _captions_file(path: Path) -> Path:
    file = optional_file(path, _CAPTION_FILES)
    if file is None:
        raise LimnerError(
            f"no captions in {path}: expected Karpathy's dataset_coco.json, or karpathy_test_5k.tsv with the columns "
            "image_id, caption_id, caption"
        )
    return file


def _captions_from_file(file: Path) -> Captions:
    return _captions_from_json(file) if file.suffix == ".json" else _captions_from_tsv(file)


def _captions_from_json(file: Path) -> Captions:
    """The captions of Karpathy's test split that `coco_test_ids.npy` lists, else the first five of each image."""
    captions: Captions = {}
    first: list[str] = []
    for row, entry in enumerate(json_file(file, keys=("images",))["images"]):
        refuse_missing(entry, ("sentences", "split"), At(file), f"image {row}")
        if entry["split"] != "test":
            continue
        refuse_missing(entry, ("cocoid",), At(file), f"image {row}")
        for sentence in entry["sentences"]:
            refuse_missing(sentence, ("raw", "sentid"), At(file), f"a sentence of image {row}")
            captions[str(sentence["sentid"])] = str(entry["cocoid"]), str(sentence["raw"]).strip(), At(file)
        first += [str(sentence["sentid"]) for sentence in entry["sentences"][:5]]
    if not captions:
        refuse(At(file), "no image of the split 'test'; expected Karpathy's dataset_coco.json")
    listed = _listed_ids(file) or first
    return {key: captions[key] for key in (listed if set(listed) <= captions.keys() else first)}


def _captions_from_tsv(file: Path) -> Captions:
    captions: Captions = {}
    for at, row in table(file, delimiter="\t", quoted=False):
        refuse_missing(row, ("image_id", "caption_id", "caption"), At(file, 1), "the header")
        if row["caption_id"] in captions:
            refuse(at, f"caption id {row['caption_id']} was already used at {captions[row['caption_id']][2]}")
        captions[row["caption_id"]] = row["image_id"], row["caption"].strip(), at
    return captions


def _captions_from_package(assembly: Assembly) -> Captions:
    folder = coco_judgements.eccv_folder()
    at = At(folder / "original_caption_to_image.json")
    _, pairs = coco_judgements.read_coco_pairs(folder)
    assembly.notes.add(at, "ids only: the package ships no captions, so every text is empty")
    return {caption: (image, "", at) for caption, image, _ in pairs}


def _fold_order(assembly: Assembly, file: Path | None, captions: Captions) -> list[str]:
    """Caption ids in the order that defines the folds."""
    ids_file = _ids_file(file)
    if ids_file is None:
        assembly.notes.add(At(file or Path()), "no coco_test_ids.npy next to it: folds follow the order of this file")
        return list(captions)
    ids = _ids(ids_file)
    unknown, unlisted = set(ids) - set(captions), set(captions) - set(ids)
    if unknown or unlisted or len(set(ids)) != len(ids):
        message = f"{len(ids):,} ids here, {len(captions):,} captions in {file or 'the package'}"
        refuse(
            At(ids_file),
            f"{message}; {len(unknown):,} without a caption, {len(unlisted):,} captions unlisted",
        )
    return ids


def _ids_file(file: Path | None) -> Path | None:
    """The file with the order of the captions: next to theirs, else in the package."""
    own_file = None if file is None else file.parent / "coco_test_ids.npy"
    if own_file is not None and own_file.is_file():
        return own_file
    try:
        return coco_judgements.eccv_folder() / "coco_test_ids.npy"
    except MissingExtra:
        return None


def _ids(file: Path) -> list[str]:
    return [str(int(key)) for key in read_array(file, what="ids")]


def _listed_ids(file: Path) -> list[str]:
    ids_file = _ids_file(file)
    return [] if ids_file is None else _ids(ids_file)


def _add_in_folds(
    assembly: Assembly, captions: Captions, order: list[str], name: str, objects: JsonObject | None
) -> None:
    for place, key in enumerate(order):
        image, text, at = captions[key]
        fields: dict[str, object] = {"fold": place * 5 // len(order)}
        further = {} if objects is None else {"objects": objects.get(image, ())}
        assembly.image(image, at, split="test", value=name.format(int(image)), fields={**fields, **further})
        assembly.text(key, text, image, at, fields=fields, blank=not text and at.line is None)


def _image_name(images: str | Path | None, captions: Captions) -> str:
    """The file name pattern of the folder, which COCO changed between 2014 and 2017."""
    names = [
        folder + stem for stem in ("COCO_val2014_{:012d}.jpg", "{:012d}.jpg") for folder in ("", "val2014/", "val2017/")
    ]
    if images is None:
        return names[0]
    examples = [int(image) for image, _, _ in list(captions.values())[:50]]
    fits = (name for name in names if any((Path(images) / name.format(number)).is_file() for number in examples))
    return next(fits, names[0])


def _judged(file: Path | None, cxc: str | Path | None, eccv: str | Path | None) -> tuple[Named, Named, Named]:
    """The judgements of CxC and ECCV Caption (extra, reverse, ratings); files named by the user must exist."""
    extra: Named = {}
    reverse: Named = {}
    ratings: Named = {}
    csv = cxc or (file and _cxc_near(file))
    if csv:
        ratings["cxc"] = coco_judgements.read_cxc(csv)
        extra["cxc"] = ratings["cxc"].at_least(coco_judgements.CXC_THRESHOLD)
    try:
        folder = coco_judgements.eccv_folder(eccv)
    except MissingExtra:
        return extra, reverse, ratings
    if not csv and (folder / "cxc_image_to_caption.json").is_file():
        extra["cxc"] = coco_judgements.read_cxc_positives(folder)[0]
    extra["eccv"], reverse["eccv"] = coco_judgements.read_eccv(folder)
    return extra, reverse, ratings


def _cxc_near(file: Path) -> Path | None:
    places = (file.parent, file.parent.parent / "cxc")
    return next((folder / "sits_test.csv" for folder in places if (folder / "sits_test.csv").is_file()), None)
