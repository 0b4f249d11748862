"""Options of functions and classes: names, types, checks of values, and how they are written as text."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import os
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Collection as Group
from typing import Any, TypeVar

from limner.core.errors import LimnerError, UnknownName

OptionValues = dict[str, Any]
"""Values by name, whose types are known to what takes them: those of NAME=VALUE, or for `function(**values)`."""

T = TypeVar("T")
_PLAIN = (str, int, float, bool, list, tuple, dict, type(None))


@dataclasses.dataclass(frozen=True)
class Option:
    """One option of a function or class.

    Args:
        name: The keyword.
        hint: The annotated type; `Any` without an annotation.
        default: The default value; `...` if unknown.
        required: Whether it must be given.
    """

    name: str
    hint: object
    default: object = None
    required: bool = False

    @property
    def type(self) -> str:
        """The annotation as text: "int", "float or nothing"."""
        return _words(self.hint)

    def described(self) -> dict[str, object]:
        """The option as plain values, for JSON."""
        if self.required:
            return {"type": self.type, "required": True}
        if self.default is ...:
            return {"type": self.type}
        return {"type": self.type, "default": self.default if isinstance(self.default, _PLAIN) else str(self.default)}


def takes(*settings: type | str, **defaults: object) -> Callable[[T], T]:
    """Declares that the `**options` of a function are the fields of these dataclasses.

    Args:
        settings: The dataclasses; or "module:name" of a tuple of them, or of another function with the same options,
            imported only when needed.
        defaults: Defaults of this function that differ from those of the dataclasses.

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


def options_of(function: Callable[..., object], *, filled: int = 0) -> tuple[Option, ...]:
    """The options that can be written as text; those that only code can pass (functions, collections) are left out.

    Args:
        function: A function or class.
        filled: Leading positional arguments, which are not options.
    """
    named, _ = _parameters(function, filled)
    return tuple(option for option in named.values() if _is_written(option.hint))


def _is_written(hint: object) -> bool:
    """Whether a value of this type can be written as text: a number, a string, or a list of these."""
    allowed = typing.get_args(hint) if _is_union(hint) else (hint,)
    plain = [typing.get_origin(kind) or kind for kind in allowed if kind is not type(None)]
    return any(kind is Any or kind is typing.Literal or _is_plain(kind) for kind in plain)


def _is_plain(kind: object) -> bool:
    return isinstance(kind, type) and (kind is Group or issubclass(kind, (*_PLAIN, os.PathLike, Mapping, Sequence)))


def checked(
    function: Callable[..., object], options: Mapping[str, object], *, what: str, filled: int = 0, objects: bool = True
) -> OptionValues:
    """Checks options against a signature: refuses unknown names, missing names and values of the wrong type.

    Args:
        function: The function or class that will be called. `**running: Unpack[Running]` adds the keys of a typed dict,
            and `takes` the fields of dataclasses; a plain `**options` accepts anything.
        options: Values by name.
        what: Owner of the options; used in error messages only.
        filled: Leading positional arguments, which are not options.
        objects: Whether values that cannot be stored in a file (arrays, functions, ...) pass unchecked.

    >>> def load(*, images: int = 2000, graded: bool = False) -> None: ...
    >>> checked(load, {"images": "abc"}, what="'scenes'")
    Traceback (most recent call last):
    limner.core.errors.LimnerError: 'scenes': option images='abc' is str: expected int
    """
    accepted, is_open = _parameters(function, filled)
    for name in options:
        if name not in accepted and not is_open:
            raise UnknownName("option", name, accepted, of=what)
    missing = [option.name for option in accepted.values() if option.required and option.name not in options]
    if missing:
        raise LimnerError(f"{what} needs {' and '.join(missing)}: give it as {missing[0]}=...")
    hints = {name: option.hint for name, option in accepted.items()}
    return {
        name: value
        if objects and not isinstance(value, _PLAIN)
        else typed(f"{what}: option {name}", value, hints.get(name, Any))
        for name, value in options.items()
    }


def _parameters(function: Callable[..., object], filled: int) -> tuple[dict[str, Option], bool]:
    """Every named option, and whether others are accepted too."""
    hints = _hints(function)
    named: dict[str, Option] = {}
    is_open = False
    for p in list(inspect.signature(function).parameters.values())[filled:]:
        if p.kind is p.VAR_KEYWORD:
            gathered = _gathered(function, hints.get(p.name))
            named |= gathered or {}
            is_open = gathered is None
        elif p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD):
            required = p.default is p.empty
            named[p.name] = Option(p.name, hints.get(p.name, Any), None if required else p.default, required)
    return named, is_open


