"""Input that is hostile rather than mistaken: one line, status 3 (or 2), nothing printed raw, nothing waited for."""

# ruff: noqa: F811  (the fixture `folder` is imported)

from __future__ import annotations

import gzip
import io
import json
import os
import sqlite3
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hostile import IMAGES, PER_IMAGE, folder, limner_process, refused, shell  # noqa: F401

import limner
from limner import LimnerError
from limner.cli.shell import Status
from limner.core import paths
from limner.datasets.runs import read_run

EMBEDDINGS = ("evaluate", "captions.csv", "--images", "I.npy", "--texts", "T.npy", "--measures", "R@1")


# --- JSON -------------------------------------------------------------------------------------------------------

DEEP = "[" * 100_000
NESTED = '{"a":' * 300 + "1" + "}" * 300
HUGE = "1" + "0" * 5000
HALF = '"\\ud800"'


HARM = {"deep": DEEP, "nested": NESTED, "huge": HUGE, "half": HALF, "cut": '{"a": NaN', "zero": "\x00", "open": "{"}
EXPLAIN = ("explain", "failures", "captions.csv", "--images", "I.npy", "--texts", "T.npy", "--objects", "objects.json")


@pytest.mark.parametrize("text", HARM.values(), ids=HARM)
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("r.json", ("compare", "r.json", "r.json")),
        ("r.json", ("report", "r.json")),
        ("r.json", ("compare", "--show", "board", "r.json")),
        ("r.json", ("explain", "probe", "r.json")),
        ("r/a__b/T.json", ("compare", "--show", "board", "r")),
        ("t.jsonl", ("data", "describe", "t.jsonl")),
        ("dataset_x.json", ("data", "describe", "karpathy:dataset_x.json")),
        ("captions_x.json", ("data", "describe", "coco:captions_x.json")),
        ("a.json", ("evaluate", "captions.csv", "--run", "a.json", "--measures", "R@1")),
        ("m/config.json", ("evaluate", "captions.csv", "--model", "m")),
        ("a.jsonl", ("annotate", "import", "none.db", "a.jsonl")),
        ("objects.json", EXPLAIN),
    ],
)
def test_json_that_does_harm(folder, text, name, words):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    refused(shell(*words))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (DEEP, "nested too deeply"),
        ("[" * 150 + "]" * 150, "nested more than 100 deep"),
        (HUGE, "cannot be read as JSON: Exceeds the limit"),
        (HALF, "contains a lone surrogate"),
        ('{"a": "\\ud83d\\ude00", "b": "\\ud800"}', "contains a lone surrogate"),
        ("{]", "is not JSON: .* at line 1, column 2"),
    ],
)
def test_what_is_said_of_json(text, message):
    with pytest.raises(LimnerError, match=message):
        paths.parse_json(text, where="x.json")


def test_good_json_passes():
    text = '{"smile": "\\ud83d\\ude00", "list": ' + "[" * 90 + "]" * 90 + "}"
    assert paths.parse_json(text, where="x")["smile"] == "\N{GRINNING FACE}"
    wide = json.dumps([[{"a": [n]}] for n in range(1000)])
    assert len(paths.parse_json(wide, where="x")) == 1000


# --- TOML, options and indexes of nested values -----------------------------------------------------------------

DOTTED = ".".join(["a"] * 2_000)
TOML = {
    "dotted": f"{DOTTED} = 1",
    "dotted table": f"[{DOTTED}]",
    "inline": "a = " + "{a = " * 300 + "1" + "}" * 300,
    "list": "a = " + "[" * 100_000,
    "huge": f"a = {HUGE}",
    "infinite": "a = inf",
    "large": "a = 1e300",
}


@pytest.mark.parametrize("text", TOML.values(), ids=TOML)
@pytest.mark.parametrize("name", ["question", "guideline", "reasons", "grades", "a"])
def test_toml_of_a_scale_that_does_harm(tmp_path, text, name):
    pytest.importorskip("sqlalchemy")
    from limner.annotate.form_files import read_scale

    (tmp_path / "scale.toml").write_text(text.replace("a", name, 1))
    with pytest.raises(LimnerError, match=r"scale\.toml"):
        read_scale(tmp_path / "scale.toml")


