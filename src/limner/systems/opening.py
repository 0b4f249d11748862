"""The one opener of systems: from what the user names to something that gives scores.

A system is named by a key of `limner.systems.SYSTEMS` (trained now: "towers", "towers(epochs=5)"), the folder of a
saved model, the name of a model whose adapter is found from its files ("openai/clip-vit-base-patch32", a folder, a tag
of open_clip: `limner.encoders.named_models`), an encoder ("clip(model=DIR)", "module:thing" or an object), a scorer of
image-text pairs ("blip-itm(model=DIR)"), an index of images, or files of scores, embeddings or runs
(`limner.systems.system_files`). `find_system` tells which it is, without loading a model; `open_system` gives its
scores on the items it may be evaluated on (`limner.systems.hold_out`).
"""

from __future__ import annotations

import difflib
import inspect
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError, UnknownName
from limner.core.files import replacing, replacing_model
from limner.core.paths import folder_for
from limner.core.registry import checked
from limner.encoders import ENCODERS, Encoder, SetEncoder, TwoSided, encoded
from limner.encoders.contract import gives_sets, refuse_blank
from limner.encoders.hub import KNOWN
from limner.encoders.named_models import is_model_folder, is_model_name, named_model, pinned
from limner.encoders.opening import open_encoder
from limner.scores import Scores
from limner.systems import SYSTEMS, train
from limner.systems.hold_out import Division
from limner.systems.system_files import EmbeddingFiles, RunFiles, ScoreFile
from limner.systems.system_spec import (
    ENCODER,
    FILES,
    INDEX,
    MODEL,
    TRAINED,
    OpenSystem,
    Stage,
    SystemSpec,
    divided,
    quiet,
    with_features,
)

if TYPE_CHECKING:
    from limner.core.collection import Collection
    from limner.search import Index

INDEX_MODEL = "system"
"""File name of a model that is stored inside the folder of its index."""


def find_system(
    source: object,
    *,
    trust: bool = False,
    from_user: bool = True,
    cache: Path | None = None,
    encoder: bool = False,
) -> SystemSpec:
    """The system behind a name, a path, files or an object, without loading it.

    An encoder of images or texts alone is joined with a simple one of the other: the system "aligned" is then trained
    (`limner.systems.aligned`).

    Args:
        source: The system; see the module docstring.
        trust: Whether files may name custom code.
        from_user: Whether the user gave the name; False for a name read from a file, which must not be "module:thing".
        cache: Cache folder for vectors, for an encoder; by default the one shared by all commands.
        encoder: Whether only an encoder or a saved model will do, even if a system has the same name.
    """
    spec = replace(_spec(source, trust, from_user, cache, encoder_first=encoder), cache=cache)
    if encoder and spec.kind not in (ENCODER, MODEL) and not str(spec.origin).startswith("aligned"):
        raise LimnerError(
            f"{source}: expected an encoder of 'limner list encoders', such as 'clip(model=DIR)', or a saved "
            "model; not a system that is trained now"
        )
    if cache is not None and spec.kind == MODEL:
        raise LimnerError(f"--cache with {source}, a saved model: only vectors of encoders are cached; leave it out")
    if cache is not None and spec.kind == ENCODER and gives_sets(spec.origin):
        raise LimnerError(
            f"--cache with {source}, which has several vectors per item, and only one is cached; leave it out"
        )
    return _joined(spec)


def find_model(source: object, *, features: object = None, trust: bool = False, from_user: bool = True) -> Any:
    """The model behind a name, a path or an object, which encodes images, texts or both.

    Args:
        source: A saved model, an encoder, or "module:thing".
        features: Image vectors, or their file, for a model that was trained on features.
        trust: Whether files may name custom code.
        from_user: As for `find_system`.
    """
    return with_features(_spec(source, trust, from_user).model(), features)


