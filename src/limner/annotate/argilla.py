"""Records of Argilla: pairs of image and caption written for its import, and its exported records read as answers.

The file is the JSON of `dataset.records.to_json(...)` and `from_json(...)`. A written record has the ids of its image
and caption in its metadata, so that the export can be matched with the collection again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from limner.annotate.label_studio import GRADE, IMAGE_URL, REASON
from limner.annotate.scale import SCALE, ImportedAnswer, Scale, check_comment
from limner.core.errors import LimnerError, shown
from limner.core.files import write_text
from limner.core.paths import read_json

COMMENT = "comment"
"""The question whose answer is kept as a comment."""
_IDS = ("image_id", "caption_id")


def is_records(path: str | Path) -> bool:
    """Whether a JSON file has records of Argilla: a list of objects with fields and responses."""
    content = read_json(path, what="export")
    return isinstance(content, list) and bool(content) and _is_record(content[0])


def _is_record(entry: object) -> bool:
    return isinstance(entry, dict) and {"fields", "responses"} <= set(entry)


def write_records(
    pairs: Iterable[tuple[str, str]], texts: Mapping[str, str], path: str | Path, *, image_url: str = IMAGE_URL
) -> int:
    """Writes a record for every pair; returns how many there are.

    The data set needs an image field `image`, a text field `caption` and a label question `grade`, whose labels are
    those of the scale; a multi-label question `reasons` and a text question `comment` are optional.

    Args:
        pairs: Ids of images and captions.
        texts: Text of each caption, by id.
        path: The file.
        image_url: Address of an image, where `{image}` is replaced by its id.
    """
    if "{image}" not in image_url:
        raise LimnerError(f"image_url={image_url!r}: expected {{image}} in it, the place of the image's id")
    records = [
        {
            "id": f"{image} {caption}",
            "fields": {"image": image_url.replace("{image}", quote(image)), "caption": texts[caption]},
            "metadata": dict(zip(_IDS, (image, caption), strict=True)),
            "suggestions": {},
            "responses": {},
            "vectors": {},
        }
        for image, caption in dict.fromkeys(pairs)
    ]
    if not records:
        raise LimnerError("no pairs: nothing to write")
    write_text(path, json.dumps(records, ensure_ascii=False, indent=1) + "\n")
    return len(records)


def read_records(
    path: str | Path,
    *,
    choices: Mapping[str, int | None] | None = None,
    control: str | None = None,
    image_field: str = "image",
    caption_field: str = "caption",
    scale: Scale = SCALE,
) -> tuple[list[ImportedAnswer], tuple[str, ...]]:
    """Reads exported records: one answer per response to the question with the grade.

    Args:
        path: The file that `dataset.records.to_json` wrote.
        choices: Grade (1 to 4) of each label or rating of another question, None for one that is no answer; the labels
            of the scale are known.
        control: Name of the question with the grade; by default `grade`, or the only question.
        image_field: Field that identifies the image, if there is no `image_id` in the metadata.
        caption_field: Field that identifies the caption, if there is no `caption_id`.
        scale: The scale that the answers must fit.

    Returns:
        The answers, and what was left out, one sentence each.
    """
    source = Path(path)
    records = read_json(source, what="Argilla export")
    if not isinstance(records, list) or not all(map(_is_record, records)):
        raise LimnerError(f"{source}: expected a list of records with fields and responses, as Argilla exports it")
    grades = {each.label: each.value for each in scale.grades} | dict(choices or {})
    answers: list[ImportedAnswer] = []
    left_out: Counter[str] = Counter()
    for number, record in enumerate(records, start=1):
        location = f"{source}, record {number:,}"
        pair = _pair(record, (image_field, caption_field), location)
        responses = _by_question(record, location)
        question = _question(responses, control, location)
        left_out["without a response"] += not responses.get(question)
        for person, value in responses.get(question, {}).items():
            if value not in grades:
                raise LimnerError(
                    f"{location}: the choice {value!r} has no grade; known: {shown(grades, most=9)}. Give it a grade "
                    "from 1 to 4"
                )
            grade = grades[value]
            if grade is None:
                left_out[f"responses with the choice {value!r}"] += 1
                continue
            answers.append(_answer(person, pair, grade, responses, scale, location))
    _refuse_repeated(answers, source)
    return answers, tuple(f"{count:,} {problem} left out" for problem, count in left_out.items() if count)


def _answer(
    person: str, pair: tuple[str, str], grade: int, responses: Mapping[str, Mapping[str, str]], scale: Scale, place: str
) -> ImportedAnswer:
    reasons = [word for word in responses.get(REASON, {}).get(person, "").split("\n") if word]
    try:
        checked = scale.check_reasons(reasons, scale.check_grade(grade))
        return ImportedAnswer(
            person, *pair, grade, checked, None, check_comment(responses.get(COMMENT, {}).get(person, ""))
        )
    except LimnerError as error:
        raise LimnerError(f"{place}: {error}") from error


def _refuse_repeated(answers: Iterable[ImportedAnswer], source: Path) -> None:
    for key, count in Counter((a.annotator, a.image, a.caption) for a in answers).items():
        if count > 1:
            raise LimnerError(
                f"{source}: {key[0]!r} answers image {key[1]!r}, caption {key[2]!r} {count} times: keep one"
            )


def _pair(record: Mapping[str, Any], names: tuple[str, str], location: str) -> tuple[str, str]:
    """The ids of image and caption."""
    metadata, fields, ids = record.get("metadata") or {}, record["fields"], []
    if not isinstance(metadata, dict) or not isinstance(fields, dict):
        raise LimnerError(f"{location}: fields and metadata: expected objects")
    for key, name in zip(_IDS, names, strict=True):
        value = metadata.get(key, fields.get(name))
        if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
            raise LimnerError(f"{location}: neither {key} in the metadata nor a field {name}; got {shown(fields)}")
        ids.append(str(value))
    return ids[0], ids[1]


def _by_question(record: Mapping[str, Any], location: str) -> dict[str, dict[str, str]]:
    """The answers to every question, by person, as text; several labels are joined by line ends."""
    responses = record["responses"]
    if not isinstance(responses, dict):
        raise LimnerError(f"{location}: responses: expected an object, by question")
    return {str(question): dict(_values(each, location)) for question, each in responses.items()}


def _values(listed: object, location: str) -> Iterator[tuple[str, str]]:
    if not isinstance(listed, list) or not all(isinstance(each, dict) and "value" in each for each in listed):
        raise LimnerError(f"{location}: expected a list of responses with a value and a user_id")
    people = [str(each.get("user_id") or "unknown") for each in listed]
    if len(set(people)) < len(people):
        raise LimnerError(f"{location}: one person answers a question twice; delete one of the two responses")
    for person, each in zip(people, listed, strict=True):
        value = each["value"]
        yield person, "\n".join(map(str, value)) if isinstance(value, list) else str(value)


def _question(responses: Mapping[str, object], control: str | None, location: str) -> str:
    if control is not None:
        return control
    questions = [name for name in responses if name not in (REASON, COMMENT)]
    if GRADE in questions or not questions:
        return GRADE
    if len(questions) > 1:
        raise LimnerError(f"{location}: several questions ({shown(questions)}); name the one with the grade")
    return questions[0]
