"""Systems: the models that `limner.train` can train, by name.

A system is a function `(collection, *, **options) -> model`; a model has `scores(collection) -> Scores`. A custom
system needs no registration: name it as "module:function". A system that tunes its settings takes a keyword `dev`, and
receives the dev split of the collection.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from limner.core.cut_texts import warned_once
from limner.core.errors import LimnerError, Untrusted
from limner.core.model_store import kind_of
from limner.core.paths import damage_told, parse_toml, read_text
from limner.core.registry import Registry, refuse_code

if TYPE_CHECKING:
    from limner.core.collection import Collection
    from limner.scores import Scores

if not TYPE_CHECKING:
    from limner.core.extras import submodules

    __getattr__ = submodules(__name__)

__all__ = ["KINDS", "LOSSES", "SYSTEMS", "Model", "load", "train"]


@runtime_checkable
class Model(Protocol):
    """A trained model."""

    def scores(self, collection: Collection, /, **options: object) -> Scores:
        """Similarity of every image and every text of a collection."""
        ...


class Loadable(Protocol):
    """A class of saved models."""

    def load(self, path: Path, /, *, trust: bool) -> Model:
        """Reads the model in a folder."""
        ...


SYSTEMS: Registry[Callable[..., Model]] = Registry(
    "system",
    {
        "aligned": "limner.systems.aligned:train_aligned",
        "colours": "limner.systems.histograms:train_colours",
        "crank": "limner.papers.file_name_systems:crank",
        "finetune": "limner.systems.learned:finetune",
        "histograms": "limner.systems.histograms:train",
        "kcca": "limner.systems.classic.training:train",
        "mcprop": "limner.papers.file_name_systems:mcprop",
        "nearest": "limner.papers.nearest_neighbours:train",
        "pcme": "limner.systems.learned:pcme",
        "pvse": "limner.systems.learned:pvse",
        "ranking-paper": "limner.papers.thirty_systems:train",
        "towers": "limner.systems.learned:towers",
    },
    filled=1,
)
"""All systems by name."""

LOSSES: Registry[Callable[..., Any]] = Registry(
    "loss",
    {
        "adaptive": "limner.systems.towers.losses:adaptive_margin",
        "knn": "limner.systems.towers.losses:knn_margin",
        "max": "limner.systems.towers.losses:max_margin",
        "semi-hard": "limner.systems.towers.losses:semi_hard",
        "sum": "limner.systems.towers.losses:sum_margin",
    },
    filled=2,
)
"""Losses of towers, by name: see `limner.systems.towers.losses`."""

KINDS: Registry[Loadable] = Registry(
    "kind of model",
    {
        "aligned": "limner.systems.aligned:AlignedModel",
        "crank": "limner.papers.file_name_models.crank:CrankModel",
        "finetuned": "limner.systems.towers.finetuned_model:FinetunedModel",
        "gru": "limner.encoders.gru:GruEncoder",
        "histograms": "limner.systems.histograms:HistogramModel",
        "kcca": "limner.systems.classic.models:KccaModel",
        "mcprop": "limner.papers.file_name_models.mcprop:McpropModel",
        "nearest": "limner.papers.nearest_neighbours:NearestModel",
        "towers": "limner.systems.towers.towers_model:TowersModel",
    },
)
"""Classes of saved models, by the value of "limner" in a model's config.json; each has `load(path)`."""


@warned_once()
def train(
    collection: Collection,
    system: str = "histograms",
    *,
    config: str | Path | None = None,
    trust: bool = False,
    **options: object,
) -> Model:
    """Trains a system on pairs of images and texts.

    Args:
        collection: The training collection. Its training split is used if there is one, otherwise everything.
        system: A key of `SYSTEMS` or "module:function", either with options such as "towers(epochs=5)".
        config: A TOML file with options of the same names; options of the call take precedence.
        trust: Whether that file, and the model of `init_from`, may name custom code, as "module:thing".
        options: Options of the system; unknown names are refused.

    Returns:
        A model; `model.scores(collection.test)` is what `limner.evaluate` takes.
    """
    system, options = SYSTEMS.parsed(system, options)
    trainer = SYSTEMS.find(system)
    all_options = {**({} if config is None else _configured(config, trust=trust)), **options}
    chosen = SYSTEMS.checked(system, all_options)
    if trust and isinstance(chosen.get("init_from"), (str, Path)):
        chosen["init_from"] = load(chosen["init_from"], trust=True)
    if "dev" in collection.splits and "dev" in inspect.signature(trainer).parameters:
        chosen.setdefault("dev", collection.dev)
    pairs = collection.train if "train" in collection.splits else collection
    return trainer(pairs, **chosen)


def load(path: str | Path, *, trust: bool = False) -> Model:
    """Reads a model that was saved with `model.save`: a folder whose config.json contains its kind.

    Args:
        path: The folder. It is data and is never executed.
        trust: Whether the model may name a custom encoder or kernel as "module:thing", which is then imported.
    """
    place = Path(path)
    if not place.exists():
        raise LimnerError(f"no model {place}: train one and save it with model.save({str(place)!r})")
    if not place.is_dir():
        raise LimnerError(f"no model {place}: expected a folder with config.json, as model.save(...) writes it")
    kind = kind_of(place)
    if kind not in KINDS:
        raise LimnerError(f"{place} is a model of kind {kind!r}: expected one of {', '.join(sorted(KINDS))}")
    reader = KINDS.find(kind)
    try:
        with damage_told(place, what="saved model", mend="save it again"):
            return reader.load(place, trust=trust)
    except Untrusted:
        raise
    except LimnerError as error:
        if str(place) in str(error):
            raise
        raise LimnerError(f"{place}: {error}") from error


def _configured(path: str | Path, *, trust: bool) -> dict[str, object]:
    options = parse_toml(read_text(path, what="file of options"), where=f"file of options {path}")
    if not trust:
        refuse_code(options, where=path)
    return options
