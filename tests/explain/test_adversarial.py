"""Adversarial queries: grammar, one edit each, seeds; re-ranking against brute force; text-only retrieval."""

from __future__ import annotations

import math

import numpy as np
import pytest

import limner
from limner.core.errors import LimnerError, UnknownName
from limner.explain.adversarial import KINDS, attack, attack_all
from limner.explain.blind_baselines import blind_baseline, ranks, rerank, table
from limner.explain.noun_heads import FAR, colours_in, css_colours
from limner.explain.text_edits import Edit
from limner.explain.word_pairs import SYNONYMS
from limner.language.wordnet import WordNet
from limner.papers.text_only import text_only

TEXTS = [
    "A little girl in a red dress is climbing up some stairs .",
    "Two black dogs are running on a wet beach .",
    "An old man sits on a bench .",
    "A child smiles .",
]


def after(text: str, kind: str, **options) -> str:
    edit = attack(text, kind, **options)
    assert edit is not None
    return edit.after


# --- grammar ----------------------------------------------------------------------------------------------------


def test_the_article_follows_the_new_word():
    assert after("An old man sits.", "antonym") == "A young man sits."
    assert after("a beautiful lake view", "antonym") == "an ugly lake view"
    assert after("A red apple", "colour-in", colours=["azure"]) == "An azure apple"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A dog is here.", "Several dogs are here."),
        ("A woman walks along the road.", "Several women walk along the road."),
        ("Two dogs are here.", "One dog is here."),
        ("Three children play outside.", "One child plays outside."),
        ("The man has an orange bench.", "The man has several orange benches."),
    ],
)
def test_one_and_several_agree(text, expected):
    assert after(text, "plural") == expected


@pytest.mark.parametrize("text", ["A few dogs.", "A group of dogs.", "The dog."])
def test_what_is_several_already_stays(text):
    assert attack(text, "plural") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A dog is running.", "A dog is walking."),
        ("A man sits here.", "A man stands here."),
        ("A boy pushed it.", "A boy pulled it."),
        ("He is lying down.", "He is standing up."),
    ],
)
def test_verbs_keep_their_form(text, expected):
    assert after(text, "verb") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A dog is running.", "A dog is not running."),
        ("Two dogs are here.", "Two dogs are not here."),
        ("There is a red ball.", "There is not a red ball."),
        ("A dog runs.", "A dog does not run."),
        ("Two children play outside.", "Two children do not play outside."),
        ("A girl jumping into the pool", "A girl not jumping into the pool"),
        ("The man has a hat.", "The man does not have a hat."),
        ("Two men have the ball.", "Two men do not have the ball."),
        ("A man with glasses", "A man without glasses"),
    ],
)
def test_negation_denies_a_verb_or_what_one_has(text, expected):
    assert after(text, "negation") == expected


@pytest.mark.parametrize(
    "text",
    [
        "A dog.",
        "A red ball and a blue box",
        "A dog is not running.",  # already denied
        "A dog runs without a leash.",
        "A dog isn't running.",
        "Is a dog here?",
        "A ball covered with snow",
        "A boy pushed",  # he pushed, or he was pushed
    ],
)
def test_negation_is_not_possible(text):
    assert attack(text, "negation") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A dog chases a cat.", "A cat chases a dog."),
        ("A man is riding a horse", "A horse is riding a man"),
        ("An owl above a dog", "A dog above an owl"),
        ("The cup is on the table.", "The table is on the cup."),
        ("A chair to the left of a table", "A table to the left of a chair"),
        ("A boy in front of a girl", "A girl in front of a boy"),
        ("Two men on two horses", "Two horses on two men"),
        ("A red ball and a blue box", "A blue ball and a red box"),
        ("Orange cats with a green ball", "Green cats with an orange ball"),
        ("A big dog beside a small cat", "A small dog beside a big cat"),
    ],
)
def test_word_order_exchanges_roles_or_attributes(text, expected):
    assert after(text, "word-order") == expected


@pytest.mark.parametrize(
    "text",
    [
        "A dog and a cat",  # says the same in the other order
        "A dog next to a cat",
        "A man hugs a woman.",
        "A dog chases a dog.",
        "A red dog and a blue dog",
        "A big dog and a large cat",
        "A gray dog and a grey cat",
        "A black and white dog",
        "A dog in the snow",  # nothing that snow could do to a dog
        "A man in a jacket",
        "Two dogs chase a cat.",  # the verb would have to change
    ],
)
def test_word_order_is_not_possible(text):
    assert attack(text, "word-order") is None


