"""Text kernels of the ranking paper over 30,000 captions: CPU-seconds, and how much faster than plain Python.

Five captions of each of 6,000 images, every image with every other: 30,000 x 30,000 pairs of sentences. Plain Python
does the same work, sequences counted in dictionaries or the same running sums in lists, on a few images, and is
compared by the pair of images. Two threads for all. Flickr8k's training captions with `--data`, otherwise captions of
`scenes`.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from claims import Claim, Task, interleaved, log, main
from limner.language.words import Reader
from limner.systems.classic.alignment import Alignment
from limner.systems.classic.lexical import LexicalKernel
from limner.systems.classic.pairs import documents_of
from limner.systems.classic.sentences import Documents, DocumentVocabulary
from limner.systems.classic.similarity import Distributional, Maximum, WordTable
from limner.systems.classic.strings import StringKernel
from limner.systems.classic.tagrank import TagRank

KERNELS = {
    "bag of words": StringKernel(length=1),
    "trigrams": StringKernel(weights="root idf"),
    "tag rank": TagRank(),
    "lexical trigrams": LexicalKernel(Maximum((Distributional(), Alignment())), StringKernel(weights="root idf")),
}


def documents(data: Path | None, many: int) -> Documents:
    """The captions of so many training images."""
    from limner.datasets import load

    source = "scenes" if data is None else f"flickr8k:{data / 'flickr8k'}"
    whole = documents_of(load(source).train)
    return list(itertools.islice(itertools.cycle(whole), many))


def ours(name: str, data: Path | None, many: int) -> Callable[[], object]:
    """limner's kernel, fitted and compiled."""
    some = documents(data, many)
    kernel = KERNELS[name].fit(some)
    kernel(some[:3])
    kernel.vocabulary.number_all(some)  # captions are read once for all kernels
    return partial(_sum, kernel, some)


def _sum(kernel: Callable[[Documents], object], some: Documents) -> float:
    return float(kernel(some).sum())  # type: ignore[attr-defined]  # a table of numbers


def plain(name: str, data: Path | None, many: int, few: int) -> Callable[[], object]:
    """The same in plain Python on a few of the images."""
    some = documents(data, many)
    reader = Reader()
    vocabulary = DocumentVocabulary.fit(some, reader)
    weights = dict(zip(vocabulary.words, vocabulary.weights("root idf", len(vocabulary.words)).tolist(), strict=True))
    read = [[reader(caption) for caption in captions] for captions in some[:few]]
    if name == "trigrams":
        return partial(python_strings, read, weights)
    table = KERNELS["lexical trigrams"].fit(some).table
    return partial(python_lexical, read, weights, Kappa(table))


class Kappa(dict[tuple[str, str], float]):
    """The similarities of words that are met, as a dictionary."""

    def __init__(self, table: WordTable) -> None:
        self.row = {word: at for at, word in enumerate(table.words)}
        self.values_ = table.values.tolist()

    def __missing__(self, pair: tuple[str, str]) -> float:
        a, b = (self.row.get(word) for word in pair)
        found = float(pair[0] == pair[1]) if a is None or b is None else self.values_[a][b]
        self[pair] = found
        return found


def python_strings(read: list[list[list[str]]], weights: dict[str, float]) -> float:
    """Sequences counted in dictionaries."""
    maps = []
    for captions in read:
        counts: Counter[tuple[str, ...]] = Counter()
        for words in captions:
            for k in (1, 2, 3):
                spans = {
                    (p[0], p[-1], tuple(words[i] for i in p)) for p in itertools.combinations(range(len(words)), k)
                }
                counts.update(w for _, _, w in spans)
        maps.append({w: c * math.prod(0.5 * weights[v] for v in w) for w, c in counts.items()})
    selves = [sum(v * v for v in each.values()) for each in maps]
    total = 0.0
    for (a, x), (b, y) in itertools.product(zip(maps, selves, strict=True), repeat=2):
        small, large = (a, b) if len(a) < len(b) else (b, a)
        total += sum(v * large.get(w, 0.0) for w, v in small.items()) / math.sqrt(x * y)
    return total


def python_lexical(read: list[list[list[str]]], weights: dict[str, float], kappa: Kappa) -> float:
    """The running sums of the compiled loops, in lists."""

    def response(x: list[list[str]], y: list[list[str]]) -> float:
        return sum(sentence_pair(s, t, weights, kappa) for s in x for t in y)

    selves = [response(x, x) for x in read]
    total = 0.0
    for (x, a), (y, b) in itertools.product(zip(read, selves, strict=True), repeat=2):
        total += response(x, y) / math.sqrt(a * b)
    return total


def sentence_pair(s: list[str], t: list[str], weights: dict[str, float], kappa: Kappa) -> float:
    """The kernel of two sentences."""
    n, m = len(s), len(t)
    sums = [[0.0] * (m + 1) for _ in range(n + 1)]
    match = [[0.25 * weights[a] * weights[b] * kappa[a, b] for b in t] for a in s]
    for i in range(n):
        running = 0.0
        for j in range(m):
            running += match[i][j]
            sums[i + 1][j + 1] = sums[i][j + 1] + running
    total = sums[n][m]
    for i in range(n):
        p = _before(s, i)
        for j in range(m):
            q = _before(t, j)
            left = sums[i][j] - sums[p][j] - sums[i][q] + sums[p][q]
            right = sums[n][m] - sums[i + 1][m] - sums[n][j + 1] + sums[i + 1][j + 1]
            total += match[i][j] * (sums[i][j] + left * right)
    return total


def _before(words: list[str], at: int) -> int:
    return next((i for i in range(at - 1, -1, -1) if words[i] == words[at]), 0)


def run(options: argparse.Namespace) -> Iterator[Claim]:
    many, few, rounds = (600, 20, 1) if options.quick else (6000, 40, options.rounds)
    tasks = {name: Task(ours, name, options.data, many) for name in KERNELS}
    tasks |= {
        f"{name}, Python": Task(plain, name, options.data, many, few) for name in ("trigrams", "lexical trigrams")
    }
    found = interleaved(tasks, rounds=rounds, threads=2)
    for name in KERNELS:
        claim = f"{name}: {5 * many:,} captions with each other, CPU-seconds"
        yield Claim(claim, found[name].cpu, goal="<= 600")
    for name in ("trigrams", "lexical trigrams"):
        each = found[name].cpu / many**2, found[f"{name}, Python"].cpu / few**2
        log(f"{name}: {1e6 * each[0]:.2f} us of CPU a pair of images, plain Python {1e6 * each[1]:.0f} us")
        yield Claim(
            f"{name}: CPU microseconds a pair of images vs plain Python", *(1e6 * e for e in each), goal="<= 0.02"
        )


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
