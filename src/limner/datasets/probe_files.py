"""Probes of image-text matching: a caption with hard negatives, or two images with two captions.

Read from local files in the formats of SugarCrepe and SugarCrepe++ (Hsieh et al. 2023; Dumpala et al. 2024), ARO
(Yuksekgonul et al. 2023), VALSE (Parcalabescu et al. 2022), NegBench (Alhamoud et al. 2025) and Winoground (Thrush et
al. 2022). A file is data: nothing in it is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from limner.core.collection import Collection, Items
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.core.judgements import Judgements
from limner.core.paths import damage_told, read_json
from limner.datasets.text_files import At, JsonObject, Notes, existing, json_lines, refuse, table

ENDINGS = (".json", ".jsonl", ".csv")


@dataclass(frozen=True)
class ProbeCase:
    """One test case of a probe.

    Args:
        id: Its name.
        subset: The skill it tests, such as "swap_obj".
        images: One image; or two, which match the first and the second caption.
        right: The captions that match the image, or one for each of two images.
        foils: Captions that do not match; empty if there are two images.
    """

    id: str
    subset: str
    images: tuple[str, ...]
    right: tuple[str, ...]
    foils: tuple[str, ...] = ()

    @property
    def paired(self) -> bool:
        """Whether it has two images and two captions (Winoground)."""
        return len(self.images) == 2

    @property
    def texts(self) -> tuple[str, ...]:
        """All captions, right ones first."""
        return (*self.right, *self.foils)

    @property
    def matches(self) -> tuple[tuple[str, str], ...]:
        """The pairs of an image and a caption that match."""
        images = self.images if self.paired else self.images * len(self.right)
        return tuple(zip(images, self.right, strict=True))


@dataclass(frozen=True)
class Probe:
    """Cases that test whether a system understands captions.

    Args:
        name: Name in tables.
        cases: The cases.
        pictures: The images by id, if they are available.
        warnings: Cases that were left out, and why.
    """

    name: str
    cases: tuple[ProbeCase, ...]
    pictures: Mapping[str, object]
    warnings: tuple[str, ...] = ()

    def collection(self) -> Collection:
        """The collection that a system is run on: all images and captions, each once, and the pairs that match."""
        images = list(dict.fromkeys(image for case in self.cases for image in case.images))
        texts = list(dict.fromkeys(text for case in self.cases for text in case.texts))
        row = {text: f"t{n}" for n, text in enumerate(texts)}
        pairs = {(i, row[t]) for case in self.cases for i, t in case.matches}
        values = [self.pictures.get(image) for image in images]
        return Collection(
            self.name,
            Items(Ids(images, what="image"), values),
            Items(Ids(row.values(), what="text"), texts, kind="text"),
            Judgements.from_pairs(sorted(pairs), queries=images, candidates=list(row.values())),
        )


def read_probe(path: str | Path, *, images: str | Path | None = None) -> Probe:
    """Reads a probe: a file, or a folder whose files are its subsets.

    Args:
        path: JSON of SugarCrepe, SugarCrepe++, ARO or VALSE; csv of NegBench; JSON lines or JSON of Winoground; or a
            folder of such files.
        images: Folder with the images; without it, only their names are known.
    """
    source = existing(path, what="probe")
    files = (
        [source] if source.is_file() else sorted(f for f in source.iterdir() if f.suffix in (".json", ".jsonl", ".csv"))
    )
    if not files:
        raise LimnerError(f"{source} contains no probe: expected {', '.join(ENDINGS)} files")
    cases, notes = list[ProbeCase](), Notes()
    for file in files:
        with damage_told(file, what="probe"):
            cases += _cases(file, notes, several=len(files) > 1)
    if not cases:
        raise LimnerError(f"{source} has no cases: expected captions with hard negatives, or two images and captions")
    folder = None if images is None else existing(images, what="folder of images")
    names = dict.fromkeys(image for case in cases for image in case.images)
    pictures = {} if folder is None else {name: str(folder / name) for name in names}
    return Probe(source.stem, tuple(cases), pictures, notes.listed())


def load_probe(path: str | Path, *, split: str | None = None, images: str | Path | None = None) -> Collection:
    """Loads a probe as a collection: all its images and captions, right and wrong ones, and the pairs that match.

    Args:
        path: A file, or a folder whose files are the subsets of the probe.
        split: Not supported: there are no splits.
        images: Folder with the images.
    """
    if split is not None:
        raise LimnerError(f"split={split!r}: a probe has no splits")
    probe = read_probe(path, images=images)
    return replace(probe.collection(), warnings=probe.warnings)


def _cases(file: Path, notes: Notes, *, several: bool) -> list[ProbeCase]:
    listed = []
    for name, at, record in _records(file):
        make = next((make for keys, make in FORMS if keys <= set(record)), None)
        if make is None:
            refuse(
                at, f"case {name!r} has {', '.join(sorted(map(str, record)))[:120]}; expected the keys of a known form"
            )
        case = make(f"{file.stem}/{name}" if several else name, record, file.stem)
        _refuse_bad(at, case)
        if set(case.right) & set(case.foils):
            notes.add(at, "a caption is both right and wrong in the same case: the case is left out")
            continue
        listed.append(case)
    return listed


def _records(file: Path) -> Iterator[tuple[str, At, Mapping[str, object]]]:
    """The cases in a file, with their names."""
    if file.suffix == ".csv":
        for number, (at, cells) in enumerate(table(file, delimiter=",")):
            yield str(number), at, cells
        return
    if file.suffix == ".jsonl":
        for at, content in json_lines(file):
            yield str(content.get("id", at.line)), at, content
        return
    content = read_json(file, what="probe")
    listed = list(content.items()) if isinstance(content, Mapping) else list(enumerate(content))
    for name, record in listed:
        if not isinstance(record, Mapping):
            refuse(At(file), f"case {name!r} is {type(record).__name__}; expected an object for each case")
        yield str(name), At(file), record


def _refuse_bad(at: At, case: ProbeCase) -> None:
    words = (*case.images, *case.right, *case.foils)
    if not all(isinstance(word, str) and word.strip() for word in words):
        refuse(at, f"case {case.id!r}: got an empty or missing image or caption; expected text for each")


# --- forms ------------------------------------------------------------------------------------------------------


def _skill(record: JsonObject, key: str, otherwise: str) -> str:
    """The skill that a case names, or else the name of its file."""
    skill = record.get(key)
    return skill if isinstance(skill, str) and skill else otherwise


def _sugarcrepe(name: str, record: JsonObject, subset: str) -> ProbeCase:
    right = [record["caption"], *([record["caption2"]] if "caption2" in record else [])]
    return ProbeCase(
        name, _skill(record, "subset", subset), (record["filename"],), tuple(right), (record["negative_caption"],)
    )


def _valse(name: str, record: JsonObject, subset: str) -> ProbeCase:
    skill = _skill(record, "linguistic_phenomena", subset)
    return ProbeCase(name, skill, (record["image_file"],), (record["caption"],), (record["foil"],))


def _aro(name: str, record: JsonObject, subset: str) -> ProbeCase:
    return ProbeCase(name, subset, (record["image_path"],), (record["true_caption"],), (record["false_caption"],))


def _choices(name: str, record: JsonObject, subset: str) -> ProbeCase:
    listed = [record[key] for key in sorted(record) if str(key).startswith("caption_") and record[key]]
    at = int(record["correct_answer"])
    if not 0 <= at < len(listed):
        raise LimnerError(f"case {name!r}: correct_answer is {at}, expected 0 to {len(listed) - 1}")
    foils = tuple(caption for n, caption in enumerate(listed) if n != at)
    skill = _skill(record, "correct_answer_template", subset)
    return ProbeCase(name, skill, (record["image_path"],), (listed[at],), foils)


def _winoground(name: str, record: JsonObject, subset: str) -> ProbeCase:
    sides = (record["image_0"], record["image_1"]), (record["caption_0"], record["caption_1"])
    return ProbeCase(name, _skill(record, "collapsed_tag", subset), *sides)


FORMS: Sequence[tuple[frozenset[str], Callable[[str, JsonObject, str], ProbeCase]]] = (
    (frozenset({"image_0", "image_1", "caption_0", "caption_1"}), _winoground),
    (frozenset({"image_path", "correct_answer", "caption_0"}), _choices),
    (frozenset({"filename", "caption", "negative_caption"}), _sugarcrepe),
    (frozenset({"image_file", "caption", "foil"}), _valse),
    (frozenset({"image_path", "true_caption", "false_caption"}), _aro),
)
"""Formats of cases, by their keys; the first that matches is used."""
