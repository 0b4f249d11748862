"""limner annotate study, votes, preferences: which rankings people prefer, and which measures agree."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from limner.cli.commands.answers import NewStore, Where, opened, shown
from limner.cli.commands.evaluate import COLLECTION
from limner.cli.console import answer, progress, table
from limner.cli.inputs import SYSTEM, Features, system_word
from limner.cli.options import Json, Loading, Split, Trust, flag, load, loading, part, word, writable_file
from limner.cli.studies import remember, several
from limner.core.errors import UnknownName, count
from limner.core.progress import counting

if TYPE_CHECKING:
    from limner.annotate.preference import PreferenceStudy
    from limner.annotate.preferred import MeasureAgreement, Preferred
    from limner.core.collection import Collection
    from limner.core.judgements import Judgements

COMMANDS: dict[str, object] = {}  # subcommands of annotate
DIRECTIONS = ("t2i", "i2t")
Name = Annotated[str, word("Name of the study.", "--study")]


def study(
    store: NewStore,
    collection: Annotated[str, typer.Argument(metavar="COLLECTION", help=COLLECTION)],
    judgements: Annotated[
        str | None, word("Relevance judgements: a name of the collection's judgements, or a file.", metavar="NAME|FILE")
    ] = None,
    system: Annotated[list[str] | None, system_word(f"Compare systems instead: {SYSTEM} Repeatable.")] = None,
    features: Features = None,
    scores: Annotated[list[str] | None, word("Similarities, images by texts. Repeatable.", metavar="NAME=FILE")] = None,
    run: Annotated[list[str] | None, word("A TREC run. Repeatable, both directions.", metavar="NAME=FILE")] = None,
    queries: Annotated[int, word("Number of random queries.", metavar="N", min=1)] = 40,
    min_relevant: Annotated[int, word("Minimum number of relevant candidates of a query.", metavar="N", min=5)] = 5,
    max_relevant: Annotated[
        int, word("Maximum number of relevant candidates of a query, and length of a list.", metavar="N", min=1)
    ] = 8,
    people: Annotated[int, word("Number of people who compare each pair of lists.", metavar="N", min=1)] = 8,
    ties: Annotated[bool, flag("--ties", "People may say that neither is better.")] = False,
    direction: Annotated[str, word("t2i or i2t.")] = "t2i",
    name: Name = "preference",
    seed: Annotated[int, word("Another seed, other queries and lists.", metavar="N", min=0)] = 0,
    split: Split = None,
    option: Loading = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Create a preference study: all pairs of the rankings A to E of each query, or all pairs of several systems.

    A: only the first is wrong; B: only the first is right; C: the first five are wrong; D: only the fifth is right;
    E: all are wrong (Chun et al. 2022, appendix D.1). Queries have 5 to 8 relevant candidates, and lists have the same
    length.

    Examples:
      $ limner annotate study votes.db scenes --judgements complete
      $ limner annotate study votes.db scenes --system histograms --system colours --people 3 --ties
    """
    from limner.annotate.preference import add_study

    if direction not in DIRECTIONS:
        raise UnknownName("direction", direction, DIRECTIONS)
    whole = load(collection, option)
    how: dict[str, Any] = {"queries": queries, "direction": direction, "ties": ties, "seed": seed}
    if system or scores or run:
        lists, held = several(system or [], scores or [], run or [], whole, split, features=features, trust=trust)
        made = _of_systems(lists, _truth(held, judgements, direction), length=max_relevant, **how)
    else:
        held = part(whole, split)
        how |= {"min_relevant": min_relevant, "max_relevant": max_relevant}
        made = _of_rankings(_truth(held, judgements, direction), **how)
    with opened(store, create=True) as db:
        remember(db, held, collection, loading(option), split)
        added = add_study(db, made, name=name, people=people, seed=seed)
    data = {
        "study": name,
        "comparisons": added,
        "queries": len(made.queries),
        "people": people,
        "votes": added * people,
    }
    replication = count(people, "person", "people")
    of_queries = f"of {count(len(made.queries), 'query', 'queries')}"
    text = f"{count(added, 'comparison')} {of_queries}, {replication} each: {count(added * people, 'vote')}"
    answer(f"{text}\nNext: limner annotate serve {shown(store)}", data, as_json=as_json)


def _of_rankings(truth: Judgements, **how: Any) -> PreferenceStudy:
    from limner.annotate.preference import study_of_rankings

    return study_of_rankings(truth, **how)


