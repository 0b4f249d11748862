"""limner annotate study: studies of any form, from a sample to results."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from limner.cli.commands import study_tables
from limner.cli.commands.answers import NewStore, Where, opened, store_name
from limner.cli.commands.designs import remember, several
from limner.cli.commands.evaluate import COLLECTION
from limner.cli.console import answer, progress, table
from limner.cli.inputs import SYSTEM, system_word
from limner.cli.options import (
    Json,
    Loading,
    Split,
    Trust,
    command_options,
    load,
    loading,
    out_word,
    part,
    switch,
    whole_numbers,
    word,
)
from limner.core.errors import LimnerError, UnknownName, count
from limner.core.options import OptionValues
from limner.core.paths import JsonObject
from limner.core.progress import counting

if TYPE_CHECKING:
    from limner.annotate.form import StudyForm
    from limner.annotate.pool import Lists
    from limner.annotate.preference import PreferenceStudy
    from limner.annotate.store import Store
    from limner.core.collection import Collection
    from limner.core.judgements import Judgements
    from limner.explain.failures import Failure

COMMANDS: dict[str, object] = {}  # a group of annotate
app = typer.Typer(no_args_is_help=True, help="Studies: a form, a sample of questions, and what people answered.")
DIRECTIONS = ("t2i", "i2t")
FORM_OPTIONS = {"preference": ("min_relevant", "max_relevant", "ties"), "failures": ("keywords",)}
"""What -O takes for a study, by its kind of results, besides options of the loader."""
FORM = "preference, failures, a .toml or .json file, or another form of 'limner annotate study form'."
Name = Annotated[str, typer.Argument(metavar="STUDY", help="Name of the study.")]


@dataclass(frozen=True)
class Sampling:
    """How the questions of a study are drawn from a collection and systems."""

    systems: Mapping[str, Lists]
    part: Collection
    judgements: str | None
    direction: str
    limit: int | None
    people: int
    name: str
    seed: int
    min_relevant: int = 5
    max_relevant: int = 8
    ties: bool = False
    keywords: int = 2


@app.command()
def add(
    store: NewStore,
    form: Annotated[str, typer.Argument(metavar="FORM", help=FORM)],
    collection: Annotated[str, typer.Argument(metavar="COLLECTION", help=COLLECTION)],
    items: Annotated[
        Path | None,
        word("The questions: csv or jsonl, with a column for each thing that the form shows.", metavar="FILE"),
    ] = None,
    system: Annotated[list[str] | None, system_word(f"A system: {SYSTEM} Repeatable for preference.")] = None,
    scores: Annotated[list[str] | None, word("Similarities, images by texts. Repeatable.", metavar="NAME=FILE")] = None,
    run: Annotated[list[str] | None, word("A TREC run. Repeatable, both directions.", metavar="NAME=FILE")] = None,
    judgements: Annotated[
        str | None, word("Relevance judgements: a name of the collection's judgements, or a file.", metavar="NAME|FILE")
    ] = None,
    direction: Annotated[str, word("t2i (text queries) or i2t.")] = "t2i",
    limit: Annotated[
        int | None,
        word("Number of random queries.", metavar="N", min=1, show_default="40 of preference, all failures"),
    ] = None,
    people: Annotated[
        int | None,
        word("Number of people who answer each question.", metavar="N", min=1, show_default="8 of preference, or 1"),
    ] = None,
    name: Annotated[str | None, word("Name of the study.", "--name", show_default="that of the form")] = None,
    seed: Annotated[int, word("Another seed, other questions.", metavar="N", min=0)] = 0,
    split: Split = None,
    option: Loading = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Create a study: the questions of a form about a collection.

    preference: two rankings side by side, of every pair of systems, or without systems of the rankings A to E of each
    query with known errors (Chun et al. 2022, appendix D.1), of queries with -O min_relevant=5 to -O max_relevant=8
    relevant candidates; with -O ties=true people may say that neither is better. failures: what is wrong with a
    system's wrong first answers (Lymperaiou et al. 2022), of queries that share -O keywords=2 words or more with their
    image's captions. Your own form: the questions of --items.

    Examples:
      $ limner annotate study add work.db preference scenes --judgements complete
      $ limner annotate study add work.db preference scenes --model histograms --model colours --people 3 -O ties=true
      $ limner annotate study add work.db failures scenes --model histograms --limit 100 --people 3
      $ limner annotate study add work.db sharpness.toml scenes --items images.csv
    """
    from limner.annotate.form_files import read_form

    study_form = read_form(form)
    _refuse_unfit(study_form, direction, items)
    form_options, loader = _form_options(study_form, option)
    features = form_options.pop("features", None)
    full_collection = load(collection, loader)
    if system or scores or run or study_form.results == "failures":
        systems, split_part = several(
            system or [], scores or [], run or [], full_collection, split, features=features, trust=trust
        )
    else:
        systems, split_part = {}, part(full_collection, split)
    people = people or (8 if study_form.results == "preference" else 1)
    sampling = Sampling(
        systems, split_part, judgements, direction, limit, people, name or study_form.name, seed, **form_options
    )
    data, text, fill = _sample(study_form, sampling, items)
    with opened(store, create=True) as db:
        remember(db, split_part, collection, loading(loader), split)
        data["questions"] = fill(db)
    answer(_added(data, text, sampling, store), data, as_json=as_json)


