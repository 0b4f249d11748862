"""The answered part of a design, in the order of the draws, up to the first gap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from limner.annotate.aggregate import by_majority
from limner.annotate.merge import taken_out
from limner.annotate.scale import relevant
from limner.annotate.store import Store
from limner.annotate.store.answers import Answer, answers
from limner.annotate.store.contents import Key
from limner.annotate.store.designs import LEVEL, Design, designs
from limner.core.collection import Collection
from limner.core.judgements import Judgements


@dataclass(frozen=True)
class Sample:
    """The answered part of a design.

    Args:
        design: The design.
        known: The given positives, query -> candidate.
        truth: The same plus the matches that people found.
        said: The human label of each pair, (image, caption).
        units: The drawn units up to the first unanswered one, in order of draw.
        open: Number of drawn units without answers.
    """

    design: Design
    known: Judgements
    truth: Judgements
    said: Mapping[Key, bool]
    units: tuple[int, ...]
    open: int

    @property
    def labels(self) -> int:
        """The number of judged pairs."""
        return len({pair for n in self.units for pair in self.design.units[n].pairs(self.design.direction)})

    @property
    def left_out(self) -> int:
        """The number of queries without a given match."""
        return int((self.known.counts == 0).sum())


def read_sample(
    store: Store, collection: Collection, direction: str, collected: Sequence[Answer] | None = None
) -> Sample | None:
    """The last design of a direction with its answers (read from the store by default); None if there is no design."""
    matching = [d for d in designs(store) if d.direction == direction]
    if not matching:
        return None
    design = matching[-1]
    labels = {
        (x.image, x.caption): relevant(x.grade) for x in by_majority(answers(store) if collected is None else collected)
    }
    images, captions = map(set, taken_out(store))
    drawn, done = design.drawn, set(labels)
    if design.unit == LEVEL:  # a whole pool stays complete: excluded pairs count as no match
        done |= {p for n in drawn for p in design.units[n].pairs(direction) if _barred([p], images, captions)}
    else:
        drawn = [n for n in drawn if not _barred(design.units[n].pairs(direction), images, captions)]
    complete = [all(pair in done for pair in design.units[n].pairs(direction)) for n in drawn]
    units = drawn[: complete.index(False)] if False in complete else drawn
    judgements = collection.judged("pairs", direction)
    yes = [pair if direction == "i2t" else pair[::-1] for pair, right in labels.items() if right]
    in_collection = [p for p in yes if p[0] in judgements.queries and p[1] in judgements.candidates]
    matches = Judgements.from_pairs(in_collection, queries=judgements.queries, candidates=judgements.candidates)
    return Sample(design, judgements, judgements.relevant | matches, labels, tuple(units), len(drawn) - len(units))


def _barred(pairs: Sequence[Key], images: set[str], captions: set[str]) -> bool:
    """Whether a unit is excluded because its image or caption is."""
    return any(image in images or caption in captions for image, caption in pairs)
