"""Answers with a guaranteed precision on the page: calibrated once per system, with the collection's judgements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from limner.core.arrays import FloatArray, IntArray
from limner.core.errors import LimnerError
from limner.web.jobs import NOTICED, Job
from limner.web.search_request import LOWEST_PROMISE, SearchRequest

if TYPE_CHECKING:
    from limner.search.cut_off import Calibration, CutOff
    from limner.systems.system_spec import OpenSystem
    from limner.web.library import Library


def promised_order(
    library: Library, ready: OpenSystem, request: SearchRequest, row: FloatArray, order: IntArray
) -> tuple[IntArray, str]:
    """The positions that pass the cut-off, in the same order, and the guarantee as a sentence.

    Args:
        library: Caches the calibration.
        ready: The system on the searched part.
        request: The request, with its precision.
        row: The scores of the query.
        order: Positions of all searched items, best first.
    """
    from limner.search.cut_off import NEIGHBOURS

    calibration = _calibration(library, ready, request)
    cut_off: CutOff = library.jobs.value(
        ("cut-off", request.collection, request.split, ready.name, request.direction, request.precision, request.k),
        f"computing the cut-off of {ready.name}",
        lambda job: calibration.cut_off(float(request.precision or 0), k=request.k, lowest=LOWEST_PROMISE),
        patience=NOTICED,
    )
    pool = ready.collection.images if request.finds_images else ready.collection.texts
    first = order[: max(request.k, NEIGHBOURS)]
    ids = [pool.ids[int(place)] for place in first]
    return first[calibration.above_cut_off(ids, row[first], cut_off)], str(cut_off)


def _calibration(library: Library, ready: OpenSystem, request: SearchRequest) -> Calibration:
    """The calibration from judged queries about images that the system was not trained on, computed once."""
    from limner.search.cut_off import calibrate, judged_queries

    def work(job: Job) -> Calibration:
        scores = ready.scores.T if request.direction == "t2i" else ready.scores
        right, images = judged_queries(ready.collection, request.direction)
        unseen = library.unseen(ready)
        rows = [row for row, image in enumerate(images) if image in unseen]
        if not rows:
            raise LimnerError(
                f"{ready.name} was trained on all of these images, so their queries tell nothing about new ones: "
                "search everything or the held-out part"
            )
        queries = [scores.queries[row] for row in rows]
        labels = [images[row] for row in rows]
        return calibrate(scores.restrict(queries=queries), right.restrict(queries=queries), images=labels, progress=job)

    return library.jobs.value(
        ("calibration", request.collection, request.split, ready.name, request.direction),
        f"calibrating {ready.name} with judged queries",
        work,
        patience=NOTICED,
    )
