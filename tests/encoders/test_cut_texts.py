"""Texts that are longer than a model reads: how many of how many, wherever they are cut."""

from __future__ import annotations

import json
import sys
import threading
import warnings
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

import limner
from limner.cli import app
from limner.core.cut_texts import collected, count, cut_notes, warned_once
from limner.core.errors import LimnerWarning
from limner.encoders import encoder
from limner.encoders.cache import Cached

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

import tiny  # noqa: E402

LONG = " ".join(["a black dog runs over the green grass"] * 30)
TEXTS = ["the dog", LONG, "two children", f"{LONG} and more"]
LIMITS = {"clip": 24, "siglip": 24, "bert": 64, "roberta": 64}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    folders = {kind: tiny.backbone(folder / kind, kind=kind) for kind in ("bert", "roberta")}
    folders |= {kind: tiny.clip(folder / kind, kind=kind) for kind in ("clip", "siglip")}
    return folders | {"pairs": tiny.backbone(folder / "pairs", labels=1), "blip": tiny.blip(folder / "blip")}


@pytest.fixture(scope="module")
def world():
    """Scenes, with two captions that are longer than any of the models reads."""
    scenes = limner.load("scenes", images=6)
    captions = list(scenes.texts.values)
    captions[1], captions[4] = LONG, f"{LONG} and more"
    texts = limner.Items(scenes.texts.ids, captions, kind="text")
    return limner.Collection("long", scenes.images, texts, scenes.judgements)


def lengths(folder: Path, texts: list[str]) -> list[int]:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return [len(tokenizer(text, verbose=False)["input_ids"]) for text in texts]


def sentence(cut: int, texts: int, limit: int, longest: int, *, unit: str = "tokens", kind: str = "texts") -> str:
    verb = "is" if cut == 1 else "are"
    return (
        f"{cut} of {texts} distinct {kind} {verb} longer than the {limit} {unit} that the model reads (the longest has "
        f"{longest:,}): the rest is ignored"
    )


def of_world(world, folder: Path) -> str:
    """The sentence about a collection that CLIP reads."""
    texts = list(dict.fromkeys(world.texts.values))
    cut = [length for length in lengths(folder, texts) if length > LIMITS["clip"]]
    assert 2 <= len(cut) < len(texts)
    return sentence(len(cut), len(texts), LIMITS["clip"], max(cut))


def notes_of(make) -> tuple[str, ...]:
    with collected() as cut:
        make()
    return cut.notes


# --- counting ---------------------------------------------------------------------------------------------------


@contextmanager
def warned():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        texts: list[str] = []
        yield texts
    texts += [str(each.message) for each in caught if issubclass(each.category, LimnerWarning)]


def test_there_is_one_warning_for_several_counts():
    with warned() as texts, warned_once():
        count(["a", "b"], [1, 9], limit=5)
        count(["c", "b"], [7, 9], limit=5)
    assert texts == [sentence(2, 3, 5, 9)]


def test_a_text_of_the_length_that_is_read_is_not_cut():
    with warned() as texts:
        count(["a", "b"], [4, 5], limit=5)
    assert texts == []


def test_an_inner_block_keeps_its_counts():
    with collected() as outer:
        with collected() as inner:
            count(["a"], [9], limit=5)
        assert cut_notes() == ()
    assert outer.notes == () and inner.notes == (sentence(1, 1, 5, 9),)


def test_threads_of_a_computation_count_too():
    from limner.scores.parallel_blocks import threads

    thread_names = set()

    def work(row: int) -> None:
        thread_names.add(threading.current_thread().name)
        count([f"text {row}"], [9], limit=5)

    with collected() as cut, threads(4) as spread:
        list(spread(work, range(20)))
    assert threading.current_thread().name not in thread_names
    assert cut.notes == (sentence(20, 20, 5, 9),)


# --- every adapter ----------------------------------------------------------------------------------------------

ADAPTERS = [("transformers", "bert"), ("transformers", "roberta"), ("clip", "clip"), ("siglip", "siglip")]


@pytest.mark.parametrize(("name", "kind"), ADAPTERS, ids=[f"{n}-{k}" for n, k in ADAPTERS])
def test_the_count_is_that_of_the_tokenizer_without_a_limit(name, kind, models):
    model, limit = encoder(name, model=models[kind], device="cpu"), LIMITS[kind]
    words = "dog " * limit
    texts = [*TEXTS, *(" ".join(words.split()[:n]) for n in range(limit - 4, limit + 1))]
    token_counts = lengths(models[kind], texts)
    cut = [length for length in token_counts if length > limit]
    assert 2 < len(cut) < len(texts), "some are just below the limit, and some just above"
    assert notes_of(lambda: model.encode(texts)) == (sentence(len(cut), len(texts), limit, max(cut)),)


