"""The captions of the built-in world: their English, their meaning, and the truth of every pair.

Two things here are written apart from the package on purpose: a reader that turns a caption back into a meaning, and
an oracle that decides by brute force whether a meaning is true of a picture.
"""

from __future__ import annotations

import re
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limner.core.errors import LimnerError, UnknownName
from limner.core.ids import Ids
from limner.datasets import scenes
from limner.datasets.scenes.grammar import sentence
from limner.datasets.scenes.meaning import SceneTruth, complete_judgements, exclusive
from limner.datasets.scenes.scene import Scene, SceneObject
from limner.datasets.scenes.world import Dice


@pytest.fixture(scope="module")
def world():
    return scenes.load(images=500)


# ------------------------------------------------------------------------------ a reader of captions, written apart

NOUNS = {
    "dog": "dog dogs", "cat": "cat cats", "rabbit": "rabbit rabbits", "sheep": "sheep sheep", "bird": "bird birds",
    "fish": "fish fish", "butterfly": "butterfly butterflies", "truck": "truck trucks", "boat": "boat boats",
    "ball": "ball balls", "kite": "kite kites", "balloon": "balloon balloons", "tree": "tree trees",
    "flower": "flower flowers", "cactus": "cactus cacti", "chair": "chair chairs", "table": "table tables",
    "lamp": "lamp lamps", "house": "house houses", "umbrella": "umbrella umbrellas", "mammal": "mammal mammals",
    "insect": "insect insects", "vehicle": "vehicle vehicles", "plant": "plant plants", "object": "object objects",
    "building": "building buildings", "animal": "animal animals", "toy": "toy toys", "car": "car cars",
    "bicycle": "bicycle bicycles", "airplane": "airplane airplanes", "teddy": "teddy teddies",
}  # fmt: skip
FURTHER = {
    "car": "automobile automobiles auto autos",
    "bicycle": "bike bikes",
    "airplane": "plane planes aeroplane aeroplanes",
    "animal": "creature creatures",
    "toy": "plaything playthings",
}
PHRASES = {
    "teddy": ("teddy bear", "teddy bears"),
    "motor vehicle": ("motor vehicle", "motor vehicles"),
    "piece of furniture": ("piece of furniture", "pieces of furniture"),
}
SIZES = {"small": "small", "little": "small", "tiny": "small", "medium-sized": "medium"}
SIZES |= {"large": "large", "big": "large", "huge": "large"}
COLOURS = {c: c for c in ["red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white"]} | {
    "violet": "purple"
}
PLACES = {"flying": "air", "floating": "air", "swimming": "water"}
PLACES |= {"in the air": "air", "on the water": "water", "in the water": "water"}
ONE = {"a": (1, False), "an": (1, False), "one": (1, True), "a single": (1, True)}
MANY = {"two": (2, True), "three": (3, True), "four": (4, True), "five": (5, True), "a pair of": (2, True)}
MANY |= {"six": (6, True), "at least four": (4, False), "at least five": (5, False), "at least six": (6, False)}
MANY |= {"some": (2, False), "": (2, False), "several": (3, False), "a few": (3, False), "a group of": (3, False)}
SETTINGS = {
    "beach": "on a beach|at the beach|at the seaside|by the sea",
    "meadow": "in a meadow|in a grassy field|in a green field|in the countryside",
    "snow": "in the snow|in a snowy landscape|in deep snow",
    "street": "on a street|in a street|in the city|in town",
    "room": "in a room|indoors|inside",
    "night": "at night|under the stars|under a night sky",
    "outdoors": "outdoors|outside|in the open air",
}
RELATIONS = {
    "left of": "to the left of|left of|on the left of",
    "right of": "to the right of|right of|on the right of",
    "above": "above|over|high above",
    "below": "below|under|beneath",
    "in front of": "in front of",
    "behind": "behind",
    "next to": "next to|beside|near|by",
    "on": "on|on top of",
}


def _nouns():
    """Word -> (noun of the vocabulary, whether plural); sheep and fish are both and listed as singular first."""
    plurals = {}
    for noun, words in [*NOUNS.items(), *FURTHER.items()]:
        pairs = words.split()
        for singular, plural_form in zip(pairs[::2], pairs[1::2], strict=True):
            plurals.setdefault(plural_form, (noun, True))
            plurals[singular] = (noun, False)
    for noun, (singular, plural_form) in PHRASES.items():
        plurals |= {singular: (noun, False), plural_form: (noun, True)}
    return plurals


