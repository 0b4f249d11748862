"""What `ranking_paper.py` and `thirty_systems.py` share: Flickr8k as the paper splits it, kernels, KCCA, reports.

Kernels are computed once for all systems that share them. With a `--keep` folder kernels and scores stay for the next
run. `--gpu` decomposes on a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pooling import Bias, Mask, Pool, first_answers

from claims import log
from limner.core.collection import Collection
from limner.core.embeddings import Embeddings
from limner.core.ids import Ids
from limner.datasets.flickr import load_flickr8k
from limner.evaluation.evaluate import evaluate
from limner.evaluation.reports.report import Report
from limner.language.words import Reader, lemma_lexicon
from limner.papers.nearest_neighbours import nearest_scores
from limner.papers.thirty_systems import System
from limner.scores import Scores
from limner.systems.classic.kcca import Directions, KernelPair, Spectrum, centred, spectrum
from limner.systems.classic.kernel_model import documents_of
from limner.systems.classic.kernels import Features, FittedPyramid, Pyramid
from limner.systems.classic.models import KccaModel, TwoWayScores
from limner.systems.classic.selection import DIAGONALS, KAPPAS, POWERS, Dev, trials
from limner.systems.classic.training import GridSearch
from limner.systems.classic.visualwords import WordHistograms

FOUND = ("R@1", "R@5", "R@10", "MedR")
JUDGED = ("S@1", "S@5", "S@10", "RP")
TASKS = {"i2t": "annotation", "t2i": "search"}
SIDES = {"words": 192, "96 pixels": 96, "48 pixels": 48}
"""The shorter side of photographs by source: those that are here, and the same made smaller. The paper's were not made
smaller (most are 375 x 500)."""
PROTOCOL = "flickr8k-judged"
"""The public protocol: originals, and these with the 2,031 pairs that the crowd added."""


@dataclass(frozen=True)
class Data:
    """The three splits, what people judged, the five captions of each test image, and how captions are read."""

    train: Collection
    dev: Collection
    test: Collection
    judged: Collection
    references: list[list[str]]
    reader: Reader

    @classmethod
    def read(cls, folder: Path, *, quick: bool) -> Data:
        """Flickr8k; with `quick` a sixth of the training images."""
        place = folder / "flickr8k" if (folder / "flickr8k").is_dir() else folder
        collection = load_flickr8k(place)
        train = collection.train.restrict(list(collection.train.images.ids)[::6]) if quick else collection.train
        dev, test = (load_flickr8k(place, split=name, captions=[2]) for name in ("dev", "test"))
        judged, test = test, replace(test, extra={}, ratings={})
        lexicon = lemma_lexicon(collection.texts.values, collection.texts.field("lemmas"))
        return cls(train, dev, test, judged, documents_of(collection.test), Reader(lexicon=lexicon))

    @cached_property
    def documents(self) -> list[list[str]]:
        """The captions of each training image."""
        return documents_of(self.train)

    @property
    def all_images(self) -> Ids:
        """Training, dev and test images."""
        return Ids([*self.train.images.ids, *self.dev.images.ids, *self.test.images.ids])


def definitions(folder: Path) -> tuple[str, ...]:
    """Definitions and examples of WordNet, one sentence each: what follows the bar in its data files."""
    sentences = []
    for name in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{name}").read_text(encoding="utf-8").splitlines():
            if " | " in line and not line.startswith("  "):
                sentences += [part.strip(' "') for part in line.partition(" | ")[2].split(";")]
    return tuple(part for part in sentences if part)


Reports = tuple[Report, Report]
Side = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Similarities with the training items: of the training, the dev and the test items."""


def timed(title: str, work: Callable[[], Any]) -> Any:
    """Does something, and says how long it took."""
    start = time.perf_counter()
    result = work()
    log(f"{title}: {time.perf_counter() - start:.1f} s")
    return result


