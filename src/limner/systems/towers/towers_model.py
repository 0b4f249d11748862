"""A trained tower model: scores, vectors, uncertainty; saved as a folder that contains all its options."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from limner.core import model_store
from limner.core.arrays import Array
from limner.core.collection import Collection, Items
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError
from limner.core.files import write_text
from limner.core.ids import Ids
from limner.core.model_store import Content, SavedModel
from limner.core.paths import damage_told, read_text
from limner.core.progress import Progress, ProgressLike, as_progress
from limner.core.tensors import device_named
from limner.encoders.opening import Source, VectorSource, load_source, source
from limner.scores import Scores
from limner.systems.hold_out import TrainedOn, saved_record
from limner.systems.towers import checkpoints, losses
from limner.systems.towers.branches import Unfrozen, pixels_of, trainable
from limner.systems.towers.checkpoints import DESCRIPTIONS, write_card
from limner.systems.towers.data import as_array, as_sets, device_of, images_seen, texts_seen
from limner.systems.towers.distributed import seeded
from limner.systems.towers.models import Compared, Joint, Probabilistic
from limner.systems.towers.settings import VARIANTS, Shape, VariantSettings, built, settings
from limner.systems.towers.vocabulary import Vocabulary

if TYPE_CHECKING:
    from limner.scores import VectorSets

KIND = "towers"
WORDS = "vocabulary.txt"
PIXELS_AT_ONCE = 512
"""Number of images decoded at once by a model with its own image encoder."""


@dataclass(frozen=True, eq=False)
class TowersModel:
    """Images and texts in one space.

    Args:
        variant: "towers", "pvse" or "pcme".
        name: Name in reports.
        module: The weights.
        features: Source of the image vectors; None if they were not saved with the model.
        vocabulary: The vocabulary, if texts are encoded by the GRU.
        texts: Source of the text vectors otherwise.
        settings: Settings of the training, by group.
        trained: Training record and results.
        trained_on: The training items; None if unknown.
    """

    variant: str
    name: str
    module: Joint
    features: Source | None
    vocabulary: Vocabulary | None
    texts: Source | None
    settings: Mapping[str, Content]
    trained: Content
    trained_on: TrainedOn | None = None

    def scores(
        self,
        collection: Collection,
        *,
        features: VectorSource | None = None,
        matching: str = "vectors",
        progress: ProgressLike = None,
    ) -> Scores:
        """Similarity of every image and every text of a collection, computed lazily.

        Args:
            collection: Images and texts.
            features: Vectors of the images, if the model's own source lacks them.
            matching: "vectors": cosine similarities (of means for PCME; the best pair of heads for PVSE);
                "probability": the matching probability of PCME.
            progress: Called with (images done, images in total).
        """
        progress = as_progress(progress)
        images = self._images(collection.images, features, progress)
        texts = self._texts(collection.texts)
        ids = collection.images.ids, collection.texts.ids
        if matching == "probability":
            return self._probabilities(images, texts, ids)
        if matching != "vectors":
            raise LimnerError(f"matching={matching!r}: expected 'vectors' or 'probability'")
        if self.variant == "pvse":
            return Scores.from_sets(as_sets(ids[0], images[0]), as_sets(ids[1], texts[0]))
        sides = (Embeddings(i, as_array(side[0])) for i, side in zip(ids, (images, texts), strict=True))
        return Scores.from_embeddings(*sides)

    def encode_images(
        self, items: Items, *, features: VectorSource | None = None, progress: ProgressLike = None
    ) -> Embeddings:
        """Images in the joint space, one vector each: for PCME the mean, for PVSE the mean over heads."""
        progress = as_progress(progress)
        return Embeddings(items.ids, _one_each(self._images(items, features, progress)[0]))

    def encode_texts(self, items: Items) -> Embeddings:
        """Texts in the joint space, one vector each."""
        return Embeddings(items.ids, _one_each(self._texts(items)[0]))

    def unknown_words(self, text: str) -> list[str]:
        """The words of a text that are not in the vocabulary; empty for a frozen text encoder."""
        return [] if self.vocabulary is None else self.vocabulary.unknown(text)

    def image_sets(
        self, items: Items, *, features: VectorSource | None = None, progress: ProgressLike = None
    ) -> VectorSets:
        """All vectors of each image: one, or one per head for PVSE."""
        progress = as_progress(progress)
        return as_sets(items.ids, self._images(items, features, progress)[0])

    def text_sets(self, items: Items) -> VectorSets:
        """All vectors of each text."""
        return as_sets(items.ids, self._texts(items)[0])

    def uncertainty(
        self, items: Items, *, features: VectorSource | None = None, progress: ProgressLike = None
    ) -> npt.NDArray[np.float32]:
        """PCME's uncertainty about each item: the mean logarithm of its variance; higher is less certain."""
        progress = as_progress(progress)
        if self.variant != "pcme":
            raise LimnerError(f"a model of kind {self.variant!r} does not predict uncertainty: train 'pcme'")
        side = self._images(items, features, progress) if items.kind == "image" else self._texts(items)
        return as_array(side[1].mean(1))

    def to(self, device: str) -> TowersModel:
        """The same model on another device; this one moves too, since they share their weights."""
        return replace(self, module=self.module.to(device_named(device)))

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the model by its weights, vocabulary and `max_tokens`."""
        words = None if self.vocabulary is None else self.vocabulary.words
        description = json.dumps([self.variant, words, self.settings["inputs"]["max_tokens"]])
        return f"{self.variant} {checkpoints.short_fingerprint(self.module, description)}"

    def save(self, path: str | Path) -> Path:
        """Writes a folder: weights, config.json, the vocabulary, and a model card with the results."""
        config = self._config()
        content = {**config, **saved_record(self.trained_on)}
        weights = checkpoints.arrays(self.module)
        return model_store.write(path, KIND, content, weights=weights, beside=partial(self._write_companions, config))

    def _write_companions(self, config: Mapping[str, object], folder: Path) -> None:
        if self.vocabulary is not None:
            write_text(folder / WORDS, "".join(f"{word}\n" for word in self.vocabulary.words))
        write_card(folder, self.module, config, about=DESCRIPTIONS[self.variant])

    @classmethod
    def load(cls, path: str | Path, *, device: str = "cpu", trust: bool = False) -> TowersModel:
        """Reads a saved model; refuses a damaged folder.

        Args:
            path: The folder.
            device: Device of the weights.
            trust: Whether the model may name a custom encoder or loss as "module:thing".
        """
        saved, folder = model_store.read(path, KIND), Path(path)
        config = saved.content
        with damage_told(folder, what="saved model", mend="save it again"):
            _refuse_variant(saved)
            vocabulary = _read_words(folder) if config["texts"] == "gru" else None
            groups = config["settings"]
            max_tokens = groups["inputs"]["max_tokens"]
            if type(max_tokens) is not int or max_tokens < 1:
                raise LimnerError(f"{folder}: max_tokens={max_tokens!r}, expected a whole number, 1 or above")
            saved.refuse_larger(groups["shape"], groups.get("several", {}), config["sizes"])
            features = load_source(config["features"], option="features", trust=trust)
            with seeded(0):
                module = _rebuilt(config, vocabulary, features, trust=trust)
            texts = None if vocabulary else load_source(config["texts"], option="texts", trust=trust)
        checkpoints.fill(module, saved)
        module.to(device_named(device)).eval()
        about = groups, config["trained"], TrainedOn.from_content(config.get("trained_on"))
        return cls(config["variant"], config["name"], module, features, vocabulary, texts, *about)

    def _config(self) -> dict[str, object]:
        return {
            "variant": self.variant,
            "name": self.name,
            "features": {} if self.features is None else self.features.about(),
            "texts": "gru" if self.texts is None else self.texts.about(),
            "sizes": _sizes(self.module),
            "settings": {group: dict(values) for group, values in self.settings.items()},
            "trained": dict(self.trained),
        }

    def _images(self, items: Items, features: VectorSource | None, progress: Progress) -> Compared:
        if isinstance(getattr(self.module, "images", None), Unfrozen):
            return self._from_pixels(items, features, progress)
        used = self.features if features is None else source(features)
        if used is None:
            raise LimnerError(
                f"the model {self.name!r} was trained on image vectors that are not available: give the vectors "
                f"of these {len(items):,} images with features="
            )
        rows = used.vectors(items, progress)
        expected = _sizes(self.module)["features"]
        if rows.shape[1] != expected:
            raise LimnerError(
                f"the image vectors have {rows.shape[1]} dimensions: the model {self.name!r} was trained on {expected}"
            )
        return images_seen(self.module, torch.from_numpy(np.array(rows)))

    def _from_pixels(self, items: Items, features: object, progress: Progress) -> Compared:
        if features is not None:
            raise LimnerError(f"the model {self.name!r} has its own trained image encoder: leave out features=")
        encoder = cast("Unfrozen", self.module.images).encoder
        pieces = []
        for low in range(0, len(items), PIXELS_AT_ONCE):
            piece = items[low : low + PIXELS_AT_ONCE]
            pieces.append(images_seen(self.module, pixels_of(encoder, piece)))
            progress(low + len(piece), len(items))
        return tuple(torch.cat(each) for each in zip(*pieces, strict=True))

    def _texts(self, items: Items) -> Compared:
        if self.vocabulary is not None:
            max_tokens = int(self.settings["inputs"]["max_tokens"])
            return texts_seen(self.module, self.vocabulary.tokens(items.values, max_tokens=max_tokens))
        if self.texts is None:
            raise LimnerError(f"the model {self.name!r} was trained on text vectors that are not available")
        return texts_seen(self.module, self.texts.vectors(items))

    def _probabilities(self, images: Compared, texts: Compared, ids: tuple[Ids, Ids]) -> Scores:
        if not isinstance(self.module, Probabilistic):
            raise LimnerError(f"a model of kind {self.variant!r} has no matching probability: train 'pcme'")
        module = self.module
        with seeded(0):  # the same samples on every call
            drawn = [_samples(side, module.samples).cpu() for side in (images, texts)]

        def kernel(rows: npt.NDArray[np.float32], columns: npt.NDArray[np.float32]) -> Array:
            sides = (torch.from_numpy(np.ascontiguousarray(a)).to(device_of(module)) for a in (rows, columns))
            with torch.inference_mode():
                return np.exp(as_array(module.log_probabilities(*sides)[0]).astype(np.float64))

        return Scores.from_kernel(kernel, *(d.numpy() for d in drawn), queries=ids[0], candidates=ids[1])


def _samples(side: Compared, count: int) -> Tensor:
    mean, log = side[0].cpu(), side[1].cpu()
    return mean[:, None] + torch.randn(len(mean), count, mean.shape[1]) * torch.exp(log / 2)[:, None]


def _one_each(vectors: Tensor) -> npt.NDArray[np.float32]:
    return as_array(vectors if vectors.ndim == 2 else vectors.mean(1))


def _sizes(module: Any) -> dict[str, int]:
    reads = hasattr(module.texts, "table")
    texts = module.texts.table.num_embeddings if reads else module.texts.linear.in_features
    return {"features": int(module.images.linear.in_features), "texts": int(texts)}


def _rebuilt(config: Content, vocabulary: Vocabulary | None, features: Source | None, *, trust: bool) -> Joint:
    groups, variant = config["settings"], config["variant"]
    if "margin" in groups:
        losses.loss(groups["margin"]["loss"], trusted=trust)  # refuses a custom loss
    shape = settings(Shape, groups["shape"], owner=variant)
    variant_settings: VariantSettings = tuple(
        settings(kind, groups[kind.__name__.lower()], owner=variant) for kind in VARIANTS[variant]
    )
    encoder = trainable(features) if groups["inputs"].get("unfreeze") else None
    return built(variant, shape, variant_settings, **config["sizes"], reads=vocabulary is not None, encoder=encoder)


def _refuse_variant(saved: SavedModel) -> None:
    if saved.content["variant"] not in VARIANTS:
        raise LimnerError(
            f"{saved.folder} holds towers of the variant {saved.content['variant']!r}: expected {', '.join(VARIANTS)}"
        )


def _read_words(folder: Path) -> Vocabulary:
    return Vocabulary(tuple(read_text(folder / WORDS, what="vocabulary").splitlines()))
