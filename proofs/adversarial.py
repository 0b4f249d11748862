"""Adversarial queries on Flickr8k: what changes when a query denies what it said, beside the paper's shares on VG-COCO.

Text-only retrieval with all-MiniLM-L6-v2 (caption #0 asks, the four others joined are the corpus), as in
`text_only.py`. The paper's numbers are for another data set and model (paraphrase-MiniLM-L3 on VG-COCO), so they stand
beside ours for orientation and are no goal; the goal is its finding, that the truth falls more often than it rises: the
lower end of the 95% interval (bootstrap over the changed queries) of the difference has to be above 0.

Needs what `text_only.py` needs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from text_only import captions, configure, minilm

from claims import Claim, main
from limner.explain.adversarial import DENIES, attack_all
from limner.explain.blind_baselines import Attack, blind_baseline, rerank, table
from limner.papers.text_only import parted
from limner.stats import Interval, bootstrap

PAPER = {
    "antonym-wordnet": (41.30, 27.73, 30.97),
    "colour-all": (48.29, 24.04, 27.68),
    "colour-in": (49.73, 22.35, 27.92),
    "size": (37.26, 28.28, 34.46),
}
"""Percent ranked lower, higher, the same (Table 4). The paper's antonyms are WordNet's; `antonym` has a fixed list."""
CHANGED = {"antonym-wordnet": 30.93, "colour-all": 47.04, "colour-in": 47.04, "size": 30.77}
"""Percent of the paper's queries that each kind changes (section 6.4)."""
KINDS = (
    "antonym", "antonym-wordnet", "colour-all", "colour-in", "size", "number", "verb", "plural", "word-order",
    "relation", "synonym",
)  # fmt: skip
"""All kinds but negation."""
UNCHECKED = {
    "antonym": 4.38, "colour-all": 9.66, "colour-in": 10.74, "size": 3.88, "number": 11.56, "verb": 13.64,
    "plural": 6.27, "synonym": 9.77,
}  # fmt: skip
"""R@1 lost by 100 changed queries, in points, with edits whose English was not checked (commit 870c94e29b)."""


def attacks(options: argparse.Namespace) -> tuple[list[Attack], dict[str, float]]:
    """Every kind of change on every query, and how well a reader without any corpus tells the changed ones."""
    collection, encode = captions(options), minilm(options.cache)
    query_ids, other_ids = parted(collection, 0)
    caption_of = dict(zip(collection.texts.ids, collection.texts.values, strict=True))
    queries, candidates = [caption_of[t] for t in query_ids], [[caption_of[t] for t in each] for each in other_ids]
    corpus = _unit(encode([" ".join(each) for each in candidates]))

    def ask(texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return _unit(encode(texts)) @ corpus.T

    before, truth = ask(queries), np.arange(len(queries))
    attacked = [rerank(kind, edits, before, truth, ask) for kind, edits in attack_all(queries, KINDS)]
    candidate_texts = [text for each in candidates for text in each]
    return attacked, {each.kind: blind_baseline(each.edits, candidate_texts) for each in attacked}


def fallen(attack: Attack) -> Interval:
    """How much more often the truth falls than it rises, in points, over the changed queries."""
    return bootstrap(100 * np.sign(attack.after - attack.before))


def lost(attack: Attack) -> float:
    """R@1 lost by the changed queries, in points."""
    return 100 * float(np.mean(attack.before == 1) - np.mean(attack.after == 1))


def _unit(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """The table, then the claims."""
    attacked, blind = attacks(options)
    print(table(attacked, blind), flush=True)
    for each in attacked:
        ours = {name: 100 * share for name, share in each.shares.items()}
        first = each.metrics()["R@1"]
        note = f"{len(each.edits):,} of {each.queries:,} queries changed; lower {ours['lower']:.2f}, higher "
        note += f"{ours['higher']:.2f}, same {ours['same']:.2f} percent"
        if each.kind in PAPER:
            note += " (paper, VG-COCO: {:.2f}, {:.2f}, {:.2f}".format(*PAPER[each.kind])
            note += f"; {CHANGED[each.kind]:.1f}% of its queries changed, here {len(each.edits) / each.queries:.1%})"
        note += f"; R@1 {first[0]:.2f} -> {first[1]:.2f}, {lost(each):.2f} points of the changed queries"
        if each.kind in UNCHECKED:
            note += f" ({UNCHECKED[each.kind]:.2f} with edits whose English was not checked)"
        note += f"; told blind {blind[each.kind]:.1%}"
        if each.kind in DENIES:
            note += f"; blindness {each.blindness:.1%}"
        change = fallen(each)
        note = f"{change.estimate:+.1f} [{change.low:+.1f}, {change.high:+.1f}]; {note}"
        claim = f"{each.kind}: share lower minus share higher, points"
        yield Claim(f"{claim}: lower end of the 95% interval", change.low, goal="> 0", note=note)


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
