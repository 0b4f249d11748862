"""KCCA with image and text kernels.

Hodosh, Young & Hockenmaier 2013, Framing image description as a ranking task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if not TYPE_CHECKING:
    from limner.core.extras import submodules

    __getattr__ = submodules(__name__)
