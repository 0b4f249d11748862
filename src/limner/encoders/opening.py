"""The one opener of encoders and of vectors: by name and options, from a file, or as an object.

Vectors in a cache belong to a model, which is identified by its files. To know the identity, a model had to be opened,
with torch, even if all its vectors were there. So the identity is stored beside the vectors, with a hash of the model's
files. As long as the files, the options, limner, torch and the GPUs are the same, the model stays closed.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from limner.core.arrays import Float32
from limner.core.collection import Items
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError
from limner.core.files import write_text
from limner.core.hub import commit_of
from limner.core.model_store import Content
from limner.core.paths import folder_for, read_json, vectors_folder
from limner.core.progress import Progress, ProgressLike, as_progress
from limner.core.version import VERSION
from limner.encoders import ENCODERS, Encoder, TwoSided, encoder_named
from limner.encoders.cache import Cached, remembering
from limner.encoders.contract import digest, encoded, identity, notes_of, refuse_blank
from limner.encoders.image_descriptors import Histograms
from limner.encoders.offline import fingerprint_of

_GPUS = ("nvidia[0-9]*", "kfd", "dxg")
"""Device files of GPUs on Linux."""
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
_TYPES = {"fingerprint": str, "identity": str, "dim": int, "kinds": list, "notes": list, "files": dict}


class DeferredEncoder:
    """An encoder whose identity is known, opened by the first `encode`.

    Args:
        name: Its name in `limner.encoders.ENCODERS`.
        options: Its options.
        record: What an earlier run stored: `fingerprint`, `identity`, `dim`, `kinds` and `notes`.
    """

    def __init__(self, name: str, options: Mapping[str, object], record: Content) -> None:
        self.name, self.options = name, dict(options)
        self.fingerprint, self.identity = str(record["fingerprint"]), str(record["identity"])
        self.dim, self.kinds = int(record["dim"]), tuple(map(str, record["kinds"]))
        self.folder = Path(next(iter(record["files"])))
        self.notes = tuple(map(str, record["notes"]))

    @cached_property
    def encoder(self) -> Any:
        """The encoder itself; refused if it is not the one that was stored."""
        encoder: Any = encoder_named(self.name, self.options)
        if encoder.fingerprint != self.fingerprint:
            raise LimnerError(
                f"encoder {self.name!r} is {encoder.fingerprint!r}, and its cache was written by {self.fingerprint!r}: "
                "delete the files encoder-*.json in the cache folder"
            )
        return encoder

    def encode(self, items: Items | Sequence[str], *, progress: ProgressLike = None) -> Float32:
        """Vectors of items, one row per item."""
        return np.asarray(encoded(self.encoder, items, progress=progress).matrix)


def open_encoder(name: str, options: Mapping[str, object], cache: str | Path | None = None) -> Any:
    """An encoder by name for use with a cache; it is deferred if an earlier run stored its identity there.

    Args:
        name: A key of `limner.encoders.ENCODERS`, options in parentheses allowed, or "module:thing".
        options: Options of the encoder. A model of the hub is deferred only with its commit: "NAME@COMMIT".
        cache: The cache folder; by default the one that all commands share.
    """
    name, options = ENCODERS.parsed(name, options)
    folder = vectors_folder() if cache is None else Path(cache)
    if folder is None or name not in ENCODERS.homes:
        return encoder_named(name, options)
    file = folder / f"encoder-{_key(name, options)}.json"
    record = _read_record(file)
    if record is not None:
        return DeferredEncoder(name, options, record)
    encoder = encoder_named(name, options)
    _write_record(file, encoder, commit=str(options.get("model")).rpartition("@")[2])
    return encoder


def _key(name: str, options: Mapping[str, object]) -> str:
    """A hash of everything besides the model's files that decides its identity."""
    named = {key: _absolute(value) for key, value in sorted(options.items())}
    devices = sorted(place.name for pattern in _GPUS for place in Path("/dev").glob(pattern))
    visible = {variable: os.environ.get(variable) for variable in _VISIBLE}
    machine = [platform.system(), platform.machine(), devices, visible]
    return digest(json.dumps([name, named, VERSION, _code(name), _torch(), machine], default=str))


def _code(name: str) -> int:
    """When the module of an encoder was written: another one may encode differently in the same version of limner."""
    spec = find_spec(ENCODERS.homes[name].partition(":")[0])
    return os.stat(spec.origin).st_mtime_ns if spec is not None and spec.origin and os.path.isfile(spec.origin) else 0


def _absolute(value: object) -> object:
    return str(Path(value).resolve()) if isinstance(value, (str, Path)) and Path(value).exists() else value