def test_a_slow_tokenizer(models):
    model = encoder("transformers", model=models["bert"], device="cpu")
    fast = model.tokenizer

    class Slow:
        """Gives no encodings, as tokenizers in Python do."""

        def __call__(self, texts, **options):
            return {"input_ids": fast(texts, **options)["input_ids"]}

    model.tokenizer = Slow()
    expected = sentence(2, 4, 64, max(lengths(models["bert"], TEXTS)))
    assert notes_of(lambda: model.encode(TEXTS)) == (expected,)


def test_sentences_with_a_prompt(models):
    pytest.importorskip("sentence_transformers")
    model = encoder("sentence-transformers", model=models["bert"], prompt="the dog ", device="cpu")
    token_counts = lengths(models["bert"], [f"the dog {text}" for text in TEXTS])
    limit = model.model.max_seq_length
    assert notes_of(lambda: model.encode(TEXTS)) == (sentence(2, 4, limit, max(token_counts)),)


def test_a_model_of_images_and_texts_that_another_library_runs(models):
    library = pytest.importorskip("sentence_transformers")
    if int(library.__version__.partition(".")[0]) < 6:
        pytest.skip("needs a version that reads images")
    model = encoder("sentence-transformers-multimodal", model=models["clip"], device="cpu")
    assert notes_of(lambda: model.encode(TEXTS)) == (sentence(2, 4, 24, max(lengths(models["clip"], TEXTS))),)


def test_late_interaction(tmp_path):
    library = pytest.importorskip("sentence_transformers")
    if not hasattr(library, "MultiVectorEncoder"):
        pytest.skip("needs MultiVectorEncoder")
    model = encoder("multi-vector", model=tiny.backbone(tmp_path / "bert"), device="cpu")
    model.model[0].query_expansion, model.model[0].query_length, model.model[0].document_length = None, 9, 11
    longest = max(lengths(tmp_path / "bert", TEXTS))
    for queries, limit in ((True, 9), (False, 11)):
        assert notes_of(lambda q=queries: model.encode_sets(TEXTS, queries=q)) == (sentence(2, 4, limit, longest),)


def test_a_tokenizer_of_open_clip(monkeypatch):
    """With open_clip's way: a start, the tokens and an end, or what fits of them, and zeros."""
    from limner.encoders import openclip

    class Tokenizer:
        context_length = 8

        def __call__(self, texts, context_length=None):
            rows = torch.zeros(len(texts), context_length or self.context_length, dtype=torch.long)
            for row, text in zip(rows, texts, strict=True):
                tokens = [1, *(3 + len(word) for word in text.split()), 2][: len(row)]
                tokens[-1] = 2
                row[: len(tokens)] = torch.tensor(tokens)
            return rows

    model = openclip.OpenClipEncoder.__new__(openclip.OpenClipEncoder)
    model.tokenizer = Tokenizer()
    texts = [" ".join(["dog"] * n) for n in (0, 3, 5, 6, 7, 20)]
    assert notes_of(lambda: model.tokens(texts)) == (sentence(2, 6, 8, 22),)


def test_onnx_tokens(models):
    pytest.importorskip("tokenizers")
    from limner.encoders.onnx_models import PlainTokenizer

    tokens = PlainTokenizer(models["bert"] / "tokenizer.json", purpose="a test", max_tokens=10)
    expected = max(lengths(models["bert"], [f"dog {text}" for text in TEXTS]))
    assert notes_of(lambda: list(tokens.batches(TEXTS, prompt="dog "))) == (sentence(2, 4, 10, expected),)


def test_words_of_two_towers():
    from limner.systems.towers.vocabulary import Vocabulary

    vocabulary = Vocabulary.fit(TEXTS, min_count=1)
    assert notes_of(lambda: vocabulary.tokens(TEXTS, max_tokens=20)) == (sentence(2, 4, 20, 242, unit="words"),)


def test_pairs_of_texts(models):
    from limner.systems.towers.pairs import CrossEncoderScorer

    scorer = CrossEncoderScorer(models["pairs"], device="cpu", max_tokens=40)
    tokenizer = transformers.AutoTokenizer.from_pretrained(models["pairs"])
    token_counts = [len(tokenizer("the dog", text, verbose=False)["input_ids"]) for text in TEXTS]
    expected = sentence(2, 4, 40, max(token_counts), kind="pairs")
    assert notes_of(lambda: scorer.score_pairs(["the dog"] * 4, TEXTS)) == (expected,)


def test_pairs_of_an_image_and_a_text(models, world):
    from limner.systems.towers.image_pairs import ItmScorer

    scorer = ItmScorer(models["blip"], device="cpu")
    images = [world.images.values[0]] * 4
    expected = sentence(2, 4, 64, max(lengths(models["blip"], TEXTS)))
    assert notes_of(lambda: scorer.score_pairs(images, TEXTS)) == (expected,)


