"""MCProp: a joint space for captions and for queries of an image and its file name (Messina et al. 2022).

One frozen text backbone encodes names and captions; a small transformer head for each gives a vector, its first output
token (the backbone's own first token, if it has one). Name and image are fused into the query. The loss is the
max-margin loss of two towers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from limner.core import model_store
from limner.core.arrays import Float32
from limner.core.collection import Collection, Items
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError
from limner.core.files import replacing
from limner.core.model_store import Content
from limner.core.paths import damage_told, settle_matplotlib
from limner.core.progress import ProgressLike
from limner.core.registry import takes
from limner.core.tensors import device_named
from limner.datasets.wikipedia import image_names
from limner.encoders.opening import Source, VectorSource, load_source, source
from limner.papers.file_name_models.mcprop_network import Data, Heads, MCProp
from limner.papers.file_name_models.text_readers import Read, TextReader, load_reader, reader_of
from limner.scores import Scores
from limner.systems.hold_out import TrainedOn, saved_record
from limner.systems.towers import checkpoints
from limner.systems.towers.checkpoints import write_card
from limner.systems.towers.data import as_array
from limner.systems.towers.distributed import Group, epoch_order, joined, seeded
from limner.systems.towers.fit import fit, training_record
from limner.systems.towers.losses import warn_if_collapsed
from limner.systems.towers.settings import (
    Margin,
    Training,
    continued,
    initial,
    refuse_below,
    refuse_other_size,
    settings,
    split,
)

KIND = "mcprop"
ABOUT = "MCProp: an image and its file name fused into one query, compared with captions by cosine similarity."
DEFAULTS = {"loss": "max"}
"""Defaults that differ from `Margin`."""
MEASURES = ("nDCG@5", "R@1", "R@5", "R@10")
_AT_ONCE = 512


@dataclass(frozen=True, kw_only=True)
class Query:
    """The inputs.

    Args:
        features: Image features: `Embeddings`, their file, or an encoder; colours and shapes by default.
        backbone: Text backbone: "words" (trained with the model), "use-multilingual", or a folder or hub name of a
            transformer.
        max_tokens: Tokens per text; the rest is cut off.
        min_count: Words in fewer training texts are treated as unknown by the backbone "words".
        init_from: A trained MCProp, or its folder: training continues from its weights, with its backbone and sizes.
        name: Name of the system in reports.
    """

    features: VectorSource | None = None
    backbone: str | None = None
    max_tokens: int = 48
    min_count: int = 2
    init_from: str | Path | McpropModel | None = None
    name: str = "mcprop"

    def __post_init__(self) -> None:
        """Checks the values."""
        refuse_below(self, 1, "max_tokens", "min_count")


class McpropBatch(NamedTuple):
    """This process's share of a batch, and the positives of the whole batch."""

    names: Read
    features: Tensor
    captions: Read
    positives: Tensor


