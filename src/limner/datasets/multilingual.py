"""Captions in several languages: Multi30K (text files or one table), Flickr8k-CN, XTD10 and Crossmodal-3600."""

from __future__ import annotations

import re
from collections.abc import Collection as Group
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from limner.core.collection import Collection
from limner.core.errors import LimnerError, UnknownName, shown
from limner.datasets.assembly import Assembly, Check, split_name
from limner.datasets.text_files import At, existing, filled_lines, find_file, json_lines, lines, refuse, table

LANGUAGES = ("en", "de", "fr", "cs", "ar")
"""Multi30K's languages."""

_PLAIN_SPLITS = {"test_2016_flickr": "test", "test2016": "test", "test_2016": "test"}
_TEXT_FILE = re.compile(r"^(?P<stem>.+?)(?:\.(?P<number>[1-5]))?\.(?P<language>" + "|".join(LANGUAGES) + r")(?:\.gz)?$")
_CHINESE = re.compile(r"^(?P<image>\S+?)#(?P<source>[A-Za-z]+)#(?P<number>\d+)\s+(?P<caption>.*)$")


def load_multi30k(
    path: str | Path,
    *,
    split: str | None = None,
    images: str | Path | None = None,
    languages: Group[str] | None = None,
    splits: str = "multi30k",
    check_images: Check = False,
    strict: bool = False,
) -> Collection:
    """Loads Multi30K (Elliott et al. 2016): captions of Flickr30k images and their translations.

    There are two formats. A folder with text files such as `train.en`, `train.de`, `val.en`, `test_2016_flickr.fr`
    (task
    2: `train.1.en` to `train.5.en`), gzipped or not, and a list of images per split (`train.txt`, `train_images.txt`
    or `image_splits/train.txt`), where the lines with the same number belong together. Or one tsv with a header: a
    column of images (`flickr8k_image`, `flickr30k_image` or `image`), one column per language, and columns that end in
    `_split`.

    Texts have the field "language" and ids such as `1000092795.jpg#de`. Splits are "train", "dev" and "test"
    (`test_2016_flickr`); other test sets keep their names. The training split of Multi30K contains test images of
    Flickr8k: if the table has both splits, both are image fields, and `splits` selects one.

    Args:
        path: The folder or the tsv.
        split: One split; everything by default.
        images: Folder with the images.
        languages: Languages to keep.
        splits: Which `_split` column of a tsv gives the splits, e.g. "multi30k" or "flickr8k".
        check_images: Open every image; skip and list those that cannot be opened.
        strict: Raise an error instead of listing a warning.
    """
    _refuse_unknown(languages, LANGUAGES, "Multi30K")
    root = existing(path, what="Multi30K folder or tsv")
    assembly = Assembly("multi30k", strict=strict)
    chosen = LANGUAGES if languages is None else tuple(languages)
    if root.is_file():
        _add_table(assembly, root, chosen, splits)
    else:
        _add_text_files(assembly, root, chosen)
    folders = [] if root.is_file() else [root / "images", root / "flickr30k-images"]
    return assembly.finish(split=split, images=images, folders=folders, check_images=check_images)


def _add_table(assembly: Assembly, file: Path, languages: Sequence[str], splits: str) -> None:
    for at, row in table(file, delimiter="\t", quoted=False):
        column = next((name for name in ("image", "flickr8k_image", "flickr30k_image") if name in row), None)
        if column is None or not any(language in row for language in languages):
            refuse(
                At(file, 1), f"expected a column of images and of {shown(languages, most=5)}; got {shown(row, most=9)}"
            )
        if f"{splits}_split" not in row:
            columns = [name.removesuffix("_split") for name in row if name.endswith("_split")]
            raise UnknownName("split column", splits, columns)
        part = row[f"{splits}_split"]
        fields = {name: text for name, text in row.items() if name not in languages and name not in LANGUAGES}
        assembly.image(row[column], at, split=None if part == "none" else _plain_split(part), fields=fields)
        for language in languages:
            if language in row:
                assembly.text(
                    f"{row[column]}#{language}", row[language], row[column], at, fields={"language": language}
                )


def _plain_split(name: str) -> str:
    return _PLAIN_SPLITS.get(name, split_name(name))