def _added(data: OptionValues, text: str, sampling: Sampling, store: str) -> str:
    """What was added, and what to do next."""
    data |= {"study": sampling.name, "people": sampling.people, "answers": data["questions"] * sampling.people}
    each = f"{count(data['questions'], 'question')}, {count(sampling.people, 'person', 'people')} each"
    return f"{text}{each}\nNext: limner annotate serve {store_name(store)}, page /study"


def _form_options(form: StudyForm, words: list[str] | None) -> tuple[OptionValues, list[str]]:
    """The options of the form, and those of the loader; options of another form are refused."""
    chosen, loader = command_options(words, "add")
    for name in chosen:
        if name not in (*FORM_OPTIONS.get(form.results, ()), "features"):
            of_form = next(each for each, names in FORM_OPTIONS.items() if name in names)
            raise typer.BadParameter(f"-O {name} is for a study of {of_form}: leave it out")
    whole_numbers(chosen, min_relevant=5, max_relevant=1, keywords=0)
    switch(chosen, "ties")
    return chosen, loader


def _refuse_unfit(form: StudyForm, direction: str, items: Path | None) -> None:
    """Refuses a direction that there is not, and questions from a file for a form that draws its own."""
    if direction not in DIRECTIONS:
        raise UnknownName("direction", direction, DIRECTIONS)
    if form.results and items is not None:
        raise typer.BadParameter(f"the questions of {form.name} are drawn from a collection: leave --items out")
    if not form.results and items is None:
        raise typer.BadParameter(f"the questions of {form.name} come from a file: give --items FILE")


def _sample(
    form: StudyForm, sampling: Sampling, items: Path | None
) -> tuple[OptionValues, str, Callable[[Store], int]]:
    """Facts about the sample, the same as text, and what puts it into a store."""
    if form.results == "preference":
        from limner.annotate.preference import add_study as add_preference

        preference_study = _preference(sampling)
        facts = {"queries": len(preference_study.queries)}
        text = f"{count(len(preference_study.queries), 'query', 'queries')}: "
        return (
            facts,
            text,
            lambda db: add_preference(
                db, preference_study, name=sampling.name, people=sampling.people, seed=sampling.seed, form=form
            ),
        )
    if form.results == "failures":
        from limner.annotate.failure_study import add_failures

        chosen, facts, text = _failures(sampling)
        return facts, text, lambda db: add_failures(db, chosen, study=sampling.name, people=sampling.people, form=form)
    from limner.annotate.store.studies import add_questions, add_study
    from limner.annotate.study_files import read_questions

    questions = read_questions(items or Path(), form)

    def fill(db: Store) -> int:
        add_study(db, sampling.name, form)
        return add_questions(db, sampling.name, questions, people=sampling.people)

    return {}, "", fill


