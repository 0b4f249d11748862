"""limner evaluate: evaluate a system on a collection, from embeddings, scores, runs or models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from limner.cli.attached_options import TASK_OPTIONS, task_of
from limner.cli.commands.evaluate import captions, one_system, tasks
from limner.cli.commands.evaluate.one_system import Correct
from limner.cli.console import answer
from limner.cli.inputs import SYSTEM, IdFiles, SystemOptions, system_word
from limner.cli.options import (
    Address,
    Json,
    Loading,
    Split,
    Trust,
    by_ending,
    cache_word,
    chosen_options,
    command_options,
    files_of,
    installed_store,
    load,
    named_options,
    out_word,
    own_options,
    part,
    refuse_ending,
    refuse_report_ending,
    saved,
    store_and_mode,
    text_option,
    word,
)
from limner.core.errors import UnknownName
from limner.core.options import OptionValues

COLLECTION = "scenes, flickr8k:DIR, captions.csv, a folder, a qrels file, ...: see 'limner list datasets'."
WHAT = "scenes, flickr8k:DIR, captions.csv, a folder, a qrels file, ... ('limner list datasets'); or TASK:COLLECTION."
ALL_USE = {"collection", "option", "measures", "output", "trust", "as_json"}
USED = {
    "languages": {"images", "texts", "scores", "model", "cache", "ids", "split", "name"},
    "composed": {"images", "texts", "scores", "model", "name"},
    "text-only": {"model", "cache", "split"},
    "captions": {"model", "run", "cache", "split"},
    "caption-metrics": {"model", "cache"},
}
"""The options that a task uses, besides those that all use."""
INPUT, HOW, RESULT = "The system", "Measuring", "Output"

Models = Annotated[
    list[str] | None, system_word(f"{SYSTEM[0].upper()}{SYSTEM[1:]} Several are compared.", rich_help_panel=INPUT)
]
Images = Annotated[
    Path | None,
    word("Or embeddings: npy, npz, safetensors, parquet.", metavar="FILE", rich_help_panel=INPUT),
]
Texts = Annotated[Path | None, word("Embeddings of the texts.", metavar="FILE", rich_help_panel=INPUT)]
Scores = Annotated[
    Path | None, word("Or a similarity matrix, images by texts: npy.", metavar="FILE", rich_help_panel=INPUT)
]
Runs = Annotated[
    list[str] | None,
    word(
        "Or a run: TREC, JSON, MTEB's predictions, a table; twice for both directions.",
        metavar="[WAY=]FILE",
        rich_help_panel=INPUT,
    ),
]
Cache = Annotated[Path | None, cache_word("Cache folder for vectors of a --model.", False, rich_help_panel=INPUT)]
Name = Annotated[str | None, word("Name of the system in the report.", rich_help_panel=RESULT)]
Beside = Annotated[
    list[Path] | None,
    word("Extra judgements, a qrels file: a view of their own. Repeatable.", metavar="FILE", rich_help_panel=HOW),
]
Measures = Annotated[
    str | None,
    word("Such as 'R@1 nDCG@5 my_module:RBP'.", metavar="LIST", rich_help_panel=HOW),
]
Protocols = Annotated[list[str] | None, word("See 'limner list protocols'. Repeatable.", rich_help_panel=HOW)]
Ties = Annotated[str, word("Equal scores: expected, order or pessimistic.", metavar="HOW", rich_help_panel=HOW)]
Missing = Annotated[
    list[str] | None,
    word(
        "What a run lacks: refuse it; never (candidates, not found); empty, skip (queries).",
        metavar="HOW",
        rich_help_panel=HOW,
    ),
]
EstimateFrom = Annotated[
    str | None,
    word(
        "Answers to 'limner annotate plan': estimates; -O mode=anytime for many looks.",
        metavar="STORE",
        callback=installed_store,
        rich_help_panel=HOW,
    ),
]
By = Annotated[
    list[str] | None,
    word("Break down by a field of the queries, such as language. Repeatable.", metavar="FIELD", rich_help_panel=HOW),
]
Output = Annotated[
    list[Path] | None,
    out_word(
        "Write .json .csv .md .tex .txt .html, figures .pdf .svg .png, the bank's statistics .npz. Repeatable.",
        rich_help_panel=RESULT,
    ),
]


def evaluate(
    context: typer.Context,
    collection: Annotated[str, typer.Argument(metavar="COLLECTION", help=WHAT)],
    model: Models = None,
    images: Images = None,
    texts: Texts = None,
    ids: IdFiles = None,
    scores: Scores = None,
    run: Runs = None,
    cache: Cache = None,
    split: Split = None,
    option: Loading = None,
    judgements: Beside = None,
    measures: Measures = None,
    protocol: Protocols = None,
    correct: Correct = None,
    ties: Ties = "expected",
    missing: Missing = None,
    estimate: EstimateFrom = None,
    by: By = None,
    name: Name = None,
    output: Output = None,
    cluster: Address = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Evaluate a system against relevance judgements, with intervals, in both directions.

    TASK is languages (one by one, and their mean), composed (queries of an image and words: a file like CIRR's),
    text-only (by one caption among the others), per-image:N (embeddings in order), captions (captions of systems,
    --run [NAME=]FILE, by BLEU, CIDEr, CLIPScore, ...), or caption-metrics (how well these agree with people, on
    flickr8k-expert:DIR, flickr8k-cf:DIR or a table with image, caption, references and ratings).

    Examples:
      $ limner evaluate scenes --model histograms -o report.html
      $ limner evaluate captions.csv --images images.npy --texts texts.npy
      $ limner evaluate per-image:5 --images images.npy --texts texts.npy
      $ limner evaluate flickr8k:DIR --run t2i.run --missing never
      $ limner evaluate flickr8k:DIR --model openai/clip-vit-base-patch32 --model clip-b/
      $ limner evaluate scenes --model histograms --correct csls -O tune=dev
      $ limner evaluate languages:xtd10:DIR -O images=val2014 --model clip-a/
      $ limner evaluate composed:cap.val.json -O images=img_raw --model clip-a/
      $ limner evaluate text-only:flickr8k:DIR -O corpus=joined --model minilm
      $ limner evaluate captions:coco:DIR --run a.json --run b.json
      $ limner evaluate caption-metrics:flickr8k-expert:DIR
    """
    task, spec = task_of(collection)
    _refuse_unknown(task, measures, protocol or (), correct)
    models = model or []
    evaluate_options, option = command_options(option, "evaluate")
    features = text_option(evaluate_options, "features")
    system = SystemOptions(images, texts, ids or (), scores, run or (), None, trust, features, cache)
    if task in USED:
        _refuse_unused(task, chosen_options(context), models)
        system = replace(system, system=models[0] if models else None)
        return _task_result(task, spec, system, option, split, measures, name, output or [], as_json=as_json)
    statistics, files = by_ending(output, ".npz")
    refuse_report_ending(files)
    _refuse_several(models, name, statistics, by)
    bank = files_of(str(evaluate_options["bank"])) if "bank" in evaluate_options else []
    correction = {"correction": correct, "bank": bank, "keep": statistics}  # bank: other queries, to find hubs by
    settings = {"measures": measures, "protocol": protocol or None, "ties": ties} | _missing_rules(missing or [])
    store, mode = store_and_mode(estimate)
    reports, parts = one_system.evaluated(
        None if task else spec,
        [replace(system, system=each) for each in models] or [system],
        per_image=_per_image(spec) if task else None,
        loader=option,
        split=split,
        groups=evaluate_options.get("groups"),
        judgements=judgements or [],
        estimate=store,
        correction=correction if any(correction.values()) else {},
        by=by or [],
        name=name,
        cluster=cluster,
        files=files,
        settings=settings | {"mode": mode},
    )
    return one_system.printed(reports, parts, as_json=as_json)


