"""Studies: a form, the questions of a sample, and one answer of each person to each question."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from limner.annotate.form import Answer, StudyForm, form_from_json
from limner.annotate.store import AlreadyFull, Store, alone
from limner.annotate.store.schema import Row, annotator, inserted, question, sa, study, study_answer
from limner.core.errors import LimnerError, UnknownId, UnknownName
from limner.core.paths import parse_json

_ANSWERED = "this question has your answer, or all the answers it needs: continue with the next one"


@dataclass(frozen=True)
class StoredStudy:
    """A study: its name, its form, and what its results need beside the answers."""

    id: int
    name: str
    form: StudyForm
    settings: Row


@dataclass(frozen=True)
class Question:
    """One question of a study.

    Args:
        shown: What people see, by name: texts, or ids of images and captions.
        hidden: What they must not see, such as the names of the systems.
        id: Its number in the store; 0 for a new one.
        study: Name of its study.
    """

    shown: Row
    hidden: Row
    id: int = 0
    study: str = ""

    def identity(self, form: StudyForm) -> tuple[str, ...]:
        """The values that identify the question in a file."""
        return tuple(str(self.hidden.get(name, self.shown.get(name, ""))) for name in form.identified_by)


@dataclass(frozen=True)
class StudyAnswer:
    """One person's answer to a question."""

    question: Question
    answer: Answer
    annotator: str
    milliseconds: int | None
    added: int


def add_study(store: Store, name: str, form: StudyForm, settings: Mapping[str, object] | None = None) -> StoredStudy:
    """Adds a study; the present one if it has the same form and settings; another one with its name is refused."""
    if not name.strip():
        raise LimnerError("a study needs a name")
    values = {"form": json.dumps(form.to_json()), "settings": json.dumps(dict(settings or {}))}
    with store.writing() as connection:
        alone(store, connection)
        row = connection.execute(sa.select(study).where(study.c.name == name)).mappings().first()
        if row is None:
            number = inserted(connection, study, **values, name=name, added=store.timestamp())
        elif any(row[key] != value for key, value in values.items()):
            raise LimnerError(f"study {name!r} has another form or other settings: expected a name that is not used")
        else:
            number = row["id"]
    return StoredStudy(number, name, form, dict(settings or {}))


def studies(store: Store) -> dict[str, StoredStudy]:
    """The studies of a store by name, in the order of creation."""
    rows = store.rows(sa.select(study).order_by(study.c.id))
    return {row["name"]: _study(store, row) for row in rows}


def _study(store: Store, row: Row) -> StoredStudy:
    origin = f"study {row['name']!r} of the store {store.location}"
    form = form_from_json(parse_json(row["form"], where=origin))
    return StoredStudy(row["id"], row["name"], form, parse_json(row["settings"], where=origin))


def study_named(store: Store, name: str) -> StoredStudy:
    """A study by name."""
    by_name = studies(store)
    if name not in by_name:
        raise UnknownName("study", name, by_name)
    return by_name[name]


def add_questions(store: Store, name: str, new: Iterable[Question], *, people: int = 1) -> int:
    """Adds questions to a study; those that it has already are left out.

    Args:
        store: The store.
        name: The study.
        new: The questions.
        people: Number of people who answer each of them.

    Returns:
        How many are new.
    """
    if people < 1:
        raise LimnerError(f"{people} people per question: expected 1 or more")
    of = study_named(store, name)
    with store.writing() as connection:
        alone(store, connection)
        stored = set(connection.scalars(sa.select(question.c.key).where(question.c.study_id == of.id)))
        by_key: dict[str, Question] = {json.dumps(each.identity(of.form)): each for each in new}
        rows = [
            {"study_id": of.id, "key": key, "shown": json.dumps(dict(each.shown)),
             "hidden": json.dumps(dict(each.hidden)), "replication": people, "added": store.timestamp()}
            for key, each in by_key.items()
            if key not in stored
        ]  # fmt: skip
        if rows:
            connection.execute(sa.insert(question), rows)
    return len(rows)


_COLUMNS = (question.c.id, study.c.name, question.c.shown, question.c.hidden)


def _question(row: Any) -> Question:
    return Question(json.loads(row.shown), json.loads(row.hidden), row.id, row.name)


def _of(name: str | None) -> sa.ColumnElement[bool]:
    return sa.true() if name is None else study.c.name == name


def questions(store: Store, name: str) -> list[Question]:
    """All questions of a study, in order."""
    query = sa.select(*_COLUMNS).join_from(question, study).where(study.c.name == name).order_by(question.c.id)
    with store.reading() as connection:
        return [_question(row) for row in connection.execute(query)]


def next_question(store: Store, annotator_id: int, *, name: str | None = None) -> Question | None:
    """The next question for this annotator: one that needs more answers, fewest answers first; or None.

    What is hidden from people is left out.

    Args:
        store: The store.
        annotator_id: The annotator.
        name: Name of the study; any by default.
    """
    of_question = study_answer.c.question_id == question.c.id
    answered = sa.select(sa.func.count()).where(of_question).correlate(question).scalar_subquery()
    answered_by_me = sa.exists().where(of_question, study_answer.c.annotator_id == annotator_id)
    # People start at different positions, so that they rarely get the same question.
    spread = (question.c.id * 7919 + annotator_id * 104_729) % 1_000_003
    query = (
        sa.select(*_COLUMNS)
        .join_from(question, study)
        .where(answered < question.c.replication, ~answered_by_me, _of(name))
    )
    with store.reading() as connection:
        row = connection.execute(query.order_by(answered, spread).limit(1)).first()
        return None if row is None else replace(_question(row), hidden={})


