"""Starting a server: what is wrong is said before it starts, and where it is once it has."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limner.errors import LimnerError, MissingExtra

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from limner.collection import Collection

SYSTEMS = ("histograms", "colours")
STORE = "limner-answers.db"
PORT = 8765


@dataclass(frozen=True)
class Address:
    """Where a server is.

    Args:
        url: What to open.
        store: Where answers are kept.
        invitation: The address that makes the first admin's account; None where there is one, or no team.
    """

    url: str
    store: str
    invitation: str | None = None


def serve(
    collections: Sequence[str | Collection] | str = "scenes",
    *,
    systems: Mapping[str, str] | Sequence[str] = SYSTEMS,
    matrices: Mapping[str, Path] | None = None,
    store: str | Path = STORE,
    host: str = "127.0.0.1",
    port: int = PORT,
    team: bool = False,
    certificate: Path | None = None,
    key: Path | None = None,
    options: Mapping[str, Any] | None = None,
    trust: bool = False,
    started: Callable[[Address], None] | None = None,
) -> None:
    """Serves pages for searching, looking at failures and judging, until it is interrupted.

    Args:
        collections: What `limner.load` takes, or collections.
        systems: Systems to train when a page asks for them, files of models, or "module:thing"; by name.
        matrices: Files of similarities, images by texts, by the name that pages use.
        store: Where answers are kept: a file for SQLite, or postgresql://...
        host: Other machines reach it only with `team`.
        port: 0 for any that is free.
        team: Accounts by invitation; without it, whoever is at this machine.
        certificate: For https, with `key`.
        key: For https.
        options: Of the collections' loader.
        trust: Whether files of models may name code of their own.
        started: Called with the address once it is known.
    """
    from limner.web.security import refuse_open

    refuse_open(host, team=team)
    if (certificate is None) != (key is None):
        raise LimnerError("a certificate and its key belong together: give both or neither")
    app = make_app(
        collections,
        systems=systems,
        matrices=matrices,
        store=store,
        team=team,
        https=key is not None,
        options=options,
        trust=trust,
    )
    with closing(_bound(host, port)) as listening:
        if started is not None:
            started(_address(app, host, listening.getsockname()[1], str(store)))
        _run(app, listening, certificate, key)


def make_app(
    collections: Sequence[str | Collection] | str = "scenes",
    *,
    systems: Mapping[str, str] | Sequence[str] = SYSTEMS,
    matrices: Mapping[str, Path] | None = None,
    store: str | Path = STORE,
    team: bool = False,
    https: bool = False,
    options: Mapping[str, Any] | None = None,
    trust: bool = False,
) -> Starlette:
    """The ASGI application that `serve` runs; arguments as there."""
    try:
        from limner.web.app import application
        from limner.web.library import Library
        from limner.web.site import Site
    except ImportError as error:
        if isinstance(error, MissingExtra) or (error.name or "").startswith("limner"):
            raise
        raise MissingExtra("the page", error.name or "starlette", "web") from error
    listed = [collections] if isinstance(collections, str) else list(collections)
    named = systems if isinstance(systems, Mapping) else {_short(name): name for name in systems}
    library = Library(_named(listed, dict(options or {})), named, matrices=matrices, options=options, trust=trust)
    return application(Site(library, str(store), team=team, https=https))


def _short(name: str) -> str:
    """What pages call a system: the name of its file, not the way to it."""
    return Path(name).stem if "/" in name or Path(name).suffix == ".npz" else name


def _named(listed: Sequence[str | Collection], options: dict[str, Any]) -> dict[str, str | Collection]:
    """Collections by name. One that has to be read is read now, so that what is wrong is said now."""
    from limner.datasets import DATASETS, load

    drawn = {entry.name for entry in DATASETS if not entry.needs_path}
    found: dict[str, str | Collection] = {}
    for each in listed:
        given = load(each, **options) if isinstance(each, str) and each not in drawn else each
        name = given if isinstance(given, str) else given.name
        if name in found:
            raise LimnerError(f"two collections are called {name!r}: serve them apart, or rename one")
        found[name] = given
    return found


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(128)  # whoever comes between the address and the first page waits, and is not refused
    except OSError as error:
        listening.close()
        raise LimnerError(
            f"cannot listen on {host}, port {port} ({error.strerror}): is a server running there? choose another --port"
        ) from error
    return listening


def _address(app: Starlette, host: str, port: int, store: str) -> Address:
    from limner.annotate.store import without_password

    site, store = app.state.site, without_password(store)
    shown = f"[{host}]" if ":" in host else host
    url = f"http{'s' if site.https else ''}://{shown}:{port}/"
    if not site.team:
        return Address(url, store)
    from limner.web.accounts import first_invitation

    token = first_invitation(site)
    return Address(url, store, None if token is None else f"{url}invite/{token}")


def _run(app: Starlette, listening: socket.socket, certificate: Path | None, key: Path | None) -> None:
    import uvicorn

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        timeout_graceful_shutdown=3,
    )
    uvicorn.Server(config).run(sockets=[listening])
