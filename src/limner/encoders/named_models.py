"""A model by its bare name: a folder, a name on the hub, a tag of open_clip or a name of timm.

    openai/clip-vit-base-patch32         on the hub; also with @REVISION, or with hf-hub: before it
    models/my-clip                       a folder
    ViT-B-32/laion2b_s34b_b79k           an architecture of open_clip and the tag of its weights
    timm/vit_small_patch16_224           a model of timm
    openai/clip-vit-base-patch32(device=cpu)

The adapter is found from the files of the model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from limner.core import model_store
from limner.core.errors import LimnerError, shown
from limner.core.extras import missing, missing_extra, needed
from limner.core.hub import commit_of
from limner.core.model_store import Content
from limner.core.options import parsed_call
from limner.core.paths import read_json
from limner.encoders.hub import PREFIXES, HubModel, NoSuchModel

Read = Callable[[str], object]
"""Reads a JSON file of the model, by its path."""

JOINT = ("clip", "siglip", "siglip2", "altclip", "chinese_clip", "align", "metaclip_2")
"""Types of models of transformers with a tower for images and one for texts."""
SETS = ("colpali", "colqwen2", "colmodernvbert")
"""Types of models of transformers with several vectors for each item."""
TEXTS = (
    "albert", "bert", "camembert", "deberta", "deberta-v2", "distilbert", "electra", "ernie", "modernbert", "mpnet",
    "nomic_bert", "roberta", "xlm-roberta", "eurobert",
)  # fmt: skip
"""Types of models of transformers that read texts alone."""
_ITM = ("BlipForImageTextRetrieval", "Blip2ForImageTextRetrieval")
_WEIGHTS = re.compile(r"(.*/)?(\S+\.safetensors|(open_clip_)?pytorch_model(-\d+-of-\d+)?\.bin)")


@dataclass(frozen=True)
class Adapter:
    """How a model is read.

    Args:
        name: A name of `limner.encoders.ENCODERS`, or of the scorers of pairs in `limner.match`.
        options: Its options, besides `model`.
        notes: Remarks for reports.
        is_scorer: Whether it scores pairs of an image and a text, or of two texts, and encodes neither.
    """

    name: str
    options: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    is_scorer: bool = False


def adapter_of(paths: Collection[str], read: Read, *, model: str) -> Adapter:
    """The adapter for a model; one that cannot be told is refused, with the candidates.

    Args:
        paths: The files of the model, by their paths in its folder.
        read: Reads a JSON file of the model.
        model: Its name or folder; used in error messages only.

    >>> adapter_of(["config.json", "model.safetensors"], lambda _: {"model_type": "siglip2"}, model="a/b").name
    'siglip'
    """
    files = set(paths)
    has_weights = any(_WEIGHTS.fullmatch(path) for path in files)
    has_networks = any(path.endswith(".onnx") for path in files)
    config = _json(read, "config.json") if "config.json" in files else {}
    if "adapter_config.json" in files and "modules.json" not in files:
        raise LimnerError(_adapter_message(_json(read, "adapter_config.json"), model))
    if has_networks and (not has_weights or missing("torch") is not None):
        return _of_networks(files, read, config, model)
    if "modules.json" in files:
        return _of_modules(files, read, model)
    kind = str(config.get("model_type") or "")
    if kind in JOINT and has_weights:
        return Adapter("siglip" if kind.startswith("siglip") else "clip")
    if "open_clip_config.json" in files:
        return Adapter("open-clip")
    if isinstance(config.get("architecture"), str) and "pretrained_cfg" in config:
        return Adapter("timm")
    return _of_transformers(kind, config, model)


def _of_transformers(kind: str, config: Content, model: str) -> Adapter:
    """The adapter for a model of transformers that has not one tower for each side."""
    classes = [str(each) for each in config.get("architectures") or ()]
    if any(each in _ITM for each in classes):
        return Adapter("blip-itm", is_scorer=True)
    if "ViltForImageAndTextRetrieval" in classes:
        return Adapter("vilt", is_scorer=True)
    if kind in SETS:
        return Adapter("multi-vector")
    if any(each.endswith("ForSequenceClassification") for each in classes) and _labels(config) == 1:
        return Adapter("cross-encoder", is_scorer=True)
    if kind.startswith("blip"):
        raise LimnerError(
            f"{model} is a {' and '.join(classes) or kind}, which has no head for image-text matching: expected "
            f"{' or '.join(_ITM)}, such as Salesforce/blip-itm-base-coco"
        )
    if kind in TEXTS:
        candidates = [f"transformers(model={model}, pooling={pooling})" for pooling in ("mean", "first")]
        raise _ask(model, f"a {kind} without modules.json, which would say how its states are pooled", candidates)
    raise _unknown(kind, classes, model)


def _of_modules(files: Collection[str], read: Read, model: str) -> Adapter:
    """The adapter for a model of sentence-transformers: texts only, both sides, several vectors, or pairs."""
    modules = read("modules.json")
    listed = modules if isinstance(modules, list) else []
    kinds = [str(each.get("type")).rpartition(".")[2] for each in listed if isinstance(each, dict)]
    about = _json(read, "config_sentence_transformers.json") if "config_sentence_transformers.json" in files else {}
    family = str(about.get("model_type") or "SentenceTransformer")
    if family == "CrossEncoder":
        return Adapter("image-cross-encoder" if _reads_images(files, read) else "cross-encoder", is_scorer=True)
    if family == "MultiVectorEncoder" or "MultiVectorMask" in kinds:
        return Adapter("multi-vector")
    if family != "SentenceTransformer":
        raise _unknown(family, kinds, model)
    if "CLIPModel" in kinds or _reads_images(files, read):
        return Adapter("sentence-transformers-multimodal")
    return Adapter("sentence-transformers")


def _reads_images(files: Collection[str], read: Read) -> bool:
    """Whether the first part of a model of sentence-transformers has a way for images."""
    config = _json(read, "sentence_bert_config.json") if "sentence_bert_config.json" in files else {}
    ways = config.get("modality_config")
    return isinstance(ways, Mapping) and "image" in ways


def _of_networks(files: Collection[str], read: Read, config: Content, model: str) -> Adapter:
    """The adapter for an ONNX export, which may be all there is, or all that runs without torch."""
    from limner.encoders.model_files import FULL, onnx_networks, variants

    networks = onnx_networks(files, model=model)
    shown_variants = ", ".join(variants(files))
    chosen = networks[0].rpartition("/")[2].removesuffix(".onnx").partition("model")[2].strip("_") or FULL
    note = f"of the ONNX export of {model}, the variant {chosen!r} is used (variant=...: {shown_variants})"
    notes = () if len(variants(files)) < 2 else (note,)
    kind = str(config.get("model_type") or "")
    if kind in JOINT or len(networks) == 2 or "vision_config" in config:
        return Adapter("onnx-clip", notes=notes)
    pooling = _json(read, "1_Pooling/config.json") if "1_Pooling/config.json" in files else {}
    if pooling.get("pooling_mode_mean_tokens") or pooling.get("pooling_mode") == "mean":
        return Adapter("onnx-sentences", {"pooling": "mean"}, notes)
    if pooling.get("pooling_mode_cls_token") or pooling.get("pooling_mode") == "cls":
        return Adapter("onnx-sentences", {"pooling": "first"}, notes)
    candidates = [f"onnx-sentences(model={model}, pooling={each})" for each in ("mean", "first")]
    raise _ask(model, "an ONNX export of a model of texts that does not say how its states are pooled", candidates)


def _labels(config: Content) -> int:
    names = config.get("id2label")
    return len(names) if isinstance(names, Mapping) else int(config.get("num_labels") or 2)


def _json(read: Read, path: str) -> Content:
    content = read(path)
    return content if isinstance(content, dict) else {}


# --- what cannot be told ----------------------------------------------------------------------------------------


def _ask(model: str, description: str, candidates: list[str]) -> LimnerError:
    return LimnerError(f"{model} is {description}: name the adapter: {' or '.join(map(repr, candidates))}")


def _adapter_message(config: Content, model: str) -> str:
    base = config.get("base_model_name_or_path") or "another model"
    merged = f"; the merged model may be on the hub as {model}-hf" if "col" in model.lower() else ""
    return (
        f"{model} is an adapter of {base}, without the weights of that model: merge both with peft (merge_and_unload), "
        f"save the result and give that folder{merged}"
    )


def _unknown(kind: str, classes: list[str], model: str) -> LimnerError:
    described = "no model whose files tell its type (config.json with model_type, modules.json, open_clip_config.json)"
    if kind:
        described = f"a model of type {kind!r} ({', '.join(classes) or 'no architecture'})"
    names = ("clip", "sentence-transformers", "multi-vector", "transformers")
    candidates = [f"{name}(model={model})" for name in names]
    return LimnerError(
        f"{model} is {described}: if one of the adapters of 'limner list encoders' reads it, name the adapter: "
        f"{shown(candidates, most=4)}"
    )


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
