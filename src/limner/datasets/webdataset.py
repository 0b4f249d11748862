"""WebDataset shards: tar files in which an image and its caption share a name, in the format of img2dataset.

`000000012.jpg` with `000000012.txt`, or with `000000012.json` that has "caption" or "captions". Nothing is unpacked:
images stay in their tar file and are read when they are opened. Only regular files are read, so links and paths that
point elsewhere have no effect.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from limner.core.collection import Collection
from limner.core.errors import LimnerError
from limner.core.files import replacing
from limner.core.images import open_image
from limner.core.paths import parse_json
from limner.core.progress import ProgressLike, counting
from limner.datasets.assembly import Assembly, Check
from limner.datasets.image_folder import IMAGE_ENDINGS
from limner.datasets.text_files import At, JsonObject, existing, refuse

if TYPE_CHECKING:
    from PIL.Image import Image

LARGEST_TEXT = 1 << 20
"""Maximum bytes of a caption or its JSON."""


@dataclass(frozen=True)
class InTar:
    """An image inside an uncompressed tar file, read when it is called."""

    path: str
    start: int
    size: int
    name: str

    def __call__(self) -> Image:
        """Opens the image."""
        with open(self.path, "rb") as file:
            file.seek(self.start)
            return open_image(file.read(self.size), name=self.name)


def load_webdataset(
    path: str | Path, *, split: str | None = None, strict: bool = False, check_images: Check = False
) -> Collection:
    """Loads shards of WebDataset and img2dataset.

    Args:
        path: A .tar file, or a folder of them.
        split: Only this split; a shard `train-000.tar` belongs to the split "train".
        strict: Raise an error instead of listing a warning, such as an image without a caption.
        check_images: Open every image.
    """
    source = existing(path, what="WebDataset shard or folder")
    shards = [source] if source.is_file() else sorted(source.glob("*.tar"))
    assembly = Assembly(source.stem, strict=strict)
    for shard in shards:
        part = shard.stem.rpartition("-")[0] if shard.stem.rpartition("-")[2].isdigit() else ""
        add_shard(assembly, shard, split=part if part in ("train", "val", "dev", "test") else None)
    if not assembly.texts.row:
        refuse(At(source), "no image with a caption; expected files such as 00012.jpg and 00012.txt in a tar")
    return assembly.finish(split=split, check_images=check_images)


def add_shard(
    assembly: Assembly, shard: Path, *, split: str | None, captions_by_line: bool = False, prefix: str = ""
) -> None:
    """Adds the images and captions of a tar file.

    Args:
        assembly: The collection under construction.
        shard: The file.
        split: The split of its images.
        captions_by_line: Whether each line of a text file is a caption, as in the shards of CLIP_benchmark.
        prefix: Comes before each id, where splits use the same names.
    """
    for key, parts in samples(shard):
        _add(assembly, shard, prefix + key, parts, split=split, captions_by_line=captions_by_line)


def samples(shard: Path) -> Iterator[tuple[str, dict[str, object]]]:
    """The files of a tar file that share a name, in order; images as positions in the file, captions as text."""
    samples: dict[str, dict[str, object]] = {}
    with tarfile.open(shard, "r:") as tar:
        for member in tar:
            if not member.isreg():
                continue
            folder, _, base = member.name.rpartition("/")
            stem, dot, ending = base.partition(".")
            key, kind = (f"{folder}/{stem}" if folder else stem), f"{dot}{ending}".lower()
            parts = samples.setdefault(key, {})
            if kind in IMAGE_ENDINGS:
                parts["image"] = InTar(str(shard), member.offset_data, member.size, key)
            elif kind in (".txt", ".json", ".cls"):
                parts[kind] = _text(tar, member, shard)
    yield from samples.items()


def _text(tar: tarfile.TarFile, member: tarfile.TarInfo, shard: Path) -> str:
    if member.size > LARGEST_TEXT:
        refuse(At(shard), f"{member.name} has {member.size:,} bytes; expected a caption of at most {LARGEST_TEXT:,}")
    content = tar.extractfile(member)
    try:
        return "" if content is None else content.read().decode("utf-8")
    except UnicodeDecodeError:
        refuse(At(shard), f"{member.name} is not UTF-8; save it as UTF-8")


def _add(
    assembly: Assembly, shard: Path, key: str, parts: dict[str, object], *, split: str | None, captions_by_line: bool
) -> None:
    at, captions = At(shard), _captions(shard, key, parts)
    if captions_by_line:
        captions = [line.strip() for caption in captions for line in caption.splitlines() if line.strip()]
    if "image" not in parts:
        assembly.notes.add(at, "a caption without an image; skipped")
        return
    if key in assembly.images.row:
        refuse(at, f"{key!r} occurs twice; names must be unique across all shards")
    if not captions:
        assembly.notes.add(at, "an image without a caption; skipped")
        return
    assembly.image(key, at, split=split, value=parts["image"])
    for number, text in enumerate(captions):
        assembly.text(f"{key}#{number}", text, key, at)


def _captions(shard: Path, key: str, parts: JsonObject) -> list[str]:
    """The captions of a sample, from its JSON or its text file."""
    if ".json" in parts:
        content = parse_json(parts[".json"], where=f"{shard}: {key}.json")
        listed = content.get("captions", [content.get("caption")]) if isinstance(content, dict) else []
        captions = (
            [text for text in listed if isinstance(text, str) and text.strip()] if isinstance(listed, list) else []
        )
        if captions:
            return captions
    text = parts.get(".txt", "").strip()
    return [text] if text else []


def write_webdataset(collection: Collection, path: str | Path, *, progress: ProgressLike = None) -> tuple[str, ...]:
    """Writes a tar file in which an image, its first caption (.txt) and all its captions (.json) share a name.

    Args:
        collection: The collection.
        path: A new .tar file.
        progress: Called with (images written, images in total).

    Returns:
        What a tar file cannot store, one sentence each.
    """
    captions_of: dict[int, list[str]] = {}
    for row, column in zip(collection.judgements.rows, collection.judgements.columns, strict=True):
        captions_of.setdefault(int(row), []).append(str(collection.texts.values[column]))
    lost = [row for row, value in enumerate(collection.images.values) if value is None or row not in captions_of]
    with replacing(path) as draft, tarfile.open(draft, "w", format=tarfile.PAX_FORMAT) as tar:
        for row in counting([row for row in range(len(collection.images)) if row not in set(lost)], progress):
            key, (ending, data) = f"{row:09d}", _encoded(collection, row)
            content = {
                "caption": captions_of[row][0],
                "captions": captions_of[row],
                "key": key,
                "image": collection.images.ids[row],
            }
            _put(tar, f"{key}{ending}", data)
            _put(tar, f"{key}.txt", captions_of[row][0].encode())
            _put(tar, f"{key}.json", json.dumps(content, ensure_ascii=False).encode())
    losses = [f"{len(lost):,} images without a file or a caption are left out"] if lost else []
    losses += ["a tar has no splits: write one for each, as train-000000.tar"] if collection.splits else []
    return (*losses, "images are named by number; their ids are in the json")


def _put(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def _encoded(collection: Collection, row: int) -> tuple[str, bytes]:
    """The bytes of an image and the file extension of its format; drawn images as PNG."""
    value = collection.images.values[row]
    if isinstance(value, (str, Path)):
        ending = Path(value).suffix.lower()
        if ending in IMAGE_ENDINGS:
            try:
                return ending, Path(value).read_bytes()
            except OSError as error:
                raise LimnerError(f"image {value} cannot be read: {error.strerror or error}") from error
    out = io.BytesIO()
    collection.images.open(row).save(out, "PNG")
    return ".png", out.getvalue()
