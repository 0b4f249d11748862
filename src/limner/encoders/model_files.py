"""Which files of a model are needed, and which are missing: for torch, ONNX Runtime, open_clip and timm.

A repository often has the same weights in five formats and precisions. One of them is enough.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path, PurePosixPath

from limner.core.errors import LimnerError, UnknownName, shown
from limner.core.paths import read_json

TORCH, ONNX, OPEN_CLIP, TIMM = LAYOUTS = ("torch", "onnx", "open-clip", "timm")
QUANTISED = ("quantized", "int8", "uint8")
"""Suffixes of 8-bit variants of an ONNX export, the preferred first."""
FULL = "full"
"""The name of the variant without a suffix."""

_SMALL = (".json", ".txt", ".model", ".spm", ".jinja")
_FOREIGN = ("onnx", "openvino", "coreml", "tf", "flax", "tensorflow", "gguf", "mlx", "runs", "checkpoints")
"""Folders of a repository with the model for other libraries."""
_SHARD = re.compile(r"(model|pytorch_model)-\d+-of-\d+\.(safetensors|bin)")
_WEIGHTS, _OLD_WEIGHTS = "model.safetensors", "pytorch_model.bin"
_INDEXES = (f"{_WEIGHTS}.index.json", f"{_OLD_WEIGHTS}.index.json")
OPEN_CLIP_WEIGHTS = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")
_NETWORKS = (("text_model", "vision_model"), ("model",))
_OF_BYTES = ("ByT5Tokenizer", "CanineTokenizer", "PerceiverTokenizer")


# --- what is needed ---------------------------------------------------------------------------------------------


def needed_files(paths: Collection[str], layout: str, *, variant: str | None = None, model: str = "") -> list[str]:
    """The files of a repository that one library needs.

    Args:
        paths: All its files.
        layout: One of `LAYOUTS`.
        variant: Of an ONNX export; see `onnx_networks`.
        model: The name of the repository; used in error messages only.

    >>> needed_files(["config.json", "a.md", "model.safetensors", "pytorch_model.bin", "onnx/model.onnx"], "torch")
    ['config.json', 'model.safetensors']
    """
    ours = [path for path in paths if PurePosixPath(path).parts[0] not in _FOREIGN]
    small = [path for path in ours if path.endswith(_SMALL)]
    if layout == ONNX:
        networks = onnx_networks(paths, variant, model=model)
        parts = [path for path in paths if any(path.startswith(file) and path != file for file in networks)]
        return [*small, *networks, *parts]
    if layout == OPEN_CLIP:
        weights = _first([path for path in OPEN_CLIP_WEIGHTS if path in paths])
        expected = " or ".join(OPEN_CLIP_WEIGHTS)
    else:
        folders = dict.fromkeys(str(PurePosixPath(path).parent) for path in ours)
        weights = [path for folder in folders for path in _weights(ours, folder)]
        expected = f"{_WEIGHTS} or {_OLD_WEIGHTS}"
    if not weights:
        listed = shown(sorted(paths)) if paths else "no files"
        raise LimnerError(
            f"model {model!r} has no weights that can be read on the hub: expected {expected}, but it has {listed}"
        )
    return [*small, *(path for path in weights if path not in small)]


def _weights(paths: Sequence[str], folder: str) -> list[str]:
    """The weights in one folder: safetensors before torch's, one file before parts, and no second copy."""
    names = {PurePosixPath(path).name: path for path in paths if str(PurePosixPath(path).parent) == folder}
    if _WEIGHTS in names:
        return [names[_WEIGHTS]]
    shards = [path for name, path in names.items() if _SHARD.fullmatch(name)]
    safe = [path for path in shards if path.endswith(".safetensors")]
    unusual = [p for n, p in names.items() if n.endswith(".safetensors") and not n.startswith(("open_clip", "consol"))]
    old = [names[_OLD_WEIGHTS]] if _OLD_WEIGHTS in names else [path for path in shards if path.endswith(".bin")]
    return safe or unusual or old


def _first(names: Sequence[str]) -> list[str]:
    return list(names[:1])


