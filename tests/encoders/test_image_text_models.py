"""Today's image-text models: each adapter gives what its library gives, on tiny models in the real formats."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
from limner.core.errors import LimnerError
from limner.encoders import encoder
from limner.match import cascade, scorer
from limner.scores import Scores

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))

import tiny  # noqa: E402

TEXTS = [*tiny.SENTENCES[:3], "football"]


@pytest.fixture(scope="module", autouse=True)
def library():
    """Imported by the process that runs these tests, and not by each that collects them."""
    return pytest.importorskip("sentence_transformers")


@pytest.fixture(scope="module")
def world():
    return limner.load("scenes", images=10)


@pytest.fixture(scope="module")
def opened(world):
    return [world.images.open(row) for row in range(len(world.images))]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Folders by kind; each is made when a test asks for it."""
    folders, folder = {}, tmp_path_factory.mktemp("models")
    makers = {"clip": _multimodal, "colpali": tiny.colpali, "cross": tiny.image_cross_encoder, "vilt": tiny.vilt}
    makers |= {kind: lambda place, kind=kind: tiny.blip(place, kind=kind) for kind in ("blip", "blip-2")}

    def find(kind):
        if kind not in folders:
            folders[kind] = makers[kind](folder / kind)
        return folders[kind]

    return find


def _multimodal(folder):
    from transformers import AutoImageProcessor, AutoTokenizer, CLIPProcessor

    parts = (each.from_pretrained(tiny.clip(folder)) for each in (AutoImageProcessor, AutoTokenizer))
    CLIPProcessor(*parts).save_pretrained(folder)
    return folder


def test_a_sentence_transformer_that_reads_images(library, models, world, opened):
    ours = encoder("sentence-transformers-multimodal", model=models("clip"), batch_size=3, device="cpu")
    theirs = library.SentenceTransformer(str(models("clip")), device="cpu")
    calls = []
    images = ours.encode(world.images, progress=lambda *t: calls.append(t))
    np.testing.assert_allclose(images, theirs.encode(opened), atol=1e-6)
    np.testing.assert_allclose(ours.encode_texts(limner.Items.of(TEXTS)).matrix, theirs.encode(TEXTS), atol=1e-6)
    assert images.shape == (10, ours.dim) and calls[-1] == (10, 10)
    prompted = encoder("sentence-transformers-multimodal", model=models("clip"), text_prompt="the dog ")
    np.testing.assert_allclose(prompted.encode(TEXTS), theirs.encode(TEXTS, prompt="the dog "), atol=1e-6)
    assert prompted.fingerprint != ours.fingerprint


@pytest.mark.parametrize("similarity", ["maxsim", "meanmaxsim"])
def test_late_interaction_scores_as_the_library_does(library, models, world, opened, similarity):
    ours = encoder("multi-vector", model=models("colpali"), batch_size=3, device="cpu")
    theirs = library.MultiVectorEncoder(str(models("colpali")), device="cpu")
    ours.model.similarity_fn_name = theirs.similarity_fn_name = similarity
    queries = theirs.encode_query(list(world.texts.values))
    expected = theirs.similarity(queries, theirs.encode_document(opened)).numpy()
    scores = ours.scores(world)
    assert scores.shape == (10, len(world.texts)) and list(scores.queries) == list(world.images.ids)
    np.testing.assert_allclose(scores.matrix().T, expected, rtol=1e-5)
    sets = ours.encode_sets(world.texts)
    assert [len(q) for q in queries] == np.diff(sets.starts).tolist()


