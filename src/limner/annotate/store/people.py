"""People: annotators with roles, invitations, sessions, and links for lost passwords. Only hashes of tokens are stored.

A link for a lost password is signed with the secret of the store over the account, the time it expires, and the
password hash that it is to replace. So nothing is stored for it, and it is void once it is used, or the password is
changed in another way.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from limner.annotate.store import NotAllowed, Store
from limner.annotate.store.schema import ROLES, Row, annotator, inserted, invite, sa, session
from limner.core.errors import LimnerError, UnknownId, UnknownName

NAME_LENGTH = 80


@dataclass(frozen=True)
class Annotator:
    """An account that annotates, reviews or administers.

    Args:
        id: Its id in the store.
        name: Unique in the store, regardless of case and form.
        role: "annotator", "reviewer" or "admin".
        active: Whether the account may be used.
        password_hash: Computed by the page; None without a password.
    """

    id: int
    name: str
    role: str
    active: bool
    password_hash: str | None = None

    def may(self, role: str) -> bool:
        """Whether the account has this role or a higher one.

        >>> Annotator(1, "ada", "reviewer", True).may("annotator"), Annotator(1, "ada", "reviewer", True).may("admin")
        (True, False)
        """
        return self.active and ROLES.index(self.role) >= ROLES.index(_role(role))


def folded_name(name: str) -> str:
    """What names that differ only in case, Unicode form or padding have in common.

    >>> folded_name("  Ada ") == folded_name("ADA") != folded_name("Ada B")
    True
    """
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).strip()


def add_annotator(
    store: Store, name: str, *, role: str = "annotator", password_hash: str | None = None, existing: bool = False
) -> Annotator:
    """Adds an annotator; with `existing=True`, returns an existing annotator of that name."""
    with store.writing() as connection:
        if existing and (row := _same_name(connection, _name(name))) is not None:
            return Annotator(**row)
        return _added(store, connection, name, role, password_hash)


def annotator_ids(store: Store, names: Iterable[str]) -> dict[str, int]:
    """The ids of annotators by name; new ones are added, and two ways to write one name are refused."""
    written: dict[str, str] = {}
    for name in names:
        first = written.setdefault(folded_name(name), name)
        if first != name:
            raise LimnerError(f"{first!r} and {name!r} are one name: write it in one way")
    return {name: add_annotator(store, name, existing=True).id for name in written.values()}


def _added(store: Store, connection: sa.Connection, name: str, role: str, password_hash: str | None) -> Annotator:
    values: Row = {"name": _name(name), "role": _role(role), "active": True, "password_hash": password_hash}
    row = _same_name(connection, name)
    clash = (
        f"the annotator {values['name'] if row is None else row['name']!r} already exists: names that differ only in "
        f"case or form are one, so choose another"
    )
    if row is not None:
        raise LimnerError(clash)
    number = inserted(connection, annotator, clash, **values, folded=folded_name(name), added=store.timestamp())
    return Annotator(number, **values)


def _same_name(connection: sa.Connection, name: str) -> sa.RowMapping | None:
    return connection.execute(_people().where(annotator.c.folded == folded_name(name))).mappings().first()


def annotator_of(store: Store, annotator_id: int) -> Annotator:
    """One annotator by id."""
    person = _first(store, annotator.c.id == annotator_id)
    if person is None:
        raise UnknownId(f"no annotator {annotator_id}: see 'limner annotate status'")
    return person


def by_name(store: Store, name: str) -> Annotator | None:
    """One annotator by name, in any case or form; None if there is none."""
    return _first(store, annotator.c.folded == folded_name(name)) if _is_name(name.strip()) else None


def annotators(store: Store) -> list[Annotator]:
    """All annotators, in order of insertion."""
    return [Annotator(**row) for row in store.rows(_people().order_by(annotator.c.id))]


def set_password_hash(store: Store, annotator_id: int, password_hash: str) -> None:
    """Replaces the hash of a password, and ends the sessions opened with the old one."""
    with store.writing() as connection:
        _change(connection, annotator_id, password_hash=password_hash)
        _end_sessions(connection, annotator_id)


def replace_password_hash(store: Store, annotator_id: int, *, old: str | None, new: str) -> bool:
    """Replaces the hash of a password if it is still the old one, and ends the sessions; whether it did."""
    unchanged = annotator.c.password_hash.is_(None) if old is None else annotator.c.password_hash == old
    with store.writing() as connection:
        changed = sa.update(annotator).where(annotator.c.id == annotator_id, unchanged).values(password_hash=new)
        done = bool(connection.execute(changed).rowcount)
        if done:
            _end_sessions(connection, annotator_id)
    return done


def set_role(store: Store, annotator_id: int, role: str) -> None:
    """Changes the role; the last active admin keeps the role. Invitations by a former admin become void."""
    with store.writing() as connection:
        _change(connection, annotator_id, role=_role(role))
        if role != "admin":
            _revoke(store, connection, invite.c.by_id == annotator_id)


def set_active(store: Store, annotator_id: int, active: bool) -> None:
    """Activates or deactivates an account. Answers are kept; a deactivated account loses sessions and invitations."""
    with store.writing() as connection:
        _change(connection, annotator_id, active=active)
        _end_sessions(connection, annotator_id)
        if not active:
            _revoke(store, connection, invite.c.by_id == annotator_id)


def _end_sessions(connection: sa.Connection, annotator_id: int) -> None:
    connection.execute(sa.delete(session).where(session.c.annotator_id == annotator_id))


def _change(connection: sa.Connection, annotator_id: int, **values: object) -> None:
    done = connection.execute(sa.update(annotator).where(annotator.c.id == annotator_id).values(**values))
    if not done.rowcount:
        raise UnknownId(f"no annotator {annotator_id}")
    if values.get("role", "admin") != "admin" or values.get("active") is False:
        admins = sa.select(sa.func.count()).where(annotator.c.role == "admin", annotator.c.active)
        everyone = sa.select(sa.func.count()).where(annotator.c.password_hash.is_not(None))
        if connection.scalar(everyone) and not connection.scalar(admins):
            raise NotAllowed("the last admin must keep the role: make someone else an admin first")


# --- invitations and sessions -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Invite:
    """An invitation that can still be used: its id, role, author and expiry time (milliseconds).

    `by` is None for the invitation of the first admin.
    """

    id: int
    role: str
    by: str | None
    added: int
    expires: int


def make_invite(store: Store, *, role: str = "annotator", by: int | None = None, hours: float = 72) -> str:
    """Creates a token for one new account; it is shown once and only its hash is stored.

    Args:
        store: The store.
        role: Role of the new account.
        by: The admin who invites; without it, only the first admin can be invited.
        hours: How long the invitation is valid.
    """
    with store.writing() as connection:
        return _invited(store, connection, role, by, hours)


def _invited(store: Store, connection: sa.Connection, role: str, by: int | None, hours: float) -> str:
    token, timestamp = secrets.token_urlsafe(24), store.timestamp()
    values = {"token_hash": _hash(token), "role": _role(role), "by_id": by, "added": timestamp}
    connection.execute(sa.insert(invite).values(**values, expires=timestamp + int(hours * 3_600_000)))
    return token


def invite_first_admin(store: Store) -> str | None:
    """A token for the first admin's account, which revokes earlier ones; None if there is an admin."""
    with store.writing() as connection:
        if connection.scalar(_ADMIN) is not None:
            return None
        _revoke(store, connection, invite.c.by_id.is_(None), invite.c.role == "admin")
        return _invited(store, connection, "admin", None, HOURS)