WORDS = _nouns()


def _any(words):
    return "|".join(sorted(map(re.escape, filter(None, words)), key=len, reverse=True))


NP = (
    rf"(?:(?:{_any([*ONE, *MANY])}) )?(?:(?:{_any(SIZES)}) )?(?:(?:flying|floating|swimming) )?"
    rf"(?:(?:{_any(COLOURS)}) )?(?:{_any(WORDS)})(?: in the air| on the water| in the water)?"
)
READ_NP = re.compile(
    NP.replace("(?:(?:", "(?:(")
    .replace(rf"(?:{_any(WORDS)})", rf"({_any(WORDS)})")
    .replace("(?: in the air", "( in the air")
)
PLACE = "|".join(SETTINGS.values())
RELATION = _any(word for words in RELATIONS.values() for word in words.split("|"))
CAPTION = re.compile(
    rf"(?:(?P<lead>a picture of|a drawing of|an image of|a scene with) )?"
    rf"(?:(?P<early>{PLACE}), )?(?:there (?P<there>is|are) )?(?P<first>{NP})"
    rf"(?:(?P<rest>(?:, {NP})* and {NP})| with (?P<with>{NP})(?P<carried> on it| on them| on top)?"
    rf"|(?: (?P<verb>is|are))? (?P<relation>{RELATION}) (?P<second>{NP}))?"
    rf"(?: (?P<late_verb>is|are)(?= ))?(?: (?P<late>{PLACE}))?"
)


def read_phrase(text):
    """An entity, and whether the phrase takes a plural verb."""
    match = re.fullmatch(READ_NP, text)
    assert match, text
    count, size, before, colour, word, after = match.groups()
    noun, is_plural = WORDS[word]
    is_plural = is_plural or (word in ("sheep", "fish") and count not in ONE)
    number, exact = (MANY if is_plural else ONE)[count or ""]
    if count in ("a", "an"):
        following = text.split()[1]
        assert (count == "an") == (following[0] in "aeiou"), text
    place = PLACES.get(before) or PLACES.get((after or "").strip())
    entity = scenes.Entity(noun, COLOURS.get(colour), SIZES.get(size), place, number, exact)
    return entity, is_plural and not (count or "").endswith(" of")


def read(caption):
    """The meaning of a caption; refuses anything that is not good English of this small kind."""
    assert caption[0].isupper()
    assert caption.endswith(".")
    match = re.fullmatch(CAPTION, caption[0].lower() + caption[1:-1])
    assert match, caption
    parts = match.groupdict()
    listed = re.findall(NP, parts["rest"] or "") + [p for p in (parts["with"], parts["second"]) if p]
    phrases = [read_phrase(text) for text in (parts["first"], *listed)]
    agree = "are" if phrases[0][1] else "is"
    assert parts["there"] in (None, agree), caption
    assert parts["verb"] in (None, agree), caption
    assert parts["late_verb"] in (None, "are" if len(phrases) > 1 else agree), caption
    relation = next((name for name, words in RELATIONS.items() if parts["relation"] in words.split("|")), None)
    place = parts["early"] or parts["late"]
    setting = next((name for name, words in SETTINGS.items() if place in words.split("|")), None)
    return scenes.Meaning(tuple(e for e, _ in phrases), "under" if parts["carried"] else relation, setting)


def test_every_caption_says_its_meaning_in_good_english(world):
    for text, meaning in zip(world.texts.values, world.texts.field("meaning"), strict=True):
        assert read(text) == meaning, text


@pytest.mark.parametrize(
    "wrong",
    [
        "A orange ball.",
        "An red ball.",
        "There is two dogs.",
        "There are a dog.",
        "Two dog.",
        "A sheeps.",
        "Three fishes.",
        "a dog.",
        "A dog",
        "A dog and two cat.",
        "A pair of dogs are next to a tree.",
    ],
)
def test_the_reader_refuses_bad_english(wrong):
    """Otherwise the test above would prove nothing."""
    with pytest.raises((AssertionError, KeyError)):
        read(wrong)