def _refuse_unknown(task: str, measures: str | None, protocols: Sequence[str], correction: str | None) -> None:
    """Refuses unknown names before anything is read; captions have metrics of their own."""
    if task in ("captions", "caption-metrics"):
        captions.refuse_unknown(measures)
    else:
        one_system.refuse_unknown(measures, protocols, correction)


def _per_image(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not int(text):
        raise typer.BadParameter(f"per-image:{text}: expected the number of texts per image, such as per-image:5")
    return int(text)


def _refuse_unused(task: str, chosen: list[str], models: list[str]) -> None:
    unused = [name for name in chosen if name not in ALL_USE | USED[task]]
    if unused:
        names = " and ".join("--" + name.replace("_", "-") for name in unused)
        raise typer.BadParameter(f"{names} with {task}: it is not used there; leave it out")
    if len(models) > 1:
        raise typer.BadParameter(f"got {len(models)} models with {task}: give one")


def _refuse_several(models: list[str], *single: object) -> None:
    if len(models) > 1 and any(single):
        raise typer.BadParameter("--name, --by and -o FILE.npz work with a single --model: leave them out")


def _task_result(
    task: str,
    spec: str,
    system: SystemOptions,
    option: list[str] | None,
    split: str | None,
    measures: str | None,
    name: str | None,
    files: list[Path],
    *,
    as_json: bool,
) -> None:
    """Prints and writes the result of a task other than the evaluation of a collection."""
    from limner.evaluation.tables import FORMATS, TableReport

    if task == "text-only":
        refuse_report_ending(by_ending(files, tasks.RUN)[1])
        if system.system is None:
            raise typer.BadParameter("text-only needs an encoder of texts: give --model")
        task_options, loader = own_options(option, TASK_OPTIONS["text-only"])
        chosen = part(load(spec, loader), split)
        settings: OptionValues = {"measures": measures, "cache": system.cache, "files": files, "trust": system.trust}
        return answer(*tasks.text_only(chosen, system.system, task_options, **settings), as_json=as_json)
    refuse_ending(files, tuple(FORMATS), "table")
    result: TableReport
    if task == "languages":
        task_options, loader = own_options(option, TASK_OPTIONS["languages"])
        full_collection = load(spec, loader)
        result = tasks.languages(system, full_collection, task_options, split=split, measures=measures, name=name)
    elif task == "captions":
        task_options, loader = own_options(option, TASK_OPTIONS["captions"])
        result = captions.captions(system, load(spec, loader), task_options, split=split, metrics=measures)
    elif task == "caption-metrics":
        task_options = named_options(option, TASK_OPTIONS["caption-metrics"], of="caption-metrics")
        result = captions.caption_metrics(system, spec, task_options, metrics=measures)
    else:
        task_options = named_options(option, TASK_OPTIONS["composed"], of="composed")
        result = tasks.composed(system, spec, task_options, measures=measures, name=name)
    saved([result.save(file) for file in files])
    return answer(result, result.describe(), as_json=as_json)


def _missing_rules(words: list[str]) -> dict[str, str]:
    """What to do about candidates and queries that a run lacks."""
    rules: dict[str, str] = {}
    for each in words:
        if each not in ("refuse", "never", "empty", "skip"):
            raise UnknownName("way to treat what is missing", each, ("refuse", "never", "empty", "skip"))
        rules["unretrieved" if each == "never" else "missing"] = each
    return {"unretrieved": "refuse", "missing": "refuse", **rules}
