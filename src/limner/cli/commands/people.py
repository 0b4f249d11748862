"""limner annotate people: accounts and invitations of a store, who gets which tasks, and whose answers count."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from limner.cli.commands.answers import Where, opened
from limner.cli.console import answer, table, tell
from limner.cli.options import Json, flag, named_options, whole_numbers, word
from limner.core.errors import LimnerError, UnknownId, count
from limner.core.options import OptionValues

if TYPE_CHECKING:
    from limner.annotate.store import Store
    from limner.annotate.store.people import Annotator


COMMANDS: dict[str, object] = {}  # a group of annotate
app = typer.Typer(no_args_is_help=True, help="Accounts, assigned tasks, and the review of answers.")


@app.command("list")
def people(
    store: Where,
    role: Annotated[
        list[str] | None, word("Give a role: annotator, reviewer or admin. Repeatable.", metavar="NAME=ROLE")
    ] = None,
    password: Annotated[
        str | None,
        word("Set a new password, from a prompt or standard input; ends all sessions.", metavar="NAME"),
    ] = None,
    reset: Annotated[
        str | None, word("Make a one-time link to a new password; with --url, the whole address.", metavar="NAME")
    ] = None,
    url: Annotated[str | None, word("Address of the page, for --reset.", metavar="URL")] = None,
    close: Annotated[
        list[str] | None, word("Close an account; its answers are kept. Repeatable.", metavar="NAME")
    ] = None,
    reopen: Annotated[list[str] | None, word("Reopen an account. Repeatable.", "--open", metavar="NAME")] = None,
    revoke: Annotated[
        list[str] | None, word("Revoke an invitation by number, or all of them. Repeatable.", metavar="NUMBER|all")
    ] = None,
    as_json: Json = False,
) -> None:
    """List accounts and open invitations; change roles and passwords, close accounts, revoke invitations.

    Examples:
      $ limner annotate people list work.db
      $ limner annotate people list work.db --role ada=reviewer
      $ limner annotate people list work.db --password ada
      $ limner annotate people list work.db --reset ada --url https://labels.example.org
      $ limner annotate people list work.db --close bob --revoke all
    """
    from limner.annotate.store.people import annotators, open_invites, set_active, set_role

    with opened(store) as db:
        for name, new_role in map(_assigned, role or []):
            set_role(db, named(db, name).id, new_role)
        for name in close or []:
            set_active(db, named(db, name).id, False)
        for name in reopen or []:
            set_active(db, named(db, name).id, True)
        for word_ in revoke or []:
            _revoke(db, word_)
        if password is not None:
            _set_password(db, named(db, password))
        if reset is not None:
            tell(_reset_link(db, named(db, reset), url or ""))
        accounts, invites = annotators(db), open_invites(db)
    listed = [
        {"name": a.name, "role": a.role, "open": a.active, "password": a.password_hash is not None} for a in accounts
    ]
    waiting = [
        {"number": i.id, "role": i.role, "by": i.by, "until": datetime.fromtimestamp(i.expires / 1000, UTC).isoformat()}
        for i in invites
    ]
    answer(_account_tables(listed, waiting), {"accounts": listed, "invitations": waiting}, as_json=as_json)


def _account_tables(accounts: list[dict[str, object]], invites: list[OptionValues]) -> str:
    if not accounts and not invites:
        return "no accounts and no invitations"
    rows = [(a["name"], a["role"], _state(a)) for a in accounts]
    parts = [table([("name", "role", "account"), *rows])]
    if invites:
        open_ = [(i["number"], i["role"], i["by"] or "the first start", i["until"][:16]) for i in invites]
        parts.append(table([("invitation", "role", "by", "until (UTC)"), *open_]))
    return "\n\n".join(parts)


def _state(account: dict[str, object]) -> str:
    return ("open" if account["open"] else "closed") + ("" if account["password"] else ", no password")


def _assigned(word: str) -> tuple[str, str]:
    name, equals, role = word.rpartition("=")
    if not equals or not name:
        raise typer.BadParameter(f"--role got {word!r}: expected NAME=ROLE, e.g. ada=reviewer")
    return name, role


def named(store: Store, name: str) -> Annotator:
    """The annotator with a name; refused if there is none."""
    from limner.annotate.store.people import by_name

    annotator = by_name(store, name)
    if annotator is None:
        raise UnknownId(f"no account {name!r}: 'limner annotate people list' lists them")
    return annotator


def _revoke(store: Store, word: str) -> None:
    from limner.annotate.store.people import open_invites, revoke_invite

    if word != "all" and not (word.isascii() and word.isdigit() and len(word) < 10):
        raise typer.BadParameter(f"--revoke got {word!r}: expected the number of an invitation, or all")
    for number in [each.id for each in open_invites(store)] if word == "all" else [int(word)]:
        revoke_invite(store, number)


def _reset_link(store: Store, account: Annotator, url: str) -> str:
    from limner.annotate.store.people import HOURS, make_reset

    link = f"{url.rstrip('/')}/reset/{make_reset(store, account.id)}"
    return f"{account.name} chooses a new password once, within {HOURS:g} hours, at {link}"


def _set_password(store: Store, account: Annotator) -> None:
    from limner.annotate.store.people import set_password_hash
    from limner.web.accounts import hashed

    if sys.stdin.isatty():
        new_password = typer.prompt(
            f"New password for {account.name}", hide_input=True, confirmation_prompt=True, err=True
        )
    else:
        new_password = sys.stdin.readline().rstrip("\n")
    if not new_password:
        raise LimnerError("no password was given: type one, or send one line on standard input")
    set_password_hash(store, account.id, hashed(new_password, name=account.name))
    tell(f"the password of {account.name} is changed; all their sessions have ended")


# --- tasks of one person ----------------------------------------------------------------------------------------


@app.command()
def assign(
    store: Where,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The annotator.", show_default=False)] = None,
    tasks: Annotated[int | None, word("Assign at most this many open tasks.", metavar="N", min=1)] = None,
    task: Annotated[list[int] | None, word("Assign this task, by number. Repeatable.", metavar="NUMBER")] = None,
    option: Annotated[
        list[str] | None, word("round=N: only tasks of this round of pooling.", "--option", "-O", metavar="NAME=VALUE")
    ] = None,
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
      $ limner annotate people assign work.db
      $ limner annotate people assign work.db ada --tasks 5
      $ limner annotate people assign work.db ada --task 3 --task 7
      $ limner annotate people assign work.db ada --to bob
      $ limner annotate people assign work.db ada --release
    """
    from limner.annotate.store.reservations import assigned_work

    settings = named_options(option, ("round",), of="assign")
    whole_numbers(settings, round=1)
    turn = settings.get("round")
    actions = [tasks is not None or turn is not None, bool(task), move is not None, release]
    if sum(actions) > 1 or (name is None) == any(actions):
        raise typer.BadParameter("give a NAME with one of --tasks or -O round=N, --task, --to, --release; or nothing")
    with opened(store) as db:
        change = "" if name is None else _changed(db, name, tasks, task, turn, move)
        work = assigned_work(db)
    rows = [{"annotator": w.annotator, "assigned": w.assigned, "finished": w.finished, "left": w.left} for w in work]
    head = ("annotator", "assigned", "finished", "left")
    work_table = table([head, *((w.annotator, w.assigned, w.finished, len(w.left)) for w in work)])
    lines = [change] * bool(change) + [work_table if work else "no task is assigned"]
    answer("\n".join(lines), {"people": rows}, as_json=as_json)


