"""Hits: search results as a ranking, a table, JSON, a run file, or an HTML page with images."""

from __future__ import annotations

import base64
import csv
import io
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from limner.core.arrays import Array
from limner.core.collection import Items
from limner.core.errors import LimnerError
from limner.core.files import write_text
from limner.core.markup import guarded_row, template
from limner.core.ranking import Ranking
from limner.search.approximate import Recall
from limner.search.cut_off import CutOff
from limner.search.items import SIDE, Row, small

ENDINGS = (".html", ".json", ".csv", ".run")
NOTHING = "nothing here matches"
GALLERY_SIDE = 480
"""The longer side of a thumbnail in a gallery, in pixels."""
_WIDTH = 72  # maximum characters of a text in a table


@dataclass(frozen=True)
class Match:
    """Why an item was found.

    Args:
        words: The words of the query that occur in its texts.
        by_words: Its rank in the list by words; 0 if it is not in that list.
        by_vectors: Its rank in the list by vectors; 0 if it is not in that list.
        text: The text of the item that contains most of the words; "" if none does.
    """

    words: tuple[str, ...] = ()
    by_words: int = 0
    by_vectors: int = 0
    text: str = ""

    def __str__(self) -> str:
        """In a few words.

        >>> print(Match(("dog",), 2, 14)), print(Match(by_vectors=3))
        rank 2 by words (dog), 14 by vectors
        rank 3 by vectors
        (None, None)
        """
        word_list = f" ({', '.join(self.words)})" if self.words else ""
        ranks = (("words", self.by_words, word_list), ("vectors", self.by_vectors, "" if self.by_words else word_list))
        ranks_text = ", ".join(f"{rank} by {name}{detail}" for name, rank, detail in ranks if rank)
        return f"rank {ranks_text}" if ranks_text else ""


@dataclass(frozen=True)
class Hit:
    """One hit: its rank from 1, its id and score, its text, path or thumbnail if known, and why it was found."""

    rank: int
    id: str
    score: float
    value: str | None = None
    picture: bytes | None = None
    match: Match | None = None


@dataclass(frozen=True, eq=False)
class Hits:
    """The best items of an index for every query.

    Args:
        queries: The queries; their values are None if only vectors were given.
        ranking: Ids and scores, best first, and the size of the index.
        rows: The stored fields of every id in the ranking: "value" and "picture".
        kind: The kind of items: "image", "text" or "item".
        recall: The measured recall of an approximate search; None if the search was exact, or if the index has changed
            since the measurement.
        correction: The name of the correction; None without one.
        exact: Whether every item was compared.
        cut_off: The cut-off that was applied; None if all hits are shown.
        matches: Why each hit was found, by query and id; empty for a plain search by vectors.
        by: How hits were ranked: "vectors", "words" or "hybrid".
        notes: Notes on the effect of minus terms and filters.
    """

    queries: Items
    ranking: Ranking
    rows: Mapping[str, Row]
    kind: str
    recall: Recall | None = None
    correction: str | None = None
    exact: bool = True
    cut_off: CutOff | None = None
    matches: Mapping[tuple[str, str], Match] = field(default_factory=dict)
    by: str = "vectors"
    notes: tuple[str, ...] = ()

    def __getitem__(self, query: object) -> list[Hit]:
        """The hits of one query, by its id."""
        number = self.ranking.queries.index(query)
        pairs = zip(self.ranking.indices[number], self._scores[number], strict=True)
        named = [(self.ranking.candidates[int(index)], float(score)) for index, score in pairs if index >= 0]
        query_id = self.ranking.queries[number]
        return [
            Hit(rank, key, score, self.rows[key]["value"], self.rows[key]["picture"], self.matches.get((query_id, key)))
            for rank, (key, score) in enumerate(named, start=1)
        ]

    @property
    def _scores(self) -> Array:
        import numpy as np

        return np.asarray(self.ranking.scores)

    @property
    def description(self) -> str:
        """What was searched, and how."""
        recall = "recall not measured since the index changed" if self.recall is None else self.recall
        exactness = "exact" if self.exact else f"approximate, {recall}"
        corrected = f", corrected by {self.correction}" if self.correction else ""
        return f"{searched(self.ranking.n_candidates or 0, self.kind, self.by)}, {exactness}{corrected}"

    @property
    def summary(self) -> str:
        """One line on how the search was done, with its guarantee, minus terms and filters."""
        return "; ".join([self.description, *([str(self.cut_off)] if self.cut_off else []), *self.notes])

    def records(self) -> list[dict[str, object]]:
        """One plain dict per hit."""
        named = zip(self.queries.ids, self.queries.values, strict=True)
        return [
            {
                "query": key,
                "query_value": None if value is None else str(value),
                "rank": hit.rank,
                "id": hit.id,
                "score": hit.score,
                "value": hit.value,
                **({} if hit.match is None else {**asdict(hit.match), "words": list(hit.match.words)}),
            }
            for key, value in named
            for hit in self[key]
        ]

    def as_dict(self) -> dict[str, object]:
        """The hits as plain values."""
        return {
            "searched": self.ranking.n_candidates,
            "kind": self.kind,
            "exact": self.exact,
            "recall": None if self.recall is None else self.recall.value,
            "correction": self.correction,
            "cut_off": None if self.cut_off is None else self.cut_off.as_dict(),
            "by": self.by,
            "notes": list(self.notes),
            "hits": self.records(),
        }

    def __str__(self) -> str:
        """A table per query."""
        parts = []
        for number, (key, value) in enumerate(zip(self.queries.ids, self.queries.values, strict=True)):
            lines = [f"{hit.rank:>4}  {hit.score:>8.4f}  {hit.id}{_after(hit)}" for hit in self[key]]
            parts.append("\n".join([_named(key, value, number), *(lines or [f"      {NOTHING}"])]))
        return "\n\n".join([*parts, self.summary])

    def html(self, *, gallery: bool = False) -> str:
        """A self-contained HTML page with thumbnails.

        Args:
            gallery: Whether it is for this machine only: thumbnails are larger, and link to the files.
        """
        page = template("limner.search", "hits.html")
        named = zip(self.queries.ids, self.queries.values, strict=True)
        sections = [
            (_query_view(key, value, self.queries.kind), [_hit_view(h, self.kind, gallery) for h in self[key]])
            for key, value in named
        ]
        return page.render(shown=sections, how=self.summary, kind=self.kind, nothing=NOTHING, gallery=gallery)

    def save_gallery(self, path: str | Path) -> Path:
        """Writes the page for this machine, with larger thumbnails that link to the files."""
        target = Path(path)
        write_text(target, self.html(gallery=True))
        return target

    def save(self, path: str | Path) -> Path:
        """Writes .html, .json, .csv, or .run (a TREC run), atomically."""
        target = Path(path)
        ending = target.suffix.lower()
        if ending == ".run":
            return self.ranking.save(target)
        writers = {".html": self.html, ".json": self._json, ".csv": self._csv}
        if ending not in writers:
            raise LimnerError(f"{target} ends in {ending!r}: hits are written as {', '.join(ENDINGS)}")
        write_text(target, writers[ending]())
        return target

    def _json(self) -> str:
        return json.dumps(self.as_dict(), indent=1, ensure_ascii=False) + "\n"

    def _csv(self) -> str:
        out = io.StringIO()
        match_columns = [each.name for each in fields(Match)] if self.matches else []
        named = ["query", "query_value", "rank", "id", "score", "value", *match_columns]
        writer = csv.DictWriter(out, named, lineterminator="\n")
        writer.writeheader()
        for row in self.records():
            written = {name: ", ".join(cell) if isinstance(cell, list) else cell for name, cell in row.items()}
            writer.writerow(guarded_row(written))
        return out.getvalue()


