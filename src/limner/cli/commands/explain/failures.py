"""limner explain failures: explains wrong answers, for one query or for all queries."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from limner.cli.commands.evaluate import COLLECTION
from limner.cli.commands.evaluate.tasks import open_text_only, text_only_options
from limner.cli.console import answer, progress, tell_notes
from limner.cli.inputs import SYSTEM, SystemOptions, system_word
from limner.cli.options import (
    Json,
    Loading,
    Split,
    Trust,
    command_options,
    installed_store,
    load,
    out_word,
    part,
    refuse_ending,
    saved,
    switch,
    text_option,
    word,
)
from limner.core.errors import LimnerError, UnknownName
from limner.core.paths import JsonObject
from limner.core.progress import Progress

if TYPE_CHECKING:
    from limner.core.collection import Collection
    from limner.explain.failures import Explanations
OBJECTS = "Objects of the images: a csv, or Visual Genome's objects.json."


def _installed(labels: str | None) -> str | None:
    """Names what a store of labels needs, when the command line is read; a csv needs nothing."""
    return labels if labels is None or labels.lower().endswith(".csv") else installed_store(labels)


def failures(
    collection: Annotated[str, typer.Argument(metavar="COLLECTION", help=COLLECTION)],
    images: Annotated[Path | None, word("Embeddings of the images.", metavar="FILE")] = None,
    texts: Annotated[Path | None, word("Embeddings of the texts.", metavar="FILE")] = None,
    scores: Annotated[Path | None, word("Or a similarity matrix, images by texts: npy.", metavar="FILE")] = None,
    run: Annotated[list[Path] | None, word("Or a TREC run, or JSON lists.", metavar="FILE")] = None,
    system: Annotated[str | None, system_word(f"Or a system: {SYSTEM}")] = None,
    query: Annotated[str | None, word("Explain this one query.", metavar="ID")] = None,
    direction: Annotated[
        str | None, word("t2i (text queries) or i2t.", metavar="WAY", show_default="t2i, or the direction of the run")
    ] = None,
    objects: Annotated[Path | None, word(OBJECTS, metavar="FILE")] = None,
    labels: Annotated[
        str | None, word("People's labels: a csv of query,label, or a store.", metavar="FILE|URL", callback=_installed)
    ] = None,
    only: Annotated[str | None, word("Show failures of this class.", metavar="CLASS")] = None,
    limit: Annotated[int, word("Number of failures to print.", metavar="N", min=0)] = 3,
    save: Annotated[list[Path] | None, out_word("Write the report with failures: .html.")] = None,
    split: Split = None,
    option: Loading = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Explain wrong first answers by objects, counts, sizes, attributes and relations, and classify them.

    -O informed=true compares only concepts that the query mentions.

    Examples:
      $ limner explain failures scenes --model histograms
      $ limner explain failures scenes --model histograms --only colour --limit 5
      $ limner explain failures scenes --model histograms --query 'scene-000004#0'
      $ limner explain failures scenes --model histograms -O informed=true -o failures.html
      $ limner explain failures scenes --model histograms --labels work.db
      $ limner explain failures coco:DIR -O objects=true --scores similarity.npy --json
      $ limner explain failures text-only:flickr8k:DIR -O corpus=joined --model minilm
    """
    refuse_ending(save, (".html",), "page with failures")
    _refuse_words(direction, only)
    settings, loader = command_options(option, "failures")
    informed = switch(settings, "informed")
    system_options = SystemOptions(
        images, texts, (), scores, [str(file) for file in run or ()], system, trust, text_option(settings, "features")
    )
    spec, task_options, loader = text_only_options(collection, loader)
    full_collection = load(spec, loader)
    queries: Collection | None = None
    if task_options is None:
        source, chosen = opened_system(system_options, full_collection, split, direction)
    else:
        opened = open_text_only(part(full_collection, split), system_options, task_options)
        source, queries = {"t2i": opened.scores.T}, opened.collection
        chosen = full_collection.restrict(queries.images.ids)
    chosen = _with_objects(chosen, objects)
    explained_direction = _direction_of(source, direction)
    with progress("explaining") as task:
        done, classes = _explained(
            source, explained_direction, chosen, full_collection, labels, informed=informed, progress=task
        )
    if save:
        _save(source, queries or chosen, done, classes, save, system or "system")
    answer(*_output(done, classes, query, only, limit), as_json=as_json)


def _refuse_words(direction: str | None, only: str | None) -> None:
    from limner.explain.failure_classes import CLASSES, NONE

    if direction not in (None, "t2i", "i2t"):
        raise UnknownName("direction", direction, ("t2i", "i2t"))
    if only is not None and only not in (*CLASSES, NONE):
        raise UnknownName("class of failure", only, (*CLASSES, NONE))


def opened_system(
    options: SystemOptions, full_collection: Collection, split: str | None, direction: str | None
) -> tuple[Mapping[str, object], Collection]:
    """The system by direction, and the evaluated collection. A single run has the requested direction."""
    opened = options.open(
        full_collection, split, [direction] if direction is not None and len(options.runs) == 1 else ()
    )
    tell_notes(opened.notes)
    return opened.by_direction, opened.collection


