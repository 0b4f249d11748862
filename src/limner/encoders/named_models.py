"""A model by its bare name: a folder, a name on the hub, a tag of open_clip or a name of timm.

    openai/clip-vit-base-patch32         on the hub; also with @REVISION, or with hf-hub: before it
    models/my-clip                       a folder
    ViT-B-32/laion2b_s34b_b79k           an architecture of open_clip and the tag of its weights
    timm/vit_small_patch16_224           a model of timm
    openai/clip-vit-base-patch32(device=cpu)

The adapter is found from the files of the model (`limner.encoders.adapters`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from limner.core import model_store
from limner.core.errors import LimnerError
from limner.core.extras import missing, missing_extra, needed
from limner.core.hub import commit_of
from limner.core.options import parsed_call
from limner.core.paths import read_json
from limner.encoders.adapters import Adapter, adapter_of
from limner.encoders.hub import PREFIXES, HubModel, NoSuchModel

_ON_HUB = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")
_ARCHITECTURE = re.compile(r"(ViTamin|ViT|RN\d+|convnext|coca|EVA\d+|MobileCLIP|PE|nllb|xlm|roberta|vit)[-_][\w.-]+")
"""What names of architectures look like where open_clip is not installed."""
_MARKS = ("config.json", "modules.json", "open_clip_config.json", "adapter_config.json")
_PREFERRED = ("laion2b", "openai")
"""Beginnings of tags of weights that are taken where none is named."""


@dataclass(frozen=True)
class NamedModel:
    """A model whose adapter was found.

    Args:
        adapter: How it is read.
        model: What the adapter is given as `model`: a folder, a name on the hub, an architecture.
        options: Options that the user wrote in parentheses.
    """

    adapter: Adapter
    model: str
    options: Mapping[str, object] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, object]:
        """All options of the adapter."""
        return {**self.adapter.options, "model": self.model, **self.options}


def is_model_name(text: str) -> bool:
    """Whether a text has the form of a model's name: that of a folder with a model, of the hub, or of open_clip.

    >>> [is_model_name(text) for text in ("openai/clip-vit-base-patch32@main", "histograms", "my_module:thing")]
    [True, False, False]
    """
    name = text.partition("(")[0].strip()
    if name.startswith(PREFIXES) or _ON_HUB.fullmatch(name):
        return True
    return is_model_folder(Path(name)) or name in _architectures() or _lacks_open_clip(name)


def is_model_folder(folder: Path) -> bool:
    """Whether a folder has the files of a model of another library than limner."""
    if not folder.is_dir() or model_store.is_model(folder):
        return False
    return any((folder / mark).is_file() for mark in _MARKS) or any(folder.glob("*.onnx"))


def named_model(text: str) -> NamedModel:
    """The model behind a name, and its adapter; small files are read, from the hub if they are not in the cache.

    Args:
        text: The name, options in parentheses allowed; "revision" is one of them for a model on the hub.
    """
    name, options = parsed_call(text, what="model")
    revision = options.pop("revision", None)
    name = name if revision is None else with_revision(name, str(revision))
    folder = Path(name)
    if folder.is_dir():
        paths = [file.relative_to(folder).as_posix() for file in sorted(folder.rglob("*")) if file.is_file()]
        adapter = adapter_of(paths, lambda path: read_json(folder / path, what="file of a model"), model=name)
        return NamedModel(adapter, name, options)
    architecture, _, tag = name.partition("/")
    if architecture in _architectures() or _lacks_open_clip(name):
        return _of_open_clip(architecture, tag, options)
    try:
        return _on_hub(name, options)
    except NoSuchModel:
        tagged = _tagged_by_timm(name)
        if tagged is None:
            raise
        return _on_hub(tagged, options)


def _on_hub(name: str, options: Mapping[str, object]) -> NamedModel:
    """A model on the hub, with its commit as soon as that is in the cache."""
    model = HubModel.named(name)
    plain = model.name if model.revision is None else f"{model.name}@{model.revision}"
    adapter = adapter_of(model.paths(), model.read, model=plain)
    commit = None if model.cached is None else commit_of(model.cached)
    return NamedModel(adapter, plain if commit is None else f"{model.name}@{commit}", options)


def with_revision(name: str, revision: str) -> str:
    """The name of a model on the hub with a revision.

    >>> with_revision("openai/clip-vit-base-patch32", "v1")
    'openai/clip-vit-base-patch32@v1'
    """
    is_on_hub = (name.startswith(PREFIXES) or _ON_HUB.fullmatch(name)) and not Path(name).exists()
    if not is_on_hub or "@" in name or name.partition("/")[0] in _architectures():
        raise LimnerError(f"revision {revision!r} with {name}: expected the name of a model on the hub, without @")
    return f"{name}@{revision}"


def commit_name(model: object) -> str | None:
    """The name and the commit of an opened model that is from the hub; None for another one.

    Args:
        model: An encoder or a scorer, with its `folder`.

    >>> from types import SimpleNamespace
    >>> folder = Path("hub/models--openai--clip-vit-base-patch32/snapshots/3d74acf9a28c67741b2f4f2ea7635f0aaf6f0268")
    >>> commit_name(SimpleNamespace(folder=folder))
    'openai/clip-vit-base-patch32@3d74acf9a28c67741b2f4f2ea7635f0aaf6f0268'
    """
    folder = getattr(model, "folder", None)
    if not isinstance(folder, Path) or commit_of(folder) is None:
        return None
    repository = folder.parent.parent.name.removeprefix("models--").replace("--", "/")
    return f"{repository}@{folder.name}"


def pinned(name: str, model: object) -> str:
    """The name under which an opened model is found again: with its commit, or the whole path of its folder.

    Args:
        name: The name that the user gave.
        model: The opened model.
    """
    plain, bracket, options = name.partition("(")
    if Path(plain).is_dir():
        return f"{Path(plain).resolve()}{bracket}{options}"
    return f"{commit_name(model) or plain}{bracket}{options}"


# --- open_clip and timm -----------------------------------------------------------------------------------------


def _architectures() -> Collection[str]:
    """The architectures of open_clip, by the names of its files: it is not imported."""
    try:
        spec = find_spec("open_clip")
    except ValueError:  # a module without a file
        return ()
    places = (spec.submodule_search_locations if spec is not None else None) or ()
    return {file.stem for place in places for file in Path(place, "model_configs").glob("*.json")}


def _lacks_open_clip(name: str) -> bool:
    """Whether a name is of open_clip, which is not installed."""
    architecture, _, tag = name.partition("/")
    is_tag = not tag or re.fullmatch(r"[a-z0-9_]+", tag) is not None
    return missing("open_clip") is not None and is_tag and _ARCHITECTURE.fullmatch(architecture) is not None


def _of_open_clip(architecture: str, tag: str, options: Mapping[str, object]) -> NamedModel:
    if missing("open_clip") is not None:
        raise missing_extra("open_clip", what=f"the open_clip model {architecture!r}")
    if tag or "weights" in options:
        return NamedModel(Adapter("open-clip", {"weights": tag} if tag else {}), architecture, options)
    library = needed("open_clip", what="an open_clip model")
    tags = [str(each) for each in library.list_pretrained_tags_by_model(architecture)]
    if not tags:
        raise LimnerError(f"open_clip has no weights of {architecture}: give a file of them as weights=FILE")
    chosen = next((tag for start in _PREFERRED for tag in tags if tag.startswith(start)), tags[0])
    listed = ", ".join(tags)
    note = f"{architecture} without the tag of its weights: {architecture}/{chosen} is used (tags: {listed})"
    return NamedModel(
        Adapter("open-clip", {"weights": chosen}, (note,) if len(tags) > 1 else ()), architecture, options
    )


def _tagged_by_timm(name: str) -> str | None:
    """The name on the hub of a model of timm that is named without the tag of its weights."""
    owner, _, plain = name.partition("/")
    if owner != "timm" or missing("timm") is not None:
        return None
    library = needed("timm", what="a timm model")
    if not library.is_model(plain.partition(".")[0]):
        return None
    config = library.get_pretrained_cfg(plain)
    repository = getattr(config, "hf_hub_id", None)
    if repository is None:
        return None
    return str(repository) if str(repository) != "timm/" else f"timm/{config.architecture}.{config.tag}"
