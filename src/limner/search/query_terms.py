"""Queries as people type them: words, minus terms and filters by field, such as `dog -beach split:test`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import ge, gt, le, lt
from types import MappingProxyType
from typing import Any

from limner.core.errors import LimnerError

COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = MappingProxyType({">=": ge, "<=": le, ">": gt, "<": lt})
"""The signs before a number or a date."""
_DATE = re.compile(r"\d{4}(-\d\d(-\d\d([T ]\d\d(:\d\d(:\d\d)?)?)?)?)?")


def matches(value: str, condition: str) -> bool:
    """Whether the value of a field is the one of a condition, ignoring case, or is in its range.

    A date matches every time in it: 2020-05 is a whole month.

    >>> matches("Dog", "dog"), matches("2020", "2019..2021"), matches("640", ">1000")
    (True, True, False)
    >>> matches("2020-05-17T10:22:11", "2020-05"), matches("2020-05-17T10:22:11", "..2020")
    (True, True)
    """
    if value.lower() == condition.lower():
        return True
    bounds = bounds_of(condition)
    return bool(bounds) and all(_compare(value, sign, bound) for sign, bound in bounds)


def bounds_of(condition: str) -> list[tuple[str, str]]:
    """The comparisons that a condition consists of; empty if it is a plain value.

    >>> bounds_of("2019..2021"), bounds_of(">1000"), bounds_of("2020-05"), bounds_of("a dog")
    ([('>=', '2019'), ('<=', '2021')], [('>', '1000')], [('>=', '2020-05'), ('<=', '2020-05')], [])
    """
    sign = next((each for each in COMPARISONS if condition.startswith(each)), "")
    if sign:
        bound = condition[len(sign) :].strip()
        if not _is_bound(bound):
            raise LimnerError(f"filter {condition[:80]!r}: expected a number or a date after {sign}, such as 2020-05")
        return [(sign, bound)]
    low, dots, high = (part.strip() for part in condition.partition(".."))
    if not dots:
        return [(">=", low), ("<=", low)] if "-" in low[1:] and _DATE.fullmatch(low) else []
    bounds = [(sign, bound) for sign, bound in ((">=", low), ("<=", high)) if bound]
    if not bounds or not all(_is_bound(bound) for _, bound in bounds):
        return []
    if low and high and not _compare(low, "<=", high):
        raise LimnerError(f"the range {condition[:80]} is empty: expected the lower end first")
    return bounds


def _is_bound(text: str) -> bool:
    return _number(text) is not None or _DATE.fullmatch(text) is not None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _compare(value: str, sign: str, bound: str) -> bool:
    """Compares dates by the part that the bound names, and numbers as numbers; others do not match."""
    if _DATE.fullmatch(value) and _DATE.fullmatch(bound):
        return COMPARISONS[sign](value.replace(" ", "T")[: len(bound)], bound.replace(" ", "T"))
    numbers = _number(value), _number(bound)
    return None not in numbers and COMPARISONS[sign](*numbers)


_PART = re.compile(
    r"""(?<!\S)(?P<minus>-?)(?:(?P<field>[^\s:"'<>-][^\s:"<>]*)(?::|(?=[<>])))?(?:"(?P<phrase>[^"]+)"|(?P<word>[^\s"]+))"""
)


@dataclass(frozen=True)
class FieldFilter:
    """A condition on a field: the value or range it must or must not have, ignoring case; see `field_ranges`."""

    field: str
    value: str
    excluded: bool = False

    def __post_init__(self) -> None:
        """Refuses an impossible range."""
        bounds_of(self.value)

    @property
    def compares(self) -> bool:
        """Whether it is a comparison, such as >1000: all comparisons of a field must hold, values are alternatives."""
        return self.value.startswith(tuple(COMPARISONS))

    def accepts(self, values: Iterable[str]) -> bool:
        """Whether one of the values of the field is the value, or in the range."""
        return any(matches(value, self.value) for value in values)

    def __str__(self) -> str:
        """The condition as a user would type it."""
        quoted = f'"{self.value}"' if " " in self.value else self.value
        return f"{'-' if self.excluded else ''}{self.field}{'' if self.compares else ':'}{quoted}"


@dataclass(frozen=True)
class Terms:
    """The parsed parts of a query.

    Args:
        words: The words to search for.
        without: Words or phrases that results must not contain.
        where: Conditions on fields; several values of one field are alternatives.
    """

    words: str
    without: tuple[str, ...] = ()
    where: tuple[FieldFilter, ...] = ()

    @property
    def plain(self) -> bool:
        """Whether it has neither minus terms nor filters."""
        return not self.without and not self.where

    def with_filters(self, filters: Iterable[FieldFilter]) -> Terms:
        """The same query with further filters."""
        return replace(self, where=tuple(dict.fromkeys([*self.where, *filters])))


def read_terms(text: str, fields: Sequence[str] = ()) -> Terms:
    """Parses a query.

    `-word` and `-"two words"` are minus terms. `field:value`, `field:"two words"`, `field:2019..2021` and `field>1000`
    are filters where the field is known, and `-field:value` excludes; everything else is words. A hyphen within a word
    or by itself has no special meaning.

    Args:
        text: The query.
        fields: The known fields.

    >>> found = read_terms("dog -beach background:grass at 12:30", ["background"])
    >>> found.words, found.without, str(found.where[0])
    ('dog at 12:30', ('beach',), 'background:grass')
    >>> read_terms("a black-and-white cat - asleep").words
    'a black-and-white cat - asleep'
    """
    minus, filters, pieces, last = [], [], [], 0
    names = {name.lower(): name for name in fields}
    for part in _PART.finditer(text):
        value = part["phrase"] or part["word"]
        name = names.get((part["field"] or "").lower())
        if name is not None:
            filters.append(FieldFilter(name, value, bool(part["minus"])))
        elif part["minus"] and any(map(str.isalnum, value)):
            minus.append(part[0][1:].replace('"', ""))
        else:
            continue
        pieces.append(text[last : part.start()])
        last = part.end()
    words = " ".join("".join([*pieces, text[last:]]).split()) if last else text
    return Terms(words, tuple(minus), tuple(filters))


def has_terms(text: str) -> bool:
    """Whether a query may contain minus terms or filters.

    >>> has_terms("dog -beach"), has_terms("split:test"), has_terms("a black-and-white cat")
    (True, True, False)
    """
    return any(part["minus"] or part["field"] for part in _PART.finditer(text))


def read_filters(written: Iterable[str]) -> tuple[FieldFilter, ...]:
    """Filters from `field=value`, `field:value` or `field>number`, with a hyphen before it to exclude.

    >>> [str(each) for each in read_filters(["split=test", "-colour:dark red", "width >= 1000"])]
    ['split:test', '-colour:"dark red"', 'width>=1000']
    """
    filters = []
    for text in written:
        match = re.fullmatch(r"(-?)([^\s:=<>]+)\s*([:=]\s*)?([<>]=?)?(.+)", text.strip(), flags=re.DOTALL)
        if match is None or not (match[3] or match[4]):
            raise LimnerError(f"filter {text[:80]!r}: expected FIELD=VALUE, such as split=test or width>1000")
        value = (match[4] or "") + match[5].strip().strip('"')
        filters.append(FieldFilter(match[2], value, bool(match[1])))
    return tuple(filters)