def _direction_of(source: Mapping[str, object], direction: str | None) -> str:
    """The direction to explain: the given one, or text queries if the system supports them."""
    chosen = direction or ("t2i" if "t2i" in source else next(iter(source)))
    if chosen not in source:
        raise LimnerError(f"no system for {chosen!r}: got {', '.join(source)}; give a run of that direction too")
    return chosen


def _with_objects(collection: Collection, file: Path | None) -> Collection:
    from dataclasses import replace

    from limner.explain.concepts import read_csv, read_visual_genome

    if file is None:
        return collection
    objects_by_image = read_visual_genome(file) if file.suffix.lower() == ".json" else read_csv(file)
    listed = [objects_by_image.get(image, []) for image in collection.images.ids]
    if not any(listed):
        raise LimnerError(
            f"{file} contains none of the images of {collection.name!r}, e.g. {collection.images.ids[0]!r}"
        )
    return replace(collection, images=collection.images.with_fields(objects=listed, relations=[()] * len(listed)))


def _explained(
    source: JsonObject,
    direction: str,
    collection: Collection,
    full_collection: Collection,
    labels: str | None,
    *,
    informed: bool,
    progress: Progress,
) -> tuple[Explanations, dict[str, frozenset[str]]]:
    from limner.explain.failure_classes import ClaimReader, label_all, setting_words
    from limner.explain.failures import explain, failures
    from limner.language.wordnet import WordNet

    wordnet = WordNet.load()
    step = progress.step("looking for failures", "queries", total=len(source[direction].queries))
    all_failures = failures(source[direction], collection, direction=direction, progress=step)
    done = explain(all_failures, collection, informed=informed, wordnet=wordnet, progress=progress)
    if labels is None:
        reader = ClaimReader(wordnet, setting_words(full_collection, wordnet))
        step = progress.step("classifying failures", "failures", total=len(all_failures))
        return done, label_all(done.failures, done.concepts, reader, progress=step)
    labels_by_query = _of_people(labels, done)
    failed_queries = {failure.query for failure in done.failures}
    if not failed_queries & labels_by_query.keys():
        raise LimnerError(
            f"{labels} labels no query that failed: it has {len(labels_by_query):,} queries, "
            f"e.g. {next(iter(labels_by_query), '')!r}"
        )
    return done, {query: names for query, names in labels_by_query.items() if query in failed_queries}


def _of_people(labels: str, done: Explanations) -> dict[str, frozenset[str]]:
    """Labels from a csv, or from people's reasons in a store of answers."""
    if labels.lower().endswith(".csv"):
        from limner.explain.failure_classes import read_labels

        return read_labels(labels)
    from limner.annotate.export import failure_labels
    from limner.annotate.store import open_store

    with open_store(labels, create=False) as store:
        return failure_labels(store, done.failures)


def _save(
    source: object,
    collection: Collection,
    done: Explanations,
    classes: dict[str, frozenset[str]],
    files: list[Path],
    name: str,
) -> None:
    import limner
    from limner.explain.failure_classes import shown_failures

    with progress(f"evaluating {name}") as task:
        report = limner.evaluate(source, collection, name=name, unretrieved="never", progress=task)
        task.step(f"writing {', '.join(map(str, files))}")
        for file in files:
            report.save(file, collection=collection, failures=shown_failures(done, classes))
    saved(files)


def _output(
    done: Explanations, classes: dict[str, frozenset[str]], query: str | None, only: str | None, limit: int
) -> tuple[str, dict[str, object]]:
    """The output as text, and as JSON."""
    from limner.explain.failure_classes import NONE, rates, rules, rules_table
    from limner.explain.failures import describe_failure

    named = {q: sorted(each) or [NONE] for q, each in classes.items()}
    pairs = list(zip(done.failures, done.agreements, strict=True))
    if query is not None:
        pairs = [pair for pair in pairs if pair[0].query == query]
        if not pairs:
            raise LimnerError(f"{query!r} is not a failed query: its first answer is relevant, or it does not exist")
    elif only is not None:
        pairs = [pair for pair in pairs if only in named.get(pair[0].query, ())]
    described_pairs = pairs if query else pairs[:limit]
    stories = [
        f"[{', '.join(named.get(f.query, ['not labelled']))}] {f.query}\n{describe_failure(f, a, done.words)}"
        for f, a in described_pairs
    ]
    failure_rules = rules(classes.values())
    data = {
        "failures": len(done),
        "informed": done.informed,
        "scores": done.summary,
        "totals": done.totals,
        "classes": {name: {"failures": count, "share": share} for name, (count, share) in rates(classes).items()},
        "rules": [vars(rule) for rule in failure_rules],
        "notes": list(done.notes),
        "told": [
            {"query": f.query, "truth": f.truth, "returned": f.returned, "classes": named.get(f.query, []), **a.values}
            for f, a in described_pairs
        ],
    }
    summary = [] if query else [str(done), rules_table(classes, failure_rules)]
    return "\n\n".join([*summary, *stories]), data
