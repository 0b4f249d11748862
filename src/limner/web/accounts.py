"""Accounts: logging in, invitations, passwords; and what an admin does with the accounts of others."""

from __future__ import annotations

import gzip
import hashlib
import hmac
import re
import secrets
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from limner.annotate.store.people import (
    HOURS,
    NAME_LENGTH,
    Annotator,
    add_annotator,
    annotator_of,
    annotators,
    by_name,
    close_session,
    folded_name,
    make_invite,
    make_reset,
    open_invites,
    open_session,
    read_invite,
    read_reset,
    revoke_invite,
    set_active,
    set_password_hash,
    set_role,
    use_invite,
    use_reset,
)
from limner.core.errors import LimnerError
from limner.core.extras import require
from limner.web.judging import whole_number
from limner.web.site import DEVICE, NAME, SESSION, Ask, page, safe_next

if TYPE_CHECKING:
    from argon2 import PasswordHasher

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
    _refuse_without_team(ask)
    name, next_page = ask.field("name").strip(), safe_next(ask.field("next", "/"))
    person = by_name(ask.site.store, name)
    device = "" if person is None else _known_device(ask, person.id)
    give_back = ask.site.turns.take(folded_name(name[:NAME_LENGTH]), ask.address, device)
    right = fits(person.password_hash if person else None, ask.field("password"))
    if person is None or not person.active or not right:
        wrong = "Wrong name or password."
        return page(ask, "login.html", status=401, error=wrong, next=next_page, given=name[:NAME_LENGTH])
    give_back()
    return logged_in(ask, person, RedirectResponse(next_page, 303))


def logged_in(ask: Ask, person: Annotator, response: Response) -> Response:
    """Opens a session, and marks the browser as known for this account."""
    ask.cookie(response, SESSION, open_session(ask.site.store, person.id, hours=24 * DAYS), days=DAYS)
    device = _known_device(ask, person.id).partition(" ")[2] or secrets.token_urlsafe(12)
    ask.cookie(response, f"{DEVICE}_{person.id}", f"{device}.{_signed(ask, f'{person.id} {device}')}", days=KNOWN)
    return response


def _known_device(ask: Ask, number: int) -> str:
    """The account and the browser if that has logged in to it before; otherwise empty."""
    device, _, mark = ask.request.cookies.get(f"{DEVICE}_{number}", "")[:200].partition(".")
    account_device = f"{number} {device}"
    return (
        account_device if device and hmac.compare_digest(mark.encode(), _signed(ask, account_device).encode()) else ""
    )


def _signed(ask: Ask, device: str) -> str:
    return hmac.new(ask.site.secret, f"device {device}".encode(errors="replace"), hashlib.sha256).hexdigest()


def name(ask: Ask) -> Response:
    """Stores the name of a local user."""
    if ask.site.team:
        raise LimnerError("in team mode your account identifies you")
    chosen = add_annotator(ask.site.store, ask.field("name"), existing=True).name
    response = RedirectResponse("/", 303)
    ask.cookie(response, NAME, quote(chosen, safe=""), days=365)
    return response


def logout(ask: Ask) -> Response:
    """Ends the session, here and on the server."""
    token = ask.request.cookies.get(SESSION, "")
    if ask.site.team and token:
        close_session(ask.site.store, token)
    response = RedirectResponse("/login", 303)
    response.delete_cookie(SESSION, path="/")
    return response


def invitation(ask: Ask) -> Response:
    """The form for a new account; refused without a valid invitation."""
    token = ask.request.path_params["token"]
    role = read_invite(ask.site.store, token)
    _refuse_without_team(ask)
    return page(ask, "invite.html", role=role, token=token, error="", given="", rule=RULE)


def accept(ask: Ask) -> Response:
    """Creates the account for an invitation, and logs in."""
    token, name = ask.request.path_params["token"], ask.field("name")
    role = read_invite(ask.site.store, token)
    _refuse_without_team(ask)
    try:
        annotator = use_invite(ask.site.store, token, name, password_hash=_new_password(ask, name))
    except LimnerError as error:
        name_sent = name[:NAME_LENGTH]
        return page(
            ask, "invite.html", status=400, role=role, token=token, error=str(error), given=name_sent, rule=RULE
        )
    return logged_in(ask, annotator, RedirectResponse("/", 303))


