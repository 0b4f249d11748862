"""Things of a user's own, from one file: in Python, at the shell, saved and read again, and on the page."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
import user_extensions
from limner import LimnerError, Scores
from limner.cli import app
from limner.core.errors import Untrusted
from limner.datasets.runs import read_run
from limner.encoders import ENCODERS, encoded, encoder
from limner.evaluation import corrected, tune
from limner.match import CORRECTIONS, FUSIONS, SCORERS, correction, fuse, scorer
from limner.scores.correction import Statistics

MINE = "user_extensions:MeanShift"


def shell(*words: str, status: int = 0) -> str:
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == status, done.output
    return done.stdout


@pytest.fixture(scope="module")
def pairs():
    return limner.load("scenes", images=60)


@pytest.fixture(scope="module")
def noisy_scores(pairs):
    rng = np.random.default_rng(0)
    truth = np.zeros((len(pairs.images), len(pairs.texts)))
    judged = pairs.judgements.relevant
    truth[judged.rows, judged.columns] = 1.0
    matrix = truth + rng.standard_normal(truth.shape) + 2 * rng.standard_normal(truth.shape[1])
    return Scores.from_matrix(matrix, pairs.images.ids, pairs.texts.ids)


@pytest.fixture
def registered(monkeypatch):
    """A name of its own, also after an example of the docs that registered the same one in this process."""
    remaining = {name: entry for name, entry in CORRECTIONS._own.items() if name != "mean_shift"}
    monkeypatch.setattr(CORRECTIONS, "_own", remaining)
    CORRECTIONS.register("mean_shift")(user_extensions.MeanShift)
    return "mean_shift"


# --- a correction -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [MINE, user_extensions.MeanShift])
def test_a_correction_by_place_and_by_class(noisy_scores, method):
    matrix = noisy_scores.matrix()
    corrected_scores = noisy_scores.correct(method, weight=0.5)
    assert np.allclose(corrected_scores.matrix(), matrix - 0.5 * matrix.mean(axis=0))
    assert str(corrected_scores.correction) == f"{MINE}(weight=0.5, centre=mean)"
    assert noisy_scores.correct(user_extensions.MeanShift(0.5)).correction == correction(method, weight=0.5)


def test_a_registered_correction(noisy_scores, registered):
    assert np.array_equal(noisy_scores.correct(registered).matrix(), noisy_scores.correct(MINE).matrix())
    assert noisy_scores.correct(MINE).correction.name == registered
    assert CORRECTIONS.summaries()[registered].startswith("s(i, t) - weight")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"wieght": 1}, "unknown option 'wieght' of correction 'user_extensions:MeanShift': did you mean 'weight'"),
        ({"weight": "x"}, "weight='x' is str: expected float"),
        ({"weight": -1.0}, "option weight is -1.0, expected a number above 0"),
        ({"centre": 3}, "centre=3 is int: expected str"),
    ],
)
def test_its_options_are_checked(noisy_scores, options, message):
    with pytest.raises(LimnerError, match=message):
        noisy_scores.correct(MINE, **options)


def test_what_is_no_correction_is_refused(noisy_scores):
    with pytest.raises(LimnerError, match="is not a correction: expected a subclass"):
        noisy_scores.correct("user_extensions:Letters")


@pytest.mark.parametrize("method", [MINE, user_extensions.MeanShift, user_extensions.MeanShift()])
def test_a_correction_brings_its_own_grid(noisy_scores, pairs, method):
    dev = noisy_scores.restrict(queries=pairs.dev.images.ids, candidates=pairs.dev.texts.ids)
    values = {
        weight: sum(
            r.value for r in limner.evaluate(dev.correct(MINE, weight=weight), pairs.dev, measures="R@1").results
        )
        for weight in user_extensions.MeanShift.grid["weight"]
    }
    assert len(set(values.values())) > 1
    assert values[tune(method, dev, pairs.dev, measure="R@1")["weight"]] == max(values.values())
    if not isinstance(method, user_extensions.MeanShift):
        assert (
            corrected(noisy_scores, pairs, method).correction == dev.correct(method, tune=(dev, pairs.dev)).correction
        )


def test_nothing_to_tune_is_said(noisy_scores, pairs):
    with pytest.raises(LimnerError, match="user_extensions:Plain has no tuning grid"):
        tune("user_extensions:Plain", noisy_scores, pairs)


def test_tune_with_options_that_are_set_is_refused(noisy_scores, pairs):
    with pytest.raises(LimnerError, match="has options: leave out tune="):
        noisy_scores.correct(user_extensions.MeanShift(), tune=(noisy_scores, pairs))


def test_statistics_are_saved_and_read_again_where_the_file_is_trusted(noisy_scores, tmp_path):
    corrected_scores = noisy_scores.correct(MINE, weight=0.25)
    path = corrected_scores.statistics.save(tmp_path / "bank.npz")
    with pytest.raises(Untrusted, match=f"correction '{MINE}' is named by a file.*trust=True"):
        noisy_scores.correct(path)
    assert Statistics.load(path, trust=True).correction == corrected_scores.correction
    assert np.allclose(noisy_scores.correct(path, trust=True).matrix(), corrected_scores.matrix())


def test_statistics_of_a_registered_correction_need_no_trust(noisy_scores, registered, tmp_path):
    path = noisy_scores.correct(registered).statistics.save(tmp_path / "bank.npz")
    assert Statistics.load(path).correction.name == registered


def test_statistics_that_could_not_be_read_again_are_not_saved(noisy_scores, tmp_path):
    class Hidden(user_extensions.MeanShift):
        pass

    with pytest.raises(LimnerError, match="cannot be found again.*register"):
        noisy_scores.correct(Hidden).statistics.save(tmp_path / "bank.npz")
    with pytest.raises(LimnerError, match="reserved name 'head'"):
        noisy_scores.correct("user_extensions:Plain").statistics.save(tmp_path / "bank.npz")
    assert not (tmp_path / "bank.npz").exists()


def test_a_correction_at_the_shell(noisy_scores, pairs, tmp_path):
    pictures, captions = pairs.test.images.ids, pairs.test.texts.ids
    test = noisy_scores.restrict(queries=pictures, candidates=captions)
    np.save(tmp_path / "s.npy", noisy_scores.matrix())
    words = (
        "evaluate",
        "scenes",
        "-O",
        "images=60",
        "--scores",
        str(tmp_path / "s.npy"),
        "--measures",
        "R@1",
        "--json",
    )
    report = json.loads(shell(*words, "--correct", f"{MINE}(weight=0.5)"))
    expected = limner.evaluate(test.correct(MINE, weight=0.5), pairs.test, measures="R@1")
    assert [r["value"] for r in report["results"]] == pytest.approx([r.value for r in expected.results])
    shell(*words, "--correct", MINE, "-O", "tune=dev")
    path = str(test.correct(MINE).statistics.save(tmp_path / "bank.npz"))
    shell("evaluate", *words[1:], "--correct", path, status=3)
    listing = json.loads(shell("list", "corrections", MINE, "--json"))
    assert listing["options"]["weight"] == {"type": "float", "default": 1.0}


def test_a_correction_on_the_page(registered):
    pytest.importorskip("starlette")
    from limner.web.library import Library

    library = Library({"scenes": "scenes"}, {}, corrections=["user_extensions:Plain"])
    assert library.corrections == [*CORRECTIONS, "user_extensions:Plain"] and registered in library.corrections
    assert library.known_correction("user_extensions:Plain")
    with pytest.raises(LimnerError, match="unknown correction 'user_extensions:Letters'"):
        library.known_correction("user_extensions:Letters")
    with pytest.raises(LimnerError, match="not a correction"):
        Library({"scenes": "scenes"}, {}, corrections=["user_extensions:Letters"])


# --- the other kinds --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(noisy_scores, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name, scores in (("a.run", noisy_scores), ("b.run", noisy_scores.correct("csls"))):
        scores.top(20).save(folder / name)
    return folder


def test_a_fusion(noisy_scores, runs, tmp_path):
    systems = [read_run(runs / name) for name in ("a.run", "b.run")]
    by_name, by_function = (
        fuse(systems, method, depth=3) for method in ("user_extensions:weighted", user_extensions.weighted)
    )
    assert np.array_equal(by_name.indices, by_function.indices) and by_name.depth == 3
    with pytest.raises(LimnerError, match="unknown option 'k' of fusion 'user_extensions:weighted'"):
        fuse(systems, "user_extensions:weighted", k=3)
    with pytest.raises(LimnerError, match="gave Model: expected a Ranking"):
        fuse(systems, "user_extensions:train")
    words = ("match", "fuse", str(runs / "a.run"), str(runs / "b.run"), "-o", str(tmp_path / "f.run"), "--depth", "3")
    shell(*words, "--method", "user_extensions:weighted(normalise=zscore)")
    expected = fuse(systems, "user_extensions:weighted", depth=3, normalise="zscore")
    assert {q: read_run(tmp_path / "f.run")[q] for q in expected.queries} == {q: expected[q] for q in expected.queries}
    shell(*words, "--method", "reciprocal_rank(k=20)")
    assert list(FUSIONS) == list(FUSIONS.summaries())


def test_a_pair_scorer(runs, tmp_path):
    pair_scorer = scorer("user_extensions:SharedWords", scale=2.0)
    assert pair_scorer.score_pairs(["a dog", "a"], ["the dog", "b"]).tolist() == [2.0, 0.0]
    with pytest.raises(LimnerError, match="cannot score pairs"):
        scorer("user_extensions:Letters")
    words = ("match", "rerank", str(runs / "a.run"), "scenes", "-O", "images=60", "--split", "all", "--depth", "3")
    shell(*words, "--scorer", "user_extensions:SharedWords(scale=3)", "-o", str(tmp_path / "c.run"))
    assert "levenshtein" in SCORERS and "levenshtein" in shell("list", "scorers")


def test_an_encoder(tmp_path):
    (tmp_path / "texts.txt").write_text("a dog\nabba\n")
    shell("encode", str(tmp_path / "texts.txt"), "--model", "user_extensions:Letters", "-o", str(tmp_path / "v.npy"))
    assert np.load(tmp_path / "v.npy")[1, :2].tolist() == [2.0, 2.0]
    assert encoder("user_extensions:Letters").dim == 26 and "clip" in ENCODERS.summaries()


def test_an_encoder_given_items_it_cannot_read_is_no_bug_in_limner(pairs, tmp_path):
    words = ("encode", "scenes", "-O", "images=60", "--model", "user_extensions:Letters", "-o", str(tmp_path / "v.npy"))
    message = json.loads(shell(*words, "--side", "images", "--json", status=3))["error"]["message"]
    assert "Letters failed on 60 images (AttributeError" in message and "encodes only texts, give it texts" in message
    with pytest.raises(LimnerError, match="Letters failed on 60 images") as caught:
        encoded(user_extensions.Letters(), pairs.images)
    assert isinstance(caught.value.__cause__, AttributeError)


def test_a_cache_says_what_an_encoder_lacks(tmp_path):
    (tmp_path / "texts.txt").write_text("a dog\n")
    words = ("encode", str(tmp_path / "texts.txt"), "--model", "user_extensions:Letters", "-o", str(tmp_path / "v.npy"))
    message = json.loads(shell(*words, "--cache", str(tmp_path / "c"), "--json", status=3))["error"]["message"]
    assert (
        "Letters has no fingerprint" in message and "fingerprint = 'letters 1'" in message and "Cached(" not in message
    )


def test_a_data_set(tmp_path):
    from limner.datasets import DATASETS, datasets

    (tmp_path / "lines.tsv").write_text("a.jpg\ta dog\nb.jpg\ta cat\n")
    spec = f"user_extensions:load:{tmp_path / 'lines.tsv'}"
    assert limner.load(spec, shout=True).texts.values == ("A DOG", "A CAT")
    assert json.loads(shell("data", "describe", spec, "--json"))["texts"] == 2
    DATASETS.register("lines")(user_extensions.load)
    try:
        assert limner.load(f"lines:{tmp_path / 'lines.tsv'}").texts.values == ("a dog", "a cat")
        assert datasets()[-1].needs_path and "lines:PATH" in shell("list", "datasets")
    finally:
        del DATASETS._own["lines"]


def test_a_system():
    report = json.loads(
        shell(
            "evaluate", "scenes", "-O", "images=60", "--model", "user_extensions:train", "--measures", "R@1", "--json"
        )
    )
    assert report["results"]
    assert json.loads(shell("list", "systems", "user_extensions:train", "--json"))["options"] == {
        "seed": {"type": "int", "default": 0}
    }


def test_a_loss(tmp_path):
    pytest.importorskip("torch")
    sizes = [word for size in ("hidden_dim=8", "embedding_dim=8", "word_dim=8", "epochs=1") for word in ("-O", size)]
    data = ("scenes", "-O", "images=60")
    shell("train", "towers", *data, "-O", "loss=user_extensions:infonce", *sizes, "-o", str(tmp_path / "m"))
    measured = ("evaluate", *data, "--model", str(tmp_path / "m"), "--measures", "R@1")
    shell(*measured, "--trust")
    shell(*measured, status=3)
    assert "temperature" in shell("list", "losses", "user_extensions:infonce")


# --- lists ------------------------------------------------------------------------------------------------------


def test_a_loss_and_an_encoder_take_options_in_parentheses(tmp_path):
    """As every kind does at the shell: name(option=value)."""
    torch = pytest.importorskip("torch")
    from limner.systems.towers.losses import loss

    scores, positives = torch.tensor([[0.5, 0.4], [0.3, 0.2]]), torch.eye(2, dtype=torch.bool)
    in_parentheses, by_keyword = (
        loss("knn(k=1)", margin=0.3)(scores, positives),
        loss("knn", k=1, margin=0.3)(scores, positives),
    )
    assert float(in_parentheses) == float(by_keyword)
    with pytest.raises(LimnerError, match="unknown option 'kk' of loss 'knn': did you mean 'k'"):
        loss("knn(kk=1)")
    assert encoder("user_extensions:Letters(letters=3)").dim == encoder("user_extensions:Letters", letters=3).dim == 3
    (tmp_path / "captions.txt").write_text("a red dog\n")
    out = tmp_path / "v.npy"
    shell("encode", str(tmp_path / "captions.txt"), "--model", "user_extensions:Letters(letters=3)", "-o", str(out))
    assert np.load(out).shape == (1, 3)


def test_every_kind_takes_options_in_parentheses_in_python_too(noisy_scores, pairs):
    """One way to name things: what works at the shell works in Python, and keyword arguments take precedence."""
    assert str(noisy_scores.correct("csls(k=5)").correction) == "csls(k=5)"
    assert str(noisy_scores.correct("csls(k=5)", k=3).correction) == "csls(k=3)"
    assert correction(f"{MINE}(weight=0.5)") == correction(MINE, weight=0.5)
    assert tune("csls(k=5)", noisy_scores, pairs)["k"] == 5
    assert str(corrected(noisy_scores, pairs, f"{MINE}(weight=0.5)", tune=None).correction).startswith(
        f"{MINE}(weight=0.5"
    )
    systems = [noisy_scores, noisy_scores.correct("csls")]
    in_parentheses, by_keyword = (
        fuse(systems, "reciprocal_rank(k=20)", depth=5),
        fuse(systems, "reciprocal_rank", k=20, depth=5),
    )
    assert np.array_equal(in_parentheses.indices, by_keyword.indices)
    assert scorer("user_extensions:SharedWords(scale=3)").scale == 3.0
    assert isinstance(limner.train(pairs, "user_extensions:train(seed=3)"), user_extensions.Model)
    for named in (
        lambda: limner.train(pairs, "user_extensions:train(sed=3)"),
        lambda: noisy_scores.correct("csls(kk=3)"),
    ):
        with pytest.raises(LimnerError, match="unknown option"):
            named()
    with pytest.raises(LimnerError, match="expected a name, or a name with options such as"):
        noisy_scores.correct("csls(k=5")


def test_a_system_takes_options_in_parentheses_at_the_shell():
    words = ("evaluate", "scenes", "-O", "images=60", "--measures", "R@1", "--json", "--model")
    assert json.loads(shell(*words, "user_extensions:train(seed=3)"))["results"]
    assert json.loads(shell(*words, "histograms(dimensions=8)"))["results"]
    assert "unknown option" in shell(*words, "histograms(dimension=8)", status=3)


def test_measures_list_one_as_every_list_does():
    listing = json.loads(shell("list", "measures", "own_measures:RBP", "--json"))
    assert listing["measures"][0] | {"formula": ""} == {
        "measure": "RBP[@k]", "options": ["p"], "formula": "", "source": "Moffat & Zobel 2008"
    }  # fmt: skip
    assert shell("list", "measures", "nDCG").startswith("nDCG[@k]")
    assert "did you mean 'nDCG'" in CliRunner().invoke(app, ["list", "measures", "nDGC"]).output
    assert "expected a MeasureKind" in CliRunner().invoke(app, ["list", "measures", "json:loads"]).output


def test_systems_tell_their_options_with_types_and_defaults():
    pytest.importorskip("torch")
    options = json.loads(shell("list", "systems", "towers", "--json"))["options"]
    assert options["epochs"] == {"type": "int", "default": 30} and options["loss"]["default"] == "adaptive"
    assert {"features", "hidden_dim", "margin", "device", "checkpoint_dir"} <= set(options)
    assert not {"dev", "progress", "collection"} & set(options)
    assert json.loads(shell("list", "systems", "crank", "--json"))["options"]["epochs"]["default"] == 10


@pytest.mark.parametrize("plural", ["systems", "encoders", "corrections", "fusions", "scorers", "losses", "datasets"])
def test_every_kind_is_listed_with_a_summary(plural):
    rows = json.loads(shell("list", plural, "--json"))[plural]
    assert rows and all(row["about"] for row in rows)


def test_lists_import_nothing_heavy():
    code = (
        "import sys\nfrom limner.encoders import ENCODERS\nfrom limner.systems import SYSTEMS\n"
        "print(len(ENCODERS.summaries()) + len(SYSTEMS.summaries()) > 10, 'torch' in sys.modules)"
    )
    source = Path(limner.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=source)
    assert done.stdout.split() == ["True", "False"]
