"""Scorers of pairs of texts: any sentence-transformers CrossEncoder, tokenised once per text and without padding.

A text that occurs in a thousand pairs is tokenised once. Pairs are sorted by their length without padding and processed
in batches of a fixed number of tokens. Scores are logits, not probabilities, since a sigmoid saturates and creates ties
near 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from limner.core.arrays import IntArray
from limner.core.cut_texts import count
from limner.core.errors import LimnerError
from limner.core.extras import needed
from limner.core.progress import ProgressLike, as_progress
from limner.core.tensors import device_named
from limner.encoders.batching import Tokenizer, by_length, padded
from limner.encoders.offline import fingerprint_of, folder_of, pretrained, trained
from limner.encoders.text_transformers import max_tokens_of
from limner.encoders.torch_encoders import number_type
from limner.systems.towers.unpadded import UnpaddedEncoder, fits, lengths_in_batches

Scored = npt.NDArray[np.float32]
_REMEMBERED = 1 << 20  # cached tokenised texts


@dataclass(frozen=True)
class Template:
    """The special tokens that a tokenizer adds to two texts: `[CLS] a [SEP] b [SEP]`, `<s> a </s></s> b </s>`, ...

    Args:
        before: Tokens before the first text.
        between: Tokens between the two.
        after: Tokens after the second.
        types: The segments of: before, first text, between, second text, after.
    """

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    types: tuple[tuple[int, ...], int, tuple[int, ...], int, tuple[int, ...]]

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Template:
        """Derives the template from an example."""
        one = tokenizer("a", add_special_tokens=False)["input_ids"]
        example = tokenizer("a", "a", return_token_type_ids=True)
        ids, types = list(example["input_ids"]), list(example["token_type_ids"])
        width = len(one)
        starts = [at for at in range(len(ids) - width + 1) if ids[at : at + width] == one]
        if len(starts) < 2:
            raise LimnerError(f"{type(tokenizer).__name__} joins two texts in a way that is not supported")
        first, second = starts[0], starts[-1]
        cut = [ids[:first], ids[first + width : second], ids[second + width :]]
        segments = types[:first], types[first], types[first + width : second], types[second], types[second + width :]
        as_tuples = tuple(segments[0]), segments[1], tuple(segments[2]), segments[3], tuple(segments[4])
        return cls(tuple(cut[0]), tuple(cut[1]), tuple(cut[2]), as_tuples)

    @property
    def marks(self) -> int:
        """Number of special tokens."""
        return len(self.before) + len(self.between) + len(self.after)

    def joined(self, first: Sequence[int], second: Sequence[int]) -> tuple[list[int], list[int]]:
        """Tokens and segments of a pair."""
        tokens = [*self.before, *first, *self.between, *second, *self.after]
        before, a, between, b, after = self.types
        return tokens, [*before, *([a] * len(first)), *between, *([b] * len(second)), *after]


def cut_lengths(first: IntArray, second: IntArray, limit: int) -> tuple[IntArray, IntArray]:
    """How many tokens of each text are kept if the pair is too long ("longest first").

    >>> cut_lengths(np.array([3, 9, 9]), np.array([4, 2, 9]), 8)
    (array([3, 6, 4]), array([4, 2, 4]))
    """
    short, long = np.minimum(first, second), np.maximum(first, second)
    long = np.where(short > limit, short, np.maximum(short, limit - short).clip(max=long))
    over = short + long > limit
    short, long = np.where(over, limit // 2, short), np.where(over, limit // 2 + limit % 2, long)
    return np.where(first > second, long, short), np.where(first > second, short, long)


class PairReader:
    """Tokenises pairs; each text only once.

    Args:
        tokenizer: A fast tokenizer of transformers.
        max_tokens: Tokens per pair, special tokens included.
    """

    def __init__(self, tokenizer: Tokenizer, *, max_tokens: int) -> None:
        self.tokenizer, self.max_tokens = tokenizer, max_tokens
        self.template = Template.of(tokenizer)
        self._known: dict[str, list[int]] = {}

    def texts(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokens of texts, without special tokens."""
        fresh = [text for text in dict.fromkeys(texts) if text not in self._known]
        if len(self._known) + len(fresh) > _REMEMBERED:
            self._known.clear()
            fresh = list(dict.fromkeys(texts))
        if fresh:
            cut = self.tokenizer(fresh, add_special_tokens=False, return_attention_mask=False, verbose=False)
            self._known.update(zip(fresh, cut["input_ids"], strict=True))
        return [self._known[text] for text in texts]

    def pairs(self, first: Sequence[str], second: Sequence[str]) -> Pairs:
        """Pairs with known lengths, whose tokens are computed on demand."""
        tokens = self.texts([*first, *second])
        return Pairs(self.template, tokens[: len(first)], tokens[len(first) :], self.max_tokens)


class Pairs:
    """Pairs of texts as tokens.

    Args:
        template: Tokens around the texts.
        first: Tokens of the first texts.
        second: Tokens of the second.
        max_tokens: Tokens per pair, special tokens included.
    """

    def __init__(
        self, template: Template, first: Sequence[list[int]], second: Sequence[list[int]], max_tokens: int
    ) -> None:
        self.template, self.first, self.second = template, first, second
        lengths = [np.fromiter(map(len, side), dtype=np.int64, count=len(side)) for side in (first, second)]
        self.whole: IntArray = lengths[0] + lengths[1] + template.marks
        """Tokens of each pair before it is cut."""
        self.kept = cut_lengths(lengths[0], lengths[1], max_tokens - template.marks)
        self.lengths: IntArray = self.kept[0] + self.kept[1] + template.marks

    def __len__(self) -> int:
        return len(self.first)

    def tokens(self, rows: IntArray) -> tuple[list[list[int]], list[list[int]]]:
        """Tokens and segments of these pairs."""
        joined = [
            self.template.joined(self.first[r][: self.kept[0][r]], self.second[r][: self.kept[1][r]])
            for r in rows.tolist()
        ]
        return [tokens for tokens, _ in joined], [types for _, types in joined]


