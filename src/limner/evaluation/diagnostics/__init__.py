"""What explains the numbers of a model: the modality gap, mixed candidates, composed queries, languages."""

from typing import TYPE_CHECKING

if not TYPE_CHECKING:
    from limner.core.extras import submodules

    __getattr__ = submodules(__name__)

__all__: list[str] = []
