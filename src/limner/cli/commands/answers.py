"""limner annotate status, review, aggregate, merge, ...: progress, quality, and judgements from answers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from limner.cli.console import answer, progress, table, tell
from limner.cli.options import Json, flag, installed_store, out_word, saved, word, writable, writable_store
from limner.core.errors import LimnerError, UnknownName, count

if TYPE_CHECKING:
    from limner.annotate.store import Store
    from limner.core.judgements import Judgements

_STORE: Any = {"metavar": "STORE", "help": "A file for SQLite, or postgresql://user@host/name."}
Where = Annotated[str, typer.Argument(**_STORE, callback=installed_store)]


def new_store(where: str) -> str:
    """Refuses a store that cannot be opened or written, when the command line is read: before systems are trained."""
    installed_store(where)
    return writable_store(where)


NewStore = Annotated[str, typer.Argument(**_STORE, callback=new_store)]
"""A store that the command makes, if there is none, after it has trained and opened systems."""


@contextmanager
def opened(where: str, *, create: bool = False) -> Iterator[Store]:
    """A store by path or address, closed afterwards; only the pool creates a new one."""
    from limner.annotate.store import open_store

    with open_store(where, create=create) as store:
        yield store


def shown(where: str) -> str:
    """The address of a store without its password."""
    from limner.annotate.store import without_password

    return without_password(where)


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
        far, given, doubtful = how_far(db), answers(db), review_queue(db)
    found = agreement(given)
    people = [
        {"annotator": r.annotator, "answers": r.answers, "controls": r.controls, "right": r.right,
         "seconds": r.milliseconds / 1000, "suspicious": list(r.suspicious)}
        for r in annotator_table(given)
    ]  # fmt: skip
    data = {**far, "alpha": found.alpha, "interval": [found.low, found.high], "note": found.note, "people": people}
    data["kappas"] = [{"people": list(two), "kappa": k, "pairs": n} for two, (k, n) in found.kappas.items()]
    answer(_status(data, len(doubtful), store), {**data, "to_review": len(doubtful)}, as_json=as_json)


def _took(seconds: float) -> str:
    """The median time of an answer, if times were recorded."""
    return "-" if math.isnan(seconds) else f"{seconds:.1f}"


def _status(data: Mapping[str, Any], doubtful: int, store: str) -> str:
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
        lines.append(f"{count(doubtful, 'task')} to review: limner annotate review {shown(store)}")
    return "\n".join(lines)


def review(
    store: Where,
    assignment: Annotated[int | None, typer.Argument(metavar="NUMBER", help="The task to decide on.")] = None,
    accept: Annotated[bool, flag("--accept", "Its answers count.")] = False,
    reject: Annotated[
        bool, flag("--reject", "Its answers no longer count, and the task goes to someone else.")
    ] = False,
    reason: Annotated[str | None, word("The reason; it is stored.", metavar="TEXT")] = None,
    exclude_below: Annotated[
        float | None,
        word("Exclude annotators with a lower share of correct controls, e.g. 0.7.", metavar="SHARE", min=0, max=1),
    ] = None,
    exclude: Annotated[
        list[str] | None, word("Exclude image=ID, caption=ID or annotator=NAME, with --reason.", metavar="KIND=ID")
    ] = None,
    as_json: Json = False,
) -> None:
    """List finished tasks with a wrong control, or accept or reject one of them; or exclude bad items.

    Examples:
      $ limner annotate review work.db
      $ limner annotate review work.db 12 --reject --reason "both controls wrong"
      $ limner annotate review work.db --exclude-below 0.7
      $ limner annotate review work.db --exclude caption=248212 --reason "says that there is no image"
    """
    from limner.annotate import quality

    if accept and reject:
        raise typer.BadParameter("give either --accept or --reject, not both")
    with opened(store) as db:
        if assignment is not None:
            if not (accept or reject) or not reason:
                raise typer.BadParameter("give --accept or --reject, and --reason TEXT")
            quality.review(db, assignment, "accept" if accept else "reject", reason=reason)
        aside = quality.set_aside(db, threshold=exclude_below) if exclude_below is not None else []
        out = _excluded(db, exclude or [], reason)
        queue = quality.review_queue(db)
    rows = [
        {"number": d.assignment, "annotator": d.annotator, "wrong": len(d.wrong), "controls": d.controls,
         "pairs": [f"{a.image} | {a.caption}: {a.grade} ({a.role})" for a in d.wrong],
         "comments": [a.comment for a in d.wrong if a.comment]}
        for d in queue
    ]  # fmt: skip
    listed = [f"{r['number']:6}  {r['annotator']}: {r['wrong']} of {r['controls']} controls wrong" for r in rows]
    lines = [f"annotators excluded: {', '.join(aside) or 'none'}"] if exclude_below is not None else []
    lines += [f"excluded: {', '.join(out)}"] if out else []
    data = {"queue": rows, "set_aside": aside, "taken_out": out}
    answer("\n".join([*lines, *listed] or ["nothing to review"]), data, as_json=as_json)


def _excluded(store: Store, words: list[str], reason: str | None) -> list[str]:
    from limner.annotate.store.exclusions import exclude

    for each in words:
        kind, equals, target = each.partition("=")
        if not equals or kind not in ("image", "caption", "annotator"):
            raise typer.BadParameter(f"--exclude got {each!r}: expected image=ID, caption=ID or annotator=NAME")
        if not reason:
            raise typer.BadParameter("--exclude needs --reason TEXT, which is stored")
        exclude(store, kind, target, reason=reason)
    return words


# --- judgements -------------------------------------------------------------------------------------------------

Method = Annotated[str, word("majority, or dawid-skene (estimates the error rates of annotators too).")]


def aggregate(store: Where, method: Method = "majority", as_json: Json = False) -> None:
    """Aggregate all answers to one label per pair, and save the labels in the store.

    Examples:
      $ limner annotate aggregate work.db --method dawid-skene
    """
    from limner.annotate.aggregate import aggregate as make_labels
    from limner.annotate.store.scales import scale_of

    with opened(store) as db:
        labels, grades = make_labels(db, method), scale_of(db).grades
    counts = {grade.label: sum(x.grade == grade.value for x in labels) for grade in grades}
    data = {"method": method, "pairs": len(labels), "grades": counts}
    lines = [
        f"{count(len(labels), 'pair')} by {method}",
        *(f"  {words:14} {number:8,}" for words, number in counts.items()),
    ]
    answer("\n".join(lines), data, as_json=as_json)


def merge(
    store: Where,
    further: Annotated[
        list[str] | None, word("Further judgements to merge. Repeatable.", "--with", metavar="FILE")
    ] = None,
    method: Method = "majority",
    save: Annotated[
        Path | None, out_word("Write the judgements: .qrels, or a folder (ECCV form).", callback=writable)
    ] = None,
    save_verified: Annotated[
        Path | None,
        out_word("Write only the pairs that people judged, in the same formats.", "--save-verified", callback=writable),
    ] = None,
    as_json: Json = False,
) -> None:
    """Merge the answers with the original pairs and other judgements; report new pairs and precision.

    Examples:
      $ limner annotate merge work.db -o better.qrels
      $ limner annotate merge work.db --with cxc.qrels -o all.qrels --save-verified people.qrels
    """
    from limner.annotate.aggregate import METHODS
    from limner.annotate.forms import read_judgements
    from limner.annotate.merge import merge as join
    from limner.annotate.merge import taken_out
    from limner.annotate.store.answers import answers
    from limner.annotate.studies import original

    if method not in METHODS:
        raise UnknownName("way to aggregate", method, METHODS)
    with opened(store) as db:
        labels, known, (images, captions) = METHODS[method](answers(db)), original(db), taken_out(db)
    others = [read_judgements(file) for file in further or []]
    merged = join(labels, known, further=others, invalid_images=images, invalid_captions=captions)
    if save is not None:
        _save(merged.judgements, save)
    if save_verified is not None:
        _save(merged.verified, save_verified)
    counted = [{**vars(c), "factor": c.factor, "verified_factor": c.verified_factor} for c in merged.counted]
    quality = {
        name: {d: {"precision": p, "recall": r} for d, (p, r) in sides.items()}
        for name, sides in merged.quality.items()
    }
    data = {"labels": len(labels), "refuted": merged.refuted, "removed": merged.removed, "directions": counted}
    data["quality"] = quality
    answer(str(merged), data, as_json=as_json)


def _save(judgements: Judgements, target: Path) -> None:
    from limner.annotate.forms import write_eccv
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


def bias(
    store: Where,
    measure: Annotated[str, word("R@1 or R-Precision, where a weak yes counts half.")] = "R@1",
    direction: Annotated[str, word("t2i or i2t.")] = "t2i",
    depth: Annotated[int, word("The pool depth.", metavar="K", min=1)] = 5,
    as_json: Json = False,
) -> None:
    """Measure how much the judgements favour the systems that proposed them, by number of systems.

    Examples:
      $ limner annotate bias work.db
      $ limner annotate bias work.db --direction i2t --json
    """
    from limner.annotate.bias import biases, by_size, diversity, lists_from
    from limner.annotate.export import judgements
    from limner.annotate.store.contents import DIRECTIONS, proposals

    if direction not in DIRECTIONS:
        raise UnknownName("direction", direction, DIRECTIONS)
    with opened(store) as db:
        kept, judged = proposals(db, turn=1), judgements(db)
    lists = lists_from(kept, direction)
    if len(lists) < 2:
        raise LimnerError(f"{len(lists)} systems propose {direction}: bias needs two or more; pool several")
    pooled = [p for p in kept if p.rank <= depth]
    with progress("measuring every subset of the systems") as told:
        found = []
        if len(judged):
            found = biases(lists, judged, pooled, measure=measure, direction=direction, progress=told)
        unlike = diversity(lists)
    sizes = by_size(found)
    rows = [(size, f"{b.overall:.2f}", f"{b.own:.2f}", f"{b.others:.2f}") for size, b in sizes.items()]
    pairs = [(f"{a}, {b}", f"{tau:.3f}", f"{rank:.2f}") for (a, b), (tau, rank) in unlike.items()]
    data = {
        "measure": measure,
        "sizes": {size: {"all": b.overall, "self": b.own, "non-self": b.others} for size, b in sizes.items()},
        "subsets": [{"systems": b.systems, "all": b.overall, "self": b.own, "non-self": b.others} for b in found],
        "diversity": [{"systems": two, "tau": t, "mean_rank": r} for two, (t, r) in unlike.items()],
    }
    head = table([("systems", "bias", "self", "non-self"), *rows])
    head = head if rows else "no bias to measure: no answer has found a match yet"
    answer(f"{head}\n\n{table([('two systems', 'tau-b', 'mean rank'), *pairs])}", data, as_json=as_json)


# --- files ------------------------------------------------------------------------------------------------------


def export(
    store: Where,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help=".csv, .jsonl, .qrels, .txt (crowd), .json (Label Studio), or a folder.",
            callback=writable,
        ),
    ],
    form: Annotated[
        str | None, word("csv, jsonl, qrels, eccv, crowd or label-studio; by default from the file ending.")
    ] = None,
    method: Method = "majority",
    image_url: Annotated[
        str | None, word("For label-studio: address of an image, with {image} for its id.", metavar="URL")
    ] = None,
    everything: Annotated[bool, flag("--all", "Include excluded answers.")] = False,
    as_json: Json = False,
) -> None:
    """Write the answers (csv, jsonl, crowd, label-studio) or the labels (qrels, ECCV Caption's format).

    For Label Studio, all pooled pairs become tasks, with the answers as annotations; the labelling interface is
    written next to them (.xml).

    Examples:
      $ limner annotate export work.db answers.csv
      $ limner annotate export work.db tasks.json --image-url "/data/local-files/?d=photos/{image}"
      $ limner annotate export work.db labels.qrels --method dawid-skene
    """
    from limner.annotate.export import export as write

    with opened(store) as db:
        more = {} if image_url is None else {"image_url": image_url}
        rows = write(db, file, form=form, method=method, counted=not everything, **more)
    answer(f"wrote {file}: {count(rows, 'row')}", {"wrote": str(file), "rows": rows}, as_json=as_json)


def import_(
    store: Where,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Answers: .csv or .jsonl with image, caption, grade; or .json.")
    ],
    choice: Annotated[
        list[str] | None,
        word("For label-studio: the grade (1 to 4) of a choice or rating; none: no answer.", metavar="NAME=GRADE"),
    ] = None,
    control: Annotated[str | None, word("For label-studio: the control with the grade.", metavar="NAME")] = None,
    image_field: Annotated[str | None, word("For label-studio: the field with the image's id.", metavar="NAME")] = None,
    caption_field: Annotated[
        str | None, word("For label-studio: the field with the caption's id.", metavar="NAME")
    ] = None,
    as_json: Json = False,
) -> None:
    """Import answers from a file into a store that has their images and captions; a repeated import is refused.

    Answers to pairs that are in a task go to this task; answers that the store has already are skipped.

    A .json file is Label Studio's export in the format "JSON". Skipped tasks are not answers: they are left out.

    Examples:
      $ limner annotate import work.db answers.csv
      $ limner annotate import work.db project-1.json --choice match=4 --choice "no match=1" --choice unclear=none
    """
    import hashlib

    from limner.annotate.export import import_answers
    from limner.annotate.forms import form_of, read_answers
    from limner.annotate.label_studio import read_tasks
    from limner.annotate.store.scales import scale_of

    fields = {"control": control, "image_field": image_field, "caption_field": caption_field}
    chosen: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
    chosen |= {"choices": _graded(choice)} if choice else {}
    exported = form_of(file) == "label-studio"
    if chosen and not exported:
        raise typer.BadParameter("--choice, --control, --image-field and --caption-field are for Label Studio's .json")
    with opened(store) as db:
        scale = scale_of(db)
        given, left_out = read_tasks(file, scale=scale, **chosen) if exported else (read_answers(file, scale=scale), ())
        key = f"{file.name}:{hashlib.sha256(file.read_bytes()).hexdigest()[:12]}"
        added = import_answers(db, given, key=key)
    for sentence in left_out:
        tell(f"warning: {sentence}")
    answer(f"{count(added, 'answer')} added from {file}", {"added": added, "left_out": list(left_out)}, as_json=as_json)


def _graded(words: list[str]) -> dict[str, int | None]:
    """NAME=GRADE of each choice."""
    found: dict[str, int | None] = {}
    for each in words:
        name, equals, grade = each.rpartition("=")
        if not equals or not name or grade not in ("1", "2", "3", "4", "none"):
            raise typer.BadParameter(f"--choice got {each!r}: expected NAME=GRADE, with a grade from 1 to 4, or none")
        found[name] = None if grade == "none" else int(grade)
    return found
