"""Tasks of Label Studio and records of Argilla: pairs written for their import, and their JSON exports read as answers.

A written task or record has the ids of its image and caption, so that the export can be matched with the collection
again. Label Studio refuses annotations of people it has no account for; the annotator of a written answer is therefore
kept in the `meta` of its result. The file of Argilla is that of `dataset.records.to_json(...)` and `from_json(...)`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from urllib.parse import quote

from limner.annotate.scale import RELEVANCE, SCALE, ImportedAnswer, Scale, check_comment
from limner.annotate.store.answers import Answer
from limner.core.collection import Collection
from limner.core.errors import LimnerError, shown
from limner.core.files import write_text
from limner.core.paths import read_json

GRADE, REASON, COMMENT = "grade", "reasons", "comment"
"""Names of the controls, or questions: the grade, its reasons, and a remark."""
IMAGE_URL = "{image}"
"""Default address of an image: its id."""
_IDS = ("image_id", "caption_id")
_KINDS = ("choices", "rating")
Object = Mapping[str, object]


def interface(scale: Scale = SCALE) -> str:
    """The labelling interface of the written tasks, as XML for the project settings of Label Studio."""
    grades = "".join(
        f'\n    <Choice value="{escape(each.label)}" hotkey="{escape(each.key)}"/>' for each in scale.by_value.values()
    )
    reasons = "".join(
        f'\n    <Choice value="{escape(each.name)}" hint="{escape(each.label)}"/>' for each in scale.reasons
    )
    return f"""<View>
  <Image name="image" value="$image"/>
  <Text name="caption" value="$caption"/>
  <Choices name="{GRADE}" toName="image" choice="single" required="true">{grades}
  </Choices>
  <Choices name="{REASON}" toName="image" choice="multiple">{reasons}
  </Choices>
