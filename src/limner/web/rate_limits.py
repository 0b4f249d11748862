"""Limits on guesses at passwords, after OWASP's "device cookies", and on repeated lines of the log.

A browser that has logged in to an account has a cookie for it, and an allowance of its own. All other browsers share
the allowance of their address and that of the account.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable

from starlette.exceptions import HTTPException


class Throttle:
    """Allows each key `burst` attempts at once, and then one every `every` seconds (generic cell rate algorithm).

    >>> now = [0.0]
    >>> slow = Throttle(2, 10.0, clock=lambda: now[0])
    >>> [slow.take("a") for _ in range(3)], slow.take("b")
    ([0.0, 0.0, 10.0], 0.0)
    >>> now[0] = 10.0; slow.take("a")
    0.0
    """

    def __init__(self, burst: int, every: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Starts without attempts."""
        self.burst, self.every, self.clock = burst, every, clock
        self._until: dict[str, float] = {}  # when the whole burst of a key is allowed again
        self._most = 1024
        self._lock = threading.Lock()

    def take(self, key: str) -> float:
        """Takes one attempt and returns 0; or takes none and returns the seconds until one is allowed."""
        with self._lock:
            time_now = self.clock()
            until = max(self._until.get(key, time_now), time_now)
            wait = round(until - time_now - (self.burst - 1) * self.every, 3)  # milliseconds
            if wait > 0:
                return wait
            self._until[key] = until + self.every
            if len(self._until) > self._most:
                self._until = {each: until for each, until in self._until.items() if until > time_now}
                self._most = max(1024, 2 * len(self._until))
            return 0.0

    def give_back(self, key: str) -> None:
        """Refunds an attempt, because it turned out not to count."""
        with self._lock:
            if key in self._until:
                self._until[key] -= self.every


def network_of(address: str) -> str:
    """The client of an address: the address itself, or for IPv6 the network that a provider assigns to one customer.

    >>> network_of("192.0.2.7"), network_of("2001:db8::7"), network_of("::ffff:192.0.2.7")
    ('192.0.2.7', '2001:db8::/64', '192.0.2.7')
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        plain = parsed.ipv4_mapped
        return str(plain) if plain else str(ipaddress.ip_network((int(parsed), 64), strict=False))
    return str(parsed)


class LoginTurns:
    """Limits guesses at passwords; a right password costs nothing.

    One address alone cannot use up the allowance of an account, since that comes back as fast and is larger.
    """

    def __init__(self) -> None:
        """Starts without attempts."""
        self.by_device = Throttle(10, 30.0)
        self.by_address = Throttle(10, 30.0)
        self.by_account = Throttle(50, 30.0)

    def take(self, name: str, address: str, device: str = "") -> Callable[[], None]:
        """Counts an attempt; refuses one too many.

        Args:
            name: The folded name of the account, whether it exists or not.
            address: Where the attempt comes from.
            device: The browser and the account that it is known to; empty for others.

        Returns:
            What takes the count back, to be called if the password was right.
        """
        limits = [(self.by_device, device)]
        if not device:
            limits = [(self.by_address, network_of(address)), (self.by_account, name)]
        counted: list[tuple[Throttle, str]] = []

        def give_back() -> None:
            for throttle, key in counted:
                throttle.give_back(key)

        for throttle, key in limits:
            seconds = math.ceil(throttle.take(key))
            if seconds:
                give_back()
                message = (
                    f"too many wrong passwords: wait {seconds} seconds and try again, or ask an admin for a link that "
                    f"lets you choose a new one"
                )
                raise HTTPException(429, message, headers={"Retry-After": str(seconds)})
            counted.append((throttle, key))
        return give_back


class BoundedLog(logging.Filter):
    """Allows each line of code `burst` messages at once, and then one every `every` seconds.

    Requests that the end of the server cuts off are left out: the server counts them itself.

    Args:
        burst: Number of messages at once.
        every: Seconds until one more is written, with the number of omitted ones.
        clock: A monotonic clock, in seconds.
    """

    def __init__(self, burst: int = 10, every: float = 30.0, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Starts empty."""
        super().__init__()
        self._throttle = Throttle(burst, every, clock=clock)
        self._skipped: Counter[str] = Counter()  # one entry per line of code that logs

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is written; the first one after omitted ones includes their number."""
        if _is_cancelled(record):
            return False
        line = f"{record.name} {record.pathname} {record.lineno}"
        if self._throttle.take(line):
            self._skipped[line] += 1
            return False
        skipped = self._skipped.pop(line, 0)
        if skipped:
            record.msg, record.args = f"{record.getMessage()} (and {skipped:,} times more before this)", ()
        return True


def _is_cancelled(record: logging.LogRecord) -> bool:
    """Whether a record is about a task that was cancelled; uvicorn reports its own as text."""
    if record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError):
        return True
    return record.getMessage().rstrip().endswith("\nasyncio.exceptions.CancelledError")


_bounded = BoundedLog()


def bound_logs() -> None:
    """Rate-limits the logs of the server."""
    for name in ("uvicorn.error", "asyncio", "limner.web"):
        logging.getLogger(name).addFilter(_bounded)
