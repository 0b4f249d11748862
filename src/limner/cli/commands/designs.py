"""limner annotate plan and judge; and several systems, and the collection of a store, for all annotation commands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from limner.cli.commands.answers import NewStore, Where, opened, store_name
from limner.cli.commands.evaluate import COLLECTION
from limner.cli.console import answer, progress, tell_notes
from limner.cli.inputs import as_features, system_word
from limner.cli.judging import endpoint_judge, judge_pairs, summary
from limner.cli.options import (
    Json,
    Loading,
    Split,
    Trust,
    command_options,
    load,
    loading,
    number,
    part,
    switch,
    word,
)
from limner.core.display_names import display_names
from limner.core.options import OptionValues
from limner.core.progress import progress_for

if TYPE_CHECKING:
    from limner.annotate.pool import Lists
    from limner.annotate.store import Store
    from limner.core.collection import Collection
    from limner.core.judgements import Judgements


def remember(store: Store, collection: Collection, spec: str, options: dict[str, object], split: str | None) -> None:
    """Stores the collection, its loader arguments, and its original pairs."""
    from limner.annotate.sample import keep_original
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
    from limner.annotate.merge import boolean_labels, by_majority
    from limner.annotate.store.answers import answers
    from limner.systems import SYSTEMS

    foreign = next((name for name in names if name not in SYSTEMS), None)
    if foreign is not None or not names:
        raise typer.BadParameter(f"-O retrain: {foreign or 'no system'} is not a system that limner trains by name")
    train = full_collection.train if "train" in full_collection.splits else None
    learned = further_rounds.trained_again(collection, boolean_labels(by_majority(answers(store))), train=train)
    trained: dict[str, Lists] = {}
    with progress(f"training {len(names)} systems on {len(learned.judgements):,} pairs") as task:
        for name in names:
            step = task.step(f"training {name} on {len(learned.judgements):,} pairs")
            progress_option: OptionValues = progress_for(SYSTEMS.find(name), step)
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
) -> tuple[str, OptionValues]:
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


JUDGE = "captions (a sentence encoder), scores=SYSTEM, stored=NAME, model=NAME, scorer=NAME, or module:thing."


def plan(
    store: NewStore,
    collection: Annotated[str, typer.Argument(metavar="COLLECTION", help=COLLECTION)],
    system: Annotated[list[str] | None, system_word("A system that is trained first. Repeatable.")] = None,
    scores: Annotated[list[str] | None, word("Similarities, images by texts. Repeatable.", metavar="NAME=FILE")] = None,
    run: Annotated[list[str] | None, word("A TREC run. Repeatable, both directions.", metavar="NAME=FILE")] = None,
    measure: Annotated[
        list[str] | None,
        word("R@k, P@k, MRR@k; mAP@R, nDCG@k and others need far more labels. Repeatable.", show_default="R@1"),
    ] = None,
    half_width: Annotated[
        float, word("Target half-width of the widest interval, in percentage points.", metavar="X")
    ] = 2.0,
    budget: Annotated[int | None, word("Maximum number of labels in this draw.", metavar="N", min=1)] = None,
    judge: Annotated[list[str] | None, word(f"Judge for strata and predictions, or several: {JUDGE}")] = None,
    direction: Annotated[str | None, word("i2t or t2i.", metavar="WAY", show_default="both")] = None,
    replication: Annotated[int, word("Number of people who judge each pair.", "--people", metavar="N", min=1)] = 1,
    seed: Annotated[int, word("Random seed.", metavar="N", min=0)] = 0,
    split: Split = None,
    option: Loading = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Plan which pairs to label for an interval of a given width, sample them, and write the tasks.

    Running the same plan again adds a further draw, based on the answers so far. The time that the plan tells is at -O
    seconds=8 per pair and person.

    Examples:
      $ limner annotate plan work.db scenes --model histograms --model colours --measure R@1 --half-width 3
      $ limner annotate plan work.db captions.csv --scores a=A.npy --scores b=B.npy --measure R@5 --budget 300
    """
    from limner.annotate.design import plan as make
    from limner.annotate.design import plannable
    from limner.annotate.judges import MeanJudge, judge_named

    measures = plannable(measure or ["R@1"], half_width, budget)  # before anything is trained
    settings, loader = command_options(option, "plan")
    seconds = number(settings, "seconds", 8.0)
    full_collection = load(collection, loader)
    systems, split_part = several(system or [], scores or [], run or [], full_collection, split, trust=trust)
    with opened(store, create=True) as db:
        remember(db, split_part, collection, loading(loader), split)
        named: OptionValues = {"collection": split_part, "systems": systems, "store": db, "trust": trust}
        judges = [judge_named(each, **named) for each in judge or []]
        chosen = MeanJudge.of(judges) if len(judges) > 1 else next(iter(judges), None)
        with progress("planning") as stage:
            plans = make(
                db, split_part, systems, measures=measures, direction=direction, half_width=half_width,
                budget=budget, judge=chosen, replication=replication, seconds=seconds, seed=seed, progress=stage,
            )  # fmt: skip
    text = "\n".join(str(each) for each in plans)
    following = (
        f"Next: limner annotate serve {store_name(store)}; then limner evaluate ... --estimate {store_name(store)}"
    )
    answer(f"{text}\n{following}", {"designs": [asdict(each) for each in plans]}, as_json=as_json)


