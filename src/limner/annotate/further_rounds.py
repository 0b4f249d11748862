"""Annotation in rounds: learn from the answers which systems to trust, propose new pairs, and ask only useful ones.

This is future work in Chun et al. (2022). After each round the systems are weighted by logistic regression on
the pairs judged so far, with people's yes and no as the target. Its features are the systems' scores and ranks, and
whether the caption is similar to one that people accepted for the image, or the image to one they accepted for the
caption; similar means that the systems give them similar scores. The weighted systems then propose pairs beyond the
first pool; pairs that clearly do not match are not asked. The strategy decides which pairs are asked first:

- "sure": the most likely matches.
- "unsure": pairs with a probability closest to 0.5.
- "disagree": pairs for which the systems' own probabilities differ most.
- "mixed": most likely and most uncertain, alternating.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, zip_longest

import numpy as np

from limner.annotate.pool import Lists, lists_of
from limner.annotate.store.contents import Key
from limner.core.arrays import FloatArray, IntArray
from limner.core.collection import Collection, Items
from limner.core.errors import LimnerError, UnknownName
from limner.core.ids import Ids
from limner.core.judgements import Judgements
from limner.core.progress import ProgressLike, counting
from limner.scores import Scores

STRATEGIES = ("sure", "unsure", "disagree", "mixed")
DEPTH = 50
"""Ranks of every list that may be asked in a later round."""
FLOOR = 0.05
"""Pairs with a smaller probability of a match are not asked."""
_STEPS = 2.0**30
"""Steps between 0 and 1 on which probabilities are compared."""
Ask = Callable[[Sequence[Key]], Mapping[Key, bool]]


@dataclass(frozen=True, eq=False)
class Candidates:
    """All candidate pairs, with the scores of every system.

    Args:
        pairs: (image, caption).
        systems: Names, in the order of `said`.
        said: (pairs, systems, 3): score standardised within the system's lists, and the reciprocal ranks in the image's
            and the caption's list, 0 if the list does not contain the pair.
        profiles: Profiles of images and of captions: their ids, and one normalised row each with the scores of all
            systems against all items of the other modality. No columns if a system provides only lists.
    """

    pairs: tuple[Key, ...]
    systems: tuple[str, ...]
    said: FloatArray
    profiles: tuple[tuple[Ids, FloatArray], tuple[Ids, FloatArray]]

    def features(self, answers: Mapping[Key, bool]) -> FloatArray:
        """One row per pair: the systems' scores and ranks, and its similarity to accepted pairs."""
        plain = self.said.reshape(len(self.pairs), -1)
        accepted = [pair for pair, yes in answers.items() if yes]
        return np.column_stack([plain, *self._alike(accepted, 0), *self._alike(accepted, 1)])

    @cached_property
    def _rows(self) -> tuple[dict[str, IntArray], dict[str, IntArray]]:
        """The rows of each image, and of each caption."""
        rows_by_side: tuple[dict[str, list[int]], dict[str, list[int]]] = {}, {}
        for row, pair in enumerate(self.pairs):
            for side in (0, 1):
                rows_by_side[side].setdefault(pair[side], []).append(row)
        by_image, back = ({key: np.array(rows) for key, rows in each.items()} for each in rows_by_side)
        return by_image, back

    def _alike(self, accepted: Sequence[Key], side: int) -> tuple[FloatArray, FloatArray]:
        """Each pair's best similarity to an accepted pair of the same image (0) or caption (1), and whether one exists.

        A pair is never compared with itself, so that asked and unasked pairs are treated in the same way.
        """
        ids, profiles = self.profiles[1 - side]
        best, some = np.zeros(len(self.pairs)), np.zeros(len(self.pairs))
        friends: dict[str, list[str]] = {}
        for pair in accepted:
            friends.setdefault(pair[side], []).append(pair[1 - side])
        for key, accepted_ids in friends.items() if profiles.shape[1] else ():
            rows = self._rows[side].get(key, np.empty(0, dtype=np.int64))
            own_rows, theirs = ids.positions([self.pairs[r][1 - side] for r in rows]), ids.positions(accepted_ids)
            likeness = np.where(own_rows[:, None] == theirs, -np.inf, profiles[own_rows] @ profiles[theirs].T).max(
                axis=1
            )
            comparable = np.isfinite(likeness)
            best[rows[comparable]], some[rows[comparable]] = likeness[comparable], 1.0
        return best, some

    def top(self, depth: int) -> list[int]:
        """Rows of the pairs in the top `depth` of some system: the pool of one round."""
        rows: list[int] = np.flatnonzero((self.said[:, :, 1:] >= 1 / depth - 1e-12).any(axis=(1, 2))).tolist()
        return rows