@pytest.mark.parametrize("text", ["A dog chases an owl.", "A red ball and a blue box", "The cup is on the table."])
def test_word_order_keeps_all_words(text):
    word_lists = [
        sorted("a" if w == "an" else w for w in t.lower().rstrip(".").split())
        for t in (text, after(text, "word-order"))
    ]
    assert word_lists[0] == word_lists[1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A dog behind a tree", "A dog in front of a tree"),
        ("A dog in front of a tree.", "A dog behind a tree."),
        ("A cup on a table", "A cup under a table"),
        ("A cup on top of the table", "A cup under the table"),
        ("A cat is next to a box.", "A cat is far from a box."),
        ("A kite above two trees", "A kite below two trees"),
        ("A ball to the left of a box", "A ball to the right of a box"),
        ("The man on the right", "The man on the left"),
        ("A man walks up a hill.", "A man walks down a hill."),
        ("A dog jumps into a lake.", "A dog jumps out of a lake."),
        ("Under a table, a dog", "On top of a table, a dog"),
    ],
)
def test_relations_become_their_opposite(text, expected):
    assert after(text, "relation") == expected


@pytest.mark.parametrize(
    "text",
    [
        "A dog runs.",
        "A man on the phone",
        "A walk on a sunny day",
        "A dog on a leash",
        "A boy picks up a ball.",
        "A man walks down a street.",  # up a street says the same
        "The train left a station.",
        "A child with a red hat",
        "A man looks down",
    ],
)
def test_a_relation_is_not_possible(text):
    assert attack(text, "relation") is None


def test_an_edit_of_several_words_says_where():
    edit = attack("A dog in front of a tree.", "relation")
    assert edit is not None
    assert (edit.start, edit.old, edit.new, edit.word) == (6, "in front of", "behind", "in front of")
    edit = attack("The man has a red hat.", "negation")
    assert edit is not None
    assert (edit.start, edit.old, edit.new, edit.word) == (8, "has", "does not have", "red")


def test_a_bag_of_words_cannot_see_word_order():
    """Same words, same vector: the truth stays where it was, and the table says 100% blind."""
    texts = ["a dog chases a cat", "a man rides a horse"]
    words = sorted({w for t in texts for w in t.split()})
    bags = lambda each: np.array([[t.split().count(w) for w in words] for t in each], dtype=float)  # noqa: E731
    corpus = bags(texts)
    edits = [attack(t, "word-order") for t in texts]
    done = rerank("word-order", edits, corpus @ corpus.T, np.arange(2), lambda asked: bags(asked) @ corpus.T)
    assert len(done.edits) == 2 and done.blindness == 1 and not done.moved.any()


def test_number_and_size():
    edit = attack("Two dogs", "number", seed=3)
    assert edit is not None and edit.new.lower() not in ("two", "one")
    assert after("a huge dog", "size").split()[1] in ("small", "little", "tiny")


def test_a_rare_synonym_is_a_word_of_the_same_meaning():
    assert after("the forest", "synonym") == "the woods"


def test_green_does_not_become_ripe():
    """WordNet's antonym of green is ripe, and red has none: colours are left to the colour tables."""
    assert attack("A green field", "antonym") is None


def test_new_colours_are_far_from_the_old_one():
    colours = css_colours()
    for seed in range(20):
        edit = attack("a red ball", "colour-all", seed=seed)
        assert edit is not None
        assert math.dist(colours["red"], colours[edit.new.split()[-1]]) >= FAR


def test_colour_in_takes_only_colours_of_the_data():
    assert colours_in(["a red ball", "red and blue", "a green orange"]) == ("red", "blue", "green", "orange")
    assert after("a red ball", "colour-in", colours=["red", "blue"]) == "a blue ball"
    assert attack("a red ball", "colour-in", colours=["red"]) is None


