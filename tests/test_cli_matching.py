"""From the shell: corrections with and without tuning, fusion, assignment."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import toys
from limner import Embeddings, evaluate
from limner.cli import app
from limner.datasets.runs import read_run


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A csv with a dev and a test split, and embeddings of all of it."""
    folder = tmp_path_factory.mktemp("files")
    toy = toys.collection(n=40)
    scores = toys.scores(toy, noise=1.2)
    rows = ["image,id,caption,split"]
    rows += [f"i{k // 5},t{k},caption {k},{'dev' if k < 100 else 'test'}" for k in range(200)]
    (folder / "captions.csv").write_text("\n".join(rows) + "\n")
    Embeddings(toy.images.ids, scores.query_vectors.matrix).save(folder / "i.npz")
    Embeddings(toy.texts.ids, scores.candidate_vectors.matrix).save(folder / "t.npz")
    np.save(folder / "s.npy", scores.matrix())
    scores.top(8).save(folder / "a.run")
    toys.scores(toy, noise=1.5, seed=3).top(8).save(folder / "b.run")
    return folder


def limner(folder, *words, status=0):
    done = CliRunner().invoke(app, [str(w) for w in words], catch_exceptions=False)
    assert done.exit_code == status, done.output
    return done


def vectors(folder):
    return folder / "captions.csv", "--images", folder / "i.npz", "--texts", folder / "t.npz", "--measures", "R@1 rsum"


@pytest.mark.parametrize("spec", ["csls", "csls(k=3)", "inverted_softmax(beta=20)"])
def test_a_correction_is_what_python_says(files, spec):
    report = json.loads(
        limner(files, "evaluate", *vectors(files), "--split", "all", "--correct", spec, "--json").stdout
    )
    toy = toys.collection(n=40)
    name, _, options = spec.rstrip(")").partition("(")
    chosen = {k: float(v) for k, v in (o.split("=") for o in options.split(",") if o)}
    chosen = {k: int(v) if k == "k" else v for k, v in chosen.items()}
    plain = evaluate(toys.scores(toy, noise=1.2).correct(name, **chosen), toy, measures="R@1 rsum")
    assert [r["value"] for r in report["results"]] == pytest.approx([r.value for r in plain.results])
    assert report["system"] == f"i + {spec}"


def test_tuned_on_dev(files):
    done = limner(files, "evaluate", *vectors(files), "--correct", "csls", "-O", "tune=dev", "--json")
    assert "csls is best on captions/dev with k = " in done.stderr
    assert json.loads(done.stdout)["collection"] == "captions/test"


def test_fused(files):
    summary = json.loads(
        limner(files, "match", "fuse", files / "a.run", files / "b.run", "-o", files / "f.run", "--json").stdout
    )
    assert summary["queries"] == 40 and len(read_run(files / "f.run")["i0"]) >= 8


def test_assigned(files):
    summary = json.loads(
        limner(files, "match", "assign", files / "s.npy", "-o", files / "g.run", "--depth", 2, "--json").stdout
    )
    first = [read_run(files / "g.run")[str(q)][0] for q in range(40)]
    assert len(set(first)) == 40 and summary["exact"] and summary["totals"][0] >= summary["totals"][1]


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (
            ("evaluate", "CSV", "--split", "all", "--run", "a.run", "--correct", "csls"),
            3,
            "a run has no scores to correct",
        ),
        (("evaluate", "CSV", "--images", "i.npz", "--texts", "t.npz", "--correct", "cls"), 3, "did you mean 'csls'"),
        (
            ("evaluate", "CSV", "--images", "i.npz", "--texts", "t.npz", "--correct", "csls(beta=1)"),
            3,
            "unknown option",
        ),
        (("evaluate", "CSV", "--images", "i.npz", "--texts", "t.npz", "--correct", "csls(k=0)"), 3, "above 0"),
        (("evaluate", "CSV", "--images", "i.npz", "--texts", "t.npz", "-O", "tune=dev"), 3, "unknown option 'tune'"),
        (("match", "fuse", "a.run", "-o", "x.run"), 2, "two or more"),
        (("match", "fuse", "a.run", "b.run", "-o", "x.run", "--method", "vote"), 3, "vote"),
        (("match", "assign", "a.run", "-o", "x.run"), 3, "not a valid npy file"),
    ],
)
def test_refused(files, words, status, message):
    paths = {"CSV": "captions.csv", "a.run": "a.run", "b.run": "b.run", "i.npz": "i.npz", "t.npz": "t.npz"}
    done = limner(files, *(files / paths[w] if w in paths else w for w in words), status=status)
    assert message in " ".join(done.output.split()) and "Traceback" not in done.output
    assert not (files / "x.run").exists()