@pytest.mark.parametrize("text", TOML.values(), ids=TOML)
@pytest.mark.parametrize("name", ["dimensions", "ridge", "descriptions", "a"])
def test_toml_of_options_that_does_harm(folder, text, name):
    (folder / "options.toml").write_text(text.replace("a", name, 1))
    refused(shell("train", "histograms", "scenes", "-O", "images=10", "-o", "m", "--config", "options.toml"))


FEW = ("scenes", "-O", "images=10")
NESTS = {"list": "[" * 900 + "]" * 900, "deep": DEEP, "object": NESTED, "huge": HUGE, "half": HALF}


@pytest.mark.parametrize("text", NESTS.values(), ids=NESTS)
@pytest.mark.parametrize(
    "words",
    [
        ("data", "describe", "scenes", "-O", "images=NEST"),
        ("train", "histograms", *FEW, "-o", "m", "-O", "dimensions=NEST"),
        ("evaluate", *FEW, "--model", "histograms(dimensions=NEST)"),
        ("evaluate", *FEW, "--model", "histograms(descriptions=NEST)"),
        ("evaluate", *FEW, "--model", "histograms", "--correct", "csls(k=NEST)"),
        ("encode", "photos", "--model", "histograms(names=NEST)", "-o", "v.npy"),
    ],
)
def test_options_that_do_harm(folder, text, words):
    refused(shell(*(word.replace("NEST", text) for word in words)))


@pytest.mark.parametrize("depth", [50, 2_000])
def test_names_of_names_of_names(folder, depth):
    nest = "aligned(images=" * depth + "histograms" + ", texts=minilm)" * depth
    refused(shell("evaluate", "scenes", "-O", "images=10", "--model", nest))


def test_a_folder_with_a_nested_description_is_no_model_whose_files_are_replaced(folder):
    (folder / "m").mkdir()
    (folder / "m" / "config.json").write_text(DEEP)
    (folder / "m" / "weights.svg").write_text("mine")
    assert shell("train", "histograms", "scenes", "-O", "images=10", "-o", "m").exit_code == 0
    assert (folder / "m" / "weights.svg").read_text() == "mine"


@pytest.mark.parametrize("text", [DEEP, NESTED], ids=["deep", "nested"])
def test_notes_of_an_index_that_do_harm(folder, text):
    pytest.importorskip("lancedb")
    index = limner.search.index("i", embeddings=limner.Embeddings.load("T.npy"))
    index.store.table.update_field_metadata({"path": "vector", "metadata": {"limner": text}})
    vector = limner.Embeddings.load("T.npy").matrix[:1]
    np.save("q.npy", vector)
    refused(shell("search", "i", "--queries", "q.npy"), "i")


# --- tables and arrays ------------------------------------------------------------------------------------------


def parquet(path, **columns):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path)


@pytest.mark.parametrize(
    "columns",
    [
        {"image": [1, 2], "caption": [3, 4]},
        {"image": [["a"], ["b"]], "caption": ["x", "y"]},
        {"image": [{"path": 3, "bytes": b"x"}] * 2, "caption": ["x", "y"]},
        {"image": ["a", "b"], "caption": [b"x", b"y"]},
        {"image": ["a", "b"], "captions": [{"x": 1}, {"x": 2}]},
        {"image": ["a", "b"], "caption": ["x", "y"], "grade": [["1"], ["2"]]},
        {"image": ["a", "b"], "caption": ["x", "y"], "grade": [float("inf"), 1.0]},
    ],
)
def test_parquet_tables_of_other_types(folder, columns):
    parquet("t.parquet", **columns)
    refused(shell("data", "describe", "t.parquet"), "t.parquet")


@pytest.mark.parametrize(
    "column", [[1.0, 2.0], ["a", "b"], [[["a"]], [["b"]]], [["a"], ["b"]], [[None], [1.0]], [[], []], [{"a": 1}] * 2]
)
def test_parquet_embeddings_of_other_types(folder, column):
    parquet("e.parquet", id=["a", "b"], embedding=column)
    with pytest.raises(LimnerError, match=r"e.parquet"):
        limner.Embeddings.load("e.parquet")


