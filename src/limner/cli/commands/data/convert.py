"""limner data convert: writes a collection in another format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from limner.cli.commands.data.describe import Spec
from limner.cli.console import answer, progress, tell
from limner.cli.options import Json, Loading, command_options, load, part, text_option, word, writable
from limner.core.progress import Progress

if TYPE_CHECKING:
    from limner.core.collection import Collection

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
    from limner.annotate.label_studio import IMAGE_URL, collection_tasks, write_tasks

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
