"""Flickr8k with its human judgements, and Flickr30k's original token file."""

from __future__ import annotations

from collections.abc import Collection as Group
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from limner.core.collection import Collection
from limner.core.errors import LimnerError
from limner.core.judgements import Judgements
from limner.datasets.assembly import Assembly, Check, keep_texts
from limner.datasets.text_files import At, existing, find_file, number, refuse, split_lines

EXPERT_THRESHOLD = 3.33
"""The lowest mean expert score of a relevant pair (scores 3, 3 and 4 are just enough)."""

CROWD_THRESHOLD = 0.66
"""The lowest share of yes votes for a relevant pair (two of three are just enough)."""

BOGUS_IMAGE = "2258277193_586949ec62.jpg.1"
"""An id in `Flickr8k.token.txt` without a photograph; its five captions are left out, with a warning."""

_TEXT_FOLDERS = ("", "text", "Flickr8k_text")
_IMAGE_FOLDERS = ("images", "Images", "Flicker8k_Dataset", "Flickr8k_Dataset", "flickr30k-images", "flickr30k_images")


def load_flickr8k(
    path: str | Path,
    *,
    split: str | None = None,
    images: str | Path | None = None,
    captions: Group[int] | None = None,
    captions_per_image: int | None = 5,
    check_images: Check = False,
    strict: bool = False,
) -> Collection:
    """Loads Flickr8k (Hodosh, Young & Hockenmaier 2013) from its standard text folder.

    Judgements: "pairs" (each image with its own captions) and, if their files exist, "expert" and "crowd": relevant (1)
        or not relevant (0) at the thresholds of the paper. For other thresholds, `ratings` has the mean expert score
        from 1 (unrelated) to 4 and the share of yes votes of the crowd, under the same names:
        `collection.ratings["expert"].at_least(3)`.

    Args:
        path: Folder with `Flickr8k.token.txt`, directly or in `text/` or `Flickr8k_text/`.
        split: "train", "dev" or "test"; everything, with all splits, by default.
        images: Folder with the photographs; searched next to the texts by default.
        captions: Numbers of the captions to keep; `[2]` gives the one-caption pool of the paper.
        captions_per_image: Refuse an image with another number of captions; None allows any.
        check_images: Open every image; skip and list those that cannot be opened.
        strict: Raise an error instead of listing a warning.
    """
    folder = _text_folder(Path(path))
    assembly = Assembly("flickr8k", strict=strict)
    _add_captions(assembly, folder / "Flickr8k.token.txt", _lemmas(folder / "Flickr8k.lemma.token.txt"))
    assembly.refuse_wrong_counts(captions_per_image)
    for name in ("train", "dev", "test"):
        assembly.split_list(folder / f"Flickr_8k.{name}Images.txt", name)
    folders = [root / name for root in (folder, folder.parent) for name in _IMAGE_FOLDERS]
    ratings = _human_judgements(assembly, folder)
    thresholds = {"expert": EXPERT_THRESHOLD, "crowd": CROWD_THRESHOLD}
    extra = {name: rated.at_least(thresholds[name]) for name, rated in ratings.items()}
    loaded = assembly.finish(
        split=split, images=images, folders=folders, check_images=check_images, extra=extra, ratings=ratings
    )
    return loaded if captions is None else _numbered(loaded, captions)


def load_tokens(
    path: str | Path,
    *,
    split: str | None = None,
    images: str | Path | None = None,
    captions_per_image: int | None = 5,
    check_images: Check = False,
    strict: bool = False,
) -> Collection:
    """Loads Flickr30k from its `results_20130124.token` (or any file in that format), which has no splits.

    Splits come from the lists `train.txt`, `val.txt` and `test.txt` next to it, with one image per line.
    """
    patterns = ("results_*.token", "*.token", "*.token.txt")
    file = find_file(existing(path, what="token file"), patterns, what="token file")
    assembly = Assembly("flickr30k", strict=strict)
    _add_captions(assembly, file, {})
    assembly.refuse_wrong_counts(captions_per_image)
    for stem in ("train", "val", "dev", "test"):
        assembly.split_list(file.parent / f"{stem}.txt", stem)
    folders = [file.parent / name for name in ("", *_IMAGE_FOLDERS)]
    return assembly.finish(split=split, images=images, folders=folders, check_images=check_images)


@dataclass(frozen=True)
class RawJudgements:
    """Raw human answers, before any threshold.

    Args:
        images: Image id of each judged pair.
        captions: Caption id of each judged pair.
        values: One row per pair: three expert scores, or the numbers of yes and no votes.
    """

    images: tuple[str, ...]
    captions: tuple[str, ...]
    values: npt.NDArray[np.int64]

    def __len__(self) -> int:
        """The number of judged pairs."""
        return len(self.images)


def expert_scores(path: str | Path) -> RawJudgements:
    """The three expert scores (1: unrelated, 4: describes without errors) of each pair in `ExpertAnnotations.txt`.

    Args:
        path: The file, or the Flickr8k folder.
    """
    file = _inside(path, "ExpertAnnotations.txt")
    return _raw((at, image, caption, _scores(at, cells)) for at, image, caption, cells in _judged_rows(file))


