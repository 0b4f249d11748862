"""Models that read file names: MCProp and CRank (Messina et al. 2022). Needs torch."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from limner.core.errors import MissingExtra

if find_spec("torch") is None:
    raise MissingExtra("models of file names", "torch", "train")

if not TYPE_CHECKING:
    from limner.core.extras import submodules

    __getattr__ = submodules(__name__)
