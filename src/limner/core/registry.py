"""The registry: names for things that are imported only when they are asked for, and the options these things take.

Data sets, encoders, systems, corrections, measures, fusions, losses and pair scorers are each a `Registry`. A person at
the command line or in Python may write "module:thing" in place of a name, so a thing of one's own needs no
registration; `register` gives it a name for the life of the process. A file may not name "module:thing": what a model,
index, store or data set names is found in the registry or refused, unless its owner says that the file is trusted.
Importing a module is running it.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import importlib.util
import inspect
import os
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from limner.core.errors import LimnerError, UnknownName, Untrusted

T = TypeVar("T")
Thing = TypeVar("Thing")
_PLAIN = (str, int, float, bool, list, tuple, dict, type(None))


class Registry(Mapping[str, Thing]):
    """Named things of one kind.

    Args:
        what: What the names stand for, in messages: "correction".
        homes: Where each built-in thing is, as "module:thing"; imported on first use.
        filled: Arguments at the start of a thing that are given by position and are no options.

    >>> readers: Registry[Callable[[str], Any]] = Registry("reader", {"json": "json:loads"})
    >>> readers["json"]("[1]"), readers.find("math:sqrt")(4.0)
    ([1], 2.0)
    >>> @readers.register("upper")
    ... def upper(text: str) -> str:
    ...     return text.upper()
    >>> list(readers), readers.name_of(upper)
    (['json', 'upper'], 'upper')
    >>> readers.find("jsn")
    Traceback (most recent call last):
    limner.core.errors.UnknownName: unknown reader 'jsn': did you mean 'json'?
    """

    def __init__(self, what: str, homes: Mapping[str, str], *, filled: int = 0) -> None:
        self.what = what
        self.homes = dict(homes)
        self.filled = filled
        self._own: dict[str, Thing] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Gives a thing of one's own a name: `@corrections.register("mine")`."""
        if not isinstance(name, str) or not name or ":" in name:
            raise LimnerError(f"{self.what} {name!r}: expected a name without a colon")
        if name in self:
            raise LimnerError(f"{self.what} {name!r} is registered already: choose another name")

        def keep(thing: T) -> T:
            self._own[name] = typing.cast(Thing, thing)
            return thing

        return keep

    def find(self, name: str, *, trusted: bool = True) -> Thing:
        """The thing of a name, imported now.

        Args:
            name: A name of the registry, or "module:thing".
            trusted: Whether "module:thing" may be imported. False for a name that was read from a file.

        >>> Registry("reader", {}).find("json:loads", trusted=False)
        Traceback (most recent call last):
        limner.core.errors.Untrusted: reader 'json:loads' is named by a file, and is code from outside...
        """
        if not isinstance(name, str):
            raise LimnerError(f"{self.what} {name!r} is {type(name).__name__}: expected a name")
        if name in self._own:
            return self._own[name]
        module, colon, thing = self.homes.get(name, name).partition(":")
        if not colon or not module or not thing:
            raise UnknownName(self.what, name, self)
        if not trusted and name not in self.homes:
            raise Untrusted(self.what, name, self)
        return typing.cast(Thing, _imported(name, module, thing, self.what))

    def make(self, name: str, options: Mapping[str, Any], *, trusted: bool = True) -> Any:
        """The thing of a name, called with options; unknown options and values of another type are refused."""
        thing: Any = self.find(name, trusted=trusted)
        return thing(**self.checked(name, options, trusted=trusted))

    def checked(self, name: str, options: Mapping[str, Any], *, trusted: bool = True) -> dict[str, Any]:
        """The options of a thing, checked: see `checked`."""
        thing: Any = self.find(name, trusted=trusted)
        return checked(thing, options, what=f"{self.what} {name!r}", filled=self.filled)

    def name_of(self, thing: Any) -> str:
        """The name of a thing; "module:thing" for one that was never registered."""
        home = f"{thing.__module__}:{thing.__qualname__}"
        named = [name for name, place in self.homes.items() if place == home]
        named += [name for name, own in self._own.items() if own is thing]
        return named[0] if named else home

    def finds(self, thing: Any) -> bool:
        """Whether the name of a thing leads back to it, in this process."""
        try:
            return self.find(self.name_of(thing)) is thing
        except LimnerError:
            return False

    def about(self, name: str) -> Entry:
        """What is told of one thing; imports it."""
        thing: Any = self.find(name)
        doc = (inspect.getdoc(thing) or "").strip()
        options = options_of(thing, filled=self.filled) if callable(thing) else ()
        return Entry(name, doc, options)

    def summaries(self) -> dict[str, str]:
        """The first line of the documentation of every thing; read without importing what is not imported yet.

        >>> Registry("reader", {"json": "json:loads"}).summaries()["json"][:11]
        'Deserialize'
        """
        docs = {name: _documented(place) for name, place in self.homes.items()}
        docs |= {name: inspect.getdoc(own) or "" for name, own in self._own.items()}
        return {name: doc.strip().partition("\n")[0] for name, doc in docs.items()}

    def __getitem__(self, name: str) -> Thing:
        if name not in self:
            raise KeyError(name)
        return self.find(name)

    def __contains__(self, name: object) -> bool:
        return name in self.homes or name in self._own

    def __iter__(self) -> Iterator[str]:
        yield from self.homes
        yield from self._own

    def __len__(self) -> int:
        return len(self.homes) + len(self._own)


