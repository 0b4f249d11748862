"""Runs every command with every registered name where only the core of limner is installed.

`python core_only.py FOLDER` prints one JSON object per run: what ran, its exit status, messages, seconds, and how many
systems it trained. test_core_only.py starts it in an environment without extras.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import io
import json
import os
import pkgutil
import re
import shlex
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from typer.main import get_command

import limner
from limner.cli import app
from limner.cli.commands.list import KINDS, REGISTRIES
from limner.core.errors import LimnerError
from limner.core.registry import Registry, imported
from limner.evaluation.measures import MEASURES
from limner.evaluation.protocols import PROTOCOLS

SCENES = ("scenes", "-O", "images=20")
SMALL = ("scenes", "-O", "images=8")
EXTRAS = (
    *("accelerate", "alembic", "argon2", "eccv_caption", "filelock", "huggingface_hub", "lancedb", "lapx"),
    *("matplotlib", "multipart", "onnxruntime", "open_clip", "pandas", "peft", "polars", "psycopg", "pyarrow"),
    *("rapidfuzz", "ray", "sentence_transformers", "sqlalchemy", "starlette", "tensorboard", "timm", "tokenizers"),
    *("torch", "transformers", "uvicorn"),
)
ENDINGS = (
    *(".json", ".csv", ".tsv", ".jsonl", ".md", ".tex", ".html", ".txt", ".pdf", ".svg", ".png", ".run", ".qrels"),
    *(".npy", ".npz", ".safetensors", ".parquet", ".pt", ".tar", ".none"),
)


def names(plural: str) -> tuple[str, ...]:
    """The registered names of a kind."""
    place = REGISTRIES[plural][1] if plural in REGISTRIES else "limner.datasets:DATASETS"
    return tuple(imported(place, what="registry"))


def world() -> None:
    """The files that the commands read, in the current folder, made without a command."""
    collection = limner.load("scenes", images=20)
    rng = np.random.default_rng(0)
    for side, items in (("I", collection.images), ("T", collection.texts)):
        np.save(f"{side}.npy", rng.normal(size=(len(items), 8)).astype(np.float32))
        limner.Embeddings(items.ids, np.load(f"{side}.npy")).save(f"{side}.safetensors")
    np.save("S.npy", rng.normal(size=(len(collection.images), len(collection.texts))))
    Path("texts.txt").write_text("a red circle\na blue square\n")
    for name in ("a.run", "b.run"):
        lines = [f"{i} Q0 {t} 1 0.5 x" for i, t in zip(collection.images.ids, collection.texts.ids, strict=False)]
        Path(name).write_text("\n".join(lines))
    Path("probe.json").write_text('{"0": {"filename": "0.png", "caption": "red", "negative_caption": "blue"}}')
    Path("composed.json").write_text('[{"pairid": 0, "reference": "0", "target_hard": "1", "caption": "is red"}]')
    Path("ratings.csv").write_text("query,candidate,preference\n")
    for side, name in (("I", "images"), ("T", "texts")):
        shutil.copy(f"{side}.npy", f"{name}.npy")
    shutil.copy("S.npy", "similarity.npy")
    for name in ("proposed.run", "clip.run", "c.run"):
        shutil.copy("a.run", name)
    Path("photos").mkdir()
    for number, image in enumerate(list(collection.images.ids)[:3]):
        collection.images.open(image).save(f"photos/{number}.png")
    Path("photos/captions.csv").write_text("image,caption\n0.png,a red ball\n1.png,a red box\n2.png,a blue box\n")
    for number in range(3):
        shutil.copy(f"photos/{number}.png", f"{number}.png")
    shutil.copy("photos/captions.csv", "captions.csv")
    Path("model").mkdir()
    Path("model/config.json").write_text('{"model_type": "clip"}')
    Path("model/config.toml").write_text("")
    words = sorted({word for text in collection.texts.values for word in text.lower().split()})
    Path("words.txt").write_text("".join(f"{word} {n % 7} {n % 5} 1\n" for n, word in enumerate(words)))


def commands() -> Iterator[tuple[str, ...]]:
    """The words of every run, with those first whose files others read."""
    yield from writing()
    yield from listed()
    yield from by_system()
    yield from by_encoder()
    yield from by_other_names()
    yield from by_ending()
    yield from annotating()
    yield from refused_early()
    yield from examples()


def refused_early() -> Iterator[tuple[str, ...]]:
    """What is wrong with a command can be told before its system is trained."""
    system = (*SMALL, "--model", "colours")
    for words in (("-o", "no/out.json"), ("-o", "out.xyz"), ("--judgements", "no.qrels"), ("--estimate", "no.db")):
        yield "evaluate", *system, *words
    for option in ("--correct", "--measures", "--protocol", "--by"):
        yield "evaluate", *system, option, "nothing"
    for command in ("explain failures", "explain attack", "explain map", "evaluate"):
        yield *command.split(), *system, "-o", "no/out.html"
    yield "train", "colours", *SMALL, "-o", "no/out"


def examples() -> Iterator[tuple[str, ...]]:
    """Every example of every help, with a small world, and without a window of a browser."""
    for command in leaves(get_command(app)):
        joined = re.sub(r" \\\s*\n\s*", " ", command.help or "")  # a long line goes on after a backslash
        for example in re.findall(r"\$ limner (.*)", joined):
            small = re.sub(r" -O images=\d+", "", example).replace("/tmp/", "").replace(" --open", "")
            words = shlex.split(re.sub(r"^demo|(?<= )scenes(?= |$)", r"\g<0> -O images=25", small))
            yield tuple(words)


def leaves(command: Any) -> Iterator[Any]:
    """The commands below a group."""
    below = getattr(command, "commands", None)
    if below is None:
        yield command
    for name in below or ():
        yield from leaves(below[name])


def writing() -> Iterator[tuple[str, ...]]:
    """What writes the files that the other commands read."""
    yield "train", "histograms", *SCENES, "-o", "histograms"
    yield "train", "colours", *SCENES, "-o", "colours"
    yield "evaluate", *SCENES, "--images", "I.npy", "--texts", "T.npy", "-o", "a.json"
    yield "evaluate", *SCENES, "--scores", "S.npy", "-o", "b.json"
    yield "demo", "-O", "images=25", "-o", "demo"
    yield "data", "convert", *SCENES, "table.csv"
    yield "evaluate", "languages:scenes", *SCENES[1:], "-O", "field=meaning", "--scores", "S.npy"
    yield "explain", "gap", "--images", "I.npy", "--texts", "T.npy"
    for name in ("ours.json", "baseline.json", "new.json", "old.json", "c.json"):
        yield "evaluate", *SCENES, "--scores", "S.npy", "-o", name


def listed() -> Iterator[tuple[str, ...]]:
    """The commands that list, for every name of every kind."""
    yield from [("list",), *(("list", kind, *options) for kind in KINDS for options in ((), ("--json",)))]
    for kind, entries in {**{kind: names(kind) for kind in (*REGISTRIES, "datasets")}, "measures": MEASURES}.items():
        for name in entries:
            yield from (("list", kind, name), ("list", kind, name, "--json"))
    for name in PROTOCOLS:
        yield "list", "protocols", name


def by_system() -> Iterator[tuple[str, ...]]:
    """Every command that takes a system."""
    for name in names("systems"):
        yield "train", name, *SMALL, "-o", f"trained-{name}"
        yield "train", name, *SMALL, "-o", f"trained-{name}", "-O", "model=model"
    for name in dict.fromkeys((*names("systems"), *names("encoders"), *names("scorers"))):
        system = ("--model", name)
        for command in ("evaluate", "explain failures", "explain attack", "explain gap"):
            yield *command.split(), *SMALL, *system
        yield "explain", "map", *SMALL, *system, "-o", "map.html"
        yield "index", f"index-{name}", *SMALL, *system
        yield "search", f"index-{name}", "a red circle"
        yield "search", "missing", "a red circle", *system
        yield "serve", *SMALL, *system
        yield "explain", "probe", "probe.json", "-O", "images=photos", "-O", "train_on=photos", *system
        yield "evaluate", "composed:composed.json", "-O", "images=photos", "-O", "train_on=photos", *system
        yield "explain", "uncertainty", *SMALL, "--model", name
        for command in ("pool work.db", "plan work.db", "study add work.db failures", "study add work.db preference"):
            yield "annotate", *command.split(), *SMALL, *system
        for out in ("out.json", "out.html", "out.csv", "out.tex", "out.parquet", "out.pdf", "README.md"):
            yield "evaluate", *SMALL, *system, "-o", out
            yield "explain", "failures", *SMALL, *system, "-o", out
        for needs in (("--estimate", "work.db"), ("--cluster", "ray://127.0.0.1:1")):
            yield "evaluate", *SMALL, *system, *needs


def by_encoder() -> Iterator[tuple[str, ...]]:
    """Every command that takes an encoder, with a folder of a model and without."""
    for name, options in product(names("encoders"), ("", "(model=model)", "(folder=model)", "(file=words.txt)")):
        encoder = ("--model", name + options)
        yield "evaluate", *SMALL, *encoder
        yield "evaluate", "text-only:scenes", *SMALL[1:], *encoder
        for source in ("texts.txt", "photos"):
            yield "encode", source, *encoder, "-o", "vectors.npy"
        yield "index", "index-encoder", *SMALL, "--model", name + options
        yield "evaluate", *SMALL, "--model", name + options


def by_other_names() -> Iterator[tuple[str, ...]]:
    """Commands with names of the other kinds: data sets, corrections, fusions, scorers, losses, measures, protocols."""
    for name, path in product(names("datasets"), ("", ":photos", ":table.csv", ":missing")):
        options = SMALL[1:] if name == "scenes" else ()
        for words in (("data", "describe"), ("data", "audit"), ("evaluate", "--images", "I.npy", "--texts", "T.npy")):
            yield *words, name + path, *options
    for name in names("corrections"):
        yield "evaluate", *SCENES, "--scores", "S.npy", "--correct", name
        yield "evaluate", *SCENES, "--images", "I.npy", "--texts", "T.npy", "--correct", name
        yield "index", "corrected", *SMALL, "--model", "histograms", "--correct", name, "-O", "bank=texts.txt"
    for name in names("fusions"):
        yield "match", "fuse", "a.run", "b.run", "--method", name, "-o", "fused.run"
    for name, options in product(names("scorers"), ("", "(model=model)")):
        yield "match", "rerank", "a.run", *SCENES, "--scorer", name + options, "-o", "reranked.run"
    for name in names("losses"):
        yield "train", "towers", *SMALL, "-O", f"loss={name}", "-o", "trained"
    for name in MEASURES:
        for measure in (name, f"{name}@3"):
            yield "evaluate", *SCENES, "--scores", "S.npy", "--measures", measure
    for name in PROTOCOLS:
        yield "evaluate", *SCENES, "--scores", "S.npy", "--protocol", name


def by_ending() -> Iterator[tuple[str, ...]]:
    """Every command that writes or reads a file, with every ending."""
    for ending in ENDINGS:
        out = f"out{ending}"
        yield "evaluate", *SCENES, "--scores", "S.npy", "-o", out
        yield "compare", "a.json", "b.json", "-o", out
        yield "compare", "--show", "ranks", "a.json", "b.json", "-o", out
        yield "compare", "--show", "board", "a.json", "b.json", "-o", out
        yield "explain", "slices", "a.json", *SCENES, "--by", "words", "-O", "min_size=5", "-o", out
        yield "evaluate", "languages:scenes", *SCENES[1:], "--scores", "S.npy", "-o", out
        yield "explain", "failures", *SCENES, "--scores", "S.npy", "-o", out
        yield "explain", "attack", *SCENES, "--model", "histograms", "-o", out
        yield "explain", "gap", *SCENES, "--images", "I.npy", "--texts", "T.npy", "-o", out
        yield "explain", "map", *SCENES, "--images", "I.npy", "--texts", "T.npy", "-o", out
        yield "report", "a.json", "-o", out
        yield "data", "audit", *SCENES, "-o", out
        yield "encode", "photos", "--model", "histograms", "-o", out
        yield "data", "convert", *SMALL, f"converted{ending}"
        yield "data", "describe", f"in{ending}"
        yield "match", "fuse", "a.run", "b.run", "-o", out
        yield "match", "assign", "S.npy", "-o", out
        yield "index", "from-vectors", *SCENES, "--embeddings", f"I{ending}"
        yield "evaluate", *SCENES, "--images", f"I{ending}", "--texts", f"T{ending}"
        yield "annotate", "export", "work.db", out
        yield "annotate", "import", "work.db", f"in{ending}"
        yield "explain", "probe", f"probe{ending}", "--model", "histograms"
        yield "evaluate", f"composed:composed{ending}", "--model", "histograms"
    for to in ("csv", "parquet", "webdataset", "croissant", "karpathy", "huggingface", "beir"):
        yield "data", "convert", *SMALL, f"to-{to}", "--to", to
    yield "report", "a.json", "-o", "report.pdf", "-O", "figure=recall"
    yield "report", "a.json", "-o", "README.md"
    yield "compare", "--show", "board", "a.json", "b.json", "-o", "mteb"
    for words in (("evaluate", *SMALL, "--model", "histograms"), ("index", "clustered", *SMALL), ("search", "i", "x")):
        yield *words, "--cluster", "ray://127.0.0.1:1"


def annotating() -> Iterator[tuple[str, ...]]:
    """The other commands of annotation and of the page, with a store that cannot be opened without its extra."""
    for words in (
        *("tasks STORE", "serve STORE", "status STORE", "estimate STORE", "merge STORE", "people list STORE"),
        *("people assign STORE ann", "people review STORE 1 --accept", "study scale STORE scale.toml", "study form"),
        *("study add STORE preference scenes --model histograms", "study add STORE failures scenes --model histograms"),
        *("study list STORE", "study results STORE preference", "study tables STORE", "study bias STORE"),
        *("study export STORE preference -o ratings.csv", "study import STORE preference ratings.csv"),
        *(
            "judge STORE",
            "judge STORE scenes --judge endpoint",
            "judge STORE --judge endpoint -O url=http://127.0.0.1:1 -O model=x",
        ),
    ):
        for store in ("work.db", "postgresql://nobody@127.0.0.1:1/none"):
            yield "annotate", *(store if word == "STORE" else word for word in words.split())
    yield from [("serve",), ("serve", "photos"), ("serve", *SMALL, "--store", "work.db"), ("serve", "--index", "i")]
    for words in (("evaluate", "--estimate"), ("explain", "failures", "--labels")):
        yield *words[:-1], *SMALL, "--model", "histograms", words[-1], "work.db"
    yield "report", "a.json", "-o", "estimated.html", "--estimate", "work.db"
    yield "compare", "a.json", "b.json", "--estimate", "work.db"


def adapters() -> Iterator[tuple[str, Callable[[], object]]]:
    """What Python offers by name: every public module and name, and every adapter."""
    modules = [each.name for each in pkgutil.walk_packages(limner.__path__, "limner.", onerror=lambda name: None)]
    for module in modules:
        if "._" not in module:
            yield f"import {module}", partial(importlib.import_module, module)
    for loaded in [limner, *(sys.modules[name] for name in modules if name in sys.modules)]:
        for name in getattr(loaded, "__all__", ()):
            yield f"{loaded.__name__}.{name}", partial(getattr, loaded, name)
    for registry in [each for each in gc.get_objects() if isinstance(each, Registry)]:
        yield f"every {registry.what}", registry.summaries
        for name in registry:
            yield f"{registry.what} {name}", partial(registry.find, name)
    collection = limner.load("scenes", images=8)
    for name, options in product(names("encoders"), ("", "(model=model)", "(folder=model)", "(file=words.txt)")):
        yield f"encoder({name + options!r})", partial(limner.encoders.encoder, name + options)
    for name in names("systems"):
        yield f"train(scenes, {name!r})", partial(limner.train, collection, name)
    for name, options in product(names("scorers"), ("", "(model=model)")):
        yield f"scorer({name + options!r})", partial(limner.match.scorer, name + options)
    for name in names("datasets"):
        yield f"load('{name}:photos')", partial(limner.load, f"{name}:photos")
    yield "index(...)", partial(limner.search.index, "index", collection)
    yield "open_index('index')", partial(limner.search.open_index, "index")


trainings: list[str] = []
"""The systems that have been trained, in order."""


def counting(train: Callable[..., object]) -> Callable[..., object]:
    """A function that trains, and that writes down what it is called for."""

    def counted(collection: object, system: str = "histograms", **options: object) -> object:
        model = train(collection, system, **options)
        trainings.append(system)
        return model

    return counted


def outcome(label: str, work: Callable[[], object]) -> dict[str, object]:
    """What a piece of work did: its exit status as the shell would get it, its messages, seconds and trainings."""
    stdout, stderr = io.StringIO(), io.StringIO()
    trainings.clear()
    start = time.perf_counter()
    status: object = 0
    with redirect_stdout(stdout), redirect_stderr(stderr):
        try:
            work()
        except SystemExit as error:
            status = error.code
        except LimnerError as error:
            status = 3
            print(error, file=sys.stderr)
        except BaseException:
            status = 70
            print(traceback.format_exc(), file=sys.stderr)
    seconds = round(time.perf_counter() - start, 2)
    messages = stderr.getvalue()[-1500:]
    return {"ran": label, "status": status, "messages": messages, "seconds": seconds, "trained": len(trainings)}


def main() -> None:
    """Runs everything in the folder named on the command line."""
    os.chdir(sys.argv[1])
    present = [name for name in EXTRAS if importlib.util.find_spec(name)]
    if present:
        sys.exit(f"expected the core alone, but there are {', '.join(present)}")
    world()
    limner.train = limner.systems.train = counting(limner.train)
    for words in commands():
        print(json.dumps(outcome(" ".join(words), partial(app, list(words), prog_name="limner"))), flush=True)
    for label, work in adapters():
        print(json.dumps(outcome(label, work)), flush=True)


if __name__ == "__main__":
    main()
