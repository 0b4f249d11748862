"""Rate limits for password attempts, with a fixed amount of memory that an attacker cannot flush."""

from __future__ import annotations

import hashlib
import ipaddress
import math
import secrets
import threading
import time
import unicodedata
from array import array
from collections.abc import Callable

from starlette.exceptions import HTTPException

NAME_LENGTH = 80
"""Maximum number of characters of a name."""


class Throttle:
    """Allows each key `burst` attempts at once, and then one every `every` seconds.

    Keys share counters that decrease only with time: two per key, chosen by a secret hash. A key must wait when both of
    its counters are full. Other keys cannot reset the counter of a key, no matter how many there are. Filling someone
    else's counters by chance takes about `burst` attempts per slot, within the time in which they decrease.

    Args:
        burst: Number of attempts at once.
        every: Seconds until one more is allowed.
        slots: Number of counters in each of two rows.
        clock: A monotonic clock, in seconds.

    >>> now = [0.0]
    >>> slow = Throttle(2, 10.0, clock=lambda: now[0])
    >>> [slow.take("a") for _ in range(3)], slow.take("b")
    ([0.0, 0.0, 10.0], 0.0)
    >>> now[0] = 10.0; slow.take("a")
    0.0
    """

    def __init__(
        self, burst: int, every: float, *, slots: int = 1 << 14, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Starts with empty counters."""
        self.burst, self.every, self.slots, self.clock = burst, every, slots, clock
        self._secret = secrets.token_bytes(16)
        self._taken = [array("d", bytes(8 * slots)) for _ in range(2)]
        self._at = [array("d", bytes(8 * slots)) for _ in range(2)]
        self._lock = threading.Lock()

    def take(self, key: str) -> float:
        """Takes one attempt and returns 0; or takes none and returns the seconds until one is allowed."""
        with self._lock:
            wait = self._wait(key)
            if wait == 0:
                self._add(key, 1.0)
            return wait

    def wait(self, key: str) -> float:
        """Seconds until an attempt is allowed."""
        with self._lock:
            return self._wait(key)

    def give_back(self, key: str) -> None:
        """Refunds the last attempt, because it turned out not to count."""
        with self._lock:
            self._add(key, -1.0)

    def _wait(self, key: str) -> float:
        taken = min(self._level(row, place) for row, place in enumerate(self._places(key)))
        return max(0.0, taken + 1 - self.burst) * self.every

    def _add(self, key: str, turns: float) -> None:
        for row, place in enumerate(self._places(key)):
            self._taken[row][place] = max(0.0, self._level(row, place) + turns)
            self._at[row][place] = self.clock()

    def _level(self, row: int, place: int) -> float:
        """The current level of a counter."""
        return max(0.0, self._taken[row][place] - (self.clock() - self._at[row][place]) / self.every)

    def _places(self, key: str) -> tuple[int, int]:
        mixed = hashlib.blake2b(key.encode(errors="replace"), digest_size=16, key=self._secret).digest()
        return int.from_bytes(mixed[:8]) % self.slots, int.from_bytes(mixed[8:]) % self.slots


def network_of(address: str) -> str:
    """The client of an address: the address itself, or for IPv6 the network that a provider assigns to one customer.

    >>> network_of("192.0.2.7"), network_of("2001:db8::7"), network_of("::ffff:192.0.2.7")
    ('192.0.2.7', '2001:db8::/64', '192.0.2.7')
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        plain = found.ipv4_mapped
        return str(plain) if plain else str(ipaddress.ip_network((int(found), 64), strict=False))
    return str(found)


def same_name(name: str) -> str:
    """The canonical form of a name, regardless of padding, Unicode composition and case.

    >>> same_name("  Ada ") == same_name("ada") != same_name("ada b")
    True
    """
    return unicodedata.normalize("NFKC", name.strip()[: 2 * NAME_LENGTH]).strip().casefold()


class LoginTurns:
    """Limits password attempts. A right password costs nothing; a wrong one counts for its address and account.

    A browser that has logged in to an account before has its own quota for it, independent of others. Everyone else has
    quotas by address, by account and address together, and, against guesses from many addresses, by account alone. So a
    stranger can use up neither the quota of a known browser nor that of another address.
    """

    def __init__(self) -> None:
        """Starts with empty counters."""
        self.by_address = Throttle(10, 6.0)
        self.by_both = Throttle(10, 30.0)
        self.by_account = Throttle(50, 30.0)
        self.by_device = Throttle(10, 30.0)

    def take(self, name: str, address: str, device: str = "") -> list[tuple[Throttle, str]]:
        """Charges the quotas for an attempt, and returns the refund for a right one; refuses if a quota is used up."""
        name, address = same_name(name), network_of(address)
        if device:
            cost = [(self.by_device, f"{device} {name}")]
        else:
            cost = [(self.by_address, address), (self.by_both, f"{address} {name}"), (self.by_account, name)]
        seconds = math.ceil(max(throttle.wait(key) for throttle, key in cost))
        if seconds:
            told = f"too many wrong passwords: wait {seconds} seconds and try again"
            raise HTTPException(429, told, headers={"Retry-After": str(seconds)})
        for throttle, key in cost:
            throttle.take(key)
        return cost