# --- every edit -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", TEXTS)
def test_an_edit_says_where_and_what(kind, text):
    edit = attack(text, kind, colours=["blue", "white"])
    if edit is None:
        return
    assert edit.before == text != edit.after
    stop = edit.start + len(edit.old)
    assert text[edit.start : stop] == edit.old
    assert edit.after[: edit.start] == text[: edit.start]
    assert edit.after[edit.start :].startswith(edit.new)
    assert edit.after.endswith(text[stop:].lstrip())
    assert "  " not in edit.after


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_decides_and_nothing_else(kind):
    first = [dict(attack_all(TEXTS, [kind], seed=1)) for _ in range(2)]
    assert first[0] == first[1]
    assert attack(TEXTS[0], kind, seed=1, colours=["blue"]) == attack(TEXTS[0], kind, seed=1, colours=["blue"])


def test_seeds_differ():
    assert len({after("a red ball", "colour-all", seed=seed) for seed in range(10)}) > 3


@pytest.mark.parametrize(
    "text", ["", "...", "12345", "两只狗在玩球", "Ein Hund spielt im Schnee", "Ω 🐕 ?", "the of and"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_texts_with_nothing_to_change_are_left_alone(text, kind):
    assert attack(text, kind) is None


def test_an_unknown_kind_is_refused():
    with pytest.raises(UnknownName, match="did you mean 'antonym'"):
        attack("a dog", "antonyms")


# --- re-ranking -------------------------------------------------------------------------------------------------

BAG = sorted({w for t in TEXTS for w in t.lower().split()} | {"blue", "several"})


def bag(texts) -> np.ndarray:
    return np.array([[t.lower().split().count(w) for w in BAG] for t in texts], dtype=float)


def test_rank_of_the_truth_with_ties():
    scores = np.array([[3.0, 2.0, 2.0, 1.0], [1.0, 1.0, 1.0, 1.0]])
    assert ranks(scores, np.array([1, 0])).tolist() == [2.5, 2.5]


def test_rerank_by_hand():
    corpus = bag(TEXTS)
    edits = [
        Edit("size", TEXTS[0], "nothing", 0, "", "", "little"),
        None,
        None,
        Edit("size", TEXTS[3], TEXTS[0], 0, "", "", "x"),
    ]
    before = corpus @ corpus.T
    done = rerank("size", edits, before, np.arange(4), lambda texts: bag(texts) @ corpus.T)
    assert done.before.tolist() == [1.0, ranks(before, np.arange(4))[3]]
    assert done.after[0] == 2.5  # nothing in common with any text: all four tie
    assert done.moved[0] == -before[0, 0]
    assert done.shares["lower"] == 1
    assert done.queries == 4 and len(done.unedited) == 2
    assert done.fell == np.mean(done.moved < 0)
    assert "size" in table([done])


def test_a_system_that_reads_nothing_is_blind():
    constant = np.eye(4)
    edits = [attack(t, "plural") for t in TEXTS]
    done = rerank("plural", edits, constant, np.arange(4), lambda texts: np.eye(4)[: len(texts)])
    edited = [at for at, e in enumerate(edits) if e]
    assert edited == list(range(len(edited)))
    assert done.blindness == 1
    assert done.metrics()["R@1"] == (100, 100)


def test_nothing_to_change_is_reported_not_a_crash():
    done = rerank("size", [None, None], np.eye(2), np.arange(2), lambda texts: np.zeros((0, 2)))
    assert (len(done.edits), done.metrics()["R@1"]) == (0, (100, 100))
    assert math.isnan(done.blindness) and "–" in table([done])


def test_words_that_are_ignored():
    edits = [Edit("colour-all", "a", "b", 0, "a", "b", "red") for _ in range(5)]
    done = rerank("colour-all", edits, np.eye(5), np.arange(5), lambda _: np.eye(5))
    assert done.words() == {"red": (5, 1.0)}
    assert done.words(min_count=6) == {}


def test_a_system_of_the_wrong_shape_is_refused():
    with pytest.raises(LimnerError, match="one row per text"):
        rerank("size", [attack("a big dog", "size")], np.eye(1), np.arange(1), lambda _: np.zeros((2, 2)))


def test_the_blind_reader_prefers_what_it_has_seen():
    edit = attack("a red ball", "colour-in", colours=["blue"])
    assert edit is not None
    assert blind_baseline([edit], ["a red ball"] * 3) == 1
    assert blind_baseline([edit], ["a blue ball"] * 3) == 0
    assert blind_baseline([edit], ["no such words"]) == 0.5
    with pytest.raises(LimnerError, match="got none"):
        blind_baseline([edit], [])


# --- text only --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def world():
    return limner.load("scenes", images=20)


def encode(texts) -> np.ndarray:
    return np.array([[t.lower().count(c) for c in "abcdefghijklmnopqrstuvwxyz "] for t in texts], dtype=float) + 0.1


@pytest.mark.parametrize("corpus", ["mean", "joined", "summary"])
def test_text_only_by_hand(world, corpus):
    summarise = (lambda texts: texts[0]) if corpus == "summary" else None
    scores, right = text_only(world, encode, query=1, corpus=corpus, summarise=summarise)
    texts = np.array(world.texts.values, dtype=object).reshape(20, 5)
    queries = encode(texts[:, 1])
    other_captions = texts[:, [0, 2, 3, 4]]
    if corpus == "mean":
        images = np.stack([encode(row).mean(axis=0) for row in other_captions])
    else:
        images = encode([" ".join(row) for row in other_captions] if corpus == "joined" else other_captions[:, 0])
    unit = [v / np.linalg.norm(v, axis=1, keepdims=True) for v in (queries, images)]
    assert scores.matrix() == pytest.approx(unit[0] @ unit[1].T, abs=1e-5)
    assert list(right) == [(f"{i}#1", i, 1.0) for i in world.images.ids]


def test_text_only_refuses_what_cannot_be(world):
    with pytest.raises(UnknownName, match="unknown corpus"):
        text_only(world, encode, corpus="median")
    with pytest.raises(LimnerError, match="both or neither"):
        text_only(world, encode, corpus="summary")
    with pytest.raises(LimnerError, match="needs two or more"):
        text_only(world, encode, query=5)
    with pytest.raises(LimnerError, match="expected one row per text"):
        text_only(world, lambda texts: np.zeros((1, 3)))


# --- English ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A leaf falls on a path.", "Several leaves fall on a path."),
        ("A man in a red jacket stands on a rock.", "Several men in red jackets stand on a rock."),
        ("A dog runs and jumps.", "Several dogs run and jump."),
        ("A dog runs with a ball in its mouth.", "Several dogs run with a ball in their mouths."),
        ("A fisherman sits near the water.", "Several fishermen sit near the water."),
        ("There is a dog in the snow.", "There are several dogs in the snow."),
        ("A boy sits while a dog runs.", "Several boys sit while a dog runs."),
        ("A black and white dog is asleep.", "Several black and white dogs are asleep."),
        ("A sheep grazes.", "Several sheep graze."),
        ("Two dogs run.", "One dog runs."),
    ],
)
def test_the_subject_and_its_verbs_agree(text, expected):
    assert after(text, "plural") == expected


