"""limner annotate tables: the appendix tables of ECCV Caption, from a store of answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from limner.cli.commands.answers import Where, opened
from limner.cli.console import answer, progress, table
from limner.cli.options import Json, word

if TYPE_CHECKING:
    from limner.annotate.side_tables import Refuted, Shares, Workload

COMMANDS: dict[str, object] = {}  # a subcommand of annotate


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
      $ limner annotate tables work.db
      $ limner annotate tables work.db --with cxc.qrels --json
    """
    from limner.annotate import side_tables as made
    from limner.annotate.forms import read_judgements
    from limner.annotate.scale import SCALE
    from limner.annotate.store.answers import answers
    from limner.annotate.store.contents import proposals
    from limner.annotate.store.scales import scale_of
    from limner.annotate.studies import original

    others = [read_judgements(file) for file in further or []]
    with opened(store) as db, progress("counting the answers"):
        given, lists, scale = answers(db), proposals(db), scale_of(db)
        work, ranks = made.by_workload(db), made.by_rank(given, lists, depth=depth, scale=scale)
        short = made.shortcomings(given, lists, depth=depth, scale=scale)
        wrong = made.wrong_ways(given, lists, depth=depth) if scale.reasons == SCALE.reasons else {}
        refuted = made.refuted_originals(db, given, original(db), further=others)
    data = {
        "workload": [{**vars(w), "ratio": w.ratio} for w in work],
        "ranks": {s: {str(r or "all"): dict(x.counts) for r, x in rows.items()} for s, rows in ranks.items()},
        "shortcomings": {s: dict(x.counts) for s, x in short.items()},
        "wrong": {s: dict(x.counts) for s, x in wrong.items()},
        "refuted": [vars(r) for r in refuted],
    }
    parts = [_workload(work), *(_ranks(s, rows) for s, rows in ranks.items())]
    parts += [_shares("shortcomings, %", short)] + [_shares("wrong in, %", wrong)] * bool(wrong or not scale.own)
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


def _shares(title: str, found: dict[str, Shares]) -> str:
    names = next((tuple(x.counts) for x in found.values()), ())
    return table(
        [(title, *names, "reasons"), *((s, *map(_percent, x.shares.values()), x.total) for s, x in found.items())]
    )


def _percent(share: float) -> str:
    return "-" if share != share else f"{100 * share:.1f}"


def _refuted(found: list[Refuted], total: int, no: str) -> str:
    rows = [(r.caption, r.image, f"{r.refusals} of {r.answers}", r.text) for r in found]
    head = f"{total:,} original pairs that someone called {no}"
    more = "\nTo exclude one: limner annotate review STORE --exclude caption=ID --reason TEXT" if rows else ""
    return f"{head}\n{table([('caption', 'image', 'answers', 'text'), *rows])}{more}" if rows else head
