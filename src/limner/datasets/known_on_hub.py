"""Known data sets in repositories of the hub with a layout of their own: Crossmodal-3600 and SugarCrepe."""

from __future__ import annotations

import re
from collections.abc import Collection as Group
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from limner.core.arrow_tables import parquet_batches, parquet_module
from limner.core.collection import Collection
from limner.core.errors import LimnerError, MissingExtra, UnknownName
from limner.core.extras import missing
from limner.core.paths import damage_told
from limner.datasets.assembly import Assembly, Check
from limner.datasets.hub_repository import HubData, InParquet, content_hashes
from limner.datasets.probe_files import Probe, ProbeCase
from limner.datasets.text_files import At, JsonObject, refuse

_OF_LANGUAGE = re.compile(r"data/(?P<language>[a-z]{2,3})-\d+-of-\d+\.parquet")


def load_crossmodal_hub(
    path: str,
    *,
    split: str | None = None,
    languages: Group[str] | None = None,
    revision: str | None = None,
    check_images: Check = False,
    strict: bool = False,
) -> Collection:
    """Loads Crossmodal-3600 (Thapliyal et al. 2022) from the hub, where each language is a split with all images.

    Ids and fields are those of `limner.datasets.multilingual.load_crossmodal`.

    Args:
        path: OWNER/NAME or OWNER/NAME@REVISION.
        split: Only "test".
        languages: Languages to fetch, such as ["en", "de"]; about 190 MB each. All 36 by default.
        revision: Another branch, tag or commit.
        check_images: Open every image; skip and list those that cannot be opened.
        strict: Raise an error instead of listing a warning.
    """
    data = _data(path, revision)
    files: dict[str, list[str]] = {}
    for name in data.paths:
        if match := _OF_LANGUAGE.fullmatch(name):
            files.setdefault(match["language"], []).append(name)
    for language in languages or ():
        if language not in files:
            raise UnknownName("language", language, sorted(files), of="Crossmodal-3600")
    chosen = [(language, name) for language in sorted(languages or files) for name in files[language]]
    if not chosen:
        raise LimnerError(f"{data.origin} has no files such as data/en-00000-of-00001.parquet")
    folder = data.fetched([name for _, name in chosen])
    assembly = Assembly("crossmodal-3600", strict=strict)
    for language, name in chosen:
        _add_language(assembly, folder / name, language)
    return replace(assembly.finish(split=split, check_images=check_images), origin=data.origin)


def _add_language(assembly: Assembly, file: Path, language: str) -> None:
    for at, row, cells in _rows(file, ("image_id", "image_locale", "captions"), image="image"):
        captions = cells["captions"]
        if not isinstance(captions, list) or not all(isinstance(caption, str) for caption in captions):
            refuse(at, f"captions are {type(captions).__name__}; expected a list of texts")
        image = f"{str(cells['image_id']).removesuffix('.jpg')}.jpg"
        fields = {"locale": str(cells["image_locale"])}
        assembly.image(image, at, split="test", value=InParquet(str(file), row, "image", image), fields=fields)
        for number, caption in enumerate(captions):
            key = f"{image}#{language}{number}"
            assembly.text(key, caption.strip(), image, at, fields={"language": language})


def load_sugarcrepe_hub(path: str, *, split: str | None = None, revision: str | None = None) -> Collection:
    """Loads SugarCrepe (Hsieh et al. 2023) from the hub: the wrong captions match no image.

    Args:
        path: OWNER/NAME or OWNER/NAME@REVISION.
        split: Only "test", which is everything.
        revision: Another branch, tag or commit.
    """
    if split not in (None, "test"):
        raise UnknownName("split", split, ("test",), of="SugarCrepe")
    probe, origin = _sugarcrepe(_data(path, revision))
    return replace(probe.collection(), origin=origin)


def sugarcrepe_probe(path: str) -> Probe:
    """SugarCrepe of the hub as cases: a caption with one wrong caption each.

    Args:
        path: OWNER/NAME or OWNER/NAME@REVISION.
    """
    return _sugarcrepe(_data(path))[0]


def _sugarcrepe(data: HubData) -> tuple[Probe, str]:
    names = [name for name in data.paths if name.endswith(".parquet")]
    if not names:
        raise LimnerError(f"{data.origin} has no Parquet files")
    folder = data.fetched(names)
    cases, pictures = list[ProbeCase](), dict[str, object]()
    for name in names:
        file = folder / name
        captions = list(_rows(file, ("caption", "negative_caption"), image="images"))
        with damage_told(file, what="parquet file"):
            keys = list(content_hashes(str(file), "images"))
        for at, row, cells in captions:
            right, wrong = cells["caption"], cells["negative_caption"]
            if not (isinstance(right, str) and isinstance(wrong, str)):
                refuse(at, "a caption is missing; expected texts in caption and negative_caption")
            pictures.setdefault(keys[row], InParquet(str(file), row, "images", keys[row]))
            cases.append(ProbeCase(str(len(cases)), "sugarcrepe", (keys[row],), (right,), (wrong,)))
    return Probe("sugarcrepe", tuple(cases), pictures), data.origin


def _rows(file: Path, columns: tuple[str, ...], *, image: str) -> Iterator[tuple[At, int, JsonObject]]:
    """Where each row is, its number in the file, and its cells without the image."""
    row = 0
    with damage_told(file, what="parquet file"):
        with parquet_module("a data set of the hub").ParquetFile(file) as table:
            names = table.schema_arrow.names
        for column in (*columns, image):
            if column not in names:
                raise UnknownName("column", column, names, of=str(file))
        for batch in parquet_batches(file, columns=list(columns)):
            for cells in batch.to_pylist():
                yield At(file, row + 1), row, cells
                row += 1


def _data(path: str, revision: str | None = None) -> HubData:
    """The files of a repository."""
    if absent := missing("huggingface_hub", "pyarrow"):
        raise MissingExtra("a data set of the hub", absent, "hub")
    name, _, named_revision = path.partition("@")
    return HubData.named(name, revision or named_revision or None)