def open_invites(store: Store) -> list[Invite]:
    """The invitations that can still be used, in order of insertion."""
    columns = (invite.c.id, invite.c.role, annotator.c.name.label("by"), invite.c.added, invite.c.expires)
    query = sa.select(*columns).outerjoin_from(invite, annotator, invite.c.by_id == annotator.c.id)
    return [Invite(**row) for row in store.rows(query.where(*_usable(store)).order_by(invite.c.id))]


def revoke_invite(store: Store, invite_id: int) -> None:
    """Revokes an invitation."""
    with store.writing() as connection:
        if not _revoke(store, connection, invite.c.id == invite_id):
            raise UnknownId(f"no open invitation {invite_id}: it was used, expired or revoked")


def _revoke(store: Store, connection: sa.Connection, *which: sa.ColumnElement[bool]) -> int:
    timestamp = store.timestamp()
    unused = (invite.c.used.is_(None), invite.c.expires > timestamp)
    return connection.execute(sa.update(invite).where(*which, *unused).values(expires=timestamp)).rowcount


def read_invite(store: Store, token: str) -> str:
    """The role of an invitation; refused if it is unknown, used or expired."""
    with store.reading() as connection:
        return str(_valid_invite(store, connection, token)["role"])


def use_invite(store: Store, token: str, name: str, *, password_hash: str) -> Annotator:
    """Creates the account for an invitation, once."""
    with store.writing() as connection:
        invitation = _valid_invite(store, connection, token, lock=True)
        account = _added(store, connection, name, invitation["role"], password_hash)
        used = {"used": store.timestamp(), "used_by_id": account.id}
        connection.execute(sa.update(invite).where(invite.c.id == invitation["id"]).values(**used))
        return account


def _valid_invite(store: Store, connection: sa.Connection, token: str, *, lock: bool = False) -> sa.RowMapping:
    query = sa.select(invite).where(invite.c.token_hash == _hash(token), *_usable(store))
    row = connection.execute(query.with_for_update() if lock else query).mappings().first()
    if row is None:
        raise NotAllowed("this invitation is unknown, used, revoked or expired: ask for a new one")
    return row