def _new_password(ask: Ask, name: str) -> str:
    """The hash of a password that was entered twice."""
    if ask.field("password") != ask.field("again"):
        raise LimnerError("the two passwords differ: enter the same one twice")
    return hashed(ask.field("password"), name=name)


def _refuse_without_team(ask: Ask) -> None:
    if not ask.site.team:
        raise LimnerError("there are no accounts here: start with --team")


def reset_page(ask: Ask) -> Response:
    """The form for a new password; refused without a valid link."""
    token = ask.request.path_params["token"]
    _refuse_without_team(ask)
    return page(ask, "reset.html", name=read_reset(ask.site.store, token).name, token=token, error="", rule=RULE)


def reset(ask: Ask) -> Response:
    """Sets the new password, once, and logs in."""
    token = ask.request.path_params["token"]
    _refuse_without_team(ask)
    name = read_reset(ask.site.store, token).name
    try:
        chosen = _new_password(ask, name)
    except LimnerError as error:
        return page(ask, "reset.html", status=400, name=name, token=token, error=str(error), rule=RULE)
    annotator = use_reset(ask.site.store, token, password_hash=chosen)
    return logged_in(ask, annotator, RedirectResponse("/", 303))


def account_page(ask: Ask) -> Response:
    """The account page of the current user."""
    if not ask.site.team:
        return RedirectResponse("/", 303)
    return page(ask, "account.html", error="", message="", rule=RULE)


def change_password(ask: Ask) -> Response:
    """Changes the password, and ends all other sessions."""
    account = ask.visitor.account
    if account is None:
        raise LimnerError("there are no accounts here: start with --team")
    give_back = ask.site.turns.take("", ask.address, f"session {account.id}")
    if not fits(account.password_hash, ask.field("old")):
        return page(ask, "account.html", status=401, error="That is not your password.", message="", rule=RULE)
    give_back()
    try:
        set_password_hash(ask.site.store, account.id, _new_password(ask, account.name))
    except LimnerError as error:
        return page(ask, "account.html", status=400, error=str(error), message="", rule=RULE)
    message = "Your password has been changed. Log in again on your other devices."
    return logged_in(ask, account, page(ask, "account.html", error="", message=message, rule=RULE))


# --- what an admin does ------------------------------------------------------------------------------------------


def accounts_of(ask: Ask) -> dict[str, object]:
    """All accounts, and the unused invitations."""
    return {"accounts": annotators(ask.site.store), "invitations": open_invites(ask.site.store)}


def make_invitation(ask: Ask) -> Response:
    """Creates an invitation; its URL is shown once."""
    _refuse_without_team(ask)
    role = ask.field("role", "annotator")
    token = make_invite(ask.site.store, role=role, by=ask.site.annotator(ask.visitor))
    about = "Send this address to one person. It works once, for three days, and is shown only now."
    return _once(ask, f"An invitation for one {role}", about, link=f"{ask.base}invite/{token}")


def revoke_invitation(ask: Ask) -> Response:
    """Revokes an invitation."""
    _refuse_without_team(ask)
    revoke_invite(ask.site.store, whole_number(ask.field("invitation"), "invitation"))
    return RedirectResponse("/admin#accounts", 303)


def open_or_close(ask: Ask) -> Response:
    """Opens or closes an account."""
    number, active = _other_account(ask), ask.field("active") == "yes"
    set_active(ask.site.store, number, active)
    return RedirectResponse("/admin#accounts", 303)


def change_role(ask: Ask) -> Response:
    """Changes the role of an account."""
    set_role(ask.site.store, _other_account(ask), ask.field("role"))
    return RedirectResponse("/admin#accounts", 303)


def replace_password(ask: Ask) -> Response:
    """Creates a new password for someone who has lost theirs; it is shown once."""
    annotator = annotator_of(ask.site.store, _other_account(ask))
    new_password = random_password()
    set_password_hash(ask.site.store, annotator.id, hashed(new_password, name=annotator.name))
    about = (
        f"Give it to {annotator.name}, who should change it after logging in. It is shown only now. "
        f"Whoever was logged in as {annotator.name} is logged out."
    )
    return _once(ask, f"A new password for {annotator.name}", about, password=new_password)