@pytest.mark.parametrize("similarity", ["maxsim", "meanmaxsim"])
def test_an_index_of_a_late_interaction_model(library, models, world, similarity, tmp_path, monkeypatch):
    pytest.importorskip("lancedb")
    from limner.cli import app
    from limner.encoders.multimodal import LateInteraction

    def opened_as(self, *arguments, original=LateInteraction.__init__, **options):
        original(self, *arguments, **options)
        self.model.similarity_fn_name = similarity

    def run(*words):
        done = CliRunner().invoke(app, [str(word) for word in words])
        assert done.exit_code == 0, done.output
        return done

    monkeypatch.setattr(LateInteraction, "__init__", opened_as)
    name, scenes = f"multi-vector(model={models('colpali')}, device=cpu)", ("scenes", "-O", "images=10")
    run("index", tmp_path / "i", *scenes, "--model", name)
    about = json.loads(run("index", tmp_path / "i", "--json").stdout)
    assert (about["items"], about["similarity"], about["system"]) == (10, "dot", name)
    queries = [world.texts.values[0], world.texts.values[7]]
    hits = json.loads(run("search", tmp_path / "i", *queries, "-k", 10, "--json").stdout)["hits"]
    scores = encoder("multi-vector", model=models("colpali"), device="cpu").scores(world)
    right = scores.T.restrict(queries=[world.texts.ids[0], world.texts.ids[7]]).top(10)
    assert [hit["id"] for hit in hits] == [key for q in right.queries for key in right[q]]
    np.testing.assert_allclose([hit["score"] for hit in hits], np.asarray(right.scores).ravel(), rtol=1e-5)
    one, two = (
        json.loads(run("evaluate", *scenes, "--split", "all", "--json", *system).stdout)
        for system in (("--model", tmp_path / "i"), ("--model", name))
    )
    assert one["results"] == two["results"]


@pytest.mark.parametrize("kind", ["blip", "blip-2"])
def test_image_text_matching_heads_equal_their_library(models, world, opened, kind):
    import transformers

    ours = scorer("blip-itm", model=models(kind), batch_size=3, device="cpu")
    name = "BlipForImageTextRetrieval" if kind == "blip" else "Blip2ForImageTextRetrieval"
    theirs = getattr(transformers, name).from_pretrained(models(kind)).eval()
    image_rows = [0, 1, 0, 2, 0, 1]
    texts = [TEXTS[n % 4] for n in range(6)]
    scores = ours.score_pairs([world.images.values[n] for n in image_rows], texts)
    for n, text, score in zip(image_rows, texts, scores, strict=True):
        inputs = ours.tokenizer([text], return_tensors="pt") | ours.processor(images=opened[n], return_tensors="pt")
        head = {"use_itm_head": True} if kind == "blip" else {"use_image_text_matching_head": True}
        with torch.no_grad():
            output = theirs(**inputs, **head)
        logits = output.itm_score[0] if kind == "blip" else output.logits_per_image[0]
        assert score == pytest.approx(float(logits[1] - logits[0]), abs=2e-5)
    assert scores.std() > 1e-3


def test_vilt_equals_its_library_whatever_stands_in_a_batch(models, world, opened):
    """Images of two shapes, so that a batch is padded; the library draws patches at random unless all are asked for."""
    import transformers

    ours = scorer("vilt", model=models("vilt"), batch_size=4, device="cpu")
    theirs = transformers.ViltForImageAndTextRetrieval.from_pretrained(models("vilt"), max_image_length=-1).eval()
    images = [opened[0], opened[1].resize((80, 32)), opened[2], opened[0]]
    texts = [TEXTS[n % 4] for n in range(4)]
    scores = ours.score_pairs(images, texts)
    for image, text, score in zip(images, texts, scores, strict=True):
        inputs = ours.tokenizer([text], return_tensors="pt") | ours.processor(images=image, return_tensors="pt")
        with torch.no_grad():
            assert score == pytest.approx(float(theirs(**inputs).logits[0, 0]), abs=2e-4)
    assert scores.std() > 1e-3
    np.testing.assert_array_equal(scores, ours.score_pairs(images, texts))


def test_a_cross_encoder_that_reads_images(library, models, world, opened):
    ours = scorer("image-cross-encoder", model=models("cross"), batch_size=3, device="cpu")
    theirs = library.CrossEncoder(str(models("cross")), device="cpu")
    texts = [TEXTS[n % 4] for n in range(5)]
    pairs = list(zip(opened[:5], texts, strict=True))
    expected = theirs.predict(pairs, activation_fn=torch.nn.Identity(), show_progress_bar=False)
    np.testing.assert_allclose(ours.score_pairs(opened[:5], texts), expected, atol=1e-5)
    assert expected.std() > 1e-3


