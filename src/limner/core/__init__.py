"""The data types of limner (ids, collections, judgements, embeddings, rankings) and the infrastructure they use."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from limner.core import (
        collection,
        embeddings,
        errors,
        files,
        formats,
        frames,
        ids,
        images,
        importing,
        judgements,
        lazy,
        model_store,
        notebook,
        options,
        pages,
        portable,
        progress,
        ranking,
        registry,
        tensor_files,
        written,
    )
else:
    from limner.core.lazy import submodules

    __getattr__ = submodules(__name__)

__all__ = [
    "collection",
    "embeddings",
    "errors",
    "files",
    "formats",
    "frames",
    "ids",
    "images",
    "importing",
    "judgements",
    "lazy",
    "model_store",
    "notebook",
    "options",
    "pages",
    "portable",
    "progress",
    "ranking",
    "registry",
    "tensor_files",
    "written",
]
