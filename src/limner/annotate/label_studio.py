"""Tasks of Label Studio: pairs of image and caption written for its import, and its JSON export read as answers.

A written task has the ids of its image and caption in its data, so that the export can be matched with the collection
again. Label Studio refuses annotations of people it has no account for; the annotator of a written answer is therefore
kept in the `meta` of its result.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from limner.annotate.scale import RELEVANCE, SCALE, ImportedAnswer, Scale, check_comment
from limner.core.collection import Collection
from limner.core.errors import LimnerError, shown
from limner.core.files import write_text
from limner.core.paths import read_json

GRADE, REASON = "grade", "reasons"
"""Names of the two controls of the labelling interface: the grade and its reasons."""
IMAGE_URL = "{image}"
"""Default address of an image in a task: its id."""
_IDS = ("image_id", "caption_id")
_KINDS = ("choices", "rating")


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
    answers: Iterable[Any] = (),
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
    if "{image}" not in image_url:
        raise LimnerError(f"image_url={image_url!r}: expected {{image}} in it, the place of the image's id")
    annotations: dict[tuple[str, str], list[dict[str, object]]] = {}
    for each in answers:
        annotations.setdefault((each.image, each.caption), []).append(_annotation(each, scale))
    return [
        {"data": _data(pair, texts[pair[1]], image_url), "annotations": annotations.get(pair, [])}
        for pair in dict.fromkeys(pairs)
    ]


def _data(pair: tuple[str, str], text: str, image_url: str) -> dict[str, str]:
    address = image_url.replace("{image}", quote(pair[0]))
    return {"image": address, "caption": text, **dict(zip(_IDS, pair, strict=True))}


def _annotation(each: Any, scale: Scale) -> dict[str, object]:
    seconds = None if each.milliseconds is None else each.milliseconds / 1000
    meta = {"annotator": each.annotator} | ({"comment": each.comment} if each.comment else {})
    result = [_chosen(GRADE, [scale.label(each.grade)], meta)]
    if each.reasons:
        result.append(_chosen(REASON, list(each.reasons), meta))
    # Label Studio takes a missing ground_truth for True.
    return {"result": result, "was_cancelled": False, "ground_truth": False, "lead_time": seconds}


def _chosen(control: str, choices: list[str], meta: Mapping[str, str] | None = None) -> dict[str, Any]:
    result = {"from_name": control, "to_name": "image", "type": "choices", "value": {"choices": choices}}
    return result if meta is None else {**result, "meta": dict(meta)}


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


def write_tasks(tasks: Sequence[Mapping[str, object]], path: str | Path, *, scale: Scale = SCALE) -> int:
    """Writes tasks for the import of Label Studio, and next to them the labelling interface (.xml).

    Returns:
        The number of tasks.
    """
    if not tasks:
        raise LimnerError("no pairs: nothing to write")
    write_text(path, json.dumps(tasks, ensure_ascii=False, indent=1) + "\n")
    write_text(Path(path).with_suffix(".xml"), interface(scale))
    return len(tasks)


# --- reading ----------------------------------------------------------------------------------------------------


def read_tasks(
    path: str | Path,
    *,
    choices: Mapping[str, int | None] | None = None,
    control: str | None = None,
    image_field: str = "image",
    caption_field: str = "caption",
    scale: Scale = SCALE,
) -> tuple[list[ImportedAnswer], tuple[str, ...]]:
    """Reads Label Studio's JSON export: one answer per annotation.

    Skipped tasks and annotations without a choice are not answers: they are left out and counted.

    Args:
        path: The export, in the format "JSON".
        choices: Grade (1 to 4) of each choice or rating of another labelling interface, None for one that is no
            answer; the labels of the scale are known.
        control: Name of the control with the grade, if there are several.
        image_field: Field of the task's data that identifies the image, if there is no `image_id`.
        caption_field: Field that identifies the caption, if there is no `caption_id`.
        scale: The scale that the answers must fit.

    Returns:
        The answers, and what was left out, one sentence each.
    """
    source = Path(path)
    exported = read_json(source, what="Label Studio export")
    if not isinstance(exported, list):
        raise LimnerError(
            f"{source}: got {type(exported).__name__}, expected a list of tasks as Label Studio exports it"
        )
    grades = {each.label: each.value for each in scale.grades} | dict(choices or {})
    answers: dict[tuple[str, str, str], ImportedAnswer] = {}
    left: Counter[str] = Counter()
    for number, task in enumerate(exported, start=1):
        location = f"{source}, task {number:,}"
        pair = _pair(task, (image_field, caption_field), location)
        for annotation in _annotations(task, location):
            each = _answer(annotation, pair, grades, control, scale, location)
            if isinstance(each, str):
                left[each] += 1
            elif answers.setdefault((each.annotator, *pair), each) is not each:
                raise LimnerError(
                    f"{location}: {each.annotator!r} answers this pair twice; delete one of the two answers"
                )
        left["without an annotation"] += not task["annotations"]
    return list(answers.values()), tuple(f"{count:,} {problem} left out" for problem, count in left.items() if count)


def _pair(task: object, names: tuple[str, str], location: str) -> tuple[str, str]:
    """The ids of image and caption."""
    if not isinstance(task, dict) or not isinstance(task.get("data"), dict):
        raise LimnerError(f"{location}: the task has no 'data'; export as JSON, not as JSON-MIN")
    data, ids = task["data"], []
    for field, name in zip(_IDS, names, strict=True):
        value = data.get(field, data.get(name))
        if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
            raise LimnerError(
                f"{location}: the data of the task has neither {field} nor {name}; got {shown(map(str, data))}"
            )
        ids.append(str(value))
    return ids[0], ids[1]


def _annotations(task: Mapping[str, object], location: str) -> list[dict[str, object]]:
    annotations = task.get("annotations")
    if not isinstance(annotations, list) or not all(isinstance(each, dict) for each in annotations):
        raise LimnerError(f"{location}: expected a list of annotations, as in Label Studio's JSON export")
    return annotations


def _answer(
    annotation: Mapping[str, object],
    pair: tuple[str, str],
    grades: Mapping[str, int | None],
    control: str | None,
    scale: Scale,
    location: str,
) -> ImportedAnswer | str:
    """The answer of an annotation, or why there is none."""
    if annotation.get("was_cancelled"):
        return "skipped annotations"
    results = annotation.get("result")
    if not isinstance(results, list) or not all(isinstance(each, dict) for each in results):
        raise LimnerError(f"{location}: an annotation without a list 'result'")
    graded = [each for each in results if each.get("type") in _KINDS and _may_grade(each.get("from_name"), control)]
    names = {str(each.get("from_name")) for each in graded}
    if len(names) > 1:
        raise LimnerError(f"{location}: several controls ({shown(sorted(names))}); name the one with the grade")
    words = [word for each in graded for word in _words(each, location)]
    if not words:
        return "annotations without a choice"
    if len(words) > 1:
        raise LimnerError(f"{location}: {len(words)} choices ({shown(words)}), expected one")
    if words[0] not in grades:
        accepted = shown(grades, most=9)
        raise LimnerError(
            f"{location}: the choice {words[0]!r} has no grade; known: {accepted}. Give it a grade from 1 to 4"
        )
    grade = grades[words[0]]
    if grade is None:
        return f"annotations with the choice {words[0]!r}"
    why = [word for each in results if each.get("from_name") == REASON for word in _words(each, location)]
    try:
        reasons = scale.check_reasons(why, scale.check_grade(grade))
        return ImportedAnswer(
            _annotator(annotation, graded), *pair, grade, reasons, _took(annotation), _comment(graded)
        )
    except LimnerError as error:
        raise LimnerError(f"{location}: {error}") from error


def _may_grade(name: object, control: str | None) -> bool:
    """Without a named control, every control but that of the reasons may have the grade."""
    return name != REASON if control is None else name == control


def _words(result: Mapping[str, object], location: str) -> list[str]:
    """The choices of a result, or its rating as one word."""
    value = result.get("value")
    choice = value.get(result.get("type")) if isinstance(value, dict) else None
    if choice is None or choice == []:
        return []
    listed = choice if isinstance(choice, list) else [choice]
    if not all(isinstance(word, (str, int, float)) and not isinstance(word, bool) for word in listed):
        raise LimnerError(f"{location}: the choices {str(choice)[:60]!r}; expected a list of words, or a rating")
    return [str(word) for word in listed]


def _annotator(annotation: Mapping[str, object], results: Sequence[Mapping[str, object]]) -> str:
    """Who answered: the annotator that limner wrote, else the account, by its address or number."""
    meta, account = results[0].get("meta"), annotation.get("completed_by")
    name = meta.get("annotator") if isinstance(meta, dict) else None
    if isinstance(account, dict):
        account = account.get("email") or account.get("id")
    return str(name or account or "unknown")


def _comment(results: Sequence[Mapping[str, object]]) -> str:
    """The comment that limner wrote; none if empty."""
    meta = results[0].get("meta")
    comment = meta.get("comment") if isinstance(meta, dict) else None
    return "" if comment is None else check_comment(comment)


def _took(annotation: Mapping[str, Any]) -> int | None:
    """The time of an answer in milliseconds; Label Studio counts seconds."""
    seconds = annotation.get("lead_time")
    valid = isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and 0 <= seconds <= 86_400
    return round(1000 * seconds) if valid and seconds is not None else None