def _torch() -> str:
    try:
        return version("torch")
    except PackageNotFoundError:
        return ""


def _read_record(file: Path) -> Content | None:
    """What was stored; None if there is nothing, or if a file of the model has changed."""
    if not file.is_file():
        return None
    try:
        record = read_json(file, what="identity of an encoder")
    except LimnerError:
        return None
    if not isinstance(record, dict) or not all(isinstance(record.get(key), kind) for key, kind in _TYPES.items()):
        return None
    hashes = record["files"].items()
    unchanged = all(Path(name).exists() and fingerprint_of(name) == expected for name, expected in hashes)
    return record if unchanged and hashes else None


def _write_record(file: Path, encoder: Any, *, commit: str = "") -> None:
    """Stores the identity of an encoder whose files are known; what is named without its commit may change."""
    files = [Path(each).absolute() for each in getattr(encoder, "files", ())]
    from_hub = [each for each in files if any(part.startswith("models--") for part in each.parts)]
    if not files or any(commit_of(each) != commit for each in from_hub):
        return
    facts = {"fingerprint": encoder.fingerprint, "identity": identity(encoder), "dim": int(encoder.dim)}
    lists = {"kinds": list(encoder.kinds), "notes": list(notes_of(encoder))}
    record = {**facts, **lists, "files": {str(each): fingerprint_of(each) for each in files}}
    folder_for(file.parent)
    write_text(file, json.dumps(record, indent=1))


BUILT_IN = "histograms"
"""The image encoder that needs no download: colours and shapes."""


@dataclass(frozen=True, eq=False)
class StoredVectors:
    """Vectors that are already computed.

    Args:
        embeddings: By id.
        path: The file they were read from, if any.
        encoder: The encoder that computed them, for further items.
    """

    embeddings: Embeddings
    path: str | None = None
    encoder: EncodedVectors | None = None

    def vectors(self, items: Items, progress: ProgressLike = None) -> Float32:
        """The vectors of these items; missing ones are encoded if the encoder is known."""
        progress = as_progress(progress)
        if self.encoder is not None:
            return self._completed(items, self.encoder, progress)
        try:
            return self.embeddings.subset(items.ids).matrix
        except LimnerError as error:
            place = self.path or "the vectors given as features"
            raise LimnerError(
                f"{place}: {error}; give vectors for these {items.kind}s with features= (-O features at the shell)"
            ) from error

    def about(self) -> dict[str, object]:
        """The description from which a saved model restores them."""
        return {"embeddings": self.path, **({} if self.encoder is None else self.encoder.about())}

    def _completed(self, items: Items, encoder: EncodedVectors, progress: Progress) -> Float32:
        stored = self.embeddings.ids.find(items.ids)
        if (stored >= 0).all():
            return self.embeddings.matrix[stored]
        fresh = encoder.vectors(items[np.flatnonzero(stored < 0)], progress)
        if fresh.shape[1] != self.embeddings.dim:
            raise LimnerError(
                f"{encoder.name} computes vectors of {fresh.shape[1]} dimensions, those of {self.path} have "
                f"{self.embeddings.dim}: name the encoder that computed them"
            )
        rows = np.empty((len(items), self.embeddings.dim), dtype=np.float32)
        rows[stored >= 0], rows[stored < 0] = self.embeddings.matrix[stored[stored >= 0]], fresh
        return rows


@dataclass(frozen=True, eq=False)
class EncodedVectors:
    """Vectors that an encoder computes on demand.

    Args:
        encoder: An object with `encode(items) -> array`, or with `encode_images` and `encode_texts`.
        name: Name under which it can be opened again; None for an object that was given.
        options: The options it was created with.
    """

    encoder: Any
    name: str | None = None
    options: Mapping[str, object] = field(default_factory=dict)

    def vectors(self, items: Items, progress: ProgressLike = None) -> Float32:
        """Encodes the items; earlier results are read from the cache."""
        refuse_blank(items)
        return encoded(self._cached, items, progress=progress).matrix

    @cached_property
    def _cached(self) -> Any:
        return remembering(self.encoder)

    def about(self) -> dict[str, object]:
        """The description from which a saved model restores it."""
        return {"encoder": self.name, **self.options}


Source = StoredVectors | EncodedVectors
VectorSource = str | Path | Mapping[str, Any] | Embeddings | Encoder | TwoSided
"""The values that an option such as `features` accepts: see `source`."""


