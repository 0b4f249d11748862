"""Encoders: what turns images and texts into vectors. An encoder has `dim` and `encode(items) -> array`.

That is the whole contract (`Encoder`), for those of the catalogue and for one of your own, which is named as
"module:thing". What has two sides in one space, as CLIP or a trained system, is `TwoSided` and takes images and texts.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from limner.catalogue import resolve
from limner.encoders.contract import Encoder, TwoSided, encoded
from limner.errors import LimnerError, UnknownName

__all__ = ["ENCODERS", "Encoder", "TwoSided", "encoded", "encoder"]

ENCODERS: Mapping[str, str] = MappingProxyType(
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
    }
)
"""Encoders by name, and where each lives."""


def encoder(name: str, **options: Any) -> Any:
    """An encoder by name.

    Args:
        name: A key of `ENCODERS`, or "module:thing"; a class or function is called with the options.
        options: Of the encoder, such as `model` (a folder, or a name on a hub) and `device`.

    >>> encoder("word-vectors", file="nothing.txt")
    Traceback (most recent call last):
    limner.errors.LimnerError: no word vectors nothing.txt: expected a text file of GloVe, ...
    """
    thing = resolve(name, ENCODERS, what="encoder")
    if not callable(thing):
        if options:
            raise LimnerError(f"encoder {name!r} is an object and takes no options; got {', '.join(options)}")
        return thing
    _refuse_unknown(name, thing, options)
    return thing(**options)


def _refuse_unknown(name: str, thing: Any, options: Mapping[str, Any]) -> None:
    parameters = inspect.signature(thing).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return
    known = {p.name: p for p in parameters}
    for option in options:
        if option not in known:
            raise UnknownName(f"option of encoder {name!r}", option, known)
    lacking = [p.name for p in parameters if p.default is p.empty and p.name not in options]
    if lacking:
        raise LimnerError(f"encoder {name!r} needs {' and '.join(lacking)}: give it as {lacking[0]}=...")
