"""The appendix tables of ECCV Caption (Chun et al. 2022, appendices B and C) for any store of answers.

| table | what | here |
|---|---|---|
| B.1 | people by number of tasks, and the share of approved tasks | `by_workload` |
| B.2 | share of each answer by system and rank | `by_rank` |
| B.3a | shortcomings of doubtful pairs by system | `shortcomings` |
| B.3b | how the caption is wrong, by system | `wrong_ways` |
| C.1 | original pairs that someone called "100% no" | `refuted_originals` |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from limner.annotate.scale import SCALE, Scale
from limner.annotate.store import Store
from limner.annotate.store.answers import Answer, by_pair
from limner.annotate.store.contents import Key, Proposal, caption_texts
from limner.annotate.store.reservations import excluded
from limner.annotate.store.schema import annotator, assignment, sa
from limner.core.judgements import Judgements

WORKLOADS = ((1, 1), (2, 5), (6, 10), (11, 15), (16, 25), (26, None))
"""Ranges of tasks per person, as grouped in the paper."""
WRONG_WAYS = {r.name: r.label for r in SCALE.reasons if r.name.startswith("wrong-")}
SHORTCOMINGS = ("not-in-image", "not-in-caption", "wrong", "grammar")


@dataclass(frozen=True)
class Workload:
    """People by the number of tasks they did (B.1).

    Args:
        least: Minimum number of tasks.
        most: Maximum number of tasks; None for any number.
        people: How many people.
        submitted: Number of finished tasks.
        approved: Number of tasks that count: neither rejected nor from an excluded annotator.
    """

    least: int
    most: int | None
    people: int
    submitted: int
    approved: int

    @property
    def ratio(self) -> float:
        """Share of approved tasks."""
        return self.approved / self.submitted if self.submitted else float("nan")


def by_workload(store: Store) -> list[Workload]:
    """Table B.1: people, tasks and approval, by the number of tasks per person."""
    query = (
        sa.select(annotator.c.id, excluded().label("out"))
        .join_from(assignment, annotator)
        .where(assignment.c.finished.is_not(None))
    )
    done: dict[int, list[bool]] = {}
    for row in store.rows(query):
        done.setdefault(row["id"], []).append(not row["out"])
    workloads = []
    for low, high in WORKLOADS:
        counts = [tasks for tasks in done.values() if low <= len(tasks) and (high is None or len(tasks) <= high)]
        workloads.append(Workload(low, high, len(counts), sum(map(len, counts)), sum(map(sum, counts))))
    return workloads


@dataclass(frozen=True)
class Shares:
    """Number and share of answers of each kind; NaN if there are no answers."""

    counts: Mapping[str, int]

    @property
    def total(self) -> int:
        """Total number of answers."""
        return sum(self.counts.values())

    @property
    def shares(self) -> dict[str, float]:
        """The share of each kind."""
        return {name: n / self.total if self.total else float("nan") for name, n in self.counts.items()}


def by_rank(
    collected: Iterable[Answer], proposals: Iterable[Proposal], *, depth: int = 5, scale: Scale = SCALE
) -> dict[str, dict[int | None, Shares]]:
    """Table B.2: the answers to each system's proposals, by rank; None means all ranks together.

    Every answer to a pooled pair counts for every list with the pair among its top ranks, in both directions.

    Args:
        collected: The answers; controls are left out.
        proposals: The systems' lists.
        depth: Number of ranks of each list that were pooled.
        scale: The grades and their labels.
    """
    answers = by_pair(collected)
    counts: dict[tuple[str, int | None], Counter[str]] = {}
    for each in proposals:
        if each.rank <= depth:
            labels = Counter(scale.label(a.grade) for a in answers.get((each.image, each.caption), ()))
            for rank in (each.rank, None):
                counts.setdefault((each.system, rank), Counter()).update(labels)
    systems = dict.fromkeys(system for system, _ in counts)
    ranks = [*range(1, depth + 1), None]
    return {name: {rank: _grades(counts.get((name, rank), Counter()), scale) for rank in ranks} for name in systems}


def _grades(counts: Counter[str], scale: Scale) -> Shares:
    return Shares({grade.label: counts[grade.label] for grade in scale.grades})


def shortcomings(
    answers: Iterable[Answer], proposals: Iterable[Proposal], *, depth: int = 5, scale: Scale = SCALE
) -> dict[str, Shares]:
    """Table B.3a: why answers are not a plain yes or no, by the system that proposed the pair.

    Not in the image, not in the caption, described wrongly (in any way), grammar; an answer may have several reasons.
    For a store with its own reasons, pass its scale: they are counted one by one.
    """
    if scale.reasons != SCALE.reasons:
        return _reasons(answers, proposals, depth, [reason.name for reason in scale.reasons], set)
    return _reasons(
        answers, proposals, depth, SHORTCOMINGS, lambda why: {"wrong" if r in WRONG_WAYS else r for r in why}
    )


def wrong_ways(answers: Iterable[Answer], proposals: Iterable[Proposal], *, depth: int = 5) -> dict[str, Shares]:
    """Table B.3b: how captions are wrong (quantity, colour, ...), by the system that proposed the pair."""
    return _reasons(
        answers,
        proposals,
        depth,
        tuple(WRONG_WAYS.values()),
        lambda why: {WRONG_WAYS[r] for r in why if r in WRONG_WAYS},
    )


def _reasons(
    collected: Iterable[Answer],
    proposals: Iterable[Proposal],
    depth: int,
    names: Sequence[str],
    kinds: Callable[[Iterable[str]], set[str]],
) -> dict[str, Shares]:
    answers = by_pair(collected)
    proposed: dict[str, dict[Key, None]] = {}
    for each in proposals:
        if each.rank <= depth:
            proposed.setdefault(each.system, {})[each.image, each.caption] = None
    shares = {}
    for system, pairs in proposed.items():
        counts = Counter(kind for pair in pairs for a in answers.get(pair, ()) for kind in kinds(a.reasons))
        shares[system] = Shares({name: counts[name] for name in names})
    return shares


@dataclass(frozen=True)
class Refuted:
    """An original pair that someone called "100% no": a candidate for an invalid caption (C.1).

    Args:
        image: Its id.
        caption: Its id.
        text: The caption text.
        refusals: Number of answers "100% no".
        answers: Number of all answers to it, as a control or not.
        elsewhere: Whether other judgements reject it too.
    """

    image: str
    caption: str
    text: str
    refusals: int
    answers: int
    elsewhere: bool


def refuted_originals(
    store: Store, answers: Iterable[Answer], original: Judgements, *, further: Iterable[Judgements] = ()
) -> list[Refuted]:
    """The list that the paper validated by hand (C.1), the most rejected first.

    Args:
        store: Store with the caption texts.
        answers: The answers, including controls: most original pairs are asked as controls.
        original: The original pairs, image -> text.
        further: Other judgements, image -> text, that may reject an original pair with grade 0, such as CxC.
    """
    pairs = {(image, text) for image, text, _ in original.relevant}
    grades_of: dict[Key, list[int]] = {pair: [] for pair in pairs}
    for answer in answers:
        if (answer.image, answer.caption) in grades_of:
            grades_of[answer.image, answer.caption].append(answer.grade)
    refused = {(image, text) for judged in further for image, text, grade in judged if grade == 0}
    texts = caption_texts(store)
    refuted = [
        Refuted(*pair, texts.get(pair[1], ""), grades.count(1), len(grades), pair in refused)
        for pair, grades in grades_of.items()
        if 1 in grades or pair in refused
    ]
    return sorted(refuted, key=lambda each: (-each.refusals, not each.elsewhere, each.image, each.caption))