def leading(kernel: np.ndarray, rank: int, *, rounds: int = 3, seed: int = 0) -> Spectrum:
    """The leading eigenvectors of a centred kernel, by subspace iteration from random directions."""
    from scipy.linalg import eigh, qr

    centred_kernel = centred(kernel.astype(np.float32))
    basis = np.random.default_rng(seed).normal(size=(len(centred_kernel), rank + rank // 10)).astype(np.float32)
    for _ in range(rounds):
        basis, _ = qr(centred_kernel @ basis, mode="economic", overwrite_a=True, check_finite=False)
    values, turned = eigh(basis.T @ (centred_kernel @ basis), check_finite=False)
    vectors = basis @ turned[:, ::-1][:, :rank]
    log(f"  {rank} eigenvalues: {values[::-1][:rank].sum() / np.trace(centred_kernel):.1%} of the trace")
    return Spectrum(vectors, values[::-1][:rank].astype(np.float64), kernel.mean(axis=0), 1.0)


class Solved:
    """The images' kernel as something to solve with: (K + kappa I)^-1 for any kappa, without eigenvectors."""

    def __init__(self, kernel: np.ndarray) -> None:
        """Centres the kernel."""
        from scipy.sparse import eye_array

        self.means = kernel.mean(axis=0)
        self.kernel = centred(kernel.astype(np.float32))
        self.vectors = eye_array(len(kernel), dtype=np.float32, format="csr")
        self._factors: dict[float, Any] = {}

    def coordinates(self, rows: np.ndarray) -> np.ndarray:
        """Similarities with the training items; their own mean falls away, as projections sum to 0."""
        return np.asarray(rows - self.means, dtype=np.float32)

    def solve(self, kappa: float, right: np.ndarray) -> np.ndarray:
        """(K + kappa I)^-1 times something."""
        from scipy.linalg import cho_factor, cho_solve

        if kappa not in self._factors:
            moved = self.kernel + kappa * np.eye(len(self.kernel), dtype=np.float32)
            self._factors[kappa] = cho_factor(moved, overwrite_a=True, check_finite=False)
        return np.asarray(cho_solve(self._factors[kappa], right, check_finite=False))


class Half:
    """KCCA with the images' kernel exact and the texts' cut to its leading eigenvectors V, as `KernelPair` solves it.

    With s and w as there, A'A = s_y V' K_x (K_x + kappa I)^-1 V s_y = Q diag(lambda^2) Q' needs no eigenvectors of K_x,
    and a = (K_x + kappa I)^-1 V s_y Q / lambda, b = V w_y Q.
    """

    def __init__(self, x: Solved, y: Spectrum) -> None:
        """Keeps both; what the images solve for one kappa serves every diagonal."""
        self.x, self.y = x, y
        self._solved: dict[float, np.ndarray] = {}

    def solve(self, kappa: float, *, text_kappa: float | None = None, diagonal: float = 1.0) -> Directions:
        """All projections for one kappa of the images and one of the texts."""
        from scipy.linalg import eigh

        basis = self.y.vectors.astype(np.float32)
        if kappa not in self._solved:
            self._solved[kappa] = self.x.solve(kappa, basis)
        values = self.y.shifted(diagonal).astype(np.float32)
        ridge = values + np.float32(kappa if text_kappa is None else text_kappa)
        scale, weight = np.sqrt(values / ridge), 1 / np.sqrt(values * ridge)
        inner = np.eye(len(values), dtype=np.float32) - kappa * (basis.T @ self._solved[kappa])
        squares, turned = eigh(scale[:, None] * (inner + inner.T) / 2 * scale, check_finite=False)
        is_positive = squares > 1e-5 * squares[-1]
        singular_values, turned = np.sqrt(squares[is_positive][::-1]), turned[:, is_positive][:, ::-1]
        images = self._solved[kappa] @ (scale[:, None] * turned / singular_values)
        return Directions(singular_values, images, weight[:, None] * turned)


@dataclass
class Bench:
    """Everything that systems share: kernels are computed once."""

    data: Data
    options: argparse.Namespace
    _images: dict[tuple[str, str], Side] = field(default_factory=dict)
    _texts: dict[Any, Side] = field(default_factory=dict)
    _held: dict[tuple[str, str, float], Any] = field(default_factory=dict)
    pooled: dict[tuple[str, str], dict[str, Bias]] = field(default_factory=dict)
    answers: dict[tuple[str, str], Mask] = field(default_factory=dict)
    """Of each system the pairs of image and caption among the first ten answers of either task."""

    def __post_init__(self) -> None:
        """A kernel with no more eigenvectors than are asked for stays exact: the last ones of a centred one are 0."""
        if self.options.rank is not None and self.options.rank >= len(self.data.train.images):
            self.options.rank = None

    def images(self, source: str, kind: str) -> Side:
        """Rows of the image kernel, before any power; one source of features is kept at a time, with all its kinds."""
        kind = self.options.kernel if source == "cnn" else kind
        if (source, kind) not in self._images:
            make = self._cnn if source == "cnn" else self._words
            title = f"image kernel {kind}, {source}"
            self._images[source, kind] = self.cached(title, lambda: make(source, kind))
        return self._images[source, kind]

    def _cnn(self, source: str, kind: str) -> Side:
        folder = self.options.data
        folder = (folder / "flickr8k" if (folder / "flickr8k").is_dir() else folder) / "features"
        names = [line.split("\t")[0].strip() for line in (folder / "image_names.txt").read_text().splitlines()]
        rows = np.load(folder / "efficientnet_lite0_pool1280_fp16.npy").astype(np.float32)
        features = Embeddings(names, rows)
        train, dev, test = (features.subset(part.images.ids).matrix for part in self._parts())
        kernel = Features(kind).fit(train)
        return kernel(train), kernel(dev, train), kernel(test, train)

    def _words(self, source: str, kind: str) -> Side:
        file, side = self.options.histograms, SIDES[source]
        if file is not None and source != "words":
            file = file.with_stem(f"{file.stem}-{side}")
        histograms, pyramid = self._histograms(file, side)
        kernel = FittedPyramid(pyramid.vocabulary, 3 if kind == "pyramid" else 1)
        train, dev, test = (histograms.subset(part.images.ids) for part in self._parts())
        return kernel(train), kernel(dev, train), kernel(test, train)

    def _histograms(self, file: Path | None, side: int) -> tuple[WordHistograms, FittedPyramid]:
        if file is not None and file.is_file():
            histograms, words = WordHistograms.load(file)
            if words is None:
                raise SystemExit(f"{file} has histograms without their words: expected a file that this script wrote")
            return histograms, FittedPyramid(words)
        kernel = timed("visual words", lambda: Pyramid(side=side).fit(self.data.train.images))
        photographs = load_flickr8k(self.options.data / "flickr8k").restrict(self.data.all_images)
        histograms = timed("histograms", lambda: kernel.features(photographs.images, progress=progress("photographs")))
        if file is not None:
            histograms.save(file, vocabulary=kernel.vocabulary)
        return histograms, kernel

    def _parts(self) -> tuple[Collection, Collection, Collection]:
        return self.data.train, self.data.dev, self.data.test

    def texts(self, system: System) -> Side:
        """Rows of the text kernel; the last one stays in memory, since systems that share it stand side by side."""
        if system.text not in self._texts:
            self._texts = {system.text: self.cached(f"text kernel {system.name}", lambda: self._compared(system))}
        return self._texts[system.text]

    def _compared(self, system: System) -> Side:
        kernel = system.text.kernel(reader=self.data.reader, corpus=self.corpus).fit(self.data.documents)
        dev, test = ([[text] for text in part.texts.values] for part in (self.data.dev, self.data.test))
        documents = self.data.documents
        return kernel(documents, progress=progress("images")), kernel(dev, documents), kernel(test, documents)

    def cached(self, title: str, work: Callable[[], Side]) -> Side:
        """Computes something that takes long, or reads it where an earlier run has kept it."""
        if self.options.keep is None:
            return timed(title, work)
        file = self.options.keep / f"{title.replace('/', ' ')}, {len(self.data.train.images)} images.npz"
        if not file.is_file():
            parts = timed(title, work)
            _write(file, **{f"arr_{at}": part.astype(np.float32) for at, part in enumerate(parts)})
        with np.load(file) as arrays:
            one, dev, test = (arrays[f"arr_{at}"].astype(np.float64) for at in range(3))
        return one, dev, test

    @cached_property
    def corpus(self) -> Any:
        """The outside corpus."""
        if self.options.corpus is not None:
            return definitions(self.options.corpus) if self.options.corpus.is_dir() else self.options.corpus
        file = self.options.data / "coco" / "captions_val2017.json"
        if not file.is_file():
            return None
        return tuple(row["caption"].strip() for row in json.loads(file.read_text(encoding="utf-8"))["annotations"])

    def scores(self, system: System, source: str) -> tuple[Scores, str]:
        """The scores of a system on the test pool, and the settings that dev chose."""
        images, texts = self.images(source, system.images), self.texts(system)
        ids = self.data.test.images.ids, self.data.test.texts.ids
        if system.method == "nearest":
            tables = nearest_scores(images[2], texts[2]), nearest_scores(texts[2], images[2])
            return TwoWayScores(*ids, *tables), ""
        *tables, chosen_settings = self._fused(system, source, images[2], texts[2])
        return TwoWayScores(*ids, *tables), str(chosen_settings)

    def _fused(self, system: System, source: str, images: np.ndarray, texts: np.ndarray) -> Any:
        """The tables of both directions and the settings that dev chose; kept where kernels are."""
        o = self.options
        parameters = (o.rank, *o.kappas, *o.diagonals, *o.powers, len(self.data.train.images))
        file = o.keep / f"{system.name}, {source}, {' '.join(map(str, parameters))}.npz" if o.keep else None
        if file is not None and file.is_file():
            with np.load(file) as arrays:
                return arrays["forward"], arrays["backward"], arrays["said"]
        search = timed(f"{system.name}, {source}: KCCA", lambda: self._search(system, source))
        settings = search.settings
        model = KccaModel(system.name, None, None, None, self.data.documents, search.spaces(), settings)
        log("\n".join(_on_dev(search.trials)))
        chosen_settings = "; ".join(f"{title} {_setting_text(settings[task])}" for task, title in TASKS.items())
        scores: Any = model.fuse(images, texts, self.data.test.images.ids, self.data.test.texts.ids)
        if file is not None:
            _write(file, forward=scores.forward, backward=scores.backward, said=np.array(chosen_settings))
        return scores.forward, scores.backward, chosen_settings

    def _search(self, system: System, source: str) -> GridSearch:
        """Every setting, measured on dev; the images' kernels are decomposed once for all systems."""
        (_, dev_images, _), (train_texts, dev_texts, _) = self.images(source, system.images), self.texts(system)
        search, texts = GridSearch(fuse=True), self.decomposed(train_texts)
        for power in (1.0,) if source == "cnn" else self.options.powers:
            pair = self.pair(source, system.images, power, texts)
            trial_options: dict[str, Any] = {
                "kappas": self.options.kappas,
                "diagonals": self.options.diagonals,
                "power": power,
            }
            for solution in trials(pair, Dev.of(self.data.dev), dev_images**power, dev_texts, **trial_options):
                search.add(pair, *solution)
        return search

    def pair(self, source: str, kind: str, power: float, texts: Spectrum) -> Any:
        """The two decomposed kernels; the images' one is kept for the systems that follow."""
        key = source, kind, power
        if key not in self._held:
            full_kernel = self.images(source, kind)[0] ** power
            self._held[key] = spectrum(full_kernel) if self.options.rank is None else Solved(full_kernel)
        solved = self._held[key]
        return KernelPair(solved, texts, "single") if isinstance(solved, Spectrum) else Half(solved, texts)

    def decomposed(self, kernel: np.ndarray) -> Spectrum:
        """A text kernel's eigenvectors: all, or the leading ones."""
        rank = self.options.rank
        return spectrum(kernel) if rank is None else timed("leading eigenvectors", lambda: leading(kernel, rank))

    def reports(self, system: System, source: str) -> Reports:
        """What a system finds of the original items, and of what people call relevant."""
        name = system.name
        scores, chosen = self.scores(system, source)
        report = evaluate(scores, self.data.test, measures=FOUND, name=name)
        judged = crowd(evaluate(scores, self.data.judged, protocol=PROTOCOL, name=name))
        self.pooled[name, source] = self._pooled(scores)
        forward_answers, back = (first_answers(each.block(0, len(each.queries))) for each in (scores, scores.T))
        self.answers[name, source] = forward_answers | back.T
        log(f"{name}, {source}: {line(values(report, judged))}  {chosen}")
        return report, judged

    def _pooled(self, scores: Scores) -> dict[str, Bias]:
        """What people judged of the first ten answers, by task."""
        by_task = {"i2t": (self.pool, scores), "t2i": (self.pool.T, scores.T)}
        return {task: pool.bias(each.block(0, len(each.queries))) for task, (pool, each) in by_task.items()}

    @cached_property
    def pool(self) -> Pool:
        """What was judged of the test images and captions."""
        return Pool.of(self.data.judged, self.data.references)


def crowd(report: Report) -> Report:
    """The part of a report on the protocol that the paper prints: S@k and R-precision with the crowd's pairs."""
    return replace(report, results=tuple(r for r in report.results if r.view == "crowd" and str(r.measure) in JUDGED))


def _write(file: Path, **arrays: np.ndarray) -> None:
    """Writes a file that other runs may read at any time: it is there whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f"{os.getpid()}-{file.name}")
    np.savez(part, **arrays)  # type: ignore[arg-type]  # the stub takes the names for its own options
    part.replace(file)


def _on_dev(trials: Any) -> Iterator[str]:
    """The best mean R@10 of both tasks on dev, for every diagonal, power and kappa."""
    best: dict[tuple[float, float, float], tuple[float, int]] = {}
    for trial in trials:
        key = trial.setting.diagonal, trial.setting.power, trial.setting.kappa
        mean = (trial.recalls["i2t"][2] + trial.recalls["t2i"][2]) / 2
        best[key] = max(best.get(key, (0.0, 0)), (mean, trial.setting.n))
    for (d, p, kappa), (recall, n) in best.items():
        yield f"  dev: d {d:g}, p {p:g}, kappa {kappa:g}: R@10 {100 * recall:.1f} with n = {n}"


def _setting_text(settings: Any) -> str:
    """Which values the fifteen models of a task have."""
    parts = [
        f"{short} {'/'.join(f'{v:g}' for v in sorted({getattr(s, field) for s in settings}))}"
        for short, field in (("kappa", "kappa"), ("d", "diagonal"), ("p", "power"))
    ]
    sizes = [s.n for s in settings]
    return ", ".join([*parts, f"n {min(sizes)}-{max(sizes)}"])


def progress(title: str) -> Callable[[int, int], None]:
    """Says every thousand."""

    def report_progress(done: int, total: int) -> None:
        if done % 1000 == 0 or done == total:
            log(f"{done:,} of {total:,} {title}")

    return report_progress


Values = dict[tuple[str, str], float]


def values(*reports: Report) -> Values:
    """Every number in percent, median ranks as they are, by task and measure."""
    return {
        (r.direction, str(r.measure)): r.value * (1 if str(r.measure) == "MedR" else 100)
        for report in reports
        for r in report.results
    }


def line(measured_values: Values) -> str:
    """The numbers of one system in short."""
    return "  ".join(
        f"{TASKS[task]} " + " ".join(f"{measured_values[task, m]:.1f}" for m in (*FOUND, *JUDGED)) for task in TASKS
    )


def on_gpu(device: str = "cuda") -> None:
    """Lets a GPU decompose: the same steps as on the CPU, with cuSOLVER instead of LAPACK."""
    import scipy.linalg
    import torch

    from limner.systems.classic import kcca

    def eigh(matrix: np.ndarray, **_: Any) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = torch.linalg.eigh(torch.from_numpy(np.ascontiguousarray(matrix)).to(device))
        return values.cpu().numpy(), vectors.cpu().numpy()

    def singular(middle: np.ndarray) -> tuple[np.ndarray, ...]:
        if middle.shape[0] > middle.shape[1]:
            values, right, left = singular(middle.T)
            return values, left, right
        on_device = torch.from_numpy(np.ascontiguousarray(middle)).to(device)
        squares, vectors = torch.linalg.eigh(on_device @ on_device.T)
        is_positive = squares > 10 * torch.finfo(on_device.dtype).eps * squares[-1]
        values, left = squares[is_positive].flip(0).sqrt(), vectors[:, is_positive].flip(1)
        return tuple(part.cpu().numpy() for part in (values, left, on_device.T @ left / values))

    scipy.linalg.eigh, kcca._eigh, kcca._singular = eigh, eigh, singular


def opened(options: argparse.Namespace) -> Bench:
    """The captions, kernels and pool that a proof with these options works on."""
    if options.data is None:
        raise SystemExit("--data DIR: expected the folder that holds flickr8k/")
    if options.gpu:
        on_gpu()
    return Bench(timed("captions", lambda: Data.read(options.data, quick=options.quick)), options)


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of every proof with these kernels."""
    numbers: dict[str, Any] = {"type": float, "nargs": "+"}
    parser.add_argument("--kernel", choices=("linear", "rbf", "chi2"), default="rbf", help="of CNN features")
    parser.add_argument("--corpus", type=Path, help="outside corpus: a file, or a folder of WordNet's data files")
    parser.add_argument("--histograms", type=Path, help="file for the visual words: read where it is, else written")
    parser.add_argument("--kappas", **numbers, default=KAPPAS)
    parser.add_argument("--diagonals", **numbers, default=DIAGONALS)
    parser.add_argument("--powers", **numbers, default=POWERS)
    parser.add_argument("--rank", type=int, help="leading eigenvectors of the texts' kernel; all by default")
    parser.add_argument("--keep", type=Path, help="folder where kernels and scores are kept for the next run")
    parser.add_argument("--gpu", "--card", dest="gpu", action="store_true", help="decompose on a GPU (needs torch)")
    parser.add_argument("--minutes", type=float, help="no further system is begun after so many minutes")


class Clock:
    """Says when the time that a run may take is over."""

    def __init__(self, minutes: float | None) -> None:
        self._end = None if minutes is None else time.monotonic() + 60 * minutes

    def over(self, part: str) -> bool:
        """Whether something is not to be begun any more, and says so."""
        if self._end is None or time.monotonic() < self._end:
            return False
        log(f"{part}: not begun, the time is over")
        return True
