"""CRank: a classifier of pairs of file name and caption, for re-ranking (Messina et al. 2022).

Trained with AdamW on batches of half positive and half random negative pairs. With `use_images`, the image is an extra
token, which the paper mentions as future work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from limner.core.arrays import IntArray
from limner.core.collection import Collection
from limner.core.cut_texts import count
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError
from limner.core.model_store import Content, SavedModel, read, write
from limner.core.paths import damage_told
from limner.core.progress import SILENT, Progress, ProgressLike, as_progress
from limner.core.registry import takes
from limner.core.tensors import device_named
from limner.datasets.wikipedia import image_names
from limner.encoders.batching import by_length
from limner.encoders.opening import Source, VectorSource, load_source, source
from limner.papers.file_name_models.pair_classifiers import (
    TUNED,
    CrankBatch,
    CrankData,
    Judge,
    Layers,
    Proposer,
    Reading,
    Tuned,
    as_tensor,
)
from limner.papers.file_name_models.text_readers import PACKAGED, WORDS, load_reader, reader_of
from limner.scores import Scores
from limner.systems.hold_out import TrainedOn, saved_record
from limner.systems.towers import checkpoints
from limner.systems.towers.checkpoints import write_card
from limner.systems.towers.distributed import Group, epoch_order, joined, seeded
from limner.systems.towers.fit import fit, training_record
from limner.systems.towers.settings import (
    Training,
    continued,
    initial,
    refuse_below,
    refuse_other_size,
    settings,
    split,
)

Scored = npt.NDArray[np.float32]
KIND = "crank"
ABOUT = "CRank: scores how well a file name and a caption match."
DEFAULTS: Mapping[str, object] = {"batch_size": 64, "learning_rate": 2e-4, "weight_decay": 0.01, "epochs": 10}
"""Defaults that differ from `Training`."""


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """The inputs.

    Args:
        backbone: Text backbone: "words" (trained with the model), "use-multilingual" (frozen), or a folder or hub
            name of a transformer, which is trained as a whole.
        use_images: Whether the classifier also sees the image.
        features: Image features for `use_images`: `Embeddings`, their file, or an encoder; colours and shapes by
            default.
        max_tokens: Tokens per text, or per pair for a transformer; the rest is cut off.
        min_count: Words in fewer training texts are treated as unknown by the backbone "words".
        proposer: Scores, a ranking or its file, for the captions of the training images: its errors serve as hard
            negatives. Random negatives alone are too easy.
        hard_negative_share: The share of negative pairs that come from the proposer.
        hard_negative_depth: Hard negatives are drawn from this many top candidates of the proposer.
        init_from: A trained CRank, or its folder: training continues from its weights, with its backbone and sizes.
        name: Name of the system in reports.
    """

    backbone: str | None = None
    use_images: bool = False
    features: VectorSource | None = None
    max_tokens: int = 128
    min_count: int = 2
    proposer: Proposer = None
    hard_negative_share: float = 0.5
    hard_negative_depth: int = 50
    init_from: str | Path | CrankModel | None = None
    name: str = "crank"

    def __post_init__(self) -> None:
        """Checks the values."""
        refuse_below(self, 1, "max_tokens", "min_count", "hard_negative_depth")
        if not 0 <= self.hard_negative_share <= 1:
            raise LimnerError(f"hard_negative_share={self.hard_negative_share}: expected a share between 0 and 1")
        if self.features is not None and not self.use_images:
            raise LimnerError("features= without use_images=True: this classifier would not use them")


class CrankTask:
    """The training task.

    The judge is `Reading`, a small transformer over the vectors of a backbone, or `Tuned`, a pretrained transformer
    that is trained as a whole.
    """

    decoupled = True  # AdamW: weight decay apart from the gradient
    module: nn.Module

    def __init__(
        self,
        judge: Judge,
        data: CrankData,
        dev: CrankData | None,
        *,
        training: Training,
        group: Group,
        device: torch.device,
    ) -> None:
        self.module = self.judge = judge
        self.data, self.dev, self.training, self.group, self.device = data, dev, training, group, device
        self.half = min(max(training.batch_size // 2, 1), len(data.rows) // group.size * group.size)

    @property
    def steps(self) -> int:
        """Number of batches in an epoch."""
        return len(self.data.rows) // self.half

    @property
    def settings(self) -> dict[str, object]:
        """Settings that must be the same when a run is resumed."""
        return {"system": KIND, "pairs": len(self.data.rows), "judge": type(self.judge).__name__}

    def batches(self, epoch: int, start: int) -> Iterator[CrankBatch]:
        """Batches with equal numbers of positive and negative pairs; only the share of this process."""
        order = epoch_order(len(self.data.rows), seed=self.training.seed, epoch=epoch)
        share = self.group.share(self.half)
        for step in range(start, self.steps):
            chosen = order[step * self.half : (step + 1) * self.half]
            generator = np.random.default_rng([self.training.seed, epoch, step])
            images, texts = self.data.rows[chosen], self.data.columns[chosen]
            wrong = self.data.negatives(images, generator)
            share_images = images[share]
            columns = np.concatenate([texts[share], wrong[share]])
            match = torch.zeros(len(columns), device=self.device)
            match[: len(share_images)] = 1
            yield CrankBatch(np.concatenate([share_images, share_images]), columns, match)

    def loss(self, batch: CrankBatch) -> Tensor:
        """Cross-entropy; the trainer takes the mean over the processes."""
        return binary_cross_entropy_with_logits(self.data.judged(self.judge, batch.rows, batch.columns), batch.match)

    def measure(self) -> dict[str, float]:
        """AUC and accuracy on positive and negative pairs of the dev split."""
        if self.dev is None:
            return {}
        wrong = self.dev.negatives(self.dev.rows, np.random.default_rng(self.training.seed))
        right, mismatched = (_in_batches(self.judge, self.dev, self.dev.rows, c) for c in (self.dev.columns, wrong))
        ordered = np.sort(mismatched)
        ranks = np.searchsorted(ordered, right, side="left") + np.searchsorted(ordered, right, side="right")
        accuracy = ((right > 0).mean() + (mismatched <= 0).mean()) / 2
        return {"AUC": float(ranks.mean() / 2 / len(mismatched)), "accuracy": float(accuracy)}


def _in_batches(
    judge: Judge, data: CrankData, rows: IntArray, columns: IntArray, progress: Progress = SILENT
) -> Scored:
    """Logits of many pairs, in batches of similar length."""
    lengths = judge.lengths(data.names, data.captions)
    out = np.empty(len(rows), dtype=np.float32)
    card = next(judge.parameters()).device.type == "cuda"
    done = 0
    for part in by_length(lengths[0][rows] + lengths[1][columns], budget=262_144 if card else 4_096):
        out[part] = _logits(judge, data, rows[part], columns[part], half=card)
        if card and not np.isfinite(out[part]).all():  # too large for half precision
            out[part] = _logits(judge, data, rows[part], columns[part], half=False)
        done += len(part)
        progress(done, len(rows))
    return out


def count_pairs(judge: Judge, data: CrankData, pairs: Iterable[tuple[str, str]]) -> None:
    """Counts the pairs that are longer than a transformer reads."""
    if isinstance(judge, Tuned):
        first, second = judge.lengths(data.names, data.captions)
        lengths = first[data.rows] + second[data.columns] + judge.pairs.template.marks
        count(pairs, lengths.tolist(), limit=judge.pairs.max_tokens, kind="pairs")


def _logits(judge: Judge, data: CrankData, rows: IntArray, columns: IntArray, *, half: bool) -> Scored:
    with torch.inference_mode(), torch.autocast("cuda", torch.float16, enabled=half):
        logits: Scored = data.judged(judge, rows, columns).float().cpu().numpy()
    return logits


@takes(Pairing, Layers, Training, **DEFAULTS)
def train(
    collection: Collection, *, dev: Collection | None = None, progress: ProgressLike = None, **options: object
) -> CrankModel:
    """A classifier of pairs of file name and caption, for re-ranking (Messina et al. 2022).

    Args:
        collection: The training collection; images have the field "file_name", otherwise the names of their files or
            their ids are used.
        dev: Collection that selects the best epoch, by AUC.
        progress: Called with (steps done, steps in total).
        options: Options of `Pairing`, `limner.papers.file_name_models.pair_classifiers.Layers` and `Training`, with
            other defaults: batch_size 64, learning_rate 2e-4, weight_decay 0.01, epochs 10.
    """
    start = initial(options.get("init_from"), CrankModel)
    if start is not None:
        fixed = {**start.settings["pairing"], **start.settings["layers"]}
        options = continued(options, fixed, own_options=("backbone", "min_count"))
    pairing, shape, training = split(options, Pairing, Layers, Training, owner=KIND, defaults=DEFAULTS)
    device = device_named(training.device)
    group = joined(device)
    features = source(pairing.features) if pairing.use_images else None
    if start is not None and pairing.features is None:
        features = start.features
    size = None if features is None else int(features.vectors(collection.images[:2]).shape[1])
    with seeded(training.seed):
        judge = (_judge(pairing, shape, collection, size, device) if start is None else _copied(start, size)).to(device)
    data = CrankData.of(collection, judge, features, device)
    names, captions = image_names(collection.images), collection.texts.values
    count_pairs(judge, data, ((names[r], captions[c]) for r, c in zip(data.rows, data.columns, strict=True)))
    depth, share = pairing.hard_negative_depth, pairing.hard_negative_share
    data = data.with_proposed(collection, pairing.proposer, depth=depth, share=share)
    if start is None and judge.picture is not None and data.features is not None:
        judge.picture.standardise(data.features)
    dev_data = None if dev is None else CrankData.of(dev, judge, features, device)
    task = CrankTask(judge, data, dev_data, training=training, group=group, device=device)
    fitted = fit(task, training, criterion="AUC", group=group, progress=progress)
    about = training_record(collection, dev, fitted, ("AUC", "accuracy"))
    inputs = {"max_tokens": pairing.max_tokens, "use_images": pairing.use_images}
    settings_stored = {"pairing": inputs, "layers": asdict(shape), "training": asdict(training)}
    record = TrainedOn.of(collection).joined(None if start is None else start.trained_on)
    return CrankModel(pairing.name, judge.eval(), features, settings_stored, about, record)


def _copied(start: CrankModel, size: int | None) -> Judge:
    """The network of the initial model, to be changed."""
    image = start.judge.picture
    refuse_other_size(size, None if image is None else int(image.linear.in_features))
    return deepcopy(start.judge).train()


def _judge(pairing: Pairing, shape: Layers, collection: Collection, size: int | None, device: torch.device) -> Judge:
    if pairing.backbone not in (None, WORDS, PACKAGED):
        return Tuned(pairing.backbone, max_tokens=pairing.max_tokens, features=size, dropout=shape.dropout)
    texts = [*collection.texts.values, *image_names(collection.images)]
    sizes = {"dim": shape.hidden_dim, "max_tokens": min(pairing.max_tokens, 64), "min_count": pairing.min_count}
    return Reading(reader_of(pairing.backbone, texts, device=device, **sizes), shape, size)


@dataclass(frozen=True, eq=False)
class CrankModel:
    """A trained CRank model: a pair scorer.

    Args:
        name: Name in reports.
        judge: The network.
        features: Source of the image vectors, if it uses images.
        settings: Settings of the training, by group.
        trained: Training record and results.
        trained_on: The training items; None if unknown.
    """

    name: str
    judge: Judge
    features: Source | None
    settings: Mapping[str, Content]
    trained: Content
    trained_on: TrainedOn | None = None

    @property
    def fingerprint(self) -> str:
        """The weights."""
        weights = {name: tensor.detach().cpu() for name, tensor in self.judge.state_dict().items()}
        return f"crank {checkpoints.fingerprint(weights, '')}"

    def queries(self, collection: Collection, *, features: VectorSource | None = None) -> list[object]:
        """The queries for `score_pairs`: names, or (name, image vector)."""
        names = image_names(collection.images)
        if self.judge.picture is None:
            return list(names)
        used = self.features if features is None else source(features)
        if used is None:
            raise LimnerError(f"{self.name!r} uses images, but has no vectors of them: give them with features=")
        return list(zip(names, used.vectors(collection.images), strict=True))

    def score_pairs(
        self, queries: Sequence[Any], candidates: Sequence[str], *, progress: ProgressLike = None
    ) -> Scored:
        """One logit per pair of a query (see `queries`) and a caption, higher is better."""
        progress = as_progress(progress)
        sees = self.judge.picture is not None
        if sees and not all(isinstance(q, tuple) for q in queries[:1]):
            raise LimnerError(f"{self.name!r} uses images: its queries are pairs (name, vector); see queries()")
        names = [q[0] for q in queries] if sees else list(queries)
        first, rows = _numbered(names if not sees else [id(q) for q in queries])
        second, columns = _numbered(candidates)
        features = None
        if sees:
            vectors = np.stack([queries[n][1] for n in first])
            features = as_tensor(vectors, next(self.judge.parameters()).device)
        read = self.judge.read([names[n] for n in first]), self.judge.read([candidates[n] for n in second])
        data = CrankData(*read, features, rows, columns)
        count_pairs(self.judge, data, zip(names, candidates, strict=True))
        return _in_batches(self.judge, data, rows, columns, progress)

    def scores(self, collection: Collection, *, features: VectorSource | None = None) -> Scores:
        """Scores of all pairs of a collection, for small collections; `limner.match.cascade` scores fewer pairs."""
        ids = {"queries": collection.images.ids, "candidates": collection.texts.ids}
        queries = self.queries(collection, features=features)
        return Scores.from_scorer(self, queries, list(collection.texts.values), batch=65_536, **ids)

    def similarity(self, collection: Collection) -> Scores:
        """Cosine similarities of names and captions, from the tuned transformer's first token, each text encoded alone.

        The baseline that Messina et al. (2022) call "XLM-RoBERTa similarity"; only available with a tuned transformer.
        """
        judge = self.judge
        if not isinstance(judge, Tuned):
            raise LimnerError(f"{self.name!r} has no tuned transformer: train it with a transformer as backbone=")
        names, captions = image_names(collection.images), collection.texts.values
        images, texts = (_first_states(judge, list(side)) for side in (names, captions))
        ids = collection.images.ids, collection.texts.ids
        return Scores.from_embeddings(Embeddings(ids[0], images), Embeddings(ids[1], texts))

    def save(self, path: str | Path) -> Path:
        """Writes a folder: weights, config.json, files of the backbone, and a model card."""
        tuned = isinstance(self.judge, Tuned)
        image = self.judge.picture
        sizes = {"features": None if image is None else int(image.linear.in_features)}
        if isinstance(self.judge, Reading):
            sizes["dim"] = self.judge.reader.dim
        config = {"name": self.name, "tuned": tuned, "sizes": sizes}
        config["reader"] = self.judge.reader.about() if isinstance(self.judge, Reading) else {}
        config["features"] = {} if self.features is None else self.features.about()
        config |= {"settings": dict(self.settings), "trained": dict(self.trained)}
        content, weights = {**config, **saved_record(self.trained_on)}, checkpoints.arrays(self.judge)
        return write(path, KIND, content, weights=weights, beside=partial(self._write_files, config))

    def _write_files(self, config: Mapping[str, object], folder: Path) -> None:
        write_card(folder, self.judge, config, about=ABOUT)
        self.judge.save(folder)

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto", trust: bool = False) -> CrankModel:
        """Reads a saved model; refuses a damaged folder, or one that names custom code without `trust`."""
        saved = read(path, KIND)
        config = saved.content
        with damage_told(path, what="saved model", mend="save it again"):
            judge = _rebuilt(saved, device_named(device))
            about = config["features"]
            features = load_source(about, option="features", trust=trust) if about else None
        checkpoints.fill(judge, saved)
        judge = judge.to(device_named(device)).eval()
        record = TrainedOn.from_content(config.get("trained_on"))
        return cls(config["name"], judge, features, config["settings"], config["trained"], record)


def _first_states(judge: Tuned, texts: Sequence[str]) -> Scored:
    with torch.inference_mode():
        parts = [judge.first_states(texts[n : n + 256]).float().cpu().numpy() for n in range(0, len(texts), 256)]
    return np.asarray(np.concatenate(parts))


def _rebuilt(saved: SavedModel, device: torch.device) -> Judge:
    config, folder = saved.content, saved.folder
    size, stored = config["sizes"]["features"], config["settings"]
    saved.refuse_larger(stored["layers"], config["sizes"], config["reader"])
    if config["tuned"]:
        return Tuned(folder / TUNED, max_tokens=int(stored["pairing"]["max_tokens"]), features=size, fresh=False)
    reader = load_reader(config["reader"], folder, dim=int(config["sizes"]["dim"]), device=device)
    return Reading(reader, settings(Layers, stored["layers"], owner=KIND), size)


def _numbered(values: Sequence[object]) -> tuple[IntArray, IntArray]:
    """The first position of every distinct value, and the index of each value among the distinct ones."""
    numbers: dict[object, int] = {}
    numbered = np.fromiter((numbers.setdefault(v, len(numbers)) for v in values), dtype=np.int64, count=len(values))
    return np.unique(numbered, return_index=True)[1], numbered
