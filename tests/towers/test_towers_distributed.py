"""Two processes train as one: launched by torchrun, on the processor, with gloo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tower_toys import OPTIONS, world

import limner
from limner.core.errors import LimnerError

torch = pytest.importorskip("torch", reason="training needs torch")
torch.set_num_threads(1)

from limner.systems.towers.distributed import Group  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
RUN = {**OPTIONS, "epochs": 2, "tensorboard": False}
SCRIPT = """
import json, os, sys
import torch
torch.set_num_threads(1)
import limner
from tower_toys import world

whole, features = world()
out, options = sys.argv[1], json.loads(sys.argv[2])
for variant in ("towers", "pvse"):
    model = limner.train(whole, variant, features=features, checkpoint_dir=f"{out}/{variant}-run", **options)
    if os.environ["RANK"] == "0":
        model.save(f"{out}/{variant}")
torch.distributed.destroy_process_group()
"""


@pytest.fixture(scope="module")
def launched(tmp_path_factory):
    if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
        pytest.skip("this torch has no gloo")
    folder = tmp_path_factory.mktemp("two")
    (folder / "script.py").write_text(SCRIPT)
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests" / "towers")])
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "script.py"]
    done = subprocess.run(
        [*command, str(folder), json.dumps(RUN)], cwd=folder, capture_output=True, text=True, timeout=300,
        env=os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.parametrize("variant", ["towers", "pvse"])
def test_two_processes_learn_what_one_learns(launched, variant):
    collection, features = world()
    alone = limner.train(collection, variant, features=features, **RUN)
    together = limner.systems.load(launched / variant)
    expected = alone.scores(collection.dev).matrix()
    assert np.abs(together.scores(collection.dev, features=features).matrix() - expected).max() < 1e-4
    losses = [[row["loss"] for row in model.trained["history"]] for model in (alone, together)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert (launched / f"{variant}-run" / "log.csv").is_file()
    assert (launched / f"{variant}-run" / "checkpoint.safetensors").is_file()


def test_a_run_of_two_is_not_resumed_by_one(launched):
    collection, features = world()
    with pytest.raises(LimnerError, match="was made with processes=2, this run has 1"):
        limner.train(collection, "towers", features=features, checkpoint_dir=str(launched / "towers-run"), **RUN)


def test_a_batch_that_cannot_be_shared_is_refused():
    with pytest.raises(LimnerError, match="a batch of 5 pairs cannot be split evenly between 2 processes"):
        Group(0, 2).share(5)
