"""Bad input of every kind: each ends in one clear line and a status, and leaves no half-written file behind."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from limner.annotate.store import open_store
from limner.cli import app
from limner.cli.shell import Status

EMBEDDINGS = ["evaluate", "captions.csv", "--images", "I.npy", "--texts", "T.npy"]
MATRIX = ["evaluate", "captions.csv", "--scores", "S.npy"]
RUN = ["evaluate", "captions.csv", "--run", "i2t.run", "--measures", "R@1"]
QRELS = ["evaluate", "pairs.qrels", "--run", "i2t.run", "--measures", "R@1"]
SYSTEM = ["evaluate", "captions.csv", "--model", "colours", "--measures", "R@1"]
BOARD = ["compare", "--show", "board"]
COMPOSED = ["evaluate", "composed:q.json", "--scores", "S.npy"]
IMAGES, PER_IMAGE = 10, 2
SAVED = "out.json"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Good input of every kind; each case spoils one thing."""
    rng = np.random.default_rng(0)
    images = [f"{n}.png" for n in range(IMAGES)]
    texts = [f"{image}#{n}" for image in images for n in range(PER_IMAGE)]
    colours = rng.integers(0, 255, (IMAGES, 3))
    for image, colour in zip(images, colours, strict=True):
        Image.new("RGB", (32, 32), tuple(map(int, colour))).save(tmp_path / image)
    captions = [f"{text[:-2]},word{n // 4} word{n % 3},{text}" for n, text in enumerate(texts)]
    (tmp_path / "captions.csv").write_text("image,caption,id\n" + "\n".join(captions) + "\n")
    for name, ids in (("I", images), ("T", texts)):
        np.save(tmp_path / f"{name}.npy", rng.standard_normal((len(ids), 8)).astype(np.float32))
        (tmp_path / f"{name}.ids.txt").write_text("\n".join(ids) + "\n")
    np.save(tmp_path / "S.npy", rng.standard_normal((IMAGES, len(texts))))
    run = [f"{i} Q0 {t} {r + 1} {1 - r / 100} x" for i in images for r, t in enumerate(texts[:15])]
    (tmp_path / "i2t.run").write_text("\n".join(run) + "\n")
    (tmp_path / "pairs.qrels").write_text("\n".join(f"{t[:-2]} 0 {t} 1" for t in texts) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_limner(*args):
    return CliRunner().invoke(app, list(args))


@pytest.mark.parametrize("args", [EMBEDDINGS, MATRIX, RUN, QRELS, SYSTEM], ids=" ".join)
def test_the_input_is_good_before_it_is_spoiled(folder, args):
    done = run_limner(*args, "-o", SAVED)
    assert (done.exit_code, Path(SAVED).exists()) == (0, True), done.stderr


# --- ways to spoil a file ---------------------------------------------------------------------------------------


def spoil_array(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[], None]:
    def make() -> None:
        np.save(name, change(np.load(name)))

    return make


def put(row: int, value: float, column: int | slice = 3) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        array[row, column] = value
        return array

    return change


def replaced(name: str, old: str, new: str) -> Callable[[], None]:
    def make() -> None:
        text = Path(name).read_text()
        assert old in text
        Path(name).write_text(text.replace(old, new))

    return make


def written(name: str, content: str | bytes) -> Callable[[], None]:
    def make() -> None:
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())

    return make


def in_folder(name: str, files: dict[str, str]) -> Callable[[], None]:
    def make() -> None:
        for file, content in files.items():
            (Path(name) / file).parent.mkdir(parents=True, exist_ok=True)
            (Path(name) / file).write_text(content)

    return make


ASKED = {"queries.jsonl": '{"_id": "1", "text": "a"}\n', "qrels/test.tsv": "query-id\tcorpus-id\tscore\n1\ta\t1\n"}


def answers_of_nothing() -> None:
    with open_store("w.db"):
        Path("a.json").write_text('{"a": 1}')


