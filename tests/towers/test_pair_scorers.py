"""Scorers of pairs: packed or padded, they give what sentence-transformers' own predict gives."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parents[1] / "encoders"))

import tiny  # noqa: E402

from limner.core.errors import LimnerError  # noqa: E402
from limner.scores import Scores  # noqa: E402
from limner.systems.towers.pairs import CrossEncoderScorer, PairReader, Template, cut_lengths  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def library():
    """Imported by the process that runs these tests, and not by each that collects them."""
    return pytest.importorskip("sentence_transformers")


@pytest.fixture(scope="module")
def texts():
    rng = np.random.default_rng(0)
    words = " ".join(tiny.SENTENCES).split()
    return [[" ".join(rng.choice(words, rng.integers(1, 50))) for _ in range(40)] for _ in range(2)]


@pytest.mark.parametrize("kind", ["bert", "roberta"])
@pytest.mark.parametrize("packed", [True, False])
def test_scores_equal_those_of_predict(tmp_path, texts, kind, packed):
    from sentence_transformers import CrossEncoder

    folder = tiny.backbone(tmp_path / kind, kind=kind, labels=1)
    identity = torch.nn.Identity()
    theirs = CrossEncoder(str(folder), device="cpu").predict(
        list(zip(*texts, strict=True)), activation_fn=identity, show_progress_bar=False
    )
    ours = CrossEncoderScorer(folder, packed=packed, tokens_per_batch=200, device="cpu")
    calls = []
    pair_scores = ours.score_pairs(*texts, progress=lambda *t: calls.append(t))
    np.testing.assert_allclose(pair_scores, theirs, atol=2e-6)
    assert pair_scores.std() > 0.01 and calls[-1] == (40, 40)


def test_two_labels_give_the_odds_of_the_second(tmp_path, texts):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = tiny.backbone(tmp_path, labels=2)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokens = AutoTokenizer.from_pretrained(folder)(texts[0][0], texts[1][0], return_tensors="pt", truncation=True)
    with torch.no_grad():
        logits = model(**tokens).logits[0]
    pair_scores = CrossEncoderScorer(folder, device="cpu").score_pairs(texts[0][:1], texts[1][:1])
    np.testing.assert_allclose(pair_scores, [float(logits[1] - logits[0])], atol=2e-6)
    with pytest.raises(LimnerError, match="has 3 labels: expected 1 or 2"):
        CrossEncoderScorer(tiny.backbone(tmp_path / "three", labels=3))


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_tokens_and_cuts_are_the_tokenizers_own(tmp_path, texts, kind):
    tokenizer = tiny.tokenizer(tmp_path, kind=kind)
    for longest in (12, 13, 64):
        pairs = PairReader(tokenizer, max_tokens=longest).pairs(*texts)
        expected = tokenizer(*texts, truncation=True, max_length=longest, return_token_type_ids=True)
        tokens, types = pairs.tokens(np.arange(40))
        assert tokens == expected["input_ids"] and types == expected["token_type_ids"]
        assert pairs.lengths.tolist() == [len(t) for t in tokens]


def test_a_text_is_cut_once(tmp_path, texts, monkeypatch):
    reader = PairReader(tiny.tokenizer(tmp_path, kind="bert"), max_tokens=64)
    reader.pairs([texts[0][0]] * 30, texts[1][:30])
    calls = []
    monkeypatch.setattr(
        reader, "tokenizer", lambda fresh, **_: calls.append(fresh) or {"input_ids": [[5]] * len(fresh)}
    )
    reader.pairs([texts[0][0], "new", "new"], texts[1][:3])
    assert calls == [["new"]]


def test_cuts_against_taking_one_token_at_a_time():
    rng = np.random.default_rng(3)
    first, second = rng.integers(0, 30, (2, 300))
    cuts = cut_lengths(first, second, 21)
    assert (cuts[0] + cuts[1] == np.minimum(first + second, 21)).all()
    for a, b, x, y in zip(first, second, *cuts, strict=True):
        while a + b > 21:
            a, b = (a - 1, b) if a > b else (a, b - 1)
        assert abs(a - x) <= 1 and abs(b - y) <= 1  # who gives the last odd token is the tokenizer's choice


def test_it_is_a_scorer_of_scores(tmp_path, texts):
    scorer = CrossEncoderScorer(tiny.backbone(tmp_path, labels=1), device="cpu")
    full_matrix = Scores.from_scorer(scorer, texts[0][:3], texts[1][:4]).matrix()
    np.testing.assert_allclose(full_matrix[1], scorer.score_pairs([texts[0][1]] * 4, texts[1][:4]), atol=2e-6)


def test_a_template_that_is_not_understood_is_refused():
    class Odd:
        def __call__(self, *texts, **options):
            return {"input_ids": [1] if len(texts) == 1 else [2, 3], "token_type_ids": [0, 0]}

    with pytest.raises(LimnerError, match="not supported"):
        Template.of(Odd())