def _add_text_files(assembly: Assembly, root: Path, languages: Sequence[str]) -> None:
    for stem, language, digit, file in _text_files(root, languages):
        images = _image_list(root, stem)
        _add_lines(
            assembly, file, images, language, split=_plain_split(stem), listed=f"split {stem!r}", digit=digit or ""
        )


def _add_lines(
    assembly: Assembly, file: Path, images: Sequence[str], language: str, *, split: str, listed: str, digit: str = ""
) -> None:
    """Adds one caption per line, for the images in their order."""
    captions = list(lines(file))
    if len(captions) != len(images):
        refuse(At(file), f"{len(captions):,} captions for the {len(images):,} images of {listed}")
    for (line, caption), image in zip(captions, images, strict=True):
        assembly.image(image, At(file, line), split=split)
        key = f"{image}#{language}{digit}"
        assembly.text(key, caption.strip(), image, At(file, line), fields={"language": language})


def _text_files(root: Path, languages: Sequence[str]) -> Iterator[tuple[str, str, str | None, Path]]:
    matches = [(match, file) for file in sorted(root.rglob("*")) if (match := _TEXT_FILE.match(file.name))]
    files = [(m["stem"], m["language"], m["number"], file) for m, file in matches if m["language"] in languages]
    if not files:
        raise LimnerError(
            f"no Multi30K text files in {root}: expected e.g. train.{languages[0]} or train.1.{languages[0]}"
        )
    yield from files


def _image_list(root: Path, stem: str) -> list[str]:
    names = [f"{stem}.txt", f"{stem}_images.txt", f"{stem}.images.txt"]
    file = next((f for name in names for f in sorted(root.rglob(name))), None)
    if file is None:
        raise LimnerError(f"no list of images for split {stem!r} in {root}: expected {' or '.join(names)}")
    return [text.strip().split("#")[0] for _, text in filled_lines(file)]


def load_flickr8k_cn(
    path: str | Path,
    *,
    split: str | None = None,
    images: str | Path | None = None,
    splits: str | Path | None = None,
    check_images: Check = False,
    strict: bool = False,
) -> Collection:
    """Loads Flickr8k-CN (Li et al. 2016): Chinese captions of Flickr8k's images.

    Lines are `image.jpg#zhc#0 caption`; the middle part is the source of the caption (`zhc`: written by people, others:
    machine translations) and becomes the text field "source".

    Args:
        path: The file, or a folder that contains it.
        split: "train", "dev" or "test", by the lists in `splits`.
        images: Folder with Flickr8k's photographs.
        splits: Folder with `Flickr_8k.trainImages.txt` etc.; that of the file, or its `text/`, by default.
        check_images: Open every image; skip and list those that cannot be opened.
        strict: Raise an error instead of listing a warning.
    """
    patterns = ("chinese_human.txt", "*zhc*.txt", "*.caption.txt", "*cn*.txt")
    file = find_file(existing(path, what="Flickr8k-CN"), patterns, what="Flickr8k-CN captions")
    assembly = Assembly("flickr8k-cn", strict=strict)
    for line, text in filled_lines(file):
        match = _CHINESE.match(text)
        if not match:
            refuse(At(file, line), f"expected 'image.jpg#zhc#0 caption', got {text[:60]!r}")
        assembly.image(match["image"], At(file, line))
        key = f"{match['image']}#{match['source']}#{match['number']}"
        fields = {"language": "zh", "source": match["source"]}
        assembly.text(key, match["caption"], match["image"], At(file, line), fields=fields)
    folders = [file.parent, file.parent / "text"] if splits is None else [existing(splits, what="folder of splits")]
    for folder in folders:
        for name in ("train", "dev", "test"):
            assembly.split_list(folder / f"Flickr_8k.{name}Images.txt", name)
    return assembly.finish(split=split, images=images, folders=[file.parent / "images"], check_images=check_images)