def test_pairs_of_an_image_are_scored_again_and_kept_by_content(models, world, tmp_path):
    ours = scorer("blip-itm", model=models("blip"), device="cpu")
    files = {i: tmp_path / f"{i}.png" for i in world.images.ids[:3]}
    for name, file in files.items():
        world.images.open(name).save(file)
    first = Scores.from_matrix(np.eye(3, len(world.texts)), list(files), world.texts.ids)
    options = {"queries": dict(files), "candidates": world.texts, "depth": 4, "cache": tmp_path / "scores"}
    first_run = cascade(first, ours, **options)
    assert (first_run.pairs, first_run.reused) == (12, 0)
    second_run = cascade(first, ours, **options)
    assert (second_run.pairs, second_run.reused) == (0, 12)
    np.testing.assert_array_equal(second_run.scores, first_run.scores)
    world.images.open(4).save(files[world.images.ids[0]])  # another image under the same path
    changed = cascade(first, ours, **options)
    assert (changed.pairs, changed.reused) == (4, 8) and (changed.scores[0] != first_run.scores[0]).any()


def _limner(*words):
    from limner.cli import app

    return CliRunner().invoke(app, list(map(str, words)))


@pytest.mark.parametrize(
    "name",
    [
        *("multi-vector(model={colpali})", "sentence-transformers-multimodal(model={clip})", "blip-itm(model={blip})"),
        *("vilt(model={vilt})", "{vilt}"),
    ],
)
def test_one_command_from_a_name_to_a_report(models, name):
    named = name.format(**{kind: models(kind) for kind in ("colpali", "clip", "blip", "vilt") if kind in name})
    done = _limner("evaluate", "scenes", "-O", "images=10", "--split", "all", "--model", named, "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["system"] == named or named in done.stdout


def test_a_probe_of_a_scorer_of_pairs(models):
    done = _limner("explain", "probe", "scenes", "-O", f"cases={4}", "--model", f"blip-itm(model={models('blip')})")
    assert done.exit_code == 0 and "pair accuracy" in done.output


def test_refusals(models, tmp_path, world):
    blind = tiny.backbone(tmp_path / "bert")
    with pytest.raises(LimnerError, match="reads text, but no images: for texts alone use the encoder"):
        encoder("sentence-transformers-multimodal", model=blind)
    late = encoder("multi-vector", model=blind, device="cpu")
    with pytest.raises(LimnerError, match="no images: give texts, or a model such as ColPali"):
        late.scores(world)
    with pytest.raises(LimnerError, match="returns several vectors per item, but one is needed"):
        limner.encoders.encoded(late, TEXTS)
    with pytest.raises(LimnerError, match="is a model of kind 'bert': expected blip or blip-2"):
        scorer("blip-itm", model=blind)
    with pytest.raises(LimnerError, match="is a model of kind 'bert': expected vilt"):
        scorer("vilt", model=blind)
    with pytest.raises(LimnerError, match="no images: for pairs of texts use the scorer 'cross-encoder'"):
        scorer("image-cross-encoder", model=tiny.backbone(tmp_path / "pairs", labels=1))
    done = _limner(
        "evaluate", "scenes", "-O", "images=10", "--model", f"multi-vector(model={blind})", "--cache", tmp_path / "v"
    )
    assert done.exit_code == 3 and "several vectors per item, and only one is cached" in " ".join(done.output.split())
    done = _limner("evaluate", "scenes", "-O", "images=10", "--model", "levenshtein")
    assert done.exit_code == 3 and "scores pairs of texts" in " ".join(done.output.split())
    with pytest.raises(LimnerError, match="batch_size=0: expected at least 1"):
        scorer("blip-itm", model=models("blip"), batch_size=0)
    with pytest.raises(LimnerError, match="image 'of pair 0': no file"):
        scorer("blip-itm", model=models("blip")).score_pairs([tmp_path / "none.png"], ["a dog"])
