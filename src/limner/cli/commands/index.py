"""limner index: create, extend, prune and describe an index over images or texts."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from limner.cli.console import answer, progress, table, tell
from limner.cli.index_inputs import IndexSource, calibrated, left_out, with_correction
from limner.cli.inputs import as_features, open_index, tell_unopened
from limner.cli.options import (
    Address,
    Json,
    Loading,
    Trust,
    Yes,
    command_options,
    flag,
    on_cluster,
    text_option,
    word,
    writable,
)
from limner.cli.photo_folders import photo_model
from limner.core.errors import LimnerError
from limner.core.options import OptionValues

if TYPE_CHECKING:
    from collections.abc import Iterator

    from limner.core.collection import Items
    from limner.search import Index
    from limner.search.index_table import Vectors

AT_ONCE = 4_096
"""Number of items encoded and written at once; fewer if that would take more than a few seconds."""
ANN_ABOVE = 1_000_000
"""Rows above which an approximate index is built automatically."""

Calibrate = Annotated[
    str | None,
    word(
        "Judged queries for 'limner search --precision': a collection with texts and their relevant images.",
        metavar="COLLECTION",
    ),
]
Approximate = Annotated[
    str | None,
    word("Build an approximate index: ivf_sq, ivf_hnsw_sq, ivf_pq, ivf_rq, ivf_flat.", metavar="KIND"),
]
Compact = Annotated[
    bool,
    flag("--compact", "Merge small pieces, rebuild an approximate index; drop versions older than a week."),
]
Correct = Annotated[
    str | None,
    word("Keep a correction for 'limner search --correct kept': csls, nnn(k=8); with -O bank=FILE.", metavar="HOW"),
]
VectorFile = Annotated[
    Path | None, word("Their vectors: npy, npz, safetensors, parquet; or sets of vectors.", metavar="FILE")
]
Model = Annotated[
    str | None, word("Or their encoder: a saved model, a name of 'limner list systems', module:thing.", "--model")
]


def index(
    path: Annotated[str, typer.Argument(metavar="INDEX", help="A folder, or an address such as s3://bucket/index.")],
    collection: Annotated[
        str | None, typer.Argument(metavar="COLLECTION", help="scenes, captions.csv, ...: see 'limner list datasets'.")
    ] = None,
    items: Annotated[
        str | None, word("Or a list of texts or images: txt, csv, jsonl, a folder.", metavar="FILE")
    ] = None,
    embeddings: VectorFile = None,
    ids: Annotated[Path | None, word("Ids of the vectors, one per line.", metavar="FILE")] = None,
    system: Model = None,
    side: Annotated[str, word("Part of the collection to index: images or texts.", metavar="SIDE")] = "images",
    split: Annotated[str, word("Part of the collection, and of the one to calibrate with.")] = "all",
    option: Loading = None,
    replace: Annotated[bool, flag("--replace", "Replace items whose ids are in the index.")] = False,
    resume: Annotated[bool, flag("--resume", "Skip items whose ids are in the index.")] = False,
    delete: Annotated[list[str] | None, word("Delete an item. Repeatable.", metavar="ID")] = None,
    ann: Approximate = None,
    exact: Annotated[bool, flag("--exact", f"Build no approximate index, even above {ANN_ABOVE:,} items.")] = False,
    calibrate: Calibrate = None,
    correct: Correct = None,
    cluster: Address = None,
    compact: Compact = False,
    yes: Yes = False,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Add images or texts to a new or existing index for 'limner search'.

    With INDEX alone, describe it. Every change is one commit: an interrupted run loses no earlier data, and
    --resume continues where it stopped. Images that do not open are listed and left out.

    -O similarity=dot compares by dot products; by default it is cosine, or what the encoder says. -O bank=FILE is the
    bank of a correction: texts, images or vectors.

    Items may have several vectors each, such as one per token or patch, and are then searched by late interaction: with
    an encoder such as 'multi-vector(model=DIR)', or from an npz or safetensors file with the arrays 'vectors' (one row
    per vector), 'counts' (vectors of every item) and 'ids'.

    Examples:
      $ limner index pictures.index scenes --model histograms
      $ limner index photos.index photos/ --model my_encoders:clip
      $ limner index photos.index photos/ --model trained-on-features/ -O features=photos.npz
      $ limner index captions.index captions.csv --side texts --embeddings texts.npy
      $ limner index pages.index pages/ --model 'multi-vector(model=DIR)'
      $ limner index pages.index --embeddings pages.npz
      $ limner index photos.index --delete old.jpg --compact
      $ limner index pictures.index --calibrate scenes
      $ limner index pictures.index --correct csls -O bank=captions.txt
      $ limner index photos.index --json
    """
    own, option = command_options(option, "index")
    features, similarity = text_option(own, "features"), text_option(own, "similarity")
    bank = Path(str(own["bank"])) if "bank" in own else None
    _refuse_both({"--replace": replace, "--resume": resume})
    _refuse_both({"--ann": ann, "--exact": exact})
    _refuse_both({"a COLLECTION": collection, "--items": items})
    _refuse_both({"--embeddings": embeddings, "-O features": features})
    if bool(correct) != bool(bank):
        raise typer.BadParameter("--correct and -O bank go together: a correction, and the queries to gather it with")
    _refuse_unwritable(path, (collection, items, embeddings, delete, compact, ann, calibrate, correct))
    done: dict[str, object] = {}
    if collection or items or embeddings:
        source = IndexSource(collection, items, embeddings, ids, side, split, option)
        existing = "replace" if replace else "skip" if resume else "refuse"
        with on_cluster(cluster):
            done |= _added(path, source, system, similarity, existing, features=features, yes=yes, trust=trust)
    elif ((system or features) and not (calibrate or correct)) or replace or resume or ids or cluster or similarity:
        raise typer.BadParameter("nothing to add: give a COLLECTION, --items or --embeddings")
    stored_index = open_index(path, encodes=False)
    done |= _tidied(stored_index, delete or [], compact=compact)
    _approximate(stored_index, ann, exact)
    if calibrate:
        done |= calibrated(path, calibrate, split, option, system, features=features, trust=trust)
    if correct and bank:
        done |= with_correction(path, correct, bank, system, features=features, trust=trust)
    data = {"index": path, **done, **described(stored_index)}
    answer(_text(data), data, as_json=as_json)