def load_xtd10(
    path: str | Path,
    *,
    split: str | None = None,
    images: str | Path | None = None,
    languages: Group[str] | None = None,
    check_images: Check = False,
    strict: bool = False,
) -> Collection:
    """Loads XTD10 (Aggarwal & Kale 2020): one caption per image and language, in the order of the list of images.

    Files are `test_1kcaptions_LANGUAGE.txt` in the folders of the repository (XTD10, MIC, STAIR) and
    `test_image_names.txt`. Japanese is "ja". Everything is in one split, "test".

    Args:
        path: The folder.
        split: Only "test".
        images: Folder with COCO's images.
        languages: Languages to keep.
        check_images: Open every image; skip and list those that cannot be opened.
        strict: Raise an error instead of listing a warning.
    """
    root = existing(path, what="XTD10 folder")
    assembly = Assembly("xtd10", strict=strict)
    files = {_xtd_language(file): file for file in sorted(root.rglob("test_1kcaptions_*.txt"))}
    if not files:
        raise LimnerError(f"no XTD10 captions in {root}: expected test_1kcaptions_en.txt etc.")
    names = next(iter(sorted(root.rglob("test_image_names.txt"))), None)
    if names is None:
        raise LimnerError(f"no list of images in {root}: expected test_image_names.txt")
    listed = [text.strip() for _, text in filled_lines(names)]
    for language in _chosen(languages, files, "XTD10"):
        _add_lines(assembly, files[language], listed, language, split="test", listed=names.name)
    return assembly.finish(split=split, images=images, folders=[root / "images"], check_images=check_images)


def _xtd_language(file: Path) -> str:
    code = file.stem.removeprefix("test_1kcaptions_")
    return {"jp": "ja"}.get(code, code)


def _refuse_unknown(chosen: Group[str] | None, available: Sequence[str], data_set: str) -> None:
    for language in chosen or ():
        if language not in available:
            raise UnknownName("language", language, available, of=data_set)


def _chosen(chosen: Group[str] | None, available: Group[str], data_set: str) -> list[str]:
    """The languages to keep, in order."""
    _refuse_unknown(chosen, sorted(available), data_set)
    return sorted(available if chosen is None else chosen)


def load_crossmodal(
    path: str | Path,
    *,
    split: str | None = None,
    images: str | Path | None = None,
    languages: Group[str] | None = None,
    check_images: Check = False,
    strict: bool = False,
) -> Collection:
    """Loads Crossmodal-3600 (Thapliyal et al. 2022): captions written by people in 36 languages.

    Lines of `captions.jsonl` have "image/key" and, for every language, {"caption": [...]}. Texts have the field
    "language" and ids such as `00a2f0b5.jpg#de0`; images the field "locale". Everything is in one split, "test".

    Args:
        path: The folder, or `captions.jsonl`.
        split: Only "test".
        images: Folder with the images; by default `images` next to the file.
        languages: Languages to keep.
        check_images: Open every image; skip and list those that cannot be opened.
        strict: Raise an error instead of listing a warning.
    """
    patterns = ("captions.jsonl", "*/captions.jsonl", "*.jsonl")
    file = find_file(existing(path, what="Crossmodal-3600"), patterns, what="Crossmodal-3600 captions")
    assembly = Assembly("crossmodal-3600", strict=strict)
    rows = list(json_lines(file))
    available = {
        key for _, row in rows for key, value in row.items() if isinstance(value, Mapping) and "caption" in value
    }
    chosen = _chosen(languages, available, "Crossmodal-3600")
    if not chosen:
        refuse(At(file), "no captions by language; expected {'image/key': ..., 'en': {'caption': [...]}} per line")
    for at, row in rows:
        if not isinstance(row.get("image/key"), str):
            refuse(at, "no 'image/key' here; every line needs one")
        image = f"{row['image/key']}.jpg"
        assembly.image(image, at, split="test", fields={"locale": str(row.get("image/locale", ""))})
        for language in chosen:
            entry = row.get(language)
            captions = entry.get("caption", []) if isinstance(entry, Mapping) else []
            if not isinstance(captions, list) or not all(isinstance(caption, str) for caption in captions):
                refuse(at, f"captions of {language!r} are {type(captions).__name__}; expected a list of texts")
            for number, caption in enumerate(captions):
                key = f"{image}#{language}{number}"
                assembly.text(key, caption.strip(), image, at, fields={"language": language})
    return assembly.finish(split=split, images=images, folders=[file.parent / "images"], check_images=check_images)
