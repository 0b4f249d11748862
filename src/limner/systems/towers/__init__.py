"""Towers: models that learn a joint embedding space for images and texts with margin losses.

`limner.train(collection, "towers")` trains two towers; "pvse" and "pcme" are the variants with several vectors per item
and with a mean and a variance. Needs torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from limner.core.extras import missing, missing_extra

if missing("torch"):
    raise missing_extra("torch", what="training towers")

if not TYPE_CHECKING:
    from limner.core.extras import submodules

    __getattr__ = submodules(__name__)
