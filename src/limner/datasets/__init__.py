"""Data sets: the loaders, and `load`, which finds the right one.

A loader is a plain function `(path, *, split=None, **options) -> Collection`. Your own loader needs no registration:
use it as "module:function:PATH". Or register a name with `@DATASETS.register("mine")` and use "mine:PATH". Built-in
loaders are listed in `limner.datasets.catalogue`.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limner.core.errors import LimnerError, MissingExtra, UnknownName
from limner.core.paths import damage_told
from limner.core.progress import ProgressLike
from limner.core.registry import Registry, checked, imported
from limner.datasets.catalogue import BUILT_IN, Dataset

if TYPE_CHECKING:
    from limner.core.collection import Collection

if not TYPE_CHECKING:
    from limner.core.extras import submodules

    __getattr__ = submodules(__name__)

__all__ = ["DATASETS", "Dataset", "dataset", "datasets", "detect", "load", "write"]


_HARMLESS = {"images", "check_images", "revision", "strict"}
"""Options of loaders that do not change how many texts there are."""
_BY_NAME = {each.name: each for each in BUILT_IN}
Loader = Callable[..., "Collection"]
DATASETS: Registry[Loader] = Registry("data set", {each.name: each.loader for each in BUILT_IN}, filled=1)
"""All loaders by name. Built-in ones come first, in the order in which a bare path is tried."""


def dataset(name: str) -> Dataset:
    """The entry of one data set; for an unknown name, the error suggests the nearest ones."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    if name not in DATASETS:
        raise UnknownName("data set", name, DATASETS)
    loader = DATASETS[name]
    summary = DATASETS.about(name).summary.rstrip(".")
    return Dataset(name, summary, DATASETS.name_of(loader), needs_path=_needs_path(loader))


def datasets() -> list[Dataset]:
    """The entries of all data sets, with registered ones last."""
    return [dataset(name) for name in DATASETS]


def load(spec: object, *, split: str | None = None, trust: bool = True, **options: Any) -> Collection:
    """Loads a collection.

    Args:
        spec: A name ("scenes", "flickr30k"), a name and a path ("flickr8k:DIR"), a path alone ("captions.csv", a
            folder), "hf:OWNER/NAME", or your own loader and, if it takes one, a path ("my_module:my_loader:PATH"). Or a
            table in memory: a DataFrame, an Arrow table, a Dataset, a list of rows or pairs; see
            `limner.datasets.memory_tables`.
        split: Only this split; everything, with its splits, by default.
        trust: Whether your own loader may be named; False for a spec that was read from a file.
        options: Passed to the loader; unknown options are refused.

    >>> load("flicker8k:DIR")
    Traceback (most recent call last):
    limner.core.errors.UnknownName: unknown data set 'flicker8k': did you mean 'flickr8k' or ...
    """
    if not isinstance(spec, (str, Path)):
        from limner.datasets.memory_tables import load_object

        return load_object(spec, split=split, **checked(load_object, options, what="a table in memory", filled=1))
    name, loader, path = _resolved(spec, trusted=trust)
    _refuse_no_path(name, loader, path)
    is_from_hub = name in _BY_NAME and str(spec) == name and path == _BY_NAME[name].hub
    repository, _, known_commit = str(path).partition("@")
    if is_from_hub and "revision" in options:
        path = repository
    fetched_split = (split or "test") if is_from_hub else split
    chosen = checked(loader, options, what=repr(name), filled=1)
    arguments = () if path is None else (path,)
    damage = damage_told(path or name, what=f"data set of the form {name!r}")
    with damage if name in _BY_NAME else nullcontext(), _or_folder(name) if is_from_hub else nullcontext():
        loaded = loader(*arguments, split=fetched_split, **chosen)
    if is_from_hub:
        loaded = replace(loaded, name=name, splits={str(fetched_split): loaded.images.ids})
        if "revision" in options and known_commit:
            loaded = _of_commit(loaded, known_commit)
    part = loaded.split(split) if split is not None and loaded.splits else loaded  # a loader may leave this to `load`
    is_named = str(spec).partition(":")[0] == name
    return _compared(part, name, texts=not options.keys() - _HARMLESS) if is_named else part


@contextmanager
def _or_folder(name: str) -> Iterator[None]:
    """Adds to the error about a data set that cannot be fetched how to load it from a folder."""
    try:
        yield
    except MissingExtra:
        raise
    except LimnerError as error:
        raise LimnerError(f"{error}. Or from a folder, as '{name}:DIR': {dataset(name).fetch}") from error


def _of_commit(collection: Collection, known: str) -> Collection:
    """Adds a warning if a chosen revision of a known data set is another commit than the known one."""
    if str(collection.origin).endswith(f"@{known}"):
        return collection
    warning = f"{collection.origin} is not the known commit of {collection.name}, {known}: do not compare its figures"
    return replace(collection, warnings=(*collection.warnings, f"{warning} with published ones"))


