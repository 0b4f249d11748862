"""Search: an index over images or texts on disk or in object storage, exact by default, approximate on request."""

from limner.match.search.approximate import Ann, Recall
from limner.match.search.encode import Encoder, TwoSided, encoded
from limner.match.search.hits import Hit, Hits
from limner.match.search.index import Index, index, open_index
from limner.match.search.items import read
from limner.match.search.store import About, Version

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
