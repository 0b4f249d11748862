"""A search request: the query, what to find, where to search, and with which options."""

from __future__ import annotations

from dataclasses import dataclass

from limner.core.errors import LimnerError

QUERY = 500
"""Maximum number of characters of a query."""
MOST = 50
"""Maximum number of results."""
FOUND = ("images", "texts")
ALL, HELD_OUT = "all", "held-out"
"""Parts of a collection besides its splits: everything, and the part that is evaluated."""
BY = ("vectors", "words", "hybrid")
MOST_FILTERS = 20
PROMISES = ("50", "70", "80", "90", "95")
"""Target precisions to choose from, in percent."""
LOWEST_PROMISE = int(PROMISES[0]) / 100


@dataclass(frozen=True)
class SearchRequest:
    """A search request.

    Args:
        collection: The name of a collection or of an index.
        words: A text query; or
        image: the id of an image of the collection; or
        uploaded: an uploaded image, as checked bytes.
        systems: Names of the systems to use.
        correction: A name that the library knows, or "" for none.
        k: Number of answers.
        find: "images" or "texts"; "" for the other kind: images for a text, texts for an image.
        split: The part of the collection to search: "all", a split, or "held-out".
        precision: Target precision of the shown answers; None to show all.
        by: What to rank by: "vectors", "words" or "hybrid".
        where: Filters, as "field:value".
    """

    collection: str
    words: str = ""
    image: str = ""
    uploaded: bytes | None = None
    systems: tuple[str, ...] = ()
    correction: str = ""
    k: int = 12
    find: str = ""
    split: str = ALL
    precision: float | None = None
    by: str = "vectors"
    where: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Checks the values."""
        if len(self.words) > QUERY:
            raise LimnerError(f"the query has {len(self.words):,} characters: at most {QUERY} are read")
        if not 1 <= self.k <= MOST:
            raise LimnerError(f"k = {self.k}: expected 1 to {MOST}")
        if self.find not in ("", *FOUND):
            raise LimnerError(f"find = {self.find[:20]!r}: expected {' or '.join(FOUND)}")
        if self.precision is not None and not 0 < self.precision < 1:
            raise LimnerError(f"precision = {self.precision:g}: expected a share between 0 and 1")
        if self.by not in BY:
            raise LimnerError(f"by = {self.by[:20]!r}: expected {', '.join(BY)}")
        if len(self.where) > MOST_FILTERS or any(len(each) > QUERY for each in self.where):
            raise LimnerError(f"{len(self.where)} filters: expected at most {MOST_FILTERS} of {QUERY} characters")
        if self.precision is not None and self.has_terms:
            raise LimnerError(
                "a promised precision is for plain searches by vectors: leave out filters, minus terms and words"
            )

    @property
    def has_terms(self) -> bool:
        """Whether words, minus terms or filters by field are used."""
        from limner.search.query_terms import has_terms

        return self.by != "vectors" or bool(self.where) or has_terms(self.words)

    @property
    def by_image(self) -> bool:
        """Whether the query is an image."""
        return bool(self.image) or self.uploaded is not None

    @property
    def finds_images(self) -> bool:
        """Whether the search returns images."""
        return self.find == "images" if self.find else not self.by_image

    @property
    def direction(self) -> str:
        """The direction: "t2i", "i2t", "i2i" or "t2t"."""
        return f"{'i' if self.by_image else 't'}2{'i' if self.finds_images else 't'}"

    @property
    def crosses(self) -> bool:
        """Whether query and answers are of different kinds."""
        return self.by_image != self.finds_images

    @property
    def has_promise(self) -> bool:
        """Whether only answers of a promised precision are shown."""
        return self.precision is not None and self.crosses

    @property
    def corrects(self) -> bool:
        """Whether a second list with the correction is shown."""
        return bool(self.correction) and self.crosses and self.by != "words" and not self.has_promise

    @property
    def empty(self) -> bool:
        """Whether the query is empty."""
        return not (self.words.strip() or self.by_image)


def no_new_image(name: str) -> LimnerError:
    """The refusal of a system that cannot read an image of the visitor, without paths and options of the server."""
    return LimnerError(
        f"{name} cannot encode a new image: it was trained on features from a file. Use an image of the collection as "
        "the query, or choose a system that computes its features"
    )
