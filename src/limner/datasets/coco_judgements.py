"""More complete ground truth for COCO's test images: CxC, ECCV Caption, and plausible matches from object labels.

Ids are COCO's numbers written as strings: image "391895", caption "770337".
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from limner.core.collection import Collection
from limner.core.errors import LimnerError, UnknownName
from limner.core.extras import missing_extra
from limner.core.judgements import Judgements
from limner.datasets.text_files import At, existing, find_file, json_file, number, refuse, table

CXC_THRESHOLD = 3.0
"""The lowest CxC rating (0 to 5) at which an image and a caption count as a match."""

_TRAILING_NUMBER = re.compile(r"(\d+)(?:\.jpg)?$")
_MOST_DIGITS = 18
_FORMS = {"pcme": 0, "eccv": 2}  # form of plausible matches -> its default distance


def read_cxc(path: str | Path) -> Judgements:
    """The ratings of images and captions in CrissCrossed Captions (image -> text), from 0 to 5 as published.

    Papers evaluate on `read_cxc(path).at_least(CXC_THRESHOLD)`: in the test split 35,585 pairs, with 5,000 images and
    24,972 captions that have at least one match.

    Args:
        path: `sits_test.csv`, or the folder that contains it.
    """
    file = find_file(existing(path, what="CxC csv"), ("sits_test.csv", "sits_*.csv"), what="CxC csv")
    pairs: dict[tuple[str, str], float] = {}
    for at, row in table(file, delimiter=","):
        _refuse_missing_columns(row, at)
        pair = _coco_number(row["image"], at), _coco_number(row["caption"], at)
        if pair in pairs:
            refuse(at, f"image {pair[0]} and caption {pair[1]} are rated a second time")
        pairs[pair] = number(row["agg_score"], at, what="agg_score")
    return Judgements.from_pairs(((i, c, grade) for (i, c), grade in pairs.items()), name="cxc")


def _refuse_missing_columns(row: Mapping[str, str], at: At) -> None:
    missing = [name for name in ("caption", "image", "agg_score") if name not in row]
    if missing:
        refuse(At(at.path, 1), f"no column {missing[0]!r}; the header has {', '.join(row)}")


def _coco_number(name: str, at: At) -> str:
    """The number at the end of `COCO_val2014_000000365325.jpg` or `COCO_val2014:sentid:732091`."""
    match = _TRAILING_NUMBER.search(name)
    if not match or len(match[1]) > _MOST_DIGITS:
        refuse(at, f"{name[:80]!r} does not end in a COCO number")
    return str(int(match[1]))


def eccv_folder(path: str | Path | None = None) -> Path:
    """The folder with the JSON files of ECCV Caption: the given one, or that of the package `eccv_caption`.

    The package is located but not imported, so its dependencies are not needed.
    """
    if path is not None:
        return existing(path, what="folder with ECCV Caption")
    spec = importlib.util.find_spec("eccv_caption")
    if spec is None or spec.origin is None:
        raise missing_extra("eccv_caption", what="ECCV Caption without a folder of its files")
    return Path(spec.origin).parent / "data"


def read_eccv(path: str | Path | None = None) -> tuple[Judgements, Judgements]:
    """ECCV Caption (Chun et al. 2022): image -> text and text -> image, judged separately, so not transposes.

    There are 1,261 image queries with 22,550 positives and 1,332 caption queries with 11,279, in the order of the
    files. Two positives (captions 144675 and 467259) are outside the 25,000 test captions. They are kept because the
    published figures count them, so no system can reach an image-to-text mAP@R of 1.

    Args:
        path: Folder with `eccv_image_to_caption.json` and `eccv_caption_to_image.json`; that of the installed
            package `eccv_caption` by default.
    """
    return _read_both(eccv_folder(path), "eccv")


def read_cxc_positives(path: str | Path | None = None) -> tuple[Judgements, Judgements]:
    """The matches of CxC, from the package `eccv_caption`: pairs rated 3 or more, in both directions."""
    return _read_both(eccv_folder(path), "cxc")


def read_coco_pairs(path: str | Path | None = None) -> tuple[Judgements, Judgements]:
    """The 25,000 original pairs of COCO's test split, in both directions, from the package `eccv_caption`."""
    return _read_both(eccv_folder(path), "original")


def _read_both(folder: Path, name: str) -> tuple[Judgements, Judgements]:
    images = _read_positives(folder / f"{name}_image_to_caption.json", name)
    return images, _read_positives(folder / f"{name}_caption_to_image.json", name)


