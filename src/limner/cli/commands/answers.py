"""limner annotate status, review, aggregate, merge, ...: progress, quality, and judgements from answers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from limner.cli.console import answer, progress, table, tell
from limner.cli.options import (
    Json,
    Loading,
    flag,
    installed_store,
    named_options,
    out_word,
    saved,
    word,
    writable,
    writable_store,
)
from limner.core.errors import LimnerError, UnknownName, count
from limner.core.options import OptionValues
from limner.core.paths import JsonObject

if TYPE_CHECKING:
    from limner.annotate.results import Study as PlanState
    from limner.annotate.scale import ImportedAnswer, Scale
    from limner.annotate.store import Store
    from limner.core.judgements import Judgements

LABEL_STUDIO = ("control", "image_field", "caption_field")
"""What -O takes for a file of Label Studio or Argilla."""
IMPORTED = (*LABEL_STUDIO, "annotator")
"""What -O takes for any file of answers."""
MODES = ("anytime", "fixed")

_STORE: OptionValues = {"metavar": "STORE", "help": "A file for SQLite, or postgresql://user@host/name."}
Where = Annotated[str, typer.Argument(**_STORE, callback=installed_store)]


def new_store(address: str) -> str:
    """Refuses a store that cannot be opened or written, when the command line is read: before systems are trained."""
    installed_store(address)
    return writable_store(address)


VERIFIED = "verified="
"""Before a file: only the pairs that people judged are written to it."""


def writable_judgements(files: list[str] | None) -> list[str] | None:
    """Refuses files of judgements that cannot be written, when the command line is read."""
    writable([Path(each.removeprefix(VERIFIED)) for each in files or []])
    return files


NewStore = Annotated[str, typer.Argument(**_STORE, callback=new_store)]
"""A store that the command makes, if there is none, after it has trained and opened systems."""


@contextmanager
def opened(address: str, *, create: bool = False) -> Iterator[Store]:
    """A store by path or address, closed afterwards; only the pool creates a new one."""
    from limner.annotate.store import open_store

    with open_store(address, create=create) as store:
        yield store


def store_name(address: str) -> str:
    """The address of a store without its password."""
    from limner.annotate.store import without_password

    return without_password(address)


# --- status and review ------------------------------------------------------------------------------------------


def status(store: Where, as_json: Json = False) -> None:
    """Show progress, agreement, and whose answers need review.

    Examples:
      $ limner annotate status work.db
    """
    from limner.annotate.quality import agreement, annotator_table, review_queue
    from limner.annotate.store.answers import answers
    from limner.annotate.store.tasks import progress as how_far

    with opened(store) as db:
        far, collected, doubtful = how_far(db), answers(db), review_queue(db)
    agreed = agreement(collected)
    people = [
        {"annotator": r.annotator, "answers": r.answers, "controls": r.controls, "right": r.right,
         "seconds": r.milliseconds / 1000, "suspicious": list(r.suspicious)}
        for r in annotator_table(collected)
    ]  # fmt: skip
    data = {**far, "alpha": agreed.alpha, "interval": [agreed.low, agreed.high], "note": agreed.note, "people": people}
    data["kappas"] = [{"people": list(two), "kappa": k, "pairs": n} for two, (k, n) in agreed.kappas.items()]
    answer(_status(data, len(doubtful), store), {**data, "to_review": len(doubtful)}, as_json=as_json)


def _took(seconds: float) -> str:
    """The median time of an answer, if times were recorded."""
    return "-" if math.isnan(seconds) else f"{seconds:.1f}"


def _status(data: JsonObject, doubtful: int, store: str) -> str:
    tasks_line = f"{data['done']:,} of {count(data['tasks'], 'task')} done, {data['held']:,} held"
    controls = f", and {data['controls']:,} to controls" if data["controls"] else ""
    lines = [f"{tasks_line}; {data['answers']:,} of {count(data['asked'], 'answer')}{controls}"]
    low, high = data["interval"]
    lines += [f"alpha {data['alpha']:.3f} ({low:.3f} to {high:.3f})"] if data["alpha"] == data["alpha"] else []
    lines += [data["note"]] if data["note"] else []
    if data["people"]:
        head = ("annotator", "answers", "controls right", "seconds", "to look at")
        rows = [
            (p["annotator"], p["answers"], f"{p['right']} of {p['controls']}", _took(p["seconds"]),
             "; ".join(p["suspicious"]))
            for p in data["people"]
        ]  # fmt: skip
        lines.append(table([head, *rows]))
    if doubtful:
        lines.append(f"{count(doubtful, 'task')} to review: limner annotate people review {store_name(store)}")
    return "\n".join(lines)


# --- judgements -------------------------------------------------------------------------------------------------

Method = Annotated[str, word("majority, or dawid-skene (estimates the error rates of annotators too).")]


def estimate(
    store: Where,
    method: Method = "majority",
    option: Loading = None,
    as_json: Json = False,
) -> None:
    """Show what the answers say so far: labels by grade, and the interval of each measure of a plan.

    The intervals are valid for many looks; with -O mode=fixed they are narrower, and valid for one look.

    Examples:
      $ limner annotate estimate work.db
      $ limner annotate estimate work.db -O mode=fixed
      $ limner annotate estimate work.db --method dawid-skene --json
    """
    from limner.annotate.guideline import scale_of
    from limner.annotate.merge import aggregate
    from limner.annotate.results import studies
    from limner.annotate.store.answers import answers

    mode = str(named_options(option, ("mode",), of="estimate").get("mode", "anytime"))
    if mode not in MODES:
        raise UnknownName("mode", mode, MODES)
    with opened(store) as db, progress("estimating", "estimates") as display:
        labels, grades = aggregate(answers(db), method), scale_of(db).grades
        plans = studies(db, mode=mode, progress=display)
    counts = {grade.label: sum(label.grade == grade.value for label in labels) for grade in grades}
    lines = [
        f"{count(len(labels), 'pair')} by {method}",
        *(f"  {grade:14} {number:8,}" for grade, number in counts.items()),
    ]
    parts = ["\n".join(lines), *map(_plan_table, plans)]
    data = {"method": method, "pairs": len(labels), "grades": counts, "plans": [each.to_json() for each in plans]}
    answer("\n\n".join(parts), data, as_json=as_json)


def _plan_table(plan: PlanState) -> str:
    """One direction of a plan: the interval of each measure of each system."""
    rows = []
    for row in plan.rows:
        if row.found is None:
            rows.append((row.system, row.measure, "-", row.missing))
            continue
        interval, show = row.found.estimate, row.found.measure.show
        ends = f"{show(interval.low)} to {show(interval.high)} ({interval.mode})"
        rows.append((row.system, row.measure, show(interval.value), ends))
    head = (
        f"{plan.direction}: {count(plan.labels, 'label')}, {count(plan.waiting, 'unit')} to answer, target "
        f"+-{plan.half_width:g} points{'; narrow enough' if plan.narrow else ''}"
    )
    return "\n".join([head, table([("system", "measure", "estimate", "interval"), *rows]), *plan.notes])


def merge(
    store: Where,
    further: Annotated[
        list[str] | None, word("Further judgements to merge. Repeatable.", "--with", metavar="FILE")
    ] = None,
    method: Method = "majority",
    output: Annotated[
        list[str] | None,
        out_word(
            "Write the judgements, with verified= only the pairs that people judged: .qrels, or a folder (ECCV form).",
            metavar="[verified=]FILE",
            callback=writable_judgements,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Merge the answers with the original pairs and other judgements; report new pairs and precision.

    Examples:
      $ limner annotate merge work.db -o better.qrels
      $ limner annotate merge work.db --with cxc.qrels -o all.qrels -o verified=people.qrels
    """
    from limner.annotate.answer_files import read_judgements
    from limner.annotate.merge import METHODS, aggregate, taken_out
    from limner.annotate.merge import merge as join
    from limner.annotate.sample import original
    from limner.annotate.store.answers import answers

    if method not in METHODS:
        raise UnknownName("way to aggregate", method, METHODS)
    with opened(store) as db:
        labels, original_pairs, (images, captions) = aggregate(answers(db), method), original(db), taken_out(db)
    further_judgements = [read_judgements(file) for file in further or []]
    merged = join(labels, original_pairs, further=further_judgements, invalid_images=images, invalid_captions=captions)
    for each in output or []:
        _save(merged.verified if each.startswith(VERIFIED) else merged.judgements, Path(each.removeprefix(VERIFIED)))
    counted = [{**vars(c), "factor": c.factor, "verified_factor": c.verified_factor} for c in merged.counted]
    quality = {
        name: {d: {"precision": p, "recall": r} for d, (p, r) in sides.items()}
        for name, sides in merged.quality.items()
    }
    data = {"labels": len(labels), "refuted": merged.refuted, "removed": merged.removed, "directions": counted}
    data["quality"] = quality
    answer(str(merged), data, as_json=as_json)


