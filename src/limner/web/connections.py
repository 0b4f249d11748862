"""Connections: limits on their number and on slow clients.

An idle connection costs an attacker nothing, so it must cost the server little as well. Every connection has a time
limit for the next step of its client: to complete the handshake and send a whole request, to send a body, to read the
response. If there are too many connections, the one that has kept the server waiting longest is dropped, first from the
address with the most connections. A connection whose request is being processed is never dropped.
"""

from __future__ import annotations

import errno
import heapq
import os
import socket
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from limner.core.errors import LimnerError

BACKLOG = 100
"""Listen backlog: under attack, new clients wait behind all of them."""
BURST = 16
"""Connections dropped at once, before the event loop serves others."""
RESERVED = 128
"""File descriptors for everything other than connections: the store, images, uploads."""
DESCRIPTORS = 4096
"""The file descriptor limit to request."""
_FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


@dataclass(frozen=True)
class Limits:
    """The maximum number of connections, and time limits for clients in seconds.

    Args:
        most: Maximum number of simultaneous connections.
        head: Seconds for a request with all its headers, from the first byte; includes the TLS handshake.
        body: Seconds for the body, and one more for every `rate` bytes received.
        rate: Minimum average rate of a body, in bytes per second.
        idle: Seconds between two requests.
        reader: Seconds until a client must have read its response.
        closing: Seconds until a closed connection must be gone.
    """

    most: int = 1000
    head: float = 10.0
    body: float = 20.0
    rate: float = 10_000.0
    idle: float = 15.0
    reader: float = 30.0
    closing: float = 5.0


@dataclass(eq=False)
class Open:
    """One connection: its client, the client's next step, and when it started."""

    sock: socket.socket
    address: str
    since: float
    protocol: Connection | None = None
    waits: str = "head"
    request: object = None
    before: int = 0
    dropped: bool = False

    @property
    def gone(self) -> bool:
        """Whether it is closed or closing."""
        return self.dropped or self.sock.fileno() < 0

    @property
    def received(self) -> int:
        """Total bytes received."""
        return 0 if self.protocol is None else self.protocol.received

    def look(self, now: float) -> None:
        """Updates the client's next step; a change restarts its timer."""
        waits, request = ("head", None) if self.protocol is None else self.protocol.waits_for()
        if (waits, request) != (self.waits, self.request):
            self.waits, self.request, self.before = waits, request, self.received
            self.since = now if self.protocol is None or waits in ("reader", "closing") else self.protocol.active

    def begun(self, limits: Limits) -> float:
        """When the current step started, adjusted for the bytes received at the minimum rate."""
        return self.since + ((self.received - self.before) / limits.rate if self.waits == "body" else 0.0)

    def until(self, limits: Limits) -> float:
        """When its time limit ends."""
        allowed = {
            "head": limits.head,
            "body": limits.body,
            "next": limits.idle,
            "reader": limits.reader,
            "closing": limits.closing,
        }
        return self.begun(limits) + allowed.get(self.waits, float("inf"))

    def drop(self) -> None:
        """Closes it immediately."""
        self.dropped = True
        if self.protocol is not None:
            self.protocol.transport.abort()
        else:  # in its handshake: the event loop closes it when it sees the end
            with suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)