def test_ids_that_are_not_utf8(folder):
    (folder / "I.ids.txt").write_bytes(b"caf\xe9\nb\nc\nd\ne\nf\n")
    refused(shell(*EMBEDDINGS), "I.ids.txt", "not UTF-8", "byte 0xe9 at 3")
    refused(shell(*EMBEDDINGS, "--ids", "I.ids.txt"), "I.ids.txt", "not UTF-8")
    (folder / "a.run").write_bytes(b"caf\xe9 Q0 t 1 0.5 x\n")
    refused(shell("evaluate", "a.qrels", "--run", "a.run", "--measures", "R@1"), "a.run, line 1", "not UTF-8")


def test_half_characters_in_ids_are_refused_everywhere(folder):
    with pytest.raises(LimnerError, match=r"'a\\udce9' in row 1 is not valid Unicode"):
        limner.Ids(["b", "a\udce9"])
    np.savez("e.npz", ids=np.array(["a\udce9"]), embeddings=np.ones((1, 2), np.float32))
    with pytest.raises(LimnerError, match="not valid Unicode"):
        limner.Embeddings.load("e.npz")


@pytest.mark.skipif(sys.platform == "darwin", reason="no such file names there")
def test_a_folder_with_file_names_that_are_not_utf8(folder):
    photos = folder / "photos"
    photos.mkdir()
    Path(os.fsdecode(os.fsencode(photos) + b"/caf\xe9.png")).write_bytes(b"x")
    refused(shell("encode", "photos", "--model", "histograms:x", "-o", "o.npy"), r"caf\\xe9.png", "rename")


@pytest.mark.parametrize("shape", [(0, 4), (6, 0), (0, 0), (0,), (3,), ()])
def test_empty_embeddings_are_refused(folder, shape):
    np.save("I.npy", np.ones(shape, np.float32))
    refused(shell(*EMBEDDINGS), "I.npy")
    np.save("T.npy", np.ones(shape, np.float32))
    words = ("evaluate", "per-image:1", "--images", "I.npy", "--texts", "T.npy", "--measures", "R@1")
    refused(shell(*words), ".npy")
    refused(shell("evaluate", "per-image:1", "--scores", "I.npy", "--measures", "R@1"), "I.npy")


def test_a_header_of_many_columns_is_read_in_time(folder):
    names = ["image", "caption", *(f"c{n}" for n in range(80_000))]
    (folder / "wide.csv").write_text(",".join(names) + "\n" + ",".join("x" for _ in names) + "\n")
    began = time.process_time()
    assert len(limner.load("wide.csv").texts.fields) == 80_000
    assert time.process_time() - began < 30  # 250 seconds while names were compared one by one
    (folder / "wide.csv").write_text(",".join([*names, "c7"]) + "\n")
    refused(shell("data", "describe", "wide.csv"), "'c7' is named twice")


def test_long_captions_are_captions(folder):
    long = "a dog " * 100_000
    (folder / "long.csv").write_text(f'image,caption\na.jpg,"{long}"\n')
    assert limner.load("long.csv").texts.values == (long,)
    (folder / "open.csv").write_text('image,caption\na.jpg,"' + ("x" * 999 + "\n") * 18_000)
    refused(shell("data", "describe", "open.csv"), "line 2", "is a quote unclosed?")


@pytest.mark.parametrize("encoding", ["abc", "rot13", "base64", "\x00", "utf-8\x00"])
def test_an_encoding_that_is_none(folder, encoding):
    refused(shell("data", "describe", "captions.csv", "-O", f"encoding={encoding}"), "encoding")


