"""Natural inputs: what people have in memory is taken where its meaning is clear, and refused with advice otherwise."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy import sparse

import limner
from limner import Embeddings, Items, Judgements, LimnerError, Ranking, Scores
from limner.encoders import encoded
from limner.match import cascade
from toys import collection as toy_collection
from toys import scores as toy_scores

RNG = np.random.default_rng(0)
IMAGES = RNG.standard_normal((10, 8)).astype(np.float32)
TEXTS = (IMAGES + 0.3 * RNG.standard_normal((10, 8))).astype(np.float32)


def _tensor(matrix, dtype="float32", **more):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    return torch.tensor(matrix, dtype=getattr(torch, dtype), **more)


def _arrow(matrix):
    import pyarrow as pa

    return pa.array(matrix.tolist(), type=pa.list_(pa.float32()))


def _polars_library():
    return pytest.importorskip("polars", reason="polars is not installed")


def _polars(matrix):
    return _polars_library().DataFrame(matrix)


def _pandas():
    return pytest.importorskip("pandas", reason="pandas is not installed")


FORMS = {
    "array": lambda m: m,
    "float64": lambda m: m.astype(np.float64),
    "list": lambda m: m.tolist(),
    "list of arrays": list,
    "tensor": _tensor,
    "tensor with grad": lambda m: _tensor(m, requires_grad=True),
    "list of tensors": lambda m: list(_tensor(m, requires_grad=True)),
    "sparse tensor": lambda m: _tensor(m).to_sparse(),
    "csr": sparse.csr_matrix,
    "DataFrame": lambda m: _pandas().DataFrame(m),
    "Series of lists": lambda m: _pandas().Series(m.tolist()),
    "Series of arrays": lambda m: _pandas().Series(list(m)),
    "arrow column": _arrow,
    "polars": _polars,
    "lazy polars": lambda m: _polars(m).lazy(),
    "polars column": lambda m: _polars_library().Series(m.tolist()),
    "polars column of arrays": lambda m: _polars_library().Series(
        m.tolist(), dtype=_polars_library().Array(_polars_library().Float32, m.shape[1])
    ),
    "column of the datasets library": lambda m: _dataset({"v": m.tolist()})["v"],
    "Dataset of one column": lambda m: _dataset({"v": m.tolist()}),
    "Dataset of tensors": lambda m: _dataset({"v": m.tolist()}).with_format("torch")["v"],
    "DataFrame of one column": lambda m: _pandas().DataFrame({"v": m.tolist()}),
    "arrow table": lambda m: _arrow_table({"v": m.tolist()}),
    "objects": lambda m: m.astype(object),
    "embeddings": lambda m: Embeddings(range(len(m)), m),
}


@pytest.mark.parametrize("form", FORMS)
def test_vectors_of_any_kind_give_the_same_numbers(form):
    convert = FORMS[form]
    expected = limner.evaluate(IMAGES, TEXTS, measures="R@1 MedR")
    report = limner.evaluate(convert(IMAGES), convert(TEXTS), measures="R@1 MedR")
    assert str(report) == str(expected)
    assert Embeddings.of(convert(IMAGES)).matrix.tolist() == IMAGES.tolist()
    assert np.array_equal(np.asarray(Scores.from_embeddings(convert(IMAGES), convert(TEXTS))),
                          Scores.from_embeddings(IMAGES, TEXTS).matrix())  # fmt: skip


@pytest.mark.parametrize("kind", ["bfloat16", "float16", "float8_e4m3fn", "int8"])
def test_tensors_of_every_type(kind):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    tensor = torch.tensor([[1.0, 2.0], [0.5, -2.0]] if kind != "int8" else [[1, 2], [3, -2]]).to(getattr(torch, kind))
    assert Embeddings.of(tensor).matrix.tolist() == tensor.float().tolist()


def test_a_tensor_on_a_gpu():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("no GPU here")
    assert Embeddings.of(torch.tensor(IMAGES, device="cuda")).matrix.tolist() == IMAGES.tolist()


NAMED = {
    "DataFrame": lambda columns: _pandas().DataFrame(columns),
    "DataFrame by its index": lambda columns: _pandas().DataFrame(columns).set_index("id"),
    "polars": lambda columns: _polars_library().DataFrame(columns),
    "arrow": lambda columns: _arrow_table(columns),
    "Dataset": lambda columns: _dataset(columns),
    "mapping": lambda columns: dict(zip(columns["id"], columns["vector"], strict=True)),
}


@pytest.mark.parametrize("form", NAMED)
def test_vectors_with_ids_are_matched_by_id(form):
    ids = [f"p{n}" for n in range(10)]
    images = NAMED[form]({"id": ids, "vector": IMAGES.tolist()})
    texts = NAMED[form]({"id": ids[::-1], "vector": TEXTS[::-1].tolist()})
    assert list(Embeddings.of(texts).ids) == ids[::-1]
    assert Embeddings.of(texts).matrix.tolist() == TEXTS[::-1].tolist()
    if form != "mapping":  # which is a run where a system is expected
        assert str(limner.evaluate(images, texts)) == str(limner.evaluate(IMAGES, TEXTS))


def test_tensors_that_hold_no_numbers_are_refused_and_quantised_ones_are_read():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    with pytest.raises(LimnerError, match=r"shape \(3, 4\) on the device 'meta' holds no numbers"):
        Embeddings.of(torch.empty(3, 4, device="meta"))


# --- evaluate -------------------------------------------------------------------------------------------------------


def test_two_aligned_arrays_are_pairs():
    report = limner.evaluate(IMAGES, TEXTS, measures="R@1")
    right = (np.argmax(Scores.from_embeddings(IMAGES, TEXTS).matrix(), axis=1) == np.arange(10)).mean()
    assert report.value("R@1", direction="i2t") == pytest.approx(right)


def test_several_texts_per_image_need_a_word():
    five = np.repeat(IMAGES, 5, axis=0)
    with pytest.raises(LimnerError, match=r"10 vectors of images and 50 of texts.*per_image=5"):
        limner.evaluate(IMAGES, five)
    assert limner.evaluate(IMAGES, five, per_image=5, measures="R@5").value("R@5", direction="t2i") == 1


def test_embeddings_with_the_same_ids_are_matched_by_id():
    ids = [f"p{n}" for n in range(10)]
    turned = Embeddings(ids[::-1], TEXTS[::-1])
    assert str(limner.evaluate(Embeddings(ids, IMAGES), turned)) == str(limner.evaluate(IMAGES, TEXTS))


def test_a_matrix_beside_a_collection_says_how():
    with pytest.raises(LimnerError, match=r"ndarray of shape \(60, 300\).*Scores.from_matrix"):
        limner.evaluate(np.ones((60, 300)), toy_collection())
    with pytest.raises(LimnerError, match="got int: expected Scores, a Ranking"):
        limner.evaluate(3, toy_collection())
    with pytest.raises(LimnerError, match="truth of type int: expected a Collection, Judgements"):
        limner.evaluate(toy_scores(toy_collection()), 3)


def test_a_model_and_an_encoder_are_measured_as_they_are():
    of = toy_collection()
    scores = toy_scores(of)

    class Model:
        def scores(self, collection):
            return scores

    class TwoSidedEncoder:
        def encode_images(self, items):
            return Embeddings(items.ids, np.eye(60) + 0.1)

        def encode_texts(self, items):
            return Embeddings(items.ids, np.repeat(np.eye(60), 5, axis=0) + 0.1)

    assert str(limner.evaluate(Model(), of)) == str(limner.evaluate(scores, of))
    assert limner.evaluate(TwoSidedEncoder(), of, measures="R@1").value("R@1", direction="i2t") == 1


def test_runs_and_judgements_of_other_programs():
    truth = {"q": {"a": 1, "b": 0}, "r": {"c": 2}}
    run = {"q": {"b": 2.0, "a": 3.0}, "r": {"c": 0.5, "a": 0.5}}
    report = limner.evaluate(run, truth, measures="MRR", unretrieved="never")
    assert report.value("MRR", direction="run") == 0.875  # c and a of r share the first two ranks
    assert (
        limner.evaluate({"q": ["a"], "r": ["c"]}, {"q": ["a"], "r": ["c"]}, measures="MRR").value(
            "MRR", direction="run"
        )
        == 1
    )
    with pytest.raises(LimnerError, match="judgements of query 'q' are 3: expected"):
        limner.evaluate(run, {"q": 3})
    with pytest.raises(LimnerError, match="score of candidate 'a' is None: expected a number"):
        limner.evaluate({"q": {"a": None}}, truth)


LISTED = {
    "DataFrame": lambda columns: _pandas().DataFrame(columns),
    "polars": lambda columns: _polars_library().DataFrame(columns),
    "arrow": lambda columns: _arrow_table(columns),
    "Dataset": lambda columns: _dataset(columns),
    "list": lambda columns: list(zip(*columns.values(), strict=True)),
}


@pytest.mark.parametrize("form", LISTED)
def test_runs_and_judgements_as_tables_and_lists(form):
    convert = LISTED[form]
    truth = convert({"query_id": ["q", "q", "r"], "doc_id": ["a", "b", "c"], "relevance": [1, 0, 2]})
    run = convert({"qid": ["q", "q", "r"], "docno": ["b", "a", "c"], "score": [0.9, 0.5, 0.1]})
    report = limner.evaluate(run, truth, measures="MRR", unretrieved="never")
    assert report.value("MRR", direction="run") == 0.75
    pairs = limner.evaluate({"q": ["b", "a"]}, [("q", "a")], measures="MRR", unretrieved="never")
    assert pairs.value("MRR", direction="run") == 0.5
    with pytest.raises(LimnerError, match="the number of candidate 'a' is 'good': expected a grade or a score"):
        limner.evaluate(run, convert({"query": ["q"], "candidate": ["a"], "grade": ["good"]}))


# --- the nouns behave as Python's own -------------------------------------------------------------------------------


def test_a_ranking_is_a_mapping_and_embeddings_are_an_array():
    ranking = Ranking.from_lists({"q": ["b", "a"], "r": ["a"]})
    assert (list(ranking), len(ranking), "q" in ranking) == (["q", "r"], 2, True)
    assert dict(ranking) == {"q": ["b", "a"], "r": ["a"]}
    embeddings = Embeddings("ab", IMAGES[:2])
    assert np.asarray(embeddings).tolist() == IMAGES[:2].tolist()
    assert np.asarray(embeddings, dtype=np.float64).dtype == np.float64
    scores = Scores.from_embeddings(IMAGES, TEXTS)
    assert np.asarray(scores).shape == (10, 10)


def test_a_table_of_pandas_brings_its_ids():
    pandas = _pandas()
    frame = pandas.DataFrame([[1.0, 2.0]], index=["q"], columns=["a", "b"])
    assert Scores.from_matrix(frame).top(1)["q"] == ["b"]
    with pytest.raises(LimnerError, match=r"of type ndarray without ids: expected Scores.from_matrix"):
        Scores.from_matrix(np.ones((1, 2)))


# --- banks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["array", "list", "tensor", "embeddings"])
def test_banks_of_arrays(form):
    scores = Scores.from_embeddings(IMAGES, TEXTS)
    bank = RNG.standard_normal((20, 8)).astype(np.float32), RNG.standard_normal((20, 8)).astype(np.float32)
    named = tuple(Embeddings.of(side) for side in bank)
    expected = scores.correct("csls", bank=named)
    corrected = scores.correct("csls", bank=tuple(FORMS[form](side) for side in bank))
    assert np.array_equal(corrected.matrix(), expected.matrix())
    assert np.array_equal(corrected.T.matrix(), expected.T.matrix())
    assert np.array_equal(scores.correct("csls", bank=FORMS[form](bank[0])).matrix(), expected.matrix())


def test_a_bank_for_a_matrix_is_a_matrix():
    scores = Scores.from_matrix(RNG.random((4, 6)), "abcd", "uvwxyz")
    bank = RNG.random((9, 6))
    expected = scores.correct("csls", bank=Scores.from_matrix(bank, range(9), "uvwxyz"))
    assert np.array_equal(scores.correct("csls", bank=bank.tolist()).matrix(), expected.matrix())
    with pytest.raises(LimnerError, match=r"bank of shape \(9, 5\).*the same 6 candidates"):
        scores.correct("csls", bank=bank[:, :5])


# --- pictures and texts ---------------------------------------------------------------------------------------------


def _pixels(n: int) -> np.ndarray:
    return np.full((6, 8, 3), 20 * n, dtype=np.uint8)


@pytest.fixture
def files(tmp_path):
    paths = []
    for n in range(3):
        Image.fromarray(_pixels(n)).save(tmp_path / f"{n}.png")
        paths.append(tmp_path / f"{n}.png")
    return paths


PICTURES = {
    "paths": lambda files: files,
    "bytes": lambda files: [file.read_bytes() for file in files],
    "BytesIO": lambda files: [io.BytesIO(file.read_bytes()) for file in files],
    "pictures": lambda files: [Image.open(file) for file in files],
    "arrays": lambda files: [_pixels(n) for n in range(3)],
    "one array": lambda files: np.stack([_pixels(n) for n in range(3)]),
    "of the datasets library": lambda files: [{"bytes": file.read_bytes(), "path": None} for file in files],
    "by id": lambda files: {file.name: file for file in files},
}


@pytest.mark.parametrize("form", PICTURES)
def test_pictures_of_any_kind(form, files):
    items = Items.of(PICTURES[form](files))
    assert (items.kind, len(items)) == ("image", 3)
    assert [np.asarray(items.open(row))[0, 0, 0] for row in range(3)] == [0, 20, 40]
    brightness = encoded(lambda pictures: [[float(np.mean(p)) + 1, 1.0] for p in pictures], PICTURES[form](files))
    assert brightness.matrix[:, 0].tolist() == [1, 21, 41]


def test_strings_are_texts_unless_the_encoder_reads_pictures(files):
    assert Items.of(["a dog", "a cat"]).kind == "text" and list(Items.of("a dog")) == ["a dog"]
    assert Items.of(np.array(["a", "b"])).values == ("a", "b")
    assert Items.of(_pandas().Series(["a", "b"], index=[7, 8])).values == ("a", "b")
    assert Items.of([str(file) for file in files], kind="image").open(1).size == (8, 6)
    with pytest.raises(LimnerError, match="row 1 is PosixPath and others are strings"):
        Items.of(["a dog", files[0]])
    with pytest.raises(LimnerError, match="got int: expected texts or images"):
        Items.of(3)
    for table in (_dataset(COLUMNS), _pandas().DataFrame(COLUMNS), _polars_library().DataFrame(COLUMNS)):
        with pytest.raises(LimnerError, match=r"a table of 'image', 'caption'.*expected one column.*limner.load"):
            Items.of(table)


def test_what_is_no_picture_is_refused():
    with pytest.raises(
        LimnerError, match=r"image '0' is a ndarray of shape \(3, 6, 8\) and type float32: expected a path"
    ):
        Items([0], [np.ones((3, 6, 8), dtype=np.float32)])
    with pytest.raises(LimnerError, match="image '0' is a Tensor of shape .*uint8"):
        Items([0], [_tensor(np.ones((3, 6, 8)))])
    with pytest.raises(LimnerError, match="image '0' is a int: expected a path"):
        Items([0], [3])


# --- encoders and functions -----------------------------------------------------------------------------------------


class Letters:
    dim = 3

    def encode(self, items):
        return np.array([[text.count(letter) + 1.0 for letter in "abc"] for text in items])


def letters(texts):
    assert type(texts) is list
    return Letters().encode(texts)


def test_a_function_where_an_encoder_is_expected_and_the_reverse():
    texts = ["abc", "cab", "b"]
    assert np.array_equal(encoded(letters, texts).matrix, encoded(Letters(), texts).matrix)
    assert np.array_equal(encoded(lambda t: _tensor(letters(t), requires_grad=True), texts).matrix, letters(texts))
    world = limner.load("scenes", images=3)
    by_function, _ = limner.papers.text_only.text_only(world, letters)
    by_encoder, _ = limner.papers.text_only.text_only(world, Letters())
    assert np.array_equal(by_function.matrix(), by_encoder.matrix())
    with pytest.raises(LimnerError, match="Letters cannot encode: expected a function"):
        encoded(Letters, texts)
    with pytest.raises(LimnerError, match="int cannot encode"):
        encoded(3, texts)


def test_a_function_where_a_scorer_is_expected():
    def overlap(queries, candidates):
        return _tensor([len(set(q) & set(c)) for q, c in zip(queries, candidates, strict=True)])

    queries, candidates = _pandas().Series(["abc", "xyz"], index=[5, 3]), ("xy", "ab")
    scores = Scores.from_scorer(overlap, queries, candidates)
    assert scores.matrix().tolist() == [[0, 2], [2, 0]]
    first = Scores.from_matrix([[0.9, 0.8]], ["q"], ["a", "b"])
    assert cascade(first, overlap, queries=["b"], candidates=["a", "b"])["q"] == ["b", "a"]
    with pytest.raises(LimnerError, match="int cannot score pairs: expected an object with score_pairs"):
        Scores.from_scorer(3, ["a"], ["b"])


# --- load -----------------------------------------------------------------------------------------------------------

ROWS = [
    {"image": "dog.jpg", "caption": "A dog.", "language": "en"},
    {"image": "dog.jpg", "caption": "It runs.", "language": "en"},
    {"image": "cat.jpg", "caption": "Eine Katze.", "language": "de"},
]
COLUMNS = {name: [row[name] for row in ROWS] for name in ROWS[0]}


def _dataset(columns):
    return pytest.importorskip("datasets", reason="datasets is not installed").Dataset.from_dict(columns)


def _arrow_table(columns):
    import pyarrow as pa

    return pa.table(columns)


TABLES = {
    "rows": lambda: ROWS,
    "columns": lambda: COLUMNS,
    "DataFrame": lambda: _pandas().DataFrame(COLUMNS),
    "polars": lambda: _polars_library().DataFrame(COLUMNS),
    "lazy polars": lambda: _polars_library().DataFrame(COLUMNS).lazy(),
    "streamed Dataset": lambda: _dataset(COLUMNS).to_iterable_dataset(),
    "arrow": lambda: _arrow_table(COLUMNS),
    "Dataset": lambda: _dataset(COLUMNS),
    "generator": lambda: (row for row in ROWS),
}


@pytest.mark.parametrize("form", TABLES)
def test_tables_in_memory(form):
    loaded = limner.load(TABLES[form](), name="mine")
    assert (loaded.name, len(loaded.images), len(loaded.texts)) == ("mine", 2, 3)
    assert list(loaded.texts.field("language")) == ["en", "en", "de"]
    assert list(loaded.texts.ids) == ["dog.jpg#0", "dog.jpg#1", "cat.jpg#0"]


def test_splits_of_a_mapping_of_tables():
    loaded = limner.load(
        {"train": _arrow_table(COLUMNS), "validation": _arrow_table({"image": ["e.jpg"], "caption": ["e"]})}
    )
    assert {name: len(ids) for name, ids in loaded.splits.items()} == {"train": 2, "dev": 1}


def test_pairs_of_pictures_and_captions(files):
    first, second = Image.open(files[0]), Image.open(files[1])
    loaded = limner.load([(first, "black"), (first, "dark"), (second, "grey")])
    assert (len(loaded.images), len(loaded.texts)) == (2, 3)
    assert loaded.images.open(1).getpixel((0, 0)) == (20, 20, 20)
    by_path = limner.load([(files[0], "black"), (str(files[1]), "grey")])
    assert by_path.images.open(1).getpixel((0, 0)) == (20, 20, 20)
    assert limner.load(_pandas().DataFrame({"image": [first, second], "caption": ["a", None]})).warnings


def _saved(folder: Path, columns: dict) -> None:
    """A folder as `Dataset.save_to_disk` writes it."""
    import pyarrow as pa

    folder.mkdir(parents=True)
    table = pa.table(columns)
    with (
        pa.OSFile(str(folder / "data-00000-of-00001.arrow"), "wb") as file,
        pa.ipc.new_stream(file, table.schema) as out,
    ):
        out.write_table(table)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
    (folder / "dataset_info.json").write_text("{}")


def test_a_folder_that_the_datasets_library_saved(tmp_path, files):
    _saved(tmp_path / "one", {**COLUMNS, "image": [{"bytes": file.read_bytes(), "path": None} for file in files]})
    loaded = limner.load(tmp_path / "one")
    assert (len(loaded.images), loaded.images.open(2).getpixel((0, 0))) == (3, (40, 40, 40))
    for split in ("train", "test"):
        _saved(tmp_path / "all" / split, {"image": [f"{split}.jpg"], "caption": [split]})
    (tmp_path / "all" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    assert list(limner.load(str(tmp_path / "all")).test.texts.values) == ["test"]
    (tmp_path / "all" / "dataset_dict.json").write_text('{"splits": ["../one"]}')
    with pytest.raises(LimnerError, match=r"dataset_dict.json: expected"):
        limner.load(tmp_path / "all")
    (tmp_path / "one" / "data-00000-of-00001.arrow").write_bytes(b"not arrow")
    with pytest.raises(LimnerError, match="Arrow file"):
        limner.load(tmp_path / "one")


def test_the_datasets_library_itself(tmp_path, files):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    dataset = datasets.Dataset.from_dict({"image": [str(file) for file in files], "caption": ["a", "b", "c"]})
    dataset = dataset.cast_column("image", datasets.Image()).select([2, 0])
    dataset_dict = datasets.DatasetDict({"train": dataset.select([1]), "test": dataset.select([0])})
    assert limner.load(dataset).images.open(0).getpixel((0, 0)) == (40, 40, 40)
    dataset.save_to_disk(tmp_path / "saved")
    assert limner.load(tmp_path / "saved").images.open(1).getpixel((0, 0)) == (0, 0, 0)
    dataset_dict.save_to_disk(tmp_path / "whole")
    for loaded in (limner.load(dataset_dict), limner.load(tmp_path / "whole")):
        assert (len(loaded.train.images), len(loaded.test.images)) == (1, 1)


def test_written_for_the_datasets_library(tmp_path):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    scenes = limner.load("scenes", images=12)
    lost = limner.datasets.write(scenes, tmp_path / "scenes", form="huggingface")
    assert lost[0] == "further judgements were left out: 'complete'; write each as .qrels"
    assert all("were left out" in sentence for sentence in lost)
    opened = datasets.load_from_disk(tmp_path / "scenes")
    assert set(opened) == set(scenes.splits) and sum(map(len, opened.values())) == len(scenes.images)
    row = opened["test"][0]
    image = scenes.images.ids.positions([row["image_id"]])[0]
    assert row["image"].size == scenes.images.open(int(image)).size
    assert len(row["captions"]) == 5  # the image is stored once
    assert row["captions"] == [scenes.texts.values[n] for n in scenes.texts.ids.positions(row["captions_id"])]
    reloaded = limner.load(tmp_path / "scenes")
    assert reloaded.splits.keys() == scenes.splits.keys()
    assert list(reloaded.test.images.ids) == list(scenes.test.images.ids)
    for loaded in (reloaded, limner.load(opened)):
        assert set(loaded.judgements) == set(scenes.judgements)
        assert dict(zip(loaded.texts.ids, loaded.texts.values, strict=True)) == dict(
            zip(scenes.texts.ids, scenes.texts.values, strict=True)
        )


def test_a_data_set_without_splits_and_pictures_is_written_too(tmp_path, files):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    collection = limner.load([(files[0], "black"), (files[0], "dark"), (files[1], "grey")])
    assert limner.datasets.write(collection, tmp_path / "three", form="huggingface") == ()
    opened = datasets.load_from_disk(tmp_path / "three")
    assert opened["captions"][:] == [["black", "dark"], ["grey"]]
    assert [picture.getpixel((0, 0)) for picture in opened["image"][:]] == [(0, 0, 0), (20, 20, 20)]
    one = limner.load([(files[0], "black"), (files[1], "grey")])
    limner.datasets.write(one, tmp_path / "two", form="huggingface")
    assert datasets.load_from_disk(tmp_path / "two")["caption"][:] == ["black", "grey"]
    bare = limner.Collection("bare", limner.Items(["i"], [None]), limner.Items(["t"], ["a"], kind="text"), PAIR)
    assert limner.datasets.write(bare, tmp_path / "bare", form="huggingface") == (
        "1 images have no picture: only their ids were written",
    )
    assert list(limner.load(tmp_path / "bare").texts.values) == ["a"]
    with pytest.raises(LimnerError, match="is not empty: give a new folder"):
        limner.datasets.write(bare, tmp_path / "bare", form="huggingface")


@pytest.mark.parametrize("name", ["../out", "a/b", "..", "rest"])
def test_a_split_that_cannot_be_a_folder_is_refused(name, tmp_path):
    sides = limner.Items(["i"], [None]), limner.Items(["t"], ["a"], kind="text")
    collection = limner.Collection("bare", *sides, PAIR, splits={name: ["i"]})
    with pytest.raises(LimnerError, match="cannot be the name of a folder, or is taken: rename it"):
        limner.datasets.write(collection, tmp_path / "in" / "bare", form="huggingface")
    assert not list(tmp_path.rglob("*.arrow"))


def test_a_column_of_numbers_and_words_is_written_as_text(tmp_path):
    texts = limner.Items(["t", "u"], ["a", "b"], {"mixed": [1, "one"]}, "text")
    pairs = limner.Judgements.from_pairs([("i", "t"), ("i", "u")])
    collection = limner.Collection("mixed", limner.Items(["i"], [None]), texts, pairs)
    limner.datasets.write(collection, tmp_path / "mixed", form="huggingface")
    assert list(limner.load(tmp_path / "mixed").texts.field("mixed")) == ["1", "one"]


def test_grades_and_fields_of_captions_survive_the_datasets_library(tmp_path):
    pairs = limner.Judgements.from_pairs([("i", "t", 2.0), ("i", "u", 0.0), ("j", "t", 1.0), ("j", "v", 1.0)])
    texts = limner.Items(["t", "u", "v"], ["a", "b", "c"], {"language": ["en", "de", "fr"]}, "text")
    collection = limner.Collection("graded", limner.Items(["i", "j"], [None, None]), texts, pairs)
    limner.datasets.write(collection, tmp_path / "graded", form="huggingface")
    reloaded = limner.load(tmp_path / "graded")
    assert set(reloaded.judgements) == set(pairs) and list(reloaded.texts.field("language")) == ["en", "de", "fr"]
    rows = [{"image": "a.jpg", "captions": ["x", "y"], "captions_id": ["1"]}]
    with pytest.raises(LimnerError, match="expected a list with a value for each of 2 captions"):
        limner.load(rows)


@pytest.mark.parametrize("form", ["huggingface", "beir", "croissant", "tar"])
def test_images_are_counted_while_they_are_written(tmp_path, form):
    world, calls = limner.load("scenes", images=12), []
    path = tmp_path / ("w.tar" if form == "tar" else "w")
    write = limner.datasets.write
    write(world, path, form=None if form == "tar" else form, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(n, 12) for n in range(1, 13)]


PAIR = limner.Judgements.from_pairs([("i", "t")])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (3, "got int: expected the name of a data set, a path, or a table"),
        ([1, 2], "row 0 is .*expected {column: value}, or an"),
        ({"image": ["a"], "caption": []}, "columns of different lengths \\(image: 1, caption: 0\\)"),
        ({"photo": ["a"], "caption": ["b"]}, "no column 'image'.*columns={'image': NAME}"),
        ([], "no rows"),
    ],
)
def test_what_is_no_table_is_refused(source, message):
    with pytest.raises(LimnerError, match=message):
        limner.load(source)


def test_judgements_stay_what_they_are():
    truth = Judgements.from_pairs([("q", "a")])
    assert limner.evaluate(Ranking.from_lists({"q": ["a"]}), truth, measures="R@1").value("R@1", direction="run") == 1


def test_a_matrix_of_similarities_is_what_its_vectors_are():
    rng = np.random.default_rng(0)
    images, texts = (limner.Embeddings.of(rng.standard_normal((n, 6))).normalised().matrix for n in (8, 40))
    by_vectors = limner.evaluate(images, texts, per_image=5, measures="R@1 MedR MAP")
    by_matrix = limner.evaluate(images @ texts.T, per_image=5, measures="R@1 MedR MAP")
    assert [(r.direction, str(r.measure), r.value) for r in by_matrix.results] == [
        (r.direction, str(r.measure), r.value) for r in by_vectors.results
    ]
    assert limner.evaluate(np.eye(3), measures="R@1").value("R@1", direction="i2t") == 1


@pytest.mark.parametrize(
    ("system", "per_image", "message"),
    [
        (np.zeros((40, 8)), 5, "it looks transposed; give matrix.T"),
        (np.zeros((8, 40)), None, "8 images and 40 texts, 1 per image: expected 8 columns"),
        ({"q": ["a"]}, None, "got dict alone: expected evaluate"),
        ("captions.csv", None, "got str alone"),
    ],
)
def test_a_system_alone_that_is_no_matrix_in_order(system, per_image, message):
    with pytest.raises(LimnerError, match=message):
        limner.evaluate(system, per_image=per_image)
