"""Trained KCCA models: one joint space for images and texts, or fifteen of them fused per task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Array, Float32
from limner.core.collection import Collection, Items
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.core.model_store import Content
from limner.core.options import checked
from limner.core.progress import ProgressLike
from limner.core.ranking import Ranking
from limner.match.fusion import borda
from limner.scores import Scores
from limner.scores.parallel_blocks import Block
from limner.systems.canonical import is_numeric
from limner.systems.classic.kcca import Directions, KernelPair, Matrix
from limner.systems.classic.kernel_model import FeatureSource, KernelModel
from limner.systems.classic.kernels import raised
from limner.systems.classic.selection import TASKS, Setting


@dataclass(frozen=True, eq=False)
class Projection:
    """From kernel rows to projections: (rows - means) weights.

    Args:
        means: Means of the columns of the training kernel.
        weights: Training items by projections, in the precision of the solver.
    """

    means: Matrix
    weights: Matrix

    def __post_init__(self) -> None:
        """Refuses what is no affine map, as a damaged file may contain."""
        if not (is_numeric(self.means, 1) and is_numeric(self.weights, 2) and len(self.means) == len(self.weights)):
            shapes = (getattr(part, "shape", type(part).__name__) for part in (self.means, self.weights))
            raise LimnerError(
                "a projection with means {} and weights {}: expected shapes (n,) and (n, m)".format(*shapes)
            )

    def __call__(self, rows: Matrix, n: int) -> Matrix:
        """The first n projections of items, from their similarities with every training item."""
        moved = (rows - self.means).astype(self.weights.dtype)
        return np.asarray(moved @ self.weights[:, :n])


@dataclass(frozen=True, eq=False)
class Space:
    """One solution of KCCA, ready for new items.

    Args:
        setting: The hyperparameters, and the number of projections.
        correlations: Correlations of the projections on the training pairs, in descending order.
        images: Projects images.
        texts: Projects texts.
    """

    setting: Setting
    correlations: Float32
    images: Projection
    texts: Projection

    def __post_init__(self) -> None:
        """Refuses correlations and projections of different numbers, as a damaged file may contain."""
        widths = {side.weights.shape[1] for side in (self.images, self.texts)}
        if not is_numeric(self.correlations, 1) or widths != {len(self.correlations)}:
            raise LimnerError(f"projections {sorted(widths)} with other correlations: expected as many of each")

    @classmethod
    def of(cls, pair: KernelPair, directions: Directions, setting: Setting) -> Space:
        """The first n projections of a solution."""
        sides = []
        for spectrum, weights in ((pair.x, directions.x), (pair.y, directions.y)):
            turned = spectrum.vectors[:, : len(weights)].astype(weights.dtype) @ weights[:, : setting.n]
            sides.append(Projection(spectrum.means.astype(weights.dtype), turned))
        correlations = directions.correlations[: setting.n].astype(np.float32)
        return cls(setting, correlations, *sides)

    def has(self, setting: Setting) -> bool:
        """Whether this solution matches a setting, with enough projections."""
        return self.setting.solution == setting.solution and setting.n <= len(self.correlations)


@dataclass(frozen=True, eq=False)
class KccaModel(KernelModel):
    """A trained system: kernels, the training items to compare with, and projections.

    The image kernel is kept before the power of a setting is applied.

    Args:
        spaces: Solutions.
        settings: By task ("i2t", "t2i"): which solution and how many projections; several are fused by Borda count.
    """

    KIND = "kcca"

    spaces: tuple[Space, ...]
    settings: Mapping[str, tuple[Setting, ...]]

    @property
    def fused(self) -> bool:
        """Whether the rankings of several models are fused for each task."""
        return any(len(settings) > 1 for settings in self.settings.values())

    def scores(
        self, collection: Collection, *, features: FeatureSource = None, progress: ProgressLike = None
    ) -> Scores:
        """Cosine similarity of the projections of every image and every text; Borda points for a fused model.

        Args:
            collection: Images and texts.
            features: Features of the images, for a model that was trained on features; or their precomputed histograms.
            progress: Called with (images done, images in total).
        """
        if not self.fused:
            images = self.encode_images(collection.images, features=features, progress=progress)
            return Scores.from_embeddings(images, self.encode_texts(collection.texts), similarity="dot")
        image_rows = self.image_rows(collection.images, features=features, progress=progress)
        return self.fuse(image_rows, self.text_rows(collection.texts), collection.images.ids, collection.texts.ids)

    def encode_images(
        self, items: Items, *, features: FeatureSource = None, progress: ProgressLike = None
    ) -> Embeddings:
        """Images in the joint space: their normalised projections (see `Embeddings.of_length_one`)."""
        space, n = self._only("encode_images")
        rows = self.image_rows(items, features=features, progress=progress)
        return Embeddings.of_length_one(items.ids, space.images(raised(rows, space.setting.power), n))

    def encode_texts(self, items: Items) -> Embeddings:
        """Texts in the joint space: their normalised projections."""
        space, n = self._only("encode_texts")
        return Embeddings.of_length_one(items.ids, space.texts(self.text_rows(items), n))

    def unknown_words(self, text: str) -> list[str]:
        """The words of a text that did not occur in training; empty if a custom text kernel cannot tell."""
        vocabulary = getattr(self.text_kernel, "vocabulary", None)
        return [] if vocabulary is None else list(vocabulary.unknown(text))

    def _only(self, operation: str) -> tuple[Space, int]:
        if self.fused:
            raise LimnerError(
                f"{operation} of a model that fuses {len(self.settings['i2t'])} spaces: there is no single joint "
                f"space; train with fuse=False, or use scores"
            )
        setting = self.settings["i2t"][0]
        return self._space(setting), setting.n

    def _space(self, setting: Setting) -> Space:
        return next(space for space in self.spaces if space.has(setting))

    def fuse(self, image_rows: Matrix, text_rows: Matrix, images: Ids, texts: Ids) -> Scores:
        """Borda points of every pair, from kernel rows: each direction uses the models chosen for its task."""
        scores_by_setting: dict[Setting, Scores] = {}
        for setting in {s for settings in self.settings.values() for s in settings}:
            space = self._space(setting)
            sides = (
                Embeddings.of_length_one(images, space.images(raised(image_rows, setting.power), setting.n)),
                Embeddings.of_length_one(texts, space.texts(text_rows, setting.n)),
            )
            scores_by_setting[setting] = Scores.from_embeddings(*sides, similarity="dot")
        forward = _points(borda([scores_by_setting[setting] for setting in self.settings["i2t"]]))
        backward = _points(borda([scores_by_setting[setting].T for setting in self.settings["t2i"]]))
        return TwoWayScores(images, texts, forward, backward)

    def _content(self) -> dict[str, object]:
        spaces = [
            {
                "setting": asdict(s.setting),
                "correlations": s.correlations,
                "images": vars(s.images),
                "texts": vars(s.texts),
            }
            for s in self.spaces
        ]
        settings = {task: [asdict(s) for s in settings] for task, settings in self.settings.items()}
        return {**super()._content(), "spaces": spaces, "settings": settings}

    @classmethod
    def _learned_from(cls, content: Content) -> dict[str, object]:
        spaces = tuple(
            Space(_setting(s["setting"]), s["correlations"], Projection(**s["images"]), Projection(**s["texts"]))
            for s in content["spaces"]
        )
        settings = {task: tuple(map(_setting, content["settings"][task])) for task in TASKS}
        return {"spaces": spaces, "settings": settings}

    def _refuse_misfit(self) -> None:
        """Also refuses a task without a setting, a setting without a space, and spaces of other training items."""
        super()._refuse_misfit()
        for task, settings in self.settings.items():
            if not settings or not all(any(space.has(setting) for space in self.spaces) for setting in settings):
                raise LimnerError(f"{len(settings)} settings for the task {task}: expected some, each with its space")
        sizes = {len(side.means) for space in self.spaces for side in (space.images, space.texts)}
        if sizes != {len(self.documents)}:
            raise LimnerError(f"projections from {sorted(sizes)} training items: expected {len(self.documents)}")


def _setting(values: Content) -> Setting:
    """A setting as a file contains it; refuses numbers with which no model is trained."""
    setting = Setting(**checked(Setting, values, what="setting"))
    if setting.n < 1 or min(setting.kappa, setting.text_kappa, setting.diagonal, setting.power) <= 0:
        raise LimnerError(f"{setting}: expected numbers above 0")
    return setting


@dataclass(frozen=True, eq=False)
class TwoWayScores(Scores):
    """Scores whose two directions are not transposes, such as rankings fused by task or nearest neighbour.

    Args:
        queries: Ids of the queries.
        candidates: Ids of the candidates.
        forward: Queries by candidates.
        backward: Candidates by queries.
    """

    queries: Ids
    candidates: Ids
    forward: Array
    backward: Array

    @property
    def T(self) -> TwoWayScores:
        """The other direction, with its own scores."""
        return TwoWayScores(self.candidates, self.queries, self.backward, self.forward)

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The type of the matrices."""
        return self.forward.dtype

    def block(self, start: int, stop: int, out: Float32 | None = None) -> Block:
        """Rows of the forward matrix, copied."""
        return np.array(self.forward[start:stop], order="C")


def _points(ranking: Ranking) -> npt.NDArray[np.float64]:
    """The scores of a ranking of all candidates as a matrix."""
    if ranking.scores is None:
        raise LimnerError("a fused ranking without scores: expected points")
    points = np.empty((len(ranking.queries), len(ranking.candidates)))
    np.put_along_axis(points, ranking.indices.astype(np.int64), ranking.scores, axis=1)
    return points
