"""Pair classifiers: networks that read a file name and a caption together and predict whether they match.

Both read `[CLS] name [SEP] caption` (Messina et al. 2022); with images, an image token follows the first token.
`Reading` is a small transformer over the vectors of a frozen text backbone; `Tuned` is a pretrained transformer,
fine-tuned as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, normalize

from limner.core.arrays import IntArray
from limner.core.errors import LimnerError
from limner.core.extras import needed
from limner.core.paths import damage_told
from limner.encoders.batching import padded
from limner.encoders.offline import folder_of, pretrained
from limner.encoders.text_transformers import max_tokens_of
from limner.papers.file_name_models.text_readers import Read, Seeing, States, TextReader
from limner.systems.towers.branches import Vectors
from limner.systems.towers.pairs import PairReader, Pairs
from limner.systems.towers.settings import refuse_below

TUNED = "backbone"
"""Subfolder of a saved model with the transformer's config and tokenizer."""


@dataclass(frozen=True, kw_only=True)
class Layers:
    """The transformer over a frozen backbone; a pretrained transformer has its own shape.

    Args:
        hidden_dim: Dimension per token.
        layers: Number of layers.
        heads: Number of attention heads.
        dropout: Dropout rate in training; for a pretrained transformer, only for the image features.
    """

    hidden_dim: int = 256
    layers: int = 4
    heads: int = 4
    dropout: float = 0.1

    def __post_init__(self) -> None:
        """Checks the values."""
        refuse_below(self, 1, "hidden_dim", "layers", "heads")
        if self.hidden_dim % self.heads:
            raise LimnerError(
                f"hidden_dim={self.hidden_dim} with heads={self.heads}: expected a multiple of the number of heads"
            )


