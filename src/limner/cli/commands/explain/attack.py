"""limner explain attack: does a system notice when a query is changed to contradict the original?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from limner.cli.commands.evaluate import COLLECTION
from limner.cli.commands.evaluate.text_only import open_text_only, text_only_options
from limner.cli.console import answer, progress, tell_notes
from limner.cli.inputs import SYSTEM, SystemOptions, system_word
from limner.cli.options import Json, Loading, Split, Trust, load, out_word, part, refuse_ending, saved, word
from limner.core.errors import LimnerError, UnknownName

if TYPE_CHECKING:
    from limner.core.collection import Collection
    from limner.explain.blind_baselines import Attack
    from limner.explain.text_edits import Edit
    from limner.systems.system_spec import OpenSystem


Asker = Callable[[Sequence[str]], Any]


def attack(
    collection: Annotated[str, typer.Argument(metavar="COLLECTION", help=COLLECTION)],
    system: Annotated[str | None, system_word(f"A system: {SYSTEM}")] = None,
    kind: Annotated[
        list[str] | None,
        word(
            "Kind of change: antonym, colour-all, colour-in, size, number, verb, plural, negation, word-order, "
            "relation, synonym (all these by default), antonym-wordnet. Repeatable.",
            metavar="KIND",
        ),
    ] = None,
    seed: Annotated[int, word("Random seed.", metavar="N", min=0)] = 0,
    save: Annotated[Path | None, out_word("Write every edit: a csv.")] = None,
    split: Split = None,
    option: Loading = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Change one claim of every query to contradict the original, search again, and compare.

    Without --model the edits are only written to a file. Blindness is the share of queries with the relevant image in
    first place before and after. 'text only' is how often a model of texts alone detects the changed query.

    Examples:
      $ limner explain attack scenes --model histograms
      $ limner explain attack scenes --model histograms --kind colour-in --kind size
      $ limner explain attack scenes --model histograms --kind word-order
      $ limner explain attack text-only:flickr8k:DIR -O corpus=joined --model minilm
      $ limner explain attack captions.csv -o edits.csv
      $ limner explain attack captions.csv --model 'clip(model=clip-vit-base-patch32/)'
    """
    from limner.explain.adversarial import FURTHER, KINDS

    for name in kind or ():
        if name not in (*KINDS, *FURTHER):
            raise UnknownName("kind of change", name, (*KINDS, *FURTHER))
    if save is None and system is None:
        raise typer.BadParameter("give --model to search again, or -o FILE.csv to write the edits, or both")
    refuse_ending([save] if save else [], (".csv",), "list of edits")
    spec, task_options, loader = text_only_options(collection, option)
    full_collection = load(spec, loader)
    ask: Asker | None = None
    other_captions: Sequence[str] = ()
    if system is None:
        evaluated = part(full_collection, split)
    elif task_options is None:
        evaluated, ask, other_captions = _query_scorer(system, full_collection, split, trust=trust)
    else:
        of_model = SystemOptions(system=system, trust=trust)
        evaluated, ask, other_captions = _text_only_scorer(of_model, part(full_collection, split), task_options)
    evaluated = evaluated.restrict(evaluated.images.ids)  # a text without an image has no rank
    edits = _edits(evaluated, kind or list(KINDS), seed)
    if save is not None:
        _write(save, evaluated, edits)
        saved([save])
    text, data = _attacked(evaluated, edits, ask, other_captions) if ask else _counted(edits, len(evaluated.texts))
    answer(text, data, as_json=as_json)


def _text_only_scorer(
    system: SystemOptions, collection: Collection, options: dict[str, Any]
) -> tuple[Collection, Asker, Sequence[str]]:
    """The captions that are queries, the function that scores them with the other captions, and these captions."""
    opened = open_text_only(collection, system, options)
    queries = opened.collection
    corpus = [
        t for key, t in zip(collection.texts.ids, collection.texts.values, strict=True) if key not in queries.texts.ids
    ]
    return queries, _asker(opened, queries), corpus


