"""Two towers, PVSE and PCME: what they learn, what they say, and that a saved one needs no options again."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import pytest
from tower_toys import DEVICE, OPTIONS, world

import limner
from limner import Collection, Embeddings, Items, Judgements, systems
from limner.core.errors import LimnerError, MissingExtra, UnknownName
from limner.core.progress import Progress

torch = pytest.importorskip("torch", reason="training needs torch")
torch.set_num_threads(1)

from limner.systems import LOSSES  # noqa: E402
from limner.systems.towers import branches, data  # noqa: E402
from limner.systems.towers.data import Batches, TrainingPairs, texts_seen  # noqa: E402
from limner.systems.towers.distributed import (  # noqa: E402
    Group,
    seeded,
)
from limner.systems.towers.models import best_pairs  # noqa: E402
from limner.systems.towers.settings import (  # noqa: E402
    VARIANTS,
    Inputs,
    Margin,
    Several,
    Shape,
    Training,
    Uncertain,
)
from limner.systems.towers.vocabulary import Vocabulary  # noqa: E402

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def toy_world():
    return world()


@pytest.fixture(scope="module")
def models(toy_world):
    collection, features = toy_world
    return {v: limner.train(collection, v, features=features, epochs=12, **OPTIONS) for v in VARIANTS}


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")
def test_mixed_precision_learns_about_the_same_and_keeps_single_weights(toy_world):
    collection, features = toy_world
    runs = {
        p: limner.train(collection, "towers", features=features, epochs=4, precision=p, **OPTIONS)
        for p in ("float32", "bfloat16")
    }
    losses = {p: [row["loss"] for row in run.trained["history"]] for p, run in runs.items()}
    assert losses["bfloat16"] != losses["float32"]
    assert losses["bfloat16"] == pytest.approx(losses["float32"], rel=0.2)
    assert {weight.dtype for weight in runs["bfloat16"].module.parameters()} == {torch.float32}


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_learns(models, toy_world, variant):
    collection, _ = toy_world
    model = models[variant]
    report = limner.evaluate(model.scores(collection.dev), collection.dev, measures="R@5 rsum")
    chance = 100 * (5 / 10 + 5 * 2 / 20)
    assert 100 * sum(report.value("R@5", direction=d) for d in ("i2t", "t2i")) > 1.6 * chance
    assert report.value("rsum") == pytest.approx(model.trained["metrics"]["rsum"]), "the best epoch is what is kept"
    best = max(row["rsum"] for row in model.trained["history"])
    assert model.trained["metrics"]["rsum"] == best


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_goes_down(toy_world, name):
    collection, features = toy_world
    model = limner.train(collection, "towers", features=features, loss=name, epochs=6, **OPTIONS)
    losses = [row["loss"] for row in model.trained["history"]]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_saved_model_needs_no_options(models, toy_world, variant, tmp_path):
    collection, features = toy_world
    model = models[variant]
    model.save(tmp_path / "model")
    assert {f.name for f in (tmp_path / "model").iterdir()} == {
        "model.safetensors", "config.json", "vocabulary.txt", "README.md"
    }  # fmt: skip
    loaded = systems.load(tmp_path / "model").to(DEVICE)
    expected = model.scores(collection.dev).matrix()
    assert np.array_equal(loaded.scores(collection.dev, features=features).matrix(), expected)
    card = (tmp_path / "model" / "README.md").read_text()
    assert f"| rsum | {model.trained['metrics']['rsum']:.4g} |" in card and "small/dev" in card
    with pytest.raises(LimnerError, match="give the vectors of these 10 images with features="):
        loaded.scores(collection.dev)


def test_features_in_a_file_are_found_again(toy_world, tmp_path):
    collection, features = toy_world
    features.save(tmp_path / "features.npz")
    model = limner.train(collection, "towers", features=str(tmp_path / "features.npz"), epochs=1, **OPTIONS)
    reloaded = systems.load(model.save(tmp_path / "model")).to(DEVICE)
    assert np.array_equal(reloaded.scores(collection.dev).matrix(), model.scores(collection.dev).matrix())


def test_pictures_need_no_features_and_toml_has_the_same_names(tmp_path):
    collection = limner.load("scenes", images=40)
    (tmp_path / "towers.toml").write_text(
        'epochs = 2\nembedding_dim = 8\nword_dim = 4\nloss = "max"\nbatch_size = 32\n'
    )
    model = limner.train(collection, "towers", config=tmp_path / "towers.toml", hidden_dim=16, device=DEVICE)
    settings = model.settings
    assert (settings["training"]["epochs"], settings["shape"]["hidden_dim"], settings["shape"]["embedding_dim"]) == (
        2,
        16,
        8,
    )
    assert settings["margin"]["loss"] == "max"
    reloaded = systems.load(model.save(tmp_path / "model")).to(DEVICE)
    assert np.array_equal(reloaded.scores(collection.test).matrix(), model.scores(collection.test).matrix())
    assert reloaded.encode_images(collection.test.images).dim == reloaded.encode_texts(collection.test.texts).dim == 8


def test_an_encoder_with_options_is_found_again(tmp_path):
    collection = limner.load("scenes", images=30)
    chosen = {"encoder": "histograms", "names": ["colours"]}
    model = limner.train(collection, "towers", features=chosen, epochs=1, **OPTIONS)
    reloaded = systems.load(model.save(tmp_path / "model")).to(DEVICE)
    assert reloaded.features.encoder.names == ("colours",)
    assert np.array_equal(reloaded.scores(collection.test).matrix(), model.scores(collection.test).matrix())


def test_texts_may_be_vectors_and_encoders_of_ones_own(toy_world):
    collection, features = toy_world
    words = Vocabulary.fit(collection.texts.values, min_count=1)

    class Bag:
        dim = len(words)

        def encode(self, items):
            rows = np.zeros((len(items), self.dim), dtype=np.float32)
            for row, text in zip(rows, items.values, strict=True):
                row[words.tokens([text]).flat] = 1
            return rows

    bags = Embeddings(collection.texts.ids, Bag().encode(collection.texts))
    options = {**OPTIONS, "epochs": 12, "features": features}
    one = limner.train(collection, "towers", texts=Bag(), **options)
    two = limner.train(collection, "towers", texts=bags, **options)
    assert np.array_equal(one.scores(collection.dev).matrix(), two.scores(collection.dev).matrix())
    assert one.trained["metrics"]["rsum"] > 300
    one = limner.train(collection, "pvse", texts=Bag(), **options)
    assert one.scores(collection.dev).shape == (10, 20)


def test_word_vectors_are_where_training_begins(toy_world):
    collection, features = toy_world
    vectors = Embeddings(["dog", "zebra"], np.ones((2, 5), dtype=np.float32))
    options = {**OPTIONS, "learning_rate": 1e-12, "epochs": 1, "features": features}
    model = limner.train(collection, "towers", word_vectors=vectors, **options)
    row = model.vocabulary.words.index("dog") + 1
    assert model.module.texts.table.weight[row].tolist() == pytest.approx([1.0] * 5)
    assert model.settings["shape"]["word_dim"] == 5


def test_seeds_repeat_and_differ_and_leave_torch_alone(toy_world):
    collection, features = toy_world
    before = torch.get_rng_state()
    options = {**OPTIONS, "epochs": 1, "features": features, "dropout": 0.2}
    one, repeated, second_seed = (limner.train(collection, "towers", seed=seed, **options) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    matrices = [model.scores(collection.dev).matrix() for model in (one, repeated, second_seed)]
    assert np.array_equal(matrices[0], matrices[1]) and not np.array_equal(matrices[0], matrices[2])


def test_several_vectors_are_compared_by_the_best_pair(models, toy_world):
    collection, _ = toy_world
    model = models["pvse"]
    images, texts = model.image_sets(collection.dev.images), model.text_sets(collection.dev.texts)
    sides = [np.split(each.vectors.matrix, each.starts[1:-1]) for each in (images, texts)]
    slow = [[max(float(a @ b) for a in image for b in text) for text in sides[1]] for image in sides[0]]
    assert np.allclose(model.scores(collection.dev).matrix(), slow, atol=1e-5)
    in_training = best_pairs(*(torch.tensor(s.vectors.matrix).view(-1, 2, 16) for s in (images, texts)))
    assert np.allclose(in_training, slow, atol=1e-5), "training and scoring compare alike"


def test_uncertainty_is_exposed(models, toy_world):
    collection, _ = toy_world
    model = models["pcme"]
    unsure = model.uncertainty(collection.dev.texts)
    assert unsure.shape == (20,) and np.isfinite(unsure).all() and unsure.std() > 0
    with pytest.raises(LimnerError, match="does not predict uncertainty"):
        models["towers"].uncertainty(collection.dev.texts)
    scores = model.scores(collection.dev, matching="probability")
    matrix = scores.matrix()
    assert ((matrix > 0) & (matrix < 1)).all()
    assert np.array_equal(matrix, model.scores(collection.dev, matching="probability").matrix())
    assert np.corrcoef(matrix.ravel(), model.scores(collection.dev).matrix().ravel())[0, 1] > 0.5
    with pytest.raises(LimnerError, match="no matching probability"):
        models["towers"].scores(collection.dev, matching="probability")


def test_matching_probability_is_the_mean_over_pairs_of_samples(models):
    module = models["pcme"].module
    images, texts = torch.randn(2, 3, 16, device=DEVICE), torch.randn(4, 5, 16, device=DEVICE)
    with torch.no_grad():
        log_probabilities = module.log_probabilities(images, texts)
        each = [
            [torch.sigmoid(module.shift - module.scale * (a - b).norm()) for a in images[i] for b in texts[t]]
            for i in range(2)
            for t in range(4)
        ]
    slow = torch.tensor([[float(sum(pairs) / 15)] for pairs in each]).view(2, 4)
    assert torch.allclose(log_probabilities[0].exp().cpu(), slow, atol=1e-6)
    assert torch.allclose(
        log_probabilities[0].exp() + log_probabilities[1].exp(), torch.ones(2, 4, device=DEVICE), atol=1e-6
    )


def test_an_lstm_learns_is_saved_and_fixes_what_is_trained_further(toy_world, tmp_path):
    collection, features = toy_world
    model = limner.train(collection, "towers", features=features, epochs=12, cell="lstm", **OPTIONS)
    history = [row["loss"] for row in model.trained["history"]]
    assert history[-1] < history[0]
    assert isinstance(model.module.texts.gru, torch.nn.LSTM)
    loaded = systems.load(model.save(tmp_path / "lstm"))
    np.testing.assert_allclose(
        loaded.scores(collection.dev, features=features).matrix(), model.scores(collection.dev).matrix(), atol=1e-6
    )
    with pytest.raises(LimnerError, match="cell='gru' with init_from="):
        limner.train(collection, "towers", features=features, init_from=model, cell="gru", epochs=1)


@pytest.mark.parametrize("cell", branches.CELLS)
@pytest.mark.parametrize("pooling", branches.POOLINGS)
def test_texts_in_a_batch_are_read_as_if_alone(pooling, cell):
    words = Vocabulary(("a", "dog", "runs", "fast", "today"))
    texts = words.tokens(["a dog runs", "dog", "", "a dog runs fast today", "fast zebra"])
    with seeded(0):
        side = branches.Words(len(words), word_dim=4, hidden_dim=6, embedding_dim=3, pooling=pooling, cell=cell)

    class Alone:
        parameters = side.parameters

        def text_vectors(self, rows):
            return (side(rows).whole,)

    together = texts_seen(Alone(), texts)[0]
    for row in range(len(texts)):
        numbers = torch.tensor(texts.flat[texts.starts[row] : texts.starts[row + 1]])
        states, last = side.gru(side.table(numbers)[:, None])
        last = last[0] if cell == "lstm" else last
        pooled = {"last": last[0, 0], "mean": states[:, 0].mean(0), "max": states[:, 0].amax(0)}[pooling]
        assert torch.allclose(together[row], side.linear(pooled), atol=1e-6)


def toy_pairs(pairs, images, texts):
    names = [f"t{n}" for n in range(texts)]
    judged = Judgements.from_pairs(
        [(f"i{i}", f"t{t}") for i, t in pairs], queries=[f"i{n}" for n in range(images)], candidates=names
    )
    ids = [f"i{n}" for n in range(images)]
    short_captions = Collection(
        "toy",
        Items(ids, [None] * images),
        Items(names, ["word " * (n % 4 + 1) for n in range(texts)], kind="text"),
        judged,
    )
    tokens = Vocabulary(("word",)).tokens(short_captions.texts.values)
    return TrainingPairs(short_captions, torch.arange(images, dtype=torch.float32)[:, None], tokens, device=CPU)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("size", [1, 2])
def test_batches_hold_every_pair_once_and_know_what_belongs_together(shared, size):
    pairs = [(t // 3, t) for t in range(24)] + ([(7, 0), (2, 5)] if shared else [])
    toys = toy_pairs(pairs, 8, 24)
    groups = [Batches(toys, 6, 0, Group(rank, size)) for rank in range(size)]
    shares = [list(group.epoch(1)) for group in groups]
    epochs = []
    for batch in zip(*shares, strict=True):
        images = torch.cat([share.images[:, 0] for share in batch]).long().tolist()
        lengths = [torch.nn.utils.rnn.pad_packed_sequence(share.texts)[1].tolist() for share in batch]
        assert all(each == sorted(each, reverse=True) for each in lengths), "longest first"
        epochs += images
        positives = batch[0].positives
        assert all(torch.equal(positives, share.positives) for share in batch), "all see the whole batch"
        assert positives.shape == (6, 6) and positives.diagonal().all()
        if not shared:
            assert positives.tolist() == [[a == b for b in images] for a in images]
    assert len(epochs) == len(pairs) // 6 * 6
    resumed_images = [images[:, 0].tolist() for images, *_ in groups[0].epoch(1, start=2)]
    assert resumed_images == [share.images[:, 0].tolist() for share in shares[0][2:]], (
        "an epoch can be entered anywhere"
    )


def test_a_text_of_two_images_is_a_positive_of_both():
    toys = toy_pairs([(0, 0), (1, 0), (1, 1), (2, 2)], 3, 3)
    positives = toys.positives(torch.arange(3), torch.arange(3))
    assert positives.tolist() == [[True, False, False], [True, True, False], [False, False, True]]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"epoch": 3}, UnknownName, "did you mean 'epochs'"),
        ({"loss": "knnn"}, UnknownName, "did you mean 'knn'"),
        ({"k": 3}, LimnerError, "loss 'adaptive' chooses k itself; for a fixed k, give loss='knn' too"),
        ({"loss": "max", "k": 3}, LimnerError, "unknown option 'k' of loss 'max'"),
        ({"epochs": 0}, LimnerError, "epochs=0: expected at least 1"),
        ({"epochs": 1.5}, LimnerError, "epochs=1.5 is float: expected int"),
        ({"learning_rate": "fast"}, LimnerError, "learning_rate='fast' is str: expected float"),
        ({"tensorboard": 2}, LimnerError, "tensorboard=2 is int: expected true or false"),
        ({"dropout": 1.0}, LimnerError, "dropout=1.0"),
        ({"precision": "float16"}, UnknownName, "did you mean .bfloat16. or .float32."),
        ({"pooling": "first"}, UnknownName, "unknown pooling"),
        ({"cell": "rnn"}, UnknownName, "unknown cell"),
        ({"device": "gpu"}, LimnerError, "unknown device 'gpu'"),
        ({"device": "cuda:0"}, LimnerError, "sees no GPU"),
        ({"features": 3}, LimnerError, "expected str or Path or dict or nothing or Embeddings"),
        ({"features": "nothing.npy"}, LimnerError, "no embeddings file"),
        ({"texts": "minilmm"}, UnknownName, "did you mean 'minilm'"),
        ({"texts": "math:pi"}, LimnerError, "has no encode"),
        ({"min_count": 99}, LimnerError, "no word occurs in 99"),
    ],
)
def test_bad_options_are_refused(toy_world, options, error, message):
    if options.get("device") == "cuda:0" and torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    collection, features = toy_world
    with pytest.raises(error, match=message):
        limner.train(collection, "towers", **{"features": features, **OPTIONS, **options})


def test_too_little_to_train_on(toy_world):
    collection, features = toy_world
    with pytest.raises(LimnerError, match="1 images and 2 pairs"):
        limner.train(collection.restrict(["i0"]), "towers", features=features, **OPTIONS)
    with pytest.raises(LimnerError, match="unknown"):
        limner.train(collection, "towers", features=features.subset(["i0", "i1"]), **OPTIONS)


def test_a_loss_that_explodes_is_told(toy_world):
    collection, features = toy_world
    with pytest.raises(LimnerError, match="the loss became nan in epoch 1: try a lower learning_rate"):
        limner.train(collection, "towers", features=features, loss=f"{__name__}:broken", epochs=1, **OPTIONS)


def broken(scores, positives, *, margin):
    return scores.sum() * float("nan")


def test_the_help_names_every_option():
    names = [f for kind in (Inputs, Shape, Margin, Several, Uncertain, Training) for f in kind.__dataclass_fields__]
    option_names = [
        option.name for name in ("towers", "pvse", "pcme") for option in systems.SYSTEMS.about(name).options
    ]
    assert [name for name in names if name not in option_names] == []


def test_a_damaged_model_is_refused(models, tmp_path):
    folder = models["towers"].save(tmp_path / "model")
    weights, config = folder / "model.safetensors", folder / "config.json"
    good = weights.read_bytes()
    weights.write_bytes(good[:-7] + bytes([good[-7] ^ 1]) + good[-6:])
    with pytest.raises(LimnerError, match="damaged: its contents do not match its fingerprint"):
        systems.load(folder)
    weights.write_bytes(good[:1000])
    with pytest.raises(LimnerError, match="is not a valid model"):
        systems.load(folder)
    weights.write_bytes(good)
    config_values = json.loads(config.read_text())
    config.write_text(json.dumps({**config_values, "sizes": {"features": 9, "texts": config_values["sizes"]["texts"]}}))
    with pytest.raises(LimnerError, match=r"not a valid model whose weights fit its config\.json"):
        systems.load(folder)
    config.write_text(json.dumps({key: value for key, value in config_values.items() if key != "settings"}))
    with pytest.raises(LimnerError, match="not a valid saved model"):
        systems.load(folder)


def test_without_torch_the_extra_is_named(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr("limner.core.extras.find_spec", lambda name: None if name == "torch" else real(name))
    package = importlib.import_module("limner.systems.towers")
    with pytest.raises(MissingExtra, match=r"limner\[models\]"):
        importlib.reload(package)
    assert systems.SYSTEMS.summaries()["towers"].startswith("Two towers"), "the list of systems needs no torch"


def test_progress_has_the_loss_and_the_dev_values(toy_world):
    collection, features = toy_world
    calls, notes = [], []

    class Recorder(Progress):
        def __call__(self, done, total):
            calls.append((done, total))

        def note(self, text):
            notes.append(text)

    limner.train(collection, "towers", features=features, epochs=2, progress=Recorder(), **OPTIONS)
    assert calls[-1] == (6, 6)
    assert notes[-1].startswith("epoch 2/2 loss ") and "dev rsum " in notes[-1] and "i2t R@1 " in notes[-1]


def test_packing_reads_words_in_the_order_of_steps():
    tokens = Vocabulary(("a", "b", "c")).tokens(["a b c", "c", "b a"])
    packing = data.Packing.of(tokens, np.array([0, 2, 1]))
    assert tokens.flat[packing.places].tolist() == [1, 2, 3, 2, 1, 3]
    assert packing.sizes.tolist() == [3, 2, 1]