def _read_positives(file: Path, name: str) -> Judgements:
    """Reads a JSON object of query id -> list of positive ids; repeated ids count once."""
    content = json_file(file)
    for query, positives in content.items():
        if not isinstance(positives, list):
            refuse(At(file), f"query {query!r} has {positives!r}, expected a list of ids")
    pairs = ((q, c) for q, positives in content.items() for c in dict.fromkeys(map(str, positives)))
    return Judgements.from_pairs(pairs, queries=content, name=name)


def plausible_matches(
    collection: Collection,
    *,
    zeta: int | None = None,
    form: str = "pcme",
    labels: Mapping[str, Iterable[object]] | None = None,
) -> Judgements:
    """Plausible matches: pairs whose images have (nearly) the same objects.

    A caption has the object classes of its own image. A pair is plausible if the sets of classes of the two
    images differ in at most `zeta` classes: |A symmetric-difference B| <= zeta (Hamming distance of label vectors).
    Source: PCME, Chun et al. 2021 (form "pcme": own image included; zeta 0, 1 and 2 are averaged) and the build of
    ECCV Caption, Chun et al. 2022 (form "eccv": own image left out, zeta 2).

    An image without labels is in no pair. PCME also removes such images from the pool; do the same with
    `collection.restrict` to reproduce its figures.

    Args:
        collection: The images and texts, and their pairs.
        zeta: Number of classes in which two images may differ; 0 for "pcme" and 2 for "eccv" by default.
        form: "pcme" or "eccv".
        labels: Image id -> its object classes; the names in the image field "objects" by default.

    >>> from limner.core.collection import Items
    >>> from limner.core.ids import Ids
    >>> images, texts = Items(Ids("ab"), [None, None]), Items(Ids("xy"), ["dog", "hound"], kind="text")
    >>> c = Collection("c", images, texts, Judgements.from_pairs([("a", "x"), ("b", "y")]))
    >>> len(plausible_matches(c, labels={"a": ["dog"], "b": ["dog"]}))
    4
    """
    if form not in _FORMS:
        raise UnknownName("form of plausible matches", form, _FORMS)
    zeta = _FORMS[form] if zeta is None else zeta
    if zeta < 0:
        raise LimnerError(f"zeta={zeta}: expected 0 or more classes")
    similar = _similar_labels(collection, _label_sets(collection) if labels is None else labels, zeta)
    if form == "eccv":
        np.fill_diagonal(similar, False)
    name = f"plausible-{zeta}" if form == "pcme" else "plausible-eccv"
    return _through_captions(collection.judgements, similar, name)


def _label_sets(collection: Collection) -> dict[str, set[object]]:
    objects = collection.images.field("objects")
    return {
        key: {o["name"] for o in labelled or ()} for key, labelled in zip(collection.images.ids, objects, strict=True)
    }


def _similar_labels(collection: Collection, labels: Mapping[str, Iterable[object]], zeta: int) -> npt.NDArray[np.bool_]:
    """Which images differ in at most zeta classes; with |A ^ B| = |A| + |B| - 2 |A & B| this is one matrix product."""
    ids = collection.images.ids
    classes = {label: column for column, label in enumerate({c for key in ids for c in labels.get(key, ())})}
    vectors = np.zeros((len(ids), len(classes)), dtype=np.float32)
    for row, key in enumerate(ids):
        vectors[row, [classes[c] for c in labels.get(key, ())]] = 1
    sizes = vectors.sum(axis=1)
    differing = sizes[:, None] + sizes[None, :] - 2 * (vectors @ vectors.T)
    labelled = sizes > 0
    similar: npt.NDArray[np.bool_] = (differing < zeta + 0.5) & labelled[:, None] & labelled[None, :]
    return similar


def _through_captions(pairs: Judgements, similar: npt.NDArray[np.bool_], name: str) -> Judgements:
    from scipy.sparse import csr_array

    relevant = pairs.relevant
    shape = (len(relevant.queries), len(relevant.candidates))
    belongs = csr_array((np.ones(len(relevant.rows), dtype=np.int32), (relevant.rows, relevant.columns)), shape=shape)
    products = (csr_array(similar.astype(np.int32)) @ belongs).tocoo()
    return Judgements(relevant.queries, relevant.candidates, products.row, products.col, np.ones(products.nnz), name)
