"""Checks the folder of a model before a library opens it: a model is data, and nothing that it names is run.

The libraries import the classes, download the kernels, open the models and unpickle the objects that a file in the
folder names. So every JSON file at any depth is read first, a file that cannot be read is refused, and what names code
has to be on a list.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from limner.core.errors import LimnerError
from limner.core.paths import damage_told, read_json
from limner.core.tensors import unpickled

_NO_CODE = "limner does not run code from a model; use a model that its library supports without custom code"
_READ = (".json", ".metadata")
"""Endings of files that the libraries read as JSON."""
_SAFE = ("model.safetensors", "model.safetensors.index.json")
"""Weights that the libraries prefer to those of torch beside them."""
_PICKLES = (".pkl", ".pickle", ".joblib", ".dill")
_MODULE = re.compile(
    r"sentence_transformers\.(models|(base|sentence_transformer|multi_vector_encoder|cross_encoder)\.modules)\.(\w+\.)?"
    r"(Transformer|CLIPModel|StaticEmbedding|Pooling|WeightedLayerPooling|Normalize|Dense|LayerNorm|Dropout"
    r"|MultiVectorMask|LogitScore)"
)
"""Classes of sentence-transformers that read numbers and nothing else; a `Router` names further classes."""
_ACTIVATION = re.compile(
    r"torch\.nn\.(modules\.(activation|linear)\.)?"
    r"(Identity|Tanh|Hardtanh|(Leaky|P|)ReLU6?|[SC]?ELU|GE?LU|SiLU|Mish|(Log|Hard|)[Ss]igmoid|Hardswish|Soft(plus|sign|max))"
)
_CLASSES = {
    "tokenizer_class": re.compile(r"\w*(Tokenizer|TokenizerFast|Backend)"),
    "slow_tokenizer_class": re.compile(r"\w*Tokenizer"),
    "processor_class": re.compile(r"\w*Processor"),
    "image_processor_type": re.compile(r"\w*(ImageProcessor(Fast|Pil)?|FeatureExtractor)"),
    "feature_extractor_type": re.compile(r"\w*(ImageProcessor(Fast|Pil)?|FeatureExtractor)"),
    "video_processor_type": re.compile(r"\w*VideoProcessor(Fast)?"),
}
"""Keys that name a class of transformers, and what its name looks like."""
_RUNNING = re.compile(r"(Rag|TransfoXL|Realm|LayoutLMv[23]|LayoutXLM|Udop)\w*")
"""Classes of transformers that unpickle files, or start another program with options of the model."""
_LOADING = (
    "model_args", "model_kwargs", "tokenizer_args", "tokenizer_kwargs", "processor_kwargs", "config_args",
    "config_kwargs",
)  # fmt: skip
_PLAIN_OPTIONS = (
    "add_pooling_layer", "attn_implementation", "do_lower_case", "dtype", "max_length", "model_max_length",
    "padding_side", "torch_dtype", "trust_remote_code", "truncation_side", "use_fast",
)  # fmt: skip
"""Options with which a file may have a library load the model; others choose files, models or unrestricted pickles."""


def refuse_code(folder: Path) -> Path:
    """The folder, if its files are data: otherwise an error names the file, and what in it would run.

    Args:
        folder: The folder of a model in the format of transformers or sentence-transformers.
    """
    files = list(_files(folder))
    for file in files:
        if file.name.lower() == "adapter_config.json":
            raise LimnerError(
                f"{file} is an adapter, which names the model that it belongs to: merge both with peft "
                "(merge_and_unload), save the result and give that folder"
            )
        if file.suffix.lower() in _PICKLES:
            raise LimnerError(f"{file} is a pickle, which runs code when it is opened: delete it, or {_INSTEAD}")
        if file.suffix.lower() in _READ:
            _refuse_names(file, read_json(file, what="file of a model"), folder)
    _refuse_larger(folder)
    for file in files:
        if file.match("pytorch_model*.bin") and not any(file.with_name(name).is_file() for name in _SAFE):
            only_tensors(file)
    return folder


_INSTEAD = "use a model whose weights are in .safetensors files"


def only_tensors(file: Path) -> None:
    """Refuses a file of weights that has more in it than tensors; the tensors themselves are not read."""
    if find_spec("torch") is None:
        return  # nothing here could open it
    with damage_told(file, what="file of weights"):
        unpickled(file, expected=f"tensors by name; {_INSTEAD}", mapped=True)


def _files(folder: Path) -> Iterator[Path]:
    """All files at any depth; refuses links that leave the folder, apart from those of the hub's cache."""
    root, blobs = folder.resolve(), folder.parent.parent / "blobs"
    cached = blobs.resolve() if folder.parent.name == "snapshots" else None
    for place, folders, names in os.walk(folder):
        for each in (Path(place, name) for name in (*folders, *names)):
            target = _target(each)
            if each.is_symlink() and not target.is_relative_to(root) and target.parent != cached:
                raise LimnerError(f"{each} is a link to {target}, outside of the model's folder: copy the file there")
        yield from (Path(place, name) for name in names)


