"""BLEU and ROUGE against slow loops that follow the formulas, and the figures of Flickr8k's human judgements."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections import Counter
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limner.core.errors import LimnerError
from limner.language.word_overlap import (
    IRREGULAR,
    STOP_WORDS,
    bleu,
    bleu_table,
    content_words,
    rouge,
    rouge_table,
    stem,
    tokens,
)

ROOT = Path(__file__).resolve().parents[1]

# Few words, so that captions share some and repeat some; stop words, stems and punctuation among them.
WORD = st.sampled_from(["a", "the", "dog", "dogs", "runs", "running", "red", "T-shirt", "'s", ".", "children", "child"])
TEXT = st.lists(WORD, max_size=8).map(" ".join)
SETS = st.lists(TEXT, min_size=1, max_size=4)


def slow_bleu(caption, references, words):
    counts, reference_counts = Counter(words(caption)), [Counter(words(r)) for r in references]
    if not counts:
        return 0.0
    return sum(min(n, max(o[w] for o in reference_counts)) for w, n in counts.items()) / sum(counts.values())


def slow_rouge(caption, references, words):
    counts, shared, total = Counter(words(caption)), 0, 0
    for reference in references:
        for word, n in Counter(words(reference)).items():
            shared += min(counts[word], n)
            total += n
    return shared / total if total else 0.0


def pairs_of_words(text):
    words = content_words(text)
    return list(pairwise(words))


@pytest.mark.parametrize("words", [tokens, content_words, pairs_of_words, str.split], ids=lambda f: f.__name__)
@given(cases=st.lists(st.tuples(TEXT, SETS), max_size=6))
def test_side_by_side_scores_follow_the_formulas(cases, words):
    captions, references = [c for c, _ in cases], [r for _, r in cases]
    np.testing.assert_array_equal(bleu(captions, references, words=words), [slow_bleu(*case, words) for case in cases])
    np.testing.assert_array_equal(
        rouge(captions, references, words=words), [slow_rouge(*case, words) for case in cases]
    )


@given(captions=st.lists(TEXT, max_size=5), references=st.lists(SETS, max_size=5))
def test_tables_hold_every_caption_with_every_set(captions, references):
    precision = [[slow_bleu(c, r, tokens) for r in references] for c in captions]
    recall = [[slow_rouge(c, r, content_words) for r in references] for c in captions]
    shape = (len(captions), len(references))
    np.testing.assert_array_equal(bleu_table(captions, references), np.reshape(precision, shape))
    np.testing.assert_array_equal(rouge_table(captions, references), np.reshape(recall, shape))


def test_tables_longer_than_a_block(monkeypatch):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(list("abcdefgh"), size=4)) for _ in range(57)]
    table = bleu_table(texts, [[t] for t in texts])
    monkeypatch.setattr("limner.language.word_overlap._BLOCK", 10)
    np.testing.assert_array_equal(bleu_table(texts, [[t] for t in texts]), table)
    np.testing.assert_array_equal(np.diag(table), 1)


@given(caption=TEXT, references=SETS, further=SETS)
def test_more_references_never_lower_bleu_and_their_order_does_not_matter(caption, references, further):
    base, extended, turned = bleu([caption] * 3, [references, references + further, (references + further)[::-1]])
    assert base <= extended == turned


def test_a_count_is_clipped_by_the_largest_reference_not_by_their_sum():
    # Papineni et al.'s example: a caption of seven "the" gets 2/7, because one reference holds two.
    assert bleu(["the " * 7], [["The cat is on the mat .", "There is a cat on the mat ."]]) == 2 / 7


def test_each_reference_counts_for_rouge():
    assert rouge(["dog dog"], [["dog", "dog cat", "bird"]], words=str.split) == 2 / 4


def test_a_threshold_written_in_decimals_is_hit_exactly():
    texts = ["w " * 7 + "x " * 3, "w " * 14 + "x " * 6]
    assert (bleu(texts, [["w " * 14]] * 2) >= 0.7).all()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "A man 's black-and-white T-shirt , 2 dogs !",
            ["a", "man", "s", "black", "and", "white", "t", "shirt", "2", "dogs"],
        ),
        ("a man's hat", ["a", "man", "s", "hat"]),
        ("a man\u2019s hat", ["a", "man", "s", "hat"]),
        ("It isn't. It is n't", ["it", "is", "nt", "it", "is", "nt"]),
        ("caf\u00e9 \u2014 under_score", ["caf\u00e9", "underscore"]),
        ("- . '' _", []),
        ("", []),
    ],
)
def test_tokens(text, words):
    assert tokens(text) == words


def test_content_words_leave_out_stop_words_before_stemming():
    assert content_words("Once they were doing this") == []
    assert content_words("his has its", stop=[]) == ["his", "has", "its"]
    assert content_words("two dogs", stop=["two"]) == ["dog"]
    assert content_words("children", irregular={}) == ["children"]
    assert len(STOP_WORDS) == 127


@pytest.mark.parametrize(("form", "lemma"), IRREGULAR.items())
def test_irregular_forms_meet_their_lemma_and_need_the_table(form, lemma):
    assert content_words(form) == content_words(lemma)
    assert stem(form) != stem(lemma)


@pytest.mark.parametrize(
    ("word", "stemmed"),
    # Examples of Porter 1980, one of each step.
    [
        *[("caresses", "caress"), ("ponies", "poni"), ("agreed", "agre"), ("plastered", "plaster"), ("hopping", "hop")],
        *[("happy", "happi"), ("relational", "relat"), ("triplicate", "triplic"), ("adjustment", "adjust")],
        *[("probate", "probat"), ("controll", "control"), ("sky", "sky"), ("bus", "bus")],
    ],
)
def test_stems_are_porters(word, stemmed):
    assert stem(word) == stemmed


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (partial(bleu, "a dog", [["a"]]), "captions: got the text 'a dog'"),
        (partial(bleu, ["a dog"], "a dog"), "references: got the text 'a dog'"),
        (partial(bleu, ["a dog"], ["a dog"]), r"references\[0\]: got the text 'a dog'"),
        (partial(rouge_table, ["a"], [["a"], []]), r"references\[1\] is empty"),
        (partial(rouge, ["a", "b"], [["a"]]), "2 captions and 1 reference sets.*rouge_table"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(LimnerError, match=message):
        call()


@pytest.fixture(scope="module")
def proof(shared_data):
    """The script of the proof as a module, and the figures it finds in the real files."""
    if not (shared_data / "flickr8k").is_dir():
        pytest.skip(f"no Flickr8k: {shared_data} has no folder flickr8k with its text files")
    spec = importlib.util.spec_from_file_location("human_judgements", ROOT / "proofs" / "human_judgements.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    yield module, module.read(shared_data)
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def figures(proof):
    module, data = proof
    return {figure.name: figure for figure in module.figures(data)}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("expert: judged pairs", 5_822),
        ("expert: of these, a caption with its own image", 158),
        ("crowd: judged pairs", 47_830),
        ("crowd: pairs added at a share of yes >= 0.5", 2_031),
        ("crowd: pairs added at a share of yes >= 0.66", 1_996),
        ("expert: Krippendorff's alpha, interval", 0.788),
        ("kappa of BLEU, five references: 1.0 vs experts' 4.00", 0.721),
        ("kappa of ROUGE, five references: 0.4 vs experts' 4.00", 0.542),
        ("kappa of the crowd with experts >= 3.33: yes >= 0.66, all 5,822 pairs", 0.792),
        ("BLEU-pre < 0.25: of all 1,000 x 1,000 pairs, %", 86.02),
    ],
)
def test_main_figures_of_the_human_judgements(figures, name, value):
    assert figures[name].ours == pytest.approx(value, abs=0.005 if value > 1 else 0.0005)


def test_the_tables_of_preparations_and_readings(proof):
    module, data = proof
    preparations, readings = module.ablation(data, None).splitlines(), module.crowd_ablation(data).splitlines()
    for row in (
        "| as used | 39.4 | 86.0 | 6.7 | 3.5 | 10,384 | 0.542 |",
        "| no stemming | 35.0 | 88.6 | 13.2 | 8.5 | 16,897 | 0.546 |",
        "| stop words kept | 97.1 | 29.7 | 1.1 | 0.5 | 3,520 | 0.464 |",
        "| scikit-learn's 318 stop words | 36.3 | 85.4 | 6.9 | 3.9 | 12,297 | 0.502 |",
    ):
        assert row in preparations
    assert "| 0.5 | relevant | not relevant | 0.790 | 0.972 | 0.935 | 0.947 |" in readings
    assert "| 0.66 | as judged | left out | 0.772 | 0.971 | 0.940 | 0.951 |" in readings
    distributions = module.distributions(data).splitlines()
    assert {"| 4.00 | 247 | 4.2 |", "| 0.50 | 27 | 0.1 |"} <= set(distributions)


def test_the_saved_claims_are_those_of_the_script(figures):
    documents = [json.loads(p.read_text(encoding="utf-8")) for p in ROOT.glob("proofs/results/human_judgements.*.json")]
    assert documents
    for saved in documents:
        claims = [figure.claim().record() for figure in figures.values() if figure.published]
        for claim in (*claims, *saved["claims"]):
            claim.pop("source", None)  # results that were saved before references said what they are
        assert saved["claims"] == claims
        assert not saved["quick"]