def test_captions_are_varied(world):
    text = " ".join(world.texts.values).lower()
    for words in ("several", "a pair of", "five", "creature", "plaything", "automobile", "cacti", "butterflies"):
        assert words in text
    for words in ("pieces of furniture", "in front of", "on top of", "an orange", "high above", "flying", "at night"):
        assert words in text
    used = {meaning.relation for meaning in world.texts.field("meaning")}
    assert used == {None, *scenes.RELATIONS}
    assert len(set(world.texts.values)) > 0.9 * len(world.texts)


# ------------------------------------------------------------------------------------- an oracle, written apart


def fits(entity, scene_object):
    kinds = scenes.CATEGORIES[entity["noun"]].kinds if entity["noun"] in scenes.CATEGORIES else [entity["noun"]]
    attributes = [(entity[a], scene_object[a]) for a in ("colour", "size", "place") if entity[a] is not None]
    return scene_object["name"] in kinds and all(want == have for want, have in attributes)


def stands(relation, a, b, supports, i, j):
    """Whether object i stands in a relation to object j, from the words of the documentation."""
    converse = {"right of": "left of", "below": "above", "behind": "in front of", "under": "on"}
    if relation in converse:
        return stands(converse[relation], b, a, supports, j, i)
    columns, rows = ([set(range(o["box"][k], o["box"][k + 2])) for o in (a, b)] for k in (0, 1))
    across, down = columns[0] & columns[1], rows[0] & rows[1]
    if relation == "left of":
        return max(columns[0]) < min(columns[1])
    if relation == "above":
        high = max(rows[0]) < min(rows[1])
        return a["place"] == "air" and high and len(across) / min(map(len, columns)) >= 1 / 3
    if relation == "in front of":
        covered = len(across) * len(down) / (len(columns[1]) * len(rows[1]))
        return a["place"] == b["place"] == "ground" and max(rows[0]) > max(rows[1]) and covered >= 0.1
    if relation == "next to":
        gap = max(min(columns[1]) - max(columns[0]), min(columns[0]) - max(columns[1])) - 1
        same_place = a["place"] == b["place"] and supports[i] == supports[j]
        return same_place and not across and gap <= 12 and len(down) >= min(map(len, rows)) / 2
    return supports[i] == j


def oracle(meaning, objects, supports, background):
    """Tries every choice of object sets for the entities."""
    fields = meaning.as_dict()
    if fields["setting"] == "outdoors" and background == "room":
        return False
    if fields["setting"] not in (None, "outdoors", background):
        return False
    choices = []
    for entity in fields["entities"]:
        matching = [i for i, scene_object in enumerate(objects) if fits(entity, scene_object)]
        if entity["exact"]:
            choices.append([matching] if len(matching) == entity["number"] else [])
        else:
            sizes = range(entity["number"], len(matching) + 1)
            choices.append([list(chosen) for size in sizes for chosen in combinations(matching, size)])
    if fields["relation"] is None:
        return all(choices)
    return any(
        all(stands(fields["relation"], objects[i], objects[j], supports, i, j) for i in first for j in second)
        for first in choices[0]
        for second in choices[1]
    )


def judged_by_oracle(meaning, scene):
    objects = [scene_object.as_dict() for scene_object in scene.objects]
    return oracle(meaning, objects, [scene_object.support for scene_object in scene.objects], scene.background)


def test_complete_judgements_are_what_the_oracle_says(world):
    rows, columns = np.arange(120), np.arange(0, 2500, 7)
    complete = world.extra["complete"]
    ours = np.zeros((500, 2500), dtype=bool)
    ours[complete.rows, complete.columns] = True
    drawn, meanings = world.images.field("scene"), world.texts.field("meaning")
    theirs = np.array([[judged_by_oracle(meanings[c], drawn[r]) for c in columns] for r in rows])
    assert theirs.sum() > 500
    np.testing.assert_array_equal(ours[np.ix_(rows, columns)], theirs)


def test_every_caption_is_true_of_its_own_image(world):
    drawn = dict(zip(world.images.ids, world.images.field("scene"), strict=True))
    for meaning, image in zip(world.texts.field("meaning"), world.texts.field("image"), strict=True):
        assert judged_by_oracle(meaning, drawn[image])


