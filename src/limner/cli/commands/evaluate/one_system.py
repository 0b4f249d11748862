"""One system against a collection or a qrels file: opened, corrected, measured, broken down, saved."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache as cached_call
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from limner.cli.console import answer, progress, tell
from limner.cli.inputs import SystemOptions, is_qrels
from limner.cli.options import load, on_cluster, saved, word
from limner.core.display_names import display_name, display_names
from limner.core.errors import LimnerError, UnknownName
from limner.core.options import OptionValues

if TYPE_CHECKING:
    from limner.annotate.store import Store
    from limner.core.collection import Collection
    from limner.core.judgements import Judgements
    from limner.evaluation.diagnostics.breakdown import Breakdown
    from limner.evaluation.inputs import Source
    from limner.evaluation.reports.report import Report


def evaluated(
    spec: str | None,
    systems: list[SystemOptions],
    *,
    per_image: int | None,
    loader: list[str],
    split: str | None,
    groups: str | None,
    judgements: list[Path],
    estimate: str | None,
    correction: OptionValues,
    by: list[str],
    name: str | None,
    cluster: str | None,
    files: list[Path],
    settings: OptionValues,
) -> tuple[list[Report], list[Breakdown]]:
    """The report of every system, written to files, and the breakdowns of a single one.

    Args:
        spec: The collection or the qrels file; None with `per_image`.
        systems: The systems.
        per_image: The number of texts per image, for embeddings in order.
        loader: Options of the loader.
        split: The split to evaluate.
        groups: The file with the group of each query of a qrels file.
        judgements: Files of extra judgements.
        estimate: A store of answers to a plan.
        correction: What `limner.cli.commands.evaluate.one_system.corrected` takes besides the scores; empty for none.
        by: Fields to break down by.
        name: The name of the system in the report.
        cluster: The address of a Ray cluster.
        files: The files to write.
        settings: Further options of `limner.evaluate`.
    """
    load_once = cached_call(lambda: _with_texts(load(str(spec), loader)))
    reports, parts = [], []
    extra = _read_judgements(judgements)
    if by and spec is not None and not is_qrels(spec):
        _refuse_unknown_fields(by, load_once())
    for number, system in enumerate(systems):
        opened = _opened(spec, system, per_image, split, load_once)
        source, truth = opened.source, opened.truth
        if correction:
            source = corrected(source, dev=opened.dev, trust=system.trust, **correction)
        truth_options: OptionValues = {
            "groups": _groups(groups, truth),
            "judgements": _for_collection(extra, truth),
        }
        label = name or _name(system, correction.get("correction"))
        with on_cluster(cluster), labels_of(estimate) as labels:
            options = {**settings, **truth_options, "labels": labels}
            report = _measured(replace(opened, source=source), label, options)
        if opened.commit is not None:
            report = replace(report, settings={**report.settings, "model": opened.commit})
        parts += _parts(report, truth, by)
        reports.append(report)
        _save(report, _page_truth(truth, truth_options["judgements"]), _files(files, number, systems))
    return reports, parts


def _with_texts(collection: Collection) -> Collection:
    """Refuses a collection without texts before anything is encoded."""
    if not len(collection.texts):
        raise LimnerError(
            f"{collection.name!r} has {len(collection.images):,} images and no texts, so there is nothing to measure: "
            "put captions.csv with the columns image and caption into its folder; 'limner search' searches images alone"
        )
    return collection


def _files(files: list[Path], number: int, systems: list[SystemOptions]) -> list[Path]:
    """The output files of one of the reports; with several systems, those of each have its short name."""
    if len(systems) == 1:
        return files
    label = re.sub(r"[^\w.-]+", "-", display_names([str(each.system) for each in systems])[number]).strip("-.")
    return [file.with_name(f"{file.stem}-{label}{file.suffix}") for file in files]


def printed(reports: list[Report], parts: list[Breakdown], *, as_json: bool) -> None:
    """Prints a report with its breakdowns, or several reports with their comparison."""
    if len(reports) == 1:
        rows = {"by": [row for part in parts for row in part.rows()]} if parts else {}
        answer([reports[0], *parts], summary(reports[0]) | rows, as_json=as_json)
        return
    from limner.evaluation import compare

    with progress(f"comparing {len(reports)} systems", "results") as step:
        compared = compare(reports, progress=step)
    data = {"reports": [summary(report) for report in reports], "comparison": compared.describe()}
    answer([*reports, compared], data, as_json=as_json)


def refuse_unknown(measures: str | None, protocols: Sequence[str] = (), correction: str | None = None) -> None:
    """Refuses an unknown measure, protocol or correction before anything is read or trained."""
    from limner.evaluation.measures import parse
    from limner.evaluation.protocols import PROTOCOLS
    from limner.scores.correction import CORRECTIONS

    if measures is not None:
        parse(measures)
    for name in protocols:
        if name not in PROTOCOLS:
            raise UnknownName("protocol", name, PROTOCOLS)
    if correction is not None and not correction.endswith(".npz"):
        CORRECTIONS.find(CORRECTIONS.parsed(correction)[0])


def _refuse_unknown_fields(fields: Sequence[str], collection: Collection) -> None:
    """Refuses a breakdown by a field that the collection lacks, before anything is trained."""
    own_fields = {*collection.images.fields, *collection.texts.fields}
    for field in fields:
        if field not in own_fields:
            raise UnknownName("field", field, sorted(own_fields), of=f"the images or texts of {collection.name!r}")


@contextmanager
def labels_of(store: str | None) -> Iterator[Store | None]:
    """The store of labels for estimates, if one was given."""
    if store is None:
        yield None
        return
    from limner.annotate.store import open_store

    with open_store(store, create=False) as opened_store:
        yield opened_store


@dataclass(frozen=True, eq=False)
class _Opened:
    """A system that is open, and what it is measured against.

    Args:
        source: Its scores or rankings.
        truth: The evaluated items, or plain judgements.
        notes: Remarks.
        dev: A function for its scores on another split, and that split; None if there is none.
        cut: The ids of texts that its model cuts.
        commit: The commit of a model from a hub.
    """

    source: object
    truth: Collection | Judgements
    notes: tuple[str, ...] = ()
    dev: Any = None
    cut: frozenset[str] = frozenset()
    commit: str | None = None


def _opened(
    spec: str | None, options: SystemOptions, per_image: int | None, split: str | None, loaded: Callable[[], Collection]
) -> _Opened:
    """A system and the items or judgements to measure it against."""
    if per_image is not None:
        full_collection = options.collection_in_order(per_image)
        source = options.open_on(full_collection, full_collection).source
        return _Opened(source, full_collection, dev=partial(_on, options, full_collection))
    if options.kind == "runs" and is_qrels(str(spec)):
        return _Opened(*_qrels(str(spec), options.runs))
    full_collection = loaded()
    opened = options.open(full_collection, split)
    dev = partial(_on, options, full_collection)
    return _Opened(opened.source, opened.collection, opened.notes, dev, opened.cut, opened.commit)


def _parts(report: Report, truth: object, fields: list[str]) -> list[Breakdown]:
    """The breakdowns by the requested fields."""
    from limner.core.collection import Collection
    from limner.evaluation import breakdown

    if not fields:
        return []
    if not isinstance(truth, Collection):
        raise typer.BadParameter("--by is for a collection: a qrels file has no fields")
    return [breakdown(report, truth, field) for field in fields]


def _on(options: SystemOptions, full_collection: Collection, split: str) -> tuple[object, Collection]:
    """The scores of the same system on another split, and that split."""
    if split not in full_collection.splits and split not in ("all", "val"):
        split_names = ", ".join(full_collection.splits) or "none"
        raise LimnerError(
            f"-O tune={split}: {full_collection.name!r} has no split {split!r} (its splits: {split_names}); add a "
            f"column 'split' to its table, choose another split, or set the options explicitly, as in --correct "
            "'csls(k=10)'"
        )
    opened = options.open(full_collection, split)
    return opened.source, opened.collection


def _read_judgements(files: list[Path]) -> dict[str, Judgements] | None:
    """The extra judgements; a file that cannot be read is refused before anything is trained."""
    from limner.evaluation.partial_judgements import read_judgements

    return read_judgements(files) if files else None


def _for_collection(extra: dict[str, Judgements] | None, truth: object) -> dict[str, Judgements] | None:
    """The extra judgements, which are for a collection only."""
    from limner.core.judgements import Judgements

    if extra and isinstance(truth, Judgements):
        raise typer.BadParameter("--judgements is for a COLLECTION, and this is a qrels file: give one of them")
    return extra


def _page_truth(truth: object, judgements: dict[str, Judgements] | None) -> object:
    """The collection with the extra judgements, for the HTML page."""
    from limner.core.collection import Collection
    from limner.evaluation.partial_judgements import with_judgements

    if judgements is None or not isinstance(truth, Collection):
        return truth
    return with_judgements(truth, judgements)[0]


def _groups(file: str | None, truth: object) -> dict[str, str] | None:
    from limner.core.judgements import Judgements
    from limner.datasets.trec import read_groups

    if file is None:
        return None
    if not isinstance(truth, Judgements):
        raise typer.BadParameter(
            "-O groups is for a qrels file: the texts of a collection are already grouped by image"
        )
    return read_groups(file)


def _qrels(spec: str, runs: Sequence[str]) -> tuple[Source, Judgements]:
    from limner.cli.inputs import directed
    from limner.datasets.runs import read_run
    from limner.datasets.trec import read_qrels

    files, directions = directed(runs)
    if directions:
        raise typer.BadParameter(f"--run {runs[0]} with a qrels file: it has no images and texts; give the file alone")
    if len(files) > 1:
        raise typer.BadParameter(
            f"got {len(files)} runs for one qrels file: evaluate them one by one with -o, then 'limner compare'"
        )
    path = Path(spec.removeprefix("qrels:"))
    return read_run(files[0]), read_qrels(path, name=path.stem)


def _name(options: SystemOptions, correct: str | None) -> str:
    """The default name of a system in a report: its name or file, plus its correction."""
    return f"{options.label} + {correct}" if correct else options.label


def _measured(opened: _Opened, name: str, settings: OptionValues) -> Report:
    import limner
    from limner.evaluation.evaluated_queries import with_cut_queries
    from limner.evaluation.inputs import directions

    source: Any = opened.source
    truth = opened.truth
    if isinstance(truth, limner.Collection):
        source = directions(source, truth, "i2t" if _is_images_by_texts(source, truth) else None)
    with progress(f"evaluating {display_name(name)}") as task:
        report = limner.evaluate(source, truth, name=name, progress=task, **settings)
        task.step("computing confidence intervals", "results")
        for number, result in enumerate(report.results, start=1):
            _ = result.interval  # it is kept; the printed and the saved report need it
            task(number, len(report.results))
    report = replace(report, notes=(*report.notes, *opened.notes))
    return with_cut_queries(report, truth, opened.cut) if isinstance(truth, limner.Collection) else report


def _is_images_by_texts(source: object, truth: Collection) -> bool:
    """Whether scores are images by texts, also if images and texts share ids; a correction may have turned them."""
    from limner.scores import Scores

    return isinstance(source, Scores) and all(query in truth.images.ids for query in source.queries)


def _save(report: Report, truth: object, files: list[Path]) -> None:
    from limner.core.collection import Collection

    for file in files:
        page = file.suffix.lower() == ".html" and isinstance(truth, Collection)
        with progress(f"writing {file}"):
            report.save(file, **({"collection": truth} if page else {}))
    saved(files)


def summary(report: Report) -> dict[str, object]:
    """The report without its per-query values, which `-o FILE.json` contains."""
    from limner.evaluation.tables import json_ready

    return {
        "system": report.system,
        "collection": report.collection,
        "results": [{k: v for k, v in row.items() if k not in ("system", "collection")} for row in report.rows()],
        "hubs": {direction: hubs.describe() for direction, hubs in report.hubs.items()},
        "settings": dict(report.settings),
        "notes": list(report.notes),
        "estimates": [json_ready(each.to_json()) for each in report.estimates],
    }


if TYPE_CHECKING:
    from limner.core.collection import Collection
    from limner.scores import Scores

    Dev = Callable[[str], tuple[Scores, Collection]]

Correct = Annotated[
    str | None,
    word(
        "Correct hubs: 'limner list corrections', module:class, statistics FILE.npz. -O bank=FILES, -O tune=dev.",
        "--correct",
        metavar="HOW",
    ),
]


def corrected(
    source: object,
    correction: str | None,
    *,
    dev: Dev,
    bank: Sequence[Path] = (),
    keep: Sequence[Path] = (),
    trust: bool = False,
) -> object:
    """Applies the correction options.

    Args:
        source: The scores.
        correction: The value of --correct.
        dev: Returns the scores and the collection of a split.
        bank: The files of its query bank.
        keep: Files to write the statistics of the bank to.
        trust: Whether a file of statistics may name a correction that is not registered.
    """
    from limner.scores import Scores
    from limner.scores.correction import CORRECTIONS

    if correction is None:
        named = [name for name, value in (("-O bank", bank), ("-o FILE.npz", keep)) if value]
        raise typer.BadParameter(f"{', '.join(named)} without a correction: name one with --correct")
    if not isinstance(source, Scores):
        raise LimnerError(
            "--correct needs scores: give --images with --texts, --scores or --model; a run has no scores to correct"
        )
    name, options = CORRECTIONS.parsed(correction)
    if "tune" in options:
        options = _tuned(name, options, str(options.pop("tune")), dev)
    corrected_scores: Any = source.correct(name, bank=_bank(bank), trust=trust, **options)
    for file in keep:
        with progress(f"gathering statistics for {name}", "queries") as task:
            statistics = corrected_scores.gather(progress=task)
            statistics.save(
                file, reverse=corrected_scores.T.gather(progress=task.step("in the other direction", "queries"))
            )
    return corrected_scores


def _bank(files: Sequence[Path]) -> object:
    """A bank from files: two files of vectors (images, then texts), or one file with both or with saved statistics."""
    from limner.core.embeddings import Embeddings

    if not files:
        return None
    if len(files) > 2:
        raise typer.BadParameter(f"got {len(files)} files for -O bank: expected vectors of images and of texts")
    if len(files) == 2:
        return Embeddings.load(files[0]), Embeddings.load(files[1])
    if files[0].suffix.lower() != ".npz":
        raise typer.BadParameter(
            f"-O bank={files[0]} is one file of vectors: give two for both directions, -O "
            "bank=images.npy,texts.npy; or one .npz with arrays 'images' and 'texts', or with saved statistics"
        )
    from limner.core.paths import read_arrays

    arrays = read_arrays(files[0], what="a bank")
    return (arrays["images"], arrays["texts"]) if {"images", "texts"} <= set(arrays) else files[0]


def _tuned(name: str, fixed: dict[str, object], split: str, dev: Dev) -> dict[str, object]:
    from limner.evaluation.tuning import tune

    scores, collection = dev(split)
    with progress(f"tuning {name} on {collection.name}", "settings") as step:
        chosen: dict[str, object] = tune(name, scores, collection, fixed=fixed, progress=step)
    tell(f"{name} is best on {collection.name} with {', '.join(f'{k} = {v}' for k, v in chosen.items())}")
    return chosen