def _compared(collection: Collection, name: str, *, texts: bool) -> Collection:
    """Adds a warning if the size is none of those that are published for this data set.

    Args:
        collection: What was loaded.
        name: The data set.
        texts: Whether the number of texts is compared too; options of the loader may have changed it.
    """
    published = _BY_NAME[name].sizes if name in _BY_NAME else ()
    if not published:
        return collection
    size = len(collection.images), len(collection.texts)
    if any(size[0] == images and (not texts or count in (0, size[1])) for images, count in published):
        return collection
    listed = ", ".join(f"{images:,} and {count:,}" if count else f"{images:,}" for images, count in published)
    warning = (
        f"{name} has {size[0]:,} images and {size[1]:,} texts here, not a published size ({listed}): do not compare "
        "its figures with published ones"
    )
    return replace(collection, warnings=(*collection.warnings, warning))


def takes_option(spec: str, name: str) -> bool:
    """Whether the loader of a spec has an option of this name.

    >>> takes_option("scenes", "images"), takes_option("scenes", "weights")
    (True, False)
    """
    parameters = inspect.signature(_resolved(spec, trusted=True)[1]).parameters
    return name in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())


def refuse_foreign(spec: str, options: Mapping[str, object]) -> None:
    """Refuses a loader named by a file, unless it is built in.

    Args:
        spec: As for `load`.
        options: Options of the loader, which are checked too.
    """
    name, loader, _ = _resolved(str(spec), trusted=False)
    checked(loader, options, what=repr(name), filled=1)


def write(
    collection: Collection, path: str | Path, *, form: str | None = None, progress: ProgressLike = None
) -> tuple[str, ...]:
    """Writes a collection as .csv, .tsv, .jsonl, .parquet, .qrels or a folder; returns what the format cannot store.

    Args:
        collection: The collection.
        path: The file or folder; its extension determines the format.
        form: "beir" for a BEIR folder, "croissant" for a Croissant folder.
        progress: Called with (images written, images in total) if images are written.
    """
    from limner.datasets import collection_writers

    return collection_writers.write(collection, path, form=form, progress=progress)


def detect(path: str | Path) -> Dataset:
    """Detects the kind of data set in a file or folder, by its file names."""
    path = Path(path)
    if not path.exists():
        raise LimnerError(
            f"no file or folder {path}, and no data set of that name: expected one of {', '.join(DATASETS)}"
        )
    detected = next((entry for entry in BUILT_IN if _fits(entry, path)), None)
    if detected is None and path.is_dir() and not (path / "items.lance").is_dir():
        from limner.datasets.image_folder import has_images
        from limner.datasets.pdf_pages import pdf_names

        kind = "images" if has_images(path) else "pdf" if pdf_names(path) else None
        detected = None if kind is None else _BY_NAME[kind]
    if detected is None:
        raise LimnerError(_unrecognised(path))
    return detected


def _unrecognised(path: Path) -> str:
    """Why a file or folder is no collection, and what to do with it."""
    if (path / "items.lance").is_dir():
        return f"{path} is an index, not a collection: 'limner serve {path}' or 'limner search {path} TEXT'"
    return (
        f"{path}: not a format that limner recognises; give its format as NAME:{path}, where NAME is one of "
        f"{', '.join(DATASETS)}"
    )


def _fits(entry: Dataset, path: Path) -> bool:
    if path.is_file():
        return entry.name != "folder" and any(fnmatch(path.name, pattern.rsplit("/", 1)[-1]) for pattern in entry.files)
    if entry.name == "table":
        return False
    return entry.name not in ("images", "pdf") and any(_any_file(path, pattern) for pattern in entry.files)


def _any_file(folder: Path, pattern: str) -> bool:
    if pattern.startswith("../"):
        return _any_file(folder.parent, pattern[3:])
    return any(True for _ in islice(folder.glob(pattern), 1))


def _resolved(spec: str | Path, *, trusted: bool) -> tuple[str, Loader, str | Path | None]:
    """Resolves a spec to its name in messages, its loader and its path."""
    head, colon, remainder = str(spec).partition(":")
    if isinstance(spec, Path) or os.path.exists(spec) or len(head) == 1:  # one letter is a drive, not a name
        return *_name_and_loader(detect(spec)), spec
    if colon and head not in DATASETS and ("." in head or ":" in remainder):
        function, _, path = remainder.partition(":")
        name = f"{head}:{function}"
        if not head or not function:
            raise UnknownName("data set", str(spec), DATASETS)
        return name, DATASETS.find(name, trusted=trusted), path or None
    if not colon and not head.isidentifier() and head not in DATASETS:
        detect(spec)  # looks like a path that does not exist
    entry = dataset(head)
    if entry.needs_path and not remainder and not entry.hub:
        raise LimnerError(f"{head!r} needs a path: write '{head}:DIR'. {entry.fetch}")
    if entry.hub and not remainder:
        return head, imported(entry.hub_loader, what="data set"), entry.hub
    return *_name_and_loader(entry), remainder or None


def _name_and_loader(entry: Dataset) -> tuple[str, Loader]:
    return entry.name, DATASETS[entry.name]


def _refuse_no_path(name: str, loader: Loader, path: str | Path | None) -> None:
    if path is None and _needs_path(loader):
        raise LimnerError(f"the loader {name!r} needs a path: write '{name}:PATH'")


def _needs_path(loader: Loader) -> bool:
    parameters = inspect.signature(loader).parameters.values()
    return any(p.kind is not p.KEYWORD_ONLY and p.default is p.empty and "VAR" not in p.kind.name for p in parameters)
