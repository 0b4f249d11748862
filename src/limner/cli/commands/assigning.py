"""limner annotate assign: tasks for one person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from limner.cli.commands.answers import Where, opened
from limner.cli.commands.people import named
from limner.cli.console import answer, table
from limner.cli.options import Json, flag, word
from limner.core.errors import count

if TYPE_CHECKING:
    from limner.annotate.store import Store


def assign(
    store: Where,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The annotator.", show_default=False)] = None,
    tasks: Annotated[int | None, word("Assign at most this many open tasks.", metavar="N", min=1)] = None,
    task: Annotated[list[int] | None, word("Assign this task, by number. Repeatable.", metavar="NUMBER")] = None,
    turn: Annotated[int | None, word("Only tasks of this round of pooling.", "--round", metavar="N", min=1)] = None,
    move: Annotated[
        str | None, word("Move the unfinished assigned tasks to someone else.", "--to", metavar="NAME")
    ] = None,
    release: Annotated[bool, flag("--release", "Let anyone take the unfinished assigned tasks.")] = False,
    as_json: Json = False,
) -> None:
    """Assign tasks to one annotator, who gets them first; move or release what is not finished; show who has what.

    One place of an assigned task is kept for its annotator, so the number of people per pair stays as it was. Answers
    are never lost.

    Examples:
      $ limner annotate assign work.db
      $ limner annotate assign work.db ada --tasks 5
      $ limner annotate assign work.db ada --task 3 --task 7
      $ limner annotate assign work.db ada --to bob
      $ limner annotate assign work.db ada --release
    """
    from limner.annotate.store.reservations import assigned_work

    wanted = [tasks is not None or turn is not None, bool(task), move is not None, release]
    if sum(wanted) > 1 or (name is None) == any(wanted):
        raise typer.BadParameter("give a NAME with one of --tasks or --round, --task, --to, --release; or nothing")
    with opened(store) as db:
        told = "" if name is None else _changed(db, name, tasks, task, turn, move)
        work = assigned_work(db)
    rows = [{"annotator": w.annotator, "assigned": w.assigned, "finished": w.finished, "left": w.left} for w in work]
    head = ("annotator", "assigned", "finished", "left")
    shown = table([head, *((w.annotator, w.assigned, w.finished, len(w.left)) for w in work)])
    lines = [told] * bool(told) + [shown if work else "no task is assigned"]
    answer("\n".join(lines), {"people": rows}, as_json=as_json)


def _changed(
    store: Store, name: str, number: int | None, tasks: list[int] | None, turn: int | None, move: str | None
) -> str:
    from limner.annotate.store.reservations import assign_tasks, move_tasks, release_tasks

    who = named(store, name)
    if number is not None or turn is not None or tasks:
        made = assign_tasks(store, who.id, number=number, tasks=tasks or None, turn=turn)
        return f"{count(len(made), 'task')} assigned to {who.name}"
    if move is not None:
        other = named(store, move)
        moved, freed = move_tasks(store, who.id, other.id)
        return f"{count(len(moved), 'task')} moved from {who.name} to {other.name}, {len(freed):,} released"
    return f"{count(len(release_tasks(store, who.id)), 'task')} of {who.name} released"
