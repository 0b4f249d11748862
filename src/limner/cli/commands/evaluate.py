"""limner evaluate: evaluate a system on a collection, from embeddings, scores, runs or models."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache as cached_call
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from limner.cli.console import answer, progress
from limner.cli.correcting import Bank, Correct, Tune, corrected
from limner.cli.inputs import SYSTEM, Features, SystemOptions, is_qrels, system_word
from limner.cli.options import (
    Address,
    Json,
    Split,
    Trust,
    by_ending,
    cache_word,
    installed_store,
    load,
    on_cluster,
    out_word,
    refuse_report_ending,
    saved,
    word,
)
from limner.core.errors import LimnerError
from limner.datasets.runs import read_run

if TYPE_CHECKING:
    from limner.annotate.store import Store
    from limner.core.collection import Collection
    from limner.core.judgements import Judgements
    from limner.evaluation.diagnostics.breakdown import Breakdown
    from limner.evaluation.inputs import Source
    from limner.evaluation.reports.report import Report

COLLECTION = "scenes, flickr8k:DIR, captions.csv, a folder, a qrels file, ...: see 'limner list datasets'."

Options = Annotated[
    list[str] | None,
    word(
        "Option of the loader: -O images=DIR; or, if it has none of this name, of --encoder. Repeatable.",
        "--option",
        "-O",
        metavar="NAME=VALUE",
    ),
]
Beside = Annotated[
    list[Path] | None,
    word(
        "Extra judgements for the COLLECTION, a qrels file, evaluated as a separate view. Repeatable.", metavar="FILE"
    ),
]
Groups = Annotated[
    Path | None, word("For a qrels file: the group of each query, 'query group' per line, or json.", metavar="FILE")
]
Missing = Annotated[
    str, word("Queries that a run lacks: refuse, empty (count as an empty list), or skip.", metavar="HOW")
]
Images = Annotated[Path | None, word("Embeddings of the images: npy, npz, safetensors, parquet.", metavar="FILE")]
Runs = Annotated[list[Path] | None, word("Or a TREC run, or JSON lists; twice for both directions.", metavar="FILE")]
Encoders = Annotated[
    list[str] | None,
    system_word("Or an encoder, 'clip(model=DIR)': encode, evaluate, report; several are compared."),
]
PerImage = Annotated[
    int | None, word("Number of texts per image, in order; instead of a COLLECTION.", metavar="N", min=1)
]
Ways = Annotated[
    list[str] | None,
    word("Direction of a run, if images and texts share ids: i2t, t2i. One per --run.", metavar="WAY"),
]
Measures = Annotated[
    str | None, word("Such as 'R@1 nDCG@5 my_module:RBP': see 'limner list measures'.", metavar="LIST")
]
EstimateFrom = Annotated[
    str | None,
    word(
        "Answers to 'limner annotate plan': estimates for complete judgements.",
        metavar="STORE",
        callback=installed_store,
    ),
]
Unretrieved = Annotated[str, word("Candidates missing from a truncated list: refuse, or never (found).", metavar="HOW")]
By = Annotated[
    list[str] | None,
    word("Break results down by a field of the queries, such as language. Repeatable.", metavar="FIELD"),
]
Rename = Annotated[
    list[str] | None,
    word("Rename a direction or view in tables: --rename 'i2t=caption retrieval'.", metavar="NAME=TEXT"),
]
Save = Annotated[
    list[Path] | None,
    out_word(
        "Write it: .json .csv .md .tex .txt .html, a figure: .pdf .svg .png, the bank's statistics: .npz. Repeatable."
    ),
]


def evaluate(
    collection: Annotated[str | None, typer.Argument(metavar="COLLECTION", help=COLLECTION)] = None,
    images: Images = None,
    texts: Annotated[Path | None, word("Embeddings of the texts.", metavar="FILE")] = None,
    scores: Annotated[Path | None, word("Or a similarity matrix, images by texts: npy.", metavar="FILE")] = None,
    run: Runs = None,
    system: Annotated[str | None, system_word(f"Or a system: {SYSTEM}")] = None,
    encoder: Encoders = None,
    cache: Annotated[Path | None, cache_word("With --encoder: cache folder for vectors.", False)] = None,
    features: Features = None,
    image_ids: Annotated[Path | None, word("Ids of the image rows, one per line.", metavar="FILE")] = None,
    text_ids: Annotated[Path | None, word("Ids of the text rows, one per line.", metavar="FILE")] = None,
    per_image: PerImage = None,
    split: Split = None,
    option: Options = None,
    direction: Ways = None,
    judgements: Beside = None,
    groups: Groups = None,
    measures: Measures = None,
    protocol: Annotated[list[str] | None, word("See 'limner list protocols'. Repeatable.")] = None,
    estimate: EstimateFrom = None,
    mode: Annotated[str, word("Estimated intervals: fixed (one look) or anytime.", metavar="HOW")] = "fixed",
    ties: Annotated[str, word("Equal scores: expected, order or pessimistic.", metavar="HOW")] = "expected",
    unretrieved: Unretrieved = "refuse",
    missing: Missing = "refuse",
    correct: Correct = None,
    bank: Bank = None,
    tune: Tune = None,
    by: By = None,
    rename: Rename = None,
    name: Annotated[str | None, word("Name of the system in the report.")] = None,
    workers: Annotated[int | None, word("Threads.", metavar="N", min=1, show_default="all cores")] = None,
    cluster: Address = None,
    save: Save = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Evaluate a system against relevance judgements, with intervals, in both directions.

    Examples:
      $ limner evaluate scenes --system histograms
      $ limner evaluate captions.csv --images images.npy --texts texts.npy -o report.json -o report.html
      $ limner evaluate flickr8k:DIR --scores similarity.npy --protocol flickr8k-1k
      $ limner evaluate flickr8k:DIR --run i2t.run --run t2i.run --unretrieved never
      $ limner evaluate pairs.qrels --run system.run --measures "MAP nDCG@10" --unretrieved never
      $ limner evaluate pairs.qrels --run system.run --groups images.txt
      $ limner evaluate captions.csv --scores similarity.npy --judgements better.qrels
      $ limner evaluate --per-image 5 --images images.npy --texts texts.npy
      $ limner evaluate scenes --system histograms --correct csls --tune dev
      $ limner evaluate scenes --system histograms --measures "R@1 my_module:RBP@10"
      $ limner evaluate captions.csv --images I.npy --texts T.npy --correct csls --bank BI.npy --bank BT.npy
      $ limner evaluate multi30k:DIR --images I.npy --texts T.npy --by language --rename 't2i=image retrieval'
      $ limner evaluate scenes --system histograms --estimate work.db
      $ limner evaluate flickr8k:DIR --encoder 'open-clip(model=ViT-B-32, weights=FILE)' -o report.html
      $ limner evaluate coco-5k:DIR --encoder open-clip -O model=ViT-B-32 -O weights=FILE -O images=PHOTOS
      $ limner evaluate flickr8k:DIR --encoder 'aligned(images=efficientnet-lite, texts=minilm)'
      $ limner evaluate flickr8k:DIR --encoder 'clip(model=A)' --encoder 'clip(model=B)' --cache vectors
    """
    statistics, files = by_ending(save, ".npz")
    refuse_report_ending(files)
    _refuse_unknown(measures)
    if cluster is not None and workers is not None:
        raise typer.BadParameter("--workers with --cluster: the cluster sets the number of workers; give one of them")
    given = SystemOptions(images, texts, image_ids, text_ids, scores, run or (), system, trust, features, cache=cache)
    loader, encoders = _options(collection, option or [], encoder or [])
    ways = _ways(given, encoders, alone=bool(name or statistics or by))
    whole = cached_call(lambda: load(str(collection), loader))
    how: dict[str, Any] = {"measures": measures, "protocol": protocol or None, "ties": ties}
    how |= {"unretrieved": unretrieved, "missing": missing, "mode": mode, "workers": workers}
    reports, parts = [], []
    for way in ways:
        source, truth, notes, dev = _given(collection, way, per_image, split, whole, direction or [])
        if correct or tune or bank or statistics:
            source = corrected(source, correct, tune, dev, bank=bank, keep=statistics, trust=trust)
        beside: dict[str, Any] = {"groups": _groups(groups, truth), "judgements": _beside(truth, judgements or [])}
        with on_cluster(cluster), labels_of(estimate) as labels:
            report = _measured(source, truth, name or _name(way, correct), notes, {**how, **beside, "labels": labels})
        parts += _parts(report, truth, by or [])
        reports.append(report.renamed(_names(rename)))
        _save(reports[-1], _page_truth(truth, beside["judgements"]), _files(files, way, len(ways)))
    _answer(reports, parts, as_json=as_json)


