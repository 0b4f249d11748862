"""Accounts: logging in, invitations, passwords, and rate limits on guessing."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING

from starlette.responses import RedirectResponse, Response

from limner.core.errors import LimnerError
from limner.web.passwords import RULE, fits, hashed
from limner.web.site import DEVICE, SESSION, Ask, page, safe_next

if TYPE_CHECKING:
    from limner.annotate.store.people import Annotator

DAYS = 7.0
"""How long a session lasts."""
KNOWN = 365.0
"""Days for which a browser counts as known after a login."""


def login_page(ask: Ask) -> Response:
    """The form."""
    if not ask.site.team:
        return RedirectResponse("/", 303)
    return page(ask, "login.html", error="", next=safe_next(ask.get("next", "/")), given="")


def login(ask: Ask) -> Response:
    """Opens a session for a name and password; an error message gives no details."""
    if not ask.site.team:
        raise LimnerError("there are no accounts here: the page is local")
    from limner.annotate.store.people import NAME_LENGTH, by_name, folded_name

    name, there = ask.field("name").strip(), safe_next(ask.field("next", "/"))
    person = by_name(ask.site.store, name)
    device = "" if person is None else _known_device(ask, person.id)
    give_back = ask.site.turns.take(folded_name(name[:NAME_LENGTH]), ask.address, device)
    right = fits(person.password_hash if person else None, ask.field("password"))
    if person is None or not person.active or not right:
        wrong = "Wrong name or password."
        return page(ask, "login.html", status=401, error=wrong, next=there, given=name[:NAME_LENGTH])
    give_back()
    return logged_in(ask, person, RedirectResponse(there, 303))


def logged_in(ask: Ask, person: Annotator, response: Response) -> Response:
    """Opens a session, and marks the browser as known for this account."""
    from limner.annotate.store.people import open_session

    ask.cookie(response, SESSION, open_session(ask.site.store, person.id, hours=24 * DAYS), days=DAYS)
    device = _known_device(ask, person.id).partition(" ")[2] or secrets.token_urlsafe(12)
    ask.cookie(response, f"{DEVICE}_{person.id}", f"{device}.{_signed(ask, f'{person.id} {device}')}", days=KNOWN)
    return response


def _known_device(ask: Ask, number: int) -> str:
    """The account and the browser if that has logged in to it before; otherwise empty."""
    device, _, mark = ask.request.cookies.get(f"{DEVICE}_{number}", "")[:200].partition(".")
    known = f"{number} {device}"
    return known if device and hmac.compare_digest(mark.encode(), _signed(ask, known).encode()) else ""


def _signed(ask: Ask, device: str) -> str:
    return hmac.new(ask.site.secret, f"device {device}".encode(errors="replace"), hashlib.sha256).hexdigest()


def logout(ask: Ask) -> Response:
    """Ends the session, here and on the server."""
    from limner.annotate.store.people import close_session

    token = ask.request.cookies.get(SESSION, "")
    if ask.site.team and token:
        close_session(ask.site.store, token)
    response = RedirectResponse("/login", 303)
    response.delete_cookie(SESSION, path="/")
    return response


def invitation(ask: Ask) -> Response:
    """The form for a new account; refused without a valid invitation."""
    from limner.annotate.store.people import read_invite

    token = ask.request.path_params["token"]
    role = _role(ask, read_invite(ask.site.store, token))
    return page(ask, "invite.html", role=role, token=token, error="", given="", rule=RULE)


def accept(ask: Ask) -> Response:
    """Creates the account for an invitation, and logs in."""
    from limner.annotate.store.people import NAME_LENGTH, read_invite, use_invite

    token, name = ask.request.path_params["token"], ask.field("name")
    role = _role(ask, read_invite(ask.site.store, token))
    try:
        made = use_invite(ask.site.store, token, name, password_hash=_new_password(ask, name))
    except LimnerError as error:
        given = name[:NAME_LENGTH]
        return page(ask, "invite.html", status=400, role=role, token=token, error=str(error), given=given, rule=RULE)
    return logged_in(ask, made, RedirectResponse("/", 303))


def _new_password(ask: Ask, name: str) -> str:
    """The hash of a password that was entered twice."""
    if ask.field("password") != ask.field("again"):
        raise LimnerError("the two passwords differ: enter the same one twice")
    return hashed(ask.field("password"), name=name)


def _role(ask: Ask, role: str) -> str:
    if not ask.site.team:
        raise LimnerError("there are no accounts here: the page is local")
    return role


def reset_page(ask: Ask) -> Response:
    """The form for a new password; refused without a valid link."""
    from limner.annotate.store.resets import read_reset

    token = ask.request.path_params["token"]
    _role(ask, "")
    return page(ask, "reset.html", name=read_reset(ask.site.store, token).name, token=token, error="", rule=RULE)


def reset(ask: Ask) -> Response:
    """Sets the new password, once, and logs in."""
    from limner.annotate.store.resets import read_reset, use_reset

    token = ask.request.path_params["token"]
    _role(ask, "")
    name = read_reset(ask.site.store, token).name
    try:
        chosen = _new_password(ask, name)
    except LimnerError as error:
        return page(ask, "reset.html", status=400, name=name, token=token, error=str(error), rule=RULE)
    whose = use_reset(ask.site.store, token, password_hash=chosen)
    return logged_in(ask, whose, RedirectResponse("/", 303))


def account_page(ask: Ask) -> Response:
    """The account page of the current user."""
    if not ask.site.team:
        return RedirectResponse("/", 303)
    return page(ask, "account.html", error="", told="", rule=RULE)


def change_password(ask: Ask) -> Response:
    """Changes the password, and ends all other sessions."""
    from limner.annotate.store.people import set_password_hash

    mine = ask.visitor.account
    if mine is None:
        raise LimnerError("there are no accounts here: the page is local")
    give_back = ask.site.turns.take("", ask.address, f"session {mine.id}")
    if not fits(mine.password_hash, ask.field("old")):
        return page(ask, "account.html", status=401, error="That is not your password.", told="", rule=RULE)
    give_back()
    try:
        set_password_hash(ask.site.store, mine.id, _new_password(ask, mine.name))
    except LimnerError as error:
        return page(ask, "account.html", status=400, error=str(error), told="", rule=RULE)
    told = "Your password has been changed. Log in again on your other devices."
    return logged_in(ask, mine, page(ask, "account.html", error="", told=told, rule=RULE))
