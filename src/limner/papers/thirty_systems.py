"""The thirty systems of the ranking paper's appendix, by name; each has a method, a text kernel and an image kernel.

Hodosh, Young & Hockenmaier 2013, appendix B. Names follow the paper, in plain text: `Tri5-A-BNC+ic-idf` is the
trigram kernel over five captions with alignment (A) and distributional similarities from an external corpus (the
paper's was the British National Corpus, BNC) and from the image captions (ic), weighted by the square root of idf; the
paper calls it Tri5Sem, and it calls NN5-idf-F1 NN. Twenty-five of the thirty follow from the paper's text: its table 6
has sixteen variants of Tri5. The rows of its tables 11 and 12 are missing in our copy of the text; the other five are
assumed to be the systems that the text discusses with whole-image histograms instead of pyramids.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from limner.core.errors import LimnerError, UnknownName
from limner.core.progress import ProgressLike
from limner.language.words import Reader
from limner.systems.classic.kernel_model import FeatureSource

if TYPE_CHECKING:
    from limner.core.collection import Collection
    from limner.papers.nearest_neighbours import NearestModel
    from limner.papers.word_similarity import Similarity
    from limner.systems.classic.models import KccaModel
    from limner.systems.classic.sentences import TextKernel

Corpus = tuple[str, ...] | Path | None


@dataclass(frozen=True)
class Text:
    """A text kernel of the paper.

    Args:
        kind: "f1", "bow", "tagrank" or "trigrams".
        weights: "none", "idf" or "root idf".
        captions: Number of captions used per training image; all by default.
        similarities: Word similarities: from "lin", "alignment", "captions" and "corpus".
    """

    kind: str
    weights: str = "none"
    captions: int | None = None
    similarities: tuple[str, ...] = ()

    def kernel(self, *, reader: Reader | None = None, corpus: Corpus = None) -> TextKernel:
        """The kernel, not yet fitted.

        Args:
            reader: Tokenises captions.
            corpus: Sentences of an external corpus, or a file with one sentence per line.
        """
        from limner.papers.lexical_kernel import LexicalKernel
        from limner.papers.tagrank import TagRank
        from limner.systems.classic.strings import OverlapF1, StringKernel

        read = reader or Reader()
        if self.kind == "f1":
            return OverlapF1(self.weights, self.captions, read)
        if self.kind == "tagrank":
            return TagRank(self.captions, read)
        length = 1 if self.kind == "bow" else 3
        strings = StringKernel(length=length, weights=self.weights, captions=self.captions, reader=read)
        return LexicalKernel(self._similarity(corpus), strings) if self.similarities else strings

    def _similarity(self, corpus: Corpus) -> Similarity:
        """The mean of the distributional kernels, or the maximum of this mean and the alignment kernel."""
        from limner.papers.word_similarity import Alignment, Distributional, Lin, Maximum, Mean

        if "corpus" in self.similarities and corpus is None:
            raise LimnerError(
                "this system compares words by their co-occurrence in an external corpus, which was not given: "
                "give corpus=, the sentences or a file with one sentence per line (the paper's was the British "
                "National Corpus)"
            )
        if "lin" in self.similarities:
            return Lin()
        sources = {"captions": Distributional(), "corpus": Distributional(corpus)}
        company: list[Similarity] = [sources[name] for name in self.similarities if name in sources]
        parts: list[Similarity] = [Mean(tuple(company))] if len(company) > 1 else company
        parts += [Alignment()] if "alignment" in self.similarities else []
        return parts[0] if len(parts) == 1 else Maximum(tuple(parts))


@dataclass(frozen=True)
class System:
    """One system of the paper.

    Args:
        name: Its key in `SYSTEMS`.
        method: "kcca" or "nearest".
        text: The text kernel.
        images: "pyramid" or "histogram".
    """

    name: str
    method: Literal["kcca", "nearest"]
    text: Text
    images: Literal["pyramid", "histogram"] = "pyramid"

    def train(
        self,
        collection: Collection,
        *,
        dev: Collection | None = None,
        reader: Reader | None = None,
        corpus: Corpus = None,
        **options: Any,
    ) -> KccaModel | NearestModel:
        """Trains the system.

        Args:
            collection: The training collection: images, each with one or more texts.
            dev: Split on which KCCA settings are chosen; with it, fifteen models are fused per task, as in the paper.
            reader: Tokenises captions.
            corpus: Sentences of an external corpus, or a file with one sentence per line, for systems with BNC in their
                name.
            options: Options of `limner.systems.classic.training.train`, which override the paper's, or of
                `limner.papers.nearest_neighbours.train`.
        """
        from limner.papers import nearest_neighbours
        from limner.systems.classic import training

        kernel = self.text.kernel(reader=reader, corpus=corpus)
        settings: dict[str, Any] = {"images": self.images, "texts": kernel, "name": self.name, **options}
        if self.method == "nearest":
            return nearest_neighbours.train(collection, **{"points": training.PAPER["points"], **settings})
        return training.train(collection, dev=dev, **{**training.PAPER, "fuse": dev is not None, **settings})


def _systems() -> dict[str, System]:
    best = Text("trigrams", "root idf", similarities=("alignment", "corpus", "captions"))
    texts = {
        "BoW1": Text("bow", captions=1),
        "BoW5": Text("bow"),
        "BoW5-idf": Text("bow", "idf"),
        "BoW5-rootidf": Text("bow", "root idf"),
        "TagRank": Text("tagrank"),
        "Tri5-Lin": Text("trigrams", similarities=("lin",)),
    }
    company = {"": (), "BNC": ("corpus",), "ic": ("captions",), "BNC+ic": ("corpus", "captions")}
    for ending, weights in (("", "none"), ("idf", "root idf")):
        for aligned, alignment in (("", ()), ("A", ("alignment",))):
            for name, sources in company.items():
                full = "-".join(part for part in ("Tri5", aligned, name, ending) if part)
                texts[full] = Text("trigrams", weights, similarities=(*alignment, *sources))
    systems = [System(name, "kcca", text) for name, text in texts.items()]
    systems += [
        System("NN5-idf-F1", "nearest", Text("f1", "idf")),
        System("NN5-BoW5-rootidf", "nearest", texts["BoW5-rootidf"]),
        System("NN5-Tri(best)", "nearest", best),
    ]
    histogram_texts = ("BoW1", "BoW5", "TagRank", "Tri5", "Tri5-A-BNC+ic-idf")
    systems += [System(f"{name}/histogram", "kcca", texts[name], "histogram") for name in histogram_texts]
    return {system.name: system for system in systems}


SYSTEMS: Mapping[str, System] = MappingProxyType(_systems())
"""All thirty systems by name."""

ALIASES: Mapping[str, str] = MappingProxyType(
    {"NN": "NN5-idf-F1", "Tri5Sem": "Tri5-A-BNC+ic-idf", "Tri5Lin": "Tri5-Lin"}
)
"""Short names that the paper uses in its text."""


def system(name: str) -> System:
    """A system by its name in `SYSTEMS`, or by its alias in the paper.

    >>> system("Tri5Sem").text.similarities, system("BoW1/histogram").images
    (('alignment', 'corpus', 'captions'), 'histogram')
    """
    full = ALIASES.get(name, name)
    if full not in SYSTEMS:
        raise UnknownName("system", name, [*SYSTEMS, *ALIASES], of="the ranking paper")
    return SYSTEMS[full]


def train(
    collection: Collection,
    *,
    dev: Collection | None = None,
    variant: str = "Tri5Sem",
    corpus: str | None = None,
    features: FeatureSource = None,
    rank: int | None = None,
    precision: str | None = None,
    side: int = 192,
    seed: int = 0,
    workers: int | None = None,
    progress: ProgressLike = None,
) -> KccaModel | NearestModel:
    """A system of the ranking paper by its name, with the paper's settings (Hodosh, Young & Hockenmaier 2013).

    Args:
        collection: The training collection: images, each with one or more texts.
        dev: Split on which KCCA settings are chosen; with it, fifteen models are fused per task, as in the paper.
        variant: The system: one of the thirty names of `SYSTEMS`, or NN, Tri5Sem, Tri5Lin as in the paper's text.
        corpus: A file with one sentence per line, for systems with BNC in their name, including Tri5Sem.
        features: Features of all images by id, instead of pixels; `Embeddings`, `Histograms`, or a file of either.
        rank: Maximum rank of each kernel for KCCA (leading eigenvectors); whole kernels by default.
        precision: Precision of KCCA: "double" or "single"; by default single from 2,000 training images.
        side: The shorter side of images in pixels.
        seed: Seed of the points that visual words are learned from.
        workers: Threads; all cores by default.
        progress: Called with (work done, work in total), counted in images.
    """
    chosen = system(variant)
    options: dict[str, Any] = {"features": features, "side": side, "seed": seed, "workers": workers}
    solving: dict[str, Any] = {"rank": rank, "precision": precision}
    learned = {name: value for name, value in solving.items() if value is not None}
    if chosen.method == "nearest" and learned:
        raise LimnerError(
            f"{' and '.join(learned)} with {chosen.name}: nearest neighbours do not decompose kernels; leave these "
            f"options out"
        )
    corpus_file = None if corpus is None else Path(corpus)
    return chosen.train(collection, dev=dev, corpus=corpus_file, progress=progress, **options, **learned)
