"""What a command evaluates, as given by its options: files of embeddings, scores or runs, or a system by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from limner.cli.console import progress, tell
from limner.cli.options import word
from limner.core.errors import LimnerError

if TYPE_CHECKING:
    from limner.core.collection import Collection, Items
    from limner.core.embeddings import Embeddings
    from limner.search import Index
    from limner.systems.hold_out import Division
    from limner.systems.system_spec import OpenSystem, SystemSpec

SYSTEM = (
    "a model by name (openai/clip-vit-base-patch32), its folder, a name of 'limner list', such as 'clip(model=DIR)', "
    "an index, a matrix of scores, or module:thing."
)
LISTED_IMAGES = 20
"""Images that do not open and are listed in a warning."""


def known_systems(names: str | list[str] | None) -> str | list[str] | None:
    """Refuses names of systems that there are not, when the command line is read: before anything is loaded."""
    from limner.encoders.named_models import is_model_name
    from limner.systems import SYSTEMS
    from limner.systems.opening import find_system

    for name in [names] if isinstance(names, str) else names or ():
        is_known = SYSTEMS.names(name) or Path(name).exists() or _is_encoder(name) or is_model_name(name)
        if not is_known and ":" not in name:
            find_system(name)
    return names


def known_encoder(name: str) -> str:
    """Refuses the name of an encoder that there is not, when the command line is read."""
    from limner.encoders import ENCODERS
    from limner.encoders.named_models import is_model_name

    if not _is_encoder(name) and ":" not in name and not Path(name).exists() and not is_model_name(name):
        ENCODERS.find(name)
    return name


def _is_encoder(name: str) -> bool:
    from limner.encoders import ENCODERS

    return ENCODERS.names(name)


def system_word(about: str, **settings: Any) -> Any:
    """An option that names a system, which must be known."""
    return word(about, "--model", callback=known_systems, **settings)


IdFiles = Annotated[
    list[Path] | None,
    word("Ids of rows, one per line: of the images, then of the texts. Repeatable.", "--ids", metavar="FILE"),
]


@dataclass(frozen=True)
class SystemOptions:
    """The system to evaluate, as given on the command line."""

    images: Path | None = None
    texts: Path | None = None
    ids: Sequence[Path] = ()
    scores: Path | None = None
    runs: Sequence[str] = ()
    system: str | None = None
    trust: bool = False
    features: str | None = None
    cache: Path | None = None

    @property
    def kind(self) -> str:
        """The kind of input, one of four; missing, multiple and incomplete inputs are refused."""
        if (self.images is None) != (self.texts is None):
            raise typer.BadParameter("--images and --texts belong together: give the embeddings of both")
        kinds = {"embeddings": self.images, "matrix": self.scores, "runs": self.runs, "system": self.system}
        named = [kind for kind, value in kinds.items() if value]
        if len(named) != 1:
            raise typer.BadParameter(
                f"got {' and '.join(named) or 'no system'} to evaluate: give one of --images with --texts, --scores, "
                "--run, --model"
            )
        if self.features is not None and named[0] != "system":
            raise typer.BadParameter("-O features is only for a --model that was trained on a file of features")
        if self.cache is not None and named[0] != "system":
            raise typer.BadParameter("--cache is only for --model: other inputs are not encoded")
        if named[0] in ("runs", "system") and self.ids:
            raise typer.BadParameter("--ids is for --images with --texts, and for --scores")
        if len(self.ids) > 2:
            raise typer.BadParameter(f"got {len(self.ids)} files of --ids: expected those of images and of texts")
        return named[0]

    @property
    def label(self) -> str:
        """The default name of the system: its name, or that of its file."""
        if self.runs and not self.system and not self.scores:
            from limner.datasets.runs import run_name

            return run_name(directed(self.runs)[0][0])
        return self.system or Path(str(self.scores or self.images)).stem

    def spec(self, directions: Sequence[str] = ()) -> SystemSpec:
        """The system, not open yet.

        Args:
            directions: The direction of each run, if given.
        """
        from limner.systems.opening import find_system
        from limner.systems.system_files import EmbeddingFiles, RunFiles, ScoreFile

        kind = self.kind
        if directions and kind != "runs":
            raise typer.BadParameter("--direction is only for a --run: scores are always images by texts here")
        image_ids, text_ids = (*self.ids, None, None)[:2]
        if kind == "embeddings":
            return find_system(EmbeddingFiles(str(self.images), str(self.texts), image_ids, text_ids))
        if kind == "matrix":
            return find_system(ScoreFile(Path(str(self.scores)), image_ids, text_ids))
        if kind == "runs":
            files, named = directed(self.runs)
            return find_system(RunFiles(files, directions or named))
        spec = find_system(self.system, trust=self.trust, cache=self.cache)
        if self.cache is not None and spec.is_trained_now and not str(spec.origin).startswith("aligned"):
            raise typer.BadParameter(f"--cache with {self.system}, which is trained now: only encoders have a cache")
        return spec

    def open(self, collection: Collection, split: str | None, directions: Sequence[str] = ()) -> OpenSystem:
        """The system on the items it may be evaluated on, with progress on the terminal."""
        from limner.systems.opening import open_system

        spec = self.spec(directions)
        return open_system(spec, collection, split=split, features=as_features(self.features), stage=progress)

    def open_on(self, collection: Collection, part: Collection, directions: Sequence[str] = ()) -> OpenSystem:
        """The system on a part of a collection, which its files may cover in whole."""
        from limner.systems.hold_out import Division

        return self.spec(directions).on(Division(collection, None, part), stage=progress)

    def collection_in_order(self, per_image: int) -> Collection:
        """The collection of files with n images and `per_image` texts of each in the same order."""
        if self.kind not in ("embeddings", "matrix"):
            raise typer.BadParameter("per-image is for --images with --texts, and for --scores")
        collection: Collection = self.spec().origin.collection(per_image)
        return collection


def directed(runs: Sequence[str]) -> tuple[list[Path], list[str]]:
    """The files of runs, and their directions where they are named.

    >>> directed(["i2t=a.run", "t2i=b.run"])
    ([PosixPath('a.run'), PosixPath('b.run')], ['i2t', 't2i'])
    """
    named = [run.partition("=") if run[:4] in ("i2t=", "t2i=") else ("", "", run) for run in runs]
    directions = [direction for direction, _, _ in named if direction]
    if directions and len(directions) < len(runs):
        raise typer.BadParameter("--run names the direction of some runs: name it for all, as in --run i2t=FILE")
    return [Path(file) for _, _, file in named], directions


def as_features(words: str | None) -> Path | str | None:
    """A file of vectors, or the encoder that computes them."""
    from limner.search.items import VECTOR_ENDINGS

    return Path(words) if words is not None and Path(words).suffix.lower() in VECTOR_ENDINGS else words


def encoded_sides(
    name: str, collection: Collection, split: str | None, *, trust: bool = False
) -> tuple[list[Embeddings], Collection, list[str]]:
    """Vectors of images and texts by a system with one space for both, which is trained first if it has to be.

    Returns:
        The vectors of images and of texts, the encoded part, which the system was not trained on, and notes.
    """
    from limner.systems.opening import find_system
    from limner.systems.system_spec import divided

    spec = find_system(name, trust=trust)
    parts = divided(collection, [spec], split)
    sides = (parts.evaluated.images, parts.evaluated.texts)
    return encoded_by_model(name, spec.trained(parts, stage=progress), sides), parts.evaluated, list(parts.notes)


def encoded_by_model(name: str, model: Any, sides: Sequence[Items]) -> list[Embeddings]:
    """Vectors of images and texts by a model or encoder with one space for both, with progress."""
    from limner.encoders import encoded
    from limner.encoders.contract import refuse_blank

    embeddings = []
    for items in sides:
        refuse_blank(items)
        with progress(f"encoding {len(items):,} {items.kind}s with {name}") as steps:
            embeddings.append(encoded(model, items, progress=steps))
    return embeddings


def training_parts(spec: SystemSpec, source: str, train_on: str | None, evaluated: Collection) -> Division:
    """The collection on which a system is trained now, and what is evaluated: items that are in no collection.

    Args:
        spec: The system.
        source: What is evaluated; for scenes, the built-in collection serves if none is named.
        train_on: The collection, as the user named it.
        evaluated: What is evaluated.
    """
    from limner.cli.options import load
    from limner.systems.hold_out import Division

    if not spec.is_trained_now:
        if train_on is not None:
            raise LimnerError(f"-O train_on with {spec.name}, which is not trained now: leave it out")
        return Division(evaluated, None, evaluated)
    if train_on is None and source != "scenes":
        raise LimnerError(f"{spec.name} is trained now: give -O train_on=COLLECTION, or a model that is trained")
    training_collection = load(train_on or source, None)
    return Division(
        training_collection,
        training_collection.train if "train" in training_collection.splits else training_collection,
        evaluated,
    )


def open_index(
    path: str,
    name: str | None = None,
    *,
    encodes: bool = True,
    version: int | None = None,
    features: str | None = None,
    trust: bool = False,
) -> Index:
    """An index with its query encoder, the one of that name or the one it was built with, if something is encoded."""
    if not encodes:
        from limner.search import open_index as plain_index

        return plain_index(path, version=version)
    from limner.systems.opening import open_index_with_model

    return open_index_with_model(path, name, version=version, features=as_features(features), trust=trust)


def tell_unopened(reasons: Mapping[str, str], total: int) -> None:
    """Warns of images that do not open.

    Args:
        reasons: Why each of them does not open.
        total: The number of all images.
    """
    if not reasons:
        return
    lines = [f"warning: {len(reasons):,} of {total:,} images do not open and are left out:"]
    lines += [f"  {reason}" for reason in list(reasons.values())[:LISTED_IMAGES]]
    if len(reasons) > LISTED_IMAGES:
        lines.append(f"  and {len(reasons) - LISTED_IMAGES:,} more; --json lists all")
    tell("\n".join(lines))


def unusable_files(path: str) -> dict[str, str]:
    """The files of a folder of images that are no use by their names alone, each with the reason."""
    from limner.datasets.image_folder import photos

    return {name: f"{name}: {reason}" for name, reason in photos(path).left_out} if Path(path).is_dir() else {}


def is_qrels(spec: str) -> bool:
    """Whether a collection is a qrels file: by its name, its columns, or its first line, `query 0 candidate grade`."""
    from limner.datasets import detect
    from limner.datasets.trec import is_pair_file

    if spec.startswith("qrels:"):
        return True
    path = Path(spec)
    if not path.is_file():
        return False
    if is_pair_file(path):
        return True
    if path.suffix.lower() not in ("", ".txt"):
        return detect(path).name == "qrels"
    with path.open("rb") as file:
        cells = file.readline().split()
    return len(cells) == 4 and cells[3].replace(b".", b"", 1).lstrip(b"-").isdigit()
