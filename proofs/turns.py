"""Pooling, bias and several turns in a world where every match is known, judged by an oracle of set noise.

Five systems of limner see `scenes` with different eyes: colours, shapes, both, both in few dimensions, both learned
from half the pictures. Three simulated people answer every pair, each wrong one time in ten; the majority counts.
Figure E.2 of Chun et al. (2022) is the model for the bias; several turns are the step that the paper leaves open: they
are given as many answers as a pool of the systems' first 1, 2, 3 or 5 places takes in one turn. Images are drawn anew
(bootstrap) for the interval of what several turns gain. For the smallest and the largest budget the systems are also
trained again before each of four turns, with the pairs that were accepted so far, and compared with as many answers
without that. Weights are then fitted to the scores from before the training; what happens otherwise is shown too.

`--plot FILE` draws recall, bias and turns.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import limner
from claims import Claim, log, main
from limner.annotate.bias import Bias, biases, by_size, diversity
from limner.annotate.further_rounds import STRATEGIES, Candidates, candidates, in_turns, probabilities, trained_again
from limner.annotate.pool import merged, proposed
from limner.annotate.store.contents import Key, Proposal
from limner.core.collection import Collection
from limner.core.ids import Ids
from limner.core.judgements import Judgements
from limner.scores import Scores
from limner.stats import Interval
from limner.stats.bootstrap import Part, bootstrap_sum
from limner.systems.histograms import train

NOISE, PEOPLE, TOP = 0.1, 3, 5
TURNS = (2, 4, 8)
DEPTHS = (1, 2, 3, 5)
SEEDS = (1, 2, 3)
"""Of people's errors and the order of the first turn, for systems that are trained again; 0 served to find the way."""
RETRAINED = "4 turns, sure, systems trained again"
ALONE = "without similarity to accepted pairs"


@dataclass(frozen=True)
class Oracle:
    """People who know the truth but err; a pair gets the same answer whenever it is asked, and after whatever others.

    Args:
        truth: All matches.
        noise: How often one of them errs.
        people: How many answer; the majority counts.
        seed: Of the errors.
    """

    truth: frozenset[Key]
    noise: float = NOISE
    people: int = PEOPLE
    seed: int = 0

    def __call__(self, pairs: Sequence[Key]) -> dict[Key, bool]:
        """Yes or no for each pair."""
        return {pair: (pair in self.truth) != self._wrong(pair) for pair in pairs}

    def _wrong(self, pair: Key) -> bool:
        """Whether the majority errs; a hash of the pair stands for the draws, so that the order of pairs has no say."""
        draws = hashlib.blake2b("\n".join((str(self.seed), *pair)).encode(), digest_size=8 * self.people).digest()
        errs = (int.from_bytes(draws[at : at + 8], "big") < self.noise * 2**64 for at in range(0, len(draws), 8))
        return sum(errs) * 2 > self.people


def systems(train_part: Collection, half: Collection, test: Collection) -> dict[str, Scores]:
    """Five systems, four trained on all training images and one on half of them, scored on the test split."""
    scores_by_name = {
        "colours": train(train_part, descriptions=("colours",)),
        "shapes": train(train_part, descriptions=("shapes",)),
        "both": train(train_part),
        "few dimensions": train(train_part, dimensions=6),
        "half the pictures": train(half, ridge=1.0),
    }
    log(f"trained {len(scores_by_name)} systems on {len(train_part.images):,} images")
    return {name: model.scores(test) for name, model in scores_by_name.items()}


def halves(world: Collection) -> tuple[Collection, Collection]:
    """The training split, and every second image of it."""
    return world.train, world.train.restrict(world.train.images.ids[::2])


Learn = Callable[[Mapping[Key, bool]], Candidates]


def learning(world: Collection, test: Collection) -> Learn:
    """The candidates of the systems after they have learned what was accepted."""

    def learned(answers: Mapping[Key, bool]) -> Candidates:
        first_half, half = (trained_again(test, answers, train=part) for part in halves(world))
        return candidates(systems(first_half, half, test))

    return learned


# --- pooling recall and bias ------------------------------------------------------------------------------------


def recall_by_size(pool: Sequence[Proposal], names: Sequence[str], truth: frozenset[Key]) -> dict[int, float]:
    """The share of all matches in the pool of k systems, mean over all choices of k."""
    found_by_system = {name: {(p.image, p.caption) for p in pool if p.system == name} & truth for name in names}
    sizes = range(1, len(names) + 1)
    return {
        k: float(
            np.mean([len(set().union(*(found_by_system[n] for n in chosen))) for chosen in combinations(names, k)])
        )
        / len(truth)
        for k in sizes
    }