def _target(file: Path) -> Path:
    try:
        return file.resolve()
    except (OSError, RuntimeError):  # by Python's version
        raise LimnerError(f"{file} is a link to itself: copy the file there") from None


# --- what the files name ----------------------------------------------------------------------------------------


def _refuse_names(file: Path, content: object, folder: Path) -> None:
    if file.name.lower() == "modules.json":
        _refuse_modules(file, content, folder)
    level = [content]
    while level:
        each = level.pop()
        if isinstance(each, dict):
            for key, rule in _RULES.items():
                if each.get(key):
                    rule(file, key, each[key])
            for key in (key for key in each if _LOOSE.search(key)):
                _refuse_loose(file, key, each[key])
        inside = each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        level.extend(part for part in inside if isinstance(part, (dict, list)))


def _refuse_modules(file: Path, content: object, folder: Path) -> None:
    """Refuses parts of a sentence-transformers model that are of another class, or in another folder."""
    if not isinstance(content, list):
        raise LimnerError(f"{file} holds {type(content).__name__}: expected a list of modules")
    for module in content:
        kind = module.get("type") if isinstance(module, dict) else module
        if not isinstance(kind, str) or not _MODULE.fullmatch(kind):
            raise LimnerError(f"{file} asks for the class {kind!r}: {_NO_CODE}")
        place = module.get("path", "")
        if (
            not isinstance(place, str)
            or "\0" in place
            or not (folder / place).resolve().is_relative_to(folder.resolve())
        ):
            raise LimnerError(f"{file} has a module in {place!r}: expected a folder inside of {folder}")


def _refuse_kind(file: Path, _: str, value: object) -> None:
    for kind in _strings(value):
        if "." in kind and not _MODULE.fullmatch(kind):
            raise LimnerError(f"{file} asks for the class {kind!r}: {_NO_CODE}")


def _refuse_class(file: Path, key: str, value: object) -> None:
    for name in _strings(value):
        if not _CLASSES[key].fullmatch(name) or _RUNNING.fullmatch(name):
            raise LimnerError(f"{file} asks for the class {name!r} ({key}): {_NO_CODE}")


def _refuse_custom(file: Path, key: str, value: object) -> None:
    if value is True or isinstance(value, (str, list, dict)):
        raise LimnerError(f"{file} asks for code beside the model ({key}): {_NO_CODE}; or remove {key!r} from it")


def _refuse_quantised(file: Path, key: str, value: object) -> None:
    if isinstance(value, dict):
        raise LimnerError(
            f"{file} describes quantised weights ({key}), which need compiled code from elsewhere: use the model "
            "without quantisation"
        )


def _refuse_elsewhere(file: Path, key: str, value: object) -> None:
    for name in _strings(value):
        if re.search(r"[/\\:]", name):
            raise LimnerError(f"{file} asks for another model, {name!r} ({key}): use a model that has its own weights")