def _options(collection: str | None, words: list[str], encoders: list[str]) -> tuple[list[str], list[str]]:
    """The options of the loader, and the encoders with those that the loader does not have."""
    from limner.datasets import takes_option

    if not words or not encoders or collection is None:
        return words, encoders
    own = [word for word in words if not takes_option(collection, word.partition("=")[0].strip())]
    named = [each.strip() for each in encoders]
    given = ", ".join(own)
    with_options = [f"{e.removesuffix(')')}, {given})" if e.endswith(")") else f"{e}({given})" for e in named]
    return [word for word in words if word not in own], with_options if own else encoders


def _ways(given: SystemOptions, encoders: list[str], *, alone: bool) -> list[SystemOptions]:
    """The systems to evaluate: one system, or several encoders, which some options do not support."""
    if len(encoders) > 1 and alone:
        raise typer.BadParameter("--name, --by and -o FILE.npz work with a single --encoder: leave them out")
    return [replace(given, encoder=each) for each in encoders] or [given]


def _files(files: list[Path], way: SystemOptions, many: int) -> list[Path]:
    """The output file of a report; with several encoders, a separate file for each."""
    if many == 1:
        return files
    label = re.sub(r"[^\w.-]+", "-", str(way.encoder)).strip("-.")
    return [file.with_name(f"{file.stem}-{label}{file.suffix}") for file in files]