def without_ids() -> None:
    Path("T.ids.txt").unlink()
    np.save("T.npy", np.load("T.npy")[:-1])


def without_query() -> None:
    lines = Path("i2t.run").read_text().splitlines(keepends=True)
    Path("i2t.run").write_text("".join(line for line in lines if not line.startswith("3.png")))


def pickled() -> None:
    Path("I.npy").write_bytes(pickle.dumps({"a": 1}))


def evaluated(name: str = "a.json", *, rows: int = IMAGES) -> None:
    """A good report, of the first rows of the collection."""
    np.save("I2.npy", np.load("I.npy")[:rows])
    np.save("T2.npy", np.load("T.npy")[: rows * PER_IMAGE])
    args = ("evaluate", f"per-image:{PER_IMAGE}", "--images", "I2.npy", "--texts", "T2.npy")
    done = run_limner(*args, "--measures", "R@1", "-o", name)
    assert done.exit_code == 0, done.stderr


def cut_report() -> None:
    evaluated()
    Path("a.json").write_text(Path("a.json").read_text()[:-200])


def report_without_results() -> None:
    evaluated()
    content = json.loads(Path("a.json").read_text())
    del content["results"]
    Path("a.json").write_text(json.dumps(content))


def unequal_reports() -> None:
    evaluated("a.json")
    evaluated("b.json", rows=5)


def full_folder() -> None:
    Path("full").mkdir()
    Path("full", "x").touch()


def latin() -> None:
    raw = Path("captions.csv").read_bytes()
    Path("captions.csv").write_bytes(raw.replace(b"word1 word2", b"w\xe9rd word2", 1))


def unchanged() -> None:
    pass


@dataclass(frozen=True)
class Case:
    """One kind of bad input: how it is made, the command, and what the message must say."""

    name: str
    make: Callable[[], None]
    args: list[str]
    says: list[str]
    status: int = Status.INPUT


