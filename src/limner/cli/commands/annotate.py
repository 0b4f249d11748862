"""limner annotate: people judge the pairs that systems propose, and their answers become better judgements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from limner.cli.commands import answers as later
from limner.cli.commands import designs, people, study
from limner.cli.commands.answers import NewStore, Where, opened, store_name
from limner.cli.commands.designs import further_images, image_source, remember, several, trained_again
from limner.cli.commands.evaluate import COLLECTION
from limner.cli.commands.serve import Certificate, Key, Proxy, Url
from limner.cli.console import answer, progress
from limner.cli.inputs import SYSTEM, system_word
from limner.cli.options import (
    Json,
    Loading,
    Split,
    Trust,
    command_options,
    flag,
    load,
    loading,
    number,
    switch,
    text_option,
    whole_numbers,
    word,
)
from limner.core.errors import LimnerError, UnknownName, count
from limner.core.options import OptionValues
from limner.core.paths import JsonObject

if TYPE_CHECKING:
    from limner.annotate.pool import Lists
    from limner.annotate.store import Store
    from limner.core.collection import Collection
    from limner.web import Address

app = typer.Typer(no_args_is_help=True, help="Annotate pairs: pool, tasks, answers, quality, merge, bias.")
FORMS = {
    "pairs": {"pooled": 1, "positives": 0, "negatives": 0, "sample": 1}, "captions": {"images": 2, "captions": 2},
}  # fmt: skip
"""The forms of tasks, and the least of each of their numbers."""
TEXTS = {"pairs": ("reasons",), "captions": ("controls",)}
"""The options of a form that are words."""
STRATEGY = "narrow"


# --- pool and tasks ---------------------------------------------------------------------------------------------


@app.command()
def pool(
    store: NewStore,
    collection: Annotated[str, typer.Argument(metavar="COLLECTION", help=COLLECTION)],
    system: Annotated[list[str] | None, system_word(f"A system: {SYSTEM} Repeatable.")] = None,
    scores: Annotated[list[str] | None, word("Similarities, images by texts. Repeatable.", metavar="NAME=FILE")] = None,
    run: Annotated[list[str] | None, word("A TREC run. Repeatable, both directions.", metavar="NAME=FILE")] = None,
    depth: Annotated[int, word("Pool depth: ranks of each list that are pooled.", metavar="K", min=1)] = 5,
    queries: Annotated[
        list[str] | None,
        word("Pool a random sample of queries: i2t=1261, t2i=1333. Repeatable.", metavar="DIRECTION=N"),
    ] = None,
    seed: Annotated[int, word("Another seed, other queries.", metavar="N", min=0)] = 0,
    new_pairs: Annotated[
        int | None, word("A further round: add this many new pairs, chosen from the answers so far.", metavar="N")
    ] = None,
    split: Split = None,
    option: Loading = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Pool the top results of several systems, in both directions, in a store; each pair keeps all its proposals.

    With --new-pairs, the systems are weighted by the answers so far and propose pairs beyond the first pool; clear
    mismatches are left out. -O strategy=sure (the default), unsure, disagree or mixed is how they are chosen; -O
    retrain=true first retrains the systems with the accepted pairs. With -O strategy=narrow, a plan is extended
    instead, by the labels that narrow the comparison of the two systems most. -O keep=25 is the number of ranks of each
    list that are stored, and -O min_bleu=0.25 pools only pairs with this BLEU-pre with the image's own captions.

    Examples:
      $ limner annotate pool work.db scenes --model histograms --model colours
      $ limner annotate pool work.db scenes --model histograms --queries i2t=50 --queries t2i=80
      $ limner annotate pool work.db captions.csv --scores mine=S.npy --run theirs=t2i.run -O min_bleu=0.25
      $ limner annotate pool work.db scenes --model histograms --model colours --new-pairs 100
      $ limner annotate pool work.db scenes --model histograms --model colours --new-pairs 100 -O strategy=narrow
      $ limner annotate pool work.db scenes --model histograms --model colours --new-pairs 100 -O retrain=true
    """
    settings, loader = command_options(option, "pool")
    whole_numbers(settings, keep=1)
    retrain, keep = switch(settings, "retrain"), settings.get("keep", 25)
    strategy = str(settings.get("strategy", "sure"))
    bleu = number(settings, "min_bleu", 0.0) if "min_bleu" in settings else None
    features = text_option(settings, "features")
    full_collection = load(collection, loader)
    systems, split_part = several(
        system or [], scores or [], run or [], full_collection, split, features=features, trust=trust
    )
    if retrain and (new_pairs is None or scores or run):
        raise typer.BadParameter(
            "-O retrain only works in a further round (--new-pairs N) with systems that limner trains (--model)"
        )
    if queries and new_pairs is None:
        systems = dict(_subsampled(systems, queries, max(keep, depth), seed))
    with opened(store, create=True) as db:
        if new_pairs is None:
            remember(db, split_part, collection, loading(loader), split)
            data: OptionValues = dict(_filled(db, systems, split_part, depth, max(keep, depth), bleu))
        elif strategy == STRATEGY:
            data = _narrowed(db, split_part, systems, new_pairs)
        else:
            learned = trained_again(db, system or [], split_part, full_collection) if retrain else None
            data = _further(db, systems, new_pairs, strategy, learned)
    answer(_pooled(data, store), data, as_json=as_json)


