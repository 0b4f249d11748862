"""What stands for an image without a picture: summaries and region descriptions; and antonyms as WordNet has them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
from limner.cli import app
from limner.core.errors import LimnerError, MissingExtra, UnknownName
from limner.datasets.wikipedia import image_names
from limner.encoders.encoder_decoders import Translator
from limner.explain.adversarial import DENIES, FURTHER, KINDS, attack
from limner.language.word_overlap import content_words
from limner.language.wordnet import WordNet
from limner.papers.corpora import Extractive, read_regions, summariser
from limner.papers.text_only import text_only

sys.path.insert(0, str(Path(__file__).parents[1] / "encoders"))
import tiny


def run(*args):
    return CliRunner().invoke(app, [str(a) for a in args])


# --- summaries --------------------------------------------------------------------------------------------------

CAPTIONS = (
    "Two dogs play in the snow.",
    "A brown dog and a black dog play in deep snow.",
    "Two dogs run and play in the snow together.",
    "A red car.",
)


def _central(texts):
    """By numpy: the sentence whose bag of stems has the greatest summed cosine with the others."""
    words = sorted({w for text in texts for w in content_words(text)})
    bags = np.array([[content_words(text).count(w) for w in words] for text in texts], dtype=float)
    bags /= np.linalg.norm(bags, axis=1, keepdims=True)
    return int(np.argmax((bags @ bags.T).sum(axis=1)))


@pytest.mark.parametrize("turn", range(4))
def test_the_most_central_sentence_is_taken(turn):
    texts = CAPTIONS[turn:] + CAPTIONS[:turn]
    assert Extractive()(texts) == texts[_central(texts)]


def test_longer_summaries_pass_over_what_was_said_and_keep_the_order():
    texts = [CAPTIONS[0], CAPTIONS[0], CAPTIONS[1], CAPTIONS[3]]
    assert Extractive(sentences=2)(texts) == f"{CAPTIONS[0]} {CAPTIONS[1]}"
    assert Extractive(sentences=9)(texts) == f"{CAPTIONS[0]} {CAPTIONS[1]} {CAPTIONS[3]}"
    assert Extractive()(["the of and"]) == "the of and"  # stop words only
    with pytest.raises(LimnerError):
        Extractive(sentences=0)
    with pytest.raises(LimnerError):
        Extractive()([])
    with pytest.raises(UnknownName):
        summariser("abstractive")
    with pytest.raises(LimnerError):
        summariser("extractive", words=3)


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    """A T5 of random weights, saved as people have them."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("t5")
    tokenizer = tiny.tokenizer(folder, kind="bert")
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=len(tokenizer), d_model=16, d_kv=4, d_ff=16, num_layers=1, num_heads=2,
        pad_token_id=tokenizer.pad_token_id, decoder_start_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.sep_token_id,
    )  # fmt: skip
    transformers.T5ForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_model_of_transformers_summarises_many_at_once_as_one_by_one(t5):
    model = summariser("transformers", model=str(t5), longest=5, beams=2, batch=2)
    assert model.prefix == "summarize: "
    corpora = [CAPTIONS[:2], CAPTIONS[2:], CAPTIONS[:3]]
    assert model.many(corpora) == [model(corpus) for corpus in corpora]
    with pytest.raises(LimnerError, match="1 or more"):
        summariser("transformers", model=str(t5), beams=0)
    with pytest.raises(LimnerError, match="no folder"):
        summariser("transformers", model="/nowhere/t5")


def test_transformers_that_is_not_there_is_named(monkeypatch, t5):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtra):
        summariser("transformers", model=str(t5))


# --- region descriptions ----------------------------------------------------------------------------------------


