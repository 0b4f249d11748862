"""Search: an index over images or texts on disk or in object storage, exact by default, approximate on request."""

from limner.search.approximate import Ann, Recall
from limner.search.calibrated import calibrate_index, calibration_of, search_sure
from limner.search.cut_off import Calibration, CutOff, calibrate, judged_queries
from limner.search.encode import Encoder, TwoSided, encoded
from limner.search.hits import Hit, Hits
from limner.search.index import Index, index, open_index
from limner.search.items import read
from limner.search.store import About, Version

__all__ = [
    "About",
    "Ann",
    "Calibration",
    "CutOff",
    "Encoder",
    "Hit",
    "Hits",
    "Index",
    "Recall",
    "TwoSided",
    "Version",
    "calibrate",
    "calibrate_index",
    "calibration_of",
    "encoded",
    "index",
    "judged_queries",
    "open_index",
    "read",
    "search_sure",
]
