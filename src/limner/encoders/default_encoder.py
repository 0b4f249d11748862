"""The model for photographs when nobody named one: a small CLIP from the hub, or the offline model.

The CLIP is taken if it is on this machine, or if the hub can be reached and the user agrees to the download. Otherwise
it is the model of `limner.encoders.offline_model`, which is worse and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from limner.core.extras import missing, missing_extra, require
from limner.core.hub import reachable
from limner.encoders import encoder
from limner.encoders.hub import HubModel
from limner.encoders.offline_model import NAME, NOTE, PACKAGES, OfflineModel
from limner.encoders.onnx_models import OnnxClip

CLIP = "Xenova/clip-vit-base-patch32"
"""OpenAI's CLIP ViT-B/32 as ONNX on the Hugging Face hub; OpenAI's weights are under the MIT licence."""
VARIANT = "quantized"
MEGABYTES = 154
"""What is downloaded: the network of images has 89 of them, that of texts 64."""
FILES = (
    "config.json",
    "preprocessor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    f"onnx/text_model_{VARIANT}.onnx",
    f"onnx/vision_model_{VARIANT}.onnx",
)
"""The files of the repository that are read."""

_WHAT = "the default model for photographs"
Consent = Callable[[str], bool]
"""Asks the user a question; True allows the download. `lambda question: True` is `--yes`."""


@dataclass(frozen=True)
class DefaultModel:
    """The model that is used when none is named.

    Args:
        name: As `--model` accepts it.
        note: What has to be said before it is used; may be empty.
        megabytes: What will be downloaded when it is opened.
    """

    name: str
    note: str = ""
    megabytes: int = 0

    def open(self) -> OnnxClip | OfflineModel:
        """The encoder of images and texts; what is missing is downloaded, with progress."""
        opened: OnnxClip | OfflineModel = encoder(self.name)
        return opened


OFFLINE = DefaultModel(NAME, note=NOTE)
SMALL_CLIP = DefaultModel(f"onnx-clip(model={CLIP}, variant={VARIANT})")


def default_model(*, consent: Consent | None = None) -> DefaultModel:
    """The model for photographs when none is named.

    Args:
        consent: Asks whether the CLIP may be downloaded; without it, nothing is downloaded.
    """
    require("onnxruntime", "tokenizers", "huggingface_hub", what=_WHAT)
    if _is_on_this_machine():
        return SMALL_CLIP
    absent = missing(*PACKAGES)
    if consent is not None and reachable() and consent(question(fallback=absent is None)):
        return DefaultModel(SMALL_CLIP.name, megabytes=MEGABYTES)
    if absent:
        raise missing_extra(absent, what=f"{_WHAT}, without a download,")
    return OFFLINE


def default_encoder(*, consent: Consent | None = None) -> OnnxClip | OfflineModel:
    """The encoder of `default_model`; the `notes` of the offline model say that it is one.

    Args:
        consent: As for `default_model`.
    """
    return default_model(consent=consent).open()


def question(*, fallback: bool) -> str:
    """What the user is asked before the download.

    Args:
        fallback: Whether the offline model is installed.

    >>> print(question(fallback=True))
    no model is named: download Xenova/clip-vit-base-patch32 from the hub (154 MB, once; MIT licence)? Without it, the
    offline model is used, which is much worse
    """
    download = f"no model is named: download {CLIP} from the hub ({MEGABYTES} MB, once; MIT licence)?"
    return download + (" Without it, the offline model is used, which is much worse" * fallback)


def _is_on_this_machine() -> bool:
    """Whether the cache of the hub has all its files."""
    folder = HubModel.named(CLIP, purpose=_WHAT).cached
    return folder is not None and all((folder / name).is_file() for name in FILES)