class Reading(nn.Module):
    """A small transformer over name and caption, as encoded by a backbone.

    The backbone's vectors can be compared directly: every token also gets its maximum and mean cosine similarity with
    the tokens of the other text (as in decomposable attention, Parikh et al. 2016), so that matching need not be
    learned from scratch. The first token and the logit also get whole-text similarities: of name and caption in the
    backbone, and of name and caption, and image and caption, after the learned maps.

    Args:
        reader: The backbone; it is not part of the module.
        shape: Shape of the transformer.
        features: Dimension of the image features; None without images.
    """

    def __init__(self, reader: TextReader, shape: Layers, features: int | None) -> None:
        super().__init__()
        self.reader = reader
        self.states, self.see = States(reader), Seeing(reader, shape.hidden_dim)
        wholes = 1 + reader.has_whole + (features is not None)
        self.alike, self.whole_alike = nn.Linear(2, shape.hidden_dim), nn.Linear(wholes, shape.hidden_dim)
        self.straight = nn.Linear(wholes, 1)
        nn.init.constant_(self.straight.weight, 5.0)  # a cosine similarity of 1 alone gives a confident match
        self.first = nn.Parameter(torch.randn(shape.hidden_dim) * 0.02)
        self.sides = nn.Parameter(torch.randn(3, shape.hidden_dim) * 0.02)
        self.places = nn.Parameter(torch.randn(reader.max_tokens, shape.hidden_dim) * 0.02)
        self.picture = None if features is None else Vectors(features, shape.hidden_dim, dropout=shape.dropout)
        layer = nn.TransformerEncoderLayer(
            shape.hidden_dim,
            shape.heads,
            4 * shape.hidden_dim,
            shape.dropout,
            "gelu",
            batch_first=True,
            norm_first=True,
        )
        norm = nn.LayerNorm(shape.hidden_dim)
        self.encoder = nn.TransformerEncoder(layer, shape.layers, norm=norm, enable_nested_tensor=False)
        self.out = nn.Linear(shape.hidden_dim, 1)

    def read(self, texts: Sequence[str]) -> Read:
        """Tokenised texts."""
        return self.reader.read(texts)

    def lengths(self, names: Read, captions: Read) -> tuple[IntArray, IntArray]:
        """Tokens of the queries and of the captions."""
        return names.lengths, captions.lengths

    def forward(
        self, names: Read, rows: IntArray, captions: Read, columns: IntArray, features: Tensor | None
    ) -> Tensor:
        """One logit per pair (rows[n], columns[n])."""
        sides = names.rows(rows), captions.rows(columns)
        states = [self.states(side, self.reader) for side in sides]
        cosines = alike(states[0], states[1], sides[0].filled, sides[1].filled)
        encoded = [self.see(side_states, side) for side_states, side in zip(states, sides, strict=True)]
        image = None if self.picture is None else self._picture(features)
        wholes = self._wholes(sides, encoded, image)
        ahead = [(self.first + self.whole_alike(wholes))[:, None]]
        if image is not None:
            ahead.append((image + self.sides[2])[:, None])
        parts = [self._side(side, n, encoded[n][0], encoded[n][1], cosines[n]) for n, side in enumerate(sides)]
        marks = torch.ones(len(rows), len(ahead), dtype=torch.bool, device=wholes.device)
        filled = torch.cat([marks, *(filled for _, filled in parts)], 1)
        tokens = torch.cat([*ahead, *(part for part, _ in parts)], 1)
        logits: Tensor = self.out(self.encoder(tokens, src_key_padding_mask=~filled)[:, 0]) + self.straight(wholes)
        return logits[:, 0]

    def _wholes(
        self, sides: Sequence[Read], encoded: Sequence[tuple[Tensor, Tensor | None]], image: Tensor | None
    ) -> Tensor:
        """Similarities of the whole name, caption and image: from the backbone, and learned ones."""
        name, caption = (_pooled(*side_encoded, side.filled) for side_encoded, side in zip(encoded, sides, strict=True))
        features = [cosine_similarity(name, caption)]
        if sides[0].whole is not None and sides[1].whole is not None:
            features.append(cosine_similarity(sides[0].whole, sides[1].whole))
        if image is not None:
            features.append(cosine_similarity(image, caption))
        return torch.stack(features, 1)

    def _side(
        self, read: Read, side: int, tokens: Tensor, pooled: Tensor | None, cosines: Tensor
    ) -> tuple[Tensor, Tensor]:
        rows = tokens + self.alike(cosines) + self.places[: tokens.shape[1]] + self.sides[side]
        if pooled is None:
            return rows, read.filled
        first = pooled[:, None] + self.sides[side]
        return torch.cat([first, rows], 1), torch.cat([read.filled[:, :1], read.filled], 1)

    def _picture(self, features: Tensor | None) -> Tensor:
        if self.picture is None or features is None:
            raise LimnerError("this classifier uses images: give (name, image vector) pairs as queries")
        token: Tensor = self.picture(features).whole
        return token

    def save(self, folder: Path) -> None:
        """Writes the files of the backbone."""
        self.reader.save(folder)


def alike(names: Tensor, captions: Tensor, named: Tensor, spoken: Tensor) -> tuple[Tensor, Tensor]:
    """For every token of both texts, its maximum and mean cosine similarity with the tokens of the other text.

    max_j cos(a_i, b_j) and mean_j cos(a_i, b_j), over unmasked tokens j.

    >>> a, there = torch.tensor([[[1.0, 0.0], [0.0, 2.0]]]), torch.ones(1, 2, dtype=torch.bool)
    >>> b, one = torch.tensor([[[3.0, 0.0], [9.0, 9.0]]]), torch.tensor([[True, False]])
    >>> alike(a, b, there, one)[0].tolist()
    [[[1.0, 1.0], [0.0, 0.0]]]
    """
    cosines = normalize(names, dim=-1) @ normalize(captions, dim=-1).transpose(1, 2)
    return _summed_up(cosines, spoken), _summed_up(cosines.transpose(1, 2), named)


def _pooled(tokens: Tensor, pooled: Tensor | None, filled: Tensor) -> Tensor:
    """The vector of a whole text, or the mean of its token vectors if the backbone has none."""
    if pooled is not None:
        return pooled
    mask = filled[:, :, None]
    return (tokens * mask).sum(1) / mask.sum(1).clamp(min=1)


def _summed_up(cosines: Tensor, filled: Tensor) -> Tensor:
    best = cosines.masked_fill(~filled[:, None], -1.0).amax(2)
    mean = (cosines * filled[:, None]).sum(2) / filled.sum(1, keepdim=True).clamp(min=1)
    return torch.stack([best, mean], -1)


