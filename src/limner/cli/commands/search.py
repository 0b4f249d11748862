"""limner search: search a folder of photographs or an index by text, image or vector."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from limner.cli.console import answer, progress, put, tell
from limner.cli.inputs import open_index
from limner.cli.options import (
    Address,
    Json,
    Trust,
    Yes,
    by_ending,
    command_options,
    flag,
    loading,
    on_cluster,
    out_word,
    refuse_ending,
    saved,
    switch,
    text_option,
    whole_numbers,
    word,
)
from limner.cli.photo_folders import PhotoFolder, is_photo_folder, open_photo_folder, tell_loading
from limner.core.errors import LimnerError
from limner.core.options import OptionValues

if TYPE_CHECKING:
    from PIL.Image import Image

    from limner.search import Hit, Hits, Index


if TYPE_CHECKING:
    from limner.core.collection import Items
    from limner.core.embeddings import Embeddings
    from limner.scores import VectorSets
    from limner.search import Index

    SearchQueries = Items | Embeddings | VectorSets

Precision = Annotated[
    float | None,
    word(
        "Target precision: show only hits that reach it, possibly none; see 'limner index --calibrate'.",
        metavar="SHARE",
        min=0.05,
        max=0.99,
    ),
]


QueryFile = Annotated[
    str | None,
    word("A file of queries: txt (one per line), csv, jsonl, a folder of images, vectors or sets.", metavar="FILE"),
]
Fix = Annotated[
    str | None,
    word("Correct hubs: csls, nnn, ..., a file of saved statistics, or 'kept': those in the index.", metavar="HOW"),
]
TERMS = "--by, --where, minus terms and field:value"
By = Annotated[
    str,
    word("Rank by vectors, by words (BM25 over captions and texts), or hybrid: both, fused.", metavar="HOW"),
]
Where = Annotated[
    list[str] | None,
    word(
        "Only items whose field has this value; -FIELD=VALUE: only others. Repeatable.",
        "--where",
        metavar="FIELD=VALUE",
    ),
]
Model = Annotated[str | None, word("The model.", "--model", show_default="that of the index, or one for photographs")]
Option = Annotated[
    list[str] | None,
    word(
        "Of the correction: -O k=10 -O bank=FILE (queries or vectors). -O version=N of the index. With --precision, "
        "-O one_right=true: one of the hits shown is right.",
        "--option",
        "-O",
        metavar="NAME=VALUE",
    ),
]
Save = Annotated[
    list[Path] | None,
    out_word("Write the hits: .html .json .csv .run; the statistics of the bank: .npz. Repeatable."),
]


def search(
    path: Annotated[str, typer.Argument(metavar="PLACE", help="A folder of photographs, or an index.")],
    text: Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="Query texts.")] = None,
    image: Annotated[list[Path] | None, word("Query image. Repeatable.", metavar="FILE")] = None,
    queries: QueryFile = None,
    k: Annotated[int, word("How many.", "-k", "--top", metavar="N", min=1)] = 10,
    system: Model = None,
    correct: Fix = None,
    option: Option = None,
    precision: Precision = None,
    by: By = "vectors",
    filters: Where = None,
    exact: Annotated[bool, flag("--exact", "Search exactly, even with an approximate index.")] = False,
    approximate: Annotated[bool, flag("--approximate", "Refuse to search exactly.")] = False,
    cluster: Address = None,
    save: Save = None,
    yes: Yes = False,
    show: Annotated[bool, flag("--open", "Open the hits as a gallery in a browser.")] = False,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Search a folder of photographs or an index, by text, by image, or by a file of queries.

    The photographs of a folder are encoded once, into an index in the cache; later searches encode only new and changed
    ones. TEXT with --image is one query. In TEXT, -word is a minus term and field:value a filter: "dog -beach
    year:2019..2021". Files of queries are only text. An index with several vectors per item takes sets, several vectors
    per query: an npz or safetensors file with the arrays 'vectors' and 'counts'.

    Examples:
      $ limner search photos/ "a dog on a beach" --open
      $ limner search photos/ "at night" --image street.jpg --where "year:2019.."
      $ limner search pictures.index "two red dogs" -o found.html
      $ limner search pictures.index --image sketch.png -k 5
      $ limner search pictures.index --queries queries.txt --json
      $ limner search pages.index --queries questions.npz -k 3
      $ limner search pictures.index "a cat" --correct csls -O bank=captions.txt -o bank.npz
      $ limner search pictures.index "a dog" --correct bank.npz
      $ limner search pictures.index "a dog" --precision 0.9
      $ limner search pictures.index "a dog" -k 3 --precision 0.9 -O one_right=true
      $ limner search pictures.index "dog -beach" --by hybrid --where split=test
    """
    from limner.core.collection import Items
    from limner.search import Index, search_sure, search_words
    from limner.search.hits import ENDINGS
    from limner.search.query_terms import has_terms

    own, correction_options = command_options(option, "search")
    whole_numbers(own, version=1)
    features, one_right = text_option(own, "features"), switch(own, "one_right")
    bank = Path(str(own["bank"])) if "bank" in own else None
    statistics, files = by_ending(save, ".npz")
    refuse_ending(files, ENDINGS, "list of hits")
    _refuse_mixed(exact, approximate, correct, bank, statistics, correction_options, precision, one_right)
    parts = _queries(text, image, queries)
    by_words = by != "vectors" or bool(filters) or (len(parts) == 1 and any(map(has_terms, text or ())))
    if by_words and (correct or approximate or precision is not None):
        raise typer.BadParameter(f"--correct, --approximate and --precision are for plain searches: leave out {TERMS}")
    encodes = _is_encoded(parts[0], bank) and by != "words"
    if features and not encodes:
        raise typer.BadParameter("-O features is for images that a model encodes: these queries are already vectors")
    if cluster and correct is None:
        raise typer.BadParameter("--cluster is for --correct: a plain search runs on this machine")
    version = own.get("version")
    kinds = {part.kind for part in parts if encodes and isinstance(part, Items)}
    place = _opened(path, system, kinds, encodes=encodes, version=version, features=features, yes=yes, trust=trust)
    index = place if isinstance(place, Index) else place.index
    query = _query(index, parts, path, encodes=encodes)
    with on_cluster(cluster):
        options = loading(correction_options)
        correction = _correction(index, correct, bank, statistics, options, trust=trust) if correct else {}
        with progress(f"searching {len(index):,} {index.about.kind}s") as step:
            if by_words:
                hits = search_words(index, query, k, by=by, where=filters or (), literal=not text, progress=step)
            elif precision is not None:
                hits = search_sure(index, query, k, precision=precision, one_right=one_right, progress=step)
            else:
                hits = index.search(query, k, exact=_exactly(exact, approximate), progress=step, **correction)
    saved([hits.save(file) for file in files])
    show_hits(hits, path, place, gallery=show, as_json=as_json)


