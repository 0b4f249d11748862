"""limner encode: vectors of images or texts, with a cache that allows resuming."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from limner.cli.console import answer, progress
from limner.cli.inputs import as_features, known_encoder, tell_unopened, unusable_files
from limner.cli.options import (
    Json,
    Loading,
    Trust,
    cache_word,
    command_options,
    loading,
    out_word,
    refuse_ending,
    saved,
    text_option,
    word,
)
from limner.core.errors import LimnerError
from limner.core.progress import Progress

if TYPE_CHECKING:
    from limner.core.collection import Items

ENDINGS = (".npy", ".npz", ".safetensors", ".parquet", ".pt")


def encode(
    source: Annotated[
        str,
        typer.Argument(
            metavar="ITEMS",
            help="A folder of images, a text file (one text or path per line), csv, jsonl, or a COLLECTION.",
        ),
    ],
    out: Annotated[Path, out_word(f"Write the vectors: {' '.join(ENDINGS)}.")],
    encoder: Annotated[
        str,
        word(
            "An encoder of 'limner list encoders', a saved model, or module:thing.", "--model", callback=known_encoder
        ),
    ],
    side: Annotated[
        str | None, word("For a COLLECTION: images or texts.", "--side", metavar="SIDE", show_default="none")
    ] = None,
    option: Loading = None,
    column: Annotated[
        list[str] | None,
        word("Column name in a table: --column caption=alt. Repeatable.", "--column", metavar="ROLE=NAME"),
    ] = None,
    cache: Annotated[Path | None, cache_word("Cache folder for vectors; an interrupted run can resume.")] = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Encode images or texts into vectors.

    Images of a folder or list that do not open are listed and left out; the vectors keep the ids of the others. A
    COLLECTION is for an evaluation and needs all of its images.

    Examples:
      $ limner encode photos/ --model efficientnet-lite --cache vectors/ -o photos.npy
      $ limner encode captions.txt --model minilm -o captions.npy
      $ limner encode captions.csv --column caption=alt --model minilm -o texts.npy
      $ limner encode scenes --side texts --model word-vectors -O file=glove.txt -o texts.npz
      $ limner encode photos/ --model clip -O model=clip-vit-base-patch32/ -O device=cuda -o photos.parquet
    """
    refuse_ending([out], ENDINGS, "file of vectors")
    settings, loader = command_options(option, "encode")
    features = text_option(settings, "features")
    items, is_list = _items(source, side, loading(loader), _columns(column))
    if features is not None and items.kind != "image":
        raise LimnerError(f"-O features are for images, and these are {items.kind}s: leave them out")
    from limner.encoders.cache import Cached
    from limner.systems.system_spec import with_features

    model = with_features(named_encoder(encoder, {}, trust=trust), as_features(features))

    work = model if cache is None else Cached(model, cache)
    began = time.perf_counter()
    with progress(f"encoding {len(items):,} {items.kind}s", f"{items.kind}s") as step:
        vectors, unopened = _encoded(work, items, step, skip=is_list)
    unusable = unusable_files(source) if is_list else {}
    unopened = unusable | unopened
    tell_unopened(unopened, len(items) + len(unusable))
    seconds = time.perf_counter() - began
    vectors.save(out)
    saved([out])
    reused = getattr(work, "reused", 0)
    rate = (len(vectors) - reused) / max(seconds, 1e-9)
    facts = {"items": len(vectors), "kind": items.kind, "dim": vectors.dim, "encoder": encoder, "out": str(out)}
    facts |= {"seconds": round(seconds, 3), "per second": round(rate, 1), "from the cache": reused}
    text = "\n".join(f"{name}: {value}" for name, value in facts.items())
    answer(text, facts | ({"left out": unopened} if unopened else {}), as_json=as_json)


def _columns(words: list[str] | None) -> dict[str, str]:
    """Parses ROLE=NAME values; the roles are those of `limner.datasets.caption_tables`."""
    pairs = [word.partition("=") for word in words or []]
    for role, _, name in pairs:
        if not role or not name:
            raise typer.BadParameter(f"--column got {role!r}: expected ROLE=NAME, e.g. caption=alt or image=photo")
    return {role: name for role, _, name in pairs}


def _items(source: str, side: str | None, options: dict[str, object], columns: dict[str, str]) -> tuple[Items, bool]:
    """The images or texts of a collection, with the ids that 'limner evaluate' uses; or a list of items, and True."""
    from limner.core.collection import Items

    if side not in (None, "images", "texts"):
        raise typer.BadParameter(f"--side {side}: expected images or texts")
    if side is not None or options or columns or _pairs(source):
        from limner.cli.options import load

        collection = load(source, None, **options, **({"columns": columns} if columns else {}))
        return (collection.images if side == "images" else collection.texts), False
    from limner.search.items import read

    if not Path(source).exists():
        raise LimnerError(f"no file or folder {source}: for a collection, add --side images or --side texts")
    listed_items = read(source)
    if not isinstance(listed_items, Items):
        raise LimnerError(f"{source} already contains vectors: expected images or texts")
    return listed_items, True


def _pairs(source: str) -> bool:
    """Whether a table has images and texts; then its texts get the ids of the collection."""
    from limner.datasets.caption_tables import ENDINGS as TABLES
    from limner.datasets.caption_tables import holds_pairs

    path = Path(source)
    return path.is_file() and path.suffix.lower() in TABLES and path.suffix.lower() != ".txt" and holds_pairs(path)


def named_encoder(name: str, options: dict[str, object], *, trust: bool) -> object:
    """An encoder by name, or a saved model, which needs no options."""
    from limner.encoders import ENCODERS
    from limner.encoders import encoder as named

    if name not in ENCODERS and Path(name).exists():
        from limner.systems import load

        if options:
            raise LimnerError(f"{name} is a saved model with its own options: leave out -O")
        return load(name, trust=trust)
    return named(name, **options)


def _encoded(work: Any, items: Items, step: Progress, *, skip: bool) -> tuple[Any, dict[str, str]]:
    """The vectors, and with `skip` the images that do not open; a collection for an evaluation needs all of them."""
    from limner.encoders import encoded
    from limner.encoders.contract import refuse_blank
    from limner.search.items import encoded_readable

    refuse_blank(items)
    if not skip:
        return encoded(work, items, progress=step), {}
    vectors, _, unopened = encoded_readable(lambda part: encoded(work, part, progress=step), items)
    if vectors is None:
        raise LimnerError(f"none of the {len(items):,} images opens; the first: {next(iter(unopened.values()))}")
    return vectors, unopened
