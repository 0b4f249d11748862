"""open_clip models: both towers, one embedding space."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Unpack

from limner.core.errors import LimnerError, UnknownName
from limner.core.extras import missing, missing_extra, needed

if missing("torch"):
    raise missing_extra("torch", what="the encoder 'open-clip'")

import torch
from torch import Tensor

from limner.core.cut_texts import count
from limner.encoders.hub import hub_or_cache, refusal
from limner.encoders.offline import fingerprint_of
from limner.encoders.torch_encoders import JointEncoder, Running, read_weights

if TYPE_CHECKING:
    from PIL.Image import Image


class OpenClipEncoder(JointEncoder):
    """An open_clip model, given by its architecture and weights; vectors are L2-normalised.

    Args:
        model: The architecture, such as "ViT-B-32".
        weights: A file of weights, or one of open_clip's tags for this architecture, such as "laion2b_s34b_b79k".
        running: `device`, `precision`, `tokens_per_batch` and `batch_size`; see `torch_encoders.TorchEncoder`.
    """

    def __init__(self, model: str, *, weights: str | Path, **running: Unpack[Running]) -> None:
        super().__init__(**running)
        library = needed("open_clip", what="the encoder 'open-clip'")
        if model not in library.list_models():
            raise UnknownName("architecture", model, library.list_models(), of="open_clip")
        self.name, self.weights = model, str(weights)
        self.model, self.transform = _loaded(library, model, self.weights)
        self.model = self.model.to(self.device).eval()
        self.tokenizer = library.get_tokenizer(model)
        self.dim = int(library.get_model_config(model)["embed_dim"])

    @property
    def fingerprint(self) -> str:
        """The architecture, the weights and the precision."""
        weights_id = fingerprint_of(self.weights) if Path(self.weights).is_file() else self.weights
        return f"open_clip {self.name} {weights_id} {self.number_type}"

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokens, padded to the model's fixed length: its text tower has no mask."""
        rows = self.tokenizer(list(texts))
        if limit := getattr(self.tokenizer, "context_length", None):
            count(texts, _lengths(self.tokenizer, texts, rows, int(limit)), limit=int(limit))
        return [row.tolist() for row in rows]

    def text_vectors(self, tokens: Tensor, filled: Tensor) -> Tensor:
        """Encodes texts with the text tower."""
        return torch.nn.functional.normalize(self.model.encode_text(tokens).float(), dim=-1)

    def pixels(self, image: Image) -> Tensor:
        """Preprocesses an image with open_clip's own transform for this model."""
        return torch.as_tensor(self.transform(image))

    def image_vectors(self, pixels: Tensor) -> Tensor:
        """Encodes images with the image tower."""
        return torch.nn.functional.normalize(self.model.encode_image(pixels).float(), dim=-1)


def _lengths(tokenizer: Any, texts: Sequence[str], rows: Tensor, limit: int) -> list[int]:
    """The tokens of each text before it was cut, which open_clip does not tell: those of longer rows."""
    last = tokenizer([_LONG * limit])[0, -1]  # of a text that is cut
    full = (rows[:, -1] == last).nonzero()[:, 0].tolist()
    lengths = [0] * len(texts)
    for row in full:
        uncut = tokenizer([texts[row]], context_length=len(texts[row].encode()) + limit)[0]
        if not torch.equal(uncut[:limit], rows[row]):
            lengths[row] = max(limit + 1, int((uncut != uncut[-1]).nonzero().max()) + 1)
    return lengths


_LONG = "a b "


def _loaded(library: ModuleType, model: str, weights: str) -> tuple[Any, Any]:
    tags = library.list_pretrained_tags_by_model(model)
    if not Path(weights).is_file() and weights not in tags:
        raise LimnerError(f"weights {weights!r} of {model!r}: neither a file nor one of its tags ({', '.join(tags)})")
    if Path(weights).is_file():
        read_weights(Path(weights))  # loads only data, never code
    try:
        with hub_or_cache():
            loaded, _, transform = library.create_model_and_transforms(model, pretrained=weights)
    except Exception as error:  # any network error, or a file for another architecture
        if Path(weights).is_file():
            raise LimnerError(f"{weights} does not contain the weights of {model!r}: {error}") from error
        repository = str(library.get_pretrained_cfg(model, weights).get("hf_hub", "")).strip("/")
        advice = refusal(repository or f"{model}/{weights}", error, purpose="the encoder 'open-clip'")
        raise LimnerError(f"{advice}; or give the file of its weights as weights=FILE") from error
    return loaded, transform