CASES = [
    # embeddings
    Case("NaN in an embedding", spoil_array("I.npy", put(4, np.nan)), EMBEDDINGS, ["I.npy", "row 4", "'4.png'", "NaN"]),
    Case("infinite embedding", spoil_array("T.npy", put(7, np.inf)), EMBEDDINGS, ["T.npy", "row 7", "infinite"]),
    Case("zero embedding", spoil_array("I.npy", put(2, 0, slice(None))), EMBEDDINGS, ["row 2", "all zeros", "again"]),
    Case("embeddings of yes and no", spoil_array("I.npy", lambda a: a > 0), EMBEDDINGS, ["bool", "floating"]),
    Case("embeddings of one axis", spoil_array("I.npy", np.ravel), EMBEDDINGS, ["(80,)", "rows by dimensions"]),
    Case("two sizes of vectors", spoil_array("I.npy", lambda a: a[:, :5]), EMBEDDINGS,
         ["5 dimensions", "8", "embedding space"]),
    Case("ids of something else", replaced("I.ids.txt", ".png", ".jpg"), EMBEDDINGS,
         ["lacks 10 of the 10 images", "'0.png'", "'0.jpg'"]),
    Case("one id twice", replaced("T.ids.txt", "1.png#1", "1.png#0"), EMBEDDINGS,
         ["duplicate", "'1.png#0'", "rows 2 and 3"]),
    Case("an id too few", replaced("I.ids.txt", "9.png\n", ""), EMBEDDINGS, ["9 ids for 10 rows", "one id per row"]),
    Case("a row too few and no ids", without_ids, EMBEDDINGS, ["T.npy has 19 rows", "expected 20", "--ids"]),
    Case("embeddings that are no array", pickled, EMBEDDINGS, ["I.npy is not a valid npy file of numbers"]),
    Case("an empty file of embeddings", written("I.npy", b""), EMBEDDINGS, ["I.npy is not a valid npy file"]),
    Case("a damaged archive", written("I.npz", b"PK\x03\x04 cut off"), [*EMBEDDINGS[:3], "I.npz", *EMBEDDINGS[4:]],
         ["I.npz is not a valid npz file"]),
    Case("no such file", unchanged, [*EMBEDDINGS[:3], "none.npy", *EMBEDDINGS[4:]],
         ["no embeddings file none.npy", ".npy"]),
    Case("embeddings of unknown ending", unchanged, [*EMBEDDINGS[:3], "captions.csv", *EMBEDDINGS[4:]],
         ["'.csv'", ".parquet"]),
    Case("texts that are no multiple", unchanged, ["evaluate", "per-image:3", *EMBEDDINGS[2:]],
         ["10 images and 20 texts", "expected 30"]),
    # similarity matrices
    Case("matrix of another shape", spoil_array("S.npy", lambda a: a[:, :-2]), MATRIX,
         ["(10, 18)", "expected (10, 20)", "--ids"]),
    Case("matrix of one caption of each image", spoil_array("S.npy", lambda a: a[:, ::2]), MATRIX,
         ["(10, 10)", "expected (10, 20)", "one caption of each image", "judged captions", "-O captions=[2]", "--ids"]),
    Case("matrix transposed", spoil_array("S.npy", np.transpose), MATRIX, ["(20, 10)", "(10, 20)", "looks transposed"]),
    Case("NaN in a matrix", spoil_array("S.npy", put(3, np.nan, 5)), MATRIX,
         ["'3.png'", "'2.png#1'", "NaN", "row 3, column 5"]),
    Case("matrix of words", spoil_array("S.npy", lambda a: a.astype(str)), MATRIX, ["expected real numbers"]),
    # runs and qrels
    Case("candidate ranked twice", replaced("i2t.run", "5.png Q0 0.png#1", "5.png Q0 0.png#0"), RUN,
         ["'5.png'", "'0.png#0' twice"]),
    Case("run of five columns", replaced("i2t.run", "2.png Q0 1.png#0 3 0.98 x", "2.png Q0 1.png#0 3 0.98"), RUN,
         ["i2t.run, line 33", "5 columns", "expected 6"]),
    Case("NaN score in a run", replaced("i2t.run", "2.png Q0 1.png#0 3 0.98", "2.png Q0 1.png#0 3 nan"), RUN,
         ["i2t.run, line 33", "NaN"]),
    Case("score that is no number", replaced("i2t.run", "0.png Q0 0.png#0 1 1.0", "0.png Q0 0.png#0 1 high"), RUN,
         ["i2t.run, line 1", "'high'", "number"]),
    Case("run cut off before MAP", unchanged, [*RUN[:-1], "MAP"],
         ["MAP cannot be computed from a truncated ranking", "ends at 15", "never"]),
    Case("query that is not ranked", without_query, RUN, ["1 queries", "not ranked", "'3.png'"]),
    Case("run of other ids", replaced("i2t.run", ".png Q0", ".gif Q0"), RUN,
         ["neither images nor texts", "'0.gif'", "'0.png'"]),
    Case("two runs of one direction", unchanged, [*RUN, "--run", "i2t.run"], ["2 runs", "i2t", "one per direction"]),
    Case("an empty run", written("i2t.run", b""), RUN, ["i2t.run"]),
    Case("pair judged twice", replaced("pairs.qrels", "0.png#1", "0.png#0"), QRELS,
         ["pairs.qrels, line 2", "a second time"]),
    Case("negative grade", replaced("pairs.qrels", "9.png#1 1", "9.png#1 -1"), QRELS, ["line 20", "negative"]),
    # collections
    Case("no such data set", unchanged, ["evaluate", "flicker8k:DIR", *SYSTEM[2:]],
         ["'flicker8k'", "did you mean 'flickr8k'"]),
    Case("no such path", unchanged, ["data", "describe", "no/such/file.csv"], ["no file or folder no/such/file.csv"]),
    Case("table without captions", replaced("captions.csv", "image,caption,id", "image,words,id"), SYSTEM,
         ["captions.csv", "'caption'", "'words'"]),
    Case("caption without image", replaced("captions.csv", "\n4.png,", "\n,"), [*SYSTEM, "-O", "strict=true"],
         ["captions.csv, line 10", "no image in this row"]),
    Case("caption id used twice", replaced("captions.csv", "3.png#1", "3.png#0"), SYSTEM,
         ["captions.csv, line 9", "'3.png#0'", "line 8"]),
    Case("bytes that are not UTF-8", latin, SYSTEM, ["captions.csv, line 7", "0xe9", "UTF-8"]),
    Case("an empty table", written("captions.csv", b""), SYSTEM, ["captions.csv", "empty"]),
    Case("picture that does not open", written("6.png", b"\x89PNG not really"), SYSTEM,
         ["'6.png'", "does not open", "replace or remove"]),
    Case("picture that is not there", lambda: Path("6.png").unlink(), SYSTEM, ["'6.png'", "no pixels"]),
    Case("split that is not there", unchanged, [*MATRIX, "--split", "holdout"], ["split", "'holdout'"]),
    Case("option the loader has not", unchanged, [*MATRIX, "-O", "image=x"], ["'image'", "did you mean 'images'"]),
    # measures, protocols, systems
    Case("no such measure", unchanged, [*MATRIX, "--measures", "R@1 nDGC@5"],
         ["unknown measure 'nDGC@5'", "did you mean 'nDCG'"]),
    Case("measure without its cut", unchanged, [*MATRIX, "--measures", "Recall"],
         ["'Recall' needs a cut-off", "'Recall@10'"]),
    Case("no such protocol", unchanged, [*MATRIX, "--protocol", "coco5k"],
         ["unknown protocol 'coco5k'", "did you mean 'coco-5k'"]),
    Case("judgements that are not there", unchanged, [*MATRIX, "--protocol", "eccv"],
         ["needs the judgements 'eccv'", "it has pairs"]),
    Case("folds that are not there", unchanged, [*MATRIX, "--protocol", "coco-1k"], ["the field 'fold'", "coco-5k"]),
    Case("no such system", unchanged, [*SYSTEM[:3], "colors"], ["or file 'colors'", "did you mean 'colours'"]),
    Case("no such way with ties", unchanged, [*MATRIX, "--ties", "random"], ["'random'", "expected"]),
    # reports
    Case("damaged report", cut_report, ["compare", "a.json", "a.json"], ["a.json is not JSON"]),
    Case("report with a part missing", report_without_results, ["report", "a.json", "-o", "a.html"],
         ["a.json is not a valid limner report", "make it again"]),
    Case("JSON that is no report", written("a.json", "{}"), ["compare", "a.json", "a.json"],
         ["a.json is not a limner report"]),
    Case("no such report", unchanged, ["report", "none.json"], ["no report none.json", "limner evaluate"]),
    Case("reports on other queries", unequal_reports, ["compare", "a.json", "b.json"],
         ["not comparable", "ranked against 10 candidates in one and 20"]),
    Case("nothing that was published", evaluated, ["compare", "a.json", "--show", "published"],
         ["no published measure", "--protocol"]),
    Case("report of unknown ending", unchanged, [*MATRIX, "-o", "out.docx"], ["out.docx ends in '.docx'", ".html"]),
    Case("report where none can be", unchanged, [*MATRIX, "-o", "captions.csv/out.json"], ["captions.csv"]),
    Case("folder that is not empty", full_folder, ["data", "convert", "captions.csv", "full"],
         ["full is not empty"]),
    Case("form that is not known", unchanged, ["data", "convert", "captions.csv", "out", "--to", "xml"],
         ["'xml'", "csv"]),
    # leaderboards
    Case("leaderboard of something else", written("a.json", "[]"), [*BOARD, "a.json", "a.json"],
         ["a.json is not a limner report"]),
    Case("MTEB results that are damaged", written("a.json", '{"task_name": "T", "scores": {"test": 3}}'),
         [*BOARD, "a.json"], ["a.json is not a valid MTEB results file"]),
    Case("folder without results", lambda: Path("empty").mkdir(), [*BOARD, "empty"], ["empty has no MTEB results"]),
    Case("table of numbers without numbers", written("t.csv", "model,R@1\na,x\nb,y\n"), [*BOARD, "t.csv"],
         ["t.csv", "no column of numbers", "'R@1'"]),
    Case("number that is none", written("t.csv", "model,R@1\na,50\nb,many\n"), [*BOARD, "t.csv"],
         ["t.csv, line 3", "'many'"]),
    Case("recall of more than all", written("t.csv", "model,R@1\na,50\nb,150\n"), [*BOARD, "t.csv"],
         ["t.csv", "R@1 is 150", "unit"]),
    Case("queries that are no number", written("t.csv", "system,measure,value,queries\na,R@1,1,0\n"),
         [*BOARD, "t.csv"], ["t.csv, line 2", "queries: 0"]),
    Case("system without a name", written("t.csv", "model,R@1\n,50\n"), [*BOARD, "t.csv"], ["line 2", "no name"]),
    Case("system that comes twice", written("t.csv", "model,R@1\na,50\na,40\n"), [*BOARD, "t.csv"], ["'a' twice"]),
    Case("run without judgements", unchanged, [*BOARD, "i2t.run"], ["i2t.run", "--qrels"]),
    # audit
    Case("audit with scores of another shape", spoil_array("S.npy", lambda a: a[:, :-2]),
         ["data", "audit", "captions.csv", "-O", "check_images=false", "--scores", "S.npy"],
         ["(10, 18)", "expected (10, 20)"]),
    Case("audit with NaN", spoil_array("I.npy", put(4, np.nan)),
         ["data", "audit", "captions.csv", "-O", "check_images=false", *EMBEDDINGS[2:]], ["I.npy", "row 4", "NaN"]),
    Case("audit with judgements of other items", written("p.qrels", "x 0 y 1\n"),
         ["data", "audit", "captions.csv", "-O", "check_images=false", "--judgements", "p.qrels"],
         ["'p'", "cover none"]),
    Case("lists beside captions of another length",
         written("l.jsonl", '{"image": "a.jpg", "captions": ["x", "y"], "captions_id": ["1"]}\n'),
         ["data", "audit", "l.jsonl"], ["l.jsonl, line 1", "captions_id"]),
    Case("audit of nothing", written("captions.csv", b""),
         ["data", "audit", "captions.csv"], ["captions.csv", "empty"]),
    Case("a folder as a table", unchanged, ["data", "describe", "table:."], [". is a folder, expected a file"]),
    Case("a split where there are none", unchanged, [*EMBEDDINGS, "--split", "dev"],
         ["no split 'dev'", "has no splits", "leave out the split"]),
    # probes
    Case("probe of no known form", written("p.json", '{"0": {"picture": "a", "text": "b"}}'),
         ["explain", "probe", "p.json"],
         ["p.json", "picture, text", "known form"]),
    Case("probe that is a number", written("p.json", "3"),
         ["explain", "probe", "p.json"], ["p.json is not a valid probe"]),
    Case("probe without cases", written("p.json", "[]"), ["explain", "probe", "p.json"], ["p.json has no cases"]),
    Case("probe with an empty caption",
         written("p.json", '[{"filename": "a", "caption": "", "negative_caption": "b"}]'),
         ["explain", "probe", "p.json"],
         ["p.json", "empty or missing"]),
    Case("probe with a caption that is a list",
         written("p.json", '[{"filename": "a", "caption": ["x"], "negative_caption": "b"}]'),
         ["explain", "probe", "p.json"],
         ["p.json"]),
    Case("right answer that is not there",
         written("p.csv", "image_path,correct_answer,caption_0,caption_1\na,5,x,y\n"), ["explain", "probe", "p.csv"],
         ["correct_answer is 5", "0 to 1"]),
    # forms of other libraries
    Case("shard that is no tar", written("x.tar", b"hello"), ["data", "audit", "webdataset:x.tar"], ["x.tar"]),
    Case("corpus without ids", in_folder("b", {"corpus.jsonl": '{"text": "x"}\n', **ASKED}),
         ["data", "audit", "beir:b"], ["corpus.jsonl", "_id"]),
    Case("croissant that is a list", written("c.json", "[]"), ["data", "audit", "croissant:c.json"], ["c.json"]),
    Case("folder of clip-retrieval without metadata", in_folder("r", {"img_emb/img_emb_0.npy": "x"}),
         ["data", "audit", "clip-retrieval:r"], ["r", "metadata"]),
    Case("folder that the datasets library did not write", in_folder("d", {"state.json": "[]"}),
         ["data", "audit", "huggingface:d"], ["d"]),
    Case("languages without images", in_folder("x", {"test_1kcaptions_en.txt": "a dog\n"}),
         ["evaluate", "languages:xtd10:x", *EMBEDDINGS[2:]], ["x"]),
    Case("captions in 36 languages that are no objects", in_folder("m", {"captions.jsonl": "3\n"}),
         ["evaluate", "languages:crossmodal-3600:m", *EMBEDDINGS[2:]], ["captions.jsonl"]),
    Case("composed queries of no known form", written("q.json", '[{"a": 1}]'), COMPOSED,
         ["q.json"]),
    Case("composed queries that are a number", written("q.json", "3"), COMPOSED, ["q.json"]),
    Case("model card of no form", in_folder("k", {"README.md": "---\nmodel-index: 3\n---\n"}), [*BOARD, "k/README.md"],
         ["README.md"]),
    Case("answers of Label Studio that are no list", answers_of_nothing,
         ["annotate", "import", "w.db", "a.json"], ["a.json"]),
    # the command line
    Case("no such command", unchanged, ["evalaute"], ["evalaute", "'evaluate'"], Status.USAGE),
    Case("no such option", unchanged, [*MATRIX, "--protocl", "x"],
         ["--protocl", "limner evaluate --help"], Status.USAGE),
    Case("nothing to evaluate", unchanged, ["evaluate", "captions.csv"],
         ["no system to evaluate", "--scores"], Status.USAGE),
    Case("two things to evaluate", unchanged, [*MATRIX, "--model", "colours"],
         ["matrix and system", "one of"], Status.USAGE),
    Case("one side alone", unchanged, EMBEDDINGS[:4], ["--images and --texts belong together"], Status.USAGE),
    Case("neither collection nor order", unchanged, ["evaluate", *EMBEDDINGS[2:]],
         ["COLLECTION"], Status.USAGE),
    Case("one report alone", unchanged, ["compare", "a.json"], ["got one report"], Status.USAGE),
    Case("option without a value", unchanged, [*MATRIX, "-O", "images"], ["NAME=VALUE"], Status.USAGE),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bad_input_is_told_in_one_line(folder, case):
    case.make()
    before = {path.name for path in folder.iterdir()}
    extra = ["-o", SAVED] if case.args[0] == "evaluate" and "-o" not in case.args else []
    done = run_limner(*case.args, *extra)
    lines = done.stderr.strip().splitlines()
    message = lines[-1]
    assert done.exit_code == case.status, done.output
    assert message.startswith("limner: error: ")
    assert [fragment for fragment in case.says if fragment not in message] == [], message
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert {path.name for path in folder.iterdir()} == before, "nothing may be left behind"


def test_every_case_is_of_its_own_kind():
    assert len({case.name for case in CASES}) == len(CASES) >= 20
