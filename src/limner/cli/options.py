"""Options shared by several commands, and how arguments are parsed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from limner.cli.attached_options import COMMAND_OPTIONS
from limner.cli.command_table import Json as Json
from limner.cli.command_table import Trust as Trust
from limner.cli.console import progress, tell, warn
from limner.core.errors import LimnerError, UnknownName
from limner.core.extras import require
from limner.core.options import OptionValues, truth
from limner.core.options import parsed_options as options
from limner.core.paths import JsonObject, refuse_unwritable

if TYPE_CHECKING:
    from limner.cluster import Cluster
    from limner.core.collection import Collection

Output = TypeVar("Output")


def word(about: str, *names: str, metavar: str = "NAME", **more: Any) -> Any:
    """An option with a value, shown with a metavar in the help."""
    return typer.Option(*names, metavar=metavar, help=about, **more)


def writable(value: Output) -> Output:
    """Refuses an output file or folder that cannot be written, when the command line is read."""
    return _writable(value, is_file=False)


def writable_file(value: Output) -> Output:
    """Refuses an output file that cannot be written, when the command line is read: before anything is loaded."""
    return _writable(value, is_file=True)


def writable_cache(folder: Path | None) -> Path | None:
    """Refuses a cache folder in which nothing can be written, when the command line is read."""
    if folder is not None:
        refuse_unwritable(folder / "part" if folder.is_dir() else folder, is_file=False)
    return folder


def writable_store(store: str) -> str:
    """Refuses a file of answers that cannot be written, when the command line is read: before systems are trained."""
    if not any(
        sign in store for sign in ("://", "@", "=")
    ):  # an address: opening it says what is wrong, without the password
        writable_file(store)
        if os.path.exists(store) and not os.access(store, os.W_OK):
            raise LimnerError(f"store {store}: no permission to write to this file")
    return store


def _writable(value: Output, *, is_file: bool) -> Output:
    for path in value if isinstance(value, (list, tuple)) else [value]:
        if path is not None:
            refuse_unwritable(Path(str(path)), is_file=is_file)
    return value


def installed_store(store: str | None) -> str | None:
    """Names what a store of answers needs, when the command line is read: before systems are trained."""
    if store is not None:
        require("sqlalchemy", "alembic", what="the store of answers")
        if store.startswith(("postgres:", "postgresql:", "postgresql+psycopg:")):
            require("psycopg", what="a store in PostgreSQL")
    return store


def installed_cluster(address: str | None) -> str | None:
    """Names what a cluster needs, when the command line is read."""
    if address is not None:
        require("ray", what="a cluster")
    return address


def out_word(about: str, *names: str, **more: Any) -> Any:
    """The option that names what to write: --output in all commands, unless it has other names."""
    return word(about, *(names or ("--output", "-o")), **{"metavar": "FILE", "callback": writable_file, **more})


def chosen_options(context: typer.Context) -> list[str]:
    """The names of the parameters that the user gave on the command line, in the order of the command."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]


def cache_word(about: str, show_default: str | bool = "none", **more: Any) -> Any:
    """An option that names a cache folder."""
    return word(about, metavar="DIR", show_default=show_default, callback=writable_cache, **more)


def flag(name: str, about: str) -> object:
    """A flag."""
    return typer.Option(name, metavar="", help=about)


Split = Annotated[str | None, word("Part of the collection, or all; the test split if there is one.")]
Loading = Annotated[
    list[str] | None,
    word(
        "Option of what is named just before: COLLECTION -O images=DIR. Repeatable.",
        "--option",
        "-O",
        metavar="NAME=VALUE",
    ),
]


Yes = Annotated[bool, flag("--yes", "Download the default model without asking.")]
Address = Annotated[
    str | None,
    word(
        "Compute on Ray: auto, local, host:port, ray://host:port.",
        "--cluster",
        metavar="ADDRESS",
        callback=installed_cluster,
    ),
]


@contextmanager
def on_cluster(address: str | None) -> Iterator[Cluster | None]:
    """Runs passes over scores on the given cluster, if any."""
    if address is None:
        yield None
        return
    import limner.cluster

    with ExitStack() as stack:
        with progress(f"joining the cluster {address}"):
            cluster = stack.enter_context(limner.cluster.connect(address))
        yield cluster


def loading(words: list[str] | None) -> OptionValues:
    """Parses NAME=VALUE options; a value is a number, true, false, null, a JSON list or object, or text.

    >>> loading(["images=photos", "seed=3", "graded=true"])
    {'images': 'photos', 'seed': 3, 'graded': True}
    """
    try:
        return options(words or (), what="--option")
    except LimnerError as error:
        raise typer.BadParameter(str(error)) from error


def number(options: JsonObject, name: str, default: float) -> Any:
    """A number among parsed options.

    >>> number({"seed": 3}, "seed", 0), number({}, "weight", 0.5)
    (3, 0.5)
    """
    value = options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int if isinstance(default, int) else (int, float)):
        raise typer.BadParameter(f"-O {name}={value}: expected a number such as {default}")
    return value