def _query(index: Index, parts: list[SearchQueries], path: str, *, encodes: bool) -> SearchQueries:
    """The queries; of texts and images, one query. The model is loaded here if it is needed."""
    from limner.core.collection import Items
    from limner.search.hybrid import combined_query

    to_encode = [part for part in parts if isinstance(part, Items)]
    if encodes and to_encode:
        tell_loading(index, to_encode[0], path)
    return parts[0] if len(parts) == 1 else combined_query(index, *to_encode)


def _opened(
    path: str,
    system: str | None,
    query_kinds: set[str],
    *,
    encodes: bool,
    version: int | None,
    features: str | None,
    yes: bool,
    trust: bool,
) -> Index | PhotoFolder:
    """The index, or the folder of photographs with its index up to date."""
    if "://" not in path and not Path(path).exists():
        raise LimnerError(f"no index at {path}, and no folder of photographs: check the path")
    if not is_photo_folder(path):
        return open_index(path, system, encodes=encodes, version=version, features=features, trust=trust)
    if version is not None:
        raise typer.BadParameter(f"-O version={version} is for an index: {path} is a folder of photographs")
    return open_photo_folder(
        path, system, encodes=encodes, query_kinds=query_kinds, features=features, yes=yes, trust=trust
    )


def _exactly(exact: bool, approximate: bool) -> bool | None:
    return True if exact else False if approximate else None


def _refuse_mixed(
    exact: bool,
    approximate: bool,
    correct: str | None,
    bank: Path | None,
    statistics: list[Path],
    option: list[str] | None,
    precision: float | None,
    one_right: bool,
) -> None:
    if one_right and precision is None:
        raise typer.BadParameter("-O one_right is what --precision promises: give --precision too")
    if precision is not None and (correct or approximate):
        raise typer.BadParameter(
            "--precision only works with plain exact search: leave out --correct and --approximate"
        )
    if exact and approximate:
        raise typer.BadParameter("give either --exact or --approximate, not both")
    lost = [name for name, value in (("-O bank", bank), ("-o FILE.npz", statistics), ("-O", option)) if value]
    if correct is None and lost:
        raise typer.BadParameter(f"{' and '.join(lost)} without --correct: name a correction with --correct")
    if statistics and bank is None:
        raise typer.BadParameter(f"-o {statistics[0]} needs -O bank: the statistics are those of a bank")


def _queries(text: list[str] | None, images: list[Path] | None, queries: str | None) -> list[SearchQueries]:
    """The queries, or the texts and images of a single one."""
    from limner.core.collection import Items
    from limner.core.ids import Ids
    from limner.search.items import read

    if bool(queries) == bool(text or images):
        raise typer.BadParameter("give TEXT, --image FILE, both as one query, or --queries FILE")
    if not all(each.strip() for each in text or ()):
        raise typer.BadParameter("TEXT is empty: say what to search for")
    if queries:
        return [read(queries)]
    parts: list[SearchQueries] = []
    if text:
        parts.append(Items(Ids(range(len(text)), what="query"), text, kind="text"))
    if images:
        parts.append(Items(Ids(map(str, images), what="query"), [str(file) for file in images]))
    return parts


