"""The data types of limner (ids, collections, judgements, embeddings, rankings) and the infrastructure they use."""

from typing import TYPE_CHECKING

if not TYPE_CHECKING:
    from limner.core.extras import submodules

    __getattr__ = submodules(__name__)

__all__: list[str] = []