def onnx_networks(paths: Collection[str], variant: str | None = None, *, model: str = "") -> list[str]:
    """The files of the networks of an ONNX export, one or two, in one of its variants.

    Args:
        paths: All files of the model.
        variant: The suffix of the files, such as "fp16"; "full" for none. By default an 8-bit variant if there is one.
        model: The name of the model; used in error messages only.

    >>> onnx_networks(["onnx/model.onnx", "onnx/model_quantized.onnx", "onnx/model_fp16.onnx"])
    ['onnx/model_quantized.onnx']
    """
    preferred = [*QUANTISED, FULL] if variant is None else [variant or FULL]
    for each in preferred:
        ending = ".onnx" if each == FULL else f"_{each}.onnx"
        for folder in ("onnx/", ""):
            for stems in _NETWORKS:
                files = [f"{folder}{stem}{ending}" for stem in stems]
                if all(file in paths for file in files):
                    return files
    existing = variants(paths)
    if variant is not None and existing:
        raise UnknownName("variant", variant, existing, of=f"{model} (ONNX)")
    raise LimnerError(
        f"{model} has no text_model.onnx and vision_model.onnx, nor model.onnx: expected the files of an ONNX export, "
        "there or in its subfolder onnx"
    )


def variants(paths: Collection[str]) -> list[str]:
    """The variants of an ONNX export.

    >>> variants(["onnx/model.onnx", "onnx/model_fp16.onnx", "onnx/text_model_q4.onnx"])
    ['fp16', 'full', 'q4']
    """
    pattern = re.compile(r"(?:onnx/)?(?:text_model|vision_model|model)(?:_([a-z0-9_]+))?\.onnx")
    hits = [match for path in paths if (match := pattern.fullmatch(path))]
    return sorted({match[1] or FULL for match in hits})


# --- what a folder lacks ----------------------------------------------------------------------------------------


def missing_files(folder: Path, layout: str = TORCH) -> list[str]:
    """Files that a model needs and its folder does not have, such as after an interrupted download.

    Args:
        folder: The folder.
        layout: One of `LAYOUTS`.
    """
    if layout == ONNX:
        missing = [] if any(file.is_file() for file in folder.rglob("*.onnx")) else ["model.onnx"]
        return missing + _first_unless_any(folder, "tokenizer.json")
    if layout == OPEN_CLIP:
        return _first_unless_any(folder, "open_clip_config.json") + _first_unless_any(folder, *OPEN_CLIP_WEIGHTS)
    if layout == TIMM:
        return _missing_of_part(folder, "", weights=True)
    parts = _parts(folder)
    missing = [name for part, weights in parts for name in _missing_of_part(folder, part, weights=weights)]
    file = folder / "config.json"
    config = read_json(file, what="config of a model") if file.is_file() else {}
    if isinstance(config, dict) and "vision_config" in config:
        missing += _first_unless_any(folder, "preprocessor_config.json", "processor_config.json")
    return missing if _has_tokenizer(folder) else [*missing, "tokenizer.json"]


def _parts(folder: Path) -> list[tuple[str, bool]]:
    """Folders with a config.json, and whether they have weights: several of a sentence-transformers model."""
    file = folder / "modules.json"
    modules = read_json(file, what="list of modules") if file.is_file() else None
    if not isinstance(modules, list):
        return [("", True)]
    kinds = [
        (str(module.get("path", "")), str(module.get("type")).rpartition(".")[2])
        for module in modules
        if isinstance(module, dict)
    ]
    weighty = ("Transformer", "Dense", "CLIPModel")
    return [(path, kind in weighty) for path, kind in kinds if kind in (*weighty, "Pooling")]


def _missing_of_part(folder: Path, part: str, *, weights: bool) -> list[str]:
    place = folder / part
    missing = _first_unless_any(place, "config.json") + (_missing_weights(place) if weights else [])
    return [str(PurePosixPath(part, name)) for name in missing]


def _missing_weights(place: Path) -> list[str]:
    if (place / _WEIGHTS).is_file() or (place / _OLD_WEIGHTS).is_file():
        return []
    for name in _INDEXES:
        if (place / name).is_file():
            index = read_json(place / name, what="index of weights")
            shards = index.get("weight_map") if isinstance(index, dict) else None
            named = sorted({str(shard) for shard in shards.values()}) if isinstance(shards, dict) else []
            return [shard for shard in named if not (place / shard).is_file()]
    return [] if any(file.is_file() for file in place.glob("*.safetensors")) else [_WEIGHTS]


def _has_tokenizer(folder: Path) -> bool:
    """Whether there is a vocabulary, or a tokenizer that needs none."""
    names = {file.name for file in folder.rglob("*") if file.is_file()}
    if names & {"tokenizer.json", "vocab.json", "vocab.txt"} or any(n.endswith((".model", ".spm")) for n in names):
        return True
    file = folder / "tokenizer_config.json"
    config = read_json(file, what="config of a tokenizer") if file.is_file() else {}
    return isinstance(config, dict) and str(config.get("tokenizer_class")) in _OF_BYTES


def _first_unless_any(place: Path, *names: str) -> list[str]:
    """The first name, unless one of the files is there."""
    return [] if any((place / name).is_file() for name in names) else [names[0]]