def open_system(
    source: object,
    collection: Collection,
    *,
    split: str | None = None,
    features: object = None,
    trust: bool = False,
    cache: Path | None = None,
    stage: Stage = quiet,
) -> OpenSystem:
    """Opens a system on the items it may be evaluated on.

    Args:
        source: A name of `limner.systems.SYSTEMS`, a saved model, an encoder, a file of scores, two sets of embeddings
            (images, texts), an index of images, or an object.
        collection: The collection.
        split: The split to evaluate; "all" for everything. By default the test split if there is one.
        features: Image vectors, or their file, for a model that was trained on features.
        trust: Whether files may name custom code.
        cache: Cache folder for vectors, for an encoder; by default the one shared by all commands.
        stage: Called with a description of the next step; returns a progress callback.

    Returns:
        Its scores, the evaluated items (never its training items), and its model for further items.
    """
    spec = source if isinstance(source, SystemSpec) else find_system(source, trust=trust, cache=cache)
    return spec.on(divided(collection, [spec], split), features=features, stage=stage)


def open_systems(
    specs: Sequence[SystemSpec],
    collection: Collection,
    *,
    split: str | None = None,
    features: object = None,
    stage: Stage = quiet,
) -> tuple[list[OpenSystem], Division]:
    """Opens several systems on items that none of them was trained on.

    Args:
        specs: The systems; see `find_system`.
        collection: The collection.
        split: As for `open_system`.
        features: For those of the systems that accept features.
        stage: As for `open_system`.

    Returns:
        The systems, and the parts of the collection.
    """
    parts = divided(collection, specs, split)
    each_features = features_of(specs, features)
    opened = [
        spec.on(parts, features=system_features, stage=stage)
        for spec, system_features in zip(specs, each_features, strict=True)
    ]
    return opened, parts


def features_of(systems: Sequence[SystemSpec], features: object) -> list[object]:
    """The features for each of several systems: the given ones if it accepts features, otherwise None.

    Args:
        systems: The systems that are opened together.
        features: Vectors, their file, or an encoder; None for none. Refused if no system accepts features.
    """
    accepted = [None if features is None or not system.takes_features else features for system in systems]
    if features is not None and all(each is None for each in accepted):
        names = ", ".join(system.name for system in systems)
        raise LimnerError(f"features for {names}: they are for a model trained on features; leave them out")
    return accepted


# --- indexes -----------------------------------------------------------------------------------------------------


def local_folder(path: str | Path) -> Path | None:
    """The local folder of an index; None if it is in object storage."""
    local = str(path).removeprefix("file://")
    return None if "://" in local else Path(local)


@dataclass(frozen=True, eq=False)
class IndexScores:
    """Scores of the images of an index and the texts of a collection, by the model of the index.

    Args:
        path: The folder of the index.
        trust: Whether the index and its model may name custom code.
    """

    path: Path
    trust: bool = False

    @property
    def model_path(self) -> Path:
        """Where the model of an index is stored, if it is inside its folder."""
        return self.path / INDEX_MODEL

    def scores(self, parts: Division) -> Scores:
        """The scores of the evaluated items."""
        part, index = parts.evaluated, open_index_with_model(self.path, trust=self.trust)
        if index.system is None:
            raise LimnerError(f"the index {self.path} does not name a query encoder: give vectors, or name a system")
        refuse_blank(part.texts)
        if index.about.has_sets:
            from limner.search.set_search import scores_of_items

            return scores_of_items(index.store, part.images.ids, index.read_queries(part.texts)[1])
        texts = encoded(index.system, part.texts)  # type: ignore[arg-type]  # one vector per item
        images = Embeddings(index.ids, np.concatenate(list(index.store.vectors()))).subset(part.images.ids)
        return Scores.from_embeddings(images, texts, similarity=index.about.similarity)


def open_index_with_model(
    path: str | Path,
    name: str | None = None,
    *,
    version: int | None = None,
    features: object = None,
    trust: bool = False,
) -> Index:
    """An index with the model that encodes its queries.

    Args:
        path: The index.
        name: A saved model or encoder; by default the one that built the index. None if there is none.
        version: A version of the index; by default the newest.
        features: Image vectors, or their file, for a model that was trained on features.
        trust: Whether the index and its model may name custom code.
    """
    from limner.search import open_index

    index = open_index(str(path), version=version)
    if (name or index.about.system) is not None:
        index.system = with_features(model_of_index(index, name, local_folder(path), trust=trust), features)
    return index


