"""The nouns and what they stand on."""

from typing import TYPE_CHECKING

if not TYPE_CHECKING:
    from limner.core.lazy import submodules

    __getattr__ = submodules(__name__)