def _preference(sampling: Sampling) -> PreferenceStudy:
    from limner.annotate.pool import lists_of
    from limner.annotate.preference import QUERIES, study_of_rankings, study_of_systems

    truth, queries = _truth(sampling), sampling.limit or QUERIES
    low, high = sampling.min_relevant, sampling.max_relevant
    common: OptionValues = {
        "queries": queries,
        "direction": sampling.direction,
        "ties": sampling.ties,
        "seed": sampling.seed,
    }
    if not sampling.systems:
        return study_of_rankings(truth, min_relevant=low, max_relevant=high, **common)
    lists = {}
    with progress(f"ranking with {len(sampling.systems)} systems", "systems") as step:
        for name, system in counting(list(sampling.systems.items()), step):
            rankings = lists_of(system, depth=high)
            if sampling.direction in rankings:
                lists[name] = rankings[sampling.direction]
    return study_of_systems(lists, judgements=truth, length=high, **common)


def _failures(sampling: Sampling) -> tuple[list[Failure], OptionValues, str]:
    """The drawn failures of a system, and how many there are."""
    from limner.annotate.failure_study import with_keywords
    from limner.explain.failures import failures
    from limner.scores import Scores

    if len(sampling.systems) != 1:
        raise typer.BadParameter(f"{len(sampling.systems)} systems: failures are those of one --model")
    (system,) = sampling.systems.values()
    by_direction: JsonObject = {"i2t": system, "t2i": system.T} if isinstance(system, Scores) else system
    if sampling.direction not in by_direction:
        raise LimnerError(
            f"no system for {sampling.direction!r}: got {', '.join(by_direction)}; give a run of that direction"
        )
    with progress("finding failures", "queries") as step:
        wrong = failures(
            by_direction[sampling.direction], sampling.part, direction=sampling.direction,
            judgements=sampling.part.judgements.name, progress=step,
        )  # fmt: skip
        with_common_words = with_keywords(wrong, sampling.part, min_common=sampling.keywords)
    chosen = (
        with_common_words
        if sampling.limit is None or sampling.limit >= len(with_common_words)
        else random.Random(sampling.seed).sample(with_common_words, sampling.limit)
    )
    facts = {"failures": len(wrong), "kept": len(with_common_words)}
    return (
        chosen,
        facts,
        f"{len(wrong):,} failures, {len(with_common_words):,} with {sampling.keywords} common words or more; ",
    )


def _truth(sampling: Sampling) -> Judgements:
    """The judgements, query -> candidate: by name from the collection, or from a file."""
    from limner.annotate.answer_files import read_judgements

    collection, source = sampling.part, sampling.judgements
    if source is None or source in collection.all_judgements or not Path(source).exists():
        return collection.judged(source or collection.judgements.name, sampling.direction)
    read = read_judgements(source).restrict(queries=collection.images.ids, candidates=collection.texts.ids)
    return read if sampling.direction == "i2t" else read.T


@app.command("list")
def list_(store: Where, as_json: Json = False) -> None:
    """List the studies of a store with their progress.

    Examples:
      $ limner annotate study list work.db
    """
    from limner.annotate.store.studies import studies, study_progress

    with opened(store) as db:
        rows = [{"study": each.name, "form": each.form.name, **study_progress(db, each.name)}
                for each in studies(db).values()]  # fmt: skip
    head = ("study", "form", "questions", "answers", "asked")
    listed = table([head, *(tuple(str(row[name]) for name in head) for row in rows)])
    answer(listed if rows else "no study", {"studies": rows}, as_json=as_json)