@pytest.mark.parametrize(
    "text",
    [
        "A man in a jacket he likes stands.",
        "Two men hug each other.",
        "Two dogs fight with one another.",
        "The man has a hat on.",
        "A crowd watches.",
        "Two men in hats are here.",
        "The girl rides a bike.",
    ],
)
def test_an_unsure_number_stays(text):
    assert attack(text, "plural") is None


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("synonym", "The yard is empty."),
        ("synonym", "Two dogs run."),
        ("synonym", "A model poses."),
        ("synonym", "A rock climber hangs."),
        ("antonym", "A young girl sings."),
        ("antonym", "An old boy sings."),
        ("antonym", "A hot dog stand"),
        ("antonym", "A man makes a sharp turn."),
        ("verb", "A bird flies over a lake."),
        ("verb", "A dog catches a ball in its mouth."),
        ("verb", "A bird is taking flight."),
        ("verb", "A boy is pulling faces."),
        ("colour-all", "A snow storm"),
        ("colour-all", "A wheat field"),
        ("colour-all", "A black man sits."),
        ("word-order", "A black dog and a white dog run along the beach."),
        ("word-order", "A large dog and a small one walk."),
        ("relation", "Two dogs run on the beach."),
        ("relation", "A boat on the water"),
        ("number", "A girl jumps with two feet."),
        ("negation", "A man is eating something."),
        ("size", "A little snow is on the ground."),
    ],
)
def test_what_would_be_no_english_or_no_contradiction_stays(kind, text):
    assert attack(text, kind) is None


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("synonym", "A child is on the sidewalk.", {"A youngster is on the sidewalk.", "A child is on the pavement."}),
        ("synonym", "Two kids near a car", {"Two youngsters near a car", "Two kids near an automobile"}),
        ("antonym", "An old car", {"A new car"}),
        ("antonym", "A light blue shirt", {"A dark blue shirt"}),
        ("antonym", "A dark room", {"A bright room"}),
        ("size", "A little girl sings.", {"A big girl sings."}),
    ],
)
def test_opposites_and_synonyms_fit_their_noun(kind, text, expected):
    assert after(text, kind) in expected


