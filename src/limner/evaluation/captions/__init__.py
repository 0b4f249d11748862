"""Captions measured: metrics of a caption, systems compared by them, and how well metrics agree with people."""

from typing import TYPE_CHECKING

if not TYPE_CHECKING:
    from limner.core.extras import submodules

    __getattr__ = submodules(__name__)

__all__: list[str] = []
