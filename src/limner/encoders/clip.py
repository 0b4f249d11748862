"""CLIP and SigLIP models of Hugging Face transformers and of open_clip: both towers, one embedding space."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Unpack

from limner.core.errors import LimnerError, UnknownName
from limner.core.extras import missing, missing_extra, needed
from limner.core.model_store import Content

if missing("torch"):
    raise missing_extra("torch", what="a model of CLIP")

import torch
from torch import Tensor

from limner.core.cut_texts import count
from limner.core.hub import hub_or_cache
from limner.core.paths import damage_told, read_json
from limner.encoders.batching import cut_tokens
from limner.encoders.hub import HubModel
from limner.encoders.model_files import OPEN_CLIP, OPEN_CLIP_WEIGHTS
from limner.encoders.offline import fingerprint_of, folder_of, pretrained, trained
from limner.encoders.text_transformers import max_tokens_of
from limner.encoders.torch_encoders import JointEncoder, Running, read_weights

if TYPE_CHECKING:
    from PIL.Image import Image

_LONG = "a b "
_CONFIG = "open_clip_config.json"


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


class OpenClipEncoder(JointEncoder):
    """An open_clip model, given by its architecture and weights, or by its folder; vectors are L2-normalised.

    Args:
        model: The architecture, such as "ViT-B-32". Without weights a folder with `open_clip_config.json`, or its name
            on the Hugging Face hub.
        weights: A file of weights, or one of open_clip's tags for this architecture, such as "laion2b_s34b_b79k".
        running: `device`, `precision`, `tokens_per_batch` and `batch_size`; see `torch_encoders.TorchEncoder`.
    """

    def __init__(self, model: str | Path, *, weights: str | Path | None = None, **running: Unpack[Running]) -> None:
        super().__init__(**running)
        library = needed("open_clip", what="the encoder 'open-clip'")
        self.folder: Path | None = None
        if weights is None and str(model) not in library.list_models():
            self.folder = folder_of(model, purpose="the encoder 'open-clip'", layout=OPEN_CLIP)
            self.name, self.weights = "", str(_weights_in(self.folder))
            self.model, self.transform = _from_folder(library, self.folder)
            source, config = f"local-dir:{self.folder.absolute()}", _config_in(self.folder)
        else:
            self.name, self.weights = str(model), str(weights)
            self.model, self.transform = _loaded(library, self.name, weights)
            source, config = self.name, library.get_model_config(self.name)
        self.model = self.model.to(self.device).eval()
        self.tokenizer = library.get_tokenizer(source)
        self.dim = int(config["embed_dim"])

    @property
    def fingerprint(self) -> str:
        """The architecture, the weights and the precision."""
        if self.folder is not None:
            files = fingerprint_of(self.folder / _CONFIG), fingerprint_of(self.weights)
            return f"open_clip {' '.join(files)} {self.number_type}"
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


def _lengths(tokenizer: Callable[..., Tensor], texts: Sequence[str], rows: Tensor, limit: int) -> list[int]:
    """The tokens of each text before it was cut, which open_clip does not tell: those of longer rows."""
    last = tokenizer([_LONG * limit])[0, -1]  # of a text that is cut
    full = (rows[:, -1] == last).nonzero()[:, 0].tolist()
    lengths = [0] * len(texts)
    for row in full:
        uncut = tokenizer([texts[row]], context_length=len(texts[row].encode()) + limit)[0]
        if not torch.equal(uncut[:limit], rows[row]):
            lengths[row] = max(limit + 1, int((uncut != uncut[-1]).nonzero().max()) + 1)
    return lengths


def _weights_in(folder: Path) -> Path:
    """The file of weights in a folder, which holds data and no code."""
    files = [folder / name for name in OPEN_CLIP_WEIGHTS if (folder / name).is_file()]
    if not files:
        raise LimnerError(f"{folder} has no weights of open_clip: expected {' or '.join(OPEN_CLIP_WEIGHTS)}")
    if files[0].suffix != ".safetensors":
        read_weights(files[0])
    return files[0]


def _config_in(folder: Path) -> Content:
    content = read_json(folder / _CONFIG, what="config of an open_clip model")
    config = content.get("model_cfg") if isinstance(content, dict) else None
    if not isinstance(config, dict) or not isinstance(config.get("embed_dim"), int):
        raise LimnerError(f"{folder / _CONFIG}: expected 'model_cfg' with 'embed_dim' in it")
    images = config.get("vision_cfg")
    tower = images.get("timm_model_name") if isinstance(images, dict) else None
    if tower is not None and not re.fullmatch(r"[\w.]+", str(tower)):
        raise LimnerError(f"{folder / _CONFIG} asks for another model, {tower!r}: expected the name of one of timm")
    return config


def _from_folder(library: ModuleType, folder: Path) -> tuple[Any, Any]:
    _config_in(folder)
    with damage_told(folder, what="open_clip model"), hub_or_cache():  # a tower of texts may have its own config there
        loaded, _, transform = library.create_model_and_transforms(f"local-dir:{folder.absolute()}")
    return loaded, transform


def _fetch(library: ModuleType, model: str, tag: str) -> HubModel | None:
    """Downloads the weights of a tag into the cache of the hub, where open_clip looks for them."""
    named = str(library.get_pretrained_cfg(model, tag).get("hf_hub", ""))
    if not named:
        return None
    repository = HubModel.named("/".join(named.split("/")[:2]), purpose="the encoder 'open-clip'")
    if named.count("/") == 1 or named.endswith("/"):  # without a file of its own name
        repository.folder(OPEN_CLIP)
    return repository


def _loaded(library: ModuleType, model: str, chosen: str | Path | None) -> tuple[Any, Any]:
    if model not in library.list_models():
        raise UnknownName("architecture", model, library.list_models(), of="open_clip")
    tags, weights = library.list_pretrained_tags_by_model(model), str(chosen)
    if chosen is None or (not Path(weights).is_file() and weights not in tags):
        raise LimnerError(f"weights {weights!r} of {model!r}: neither a file nor one of its tags ({', '.join(tags)})")
    repository: HubModel | None = None
    if Path(weights).is_file():
        read_weights(Path(weights))  # loads only data, never code
    else:
        try:
            repository = _fetch(library, model, weights)
        except LimnerError as error:
            raise LimnerError(f"{error}; or give the file of its weights as weights=FILE") from error
    try:
        with hub_or_cache():
            loaded, _, transform = library.create_model_and_transforms(model, pretrained=weights)
    except Exception as error:  # any network error, or a file for another architecture
        if Path(weights).is_file():
            raise LimnerError(f"{weights} does not contain the weights of {model!r}: {error}") from error
        source = repository or HubModel(f"{model}/{weights}", purpose="the encoder 'open-clip'")
        advice = source.refusal(error)
        raise LimnerError(f"{advice}; or give the file of its weights as weights=FILE") from error
    return loaded, transform