def _profiles(systems: Mapping[str, Lists]) -> tuple[tuple[Ids, FloatArray], tuple[Ids, FloatArray]]:
    scores = [system for system in systems.values() if isinstance(system, Scores)]
    if len(scores) < len(systems):
        return (Ids([]), np.zeros((0, 0))), (Ids([]), np.zeros((0, 0)))
    tables = [np.asarray(each.matrix(), dtype=np.float64) for each in scores]
    query_profiles, back = (
        _unit(np.concatenate([_unit(part - part.mean(axis=0)) for part in side], axis=1))
        for side in (tables, [table.T for table in tables])
    )
    return (scores[0].queries, query_profiles), (scores[0].candidates, back)


def _unit(rows: FloatArray) -> FloatArray:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    scaled: FloatArray = np.divide(rows, length, out=np.zeros_like(rows), where=length > 0)
    return scaled


def candidates(systems: Mapping[str, Lists], *, depth: int = DEPTH, progress: ProgressLike = None) -> Candidates:
    """Collects the pairs in the top `depth` of some system, in either direction, with scores and ranks.

    Args:
        systems: Systems by name.
        depth: Ranks of each list that are collected.
        progress: Called with (systems done, systems in total).
    """
    if not systems:
        raise LimnerError("no system: expected at least one to propose pairs")
    rows: dict[Key, int] = {}
    entries: list[tuple[int, int, int, float]] = []
    for number, system in enumerate(counting(list(systems.values()), progress)):
        for direction, ranking in lists_of(system, depth=depth).items():
            if ranking.scores is None:
                raise LimnerError("a ranking without scores cannot be weighted: expected scores")
            for row, query in enumerate(ranking.queries):
                for place, column in enumerate(ranking.indices[row].tolist()):
                    if column >= 0:
                        candidate = ranking.candidates[column]
                        pair = (query, candidate) if direction == "i2t" else (candidate, query)
                        at = rows.setdefault(pair, len(rows))
                        entries.append((at, number, 1 if direction == "i2t" else 2, 1 / (place + 1)))
                        entries.append((at, number, 0, float(ranking.scores[row, place])))
    table = np.full((len(rows), len(systems), 3), np.nan)
    for at, number, field, value in entries:
        table[at, number, field] = value
    return Candidates(tuple(rows), tuple(systems), _filled(table), _profiles(systems))


def _filled(table: FloatArray) -> FloatArray:
    """Standardised scores; a pair outside a system's lists gets the system's lowest score and no rank."""
    table = table.copy()
    table[:, :, 1:] = np.nan_to_num(table[:, :, 1:])
    for number in range(table.shape[1]):
        column = table[:, number, 0]
        finite = np.isfinite(column)
        spread = float(column[finite].std()) or 1.0
        column = np.where(finite, column, column[finite].min())
        table[:, number, 0] = (column - float(column[finite].mean())) / spread
    return table


def probabilities(
    candidates: Candidates, answers: Mapping[Key, bool], *, before: Candidates | None = None
) -> FloatArray:
    """The probability of a match for every candidate, from the answers to some of them.

    Uses logistic regression on `Candidates.features` with yes and no as the target. If all answers are the same, the
    probability is the share of yes.

    Args:
        candidates: All candidates.
        answers: The answers so far.
        before: If the systems were trained on the answers (`trained_again`): the candidates of the same systems before
            that. The weights are then fitted to these, and similarity is that of these systems. A system gives pairs
            that it was trained on higher scores than new matches: by its new scores all others would look unlikely.
    """
    if before is None:
        features = candidates.features(answers)
        return _fit(features, features, _answers_by_row(candidates, answers))
    _check_same_systems(candidates, before)
    features = replace(candidates, profiles=before.profiles).features(answers)
    return _fit(features, before.features(answers), _answers_by_row(before, answers))