def _changed(
    store: Store, name: str, number: int | None, tasks: list[int] | None, turn: int | None, move: str | None
) -> str:
    from limner.annotate.store.reservations import assign_tasks, move_tasks, release_tasks

    annotator = named(store, name)
    if number is not None or turn is not None or tasks:
        assigned = assign_tasks(store, annotator.id, number=number, tasks=tasks or None, turn=turn)
        return f"{count(len(assigned), 'task')} assigned to {annotator.name}"
    if move is not None:
        recipient = named(store, move)
        moved, freed = move_tasks(store, annotator.id, recipient.id)
        return f"{count(len(moved), 'task')} moved from {annotator.name} to {recipient.name}, {len(freed):,} released"
    return f"{count(len(release_tasks(store, annotator.id)), 'task')} of {annotator.name} released"


# --- review ---------------------------------------------------------------------------------------------------


@app.command()
def review(
    store: Where,
    assignment: Annotated[int | None, typer.Argument(metavar="NUMBER", help="The task to decide on.")] = None,
    accept: Annotated[bool, flag("--accept", "Its answers count.")] = False,
    reject: Annotated[
        bool, flag("--reject", "Its answers no longer count, and the task goes to someone else.")
    ] = False,
    reason: Annotated[str | None, word("The reason; it is stored.", metavar="TEXT")] = None,
    exclude_below: Annotated[
        float | None,
        word("Exclude annotators with a lower share of correct controls, e.g. 0.7.", metavar="SHARE", min=0, max=1),
    ] = None,
    exclude: Annotated[
        list[str] | None, word("Exclude image=ID, caption=ID or annotator=NAME, with --reason.", metavar="KIND=ID")
    ] = None,
    as_json: Json = False,
) -> None:
    """List finished tasks with a wrong control, or accept or reject one of them; or exclude bad items.

    Examples:
      $ limner annotate people review work.db
      $ limner annotate people review work.db 12 --reject --reason "both controls wrong"
      $ limner annotate people review work.db --exclude-below 0.7
      $ limner annotate people review work.db --exclude caption=248212 --reason "says that there is no image"
    """
    from limner.annotate import quality

    if accept and reject:
        raise typer.BadParameter("give either --accept or --reject, not both")
    with opened(store) as db:
        if assignment is not None:
            if not (accept or reject) or not reason:
                raise typer.BadParameter("give --accept or --reject, and --reason TEXT")
            quality.review(db, assignment, "accept" if accept else "reject", reason=reason)
        aside = quality.set_aside(db, threshold=exclude_below) if exclude_below is not None else []
        out = _excluded(db, exclude or [], reason)
        queue = quality.review_queue(db)
    rows = [
        {"number": d.assignment, "annotator": d.annotator, "wrong": len(d.wrong), "controls": d.controls,
         "pairs": [f"{a.image} | {a.caption}: {a.grade} ({a.role})" for a in d.wrong],
         "comments": [a.comment for a in d.wrong if a.comment]}
        for d in queue
    ]  # fmt: skip
    listed = [f"{r['number']:6}  {r['annotator']}: {r['wrong']} of {r['controls']} controls wrong" for r in rows]
    lines = [f"annotators excluded: {', '.join(aside) or 'none'}"] if exclude_below is not None else []
    lines += [f"excluded: {', '.join(out)}"] if out else []
    data = {"queue": rows, "set_aside": aside, "taken_out": out}
    answer("\n".join([*lines, *listed] or ["nothing to review"]), data, as_json=as_json)


def _excluded(store: Store, words: list[str], reason: str | None) -> list[str]:
    from limner.annotate.store.exclusions import exclude

    for each in words:
        kind, equals, target = each.partition("=")
        if not equals or kind not in ("image", "caption", "annotator"):
            raise typer.BadParameter(f"--exclude got {each!r}: expected image=ID, caption=ID or annotator=NAME")
        if not reason:
            raise typer.BadParameter("--exclude needs --reason TEXT, which is stored")
        exclude(store, kind, target, reason=reason)
    return words
