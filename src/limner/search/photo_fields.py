"""What photographs say about themselves: size, date, camera and place, as fields to filter by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from limner.core.collection import Items
from limner.core.errors import LimnerError
from limner.core.images import header

_EXIF, _GPS = 0x8769, 0x8825  # parts of the metadata
_DATES = (36867, 36868, 306)  # taken, digitised, changed
_MAKE, _MODEL, _ORIENTATION = 271, 272, 274
_ON_ITS_SIDE = range(5, 9)  # values of the orientation
NAMES = ("date", "year", "camera", "latitude", "longitude", "width", "height", "folder")
"""The fields; a photograph has those that its file tells."""


Tags = Mapping[int, object]


@dataclass(frozen=True)
class PhotoMetadata:
    """What the header of an image file tells.

    Args:
        size: Width and height as the image is shown.
        tags: The main EXIF tags, by number.
        details: Those of the photograph.
        place: Those of the place.
    """

    size: tuple[int, int]
    tags: Tags = field(default_factory=dict)
    details: Tags = field(default_factory=dict)
    place: Tags = field(default_factory=dict)

    @classmethod
    def read(cls, path: str | Path) -> PhotoMetadata | None:
        """Reads the header; None if it cannot be read. Damaged metadata are no metadata."""
        try:
            with header(path, name=str(path)) as image:
                size, exif = image.size, _nothing_if_damaged(image.getexif)
                details = _nothing_if_damaged(lambda: exif.get_ifd(_EXIF))
                place = _nothing_if_damaged(lambda: exif.get_ifd(_GPS))
                tags = _nothing_if_damaged(lambda: dict(exif))
        except (LimnerError, OSError):
            return None
        sideways = tags.get(_ORIENTATION) in _ON_ITS_SIDE
        return cls(size[::-1] if sideways else size, tags, details, place)

    @property
    def date(self) -> str | None:
        """When it was taken, such as 2020-05-17T10:22:11; None if no valid date is stored."""
        stored = [self.details.get(tag) or self.tags.get(tag) for tag in _DATES]
        return next(filter(None, map(_iso_date, stored)), None)

    @property
    def camera(self) -> str | None:
        """The make and the model of the camera."""
        make, model = (_text(self.tags.get(tag)) for tag in (_MAKE, _MODEL))
        return model if model.lower().startswith(make.lower()) and model else f"{make} {model}".strip() or None

    @property
    def position(self) -> tuple[float, float] | None:
        """Latitude and longitude in degrees, north and east positive."""
        sides = [_degrees(self.place.get(number), self.place.get(number - 1)) for number in (2, 4)]
        latitude, longitude = sides
        if latitude is None or longitude is None or abs(latitude) > 90 or abs(longitude) > 180:
            return None
        return latitude, longitude

    def fields(self) -> dict[str, str | int | float]:
        """The fields that are known."""
        date, position = self.date, self.position or (None, None)
        values = (date, int(date[:4]) if date else None, self.camera, *position, *self.size)
        return {name: value for name, value in zip(NAMES, values, strict=False) if value is not None}


def with_photo_fields(items: Items) -> Items:
    """Images with the fields of their files in addition to their own; other items are unchanged.

    Args:
        items: The items; an image that is a file in a folder also has the field "folder".
    """
    if items.kind != "image":
        return items
    records = [_fields(key, value) for key, value in zip(items.ids, items.values, strict=True)]
    names = [name for name in NAMES if name not in items.fields and any(name in record for record in records)]
    return items.with_fields(**{name: [record.get(name) for record in records] for name in names})


def _fields(key: str, value: object) -> dict[str, str | int | float]:
    if not isinstance(value, (str, Path)) or "://" in str(value):
        return {}
    metadata = PhotoMetadata.read(value)
    place = key.rpartition("/")[0]
    return {**({} if metadata is None else metadata.fields()), **({"folder": place} if place else {})}


def _nothing_if_damaged(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except Exception:  # the reader of damaged metadata raises almost any exception
        return {}


def _text(value: object) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def _iso_date(stored: object) -> str | None:
    """An EXIF date in ISO form.

    >>> _iso_date("2020:05:17 10:22:11"), _iso_date("0000:00:00 00:00:00"), _iso_date(b"yesterday")
    ('2020-05-17T10:22:11', None, None)
    """
    from datetime import datetime

    with suppress(ValueError):
        return datetime.strptime(_text(stored)[:19], "%Y:%m:%d %H:%M:%S").isoformat()
    return None


def _degrees(parts: object, side: object) -> float | None:
    """Degrees, minutes and seconds as one number, negative to the south and west.

    >>> _degrees((48, 51, 30), "N"), _degrees((2, 30, 0), "W"), _degrees(None, "N")
    (48.858333, -2.5, None)
    """
    with suppress(TypeError, ValueError, ZeroDivisionError):
        degrees, minutes, seconds = map(float, parts)  # type: ignore[call-overload]  # TypeError is caught
        total: float = degrees + minutes / 60 + seconds / 3600
        return round(-total if _text(side).upper() in ("S", "W") else total, 6)
    return None