def searched(count: int, kind: str, by: str) -> str:
    """What was searched, and how it was ranked.

    >>> searched(3000, "image", "hybrid")
    '3,000 images searched by words and vectors, fused by reciprocal rank'
    """
    ranked = {"words": " by words (BM25)", "hybrid": " by words and vectors, fused by reciprocal rank"}
    return f"{count:,} {kind}s searched{ranked.get(by, '')}"


def _named(key: str, value: object, number: int) -> str:
    """The query with its id; without the id if that is only a row number."""
    if value is None or str(value) == key:
        return key
    return _cut(str(value)) if key == str(number) else f"{key}: {_cut(str(value))}"


def _after(hit: Hit) -> str:
    """The rest of a line in the table, after the id: the text, or the caption that matched, and why."""
    why = f"  [{hit.match}]" if hit.match is not None else ""
    value = hit.match.text if hit.match is not None and hit.match.text else hit.value
    return ("" if value is None or value == hit.id else f"  {_cut(value)}") + why


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"


def _query_view(key: str, value: object, kind: str) -> dict[str, object]:
    """A query as the page shows it."""
    if kind == "image" and value is not None:
        uri, why = _uri(value, None, key)
        return {"title": key, "picture": uri, "why": why}
    return {"title": key if value is None else str(value), "picture": None, "why": ""}


def _hit_view(hit: Hit, kind: str, gallery: bool) -> dict[str, object]:
    """A hit as the page shows it."""
    side = GALLERY_SIDE if gallery else SIDE
    uri, why = _uri(hit.value, hit.picture, hit.id, side) if kind == "image" else (None, "")
    is_file = gallery and kind == "image" and os.path.isabs(hit.value or "")
    link = Path(str(hit.value)).as_uri() if is_file else None
    text = hit.value if kind == "text" else None
    if text is None and hit.match is not None:
        text = hit.match.text or None
    return {"hit": hit, "picture": uri, "why": why, "text": text, "score": f"{hit.score:.4f}", "link": link}


def _uri(value: object, image: bytes | None, key: str, side: int = SIDE) -> tuple[str | None, str]:
    """An image as a data URI, or the reason why it cannot be shown."""
    if image is None and value is None:
        return None, "no image is stored"
    try:
        data = image or small(value, name=key, side=side)
    except (LimnerError, OSError) as error:
        return None, str(error)
    form = "webp" if data[8:12] == b"WEBP" else "jpeg"
    return f"data:image/{form};base64,{base64.b64encode(data).decode()}", ""