def own_probabilities(
    candidates: Candidates, answers: Mapping[Key, bool], *, before: Candidates | None = None
) -> FloatArray:
    """The same from each system alone, (pairs, systems): where they differ, the systems disagree."""
    reference = candidates if before is None else before
    _check_same_systems(candidates, reference)
    row_answers = _answers_by_row(reference, answers)
    columns = range(len(candidates.systems))
    return np.column_stack([_fit(candidates.said[:, n], reference.said[:, n], row_answers) for n in columns])


def _check_same_systems(candidates: Candidates, before: Candidates) -> None:
    if before.systems != candidates.systems:
        names = ", ".join(before.systems), ", ".join(candidates.systems)
        raise LimnerError(f"the systems before training are {names[0]}: expected the same as now, {names[1]}")


def _answers_by_row(candidates: Candidates, answers: Mapping[Key, bool]) -> dict[int, bool]:
    row = {pair: number for number, pair in enumerate(candidates.pairs)}
    return {row[pair]: bool(value) for pair, value in answers.items() if pair in row}


def _fit(features: FloatArray, train_features: FloatArray, answers: Mapping[int, bool]) -> FloatArray:
    """Probabilities from features, by weights that are fitted to the answered rows of `train_features`."""
    from sklearn.linear_model import LogisticRegression

    rows, values = list(answers), list(answers.values())
    if len(set(values)) < 2:
        share = (sum(values) + 1) / (len(values) + 2)
        return np.full(len(features), share)
    # Newton's method to the end: the optimum does not depend on the CPU, a stop on the way to it does.
    model = LogisticRegression(solver="newton-cholesky", tol=1e-10, max_iter=100).fit(train_features[rows], values)
    return _on_grid(model.predict_proba(features)[:, 1])


def _on_grid(values: FloatArray) -> FloatArray:
    """Rounds off the last digits, which differ between CPUs and would decide between equal pairs."""
    return np.rint(values * _STEPS) / _STEPS


def choose(
    candidates: Candidates,
    answers: Mapping[Key, bool],
    number: int,
    *,
    strategy: str = "sure",
    floor: float = FLOOR,
    before: Candidates | None = None,
) -> list[Key]:
    """The next pairs to ask, most useful first; never a known pair or a clear mismatch.

    Args:
        candidates: All candidates.
        answers: The answers so far; at least one.
        number: Maximum number of pairs to choose.
        strategy: "sure", "unsure", "disagree" or "mixed".
        floor: Minimum probability of a match.
        before: The candidates of the systems before they were trained on the answers; see `probabilities`.
    """
    if strategy not in STRATEGIES:
        raise UnknownName("strategy", strategy, STRATEGIES)
    if not answers:
        raise LimnerError("no answers yet: start with 'limner annotate pool'")
    chance = probabilities(candidates, answers, before=before)
    open_rows = [r for r, pair in enumerate(candidates.pairs) if pair not in answers and chance[r] >= floor]
    orders = {"sure": -chance, "unsure": np.abs(chance - 0.5)}
    if strategy == "disagree":
        orders["disagree"] = -_on_grid(own_probabilities(candidates, answers, before=before).std(axis=1))
    names = ("sure", "unsure") if strategy == "mixed" else (strategy,)
    ranked = [sorted(open_rows, key=lambda r, values=orders[name]: (values[r], r)) for name in names]  # type: ignore[misc]
    mixed = dict.fromkeys(r for r in chain.from_iterable(zip_longest(*ranked)) if r is not None)
    return [candidates.pairs[r] for r in list(mixed)[:number]]


@dataclass(frozen=True)
class Turn:
    """The state after one round: answers and positives so far."""

    turn: int
    answers: int
    positives: int

    @property
    def per_answer(self) -> float:
        """Positives gained per answer."""
        return self.positives / self.answers if self.answers else float("nan")


