"""One-time links for people who have lost their password.

A link is signed with the secret of the store over the account, the time it expires, and the password hash that it is
to replace. So nothing is stored for it, and it is void once it is used, or the password is changed in another way.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

from limner.annotate.store import NotAllowed, Store
from limner.annotate.store.people import Annotator, annotator_of, replace_password_hash
from limner.core.errors import UnknownId

HOURS = 24.0
"""How long a link is good."""
SECRET = "device secret"
"""The setting of a store that holds its secret."""


def secret_of(store: Store) -> bytes:
    """The secret of a store, made on first use."""
    return bytes.fromhex(store.set(SECRET, secrets.token_hex(32), replace=False))


def make_reset(store: Store, annotator_id: int, *, hours: float = HOURS) -> str:
    """A token that lets its owner choose a new password, once.

    Args:
        store: Where the account is.
        annotator_id: Whose password was lost.
        hours: How long the token is good.
    """
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
