"""limner serve: web pages for search, failures and annotation."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from limner.cli.console import answer, progress, tell
from limner.cli.inputs import as_features
from limner.cli.options import (
    Json,
    Loading,
    Trust,
    Yes,
    chosen_options,
    command_options,
    flag,
    loading,
    text_option,
    word,
    writable_store,
)
from limner.cli.photo_folders import is_photo_folder, open_photo_folder
from limner.core.errors import LimnerError

if TYPE_CHECKING:
    from limner.search import Index
    from limner.web import Address

STORE = "Store of the answers: a file, or postgresql://user@host/name."
Certificate = Annotated[Path | None, word("For https, with --key.", metavar="FILE")]
Key = Annotated[Path | None, word("For https.", metavar="FILE")]
Url = Annotated[str | None, word("Public URL, e.g. https://judge.example.org, used in links.")]
Matrices = Annotated[
    list[str] | None,
    word("Or a similarity matrix, images by texts: NAME=FILE.npy. Repeatable.", metavar="NAME=FILE"),
]
Where = Annotated[str, word(STORE, metavar="WHERE", callback=writable_store)]
Host = Annotated[str, word("Address to listen on; other than localhost needs --team.", metavar="HOST")]
ForAgent = Annotated[
    bool, flag("--mcp", "Instead of pages, tools for an agent (MCP) on standard input and output; they only read.")
]
Indexes = Annotated[
    list[str] | None,
    word("Also serve an index of 'limner index': DIR or NAME=DIR. Repeatable.", metavar="[NAME=]DIR"),
]
Corrections = Annotated[
    list[str] | None,
    word("A custom correction: module:class. Repeatable.", metavar="HOW", show_default="none"),
]
Proxy = Annotated[
    list[str] | None,
    word(
        "A proxy in front of this server, whose X-Forwarded-For and -Proto are trusted. Repeatable.", metavar="ADDRESS"
    ),
]
Places = Annotated[
    list[str] | None,
    typer.Argument(metavar="COLLECTION", help="Collections ('limner list datasets'), folders of photographs, indexes."),
]
Models = Annotated[
    list[str] | None,
    word(
        "A model by name, its folder, a system to train, or module:thing. Repeatable.",
        "--model",
        show_default="histograms, colours",
    ),
]


def serve(
    context: typer.Context,
    collections: Places = None,
    system: Models = None,
    scores: Matrices = None,
    index: Indexes = None,
    correct: Corrections = None,
    store: Where = "limner-answers.db",
    host: Host = "127.0.0.1",
    port: Annotated[int, word("0 for any free port.", metavar="N", min=0, max=65535)] = 8765,
    team: Annotated[bool, flag("--team", "Accounts by invitation; prints the first admin's invitation.")] = False,
    certificate: Certificate = None,
    key: Key = None,
    url: Url = None,
    proxy: Proxy = None,
    yes: Yes = False,
    show: Annotated[bool, flag("--open", "Open the page in a browser.")] = False,
    mcp: ForAgent = False,
    option: Loading = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Serve web pages to search, inspect failures and judge pairs; local by default.

    Stop it with Ctrl-C. Answers are on disk before the page shows them as saved. With --mcp an agent gets the tools
    search, evaluate, compare and describe instead.

    Examples:
      $ limner serve scenes --open
      $ limner serve flickr8k:DIR --model histograms --store answers.db
      $ limner serve captions.csv --scores mine=similarity.npy
      $ limner serve photos/ --open
      $ limner serve photos.index captions.index
      $ limner serve scenes --team --host 0.0.0.0
      $ limner serve scenes --team --url https://judge.example.org --proxy 127.0.0.1
      $ limner serve --mcp
    """
    if mcp:
        return _serve_agent(chosen_options(context), trust=trust)
    from limner.web import serve as run

    own, loader = command_options(option, "serve")
    features = text_option(own, "features")
    data_sets, indexes = _divided(collections or [], _named(index), system, features, yes=yes, trust=trust)
    with ExitStack() as opening:
        opening.enter_context(progress("opening collections and indexes"))
        run(
            data_sets or ([] if indexes else ["scenes"]), systems=system or ("histograms", "colours"),
            matrices=_files(scores), features=as_features(features), store=store, host=host, port=port, team=team,
            certificate=certificate, key=key, url=url, proxies=proxy or (), options=loading(loader),
            corrections=correct or (), trust=trust, indexes=indexes,
            started=_started(opening, show=show, as_json=as_json),
        )  # fmt: skip
    return None


def _serve_agent(chosen: list[str], *, trust: bool) -> None:
    """Serves an agent until its input ends; refuses options of the pages."""
    from limner.cli.agent_server import INSTRUCTIONS, agent_tools, serve_agent

    unused = [name for name in chosen if name not in ("mcp", "trust", "as_json")]
    if unused:
        raise typer.BadParameter(
            f"{' and '.join(unused)} with --mcp: tools take what they read as arguments; leave it out"
        )
    serve_agent(agent_tools(trust=trust), instructions=INSTRUCTIONS)


def _started(opening: ExitStack, *, show: bool, as_json: bool) -> Callable[[Address], None]:
    """What to do when the server runs: the progress of opening collections ends, and its address is printed."""

    def started(address: Address) -> None:
        opening.close()
        _say(address, as_json=as_json)
        if show:
            typer.launch(address.url)

    return started


def _divided(
    places: list[str],
    indexes: dict[str, str],
    models: list[str] | None,
    features: str | None,
    *,
    yes: bool,
    trust: bool,
) -> tuple[list[str], dict[str, str | Index]]:
    """The collections, and all indexes by name: those of photographs are made, or brought up to date."""
    from limner.datasets import detect

    opened: dict[str, str | Index] = dict(indexes)
    data_sets = []
    for place in places:
        folder, name = Path(place), Path(place).resolve().name
        source: str | Index
        if (folder / "items.lance").is_dir():
            name, source = folder.resolve().stem, place
        elif is_photo_folder(place) and detect(place).name == "images":  # with captions it is a collection
            model = models[0] if models else None
            source = open_photo_folder(place, model, features=features, yes=yes, trust=trust).index
        else:
            data_sets.append(place)
            continue
        if name in opened:
            raise typer.BadParameter(f"two indexes are called {name!r}: name one with --index NAME=DIR")
        opened[name] = source
    return data_sets, opened


def _named(words: list[str] | None) -> dict[str, str]:
    """Parses [NAME=]DIR values; by default an index has the name of its folder."""
    parts = [each.partition("=") for each in words or []]
    named = [(name, path) if equals else (Path(name.rstrip("/")).stem, name) for name, equals, path in parts]
    if len(dict(named)) < len(named):
        raise typer.BadParameter("two indexes have the same name: name them with --index NAME=DIR")
    return dict(named)


def _files(words: list[str] | None) -> dict[str, Path]:
    """Parses NAME=FILE values; a missing file is refused before the server starts."""
    files = {}
    for each in words or []:
        name, equals, file = each.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"--scores got {each!r}: expected NAME=FILE, e.g. mine=similarity.npy")
        if not Path(file).is_file():
            raise LimnerError(f"no similarity matrix {file}: expected an .npy file, images by texts")
        files[name] = Path(file)
    return files


def _say(address: Address, *, as_json: bool) -> None:
    lines = [f"serving at {address.url} (Ctrl-C stops); answers go to {address.store}"]
    if address.invitation is not None:
        lines.append(f"create the first admin's account within a day: {address.invitation}")
    if as_json:
        answer("", vars(address), as_json=True)
    else:
        for line in lines:
            tell(line)
    import sys

    sys.stdout.flush()