def model_of_index(index: Index, name: str | None, folder: Path | None, *, trust: bool = False) -> Any:
    """The model of an index, by name; a different model is refused.

    Args:
        index: The index.
        name: A saved model or encoder, or the name of the system that was trained for the index; None for its own.
        folder: The folder of the index, which may contain models.
        trust: Whether the index and its model may name custom code.
    """
    about = index.about
    is_own_name = about.system == INDEX_MODEL and name in SYSTEMS and not Path(str(name)).exists()
    from_user = name is not None and not is_own_name
    model = _saved_model(str(name if from_user else about.system), folder, trust=trust, from_user=from_user)
    builder = about.made_by or getattr(model, "name", about.system)
    if is_own_name and name != builder:
        raise LimnerError(
            f"the index was made with {builder!r}, not with {name!r}: leave out --model, or make a separate index"
        )
    index.refuse_other(model, name or about.system)
    return model


def _saved_model(name: str, folder: Path | None, *, trust: bool, from_user: bool = True) -> Any:
    """A model by name, from the folder of the index if it contains one of that name."""
    inside = None if folder is None else folder / name
    path = inside if inside is not None and inside.exists() else Path(name)
    if SYSTEMS.names(name) and not path.exists():
        raise LimnerError(f"system {name!r} is not trained: give a COLLECTION to train it on, or a saved model")
    return find_model(path if path.exists() else name, trust=trust, from_user=from_user)


def model_for_index(
    name: str,
    collection: Collection | None,
    folder: Path | None,
    *,
    features: object = None,
    trust: bool = False,
    stage: Stage = quiet,
) -> tuple[object, str]:
    """A model for a new index, and its stored name: one of the hub is stored with its commit.

    A name of `SYSTEMS` is trained on the collection first. Models are kept in the folder of the index, so that
    it can be moved. A model that was trained on features uses the features of the items.
    """
    if SYSTEMS.names(name) and not Path(name).exists():
        if collection is None or folder is None:
            raise LimnerError(
                f"system {name!r} has to be trained: name a COLLECTION and a local folder for the index, or train it "
                "first and give the saved model"
            )
        with stage(f"training {name} on {len(collection.images):,} images") as progress:
            options: dict[str, Any] = {} if features is None else {"features": features}
            model: Any = train(collection, name, progress=progress, **options)
        model.save(_cleared_path(folder))
        return with_features(model, features), INDEX_MODEL
    model = with_features(_saved_model(name, None, trust=trust), features)
    if is_model_name(name) and not ENCODERS.names(name):
        return model, pinned(name, model)
    if Path(name).exists() and folder is not None:
        _copy(Path(name), _cleared_path(folder))
        return model, INDEX_MODEL
    return model, name


def _cleared_path(folder: Path) -> Path:
    """The model path in the folder of a new index, after removing leftovers of an interrupted run."""
    path = folder_for(folder) / INDEX_MODEL
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    return path


def _copy(model: Path, target: Path) -> None:
    if model.is_dir():
        with replacing_model(target) as draft:
            shutil.copytree(model, draft, dirs_exist_ok=True)
    else:
        with replacing(target) as draft:
            shutil.copyfile(model, draft)


# --- kinds of names and objects ---------------------------------------------------------------------------------


def _spec(
    source: object, trust: bool, from_user: bool, cache: Path | None = None, *, encoder_first: bool = False
) -> SystemSpec:
    if not isinstance(source, (str, Path)):
        return _of_object(source, trust)
    name = str(source)
    if encoder_first and ENCODERS.names(name):
        return SystemSpec(name, ENCODER, open_encoder(name, {}, cache), trust)
    if SYSTEMS.names(name):
        return SystemSpec(name, TRAINED, name, trust)
    if Path(name).exists() and not is_model_folder(Path(name)):
        return _of_path(Path(name), trust)
    if ENCODERS.names(name):
        return SystemSpec(name, ENCODER, open_encoder(name, {}, cache), trust)
    from limner.match import SCORERS  # imports compiled loops, so only if the name may be a scorer

    if SCORERS.names(name):
        return SystemSpec(name, MODEL, _pair_scorer(name), trust)
    if is_model_name(name):
        return _of_named_model(name, trust, cache)
    if name.startswith(("/", "./", "../", "~")) or name.endswith("/"):
        raise LimnerError(
            f"no file or folder {name}: expected a saved model, the folder of a model, an index or a matrix of scores; "
            "or the name of a model, such as openai/clip-vit-base-patch32"
        )
    if ":" not in name:
        names = sorted({*SYSTEMS, *ENCODERS, *SCORERS, *difflib.get_close_matches(name, KNOWN, cutoff=0.7)})
        raise UnknownName("system, saved model or file", name, names)
    return _of_code(name, trust, trusted=from_user or trust)