def _tidied(stored_index: Index, delete: list[str], *, compact: bool) -> dict[str, object]:
    """Deletes items and merges pieces; returns the number of deleted items, if any are to be deleted."""
    deleted: dict[str, object] = {"deleted": stored_index.delete(delete, measure=False)} if delete else {}
    if compact:
        with progress(f"compacting {len(stored_index):,} items") as step:
            stored_index.compact(progress=step)
    return deleted


def _refuse_both(options: dict[str, object]) -> None:
    if all(options.values()):
        raise typer.BadParameter(f"{' and '.join(options)}: give only one of them")


def _refuse_unwritable(path: str, changes: tuple[object, ...]) -> None:
    """Refuses to change a local index that cannot be written; an existing folder is kept, and written into."""
    from limner.search.store import require_store
    from limner.systems.opening import local_folder

    require_store()
    folder = local_folder(path)
    if any(changes) and folder is not None:
        writable(folder / "items.lance" if folder.is_dir() else folder)


def _added(
    path: str,
    source: IndexSource,
    system: str | None,
    similarity: str | None,
    existing: str,
    *,
    features: str | None,
    yes: bool,
    trust: bool,
) -> dict[str, object]:
    """Adds the items of the source in chunks; returns their number, and the images that do not open."""
    from limner import search

    stored_index = _existing_index(path)
    if stored_index is not None and similarity not in (None, stored_index.about.similarity):
        raise LimnerError(f"the index compares by {stored_index.about.similarity}: leave out -O similarity")
    model: Any
    name: str | None
    if _needs_default(source, system, stored_index):
        chosen = photo_model(None, yes=yes)
        tell(f"model: {chosen.line}")
        model, name, system = chosen.open(), chosen.name, chosen.name
    else:
        model, name = _system(path, source, system, stored_index, features=features, trust=trust)
    count = 0
    for vectors, items in _pieces(source, model, stored_index, existing):
        # Encoding shows its own progress, and writing is a small part of it.
        with progress(f"writing {len(vectors):,} vectors") if source.embeddings else nullcontext() as step:
            if stored_index is None:
                settings: OptionValues = {"similarity": similarity, "system_name": name, "model_label": system}
                stored_index = search.index(path, vectors, items, progress=step, system=model, **settings)
                count += len(vectors)
            else:
                count += stored_index.add(vectors, items, existing=existing, measure=False, progress=step)
    if stored_index is None:
        raise LimnerError(f"none of the {len(source.unopened):,} images opens: nothing is indexed")
    if count > 8 * AT_ONCE:
        with progress(f"compacting {len(stored_index):,} items") as step:
            stored_index.compact(progress=step)
    return {"added": count, **({"left out": source.unopened} if source.unopened else {})}