def _save(judgements: Judgements, target: Path) -> None:
    from limner.annotate.answer_files import write_eccv
    from limner.core.files import replacing
    from limner.datasets.trec import write_qrels

    if target.suffix == "":
        write_eccv(judgements, target)
    elif target.suffix == ".qrels":
        with replacing(target) as draft:
            write_qrels(judgements, draft)
    else:
        raise LimnerError(f"{target} ends in {target.suffix!r}: judgements are written as .qrels, or into a folder")
    saved([target])


# --- files ------------------------------------------------------------------------------------------------------


def export(
    store: Where,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help=".csv, .jsonl, .qrels, .txt (crowd), .json (Label Studio, Argilla), or a folder.",
            callback=writable,
        ),
    ],
    form: Annotated[
        str | None, word("csv, jsonl, qrels, eccv, crowd, label-studio or argilla; by default from the file ending.")
    ] = None,
    method: Method = "majority",
    image_url: Annotated[
        str | None, word("For label-studio, argilla: address of an image, with {image} for its id.", metavar="URL")
    ] = None,
    unanswered: Annotated[
        bool, flag("--unanswered", "Only pairs that need answers, to judge elsewhere: csv, label-studio or argilla.")
    ] = False,
    include_excluded: Annotated[bool, flag("--all", "Include excluded answers.")] = False,
    as_json: Json = False,
) -> None:
    """Write the answers (csv, jsonl, crowd, label-studio) or the labels (qrels, ECCV Caption's format).

    For Label Studio, all pooled pairs become tasks, with the answers as annotations; the labelling interface is
    written next to them (.xml). With --unanswered a csv has empty columns to fill in with a spreadsheet.

    Examples:
      $ limner annotate export work.db answers.csv
      $ limner annotate export work.db to_judge.csv --unanswered
      $ limner annotate export work.db records.json --form argilla --image-url "https://photos.example.org/{image}"
      $ limner annotate export work.db tasks.json --image-url "/data/local-files/?d=photos/{image}"
      $ limner annotate export work.db labels.qrels --method dawid-skene
    """
    from limner.annotate.export import export as write

    with opened(store) as db:
        extra = {} if image_url is None else {"image_url": image_url}
        rows = write(db, file, form=form, method=method, counted=not include_excluded, only_open=unanswered, **extra)
    answer(f"wrote {file}: {count(rows, 'row')}", {"wrote": str(file), "rows": rows}, as_json=as_json)


