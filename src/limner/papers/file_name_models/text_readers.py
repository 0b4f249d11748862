"""Text backbones of MCProp and CRank: they turn texts into sequences of token vectors.

- "words": vectors of the words in the training texts, trained with the model; needs no download.
- "use-multilingual": the frozen word pieces and sentence vectors of the packaged encoder for 16 languages.
- a folder or a name on the Hugging Face hub: the frozen last states of that model, such as "xlm-roberta-base".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from limner.core.arrays import IntArray
from limner.core.cut_texts import count
from limner.core.errors import LimnerError
from limner.core.files import write_text
from limner.core.model_store import Content
from limner.core.paths import read_text
from limner.encoders.batching import padded
from limner.systems.towers.vocabulary import Vocabulary

if TYPE_CHECKING:
    from limner.encoders.numpy_texts import UniversalSentenceEncoder

WORDS, PACKAGED = "words", "use-multilingual"
VOCABULARY = "vocabulary.txt"


@dataclass(frozen=True, eq=False)
class Read:
    """Texts as tokens on their device.

    Args:
        tokens: Texts by positions, padded with 0.
        lengths: Tokens of each text.
        whole: One vector per text, if the backbone provides it.
    """

    tokens: Tensor
    lengths: IntArray
    whole: Tensor | None = None

    def rows(self, rows: IntArray) -> Read:
        """These texts, padded to the longest of them."""
        longest = int(self.lengths[rows].max(initial=1))
        at = torch.from_numpy(rows).to(self.tokens.device)
        return Read(self.tokens[at, :longest], self.lengths[rows], None if self.whole is None else self.whole[at])

    @property
    def filled(self) -> Tensor:
        """Mask of the positions that hold a token."""
        lengths = torch.from_numpy(self.lengths).to(self.tokens.device)
        return torch.arange(self.tokens.shape[1], device=self.tokens.device)[None, :] < lengths[:, None]

    def __len__(self) -> int:
        return len(self.lengths)


class TextReader(ABC):
    """A text backbone.

    Args:
        max_tokens: Tokens per text.
        device: Device of the vectors.
    """

    kind: str
    dim: int
    size: int | None = None
    """The vocabulary if word vectors are learned; None if the backbone is frozen and has its own."""
    has_whole = False
    has_first = False
    """Whether the first token represents the whole text, like `[CLS]`."""

    def __init__(self, *, max_tokens: int, device: torch.device) -> None:
        self.max_tokens, self.device = max_tokens, device

    @abstractmethod
    def numbers(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text."""

    def text_vectors(self, texts: Sequence[str]) -> Tensor | None:
        """Vectors of whole texts, if the backbone provides them."""
        return None

    @abstractmethod
    def states(self, tokens: Tensor, filled: Tensor) -> Tensor:
        """One vector per token, without gradient."""

    def read(self, texts: Sequence[str]) -> Read:
        """Prepared texts."""
        numbers = self.numbers(list(texts))
        count(texts, map(len, numbers), limit=self.max_tokens)
        rows = [row[: self.max_tokens] or [0] for row in numbers]
        matrix, filled = padded(rows)
        return Read(torch.from_numpy(matrix).to(self.device), filled.sum(axis=1), self.text_vectors(texts))

    def about(self) -> dict[str, object]:
        """The description from which a saved model restores it."""
        return {"kind": self.kind, "max_tokens": self.max_tokens}

    def save(self, folder: Path) -> None:  # noqa: B027  # most backbones lie elsewhere
        """Writes the files that only this kind of reader needs."""


