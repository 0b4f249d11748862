"""Writes sampling_peers.json: what ppi-python and confseq say of small samples. Run by hand where both can be imported.

`pip install --no-deps ppi-python==0.2.3` needs statsmodels and numba only for what is used here. confseq 0.0.11 comes
as source in C++ and needs Boost; its `betting.py` is plain Python: put `src` of the archive on the path (NumPy 2: set
`numpy.float_ = numpy.float64` first).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np


def main() -> None:
    """Draws, asks both, writes."""
    from ppi_py import ppi_mean_ci, ppi_mean_pointestimate

    random = np.random.default_rng(7)
    f = random.normal(size=80)
    y, unlabelled = f + 0.5 * random.normal(size=80), random.normal(size=100_000)
    low, high = ppi_mean_ci(y, f, unlabelled, alpha=0.05, lam=1.0)
    estimate = float(np.ravel(ppi_mean_pointestimate(y, f, unlabelled, lam=1.0))[0])
    thin = unlabelled[:2000] + (unlabelled.mean() - unlabelled[:2000].mean())  # the same mean in fewer numbers
    answers = {
        "ppi": {"y": y.tolist(), "f": f.tolist(), "unlabelled": thin.tolist(), "estimate": estimate,
                "low": float(np.ravel(low)[0]), "high": float(np.ravel(high)[0])},
    }  # fmt: skip
    from confseq.betting import betting_cs

    x = (random.random(300) < 0.3).astype(float)
    lower, upper = betting_cs(x, alpha=0.05, breaks=1000, parallel=False, running_intersection=True)
    answers["confseq"] = {"x": x.tolist(), "low": float(lower[-1]), "high": float(upper[-1])}
    y = 0.6 * f + 0.8 * random.normal(size=80)
    tuned = float(np.ravel(ppi_mean_pointestimate(y, f, thin, lam=None))[0])
    answers["tuned"] = {"y": y.tolist(), "estimate": tuned, "lambda": (tuned - y.mean()) / (thin.mean() - f.mean())}
    Path(__file__).with_name("sampling_peers.json").write_text(json.dumps(answers) + "\n")


if __name__ == "__main__":
    sys.exit(main())