def test_graded_judgements_are_half_where_one_detail_is_wrong():
    world = scenes.load(images=60, graded=True)
    graded, complete = world.extra["graded"], world.extra["complete"]
    assert set(graded.grades) == {0.5, 1.0}
    assert graded.at_least(1).relevant == complete
    drawn, meanings = world.images.field("scene"), world.texts.field("meaning")
    for row in range(0, 60, 3):
        for column in range(0, 300, 7):
            true = judged_by_oracle(meanings[column], drawn[row])
            nearly = any(judged_by_oracle(weaker, drawn[row]) for weaker in meanings[column].weaker())
            expected = 1.0 if true else 0.5 if nearly else None
            assert graded.grade(world.images.ids[row], world.texts.ids[column]) == expected


def test_weaker_meanings_drop_one_detail_each():
    ball = scenes.Entity("ball", colour="red", number=2, exact=True)
    meaning = scenes.Meaning((ball, scenes.Entity("dog", size="small")), "left of", "room")
    assert [str(weaker) for weaker in meaning.weaker()] == [
        "=2 red ball & >=1 small dog @ room",
        "=2 red ball left of >=1 small dog",
        "=2 ball left of >=1 small dog @ room",
        ">=1 red ball left of >=1 small dog @ room",
        "=2 red ball left of >=1 dog @ room",
    ]


def test_weaker_meanings_never_confuse_two_entities():
    meaning = scenes.Meaning((scenes.Entity("ball", colour="red"), scenes.Entity("ball", colour="blue")))
    assert list(meaning.weaker()) == []


# ------------------------------------------------------------------------------------------- any meaning, any scene

nouns = st.sampled_from(["dog", "dog", "cat", "bird", "table", "animal", "mammal", "piece of furniture", "object"])
entities = st.builds(
    scenes.Entity,
    nouns,
    colour=st.sampled_from([None, None, "red", "blue"]),
    size=st.sampled_from([None, None, "small", "large"]),
    place=st.sampled_from([None, None, None, "air"]),
    number=st.sampled_from([1, 1, 2, 3, 4, 6]),
    exact=st.booleans(),
)


@st.composite
def meanings(draw):
    """Any meaning the semantics covers, also such as the grammar would not make."""
    related = draw(st.booleans())
    chosen = tuple(draw(st.lists(entities, min_size=2 if related else 1, max_size=2 if related else 3)))
    if not exclusive(chosen):
        chosen = tuple(
            scenes.Entity(n, number=e.number, exact=e.exact)
            for n, e in zip(("dog", "cat", "bird"), chosen, strict=False)
        )
    if related and all(e.number > 1 and not e.exact for e in chosen):
        chosen = (scenes.Entity(chosen[0].noun, chosen[0].colour, chosen[0].size, chosen[0].place), chosen[1])
    setting = draw(st.sampled_from([None, "room", "outdoors"]))
    return scenes.Meaning(chosen, draw(st.sampled_from(scenes.RELATIONS)) if related else None, setting)


@st.composite
def drawn_scenes(draw):
    """Any scene of a few objects in a small field, so that relations hold often."""
    objects = []
    for at in range(draw(st.integers(0, 6))):
        x, y = draw(st.integers(0, 30)), draw(st.integers(0, 30))
        box = (x, y, x + draw(st.integers(2, 20)), y + draw(st.integers(2, 20)))
        on = draw(st.sampled_from([None, None, *range(at)]))
        place = "perch" if on is not None else draw(st.sampled_from(["ground", "ground", "air"]))
        kind = draw(st.sampled_from(["dog", "dog", "cat", "bird", "table"]))
        colour, size = draw(st.sampled_from(["red", "blue"])), draw(st.sampled_from(["small", "large"]))
        objects.append(SceneObject(kind, colour, size, box, place, on))
    return Scene(0, 0, draw(st.sampled_from(["room", "snow"])), tuple(objects), 60, 60)


@settings(max_examples=300)
@given(meanings(), st.lists(drawn_scenes(), min_size=1, max_size=4))
def test_truth_agrees_with_the_oracle_on_anything(meaning, given_scenes):
    expected = [judged_by_oracle(meaning, scene) for scene in given_scenes]
    assert SceneTruth(given_scenes).of(meaning).tolist() == expected
    assert [meaning.true_of(scene) for scene in given_scenes] == expected