def _of_systems(systems: Any, truth: Judgements, *, direction: str, length: int, **how: Any) -> PreferenceStudy:
    from limner.annotate.pool import lists_of
    from limner.annotate.preference import study_of_systems

    with progress(f"ranking with {len(systems)} systems", "systems") as told:
        lists = {
            name: found[direction]
            for name, system in counting(list(systems.items()), told)
            if direction in (found := lists_of(system, depth=length))
        }
    return study_of_systems(lists, judgements=truth, direction=direction, length=length, **how)


def _truth(held: Collection, wanted: str | None, direction: str) -> Judgements:
    """The judgements, query -> candidate: by name from the collection, or from a file."""
    from limner.annotate.forms import read_judgements

    name = wanted or held.judgements.name
    if wanted is None or wanted in held.all_judgements or not Path(wanted).exists():
        return held.judged(name, direction)
    read = read_judgements(wanted).restrict(queries=held.images.ids, candidates=held.texts.ids)
    return read if direction == "i2t" else read.T


def votes(
    store: Where,
    file: Annotated[Path, typer.Argument(metavar="FILE.csv", help="query, left, right, choice, annotator.")],
    put: Annotated[bool, flag("--import", "Import the file into the store instead of writing it.")] = False,
    name: Name = "preference",
    as_json: Json = False,
) -> None:
    """Write the votes of a study to a csv; or import votes that were given elsewhere, all or none.

    Examples:
      $ limner annotate votes votes.db votes.csv
      $ limner annotate votes votes.db crowd.csv --import
    """
    from limner.annotate.preferred import read_votes, write_votes

    if not put:
        writable_file(file)
    with opened(store) as db:
        number = (read_votes if put else write_votes)(db, file, study=name)
    told = f"{count(number, 'vote')} added from {file}" if put else f"wrote {file}: {count(number, 'vote')}"
    answer(told, {"added" if put else "rows": number, "file": str(file)}, as_json=as_json)


def preferences(
    store: Where,
    measures: Annotated[str, word("Measures to compare with the votes.", metavar="NAMES")] = "R@1 R@5 mAP@R",
    name: Name = "preference",
    as_json: Json = False,
) -> None:
    """Show the results of a study: Bradley-Terry scores, counts, and which measures agree with the votes.

    Examples:
      $ limner annotate preferences votes.db
      $ limner annotate preferences votes.db --measures "R@1 nDCG@5 mAP@R" --json
    """
    from limner.annotate.preferred import preferences as found_by

    with opened(store) as db, progress("scoring the votes"):
        found = found_by(db, study=name, measures=measures.split())
    answer(_shown(found), _data(found), as_json=as_json)


def _shown(found: Preferred) -> str:
    parts = [f"study {found.study!r}: {found.votes:,} of {count(found.asked, 'vote')}"]
    if found.scores is not None:
        s = found.scores
        rows = [
            (n, f"{s.scores[i]:.2f}", _ends(s.low[i], s.high[i]), *(f"{c:g}" for c in found.counts[i]))
            for i, n in enumerate(found.names)
        ]
        parts.append(table([("ranking", "score", "95% interval", *(f"over {n}" for n in found.names)), *rows]))
    if found.measures:
        head = ("measure", *found.names, "tau-b with the scores", "votes it agrees with")
        rows_ = [
            (m.measure, *(f"{m.values[n]:.3f}" for n in found.names), _num(m.tau), _share(m)) for m in found.measures
        ]
        parts.append(table([head, *rows_]))
    return "\n\n".join([*parts, *found.notes])


def _ends(low: float, high: float) -> str:
    return "-" if low != low else f"{low:.2f} to {high:.2f}"


def _num(value: float) -> str:
    return "-" if value != value else f"{value:.3f}"


def _share(m: MeasureAgreement) -> str:
    if m.agreed != m.agreed:
        return "-"
    ends = f" ({100 * m.interval.low:.1f} to {100 * m.interval.high:.1f})" if m.interval else ""
    return f"{100 * m.agreed:.1f}%{ends} of {m.decided:,}"


def _data(found: Preferred) -> dict[str, object]:
    s = found.scores
    scores = None if s is None else {
        n: {"score": s.scores[i], "low": s.low[i], "high": s.high[i]} for i, n in enumerate(found.names)
    }  # fmt: skip
    measures = [
        {"measure": m.measure, "values": dict(m.values), "tau": m.tau, "decided": m.decided, "agreed": m.agreed,
         "interval": None if m.interval is None else [m.interval.low, m.interval.high]}
        for m in found.measures
    ]  # fmt: skip
    counts = {n: dict(zip(found.names, found.counts[i].tolist(), strict=True)) for i, n in enumerate(found.names)}
    return {"study": found.study, "votes": found.votes, "asked": found.asked, "scores": scores, "counts": counts,
            "measures": measures, "notes": list(found.notes)}  # fmt: skip
