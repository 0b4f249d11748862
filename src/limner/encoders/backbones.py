"""Text backbones of Hugging Face transformers, such as XLM-RoBERTa, with pooled token states."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Unpack

from limner.core.errors import MissingExtra, UnknownName

if find_spec("torch") is None:
    raise MissingExtra("the encoder 'transformers'", "torch", "train")

import torch
from torch import Tensor

from limner.core.extras import needed
from limner.encoders.lengths import cut_tokens
from limner.encoders.offline import fingerprint_of, folder_of, pretrained, trained
from limner.encoders.running import Running, TorchEncoder, mean_pooled

POOLINGS = ("first", "mean")


class TextBackbone(TorchEncoder):
    """A pretrained transformer for texts.

    Args:
        model: A folder, or a name on the Hugging Face hub, such as "xlm-roberta-base".
        pooling: "first" for the state of the first token (`[CLS]`, `<s>`), or "mean" for the mean of all states.
        max_tokens: Maximum number of tokens per text; the limit of the model by default.
        running: `device`, `precision` and `tokens_per_batch` of `limner.encoders.running.TorchEncoder`.
    """

    def __init__(
        self, model: str | Path, *, pooling: str = "first", max_tokens: int | None = None, **running: Unpack[Running]
    ) -> None:
        super().__init__(**running)
        if pooling not in POOLINGS:
            raise UnknownName("pooling", pooling, POOLINGS)
        library = needed("transformers", what="a text backbone", extra="train")
        self.folder, self.pooling = folder_of(model, what="a text backbone"), pooling
        self.tokenizer = pretrained(library.AutoTokenizer.from_pretrained, self.folder)
        loaded = trained(library.AutoModel.from_pretrained, self.folder, unused="pooler")
        self.model = loaded.to(self.device).eval()
        self.dim = int(self.model.config.hidden_size)
        self.max_tokens = max_tokens or max_tokens_of(self.tokenizer, self.model.config)
        self.fill = int(self.tokenizer.pad_token_id or 0)

    @property
    def fingerprint(self) -> str:
        """The model's files, pooling, length and precision."""
        return f"transformers {fingerprint_of(self.folder)} {self.pooling} {self.max_tokens} {self.number_type}"

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokens, including special tokens."""
        return cut_tokens(self.tokenizer, texts, limit=self.max_tokens)

    def states(self, tokens: Tensor, filled: Tensor) -> Tensor:
        """The last hidden states of all tokens."""
        found: Tensor = self.model(input_ids=tokens, attention_mask=filled.long()).last_hidden_state
        return found

    def text_vectors(self, tokens: Tensor, filled: Tensor) -> Tensor:
        """Pooled states."""
        states = self.states(tokens, filled)
        return states[:, 0] if self.pooling == "first" else mean_pooled(states, filled)


def max_tokens_of(tokenizer: Any, config: object) -> int:
    """The token limit of a model: that of its tokenizer or of its position embeddings, whichever is lower."""
    places = int(getattr(config, "max_position_embeddings", 512) or 512)
    if getattr(config, "model_type", "") in ("roberta", "xlm-roberta", "camembert", "mpnet"):
        places -= 2  # their positions begin after the padding index
    return min(int(min(tokenizer.model_max_length, 1 << 20)), places)


def frozen(module: torch.nn.Module) -> torch.nn.Module:
    """Freezes a module and returns it."""
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    return module.eval()