def judged_pool(pool: Sequence[Proposal], test: Collection, oracle: Oracle) -> Judgements:
    """The oracle's answers to every pooled pair."""
    answers = oracle(list(merged(pool, depth=TOP)))
    rows = [(*pair, float(yes)) for pair, yes in answers.items()]
    return Judgements.from_pairs(rows, queries=test.images.ids, candidates=test.texts.ids, name="pooled")


def bias_by_size(
    scores_by_name: Mapping[str, Scores], judged: Judgements, pool: Sequence[Proposal]
) -> dict[str, dict[int, Bias]]:
    """Figure E.2 for both measures, text to image."""
    lists = {name: scores.T.ranking() for name, scores in scores_by_name.items()}
    return {m: by_size(biases(lists, judged, pool, measure=m, direction="t2i")) for m in ("R@1", "R-Precision")}


# --- turns ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answers:
    """The image of every answer, and whether the answer has brought a match that is true."""

    images: list[str]
    right: np.ndarray

    @property
    def positives(self) -> int:
        """Matches that were found."""
        return int(self.right.sum())

    def more_than(self, baseline: Answers) -> Interval:
        """Matches per 100 answers more than another way of asking brings; images are drawn for both together."""
        return bootstrap_sum(
            [Part(self.right, self.images, scale=100), Part(baseline.right, baseline.images, scale=-100)]
        )


def gained(proposals: Candidates, truth: frozenset[Key]) -> dict[str, dict[int, Answers]]:
    """What each way of asking brings, by depth of the one-turn pool whose number of answers is the budget."""
    runs: dict[str, dict[str, Any]] = {f"{n} turns, sure": {"turns": n, "strategy": "sure"} for n in TURNS}
    runs |= {f"4 turns, {s}": {"turns": 4, "strategy": s} for s in STRATEGIES[1:]}
    done: dict[str, dict[int, Answers]] = {name: {} for name in ("one turn", *runs)}
    for depth in DEPTHS:
        budget = len(proposals.top(depth))
        done["one turn"][depth] = ask_turns(proposals, truth, budget=budget, turns=1, start_depth=depth)
        for name, options in runs.items():
            done[name][depth] = ask_turns(proposals, truth, budget=budget, **options)
        log(f"  {budget:,} answers: " + ", ".join(f"{n} {a[depth].right.mean():.4f}" for n, a in done.items()))
    return done


def ask_turns(proposals: Candidates, truth: frozenset[Key], *, seed: int = 0, **options: Any) -> Answers:
    """What one way of asking brings; a match counts if it is true and was called so."""
    answers, _ = in_turns(proposals, Oracle(truth, seed=seed), seed=seed, **options)
    return Answers([image for image, _ in answers], np.array([yes and pair in truth for pair, yes in answers.items()]))


# --- systems that are trained again -----------------------------------------------------------------------------


def joined(parts: Sequence[Answers]) -> Answers:
    """The answers of several seeds."""
    return Answers([image for part in parts for image in part.images], np.concatenate([p.right for p in parts]))


def retrained(
    proposals: Candidates, truth: frozenset[Key], learn_again: Learn, *, budget: int, seeds: Sequence[int]
) -> tuple[Answers, Answers]:
    """Four turns with systems that are trained again, and as many answers with the same systems."""
    ours, unchanged = [], []
    for seed in seeds:
        ours.append(ask_turns(proposals, truth, budget=budget, turns=4, retrain=learn_again, seed=seed))
        unchanged.append(ask_turns(proposals, truth, budget=len(ours[-1].right), turns=4, seed=seed))
        log(
            f"  seed {seed}: {ours[-1].positives:,} and {unchanged[-1].positives:,} matches in {len(ours[-1].right):,} "
            f"and {len(unchanged[-1].right):,} of {budget:,} answers"
        )
    return joined(ours), joined(unchanged)


def alone(proposals: Candidates) -> Candidates:
    """Candidates that do not know which images or captions are similar."""
    no_features = Ids([]), np.zeros((0, 0))
    return replace(proposals, profiles=(no_features, no_features))


def precision(values: np.ndarray, right: np.ndarray) -> float:
    """Average precision of a list that is sorted by values, the highest first."""
    hits = right[np.argsort(-values, kind="stable")]
    return float((np.cumsum(hits) / np.arange(1, len(hits) + 1))[hits].mean())


