"""The files of a data set on the Hugging Face hub: listed once, fetched one by one, then read from the cache."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from limner.core.errors import LimnerError
from limner.core.extras import needed
from limner.core.files import write_text
from limner.core.hub import HubFile, Repository, cache_of, failure, is_missing, reachable, repository, similar_names
from limner.core.hub_downloads import downloaded
from limner.core.paths import read_json

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
        utils: Any = needed("huggingface_hub.utils", what="a data set of the hub")
        errors: Any = needed("huggingface_hub.errors", what="a data set of the hub")
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
        yaml: Any = needed("yaml", what="the card of a data set")
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
        content: Any = read_json(file, what="list of files")
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