def import_(
    store: Where,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Answers: .csv or .jsonl with image, caption, grade; or .json.")
    ],
    choice: Annotated[
        list[str] | None,
        word("For a .json: the grade (1 to 4) of a choice or rating; none: no answer.", metavar="NAME=GRADE"),
    ] = None,
    option: Loading = None,
    as_json: Json = False,
) -> None:
    """Import answers from a file into a store that has their images and captions; a repeated import is refused.

    Answers to pairs that are in a task go to this task; answers that the store has already are skipped.

    A .json file is Label Studio's export in the format "JSON", or Argilla's records. What has no answer is left out.
    -O control=NAME is the control or question with the grade, -O image_field=NAME and -O caption_field=NAME the fields
    with the ids. For .csv and .jsonl, -O annotator=NAME says who answered.

    Examples:
      $ limner annotate import work.db answers.csv
      $ limner annotate import work.db to_judge.csv -O annotator=ann
      $ limner annotate import work.db project-1.json --choice match=4 --choice "no match=1" --choice unclear=none
    """
    import hashlib

    from limner.annotate.export import import_answers
    from limner.annotate.guideline import scale_of

    fields = {name: str(value) for name, value in named_options(option, IMPORTED, of="import").items()}
    with opened(store) as db:
        imported, left_out = _imported(file, fields, choice, scale_of(db))
        key = f"{file.name}:{hashlib.sha256(file.read_bytes()).hexdigest()[:12]}"
        added = import_answers(db, imported, key=key)
    for sentence in left_out:
        tell(f"warning: {sentence}")
    answer(f"{count(added, 'answer')} added from {file}", {"added": added, "left_out": list(left_out)}, as_json=as_json)


def _imported(
    file: Path, fields: dict[str, str], choice: list[str] | None, scale: Scale
) -> tuple[list[ImportedAnswer], tuple[str, ...]]:
    """The answers of a file, and what was left out."""
    from limner.annotate.answer_files import form_of, read_filled
    from limner.annotate.labelling_tools import read_tasks

    annotator = fields.pop("annotator", None)
    if form_of(file) != "label-studio":
        if fields or choice:
            raise typer.BadParameter(
                f"--choice and -O {', '.join(LABEL_STUDIO)} are for a .json of Label Studio, Argilla"
            )
        return read_filled(file, scale=scale, **({} if annotator is None else {"annotator": annotator}))
    if annotator is not None:
        raise typer.BadParameter("-O annotator is for .csv and .jsonl: this .json says who answered")
    chosen: OptionValues = {**fields, **({"choices": _graded(choice)} if choice else {})}
    return read_tasks(file, scale=scale, **chosen)


def _graded(words: list[str]) -> dict[str, int | None]:
    """NAME=GRADE of each choice."""
    grades: dict[str, int | None] = {}
    for each in words:
        name, equals, grade = each.rpartition("=")
        if not equals or not name or grade not in ("1", "2", "3", "4", "none"):
            raise typer.BadParameter(f"--choice got {each!r}: expected NAME=GRADE, with a grade from 1 to 4, or none")
        grades[name] = None if grade == "none" else int(grade)
    return grades