# --- a cache of vectors -----------------------------------------------------------------------------------------


def test_vectors_from_a_cache_say_it_too(models, tmp_path):
    longest = max(lengths(models["clip"], TEXTS))
    first = Cached(encoder("clip", model=models["clip"], device="cpu"), tmp_path / "cache", every=2)
    assert notes_of(lambda: first.encode(TEXTS)) == (sentence(2, 4, 24, longest),)
    warm = Cached(encoder("clip", model=models["clip"], device="cpu"), tmp_path / "cache")
    assert notes_of(lambda: warm.encode([*TEXTS, "the park"])) == (sentence(2, 5, 24, longest),)
    assert warm.reused == 4
    assert notes_of(lambda: warm.encode(["the dog", "the park"])) == ()


# --- results ----------------------------------------------------------------------------------------------------


def test_a_report_has_a_note(models, world, tmp_path):
    clip = encoder("clip", model=models["clip"], device="cpu")
    with warned() as texts:
        report = limner.evaluate(clip, world)
    expected = of_world(world, models["clip"])
    assert expected in report.notes and expected in str(report) and texts == []
    report.save(tmp_path / "r.json")
    assert expected in limner.Report.load(tmp_path / "r.json").notes


def test_an_encoder_alone_warns_once(models):
    with warned() as texts:
        encoder("clip", model=models["clip"], device="cpu").encode(TEXTS)
    assert texts == [sentence(2, 4, 24, max(lengths(models["clip"], TEXTS)))]


def test_training_warns_once(world):
    with warned() as texts:
        limner.train(world, "towers", epochs=2, min_count=1, max_tokens=30, device="cpu")
    expected = sentence(2, len(set(world.texts.values)), 30, 242, unit="words")
    assert [text for text in texts if "longer" in text] == [expected]


@pytest.fixture(scope="module")
def table(tmp_path_factory, world):
    """The collection as a table, the way people have it."""
    folder = tmp_path_factory.mktemp("table")
    rows = ["image,caption"]
    for number, text in enumerate(world.texts.values):
        image = folder / f"{number // 5}.png"
        if not image.exists():
            world.images.open(number // 5).save(image)
        rows.append(f'{image.name},"{text}"')
    (folder / "captions.csv").write_text("\n".join(rows))
    (folder / "texts.txt").write_text("\n".join(world.texts.values))
    return folder


def limner_says(*words):
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout), done.stderr


@pytest.fixture(scope="module")
def clip(models):
    return f"clip(model={models['clip']}, device=cpu)"


def test_evaluate_and_compare_say_it(clip, models, table, world, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    expected, options = of_world(world, models["clip"]), ("--model", clip, "--json", "-o", "a.json")
    for _ in range(2):  # the second time, the vectors come from a cache
        answer, err = limner_says("evaluate", table / "captions.csv", *options, "--cache", "kept")
        assert answer["notes"].count(expected) == 1 and "longer than" not in err
    answer, _ = limner_says("compare", "a.json", "a.json", "--json")
    assert {f"{clip} ({n}): {expected}" for n in (1, 2)} <= {*answer["notes"]}


def test_encode_says_it(models, table, world, tmp_path):
    options = ("--model", "clip", "-O", f"model={models['clip']}", "-O", "device=cpu", "--json")
    answer, err = limner_says("encode", table / "texts.txt", *options, "-o", tmp_path / "v.npy")
    assert answer["warnings"] == [of_world(world, models["clip"])] and err.count("longer than") == 1


def test_index_and_search_say_it(clip, models, table, world, tmp_path):
    words = ("index", tmp_path / "t.index", "--items", table / "texts.txt", "--model", clip, "--json")
    answer, err = limner_says(*words)
    expected = of_world(world, models["clip"])
    assert answer["warnings"] == [expected] and f"warning: {expected}" in err
    answer, _ = limner_says("search", tmp_path / "t.index", LONG, "--json")
    assert answer["notes"] == [sentence(1, 1, 24, lengths(models["clip"], [LONG])[0])]


def test_explain_says_it(clip, models, table, world):
    answer, _ = limner_says("explain", "failures", table / "captions.csv", "--model", clip, "--json")
    assert answer["warnings"] == [of_world(world, models["clip"])]


def test_train_says_it(table, world, tmp_path):
    options = ("-O", "max_tokens=30", "-O", "min_count=1", "-O", "epochs=1", "--json", "-o", tmp_path / "m")
    answer, err = limner_says("train", "towers", table / "captions.csv", *options)
    assert answer["warnings"] == [sentence(2, len(set(world.texts.values)), 30, 242, unit="words")], err