def judge(
    store: Where,
    collection: Annotated[
        str | None,
        typer.Argument(metavar="COLLECTION", help="The collection with the images.", show_default="the stored one"),
    ] = None,
    judge: Annotated[
        str, word("endpoint (with -O url=URL -O model=NAME), captions, model=NAME, scorer=NAME, or module:thing.")
    ] = "captions",
    limit: Annotated[int | None, word("Maximum number of pairs now.", metavar="N", min=1)] = None,
    option: Loading = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Let an automatic judge score the pairs of the store's designs, or of its pool; its answers are stored separately.

    Each answer is stored as it arrives, and an interrupted run can be resumed. Once people have labelled some of the
    pairs, the judge is compared with them; --judge stored=NAME does only that.

    With -O errors=0.05 its labels count as answers where people's answers to a random sample ('limner annotate tasks -O
    sample=N') show that at most so many are wrong, with confidence -O level=0.95; people judge the other pairs.

    The endpoint is an OpenAI-compatible one. Its options: -O prompt=probability, grades (the store's own) or yes; -O
    logprobs=true for the probabilities of tokens; -O swap=true asks once more in reverse order; -O concurrency=8
    requests at once; -O together=N pairs in a request; -O per_minute=N requests at most; -O price=X and -O
    output_price=X of a million tokens; -O budget=X ends the run at this cost, and in a terminal saves the question;
    -O name=NAME of the judge; -O key_from=LIMNER_JUDGE_KEY, the environment variable with the key.

    Examples:
      $ limner annotate judge work.db --judge model=offline
      $ limner annotate judge work.db --judge stored=model=offline -O errors=0.05
      $ limner annotate judge work.db --judge endpoint -O url=http://localhost:8000/v1 -O model=qwen-vl -O prompt=grades
    """
    from limner.annotate.judge_report import REVERSED, judge_reports, order_effect
    from limner.annotate.judge_runs import recorded
    from limner.annotate.store.designs import judged_pairs, machine_answers
    from limner.annotate.trusted_labels import accept

    endpoint, loader = command_options(option, "judge")
    bound = _bound(endpoint)
    if endpoint and judge != "endpoint":
        raise typer.BadParameter(f"-O {next(iter(endpoint))} is for --judge endpoint: leave it out")
    spec, options = image_source(store, collection, loading(loader), trust=trust)
    with opened(store) as db:
        split = (db.setting("loading") or {}).get("split")
        split_part = _image_collection(spec, options, split)
        pairs = judged_pairs(db)[:limit]
        machines = _machines(judge, split_part, db, endpoint, trust=trust)
        runs = {each.name: judge_pairs(db, each, pairs) for each in machines} if not judge.startswith("stored=") else {}
        name = machines[0].name
        reports = judge_reports(db, split_part, [name])
        effect = order_effect(machine_answers(db, name), machine_answers(db, name + REVERSED))
        reverse_runs = [runs[each.name] for each in machines[1:]]
        trusted = accept(db, name, **bound) if bound else None
        facts = {"judge": name, **runs.get(name, {}), "settings": recorded(db, name)}
    lines = [*(summary(*run) for run in runs.items()), *map(str, reports)]
    if effect is not None and not reports:
        lines.append(f"{name} {effect}")
    if trusted is not None:
        lines += [str(trusted), f"Next: limner annotate tasks {store_name(store)}"]
    elif not lines:
        lines = [f"{name}: people have not labelled enough of the pairs yet to compare it with them"]
    if trusted is None:
        lines.append(f"Next: limner annotate plan ... --judge 'stored={name}'")
    document = {
        **facts,
        **dict(zip(["reversed"], reverse_runs, strict=False)),
        "reports": [each.to_json() for each in reports],
        **({} if trusted is None else {"trusted": trusted.to_json()}),
    }
    answer("\n".join(lines), document, as_json=as_json)


def _bound(options: OptionValues) -> dict[str, float]:
    """The bound on errors, taken out of the options of a judge; empty if none is asked for."""
    if "level" in options and "errors" not in options:
        raise typer.BadParameter("-O level is the confidence of -O errors=X: give both")
    bound: dict[str, float] = {name: number(options, name, 0.05) for name in ("errors", "level") if name in options}
    for name in bound:
        del options[name]
    return bound


def _image_collection(spec: str, options: OptionValues, split: str | None) -> Collection:
    import limner

    return part(limner.load(spec, **options), split)


def _machines(name: str, split_part: Collection, store: Store, options: OptionValues, *, trust: bool) -> list[Any]:
    """The judge of this name, and the same in reverse order if that is asked; `options` are those of an endpoint."""
    from limner.annotate.judges import judge_named

    if name != "endpoint":
        return [judge_named(name, collection=split_part, systems={}, store=store, trust=trust)]
    usual = endpoint_judge(options, split_part, store)
    return (
        [usual, endpoint_judge(options, split_part, store, in_reverse_of=usual)] if switch(options, "swap") else [usual]
    )
