"""Search: an index over images or texts on disk or in object storage, exact by default, approximate on request."""

from limner.search.approximate import Ann, Recall
from limner.search.encode import Encoder, TwoSided, encoded
from limner.search.hits import Hit, Hits
from limner.search.index import Index, index, open_index
from limner.search.items import read
from limner.search.store import About, Version

__all__ = [
    "About",
    "Ann",
    "Encoder",
    "Hit",
    "Hits",
    "Index",
    "Recall",
    "TwoSided",
    "Version",
    "encoded",
    "index",
    "open_index",
    "read",
]