def _gathered(function: Callable[..., object], hint: object) -> dict[str, Option] | None:
    """The options behind `**options`: fields of dataclasses or keys of a typed dict; None if anything is accepted."""
    if settings := getattr(function, "__settings__", ()):
        members: dict[str, Option] = {}
        for kind in settings[0]:
            members |= _settings_of(kind) if isinstance(kind, str) else _parameters(kind, 0)[0]
        return members | {n: dataclasses.replace(members[n], default=value) for n, value in settings[1].items()}
    unpacked = typing.get_args(hint)[:1]
    if not unpacked or not typing.is_typeddict(unpacked[0]):
        return None
    return {name: Option(name, hint, ...) for name, hint in typing.get_type_hints(unpacked[0]).items()}


def _settings_of(place: str) -> dict[str, Option]:
    module, _, name = place.partition(":")
    kinds = getattr(importlib.import_module(module), name)
    if isinstance(kinds, tuple):
        return {name: option for kind in kinds for name, option in _parameters(kind, 0)[0].items()}
    return _gathered(kinds, None) or {}


def _hints(function: Callable[..., object]) -> dict[str, object]:
    """Resolved annotations; `object` for names that are imported for type checking only."""
    owners: list[object] = [inspect.unwrap(function)]
    if inspect.isclass(function):
        is_record = dataclasses.is_dataclass(function)
        owners = list(reversed(function.__mro__)) if is_record else [inspect.unwrap(function.__init__)]
    return {name: _hint(name, hint, owner) for owner in owners for name, hint in _annotations(owner).items()}


def _annotations(owner: Any) -> dict[str, object]:
    try:
        return inspect.get_annotations(owner)
    except (NameError, TypeError):
        return {}


def _hint(name: str, hint: object, owner: object) -> object:
    def probe() -> None: ...

    probe.__annotations__ = {name: hint}
    around = getattr(owner, "__globals__", None) or vars(sys.modules.get(owner.__module__, types))
    try:
        return typing.get_type_hints(probe, globalns=around)[name]
    except (NameError, TypeError, AttributeError):
        return object


