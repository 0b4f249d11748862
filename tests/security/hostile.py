"""What the tests of hostile input share: good files to spoil, and what a refusal looks like at the shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from limner.cli import app
from limner.cli.shell import Status

IMAGES, PER_IMAGE = 6, 2


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Good files of every kind."""
    rng = np.random.default_rng(0)
    images = [f"i{n}" for n in range(IMAGES)]
    texts = [f"{image}#{n}" for image in images for n in range(PER_IMAGE)]
    rows = "".join(f"{text[:-2]},a caption {n},{text}\n" for n, text in enumerate(texts))
    (tmp_path / "captions.csv").write_text("image,caption,id\n" + rows)
    for name, ids in (("I", images), ("T", texts)):
        np.save(tmp_path / f"{name}.npy", rng.standard_normal((len(ids), 4)).astype(np.float32))
        (tmp_path / f"{name}.ids.txt").write_text("\n".join(ids) + "\n")
    (tmp_path / "a.run").write_text("".join(f"{t[:-2]} Q0 {t} 1 0.5 x\n" for t in texts))
    (tmp_path / "a.qrels").write_text("".join(f"{t[:-2]} 0 {t} 1\n" for t in texts))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shell(*words):
    return CliRunner().invoke(app, [str(w) for w in words])


def limner_process(*words, **options):
    environment = {**os.environ, **options.pop("env", {})}
    return subprocess.run([sys.executable, "-m", "limner", *map(str, words)], env=environment, timeout=120, **options)


def refused(done, *parts, status=Status.INPUT):
    assert done.exit_code == status, (done.exit_code, done.output)
    lines = [line for line in done.stderr.splitlines() if not re.match(r"limner: (?:warning|.*: [\d,]+ s\b)", line)]
    assert len(lines) == 1 and lines[0].startswith("limner: error: "), done.stderr
    for part in parts:
        assert part in lines[0], lines[0]
