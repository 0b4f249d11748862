"""Comparisons of fields with numbers and dates, and ranges of them: `2019..2021`, `2020-05..`, `>1000`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
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
