"""limner annotate people: accounts and invitations of a store, for its administrator."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from limner.cli.commands.answers import Where, opened
from limner.cli.console import answer, table, tell
from limner.cli.options import Json, word
from limner.core.errors import LimnerError, UnknownId

if TYPE_CHECKING:
    from limner.annotate.store import Store
    from limner.annotate.store.people import Annotator


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
      $ limner annotate people work.db
      $ limner annotate people work.db --role ada=reviewer
      $ limner annotate people work.db --password ada
      $ limner annotate people work.db --reset ada --url https://labels.example.org
      $ limner annotate people work.db --close bob --revoke all
    """
    from limner.annotate.store.people import annotators, open_invites, set_active, set_role

    with opened(store) as db:
        for name, given in map(_assigned, role or []):
            set_role(db, named(db, name).id, given)
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
    answer(_shown(listed, waiting), {"accounts": listed, "invitations": waiting}, as_json=as_json)


def _shown(accounts: list[dict[str, object]], invites: list[dict[str, Any]]) -> str:
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

    found = by_name(store, name)
    if found is None:
        raise UnknownId(f"no account {name!r}: 'limner annotate people' lists them")
    return found


def _revoke(store: Store, word: str) -> None:
    from limner.annotate.store.people import open_invites, revoke_invite

    if word != "all" and not (word.isascii() and word.isdigit() and len(word) < 10):
        raise typer.BadParameter(f"--revoke got {word!r}: expected the number of an invitation, or all")
    for number in [each.id for each in open_invites(store)] if word == "all" else [int(word)]:
        revoke_invite(store, number)


def _reset_link(store: Store, account: Annotator, url: str) -> str:
    from limner.annotate.store.resets import HOURS, make_reset

    link = f"{url.rstrip('/')}/reset/{make_reset(store, account.id)}"
    return f"{account.name} chooses a new password once, within {HOURS:g} hours, at {link}"


def _set_password(store: Store, account: Annotator) -> None:
    from limner.annotate.store.people import set_password_hash
    from limner.web.passwords import hashed

    if sys.stdin.isatty():
        given = typer.prompt(f"New password for {account.name}", hide_input=True, confirmation_prompt=True, err=True)
    else:
        given = sys.stdin.readline().rstrip("\n")
    if not given:
        raise LimnerError("no password was given: type one, or send one line on standard input")
    set_password_hash(store, account.id, hashed(given, name=account.name))
    tell(f"the password of {account.name} is changed; all their sessions have ended")


COMMANDS: dict[str, object] = {}  # a subcommand of annotate