class CrossEncoderScorer:
    """A CrossEncoder of sentence-transformers, or any pair classifier of transformers, as a scorer of pairs.

    Args:
        model: A folder, or a name on the Hugging Face hub, with one label, or two of which the second means "match".
        max_tokens: Tokens per pair; the limit of the model by default.
        tokens_per_batch: Tokens per batch.
        device: "auto" (a GPU if there is one), "cpu", "cuda", ...
        precision: "auto" (half precision on a GPU), "float32", "float16" or "bfloat16".
        packed: Whether to compute without padding (`limner.systems.towers.unpadded`); by default if the model supports
            it.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        max_tokens: int | None = None,
        tokens_per_batch: int | None = None,
        device: str = "auto",
        precision: str = "auto",
        packed: bool | None = None,
    ) -> None:
        library = needed("transformers", what="a scorer of pairs")
        self.folder = folder_of(model, purpose="a scorer of pairs")
        tokenizer = pretrained(library.AutoTokenizer.from_pretrained, self.folder)
        self.device = device_named(device)
        self.number_type = number_type(precision, self.device) or torch.float32
        loaded = trained(library.AutoModelForSequenceClassification.from_pretrained, self.folder)
        self.model = loaded.to(self.device, self.number_type).eval()
        if self.model.config.num_labels not in (1, 2):
            raise LimnerError(f"{self.folder} has {self.model.config.num_labels} labels: expected 1 or 2")
        self.reader = PairReader(tokenizer, max_tokens=max_tokens or max_tokens_of(tokenizer, self.model.config))
        self.tokens_per_batch = tokens_per_batch or (
            131_072 if self.device.type == "cuda" else 2_048 * max(2, torch.get_num_threads())
        )
        self.packed = fits(self.model.config) if packed is None else packed
        self.encoder = UnpaddedEncoder(self.model.base_model) if self.packed else None

    @property
    def fingerprint(self) -> str:
        """Identifies the scorer by the model's files, the maximum length and the precision."""
        return f"cross-encoder {fingerprint_of(self.folder)} {self.reader.max_tokens} {self.number_type}"

    def score_pairs(
        self, queries: Sequence[str], candidates: Sequence[str], *, progress: ProgressLike = None
    ) -> Scored:
        """One logit per pair, higher is better."""
        progress = as_progress(progress)
        pairs = self.reader.pairs(queries, candidates)
        text_pairs = zip(queries, candidates, strict=True)
        count(text_pairs, pairs.whole.tolist(), limit=self.reader.max_tokens, kind="pairs")
        out = torch.empty(len(pairs), dtype=torch.float32, device=self.device)
        done = 0
        with torch.inference_mode():
            for rows in self._batches(pairs.lengths):
                logits = self._padded(pairs, rows) if self.encoder is None else self._packed(self.encoder, pairs, rows)
                out[torch.from_numpy(rows).to(self.device)] = _score(logits)
                done += len(rows)
                progress(done, len(pairs))
        return np.asarray(out.cpu().numpy())

    def _batches(self, lengths: IntArray) -> Iterable[IntArray]:
        if self.encoder is not None:
            return lengths_in_batches(lengths, budget=self.tokens_per_batch)
        return by_length(lengths, budget=self.tokens_per_batch)

    def _packed(self, encoder: UnpaddedEncoder, pairs: Pairs, rows: IntArray) -> Tensor:
        tokens, types = pairs.tokens(rows)
        first, second = (_flat(side).to(self.device, non_blocking=True) for side in (tokens, types))
        return _head(self.model, encoder(first, second, pairs.lengths[rows]))

    def _padded(self, pairs: Pairs, rows: IntArray) -> Tensor:
        tokens, types = pairs.tokens(rows)
        matrix, filled = padded(tokens, fill=int(self.model.config.pad_token_id or 0))
        sides = {"input_ids": matrix, "attention_mask": filled.astype(np.int64)}
        if "token_type_ids" in self.reader.tokenizer.model_input_names:
            sides["token_type_ids"] = padded(types)[0]
        logits: Tensor = self.model(**{k: torch.from_numpy(v).to(self.device) for k, v in sides.items()}).logits
        return logits


def _flat(rows: Sequence[Sequence[int]]) -> Tensor:
    count = sum(map(len, rows))
    return torch.from_numpy(np.fromiter((n for row in rows for n in row), dtype=np.int64, count=count))


def _head(model: Any, first: Tensor) -> Tensor:
    """Logits from the states of the first tokens, by the model's own head."""
    if hasattr(model.base_model, "pooler") and model.base_model.pooler is not None:
        logits: Tensor = model.classifier(model.base_model.pooler(first[:, None]))
    else:
        logits = model.classifier(first[:, None])
    return logits


def _score(logits: Tensor) -> Tensor:
    """One number: the logit of the only label, or the log-odds of the second."""
    logits = logits.float()
    return logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]
