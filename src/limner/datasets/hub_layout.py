"""Which files of a repository are the data set: its configurations and splits, as the hub's own library finds them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import PurePosixPath

from limner.core.errors import LimnerError, UnknownName, shown
from limner.datasets.assembly import split_name

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