def _needs_default(source: IndexSource, system: str | None, stored_index: Index | None) -> bool:
    """Whether images without captions are to be encoded for a new index, and nobody named a model."""
    is_images = source.items is not None and source.items.kind == "image" and source.whole is None
    return is_images and source.embeddings is None and system is None and stored_index is None


def _existing_index(path: str) -> Index | None:
    from limner.search import open_index

    try:
        return open_index(path)
    except LimnerError as error:
        if str(error).startswith("no index at"):
            return None
        raise


def _system(
    path: str, source: IndexSource, system: str | None, stored_index: Index | None, *, features: str | None, trust: bool
) -> tuple[Any, str | None]:
    """The encoder and its stored name; None for plain vectors."""
    stored_name = stored_index.about.system if stored_index else None
    if system is None and source.embeddings is not None:
        return None, stored_name
    if (system or stored_name) is None:
        raise typer.BadParameter("the items have no vectors: give --embeddings or --model")
    from limner.systems.opening import local_folder, model_for_index, model_of_index
    from limner.systems.system_spec import with_features

    folder, vectors = local_folder(path), as_features(features)
    if stored_index is None:
        return model_for_index(str(system), source.whole, folder, features=vectors, trust=trust, stage=progress)
    return with_features(model_of_index(stored_index, system, folder, trust=trust), vectors), stored_name


def _pieces(
    source: IndexSource, model: object, stored_index: Index | None, existing: str
) -> Iterator[tuple[Vectors, Items | None]]:
    """The given vectors, or the items encoded in chunks."""
    from limner.encoders.contract import gives_sets

    if source.embeddings is not None or source.items is None:
        yield source.vectors(), source.items
    else:
        several = gives_sets(model) if stored_index is None else stored_index.about.has_sets
        yield from _encoded(model, _left(source.items, stored_index, existing), several, source.unopened)


def _left(items: Items, stored_index: Index | None, existing: str) -> Items:
    """The items that still have to be encoded; invalid ids are refused before encoding."""
    if stored_index is None or existing == "replace":
        return items
    is_stored = stored_index.holds(items.ids)
    if existing == "refuse" and any(is_stored):
        raise LimnerError(
            f"{sum(is_stored):,} of {len(items):,} ids are in the index already, such as "
            f"{items.ids[is_stored.index(True)]!r}: replace them with --replace, or skip them with --resume"
        )
    return items[[row for row, stored in enumerate(is_stored) if not stored]]