def _answer(reports: list[Report], parts: list[Breakdown], *, as_json: bool) -> None:
    """Prints a report with its breakdowns, or several reports with their comparison."""
    if len(reports) == 1:
        told = {"by": [row for part in parts for row in part.rows()]} if parts else {}
        answer("\n\n".join(map(str, [reports[0], *parts])), summary(reports[0]) | told, as_json=as_json)
        return
    from limner.evaluation import compare

    with progress(f"comparing {len(reports)} encoders", "results") as step:
        compared = compare(reports, progress=step)
    data = {"reports": [summary(report) for report in reports], "comparison": compared.describe()}
    answer("\n\n".join(map(str, [*reports, compared])), data, as_json=as_json)


def _refuse_unknown(measures: str | None) -> None:
    """Refuses an unknown measure before anything is read or trained."""
    from limner.evaluation.measures import parse

    if measures is not None:
        parse(measures)


@contextmanager
def labels_of(store: str | None) -> Iterator[Store | None]:
    """The store of labels for estimates, if one was given."""
    if store is None:
        yield None
        return
    from limner.annotate.store import open_store

    with open_store(store, create=False) as opened_store:
        yield opened_store


def _given(
    spec: str | None,
    way: SystemOptions,
    per_image: int | None,
    split: str | None,
    loaded: Callable[[], Collection],
    directions: Sequence[str],
) -> tuple[object, Collection | Judgements, list[str], Any]:
    """The system, the judgements, notes, and a function for the scores and collection of another split."""
    if (spec is None) == (per_image is None):
        raise typer.BadParameter("give a COLLECTION, or --per-image N for embeddings in order; exactly one of them")
    if spec is None:
        whole = way.collection_in_order(per_image or 0)
        return way.open_on(whole, whole, directions).source, whole, [], partial(_on, way, whole)
    if way.kind == "runs" and is_qrels(spec):
        return *_qrels(spec, way.runs, directions), None
    whole = loaded()
    opened = way.open(whole, split, directions)
    return opened.source, opened.collection, list(opened.notes), partial(_on, way, whole)