def open_pairs(
    proposals: Candidates, answers: Mapping[Key, bool], truth: frozenset[Key]
) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the pairs that nobody has judged, and whether each is a match."""
    rows = np.array([row for row, pair in enumerate(proposals.pairs) if pair not in answers])
    return rows, np.array([proposals.pairs[row] in truth for row in rows])


def cause_claims(proposals: Candidates, truth: frozenset[Key], learn_again: Learn) -> Iterator[Claim]:
    """After the first of four turns: what the systems learn, and what they then say of the open pairs."""
    size = len(proposals.top(DEPTHS[0])) // 4
    answers, _ = in_turns(proposals, Oracle(truth), budget=size, turns=1)
    learned = learn_again(answers)
    rows, right = open_pairs(learned, answers, truth)
    before, after = (
        np.mean([precision(each.said[at, n, 0], yes) for n in range(len(each.systems))])
        for each, (at, yes) in ((proposals, open_pairs(proposals, answers, truth)), (learned, (rows, right)))
    )
    claim = (
        f"after {len(answers):,} answers: average precision among open pairs, mean of the systems alone, trained again"
    )
    note = "over the same systems before; each has learned something about pairs that nobody has judged"
    yield Claim(f"{claim}, over before", float(after), float(before), "> 1.05", note, source="limner")
    n_right = int(right.sum())
    expected = "matches that the weighted systems, trained again, expect among open pairs, over those that are there"
    blinded = float(probabilities(learned, answers)[rows].sum())
    fair = float(probabilities(learned, answers, before=proposals)[rows].sum())
    note = "why turns ended early: systems give pairs that they were trained on higher scores than new matches"
    yield Claim(f"{expected}, weights fitted to the new scores", blinded, n_right, "< 0.5", note, source="limner")
    yield Claim(f"{expected}, to the scores from before", fair, n_right, ">= 0.8", source="limner")


def retrained_claims(
    proposals: Candidates, truth: frozenset[Key], learn_again: Learn, *, quick: bool
) -> Iterator[Claim]:
    """Matches per 100 answers against the same systems, with all features and without similarity."""
    ways = [("", depth, proposals, learn_again) for depth in (DEPTHS[0], DEPTHS[-1])]
    ways += [(f", {ALONE}", DEPTHS[0], alone(proposals), lambda known: alone(learn_again(known)))]
    for words, depth, first, learn in ways:
        budget = len(proposals.top(depth))
        ours, unchanged = retrained(first, truth, learn, budget=budget, seeds=SEEDS[:1] if quick else SEEDS)
        gain = ours.more_than(unchanged)
        claim = f"{RETRAINED}{words}, {budget:,} answers: matches per 100 more than with the same systems"
        note = (
            f"{gain.estimate:+.1f} [{gain.low:+.1f}, {gain.high:+.1f}], {ours.positives:,} and {unchanged.positives:,} "
        )
        note += f"matches in {len(ours.right):,} and {len(unchanged.right):,} answers, seeds together"
        yield Claim(f"{claim}: lower end of the 95% interval", gain.low, goal="> 0", note=note)


# --- claims -----------------------------------------------------------------------------------------------------


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Recall, bias, turns."""
    world = limner.load("scenes", images=300 if options.quick else 1000)
    test = world.test
    truth = frozenset((i, t) for i, t, _ in test.extra["complete"].relevant)
    scores_by_name = systems(*halves(world), test)
    pool = proposed(scores_by_name, depth=TOP)
    pairs = merged(pool, depth=TOP)
    log(f"{len(test.images)} images, {len(test.texts)} texts, {len(truth):,} matches; {len(pairs):,} pairs pooled")
    for (a, b), (tau, rank) in diversity({n: s.T.top(25) for n, s in scores_by_name.items()}).items():
        log(f"  {a} | {b}: tau-b {tau:.3f}, mean rank {rank:.2f}") if a < b else None
    recall = recall_by_size(pool, list(scores_by_name), truth)
    yield from recall_claims(recall)
    judged = judged_pool(pool, test, Oracle(truth))
    biases = bias_by_size(scores_by_name, judged, pool)
    yield from bias_claims(biases)
    first, learn_again = candidates(scores_by_name), learning(world, test)
    done = gained(first, truth)
    yield from turn_claims(done)
    yield from cause_claims(first, truth, learn_again)
    yield from retrained_claims(first, truth, learn_again, quick=options.quick)
    if options.plot is not None:
        draw(options.plot, recall, biases, done, len(truth))


