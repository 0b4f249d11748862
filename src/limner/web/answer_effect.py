"""The effect of the answers: export, and measures with and without them."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from starlette.responses import Response

from limner.annotate.export import export
from limner.annotate.merge import Merged, by_majority, merge
from limner.annotate.store.answers import Answer, answers
from limner.core.collection import Collection
from limner.core.errors import LimnerError, UnknownName
from limner.core.judgements import Judgements
from limner.web.jobs import Job
from limner.web.judging import judged_collection
from limner.web.side_by_side import MEASURES, with_range
from limner.web.site import Ask, page

if TYPE_CHECKING:
    from limner.evaluation.results import Result
    from limner.systems.system_spec import OpenSystem

ANSWERED = "labels and answers"
DIRECTIONS = {"i2t": "image → text", "t2i": "text → image"}


FORMS = {"csv": "csv", "jsonl": "jsonl", "qrels": "qrels", "crowd": "txt", "eccv": "zip"}
"""Export formats and their file endings."""


def export_file(ask: Ask) -> Response:
    """All valid answers as a file; the ECCV Caption format is a zipped folder."""
    form = ask.get("form", "csv")
    if form not in FORMS:
        raise UnknownName("form", form[:40], FORMS)
    with TemporaryDirectory() as folder:
        target = Path(folder, f"answers.{FORMS[form]}" if form != "eccv" else "answers")
        export(ask.site.store, target, form=form)
        data = _packed(target) if target.is_dir() else target.read_bytes()
    headers = {"Content-Disposition": f'attachment; filename="answers.{FORMS[form]}"'}
    return Response(data, media_type="application/octet-stream", headers=headers)


def _packed(folder: Path) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.iterdir()):
            archive.write(file, file.name)
    return out.getvalue()


@dataclass(frozen=True)
class MeasureChange:
    """One measure of one system, before and after."""

    system: str
    direction: str
    measure: str
    before: str
    after: str
    change: str


def effect_page(ask: Ask) -> Response:
    """Every system evaluated with the labels alone, and with the answers added."""
    library, name = ask.site.library, judged_collection(ask)
    stored_answers = answers(ask.site.store)
    if not stored_answers:
        raise LimnerError("there are no answers yet: judge a few pairs first")
    evaluated = library.loaded(name).evaluated
    merged = answered(stored_answers, evaluated)
    rows = []
    for system in library.names:
        ready = library.system(name, system)
        rows += library.jobs.value(
            ("effect", name, system, len(stored_answers), stored_answers[-1].id),
            f"measuring {system} with the answers",
            partial(changes, ready, evaluated, merged.judgements),
            patience=8.0,
        )
    labels = {(image, text) for image, text, _ in evaluated.judgements.relevant}
    new = sum((image, text) not in labels for image, text, _ in merged.verified.relevant)
    return page(
        ask, "effect.html", rows=rows, collection=name, found=new, judged=len(merged.verified.grades),
        refuted=merged.refuted,
    )  # fmt: skip


def answered(stored_answers: Sequence[Answer], evaluated: Collection) -> Merged:
    """The labels merged with the majority of the answers, over the evaluated part."""
    labels = [
        label
        for label in by_majority(stored_answers)
        if label.image in evaluated.images.ids and label.caption in evaluated.texts.ids
    ]
    return merge(labels, evaluated.judgements)


def changes(ready: OpenSystem, evaluated: Collection, joined: Judgements, job: Job) -> list[MeasureChange]:
    """The measures of a system with the labels, and with labels and answers together."""
    from limner.evaluation.evaluate import evaluate

    labels = evaluated.judgements.name
    collection = replace(evaluated, extra={ANSWERED: joined}, reverse={})
    report = evaluate(ready.scores, collection, direction="i2t", measures=MEASURES, name=ready.name, progress=job)
    by_key = {r.key: r for r in report.results}
    pairs = [(r, by_key.get((ANSWERED, r.direction, str(r.measure)))) for r in report.results if r.view == labels]
    return [change(ready.name, before, after) for before, after in pairs if after is not None]


def change(system: str, before: Result, after: Result) -> MeasureChange:
    """One measure before and after; the change is computed from unrounded numbers."""
    measure, difference = before.measure, after.value - before.value
    moved = measure.show_change(difference) if math.isfinite(difference) else "–"
    was, after_text = (with_range(result) for result in (before, after))
    return MeasureChange(system, DIRECTIONS[before.direction], str(measure), was, after_text, moved)
