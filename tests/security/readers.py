"""Every reader of files: good files of its kind, how they are spoilt, and what reads them."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import mutations as spoil
import numpy as np

import limner
from limner.datasets.runs import read_run
from limner.datasets.trec import read_qrels

Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Reader:
    """A reader.

    Args:
        seeds: Makes good files, by name; a name with a slash lies in a folder.
        spoiled: How the files whose names end so are spoilt; the others stay as they are.
        read: Reads what lies in a folder.
        share: How many of all inputs it gets, relative to the others.
    """

    seeds: Callable[[], Files]
    spoiled: Mapping[str, spoil.Spoil]
    read: Callable[[Path], Any]
    share: float = 1.0

    def written(self, folder: Path, number: int) -> None:
        """Writes the input of a number into a folder: the same whenever it is asked for."""
        rng = random.Random(number)
        files = self.seeds()
        fit = sorted(name for name in files if any(name.endswith(ending) for ending in self.spoiled))
        chosen = rng.choice(fit)
        for name, data in files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            change = next((spoil for ending, spoil in self.spoiled.items() if name.endswith(ending)), None)
            target.write_bytes(change(rng, data) if change and name == chosen else data)


def seeds(make: Callable[[], Files]) -> Callable[[], Files]:
    """Good files, made once."""
    return cache(make)


# --- data sets --------------------------------------------------------------------------------------------------

PROCESSOR = {
    "size": {"shortest_edge": 8}, "resample": 3, "do_center_crop": True, "crop_size": 8, "rescale_factor": 0.004,
    "image_mean": [0.5, 0.5, 0.5], "image_std": [0.2, 0.2, 0.2],
}  # fmt: skip


def _prepared(folder: Path) -> Any:
    from PIL import Image

    from limner.encoders.preprocessing import Preprocessing

    return Preprocessing.of(folder)(Image.new("RGB", (12, 9)))


ROWS = [("a.jpg", "A dog runs.", "0", "train", "en", "1"), ("a.jpg", 'It says "hi", twice.', "1", "train", "de", "0.5"),
        ("b.jpg", "Zwei Hunde → 犬", "2", "test", "de", "2"), ("c.jpg", "", "3", "dev", "", "")]  # fmt: skip
HEAD = ("image", "caption", "id", "split", "language", "grade")


def _csv(mark: str) -> bytes:
    out = io.StringIO()
    csv.writer(out, delimiter=mark, lineterminator="\n").writerows([HEAD, *ROWS])
    return out.getvalue().encode()


def _jsonl() -> bytes:
    rows = [dict(zip(HEAD, row, strict=True)) | {"grade": 1, "image_tags": ["x"]} for row in ROWS]
    rows.append({"image": "d.jpg", "captions": ["one", "two"]})
    return "\n".join(json.dumps(row) for row in rows).encode()


def _parquet_table() -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = io.BytesIO()
    columns = {name: [row[n] for row in ROWS] for n, name in enumerate(HEAD[:4])}
    pq.write_table(pa.table({**columns, "grade": [1.0, 0.5, 2.0, 1.0]}), out)
    return out.getvalue()


def _karpathy() -> bytes:
    sentences = [{"raw": "A dog.", "sentid": 0, "tokens": ["a", "dog"]}, {"raw": "Cats.", "sentid": 1}]
    images = [{"filename": "a.jpg", "split": "train", "sentences": sentences, "filepath": "x", "cocoid": 7}]
    images.append({"filename": "b.jpg", "split": "restval", "sentences": [{"raw": "Sea", "sentid": 2}]})
    return json.dumps({"dataset": "flickr8k", "images": images}).encode()


def _coco(part: str) -> bytes:
    images = [{"id": 7, "file_name": "a.jpg", "width": 4, "height": 3}, {"id": 8, "file_name": "b.jpg"}]
    if part == "captions":
        annotations: list[Any] = [{"id": n, "image_id": 7 + n % 2, "caption": f"Words {n}."} for n in range(4)]
        return json.dumps({"images": images, "annotations": annotations}).encode()
    annotations = [{"id": 1, "image_id": 7, "category_id": 2, "bbox": [1, 1, 2, 2], "area": 4.0}]
    content = {"images": images, "annotations": annotations, "categories": [{"id": 2, "name": "dog"}]}
    return json.dumps(content).encode()


def _field(name: str) -> dict[str, Any]:
    return {"@id": f"pairs/{name}", "source": {"fileObject": {"@id": "t"}, "extract": {"column": name}}}


CROISSANT = {
    "name": "theirs",
    "distribution": [{"@id": "t", "contentUrl": "t.csv", "sha256": "0" * 64}, {"@id": "p", "includes": "photos/*.png"}],
    "recordSet": [
        {"@id": "pairs", "field": [_field(name) for name in ("image", "caption", "split", "grade")]},
        {"@id": "splits", "field": [{"@id": "splits/name"}], "data": [{"splits/name": "train"}]},
    ],
}


def loaded(name: str, **options: Any) -> Callable[[Path], Any]:
    """Reads a data set and looks at all of it."""

    def read(folder: Path) -> Any:
        collection = limner.load(f"{name}" if not name else name.format(folder), **options)
        return collection.describe(), list(collection.judgements)[:3], [collection.splits], collection.warnings

    return read


WIT = (
    b"language\tpage_url\timage_url\tpage_title\tsection_title\thierarchical_section_title\tcaption_reference_description"
    b"\tcaption_attribution_description\tcaption_alt_text_description\tmime_type\toriginal_height\toriginal_width"
    b"\tis_main_image\tattribution_passes_lang_id\tpage_changed_recently\tcontext_page_description\tcontext_section_description\n"
    b"en\thttp://a\thttp://x/a.jpg\tDogs\t\t\tA dog\tA dog runs\t\timage/jpeg\t3\t4\ttrue\ttrue\tfalse\tof dogs\tx\n"
    b"de\thttp://b\thttp://x/b.jpg\tHunde\t\t\tEin Hund\t\t\timage/jpeg\t3\t4\ttrue\ttrue\tfalse\t\t\n"
)
FLICKR = {
    "text/Flickr8k.token.txt": b"".join(f"{i}.jpg#{n}\tA dog {n} .\n".encode() for i in "ab" for n in range(5)),
    "text/Flickr_8k.trainImages.txt": b"a.jpg\n",
    "text/Flickr_8k.testImages.txt": b"b.jpg\n",
    "text/ExpertAnnotations.txt": b"a.jpg\tb.jpg#2\t1\t2\t4\nb.jpg\ta.jpg#0\t1\t1\t1\n",
    "text/CrowdFlowerAnnotations.txt": b"a.jpg\tb.jpg#2\t0.5\t1\t1\n",
}


@seeds
def _shard() -> Files:
    import tarfile

    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in {
            "1.png": picture("PNG"),
            "1.txt": b"a dog",
            "1.json": b'{"captions": ["a dog", "dog"]}',
        }.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return {"x.tar": out.getvalue()}


DATASETS = {
    "image processor": Reader(
        seeds(lambda: {"preprocessor_config.json": json.dumps(PROCESSOR).encode()}), {"": spoil.of_json}, _prepared, 2
    ),
    "webdataset": Reader(_shard, {"": spoil.of_bytes}, loaded("{}/x.tar", check_images=True), 3),
    "csv": Reader(seeds(lambda: {"t.csv": _csv(",")}), {"": spoil.of_text}, loaded("{}/t.csv"), 6),
    "tsv": Reader(seeds(lambda: {"t.tsv": _csv("\t")}), {"": spoil.of_text}, loaded("{}/t.tsv"), 4),
    "csv.gz": Reader(
        seeds(lambda: {"t.csv.gz": gzip.compress(_csv(","), 1)}), {"": spoil.of_gzip}, loaded("{}/t.csv.gz"), 3
    ),
    "jsonl": Reader(seeds(lambda: {"t.jsonl": _jsonl()}), {"": spoil.of_json_lines}, loaded("{}/t.jsonl"), 6),
    "parquet table": Reader(
        seeds(lambda: {"t.parquet": _parquet_table()}), {"": spoil.of_bytes}, loaded("{}/t.parquet"), 6
    ),
    "folder": Reader(
        seeds(
            lambda: {
                "p/captions.csv": b"image,caption\na.png,A dog\nb.png,A cat\n",
                "p/a.png": picture("PNG"),
                "p/b.png": b"x",
            }
        ),
        {".csv": spoil.of_text, ".png": spoil.of_bytes},
        loaded("{}/p", check_images=True),
        4,
    ),
    "karpathy": Reader(seeds(lambda: {"dataset_x.json": _karpathy()}), {"": spoil.of_json}, loaded("karpathy:{}"), 5),
    "precomp": Reader(
        seeds(lambda: {"test_caps.txt": b"one\ntwo\nthree\nfour\nfive\n" * 2, "test_ids.txt": b"7\n8\n"}),
        {"": spoil.of_text},
        loaded("precomp:{}"),
        2,
    ),
    "coco": Reader(
        seeds(lambda: {"captions_x.json": _coco("captions"), "instances_x.json": _coco("instances")}),
        {"": spoil.of_json},
        loaded("coco:{}", objects=True),
        5,
    ),
    "flickr8k": Reader(seeds(lambda: FLICKR), {"": spoil.of_text}, loaded("flickr8k:{}"), 4),
    "flickr30k": Reader(
        seeds(lambda: {"results_20130124.token": FLICKR["text/Flickr8k.token.txt"]}),
        {"": spoil.of_text},
        loaded("flickr30k:{}"),
        2,
    ),
    "multi30k": Reader(
        seeds(lambda: {"train.en": b"a dog\ntwo\n", "train.de": b"ein Hund\nzwei\n", "train.txt": b"a.jpg\nb.jpg\n"}),
        {"": spoil.of_text},
        loaded("multi30k:{}"),
        2,
    ),
    "beir": Reader(
        seeds(
            lambda: {
                "corpus.jsonl": b'{"_id": "a", "image": "a.jpg"}\n{"_id": "b", "title": "t", "text": "x"}\n',
                "queries.jsonl": b'{"_id": "1", "text": "a dog"}\n{"_id": "2", "text": "two"}\n',
                "qrels/test.tsv": b"query-id\tcorpus-id\tscore\n1\ta\t1\n2\tb\t2\n",
            }
        ),
        {".jsonl": spoil.of_json_lines, ".tsv": spoil.of_text},
        loaded("beir:{}"),
        4,
    ),
    "clip-retrieval": Reader(
        seeds(lambda: {"metadata/metadata_0.parquet": _parquet_table()}),
        {"": spoil.of_bytes},
        loaded("clip-retrieval:{}"),
        2,
    ),
    "croissant": Reader(
        seeds(lambda: {"croissant.json": json.dumps(CROISSANT).encode(), "t.csv": _csv(",")}),
        {".json": spoil.of_json, ".csv": spoil.of_text},
        loaded("croissant:{}"),
        4,
    ),
    "xtd10": Reader(
        seeds(
            lambda: {
                "XTD10/test_1kcaptions_de.txt": b"ein Hund\nzwei\n",
                "MIC/test_1kcaptions_en.txt": b"a dog\ntwo\n",
                "XTD10/test_image_names.txt": b"a.jpg\nb.jpg\n",
            }
        ),
        {"": spoil.of_text},
        loaded("xtd10:{}"),
        2,
    ),
    "crossmodal-3600": Reader(
        seeds(
            lambda: {"captions.jsonl": b'{"image/key": "a", "image/locale": "de", "en": {"caption": ["x", "y"]}}\n' * 1}
        ),
        {"": spoil.of_json_lines},
        loaded("crossmodal-3600:{}"),
        2,
    ),
    "wit": Reader(seeds(lambda: {"wit_v1.train.tsv": WIT}), {"": spoil.of_text}, loaded("wit:{}"), 3),
    "qrels": Reader(
        seeds(lambda: {"a.qrels": b"".join(f"q{n % 3} 0 c{n} {n % 3}\n".encode() for n in range(9))}),
        {"": spoil.of_text},
        loaded("qrels:{}/a.qrels"),
        5,
    ),
}


# --- pictures ---------------------------------------------------------------------------------------------------


@cache
def picture(form: str, mode: str = "RGB") -> bytes:
    """A small picture with an EXIF block."""
    from PIL import Image

    out = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.effect_noise((24, 16), 80).convert(mode).save(out, form, **({} if form in ("BMP", "GIF") else {"exif": exif}))
    return out.getvalue()


def _animated() -> bytes:
    from PIL import Image

    out = io.BytesIO()
    frames = [Image.effect_noise((16, 12), n * 40).convert("P") for n in (1, 2)]
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:], transparency=0)
    return out.getvalue()


def opened(folder: Path) -> Any:
    """Opens every picture, whole and small."""
    from limner.core.images import open_image

    for file in folder.iterdir():
        open_image(file.read_bytes(), name=file.name, side=8)
        open_image(file, name=file.name)


def _picture_reader(name: str, data: Callable[[], bytes], share: float) -> Reader:
    change = spoil.of_png if name.endswith(".png") else spoil.of_bytes
    return Reader(seeds(lambda: {name: data()}), {"": change}, opened, share)


PICTURES = {
    "jpeg": _picture_reader("a.jpg", lambda: picture("JPEG"), 8),
    "jpeg cmyk": _picture_reader("a.jpg", lambda: picture("JPEG", "CMYK"), 3),
    "png": _picture_reader("a.png", lambda: picture("PNG", "RGBA"), 8),
    "png palette": _picture_reader("a.png", lambda: picture("PNG", "P"), 3),
    "webp": _picture_reader("a.webp", lambda: picture("WEBP"), 6),
    "gif": _picture_reader("a.gif", _animated, 6),
    "bmp": _picture_reader("a.bmp", lambda: picture("BMP"), 4),
}


# --- vectors, scores, rankings, reports -------------------------------------------------------------------------


def _saved(name: str) -> Callable[[], Files]:
    def make() -> Files:
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            rows = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
            limner.Embeddings([f"id{n}" for n in range(5)], rows).save(Path(folder) / name)
            return {file.name: file.read_bytes() for file in Path(folder).iterdir()}

    return seeds(make)


def _embedded(name: str) -> Callable[[Path], Any]:
    return lambda folder: limner.Embeddings.load(folder / name).normalised().matrix.sum()


def _several(name: str) -> Callable[[], Files]:
    def make() -> Files:
        import tempfile

        from limner.scores import VectorSets

        with tempfile.TemporaryDirectory() as folder:
            rows = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
            VectorSets.in_order(["a", "b", "c"], rows, [1, 3, 1]).save(Path(folder) / name)
            return {name: (Path(folder) / name).read_bytes()}

    return seeds(make)


def _late(name: str) -> Callable[[Path], Any]:
    def read(folder: Path) -> Any:
        from limner.scores.vector_sets import VectorSets, holds_sets

        holds_sets(folder / name)
        sets = VectorSets.load(folder / name)
        return limner.Scores.from_sets(sets, sets, pooling="maxsim").top(2)

    return read


def _similarities() -> Files:
    out = io.BytesIO()
    np.save(out, np.random.default_rng(0).standard_normal((4, 6)))
    return {"s.npy": out.getvalue()}


MTEB = {
    "task_name": "T",
    "scores": {"test": [{"cv_recall_at_1": 0.5, "ndcg_at_10": 0.6, "main_score": 0.6, "hf_subset": "default"}]},
}
NUMBERS = b"system,measure,value,queries,clusters\na,R@1,50.5,100,20\nb,R@1,40,100,\n"


def _board(*names: str) -> Callable[[Path], Any]:
    def read(folder: Path) -> Any:
        from limner.evaluation import leaderboard

        board = leaderboard([folder / name for name in names])
        return str(board), board.describe()

    return read


PROBES = {
    "a.json": {"0": {"filename": "a.jpg", "caption": "a dog", "caption2": "dog", "negative_caption": "a car"}},
    "b.json": [{"image_path": "a.jpg", "true_caption": "the dog eats", "false_caption": "eats the dog"}],
    "c.json": [
        {"image_0": "a", "image_1": "b", "caption_0": "x eats y", "caption_1": "y eats x", "collapsed_tag": "O"}
    ],
    "d.json": {"x": {"image_file": "a", "caption": "two", "foil": "three", "linguistic_phenomena": "counting"}},
}


def _probed(folder: Path) -> Any:
    from limner.datasets.probe_files import read_probe
    from limner.explain.probe_results import probe

    read = read_probe(folder)
    return str(probe(read)), read.collection().describe()


CARD = b"""---
license: mit
model-index:
- name: m
  results:
  - task:
      type: retrieval
    dataset:
      type: d
      name: D
    metrics:
    - type: R@1
      value: 0.5
      args:
        queries: 30