def _encoded(
    model: object, items: Items, several: bool, unopened: dict[str, str]
) -> Iterator[tuple[Vectors, Items | None]]:
    """The items encoded in chunks, with one vector each or several; `unopened` collects images that do not open."""
    from limner.encoders.batching import PART_SECONDS, paced
    from limner.encoders.contract import refuse_blank
    from limner.scores.base import RUNNER
    from limner.search.items import encoded_known, encoded_readable

    cluster: Any = RUNNER.get()
    if several and cluster is not None:
        raise LimnerError("--cluster encodes one vector per item, and this system has several: leave out --cluster")
    refuse_blank(items)

    def encode(piece: Items) -> tuple[Vectors | None, Items, Items]:
        if cluster is not None:
            return cluster.encode(model, piece, batch=AT_ONCE), piece, piece[[]]
        return encoded_known(model, piece, sets=several)

    lost: list[str] = []
    total = len(items) + len(unopened)
    step = AT_ONCE if cluster is None else AT_ONCE * cluster.cores
    with progress(f"encoding {len(items):,} {items.kind}s", f"{items.kind}s") as task:
        # A cluster starts slowly, and needs enough work for all its cores.
        for rows in paced(len(items), max_items=step, seconds=PART_SECONDS if cluster is None else None):
            encoded_piece, _, broken = encoded_readable(encode, items[rows])
            unopened |= broken
            if encoded_piece is not None:
                vectors, encoded_items, unknown = encoded_piece
                lost += list(unknown.ids)
                if vectors is not None:
                    yield vectors, encoded_items
            task(min(rows.stop, len(items)), len(items))
    tell_unopened(unopened, total)
    left_out(items[items.ids.positions(lost)], len(items))
    if len(lost) == len(items) > 0:
        raise LimnerError(f"none of the {len(items):,} {items.kind}s is known to the system: nothing is indexed")


def _approximate(stored_index: Index, ann: str | None, exact: bool) -> None:
    """Builds an approximate index if requested; measures the recall of a changed one."""
    from limner.search.approximate import Ann

    existing_ann = Ann.noted(stored_index.store)
    if not ann and existing_ann is not None and existing_ann.recall is None and len(stored_index):
        with progress(
            f"measuring the recall of the approximate index over {len(stored_index):,} items", "queries"
        ) as step:
            stored_index.recall(progress=step)
    elif ann or (len(stored_index) >= ANN_ABOVE and existing_ann is None and not exact):
        with progress(f"building an approximate index over {len(stored_index):,} items") as step:
            built = stored_index.approximate(ann or "ivf_sq", progress=step)
        tell(f"approximate index {built.kind}, {built.probes} clusters probed: {built.recall}")
        if not built.is_faster(1):
            tell(
                f"exact search is as fast ({_milliseconds(built.exact_seconds[0])} a query, "
                f"{_milliseconds(built.seconds)} with the approximate index), so searches are exact; "
                "--approximate uses the approximate index"
            )


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms"


def described(stored_index: Index) -> dict[str, object]:
    """The description of an index as plain values."""
    from limner.search.approximate import Ann

    ann = Ann.noted(stored_index.store)
    return {
        "items": len(stored_index),
        "kind": stored_index.about.kind,
        "dimensions": stored_index.about.dim,
        "vectors": _counted(stored_index),
        "similarity": stored_index.about.similarity,
        "system": stored_index.about.system,
        "made by": stored_index.about.made_by,
        "model": stored_index.about.model,
        "version": stored_index.version,
        "versions": len(stored_index.versions()),
        "approximate": None
        if ann is None
        else {"kind": ann.kind, "probes": ann.probes, "recall": str(ann.recall or "recall not measured")},
    }


def _counted(stored_index: Index) -> dict[str, object] | None:
    """How many vectors the items have; None if they have one each."""
    counts = stored_index.store.counts() if stored_index.about.has_sets and len(stored_index) else None
    if counts is None:
        return None
    total, fewest, largest = (int(each) for each in (counts.sum(), counts.min(), counts.max()))
    return {"total": total, "fewest": fewest, "most": largest, "pooling": stored_index.about.pooling}


def _text(data: OptionValues) -> str:
    rows = {key: value for key, value in data.items() if value is not None}
    if (ann := rows.get("approximate")) is not None:
        rows["approximate"] = f"{ann['kind']}, {ann['probes']} clusters, {ann['recall']}"
    if (counted := rows.get("vectors")) is not None:
        some = f"{counted['fewest']:,}" + (f" to {counted['most']:,}" if counted["most"] > counted["fewest"] else "")
        rows["vectors"] = f"{counted['total']:,}, {some} per item ({counted['pooling']})"
    if (unopened := rows.get("left out")) is not None:
        rows["left out"] = f"{len(unopened):,} images that do not open"
    if (cut_offs := rows.get("calibrated")) is not None:
        rows["calibrated"] = ", ".join(f"{promised}: {reached}" for promised, reached in cut_offs.items())
    return table((key, f"{value:,}" if isinstance(value, int) else value) for key, value in rows.items())