def make_reset_link(ask: Ask) -> Response:
    """Makes a link with which somebody who has lost their password chooses a new one; it is shown once."""
    annotator = annotator_of(ask.site.store, _other_account(ask))
    token = make_reset(ask.site.store, annotator.id)
    about = (
        f"Send this address to {annotator.name}, who chooses a new password there. It works once, for {HOURS:g} hours, "
        "and is shown only now. Until then the old password stays."
    )
    return _once(ask, f"A link for {annotator.name}", about, link=f"{ask.base}reset/{token}")


def _once(ask: Ask, title: str, about: str, *, link: str = "", password: str = "") -> Response:
    """A page that shows an address or a password, which is not shown again, to copy."""
    field, label = ("link", "Address") if link else ("made", "Password")
    return page(ask, "once.html", title=title, about=about, field=field, label=label, value=link or password)


def _other_account(ask: Ask) -> int:
    """The id of an account other than the user's own."""
    _refuse_without_team(ask)
    number = whole_number(ask.field("annotator"), "annotator")
    if number == ask.site.annotator(ask.visitor):
        raise LimnerError("this is your own account: ask another admin, or change your password under your name")
    return number


LEAST, MOST = 10, 200
"""Minimum and maximum length of a password."""
DIFFERENT = 5
"""Minimum number of different characters."""
RULE = (
    f"at least {LEAST} characters, {DIFFERENT} of them different; not your name, and none of the passwords that many "
    "people use, with or without digits around it. Three or four unrelated words work well"
)
"""The password rule as text."""
_AROUND = re.compile(r"^[\W\d_]+|[\W\d_]+$")
_LOOKS_LIKE = str.maketrans("@4301!$57", "aaeoiisst")


@cache
def hasher() -> PasswordHasher:
    """Argon2id with 19 MiB, two passes, one lane: OWASP's minimum, which a small server can afford."""
    require("argon2", what="accounts")
    from argon2 import PasswordHasher as Hasher

    return Hasher(time_cost=2, memory_cost=19_456, parallelism=1)


@cache
def _nobody() -> str:
    """The hash of a dummy password, so that unknown names take as long as known ones."""
    return hasher().hash(secrets.token_urlsafe(24))


def hashed(password: str, *, name: str) -> str:
    """The hash of a new password; weak passwords are refused."""
    refuse_weak(password, name)
    return hasher().hash(password)


def fits(password_hash: str | None, password: str) -> bool:
    """Whether a password matches a hash; takes the same time if there is no hash."""
    from argon2.exceptions import InvalidHashError, VerificationError

    if len(password) > MOST:
        return False
    try:
        return hasher().verify(password_hash or _nobody(), password) and password_hash is not None
    except (VerificationError, InvalidHashError):
        return False


def refuse_weak(password: str, name: str) -> None:
    """Refuses a weak password, with the reason.

    >>> refuse_weak("correct horse battery", "ada")
    >>> refuse_weak("Password2024!", "ada")
    Traceback (most recent call last):
    ...
    limner.core.errors.LimnerError: the password is a common password, ...
    """
    why = _weakness(password, name)
    if why:
        raise LimnerError(f"the password {why}; expected {RULE}")


def _weakness(password: str, name: str) -> str:
    plain, called = password.casefold(), name.strip().casefold()
    if not LEAST <= len(password) <= MOST:
        return f"has {len(password)} characters, not {LEAST} to {MOST}"
    if len(set(plain)) < DIFFERENT:
        return f"has {len(set(plain))} different characters"
    if len(called) >= 3 and (called in plain or called[::-1] in plain):
        return "holds your name"
    if len({ord(b) - ord(a) for a, b in pairwise(plain)}) == 1:
        return "is a sequence of consecutive characters"
    inner = _AROUND.sub("", plain)
    if {plain, inner, inner.translate(_LOOKS_LIKE)} & _common():
        return "is a common password, or close to one"
    return ""


@cache
def _common() -> frozenset[str]:
    """Common passwords."""
    lines = gzip.decompress(files("limner.web").joinpath("common_passwords.txt.gz").read_bytes()).decode().splitlines()
    return frozenset(line for line in lines if not line.startswith("#"))


def random_password() -> str:
    """A password for someone who has lost theirs: twenty letters and digits, 99 bits, easy to read out.

    >>> len(random_password())
    24
    """
    letters = "abcdefghijkmnpqrstuvwxyz23456789"
    return "-".join("".join(secrets.choice(letters) for _ in range(4)) for _ in range(5))
