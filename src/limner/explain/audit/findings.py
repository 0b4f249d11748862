"""Findings of an audit: their kinds, severities, and the items concerned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

ERROR, WARNING, INFO = "error", "warning", "info"
SEVERITIES = (ERROR, WARNING, INFO)


@dataclass(frozen=True)
class DefectKind:
    """A kind of defect.

    Args:
        name: Its name.
        severity: `ERROR` (numbers are wrong), `WARNING` (numbers may mislead) or `INFO`.
        about: What the defect is.
        mend: What to do about it.
        leave_out: Whether its last item should be left out.
    """

    name: str
    severity: str
    about: str
    mend: str
    leave_out: bool = False


KINDS: dict[str, DefectKind] = {
    kind.name: kind
    for kind in (
        DefectKind("broken-image", ERROR, "image that does not open", "replace or leave out", leave_out=True),
        DefectKind("tiny-image", WARNING, "image with a very short side", "replace or leave out", leave_out=True),
        DefectKind("duplicate-image", ERROR, "two images with the same pixels", "keep one", leave_out=True),
        DefectKind(
            "near-duplicate-image", WARNING, "two images that look the same in every region", "keep one", leave_out=True
        ),
        DefectKind(
            "close-vectors",
            INFO,
            "two images with nearly the same embedding",
            "look at them; they may show the same scene",
        ),
        DefectKind(
            "leakage",
            ERROR,
            "an image, or a copy of it, in two splits",
            "remove it from the training split",
            leave_out=True,
        ),
        DefectKind("repeated-caption", WARNING, "the same caption for different images", "use the repaired judgements"),
        DefectKind("caption-twice", WARNING, "the same caption twice for one image", "keep one", leave_out=True),
        DefectKind("empty-caption", ERROR, "caption without a word", "write or leave out", leave_out=True),
        DefectKind("self-match", ERROR, "caption that contains the name of its image file", "rewrite", leave_out=True),
        DefectKind("other-language", WARNING, "caption in another language", "translate or leave out", leave_out=True),
        DefectKind(
            "shifted-labels", ERROR, "run of images whose captions belong to a neighbour", "realign", leave_out=True
        ),
        DefectKind(
            "permuted-labels",
            ERROR,
            "image whose captions belong to another image of the collection",
            "give them back",
            leave_out=True,
        ),
        DefectKind(
            "wrong-labels",
            WARNING,
            "image whose captions fit no better than those of a random image",
            "look at it",
            leave_out=True,
        ),
        DefectKind(
            "solvable-blind", WARNING, "judged negatives that can be told without the image", "rewrite the negatives"
        ),
        DefectKind(
            "won-by-chance",
            WARNING,
            "measure that random answers, equal scores or one list for all queries score well on",
            "use a larger pool",
        ),
        DefectKind(
            "false-negatives",
            INFO,
            "matches that further judgements have and the collection lacks, estimated for all images",
            "evaluate with the further judgements",
        ),
        DefectKind(
            "missing-matches", INFO, "pairs that must match but are not judged right", "use the repaired judgements"
        ),
    )
}
"""All kinds of findings by name."""


@dataclass(frozen=True)
class Defect:
    """One defect.

    Args:
        kind: A name of `KINDS`.
        items: Ids of the images or texts concerned, or the name of a measure.
        detail: What was found, in a few words.
    """

    kind: str
    items: tuple[str, ...]
    detail: str = ""

    @property
    def severity(self) -> str:
        """The severity of its kind."""
        return KINDS[self.kind].severity


def counted(findings: Iterable[Defect]) -> str:
    """How many findings of each severity there are, in words; "" for none.

    >>> counted([Defect("leakage", ("a", "b")), Defect("tiny-image", ("c",)), Defect("tiny-image", ("d",))])
    '1 error, 2 warnings'
    """
    counts = Counter(defect.severity for defect in findings)
    return ", ".join(f"{counts[s]:,} {s}{'s' if counts[s] != 1 and s != INFO else ''}" for s in SEVERITIES if counts[s])