def _query_scorer(
    system: str, full_collection: Collection, split: str | None, *, trust: bool
) -> tuple[Collection, Asker, Sequence[str]]:
    """The queries, the function that scores them (the system on the held-out images), and captions of other images."""
    from limner.systems.hold_out import outside

    opened = SystemOptions(system=system, trust=trust).open(full_collection, split)
    evaluated = opened.collection
    if opened.model is None:
        raise LimnerError(f"{system} only has scores of its own texts: give a system that can encode changed texts")
    tell_notes(opened.notes)
    other_collection = outside(full_collection, evaluated) if opened.training is None else opened.training
    return evaluated, _asker(opened, evaluated), other_collection.texts.values


def _asker(opened: OpenSystem, evaluated: Collection) -> Asker:
    """The function that scores texts with all images."""
    import limner

    images: object = getattr(opened.scores, "query_vectors", None)

    def ask(texts: Sequence[str]) -> Any:
        items = limner.Items(limner.Ids(map(str, range(len(texts))), what="text"), texts, kind="text")
        if opened.encodes:
            return limner.Scores.from_embeddings(opened.encode(items), images).matrix()
        pairs = limner.Judgements.from_pairs([], queries=evaluated.images.ids, candidates=items.ids)
        return opened.model.scores(limner.Collection("edits", evaluated.images, items, pairs)).T.matrix()

    return ask


def _edits(collection: Collection, kinds: list[str], seed: int) -> dict[str, list[Edit | None]]:
    from limner.explain.adversarial import attack_all

    with progress(f"changing {len(collection.texts):,} queries in {len(kinds)} ways") as step:
        return dict(attack_all(collection.texts.values, kinds, seed=seed, progress=step))


def _attacked(
    collection: Collection, edits: dict[str, list[Edit | None]], ask: Asker, other_captions: Sequence[str]
) -> tuple[str, dict[str, object]]:
    from limner.explain.blind_baselines import blind_baselines, measure_table, rerank, table

    truth, done = _truth(collection), []
    with progress("searching again with changed queries", "kinds of change") as task:
        task(0, len(edits))
        before = ask(collection.texts.values)
        for number, (kind, kind_edits) in enumerate(edits.items(), start=1):
            done.append(rerank(kind, kind_edits, before, truth, ask))
            task(number, len(edits))
        alone = task.step("telling changed queries by their text alone", "kinds of change")
        blind = (
            blind_baselines({each.kind: each.edits for each in done}, other_captions, progress=alone)
            if other_captions
            else {}
        )
    text = "\n\n".join([table(done, blind), measure_table(done), *_ignored(done)])
    records = [{**each.record(), "text-only": blind.get(each.kind), "words": each.words()} for each in done]
    return text, {"attacks": records}


def _truth(collection: Collection) -> Any:
    """The image of every text."""
    pairs = collection.judgements.T.relevant

    import numpy as np

    first = np.zeros(len(pairs.queries), dtype=np.int64)
    first[pairs.rows[::-1]] = pairs.columns[::-1]
    return first


def _ignored(attacks: Sequence[Attack]) -> list[str]:
    """The words that the system ignores most, of each kind that contradicts the query."""
    from limner.explain.adversarial import DENIES

    lines = []
    for each in (attack for attack in attacks if attack.kind in DENIES):
        words = [f"{word} {share:.0%} of {count}" for word, (count, share) in list(each.words().items())[:5]]
        if words:
            lines.append(f"{each.kind}, most ignored: {', '.join(words)}")
    return lines


def _counted(edits: dict[str, list[Edit | None]], queries: int) -> tuple[str, dict[str, object]]:
    counts = {kind: sum(edit is not None for edit in kind_edits) for kind, kind_edits in edits.items()}
    lines = [f"{kind:11} {count:8,} of {queries:,} queries changed" for kind, count in counts.items()]
    return "\n".join(lines), {"queries": queries, "changed": counts}


def _write(file: Path, collection: Collection, edits: dict[str, list[Edit | None]]) -> None:
    from limner.core.files import write_text
    from limner.evaluation.tables import to_csv

    rows = [
        {
            "query": query,
            "kind": kind,
            "start": e.start,
            "old": e.old,
            "new": e.new,
            "before": e.before,
            "after": e.after,
        }
        for kind, kind_edits in edits.items()
        for query, e in zip(collection.texts.ids, kind_edits, strict=True)
        if e is not None
    ]
    write_text(file, to_csv(rows))
