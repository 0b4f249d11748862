"""Findings of an audit: their kinds, severities, and the items concerned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

ERROR, WARNING, INFO = "error", "warning", "info"
SEVERITIES = (ERROR, WARNING, INFO)


@dataclass(frozen=True)
class FindingKind:
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


KINDS: dict[str, FindingKind] = {
    kind.name: kind
    for kind in (
        FindingKind("broken-image", ERROR, "image that does not open", "replace or leave out", leave_out=True),
        FindingKind("tiny-image", WARNING, "image with a very short side", "replace or leave out", leave_out=True),
        FindingKind("duplicate-image", ERROR, "two images with the same pixels", "keep one", leave_out=True),
        FindingKind(
            "near-duplicate-image", WARNING, "two images that look the same in every region", "keep one", leave_out=True
        ),
        FindingKind(
            "close-vectors",
            INFO,
            "two images with nearly the same embedding",
            "look at them; they may show the same scene",
        ),
        FindingKind(
            "leakage",
            ERROR,
            "an image, or a copy of it, in two splits",
            "remove it from the training split",
            leave_out=True,
        ),
        FindingKind(
            "repeated-caption", WARNING, "the same caption for different images", "use the repaired judgements"
        ),
        FindingKind("caption-twice", WARNING, "the same caption twice for one image", "keep one", leave_out=True),
        FindingKind("empty-caption", ERROR, "caption without a word", "write or leave out", leave_out=True),
        FindingKind("self-match", ERROR, "caption that contains the name of its image file", "rewrite", leave_out=True),
        FindingKind("other-language", WARNING, "caption in another language", "translate or leave out", leave_out=True),
        FindingKind(
            "shifted-labels", ERROR, "run of images whose captions belong to a neighbour", "realign", leave_out=True
        ),
        FindingKind(
            "permuted-labels",
            ERROR,
            "image whose captions belong to another image of the collection",
            "give them back",
            leave_out=True,
        ),
        FindingKind(
            "wrong-labels",
            WARNING,
            "image whose captions fit no better than those of a random image",
            "look at it",
            leave_out=True,
        ),
        FindingKind(
            "solvable-blind", WARNING, "judged negatives that can be told without the image", "rewrite the negatives"
        ),
        FindingKind(
            "won-by-chance",
            WARNING,
            "measure that random answers, equal scores or one list for all queries score well on",
            "use a larger pool",
        ),
        FindingKind(
            "false-negatives",
            INFO,
            "matches that further judgements have and the collection lacks, estimated for all images",
            "evaluate with the further judgements",
        ),
        FindingKind(
            "missing-matches", INFO, "pairs that must match but are not judged right", "use the repaired judgements"
        ),
    )
}
"""All kinds of findings by name."""


@dataclass(frozen=True)
class Finding:
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


def counted(findings: Iterable[Finding]) -> str:
    """How many findings of each severity there are, in words; "" for none.

    >>> counted([Finding("leakage", ("a", "b")), Finding("tiny-image", ("c",)), Finding("tiny-image", ("d",))])
    '1 error, 2 warnings'
    """
    many = Counter(finding.severity for finding in findings)
    return ", ".join(f"{many[s]:,} {s}{'s' if many[s] != 1 and s != INFO else ''}" for s in SEVERITIES if many[s])
