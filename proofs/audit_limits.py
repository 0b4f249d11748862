"""What finding wrong labels can reach with the truth in view: what `audit.py` shows beside precision and recall.

The best threshold on a score of each label, chosen with the truth in view, is a bound for every rule that looks at this
score alone. A classifier that was trained on the planted labels is a bound for rules that join several scores: how well
image and captions fit, whether the captions that fit the image best have the same words, how probable the words are.
"""

from __future__ import annotations

import numpy as np

import limner
from limner.explain.audit.label_doubts import fit
from limner.explain.audit.permuted_labels import places

ALONE, TRAINED, TOGETHER = (
    "the best threshold on each label's score",
    "a classifier of labels trained with the truth in view",
    "the best threshold on the probabilities",
)


def attainable(
    planted: limner.Collection, scores: np.ndarray, bad: set[int], *, foreign: bool = False
) -> dict[str, float]:
    """The lower of precision and recall at the threshold for which it is highest, chosen with the truth in view.

    For the score of each label alone, for a classifier of labels that was trained on the planted ones (five folds), and
    for the probability that a label is in its place.

    Args:
        planted: The collection with planted labels.
        scores: Images by captions.
        bad: The rows of the images with planted labels.
        foreign: Whether the planted captions belong to no image of the collection; the classifier then sees words, too,
            and there is no place where they belong.
    """
    table, rows = fit(planted, scores), np.arange(len(planted.images))
    local = table.local(rows, without_diagonal=foreign)
    word_features = [*word_evidence(planted, table.table), places(local, alone=True).stays] if foreign else []
    values = {ALONE: np.diag(local), TRAINED: trained(planted, scores, local, bad, word_features)}
    values |= {} if foreign else {TOGETHER: places(local).stays}
    return {name: best_threshold(value, np.diag(local), bad) for name, value in values.items()}


NEIGHBOURS = (5, 20)


def word_evidence(planted: limner.Collection, table: np.ndarray) -> list[np.ndarray]:
    """What the words of its captions say of each label; nothing for a collection without words.

    How much they are those of the captions that fit the image best, how probable the caption is to a language model of
    the captions of other images, and their number.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    from limner.language.bigram import BigramModel, words

    captions = [[str(planted.texts.values[column]) for column in columns] for columns in columns_of(planted)]
    if not any(" " in each for texts in captions for each in texts):
        return []
    bags = TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform(" ".join(texts) for texts in captions)
    alike, fits = (bags @ bags.T).toarray(), table.copy()
    np.fill_diagonal(fits, -np.inf)
    order = np.argsort(-fits, axis=1)
    agreements = [np.take_along_axis(alike, order[:, :count], axis=1).mean(axis=1) for count in NEIGHBOURS]
    model, probable = BigramModel(each for texts in captions for each in texts), []
    for texts in captions:
        with model.leaving_out(texts):
            probable.append(np.mean([model.score(each) / (1 + len(words(each))) for each in texts]))
    return [*agreements, np.array(probable), np.array([np.mean([len(words(e)) for e in texts]) for texts in captions])]


def best_threshold(value: np.ndarray, ties: np.ndarray, bad: set[int]) -> float:
    hits = np.cumsum(np.isin(np.lexsort((ties, value)), list(bad)))
    return float(np.minimum(hits / np.arange(1, len(value) + 1), hits / len(bad)).max())


def trained(
    planted: limner.Collection, scores: np.ndarray, local: np.ndarray, bad: set[int], word_features: list[np.ndarray]
) -> np.ndarray:
    """How right a label looks to a classifier that knows which of the others are planted; it gets `word_features`."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    standard = (scores - scores.mean(axis=0)) / np.maximum(scores.std(axis=0), 1e-12)
    each = [standard[row, columns] for row, columns in enumerate(columns_of(planted))]
    diagonal = np.diag(local)
    by_image = np.log1p((local > diagonal[:, None]).sum(axis=1))
    by_label = np.log1p((local > diagonal[None, :]).sum(axis=0))
    features = [
        diagonal,
        by_image,
        by_label,
        diagonal - np.sort(local, axis=1)[:, -2],
        diagonal - np.sort(local, axis=0)[-2],
    ]
    features += [np.array([f(values) for values in each]) for f in (np.mean, np.min, np.max)]
    features += word_features
    truth = np.isin(np.arange(len(diagonal)), list(bad))
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, class_weight="balanced", max_iter=1000))
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    return -cross_val_predict(model, np.stack(features, axis=1), truth, cv=folds, method="decision_function")


def columns_of(clean: limner.Collection) -> list[list[int]]:
    """The captions of each image."""
    columns: list[list[int]] = [[] for _ in clean.images.ids]
    for row, column in zip(clean.judgements.rows, clean.judgements.columns, strict=True):
        columns[int(row)].append(int(column))
    return columns


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
