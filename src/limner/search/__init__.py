"""Search: an index over images or texts on disk or in object storage, exact by default, approximate on request."""

from limner.search.approximate import Ann
from limner.search.hits import Hit, Hits
from limner.search.hybrid import search_words
from limner.search.index import Index, index, open_index
from limner.search.index_statistics import calibrate_index, keep_correction, kept_correction, search_sure
from limner.search.item_texts import with_captions

__all__ = [
    "Ann",
    "Hit",
    "Hits",
    "Index",
    "calibrate_index",
    "index",
    "keep_correction",
    "kept_correction",
    "open_index",
    "search_sure",
    "search_words",
    "with_captions",
]
