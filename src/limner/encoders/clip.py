"""CLIP, SigLIP and SigLIP 2 models of Hugging Face transformers: both towers, one embedding space."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from limner.core.errors import LimnerError
from limner.core.extras import missing, missing_extra, needed

if missing("torch"):
    raise missing_extra("torch", what="the encoder 'clip'")

import torch
from torch import Tensor

from limner.encoders.lengths import cut_tokens
from limner.encoders.offline import fingerprint_of, folder_of, pretrained, trained
from limner.encoders.text_transformers import max_tokens_of
from limner.encoders.torch_encoders import JointEncoder, Running

if TYPE_CHECKING:
    from PIL.Image import Image


class ClipEncoder(JointEncoder):
    """A CLIP, SigLIP or SigLIP 2 model; vectors are L2-normalised.

    The NaFlex variant of SigLIP 2 reads an image as patches in its original aspect ratio; the model's folder sets how
    many.

    Args:
        model: A folder, or a name on the Hugging Face hub, such as "openai/clip-vit-base-patch32"; with "@REVISION"
            one of its revisions.
        running: `device`, `precision`, `tokens_per_batch` and `batch_size`; see `torch_encoders.TorchEncoder`.
    """

    def __init__(self, model: str | Path, **running: Unpack[Running]) -> None:
        super().__init__(**running)
        library = needed("transformers", what="the encoder 'clip'")
        self.folder = folder_of(model, purpose="the encoder 'clip'")
        self.model = trained(library.AutoModel.from_pretrained, self.folder).to(self.device).eval()
        if not hasattr(self.model, "get_image_features"):
            raise LimnerError(
                f"{self.folder} is a {type(self.model).__name__}: expected CLIP, SigLIP or a similar model"
            )
        self.tokenizer = pretrained(library.AutoTokenizer.from_pretrained, self.folder)
        self.processor = pretrained(library.AutoImageProcessor.from_pretrained, self.folder)
        self._check_size()
        text = self.model.config.text_config
        self.dim = int(getattr(self.model.config, "projection_dim", None) or text.hidden_size)
        self.max_tokens = max_tokens_of(self.tokenizer, text)
        # SigLIP was trained on fully padded texts, without an attention mask.
        self.filled_up = self.model.config.model_type.startswith("siglip")
        self.fill = int(self.tokenizer.pad_token_id or 0)

    def _check_size(self) -> None:
        """Refuses the processor of another model, whose images this one cannot read."""
        from PIL import Image

        vision = self.model.config.vision_config
        image_size = getattr(vision, "image_size", None) if hasattr(vision, "patch_size") else None  # else any size
        shape = self.pixels(Image.new("RGB", (64, 48)))["pixel_values"].shape
        if image_size and len(shape) == 3 and shape[-2:] != (image_size, image_size):  # NaFlex makes patches
            raise LimnerError(
                f"{self.folder}: its processor makes images of {shape[-1]} x {shape[-2]} pixels, its model expects "
                f"{image_size} x {image_size}: correct the size in preprocessor_config.json"
            )

    @property
    def fingerprint(self) -> str:
        """The model's files and the precision."""
        return f"clip {fingerprint_of(self.folder)} {self.number_type}"

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokens, padded to a fixed length for SigLIP."""
        padding = "max_length" if self.filled_up else False
        return cut_tokens(self.tokenizer, texts, limit=self.max_tokens, padding=padding)

    def text_vectors(self, tokens: Tensor, filled: Tensor) -> Tensor:
        """Encodes texts with the text tower."""
        mask = {} if self.filled_up else {"attention_mask": filled.long()}
        return _unit(self.model.get_text_features(input_ids=tokens, **mask))

    def pixels(self, image: Image) -> dict[str, Tensor]:
        """Preprocesses an image with the model's own processor; for NaFlex also its patch mask and patch grid shape."""
        inputs = self.processor(images=image, return_tensors="pt")
        return {name: torch.as_tensor(value)[0] for name, value in inputs.items()}

    def image_vectors(self, pixels: dict[str, Tensor]) -> Tensor:
        """Encodes images with the image tower."""
        return _unit(self.model.get_image_features(**pixels))


def _unit(output: Any) -> Tensor:
    """L2-normalises the rows; newer versions of transformers wrap the vectors in an object."""
    vectors: Tensor = output if isinstance(output, Tensor) else output.pooler_output
    return torch.nn.functional.normalize(vectors.float(), dim=-1)