def _is_encoded(query_items: SearchQueries, bank: Path | None) -> bool:
    """Whether any query has to be encoded; otherwise the system is not loaded."""
    from limner.core.collection import Items
    from limner.search.items import VECTOR_ENDINGS

    return isinstance(query_items, Items) or (bank is not None and bank.suffix.lower() not in VECTOR_ENDINGS)


def _correction(
    index: Index, correct: str, bank: Path | None, statistics: list[Path], options: dict[str, object], *, trust: bool
) -> OptionValues:
    """The correction in the form that `index.search` accepts."""
    from limner.scores.correction import CORRECTIONS, Statistics
    from limner.search import kept_correction
    from limner.search.index_statistics import KEPT
    from limner.search.items import read

    if correct == KEPT:
        if bank or options:
            raise LimnerError(f"--correct {KEPT} has its bank and options in the index: leave out -O")
        return {"correct": kept_correction(index, trust=trust)}
    if bank is None:
        return {"correct": correct, "trust": trust, **options}
    if _holds_statistics(bank):
        if statistics or options:
            raise LimnerError(f"{bank} contains statistics with their options: leave out -o FILE.npz and -O")
        return {"correct": correct, "bank": Statistics.load(bank, trust=trust)}
    name, parsed_options = CORRECTIONS.parsed(correct)
    with progress(f"searching with the bank {bank}", "queries") as step:
        bank_statistics = index.statistics(name, read(bank), progress=step, **parsed_options, **options)
    saved([bank_statistics.save(file) for file in statistics])
    return {"correct": bank_statistics}


def _holds_statistics(file: Path) -> bool:
    from zipfile import BadZipFile, ZipFile

    if file.suffix.lower() != ".npz" or not file.is_file():
        return False
    try:
        with ZipFile(file) as archive:
            return "head.npy" in archive.namelist()
    except (BadZipFile, OSError):
        return False


THUMBNAIL = 320
"""The longer side of a thumbnail in pixels, before the terminal scales it."""
MOST_QUERIES = 3
"""Queries up to which thumbnails are shown."""


def show_hits(hits: Hits, path: str, place: Index | PhotoFolder, *, gallery: bool, as_json: bool) -> None:
    """Prints the hits, and opens them in a browser if that is asked for.

    Args:
        hits: The hits.
        path: What was searched, as the user named it.
        place: The index, or the folder of photographs.
        gallery: Whether to open a gallery.
        as_json: Whether to print JSON.
    """
    about = place.as_dict() if isinstance(place, PhotoFolder) else {"index": path}
    if not as_json:
        _show_thumbnails(hits)
    listed = _photo_list(hits, path) if isinstance(place, PhotoFolder) else str(hits)
    answer(listed, {**about, **hits.as_dict()}, as_json=as_json)
    if gallery:
        _open_gallery(hits)


def _photo_list(hits: Hits, folder: str) -> str:
    """Ranks, scores and paths, per query."""
    parts = []
    for key, value in zip(hits.queries.ids, hits.queries.values, strict=True):
        lines = [f"{hit.rank:>4}  {hit.score:>8.4f}  {os.path.join(folder, hit.id)}" for hit in hits[key]]
        parts.append("\n".join([str(value or key), *(lines or ["      nothing here matches"])]))
    return "\n\n".join([*parts, hits.summary])


def _show_thumbnails(hits: Hits) -> None:
    """Shows the images of the hits, if the terminal can."""
    from limner.cli.terminal_images import terminal_images

    if hits.kind != "image" or len(hits.queries) > MOST_QUERIES:
        return
    terminal = terminal_images()
    if terminal is None:
        return
    for key in hits.queries.ids:
        if listed := hits[key]:
            put(terminal.grid([(_thumbnail(hit), f"{hit.rank}  {Path(hit.id).name}") for hit in listed]))


def _thumbnail(hit: Hit) -> Image | None:
    from limner.core.images import open_image

    source = hit.picture if hit.value is None else hit.value
    try:
        return open_image(source, name=hit.id, side=THUMBNAIL)
    except LimnerError:
        return None


def _open_gallery(hits: Hits) -> None:
    """Writes the hits as a page into the cache, and opens it."""
    from limner.core.paths import cache_folder, private_folder

    folder = cache_folder("galleries") or private_folder()
    if folder is None:
        raise LimnerError("no folder for the gallery: write it with -o FILE.html, and open that")
    query = next(iter(hits.queries.values), None) or hits.queries.ids[0]
    name = re.sub(r"\W+", "-", Path(str(query)).name.lower()).strip("-")[:60] or "hits"
    page = hits.save_gallery(folder / f"{name}.html")
    tell(f"wrote {page}")
    typer.launch(page.as_uri())
