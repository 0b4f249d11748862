"""Images of classes as a collection: a text for each class, so that R@1 of images as queries is zero-shot accuracy.

A class with several prompts is one text; an encoder gets all of them, and their unit vectors are averaged, as in
CLIP_benchmark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from limner.core.collection import Collection
from limner.core.errors import LimnerError, shown
from limner.core.paths import read_json
from limner.datasets.assembly import Assembly, Check, split_name
from limner.datasets.caption_tables import COLUMNS, table_rows
from limner.datasets.image_folder import sound_photos
from limner.datasets.text_files import At, existing, filled_lines, refuse

TEMPLATES = ("a photo of a {}.",)
"""The prompt of a class, if no others are given."""
PROMPTS = "prompts"
"""The field of texts with all prompts of a class."""
_CLASSES = ("class", "label", "class_name", "classname", "category")
_TEMPLATE_FILES = ("zeroshot_classification_templates.txt", "templates.txt")
_SPLITS = ("train", "training", "val", "valid", "validation", "dev", "test", "testing")


def load_classes(
    path: str | Path,
    *,
    split: str | None = None,
    templates: str | Path | Sequence[str] | None = None,
    names: str | Path | None = None,
    images: str | Path | None = None,
    check_images: Check = False,
    strict: bool = False,
) -> Collection:
    """Loads images of classes: a folder for each class, or a table with the columns image and class.

    Args:
        path: The folder, `DIR/dog/1.jpg` or `DIR/test/dog/1.jpg`; or a csv, tsv, jsonl or parquet table.
        split: Only this split.
        templates: Prompts with {} or {c} for the class: a list, or a file with one per line. By default
            `zeroshot_classification_templates.txt` or `templates.txt` of the folder, else "a photo of a {}.".
        names: JSON with the name of each class, {"n02084071": "dog"}; by default the folders, with blanks for _.
        images: For a table: the folder that file names start from; its own by default.
        check_images: Open every image; skip and list those that cannot be opened.
        strict: Raise an error instead of listing a warning.
    """
    source = existing(path, what="folder of classes, or table of images and classes")
    assembly = Assembly(source.resolve().stem if source.is_file() else source.resolve().name, strict=strict)
    rows = _table(source) if source.is_file() else _folder(source, assembly)
    add_classes(assembly, rows, templates=read_templates(source, templates), names=_names(names))
    folders = [source.parent, source.parent / "images"] if source.is_file() else [source]
    return assembly.finish(
        split=split, images=images, folders=folders, check_images=check_images if source.is_file() else False
    )


ClassRow = tuple[At, str, object, str, str]
"""Where it is from, the image's id, the image, its class, and its split or ""."""


def add_classes(
    assembly: Assembly, rows: Iterable[ClassRow], *, templates: Sequence[str], names: Mapping[str, str] | None = None
) -> None:
    """Adds images and a text for each class.

    Args:
        assembly: The collection under construction.
        rows: The images with their classes.
        templates: Prompts with {} or {c} for the name of the class.
        names: The name of each class that is not its id.
    """
    splits_of: dict[str, set[str]] = {}
    at = At(Path(assembly.name))
    for at, key, image, label, split in rows:
        if not label:
            assembly.notes.add(at, "no class in this row; image left out")
            continue
        assembly.image(key, at, split=split, value=image)
        splits_of.setdefault(label, set()).add(split)
        if label in assembly.texts.row:
            assembly.pair(key, label)
        else:
            name = (names or {}).get(label, label.replace("_", " "))
            prompts = prompts_of(name, templates)
            further = {PROMPTS: prompts} if len(prompts) > 1 else {}
            assembly.text(label, prompts[0], key, at, fields={"class": name, **further})
    if not splits_of:
        refuse(at, "no images of classes; expected DIR/CLASS/IMAGE, or a table with the columns image and class")
    for split in sorted(set().union(*splits_of.values()) - {""}):
        absent = [label for label, splits in splits_of.items() if split not in splits]
        if absent:
            note = (
                f"{len(absent):,} classes have no image in split {split!r} ({shown(absent)}), and are no answers there"
            )
            assembly.notes.add(At(at.path), note)


def prompts_of(name: str, templates: Sequence[str]) -> tuple[str, ...]:
    """The prompts of a class.

    >>> prompts_of("dog", ["a photo of a {}.", "a drawing of a {c}."])
    ('a photo of a dog.', 'a drawing of a dog.')
    """
    return tuple(template.replace("{c}", name).replace("{}", name) for template in templates)


def _folder(root: Path, assembly: Assembly) -> Iterable[ClassRow]:
    listed = sound_photos(root)
    for warning in listed.warnings():
        assembly.notes.add(At(root), warning)
    for name in listed.names:
        *folders, _ = PurePosixPath(name).parts
        split = folders.pop(0) if len(folders) > 1 and folders[0].lower() in _SPLITS else ""
        if not folders:
            assembly.notes.add(At(root), "images outside of the folder of a class; left out")
            continue
        yield At(root), name, name, "/".join(folders), split_name(split)


def _table(file: Path) -> Iterable[ClassRow]:
    for at, row in table_rows(file):
        image, label = (next((name for name in each if name in row), None) for each in (COLUMNS["image"], _CLASSES))
        if image is None or label is None:
            expected = "image" if image is None else " or ".join(_CLASSES[:2])
            refuse(at, f"no column {expected}; there are {shown(row, most=8)}")
        name = str(row[image] or "")
        yield at, name, name, str("" if row[label] is None else row[label]).strip(), str(row.get("split") or "")


def read_templates(source: Path, templates: str | Path | Sequence[str] | None) -> tuple[str, ...]:
    """The prompts that the user named, else those of a folder, else `TEMPLATES`.

    Args:
        source: The folder.
        templates: A file, a list, or one prompt.
    """
    if templates is None:
        files = (source / name for name in _TEMPLATE_FILES) if source.is_dir() else ()
        file = next((each for each in files if each.is_file()), None)
        listed: Sequence[str] = TEMPLATES if file is None else [text.strip() for _, text in filled_lines(file)]
    elif isinstance(templates, (str, Path)) and "{" not in str(templates):
        listed = [text.strip() for _, text in filled_lines(existing(templates, what="file of templates"))]
    else:
        listed = [str(templates)] if isinstance(templates, (str, Path)) else list(templates)
    plain = [each for each in listed if "{}" not in each and "{c}" not in each]
    if plain or not listed:
        raise LimnerError(
            f"templates {shown(plain) or 'are empty'}: expected {{}} for the class, as in {TEMPLATES[0]!r}"
        )
    return tuple(dict.fromkeys(listed))


def _names(file: str | Path | None) -> dict[str, str]:
    if file is None:
        return {}
    names = read_json(existing(file, what="names of classes"), what="names of classes")
    if not isinstance(names, dict) or not all(isinstance(name, str) and name for name in names.values()):
        raise LimnerError(f'{file}: expected an object with the name of each class, {{"n02084071": "dog"}}')
    return names