---
# m
"""


def _carded(folder: Path) -> Any:
    from limner.evaluation.boards.hub_results import read_model_card

    return [(entry.key, entry.value) for entry in read_model_card(folder / "README.md")]


COMPOSED = {
    "cap.x.json": [
        {"pairid": 1, "reference": "a", "target_hard": "b", "caption": "red", "img_set": {"members": ["a", "b"]}},
        {"id": 9, "reference_img_id": 3, "target_img_id": 4, "gt_img_ids": [4, 5], "relative_caption": "two"},
        {"candidate": "a", "target": "c", "captions": ["x", "y"]},
    ],
    "split.x.json": {name: f"./{name}.png" for name in ("a", "b", "c", "3", "4", "5")},
}


def _composed(folder: Path) -> Any:
    from limner.datasets.composed_queries import read_composed

    composed = read_composed(folder / "cap.x.json", images=folder)
    return composed.describe(), list(composed.judgements), composed.texts.values


def _scored(folder: Path) -> Any:
    return limner.Scores.load(folder / "s.npy", range(4), range(6)).top(2).indices


RUN = b"".join(f"q{n % 3} Q0 c{n} {n // 3 + 1} {1 - n / 10} tag\n".encode() for n in range(12))
LISTS = json.dumps({f"q{n}": [f"c{m}" for m in range(4)] for n in range(3)}).encode()


@seeds
def _report() -> Files:
    rng = np.random.default_rng(0)
    images, texts = [f"i{n}" for n in range(6)], [f"i{n}#{m}" for n in range(6) for m in range(2)]
    pairs = limner.Judgements.from_pairs([(t[:-2], t) for t in texts], queries=images, candidates=texts)
    world = limner.Collection("w", limner.Items(images, [None] * 6), limner.Items(texts, texts, kind="text"), pairs)
    scores = limner.Scores.from_matrix(rng.standard_normal((6, 12)), images, texts)
    evaluation = limner.evaluate(scores, world, measures="R@1")
    return {name: json.dumps(evaluation.describe()).encode() for name in ("a.json", "b.json")}


def _reported(folder: Path) -> Any:
    one, two = (limner.Report.load(folder / name) for name in ("a.json", "b.json"))
    return str(one), str(two), one.rows()


@seeds
def _statistics() -> Files:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        scores = limner.Scores.from_matrix(np.random.default_rng(0).standard_normal((4, 5)), range(4), range(5))
        scores.correct("csls", k=2).statistics.save(Path(folder) / "s.npz")
        return {"s.npz": (Path(folder) / "s.npz").read_bytes()}


def _corrected(folder: Path) -> Any:
    from limner.scores.correction import Statistics

    return Statistics.load(folder / "s.npz").known


VECTORS = {
    "npy": Reader(_saved("e.npy"), {".npy": spoil.of_npy, ".txt": spoil.of_text}, _embedded("e.npy"), 6),
    "npz": Reader(_saved("e.npz"), {"": spoil.of_zip}, _embedded("e.npz"), 6),
    "safetensors": Reader(_saved("e.safetensors"), {"": spoil.of_safetensors}, _embedded("e.safetensors"), 6),
    "parquet": Reader(_saved("e.parquet"), {"": spoil.of_bytes}, _embedded("e.parquet"), 6),
    "sets npz": Reader(_several("s.npz"), {"": spoil.of_zip}, _late("s.npz"), 4),
    "sets safetensors": Reader(_several("s.safetensors"), {"": spoil.of_safetensors}, _late("s.safetensors"), 4),
    "scores": Reader(seeds(_similarities), {"": spoil.of_npy}, _scored, 5),
    "run": Reader(seeds(lambda: {"a.run": RUN}), {"": spoil.of_text}, lambda f: read_run(f / "a.run").top(2), 6),
    "run json": Reader(seeds(lambda: {"a.json": LISTS}), {"": spoil.of_json}, lambda f: read_run(f / "a.json"), 4),
    "run predictions": Reader(
        seeds(lambda: {"a.json": PREDICTIONS}), {"": spoil.of_json}, lambda f: read_run(f / "a.json").top(2), 4
    ),
    "run table": Reader(
        seeds(lambda: {"a.tsv": PAIRS_TABLE}), {"": spoil.of_text}, lambda f: read_run(f / "a.tsv").top(2), 4
    ),
    "qrels json": Reader(
        seeds(lambda: {"a.json": b'{"q": {"a": 1, "b": 0}, "p": ["a", 3]}'}),
        {"": spoil.of_json},
        lambda f: read_qrels(f / "a.json"),
        4,
    ),
    "qrels table": Reader(
        seeds(lambda: {"a.tsv": PAIRS_TABLE}), {"": spoil.of_text}, lambda f: read_qrels(f / "a.tsv"), 4
    ),
    "report": Reader(_report, {"": spoil.of_json}, _reported, 6),
    "model card": Reader(seeds(lambda: {"README.md": CARD}), {"": spoil.of_text}, _carded, 2),
    "composed queries": Reader(
        seeds(lambda: {name: json.dumps(content).encode() for name, content in COMPOSED.items()}),
        {"": spoil.of_json},
        _composed,
        3,
    ),
    "probes": Reader(
        seeds(lambda: {name: json.dumps(content).encode() for name, content in PROBES.items()}),
        {"": spoil.of_json},
        _probed,
        4,
    ),
    "mteb results": Reader(
        seeds(lambda: {f"{name}/T.json": json.dumps(MTEB).encode() for name in ("org__a", "org__b")}),
        {"": spoil.of_json},
        _board("org__a", "org__b"),
        4,
    ),
    "leaderboard table": Reader(seeds(lambda: {"t.csv": NUMBERS}), {"": spoil.of_text}, _board("t.csv"), 4),
    "statistics": Reader(_statistics, {"": spoil.of_zip}, _corrected, 3),
}


# --- answers, labels, words, options ----------------------------------------------------------------------------


def _answers(name: str) -> Callable[[Path], Any]:
    def read(folder: Path) -> Any:
        from limner.annotate.answer_files import read_answers, read_judgements

        return read_answers(folder / name), read_judgements(folder / name)

    return read


def _labels(folder: Path) -> Any:
    from limner.explain.failure_classes import read_labels

    return read_labels(folder / "l.csv")


def _objects(folder: Path) -> Any:
    from limner.explain.concepts import read_csv

    return read_csv(folder / "o.csv")


def _genome(folder: Path) -> Any:
    from limner.explain.concepts import read_visual_genome

    return read_visual_genome(folder / "o.json")


def _vectors(folder: Path) -> Any:
    from limner.encoders.numpy_texts import WordVectors

    return WordVectors(file=folder / "v.txt").encode(["a dog"])


def _options(folder: Path) -> Any:
    from limner.systems import _configured

    return _configured(folder / "o.toml", trust=False)


def _scale(name: str) -> Callable[[Path], Any]:
    def read(folder: Path) -> Any:
        from limner.annotate.form_files import read_scale

        return read_scale(folder / name)

    return read


def _items(name: str) -> Callable[[Path], Any]:
    def read(folder: Path) -> Any:
        from limner.search.items import read as listed

        return listed(folder / name)

    return read


def _eccv(folder: Path) -> Any:
    from limner.datasets.coco_judgements import read_eccv

    return read_eccv(folder)


def _cxc(folder: Path) -> Any:
    from limner.datasets.coco_judgements import read_cxc

    return read_cxc(folder / "sits.csv")


def _wordnet(folder: Path) -> Any:
    from limner.language.wordnet import WordNet

    return len(WordNet.read(folder))


def _packed(folder: Path) -> Any:
    from limner.language.wordnet.pack import opened as unpacked

    parts = unpacked((folder / "w.xz").read_bytes())
    return len(list(parts.synsets)) + len(dict(parts.senses)) + len(parts.synsets[0].lemmas)


@seeds
def _wordnet_files() -> Files:
    head = b"  1 licence\n"
    noun = b"00000012 03 n 02 dog 0 domestic_dog 0 001 @ 00000090 n 0000 | a dog\n"
    data_line = b"00000090 03 n 01 animal 0 000 | a living thing\n"
    files = {f"data.{p}": head for p in ("verb", "adj", "adv")} | {f"index.{p}": head for p in ("verb", "adj", "adv")}
    index = b"dog n 1 1 @ 1 1 00000012\ndomestic_dog n 1 0 1 0 00000012\nanimal n 1 0 1 0 00000090\n"
    return files | {"data.noun": head + noun + data_line, "index.noun": head + index, "noun.exc": b"dogs dog\n"}


@seeds
def _wordnet_pack() -> Files:
    import lzma

    text = "ndog:1:5 domestic_dog:1\t1\t\nnanimal:1\t\t\n\nngeese goose\nvran run"
    return {"w.xz": lzma.compress(text.encode())}


def _of_xz(rng: random.Random, data: bytes) -> bytes:
    import lzma

    return spoil.of_bytes(rng, data) if rng.random() < 0.3 else lzma.compress(spoil.of_text(rng, lzma.decompress(data)))


SCALE_TOML = b"""question = "Fits?"
[[grades]]
label = "fits"
counts_as = "yes"
[[grades]]
label = "does not"
counts_as = "no"
key = "x"
reasons = true
[[reasons]]
label = "blurred"
key = "b"
failure = "detail"
"""
SCALE_JSON = json.dumps(tomllib.loads(SCALE_TOML.decode())).encode()
ANSWERS = (
    b"annotator,image,caption,grade,reasons,milliseconds\nann,a.jpg,t1,1,,900\n"
    b"bob,b.jpg,t2,3,wrong-colour;wrong-quantity,1200\n"
)
ANSWER_LINES = (
    b'{"image": "a", "caption": "b", "grade": 2}\n{"image": "c", "caption": "d", "grade": 4, "reasons": []}\n'
)
CHOSEN = [{"from_name": "grade", "type": "choices", "value": {"choices": ["mostly no"]}, "meta": {"annotator": "ann"}}]
PREDICTIONS = b'{"mteb_model_meta": {"model_name": "m", "revision": "1"}, "en": {"test": {"q": {"a": 2, "b": 1.5}}}}'
PAIRS_TABLE = b"query-id\tcorpus-id\tscore\nq1\ta\t1\nq1\tb\t0.5\nq2\ta\t2\n"
ARGILLA = [
    {
        "id": f"{n}",
        "fields": {"image": "x", "caption": "a dog"},
        "metadata": {"image_id": f"i{n}", "caption_id": f"c{n}"},
        "responses": {
            "grade": [{"value": "partially yes", "user_id": "u"}],
            "reasons": [{"value": ["wrong-colour"], "user_id": "u"}],
        },
    }
    for n in range(2)
]
LABEL_STUDIO = [
    {"data": {"image": "a", "caption": "b"}, "annotations": [{"result": CHOSEN, "lead_time": 2.5, "completed_by": 1}]},
    {"data": {"image": "a", "caption": "c", "image_id": "i"}, "annotations": [{"result": [], "was_cancelled": True}]},
]
DOG = {"synsets": ["dog.n.01"], "names": ["dog"], "x": 1, "y": 2, "w": 3, "h": 4}
GENOME = json.dumps([{"image_id": 1, "objects": [DOG]}])
CXC = b"COCO_val2014_000000000007.jpg:1,COCO_val2014_000000000008.jpg:2,3.5,x\n"
ECCV = json.dumps({"1": [10, 11], "2": [12]}).encode()

LISTED = {
    "answers csv": Reader(seeds(lambda: {"a.csv": ANSWERS}), {"": spoil.of_text}, _answers("a.csv"), 3),
    "answers jsonl": Reader(
        seeds(lambda: {"a.jsonl": ANSWER_LINES}), {"": spoil.of_json_lines}, _answers("a.jsonl"), 3
    ),
    "answers of label studio": Reader(
        seeds(lambda: {"a.json": json.dumps(LABEL_STUDIO).encode()}), {"": spoil.of_json}, _answers("a.json"), 3
    ),
    "answers of argilla": Reader(
        seeds(lambda: {"a.json": json.dumps(ARGILLA).encode()}), {"": spoil.of_json}, _answers("a.json"), 3
    ),
    "scale toml": Reader(seeds(lambda: {"s.toml": SCALE_TOML}), {"": spoil.of_text}, _scale("s.toml"), 2),
    "scale json": Reader(seeds(lambda: {"s.json": SCALE_JSON}), {"": spoil.of_json}, _scale("s.json"), 2),
    "labels": Reader(
        seeds(lambda: {"l.csv": b"query,label\nq1,colour;number\nq2,\n"}), {"": spoil.of_text}, _labels, 2
    ),
    "objects": Reader(
        seeds(lambda: {"o.csv": b"image,name,left,top,right,bottom,attributes\na,dog,1,2,3,4,red;big\nb,cat,,,,,\n"}),
        {"": spoil.of_text},
        _objects,
        2,
    ),
    "visual genome": Reader(seeds(lambda: {"o.json": GENOME.encode()}), {"": spoil.of_json}, _genome, 2),
    "word vectors": Reader(
        seeds(lambda: {"v.txt": b"3 2\na 1 0\ndog 0.5 1\nred -1 2e-3\n"}), {"": spoil.of_text}, _vectors, 3
    ),
    "options": Reader(
        seeds(lambda: {"o.toml": b'dimensions = 32\nname = "x"\nkappas = [0.1, 1]\n[features]\nencoder = "clip"\n'}),
        {"": spoil.of_text},
        _options,
        3,
    ),
    "list of texts": Reader(seeds(lambda: {"q.txt": b"a dog\n\ntwo cats\n"}), {"": spoil.of_text}, _items("q.txt"), 1),
    "table of texts": Reader(
        seeds(lambda: {"q.csv": b"id,text\n1,a dog\n2,cats\n"}), {"": spoil.of_text}, _items("q.csv"), 1
    ),
    "eccv": Reader(
        seeds(lambda: {"eccv_image_to_caption.json": ECCV, "eccv_caption_to_image.json": ECCV}),
        {"": spoil.of_json},
        _eccv,
        2,
    ),
    "cxc": Reader(
        seeds(lambda: {"sits.csv": b"image,caption,agg_score,sampling_method\n" + CXC}), {"": spoil.of_text}, _cxc, 1
    ),
    "wordnet": Reader(_wordnet_files, {".noun": spoil.of_text, ".exc": spoil.of_text}, _wordnet, 2),
    "wordnet pack": Reader(_wordnet_pack, {"": _of_xz}, _packed, 2),
}

READERS: dict[str, Reader] = {**DATASETS, **PICTURES, **VECTORS, **LISTED}
