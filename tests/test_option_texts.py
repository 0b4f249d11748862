"""Options as people write them: true and false in every spelling, and nothing that is not understood is ignored."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import limner
from limner import LimnerError
from limner.cli import app
from limner.cli.shell import Status
from limner.core.options import parsed_call, parsed_options, parsed_value
from limner.core.registry import typed

TRUE = ("True", "true", "TRUE", "1", "yes", "Yes")
FALSE = ("False", "false", "FALSE", "0", "no", "No")


def run(*words, status=0):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == status, done.output
    return done


@pytest.fixture
def table(tmp_path):
    """Captions with quotes that are plain characters: two rows, or one where quotes enclose cells."""
    file = tmp_path / "captions.csv"
    file.write_text('image,caption\na.png,"a dog\nb.png,a cat"\n', encoding="utf-8")
    return file


@pytest.mark.parametrize(("words", "texts"), [(TRUE, 1), (FALSE, 2)])
def test_true_and_false_of_a_loader_in_every_spelling(table, words, texts):
    for word in words:
        document = json.loads(
            run("data", "describe", table, "-O", f"quoted={word}", "-O", "check_images=no", "--json").stdout
        )
        assert document["texts"] == texts, word


def test_true_and_false_of_a_system_in_every_spelling(tmp_path):
    """`fuse` of KCCA: with it there is no one space to encode in."""
    world = ("scenes", "-O", "images=40")
    small = ("-O", "side=48", "-O", "points=20", "-O", "kappas=[0.1]", "-O", "powers=[1.0]")
    for word in ("False", "no", "0"):
        run("train", "kcca", *world, "-o", tmp_path / word, *small, "-O", f"fuse={word}")
        assert not limner.systems.load(tmp_path / word).fused


@pytest.mark.parametrize("word", ["quoted=maybe", "quoted=2", "quotd=False", "quoted", "quoted=null"])
def test_what_is_not_understood_is_refused(table, word):
    done = CliRunner().invoke(app, ["data", "describe", str(table), "-O", word])
    assert done.exit_code in (Status.USAGE, Status.INPUT) and "quot" in done.stderr


def test_an_option_that_is_given_twice_is_refused(table):
    words = ("data", "describe", table, "-O", "quoted=no", "-O", "quoted=yes")
    assert "twice" in run(*words, status=Status.USAGE).stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3", 3), ("0.5", 0.5), ("None", None), ("null", None), ("[1, 2]", [1, 2]), ("a b", "a b"), ("yes", "yes")],
)
def test_values(text, expected):
    assert parsed_value(text) == expected and type(parsed_value(text)) is type(expected)


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [("yes", bool, True), (0, bool, False), (1, bool | None, True), (1, bool | int, 1), ("no", bool | str, "no")],
)
def test_words_for_true_and_false_count_only_where_nothing_else_fits(value, hint, expected):
    converted = typed("x", value, hint)
    assert converted == expected and type(converted) is type(expected)


def test_calls():
    assert parsed_call("csls", what="correction") == ("csls", {})
    assert parsed_call("clip(model=a/b, device=cpu)", what="encoder") == ("clip", {"model": "a/b", "device": "cpu"})
    for bad in ("csls(k=5", "(k=5)", "csls(5)"):
        with pytest.raises(LimnerError):
            parsed_call(bad, what="correction")
    assert parsed_options([]) == {}
