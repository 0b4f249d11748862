"""Models that read file names: MCProp and CRank (Messina et al. 2022). Needs torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from limner.core.extras import missing, missing_extra

if missing("torch"):
    raise missing_extra("torch", what="models of file names")

if not TYPE_CHECKING:
    from limner.core.extras import submodules

    __getattr__ = submodules(__name__)
