"""Encoders turn images and texts into vectors. An encoder has `dim` and `encode(items) -> array`.

That is the whole interface (`Encoder`), for built-in encoders and your own, which are named as "module:thing". A model
with a joint embedding space for images and texts, such as CLIP or a trained system, is `TwoSided`. A `SetEncoder` gives
several vectors per item, such as one per token. `encoded(system, items)` encodes items and checks the result.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from limner.core.errors import LimnerError
from limner.core.registry import Registry
from limner.encoders.contract import Encoder, SetEncoder, TwoSided, encoded

KEEP_MS = 1000
"""Milliseconds for which the process keeps freed memory."""


def before_torch() -> None:
    """Makes mimalloc, which torch uses on some CPUs, keep freed memory for a moment; idle threads of torch sleep.

    Otherwise they spin for a while after every operation, and take the cores from the threads that decode images: with
    a small model on two cores, encoding took 2.5 times the CPU time. Both are read from the environment when torch is
    loaded; a value set by the user is kept.
    """
    os.environ.setdefault("MIMALLOC_PURGE_DELAY", str(KEEP_MS))
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


before_torch()

if not TYPE_CHECKING:
    from limner.core.extras import submodules

    __getattr__ = submodules(__name__)

__all__ = [
    "ENCODERS", "Encoder", "SetEncoder", "TwoSided", "encoded", "encoder", "encoder_named",
]  # fmt: skip

ENCODERS: Registry[object] = Registry(
    "encoder",
    {
        "clip": "limner.encoders.clip:ClipEncoder",
        "efficientnet-lite": "limner.encoders.images:EfficientNetLite",
        "gru": "limner.encoders.gru:GruEncoder",
        "histograms": "limner.encoders.image_descriptors:Histograms",
        "minilm": "limner.encoders.text_transformers:minilm",
        "minilm-int8": "limner.encoders.onnx_models:minilm_int8",
        "multi-vector": "limner.encoders.multimodal:LateInteraction",
        "offline": "limner.encoders.offline_model:OfflineModel",
        "onnx-clip": "limner.encoders.onnx_models:OnnxClip",
        "onnx-sentences": "limner.encoders.onnx_models:OnnxSentences",
        "open-clip": "limner.encoders.clip:OpenClipEncoder",
        "sentence-transformers": "limner.encoders.text_transformers:SentenceEncoder",
        "sentence-transformers-multimodal": "limner.encoders.multimodal:MultimodalEncoder",
        "siglip": "limner.encoders.clip:ClipEncoder",
        "timm": "limner.encoders.images:TimmEncoder",
        "transformers": "limner.encoders.text_transformers:TextBackbone",
        "use-multilingual": "limner.encoders.numpy_texts:UniversalSentenceEncoder",
        "word-vectors": "limner.encoders.numpy_texts:WordVectors",
    },
)
"""Encoders by name: each a class or function that takes the options, or an encoder object."""


def encoder(name: str, **options: object) -> Any:
    """An encoder by name.

    Args:
        name: The name of a model (`limner.encoders.named_models`): a folder, or a name on the hub such as
            "openai/clip-vit-base-patch32", whose adapter is found. Or a key of `ENCODERS`, or "module:thing"; a class
            or function is called with the options. Options may also be written in parentheses: "clip(model=DIR)".
        options: Options of the encoder, such as `model` (a folder, or a name on a hub) and `device`.

    >>> encoder("word-vectors", file="nothing.txt")
    Traceback (most recent call last):
    limner.core.errors.LimnerError: no word vectors nothing.txt: expected a text file of GloVe, ...
    """
    return encoder_named(name, options)


def encoder_named(name: str, options: Mapping[str, object], *, trusted: bool = True) -> object:
    """Like `encoder`, for a name and options that may come from a file.

    Args:
        name: The name of a model, or a key of `ENCODERS`; "module:thing" only if trusted.
        options: Options of the encoder.
        trusted: False for a name from a file.
    """
    name, options = _with_adapter(name, options)
    registered = ENCODERS.find(name, trusted=trusted)
    if not callable(registered):
        if options:
            raise LimnerError(f"encoder {name!r} is an object and takes no options; got {', '.join(options)}")
        return registered
    return ENCODERS.make(name, options, trusted=trusted)


def _with_adapter(text: str, options: Mapping[str, object]) -> tuple[str, Mapping[str, object]]:
    """The name and the options of an encoder; those of its adapter for the name of a model."""
    from limner.encoders.named_models import is_model_name, named_model

    if not isinstance(text, str) or ENCODERS.names(text) or not is_model_name(text):
        return ENCODERS.parsed(text, options)
    model = named_model(text)
    if model.adapter.is_scorer:
        raise LimnerError(
            f"{text} scores pairs, and encodes neither images nor texts: as an encoder, name another model; as a "
            f"scorer, '{model.adapter.name}(model={model.model})'"
        )
    return model.adapter.name, {**model.settings, **options}