def _of_named_model(name: str, trust: bool, cache: Path | None) -> SystemSpec:
    """A model by its bare name: an encoder, or a scorer of pairs."""
    model = named_model(name)
    if not model.adapter.is_scorer:
        encoder = open_encoder(model.adapter.name, model.settings, cache)
        return SystemSpec(name, ENCODER, encoder, trust, notes=model.adapter.notes)
    return SystemSpec(name, MODEL, _pair_scorer(model.adapter.name, **model.settings), trust)


def _of_path(path: Path, trust: bool) -> SystemSpec:
    if path.suffix.lower() == ".npy":
        return replace(_of_object(ScoreFile(path), trust), name=str(path))
    if (path / "items.lance").is_dir():
        return SystemSpec(str(path), INDEX, IndexScores(path, trust), trust)
    return SystemSpec(str(path), MODEL, path, trust)


def _of_code(name: str, trust: bool, *, trusted: bool) -> SystemSpec:
    """A system of the user: "module:thing" is a function that trains, a class, or an object."""
    kind, options = SYSTEMS.parsed(name)
    code: object = SYSTEMS.find(kind, trusted=trusted)
    if inspect.isfunction(code):
        return SystemSpec(name, TRAINED, name, trust)
    system = code(**checked(code, options, what=f"system {kind!r}")) if inspect.isclass(code) else code
    return replace(_of_object(system, trust), name=name)


def _of_object(system: object, trust: bool) -> SystemSpec:
    name = str(getattr(system, "name", type(system).__name__))
    if isinstance(system, SystemSpec):
        return system
    if isinstance(system, Scores):
        return SystemSpec("scores", FILES, system, trust)
    if isinstance(system, Sequence) and len(system) == 2:
        system = EmbeddingFiles(*system)
    if isinstance(system, (EmbeddingFiles, ScoreFile, RunFiles)):
        notes = [f"{file} has no ids: its rows are used in the order of the collection" for file in system.without_ids]
        return SystemSpec(system.what, FILES, system, trust, notes=tuple(notes))
    if hasattr(system, "scores"):
        return SystemSpec(name, MODEL, system, trust)
    if isinstance(system, (Encoder, TwoSided, SetEncoder)):
        return SystemSpec(name, ENCODER, system, trust)
    raise LimnerError(
        f"a system that is {type(system).__name__}: expected a name, a path, a model with scores(collection), an "
        "encoder, Scores, or (embeddings of images, embeddings of texts)"
    )


def _pair_scorer(name: str, **options: object) -> object:
    """A pair scorer that scores every image-text pair of a collection."""
    from limner.match import scorer

    pair_scorer = scorer(name, **options)
    if not hasattr(pair_scorer, "queries"):  # the inputs that it reads for the images of a collection
        raise LimnerError(
            f"{name} scores pairs of texts: as a system, name a scorer that reads images, such as "
            "'blip-itm(model=DIR)', or re-rank with it ('limner match rerank')"
        )
    return pair_scorer


def _joined(spec: SystemSpec) -> SystemSpec:
    """An encoder of one kind of items, joined with a simple one of the other; other systems are unchanged."""
    kinds: tuple[str, ...] = getattr(spec.origin, "kinds", ()) if spec.kind == ENCODER else ()
    if len(kinds) != 1:
        return spec
    side, stand_in = (
        ("images", "texts are bags of words") if kinds[0] == "image" else ("texts", "images are histograms")
    )
    note = f"{spec.name} encodes {side} only: {stand_in}, and both are mapped into one space fitted on training items"
    return replace(spec, kind=TRAINED, origin="aligned", options={side: spec.origin}, notes=(*spec.notes, note))