@app.command()
def results(
    store: Where,
    name: Name,
    measures: Annotated[
        str, word("preference: measures to compare with the votes.", metavar="NAMES", show_default="R@1 R@5 mAP@R")
    ] = "",
    as_json: Json = False,
) -> None:
    """Show what people answered in a study.

    preference: Bradley-Terry scores, and which measures agree with the votes; failures: the share of each class and
    the ratings; another form: each part of its answers, and how far people agree.

    Examples:
      $ limner annotate study results work.db preference
      $ limner annotate study results work.db preference --measures "R@1 nDCG@5 mAP@R" --json
      $ limner annotate study results work.db failures
    """
    from limner.annotate.study_results import study_results

    with opened(store) as db, progress("counting the answers"):
        outcome = study_results(db, name, measures=measures.split())
    head = f"study {outcome.study!r}: {outcome.answers:,} of {count(outcome.asked, 'answer')}"
    tables = [f"{each.title}\n{table([each.head, *each.rows])}" for each in outcome.tables if each.rows]
    answer("\n\n".join([head, *tables, *outcome.notes]), dict(outcome.data), as_json=as_json)


@app.command()
def export(
    store: Where,
    name: Name,
    out: Annotated[Path, out_word("A csv: the question, the answer, the annotator.", "--output", "-o")],
    as_json: Json = False,
) -> None:
    """Write the answers of a study to a csv.

    Examples:
      $ limner annotate study export work.db preference -o votes.csv
    """
    from limner.annotate.study_files import write_study_answers

    with opened(store) as db:
        rows = write_study_answers(db, out, name)
    answer(f"wrote {out}: {count(rows, 'answer')}", {"wrote": str(out), "rows": rows}, as_json=as_json)


@app.command("import")
def import_(
    store: Where,
    name: Name,
    file: Annotated[Path, typer.Argument(metavar="FILE.csv", help="As 'study export' writes it.")],
    as_json: Json = False,
) -> None:
    """Add answers to a study that were given elsewhere, all or none.

    Examples:
      $ limner annotate study import work.db preference crowd.csv
    """
    from limner.annotate.study_files import read_study_answers

    with opened(store) as db:
        added = read_study_answers(db, file, name)
    answer(f"{count(added, 'answer')} added from {file}", {"added": added, "file": str(file)}, as_json=as_json)


@app.command()
def form(
    name: Annotated[
        str | None, typer.Argument(metavar="FORM", help="A form of limner, or a .toml or .json file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the forms, or print the file of one: a form of your own is such a file.

    Examples:
      $ limner annotate study form
      $ limner annotate study form failures
    """
    from limner.annotate.form_files import built_in_forms, form_text, read_form

    if name is None:
        forms = {each: read_form(each).question for each in built_in_forms()}
        answer(table([("form", "question"), *forms.items()]), {"forms": forms}, as_json=as_json)
        return
    study_form = read_form(name)
    answer(form_text(name).rstrip(), study_form.to_json(), as_json=as_json)


@app.command()
def scale(
    store: Where,
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FORM", help="Own grades and reasons: experts, or a .toml or .json file.", show_default=False
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the grades and reasons for the pairs of a store as TOML; or set them, before the first answer.

    Each grade counts as yes, weak yes, weak no or no for the measures. A store that does not exist is created.

    Examples:
      $ limner annotate study scale work.db
      $ limner annotate study scale work.db experts
      $ limner annotate study scale work.db products.toml
    """
    from limner.annotate.form_files import as_toml, read_scale
    from limner.annotate.guideline import newest, scale_of, set_scale

    new = None if file is None else read_scale(file)
    with opened(store, create=new is not None) as db:
        if new is not None:
            set_scale(db, new[0], guideline=new[1])
        present, rules = scale_of(db), newest(db)
    toml = as_toml(present, guideline=rules.text if present.custom else "")
    data = {**asdict(present), "own": present.custom, "guideline": rules.version}
    set_line = f"{len(present.grades)} grades and {count(len(present.reasons), 'reason')}; guideline {rules.version}"
    answer(toml.rstrip() if new is None else set_line, data, as_json=as_json)


app.command()(study_tables.bias)
app.command()(study_tables.tables)
