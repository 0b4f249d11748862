"""`limner train`: a model is kept, is found again by its path, and nothing is lost to bad input."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import limner
from limner import LimnerError, systems
from limner.cli import app
from limner.cli.shell import Status

WORLD = ("scenes", "-O", "images=60")


def run(*args, status=0):
    done = CliRunner().invoke(app, [str(word) for word in args])
    assert done.exit_code == status, done.output
    return done


def test_a_kept_model_is_measured_like_one_trained_on_the_spot(tmp_path):
    model = tmp_path / "colours.npz"
    summary = json.loads(run("train", "colours", *WORLD, "-o", model, "--json").stdout)
    assert (summary["system"], summary["model"], summary["images"]) == ("colours", str(model), 36)
    saved, fresh = (
        json.loads(run("evaluate", *WORLD, "--model", name, "--json").stdout)["results"] for name in (model, "colours")
    )
    assert saved == fresh


def test_settings_win_over_the_file(tmp_path):
    config, model = tmp_path / "options.toml", tmp_path / "m.npz"
    config.write_text('dimensions = 3\nname = "small"\n')
    run("train", "histograms", *WORLD, "-o", model, "--config", config, "-O", "dimensions=2")
    loaded = systems.load(model)
    assert (loaded.name, loaded.image_map.weights.shape[1]) == ("small", 2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("histogram", *WORLD), "did you mean 'histograms'"),
        (("histograms", *WORLD, "-O", "ridges=1"), "did you mean 'ridge'"),
        (("histograms", *WORLD, "--config", "none.toml"), "no file of options none.toml"),
    ],
)
def test_bad_words_write_nothing(tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    done = run("train", *words, "-o", "m.npz", status=Status.INPUT)
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_not_toml(tmp_path):
    (tmp_path / "x.toml").write_text("= 3")
    done = run("train", "colours", *WORLD, "-o", tmp_path / "m", "--config", tmp_path / "x.toml", status=Status.INPUT)
    assert "is not TOML" in done.stderr


def test_a_folder_that_is_no_model_is_not_written_over(tmp_path):
    (tmp_path / "precious.txt").write_text("kept")
    assert "is not a saved model" in run("train", "colours", *WORLD, "-o", tmp_path, status=Status.INPUT).stderr
    assert (tmp_path / "precious.txt").read_text() == "kept"


def test_checkpoints_and_model_may_share_a_folder(tmp_path):
    """A run that was killed leaves a folder with a checkpoint and no model, which the next one goes on in."""
    pytest.importorskip("torch", reason="training needs torch")
    small = [
        f"{name}={value}"
        for name, value in {"hidden_dim": 4, "embedding_dim": 4, "word_dim": 4, "tensorboard": "false"}.items()
    ]
    words = ["train", "towers", *WORLD, "-o", tmp_path / "m", *(w for s in small for w in ("-O", s))]
    words += ["-O", f"checkpoint_dir={tmp_path / 'm'}"]
    run(*words, "-O", "epochs=1")
    (tmp_path / "m" / "config.json").unlink()
    run(*words, "-O", "epochs=2")
    assert len(systems.load(tmp_path / "m").trained["history"]) == 2
    assert (tmp_path / "m" / "checkpoint.safetensors").is_file() and (tmp_path / "m" / "log.csv").is_file()


def test_a_model_without_a_folder_to_go_into_is_told_before_the_training(tmp_path):
    done = run("train", "nothing:at_all", *WORLD, "-o", tmp_path / "none" / "m", status=Status.INPUT)
    assert f"no folder {tmp_path / 'none'}" in done.stderr.replace("\n", "")


def test_folders_that_are_no_models(tmp_path):
    with pytest.raises(limner.LimnerError, match="expected a config.json"):
        systems.load(tmp_path)
    (tmp_path / "config.json").write_text('{"limner": "os:system"}')
    with pytest.raises(limner.LimnerError, match="kind 'os:system': expected one of"):
        systems.load(tmp_path)


def test_a_system_that_chooses_gets_dev_and_only_where_there_is_one():
    world = limner.load("scenes", images=60)
    assert limner.train(world, f"{__name__}:echo").dev.images.ids == world.dev.images.ids
    assert limner.train(world.train, f"{__name__}:echo").dev is None


def test_options_of_a_system_are_listed():
    listing = json.loads(run("list", "systems", "histograms", "--json").stdout)
    assert listing["options"]["dimensions"] == {"type": "int", "default": 32}
    assert "progress" not in listing["options"]


def test_every_option_of_a_system_has_a_type():
    for system in limner.systems.SYSTEMS:
        options = limner.systems.SYSTEMS.about(system).options
        assert [option.name for option in options if "any" in option.type.split()] == [], system


def test_types_name_what_can_be_written_first():
    pytest.importorskip("torch")
    options = json.loads(run("list", "systems", "towers", "--json").stdout)["options"]
    vectors = "str or Path or dict or nothing or Embeddings or Encoder or TwoSided"
    assert options["features"]["type"].startswith(vectors) and options["texts"]["default"] == "gru"
    assert options["word_vectors"]["type"] == "str or Path or nothing or Embeddings"
    assert options["loss"] == {"type": "str or function", "default": "adaptive"}


def test_a_value_of_the_wrong_type_is_refused_by_its_option():
    pytest.importorskip("torch")
    world = limner.load("scenes", images=60)
    with pytest.raises(LimnerError, match="features=3 is int: expected str or Path or dict or nothing or Embeddings"):
        limner.train(world, "towers", features=3)
    with pytest.raises(LimnerError, match="images=3 is int: expected str or Kernel"):
        limner.train(world, "kcca", images=3)


def echo(collection, *, dev=None):
    """A system that only shows what it was given."""
    return type("Echo", (), {"dev": dev, "seen": collection})()
