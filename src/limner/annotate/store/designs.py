"""Designs in the store: the sampling frame, the drawn units, and the answers of automatic judges."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from limner.annotate.store import Store, alone
from limner.annotate.store.contents import Key, insert, keys, number, pairs
from limner.annotate.store.schema import (
    Row,
    caption,
    design,
    design_phase,
    design_unit,
    image,
    inserted,
    judge,
    machine_answer,
    sa,
)
from limner.core.errors import LimnerError, UnknownId

LEVEL = "level"
"""The unit of a design whose queries are labelled up to a level."""
FEW = 500
"""Images whose answers are looked up by name; for more, all answers are read."""


@dataclass(frozen=True)
class Unit:
    """A sampling unit: a pair, or a query with all pairs to judge.

    Args:
        query: Its id.
        candidates: The candidates to judge.
        stratum: Numbered from 0.
        score: The judge's prediction; None without one.
        place: Its position among all drawn units, from 0; None if not drawn.
        phase: The draw in which it was drawn.
        probability: Probability of being drawn, given earlier draws.
    """

    query: str
    candidates: tuple[str, ...]
    stratum: int
    score: float | None = None
    place: int | None = None
    phase: int | None = None
    probability: float | None = None

    def pairs(self, direction: str) -> list[Key]:
        """Its pairs as (image, caption)."""
        return [(self.query, c) if direction == "i2t" else (c, self.query) for c in self.candidates]


@dataclass(frozen=True)
class Design:
    """A stored design.

    Args:
        id: Its id in the store.
        direction: "i2t" or "t2i".
        unit: "pair", "query" or "level" (a query up to a level; the strata are the levels).
        settings: Measures, systems, judge, strata.
        queries: Queries of the collection in this direction.
        units: All units, in order of their ids.
        shares: Allocation of each phase to the strata.
    """

    id: int
    direction: str
    unit: str
    settings: Row
    queries: int
    units: tuple[Unit, ...]
    shares: tuple[tuple[float, ...], ...]

    @property
    def drawn(self) -> list[int]:
        """The ids of the drawn units, in the order they were drawn."""
        drawn_units = [n for n, unit in enumerate(self.units) if unit.place is not None]
        return sorted(drawn_units, key=lambda n: self.units[n].place or 0)


def add_design(
    store: Store, *, direction: str, unit: str, settings: Mapping[str, object], queries: int, units: Sequence[Unit]
) -> int:
    """Saves a design with all its units; returns its id."""
    kind = "query" if unit == LEVEL else unit  # the column allows only pairs and queries
    stored_settings = json.dumps({**settings, LEVEL: True} if unit == LEVEL else settings)
    values = {"direction": direction, "unit": kind, "settings": stored_settings, "queries": queries}
    with store.writing() as connection:
        key = inserted(connection, design, **values, added=store.timestamp())
        rows = [
            {"design_id": key, "number": n, "query": u.query, "candidates": json.dumps(u.candidates),
             "stratum": u.stratum, "score": u.score}
            for n, u in enumerate(units)
        ]  # fmt: skip
        insert(connection, design_unit, rows)
    return key


def fill_units(store: Store, number: int, candidates: Mapping[int, Sequence[str]]) -> None:
    """Writes the candidates of units that were unknown when the design was created."""
    rows = [{"unit": unit, "held": json.dumps(list(each))} for unit, each in candidates.items()]
    target = (design_unit.c.design_id == number, design_unit.c.number == sa.bindparam("unit"))
    with store.writing() as connection:
        connection.execute(sa.update(design_unit).where(*target).values(candidates=sa.bindparam("held")), rows)


def add_phase(
    store: Store, number: int, drawn: Iterable[tuple[int, float]], *, shares: Sequence[float], seed: int
) -> int:
    """Saves a further draw: its units in order, with their probabilities. Returns the number of the draw, from 0."""
    of_design = design_unit.c.design_id == number
    with store.writing() as connection:
        alone(store, connection)
        phase = connection.scalar(sa.select(sa.func.count()).where(design_phase.c.design_id == number)) or 0
        first = connection.scalar(sa.select(sa.func.count()).where(of_design, design_unit.c.place.is_not(None))) or 0
        values = {"design_id": number, "phase": phase, "seed": seed, "shares": json.dumps(list(shares))}
        inserted(connection, design_phase, **values, added=store.timestamp())
        rows = [
            {"unit": unit, "at": first + n, "which": phase, "chance": chance} for n, (unit, chance) in enumerate(drawn)
        ]
        if rows:
            free = (of_design, design_unit.c.number == sa.bindparam("unit"), design_unit.c.place.is_(None))
            new: dict[str, object] = {name: sa.bindparam(bind) for name, bind in
                   (("place", "at"), ("phase", "which"), ("probability", "chance"))}  # fmt: skip
            connection.execute(sa.update(design_unit).where(*free).values(**new), rows)
    return int(phase)


def designs(store: Store) -> list[Design]:
    """All designs in the order of creation."""
    return [_read(store, row) for row in store.rows(sa.select(design).order_by(design.c.id))]


def _read(store: Store, row: Row) -> Design:
    columns = [design_unit.c[n] for n in ("query", "candidates", "stratum", "score", "place", "phase", "probability")]
    statement = sa.select(*columns).where(design_unit.c.design_id == row["id"]).order_by(design_unit.c.number)
    with store.reading() as connection:
        units = [Unit(q, tuple(json.loads(c)), *fields) for q, c, *fields in connection.execute(statement)]
    phases = sa.select(design_phase.c.shares).where(design_phase.c.design_id == row["id"])
    shares = tuple(tuple(json.loads(each["shares"])) for each in store.rows(phases.order_by(design_phase.c.phase)))
    settings = json.loads(row["settings"])
    unit = LEVEL if settings.pop(LEVEL, False) else row["unit"]
    return Design(row["id"], row["direction"], unit, settings, row["queries"], tuple(units), shares)


def judged_pairs(store: Store) -> list[Key]:
    """The pairs that a judge is asked for: those of all designs, or of the pool if there is no design."""
    planned = [pair for each in designs(store) for unit in each.units for pair in unit.pairs(each.direction)]
    chosen = planned or [(each.image, each.caption) for each in pairs(store) if each.origin == "pool"]
    if not chosen:
        raise LimnerError("the store has no pairs: run 'limner annotate plan' or 'limner annotate pool' first")
    return list(dict.fromkeys(chosen))


# --- machines ---------------------------------------------------------------------------------------------------


def add_machine_answers(store: Store, name: str, probabilities: Mapping[Key, float]) -> int:
    """Saves a judge's probabilities; existing ones are kept. Returns the number of new ones."""
    if not name:
        raise LimnerError("a judge needs a name")
    if not probabilities:
        return 0
    with store.writing() as connection:
        alone(store, connection)
        key = connection.scalar(sa.select(judge.c.id).where(judge.c.name == name))
        key = inserted(connection, judge, name=name, added=store.timestamp()) if key is None else int(key)
        names = zip((image, caption), zip(*probabilities, strict=True), strict=True)
        images, captions = (keys(connection, table, each) for table, each in names)
        statement = sa.select(machine_answer.c.image_id, machine_answer.c.caption_id)
        if len(images) <= FEW:
            statement = statement.where(machine_answer.c.image_id.in_(images.values()))
        stored = {tuple(row) for row in connection.execute(statement.where(machine_answer.c.judge_id == key))}
        rows = [
            {"judge_id": key, "image_id": number(images, i, "image"), "caption_id": number(captions, c, "caption"),
             "probability": float(p), "added": store.timestamp()}
            for (i, c), p in probabilities.items()
        ]  # fmt: skip
        new = [row for row in rows if (row["image_id"], row["caption_id"]) not in stored]
        insert(connection, machine_answer, new)
    return len(new)


def machine_answers(store: Store, name: str) -> dict[Key, float]:
    """A judge's probabilities by pair."""
    columns = (image.c.key.label("image"), caption.c.key.label("caption"), machine_answer.c.probability)
    query = sa.select(*columns).select_from(machine_answer).join(judge).join(image).join(caption)
    return {(r["image"], r["caption"]): r["probability"] for r in store.rows(query.where(judge.c.name == name))}


def judge_names(store: Store) -> list[str]:
    """The judges that have answered."""
    return [row["name"] for row in store.rows(sa.select(judge.c.name).order_by(judge.c.id))]


def refuse_unknown_judge(store: Store, name: str) -> None:
    """Refuses a judge without answers, and lists the judges that have answered."""
    names = judge_names(store)
    if name not in names:
        raise UnknownId(f"no judge {name!r} in the store ({', '.join(names) or 'there is none'})")