class McpropTask:
    """The training task."""

    decoupled = True
    module: nn.Module

    def __init__(
        self,
        module: MCProp,
        reader: TextReader,
        data: Data,
        loss: Callable[..., Tensor],
        *,
        training: Training,
        group: Group,
    ) -> None:
        self.module = self.heads = module
        self.reader, self.data, self.margin = reader, data, loss
        self.training, self.group = training, group
        self.size = min(training.batch_size, len(data.image_of) // group.size * group.size)

    @property
    def steps(self) -> int:
        """Number of batches in an epoch."""
        return len(self.data.image_of) // self.size

    @property
    def settings(self) -> dict[str, object]:
        """Settings that must be the same when a run is resumed."""
        return {"system": KIND, "pairs": len(self.data.image_of), "fusion": type(self.heads.fusion).__name__}

    def batches(self, epoch: int, start: int) -> Iterator[McpropBatch]:
        """The batches of an epoch, starting with a given number."""
        order = epoch_order(len(self.data.image_of), seed=self.training.seed, epoch=epoch)
        share = self.group.share(self.size)
        for step in range(start, self.steps):
            batch = order[step * self.size : (step + 1) * self.size]
            images, texts = self.data.image_of[batch], self.data.text_of[batch]
            positives = torch.from_numpy(self.data.related(images, texts)).to(self.data.features.device)
            share_images, ours = images[share], texts[share]
            features = self.data.features[torch.from_numpy(share_images).to(self.data.features.device)]
            yield McpropBatch(self.data.names.rows(share_images), features, self.data.captions.rows(ours), positives)

    def loss(self, batch: McpropBatch) -> Tensor:
        """The margin loss of the whole batch; this process encodes its share."""
        sides = [self.group.gather(normalize(side, dim=-1)) for side in self.sides(batch)]
        return self.margin(sides[0] @ sides[1].T, batch.positives) / len(batch.positives)

    def sides(self, batch: McpropBatch) -> tuple[Tensor, Tensor]:
        """Encodes this process's share of the queries and captions of a batch."""
        query = self.heads.queries(batch.names, batch.features, self.reader).query
        return query, self.heads.texts(batch.captions, self.reader)

    def measure(self) -> dict[str, float]:
        """The mean weights of the fusion; with a dev collection, nDCG@5 and recall of captions."""
        judged = self.data.dev or self.data
        query, weights = encoded_queries(self.heads, self.reader, judged.names, judged.features)
        weight_means = {"a_u": float(weights[:, 0].mean()), "a_v": float(weights[:, 1].mean())}
        if self.data.dev is None:
            return weight_means
        from limner.evaluation.evaluate import evaluate  # imported here: training itself does not need it

        vectors = encoded_texts(self.heads, self.reader, judged.captions)
        ids = judged.collection.images.ids, judged.collection.texts.ids
        scores = Scores.from_embeddings(Embeddings(ids[0], query), Embeddings(ids[1], vectors))
        report = evaluate(scores, judged.collection, direction="i2t", measures=" ".join(MEASURES))
        view = judged.collection.judgements.name
        return {**{m: report.value(m, direction="i2t", view=view) for m in MEASURES}, **weight_means}


def encoded_queries(
    module: MCProp, reader: TextReader, names: Read, features: Tensor
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Vectors of queries, and the weights of their two parts."""
    with torch.inference_mode():
        parts = [module.queries(names.rows(rows), features[_at(rows, features)], reader) for rows in _cut(len(names))]
    return as_array(torch.cat([p.query for p in parts])), as_array(torch.cat([p.weights for p in parts]))


def encoded_texts(module: MCProp, reader: TextReader, captions: Read) -> npt.NDArray[np.float32]:
    """Vectors of captions."""
    with torch.inference_mode():
        return as_array(torch.cat([module.texts(captions.rows(rows), reader) for rows in _cut(len(captions))]))


def _cut(count: int) -> Iterator[npt.NDArray[np.int64]]:
    return (np.arange(low, min(low + _AT_ONCE, count)) for low in range(0, count, _AT_ONCE))


def _at(rows: npt.NDArray[np.int64], like: Tensor) -> Tensor:
    return torch.from_numpy(rows).to(like.device)


@takes(Query, Heads, Margin, Training, **DEFAULTS)
def train(
    collection: Collection, *, dev: Collection | None = None, progress: ProgressLike = None, **options: object
) -> McpropModel:
    """Trains a model that fuses an image and its file name into one query for captions (Messina et al. 2022).

    Args:
        collection: The training collection; images have the field "file_name", otherwise the names of their files or
            their ids are used.
        dev: Collection that selects the best epoch, by nDCG@5; without it the last epoch is kept.
        progress: Called with (steps done, steps in total).
        options: Options of `Query`, `Heads`, `Margin` (its loss is "max" here) and `Training`.
    """
    start = initial(options.get("init_from"), McpropModel)
    if start is not None:
        options = continued(options, {**start.settings["query"], **start.settings["heads"]}, own_options=("backbone",))
    query, shape, margin, training = split(options, Query, Heads, Margin, Training, owner=KIND, defaults=DEFAULTS)
    device = device_named(training.device)
    group = joined(device)
    texts = [*collection.texts.values, *image_names(collection.images)]
    sizes = {"dim": shape.hidden_dim, "max_tokens": query.max_tokens, "min_count": query.min_count}
    reader = reader_of(query.backbone, texts, device=device, **sizes) if start is None else start.reader
    stored_features = None if start is None or query.features is not None else start.features
    features = stored_features or source(query.features)
    dev_data = None if dev is None else Data.of(dev, reader, features, device)
    data = Data.of(collection, reader, features, device, dev_data)
    with seeded(training.seed):
        module = MCProp(reader, int(data.features.shape[1]), shape) if start is None else deepcopy(start.module)
        if start is None:
            module.images.standardise(data.features.cpu())
    refuse_other_size(int(data.features.shape[1]), int(module.images.linear.in_features))
    task = McpropTask(module.to(device), reader, data, margin.function(), training=training, group=group)
    fitted = fit(task, training, criterion="nDCG@5", group=group, progress=progress)
    if group.main:
        with torch.inference_mode():
            warn_if_collapsed(*task.sides(next(task.batches(0, 0))), loss=margin.loss)
    about = training_record(collection, dev, fitted, (*MEASURES, "a_u", "a_v"))
    stored = {"query": {"max_tokens": query.max_tokens, "min_count": query.min_count}, "heads": asdict(shape)}
    stored |= {"margin": _plain(asdict(margin)), "training": asdict(training)}
    record = TrainedOn.of(collection).joined(None if start is None else start.trained_on)
    return McpropModel(query.name, module, reader, features, stored, about, record)


def _plain(values: Mapping[str, object]) -> dict[str, object]:
    return {k: v if v is None or isinstance(v, (str, int, float)) else repr(v) for k, v in values.items()}


@dataclass(frozen=True, eq=False)
class McpropModel:
    """A trained MCProp model.

    Args:
        name: Name in reports.
        module: The heads.
        reader: The text backbone.
        features: Source of the image vectors; None if they were not saved with the model.
        settings: Settings of the training, by group.
        trained: Training record and results.
        trained_on: The training items; None if unknown.
    """

    name: str
    module: MCProp
    reader: TextReader
    features: Source | None
    settings: Mapping[str, Content]
    trained: Content
    trained_on: TrainedOn | None = None

    def scores(self, collection: Collection, *, features: VectorSource | None = None) -> Scores:
        """Cosine similarities of all images (with their file names) and texts, computed lazily.

        Args:
            collection: Images and texts.
            features: Vectors of the images, if the model's own source lacks them.
        """
        queries = Embeddings(collection.images.ids, self._queries(collection, features)[0])
        return Scores.from_embeddings(queries, self.encode_texts(collection.texts))

    def weights(self, collection: Collection, *, features: VectorSource | None = None) -> npt.NDArray[np.float32]:
        """Fusion weights of file name and image, one row per image."""
        return self._queries(collection, features)[1]

    def encode_texts(self, items: Items) -> Embeddings:
        """Captions in the joint space."""
        return Embeddings(items.ids, encoded_texts(self.module, self.reader, self.reader.read(items.values)))

    def encode_images(self, items: Items, *, features: VectorSource | None = None) -> Embeddings:
        """Images with their file names in the joint space."""
        return Embeddings(items.ids, self._encoded(items, image_names(items), features)[0])

    def _queries(self, collection: Collection, features: VectorSource | None) -> tuple[Float32, Float32]:
        return self._encoded(collection.images, image_names(collection.images), features)

    def _encoded(self, items: Items, names: Sequence[str], features: VectorSource | None) -> tuple[Float32, Float32]:
        used = self.features if features is None else source(features)
        if used is None:
            raise LimnerError(
                f"the model {self.name!r} was trained on image vectors that are not available: give the vectors "
                f"of these "
                f"{len(items):,} images with features="
            )
        rows = np.array(used.vectors(items), dtype=np.float32)
        expected = self.module.images.linear.in_features
        if rows.shape[1] != expected:
            raise LimnerError(
                f"the image vectors have {rows.shape[1]} dimensions: {self.name!r} was trained on {expected}"
            )
        vectors = torch.from_numpy(rows).to(self.reader.device)
        return encoded_queries(self.module, self.reader, self.reader.read(names), vectors)

    def plot(self, path: str | Path) -> Path:
        """Plots the mean weights of file name and image by epoch (png, svg or pdf)."""
        settle_matplotlib()
        import matplotlib
        from matplotlib.figure import Figure

        history = self.trained["history"]
        figure = Figure(figsize=(6, 3.2), layout="constrained")
        axes = figure.add_subplot()
        for key, label in (("a_u", "file name, $a_u$"), ("a_v", "image, $a_v$")):
            axes.plot([row["epoch"] for row in history], [row[key] for row in history], marker="o", label=label)
        axes.set(xlabel="epoch", ylabel="mean weight", ylim=(0, 1), title=f"{self.name}: weights of the query parts")
        axes.legend()
        with replacing(path) as file, matplotlib.rc_context({"svg.hashsalt": "limner"}):
            figure.savefig(file)
        return Path(path)

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the model by the weights of the heads and the text backbone."""
        return f"{KIND} {checkpoints.short_fingerprint(self.module, f'{self.reader.kind} {self.reader.max_tokens}')}"

    def save(self, path: str | Path) -> Path:
        """Writes a folder: weights, config.json, files of the reader, a plot of the weights, and a model card."""
        features = {} if self.features is None else self.features.about()
        sizes = {"features": int(self.module.images.linear.in_features), "dim": self.reader.dim}
        config = {"name": self.name, "reader": self.reader.about(), "features": features}
        config |= {"sizes": sizes, "settings": dict(self.settings), "trained": dict(self.trained)}
        content, weights = {**config, **saved_record(self.trained_on)}, checkpoints.arrays(self.module)
        return model_store.write(path, KIND, content, weights=weights, beside=partial(self._write_files, config))

    def _write_files(self, config: Mapping[str, object], folder: Path) -> None:
        write_card(folder, self.module, config, about=ABOUT)
        self.reader.save(folder)
        self.plot(folder / "weights.svg")

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto", trust: bool = False) -> McpropModel:
        """Reads a saved model; refuses a damaged folder, or one that names custom code without `trust`."""
        saved = model_store.read(path, KIND)
        config = saved.content
        with damage_told(path, what="saved model", mend="save it again"):
            groups = config["settings"]
            saved.refuse_larger(groups["heads"], config["sizes"], config["reader"])
            place, dim = device_named(device), int(config["sizes"]["dim"])
            reader = load_reader(config["reader"], Path(path), dim=dim, device=place)
            shape = settings(Heads, {**groups["heads"], "first": groups["heads"]["first"]}, owner=KIND)
            module = MCProp(reader, int(config["sizes"]["features"]), shape)
            features = load_source(config["features"], option="features", trust=trust)
        checkpoints.fill(module, saved)
        about = groups, config["trained"], TrainedOn.from_content(config.get("trained_on"))
        return cls(config["name"], module.to(place).eval(), reader, features, *about)