class WordsReader(TextReader):
    """Words of the training texts; their vectors are learned with the heads."""

    kind = WORDS

    def __init__(self, vocabulary: Vocabulary, *, dim: int, max_tokens: int, device: torch.device) -> None:
        super().__init__(max_tokens=max_tokens, device=device)
        self.vocabulary, self.dim, self.size = vocabulary, dim, len(vocabulary)

    def numbers(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of the words."""
        tokens = self.vocabulary.tokens(texts, max_tokens=self.max_tokens)
        return [tokens.flat[a:b].tolist() for a, b in zip(tokens.starts[:-1], tokens.starts[1:], strict=True)]

    def states(self, tokens: Tensor, filled: Tensor) -> Tensor:
        """Raises an error, since the model has its own vectors."""
        raise LimnerError("word vectors are learned by the model: use its own table")

    def save(self, folder: Path) -> None:
        """Writes the words."""
        write_text(folder / VOCABULARY, "".join(f"{word}\n" for word in self.vocabulary.words))


class PackagedReader(TextReader):
    """Word pieces and sentence vectors of the packaged multilingual encoder, both frozen."""

    kind = PACKAGED
    has_whole = True

    def __init__(self, *, max_tokens: int, device: torch.device) -> None:
        super().__init__(max_tokens=max_tokens, device=device)
        self.table = _packaged_table().to(device)
        self.dim = int(self.table.shape[1])

    def numbers(self, texts: Sequence[str]) -> list[list[int]]:
        """Word pieces without start and end tokens."""
        return [pieces for pieces, _ in _packaged(texts)]

    def text_vectors(self, texts: Sequence[str]) -> Tensor:
        """The encoder's sentence vectors."""
        return torch.from_numpy(np.stack([vector for _, vector in _packaged(texts)])).to(self.device)

    def states(self, tokens: Tensor, filled: Tensor) -> Tensor:
        """The vectors of the word pieces."""
        return self.table[tokens]


@cache
def _packaged_encoder() -> UniversalSentenceEncoder:
    from limner.encoders.numpy_texts import UniversalSentenceEncoder

    return UniversalSentenceEncoder()


@cache
def _packaged_table() -> Tensor:
    return torch.from_numpy(_packaged_encoder().token_table())


_SEEN: dict[str, tuple[list[int], npt.NDArray[np.float32]]] = {}
_REMEMBERED = 1 << 18


def _packaged(texts: Sequence[str]) -> list[tuple[list[int], npt.NDArray[np.float32]]]:
    """Word pieces and sentence vectors of texts, cached because the tokeniser is written in Python."""
    fresh = [text for text in dict.fromkeys(texts) if text not in _SEEN]
    if len(_SEEN) + len(fresh) > _REMEMBERED:
        _SEEN.clear()
        fresh = list(dict.fromkeys(texts))
    if fresh:  # all at once: one by one, most of the time is spent reading the weights
        encoder = _packaged_encoder()
        pieces = (row[1:-1] for row in encoder.tokens(fresh))
        _SEEN.update(zip(fresh, zip(pieces, encoder.encode(fresh), strict=True), strict=True))
    return [_SEEN[text] for text in texts]


class BackboneReader(TextReader):
    """The last hidden states of a frozen transformer."""

    kind = "transformers"
    has_first = True

    def __init__(self, model: str | Path, *, max_tokens: int, device: torch.device) -> None:
        from limner.encoders.text_transformers import TextBackbone, frozen

        super().__init__(max_tokens=max_tokens, device=device)
        self.backbone = TextBackbone(model, max_tokens=max_tokens, device=str(device))
        frozen(self.backbone.model)
        self.dim, self.model = self.backbone.dim, str(model)

    def numbers(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokens with start and end tokens."""
        return self.backbone.tokens(texts)

    def states(self, tokens: Tensor, filled: Tensor) -> Tensor:
        """The last states of all tokens."""
        with torch.no_grad():
            return self.backbone.states(tokens, filled)

    def about(self) -> dict[str, object]:
        """Also the location of the model."""
        path = Path(self.model)
        return {**super().about(), "model": str(path.resolve()) if path.is_dir() else self.model}


def reader_of(
    backbone: str | Path | None,
    texts: Sequence[str],
    *,
    dim: int,
    max_tokens: int,
    min_count: int,
    device: torch.device,
) -> TextReader:
    """The reader specified by an option.

    Args:
        backbone: None or "words", "use-multilingual", or a folder or name of a transformer.
        texts: Training texts, from which "words" takes its vocabulary.
        dim: Dimension of the word vectors of "words".
        max_tokens: Tokens per text.
        min_count: Words in fewer texts are treated as unknown by "words".
        device: Device of the vectors.
    """
    if backbone is None or backbone == WORDS:
        return WordsReader(Vocabulary.fit(texts, min_count=min_count), dim=dim, max_tokens=max_tokens, device=device)
    if backbone == PACKAGED:
        return PackagedReader(max_tokens=max_tokens, device=device)
    return BackboneReader(backbone, max_tokens=max_tokens, device=device)


def load_reader(about: Content, folder: Path, *, dim: int, device: torch.device) -> TextReader:
    """The reader of a saved model."""
    max_tokens = int(about["max_tokens"])
    if about["kind"] == WORDS:
        words = read_text(folder / VOCABULARY, what="vocabulary").split("\n")[:-1]
        return WordsReader(Vocabulary(tuple(words)), dim=dim, max_tokens=max_tokens, device=device)
    if about["kind"] == PACKAGED:
        return PackagedReader(max_tokens=max_tokens, device=device)
    return BackboneReader(about["model"], max_tokens=max_tokens, device=device)


class States(nn.Module):
    """The token vectors: those of the frozen backbone, or learned ones if the backbone is "words".

    Args:
        reader: The backbone; it is not part of the module.
    """

    def __init__(self, reader: TextReader) -> None:
        super().__init__()
        self.table = None if reader.size is None else nn.Embedding(reader.size, reader.dim)

    def forward(self, read: Read, reader: TextReader) -> Tensor:
        """Token vectors: texts by positions by dimensions."""
        return reader.states(read.tokens, read.filled) if self.table is None else self.table(read.tokens)


class Seeing(nn.Module):
    """Maps states to vectors of a given dimension, by layer norm and a linear map.

    Args:
        reader: The backbone.
        width: Dimension of the output vectors.
    """

    def __init__(self, reader: TextReader, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(reader.dim)
        self.linear = nn.Linear(reader.dim, width)
        self.whole = nn.Linear(reader.dim, width) if reader.has_whole else None

    def forward(self, states: Tensor, read: Read) -> tuple[Tensor, Tensor | None]:
        """Vectors of the tokens, and of whole texts if the backbone provides them."""
        projected: Tensor = self.linear(self.norm(states))
        return projected, None if self.whole is None else self.whole(self.norm(read.whole))