# --- options ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("data", "describe", "scenes", "-O", "images=abc"), "images='abc' is str: expected int"),
        (("data", "describe", "scenes", "-O", "images=[1]"), "expected int"),
        (("data", "describe", "scenes", "-O", "images=1.5"), "expected int"),
        (("data", "describe", "scenes", "-O", "images=-5"), "images"),
        (("data", "describe", "scenes", "-O", "seed=null"), "expected int"),
        (("data", "describe", "scenes", "-O", f"images={10**30}"), "images"),
        (("data", "describe", "captions.csv", "-O", "images=3"), "expected str or Path or nothing"),
        (("data", "describe", "captions.csv", "-O", "quoted=maybe"), "expected true or false"),
        (("data", "describe", "captions.csv", "-O", 'columns={"image": 3}'), "expected str"),
        (("data", "describe", "captions.csv", "-O", "columns=[1]"), "expected dict or str or nothing"),
        (("data", "describe", ":::"), "unknown data set ':::'"),
        (("evaluate", ":::", "--model", "colours"), "unknown data set ':::'"),
        (("evaluate", "captions.csv", "--model", ":::"), "unknown system ':::'"),
        (("train", ":::", "captions.csv", "-o", "m"), "unknown system ':::'"),
        (("encode", "captions.csv", "--model", ":::", "-o", "o.npy"), "unknown encoder ':::'"),
        ((*EMBEDDINGS[:-1], "R@99999999999999999999"), "R@9999"),
        ((*EMBEDDINGS[:-1], "R@" + "9" * 5000), "R@9999"),
        (
            ("train", "histograms", "captions.csv", "-O", "dimensions=abc", "-o", "m"),
            "dimensions='abc' is str: expected int",
        ),
        (("train", "kcca", "captions.csv", "-O", 'kappas=["a"]', "-o", "m"), "expected float"),
        (
            ("encode", "captions.csv", "--model", "minilm", "-O", "tokens_per_batch=many", "-o", "o.npy"),
            "expected int",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value)[:60],
)
def test_options_of_another_type(folder, words, part):
    refused(shell(*words), part)


# --- weights ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04", b"\x80\x02garbage", b"x" * 1000])
@pytest.mark.parametrize("ending", [".pth", ".safetensors"])
def test_damaged_weights(folder, damage, ending):
    pytest.importorskip("efficientnet_lite_pytorch")
    (folder / f"w{ending}").write_bytes(damage)
    (folder / "photos").mkdir()
    limner.load("scenes", images=1).images.open(0).save(folder / "photos" / "a.png")
    words = ("encode", "photos", "--model", "efficientnet-lite", "-O", f"weights=w{ending}", "-o", "o.npy")
    refused(shell(*words), f"w{ending}")


# --- what unpacks to gigabytes ------------------------------------------------------------------------------------


