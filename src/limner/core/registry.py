"""The registry: names for things that are imported only when they are asked for, and the options these things take.

Data sets, encoders, systems, corrections, measures, fusions, losses and judges are each a `Registry`. A person at the
command line or in Python may write "module:thing" in place of a name, so a thing of one's own needs no registration;
`register` gives it a name for the life of the process. A file may not name "module:thing": what a model, index, store
or data set names is found in the registry or refused, unless its owner says that the file is trusted. Importing a
module is running it.
"""

from __future__ import annotations

import importlib
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from limner.core.errors import LimnerError, UnknownName, Untrusted
from limner.core.written import truth

T = TypeVar("T")
_PLAIN = (str, int, float, bool, list, tuple, dict, type(None))


class Registry(Mapping[str, Any]):
    """Named things of one kind.

    Args:
        what: What the names stand for, in messages: "correction".
        homes: Where each built-in thing is, as "module:thing"; imported on first use.

    >>> readers = Registry("reader", {"json": "json:loads"})
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

    def __init__(self, what: str, homes: Mapping[str, str]) -> None:
        self.what = what
        self.homes = dict(homes)
        self._own: dict[str, Any] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Gives a thing of one's own a name: `@corrections.register("mine")`."""
        if not isinstance(name, str) or not name or ":" in name:
            raise LimnerError(f"{self.what} {name!r}: expected a name without a colon")
        if name in self:
            raise LimnerError(f"{self.what} {name!r} is registered already: choose another name")

        def keep(thing: T) -> T:
            self._own[name] = thing
            return thing

        return keep

    def find(self, name: str, *, trusted: bool = True) -> Any:
        """The thing of a name, or of "module:thing" where that is trusted; imported now."""
        if name in self._own:
            return self._own[name]
        if isinstance(name, str) and name not in self and ":" not in name:
            raise UnknownName(self.what, name, self)
        return resolve(name, self.homes, what=self.what, trusted=trusted)

    def make(self, name: str, options: Mapping[str, Any], *, trusted: bool = True) -> Any:
        """The thing of a name, called with options; unknown options and values of another type are refused."""
        thing = self.find(name, trusted=trusted)
        return thing(**checked(thing, options, what=f"{self.what} {name!r}"))

    def name_of(self, thing: Any) -> str:
        """The name of a thing; "module:thing" for one that was never registered."""
        home = f"{thing.__module__}:{thing.__qualname__}"
        named = [name for name, place in self.homes.items() if place == home]
        named += [name for name, own in self._own.items() if own is thing]
        return named[0] if named else home

    def __getitem__(self, name: str) -> Any:
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


def resolve(name: str, catalogue: Mapping[str, str], *, what: str, trusted: bool = True) -> Any:
    """The thing behind a name, imported now.

    Args:
        name: A name in the catalogue, or "module:thing".
        catalogue: Names and where each lives, as "module:thing".
        what: What the names name; used in messages only.
        trusted: Whether "module:thing" may be imported. False for a name that was read from a file.

    >>> resolve("json:loads", {}, what="data set")("[1]")
    [1]
    >>> resolve("json:loads", {}, what="data set", trusted=False)
    Traceback (most recent call last):
    limner.core.errors.Untrusted: data set 'json:loads' is named by a file, and is code from outside...
    """
    if not isinstance(name, str):
        raise LimnerError(f"{what} {name!r} is {type(name).__name__}: expected a name")
    module, colon, thing = catalogue.get(name, name).partition(":")
    if not colon or not module or not thing:
        raise UnknownName(what, name, catalogue)
    if not trusted and name not in catalogue:
        raise Untrusted(what, name, catalogue)
    return _imported(name, module, thing, what)


def _imported(name: str, module: str, thing: str, what: str) -> Any:
    try:
        return getattr(importlib.import_module(module), thing)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # the module is there, but something that it needs is not
        raise LimnerError(
            f"{what} {name!r}: there is no module {module!r}; expected 'module:thing' or a known name. Is it "
            "installed, or on PYTHONPATH?"
        ) from error
    except AttributeError as error:
        raise LimnerError(
            f"{what} {name!r}: module {module!r} has no {thing!r}; check the name after the colon"
        ) from error
    except (TypeError, ValueError) as error:  # a relative or empty module name
        raise LimnerError(f"{what} {name!r}: {module!r} is no name of a module ({error})") from error


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


def checked(thing: Callable[..., Any], options: Mapping[str, Any], *, what: str, filled: int = 0) -> dict[str, Any]:
    """Options as a function takes them: refuses unknown and missing names, and plain values of another type.

    Args:
        thing: The function or class that will be called. `**running: Unpack[Running]` stands for the keys of a typed
            dict; a plain `**options` takes whatever comes.
        options: Values by name.
        what: Whose options they are; used in messages only.
        filled: Arguments at the start that are given by position and are no options.

    >>> def load(*, images: int = 2000, graded: bool = False) -> None: ...
    >>> checked(load, {"images": "abc"}, what="'scenes'")
    Traceback (most recent call last):
    limner.core.errors.LimnerError: option of 'scenes' images='abc' is str: expected int
    """
    known, is_open = _parameters(thing, filled)
    for name in options:
        if name not in known and not is_open:
            raise UnknownName(f"option of {what}", name, known)
    lacking = [name for name, (_, needed) in known.items() if needed and name not in options]
    if lacking:
        raise LimnerError(f"{what} needs {' and '.join(lacking)}: give it as {lacking[0]}=...")
    hints = {name: hint for name, (hint, _) in known.items()}
    return {
        name: typed(f"option of {what} {name}", value, hints.get(name, Any)) if isinstance(value, _PLAIN) else value
        for name, value in options.items()
    }


def _parameters(thing: Callable[..., Any], filled: int) -> tuple[dict[str, tuple[Any, bool]], bool]:
    """Type and whether it must be given, for every named option; and whether others are taken too."""
    hints = _hints(thing)
    known: dict[str, tuple[Any, bool]] = {}
    is_open = False
    for p in list(inspect.signature(thing).parameters.values())[filled:]:
        unpacked = typing.get_args(hints.get(p.name))[:1] if p.kind is p.VAR_KEYWORD else ()
        if unpacked and typing.is_typeddict(unpacked[0]):
            known |= {name: (hint, False) for name, hint in typing.get_type_hints(unpacked[0]).items()}
        elif p.kind is p.VAR_KEYWORD:
            is_open = True
        elif p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD):
            known[p.name] = hints.get(p.name, Any), p.default is p.empty
    return known, is_open


def _hints(thing: Callable[..., Any]) -> dict[str, Any]:
    """Annotations; none where they name what only a type checker imports."""
    try:
        return typing.get_type_hints(thing.__init__ if inspect.isclass(thing) else thing)
    except (NameError, TypeError, AttributeError):
        return {}


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
    if bool in allowed and truth(value) is not None:
        return truth(value)
    wanted = " or ".join(map(_word, allowed))
    raise LimnerError(f"{name}={value!r} is {type(value).__name__}: expected {wanted}")


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
    if kind is bool:
        return "true or false"
    return "nothing" if kind is type(None) else str(getattr(typing.get_origin(kind) or kind, "__name__", kind))
