"""Models on the Hugging Face hub: their names and revisions, their files, and the cache in which they are.

What a repository has is remembered beside its files in the cache (`limner-COMMIT.json`): an incomplete folder is told
from a complete one, and the same adapter and files are found again without the hub.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from limner.core.errors import LimnerError
from limner.core.extras import needed
from limner.core.files import write_text
from limner.core.hub import (
    Repository,
    cache_of,
    commit_of,
    failure,
    hub_library,
    is_missing,
    reachable,
    repository,
    similar_names,
)
from limner.core.hub_downloads import downloaded
from limner.core.paths import read_json
from limner.encoders.model_files import TORCH, missing_files, needed_files

KNOWN = (
    "openai/clip-vit-base-patch32", "openai/clip-vit-base-patch16", "openai/clip-vit-large-patch14",
    "openai/clip-vit-large-patch14-336", "laion/CLIP-ViT-B-32-laion2B-s34B-b79K",
    "laion/CLIP-ViT-H-14-laion2B-s32B-b79K", "google/siglip-base-patch16-224", "google/siglip-so400m-patch14-384",
    "google/siglip2-base-patch16-224", "google/siglip2-base-patch16-naflex", "google/siglip2-so400m-patch14-384",
    "Salesforce/blip-itm-base-coco", "Salesforce/blip-itm-large-coco", "Salesforce/blip2-itm-vit-g", "BAAI/AltCLIP",
    "OFA-Sys/chinese-clip-vit-base-patch16", "sentence-transformers/clip-ViT-B-32",
    "sentence-transformers/clip-ViT-B-32-multilingual-v1", "sentence-transformers/all-MiniLM-L6-v2",
    "sentence-transformers/all-mpnet-base-v2", "BAAI/bge-base-en-v1.5", "intfloat/multilingual-e5-base",
    "Xenova/clip-vit-base-patch32", "Xenova/clip-vit-base-patch16", "Xenova/siglip-base-patch16-224",
    "vidore/colpali-v1.3-hf", "vidore/colqwen2-v1.0-hf", "apple/DFN2B-CLIP-ViT-B-16", "kakaobrain/align-base",
)  # fmt: skip
"""Their names."""


PREFIXES = ("hf-hub:", "hf_hub:", "hf:")
"""What may stand before the name of a repository, as in open_clip and timm."""


class NoSuchModel(LimnerError):
    """The hub answers, and has no repository of this name."""


@dataclass(frozen=True)
class HubModel:
    """A model on the hub or in the cache, by its name and revision.

    Args:
        name: Such as "openai/clip-vit-base-patch32".
        revision: A branch, a tag or a commit; None for "main".
        purpose: The feature that needs it; used in error messages only.

    >>> HubModel.named("hf-hub:timm/vit_base_patch16_siglip_224@main")
    HubModel(name='timm/vit_base_patch16_siglip_224', revision='main', purpose='')
    """

    name: str
    revision: str | None = None
    purpose: str = ""

    @classmethod
    def named(cls, text: str, *, purpose: str = "") -> HubModel:
        """The model that "NAME", "NAME@REVISION" or "hf-hub:NAME" names."""
        plain = next((text.removeprefix(prefix) for prefix in PREFIXES if text.startswith(prefix)), text)
        name, at, revision = plain.partition("@")
        needed("huggingface_hub", what=purpose or "a model of the hub")
        hub = hub_library()
        try:
            hub.utils.validate_repo_id(name)
        except hub.errors.HFValidationError as error:
            raise LimnerError(f"model {text!r} is neither a folder nor a name on the hub: {error}") from error
        if at and (not revision or not set(revision.split("/")).isdisjoint(("", ".", ".."))):
            raise LimnerError(f"model {text!r}: expected a branch, a tag or a commit after @")
        return cls(name, revision or None, purpose)

    # --- what there is --------------------------------------------------------------------------------------------

    @property
    def cached(self) -> Path | None:
        """Its folder in the cache, perhaps incomplete; None if there is none."""
        place, revision = cache_of(self.name), self.revision or "main"
        ref = place / "refs" / revision
        commit = ref.read_text(encoding="utf-8").strip() if ref.is_file() else revision
        folder = place / "snapshots" / commit
        return folder if commit and folder.is_dir() else None

    def paths(self) -> list[str]:
        """All files of the repository, from the cache or from the hub; what is in the cache if the hub is off."""
        folder = self.cached
        remembered = None if folder is None else _remembered(folder)
        if remembered is not None:
            return remembered
        try:
            return self.repository().paths
        except NoSuchModel:
            raise
        except LimnerError:
            if folder is None:
                raise
            return [file.relative_to(folder).as_posix() for file in sorted(folder.rglob("*")) if file.is_file()]

    def read(self, path: str) -> object:
        """The content of a small JSON file of the repository, fetched if it is not in the cache."""
        folder = self.cached
        if folder is None or not (folder / path).is_file():
            folder = self._fetched(self.repository(), [path], is_announced=False)
        return read_json(folder / path, what="file of a model")

    def repository(self) -> Repository:
        """Asks the hub; where a commit is in the cache, for that one, so that a model does not change by itself."""
        if not reachable():
            raise LimnerError(self.refusal(None))
        folder = self.cached
        revisions = [self.revision] if folder is None else [commit_of(folder), self.revision]
        for revision in revisions[:-1]:
            try:
                return repository(self.name, revision=revision)
            except Exception as error:  # a commit that the hub has no more: take the revision
                if not _is_gone(error):
                    raise self._refused(error) from error
        try:
            return repository(self.name, revision=self.revision)
        except Exception as error:  # several libraries are involved, without a common base class
            raise self._refused(error) from error

    # --- fetching -------------------------------------------------------------------------------------------------

    def folder(self, layout: str = TORCH, *, variant: str | None = None) -> Path:
        """The folder in the cache with all files that a library needs; what is missing is downloaded.

        Args:
            layout: One of `limner.encoders.model_files.LAYOUTS`.
            variant: Of an ONNX export; see `limner.encoders.model_files.onnx_networks`.
        """
        folder = self.cached
        remembered = None if folder is None else _remembered(folder)
        if folder is not None and remembered is not None:
            required = needed_files(remembered, layout, variant=variant, model=self.name)
            absent = [path for path in required if not (folder / path).is_file()]
            if not absent:
                return folder
        else:
            absent = [] if folder is None else missing_files(folder, layout)
        if folder is not None and not absent and not reachable():
            return folder
        if not reachable():
            raise LimnerError(self.refusal(None, missing=absent))
        try:
            listing = self.repository()
        except LimnerError:
            if folder is not None and not absent:  # another program fetched it, and the hub does not answer now
                return folder
            raise
        paths = needed_files(listing.paths, layout, variant=variant, model=self.name)
        return self._fetched(listing, paths, missing=absent)

    def _fetched(
        self, listing: Repository, paths: Sequence[str], *, missing: Sequence[str] = (), is_announced: bool = True
    ) -> Path:
        try:
            folder = downloaded(listing, paths, is_announced=is_announced)
            _remember(folder, listing)
        except LimnerError:
            raise
        except Exception as error:  # as above
            raise self._refused(error, missing=missing) from error
        return folder

    # --- what went wrong ------------------------------------------------------------------------------------------

    def _refused(self, error: Exception, *, missing: Sequence[str] = ()) -> LimnerError:
        kind = NoSuchModel if is_missing(error) else LimnerError
        return kind(self.refusal(error, missing=missing))

    def refusal(self, error: BaseException | None, *, missing: Sequence[str] = ()) -> str:
        """The message for a model that cannot be fetched: why, and what to do.

        Args:
            error: What its library raised; None if the hub does not answer at all.
            missing: Files that are missing in the cache.
        """
        folder = cache_of(self.name)
        similar = similar_names(self.name, KNOWN) if error is not None and is_missing(error) else []
        why, advice = failure(error, self.name, revision=self.revision, similar=similar)
        state = "is not on this machine"
        if missing:
            state = f"is not complete on this machine (missing: {', '.join(missing)})"
        advice = advice or (
            f"To work offline, give the folder with its files (config.json, model.safetensors, tokenizer.json) as "
            f"model=FOLDER, or copy the hub's cache of it to {folder}, or set HF_HOME to a folder whose "
            f"hub/{folder.name} holds it"
        )
        start = f"{self.purpose}: " if self.purpose else ""
        return f"{start}model {self.name!r} {state} and {why}. {advice}"


def _is_gone(error: BaseException) -> bool:
    return any(base.__name__ == "RevisionNotFoundError" for base in type(error).__mro__)


def _memory(folder: Path) -> Path:
    return folder.parent.parent / f"limner-{folder.name}.json"


def _remember(folder: Path, listing: Repository) -> None:
    """Writes down what the repository has, beside its folder in the cache."""
    file = _memory(folder)
    if listing.commit == folder.name and not file.is_file():
        write_text(file, json.dumps({"files": {each.path: each.size for each in listing.files}}, indent=1))


def _remembered(folder: Path) -> list[str] | None:
    """What the repository of a folder in the cache has; None if that was not written down."""
    file = _memory(folder)
    if not file.is_file():
        return None
    try:
        content = read_json(file, what="list of files")
    except LimnerError:
        return None
    files = content.get("files") if isinstance(content, Mapping) else None
    return [str(path) for path in files] if isinstance(files, Mapping) else None
