"""Search: an index over images or texts on disk or in object storage, exact by default, approximate on request."""

from limner.search.approximate import Ann, Recall
from limner.search.cut_off import Calibration, CutOff, calibrate, judged_queries
from limner.search.encode import Encoder, TwoSided, encoded
from limner.search.hits import Hit, Hits, Match
from limner.search.hybrid import search_words
from limner.search.index import Index, index, open_index
from limner.search.index_calibration import calibrate_index, calibration_of, search_sure
from limner.search.index_correction import keep_correction, kept_correction
from limner.search.index_table import About
from limner.search.item_texts import ItemTexts, with_captions
from limner.search.items import read
from limner.search.query_terms import FieldFilter, Terms, read_filters, read_terms
from limner.search.store import Version

__all__ = [
    "About",
    "Ann",
    "Calibration",
    "CutOff",
    "Encoder",
    "FieldFilter",
    "Hit",
    "Hits",
    "Index",
    "ItemTexts",
    "Match",
    "Recall",
    "Terms",
    "TwoSided",
    "Version",
    "calibrate",
    "calibrate_index",
    "calibration_of",
    "encoded",
    "index",
    "judged_queries",
    "keep_correction",
    "kept_correction",
    "open_index",
    "read",
    "read_filters",
    "read_terms",
    "search_sure",
    "search_words",
    "with_captions",
]