def in_turns(
    candidates: Candidates,
    ask: Ask,
    *,
    budget: int,
    turns: int = 4,
    strategy: str = "sure",
    first: int | None = None,
    start_depth: int = 1,
    seed: int = 0,
    retrain: Callable[[Mapping[Key, bool]], Candidates] | None = None,
) -> tuple[dict[Key, bool], list[Turn]]:
    """Runs several annotation rounds; returns all answers and the gain of each round.

    Args:
        candidates: All candidates.
        ask: A function from pairs to yes or no for each: people, or an oracle in a simulation.
        budget: Total number of answers.
        turns: Number of rounds; with 1, the pool is asked in random order.
        strategy: Strategy of the later rounds, see `choose`.
        first: Number of answers in the first round; an equal share by default.
        start_depth: The first round asks pairs in the top `start_depth` of any system's list.
        seed: Seed of the order within the first round.
        retrain: Called with all answers before each later round; returns the candidates of retrained systems
            (`trained_again`). Weights are fitted to the scores that pairs had when they were chosen, before the systems
            learned the answers (see `probabilities`). Without it the systems stay fixed, and only their weights are
            learned.
    """
    before = None if retrain is None else candidates
    draw = np.random.default_rng(seed)
    size = (first or budget // turns) if turns > 1 else budget
    pool = draw.permutation(candidates.top(start_depth)).tolist()
    answers: dict[Key, bool] = dict(ask([candidates.pairs[r] for r in pool[:size]]))
    record = [Turn(1, len(answers), sum(answers.values()))]
    for turn in range(2, turns + 1):
        candidates = candidates if retrain is None else retrain(answers)
        share = (budget - len(answers)) // (turns - turn + 1)
        chosen = choose(candidates, answers, share, strategy=strategy, before=before)
        before = None if before is None else _as_chosen(before, candidates, chosen)
        answers.update(ask(chosen))
        record.append(Turn(turn, len(answers), sum(answers.values())))
    return answers, record


def _as_chosen(before: Candidates, candidates: Candidates, chosen: Sequence[Key]) -> Candidates:
    """Earlier candidates, with the scores that the chosen pairs had when they were chosen."""
    row, current = ({pair: number for number, pair in enumerate(each.pairs)} for each in (before, candidates))
    existing = [pair for pair in chosen if pair in row]
    new = [pair for pair in chosen if pair not in row]
    features = before.said.copy()
    features[[row[pair] for pair in existing]] = candidates.said[[current[pair] for pair in existing]]
    added = candidates.said[[current[pair] for pair in new]]
    return replace(before, pairs=(*before.pairs, *new), said=np.concatenate([features, added]))


def trained_again(
    collection: Collection, answers: Mapping[Key, bool], *, train: Collection | None = None
) -> Collection:
    """The training data of systems in a later round: the training pairs, and every pair that people accepted.

    Rejected pairs are left out, even if they are original pairs. Use the scores of such a system only to find more
    matches among these images, never to report its quality on them.

    Args:
        collection: The collection that is judged.
        answers: Human answers to its pairs.
        train: The training split; without it, only accepted pairs are used.
    """
    yes = [(image, caption, 1.0) for (image, caption), match in answers.items() if match]
    if not yes:
        raise LimnerError("no accepted pair yet: there is nothing to train on")
    images = list(dict.fromkeys(image for image, _, _ in yes))
    texts = list(dict.fromkeys(caption for _, caption, _ in yes))
    image_items, text_items = collection.images.subset(images), collection.texts.subset(texts)
    pairs = list(yes)
    if train is not None:
        pairs = [*train.judgements.relevant, *yes]
        image_items, text_items = _joined(train.images, image_items), _joined(train.texts, text_items)
    judged = Judgements.from_pairs(
        pairs, queries=image_items.ids, candidates=text_items.ids, name=collection.judgements.name
    )
    return Collection(f"{collection.name}, learned", image_items, text_items, judged)


def _joined(one: Items, second: Items) -> Items:
    """The union of two sets of items, without duplicates; fields that only one of them has are dropped."""
    new = [row for row, key in enumerate(second.ids) if key not in one.ids]
    fields = {
        name: [*one.fields[name], *(second.fields[name][row] for row in new)]
        for name in one.fields
        if name in second.fields
    }
    ids = Ids([*one.ids, *(second.ids[row] for row in new)], what=one.kind)
    return Items(ids, [*one.values, *(second.values[row] for row in new)], fields, kind=one.kind)