def _imported(name: str, module: str, thing: str, what: str) -> Any:
    if not all(part.isidentifier() for part in module.split(".")):
        raise LimnerError(f"{what} {name!r}: {module!r} is no name of a module")
    try:
        found = _module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # the module is there, but something that it needs is not
        raise LimnerError(
            f"{what} {name!r}: there is no module {module!r}; expected 'module:thing' or a known name. Is it "
            "installed, in this folder, or on PYTHONPATH?"
        ) from error
    except SyntaxError as error:
        raise LimnerError(f"{what} {name!r}: module {module!r} is not valid Python: {error}") from error
    if not hasattr(found, thing):
        raise LimnerError(f"{what} {name!r}: module {module!r} has no {thing!r}; check the name after the colon")
    return getattr(found, thing)


def _documented(place: str) -> str:
    """The documentation of "module:thing", from the source; nothing where it has none or is not at hand."""
    module, _, thing = place.partition(":")
    try:
        spec = importlib.util.find_spec(module)
    except ImportError:  # the package says that something it needs is not installed
        return ""
    if spec is None or spec.origin is None:
        return ""
    with open(spec.origin, encoding="utf-8") as file:
        defined = {getattr(node, "name", None): node for node in ast.parse(file.read()).body}
    node = defined.get(thing)
    return (ast.get_docstring(node) or "") if isinstance(node, ast.ClassDef | ast.FunctionDef) else ""


