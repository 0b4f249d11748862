"""Which claim of the query the returned image contradicts: object, colour, number, action, size, detail, or none.

The classes are those that Lymperaiou et al. (2022) used for labels by people. Here they are found by parsing the query
and checking the known objects of the returned image. A claim that the *relevant* image contradicts as well was parsed
wrongly or is not annotated, so it is dropped as uninformative. A claim that cannot be checked (a colour, if objects
have none) does not count as a failure. `rules` are patterns among labelled failures: which classes occur together.
`shown_failures` are failures of each class for the report page.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from pathlib import Path

from limner.core.collection import Collection
from limner.core.errors import LimnerError, UnknownName
from limner.core.progress import ProgressLike, counting
from limner.datasets.text_files import At, JsonObject, table
from limner.evaluation.reports.page.gallery import Case, Failures, Marked
from limner.explain.concept_agreement import HIGHER, ConceptAgreement
from limner.explain.concepts import Concepts, ImageObject, name_to_synset
from limner.explain.failures import Explanations, Failure, describe_failure
from limner.explain.noun_phrases import FUNCTION, Phrase, is_modifier, phrases, stands_for, words
from limner.language.wordnet import WordNet

CLASSES = ("object", "colour", "number", "action", "size", "detail", "alternative")
ALTERNATIVE = "alternative"
CAPTION_CLASSES = ("no object in common", "some objects wrong", "number, colour or detail wrong", "captions fit")
"""How far the captions of the image returned are from the query, where objects are not annotated."""

PLACES = {"fly": "air", "float": "air", "swim": "water"}
"""The place that an action implies; other actions are checked against the attribute "action"."""

RELATIONS = {
    "left of": ("left of",), "right of": ("right of",), "above": ("above",), "over": ("above",), "below": ("below",),
    "under": ("below", "under"), "beneath": ("below", "under"), "in front of": ("in front of",), "behind": ("behind",),
    "next to": ("next to",), "beside": ("next to",), "near": ("next to",), "by": ("next to",), "on top of": ("on",),
    "on": ("on",),
}  # fmt: skip


@dataclass(frozen=True)
class ClaimReader:
    """Resources for parsing and checking claims.

    Args:
        wordnet: The graph.
        settings: For words about the background, the backgrounds they apply to (`setting_words`).
    """

    wordnet: WordNet
    settings: Mapping[str, frozenset[str]]

    def broken(self, text: str, image: Concepts) -> Counter[tuple[str, int]]:
        """The claims of a text that an image contradicts: (class, number of the phrase)."""
        claims = phrases(text, self.wordnet)
        contradicted: Counter[tuple[str, int]] = Counter()
        for number, phrase in enumerate(claims):
            contradicted.update((name, number) for name in self._of_phrase(phrase, text, image))
        if not all(self._related(one, second_phrase, text, image) for one, second_phrase in pairwise(claims)):
            contradicted["detail", -1] += 1
        if not self._set(text, image):
            contradicted["detail", -2] += 1
        return contradicted

    def _of_phrase(self, phrase: Phrase, text: str, image: Concepts) -> list[str]:
        if all(word in self.settings for word in phrase.noun.split()):
            return []  # the background is checked separately
        kin = [item for item in image.things if stands_for(_bare(phrase), item.concept, self.wordnet)]
        if not kin:
            return ["object"]
        faults = [_faults(phrase, item, _place(phrase, text)) for item in kin]
        n_fitting = sum(not each for each in faults)
        if not n_fitting:
            return min(faults, key=len)
        right = n_fitting == phrase.number if phrase.exact else n_fitting >= phrase.number
        return [] if right else ["number"]

    def _related(self, one: Phrase, second_phrase: Phrase, text: str, image: Concepts) -> bool:
        """Whether the relation stated between two phrases, if any, holds between some objects of the image."""
        tokens = [word.lower() for word in words(text)]
        between = " ".join(tokens[one.stop : second_phrase.start])
        relations = next((names for phrase, names in RELATIONS.items() if f" {phrase} " in f" {between} "), ())
        after = " ".join(tokens[second_phrase.stop : second_phrase.stop + 2])
        if "with" in between.split() and after in ("on it", "on them", "on top"):
            relations = ("under",)
        both_present = all(
            any(stands_for(_bare(p), name, self.wordnet) for name in image.names) for p in (one, second_phrase)
        )
        return not (relations and both_present) or any(  # if one of them is missing, the missing object is the failure
            relation in relations
            and stands_for(_bare(one), a, self.wordnet)
            and stands_for(_bare(second_phrase), b, self.wordnet)
            for a, relation, b in image.relations
        )

    def _set(self, text: str, image: Concepts) -> bool:
        settings = [self.settings[word] for word in map(str.lower, words(text)) if word in self.settings]
        return image.setting is None or all(image.setting in places for places in settings)


def _bare(phrase: Phrase) -> Phrase:
    """The noun alone, for caching."""
    return Phrase(phrase.noun, phrase.senses)


def _place(phrase: Phrase, text: str) -> str | None:
    after = [word.lower() for word in words(text)][phrase.stop : phrase.stop + 3]
    return after[2] if len(after) == 3 and after[0] in ("in", "on") and after[2] in ("air", "water") else None


def _faults(phrase: Phrase, item: ImageObject, place: str | None) -> list[str]:
    """The claims of a phrase that an object does not meet; unknown attributes are ignored."""
    classes = [
        attribute for attribute in ("colour", "size") if _differs(getattr(phrase, attribute), item.value(attribute))
    ]
    for action in phrase.actions:
        actual = item.value("place") if action in PLACES else item.value("action")
        if _differs(PLACES.get(action, action), actual):
            classes.append("action")
    return classes + (["detail"] if _differs(place, item.value("place")) else [])


def _differs(claimed: str | None, actual: str | None) -> bool:
    return claimed is not None and actual is not None and claimed != actual


def setting_words(collection: Collection, wordnet: WordNet, *, min_count: int = 5) -> dict[str, frozenset[str]]:
    """Words that captions use only for some backgrounds, with those backgrounds, learned from the captions themselves.

    Nouns that name an object in some image are left out: a boat is not a background. Empty if no background is known.
    """
    if "background" not in collection.images.fields:
        return {}
    counts_by_word = _by_word(collection)
    backgrounds = frozenset(collection.images.field("background"))
    kinds = {kind for row in collection.images.fields.get("objects", ()) for kind in _kinds(row, wordnet)}
    settings = {}
    for word, counts in counts_by_word.items():
        places = frozenset(counts)
        enough = sum(counts.values()) >= min_count * len(places) and places < backgrounds
        if enough and word not in FUNCTION_KEPT and not is_modifier(word) and not _names_any(word, kinds, wordnet):
            settings[word] = places
    return settings


def _kinds(objects: Sequence[JsonObject], wordnet: WordNet) -> Iterator[str]:
    """The synset of each object, or the usual sense of its name: a car is no room, though one sense (of a lift) is."""
    for entry in objects:
        synset = str(entry.get("synset") or "")
        yield synset if synset in wordnet else name_to_synset(str(entry.get("name", "")), wordnet) or synset


FUNCTION_KEPT = FUNCTION - {"outside", "inside", "outdoors", "indoors"}


def _by_word(collection: Collection) -> dict[str, Counter[str]]:
    pairs = collection.judgements.relevant
    backgrounds = collection.images.field("background")
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row, column in zip(pairs.rows, pairs.columns, strict=True):
        for word in set(map(str.lower, words(collection.texts.values[int(column)]))):
            counts[word][backgrounds[int(row)]] += 1
    return counts


def _names_any(word: str, kinds: Iterable[str], wordnet: WordNet) -> bool:
    base = wordnet.base(word)
    if base is None:
        return False
    phrase = Phrase(base, tuple(s.name for s in wordnet.synsets(base)))
    return any(stands_for(phrase, kind, wordnet) for kind in kinds)


def label(failure: Failure, truth: Concepts, returned: Concepts, reader: ClaimReader) -> frozenset[str]:
    """The classes of one failure; empty if no checkable claim is wrong.

    An answer that more complete judgements count as relevant is an acceptable alternative, and gets no other class.
    """
    if failure.alternative:
        return frozenset({ALTERNATIVE})
    return frozenset(name for name, _ in _wrong(failure, truth, returned, reader))


def _wrong(failure: Failure, truth: Concepts, returned: Concepts, reader: ClaimReader) -> set[tuple[str, int]]:
    """The claims that only the wrong image contradicts: (class, number of the phrase)."""
    home, wrong_image = (truth, returned) if failure.by_text else (returned, truth)
    return set(reader.broken(failure.text, wrong_image)) - set(reader.broken(failure.text, home))


def caption_class(failure: Failure, truth: Concepts, returned: Concepts, reader: ClaimReader) -> str:
    """One of `CAPTION_CLASSES`, or an acceptable alternative.

    A caption names few of the objects of a photograph, so nearly every failure has the class "object" there; how many
    of the objects are wrong tells more.
    """
    if failure.alternative:
        return ALTERNATIVE
    wrong = _wrong(failure, truth, returned, reader)
    missing = {number for name, number in wrong if name == "object"}
    if not missing:
        return CAPTION_CLASSES[2 if wrong else 3]
    named = [p for p in phrases(failure.text, reader.wordnet) if not all(w in reader.settings for w in p.noun.split())]
    return CAPTION_CLASSES[0 if len(missing) == len(named) else 1]


def label_all(
    failed: Sequence[Failure],
    concepts: Mapping[str, Concepts],
    reader: ClaimReader,
    *,
    progress: ProgressLike = None,
) -> dict[str, frozenset[str]]:
    """The classes of every failure, by query; `progress` is called with (failures done, failures in total)."""
    done = counting(failed, progress)
    return {f.query: label(f, concepts[f.truth], concepts[f.returned], reader) for f in done}


def read_labels(path: str | Path) -> dict[str, frozenset[str]]:
    """Human labels from a csv with the columns query and label; one label per row, or several separated by `;`.

    A row with an empty label means that nothing is wrong: an acceptable alternative.
    """
    source = Path(path)
    if not source.is_file():
        raise LimnerError(f"no file {source}: expected a csv with the columns query and label")
    labels: dict[str, set[str]] = defaultdict(set)
    for at, row in table(source, delimiter=",", needs=("query", "label")):
        if not row["query"]:
            raise LimnerError(f"{at}: no query")
        for name in [n.strip().lower() for n in row["label"].split(";")]:
            labels[row["query"]].add(_checked_class(name or ALTERNATIVE, at))
    return {query: frozenset(names) for query, names in labels.items()}


def _checked_class(name: str, at: At) -> str:
    spelled = {"color": "colour", "details": "detail", "none": ALTERNATIVE, "enumeration": "number"}.get(name, name)
    if spelled not in CLASSES:
        raise UnknownName(f"label ({at})", name, CLASSES)
    return spelled


NONE = "none found"


@dataclass(frozen=True)
class Rule:
    """If A disagrees, so does B.

    Args:
        a: The condition.
        b: The consequence.
        both: How many failures have both.
        support: Share of all failures that have both.
        confidence: Share of the failures with A that have B.
        lift: Confidence divided by the share of B among all failures; above 1, A makes B more likely.
    """

    a: str
    b: str
    both: int
    support: float
    confidence: float
    lift: float

    def __str__(self) -> str:
        return (
            f"{self.a} -> {self.b}: support {self.support:.1%}, confidence {self.confidence:.1%}, lift {self.lift:.2f}"
        )


def rates(labels: Mapping[str, frozenset[str]]) -> dict[str, tuple[int, float]]:
    """How many failures have each class, and their share; the shares may add up to more than 1.

    >>> rates({"q1": frozenset({"colour", "size"}), "q2": frozenset({"colour"})})["colour"]
    (2, 1.0)
    """
    total = max(1, len(labels))
    counts = {name: sum(name in each for each in labels.values()) for name in CLASSES}
    counts[NONE] = sum(not each for each in labels.values())
    return {name: (count, count / total) for name, count in counts.items()}


def together(labels: Iterable[frozenset[str]]) -> dict[tuple[str, str], int]:
    """For each pair of classes, how many failures have both."""
    sets = list(labels)
    pairs = permutations(CLASSES, 2)
    return {(a, b): sum(a in each and b in each for each in sets) for a, b in pairs if a < b}


def rules(labels: Iterable[frozenset[str]], *, support: float = 0.01, confidence: float = 0.1) -> list[Rule]:
    """Rules A -> B over failures, the most confident first.

    Args:
        labels: The classes of each failure.
        support: Minimum share of failures that have both.
        confidence: Minimum share of those with A that have B.

    >>> both, one = frozenset({"colour", "size"}), frozenset({"colour"})
    >>> print(rules([both, one, one])[0])
    size -> colour: support 33.3%, confidence 100.0%, lift 1.00
    """
    sets = list(labels)
    count = {name: sum(name in each for each in sets) for name in CLASSES if name != ALTERNATIVE}
    listed = []
    for a, b in permutations(count, 2):
        n_both = sum(a in each and b in each for each in sets)
        if n_both and n_both / len(sets) >= support and n_both / count[a] >= confidence:
            trust = n_both / count[a]
            listed.append(Rule(a, b, n_both, n_both / len(sets), trust, trust * len(sets) / count[b]))
    return sorted(listed, key=lambda rule: (-rule.confidence, -rule.both, rule.a, rule.b))


def rules_table(labels: Mapping[str, frozenset[str]], listed: Sequence[Rule]) -> str:
    """Rates and rules as text for a terminal."""
    lines = [f"{'class':12} {'failures':>8} {'share':>7}"]
    lines += [f"{name:12} {count:8,} {share:7.1%}" for name, (count, share) in rates(labels).items()]
    return "\n".join([*lines, *(f"rule: {rule}" for rule in listed)])


def shown_failures(done: Explanations, labels: Mapping[str, frozenset[str]], *, each: int = 4) -> Failures:
    """The failures section of the page: `report.save("report.html", collection=..., failures=shown_failures(...))`.

    Args:
        done: The explained failures.
        labels: The classes of each query, automatic or from people.
        each: How many failures of each class to show.
    """
    about = f"{len(done):,} queries whose first answer is not relevant, with the content of both images compared."
    return Failures(
        about,
        [(name, f"{count:,}", f"{share:.1%}") for name, (count, share) in rates(labels).items()],
        [_score(name, row) for name, row in done.summary.items()],
        [str(rule) for rule in rules(labels.values())[:8]],
        [_case(failure, agreement, done.concepts, labels) for failure, agreement in _chosen(done, labels, each)],
    )


def _score(name: str, row: Mapping[str, float]) -> tuple[str, ...]:
    if math.isnan(row["mean"]):
        return name, "–", "–", "higher" if name in HIGHER else "lower", f"{int(row['undefined']):,}"
    span = "–" if math.isnan(row["low"]) else f"{row['low']:.3f} to {row['high']:.3f}"
    better = "higher" if name in HIGHER else "lower"
    return name, f"{row['mean']:.3f}", span, better, f"{int(row['undefined']):,}"


def _chosen(
    done: Explanations, labels: Mapping[str, frozenset[str]], each: int
) -> list[tuple[Failure, ConceptAgreement]]:
    """The first failures of each class."""
    counts: dict[str, int] = {}
    chosen = []
    for failure, agreement in zip(done.failures, done.agreements, strict=True):
        names = labels.get(failure.query) or frozenset({NONE})
        if any(counts.get(name, 0) < each for name in names):
            chosen.append((failure, agreement))
            counts.update({name: counts.get(name, 0) + 1 for name in names})
    return chosen


def _case(
    failure: Failure,
    agreement: ConceptAgreement,
    concepts: Mapping[str, Concepts],
    labels: Mapping[str, frozenset[str]],
) -> Case:
    common = frozenset(agreement.common)
    boxes = [_boxes(concepts[image], common) for image in (failure.truth, failure.returned)]
    names = tuple(sorted(labels.get(failure.query) or {NONE}))
    words = describe_failure(failure, agreement).split("\n")[2:]
    return Case(failure.query, failure.text, names, failure.truth, failure.returned, (boxes[0], boxes[1]), words)


def _boxes(image: Concepts, common: frozenset[str]) -> Sequence[Marked]:
    return [
        Marked(item.concept.partition(".")[0].replace("_", " "), item.box, item.concept in common)
        for item in image.things
        if item.box is not None and item.area
    ]
