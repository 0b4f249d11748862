"""Options that have a new name since 0.2.0 still work under their old one, and a warning says what to write."""

from __future__ import annotations

import inspect
import warnings

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import limner
from limner.cli import app
from limner.cli.old_names import with_new_names
from limner.core.errors import LimnerError
from limner.core.registry import checked, options_of
from limner.core.renamed import RenamedOption, current, renamed
from limner.encoders.words import BagOfWords
from limner.systems import histograms

WORLD = ("scenes", "-O", "images=30")


@renamed(least="min_count")
def fit(*, min_count: int = 2) -> int:
    return min_count


@pytest.fixture(scope="module")
def world():
    return limner.load("scenes", images=30)


def test_an_old_name_works_and_warns():
    with pytest.warns(RenamedOption, match="option least is now called min_count: write min_count="):
        assert fit(least=5) == 5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fit(min_count=4) == 4


def test_both_names_at_once_are_refused():
    with pytest.raises(LimnerError, match="least= and min_count= are the same option"):
        fit(least=1, min_count=2)


def test_only_the_new_name_is_listed():
    assert [option.name for option in options_of(fit)] == ["min_count"]
    assert list(inspect.signature(fit).parameters) == ["min_count"]


def test_checked_options_have_their_new_names():
    with pytest.warns(RenamedOption):
        assert checked(fit, {"least": 3}, what="'fit'") == {"min_count": 3}


def test_files_are_read_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert current({"least": 3}, {"least": "min_count"}) == {"min_count": 3}


def test_a_class_method_and_a_trainer(world):
    with pytest.warns(RenamedOption):
        bag = BagOfWords.fit(world.texts.values, least=3)
    assert bag.vocabulary == BagOfWords.fit(world.texts.values, min_count=3).vocabulary
    with pytest.warns(RenamedOption):
        model = histograms.train(world, least=3)
    assert model.bag.vocabulary == histograms.train(world, min_count=3).bag.vocabulary


def test_settings_of_a_learned_system():
    pytest.importorskip("torch", reason="learned systems need torch")
    from limner.systems.towers.settings import Training, split
    from limner.systems.towers.shape import Inputs, Shape

    old = {"batch": 8, "rate": 0.1, "longest": 9, "joint": 5, "hidden": 6, "words": 7}
    with pytest.warns(RenamedOption) as caught:
        training, inputs, shape = split(old, Training, Inputs, Shape, what="towers")
    assert len(caught) == len(old)
    assert (training.batch_size, training.learning_rate, inputs.max_tokens) == (8, 0.1, 9)
    assert (shape.embedding_dim, shape.hidden_dim, shape.word_dim) == (5, 6, 7)


def test_at_the_shell_an_old_setting_works_and_one_line_says_so(tmp_path):
    done = CliRunner().invoke(app, ["train", "histograms", *WORLD, "-o", str(tmp_path / "m"), "--set", "least=3"])
    assert done.exit_code == 0, done.stderr
    assert done.stderr.count("option least is now called min_count") == 1


def test_at_the_shell_an_old_option_works_and_one_line_says_so():
    done = CliRunner().invoke(app, ["explain", *WORLD, "--system", "histograms", "--most", "1", "--json"])
    assert done.exit_code == 0, done.stderr
    assert done.stderr.count("option --most is now called --limit") == 1
    assert "--most" not in CliRunner().invoke(app, ["explain", "--help"]).stdout


@pytest.mark.parametrize(
    ("command", "old", "new"),
    [
        ("pool", "--again", "--new-pairs"),
        ("tasks", "--real", "--pooled"),
        ("review", "--set-aside", "--exclude-below"),
        ("review", "--take-out", "--exclude"),
        ("study", "--least", "--min-relevant"),
        ("study", "--most", "--max-relevant"),
        ("tables", "--most", "--limit"),
    ],
)
def test_old_options_of_annotate_are_hidden_and_still_work(command, old, new, capsys):
    shell = get_command(app)
    assert with_new_names(shell, ["annotate", command, old, "5"]) == ["annotate", command, new, "5"]
    assert capsys.readouterr().err == f"limner: warning: option {old} is now called {new}\n"
    options = [name for option in shell.commands["annotate"].commands[command].params for name in option.opts]
    assert new in options and old not in options


def test_what_follows_two_dashes_is_left_alone():
    from typer.main import get_command

    from limner.cli.old_names import with_new_names

    words = with_new_names(get_command(app), ["explain", "scenes", "--most=2", "--", "--most"])
    assert words == ["explain", "scenes", "--limit=2", "--", "--most"]


def test_the_old_name_of_with_name_still_works():
    pairs = limner.Judgements.from_pairs([("q", "a")])
    with pytest.warns(DeprecationWarning, match="is now called with_name"):
        assert pairs.named("mine") == pairs.with_name("mine")