def _refuse_options(file: Path, key: str, value: object) -> None:
    """Refuses options of loading, except for a few that are plain values."""
    for name, option in value.items() if isinstance(value, dict) else ():
        if name not in _PLAIN_OPTIONS or isinstance(option, (list, dict)):
            raise LimnerError(f"{file} asks to be loaded with the option {name!r} ({key}): {_NO_CODE}")


def _refuse_shards(file: Path, key: str, value: object) -> None:
    for name in _strings(value):
        if name != os.path.basename(name) or "\\" in name or name.startswith("."):
            raise LimnerError(f"{file} names the file {name!r} ({key}): expected one beside it")


def _refuse_methods(file: Path, key: str, value: object) -> None:
    for each in value.values() if isinstance(value, dict) else ():
        method = each.get("method") if isinstance(each, dict) else None
        if method is not None and not re.fullmatch(r"forward|get_[a-z]+_features", str(method)):
            raise LimnerError(f"{file} asks for the method {method!r} ({key}): {_NO_CODE}")


_RULES: Mapping[str, Callable[[Path, str, Any], None]] = {
    **dict.fromkeys(("type", "types"), _refuse_kind),
    **dict.fromkeys(_CLASSES, _refuse_class),
    **dict.fromkeys(("auto_map", "custom_pipelines", "custom_code", "trust_remote_code"), _refuse_custom),
    **dict.fromkeys(("quantization_config", "compression_config"), _refuse_quantised),
    **dict.fromkeys(
        ("architecture", "backbone", "base_model_name_or_path", "tokenizer_name_or_path", "transformers_weights"),
        _refuse_elsewhere,
    ),
    **dict.fromkeys(_LOADING, _refuse_options),
    "weight_map": _refuse_shards,
    "modality_config": _refuse_methods,
}
"""What the value of a key may be, wherever the key stands."""

_LOOSE = re.compile("activation|implementation|kernel")


def _refuse_loose(file: Path, key: str, value: object) -> None:
    """Refuses functions outside of torch, and compiled kernels of a repository."""
    for name in _strings(value):
        if "activation" in key and "." in name and not _ACTIVATION.fullmatch(name):
            raise LimnerError(f"{file} asks for the function {name!r}: {_NO_CODE}")
        if "activation" not in key and re.search(r"[/\\:]", name):
            raise LimnerError(f"{file} asks for the compiled kernel {name!r}: {_NO_CODE}")


def _strings(value: object) -> Iterator[str]:
    """A text, or all texts inside of lists and objects."""
    level = [value]
    while level:
        each = level.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, (list, dict)):
            level.extend(each.values() if isinstance(each, dict) else each)


# --- sizes ------------------------------------------------------------------------------------------------------


def _refuse_larger(folder: Path) -> None:
    """Refuses sizes larger than any safetensors weight, before the library builds a network of that size."""
    file = folder / "config.json"
    config = read_json(file, what="file of a model") if file.is_file() else {}
    config = config if isinstance(config, dict) else {}
    shapes = [shape for file in sorted(folder.glob("*.safetensors")) for shape in _shapes(file)]
    parts = [config, *({**part, "projection_dim": 0} for part in config.values() if isinstance(part, dict))]
    max_size = max((len(shapes), *(size for shape in shapes for size in shape))) if shapes else None
    for name, value in ((name, value) for part in parts for name, value in part.items() if name in _SIZES):
        if max_size is not None and isinstance(value, int) and value > max_size:
            raise LimnerError(f"{folder}: {name}={value:,} is larger than any of its weights ({max_size:,})")


_SIZES = (
    "num_hidden_layers", "num_layers", "n_layer", "hidden_size", "d_model", "intermediate_size", "vocab_size",
    "type_vocab_size", "projection_dim", "num_attention_heads",
)  # fmt: skip


def _shapes(file: Path) -> list[list[int]]:
    from safetensors import safe_open

    with damage_told(file, what="safetensors file"), safe_open(file, framework="numpy") as archive:
        return [archive.get_slice(name).get_shape() for name in archive.keys()]  # noqa: SIM118  # it is no mapping