def whole_numbers(options: JsonObject, **least: int) -> None:
    """Refuses options that are not whole numbers, or are too small.

    >>> whole_numbers({"pooled": 18}, pooled=1, positives=0)
    """
    for name, low in least.items():
        value = options.get(name, low)
        if isinstance(value, bool) or not isinstance(value, int) or value < low:
            raise typer.BadParameter(f"-O {name}={value}: expected a whole number, {low} or more")


def named_options(words: list[str] | None, names: tuple[str, ...], of: str) -> OptionValues:
    """The -O options, parsed; refused if they have other names.

    Args:
        words: NAME=VALUE of each.
        names: The options that there are.
        of: What they belong to, for the message.
    """
    chosen, others = own_options(words, names)
    if others:
        raise UnknownName(f"option of {of}", others[0].partition("=")[0], names)
    return chosen


def command_options(words: list[str] | None, command: str) -> tuple[OptionValues, list[str]]:
    """The -O options of a command, parsed, and the others, which are those of the loader."""
    return own_options(words, COMMAND_OPTIONS[command])


def text_option(options: JsonObject, name: str) -> str | None:
    """An option that is a word; None if it is not given."""
    return None if name not in options else str(options[name])


def switch(options: JsonObject, name: str, *, default: bool = False) -> bool:
    """An option that is true or false.

    >>> switch({"informed": True}, "informed"), switch({}, "failures", default=True)
    (True, True)
    """
    value = truth(options.get(name, default))
    if value is None:
        raise typer.BadParameter(f"-O {name}={options[name]}: expected true or false")
    return value


def files_of(words: str) -> list[Path]:
    """The files of a value such as images.npy,texts.npy.

    >>> files_of("images.npy,texts.npy")
    [PosixPath('images.npy'), PosixPath('texts.npy')]
    """
    return [Path(words)] if Path(words).exists() else [Path(each) for each in words.split(",")]


def own_options(words: list[str] | None, names: tuple[str, ...]) -> tuple[OptionValues, list[str]]:
    """The -O options with these names, parsed, and the others, which are those of the loader."""
    own_words = [each for each in words or [] if each.partition("=")[0].strip() in names]
    return loading(own_words), [each for each in words or [] if each not in own_words]


def store_and_mode(estimate: str | None) -> tuple[str | None, str]:
    """The store of answers to a plan, and how estimated intervals are computed.

    >>> store_and_mode("work.db(mode=anytime)"), store_and_mode("work.db")
    (('work.db', 'anytime'), ('work.db', 'fixed'))
    """
    if estimate is None or not estimate.endswith(")"):
        return estimate, "fixed"
    store, _, options = estimate.removesuffix(")").rpartition("(")
    return store, str(loading([options]).get("mode", "fixed"))


def load(spec: str, words: list[str] | None, **options: Any) -> Collection:
    """Loads a collection, and shows the loader's warnings."""
    import limner

    with progress(f"loading {spec}"):
        loaded = limner.load(spec, **loading(words), **options)
    warn(loaded.warnings)
    return loaded


def part(collection: Collection, split: str | None) -> Collection:
    """The requested split; by default the test split if there is one."""
    from limner.systems.hold_out import part_of

    return part_of(collection, split)


WRITTEN_WITH = {".parquet": "pyarrow", ".pt": "torch", ".pth": "torch"}
"""The package that a file ending needs, in every command."""
FIGURES = (".pdf", ".svg", ".png")
"""File endings of figures for papers."""


def refuse_ending(files: list[Path] | None, endings: tuple[str, ...], kind: str) -> None:
    """Checks the ending of an output file before the work starts; `out_word` checks its folder."""
    for file in files or []:
        if file.suffix.lower() not in endings:
            raise LimnerError(f"{file} ends in {file.suffix!r}: a {kind} is written as {', '.join(endings)}")
        if file.suffix.lower() in WRITTEN_WITH:
            require(WRITTEN_WITH[file.suffix.lower()], what=f"writing {file}")
        if file.suffix.lower() in FIGURES and ".pdf" in endings:  # a chart that is an .svg alone is drawn without it
            require("matplotlib", what="a figure")


def refuse_report_ending(files: list[Path] | None) -> None:
    """Refuses file endings that reports do not support."""
    from limner.evaluation.reports.report import REPORT_FORMATS

    refuse_ending(files, tuple(REPORT_FORMATS), "report")


def by_ending(files: list[Path] | None, *endings: str) -> tuple[list[Path], list[Path]]:
    """The output files with one of these endings, and the others.

    >>> by_ending([Path("a.html"), Path("bank.npz")], ".npz")
    ([PosixPath('bank.npz')], [PosixPath('a.html')])
    """
    chosen = [file for file in files or [] if file.suffix.lower() in endings]
    return chosen, [file for file in files or [] if file not in chosen]


def saved(files: list[Path]) -> None:
    """Reports the files that were written."""
    for file in files:
        tell(f"wrote {file}")
