"""Captions measured by their own metrics: those of systems, and those that people judged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from limner.cli.console import progress
from limner.cli.options import text_option
from limner.core.errors import LimnerError, shown

if TYPE_CHECKING:
    from limner.cli.inputs import SystemOptions
    from limner.core.collection import Collection, Items
    from limner.datasets.candidate_captions import CandidateCaptions
    from limner.evaluation.captions.caption_metrics import CaptionMetric, MetricInputs
    from limner.evaluation.captions.caption_report import CaptionReport
    from limner.evaluation.captions.rating_agreement import AgreementReport


def captions(
    system: SystemOptions, collection: Collection, options: dict[str, Any], *, split: str | None, metrics: str | None
) -> CaptionReport:
    """The captions of systems, one file each, against the texts of a collection."""
    from dataclasses import replace

    from limner.cli.options import part
    from limner.datasets.candidate_captions import read_candidates
    from limner.evaluation.captions.caption_report import evaluate_captions

    if not system.runs:
        raise typer.BadParameter("captions needs captions to evaluate: give --run captions.json, for each system one")
    chosen = part(collection, split)
    systems = []
    for name, file in map(_named_file, system.runs):
        candidates = read_candidates(file, chosen, full=collection)
        systems.append(replace(candidates, name=name or candidates.name))
    inputs = _inputs(systems, chosen.images, system, options)
    listed = _metrics(metrics, inputs)
    with progress("scoring captions", "metrics") as step:
        return evaluate_captions(inputs, listed, name=chosen.name, progress=step)


def caption_metrics(
    system: SystemOptions, source: str, options: dict[str, Any], *, metrics: str | None
) -> AgreementReport:
    """How well metrics agree with people on judged captions."""
    from limner.datasets.candidate_captions import read_judged
    from limner.evaluation.captions.rating_agreement import metric_agreement

    with progress(f"loading {source}"):
        judged = read_judged(source, own=text_option(options, "own"))
    (inputs,) = _inputs([judged], _images(judged, source, options), system, options)
    scores = {}
    listed = _metrics(metrics, [inputs])
    with progress("scoring captions", "metrics") as step:
        for number, metric in enumerate(listed, 1):
            scores[metric.name] = metric.of(inputs)
            step(number, len(listed))
    with progress("correlating with people", "correlations") as step:
        return metric_agreement(
            judged,
            scores,
            coefficient=text_option(options, "coefficient"),
            aggregation=text_option(options, "aggregation"),
            progress=step,
        )


def refuse_unknown(metrics: str | None) -> None:
    """Refuses an unknown metric before anything is read."""
    from limner.evaluation.captions.caption_metrics import caption_metrics as named_metrics

    if metrics is not None:
        named_metrics(metrics, frozenset())


def _named_file(word: str) -> tuple[str, str]:
    """NAME=FILE, or a file alone; a file whose own name has a = comes first."""
    name, equals, file = word.partition("=")
    return (name, file) if equals and not Path(word).exists() else ("", word)


def _metrics(names: str | None, inputs: Sequence[MetricInputs]) -> list[CaptionMetric]:
    from limner.evaluation.captions.caption_metrics import caption_metrics as named_metrics

    return named_metrics(names, frozenset.intersection(*(each.sources for each in inputs)))


def _images(judged: CandidateCaptions, source: str, options: dict[str, Any]) -> Items:
    """The judged images; their files are in the folder, if one is named."""
    from limner.core.collection import Items
    from limner.core.ids import Ids

    ids = Ids(dict.fromkeys(judged.images), what="image")
    folder = options.get("images")
    if folder is None:
        return Items(ids, [None] * len(ids))
    files = [Path(str(folder), image) for image in ids]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise LimnerError(f"-O images={folder}: {len(missing):,} images of {source} are not there ({shown(missing)})")
    return Items(ids, list(map(str, files)))


def _inputs(
    systems: Sequence[CandidateCaptions], images: Items, system: SystemOptions, options: dict[str, Any]
) -> list[MetricInputs]:
    """The captions with what the encoder and the pair scorer say of them, if they are named."""
    from limner.evaluation.captions.caption_metrics import MetricInputs, encoder_cosines

    scorer = text_option(options, "scorer")
    if (system.system or scorer) and all(value is None for value in images.values):
        raise typer.BadParameter("--model and -O scorer read the images themselves: give -O images=DIR")
    encode = None if system.system is None else _encoder(system, images)
    return [
        MetricInputs(
            candidates,
            None if encode is None else encoder_cosines(candidates, images, encode),
            None if scorer is None else _pair_scores(candidates, images, scorer),
        )
        for candidates in systems
    ]


def _encoder(system: SystemOptions, images: Items) -> Any:
    """A function from items to vectors, by a model with one space for images and texts; images are encoded once."""
    from functools import lru_cache

    from limner.cli.inputs import encoded_by_model
    from limner.systems.opening import find_system

    name = str(system.system)
    spec = find_system(name, trust=system.trust, cache=system.cache, encoder=True)
    model = spec.trained(_no_training(images), stage=progress)
    encode = lru_cache(maxsize=None)(lambda ids: encoded_by_model(name, model, (images.subset(ids),))[0])
    return lambda items: (
        encode(tuple(items.ids)) if items.kind == "image" else encoded_by_model(name, model, (items,))[0]
    )


def _no_training(images: Items) -> Any:
    """Nothing to train on: only saved models and encoders score captions."""
    from limner.systems.hold_out import Division

    collection = _pairless(images, [""])
    return Division(collection, None, collection)


def _pairless(images: Items, texts: Sequence[str]) -> Collection:
    from limner.core.collection import Collection, Items
    from limner.core.ids import Ids
    from limner.core.judgements import Judgements

    items = Items(Ids(f"text {row}" for row in range(len(texts))), texts, kind="text")
    return Collection("captions", images, items, Judgements.from_pairs([], queries=images.ids, candidates=items.ids))


def _pair_scores(candidates: CandidateCaptions, images: Items, name: str) -> Any:
    import numpy as np

    from limner.cli.commands.match import opened_scorer, scorer_queries
    from limner.core.progress import progress_for

    scorer = opened_scorer(name, trust=False)
    queries = dict(zip(images.ids, scorer_queries(scorer, _pairless(images, [""]), None), strict=True))
    with progress(f"scoring {len(candidates):,} captions with {name}", "captions") as step:
        pairs = [queries[image] for image in candidates.images], list(candidates.captions)
        return np.asarray(scorer.score_pairs(*pairs, **progress_for(scorer.score_pairs, step)), dtype=np.float64)
