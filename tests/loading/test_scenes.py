"""The built-in world: the same everywhere, drawn as its truth says, and tied to WordNet."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageChops

from limner import datasets
from limner.core.errors import LimnerError, UnknownName
from limner.datasets import scenes
from limner.datasets.scenes.drawing import render, sticker
from limner.datasets.scenes.scene import overlap
from limner.datasets.scenes.world import Dice

ROOT = Path(__file__).resolve().parents[2]
GOLDEN_SAID = "664a28685177c3f33e03503f8eba51ccc44ee9a42a539d81c8a6b48fe6cb5102"
GOLDEN_PIXELS = "666bf7c98c83b3eb457af51e70c62e3db0061919ff75617f76faa920b264f9c6"


def captions_of(collection):
    """A fingerprint of every caption and meaning."""
    lines = zip(collection.texts.ids, collection.texts.values, collection.texts.field("meaning"), strict=True)
    return hashlib.sha256("\n".join(f"{i}\t{text}\t{meaning}" for i, text, meaning in lines).encode()).hexdigest()


def pixels(collection):
    """A fingerprint of every pixel."""
    digest = hashlib.sha256()
    for row in range(len(collection.images)):
        digest.update(collection.images.open(row).tobytes())
    return digest.hexdigest()


def judged(collection):
    """A fingerprint of the complete judgements."""
    complete = collection.extra["complete"]
    return hashlib.sha256(np.stack([complete.rows, complete.columns]).tobytes()).hexdigest()


@pytest.fixture(scope="module")
def world():
    return scenes.load(images=400)


@pytest.fixture(scope="module")
def many_scenes():
    return [scenes.compose(0, index) for index in range(1500)]


# ---------------------------------------------------------------------------------------------- the same everywhere


def test_captions_and_meanings_are_frozen():
    """A change of the world is a change of every number measured on it: it must be meant, and be in the changelog."""
    assert captions_of(scenes.load(images=200)) == GOLDEN_SAID


def test_pixels_are_frozen():
    """On every processor and with every Pillow. The pixels, not the bytes of a PNG: zlib may pack those differently."""
    assert pixels(scenes.load(images=40)) == GOLDEN_PIXELS


def test_two_processes_with_different_hash_seeds_make_the_same_world():
    script = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "from test_scenes import captions_of, pixels, judged, scenes\n"
        "world = scenes.load(images=25, seed=3)\n"
        "print(captions_of(world), pixels(world), judged(world))"
    )
    paths = [str(Path(__file__).parent), str(ROOT / "src")]
    command = [sys.executable, "-c", script, *paths]
    runs = [
        subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"PYTHONHASHSEED": seed})
        for seed in ("1", "2")
    ]
    collection = scenes.load(images=25, seed=3)
    assert {run.stdout.strip() for run in runs} == {
        f"{captions_of(collection)} {pixels(collection)} {judged(collection)}"
    }


def test_a_picture_does_not_depend_on_how_many_there_are():
    first_twelve, thirty_one = scenes.load(images=12), scenes.load(images=31)
    assert first_twelve.texts.values == thirty_one.texts.values[:60]
    assert first_twelve.images.field("scene") == thirty_one.images.field("scene")[:12]
    assert all(
        set(first_twelve.splits[name]) == set(thirty_one.splits[name]) & set(first_twelve.images.ids)
        for name in first_twelve.splits
    )


def test_seeds_make_different_worlds():
    assert captions_of(scenes.load(images=5, seed=0)) != captions_of(scenes.load(images=5, seed=1))


def test_loading_draws_nothing():
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from limner.datasets import scenes; scenes.load(images=5)\n"
        "print('PIL' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(ROOT / "src")], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_drawing_travels_between_processes(world):
    drawing = world.images.values[7]
    unpickled = pickle.loads(pickle.dumps(drawing))
    assert unpickled == drawing
    assert unpickled().tobytes() == drawing().tobytes()
    assert len(pickle.dumps(drawing)) < 3000


@given(st.integers(0, 2**32), st.integers(0, 2**32))
def test_dice_stay_in_range(seed, index):
    dice = Dice(seed, index)
    assert all(0 <= dice.fraction() < 1 for _ in range(300))
    assert all(3 <= dice.between(3, 9) <= 9 for _ in range(50))
    assert dice.between(5, 2) == 5
    assert sorted(dice.shuffled("abcdef")) == list("abcdef")
    assert dice.weighted("abc", (0, 1, 0)) == "b"


def test_dice_are_fair():
    dice = Dice(5)
    counts = Counter(dice.weighted("ab", (1, 3)) for _ in range(4000))
    assert abs(counts["b"] / 4000 - 0.75) < 0.03
    assert set(Counter(dice.integer(6) for _ in range(1000))) == set(range(6))


# ------------------------------------------------------------------------------------------------- what is in it


def test_the_whole_vocabulary_is_used(many_scenes):
    objects = [o for scene in many_scenes for o in scene.objects]
    assert len(scenes.KINDS) >= 16
    assert {o.kind for o in objects} == set(scenes.KINDS)
    assert {o.colour for o in objects} == set(scenes.COLOURS)
    assert len(scenes.COLOURS) == 10
    assert {o.size for o in objects} == set(scenes.SIZES)
    assert len(scenes.SIZES) == 3
    assert {scene.background for scene in many_scenes} == set(scenes.BACKGROUNDS)
    assert len(scenes.BACKGROUNDS) == 6
    assert {relation for scene in many_scenes for _, relation, _ in scene.relations} == set(scenes.RELATIONS)


def test_one_to_five_of_every_kind_and_never_an_empty_picture(many_scenes):
    counts = Counter(n for scene in many_scenes for n in Counter(o.kind for o in scene.objects).values())
    assert set(counts) == {1, 2, 3, 4, 5}
    assert min(len(scene.objects) for scene in many_scenes) >= 1


def test_no_kind_is_rare(many_scenes):
    shares = Counter(kind for scene in many_scenes for kind in {o.kind for o in scene.objects})
    assert min(shares.values()) > 0.4 * max(shares.values())


def test_objects_are_where_they_belong(many_scenes):
    for scene in many_scenes:
        for each in scene.objects:
            kind = scenes.KINDS[each.kind]
            assert scene.background in kind.backgrounds
            assert (each.place in kind.places) if each.support is None else (kind.perches and each.place == "perch")
            if each.place == "air":
                assert each.box[3] <= scene.horizon + 4
            if each.place == "water":
                assert scene.horizon < each.box[3] < scene.shore
            if each.place == "ground":
                assert each.box[3] > scene.shore


def test_only_related_objects_overlap(many_scenes):
    allowed = {"on", "under", "in front of", "behind"}
    for scene in many_scenes:
        related = {(i, j) for i, relation, j in scene.relations if relation in allowed}
        for i, j in combinations(range(len(scene.objects)), 2):
            if overlap(scene.objects[i].box, scene.objects[j].box):
                assert (i, j) in related


def test_sizes_of_a_kind_do_not_mix(many_scenes):
    lengths = {(k, s): [] for k in scenes.KINDS for s in scenes.SIZES}
    for each in (o for scene in many_scenes for o in scene.objects):
        x0, y0, x1, y1 = each.box
        lengths[each.kind, each.size].append(max(x1 - x0, y1 - y0))
    for kind in scenes.KINDS:
        small, medium, large = (lengths[kind, size] for size in scenes.SIZES)
        assert max(small) < min(medium)
        assert max(medium) < min(large, default=10**6)


# --------------------------------------------------------------------------------------------------- WordNet


@pytest.fixture(scope="module")
def wordnet():
    return json.loads((Path(__file__).parent / "wordnet30.json").read_text())


def ancestors(wordnet, synset):
    hypernyms = set(wordnet[synset]["hypernyms"])
    return hypernyms.union(*(ancestors(wordnet, name) for name in hypernyms)) if hypernyms else hypernyms


def test_every_kind_is_a_synset_and_every_word_its_lemma(wordnet):
    for kind in scenes.KINDS.values():
        assert wordnet[kind.synset]["wnid"] == kind.wnid
        assert set(kind.words) <= set(wordnet[kind.synset]["lemmas"])
    assert len({kind.synset for kind in scenes.KINDS.values()}) == len(scenes.KINDS)


def test_every_category_holds_exactly_the_kinds_below_it(wordnet):
    for category in scenes.CATEGORIES.values():
        hyponyms = {k.name for k in scenes.KINDS.values() if category.synset in ancestors(wordnet, k.synset)}
        assert set(category.kinds) == hyponyms
        assert set(category.words) <= set(wordnet[category.synset]["lemmas"])


# --------------------------------------------------------------------------------------------------- the drawing


def test_pictures_are_rgb_of_the_right_size(world):
    picture = world.images.open(0)
    assert (picture.mode, picture.size) == ("RGB", (scenes.SIDE, scenes.SIDE))


def test_a_box_is_the_extent_of_what_is_drawn(many_scenes):
    for each in (o for scene in many_scenes[:300] for o in scene.objects):
        x0, y0, x1, y1 = each.box
        assert 0 <= x0 < x1 <= scenes.SIDE
        assert 0 <= y0 < y1 <= scenes.SIDE
        alpha = sticker(each).getchannel("A")
        assert alpha.size == (x1 - x0, y1 - y0)
        assert alpha.getbbox() == (0, 0, x1 - x0, y1 - y0)


def test_drawing_an_object_changes_pixels_in_its_box_only(many_scenes):
    for scene in many_scenes[:120]:
        before = render(replace(scene, objects=()))
        for count, each in enumerate(scene.objects, start=1):
            after = render(replace(scene, objects=scene.objects[:count]))
            changed = ImageChops.difference(before, after).getbbox()
            assert changed is not None
            assert changed[0] >= each.box[0]
            assert changed[1] >= each.box[1]
            assert changed[2] <= each.box[2]
            assert changed[3] <= each.box[3]
            before = after


def test_every_object_stays_in_sight(many_scenes):
    """Of every object at least half of its pixels are left when all is drawn."""
    for scene in many_scenes[:200]:
        for at, each in enumerate(scene.objects):
            visible = sticker(each).getchannel("A").point(lambda a: 255 if a > 127 else 0)
            all_pixels = visible.histogram()[255]
            for later in scene.objects[at + 1 :]:
                corner = later.box[0] - each.box[0], later.box[1] - each.box[1]
                cover = sticker(later).getchannel("A")
                visible.paste(0, corner, cover.point(lambda a: 255 if a > 127 else 0))
            assert visible.histogram()[255] >= all_pixels / 2, (scene.index, at)


def test_colours_are_drawn_as_named(many_scenes):
    """The most common strong colour of a sticker is nearest to the paint of its own name."""
    from limner.datasets.scenes.pen import PAINT

    names, paints = list(PAINT), np.array(list(PAINT.values()), dtype=float)
    hits = Counter()
    for kind in scenes.KINDS:
        for colour in scenes.COLOURS:
            drawn_object = scenes.SceneObject(kind, colour, "large", (0, 0, *_large(kind)), "ground")
            rgba = np.asarray(sticker(drawn_object)).reshape(-1, 4)
            solid, times = np.unique(rgba[rgba[:, 3] == 255][:, :3], axis=0, return_counts=True)
            nearest = np.linalg.norm(solid[:, None] - paints, axis=2).argmin(1)
            weight = np.bincount(nearest, weights=times, minlength=10)
            hits[names[weight.argmax()] == colour] += 1
    assert hits[True] / hits.total() > 0.85


def _large(kind):
    from limner.datasets.scenes.layout import extent

    return extent(scenes.KINDS[kind], "large")


# -------------------------------------------------------------------------------------------------- the collection


def test_the_collection_has_all_that_later_parts_need(world):
    assert (len(world.images), len(world.texts)) == (400, 2000)
    assert {name: len(ids) for name, ids in world.splits.items()} == {"train": 240, "dev": 80, "test": 80}
    assert set(world.judgements.counts) == {5}
    image = world.images[3:4]
    scene_object = image.field("objects")[0][0]
    assert set(scene_object) == {"synset", "name", "colour", "size", "box", "place"}
    assert scene_object["synset"] == scenes.KINDS[scene_object["name"]].synset
    assert image.field("scene")[0].background == image.field("background")[0]
    assert world.texts.field("image")[17] == "scene-000003"
    assert world.texts.ids[17] == "scene-000003#2"
    assert isinstance(world.texts.field("meaning")[17], scenes.Meaning)


def test_complete_judgements_hold_the_pairs_and_mirror(world):
    complete = world.extra["complete"]
    assert set(complete.grades) == {1.0}
    assert len(world.judgements | complete) == len(complete) > 2 * len(world.judgements)
    assert world.judged("complete", "t2i") == complete.T


def test_a_split_alone_is_the_split_of_the_whole(world):
    alone = scenes.load(images=400, split="test")
    assert alone.texts.ids == world.test.texts.ids
    assert alone.extra["complete"] == world.test.extra["complete"]


def test_captions_of_an_image_differ_in_meaning(world):
    meanings = world.texts.field("meaning")
    assert all(len(set(meanings[at : at + 5])) == 5 for at in range(0, len(meanings), 5))


def test_load_by_name():
    assert datasets.load("scenes", images=5).texts.values == scenes.load(images=5).texts.values


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "somewhere"}, "take no path; got 'somewhere'"),
        ({"images": 0}, "expected 1 to .* images; got images=0"),
        ({"seed": -1}, "must be 0 or above; got seed=-1"),
        ({"images": 5, "split": "tests"}, "did you mean 'test'"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(LimnerError, match=message):
        scenes.load(**options)


def test_an_unknown_option_is_refused():
    with pytest.raises(UnknownName, match="did you mean 'images'"):
        datasets.load("scenes", image=5)


# ------------------------------------------------------------------------------------------------------ the folder


def test_a_written_world_reads_back(world, tmp_path):
    from limner.datasets.caption_tables import load_folder
    from limner.datasets.trec import load_qrels

    small = world.restrict(world.images.ids[:10])
    folder = scenes.write(
        replace(small, splits={"train": small.images.ids[:8], "test": small.images.ids[8:]}), tmp_path
    )
    reloaded = load_folder(folder)
    assert list(reloaded.images.ids) == list(small.images.ids)
    assert list(reloaded.texts.ids) == list(small.texts.ids)
    assert reloaded.texts.values == small.texts.values
    assert reloaded.judgements == small.judgements
    assert set(reloaded.splits["test"]) == set(small.images.ids[8:])
    assert reloaded.images.open(3).tobytes() == small.images.open(3).tobytes()
    assert len(load_qrels(folder / "complete.qrels").judgements) == len(small.extra["complete"])


def test_the_written_objects_are_the_truth(world, tmp_path):
    small = world.restrict(world.images.ids[:4])
    truth = json.loads((scenes.write(small, tmp_path) / "objects.json").read_text())
    for image, scene in zip(small.images.ids, small.images.field("scene"), strict=True):
        assert truth["images"][image]["background"] == scene.background
        assert [tuple(o["box"]) for o in truth["images"][image]["objects"]] == [o.box for o in scene.objects]
        assert [tuple(r) for r in truth["images"][image]["relations"]] == list(scene.relations)
    for text, meaning in zip(small.texts.ids, small.texts.field("meaning"), strict=True):
        assert scenes.Meaning.from_dict(truth["texts"][text]) == meaning
    with Image.open(tmp_path / "images" / "scene-000000.png") as picture:
        assert picture.size == (scenes.SIDE, scenes.SIDE)


# ------------------------------------------------------------------------------------------------------ the page


def test_the_page_shows_the_table_that_the_proof_measures(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "proofs"))
    import scenes_labels

    measured = scenes_labels.table(scenes_labels.rows(scenes.load()))
    assert measured in (ROOT / "docs" / "scenes.md").read_text(encoding="utf-8")


def test_the_contact_sheet_is_small_and_shows_captions(world, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "proofs"))
    import scenes_labels

    monkeypatch.setattr(scenes_labels, "SHOWN", (0, 1, 2))
    sheet = scenes_labels.contact_sheet(world)
    assert sheet.crop((12, 12, 172, 172)).tobytes() == world.images.open(0).tobytes()
    assert len(np.unique(np.asarray(sheet.convert("L"))[176:200, 12:172])) > 10
    assert (ROOT / "docs" / "assets" / "scenes.png").stat().st_size < 300_000
