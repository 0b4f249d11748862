"""Encoders for the items and queries of an index: a saved model, a model trained now, or an object by name."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limner.cli.console import progress, tell
from limner.cli.training import as_features, with_features
from limner.core.errors import LimnerError
from limner.core.files import replacing, replacing_model
from limner.core.paths import folder_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from limner.core.collection import Collection
    from limner.search import Index


LISTED = 20
"""Images that do not open and are listed in a warning."""


def tell_unopened(reasons: Mapping[str, str], total: int) -> None:
    """Warns of images that do not open.

    Args:
        reasons: Why each of them does not open.
        total: The number of all images.
    """
    if not reasons:
        return
    lines = [f"warning: {len(reasons):,} of {total:,} images do not open and are left out:"]
    lines += [f"  {reason}" for reason in list(reasons.values())[:LISTED]]
    if len(reasons) > LISTED:
        lines.append(f"  and {len(reasons) - LISTED:,} more; --json lists all")
    tell("\n".join(lines))


def system(name: str, *, folder: Path | None = None, said: bool = True, trust: bool = False) -> Any:
    """A system by name.

    Args:
        name: A saved model, or "module:thing" with `encode(items)`; a class is instantiated without arguments.
        folder: The folder of the index, which may contain models.
        said: Whether the user gave the name; False if it comes from the index, which must not name "module:thing".
        trust: Whether index and model may name custom code.
    """
    from limner.systems import SYSTEMS
    from limner.systems.opening import find_system

    kept = None if folder is None else folder / name
    place = kept if kept is not None and kept.exists() else Path(name)
    if SYSTEMS.names(name) and not place.exists():
        raise LimnerError(f"system {name!r} is not trained: give a COLLECTION to train it on, or a saved model")
    return find_system(place if place.exists() else name, trust=trust, said=said).model()


def system_for(index: Index, name: str | None, folder: Path | None, *, trust: bool = False) -> Any:
    """The system of an existing index, by name; a different model is refused.

    Args:
        index: The index.
        name: As for `system`, or the name of 'limner systems' that was trained for the index; None for its own.
        folder: The folder of the index.
        trust: Whether index and model may name custom code.
    """
    from limner.systems import SYSTEMS
    from limner.systems.opening import KEPT

    about = index.about
    trained = about.system == KEPT and name in SYSTEMS and not Path(str(name)).exists()
    said = name is not None and not trained
    model = system(str(name if said else about.system), folder=folder, said=said, trust=trust)
    called = about.made_by or getattr(model, "name", about.system)
    if trained and name != called:
        raise LimnerError(
            f"the index was made with {called!r}, not with {name!r}: leave out --system, or make a separate index"
        )
    index.refuse_other(model, name or about.system)
    return model


def prepared(
    name: str, whole: Collection | None, folder: Path | None, *, features: str | None = None, trust: bool = False
) -> tuple[object, str]:
    """A system for a new index, and its stored name.

    A name of 'limner systems' is trained on the collection first. Models are kept in the folder of the index, so that
    it can be moved. A model that was trained on features uses the features of the items.
    """
    from limner.systems import SYSTEMS, train
    from limner.systems.opening import KEPT

    if SYSTEMS.names(name) and not Path(name).exists():
        if whole is None or folder is None:
            raise LimnerError(
                f"system {name!r} has to be trained: name a COLLECTION and a local folder for the index, or train it "
                "first and give the saved model"
            )
        with progress(f"training {name} on {len(whole.images):,} images") as told:
            options: dict[str, Any] = {} if features is None else {"features": as_features(features)}
            model: Any = train(whole, name, progress=told, **options)
        model.save(_cleared(folder))
        return with_features(model, features), KEPT
    made = with_features(system(name, trust=trust), features)
    if Path(name).exists() and folder is not None:
        _copy(Path(name), _cleared(folder))
        return made, KEPT
    return made, name


def _cleared(folder: Path) -> Path:
    """The model path in the folder of a new index, after removing leftovers of an interrupted run."""
    from limner.systems.opening import KEPT

    kept = folder_for(folder) / KEPT
    if kept.is_dir():
        shutil.rmtree(kept)
    kept.unlink(missing_ok=True)
    return kept


def _copy(model: Path, target: Path) -> None:
    if model.is_dir():
        with replacing_model(target) as draft:
            shutil.copytree(model, draft, dirs_exist_ok=True)
    else:
        with replacing(target) as draft:
            shutil.copyfile(model, draft)


def folder_of(path: str) -> Path | None:
    """The local folder of an index; None if it is in object storage."""
    local = path.removeprefix("file://")
    return None if "://" in local else Path(local)


def opened(
    path: str,
    name: str | None = None,
    *,
    version: int | None = None,
    needed: bool = True,
    features: str | None = None,
    trust: bool = False,
) -> Index:
    """An index with its query encoder: the given one, or the one it was built with."""
    from limner.search import open_index

    index = open_index(path, version=version)
    if needed and (name or index.about.system) is not None:
        index.system = with_features(system_for(index, name, folder_of(path), trust=trust), features)
    return index
