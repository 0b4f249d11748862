"""The model for photographs when nobody named one: a small CLIP from the hub, or the offline model.

The CLIP is taken if it is on this machine, or if the hub can be reached and the user agrees to the download. Otherwise,
the model of `limner.encoders.offline_model` is taken, which is worse and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from limner.core.extras import missing, missing_extra
from limner.encoders.hub import reachable, snapshot
from limner.encoders.offline_model import NOTE, PACKAGES, OfflineModel
from limner.encoders.onnx_models import OnnxClip

CLIP = "Xenova/clip-vit-base-patch32"
"""OpenAI's CLIP ViT-B/32 as ONNX on the Hugging Face hub; OpenAI's weights are under the MIT licence."""
VARIANT = "quantized"
MEGABYTES = 154
"""What is downloaded, of which the network of images is 89 and that of texts 64."""
FILES = (
    "config.json",
    "preprocessor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    f"onnx/text_model_{VARIANT}.onnx",
    f"onnx/vision_model_{VARIANT}.onnx",
)
"""The files of the repository that are used."""

_WHAT = "the default model for photographs"
Consent = Callable[[str], bool]
"""Asks the user the question in a text; True allows it. `lambda question: True` is `--yes`."""


@dataclass(frozen=True)
class DefaultModel:
    """The model that is used when none is named.

    Args:
        name: Its name in `limner.encoders.ENCODERS`.
        options: Its options.
        note: What has to be said before it is used; may be empty.
        megabytes: What has to be downloaded first; 0 if everything is there.
    """

    name: str
    options: tuple[tuple[str, str], ...] = ()
    note: str = ""
    megabytes: int = 0

    def __str__(self) -> str:
        """The name with the options, as `--model` accepts it.

        >>> str(DefaultModel("onnx-clip", (("model", CLIP), ("variant", VARIANT))))
        'onnx-clip(model=Xenova/clip-vit-base-patch32, variant=quantized)'
        """
        options = ", ".join(f"{name}={value}" for name, value in self.options)
        return f"{self.name}({options})" if options else self.name

    def open(self) -> OnnxClip | OfflineModel:
        """The encoder of images and texts; what is missing is downloaded."""
        if self.name == "offline":
            return OfflineModel()
        options = dict(self.options)
        return OnnxClip(snapshot(options["model"], FILES, purpose=_WHAT), variant=options["variant"])


OFFLINE = DefaultModel("offline", note=NOTE)
SMALL_CLIP = DefaultModel("onnx-clip", (("model", CLIP), ("variant", VARIANT)))


def default_model(*, consent: Consent | None = None) -> DefaultModel:
    """The model for photographs when none is named.

    Args:
        consent: Asks whether the CLIP may be downloaded; without it, nothing is downloaded.
    """
    lacking = missing("onnxruntime", "tokenizers", "huggingface_hub")
    if lacking:
        raise missing_extra(lacking, what=_WHAT)
    if _is_on_this_machine():
        return SMALL_CLIP
    absent = missing(*PACKAGES)
    if consent is not None and reachable() and consent(question(fallback=absent is None)):
        return DefaultModel(SMALL_CLIP.name, SMALL_CLIP.options, megabytes=MEGABYTES)
    if absent:
        raise missing_extra(absent, what=f"{_WHAT}, without a download,")
    return OFFLINE


def default_encoder(*, consent: Consent | None = None) -> OnnxClip | OfflineModel:
    """The encoder of `default_model`; its `notes` say if it is the offline model.

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
    offline model is used, which finds a third as many photographs
    """
    asked = f"no model is named: download {CLIP} from the hub ({MEGABYTES} MB, once; MIT licence)?"
    return asked + (" Without it, the offline model is used, which finds a third as many photographs" * fallback)


def _is_on_this_machine() -> bool:
    """Whether the cache of the hub has all its files."""
    from huggingface_hub import try_to_load_from_cache

    return all(isinstance(try_to_load_from_cache(CLIP, name), str) for name in FILES)