@settings(max_examples=300)
@given(drawn_scenes())
def test_relations_agree_with_the_oracle_on_anything(scene):
    objects, supports = [o.as_dict() for o in scene.objects], [o.support for o in scene.objects]
    every = permutations(range(len(objects)), 2)
    expected = {
        (i, r, j) for i, j in every for r in scenes.RELATIONS if stands(r, objects[i], objects[j], supports, i, j)
    }
    assert set(scene.relations) == expected


@pytest.mark.parametrize(
    ("relation", "shift", "expected"),
    [
        ("left of", (10, 0), True), ("left of", (9, 0), False),
        ("next to", (22, 0), True), ("next to", (23, 0), False),
        ("next to", (12, 5), True), ("next to", (12, 6), False),
        ("in front of", (0, -9), True), ("in front of", (1, -9), False), ("in front of", (0, 0), False),
    ],
)  # fmt: skip
def test_where_a_relation_begins_and_ends(relation, shift, expected):
    """The second box is 10 x 10 pixels, as the first, shifted from it."""
    x, y = 50 + shift[0], 50 + shift[1]
    objects = (
        SceneObject("dog", "red", "small", (50, 50, 60, 60), "ground"),
        SceneObject("cat", "red", "small", (x, y, x + 10, y + 10), "ground"),
    )
    assert ((0, relation, 1) in Scene(0, 0, "snow", objects, 60, 60).relations) == expected


def test_each_of_the_first_is_related_to_each_of_the_second():
    """Dog, cat, dog, cat, dog in a row: both cats have two dogs beside them, but only one dog has both cats."""
    row = [
        SceneObject(kind, "red", "small", (x, 50, x + 10, 60), "ground")
        for kind, x in (("dog", 10), ("cat", 25), ("dog", 40), ("cat", 55), ("dog", 70))
    ]
    scene = Scene(0, 0, "snow", tuple(row), 40, 40)
    cats = scenes.Entity("cat", number=2, exact=True)
    for dogs, expected in ((1, True), (2, False)):
        for pair in ((scenes.Entity("dog", number=dogs), cats), (cats, scenes.Entity("dog", number=dogs))):
            meaning = scenes.Meaning(pair, "next to")
            judged = SceneTruth([scene]).of(meaning).tolist()
            truths = judged, meaning.true_of(scene), judged_by_oracle(meaning, scene)
            assert truths == ([expected], expected, expected)


@given(meanings(), st.integers(0, 10**6))
def test_any_meaning_becomes_a_sentence_that_says_it(meaning, seed):
    assert read(sentence(meaning, Dice(seed))) == meaning


@given(meanings())
def test_meanings_survive_json(meaning):
    import json

    assert scenes.Meaning.from_dict(json.loads(json.dumps(meaning.as_dict()))) == meaning


def test_no_meanings_make_no_judgements():
    images = Ids(["a"], what="image")
    assert len(complete_judgements(images, [scenes.compose(0, 0)], Ids([], what="text"), [])) == 0


# ------------------------------------------------------------------------------------------------------- refusals

DOG, CAT = scenes.Entity("dog"), scenes.Entity("cat")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: scenes.Entity("unicorn"), "unknown noun 'unicorn' of scenes"),
        (lambda: scenes.Entity("dog", colour="gren"), "did you mean 'green'"),
        (lambda: scenes.Entity("dog", size="vast"), "unknown size 'vast' of scenes"),
        (lambda: scenes.Entity("dog", number=0), "a number of 1 or more; got 0"),
        (lambda: scenes.Meaning(()), "at least one entity; got 0"),
        (lambda: scenes.Meaning((DOG,), "on"), "two entities for a relation; got 1"),
        (lambda: scenes.Meaning((DOG, CAT), "onto"), "unknown relation 'onto' of scenes"),
        (lambda: scenes.Meaning((DOG,), setting="moon"), "unknown setting 'moon' of scenes"),
        (lambda: scenes.Meaning((DOG, scenes.Entity("animal"))), "an object could fit two of"),
        (
            lambda: scenes.Meaning((scenes.Entity("dog", number=2), scenes.Entity("cat", number=3)), "on"),
            "not defined, got >=2 dog on >=3 cat",
        ),
    ],
)
def test_what_the_semantics_does_not_cover_is_refused(make, message):
    with pytest.raises((LimnerError, UnknownName), match=message):
        make()
