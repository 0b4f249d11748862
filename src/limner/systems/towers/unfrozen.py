"""An image branch whose encoder is trained too, for the second stage of training after one with frozen features."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn

from limner.core.collection import Items
from limner.core.errors import LimnerError
from limner.core.progress import ProgressLike, as_progress
from limner.encoders.opening import Source, StoredVectors
from limner.encoders.torch_encoders import TorchEncoder, ahead
from limner.systems.towers.branches import BranchOutput, Vectors


class Unfrozen(nn.Module):
    """An image encoder followed by `Vectors`, with all weights trained.

    The encoder is copied: the given one keeps its weights, and its cached vectors stay valid.

    Args:
        encoder: An image encoder that runs on torch.
        head: Maps its vectors to the joint space.
    """

    def __init__(self, encoder: TorchEncoder, head: Vectors) -> None:
        super().__init__()
        self.encoder = deepcopy(encoder)
        self.backbone: nn.Module = self.encoder.model  # type: ignore[attr-defined]  # of every trainable encoder
        self.head = head
        for weight in self.backbone.parameters():
            weight.requires_grad_(True)

    @property
    def linear(self) -> nn.Linear:
        """The linear layer of the head."""
        return self.head.linear

    def forward(self, pixels: Tensor) -> BranchOutput:
        """Encodes a batch of preprocessed images."""
        output: BranchOutput = self.head(self.encoder.image_vectors(pixels))
        return output


def trainable(features: Source | None) -> TorchEncoder:
    """The image encoder of a source, if its weights can be trained; refuses others."""
    vectors = features.encoder if isinstance(features, StoredVectors) else features
    encoder = None if vectors is None else vectors.encoder
    model = getattr(encoder, "model", None)
    if isinstance(encoder, TorchEncoder) and encoder.kinds == ("image",) and isinstance(model, nn.Module):
        return encoder
    name = "vectors from a file" if vectors is None else type(encoder).__name__
    raise LimnerError(
        f"unfreeze=True trains the image encoder, but the features are those of {name}: expected an image encoder that "
        "runs on torch, such as features='efficientnet-lite' or features='timm(model=NAME)'"
    )


def pixels_of(encoder: TorchEncoder, items: Items, progress: ProgressLike = None) -> Tensor:
    """All images as encoder input, in main memory (150 kB each for EfficientNet-Lite0)."""
    progress = as_progress(progress)
    batches = []
    for rows, pixels in ahead(items, encoder.pixels, batch=encoder.batch_size, shortest=encoder.shortest):
        batches.append(pixels)
        progress(int(rows[-1]) + 1, len(items))
    if not batches:
        raise LimnerError("there are no images to read: expected at least 1")
    return torch.cat(batches)


def unfrozen_state(module: nn.Module, frozen: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a model with frozen features, renamed to fit a model with an unfrozen encoder."""
    moved = {_moved(name): tensor for name, tensor in frozen.items()}
    backbone = {name: tensor for name, tensor in module.state_dict().items() if name.startswith("images.backbone.")}
    return {**backbone, **moved}


def _moved(name: str) -> str:
    return f"images.head.{name.removeprefix('images.')}" if name.startswith("images.") else name
