"""limner annotate failures, classes: let people judge wrong answers, and summarise their judgements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from limner.cli.commands.answers import NewStore, Where, opened, shown
from limner.cli.commands.evaluate import COLLECTION
from limner.cli.commands.explain.failures import opened_system
from limner.cli.console import answer, progress, table
from limner.cli.inputs import SYSTEM, Features, SystemOptions, system_word
from limner.cli.options import Json, Loading, Split, Trust, load, loading, word
from limner.cli.studies import remember
from limner.core.errors import LimnerError, UnknownName, count

if TYPE_CHECKING:
    from limner.annotate.failing import FailureStudy
    from limner.stats import Interval

COMMANDS: dict[str, object] = {}  # subcommands of annotate
DIRECTIONS = ("t2i", "i2t")
Name = Annotated[str, word("Name of the study.", "--study")]


def failures(
    store: NewStore,
    collection: Annotated[str, typer.Argument(metavar="COLLECTION", help=COLLECTION)],
    system: Annotated[str | None, system_word(f"A system: {SYSTEM}")] = None,
    features: Features = None,
    scores: Annotated[Path | None, word("Or a similarity matrix, images by texts: npy.", metavar="FILE")] = None,
    run: Annotated[list[Path] | None, word("Or a TREC run, or JSON lists.", metavar="FILE")] = None,
    direction: Annotated[str, word("t2i (text queries) or i2t.")] = "t2i",
    keywords: Annotated[
        int, word("Minimum number of words shared by a query and its image's other captions.", metavar="N", min=0)
    ] = 2,
    limit: Annotated[int | None, word("Maximum number of failures, drawn at random.", metavar="N", min=1)] = None,
    people: Annotated[int, word("Number of people who judge each failure.", metavar="N", min=1)] = 1,
    name: Name = "failures",
    seed: Annotated[int, word("Another seed, other failures.", metavar="N", min=0)] = 0,
    split: Split = None,
    option: Loading = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Ask people what is wrong with a system's wrong first answers: object, colour, number, action, size, details.

    Failures whose query shares too few words with the image's other captions are left out (--keywords).

    Examples:
      $ limner annotate failures work.db scenes --system histograms --limit 100 --people 3
      $ limner annotate failures work.db flickr8k:DIR --run t2i.run --keywords 3
    """
    import random

    from limner.annotate.failing import with_keywords
    from limner.annotate.store.failures import add_failures
    from limner.explain.failures import failures as failed

    if direction not in DIRECTIONS:
        raise UnknownName("direction", direction, DIRECTIONS)
    options = SystemOptions(None, None, None, None, scores, run or (), system, trust, features)
    source, held = opened_system(options, load(collection, option), split, direction)
    if direction not in source:
        raise LimnerError(f"no system for {direction!r}: got {', '.join(source)}; give a run of that direction")
    with progress("finding failures", "queries") as told:
        scored: Any = source[direction]
        found = failed(scored, held, direction=direction, judgements=held.judgements.name, progress=told)
        kept = with_keywords(found, held, min_common=keywords)
    chosen = kept if limit is None or limit >= len(kept) else random.Random(seed).sample(kept, limit)
    with opened(store, create=True) as db:
        remember(db, held, collection, loading(option), split)
        added = add_failures(db, chosen, study=name, replication=people)
    data = {"study": name, "failures": len(found), "kept": len(kept), "added": added, "people": people}
    text = (
        f"{len(found):,} failures, {len(kept):,} with {keywords} common words or more; {added:,} added, {people} people"
    )
    answer(f"{text} each\nNext: limner annotate serve {shown(store)}, page /classify", data, as_json=as_json)


def classes(store: Where, name: Name = "failures", as_json: Json = False) -> None:
    """Show the results of a failure study: share of each class, ratings, classes per failure, rules.

    Examples:
      $ limner annotate classes work.db
      $ limner annotate classes work.db --study failures --json
    """
    from limner.annotate.failing import results

    with opened(store) as db:
        found = results(db, study=name)
    answer(_shown(found), _data(found), as_json=as_json)


def _shown(found: FailureStudy) -> str:
    total = max(1, len(found.labels))
    answers = f"{found.answers:,} of {count(found.asked, 'answer')}"
    head = f"study {found.study!r}: {answers} on {count(len(found.labels), 'failure')}"
    rows = [
        (name, f"{each.failures:,}", _percent(each.share), _ends(each.interval)) for name, each in found.shares.items()
    ]
    numbers = [(n, f"{failures:,}", _percent(failures / total)) for n, failures in found.numbers.items()]
    rated = [(rating, f"{ratings:,}") for rating, ratings in found.ratings.items()]
    ends = found.rating_interval
    mean = f"mean rating {found.mean_rating:.2f}" if any(found.ratings.values()) else "no ratings yet"
    mean += f" ({ends.low:.2f} to {ends.high:.2f})" if ends else ""
    parts = [
        head,
        table([("class", "failures", "share", "95% interval"), *rows]),
        table([("classes that disagree", "failures", "share"), *numbers]),
        f"{table([('rating', 'answers'), *rated])}\n{mean}",
    ]
    return "\n\n".join([*parts, *([f"rule: {rule}" for rule in found.rules])])


def _percent(share: float) -> str:
    return "-" if share != share else f"{100 * share:.2f}%"


def _ends(interval: Interval | None) -> str:
    return "-" if interval is None else f"{100 * interval.low:.1f} to {100 * interval.high:.1f}"


def _data(found: FailureStudy) -> dict[str, object]:
    shares = {
        name: {"failures": each.failures, "share": each.share, "interval": _both(each.interval)}
        for name, each in found.shares.items()
    }
    return {
        "study": found.study, "answers": found.answers, "asked": found.asked, "failures": len(found.labels),
        "classes": shares, "ratings": dict(found.ratings), "mean_rating": found.mean_rating,
        "rating_interval": _both(found.rating_interval), "numbers": dict(found.numbers),
        "rules": [vars(rule) for rule in found.rules],
        "labels": {query: sorted(names) for query, names in found.labels.items()},
    }  # fmt: skip


def _both(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]
