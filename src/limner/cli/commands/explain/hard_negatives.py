"""limner explain attack and probe: does a system read its texts? Contradicted queries, and captions almost right."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from limner.cli.attached_options import COMMAND_OPTIONS
from limner.cli.commands.evaluate import COLLECTION
from limner.cli.commands.evaluate.tasks import open_text_only, text_only_options
from limner.cli.console import answer, progress, tell_notes, warn
from limner.cli.inputs import SYSTEM, SystemOptions, system_word, training_parts
from limner.cli.options import (
    Json,
    Loading,
    Split,
    Trust,
    by_ending,
    load,
    named_options,
    number,
    out_word,
    part,
    refuse_ending,
    saved,
    word,
)
from limner.core.display_names import display_name
from limner.core.errors import LimnerError, UnknownName
from limner.core.options import OptionValues

if TYPE_CHECKING:
    from limner.core.arrays import Float32, IntArray
    from limner.core.collection import Collection
    from limner.datasets.probe_files import Probe
    from limner.explain.blind_baselines import Attack
    from limner.explain.text_edits import Edit
    from limner.systems.system_spec import OpenSystem

    Asker = Callable[[Sequence[str]], Float32]


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
    """Change one word or relation of every query that allows it, search again, and compare.

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
    system: SystemOptions, collection: Collection, options: OptionValues
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


def _truth(collection: Collection) -> IntArray:
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


def probe(
    source: Annotated[
        str,
        typer.Argument(
            metavar="PROBE",
            help="A file or folder in the format of SugarCrepe(++), ARO, VALSE, NegBench or Winoground; or sugarcrepe "
            "(from the hub), or scenes.",
        ),
    ],
    system: Annotated[str | None, system_word(f"The system: {SYSTEM}")] = None,
    images: Annotated[Path | None, word("Or embeddings of the images, with ids.", metavar="FILE")] = None,
    texts: Annotated[
        Path | None, word("Embeddings of the captions, in the order of -o FILE.jsonl.", metavar="FILE")
    ] = None,
    scores: Annotated[Path | None, word("Or a matrix of scores, images by captions: npy.", metavar="FILE")] = None,
    option: Loading = None,
    name: Annotated[str | None, word("Name of the system in the table.")] = None,
    save: Annotated[
        list[Path] | None, out_word("Write it: .json .csv .md .tex .txt; the captions to encode: .jsonl. Repeatable.")
    ] = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Measure a system on hard negatives: pair accuracy, and text, image and group score.

    Every table has two baselines that see no image, a language model of captions and caption length: a subset that they
    solve does not test whether a system uses images. Without a system, only the baselines are shown. -O images=DIR
    names the folder of the images, -O corpus=COLLECTION what trains the language model, -O train_on=COLLECTION what a
    system is trained on; scenes has -O cases=N and -O seed=N.

    Examples:
      $ limner explain probe sugarcrepe --model openai/clip-vit-base-patch32
      $ limner explain probe sugar-crepe/data -O images=val2017 --model 'clip(model=DIR)'
      $ limner explain probe winoground.jsonl -O images=images --model 'clip(model=DIR)'
      $ limner explain probe valse/ -O corpus=flickr8k:DIR
      $ limner explain probe scenes --model histograms
    """
    from limner.evaluation.tables import FORMATS
    from limner.explain.probe_results import probe as measured

    lists, files = by_ending(save, ".jsonl")
    refuse_ending(files, tuple(FORMATS), "probe")
    probe_options = named_options(option, COMMAND_OPTIONS["probe"], of="probe")
    cases = _probe(source, probe_options)
    warn(cases.warnings)
    pairs = cases.collection()
    written = [_listed(pairs, file) for file in lists]
    options = SystemOptions(images, texts, (), scores, (), system, trust)
    source_of_scores = _scores(options, source, probe_options.get("train_on"), pairs)
    captions = _captions(str(probe_options["corpus"])) if "corpus" in probe_options else None
    with progress(f"probing with {len(cases.cases):,} cases", "cases") as step:
        result = measured(cases, source_of_scores, name=name or _name(options), corpus=captions, progress=step)
    saved([*written, *(result.save(file) for file in files)])
    answer(result, result.describe(), as_json=as_json)


def _probe(source: str, options: OptionValues) -> Probe:
    from limner.datasets import dataset
    from limner.datasets.known_on_hub import sugarcrepe_probe
    from limner.datasets.probe_files import read_probe
    from limner.datasets.scenes.scene_probes import scenes_probe

    if source == "scenes" and not Path(source).exists():
        if "images" in options:
            raise typer.BadParameter("-O images with scenes: its images are generated; leave it out")
        return scenes_probe(number(options, "cases", 200), seed=number(options, "seed", 0))
    if "cases" in options or "seed" in options:
        raise typer.BadParameter("-O cases and -O seed are for scenes: a file has the cases that it has")
    if source == "sugarcrepe" and not Path(source).exists():
        if "images" in options:
            raise typer.BadParameter("-O images with sugarcrepe: its images come with it; leave it out")
        return sugarcrepe_probe(dataset(source).hub)
    return read_probe(source, images=Path(str(options["images"])) if "images" in options else None)


def _scores(options: SystemOptions, source: str, train_on: str | None, pairs: Collection) -> Any:
    if train_on is not None and options.system is None:
        raise typer.BadParameter("-O train_on is for --model")
    if not (options.images or options.texts or options.scores or options.system):
        return None
    if options.kind != "system":
        return options.open_on(pairs, pairs).scores
    from limner.systems.system_spec import divided

    spec = options.spec()
    trains = spec.is_trained_now or train_on is not None
    parts = training_parts(spec, source, train_on, pairs) if trains else divided(pairs, [spec], "all")
    return spec.on(parts, stage=progress).scores


def _name(options: SystemOptions) -> str:
    return display_name(str(options.system or options.scores or options.images or "system"))


def _captions(corpus: str) -> list[str]:
    from limner.cli.options import load

    return [str(text) for text in load(corpus, None).texts.values]


def _listed(pairs: Collection, file: Path) -> Path:
    from limner.core.files import write_text

    rows = zip(pairs.texts.ids, pairs.texts.values, strict=True)
    write_text(file, "".join(f"{json.dumps({'id': key, 'text': text}, ensure_ascii=False)}\n" for key, text in rows))
    return file
