"""Towers: models that learn a joint embedding space for images and texts with margin losses.

`limner.train(collection, "towers")` trains two towers; "pvse" and "pcme" are the variants with several vectors per item
and with a mean and a variance. Needs torch.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from limner.core.errors import MissingExtra

if find_spec("torch") is None:
    raise MissingExtra("training towers", "torch", "train")

if not TYPE_CHECKING:
    from limner.core.extras import submodules

    __getattr__ = submodules(__name__)