def source(
    origin: VectorSource | Source | None,
    *,
    option: str = "features",
    trusted: bool = True,
    deferred: bool = False,
    cache: str | Path | None = None,
) -> Source:
    """The source of vectors that an option specifies.

    Args:
        origin: None (the built-in histograms), `Embeddings`, their file, an encoder (a key of
            `limner.encoders.ENCODERS`, "module:thing", or an object), or one with its options:
            `{"encoder": "clip", "model": "folder"}` or "clip(model=folder)". A file with the encoder that computed it,
            `{"embeddings": "photos.npy", "encoder": "clip", "model": "folder"}`, can also encode further items.
        option: The option; used in messages only.
        trusted: Whether "module:thing" is allowed; False for values read from a file.
        deferred: Whether an encoder by name may stay closed as long as its vectors are cached.
        cache: The cache folder of `deferred`.
    """
    if origin is None or origin == BUILT_IN:
        return EncodedVectors(Histograms(), BUILT_IN)
    if isinstance(origin, (StoredVectors, EncodedVectors)):
        return origin
    if isinstance(origin, Embeddings):
        return StoredVectors(origin)
    if isinstance(origin, Path) or (isinstance(origin, str) and _is_file(origin)):
        return StoredVectors(Embeddings.load(origin), str(Path(origin).resolve()))
    if isinstance(origin, str):
        name, options = ENCODERS.parsed(origin)
        if deferred and name in ENCODERS:
            return EncodedVectors(_refuse_no_encoder(open_encoder(name, options, cache), name, option), name, options)
        return EncodedVectors(_encoder(name, options, option, trusted), name, options)
    if isinstance(origin, Mapping) and "encoder" in origin:
        options = {name: value for name, value in origin.items() if name not in ("encoder", "embeddings")}
        vectors = EncodedVectors(_encoder(origin["encoder"], options, option, trusted), origin["encoder"], options)
        file = origin.get("embeddings")
        return vectors if file is None else StoredVectors(Embeddings.load(file), str(Path(file).resolve()), vectors)
    if isinstance(origin, (Encoder, TwoSided)):
        return EncodedVectors(origin)
    raise LimnerError(
        f"{option}={origin!r} is {type(origin).__name__}: expected Embeddings, their file, an encoder's name, "
        "{'encoder': name, ...} with its options, or an object with encode(items)"
    )


def source_of(origin: VectorSource | None, *, kind: str, cache: str | Path | None = None) -> Source:
    """The source of vectors of images or texts, from a cache if its encoder can be told from others.

    Args:
        origin: As for `source`.
        kind: "image" or "text"; an encoder of others is refused.
        cache: The cache folder; by default the one that all commands share.
    """
    vectors = source(origin, option=f"{kind}s", deferred=True, cache=cache)
    kinds = getattr(vectors.encoder, "kinds", (kind,)) if isinstance(vectors, EncodedVectors) else (kind,)
    if kind not in kinds:
        raise LimnerError(f"{kind}s={origin}: it encodes {' and '.join(kinds)}s; name an encoder of {kind}s")
    if cache is None or not isinstance(vectors, EncodedVectors) or identity(vectors.encoder) is None:
        return vectors
    return EncodedVectors(Cached(vectors.encoder, cache), vectors.name, vectors.options)


def load_source(about: object, *, option: str, trust: bool) -> Source | None:
    """The source of a saved model, or None if it was an object that cannot be restored.

    Args:
        about: The description of the source in the saved model.
        option: The option; used in messages only.
        trust: Whether the model may name a custom encoder as "module:thing".
    """
    if not isinstance(about, Mapping):
        raise LimnerError(f"{option} of a saved model are {about!r}: expected an encoder or a file of vectors by name")
    names = [about[name] for name in ("encoder", "embeddings") if name in about]
    if not names or not all(name is None or (isinstance(name, str) and name) for name in names):
        raise LimnerError(
            f"{option} of a saved model are {dict(about)!r}: expected the name of an encoder or of a file"
        )
    path = about.get("embeddings")
    if about.get("encoder"):
        has_file = bool(path) and os.path.isfile(str(path))
        return source(about if has_file else {**about, "embeddings": None}, option=option, trusted=trust)
    return StoredVectors(Embeddings.load(path), str(path)) if path and os.path.isfile(str(path)) else None


def _is_file(name: str) -> bool:
    return Path(name).suffix.lower() in (".npy", ".npz", ".safetensors", ".parquet")


def _encoder(name: str, options: Mapping[str, object], option: str, trusted: bool) -> object:
    return _refuse_no_encoder(encoder_named(name, options, trusted=trusted), name, option)


def _refuse_no_encoder(encoder: object, name: str, option: str) -> object:
    if not isinstance(encoder, (Encoder, TwoSided)):
        raise LimnerError(f"{option}={name!r} has no encode(items): expected an encoder")
    return encoder
