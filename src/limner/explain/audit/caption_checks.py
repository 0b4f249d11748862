"""Captions that repeat, are empty, name their image, or are in another language."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from limner.core.collection import Collection
from limner.explain.audit.findings import Defect
from limner.language.identification import main_language, other_language

_WORD = re.compile(r"\w+")
_LEAST_NAME = 5
"""File names shorter than this may be ordinary words."""


def plain(text: str) -> str:
    """A caption in lower case, without punctuation and spacing.

    >>> plain("A dog, running.") == plain("a dog running")
    True
    """
    return " ".join(_WORD.findall(text.casefold()))


def images_of(collection: Collection) -> list[list[int]]:
    """The rows of the images that each text matches."""
    owners: list[list[int]] = [[] for _ in collection.texts.ids]
    pairs = collection.judgements.relevant
    for row, column in zip(pairs.rows, pairs.columns, strict=True):
        if column < len(owners):
            owners[column].append(int(row))
    return owners


def repeated(collection: Collection) -> Iterator[Defect]:
    """Captions shared by several images, and captions that occur twice for one image."""
    owners, ids = images_of(collection), collection.texts.ids
    rows: dict[str, list[int]] = {}
    for row, text in enumerate(collection.texts.values):
        if key := plain(text):
            rows.setdefault(key, []).append(row)
    for rows_alike in (group for group in rows.values() if len(group) > 1):
        caption = str(collection.texts.values[rows_alike[0]])
        by_image: dict[int, list[int]] = {}
        for row in rows_alike:
            for image in owners[row]:
                by_image.setdefault(image, []).append(row)
        if len(by_image) > 1:
            yield Defect(
                "repeated-caption", tuple(ids[row] for row in rows_alike), f"{len(by_image)} images: {caption!r}"
            )
        for image, twice in by_image.items():
            for row in twice[1:]:
                detail = f"{collection.images.ids[image]}: {caption!r}"
                yield Defect("caption-twice", (ids[twice[0]], ids[row]), detail)


def empty(collection: Collection) -> Iterator[Defect]:
    """Captions without words; collections that only have ids, so that all captions are empty, are not checked."""
    texts = collection.texts
    if any(plain(text) for text in texts.values):
        for row, text in enumerate(texts.values):
            if not plain(text):
                yield Defect("empty-caption", (texts.ids[row],), repr(text))


def self_matches(collection: Collection) -> Iterator[Defect]:
    """Captions that contain the file name of their image, so that a system need not look at the image."""
    owners = images_of(collection)
    for row, text in enumerate(collection.texts.values):
        folded = text.casefold()
        for image in owners[row]:
            name = Path(collection.images.ids[image]).stem.casefold()
            if len(name) >= _LEAST_NAME and any(c.isdigit() for c in name) and name in folded:
                yield Defect("self-match", (collection.texts.ids[row],), f"{text!r} holds {name!r}")
                break


def other_languages(collection: Collection) -> Iterator[Defect]:
    """Captions that are clearly in another language than their field `language`, or than most captions."""
    texts = collection.texts
    languages = texts.fields.get("language")
    main = "" if languages is not None else main_language(texts.values)
    for row, text in enumerate(texts.values):
        expected = str(languages[row]) if languages is not None else main
        if expected and (language := other_language(text, expected)):
            yield Defect("other-language", (texts.ids[row],), f"{language}, expected {expected}: {text!r}")
