"""Pair classifiers: networks that read a file name and a caption together and predict whether they match.

Both read `[CLS] name [SEP] caption` (Messina et al. 2022); with images, an image token follows the first token.
`Reading` is a small transformer over the vectors of a frozen text backbone; `Tuned` is a pretrained transformer,
fine-tuned as a whole. `CrankData` draws the pairs that CRank is trained on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, normalize

from limner.core.arrays import IntArray
from limner.core.collection import Collection
from limner.core.errors import LimnerError
from limner.core.extras import needed
from limner.core.paths import damage_told
from limner.core.ranking import Ranking
from limner.datasets.runs import read_run
from limner.datasets.wikipedia import image_names
from limner.encoders.batching import padded
from limner.encoders.offline import folder_of, pretrained
from limner.encoders.opening import Source
from limner.encoders.text_transformers import max_tokens_of
from limner.papers.file_name_models.text_readers import Read, Seeing, States, TextReader
from limner.scores import Scores
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


Proposer = str | Path | Scores | Ranking | None


class CrankBatch(NamedTuple):
    """A batch of pairs, with the matching ones marked."""

    rows: IntArray
    columns: IntArray
    match: Tensor


@dataclass(frozen=True, eq=False)
class CrankData:
    """A collection, tokenised for a classifier.

    Args:
        names: File names, tokenised.
        captions: Texts, tokenised.
        features: One row per image, or None.
        rows: The image of each matching pair.
        columns: The text of each matching pair.
        proposed: For each image the negatives that the proposer ranks first, padded with -1; or None.
        hard: The share of negatives drawn from these.
    """

    names: Any
    captions: Any
    features: Tensor | None
    rows: IntArray
    columns: IntArray
    proposed: IntArray | None = None
    hard: float = 0.0

    @classmethod
    def of(cls, collection: Collection, judge: Judge, features: Source | None, device: torch.device) -> CrankData:
        """Reads a collection."""
        pairs = collection.judgements.relevant.restrict(candidates=collection.texts.ids)
        if len(collection.texts) < 2 or not len(pairs.rows):
            raise LimnerError(f"{collection.name!r} has {len(pairs.rows)} pairs: expected some, and at least 2 texts")
        rows = None if features is None else as_tensor(features.vectors(collection.images), device)
        names, captions = judge.read(image_names(collection.images)), judge.read(collection.texts.values)
        return cls(names, captions, rows, pairs.rows, pairs.columns)

    def with_proposed(self, collection: Collection, proposer: Proposer, *, depth: int, share: float) -> CrankData:
        """Adds hard negatives from a proposer."""
        if proposer is None or not share:
            return self
        lists = proposer.top(depth + self._most_texts) if isinstance(proposer, Scores | Ranking) else read_run(proposer)
        row_of = {key: row for row, key in enumerate(lists.queries)}
        missing = [key for key in collection.images.ids if key not in row_of]
        if missing:
            raise LimnerError(
                f"the proposer has no ranking for {len(missing):,} of {len(collection.images):,} training images, e.g. "
                f"{missing[0]!r}: let it rank the captions of {collection.name!r}"
            )
        place = {key: column for column, key in enumerate(collection.texts.ids)}
        turned = np.array([place.get(key, -1) for key in lists.candidates] + [-1])
        columns = turned[lists.indices[[row_of[key] for key in collection.images.ids]]]
        flat = columns + len(self.captions) * np.arange(len(columns))[:, None]
        wrong = (columns >= 0) & ~np.isin(flat, self._keys)
        first = np.argsort(~wrong, axis=1, kind="stable")[:, :depth]
        left = np.where(np.take_along_axis(wrong, first, 1), np.take_along_axis(columns, first, 1), -1)
        return replace(self, proposed=left, hard=share)

    def negatives(self, images: IntArray, generator: np.random.Generator) -> IntArray:
        """A negative text for each image: random, or from the proposer."""
        drawn = self._random(images, generator)
        if self.proposed is not None:
            lists = self.proposed[images]
            lengths = (lists >= 0).sum(axis=1)
            chosen = lists[np.arange(len(lists)), (generator.random(len(lists)) * lengths).astype(np.int64)]
            is_hard = (generator.random(len(lists)) < self.hard) & (lengths > 0)
            drawn = np.where(is_hard, chosen, drawn)
        return drawn

    @property
    def _most_texts(self) -> int:
        """The largest number of texts per image."""
        return int(np.bincount(self.rows).max())

    def _random(self, images: IntArray, generator: np.random.Generator) -> IntArray:
        keys, width = self._keys, len(self.captions)
        drawn = generator.integers(0, width, len(images))
        for _ in range(100):
            pairs_drawn = images * width + drawn
            wrong = keys[np.searchsorted(keys, pairs_drawn).clip(max=len(keys) - 1)] == pairs_drawn
            if not wrong.any():
                break
            drawn[wrong] = generator.integers(0, width, int(wrong.sum()))
        return drawn

    @cached_property
    def _keys(self) -> IntArray:
        return np.sort(self.rows * len(self.captions) + self.columns)

    def judged(self, judge: Judge, rows: IntArray, columns: IntArray) -> Tensor:
        """Logits of pairs."""
        features = None
        if self.features is not None:
            features = self.features[torch.from_numpy(rows).to(self.features.device)]
        logits: Tensor = judge(self.names, rows, self.captions, columns, features)
        return logits


def as_tensor(rows: object, device: torch.device) -> Tensor:
    """Rows of numbers on a device, in single precision."""
    return torch.from_numpy(np.array(rows, dtype=np.float32)).to(device)
