"""Passwords: rules and hashing."""

from __future__ import annotations

import gzip
import re
import secrets
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING

from limner.core.errors import LimnerError
from limner.core.extras import require

if TYPE_CHECKING:
    from argon2 import PasswordHasher

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
