"""Shared code of the annotation commands: several systems at once, and the collection of a store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from limner.cli.commands.answers import opened
from limner.cli.console import progress, tell_notes
from limner.cli.inputs import as_features
from limner.core.display_names import display_names
from limner.core.progress import progress_for

if TYPE_CHECKING:
    from limner.annotate.pool import Lists
    from limner.annotate.store import Store
    from limner.core.collection import Collection
    from limner.core.judgements import Judgements


def remember(store: Store, collection: Collection, spec: str, options: dict[str, object], split: str | None) -> None:
    """Stores the collection, its loader arguments, and its original pairs."""
    from limner.annotate.plan_inputs import keep_original
    from limner.annotate.store.contents import add_collection

    with progress(f"reading {len(collection.images):,} images") as step:
        add_collection(store, collection, spec=spec, progress=step)
    store.set("loading", {"options": options, "split": split})
    keep_original(store, collection.judgements)


def further_images(store: Store, store_path: str, split: str, *, trust: bool) -> Judgements:
    """Adds images and captions of another split of the store's collection; returns original pairs for controls."""
    import limner
    from limner.annotate.store.contents import add_collection

    spec, options = image_source(store_path, None, {}, trust=trust)
    with progress(f"loading {spec}"):
        split_collection = limner.load(spec, **options).split(split)
    collection_setting = store.setting("collection")
    with progress(f"reading {len(split_collection.images):,} images") as step:
        add_collection(store, split_collection, spec=spec, progress=step)
    store.set("collection", collection_setting)
    return split_collection.judgements


def trained_again(
    store: Store, names: list[str], collection: Collection, full_collection: Collection
) -> dict[str, Lists]:
    """Retrained systems: on the training split and the pairs that people have accepted so far."""
    import limner
    from limner.annotate import further_rounds
    from limner.annotate.aggregate import by_majority
    from limner.annotate.store.answers import answers
    from limner.systems import SYSTEMS

    foreign = next((name for name in names if name not in SYSTEMS), None)
    if foreign is not None or not names:
        raise typer.BadParameter(f"-O retrain: {foreign or 'no system'} is not a system that limner trains by name")
    train = full_collection.train if "train" in full_collection.splits else None
    learned = further_rounds.trained_again(
        collection, further_rounds.boolean_labels(by_majority(answers(store))), train=train
    )
    trained: dict[str, Lists] = {}
    with progress(f"training {len(names)} systems on {len(learned.judgements):,} pairs") as task:
        for name in names:
            step = task.step(f"training {name} on {len(learned.judgements):,} pairs")
            progress_option: dict[str, Any] = progress_for(SYSTEMS.find(name), step)
            trained[name] = limner.train(learned, name, **progress_option).scores(collection)
    return trained


def several(
    names: list[str],
    scores: list[str],
    runs: list[str],
    collection: Collection,
    split: str | None,
    *,
    features: str | None = None,
    trust: bool,
) -> tuple[dict[str, Lists], Collection]:
    """Systems by name, from the options of a command, and the part of the collection they cover."""
    from limner.systems.opening import find_system, open_systems
    from limner.systems.system_files import RunFiles, ScoreFile

    if not names and not scores and not runs:
        raise typer.BadParameter("no system: give --model, --scores NAME=FILE or --run NAME=FILE")
    specs = {short: find_system(name, trust=trust) for short, name in zip(display_names(names), names, strict=True)}
    specs |= {name: find_system(ScoreFile(file)) for name, file in _named(scores)}
    files: dict[str, list[Path]] = {}
    for name, file in _named(runs):
        files.setdefault(name, []).append(file)
    specs |= {name: find_system(RunFiles(paths)) for name, paths in files.items()}
    opened, parts = open_systems(
        list(specs.values()), collection, split=split, features=as_features(features), stage=progress
    )
    tell_notes(dict.fromkeys(note for system in opened for note in system.notes))
    return {name: system.source for name, system in zip(specs, opened, strict=True)}, parts.evaluated


def _named(words: list[str]) -> Iterator[tuple[str, Path]]:
    for each in words:
        name, equals, file = each.partition("=")
        if not name or not equals or not file:
            raise typer.BadParameter(f"got {each!r}: expected NAME=FILE, e.g. mine=S.npy")
        yield name, Path(file)


def image_source(
    store: str, collection: str | None, options: dict[str, object], *, trust: bool
) -> tuple[str, dict[str, Any]]:
    """The collection and its load options: from the user, else from the store, which may only name limner's loaders."""
    from limner.datasets import refuse_foreign

    with opened(store) as db:
        stored = (db.setting("collection") or {}).get("spec"), (db.setting("loading") or {}).get("options") or {}
    spec, chosen = collection or stored[0], options or stored[1]
    if spec is None:
        raise typer.BadParameter("the location of the images is not stored: give the COLLECTION")
    if not trust and (spec != collection or chosen != options):
        refuse_foreign(spec, chosen)
    return spec, chosen