def _narrowed(store: Store, split_part: Collection, systems: Mapping[str, Lists], number: int) -> dict[str, object]:
    """The result of a further draw of a plan, as plain values."""
    from limner.annotate.allocation import narrow

    with progress("drawing the labels that narrow the comparison most") as stage:
        drawn = narrow(store, split_part, systems, number, progress=stage)
    return {"narrowed": [asdict(each) | {"told": str(each)} for each in drawn]}


def _subsampled(systems: Mapping[str, Lists], words: list[str], depth: int, seed: int) -> Mapping[str, Lists]:
    from limner.annotate.pool import subsampled

    sizes = {}
    for each in words:
        direction, equals, number = each.partition("=")
        if not equals or not (number.isascii() and number.isdigit() and len(number) < 10):
            raise typer.BadParameter(f"--queries got {each!r}: expected i2t=N or t2i=N")
        sizes[direction] = int(number)
    return subsampled(systems, sizes, depth=depth, seed=seed)


def _filled(
    store: Store, systems: Mapping[str, Lists], split_part: Collection, depth: int, keep: int, bleu: float | None
) -> dict[str, int]:
    from limner.annotate.pool import alike, fill

    filtered = None if bleu is None else lambda pairs: alike(pairs, split_part, min_bleu=bleu)
    with progress(f"pooling {len(systems)} systems") as stage:
        return fill(store, systems, depth=depth, keep=keep, filtered=filtered, progress=stage)


def _further(
    store: Store, systems: Mapping[str, Lists], number: int, strategy: str, learned: Mapping[str, Lists] | None
) -> dict[str, int]:
    """The result of a further round; with `learned`, the systems trained on the answers, these propose the pairs."""
    from limner.annotate.further_rounds import candidates, choose
    from limner.annotate.merge import boolean_labels, by_majority
    from limner.annotate.store.answers import answers
    from limner.annotate.store.contents import add_pairs, pairs

    turn = 1 + max((p.turn for p in pairs(store)), default=0)
    pooled_pairs = {(p.image, p.caption) for p in pairs(store) if p.origin == "pool"}
    labels = boolean_labels(by_majority(answers(store)))
    with progress(f"collecting the pairs of {len(systems)} systems", "systems") as stage:
        first = candidates(systems, progress=stage)
        proposed, before = (first, None) if learned is None else (candidates(learned, progress=stage), first)
        stage.step("weighting the systems by the answers")
        likely = choose(proposed, labels, number + len(pooled_pairs), strategy=strategy, before=before)
        chosen = [pair for pair in likely if pair not in pooled_pairs][:number]
    return {
        "turn": turn,
        "answers": len(labels),
        "candidates": len(proposed.pairs),
        "new": add_pairs(store, chosen, turn=turn),
    }


def _pooled(data: JsonObject, store: str) -> str:
    if "narrowed" in data:
        lines = [each["told"] for each in data["narrowed"]]
        return "\n".join([*lines, f"Next: limner annotate serve {store_name(store)}"])
    if "turn" in data:
        head = (
            f"round {data['turn']}: {count(data['new'], 'new pair')} of {data['candidates']:,}, from "
            f"{count(data['answers'], 'label')}"
        )
    else:
        merged = f"{count(data['proposals'], 'proposal')}, {count(data['merged'], 'pair')} after merging"
        head = f"{merged}, {data['kept']:,} kept, {data['new']:,} new"
    return f"{head}\nNext: limner annotate tasks {store_name(store)}"