def _parts(report: Report, truth: Any, fields: list[str]) -> list[Breakdown]:
    """The breakdowns by the requested fields."""
    from limner.core.collection import Collection
    from limner.evaluation import breakdown

    if fields and not isinstance(truth, Collection):
        raise typer.BadParameter("--by is for a collection: a qrels file has no fields")
    return [breakdown(report, truth, field) for field in fields]


def _names(words: list[str] | None) -> dict[str, str]:
    """Parses NAME=TEXT values."""
    pairs = [word.partition("=") for word in words or []]
    for name, _, text in pairs:
        if not name or not text:
            raise typer.BadParameter(f"--rename got {name!r}: expected NAME=TEXT, e.g. 'i2t=caption retrieval'")
        if sum(other == name for other, _, _ in pairs) > 1:
            raise typer.BadParameter(f"--rename got {name!r} more than once: give one name for each")
    return {name: text for name, _, text in pairs}


def _on(way: SystemOptions, whole: Collection, split: str) -> tuple[object, Collection]:
    """The scores of the same system on another split, and that split."""
    if split not in whole.splits and split not in ("all", "val"):
        there = ", ".join(whole.splits) or "none"
        raise LimnerError(
            f"--tune {split}: {whole.name!r} has no split {split!r} (its splits: {there}); add a column 'split' "
            f"to its table, choose another split, or set the options explicitly, as in --correct 'csls(k=10)'"
        )
    opened = way.open(whole, split)
    return opened.source, opened.collection


def _beside(truth: object, files: list[Path]) -> dict[str, Judgements] | None:
    """The extra judgements for a collection."""
    from limner.core.judgements import Judgements
    from limner.evaluation.partial_judgements import read_judgements

    if files and isinstance(truth, Judgements):
        raise typer.BadParameter("--judgements is for a COLLECTION, and this is a qrels file: give one of them")
    return read_judgements(files) if files else None


def _page_truth(truth: Any, judgements: dict[str, Judgements] | None) -> object:
    """The collection with the extra judgements, for the HTML page."""
    from limner.evaluation.partial_judgements import with_judgements

    return truth if judgements is None else with_judgements(truth, judgements)[0]


def _groups(file: Path | None, truth: object) -> dict[str, str] | None:
    from limner.core.judgements import Judgements
    from limner.datasets.trec import read_groups

    if file is None:
        return None
    if not isinstance(truth, Judgements):
        raise typer.BadParameter("--groups is for a qrels file: the texts of a collection are already grouped by image")
    return read_groups(file)


def _qrels(spec: str, runs: Sequence[Path], directions: Sequence[str]) -> tuple[Source, Judgements, list[str]]:
    from limner.datasets.trec import read_qrels

    if directions:
        raise typer.BadParameter("--direction with a qrels file: it has no images and texts; leave it out")
    if len(runs) > 1:
        raise typer.BadParameter(
            f"got {len(runs)} runs for one qrels file: evaluate them one by one with -o, then 'limner compare'"
        )
    path = Path(spec.removeprefix("qrels:"))
    return read_run(runs[0]), read_qrels(path, name=path.stem), []


def _name(way: SystemOptions, correct: str | None) -> str:
    """The default name of a system in a report: its name or file, plus its correction."""
    return f"{way.label} + {correct}" if correct else way.label


def _measured(source: Any, truth: Any, name: str, notes: list[str], how: dict[str, Any]) -> Report:
    import limner
    from limner.evaluation.inputs import directions

    if isinstance(truth, limner.Collection):
        source = directions(source, truth, "i2t" if _is_images_by_texts(source, truth) else None)
    with progress(f"evaluating {name}") as told:
        report = limner.evaluate(source, truth, name=name, progress=told, **how)
        told.step("computing confidence intervals", "results")
        for number, result in enumerate(report.results, start=1):
            _ = result.interval  # it is kept; the printed and the saved report need it
            told(number, len(report.results))
    return replace(report, notes=(*report.notes, *notes))


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