def crowd_votes(path: str | Path) -> RawJudgements:
    """The numbers of yes and no votes for each pair in `CrowdFlowerAnnotations.txt`.

    Args:
        path: The file, or the Flickr8k folder.
    """
    file = _inside(path, "CrowdFlowerAnnotations.txt")
    return _raw((at, image, caption, _votes(at, cells)) for at, image, caption, cells in _judged_rows(file))


def _text_folder(path: Path) -> Path:
    existing(path, what="folder with Flickr8k")
    root = path.parent if path.is_file() else path
    for name in _TEXT_FOLDERS:
        if (root / name / "Flickr8k.token.txt").is_file():
            return root / name
    raise LimnerError(f"no Flickr8k.token.txt in {root} or its text/: expected the folder with Flickr8k's text files")


def _inside(path: str | Path, name: str) -> Path:
    path = existing(path, what=name)
    return path if path.is_file() else _text_folder(path) / name


def _caption_rows(file: Path) -> Iterator[tuple[At, str, int, str]]:
    """Rows `image#number<tab>caption`."""
    for at, (key, caption) in split_lines(file, "\t", 2):
        image, _, digits = key.rpartition("#")
        if not image or not digits.isdecimal():
            refuse(at, f"caption id {key!r}, expected an image, '#' and a number, as in 'dog.jpg#0'")
        yield at, image, int(digits), caption.strip()


def _add_captions(assembly: Assembly, file: Path, lemmas: dict[str, str]) -> None:
    for at, image, digit, caption in _caption_rows(file):
        if image == BOGUS_IMAGE:
            assembly.notes.add(at, f"{BOGUS_IMAGE!r} has no photograph; caption left out")
            continue
        assembly.image(image, at)
        key = f"{image}#{digit}"
        fields = {"number": digit, "lemmas": lemmas.get(key)} if lemmas else {"number": digit}
        assembly.text(key, caption, image, at, fields=fields)


def _lemmas(file: Path) -> dict[str, str]:
    if not file.is_file():
        return {}
    return {f"{image}#{digit}": text for _, image, digit, text in _caption_rows(file)}


def _numbered(collection: Collection, numbers: Group[int]) -> Collection:
    digits = np.array(collection.texts.field("number"))
    missing = [n for n in numbers if n not in digits]
    if missing:
        present = sorted(set(digits.tolist()))
        raise LimnerError(f"captions={list(numbers)}: no caption has number {missing[0]}; there are {present}")
    return keep_texts(collection, np.flatnonzero(np.isin(digits, list(numbers))))


def _judged_rows(file: Path) -> Iterator[tuple[At, str, str, list[str]]]:
    for at, (image, caption, *cells) in split_lines(existing(file, what="judgements"), "\t", 5):
        yield at, image, caption, cells


def _scores(at: At, cells: list[str]) -> list[int]:
    scores = [number(cell, at, what="expert score") for cell in cells]
    if any(score not in (1, 2, 3, 4) for score in scores):
        refuse(at, f"expert scores {', '.join(cells)}: expected three whole numbers from 1 to 4")
    return [int(score) for score in scores]


def _votes(at: At, cells: list[str]) -> list[int]:
    share, yes, no = (number(cell, at, what="vote") for cell in cells)
    if yes + no < 1 or abs(share - yes / (yes + no)) > 1e-6:
        refuse(at, f"share {cells[0]} of yes does not match {cells[1]} yes and {cells[2]} no")
    return [int(yes), int(no)]


def _raw(rows: Iterator[tuple[At, str, str, list[int]]]) -> RawJudgements:
    listed: dict[tuple[str, str], list[int]] = {}
    for at, image, caption, values in rows:
        if (image, caption) in listed:
            refuse(at, f"image {image!r} and caption {caption!r} are judged a second time")
        listed[image, caption] = values
    images, captions = zip(*listed, strict=True) if listed else ((), ())
    return RawJudgements(images, captions, np.array(list(listed.values()), dtype=np.int64))


def _human_judgements(assembly: Assembly, folder: Path) -> dict[str, Judgements]:
    ratings: dict[str, Judgements] = {}
    if (file := folder / "ExpertAnnotations.txt").is_file():
        raw = expert_scores(file)
        ratings["expert"] = _judgements(assembly, file, raw, raw.values.mean(axis=1))
    if (file := folder / "CrowdFlowerAnnotations.txt").is_file():
        raw = crowd_votes(file)
        ratings["crowd"] = _judgements(assembly, file, raw, raw.values[:, 0] / raw.values.sum(axis=1))
    return ratings


def _judgements(assembly: Assembly, file: Path, raw: RawJudgements, grades: npt.NDArray[np.float64]) -> Judgements:
    in_data = [
        i in assembly.images.row and c in assembly.texts.row for i, c in zip(raw.images, raw.captions, strict=True)
    ]
    if not all(in_data):
        unknown = len(in_data) - sum(in_data)
        assembly.notes.add(At(file), f"{unknown:,} judged pairs name an unknown image or caption; left out")
    rows = zip(raw.images, raw.captions, grades, in_data, strict=True)
    pairs = [(image, caption, float(grade)) for image, caption, grade, listed in rows if listed]
    return Judgements.from_pairs(pairs, queries=assembly.images.row, candidates=assembly.texts.row)
