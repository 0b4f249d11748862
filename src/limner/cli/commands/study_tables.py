"""limner annotate study bias, tables: what the judgements favour, and the appendix tables of ECCV Caption."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from limner.cli.commands.answers import Where, opened
from limner.cli.console import answer, progress, table
from limner.cli.options import Json, word
from limner.core.errors import LimnerError, UnknownName

if TYPE_CHECKING:
    from limner.annotate.side_tables import Refuted, Shares, Workload

COMMANDS: dict[str, object] = {}  # commands of the group study


def bias(
    store: Where,
    measure: Annotated[str, word("R@1 or R-Precision, where a weak yes counts half.")] = "R@1",
    direction: Annotated[str, word("t2i or i2t.")] = "t2i",
    depth: Annotated[int, word("The pool depth.", metavar="K", min=1)] = 5,
    as_json: Json = False,
) -> None:
    """Measure how much the judgements favour the systems that proposed them, by number of systems.

    Examples:
      $ limner annotate study bias work.db
      $ limner annotate study bias work.db --direction i2t --json
    """
    from limner.annotate.bias import biases, by_size, diversity, lists_from
    from limner.annotate.export import judgements
    from limner.annotate.store.contents import DIRECTIONS, proposals

    if direction not in DIRECTIONS:
        raise UnknownName("direction", direction, DIRECTIONS)
    with opened(store) as db:
        first_round, judged = proposals(db, turn=1), judgements(db)
    lists = lists_from(first_round, direction)
    if len(lists) < 2:
        raise LimnerError(f"{len(lists)} systems propose {direction}: bias needs two or more; pool several")
    pooled = [p for p in first_round if p.rank <= depth]
    with progress("measuring every subset of the systems") as stage:
        subset_biases = []
        if len(judged):
            subset_biases = biases(lists, judged, pooled, measure=measure, direction=direction, progress=stage)
        unlike = diversity(lists)
    sizes = by_size(subset_biases)
    rows = [(size, f"{b.overall:.2f}", f"{b.own:.2f}", f"{b.others:.2f}") for size, b in sizes.items()]
    pairs = [(f"{a}, {b}", f"{tau:.3f}", f"{rank:.2f}") for (a, b), (tau, rank) in unlike.items()]
    data = {
        "measure": measure,
        "sizes": {size: {"all": b.overall, "self": b.own, "non-self": b.others} for size, b in sizes.items()},
        "subsets": [
            {"systems": b.systems, "all": b.overall, "self": b.own, "non-self": b.others} for b in subset_biases
        ],
        "diversity": [{"systems": two, "tau": t, "mean_rank": r} for two, (t, r) in unlike.items()],
    }
    head = table([("systems", "bias", "self", "non-self"), *rows])
    head = head if rows else "no bias to measure: no answer has found a match yet"
    answer(f"{head}\n\n{table([('two systems', 'tau-b', 'mean rank'), *pairs])}", data, as_json=as_json)


def tables(
    store: Where,
    depth: Annotated[int, word("The pool depth.", metavar="K", min=1)] = 5,
    further: Annotated[
        list[Path] | None,
        word("Other judgements that may reject original pairs. Repeatable.", "--with", metavar="FILE"),
    ] = None,
    limit: Annotated[int, word("Maximum number of rejected original pairs to list.", metavar="N", min=0)] = 20,
    as_json: Json = False,
) -> None:
    """Show people by workload, answers by system and rank, reasons by system, and original pairs called "100% no".

    Tables B.1, B.2 and B.3 and the list C.1 of Chun et al. (2022).

    Examples:
      $ limner annotate study tables work.db
      $ limner annotate study tables work.db --with cxc.qrels --json
    """
    from limner.annotate import side_tables
    from limner.annotate.answer_files import read_judgements
    from limner.annotate.guideline import scale_of
    from limner.annotate.sample import original
    from limner.annotate.scale import SCALE
    from limner.annotate.store.answers import answers
    from limner.annotate.store.contents import proposals

    further_judgements = [read_judgements(file) for file in further or []]
    with opened(store) as db, progress("counting the answers"):
        collected, lists, scale = answers(db), proposals(db), scale_of(db)
        work, ranks = side_tables.by_workload(db), side_tables.by_rank(collected, lists, depth=depth, scale=scale)
        short = side_tables.shortcomings(collected, lists, depth=depth, scale=scale)
        wrong = side_tables.wrong_ways(collected, lists, depth=depth) if scale.reasons == SCALE.reasons else {}
        refuted = side_tables.refuted_originals(db, collected, original(db), further=further_judgements)
    data = {
        "workload": [{**vars(w), "ratio": w.ratio} for w in work],
        "ranks": {s: {str(r or "all"): dict(x.counts) for r, x in rows.items()} for s, rows in ranks.items()},
        "shortcomings": {s: dict(x.counts) for s, x in short.items()},
        "wrong": {s: dict(x.counts) for s, x in wrong.items()},
        "refuted": [vars(r) for r in refuted],
    }
    parts = [_workload(work), *(_ranks(s, rows) for s, rows in ranks.items())]
    parts += [_shares("shortcomings, %", short)] + [_shares("wrong in, %", wrong)] * bool(wrong or not scale.custom)
    parts.append(_refuted(refuted[:limit], len(refuted), scale.label(1)))
    answer("\n\n".join(parts), data, as_json=as_json)


def _workload(work: list[Workload]) -> str:
    rows = [
        (_span(w), w.people, w.submitted, w.approved, "-" if w.ratio != w.ratio else f"{100 * w.ratio:.1f}%")
        for w in work
    ]
    return table([("tasks each", "people", "submitted", "approved", "ratio"), *rows])


def _span(w: Workload) -> str:
    return f"{w.least} and more" if w.most is None else str(w.least) if w.least == w.most else f"{w.least} to {w.most}"


def _ranks(system: str, rows: dict[int | None, Shares]) -> str:
    head = (system, *next(iter(rows.values())).counts, "answers")
    lines = [(rank or "all", *map(_percent, x.shares.values()), x.total) for rank, x in rows.items()]
    return table([head, *lines])


def _shares(title: str, shares: dict[str, Shares]) -> str:
    names = next((tuple(x.counts) for x in shares.values()), ())
    return table(
        [(title, *names, "reasons"), *((s, *map(_percent, x.shares.values()), x.total) for s, x in shares.items())]
    )


def _percent(share: float) -> str:
    return "-" if share != share else f"{100 * share:.1f}"


def _refuted(pairs: list[Refuted], total: int, no: str) -> str:
    rows = [(r.caption, r.image, f"{r.refusals} of {r.answers}", r.text) for r in pairs]
    head = f"{total:,} original pairs that someone called {no}"
    advice = "\nTo exclude one: limner annotate people review STORE --exclude caption=ID --reason TEXT" if rows else ""
    return f"{head}\n{table([('caption', 'image', 'answers', 'text'), *rows])}{advice}" if rows else head
