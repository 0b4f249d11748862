"""The files of a data set on the Hugging Face hub: listed once, fetched one by one, then read from the cache.

Configurations and splits are found as the hub's own library finds them. Images inside of Parquet files are read one by
one: a file of gigabytes is never in memory as a whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import quote

from limner.core.arrow_tables import parquet_module
from limner.core.errors import LimnerError, UnknownName, shown
from limner.core.extras import needed
from limner.core.files import write_text
from limner.core.hub import HubFile, Repository, cache_of, failure, is_missing, reachable, repository, similar_names
from limner.core.hub_downloads import downloaded
from limner.core.images import NoImage, open_image
from limner.core.paths import damage_told, read_json, refuse_bomb
from limner.datasets.assembly import split_name

if TYPE_CHECKING:
    import pyarrow as pa
    from PIL.Image import Image

CARD = "README.md"


@dataclass(frozen=True)
class HubData:
    """A data set on the hub at one commit.

    Args:
        listing: Its files.
    """

    listing: Repository

    @property
    def origin(self) -> str:
        """Where it is from, with its commit."""
        return f"hf:{self.listing.name}@{self.listing.commit}"

    @property
    def paths(self) -> list[str]:
        """The paths of its files; none leads out of the repository."""
        return [path for path in self.listing.paths if ".." not in PurePosixPath(path).parts and path[:1] != "/"]

    @classmethod
    def named(cls, name: str, revision: str | None = None) -> HubData:
        """Looks a data set up: in the cache of the hub's library, else on the hub.

        A revision that was read before stays at its commit, so that a data set does not change by itself.

        Args:
            name: Such as "nlphuji/flickr30k".
            revision: A branch, a tag or a commit; "main" by default.
        """
        utils = needed("huggingface_hub.utils", what="a data set of the hub")
        errors = needed("huggingface_hub.errors", what="a data set of the hub")
        try:
            utils.validate_repo_id(name)
        except errors.HFValidationError as error:
            raise LimnerError(f"data set {name!r} is not a name on the hub: {error}") from error
        if "/" not in name:
            raise LimnerError(f"data set {name!r} is not a name on the hub: expected hf:OWNER/NAME")
        remembered = _remembered(name, revision or "main")
        if remembered is not None:
            return cls(remembered)
        if not reachable():
            raise LimnerError(_refusal(name, revision, None))
        try:
            return cls(repository(name, revision=revision, kind="dataset"))
        except Exception as error:  # several libraries are involved, without a common base class
            raise LimnerError(_refusal(name, revision, error)) from error

    def fetched(self, paths: Sequence[str]) -> Path:
        """The folder in the cache with these files; those that are not there are downloaded."""
        folder = cache_of(self.listing.name, kind="dataset") / "snapshots" / self.listing.commit
        if not all((folder / path).is_file() for path in paths):
            if not reachable():
                raise LimnerError(_refusal(self.listing.name, self.listing.revision, None, part=True))
            try:
                folder = downloaded(replace(self.listing, revision=self.listing.commit), paths)
            except LimnerError:
                raise
            except Exception as error:  # as above
                raise LimnerError(_refusal(self.listing.name, self.listing.revision, error, part=True)) from error
        self.remember()
        return folder

    def remember(self) -> None:
        """Writes down what the hub said, so that the next run needs no hub."""
        _remember(self.listing)

    def card(self) -> Mapping[str, object]:
        """The metadata at the head of its README.md; empty without one."""
        if CARD not in self.paths:
            return {}
        text = (self.fetched([CARD]) / CARD).read_text(encoding="utf-8", errors="replace")
        head, dashes, _ = text.removeprefix("---\n").partition("\n---")
        if not text.startswith("---\n") or not dashes:
            return {}
        yaml = needed("yaml", what="the card of a data set")
        try:
            card = yaml.safe_load(head)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            first = str(error).partition("\n")[0]
            raise LimnerError(f"{CARD} of {self.listing.name} does not begin with valid YAML ({first})") from error
        return card if isinstance(card, dict) else {}


def _memory(name: str, revision: str) -> Path:
    """The file with what the hub said about a revision, beside its snapshots."""
    return cache_of(name, kind="dataset") / "limner" / f"{quote(revision, safe='')}.json"


def _remember(listing: Repository) -> None:
    file = _memory(listing.name, listing.revision)
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, json.dumps({"commit": listing.commit, "files": [asdict(each) for each in listing.files]}))


def _remembered(name: str, revision: str) -> Repository | None:
    file = _memory(name, revision)
    if not file.is_file():
        return None
    try:
        content = read_json(file, what="list of files")
        files = tuple(HubFile(str(e["path"]), int(e["size"]), str(e["blob"])) for e in content["files"])
        return Repository(name, revision, str(content["commit"]), files, "dataset")
    except (LimnerError, LookupError, TypeError, ValueError):
        return None


def _refusal(name: str, revision: str | None, error: Exception | None, *, part: bool = False) -> str:
    """The message for a data set that cannot be fetched: why, and what to do."""
    similar = similar_names(name, kind="dataset") if error is not None and is_missing(error) else ()
    why, advice = failure(error, name, kind="dataset", revision=revision, similar=similar)
    folder = cache_of(name, kind="dataset")
    advice = advice or (
        f"Fetch it once where the hub can be reached, and copy {folder}; or set HF_HOME to a folder whose "
        f"hub/{folder.name} has it"
    )
    state = "is only in part on this machine" if part else "is not on this machine"
    return f"data set {name!r} {state} and {why}. {advice}"


TABLES = (".csv", ".tsv", ".jsonl", ".ndjson")
KINDS = ((".parquet",), (".tar",), TABLES)
"""Endings of data files: the first kind that a repository has is read."""
CONVERTED = "refs/convert/parquet"
"""The branch on which the hub keeps a data set as Parquet files, where it could convert it."""
_CONVERTED_FILE = re.compile(r"([^/]+)/(?:partial-)?([^/]+)/\d{4}\.parquet")
_SPLIT = re.compile(
    r"(?:^|[/_.-])(train|training|test|testing|eval|evaluation|val|valid|validation|dev)(?=[/_.-]|\d|$)", re.IGNORECASE
)
_SPLIT_NAMES = {"testing": "test", "eval": "test", "evaluation": "test"}
RETRIEVAL = ("corpus", "queries", "qrels")

Files = tuple[str, ...]
BySplit = Mapping[str, Files]


@dataclass(frozen=True)
class HubLayout:
    """The data files of a repository.

    Args:
        kind: Their ending without a dot: "parquet", "tar" or "table".
        configs: Files by split, for each configuration; the split is "" where the repository names none.
        default: The configuration that is used if none is named.
    """

    kind: str
    configs: Mapping[str, BySplit]
    default: str | None = None

    def chosen(self, config: str | None, *, name: str) -> tuple[str, BySplit]:
        """A configuration and its files.

        Args:
            config: Its name; by default the only one, or the one that the repository declares.
            name: The repository, for error messages.
        """
        if config is not None:
            if config not in self.configs:
                raise UnknownName("configuration", config, self.configs, of=repr(name))
            return config, self.configs[config]
        if self.default is None:
            raise LimnerError(
                f"data set {name!r} has {len(self.configs)} configurations ({shown(self.configs, most=8)}): choose one "
                "with config=NAME (-O config=NAME)"
            )
        return self.default, self.configs[self.default]

    def retrieval(self, config: str | None) -> dict[str, BySplit] | None:
        """The files of queries, candidates and judgements, as MTEB and ViDoRe have them; None for another layout.

        Args:
            config: A prefix of the three configurations, such as a language.
        """
        prefix = f"{config}-" if config else ""
        sides = {part: self.configs.get(prefix + part) for part in RETRIEVAL}
        sides["qrels"] = sides["qrels"] or (None if config else self.configs.get("default"))
        present = {part: files for part, files in sides.items() if files is not None}
        return present if len(present) == len(RETRIEVAL) else None


def hub_layout(paths: Sequence[str], card: Mapping[str, object]) -> HubLayout | None:
    """The data files of a repository; None if there are none that limner reads.

    Args:
        paths: All files of the repository.
        card: The metadata at the head of its README.md.
    """
    data = [path for path in paths if not PurePosixPath(path).name.startswith(".")]
    endings = next((each for each in KINDS if any(path.endswith(each) for path in data)), None)
    if endings is None:
        return None
    files = sorted(path for path in data if path.endswith(endings))
    kind = "table" if endings == TABLES else endings[0][1:]
    declared = _declared(card, files)
    configs = declared or _guessed(files)
    return HubLayout(kind, configs, _default(card, configs))


def _default(card: Mapping[str, object], configs: Mapping[str, BySplit]) -> str | None:
    marked = [str(each.get("config_name")) for each in _entries(card) if each.get("default")]
    names = [*marked, "default", *(configs if len(configs) == 1 else ())]
    return next((name for name in names if name in configs), None)


def _entries(card: Mapping[str, object]) -> list[Mapping[str, object]]:
    configs = card.get("configs")
    return [each for each in configs if isinstance(each, Mapping)] if isinstance(configs, list) else []


def _declared(card: Mapping[str, object], files: Sequence[str]) -> dict[str, BySplit]:
    """The configurations that the README declares, those with files."""
    declared = {str(each.get("config_name", "default")): _by_split(each, files) for each in _entries(card)}
    return {name: splits for name, splits in declared.items() if splits}


def _by_split(entry: Mapping[str, object], files: Sequence[str]) -> dict[str, Files]:
    folder = str(entry.get("data_dir") or "").strip("/")
    listed = entry.get("data_files")
    if listed is None:
        inside = [path for path in files if path.startswith(f"{folder}/")] if folder else list(files)
        return _split_up(inside)
    if isinstance(listed, Mapping):
        listed = [{"split": split, "path": path} for split, path in listed.items()]
    parts = listed if isinstance(listed, list) else [listed]
    splits: dict[str, list[str]] = {}
    for part in parts:
        split, patterns = (part.get("split", ""), part.get("path")) if isinstance(part, Mapping) else ("", part)
        for pattern in patterns if isinstance(patterns, list) else [patterns]:
            full = f"{folder}/{pattern}" if folder else str(pattern)
            splits.setdefault(split_name(str(split)), []).extend(path for path in files if _matches(path, full))
    return {split: tuple(dict.fromkeys(paths)) for split, paths in splits.items() if paths}


def _matches(path: str, pattern: str) -> bool:
    return fnmatch(path, pattern) or fnmatch(path, pattern.replace("**/", ""))


def _guessed(files: Sequence[str]) -> dict[str, BySplit]:
    """Configurations and splits by the names of folders and files."""
    by_config: dict[str, list[str]] = {}
    for path in files:
        by_config.setdefault(_config(path), []).append(path)
    return {config: _split_up(paths) for config, paths in by_config.items()}


def _config(path: str) -> str:
    converted = _CONVERTED_FILE.fullmatch(path)
    if converted:
        return converted[1]
    top, slash, _ = path.partition("/")
    return "default" if not slash or top == "data" or _SPLIT.fullmatch(top) else top


def _split_up(paths: Iterable[str]) -> dict[str, Files]:
    splits: dict[str, list[str]] = {}
    for path in paths:
        splits.setdefault(_split_of(path), []).append(path)
    return {split: tuple(each) for split, each in splits.items()}


def _split_of(path: str) -> str:
    converted = _CONVERTED_FILE.fullmatch(path)
    if converted:
        return split_name(converted[2])
    named = _SPLIT.findall(path)
    return "" if not named else split_name(_SPLIT_NAMES.get(named[-1].lower(), named[-1].lower()))


_AT_ONCE, _BATCHES, _OPEN_FILES = 16, 8, 4
"""Rows per batch, batches of a file that stay in memory, and files that stay open."""


@dataclass(frozen=True)
class InParquet:
    """An image in a column of a Parquet file, read when it is called.

    Args:
        path: The file.
        row: Its row in the file.
        column: The column: bytes, or {bytes, path} of the datasets library.
        name: Name in error messages.
    """

    path: str
    row: int
    column: str
    name: str

    def content(self) -> bytes:
        """The encoded image."""
        with damage_told(self.path, what="parquet file of images", mend="download it again"):
            content = _reader(self.path).cell(self.row, self.column)
        if not isinstance(content, bytes):
            raise NoImage(f"image {self.name!r} (row {self.row:,} of {self.path}) has no bytes: remove the row")
        return content

    def __call__(self) -> Image:
        """Opens the image."""
        return open_image(self.content(), name=self.name)


@lru_cache(maxsize=_OPEN_FILES)
def _reader(path: str) -> RowReader:
    return RowReader(path)


class RowReader:
    """Cells of a Parquet file by row: cheap in order, and within the last batches in any order.

    Args:
        path: The file.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = parquet_module("images in a Parquet file").ParquetFile(path, memory_map=True)
        about = self._file.metadata
        groups = [about.row_group(group) for group in range(about.num_row_groups)]
        refuse_bomb(sum(int(group.total_byte_size) for group in groups), os.path.getsize(path), where=path)
        self._starts = [0]
        for group in groups:
            self._starts.append(self._starts[-1] + int(group.num_rows))
        self._lock = threading.Lock()
        self._batches: deque[tuple[str, int, list[bytes | None]]] = deque(maxlen=_BATCHES)
        self._stream: Iterator[pa.RecordBatch] = iter(())
        self._position = ("", -1, 0)  # column, row group and next row of the stream

    def cell(self, row: int, column: str) -> bytes | None:
        """The bytes in one cell."""
        if not 0 <= row < self._starts[-1]:
            raise LimnerError(f"row {row:,} of {self.path}, which has {self._starts[-1]:,} rows")
        with self._lock:
            for name, start, cells in self._batches:
                if name == column and start <= row < start + len(cells):
                    return cells[row - start]
            return self._read(row, column)

    def _read(self, row: int, column: str) -> bytes | None:
        """Reads on to a row, or again from the beginning of its row group."""
        group = next(number for number, end in enumerate(self._starts[1:]) if row < end)
        if self._position[:2] != (column, group) or self._position[2] > row:
            self._stream = self._file.iter_batches(_AT_ONCE, row_groups=[group], columns=[column], use_threads=False)
            self._position = column, group, self._starts[group]
        while True:
            start, cells = self._position[2], image_bytes(next(self._stream).column(0))
            self._position = column, group, start + len(cells)
            self._batches.append((column, start, cells))
            if row < start + len(cells):
                return cells[row - start]


def image_bytes(array: pa.Array) -> list[bytes | None]:
    """The encoded images of an Arrow column: bytes, or {bytes, path} of the datasets library."""
    return list((array.field("bytes") if hasattr(array, "field") else array).to_pylist())


def content_hashes(path: str, column: str) -> Iterator[str]:
    """A hash of each image of a column, in order."""
    with parquet_module("images in a Parquet file").ParquetFile(path, memory_map=True) as file:
        for batch in file.iter_batches(_AT_ONCE, columns=[column], use_threads=False):
            for content in image_bytes(batch.column(0)):
                yield hashlib.sha256(content or b"").hexdigest()[:20]
