"""A GRU over words, with its weights in a local folder, so nothing is downloaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Unpack

from limner.core.errors import LimnerError
from limner.core.extras import missing, missing_extra

if missing("torch"):
    raise missing_extra("torch", what="the encoder 'gru'")

import torch
from torch import Tensor, nn

from limner.core import model_store
from limner.core.paths import damage_told
from limner.encoders.offline import fingerprint_of
from limner.encoders.torch_encoders import Running, TorchEncoder, mean_pooled
from limner.encoders.words import words

KIND = "gru"
UNKNOWN = 1
"""The index of unknown words; 0 is padding."""


class GruModule(nn.Module):
    """A GRU over word vectors (Cho et al. 2014); the mean of its states is the vector of a text."""

    def __init__(self, size: int, *, word_dim: int, dim: int) -> None:
        super().__init__()
        self.table = nn.Embedding(size, word_dim, padding_idx=0)
        self.gru = nn.GRU(word_dim, dim, batch_first=True)

    def forward(self, tokens: Tensor, filled: Tensor) -> Tensor:
        """Vectors of a batch; padding comes last and does not affect earlier states."""
        states, _ = self.gru(self.table(tokens))
        return mean_pooled(states, filled)


class GruEncoder(TorchEncoder):
    """A GRU over words, loaded from a folder written by `save`.

    Args:
        model: The folder.
        running: `device`, `precision` and `tokens_per_batch` of `limner.encoders.torch_encoders.TorchEncoder`.
    """

    def __init__(self, model: str | Path, **running: Unpack[Running]) -> None:
        super().__init__(**running)
        self.folder: Path | None = Path(model)
        self._set(*_read(self.folder))

    def _set(self, vocabulary: Sequence[str], reader: GruModule) -> None:
        self.words, self.reader = tuple(vocabulary), reader.to(self.device).eval()
        self.number = {word: number for number, word in enumerate(self.words, start=UNKNOWN + 1)}
        self.dim = int(reader.gru.hidden_size)

    @classmethod
    def fresh(
        cls,
        texts: Iterable[str],
        *,
        dim: int = 256,
        word_dim: int = 128,
        min_count: int = 2,
        seed: int = 0,
        **running: Unpack[Running],
    ) -> GruEncoder:
        """A new encoder with random weights and the vocabulary of these texts, to be trained (`reader`) and saved.

        Args:
            texts: Texts that define the vocabulary.
            dim: Dimension of the vectors.
            word_dim: Dimension of the word vectors.
            min_count: Words that occur in fewer texts are left out.
            seed: Seed of the weights.
            running: As for the class.
        """
        text_counts = Counter(word for text in texts for word in set(words(text)))
        vocabulary = sorted(word for word, count in text_counts.items() if count >= min_count)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            reader = GruModule(len(vocabulary) + UNKNOWN + 1, word_dim=word_dim, dim=dim)
        encoder = cls.__new__(cls)
        TorchEncoder.__init__(encoder, **running)
        encoder.folder = None
        encoder._set(vocabulary, reader)
        return encoder

    @property
    def fingerprint(self) -> str:
        """The files in the folder and the precision."""
        if self.folder is None:
            raise LimnerError("this GRU was never saved, so it has no fingerprint: save it and load it again")
        return f"gru {fingerprint_of(self.folder)} {self.number_type}"

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Token indices; an empty text is one unknown word."""
        return [[self.number.get(word, UNKNOWN) for word in words(text)] or [UNKNOWN] for text in texts]

    def text_vectors(self, tokens: Tensor, filled: Tensor) -> Tensor:
        """The mean of the states."""
        vectors: Tensor = self.reader(tokens, filled)
        return vectors

    def save(self, folder: str | Path) -> Path:
        """Writes config.json and model.safetensors into a folder."""
        shape = {"word_dim": self.reader.table.embedding_dim, "dim": self.dim, "words": self.words}
        weights = {name: tensor.detach().cpu().numpy() for name, tensor in self.reader.state_dict().items()}
        return model_store.write(folder, KIND, shape, weights=weights)

    @classmethod
    def load(cls, folder: str | Path, *, trust: bool = False) -> GruEncoder:
        """Loads the encoder in a folder, for `limner.systems.load`; it names no code, so `trust` has no effect."""
        return cls(folder)


def _read(folder: Path) -> tuple[list[str], GruModule]:
    saved = model_store.read(folder, KIND)
    with damage_told(folder, what="saved GRU", mend="save it again"):
        vocabulary, config = [str(word) for word in saved.content["words"]], saved.content
        weights = {name: torch.from_numpy(array.copy()) for name, array in saved.weights.items()}
        sizes = weights["table.weight"].shape[1], weights["gru.weight_hh_l0"].shape[1]
        if sizes != (config["word_dim"], config["dim"]):
            raise LimnerError(
                f"{folder}: the sizes of its weights, {sizes}, do not match its config.json; save it again"
            )
        reader = GruModule(len(vocabulary) + UNKNOWN + 1, word_dim=sizes[0], dim=sizes[1])
        reader.load_state_dict(weights)
    return vocabulary, reader
