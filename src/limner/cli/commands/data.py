"""limner data: list, describe and convert collections, and show download instructions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from limner.cli.console import answer, progress, table, tell
from limner.cli.errors import Status
from limner.cli.options import Json, Loading, flag, load, loading, part, word, writable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from limner.core.collection import Collection
    from limner.scores import Progress

app = typer.Typer(no_args_is_help=True, help="List, describe and convert collections of images and texts.")
Spec = Annotated[
    str,
    typer.Argument(metavar="COLLECTION", help="scenes, flickr8k:DIR, captions.csv, a folder, ...: see 'data list'."),
]
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


@app.command("list")
def list_(as_json: Json = False) -> None:
    """List the data sets and file formats that limner reads.

    Examples:
      $ limner data list
      $ limner data list --json
    """
    from limner.datasets import datasets

    rows = [{"name": d.name, "description": d.description, "needs_path": d.needs_path} for d in datasets()]
    lines = [(d.name + (":PATH" if d.needs_path else ""), d.description) for d in datasets()]
    more = "\n\nA path alone is enough if the format can be detected; a custom loader is module:function:PATH."
    answer(table(lines) + more, {"datasets": rows}, as_json=as_json)


@app.command()
def describe(
    spec: Spec,
    split: Annotated[str | None, word("Only this split.")] = None,
    option: Loading = None,
    check_images: Annotated[
        bool, flag("--check-images", "Open every image; list those that cannot be opened.")
    ] = False,
    strict: Annotated[bool, flag("--strict", "Exit with status 1 if there are warnings.")] = False,
    as_json: Json = False,
) -> None:
    """Count the items of a collection, show an example, and list all warnings.

    Examples:
      $ limner data describe scenes -O images=100
      $ limner data describe captions.csv --check-images --strict
    """
    with progress(f"loading {spec}") as told:
        whole = _loaded(spec, option, told if check_images else None)
    chosen = whole if split is None else part(whole, split)
    counts = {**chosen.describe(), "warnings": list(chosen.warnings), "example": _example(chosen)}
    answer(_described(counts), counts, as_json=as_json)
    if strict and chosen.warnings:
        raise typer.Exit(Status.FAILED_CHECK)


@app.command("fetch-instructions")
def fetch_instructions(
    name: Annotated[str, typer.Argument(help="A name of 'data list'.")], as_json: Json = False
) -> None:
    """Show where to get a data set and where to put it; limner does not download it.

    Examples:
      $ limner data fetch-instructions flickr8k
    """
    from limner.datasets import dataset

    entry = dataset(name)
    usage = f"limner data describe {entry.name}" + (":DIR" if entry.needs_path else "")
    files = f"\nFiles: {', '.join(entry.files)}" if entry.files else ""
    text = f"{entry.name}: {entry.description}\n\n{entry.fetch}{files}\nThen: {usage}"
    data = {
        "name": entry.name,
        "description": entry.description,
        "fetch": entry.fetch,
        "files": entry.files,
        "then": usage,
    }
    answer(text, data, as_json=as_json)


@app.command()
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
    gets a folder that datasets.load_from_disk opens.

    Examples:
      $ limner data convert flickr8k:DIR flickr8k.parquet
      $ limner data convert flickr8k:DIR flickr8k-beir --to beir --split test
      $ limner data convert flickr8k:DIR out --to clip-retrieval --images I.npy --texts T.npy
      $ limner data convert scenes world --to folder -O images=100
      $ limner data convert scenes pairs.qrels --split test
      $ limner data convert scenes world --to croissant --about license=CC-BY-4.0
      $ limner data convert scenes tasks.json --to label-studio --image-url "/data/local-files/?d=photos/{image}"
    """
    for name, given, form in (("--image-url", image_url, "label-studio"), ("--about", about, "croissant")):
        if given and to != form:
            raise typer.BadParameter(f"{name} is for --to {form}")
    if (images is None or texts is None) if to == "clip-retrieval" else (images or texts):
        raise typer.BadParameter("--images and --texts are for --to clip-retrieval, which needs both")
    target = writable(_target(out, to))
    whole = load(spec, option)
    chosen = whole if split is None else part(whole, split)
    with progress(f"writing {target}", "images") as told:
        if to == "label-studio":
            lost = _as_tasks(chosen, target, image_url)
        elif to == "croissant":
            lost = _as_croissant(chosen, target, about or [], told)
        else:
            lost = _written(chosen, target, to, images, texts, whole, told)
    for sentence in lost:
        tell(f"warning: {sentence}")
    data = {"wrote": str(target), "images": len(chosen.images), "texts": len(chosen.texts), "left_out": list(lost)}
    answer(f"wrote {target}: {len(chosen.images):,} images, {len(chosen.texts):,} texts", data, as_json=as_json)


def _written(
    chosen: Collection,
    target: Path,
    to: str | None,
    images: Path | None,
    texts: Path | None,
    whole: Collection,
    told: Progress,
) -> tuple[str, ...]:
    """Writes a collection; returns what the form cannot hold."""
    if to != "clip-retrieval":
        from limner.datasets import write

        return write(chosen, target, form=to if to in ("beir", "huggingface") else None, progress=told)
    from limner.cli.inputs import Way, opened
    from limner.datasets.clip_retrieval import write_clip_retrieval

    scores: Any = opened(Way(images, texts), whole, chosen)
    return write_clip_retrieval(chosen, scores.query_vectors, scores.candidate_vectors, target)


def _as_tasks(chosen: Collection, target: Path, image_url: str | None) -> tuple[str, ...]:
    """Writes tasks of Label Studio; returns what they cannot hold."""
    from limner.annotate.label_studio import IMAGE_URL, collection_tasks, write_tasks

    write_tasks(collection_tasks(chosen, image_url=image_url or IMAGE_URL), target)
    lost = {"splits were left out": chosen.splits, "further judgements were left out": chosen.extra or chosen.reverse}
    return tuple(said for said, true in lost.items() if true)


def _as_croissant(chosen: Collection, target: Path, about: list[str], told: Progress) -> tuple[str, ...]:
    """Writes a Croissant folder; returns what it cannot hold."""
    from limner.datasets.croissant_writing import write_croissant

    known = {name: value for name, _, value in (each.partition("=") for each in about)}
    if not all(known.values()):
        raise typer.BadParameter(f"--about got {', '.join(about)!r}: expected KEY=VALUE, such as license=CC-BY-4.0")
    return write_croissant(chosen, target, about=known, progress=told)


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


def _loaded(spec: str, words: list[str] | None, check: Progress | None) -> Collection:
    """Loads without showing warnings, which `describe` lists itself; with `check`, opens every image."""
    import limner

    checking: dict[str, Any] = {} if check is None else {"check_images": lambda rows: _counted(list(rows), check)}
    return limner.load(spec, **loading(words), **checking)


def _counted(rows: list[object], told: Progress) -> Iterator[object]:
    for number, row in enumerate(rows):
        told(number, len(rows))
        yield row


def _example(collection: Collection) -> dict[str, object] | None:
    """The first image with its texts."""
    pairs = collection.judgements.relevant
    if not len(pairs):
        return None
    first = int(pairs.rows[0])
    columns = pairs.columns[pairs.rows == first][:5]
    return {"image": collection.images.ids[first], "texts": [collection.texts.values[int(c)] for c in columns]}


def _described(counts: dict[str, Any]) -> str:
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
    shown = [counts["name"], table(rows, indent="  ")]
    if example:
        shown += [f"  for example {example['image']}:", *(f"    {text}" for text in example["texts"])]
    return "\n".join([*shown, *(f"  warning: {warning}" for warning in counts["warnings"])])
