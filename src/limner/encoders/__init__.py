"""Encoders: what turns images and texts into vectors. An encoder has `dim` and `encode(items) -> array`.

That is the whole contract (`Encoder`), for those of the catalogue and for one of your own, which is named as
"module:thing". What has two sides in one space, as CLIP or a trained system, is `TwoSided` and takes images and texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from limner.core.errors import LimnerError
from limner.core.registry import Registry
from limner.encoders.contract import Encoder, TwoSided, encoded
from limner.encoders.memory import before_torch

before_torch()

if not TYPE_CHECKING:
    from limner.core.lazy import submodules

    __getattr__ = submodules(__name__)

__all__ = ["ENCODERS", "Encoder", "TwoSided", "encoded", "encoder", "encoder_named"]

ENCODERS: Registry[Any] = Registry(
    "encoder",
    {
        "sentence-transformers": "limner.encoders.sentences:SentenceEncoder",
        "minilm": "limner.encoders.sentences:minilm",
        "use-multilingual": "limner.encoders.sentences:UniversalSentenceEncoder",
        "transformers": "limner.encoders.backbones:TextBackbone",
        "clip": "limner.encoders.clip:ClipEncoder",
        "siglip": "limner.encoders.clip:ClipEncoder",
        "open-clip": "limner.encoders.openclip:OpenClipEncoder",
        "efficientnet-lite": "limner.encoders.images:EfficientNetLite",
        "timm": "limner.encoders.images:TimmEncoder",
        "gru": "limner.encoders.gru:GruEncoder",
        "word-vectors": "limner.encoders.averages:WordVectors",
        "histograms": "limner.encoders.pictures:Histograms",
    },
)
"""Encoders by name: each a class or function that is called with the options, or an encoder itself."""


def encoder(name: str, **options: object) -> Any:
    """An encoder by name.

    Args:
        name: A key of `ENCODERS`, or "module:thing"; a class or function is called with the options.
        options: Of the encoder, such as `model` (a folder, or a name on a hub) and `device`.

    >>> encoder("word-vectors", file="nothing.txt")
    Traceback (most recent call last):
    limner.core.errors.LimnerError: no word vectors nothing.txt: expected a text file of GloVe, ...
    """
    return encoder_named(name, options)


def encoder_named(name: str, options: Mapping[str, object], *, trusted: bool = True) -> object:
    """As `encoder`, for a name and options that may come from a file.

    Args:
        name: A key of `ENCODERS`; "module:thing" only where it is trusted.
        options: Of the encoder.
        trusted: False for a name that a file gives.
    """
    thing = ENCODERS.find(name, trusted=trusted)
    if not callable(thing):
        if options:
            raise LimnerError(f"encoder {name!r} is an object and takes no options; got {', '.join(options)}")
        return thing
    return ENCODERS.make(name, options, trusted=trusted)
