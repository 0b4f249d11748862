"""Papers: what only the reader of a paper needs.

The thirty systems of Hodosh et al. (2013), MCProp and CRank of Messina et al. (2022), the printed tables and figure 3b
of Chun et al. (2022), and the text-only search of Lymperaiou et al. (2022).
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from limner.papers import corpora, published_tables, text_only, thirty_systems, uncertainty
else:
    from limner.core.extras import submodules

    __getattr__ = submodules(__name__)

__all__ = ["corpora", "published_tables", "text_only", "thirty_systems", "uncertainty"]