</View>
"""


# --- writing ----------------------------------------------------------------------------------------------------


def tasks(
    pairs: Iterable[tuple[str, str]],
    texts: Mapping[str, str],
    *,
    answers: Iterable[Answer | ImportedAnswer] = (),
    image_url: str = IMAGE_URL,
    scale: Scale = SCALE,
) -> list[dict[str, object]]:
    """One task per pair of image and caption, with an annotation for each answer.

    Args:
        pairs: Ids of images and captions.
        texts: Text of each caption, by id.
        answers: `Answer` of a store or `ImportedAnswer` of a file; answers to other pairs are left out.
        image_url: Address of an image, where `{image}` is replaced by its id.
        scale: The scale of the answers.

    >>> [made] = tasks([("dog.jpg", "t0")], {"t0": "a dog"}, answers=[ImportedAnswer("ann", "dog.jpg", "t0", 4)])
    >>> made["data"]["caption"], made["annotations"][0]["result"][0]["value"]
    ('a dog', {'choices': ['100% yes']})
    """
    annotations: dict[tuple[str, str], list[dict[str, object]]] = {}
    for each in answers:
        annotations.setdefault((each.image, each.caption), []).append(_annotation(each, scale))
    return [
        {"data": {**_fields(pair, texts, image_url), **_ids(pair)}, "annotations": annotations.get(pair, [])}
        for pair in dict.fromkeys(pairs)
    ]


def _fields(pair: tuple[str, str], texts: Mapping[str, str], image_url: str) -> dict[str, str]:
    """The address of the image, and the text of the caption."""
    if "{image}" not in image_url:
        raise LimnerError(f"image_url={image_url!r}: expected {{image}} in it, the place of the image's id")
    return {"image": image_url.replace("{image}", quote(pair[0])), "caption": texts[pair[1]]}


def _ids(pair: tuple[str, str]) -> dict[str, str]:
    return dict(zip(_IDS, pair, strict=True))


def _annotation(each: Answer | ImportedAnswer, scale: Scale) -> dict[str, object]:
    seconds = None if each.milliseconds is None else each.milliseconds / 1000
    meta = {"annotator": each.annotator} | ({"comment": each.comment} if each.comment else {})
    result = [_chosen(GRADE, [scale.label(each.grade)], meta)]
    if each.reasons:
        result.append(_chosen(REASON, list(each.reasons), meta))
    # Label Studio takes a missing ground_truth for True.
    return {"result": result, "was_cancelled": False, "ground_truth": False, "lead_time": seconds}


def _chosen(control: str, choices: list[str], meta: Mapping[str, str] | None = None) -> dict[str, object]:
    extra = {} if meta is None else {"meta": dict(meta)}
    return {"from_name": control, "to_name": "image", "type": "choices", "value": {"choices": choices}, **extra}


def collection_tasks(collection: Collection, *, image_url: str = IMAGE_URL) -> list[dict[str, object]]:
    """One task per judged pair of a collection; its grade becomes a prediction, which people can confirm or change.

    Args:
        collection: Its grades have to be 0, 0.5 or 1: those of the scale of answers.
        image_url: Address of an image, where `{image}` is replaced by its id.
    """
    judged = collection.judgements.restrict(candidates=collection.texts.ids)
    words = {RELEVANCE[grade.value]: grade.label for grade in SCALE.grades}
    odd = sorted(set(judged.grades.tolist()) - set(words))
    if odd:
        raise LimnerError(f"grades {shown(map(str, odd))}: expected 0, 0.5 or 1; set a threshold with at_least() first")
    texts = dict(zip(collection.texts.ids, collection.texts.values, strict=True))
    listed = list(judged)
    task_list = tasks([(image, text) for image, text, _ in listed], texts, image_url=image_url)
    for each, (_, _, grade) in zip(task_list, listed, strict=True):
        result = [_chosen(GRADE, [words[grade]])]
        each["predictions"] = [{"model_version": judged.name, "score": grade, "result": result}]
    return task_list


def write_records(
    pairs: Iterable[tuple[str, str]], texts: Mapping[str, str], path: str | Path, *, image_url: str = IMAGE_URL
) -> int:
    """Writes a record of Argilla for every pair; returns how many there are.

    The data set needs an image field `image`, a text field `caption` and a label question `grade`, whose labels are
    those of the scale; a multi-label question `reasons` and a text question `comment` are optional.

    Args:
        pairs: Ids of images and captions.
        texts: Text of each caption, by id.
        path: The file.
        image_url: Address of an image, where `{image}` is replaced by its id.
    """
    empty: dict[str, object] = {"suggestions": {}, "responses": {}, "vectors": {}}
    records: list[dict[str, object]] = [
        {"id": " ".join(pair), "fields": _fields(pair, texts, image_url), "metadata": _ids(pair), **empty}
        for pair in dict.fromkeys(pairs)
    ]
    return _write(records, path)


def write_tasks(tasks: Sequence[Object], path: str | Path, *, scale: Scale = SCALE) -> int:
    """Writes tasks for the import of Label Studio, and next to them the labelling interface (.xml); their number."""
    number = _write(tasks, path)
    write_text(Path(path).with_suffix(".xml"), interface(scale))
    return number


def _write(entries: Sequence[Object], path: str | Path) -> int:
    if not entries:
        raise LimnerError("no pairs: nothing to write")
    write_text(path, json.dumps(entries, ensure_ascii=False, indent=1) + "\n")
    return len(entries)


# --- reading ----------------------------------------------------------------------------------------------------


@dataclass
class _Reader:
    """What is read so far: answers by person and pair, and what was left out.

    Args:
        scale: The scale that the answers must fit.
        grades: Grade of each choice; None for one that is no answer.
        control: The control or question with the grade, if it is named.
        names: Fields that identify image and caption, where the ids are missing.
    """

    scale: Scale
    grades: Mapping[str, int | None]
    control: str | None
    names: tuple[str, str]
    answers: dict[tuple[str, str, str], ImportedAnswer] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)

    def pair(self, ids: Object, fields: Object, location: str) -> tuple[str, str]:
        """The ids of image and caption."""
        pair = []
        for key, name in zip(_IDS, self.names, strict=True):
            value = ids.get(key, fields.get(name))
            if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
                raise LimnerError(f"{location}: neither {key} nor {name}; got {shown(map(str, {**ids, **fields}))}")
            pair.append(str(value))
        return pair[0], pair[1]

    def add(
        self,
        person: str,
        pair: tuple[str, str],
        word: str,
        reasons: Sequence[str],
        comment: object,
        location: str,
        *,
        milliseconds: int | None = None,
        noun: str,
    ) -> None:
        """Adds the answer with this choice, or counts why it is left out."""
        if word not in self.grades:
            raise LimnerError(
                f"{location}: the choice {word!r} has no grade; known: {shown(self.grades, most=9)}. Give it a grade "
                "from 1 to 4"
            )
        grade = self.grades[word]
        if grade is None:
            self.left_out[f"{noun} with the choice {word!r}"] += 1
            return
        if (person, *pair) in self.answers:
            raise LimnerError(f"{location}: {person!r} answers this pair twice; delete one of the two answers")
        try:
            checked = self.scale.check_reasons(reasons, self.scale.check_grade(grade))
            answer = ImportedAnswer(person, *pair, grade, checked, milliseconds, check_comment(comment or ""))
        except LimnerError as error:
            raise LimnerError(f"{location}: {error}") from error
        self.answers[person, *pair] = answer


def read_tasks(
    path: str | Path,
    *,
    choices: Mapping[str, int | None] | None = None,
    control: str | None = None,
    image_field: str = "image",
    caption_field: str = "caption",
    scale: Scale = SCALE,
) -> tuple[list[ImportedAnswer], tuple[str, ...]]:
    """Reads Label Studio's export in the format "JSON", or Argilla's records: one answer per annotation or response.

    Skipped tasks and annotations without a choice are not answers: they are left out and counted.

    Args:
        path: The export.
        choices: Grade (1 to 4) of each choice or rating of another labelling interface, None for one that is no
            answer; the labels of the scale are known.
        control: Name of the control or question with the grade, if there are several.
        image_field: Field that identifies the image, if there is no `image_id`.
        caption_field: Field that identifies the caption, if there is no `caption_id`.
        scale: The scale that the answers must fit.

    Returns:
        The answers, and what was left out, one sentence each.
    """
    exported = read_json(Path(path), what="export")
    if not isinstance(exported, list):
        raise LimnerError(f"{path}: got {type(exported).__name__}, expected a list of tasks as Label Studio exports it")
    grades = {each.label: each.value for each in scale.grades} | dict(choices or {})
    reader = _Reader(scale, grades, control, (image_field, caption_field))
    of_argilla = bool(exported) and isinstance(exported[0], dict) and "fields" in exported[0]
    for number, entry in enumerate(exported, start=1):
        if of_argilla:
            _read_record(reader, entry, f"{path}, record {number:,}")
        else:
            _read_task(reader, entry, f"{path}, task {number:,}")
    left_out = tuple(f"{count:,} {problem} left out" for problem, count in reader.left_out.items() if count)
    return list(reader.answers.values()), left_out


# --- Label Studio


def _read_task(reader: _Reader, task: object, location: str) -> None:
    if not isinstance(task, dict) or not isinstance(task.get("data"), dict):
        raise LimnerError(f"{location}: the task has no 'data'; export as JSON, not as JSON-MIN")
    pair, annotations = reader.pair(task["data"], task["data"], location), task.get("annotations")
    if not isinstance(annotations, list) or not all(isinstance(each, dict) for each in annotations):
        raise LimnerError(f"{location}: expected a list of annotations, as in Label Studio's JSON export")
    for annotation in annotations:
        _read_annotation(reader, annotation, pair, location)
    reader.left_out["without an annotation"] += not annotations


def _read_annotation(reader: _Reader, annotation: Object, pair: tuple[str, str], location: str) -> None:
    if annotation.get("was_cancelled"):
        reader.left_out["skipped annotations"] += 1
        return
    results = annotation.get("result")
    if not isinstance(results, list) or not all(isinstance(each, dict) for each in results):
        raise LimnerError(f"{location}: an annotation without a list 'result'")
    graded = [each for each in results if each.get("type") in _KINDS and _may_grade(each.get("from_name"), reader)]
    names = {str(each.get("from_name")) for each in graded}
    if len(names) > 1:
        raise LimnerError(f"{location}: several controls ({shown(sorted(names))}); name the one with the grade")
    words = [word for each in graded for word in _words(each, location)]
    if not words:
        reader.left_out["annotations without a choice"] += 1
        return
    if len(words) > 1:
        raise LimnerError(f"{location}: {len(words)} choices ({shown(words)}), expected one")
    why = [word for each in results if each.get("from_name") == REASON for word in _words(each, location)]
    meta = graded[0].get("meta")
    meta = meta if isinstance(meta, dict) else {}
    person, took = str(meta.get("annotator") or _account(annotation)), _milliseconds(annotation.get("lead_time"))
    reader.add(person, pair, words[0], why, meta.get("comment"), location, milliseconds=took, noun="annotations")


def _may_grade(name: object, reader: _Reader) -> bool:
    """Without a named control, every control but that of the reasons may have the grade."""
    return name != REASON if reader.control is None else name == reader.control


def _words(result: Object, location: str) -> list[str]:
    """The choices of a result, or its rating as one word."""
    value = result.get("value")
    choice = value.get(result.get("type")) if isinstance(value, dict) else None
    if choice is None or choice == []:
        return []
    listed = choice if isinstance(choice, list) else [choice]
    if not all(isinstance(word, (str, int, float)) and not isinstance(word, bool) for word in listed):
        raise LimnerError(f"{location}: the choices {str(choice)[:60]!r}; expected a list of words, or a rating")
    return [str(word) for word in listed]


def _account(annotation: Object) -> object:
    """Who answered: the account, by its address or number."""
    account = annotation.get("completed_by")
    if isinstance(account, dict):
        account = account.get("email") or account.get("id")
    return account or "unknown"


def _milliseconds(seconds: object) -> int | None:
    """The time of an answer; Label Studio counts seconds."""
    if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and 0 <= seconds <= 86_400:
        return round(1000 * seconds)
    return None


# --- Argilla


def _read_record(reader: _Reader, record: object, location: str) -> None:
    if not isinstance(record, dict) or not {"fields", "responses"} <= set(record):
        raise LimnerError(f"{location}: expected a list of records with fields and responses, as Argilla exports it")
    metadata, fields = record.get("metadata") or {}, record["fields"]
    if not isinstance(metadata, dict) or not isinstance(fields, dict):
        raise LimnerError(f"{location}: fields and metadata: expected objects")
    pair, responses = reader.pair(metadata, fields, location), record["responses"]
    if not isinstance(responses, dict):
        raise LimnerError(f"{location}: responses: expected an object, by question")
    by_question = {str(name): dict(_values(each, location)) for name, each in responses.items()}
    answers = by_question.get(_question(by_question, reader.control, location), {})
    reader.left_out["without a response"] += not answers
    for person, word in answers.items():
        reasons = [name for name in by_question.get(REASON, {}).get(person, "").split("\n") if name]
        comment = by_question.get(COMMENT, {}).get(person)
        reader.add(person, pair, word, reasons, comment, location, noun="responses")


def _values(listed: object, location: str) -> Iterator[tuple[str, str]]:
    """The responses to a question, by person, as text; several labels are joined by line ends."""
    if not isinstance(listed, list) or not all(isinstance(each, dict) and "value" in each for each in listed):
        raise LimnerError(f"{location}: expected a list of responses with a value and a user_id")
    people = [str(each.get("user_id") or "unknown") for each in listed]
    if len(set(people)) < len(people):
        raise LimnerError(f"{location}: one person answers a question twice; delete one of the two responses")
    for person, each in zip(people, listed, strict=True):
        value = each["value"]
        yield person, "\n".join(map(str, value)) if isinstance(value, list) else str(value)


def _question(responses: Object, control: str | None, location: str) -> str:
    if control is not None:
        return control
    questions = [name for name in responses if name not in (REASON, COMMENT)]
    if GRADE in questions or not questions:
        return GRADE
    if len(questions) > 1:
        raise LimnerError(f"{location}: several questions ({shown(questions)}); name the one with the grade")
    return questions[0]
