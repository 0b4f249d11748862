"""Reads and writes BEIR folders (Thakur et al. 2021; also used by MTEB): corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv.

One of the two files has images: its entries have "image", a file name. If neither has, `direction` says which of them
are the images, and only their names are known.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from limner.core.collection import Collection, Items
from limner.core.errors import LimnerError, UnknownName, shown
from limner.core.files import replacing_folder
from limner.core.ids import Ids
from limner.core.judgements import Judgements
from limner.core.progress import ProgressLike, counting
from limner.datasets.assembly import split_name
from limner.datasets.image_folder import new_folder
from limner.datasets.text_files import At, JsonObject, existing, json_lines, number, refuse, table

CORPUS, QUERIES, QRELS = "corpus.jsonl", "queries.jsonl", "qrels"
_DIRECTIONS = ("i2t", "t2i")
_HEAD = ("query-id", "corpus-id", "score")


def load_beir(
    path: str | Path, *, split: str | None = None, direction: str | None = None, images: str | Path | None = None
) -> Collection:
    """Loads a BEIR folder: `corpus.jsonl`, `queries.jsonl`, and `qrels/train.tsv`, `dev.tsv`, `test.tsv`.

    Without `queries.jsonl` the queries are the ids in the qrels, which is enough to evaluate a run.

    Entries have "_id", and "text" (with an optional "title") or "image", a file name. With `split`, the pairs are
    those of one file of qrels, and the corpus stays the whole pool, as in BEIR. Without it all qrels are read; they
    become splits of the collection if no image is judged in two of them.

    Args:
        path: The folder.
        split: Only these qrels; all by default.
        direction: "t2i" if queries are texts and the corpus is images, "i2t" the other way round; by default the side
            whose entries have "image" is the images.
        images: Folder with the images; the BEIR folder by default.
    """
    root = existing(path, what="BEIR folder")
    listed = (root / QUERIES).is_file()
    _refuse_missing(root, (CORPUS,) if any((root / QRELS).glob("*.tsv")) else (CORPUS, QUERIES))
    queries = _entries(root / QUERIES) if listed else _judged_queries(root)
    sides = {"queries": queries, "corpus": _entries(root / CORPUS)}
    with_images = [name for name, rows in sides.items() if any("image" in row for row in rows.values())]
    if direction is None and len(with_images) != 1:
        problem = "images on both sides" if with_images else "no images"
        raise LimnerError(
            f"{root} has {problem}: give the side of the images with direction='t2i' (the corpus) or 'i2t' (the "
            "queries)"
        )
    task = direction or ("t2i" if with_images == ["corpus"] else "i2t")
    if task not in _DIRECTIONS:
        raise UnknownName("direction", task, _DIRECTIONS)
    judged = _judged(root, split, sides)
    image_side, text_side = ("corpus", "queries") if task == "t2i" else ("queries", "corpus")
    folder = root if images is None else existing(images, what="folder of images")
    image_items = Items(
        Ids(sides[image_side], what="image"), [_file(row, folder) for row in sides[image_side].values()]
    )
    texts = Items(Ids(sides[text_side], what="text"), [_text(row) for row in sides[text_side].values()], kind="text")
    every = {pair: grade for pairs in judged.values() for pair, grade in pairs.items()}
    ids = {"queries": sides["queries"], "candidates": sides["corpus"]}
    pairs = Judgements.from_pairs([(q, c, g) for (q, c), g in every.items()], **ids, name="pairs")
    splits = _splits(judged, 1 if task == "t2i" else 0)
    loaded = Collection(root.name, image_items, texts, pairs.T if task == "t2i" else pairs, splits)
    warning = f"{root} has no {QUERIES}: only the ids of the queries are known, enough to evaluate a run"
    return loaded if listed else replace(loaded, warnings=(warning,))


def _judged_queries(root: Path) -> dict[str, Mapping[str, object]]:
    """The ids of the queries in all qrels."""
    rows = (
        row for file in sorted((root / QRELS).glob("*.tsv")) for _, row in table(file, delimiter="\t", quoted=False)
    )
    return {row["query-id"]: {} for row in rows if row.get("query-id")}


def _refuse_missing(root: Path, names: Sequence[str]) -> None:
    """Refuses a folder without one of these files, and says what is in that file."""
    for name, content in ((CORPUS, "the candidates"), (QUERIES, "the queries")):
        if name in names and not (root / name).is_file():
            present_files = sorted(file.name for file in root.glob("*.jsonl"))
            present = f"it has {shown(present_files)}" if present_files else "it has no .jsonl file"
            raise LimnerError(
                f"{root} has no {name}: expected {content} of BEIR, one {{'_id': ..., 'text': ...}} per line; {present}"
            )


def _splits(judged: Mapping[str, Mapping[tuple[str, str], float]], side: int) -> dict[str, list[str]]:
    """The images of every qrels file; empty if an image is in two of them, or if there is only one."""
    splits = {split_name(name): list(dict.fromkeys(pair[side] for pair in pairs)) for name, pairs in judged.items()}
    listed = [image for images in splits.values() for image in images]
    return splits if len(splits) > 1 and len(set(listed)) == len(listed) else {}


def _entries(file: Path) -> dict[str, Mapping[str, object]]:
    entries: dict[str, Mapping[str, object]] = {}
    for at, row in json_lines(existing(file, what="BEIR file")):
        key = row.get("_id")
        if not isinstance(key, (str, int)) or isinstance(key, bool) or not str(key).strip():
            refuse(at, "no '_id' here; every line needs one")
        if str(key) in entries:
            refuse(at, f"'_id' {key!r} is there twice")
        if not all(isinstance(row.get(name, ""), (str, type(None))) for name in ("text", "title", "image")):
            refuse(at, f"entry {key!r}: text, title and image are texts; got something else")
        entries[str(key)] = row
    if not entries:
        refuse(At(file), "no entries; expected a JSON object per line")
    return entries


def _judged(
    root: Path, split: str | None, sides: Mapping[str, Mapping[str, object]]
) -> dict[str, dict[tuple[str, str], float]]:
    """Grades by split, query and candidate."""
    files = {file.stem: file for file in sorted((root / QRELS).glob("*.tsv"))}
    if not files:
        raise LimnerError(f"no qrels in {root}: expected {QRELS}/test.tsv")
    if split is not None:
        file_stem = next((name for name in files if split in (name, split_name(name))), None)
        if file_stem is None:
            raise UnknownName("split", split, list(files), of=root.name)
        files = {file_stem: files[file_stem]}
    return {name: _grades(file, sides) for name, file in files.items()}


def _grades(file: Path, sides: Mapping[str, Mapping[str, object]]) -> dict[tuple[str, str], float]:
    grades: dict[tuple[str, str], float] = {}
    for at, row in table(file, delimiter="\t", quoted=False):
        if not set(_HEAD) <= row.keys():
            refuse(At(file, 1), f"columns {', '.join(row)}: expected {', '.join(_HEAD)}")
        pair = row["query-id"], row["corpus-id"]
        for key, name in zip(pair, ("queries", "corpus"), strict=True):
            if key not in sides[name]:
                refuse(at, f"{key!r} is not in {name}.jsonl")
        if pair in grades:
            refuse(at, f"query {pair[0]!r} and candidate {pair[1]!r} are judged a second time")
        grades[pair] = number(row["score"], at, what="score")
        if grades[pair] < 0:
            refuse(at, f"score {row['score']} is negative; expected 0 or above")
    return grades


def _text(row: JsonObject) -> str:
    return " ".join(part for part in (row.get("title") or "", row.get("text") or "") if part)


def _file(row: JsonObject, folder: Path) -> str | None:
    return str(folder / row["image"]) if row.get("image") else None


def write_beir(
    collection: Collection, path: str | Path, *, direction: str = "t2i", progress: ProgressLike = None
) -> tuple[str, ...]:
    """Writes a BEIR folder; image files are referenced by name and not copied.

    Args:
        collection: The collection.
        path: A new folder.
        direction: "t2i" if texts are the queries, "i2t" if images are.
        progress: Called with (images written, images in total).

    Returns:
        What the format cannot store, one sentence each.
    """
    if direction not in _DIRECTIONS:
        raise UnknownName("direction", direction, _DIRECTIONS)
    folder = new_folder(path)
    images = list(zip(collection.images.ids, collection.images.values, strict=True))
    image_rows = [_image_row(key, value) for key, value in counting(images, progress)]
    text_rows = [
        {"_id": key, "text": text} for key, text in zip(collection.texts.ids, collection.texts.values, strict=True)
    ]
    queries, corpus = (text_rows, image_rows) if direction == "t2i" else (image_rows, text_rows)
    pairs = collection.judgements if direction == "i2t" else collection.judgements.T
    with replacing_folder(folder, head=CORPUS, own=()) as draft:
        for name, rows in ((QUERIES, queries), (CORPUS, [{**row, "title": ""} for row in corpus])):
            with (draft / name).open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (draft / QRELS).mkdir()
        for name, query_ids in _parts(collection, direction).items():
            lines = [f"{q}\t{c}\t{_written(g)}\n" for q, c, g in pairs if query_ids is None or q in query_ids]
            (draft / QRELS / f"{name}.tsv").write_text("\t".join(_HEAD) + "\n" + "".join(lines), encoding="utf-8")
    return tuple(_lost(collection))


def _image_row(key: str, value: object) -> dict[str, object]:
    image = {"image": str(Path(value).resolve())} if isinstance(value, (str, Path)) else {}
    return {"_id": key, "text": "", **image}


def _parts(collection: Collection, direction: str) -> dict[str, set[str] | None]:
    """The queries of every split; all of them in one file if there are no splits."""
    if not collection.splits:
        return {"test": None}
    if direction == "i2t":
        return {name: set(ids) for name, ids in collection.splits.items()}
    return {name: set(collection.split(name).texts.ids) for name in collection.splits}


def _written(grade: float) -> str:
    return str(int(grade)) if grade.is_integer() else repr(grade)


def _lost(collection: Collection) -> list[str]:
    """What a BEIR folder of this collection does not contain."""
    losses = []
    if (collection.judgements.grades % 1).any():
        losses.append("some grades are not whole numbers, which BEIR's own tools expect")
    drawn = sum(not isinstance(value, (str, Path)) for value in collection.images.values)
    if drawn:
        losses.append(f"{drawn:,} images are no files, so the folder has only their ids")
    if collection.extra or collection.reverse:
        further = ", ".join([*collection.extra, *collection.reverse])
        losses.append(f"further judgements were left out: {further}; write each as .qrels")
    if collection.texts.fields or collection.images.fields:
        losses.append("fields of images and texts were left out")
    return losses
