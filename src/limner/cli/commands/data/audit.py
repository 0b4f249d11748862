"""limner data audit: finds defects in a collection before anything is measured on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from limner.cli.console import answer, progress
from limner.cli.errors import Status
from limner.cli.inputs import IdFiles, SystemOptions
from limner.cli.options import (
    Json,
    Loading,
    by_ending,
    command_options,
    flag,
    load,
    out_word,
    part,
    refuse_ending,
    saved,
    switch,
    whole_numbers,
    word,
)

if TYPE_CHECKING:
    from limner.core.collection import Collection


def audit(
    collection: Annotated[
        str,
        typer.Argument(metavar="COLLECTION", help="scenes, captions.csv, ...: see 'limner list datasets'."),
    ],
    split: Annotated[str | None, word("Only this split; leakage needs all of them.")] = None,
    option: Loading = None,
    images: Annotated[Path | None, word("Embeddings of the images, for labels.", metavar="FILE")] = None,
    texts: Annotated[Path | None, word("Embeddings of the texts.", metavar="FILE")] = None,
    scores: Annotated[Path | None, word("Or a similarity matrix, images by texts: npy.", metavar="FILE")] = None,
    ids: IdFiles = None,
    judgements: Annotated[
        list[Path] | None,
        word("Further judgements of some images, qrels: missing matches are estimated. Repeatable.", metavar="FILE"),
    ] = None,
    strict: Annotated[bool, flag("--strict", "Exit with status 1 if there is an error or a warning.")] = False,
    save: Annotated[
        list[Path] | None,
        out_word(
            "Write findings: .json .csv .md .tex .txt .html; the repaired judgements: .qrels; ids to leave out: .ids. "
            "Repeatable."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Look for duplicates, leakage between splits, repeated captions, wrong labels, broken images and more.

    Wrong, permuted and shifted labels need scores of a system that was not trained on these pairs. Images
    with a side shorter than -O min_side=32 are tiny; -O check_images=false checks only texts and labels.

    Examples:
      $ limner data audit scenes -O images=100
      $ limner data audit captions.csv --strict -o findings.csv
      $ limner data audit captions.csv -o audit.html
      $ limner data audit flickr8k:DIR --images images.npy --texts texts.npy
      $ limner data audit captions.csv --judgements people.qrels
      $ limner data audit captions.csv -o repaired.qrels -o leave-out.ids
    """
    from limner.core.files import write_text
    from limner.datasets.trec import write_qrels
    from limner.evaluation.partial_judgements import read_judgements, with_judgements
    from limner.explain.audit import audit as run_audit
    from limner.explain.audit.audit_run import AUDIT_FORMATS

    repaired, files = by_ending(save, ".qrels")
    left_out, files = by_ending(files, ".ids")
    refuse_ending(files, tuple(AUDIT_FORMATS), "audit")
    settings, loader = command_options(option, "audit")
    whole_numbers(settings, min_side=1)
    look, min_side = switch(settings, "check_images", default=True), settings.get("min_side", 32)
    full_collection = load(collection, loader)
    chosen = full_collection if split is None else part(full_collection, split)
    if judgements:
        chosen = with_judgements(chosen, read_judgements(judgements))[0]
    score_arguments = _scored(SystemOptions(images, texts, ids or (), scores), full_collection, chosen)
    with progress(f"auditing {chosen.name}") as step:
        findings = run_audit(chosen, min_side=min_side, look=look, progress=step, **score_arguments)
    written = [findings.save(file, collection=chosen if look else None) for file in files]
    for file in repaired:
        write_qrels(findings.repaired, file)
    for file in left_out:
        write_text(file, "".join(f"{item}\n" for item in findings.leave_out))
    saved([*written, *repaired, *left_out])
    answer(findings, findings.describe(), as_json=as_json)
    if strict and not findings.sound:
        raise typer.Exit(Status.FAILED_CHECK)


def _scored(options: SystemOptions, full_collection: Collection, chosen: Collection) -> dict[str, Any]:
    """The scores of all images and texts, and the vectors of the images, if files were given."""
    if not (options.images or options.texts or options.scores):
        return {}
    scores: Any = options.open_on(full_collection, chosen).scores
    vectors = {"vectors": scores.query_vectors.matrix} if options.kind == "embeddings" else {}
    return {"scores": scores.matrix(), **vectors}