def give_answer(
    store: Store,
    annotator_id: int,
    question_id: int,
    *,
    key: str,
    answer: Answer,
    milliseconds: int | None = None,
) -> bool:
    """Stores an answer; False if this answer is already stored.

    Args:
        store: The store.
        annotator_id: The annotator.
        question_id: The question.
        key: Created by the client; the same when the answer is sent again.
        answer: The answer by part, as the study's form expects it.
        milliseconds: Time spent on the answer.
    """
    if not key:
        raise LimnerError("an answer needs its own key")
    checked = json.dumps(check_answer(store, question_id, answer))
    with store.writing() as connection:
        places = sa.select(question.c.replication).where(question.c.id == question_id).with_for_update()
        replication = connection.scalar(places) or 0
        query = sa.select(study_answer).where(study_answer.c.question_id == question_id)
        rows = connection.execute(query).mappings().all()
        if any(row["client_key"] == key and row["annotator_id"] == annotator_id for row in rows):
            return False
        if any(row["annotator_id"] == annotator_id for row in rows) or len(rows) >= replication:
            raise AlreadyFull(_ANSWERED)
        values = {"question_id": question_id, "annotator_id": annotator_id, "answer": checked, "client_key": key}
        clash = "this key was used for another answer: use a new key for every answer"
        inserted(connection, study_answer, clash, **values, milliseconds=milliseconds, added=store.timestamp())
        return True


def form_of_question(store: Store, question_id: int) -> StudyForm:
    """The form of the study of a question."""
    return _with_form(store, question_id)[0]


def _with_form(store: Store, question_id: int) -> tuple[StudyForm, Row]:
    """The form of a question, and what it shows."""
    query = sa.select(study, question.c.shown).join_from(question, study).where(question.c.id == question_id)
    rows = store.rows(query)
    if not rows:
        raise UnknownId(f"no question {question_id}")
    return _study(store, rows[0]).form, json.loads(rows[0]["shown"])


def check_answer(store: Store, question_id: int, answer: Answer) -> dict[str, object]:
    """An answer in the form that is stored; refused if it does not fit the form of the question's study."""
    form, content = _with_form(store, question_id)
    return form.check(answer, content)


def add_answers(store: Store, name: str, new: Iterable[tuple[int, int, Answer, int | None]]) -> int:
    """Stores answers that were given elsewhere, all or none; answers that are already stored are skipped.

    Args:
        store: The store.
        name: The study they belong to.
        new: Id of the question, id of the annotator, answer, milliseconds.

    Returns:
        The number of new answers.
    """
    of, by_id = study_named(store, name), {each.id: each for each in questions(store, name)}
    checked = []
    for number, person, answer, took in new:
        if number not in by_id:
            raise UnknownId(f"no question {number} in study {name!r}")
        checked.append((number, person, json.dumps(of.form.check(answer, by_id[number].shown)), took))
    with store.writing() as connection:
        alone(store, connection)
        sizes = sa.select(question.c.id, question.c.replication).where(question.c.study_id == of.id)
        places = {number: int(replication) for number, replication in connection.execute(sizes)}
        columns = (study_answer.c.question_id, study_answer.c.annotator_id, study_answer.c.answer)
        stored = {
            (number, person): stored_answer for number, person, stored_answer in connection.execute(sa.select(*columns))
        }
        rows = _new_rows(
            checked, places, {key: stored_answer for key, stored_answer in stored.items() if key[0] in places}
        )
        if rows:
            connection.execute(sa.insert(study_answer), [{**row, "added": store.timestamp()} for row in rows])
    return len(rows)


def _new_rows(
    checked: Iterable[tuple[int, int, str, int | None]],
    places: Mapping[int, int],
    stored: Mapping[tuple[int, int], str],
) -> list[dict[str, object]]:
    """The answers that are not stored yet; refused if a person answered differently, or there are too many."""
    rows: dict[tuple[int, int], dict[str, object]] = {}
    for number, person, answer, took in checked:
        before = stored.get((number, person), rows.get((number, person), {}).get("answer", answer))
        if before != answer:
            raise LimnerError(f"annotator {person} answered question {number} differently: no answer was added")
        if (number, person) not in stored:
            key = f"import:{number}:{person}"
            rows[number, person] = {"question_id": number, "annotator_id": person, "answer": answer, "client_key": key}
            rows[number, person]["milliseconds"] = took
    for number, answers in Counter(number for number, _ in (*stored, *rows)).items():
        if answers > places[number]:
            raise LimnerError(
                f"question {number} would get {answers} answers instead of {places[number]}: no answer was added"
            )
    return list(rows.values())


def study_answers(store: Store, name: str | None = None) -> list[StudyAnswer]:
    """All answers of a study, or of all studies, in order."""
    answer_columns = (study_answer.c.answer, study_answer.c.milliseconds, study_answer.c.added)
    query = sa.select(*_COLUMNS, *answer_columns, annotator.c.name.label("annotator"))
    query = query.join_from(study_answer, question).join(study).join(annotator).where(_of(name))
    with store.reading() as connection:
        rows = connection.execute(query.order_by(study_answer.c.id)).all()
    return [
        StudyAnswer(_question(row), json.loads(row.answer), row.annotator, row.milliseconds, row.added) for row in rows
    ]


def study_progress(store: Store, name: str | None = None) -> dict[str, int]:
    """Numbers of questions, answers and requested answers; of one study, or all."""
    totals = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(question.c.replication), 0))
    answer_count = sa.select(sa.func.count()).select_from(study_answer).join(question).join(study).where(_of(name))
    with store.reading() as connection:
        count, requested = connection.execute(totals.join_from(question, study).where(_of(name))).one()
        return {"questions": count, "answers": connection.scalar(answer_count) or 0, "asked": int(requested)}