def test_synonyms_share_a_synset_of_wordnet():
    wordnet = WordNet.load()

    def senses(word: str) -> set[str]:
        return {synset.name for form in (word, wordnet.base(word) or word) for synset in wordnet.synsets(form)}

    assert [pair for pair in SYNONYMS.items() if not senses(pair[0]) & senses(pair[1])] == []


@pytest.mark.parametrize("new", ["white", "black"])
def test_a_new_colour_is_not_yet_in_the_text(new):
    assert attack("A white and black ball", "colour-in", colours=["white", "black"]) is None
    assert new in {after("a red and green ball", "colour-all", seed=seed).split()[-2] for seed in range(90)}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("negation", "Young boy tosses autumn leaves"),
        ("negation", "A family poses seated on concrete steps ."),
        ("negation", "Three men in team uniforms"),
        ("negation", "Six boys in yellow life vests"),
        ("negation", "The girl skies down a mountain ."),
        ("negation", "A man karate kicks a stack of boards ."),
        ("antonym-wordnet", "A woman running after a boy"),
        ("antonym-wordnet", "A man is standing near a car ."),
        ("antonym-wordnet", "A child in a uniform"),
        ("antonym-wordnet", "A woman at a fair wearing a hat"),
        ("antonym-wordnet", "A bird on the side of a net"),
        ("antonym-wordnet", "A boy looks back past a tree ."),
        ("plural", "A man , woman , and child stand outside ."),
        ("plural", "A man , young woman , and child stand outside ."),
        ("plural", "A man/woman stands outside ."),
        ("relation", "A dog runs into the ocean from the shore ."),
        ("relation", "A boy climbs out of a pool onto the deck ."),
        ("relation", "A man walks up a hill and another walks down a hill ."),
        ("relation", "A boy on the left and a girl on the right"),
    ],
)
def test_a_noun_is_no_verb_and_a_claim_is_changed_as_a_whole(kind, text):
    assert [attack(text, kind, seed=seed) for seed in range(8)] == [None] * 8


@pytest.mark.parametrize(
    ("text", "noun"),
    [
        ("A child playing on the monkey bars .", "bar"),
        ("Two children posing for a picture wearing water wings .", "wing"),
        ("Onlookers watch a German Shepherd climb steps on a course .", "step"),
        ("Man watching four dogs play on the beach .", "play"),
        ("The monkey bars are red .", "bar"),
        ("A little boy in green is kicking a ball and six boys in referee shirts are following him .", "shirt"),
        ("A man fly fishes in a river and a dog is asleep .", "fish"),
    ],
)
def test_a_word_that_is_no_verb_is_not_negated(text, noun):
    edits = {edit.after for seed in range(20) if (edit := attack(text, "negation", seed=seed))}
    assert edits and not any(f"not {noun}" in edit for edit in edits)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A man in a blue suit leaves the room .", "A man in a blue suit does not leave the room ."),
        ("A man in red trunks leans on a wall .", "A man in red trunks does not lean on a wall ."),
        ("The dog leaps into the air .", "The dog does not leap into the air ."),
        ("The man in the black hat holds the ball .", "The man in the black hat does not hold the ball ."),
        ("A black and white dog stands on a roof .", "A black and white dog does not stand on a roof ."),
        ("A group of people sit at a table .", "A group of people do not sit at a table ."),
        ("A man and a woman sit on a rock .", "A man and a woman do not sit on a rock ."),
    ],
)
def test_the_verb_of_a_clause_is_negated(text, expected):
    assert after(text, "negation") == expected


def test_an_adjective_has_antonyms_in_wordnet():
    assert after("A tall man is standing near a car .", "antonym-wordnet").startswith(("A short", "A little", "A low"))