# An active admin with a password; without one, the server prints an invitation.
_person = annotator.alias()
_ADMIN = sa.select(_person.c.id).where(
    _person.c.role == "admin", _person.c.active, _person.c.password_hash.is_not(None)
)


def _usable(store: Store) -> tuple[sa.ColumnElement[bool], ...]:
    """Valid invitations: not used, not expired, by a current admin, or for the first admin."""
    host = annotator.alias()
    hosted = sa.exists().where(host.c.id == invite.c.by_id, host.c.active, host.c.role == "admin")
    nobody = sa.and_(invite.c.by_id.is_(None), sa.or_(invite.c.role != "admin", sa.not_(_ADMIN.exists())))
    return invite.c.used.is_(None), invite.c.expires > store.timestamp(), sa.or_(hosted, nobody)


def open_session(store: Store, annotator_id: int, *, hours: float = 12) -> str:
    """Creates a session token for an annotator; only its hash is stored."""
    token = secrets.token_urlsafe(32)
    timestamp = store.timestamp()
    values = {"token_hash": _hash(token), "annotator_id": annotator_id, "added": timestamp}
    with store.writing() as connection:
        connection.execute(sa.delete(session).where(session.c.expires <= timestamp))
        connection.execute(sa.insert(session).values(**values, expires=timestamp + int(hours * 3_600_000)))
    return token


def session_of(store: Store, token: str) -> Annotator | None:
    """The annotator of a session token; None if it is unknown or expired, or the account is not active."""
    joined = session.c.annotator_id == annotator.c.id
    query = _people().join(session, joined).where(session.c.token_hash == _hash(token))
    rows = store.rows(query.where(session.c.expires > store.timestamp(), annotator.c.active))
    return Annotator(**rows[0]) if rows else None


def close_session(store: Store, token: str) -> None:
    """Ends a session."""
    with store.writing() as connection:
        connection.execute(sa.delete(session).where(session.c.token_hash == _hash(token)))


def _people() -> sa.Select[tuple[int, str, str, bool, str | None]]:
    return sa.select(*(annotator.c[name] for name in ("id", "name", "role", "active", "password_hash")))


def _first(store: Store, condition: sa.ColumnElement[bool]) -> Annotator | None:
    rows = store.rows(_people().where(condition))
    return Annotator(**rows[0]) if rows else None


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _role(role: str) -> str:
    if role not in ROLES:
        raise UnknownName("role", role, ROLES)
    return role


def _name(name: str) -> str:
    cleaned = name.strip()
    if not _is_name(cleaned):
        raise LimnerError(f"annotator name {name[:NAME_LENGTH]!r}: expected 1 to {NAME_LENGTH} printable characters")
    return cleaned


def _is_name(name: str) -> bool:
    return 0 < len(name) <= NAME_LENGTH and name.isprintable()


HOURS = 24.0
"""How long a link is good."""
SECRET = "device secret"
"""The setting of a store that holds its secret."""


def secret_of(store: Store) -> bytes:
    """The secret of a store, made on first use."""
    return bytes.fromhex(store.set(SECRET, secrets.token_hex(32), replace=False))


def make_reset(store: Store, annotator_id: int, *, hours: float = HOURS) -> str:
    """A token that lets its owner choose a new password, once."""
    account = annotator_of(store, annotator_id)
    if not account.active:
        raise NotAllowed(f"the account of {account.name} is closed: open it first")
    expires = store.timestamp() + int(hours * 3_600_000)
    return f"{account.id}.{expires}.{_signed(store, account, expires)}"


def read_reset(store: Store, token: str) -> Annotator:
    """The person whose password a token resets; a forged, used or expired token is refused."""
    number, expires, mark = ([*token[:200].split("."), "", ""])[:3]
    if number.isdecimal() and expires.isdecimal() and len(number) < 16 and len(expires) < 16:
        account = _account_of(store, int(number))
        genuine = account is not None and hmac.compare_digest(
            mark.encode(), _signed(store, account, int(expires)).encode()
        )
        if account is not None and genuine and account.active and int(expires) > store.timestamp():
            return account
    raise NotAllowed("this link is unknown, used or expired: ask an admin for a new one")


def use_reset(store: Store, token: str, *, password_hash: str) -> Annotator:
    """Replaces the password, once: of two who use the same token, one is refused."""
    account = read_reset(store, token)
    if not replace_password_hash(store, account.id, old=account.password_hash, new=password_hash):
        raise NotAllowed("this link is used already: ask an admin for a new one")
    return account


def _account_of(store: Store, number: int) -> Annotator | None:
    try:
        return annotator_of(store, number)
    except UnknownId:
        return None


def _signed(store: Store, account: Annotator, expires: int) -> str:
    words = f"reset {account.id} {expires} {account.password_hash}".encode()
    return hmac.new(secret_of(store), words, hashlib.sha256).hexdigest()