def recall_claims(recall: Mapping[int, float]) -> Iterator[Claim]:
    log("recall by systems: " + ", ".join(f"{k}: {share:.3f}" for k, share in recall.items()))
    rises = sum(recall[k + 1] > recall[k] for k in range(1, len(recall)))
    yield Claim("pooling recall rises with each further system, steps of 4", rises, None, "== 4")
    shares = f"{100 * recall[1]:.1f} percent of the matches are in the pool of one system"
    yield Claim(
        "matches in the pool of five, over that of one",
        recall[len(recall)],
        recall[1],
        "> 1.2",
        shares,
        source="limner",
    )


def bias_claims(biases: Mapping[str, Mapping[int, Bias]]) -> Iterator[Claim]:
    for measure, sizes in biases.items():
        log(
            f"bias by {measure}: "
            + ", ".join(f"{k}: {b.overall:.2f} ({b.own:.2f}/{b.others:.2f})" for k, b in sizes.items())
        )
        falls = sum(sizes[k + 1].overall < sizes[k].overall for k in range(1, len(sizes)))
        yield Claim(f"bias by {measure} falls with each further system, steps of 3", falls, None, "== 3")
        yield Claim(
            f"bias by {measure}, four systems over one", sizes[4].overall, sizes[1].overall, "< 0.5", source="limner"
        )
    small = sum(b.own < b.others for b in biases["R@1"].values())
    yield Claim("sizes at which the self-bias by R@1 is below the non-self-bias, of 4", small, None, "== 4")


def turn_claims(done: Mapping[str, Mapping[int, Answers]]) -> Iterator[Claim]:
    """Matches per 100 answers against one turn with as many answers."""
    for depth in DEPTHS:
        one = done["one turn"][depth]
        budget = f"{len(one.right):,} answers (one turn: first {depth})"
        for name in ("2 turns, sure", "4 turns, sure", "8 turns, sure"):
            gain = done[name][depth].more_than(one)
            claim = f"{budget}: {name}, matches per 100 answers more than in one turn"
            note = f"{gain.estimate:+.1f} [{gain.low:+.1f}, {gain.high:+.1f}]; one turn {100 * one.right.mean():.1f}; "
            note += f"{len(done[name][depth].right):,} were asked"
            yield Claim(f"{claim}: lower end of the 95% interval", gain.low, goal="> 0", note=note)
    for name in (f"4 turns, {s}" for s in STRATEGIES[1:]):
        ours, best = (sum(t.positives for t in done[each].values()) for each in (name, "4 turns, sure"))
        note = "of all four budgets; what tells most about the systems is not what finds most"
        yield Claim(f"{name}: matches, against 4 turns, sure", ours, best, "<= 1.02", note, source="limner")


# --- picture ----------------------------------------------------------------------------------------------------


def draw(
    file: Path,
    recall: Mapping[int, float],
    biases: Mapping[str, Mapping[int, Bias]],
    done: Mapping[str, Mapping[int, Answers]],
    matches: int,
) -> None:
    """Recall by systems, bias by systems, matches by answers."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "limner"  # the same picture, the same file
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    axes[0].plot(list(recall), [100 * v for v in recall.values()], "o-")
    axes[0].set(xlabel="systems", ylabel="matches in the pool, %", title="pooling recall", ylim=(0, None))
    for part, words in (("overall", "all"), ("own", "self"), ("others", "non-self")):
        sizes = biases["R@1"]
        axes[1].plot(list(sizes), [getattr(b, part) for b in sizes.values()], "o-", label=words)
    axes[1].set(xlabel="systems that pooled", ylabel="bias, points of R@1", title="bias", ylim=(0, None))
    for name in ("one turn", "2 turns, sure", "8 turns, sure", "4 turns, unsure"):
        turns = done[name].values()
        axes[2].plot([len(t.right) for t in turns], [100 * t.positives / matches for t in turns], "o-", label=name)
    axes[2].set(xlabel="answers", ylabel="matches found, %", title="several turns", xlim=(0, None), ylim=(0, None))
    for axis in axes[:2]:
        axis.xaxis.get_major_locator().set_params(integer=True)
    axes[2].locator_params(axis="x", nbins=4)
    for axis in axes[1:]:
        axis.legend()
    for axis in axes:
        axis.grid(alpha=0.3)
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
    log(f"drew {file}")


def configure(parser: argparse.ArgumentParser) -> None:
    """The one option of this script."""
    parser.add_argument("--plot", type=Path, help="draw recall, bias and turns into this file")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