class Tuned(nn.Module):
    """A pretrained transformer with a pair classifier, fine-tuned as a whole.

    Args:
        model: A folder or a name on the Hugging Face hub; the folder of a saved classifier gives the shape without
            weights.
        max_tokens: Tokens per pair.
        features: Dimension of the image features; None without images.
        dropout: Dropout rate of the image features; the transformer has its own.
        fresh: Whether to load the pretrained weights.
    """

    def __init__(
        self, model: str | Path, *, max_tokens: int, features: int | None, dropout: float = 0.0, fresh: bool = True
    ) -> None:
        super().__init__()
        library = needed("transformers", what="CRank")
        folder = folder_of(model, purpose="CRank")
        kind = library.AutoModelForSequenceClassification
        config = pretrained(library.AutoConfig.from_pretrained, folder, num_labels=1)
        with damage_told(folder, what="pretrained transformer"):
            backbone = pretrained(kind.from_pretrained, folder, config=config) if fresh else kind.from_config(config)
        self.model = backbone
        tokenizer = pretrained(library.AutoTokenizer.from_pretrained, folder)
        self.pairs = PairReader(tokenizer, max_tokens=min(max_tokens, max_tokens_of(tokenizer, config) - 1))
        self.picture = None if features is None else Vectors(features, int(config.hidden_size), dropout=dropout)

    def read(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokens of texts, without special tokens."""
        return self.pairs.texts(texts)

    def lengths(self, names: list[list[int]], captions: list[list[int]]) -> tuple[IntArray, IntArray]:
        """Tokens of the queries and of the captions."""
        first, second = (np.array([len(t) for t in side], dtype=np.int64) for side in (names, captions))
        return first, second

    def forward(self, names: Any, rows: IntArray, captions: Any, columns: IntArray, features: Tensor | None) -> Tensor:
        """One logit per pair (rows[n], columns[n])."""
        chosen = [names[r] for r in rows.tolist()], [captions[c] for c in columns.tolist()]
        tokens, types = Pairs(self.pairs.template, *chosen, self.pairs.max_tokens).tokens(np.arange(len(rows)))
        device = next(self.parameters()).device
        matrix, filled = (torch.from_numpy(a).to(device) for a in padded(tokens, fill=self._fill))
        inputs: dict[str, Tensor] = {"attention_mask": filled.long(), "input_ids": matrix}
        if "token_type_ids" in self.pairs.tokenizer.model_input_names:
            inputs["token_type_ids"] = torch.from_numpy(padded(types)[0]).to(device)
        if self.picture is not None:
            inputs = self._with_picture(inputs, features)
        logits: Tensor = self.model(**inputs).logits
        return logits[:, 0]

    def first_states(self, texts: Sequence[str]) -> Tensor:
        """The last state of the first token of each text, encoded alone."""
        device = next(self.parameters()).device
        inputs = self.pairs.tokenizer(
            list(texts), padding=True, truncation=True, max_length=self.pairs.max_tokens, return_tensors="pt"
        )
        states: Tensor = self.model.base_model(**inputs.to(device)).last_hidden_state
        return states[:, 0]

    @property
    def _fill(self) -> int:
        return int(self.model.config.pad_token_id or 0)

    def _with_picture(self, inputs: dict[str, Tensor], features: Tensor | None) -> dict[str, Tensor]:
        """The input embeddings with the image as the second token."""
        if self.picture is None or features is None:
            raise LimnerError("this classifier uses images: give (name, image vector) pairs as queries")
        words = self.model.get_input_embeddings()(inputs.pop("input_ids"))
        token = self.picture(features).whole[:, None].to(words.dtype)
        widened = {name: torch.cat([side[:, :1], side], 1) for name, side in inputs.items()}
        return {**widened, "inputs_embeds": torch.cat([words[:, :1], token, words[:, 1:]], 1)}

    def save(self, folder: Path) -> None:
        """Writes the kind of transformer and its tokenizer; the weights are in the model's own file."""
        self.model.config.save_pretrained(folder / TUNED)
        self.pairs.tokenizer.save_pretrained(folder / TUNED)


Judge = Reading | Tuned