def test_archives_that_unpack_out_of_all_proportion(folder):
    with zipfile.ZipFile("e.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        head = io.BytesIO()
        np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": (50_000, 1000)})
        with archive.open("embeddings.npy", "w", force_zip64=True) as file:
            file.write(head.getvalue())
            for _ in range(200):
                file.write(bytes(1_000_000))
    with pytest.raises(LimnerError, match="more than 250 times its size"):
        limner.Embeddings.load("e.npz")
    with gzip.open("t.csv.gz", "wb") as file:
        file.write(b"image,caption\n")
        for _ in range(30):
            file.write((b"a.jpg," + b"x" * 1000 + b"\n") * 1000)
    refused(shell("data", "describe", "t.csv.gz"), "t.csv.gz", "more than 250 times its size")
    with gzip.open("t.csv.gz", "wb") as file:
        file.write(b"x" * 20_000_000)
    refused(shell("data", "describe", "t.csv.gz"), "t.csv.gz")


def test_parquet_files_that_unpack_out_of_all_proportion(folder):
    """A dictionary and run lengths store a repeated value once: what counts is what is decoded."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    repeated = pa.DictionaryArray.from_arrays(pa.array(np.zeros(3_000_000, np.int32)), pa.array(["x" * 20_000]))
    pq.write_table(pa.table({"image": repeated, "caption": repeated}), "t.parquet")
    assert Path("t.parquet").stat().st_size < 20_000
    refused(shell("data", "describe", "t.parquet"), "t.parquet", "more than 250 times its size")
    Path("metadata").mkdir()
    Path("t.parquet").rename("metadata/metadata_0.parquet")
    Path("img_emb").mkdir()
    np.save("img_emb/img_emb_0.npy", np.ones((2, 2), np.float32))
    refused(shell("data", "describe", "clip-retrieval:."), "metadata_0.parquet", "more than 250 times its size")
    zeros = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(20_000_000, np.float32)), 500)
    one_row = pa.ListArray.from_arrays(
        pa.array([0, 20_000_000], pa.int32()), pa.array(np.zeros(20_000_000, np.float32))
    )
    texts = pa.ListArray.from_arrays(pa.array([0, 100_000], pa.int32()), pa.array(["x" * 1000] * 100_000))
    for column in (zeros, one_row, texts):
        pq.write_table(pa.table({"embedding": column}), "e.parquet", compression="zstd")
        with pytest.raises(LimnerError, match=r"e.parquet.*more than 250 times its size"):
            limner.Embeddings.load("e.parquet")
    deltas = {"image": "DELTA_BYTE_ARRAY", "caption": "PLAIN"}
    alike = pa.table({"image": ["x" * 5000] * 20_000, "caption": ["a"] * 20_000})
    pq.write_table(alike, "d.parquet", use_dictionary=False, column_encoding=deltas)
    refused(shell("data", "describe", "d.parquet"), "d.parquet", "more than 250 times its size")


@pytest.mark.parametrize("writing", [{}, {"use_dictionary": False}, {"row_group_size": 7}, {"compression": "zstd"}])
def test_parquet_batches_are_the_rows_of_pyarrow(folder, writing):
    from limner.core.arrow_tables import parquet_batches

    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(0)
    words = [None if n % 5 == 0 else f"word {n % 3}" for n in range(2500)]
    table = pa.table({
        "a": words, "b": rng.integers(0, 9, 2500), "c": [[w] * (n % 3) if w else None for n, w in enumerate(words)],
        "d": [{"bytes": (w or "").encode(), "path": w} for w in words], "e": [n % 2 == 0 for n in range(2500)],
        "f": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(5000)), 2),
    })  # fmt: skip
    pq.write_table(table, "t.parquet", **writing)
    assert [row for batch in parquet_batches("t.parquet") for row in batch.to_pylist()] == table.to_pylist()
    chosen = [row for batch in parquet_batches("t.parquet", columns=["d", "a", "z"]) for row in batch.to_pylist()]
    assert chosen == table.select(["a", "d"]).to_pylist()


def test_a_run_whose_table_would_not_fit(folder):
    """One long list and many short ones: as a table of queries by places, 36 billion cells."""
    with open("a.run", "w") as file:
        file.writelines(f"q0 Q0 c{n} 1 {1e6 - n} x\n" for n in range(60_000))
        file.writelines(f"q{n} Q0 c0 1 1 x\n" for n in range(1, 600_000))
    with pytest.raises(LimnerError, match="a.run.*as a table"):
        read_run("a.run")


# --- SQLite -----------------------------------------------------------------------------------------------------


@pytest.fixture
def store(folder):
    pytest.importorskip("sqlalchemy")
    done = shell("annotate", "pool", "work.db", "scenes", "-O", "images=20", "--model", "colours")
    assert done.exit_code == 0, done.output
    assert shell("annotate", "tasks", "work.db", "-O", "negatives=0").exit_code == 0
    with sqlite3.connect("work.db") as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return folder / "work.db"


COMMANDS = [
    ("status", "work.db"),
    ("tasks", "work.db"),
    ("estimate", "work.db"),
    ("merge", "work.db"),
    ("study", "bias", "work.db"),
    ("export", "work.db", "out.csv"),
    ("people", "review", "work.db"),
]


@pytest.mark.parametrize("damage", ["zeros", "noise", "cut", "text", "empty"])
def test_damaged_stores(store, damage):
    good = store.read_bytes()
    rng = np.random.default_rng(0)
    half = len(good) // 2
    bad = {
        "zeros": good[:4096] + bytes(len(good) - 4096),
        "noise": good[:4096] + rng.bytes(len(good) - 4096),
        "cut": good[: half - half % 4096 + 100],
        "text": b"hello " * 1000,
        "empty": b"SQLite format 3\0",
    }[damage]
    for words in COMMANDS:
        store.write_bytes(bad)
        refused(shell("annotate", *words), "work.db")


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE setting SET value = '{'",
        "UPDATE setting SET value = '[[1]]'",
        "UPDATE setting SET value = '" + "[" * 5000 + "'",
        "DROP TABLE proposal",
        "UPDATE image SET key = x'ff00fe'",
        "UPDATE caption SET key = NULL",
        "UPDATE alembic_version SET version_num = 'x'",
    ],
)
def test_stores_with_other_contents(store, change):
    with sqlite3.connect(store) as connection:
        try:
            connection.execute("PRAGMA foreign_keys=OFF")
            connection.execute("PRAGMA ignore_check_constraints=ON")
            connection.execute(change)
        except sqlite3.IntegrityError:
            pytest.skip("SQLite itself refuses this")
    connection.close()
    for words in COMMANDS:
        done = shell("annotate", *words)
        assert done.exit_code in (Status.DONE, Status.INPUT), (words, done.output)
