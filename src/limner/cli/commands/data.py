"""limner data: describe, convert and audit collections; 'limner list datasets' names the formats."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from limner.cli.console import answer, progress, table, tell
from limner.cli.inputs import IdFiles, SystemOptions
from limner.cli.options import (
    Json,
    Loading,
    by_ending,
    command_options,
    flag,
    load,
    loading,
    out_word,
    part,
    refuse_ending,
    saved,
    switch,
    text_option,
    whole_numbers,
    word,
    writable,
)
from limner.cli.shell import Status
from limner.core.options import OptionValues
from limner.core.progress import SILENT, Progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from limner.core.collection import Collection


Spec = Annotated[
    str,
    typer.Argument(
        metavar="COLLECTION", help="scenes, flickr8k:DIR, captions.csv, a folder, ...: see 'limner list datasets'."
    ),
]


def describe(
    spec: Spec,
    split: Annotated[str | None, word("Only this split.")] = None,
    option: Loading = None,
    strict: Annotated[bool, flag("--strict", "Exit with status 1 if there are warnings.")] = False,
    as_json: Json = False,
) -> None:
    """Count the items of a collection, show an example, and list all warnings.

    -O check_images=true opens every image, and lists those that cannot be opened.

    Examples:
      $ limner data describe scenes -O images=100
      $ limner data describe captions.csv -O check_images=true --strict
    """
    settings, loader = command_options(option, "describe")
    checks = switch(settings, "check_images")
    with progress(f"loading {spec}") as step:
        full_collection = _loaded(spec, loader, step if checks else SILENT)
    chosen = full_collection if split is None else part(full_collection, split)
    counts = {**chosen.describe(), "warnings": list(chosen.warnings), "example": _example(chosen)}
    answer(_described(counts), counts, as_json=as_json)
    if strict and chosen.warnings:
        raise typer.Exit(Status.FAILED_CHECK)


def _loaded(spec: str, words: list[str] | None, check: Progress) -> Collection:
    """Loads without showing warnings, which `describe` lists itself; with `check`, opens every image."""
    import limner

    checking: OptionValues = {} if check is SILENT else {"check_images": lambda rows: _counted(list(rows), check)}
    return limner.load(spec, **loading(words), **checking)


def _counted(rows: list[object], step: Progress) -> Iterator[object]:
    for number, row in enumerate(rows):
        step(number, len(rows))
        yield row


def _example(collection: Collection) -> dict[str, object] | None:
    """The first image with its texts."""
    pairs = collection.judgements.relevant
    if not len(pairs):
        return None
    first = int(pairs.rows[0])
    columns = pairs.columns[pairs.rows == first][:5]
    return {"image": collection.images.ids[first], "texts": [collection.texts.values[int(c)] for c in columns]}


def _described(counts: OptionValues) -> str:
    per_image, example = counts["texts per image"], counts["example"]
    spread = (
        f"{per_image['least']} to {per_image['most']}" if per_image["least"] != per_image["most"] else per_image["most"]
    )
    rows = [
        ("images", f"{counts['images']:,}"),
        ("texts", f"{counts['texts']:,} ({spread} per image)"),
        *((f"judgements '{name}'", f"{size:,} relevant pairs") for name, size in counts["judgements"].items()),
        *((f"split '{name}'", f"{size:,} images") for name, size in counts["splits"].items()),
        ("warnings", str(len(counts["warnings"]))),
    ]
    lines = [counts["name"], table(rows, indent="  ")]
    if example:
        lines += [f"  for example {example['image']}:", *(f"    {text}" for text in example["texts"])]
    return "\n".join([*lines, *(f"  warning: {warning}" for warning in counts["warnings"])])


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


def _scored(options: SystemOptions, full_collection: Collection, chosen: Collection) -> OptionValues:
    """The scores of all images and texts, and the vectors of the images, if files were given."""
    if not (options.images or options.texts or options.scores):
        return {}
    scores: Any = options.open_on(full_collection, chosen).scores
    vectors = {"vectors": scores.query_vectors.matrix} if options.kind == "embeddings" else {}
    return {"scores": scores.matrix(), **vectors}


FORMS = {
    "csv": ".csv",
    "tsv": ".tsv",
    "jsonl": ".jsonl",
    "parquet": ".parquet",
    "qrels": ".qrels",
    "webdataset": ".tar",
    "folder": "",
    "beir": "",
    "clip-retrieval": "",
    "croissant": "",
    "huggingface": "",
    "label-studio": ".json",
}


def convert(
    spec: Spec,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Output file; a name without an ending means a folder.")],
    to: Annotated[
        str | None, word(f"Format; by default from the file ending: {', '.join(FORMS)}.", metavar="FORM")
    ] = None,
    images: Annotated[
        Path | None, word("For clip-retrieval: embeddings of the images; unit vectors are written.", metavar="FILE")
    ] = None,
    texts: Annotated[Path | None, word("For clip-retrieval: embeddings of the texts.", metavar="FILE")] = None,
    image_url: Annotated[
        str | None, word("For label-studio: address of an image, with {image} for its id.", metavar="URL")
    ] = None,
    about: Annotated[
        list[str] | None,
        word("For croissant: license, url, version, creator, citeAs, ... Repeatable.", metavar="KEY=VALUE"),
    ] = None,
    split: Annotated[str | None, word("Only this split.")] = None,
    option: Loading = None,
    as_json: Json = False,
) -> None:
    """Convert a collection to another format: csv, tsv, jsonl, parquet, qrels, a folder of images, BEIR, ...

    clip-retrieval gets the embeddings as unit vectors. label-studio gets a task per judged pair, with its grade as a
    prediction. croissant gets a folder of tables and images with croissant.json, which mlcroissant opens. huggingface
    gets a folder that datasets.load_from_disk opens. -O translator=NAME translates captions and names of images.

    Examples:
      $ limner data convert flickr8k:DIR flickr8k.parquet
      $ limner data convert flickr8k:DIR flickr8k-beir --to beir --split test
      $ limner data convert flickr8k:DIR out --to clip-retrieval --images I.npy --texts T.npy
      $ limner data convert scenes world --to folder -O images=100
      $ limner data convert scenes pairs.qrels --split test
      $ limner data convert wit:DIR english.jsonl -O translator=Helsinki-NLP/opus-mt-mul-en
      $ limner data convert scenes world --to croissant --about license=CC-BY-4.0
      $ limner data convert scenes tasks.json --to label-studio --image-url "/data/local-files/?d=photos/{image}"
    """
    for name, value, form in (("--image-url", image_url, "label-studio"), ("--about", about, "croissant")):
        if value and to != form:
            raise typer.BadParameter(f"{name} is for --to {form}")
    if (images is None or texts is None) if to == "clip-retrieval" else (images or texts):
        raise typer.BadParameter("--images and --texts are for --to clip-retrieval, which needs both")
    target = writable(_target(out, to))
    settings, loader = command_options(option, "convert")
    translator = text_option(settings, "translator")
    full_collection = load(spec, loader)
    chosen = full_collection if split is None else part(full_collection, split)
    if translator is not None:
        chosen = _translated(chosen, translator)
    with progress(f"writing {target}", "images") as step:
        if to == "label-studio":
            lost = _as_tasks(chosen, target, image_url)
        elif to == "croissant":
            lost = _as_croissant(chosen, target, about or [], step)
        else:
            lost = _written(chosen, target, to, images, texts, full_collection, step)
    for sentence in lost:
        tell(f"warning: {sentence}")
    data = {"wrote": str(target), "images": len(chosen.images), "texts": len(chosen.texts), "left_out": list(lost)}
    answer(f"wrote {target}: {len(chosen.images):,} images, {len(chosen.texts):,} texts", data, as_json=as_json)


def _translated(chosen: Collection, translator: str) -> Collection:
    """The collection with the captions and names of a translator, which is named as in `DIR(beams=1)`."""
    from limner.core.options import checked, parsed_call
    from limner.encoders.encoder_decoders import Translator
    from limner.papers.corpora import translated

    model, options = parsed_call(translator, what="translator")
    with progress("loading the translator"):
        translate = Translator(**checked(Translator, {"model": model, **options}, what="translator"))
    with progress(f"translating {len(chosen.texts):,} captions and {len(chosen.images):,} names", "texts") as step:
        return translated(chosen, lambda texts: translate(texts, progress=step))


def _written(
    chosen: Collection,
    target: Path,
    to: str | None,
    images: Path | None,
    texts: Path | None,
    full_collection: Collection,
    step: Progress,
) -> tuple[str, ...]:
    """Writes a collection; returns what the form cannot hold."""
    if to != "clip-retrieval":
        from limner.datasets import write

        return write(chosen, target, form=to if to in ("beir", "huggingface") else None, progress=step)
    from limner.cli.inputs import SystemOptions
    from limner.datasets.clip_retrieval import write_clip_retrieval

    scores: Any = SystemOptions(images, texts).open_on(full_collection, chosen).scores
    return write_clip_retrieval(chosen, scores.query_vectors, scores.candidate_vectors, target)


def _as_tasks(chosen: Collection, target: Path, image_url: str | None) -> tuple[str, ...]:
    """Writes tasks of Label Studio; returns what they cannot hold."""
    from limner.annotate.labelling_tools import IMAGE_URL, collection_tasks, write_tasks

    write_tasks(collection_tasks(chosen, image_url=image_url or IMAGE_URL), target)
    lost = {"splits were left out": chosen.splits, "further judgements were left out": chosen.extra or chosen.reverse}
    return tuple(sentence for sentence, true in lost.items() if true)


def _as_croissant(chosen: Collection, target: Path, about: list[str], step: Progress) -> tuple[str, ...]:
    """Writes a Croissant folder; returns what it cannot hold."""
    from limner.datasets.croissant_writing import write_croissant

    metadata = {name: value for name, _, value in (each.partition("=") for each in about)}
    if not all(metadata.values()):
        raise typer.BadParameter(f"--about got {', '.join(about)!r}: expected KEY=VALUE, such as license=CC-BY-4.0")
    return write_croissant(chosen, target, about=metadata, progress=step)


def _target(out: Path, to: str | None) -> Path:
    """The path with the file ending of its format."""
    from limner.core.errors import LimnerError, UnknownName

    if to is None:
        return out
    if to not in FORMS:
        raise UnknownName("form", to, FORMS)
    if out.suffix not in ("", FORMS[to]):
        raise LimnerError(
            f"{out} ends in {out.suffix!r}, but --to {to} writes {FORMS[to] or 'a folder'!r}: leave one out"
        )
    return out.with_suffix(FORMS[to])


app = typer.Typer(
    no_args_is_help=True, help="Describe, convert and audit collections ('limner list datasets' names what is read)."
)
app.command("describe")(describe)
app.command("convert")(convert)
app.command("audit")(audit)
