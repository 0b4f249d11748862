"""Account administration: invitations, closing accounts, roles, and lost passwords."""

from __future__ import annotations

from typing import Any

from starlette.responses import RedirectResponse, Response

from limner.core.errors import LimnerError
from limner.web.judging import whole
from limner.web.passwords import hashed, random_password
from limner.web.site import Ask, page

BACK = "/admin#accounts"


def accounts_of(ask: Ask) -> dict[str, Any]:
    """All accounts, and the unused invitations."""
    from limner.annotate.store.people import annotators, open_invites

    return {"accounts": annotators(ask.site.store), "invitations": open_invites(ask.site.store)}


def invite(ask: Ask) -> Response:
    """Creates an invitation; its URL is shown once."""
    from limner.annotate.store.people import make_invite

    _refuse_alone(ask)
    role = ask.field("role", "annotator")
    token = make_invite(ask.site.store, role=role, by=ask.site.annotator(ask.visitor))
    about = "Send this address to one person. It works once, for three days, and is shown only now."
    return _once(ask, f"An invitation for one {role}", about, link=f"{ask.base}invite/{token}")


def revoke(ask: Ask) -> Response:
    """Revokes an invitation."""
    from limner.annotate.store.people import revoke_invite

    _refuse_alone(ask)
    revoke_invite(ask.site.store, whole(ask.field("invitation"), "invitation"))
    return RedirectResponse(BACK, 303)


def account(ask: Ask) -> Response:
    """Opens or closes an account."""
    from limner.annotate.store.people import set_active

    number, active = _other(ask), ask.field("active") == "yes"
    set_active(ask.site.store, number, active)
    return RedirectResponse(BACK, 303)


def role(ask: Ask) -> Response:
    """Changes the role of an account."""
    from limner.annotate.store.people import set_role

    set_role(ask.site.store, _other(ask), ask.field("role"))
    return RedirectResponse(BACK, 303)


def password(ask: Ask) -> Response:
    """Creates a new password for someone who has lost theirs; it is shown once."""
    from limner.annotate.store.people import annotator_of, set_password_hash

    whose = annotator_of(ask.site.store, _other(ask))
    made = random_password()
    set_password_hash(ask.site.store, whose.id, hashed(made, name=whose.name))
    about = (
        f"Give it to {whose.name}, who should change it after logging in. It is shown only now. Whoever was logged in "
        f"as {whose.name} is logged out."
    )
    return _once(ask, f"A new password for {whose.name}", about, password=made)


def reset(ask: Ask) -> Response:
    """Makes a link with which somebody who has lost their password chooses a new one; it is shown once."""
    from limner.annotate.store.people import annotator_of
    from limner.annotate.store.resets import HOURS, make_reset

    whose = annotator_of(ask.site.store, _other(ask))
    token = make_reset(ask.site.store, whose.id)
    about = (
        f"Send this address to {whose.name}, who chooses a new password there. It works once, for {HOURS:g} hours, and "
        "is shown only now. Until then the old password stays."
    )
    return _once(ask, f"A link for {whose.name}", about, link=f"{ask.base}reset/{token}")


def _once(ask: Ask, title: str, about: str, *, link: str = "", password: str = "") -> Response:
    """A page that shows an address or a password, which is not shown again, to copy."""
    field, label = ("link", "Address") if link else ("made", "Password")
    return page(ask, "once.html", title=title, about=about, field=field, label=label, value=link or password)


def _other(ask: Ask) -> int:
    """The id of an account other than the user's own."""
    _refuse_alone(ask)
    number = whole(ask.field("annotator"), "annotator")
    if number == ask.site.annotator(ask.visitor):
        raise LimnerError("this is your own account: ask another admin, or change your password under your name")
    return number


def _refuse_alone(ask: Ask) -> None:
    if not ask.site.team:
        raise LimnerError("there are no accounts here: start with --team")