@app.command()
def tasks(
    store: Where,
    replication: Annotated[int, word("Number of people who judge each pair.", "--people", metavar="N", min=1)] = 1,
    form: Annotated[str, word("pairs (20 pairs), or captions (six images, ten captions each).")] = "pairs",
    direction: Annotated[str | None, word("Only pairs proposed in this direction, i2t or t2i.", metavar="WAY")] = None,
    depth: Annotated[
        int | None,
        word("With --direction: only ranks up to K.", metavar="K", min=1, show_default="the depth of the pool"),
    ] = None,
    option: Loading = None,
    trust: Trust = False,
    seed: Annotated[int, word("Random seed.", metavar="N", min=0)] = 0,
    as_json: Json = False,
) -> None:
    """Split the pooled pairs without a task into tasks, each with control pairs whose answer is known.

    Options of the form pairs are the pairs of a task, -O pooled=18 -O positives=1 -O negatives=1, and -O
    reasons=required, optional or off; -O sample=N takes only so many pairs, drawn at random. Those of the form captions
    are its size, -O images=6 (one of them a control) -O captions=10, and the split of the controls, -O controls=SPLIT.

    Examples:
      $ limner annotate tasks work.db --people 3
      $ limner annotate tasks work.db --direction i2t -O reasons=required
      $ limner annotate tasks work.db --direction t2i -O reasons=off
      $ limner annotate tasks work.db -O sample=600
      $ limner annotate tasks work.db --form captions -O controls=dev --people 3
    """
    from limner.annotate.pool import waiting
    from limner.annotate.sample import original
    from limner.annotate.store.contents import pairs, proposals
    from limner.annotate.store.tasks import add_tasks
    from limner.annotate.tasks import make_caption_tasks, make_tasks
    from limner.annotate.trusted_labels import drawn_sample, remember_sample

    options = _form_options(form, option)
    with opened(store) as db:
        open_pairs, original_pairs = waiting(db, direction=direction, depth=depth), original(db)
        if not open_pairs:
            raise LimnerError("every pooled pair already has a task: run 'limner annotate pool' to add pairs")
        size, population = options.pop("sample", None), open_pairs
        if size is not None:
            if direction is not None:
                raise typer.BadParameter("-O sample is drawn from all pairs without a task: leave --direction out")
            open_pairs = drawn_sample(population, size, seed=seed)
        proposed_pairs = {(p.image, p.caption) for p in proposals(db)}
        common: OptionValues = {"avoid": proposed_pairs, "seed": seed}
        if form == "pairs":
            drafts = make_tasks(open_pairs, original_pairs, **options, **common)
        else:
            if "controls" in options:
                options["controls"] = further_images(db, store, str(options["controls"]), trust=trust)
            drafts = make_caption_tasks(open_pairs, original_pairs, **options, **common)
        turn = max(p.turn for p in pairs(db))
        task_ids = add_tasks(db, drafts, replication=replication, turn=turn)
        if size is not None:
            remember_sample(db, population, task_ids)
        left = len(waiting(db))
    data = {"tasks": len(task_ids), "pairs": len(open_pairs), "replication": replication, "form": form, "left": left}
    people = count(replication, "person", "people")
    text = f"{count(len(task_ids), 'task')} for {count(len(open_pairs), 'pair')}, {people} each"
    text += f"; {count(left, 'pooled pair')} still without a task" if left else ""
    answer(f"{text}\nNext: limner annotate serve {store_name(store)}", data, as_json=as_json)


def _form_options(form: str, words: list[str] | None) -> OptionValues:
    """The options of a form of tasks; those of the other form are refused."""
    if form not in FORMS:
        raise UnknownName("form of tasks", form, FORMS)
    options = loading(words)
    for name in options:
        of_form = [each for each in FORMS if name in (*FORMS[each], *TEXTS[each])]
        if not of_form:
            raise UnknownName("option of tasks", name, (*FORMS[form], *TEXTS[form]))
        if form not in of_form:
            raise typer.BadParameter(f"-O {name} is for --form {of_form[0]}, and this is --form {form}: leave it out")
    whole_numbers(options, **FORMS[form])
    return options


@app.command()
def serve(
    store: Where,
    collection: Annotated[
        str | None,
        typer.Argument(metavar="COLLECTION", help="The collection with the images.", show_default="the pooled one"),
    ] = None,
    port: Annotated[int, word("0 for any free port.", metavar="N", min=0, max=65535)] = 8765,
    host: Annotated[str, word("Other machines need --team.")] = "127.0.0.1",
    team: Annotated[bool, flag("--team", "Accounts by invitation, for several people.")] = False,
    certificate: Certificate = None,
    key: Key = None,
    url: Url = None,
    proxy: Proxy = None,
    option: Loading = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Serve the annotation page until interrupted. With --json, print the address as JSON.

    Examples:
      $ limner annotate serve work.db
      $ limner annotate serve work.db captions.csv --team --host 0.0.0.0
    """
    import limner.web

    spec, options = image_source(store, collection, loading(option), trust=trust)

    def started(server: Address) -> None:
        lines = [f"open {server.url}", *([f"first account: {server.invitation}"] if server.invitation else [])]
        answer("\n".join(lines), {"url": server.url, "invitation": server.invitation}, as_json=as_json)

    limner.web.serve(
        spec, store=store, host=host, port=port, team=team, certificate=certificate, key=key, url=url,
        proxies=proxy or (), options=options, started=started,
    )  # fmt: skip


app.command("plan")(designs.plan)
app.command("judge")(designs.judge)
app.command("status")(later.status)
app.command("estimate")(later.estimate)
app.command("merge")(later.merge)
app.command("export")(later.export)
app.command("import")(later.import_)
app.add_typer(study.app, name="study")
app.add_typer(people.app, name="people")
