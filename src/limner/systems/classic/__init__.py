"""The classical systems of the ranking paper: nearest neighbour and KCCA with image and text kernels.

Hodosh, Young & Hockenmaier 2013, Framing image description as a ranking task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from limner.systems.classic.paper_systems import SYSTEMS, System, system

if not TYPE_CHECKING:
    from limner.core.lazy import submodules

    __getattr__ = submodules(__name__)

__all__ = ["SYSTEMS", "System", "system"]
