"""Logging in: invitations, passwords under a memory-hard hash, and a limit on how often anybody may try."""

from __future__ import annotations

import math
import threading
from functools import cache
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from limner.errors import LimnerError, MissingExtra
from limner.web.site import SESSION, Ask, Site, page, safe_next

if TYPE_CHECKING:
    from argon2 import PasswordHasher

LEAST, MOST = 10, 200
"""Characters of a password."""
DAYS = 7.0
"""How long a session lasts."""
_hashing = threading.BoundedSemaphore(2)  # so many hashes at once, whatever is sent: each takes memory on purpose


@cache
def hasher() -> PasswordHasher:
    """Argon2id with 19 MiB, two passes, one lane: OWASP's least, so that a small server can afford it."""
    try:
        from argon2 import PasswordHasher as Hasher
    except ImportError as error:
        raise MissingExtra("accounts", "argon2-cffi", "web") from error
    return Hasher(time_cost=2, memory_cost=19_456, parallelism=1)


@cache
def _nobody() -> str:
    """The hash of a password that nobody has: an unknown name takes as long as a known one."""
    import secrets

    return hasher().hash(secrets.token_urlsafe(24))


def hashed(password: str) -> str:
    """A password as it is kept; refused where it is too short to be one."""
    if not LEAST <= len(password) <= MOST:
        raise LimnerError(f"the password has {len(password)} characters: expected {LEAST} to {MOST}")
    with _hashing:
        return hasher().hash(password)


def fits(kept: str | None, password: str) -> bool:
    """Whether a password is the one that was hashed; takes as long where there is none."""
    from argon2.exceptions import InvalidHashError, VerificationError

    if len(password) > MOST:
        return False
    with _hashing:
        try:
            return hasher().verify(kept or _nobody(), password) and kept is not None
        except (VerificationError, InvalidHashError):
            return False


def login_page(ask: Ask) -> Response:
    """The form."""
    if not ask.site.team:
        return RedirectResponse("/", 303)
    return page(ask, "login.html", error="", next=safe_next(ask.get("next", "/")), given="")


def login(ask: Ask) -> Response:
    """Opens a session for a name and its password; says no more than that they do not fit together."""
    if not ask.site.team:
        raise LimnerError("there are no accounts here: the page is on this machine alone")
    name, there = ask.field("name").strip()[:80], safe_next(ask.field("next", "/"))
    _take_turn(ask.site, ask, name)
    from limner.annotate.store.people import by_name, open_session

    known = by_name(ask.site.store, name) if name.isprintable() else None
    if not fits(known.password_hash if known else None, ask.field("password")) or known is None or not known.active:
        return page(
            ask, "login.html", status=401, error="The name and the password do not fit.", next=there, given=name
        )
    ask.site.by_account.forgive(name.casefold())
    response = RedirectResponse(there, 303)
    ask.site.cookie(response, SESSION, open_session(ask.site.store, known.id, hours=24 * DAYS), days=DAYS)
    return response


def _take_turn(site: Site, ask: Ask, name: str) -> None:
    """Refuses before anything is looked up or hashed."""
    client = ask.request.client
    waits = (site.by_address.wait(client.host if client else ""), site.by_account.wait(name.casefold()))
    seconds = math.ceil(max(waits))
    if seconds:
        raise HTTPException(
            429, f"too many tries: wait {seconds} seconds and try again", headers={"Retry-After": str(seconds)}
        )


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
    """The form for a new account; refused without a good invitation."""
    from limner.annotate.store.people import read_invite

    token = ask.request.path_params["token"]
    return page(
        ask, "invite.html", role=_role(ask, read_invite(ask.site.store, token)), token=token, error="", given=""
    )


def accept(ask: Ask) -> Response:
    """Makes the account an invitation is for, and logs it in."""
    from limner.annotate.store.people import open_session, read_invite, use_invite

    token, name, password = ask.request.path_params["token"], ask.field("name"), ask.field("password")
    role = _role(ask, read_invite(ask.site.store, token))
    try:
        if password != ask.field("again"):
            raise LimnerError("the two passwords differ: write the same one twice")
        made = use_invite(ask.site.store, token, name, password_hash=hashed(password))
    except LimnerError as error:
        return page(ask, "invite.html", status=400, role=role, token=token, error=str(error), given=name[:80])
    response = RedirectResponse("/", 303)
    ask.site.cookie(response, SESSION, open_session(ask.site.store, made.id, hours=24 * DAYS), days=DAYS)
    return response


def _role(ask: Ask, role: str) -> str:
    if not ask.site.team:
        raise LimnerError("there are no accounts here: the page is on this machine alone")
    return role


def first_invitation(site: Site) -> str | None:
    """A token for the first admin, where there is none yet; there is no default password."""
    from limner.annotate.store.people import annotators, make_invite

    held = any(each.role == "admin" and each.active and each.password_hash for each in annotators(site.store))
    return None if held else make_invite(site.store, role="admin", hours=24)
