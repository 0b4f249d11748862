"""limner train: train a system and save it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from limner.cli.console import answer, progress
from limner.cli.options import Json, Loading, Trust, flag, load, out_word, writable
from limner.core.errors import LimnerError
from limner.core.progress import progress_for

if TYPE_CHECKING:
    from limner.core.collection import Collection


def train(
    system: Annotated[
        str, typer.Argument(metavar="SYSTEM", help="A name of 'limner list systems', or module:function.")
    ],
    collection: Annotated[
        str, typer.Argument(metavar="COLLECTION", help="The training collection: 'limner list datasets'.")
    ],
    out: Annotated[Path, out_word("Output folder of the model.", metavar="DIR", callback=writable)],
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Options of the system in a TOML file; -O takes precedence."),
    ] = None,
    option: Loading = None,
    hold_out: Annotated[
        bool, flag("--hold-out", "For a collection without splits, hold out one image in five for evaluation.")
    ] = False,
    start: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="MODEL", help="Continue from a saved model of this kind, with its vocabulary and sizes."
        ),
    ] = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Train a system on a collection and save the model.

    The training split is used if there is one, otherwise everything (with --hold-out, four images in five); a system
    that tunes its settings does so on the dev split. The model records its training items and is never evaluated on
    them. Use it with 'limner evaluate --model', 'limner index --model' and limner.systems.load.

    Examples:
      $ limner train histograms scenes -o scenes-model
      $ limner train histograms photos/ -o photos-model --hold-out -O dimensions=64
      $ limner evaluate scenes --model scenes-model
      $ limner train towers pairs.csv -o tuned --from scenes-towers -O learning_rate=0.0001
    """
    name, settings = _parsed(system)
    chosen = settings | ({} if start is None else {"init_from": str(start)})
    _refuse_taken(out, chosen.get("checkpoint_dir", chosen.get("folder")))
    training_set = _training_part(load(collection, option), hold_out)
    began = time.perf_counter()
    model = _trained(name, training_set, config, chosen, trust=trust)
    seconds = time.perf_counter() - began
    if not hasattr(model, "save"):
        raise LimnerError(f"the model of {system!r} has no save(path), so it cannot be saved; use it from Python")
    model.save(out)
    learned = training_set.train if "train" in training_set.splits else training_set
    facts = {
        "system": name,
        "model": str(out),
        "images": len(learned.images),
        "texts": len(learned.texts),
    }
    text = f"{name}: trained on {len(learned.images):,} images and {len(learned.texts):,} texts in "
    text += f"{seconds:.1f} s -> {out}"
    answer("\n".join([text, *_resumed(model)]), {**facts, "seconds": round(seconds, 3)}, as_json=as_json)


def _parsed(system: str) -> tuple[str, dict[str, object]]:
    from limner.systems import SYSTEMS

    return SYSTEMS.parsed(system)


def _resumed(model: object) -> list[str]:
    """A note on a resumed run."""
    trained = getattr(model, "trained", None) or {}
    before, epochs = trained.get("resumed", 0), trained.get("epochs", 0)
    if not before:
        return []
    if before >= epochs:
        return [f"nothing left to train: the checkpoint has all {epochs} epochs; for more, set epochs higher"]
    return [f"resumed after epoch {before}: {epochs - before} further epochs"]


def _training_part(collection: Collection, hold_out: bool) -> Collection:
    """The training items."""
    from limner.systems.hold_out import random_parts

    if hold_out and collection.splits:
        raise typer.BadParameter(f"--hold-out with {collection.name!r}, which has splits: leave it out")
    return random_parts(collection)[0] if hold_out else collection


def _refuse_taken(out: Path, checkpoints: object) -> None:
    """Refuses an invalid output path before training; the checkpoint folder is allowed."""
    if out.is_file():
        raise LimnerError(f"{out} is a file: a model is a folder; give a new name, or remove the file first")
    shared = checkpoints is not None and Path(str(checkpoints)).absolute() == out.absolute()
    if out.exists() and not (shared or (out / "config.json").is_file()):
        raise LimnerError(f"{out} exists and is not a saved model: choose another path, or remove it first")


def _trained(
    system: str, collection: Collection, config: Path | None, settings: dict[str, object], *, trust: bool
) -> object:
    from limner.systems import SYSTEMS
    from limner.systems import train as learn

    trainer = SYSTEMS.find(SYSTEMS.parsed(system)[0])
    with progress(f"training {system} on {collection.name}") as step:
        return learn(collection, system, config=config, trust=trust, **{**progress_for(trainer, step), **settings})
