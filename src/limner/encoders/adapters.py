"""Which adapter reads a model, from the files of its folder or repository."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from limner.core.errors import LimnerError, shown
from limner.core.extras import missing
from limner.core.model_store import Content

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