@pytest.fixture
def collection(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("red", "dog", "cat", "green", "grass")
    (tmp_path / "glove.txt").write_text("".join(f"{w} {' '.join(str(float(w == v)) for v in words)}\n" for w in words))
    rows = [
        "image,caption",
        *(f"{n}.jpg,a {w} thing\n{n}.jpg,the {w} one\n{n}.jpg,{w} here" for n, w in enumerate(words)),
    ]
    (tmp_path / "captions.csv").write_text("\n".join(rows))
    regions = [
        {
            "id": 100 + n,
            "regions": [{"region_id": n, "phrase": f" {w}   thing "}, {"phrase": "red dog"}, {"phrase": ""}],
        }
        for n, w in enumerate(words[:3])
    ]
    (tmp_path / "regions.json").write_text(json.dumps(regions))
    names = [{"image_id": 100 + n, "coco_id": f"{n}.jpg" if n < 2 else None} for n in range(3)]
    (tmp_path / "image_data.json").write_text(json.dumps(names))
    return limner.load("captions.csv")


def test_region_descriptions_stand_for_the_images_that_have_them(collection):
    assert read_regions("regions.json") == {
        "100": ["red thing", "red dog"], "101": ["dog thing", "red dog"], "102": ["cat thing", "red dog"],
    }  # fmt: skip
    regions = read_regions("regions.json", image_data="image_data.json")
    assert list(regions) == ["0.jpg", "1.jpg"]
    calls = []

    def encode(texts):
        calls.append(list(texts))
        return np.eye(len(texts), 8)

    scores, right = text_only(collection, encode, regions=regions, corpus="joined", query=2)
    assert calls == [["red here", "dog here"], ["red thing red dog", "dog thing red dog"]]
    assert (list(scores.candidates), len(right)) == (["0.jpg", "1.jpg"], 2)
    with pytest.raises(LimnerError, match="do the ids need image_data.json"):
        text_only(collection, encode, regions=read_regions("regions.json"))
    with pytest.raises(LimnerError, match="no caption 3"):
        text_only(collection, encode, regions=regions, query=3)


@pytest.mark.parametrize("content", ["{}", "[{}]", '[{"id": 1}]', "[1]", '[{"id": 1, "regions": [{}]}]', "["])
def test_files_that_are_no_region_descriptions_are_refused(collection, content):
    Path("bad.json").write_text(content)
    with pytest.raises(LimnerError):
        read_regions("bad.json")
    done = run(
        "evaluate",
        "text-only:captions.csv",
        "--model",
        "word-vectors",
        "-O",
        "file=glove.txt",
        "-O",
        "regions=bad.json",
    )
    assert done.exit_code in (2, 3) and "Traceback" not in done.output


def test_the_command_takes_summaries_and_regions(collection):
    words = ("evaluate", "text-only:captions.csv", "--model", "word-vectors", "-O", "file=glove.txt", "--json")
    done = run(*words, "-O", "corpus=summary", "-O", "summariser=extractive(sentences=2)")
    assert done.exit_code == 0, done.output
    scores, right = text_only(
        collection,
        limner.encoders.encoder("word-vectors", file="glove.txt"),
        corpus="summary",
        summarise=Extractive(sentences=2),
    )
    values = {r["measure"]: r["value"] for r in json.loads(done.stdout)["results"]}
    assert values["R@1"] == limner.evaluate(scores, right, measures="R@1").results[0].value
    done = run(*words, "-O", "regions=regions.json", "-O", "image_data=image_data.json")
    assert json.loads(done.stdout)["results"][0]["queries"] == 2
    for bad in (("-O", "summariser=extractive"), ("-O", "image_data=image_data.json")):
        assert run(*words, *bad).exit_code == 2
    assert run(*words, "-O", "corpus=summary", "-O", "summariser=nosuch").exit_code == 3


# --- antonyms ---------------------------------------------------------------------------------------------------


def test_antonyms_of_wordnet_are_made_on_request():
    """Any adjective with an antonym in any meaning, as the paper has it; the lists stay the usual way."""
    assert "antonym-wordnet" in FURTHER and "antonym-wordnet" not in KINDS and "antonym-wordnet" in DENIES
    graph = WordNet.load()
    for text, word in (("A green field", "green"), ("A big dog sits.", "big"), ("An old man", "old")):
        words = {attack(text, "antonym-wordnet", seed=seed).new.split()[-1].lower() for seed in range(30)}
        assert words == {name.replace("_", " ").split()[-1] for name in graph.antonyms(word, "a")}
    assert attack("A dog.", "antonym-wordnet") is None
    assert attack("A green field", "antonym") is None


def test_the_command_attacks_with_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("explain", "attack", "scenes", "-O", "images=20", "--kind", "antonym-wordnet", "-o", "edits.csv")
    assert done.exit_code == 0, done.output
    assert "antonym-wordnet" in Path("edits.csv").read_text()


# --- translations -----------------------------------------------------------------------------------------------


def test_an_encoder_decoder_translates_captions_and_names(t5, tmp_path, monkeypatch):
    """Greedy decoding of one text after the other, with transformers alone, gives the same words."""
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    monkeypatch.chdir(tmp_path)
    (tmp_path / "de.csv").write_text("image,caption\nred_dog.jpg,a dog runs\nred_dog.jpg,two cats\n2.jpg,a dog runs\n")
    done = CliRunner().invoke(app, ["data", "convert", "de.csv", "en.csv", "-O", f"translator={t5}(beams=1,longest=5)"])
    assert done.exit_code == 0, done.output
    tokenizer, model = AutoTokenizer.from_pretrained(t5), AutoModelForSeq2SeqLM.from_pretrained(t5).eval()

    def by_hand(text):
        with torch.inference_mode():
            tokens = model.generate(tokenizer(text, return_tensors="pt")["input_ids"], max_new_tokens=5, num_beams=1)
        return tokenizer.decode(tokens[0], skip_special_tokens=True).strip()

    before, after = limner.load("de.csv"), limner.load("en.csv")
    assert after.texts.ids == before.texts.ids and after.judgements == before.judgements
    assert list(after.texts.values) == [by_hand(text) for text in before.texts.values] != list(before.texts.values)
    assert image_names(after.images) == [by_hand("red dog"), by_hand("2")]


def test_what_a_translator_refuses(t5, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "de.csv").write_text("image,caption\n1.jpg,a dog runs\n")
    for spelled, status, words in (
        ("nowhere/", 3, "neither a folder nor a name"),
        (f"{t5}(beams=0)", 3, "1 or more"),
        (f"{t5}(target=xx_Qqqq)", 3, "'xx_Qqqq' is no language of"),
        (f"{t5}(tone=kind)", 3, "tone"),
    ):
        done = CliRunner().invoke(app, ["data", "convert", "de.csv", "en.csv", "-O", f"translator={spelled}"])
        assert (done.exit_code, words in done.stderr.replace("\n", " ")) == (status, True), done.output
        assert not (tmp_path / "en.csv").exists()


def test_the_language_to_translate_into_begins_the_answer(t5):
    """As in M2M-100, NLLB and mBART: the token of the language is the first of the answer."""
    translator = Translator(t5, target="dog", longest=3, beams=1)
    forced = translator.tokenizer.convert_tokens_to_ids("dog")
    assert translator.forced == {"forced_bos_token_id": forced}
    assert all(text.startswith("dog") for text in translator(["a cat", "two cats"]))