class Connections:
    """Every connection of a server.

    Args:
        limits: The limits.
        clock: A monotonic clock, in seconds.
    """

    def __init__(self, limits: Limits | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Holds none."""
        self.limits, self.clock = limits or Limits(), clock
        self._open: dict[int, Open] = {}
        self._dropped: list[Open] = []

    def __len__(self) -> int:
        """The number of open connections."""
        return sum(not each.gone for each in self._open.values())

    @property
    def closing(self) -> int:
        """Number of dropped connections that still hold their file descriptor."""
        self._dropped = [each for each in self._dropped if each.sock.fileno() >= 0]
        return len(self._dropped)

    def came(self, sock: socket.socket, address: str) -> Open:
        """Registers an accepted connection."""
        opened = self._open[sock.fileno()] = Open(sock, address, self.clock())
        return opened

    def spoken_for(self, protocol: Connection) -> None:
        """Registers the protocol of a connection."""
        sock = protocol.transport.get_extra_info("socket")
        found = self._open.get(sock.fileno())
        if found is None or found.protocol is not None:  # an event loop that accepts connections itself
            found = self.came(sock, protocol.client[0] if protocol.client else "")
        found.protocol = protocol

    def make_room(self) -> bool:
        """Drops connections if there is no room for one more; returns False if all are active."""
        if len(self._open) < self.limits.most:
            return True
        self._forget_gone()
        return len(self._open) < self.limits.most or self.drop_some()

    def drop_some(self) -> bool:
        """Drops the slowest clients of the address with the most connections; returns False if there are none.

        One in 32 is dropped at a time, since finding them takes longer than dropping them.
        """
        now = self.clock()
        held = Counter(each.address for each in self._open.values())
        waiting = []
        for each in self._open.values():
            each.look(now)
            if each.waits != "nothing" and not each.gone:
                waiting.append((-held[each.address], each.begun(self.limits), each.sock.fileno(), each))
        for _, _, _, each in heapq.nsmallest(max(1, min(BURST, self.limits.most // 32)), waiting):
            self._drop(each)
        return bool(waiting)

    async def sweep(self) -> None:
        """Drops connections that timed out."""
        self._forget_gone()
        now = self.clock()
        for each in list(self._open.values()):
            each.look(now)
            if each.until(self.limits) <= now:
                self._drop(each)

    def _drop(self, opened: Open) -> None:
        opened.drop()
        self._dropped.append(opened)

    def _forget_gone(self) -> None:
        self._open = {number: each for number, each in self._open.items() if not each.gone}


class Connection(H11Protocol):
    """The HTTP protocol of one connection, which tracks the next step of its client."""

    held: Connections

    def __init__(self, *words: Any, **named: Any) -> None:
        """Starts without data."""
        super().__init__(*words, **named)
        self.received, self.active = 0, self.held.clock()

    def connection_made(self, transport: Any) -> None:
        """Attaches to a connection."""
        super().connection_made(transport)
        self.held.spoken_for(self)

    def data_received(self, data: bytes) -> None:
        """Counts received bytes."""
        self.received += len(data)
        self.active = self.held.clock()
        super().data_received(data)

    def on_response_complete(self) -> None:
        """Records when the response was complete."""
        self.active = self.held.clock()
        super().on_response_complete()

    def waits_for(self) -> tuple[str, object]:
        """The client's next step, and the request that it belongs to."""
        if self.transport.is_closing():
            return "closing", None
        if self.flow.write_paused:
            return "reader", self.cycle
        theirs = self.conn.their_state
        if theirs is h11.SEND_BODY and not self.flow.read_paused:
            return "body", self.cycle
        if theirs is h11.IDLE:
            begun = self.cycle is None or bool(self.conn.trailing_data[0])
            return "head" if begun else "next", self.cycle
        return "nothing", None


def protocol(held: Connections) -> type[Connection]:
    """A protocol class that reports to these connections."""

    class Held(Connection):
        pass

    Held.held = held
    return Held


class Gate(socket.socket):
    """A listening socket that counts connections.

    Running out of file descriptors is not an error here: a waiting client is dropped.
    """

    held: Connections
    _spare: int

    def accept(self) -> tuple[socket.socket, object]:
        """The next connection; if it had to be refused, raises as if there were none."""
        if self.held.closing >= BURST:
            raise BlockingIOError(errno.EAGAIN, "others have to be closed first")
        try:
            connection, address = super().accept()
        except OSError as error:
            if error.errno not in _FULL:
                raise
            if not self.held.drop_some():
                self._drain()
            raise BlockingIOError(errno.EAGAIN, "no file descriptor is free") from error
        if not self.held.make_room():
            _turn_away(connection)
            raise BlockingIOError(errno.EAGAIN, "every connection is active")
        self.held.came(connection, str(address[0]))
        return connection, address

    def _drain(self) -> None:
        """Closes the next connection, using the file descriptor reserved for this."""
        os.close(self._spare)
        try:
            with suppress(OSError):
                _turn_away(super().accept()[0])
        finally:
            self._spare = os.open(os.devnull, os.O_RDONLY)

    def close(self) -> None:
        """Closes the socket and the reserved file descriptor."""
        if self.fileno() >= 0:
            os.close(self._spare)
        super().close()


def _turn_away(connection: socket.socket) -> None:
    with suppress(OSError), connection:
        connection.setblocking(False)
        connection.send(_BUSY)


def listen(host: str, port: int, held: Connections) -> Gate:
    """Opens a listening socket, or raises a clear error."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With an explicit protocol, the event loop sends small responses at once; otherwise each waits 40 ms.
    gate = Gate(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    gate.held, gate._spare = held, os.open(os.devnull, os.O_RDONLY)
    gate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        gate.bind((host, port))
        gate.listen(BACKLOG)  # clients that connect before the server is ready wait instead of being refused
    except OSError as error:
        gate.close()
        raise LimnerError(
            f"cannot listen on {host}, port {port} ({error.strerror}): is a server running there? choose another --port"
        ) from error
    return gate


def affordable(wanted: int = DESCRIPTORS) -> Limits:
    """Limits that fit the available file descriptors, after requesting more of them from the system."""
    try:
        import resource
    except ImportError:  # not a Unix: no such limit
        return Limits()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    most = Limits.most if soft == resource.RLIM_INFINITY else min(Limits.most, max(16, soft - RESERVED))
    return Limits(most=most)
