"""Writes crowd_kit.json: what crowd-kit's Dawid-Skene says of a small crowd. Run by hand where crowd-kit is installed.

`pip install --no-deps crowd-kit==1.4.2` (and attrs, pandas) is enough: only the one module is loaded, since the whole
package asks for half a gigabyte of others.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import types
from pathlib import Path

import numpy as np

ROUNDS = 12


def answers() -> list[tuple[int, int, int]]:
    """(rater, item, class) of five people of whom two answer at random."""
    draw = np.random.default_rng(9)
    truth = draw.integers(0, 4, 15)
    rows = []
    for rater in range(5):
        for item in range(15):
            careful = rater < 3 and draw.random() < 0.85
            rows.append((rater, item, int(truth[item] if careful else draw.integers(0, 4))))
    return rows


def without_the_rest() -> None:
    """Lets `crowdkit.aggregation.classification.dawid_skene` be imported without its siblings."""
    spec = importlib.util.find_spec("crowdkit")
    root = Path(spec.submodule_search_locations[0])
    for name in ("crowdkit", "crowdkit.aggregation", "crowdkit.aggregation.classification"):
        module = types.ModuleType(name)
        module.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = module


if __name__ == "__main__":
    import pandas as pd

    without_the_rest()
    from crowdkit.aggregation.classification.dawid_skene import DawidSkene

    frame = pd.DataFrame(answers(), columns=["worker", "task", "label"])
    model = DawidSkene(n_iter=ROUNDS, tol=-1).fit(frame)
    reference = {
        "answers": answers(),
        "rounds": ROUNDS,
        "probabilities": model.probas_.sort_index()[[0, 1, 2, 3]].to_numpy().tolist(),
    }
    Path(__file__).with_name("crowd_kit.json").write_text(json.dumps(reference) + "\n")
