"""Folders of images without captions, the endings of image files, and how the images of a collection are written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from limner.core.collection import Collection, Items
from limner.core.errors import LimnerError, count, shown
from limner.core.ids import Ids
from limner.core.image_faults import image_fault
from limner.core.judgements import Judgements
from limner.datasets.assembly import Check
from limner.datasets.text_files import At, Notes, existing

IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif", ".heic", ".heif")
UNREAD_ENDINGS = (".arw", ".cr2", ".cr3", ".dng", ".jp2", ".jxl", ".nef", ".orf", ".psd", ".raf", ".rw2", ".svg")
"""Endings of images that limner does not read: counted, never taken for another kind of file."""


def new_folder(path: str | Path) -> Path:
    """The folder to write to, which has to be empty or missing."""
    folder = Path(path)
    if folder.is_dir() and any(folder.iterdir()):
        raise LimnerError(f"{folder} is not empty: give a new folder")
    return folder


def write_image(images: Items, row: int, folder: Path) -> str | None:
    """Writes an image to a folder and returns its file name; None if only its id is known.

    Files are copied, and drawn images are written as PNG.
    """
    value, key = images.values[row], images.ids[row]
    if value is None:
        return None
    drawn = not isinstance(value, (str, Path, bytes))
    name = _safe_name(key, row, ".png" if drawn else _ending(value))
    if isinstance(value, (str, Path)):
        shutil.copyfile(value, folder / name)
    elif isinstance(value, bytes):
        (folder / name).write_bytes(value)
    else:
        (value() if callable(value) else value).save(folder / name)
    return name


def _safe_name(key: str, row: int, ending: str) -> str:
    """A unique file name: the id itself if it is valid, else the row number."""
    plain = all(c.isalnum() or c in "._-" for c in key) and not key.startswith(".") and len(key) < 120
    if not plain:
        return f"{row:08d}{ending}"
    return key if key.lower().endswith(IMAGE_ENDINGS) else key + ending


def _ending(value: str | Path | bytes) -> str:
    if not isinstance(value, bytes):
        return Path(value).suffix.lower() or ".jpg"
    return ".png" if value.startswith(b"\x89PNG") else ".jpg"


_LISTED = 20  # names in one warning; the rest is counted


@dataclass(frozen=True)
class Photos:
    """The images below a folder.

    Args:
        folder: The folder.
        names: Names of the files from the folder on, with forward slashes.
        left_out: Names of the files that are no use, each with the reason.
    """

    folder: Path
    names: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...] = ()

    def items(self) -> Items:
        """The images, with their names as ids."""
        return Items(Ids(self.names, what="image"), [str(self.folder / name) for name in self.names])

    def warnings(self) -> list[str]:
        """A sentence for every reason, with the names of the first files."""
        reasons: dict[str, list[str]] = {}
        for name, reason in self.left_out:
            reasons.setdefault(reason, []).append(name)
        return [
            f"{count(len(names), 'file')} left out: {reason} ({shown(names, most=_LISTED)})"
            for reason, names in reasons.items()
        ]


def photos(folder: str | Path) -> Photos:
    """Lists the images below a folder by their names; opens none of them.

    Folders whose names begin with a dot are not entered.
    """
    root = existing(folder, what="folder of images")
    names: list[str] = []
    left_out: list[tuple[str, str]] = []
    for name in files_below(root):
        reason = _name_fault(name)
        if reason is not None:
            left_out.append((_printable(name), reason))
        elif Path(name).suffix.lower() in IMAGE_ENDINGS:
            names.append(name)
    return Photos(root, tuple(names), tuple(left_out))


def sound_photos(folder: str | Path, *, check_images: Check = False) -> Photos:
    """Lists the images below a folder that open, by their first and last bytes.

    Args:
        folder: The folder.
        check_images: Decode every image, which also finds damage in the middle of a file.
    """
    listed = photos(folder)
    rows: Iterable[int] = range(len(listed.names))
    rows = check_images(rows) if callable(check_images) else rows
    named = ((listed.names[row], os.path.join(listed.folder, listed.names[row])) for row in rows)
    faults = [(name, image_fault(path, decode=bool(check_images))) for name, path in named]
    bad = [(name, fault) for name, fault in faults if fault is not None]
    return replace(
        listed, names=tuple(name for name, fault in faults if fault is None), left_out=(*listed.left_out, *bad)
    )


def load_images(
    path: str | Path, *, split: str | None = None, check_images: Check = False, strict: bool = False
) -> Collection:
    """Loads a folder of images without captions, also those in folders below it: a collection without texts.

    A file that cannot be used is left out and listed as a warning: it is empty, cut short, too large, of another kind,
    or has a name that is not UTF-8. An image is identified by its name from the folder on, such as `2019/dog.jpg`.

    Args:
        path: The folder.
        split: Not supported: there are no splits.
        check_images: Decode every image, which also finds damage in the middle of a file.
        strict: Raise an error instead of listing a warning.
    """
    if split is not None:
        raise LimnerError(f"split={split!r}: a folder of images has no splits")
    listed = sound_photos(path, check_images=check_images)
    notes = Notes(strict=strict)
    for warning in listed.warnings():
        notes.add(At(listed.folder), warning)
    if not listed.names:
        why = "; ".join(listed.warnings())
        raise LimnerError(
            f"no images in {listed.folder}: " + (why or f"expected files that end in {', '.join(IMAGE_ENDINGS)}")
        )
    images, texts = listed.items(), Items(Ids((), what="text"), [], kind="text")
    pairs = Judgements.from_pairs((), queries=images.ids, candidates=texts.ids)
    return Collection(listed.folder.resolve().name, images, texts, pairs, warnings=notes.listed())


def has_images(folder: Path) -> bool:
    """Whether there are files of images below a folder, by their names."""
    return folder.is_dir() and any(Path(name).suffix.lower() in IMAGE_ENDINGS for name in files_below(folder))


def files_below(root: Path) -> Iterator[str]:
    """The names of all files below a folder, in order, without hidden folders."""
    for place, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        start = os.path.relpath(place, root)
        prefix = "" if start == "." else f"{start}/".replace(os.sep, "/")
        yield from (prefix + name for name in sorted(files))


def _name_fault(name: str) -> str | None:
    ending = Path(name).suffix.lower()
    if ending in UNREAD_ENDINGS:
        return f"limner does not read {ending}"
    if ending not in IMAGE_ENDINGS:
        return None
    if name.rpartition("/")[2].startswith("._"):
        return "it holds what macOS knows about another file"
    return None if _printable(name) == name else "its name is not UTF-8: rename it"


def _printable(name: str) -> str:
    """The name, with bytes that are not UTF-8 written as escapes."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