def _module(name: str) -> types.ModuleType:
    """A module that is installed, or else one of the current folder, as for a script that is started there."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        here = os.getcwd()
        if error.name != name.partition(".")[0] or here in sys.path:
            raise
        sys.path.append(here)
        try:
            importlib.invalidate_caches()
            return importlib.import_module(name)
        finally:
            sys.path.remove(here)


def refuse_code(values: Mapping[str, Any], *, where: object) -> None:
    """Refuses "module:thing" anywhere in the options that a file gives, before anything can import it.

    >>> refuse_code({"device": "cuda:1", "features": "photos.npy"}, where="options.toml")
    >>> refuse_code({"features": {"encoder": "os:system"}}, where="options.toml")
    Traceback (most recent call last):
    limner.core.errors.Untrusted: option features.encoder in options.toml 'os:system' is named by a file, ...
    """
    for path, value in _strings(values, ""):
        module, _, thing = value.partition(":")
        if module and thing and not set(value) & set("/\\") and path.rpartition(".")[2] != "device":
            raise Untrusted(f"option {path} in {where}", value, ())


def _strings(value: Any, path: str) -> Iterable[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, held in value.items():
            yield from _strings(held, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        for held in value:
            yield from _strings(held, path)


# --- options ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Option:
    """One option of a thing.

    Args:
        name: The keyword.
        hint: What it may be, as the annotation says; `Any` where it says nothing.
        default: What it is when it is not given; `...` where that is not known.
        required: Whether it must be given.
    """

    name: str
    hint: Any
    default: Any = None
    required: bool = False

    @property
    def type(self) -> str:
        """The annotation in words: "int", "float or nothing"."""
        return _words(self.hint)

    def described(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        if self.required:
            return {"type": self.type, "required": True}
        if self.default is ...:
            return {"type": self.type}
        return {"type": self.type, "default": self.default if isinstance(self.default, _PLAIN) else str(self.default)}


@dataclasses.dataclass(frozen=True)
class Entry:
    """What is told of a thing: its name, its documentation, and its options."""

    name: str
    doc: str
    options: tuple[Option, ...]

    @property
    def summary(self) -> str:
        """The first line of the documentation."""
        return self.doc.partition("\n")[0]


def takes(*settings: type | str, **defaults: Any) -> Callable[[T], T]:
    """Says that the `**options` of a function are the fields of these dataclasses.

    Args:
        settings: The dataclasses; or where another function is, as "module:function", that takes the same options:
            it is imported only when they are needed.
        defaults: Values that this function takes where a dataclass has another default.

    >>> @dataclasses.dataclass
    ... class Training:
    ...     epochs: int = 30
    >>> @takes(Training)
    ... def train(collection: object, **options: Any) -> None: ...
    >>> [(o.name, o.type, o.default) for o in options_of(train, filled=1)]
    [('epochs', 'int', 30)]
    """

    def keep(function: T) -> T:
        function.__settings__ = settings, defaults  # type: ignore[attr-defined]
        return function

    return keep


def options_of(thing: Callable[..., Any], *, filled: int = 0) -> tuple[Option, ...]:
    """The options that a person can write; those that only a program can give (functions, collections) are left out.

    Args:
        thing: A function or class.
        filled: Arguments at the start that are given by position and are no options.
    """
    known, _ = _parameters(thing, filled)
    return tuple(option for option in known.values() if _is_written(option.hint))


def _is_written(hint: Any) -> bool:
    """Whether a value of this type can be written down: a number, a word, a list of such."""
    allowed = typing.get_args(hint) if _is_union(hint) else (hint,)
    plain = [typing.get_origin(kind) or kind for kind in allowed if kind is not type(None)]
    return any(kind is Any or kind is typing.Literal or _is_plain(kind) for kind in plain)


def _is_plain(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, (*_PLAIN, os.PathLike, Mapping, Sequence))


def checked(
    thing: Callable[..., Any], options: Mapping[str, Any], *, what: str, filled: int = 0, objects: bool = True
) -> dict[str, Any]:
    """Options as a function takes them: refuses unknown and missing names, and plain values of another type.

    Args:
        thing: The function or class that will be called. `**running: Unpack[Running]` stands for the keys of a typed
            dict, and `takes` for the fields of dataclasses; a plain `**options` takes whatever comes.
        options: Values by name.
        what: Whose options they are; used in messages only.
        filled: Arguments at the start that are given by position and are no options.
        objects: Whether values that no file could hold (arrays, functions, ...) pass as they are.

    >>> def load(*, images: int = 2000, graded: bool = False) -> None: ...
    >>> checked(load, {"images": "abc"}, what="'scenes'")
    Traceback (most recent call last):
    limner.core.errors.LimnerError: option of 'scenes' images='abc' is str: expected int
    """
    known, is_open = _parameters(thing, filled)
    for name in options:
        if name not in known and not is_open:
            raise UnknownName(f"option of {what}", name, known)
    lacking = [option.name for option in known.values() if option.required and option.name not in options]
    if lacking:
        raise LimnerError(f"{what} needs {' and '.join(lacking)}: give it as {lacking[0]}=...")
    hints = {name: option.hint for name, option in known.items()}
    return {
        name: value
        if objects and not isinstance(value, _PLAIN)
        else typed(f"option of {what} {name}", value, hints.get(name, Any))
        for name, value in options.items()
    }


def _parameters(thing: Callable[..., Any], filled: int) -> tuple[dict[str, Option], bool]:
    """Every named option, and whether others are taken too."""
    hints = _hints(thing)
    known: dict[str, Option] = {}
    is_open = False
    for p in list(inspect.signature(thing).parameters.values())[filled:]:
        if p.kind is p.VAR_KEYWORD:
            more = _gathered(thing, hints.get(p.name))
            known |= more or {}
            is_open = more is None
        elif p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD):
            required = p.default is p.empty
            known[p.name] = Option(p.name, hints.get(p.name, Any), None if required else p.default, required)
    return known, is_open


def _gathered(thing: Callable[..., Any], hint: Any) -> dict[str, Option] | None:
    """What `**options` stands for: the settings of a function, the keys of a typed dict; None for anything."""
    if settings := getattr(thing, "__settings__", ()):
        found: dict[str, Option] = {}
        for kind in settings[0]:
            found |= _as_there(kind) if isinstance(kind, str) else _parameters(kind, 0)[0]
        return found | {n: dataclasses.replace(found[n], default=value) for n, value in settings[1].items()}
    unpacked = typing.get_args(hint)[:1]
    if not unpacked or not typing.is_typeddict(unpacked[0]):
        return None
    return {name: Option(name, hint, ...) for name, hint in typing.get_type_hints(unpacked[0]).items()}


def _as_there(place: str) -> dict[str, Option]:
    return _gathered(Registry[Any]("function", {}).find(place), None) or {}


def _hints(thing: Callable[..., Any]) -> dict[str, Any]:
    """Annotations, each by itself: `object` where one names what only a type checker imports."""
    owners: list[Any] = [thing]
    if inspect.isclass(thing):
        owners = list(reversed(thing.__mro__)) if dataclasses.is_dataclass(thing) else [thing.__init__]
    return {name: _hint(name, hint, owner) for owner in owners for name, hint in _annotations(owner).items()}


def _annotations(owner: Any) -> dict[str, Any]:
    try:
        return inspect.get_annotations(owner)
    except (NameError, TypeError):
        return {}


def _hint(name: str, hint: Any, owner: Any) -> Any:
    def probe() -> None: ...

    probe.__annotations__ = {name: hint}
    around = getattr(owner, "__globals__", None) or vars(sys.modules.get(owner.__module__, types))
    try:
        return typing.get_type_hints(probe, globalns=around)[name]
    except (NameError, TypeError, AttributeError):
        return object


def typed(name: str, value: Any, hint: Any) -> Any:
    """A value of the type that an annotation asks for; a whole number stands for a fraction, a list for a tuple.

    >>> typed("rate", 1, float), typed("heads", [2, 3], tuple[int, ...])
    (1.0, (2, 3))
    """
    allowed = typing.get_args(hint) if _is_union(hint) else (hint,)
    if Any in allowed or (value is None and type(None) in allowed):
        return value
    if float in allowed and isinstance(value, int) and not isinstance(value, bool) and int not in allowed:
        return _fraction(name, value)
    for kind in allowed:
        if _fits(value, kind):
            return _inside(name, value, kind)
    raise LimnerError(f"{name}={value!r} is {type(value).__name__}: expected {_words(hint)}")


def _is_union(hint: Any) -> bool:
    return isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union


def _fraction(name: str, value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        raise LimnerError(f"{name} is a number of {len(str(abs(value)))} digits: too large") from None


def _fits(value: Any, kind: Any) -> bool:
    if typing.get_origin(kind) is typing.Literal:
        return value in typing.get_args(kind)
    plain = typing.get_origin(kind) or kind
    if not isinstance(plain, type):
        return True  # a type variable, or a word that only a type checker understands
    if plain in (tuple, Sequence) and isinstance(value, (list, tuple)):
        return True
    if isinstance(value, bool) or plain is bool:
        return isinstance(value, bool) and plain in (bool, object)
    return isinstance(value, plain) and not (isinstance(value, str) and plain is Sequence)


def _inside(name: str, value: Any, kind: Any) -> Any:
    """Lists and mappings with everything in them checked."""
    within = typing.get_args(kind)
    if isinstance(value, (list, tuple)) and within and typing.get_origin(kind) is not typing.Literal:
        each = [within[0]] * len(value) if len(within) == 1 or within[-1] is ... else within
        if len(each) != len(value):
            raise LimnerError(f"{name} has {len(value)} values: expected {len(each)}")
        held = [typed(f"{name}[{n}]", v, h) for n, (v, h) in enumerate(zip(value, each, strict=True))]
        return tuple(held) if typing.get_origin(kind) is tuple or isinstance(value, tuple) else held
    if isinstance(value, dict) and len(within) == 2:
        return {key: typed(f"{name}.{key}", held, within[1]) for key, held in value.items()}
    return tuple(value) if kind is tuple else value


def _word(kind: Any) -> str:
    if typing.get_origin(kind) is typing.Literal:
        return " or ".join(map(repr, typing.get_args(kind)))
    if kind is bool or kind is Any:
        return "true or false" if kind is bool else "any"
    return "nothing" if kind is type(None) else str(getattr(typing.get_origin(kind) or kind, "__name__", kind))


def _words(hint: Any) -> str:
    return " or ".join(map(_word, typing.get_args(hint) if _is_union(hint) else (hint,)))
