"""The WordNet reader against what nltk 3.10.4 says on the same WordNet 3.0 files (frozen in nltk_wordnet30.json)."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from limner.core.errors import LimnerError, UnknownName
from limner.language.wordnet import FAR, Similarities, WordNet
from limner.language.wordnet.pack import lines, opened, unpack

HERE = Path(__file__).parent
NLTK = json.loads((HERE / "nltk_wordnet30.json").read_text())
SCENES = {k: v for k, v in json.loads((HERE.parent / "loading" / "wordnet30.json").read_text()).items() if k}


@pytest.fixture(scope="module")
def wordnet() -> WordNet:
    return WordNet.load()


def test_all_of_wordnet_is_there(wordnet):
    assert len(wordnet) == 117_659
    assert wordnet["dog.n.01"].lemmas == ("dog", "domestic_dog", "Canis_familiaris")
    assert wordnet["dog.n.01"].pos == "n"


@pytest.mark.parametrize(("first", "second", "expected"), NLTK["path_similarity"])
def test_path_similarity_is_that_of_nltk(wordnet, first, second, expected):
    assert wordnet.path_similarity(first, second) == pytest.approx(expected, abs=1e-12)
    assert wordnet.path_similarity(second, first) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("word", "pos", "expected"), NLTK["base"])
def test_base_forms_are_those_of_nltk(wordnet, word, pos, expected):
    assert wordnet.base(word, pos) == expected


@pytest.mark.parametrize(("word", "pos", "expected"), NLTK["antonyms"])
def test_antonyms_are_those_of_nltk(wordnet, word, pos, expected):
    assert sorted(wordnet.antonyms(word, pos)) == expected


def test_hypernyms_of_the_built_in_world(wordnet):
    for name, entry in SCENES.items():
        assert set(entry["lemmas"]) == {lemma.replace("_", " ") for lemma in wordnet[name].lemmas}
        direct = {up for up, far in wordnet.ancestors(name).items() if far == 1}
        assert direct == set(entry["hypernyms"])


def test_the_table_holds_the_single_values(wordnet):
    names = ["dog.n.01", "tree.n.01", "run.v.01", "grass.n.01", "entity.n.01"]
    similar = Similarities(wordnet, [*names, "nothing.x.01"])
    assert similar.unknown == ("nothing.x.01",)
    for first, second in combinations(names, 2):
        assert similar.of([first], [second])[0, 0] == wordnet.path_similarity(first, second)


def test_no_path_between_parts_of_speech(wordnet):
    assert wordnet.distances(["dog.n.01", "run.v.01"])[0, 1] == FAR
    assert wordnet.path_similarity("dog.n.01", "run.v.01") == 0


def test_an_unknown_synset_is_refused_with_those_that_are_near(wordnet):
    with pytest.raises(UnknownName, match=r"dog\.n\.01"):
        wordnet["dog.n.99"]
    with pytest.raises(UnknownName, match="unknown synset"):
        wordnet.ancestors("no such thing")


def test_a_table_refuses_what_it_does_not_hold(wordnet):
    with pytest.raises(LimnerError, match="'cat.n.01' is not in this table"):
        Similarities(wordnet, ["dog.n.01"]).of(["dog.n.01"], ["cat.n.01"])


def test_threads_share_the_graph(wordnet):
    names = [name for name in wordnet.names if ".n." in name][::4000]
    with ThreadPoolExecutor(4) as pool:
        tables = list(pool.map(lambda _: wordnet.distances(names), range(4)))
    assert all(np.array_equal(tables[0], table) for table in tables)


def test_a_folder_without_the_files_is_refused(tmp_path):
    with pytest.raises(LimnerError, match=r"no data\.noun, index\.noun"):
        WordNet.read(tmp_path)


def test_database_files_are_read(tmp_path):
    """Two nouns, a satellite adjective with its head, and an irregular plural, in the format of the files."""
    empty = ("verb", "adv")
    for part in empty:
        (tmp_path / f"data.{part}").write_text("  1 licence\n")
        (tmp_path / f"index.{part}").write_text("  1 licence\n")
    (tmp_path / "data.noun").write_text(
        "  1 licence\n"
        "00000100 03 n 01 entity 0 000 | what is\n"
        '00000200 05 n 02 goose 0 Anser 1 001 @ 00000100 n 0000 | a bird; "a | in an example"\n'
    )
    (tmp_path / "index.noun").write_text(
        "  1 licence\nanser n 1 1 @ 1 0 00000200  \nentity n 1 0 1 1 00000100  \ngoose n 1 1 @ 1 1 00000200  \n"
    )
    (tmp_path / "data.adj").write_text(
        "00000300 00 a 01 hot(a) 0 001 ! 00000400 a 0101 | warm\n"
        "00000400 00 s 01 cold 0 001 ! 00000300 a 0101 | chill\n"
    )
    (tmp_path / "index.adj").write_text("cold a 1 1 ! 1 0 00000400  \nhot a 1 1 ! 1 0 00000300  \n")
    (tmp_path / "noun.exc").write_text("geese goose\n")
    (tmp_path / "cntlist.rev").write_text("goose%1:05:00:: 1 7\n")
    small = WordNet.read(tmp_path)
    assert small.names == ("entity.n.01", "goose.n.01", "hot.a.01", "cold.s.01")
    assert small["goose.n.01"].counts == (7, 0)
    assert (small.base("geese"), small.antonyms("hot", "a"), small.synsets("anser")[0].name) == (
        "goose", ("cold",), "goose.n.01",
    )  # fmt: skip
    assert small.path_similarity("goose.n.01", "entity.n.01") == 0.5
    assert WordNet(*unpack("\n".join(lines(tmp_path)))).names == small.names


def test_an_irregular_form_is_led_back_even_where_it_is_listed_as_a_word(wordnet):
    """nltk gives "men" for "men", since WordNet has "men" (a work force) too; captions mean people."""
    assert wordnet.base("men") == "man"


def test_what_is_parsed_on_request_is_what_is_parsed_at_once():
    """Every synset, every word's senses and every irregular form of the shipped file."""
    import lzma
    from importlib.resources import files

    packed = (files("limner.language.wordnet") / "wordnet30.xz").read_bytes()
    lazy, unpacked = opened(packed), unpack(lzma.decompress(packed).decode())
    assert [lazy.synsets[at] for at in range(len(lazy.synsets))] == unpacked.synsets
    assert lazy.synsets[3:5] == unpacked.synsets[3:5]
    assert dict(lazy.senses) == unpacked.senses
    assert len(lazy.senses) == len(unpacked.senses)
    assert lazy.exceptions == unpacked.exceptions
    assert ("dog", "n") in lazy.senses and ("dog", "x") not in lazy.senses and "dog" not in lazy.senses


def test_a_damaged_line_is_told_when_it_is_read():
    import lzma

    parts = opened(lzma.compress(b"ndog:1\t\t\nncat:x\t\t\n\n"))
    assert parts.synsets[0].name == "dog.n.01"
    for read in (lambda: parts.synsets[1], lambda: list(parts.synsets), lambda: parts.senses["cat", "n"]):
        with pytest.raises(LimnerError, match="install limner again"):
            read()
