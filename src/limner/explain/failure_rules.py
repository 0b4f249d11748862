"""Patterns among labelled failures: how often each class occurs, which occur together, and rules A -> B."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from limner.explain.failure_classes import ALTERNATIVE, CLASSES

NONE = "none found"


@dataclass(frozen=True)
class Rule:
    """If A disagrees, so does B.

    Args:
        a: The condition.
        b: The consequence.
        both: How many failures have both.
        support: Share of all failures that have both.
        confidence: Share of the failures with A that have B.
        lift: Confidence divided by the share of B among all failures; above 1, A makes B more likely.
    """

    a: str
    b: str
    both: int
    support: float
    confidence: float
    lift: float

    def __str__(self) -> str:
        return (
            f"{self.a} -> {self.b}: support {self.support:.1%}, confidence {self.confidence:.1%}, lift {self.lift:.2f}"
        )


def rates(labels: Mapping[str, frozenset[str]]) -> dict[str, tuple[int, float]]:
    """How many failures have each class, and their share; the shares may add up to more than 1.

    >>> rates({"q1": frozenset({"colour", "size"}), "q2": frozenset({"colour"})})["colour"]
    (2, 1.0)
    """
    total = max(1, len(labels))
    counts = {name: sum(name in each for each in labels.values()) for name in CLASSES}
    counts[NONE] = sum(not each for each in labels.values())
    return {name: (count, count / total) for name, count in counts.items()}


def together(labels: Iterable[frozenset[str]]) -> dict[tuple[str, str], int]:
    """For each pair of classes, how many failures have both."""
    sets = list(labels)
    pairs = permutations(CLASSES, 2)
    return {(a, b): sum(a in each and b in each for each in sets) for a, b in pairs if a < b}


def rules(labels: Iterable[frozenset[str]], *, support: float = 0.01, confidence: float = 0.1) -> list[Rule]:
    """Rules A -> B over failures, the most confident first.

    Args:
        labels: The classes of each failure.
        support: Minimum share of failures that have both.
        confidence: Minimum share of those with A that have B.

    >>> both, one = frozenset({"colour", "size"}), frozenset({"colour"})
    >>> print(rules([both, one, one])[0])
    size -> colour: support 33.3%, confidence 100.0%, lift 1.00
    """
    sets = list(labels)
    count = {name: sum(name in each for each in sets) for name in CLASSES if name != ALTERNATIVE}
    listed = []
    for a, b in permutations(count, 2):
        n_both = sum(a in each and b in each for each in sets)
        if n_both and n_both / len(sets) >= support and n_both / count[a] >= confidence:
            trust = n_both / count[a]
            listed.append(Rule(a, b, n_both, n_both / len(sets), trust, trust * len(sets) / count[b]))
    return sorted(listed, key=lambda rule: (-rule.confidence, -rule.both, rule.a, rule.b))


def table(labels: Mapping[str, frozenset[str]], listed: Sequence[Rule]) -> str:
    """Rates and rules as text for a terminal."""
    lines = [f"{'class':12} {'failures':>8} {'share':>7}"]
    lines += [f"{name:12} {count:8,} {share:7.1%}" for name, (count, share) in rates(labels).items()]
    return "\n".join([*lines, *(f"rule: {rule}" for rule in listed)])