def typed(name: str, value: object, hint: object) -> object:
    """Converts a value to an annotated type: an int to a float, a list to a tuple, "a,b" to a list of texts.

    >>> typed("rate", 1, float), typed("heads", [2, 3], tuple[int, ...]), typed("languages", "de,en", Sequence[str])
    (1.0, (2, 3), ['de', 'en'])
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
    texts = next((kind for kind in allowed if typing.get_args(kind) in ((str,), (str, ...))), None)
    if isinstance(value, str) and texts is not None:
        return typed(name, [each.strip() for each in value.split(",")], texts)
    raise LimnerError(f"{name}={value!r} is {type(value).__name__}: expected {_words(hint)}")


def _is_union(hint: object) -> bool:
    return isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union


def _fraction(name: str, value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        raise LimnerError(f"{name} is a number of {len(str(abs(value)))} digits: too large") from None


def _fits(value: object, kind: object) -> bool:
    if typing.get_origin(kind) is typing.Literal:
        return value in typing.get_args(kind)
    plain = typing.get_origin(kind) or kind
    if not isinstance(plain, type):
        return True  # a type variable, or a form that only type checkers understand
    if plain in (tuple, frozenset, Sequence) and isinstance(value, (list, tuple)):
        return True
    if isinstance(value, bool) or plain is bool:
        return isinstance(value, bool) and plain in (bool, object)
    return isinstance(value, plain) and not (isinstance(value, str) and plain in (Sequence, Group))


def _inside(name: str, value: Any, kind: object) -> object:
    """Checks lists and mappings recursively."""
    type_args = typing.get_args(kind)
    if isinstance(value, (list, tuple)) and type_args and typing.get_origin(kind) is not typing.Literal:
        each = [type_args[0]] * len(value) if len(type_args) == 1 or type_args[-1] is ... else type_args
        if len(each) != len(value):
            raise LimnerError(f"{name} has {len(value)} values: expected {len(each)}")
        items = [typed(f"{name}[{n}]", v, h) for n, (v, h) in enumerate(zip(value, each, strict=True))]
        if typing.get_origin(kind) is frozenset:
            return frozenset(items)
        return tuple(items) if typing.get_origin(kind) is tuple or isinstance(value, tuple) else items
    if isinstance(value, dict) and len(type_args) == 2:
        return {key: typed(f"{name}.{key}", item, type_args[1]) for key, item in value.items()}
    return tuple(value) if kind is tuple else value


_IN_WORDS: dict[object, str] = {bool: "true or false", Any: "any", object: "any", type(None): "nothing"}
_IN_WORDS |= {Callable: "function", Mapping: "dict", Sequence: "list", Group: "list"}


def _word(kind: object) -> str:
    if typing.get_origin(kind) is typing.Literal:
        return " or ".join(map(repr, typing.get_args(kind)))
    plain = typing.get_origin(kind) or kind
    return _IN_WORDS.get(plain) or str(getattr(plain, "__name__", plain))


def _words(hint: object) -> str:
    """A type as text: "int or nothing". Types that only code can pass come last.

    >>> _words(Callable[..., int] | str | None)
    'str or nothing or function'
    """
    kinds = typing.get_args(hint) if _is_union(hint) else (hint,)
    ordered = sorted(kinds, key=lambda kind: kind is not type(None) and not _is_written(kind))
    return " or ".join(dict.fromkeys(map(_word, ordered)))


_WORDS = {"true": True, "false": False, "none": None}
_BRACKETS = {"(": ")", "[": "]", "{": "}"}
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def parsed_value(text: str) -> Any:
    """Parses a number, true, false, null (None), or a JSON list or object; everything else is text.

    >>> [parsed_value(text) for text in ("3", "true", "False", "None", "[1, 2]", "photos", "1e-3", '"3"')]
    [3, True, False, None, [1, 2], 'photos', 0.001, '3']
    """
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # also a number of thousands of digits
        return text


def truth(value: object) -> bool | None:
    """Parses true, false, yes, no, 1 or 0, in any case; None for anything else.

    >>> [truth(each) for each in (True, "Yes", "no", 1, 0, "FALSE", 2, "maybe")]
    [True, True, False, True, False, False, None, None]
    """
    return _TRUTH.get(str(value).strip().lower()) if isinstance(value, (bool, int, str)) else None


def parsed_options(words: Iterable[str], *, what: str = "option") -> OptionValues:
    """Parses NAME=VALUE options; one that is given twice is refused.

    >>> parsed_options(["images=photos", "seed=3", "graded=True"])
    {'images': 'photos', 'seed': 3, 'graded': True}
    """
    read: OptionValues = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name.strip():
            raise LimnerError(f"{what} got {word!r}: expected NAME=VALUE, e.g. images=DIR")
        if name.strip() in read:
            raise LimnerError(f"{what} gives {name.strip()!r} twice: give it once")
        read[name.strip()] = parsed_value(text.strip())
    return read


def parsed_call(text: str, *, what: str) -> tuple[str, dict[str, object]]:
    """Parses `name`, or `name(option=value, ...)`; a value may be a list, or a name with options of its own.

    >>> parsed_call("nnn(k=8, alpha=0.5)", what="correction")
    ('nnn', {'k': 8, 'alpha': 0.5})
    >>> parsed_call("aligned(images=timm(model=a, size=64), texts=minilm)", what="system")
    ('aligned', {'images': 'timm(model=a, size=64)', 'texts': 'minilm'})
    """
    match = re.fullmatch(r"(?P<name>[^()]+)(?:\((?P<options>.*)\))?", text.strip(), flags=re.DOTALL)
    listed = None if match is None else _listed(match["options"] or "")
    if match is None or listed is None:
        raise LimnerError(f"{what} {text!r}: expected a name, or a name with options such as 'csls(k=5)'")
    return match["name"].strip(), parsed_options(listed, what=f"{what} {match['name']}")


def _listed(text: str) -> list[str] | None:
    """What stands between commas outside of all brackets; None if brackets do not match."""
    parts, closing = [""], []
    for letter in text:
        if letter in _BRACKETS:
            closing.append(_BRACKETS[letter])
        elif letter in _BRACKETS.values() and (not closing or closing.pop() != letter):
            return None
        if letter == "," and not closing:
            parts.append("")
        else:
            parts[-1] += letter
    return None if closing else [part for part in parts if part.strip()]
