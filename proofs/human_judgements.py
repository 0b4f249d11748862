"""How far people, BLEU, ROUGE and a crowd agree on Flickr8k: the ranking paper's figures, recomputed from its files.

Hodosh, Young & Hockenmaier (2013), sections 2.3.2, 4.2 and 4.3.2: three expert scores (1 to 4) of a pair of image and
caption, votes of a crowd, and what BLEU and ROUGE make of the same pairs. The pool is caption #2 of each of the 1,000
test images. A figure agrees when it rounds to the printed one.

With `--quick` the ablations are left out; the figures are the same.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from claims import Claim, log, main
from limner.datasets.flickr import RawJudgements, crowd_votes, expert_scores, load_flickr8k
from limner.language.word_overlap import STOP_WORDS, Words, bleu_table, content_words, rouge_table, tokens
from limner.stats import cohen_kappa, krippendorff_alpha

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

POOL = 2  # the number of the caption of each image that stands in the pool of candidates
ALL, POOLED, OTHERS = (0, 1, 2, 3, 4), (POOL,), (0, 1, 3, 4)
SUMS = (12, 11, 10, 9, 8, 7, 6)  # expert thresholds 4, 3.67, ... 2, times three judges: whole numbers compare exactly
SEARCHED = SUMS[:5]  # the best values in print are the best down to 2.67; further down ROUGE would reach 0.56
STEPS = tuple(step / 10 for step in range(1, 11))


@dataclass(frozen=True)
class Figure:
    """A number of ours beside the printed one.

    Attributes:
        name: What it is, with its unit.
        ours: The number recomputed.
        published: The number as printed, whose digits say how exact it is; empty if the paper has none.
        reason: Why they differ, or what was needed to make them agree.
    """

    name: str
    ours: float
    published: str = ""
    reason: str = ""

    @property
    def decimals(self) -> int:
        """Digits behind the point in print."""
        return len(self.published.partition(".")[2])

    @property
    def value(self) -> float | None:
        """The printed number."""
        return float(self.published.replace(",", "")) if self.published else None

    def claim(self) -> Claim:
        """Near enough to round to what is printed."""
        goal, source = f"within {0.5 * 10**-self.decimals:g}", "print" if self.published else ""
        return Claim(self.name, self.ours, self.value, goal=goal, note=self.reason, source=source)

    def row(self) -> str:
        """One line of a Markdown table."""
        verdict, difference = "", ""
        if self.value is not None:
            verdict = "yes" if self.claim().met else "**no**"
            difference = self._written(self.ours - self.value, "+")
        return line(self.name, self._written(self.ours), self.published, difference, verdict, self.reason)

    def _written(self, number: float, sign: str = "") -> str:
        """One digit more than in print; counts as whole numbers."""
        places = 0 if isinstance(self.ours, int) else max(self.decimals, 1) + 1
        return f"{round(number, places) + 0.0:{sign},.{places}f}"  # + 0.0: no "-0.00"


@dataclass(frozen=True)
class Pairs:
    """Judged pairs: the row of each caption in the pool, the row of its image, and what people said."""

    captions: npt.NDArray[np.int64]
    images: npt.NDArray[np.int64]
    values: Array

    @property
    def own(self) -> Mask:
        """Pairs of an image with the caption written for it."""
        return self.captions == self.images


@dataclass(frozen=True)
class Data:
    """The test images: five captions each (and their lemmas), the experts' three scores, the crowd's share of yes."""

    captions: list[list[str]]
    lemmas: list[list[str]]
    expert: Pairs
    crowd: Pairs
    mean_length: float

    @property
    def pool(self) -> list[str]:
        """The candidates: one caption of each image."""
        return [five[POOL] for five in self.captions]

    def references(self, numbers: Sequence[int]) -> list[list[str]]:
        """For each image its captions of these numbers."""
        return [[five[number] for number in numbers] for five in self.captions]

    @property
    def sums(self) -> Array:
        """The sum of each expert pair's three scores."""
        return self.expert.values.sum(axis=1)


def read(folder: Path | None) -> Data:
    """Flickr8k from the folder itself or from the folder of data sets that holds it."""
    if folder is None:
        sys.exit("no data: give --data DIR (or LIMNER_DATA) with flickr8k/ in it, whose text/ holds Flickr8k.token.txt")
    folder = folder / "flickr8k" if (folder / "flickr8k").is_dir() else folder
    every = load_flickr8k(folder)
    test, texts = every.splits["test"], every.texts
    columns = [dict(zip(texts.ids, column, strict=True)) for column in (texts.values, texts.field("lemmas"))]
    captions, lemmas = ([[column[f"{image}#{k}"] for k in ALL] for image in test] for column in columns)
    crowd = placed(test, crowd_votes(folder))
    shares = crowd.values[:, 0] / crowd.values.sum(axis=1)
    length = float(np.mean([len(text.split()) for text in texts.values]))
    return Data(captions, lemmas, placed(test, expert_scores(folder)), replace(crowd, values=shares), length)


def placed(test: Sequence[str], judged: RawJudgements) -> Pairs:
    """The judged pairs by place among the test images."""
    place = {image: row for row, image in enumerate(test)}
    captions = [place[caption.rpartition("#")[0]] for caption in judged.captions]
    return Pairs(np.array(captions), np.array([place[i] for i in judged.images]), judged.values.astype(float))


def percent(mask: Mask) -> float:
    return 100 * float(mask.mean())


def line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def markdown(head: str, rows: Sequence[Sequence[str]]) -> str:
    """A table; the cells of its head are separated by bars."""
    names = head.split("|")
    return "\n".join(line(*row) for row in (names, ["---", *["---:"] * (len(names) - 1)], *rows))


def counts(data: Data) -> Iterator[Figure]:
    """How much was judged, and what the crowd's votes add."""
    expert, crowd = data.expert, data.crowd
    yield Figure("words in a caption, mean", data.mean_length, "11.8")
    yield Figure("expert: judged pairs", len(expert.values))
    yield Figure("expert: of these, a caption with its own image", int(expert.own.sum()))
    yield Figure("expert: mean score", float(expert.values.mean()))
    yield Figure("expert: pairs with mean score 4", int((data.sums == 12).sum()))
    further_note = (
        "30,781 that pass the filter and 10,374 others in print; the file has 6,665 more that pass, origin unknown"
    )
    yield Figure("crowd: judged pairs", len(crowd.values), "41,155", further_note)
    yield Figure("crowd: of these, a caption with its own image", int(crowd.own.sum()))
    yield Figure("crowd: pairs found relevant by nobody, %", percent(crowd.values == 0))
    yield from added(data)


def added(data: Data) -> Iterator[Figure]:
    """Relevant pairs beside the original ones, and how many each caption and image has."""
    crowd = data.crowd
    for threshold, why in ((0.5, "half the votes are enough"), (0.66, "the paper says 0.66, but 0.5 gives its number")):
        new = int(((crowd.values >= threshold) & ~crowd.own).sum())
        yield Figure(f"crowd: pairs added at a share of yes >= {threshold}", new, "2,031", why)
    relevant = np.eye(len(data.captions), dtype=bool)  # caption by image
    relevant[crowd.captions, crowd.images] |= crowd.values >= 0.5
    misprint = "the four printed numbers of images sum to 950, not 1,000: these two repeat those of the captions"
    yield from shared_by("captions", relevant.sum(axis=1), ("446", "202", "100", "252"), ("",) * 4)
    yield from shared_by("images", relevant.sum(axis=0), ("331", "202", "100", "317"), ("", misprint, misprint, ""))


def shared_by(
    name: str, relevant: npt.NDArray[np.int64], published: Sequence[str], reasons: Sequence[str]
) -> Iterator[Figure]:
    """How many captions or images have one, two, three, and four or more relevant partners."""
    for n, (number, reason) in enumerate(zip(published, reasons, strict=True), start=1):
        count = int((np.minimum(relevant, 4) == n).sum())
        yield Figure(f"crowd: {name} with {n}{' or more' * (n == 4)} relevant (>= 0.5)", count, number, reason)


def alphas(data: Data) -> Iterator[Figure]:
    """Krippendorff's alpha of the three scores; the file sorts them within a pair, which alpha does not see."""
    scores = data.expert.values.T
    why = "not chance (95% interval 0.776 to 0.799); pairs counted once for each system that returned them could do it"
    for level, published, reason in (("interval", "0.81", why), ("ordinal", "", ""), ("nominal", "", "")):
        alpha = krippendorff_alpha(scores, level=level)
        yield Figure(f"expert: Krippendorff's alpha, {level}", alpha, published, reason)
    repeated = np.repeat(scores, np.where(data.sums >= 8, 13, 10), axis=1)
    name = "expert: Krippendorff's alpha, interval, if pairs of mean >= 2.67 counted 1.3 times"
    yield Figure(name, krippendorff_alpha(repeated, level="interval"))


def agreement(scores: Array, sums: Array, threshold: float, total: int) -> float:
    """Cohen's kappa of `score >= threshold` with `sum of expert scores >= total`."""
    return cohen_kappa(scores >= threshold, sums >= total)


def of_expert_pairs(data: Data, metric: str, numbers: Sequence[int], words: Words | None = None) -> Array:
    """BLEU or ROUGE of the pairs the experts judged, with these captions of the image as references."""
    table = {"BLEU": bleu_table, "ROUGE": rouge_table}[metric]
    chosen = words or {"BLEU": tokens, "ROUGE": content_words}[metric]
    scores = table(data.pool, data.references(numbers), words=chosen)
    return scores[data.expert.captions, data.expert.images]


def grid(data: Data, scores: Array, sums: Sequence[int] = SUMS) -> Array:
    """Kappa at every threshold of the score (rows) and of the experts (columns)."""
    return np.array([[agreement(scores, data.sums, step, total) for total in sums] for step in STEPS])


def best(kappas: Array) -> tuple[float, str]:
    """The largest kappa and where it stands."""
    row, column = np.unravel_index(np.argmax(kappas), kappas.shape)
    return float(kappas[row, column]), f"{STEPS[row]} vs {SUMS[column] / 3:.2f}"


PRINTED = {
    ("five references", ALL): {
        "BLEU": ("0.72", [(1.0, 12), (0.8, 11)], ""),
        "ROUGE": ("0.54", [(0.4, 12), (0.4, 11), (0.3, 9)], ""),
    },
    ("the pool's caption as reference", POOLED): {
        "BLEU": ("0.71", [(0.8, 12)], ""),
        "ROUGE": ("0.69", [(0.9, 12)], "one agreeing pair fewer gives 0.692"),
    },
    ("the four other captions", OTHERS): {
        "BLEU": ("0.52", [(0.7, 10)], ""),
        "ROUGE": ("0.51", [(0.2, 8)], ""),
    },
}


def overlaps(data: Data) -> Iterator[Figure]:
    """Agreement of BLEU and ROUGE with the experts, at the printed thresholds and at the best ones."""
    for (references, numbers), metrics in PRINTED.items():
        for metric, (published, places, why) in metrics.items():
            name, scores = f"kappa of {metric}, {references}", of_expert_pairs(data, metric, numbers)
            for step, total in places:
                alpha = agreement(scores, data.sums, step, total)
                yield Figure(f"{name}: {step} vs experts' {total / 3:.2f}", alpha, published, why)
            alpha, best_at = best(grid(data, scores, SEARCHED))
            yield Figure(f"{name}: best, experts >= 2.67", alpha, published, f"at {best_at}")
    yield from single_other(data)


def single_other(data: Data) -> Iterator[Figure]:
    """One of the four other captions as the only reference; which one, the paper does not say."""
    for metric, published in (("BLEU", "0.36"), ("ROUGE", "0.42")):
        alphas = [best(grid(data, of_expert_pairs(data, metric, (n,)), SEARCHED))[0] for n in OTHERS]
        each = ", ".join(f"{kappa:.3f}" for kappa in alphas)
        why = f"mean over #0, #1, #3, #4 ({each}); the paper does not say which it took"
        name = f"kappa of {metric}, one other caption: best, experts >= 2.67"
        yield Figure(name, float(np.mean(alphas)), published, why)


def lay_scores(data: Data) -> Array:
    """The crowd's share of yes for each expert pair, NaN where the crowd did not judge it."""
    table = np.full((len(data.captions), len(data.captions)), np.nan)
    table[data.crowd.captions, data.crowd.images] = data.crowd.values
    return table[data.expert.captions, data.expert.images]


def lay_against_expert(data: Data, *, threshold: float, own_captions: bool, unjudged: bool) -> dict[str, float]:
    """Kappa, recall and precision of the crowd against the experts.

    Args:
        data: The judgements.
        threshold: Share of yes from which the crowd finds a pair relevant.
        own_captions: Whether an image's own caption is relevant whatever the crowd said.
        unjudged: Whether pairs the crowd did not see count, as not relevant; else they are left out.
    """
    lay = np.where(data.expert.own & own_captions, 1.0, lay_scores(data))
    usable = np.isfinite(lay) | unjudged
    yes, sums = np.nan_to_num(lay[usable]) >= threshold, data.sums[usable]
    return {
        "kappa": cohen_kappa(yes, sums >= 10),
        "recall 4.00": float(yes[sums >= 12].mean()),
        "recall 3.67": float(yes[sums >= 11].mean()),
        "precision 2.67": float((sums[yes] >= 8).mean()),
    }


def crowds(data: Data) -> Iterator[Figure]:
    """Agreement of the crowd with the experts: read to the letter, and read so that it gives the printed numbers."""
    letter = lay_against_expert(data, threshold=0.66, own_captions=False, unjudged=False)
    every = lay_against_expert(data, threshold=0.66, own_captions=True, unjudged=True)
    lay_values = lay_against_expert(data, threshold=0.5, own_captions=True, unjudged=False)
    setting = "yes >= 0.66, pairs that both judged"
    name = "kappa of the crowd with experts >= 3.33"
    yield Figure(f"{name}: {setting}", letter["kappa"], "0.79", "the next row's reading fits")
    why = "unjudged pairs count as not relevant, own captions as relevant"
    yield Figure(f"{name}: yes >= 0.66, all 5,822 pairs", every["kappa"], "0.79", why)
    why = "no share of 245 pairs is 98.6%, so the paper counted other pairs"
    for name, key, published, reason in (
        ("crowd: pairs of expert score 4 found, %", "recall 4.00", "98.6", why),
        ("crowd: pairs of expert score >= 3.67 found, %", "recall 3.67", "95.0", ""),
        ("crowd: relevant pairs with expert score >= 2.67, %", "precision 2.67", "94.7", "0.5 also gives the 2,031"),
    ):
        yield Figure(f"{name}: {setting}", 100 * letter[key], published, "the next row's reading is nearer")
        yield Figure(f"{name}: yes >= 0.5, own captions relevant", 100 * lay_values[key], published, reason)


def filtering(data: Data) -> Iterator[Figure]:
    """What BLEU with and without ROUGE's preparation keeps away from the crowd."""
    pre = bleu_table(data.pool, data.references(ALL), words=content_words)
    raw = bleu_table(data.pool, data.references(ALL))
    two = bleu_table(data.pool, data.references(ALL), words=lambda text: list(pairwise(content_words(text))))
    yield Figure("pairs with BLEU-pre above 0, %", percent(pre > 0), "39.4", "said of BLEU-1, true of BLEU-pre")
    yield Figure("pairs with a common pair of words, %", percent(two > 0), "3.5", "with BLEU-pre's preparation")
    yield from filtered(data, pre < 0.25, "BLEU-pre < 0.25", ("86.0", "6.7", "3.5"))
    yield from filtered(data, pre < 0.26, "BLEU-pre < 0.26", ("90.4", "12.3", "7.5"), "99 of 816 pairs, not 100")
    yield from filtered(data, raw < 0.33, "BLEU < 0.330", ("55", "6.9"))
    yield from filtered(data, raw <= 1 / 3, "BLEU <= 1/3 (printed: < 0.333)", ("65", "11.9"))
    votes = data.crowd.values[pre[data.crowd.captions, data.crowd.images] < 0.25]
    stemming_note = (
        "a detail of stemming: 10,360 when words of three letters are stemmed too, 10,781 without irregular forms"
    )
    yield Figure("crowd: judged though BLEU-pre < 0.25", len(votes), "10,374", stemming_note)
    yield Figure("crowd: of these, all said no, %", percent(votes == 0), "98.3")
    yield Figure("crowd: of these, most said no, %", percent(votes < 0.5), "99.8")


def filtered(data: Data, out: Mask, name: str, published: tuple[str, ...], why: str = "") -> Iterator[Figure]:
    """The share of all pairs that a filter takes out, and of the pairs the experts liked."""
    yield Figure(f"{name}: of all 1,000 x 1,000 pairs, %", percent(out), published[0])
    gone = out[data.expert.captions, data.expert.images]
    for total, number in zip((8, 9), published[1:], strict=False):
        lost = percent(gone[data.sums >= total])
        reason = why if total == 8 else ""
        yield Figure(f"{name}: of pairs with expert score >= {total / 3:.2f}, %", lost, number, reason)


def preparations(data: Data, stop_words: Path | None) -> Iterator[tuple[str, Data, Words, Sequence[int]]]:
    """What the paper leaves open in the preparation of BLEU-pre and ROUGE, one change at a time."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
    from snowballstemmer import stemmer

    porter = stemmer("porter")
    yield "as used", data, content_words, ALL
    yield "irregular forms as they are", data, partial(content_words, irregular={}), ALL
    yield "words of three letters stemmed too", data, lambda t: porter.stemWords(content_words(t)), ALL
    yield "no stemming", data, lambda t: [word for word in tokens(t) if word not in STOP_WORDS], ALL
    yield "stop words kept", data, partial(content_words, stop=frozenset()), ALL
    yield "scikit-learn's 318 stop words", data, partial(content_words, stop=ENGLISH_STOP_WORDS), ALL
    if stop_words is not None:
        listed = frozenset(stop_words.read_text(encoding="utf-8").split())
        yield f"{len(listed)} stop words of {stop_words.name}", data, partial(content_words, stop=listed), ALL
    yield "Flickr8k's lemmas", replace(data, captions=data.lemmas), content_words, ALL
    yield "the four other captions", data, content_words, OTHERS


def ablation(data: Data, stop_words: Path | None) -> str:
    """The printed figures that depend on the preparation, under each of them."""
    head = "preparation|BLEU-pre > 0, %|< 0.25, %|lost >= 2.67, %|lost >= 3, %|crowd < 0.25|ROUGE 0.4 vs 4"
    rows = [("**printed**", "39.4", "86.0", "6.7", "3.5", "10,374", "0.54")]
    for name, prepared, words, numbers in preparations(data, stop_words):
        table = bleu_table(prepared.pool, prepared.references(numbers), words=words)
        lost = table[data.expert.captions, data.expert.images] < 0.25
        judged = int((table[data.crowd.captions, data.crowd.images] < 0.25).sum())
        shares = (table > 0, table < 0.25, lost[data.sums >= 8], lost[data.sums >= 9])
        kappa = agreement(of_expert_pairs(prepared, "ROUGE", numbers, words), data.sums, 0.4, 12)
        rows.append((name, *(f"{percent(share):.1f}" for share in shares), f"{judged:,}", f"{kappa:.3f}"))
    return markdown(head, rows)


def crowd_ablation(data: Data) -> str:
    """What the paper leaves open in comparing the crowd with the experts."""
    head = "yes from|own captions|not judged by the crowd|kappa 3.33|recall 4.00|recall 3.67|precision 2.67"
    rows = [("**printed**", "", "", "0.79", "0.986", "0.950", "0.947")]
    for threshold in (0.5, 0.66):
        for own_captions in (False, True):
            for unjudged in (False, True):
                lay_values = lay_against_expert(data, threshold=threshold, own_captions=own_captions, unjudged=unjudged)
                named = (
                    str(threshold),
                    "relevant" if own_captions else "as judged",
                    "not relevant" if unjudged else "left out",
                )
                rows.append((*named, *(f"{value:.3f}" for value in lay_values.values())))
    return markdown(head, rows)


def kappa_tables(data: Data) -> str:
    """The search for the best thresholds, down to expert scores of 2."""
    rows = []
    for (name, numbers), metrics in PRINTED.items():
        for metric in metrics:
            kappas = grid(data, of_expert_pairs(data, metric, numbers))
            for step, row in zip(STEPS, kappas, strict=True):
                rows.append((f"{metric}, {name}", f"{step}", *(f"{kappa:.2f}" for kappa in row)))
    return markdown("|".join(["metric", "score >=", *(f"experts {total / 3:.2f}" for total in SUMS)]), rows)


def distributions(data: Data) -> str:
    """How many pairs got which mean score of the experts, and which share of yes from the crowd."""
    tables = []
    for name, values in (("experts' mean", data.sums / 3), ("crowd's yes", data.crowd.values)):
        distinct_values, numbers = np.unique(values.round(2), return_counts=True)
        rows = [
            (f"{value:.2f}", f"{n:,}", f"{100 * n / len(values):.1f}")
            for value, n in zip(distinct_values, numbers, strict=True)
        ]
        tables.append(markdown(f"{name}|pairs|%", rows))
    return "\n\n".join(tables)


def alpha_interval(data: Data, *, samples: int = 1000) -> str:
    """A bootstrap interval of alpha over pairs."""
    draw = np.random.default_rng(0).integers(0, len(data.sums), (samples, len(data.sums)))
    alphas = [krippendorff_alpha(data.expert.values[rows].T, level="interval") for rows in draw]
    low, high = np.percentile(alphas, [2.5, 97.5])
    return f"alpha (interval) of the file's pairs: 95% bootstrap interval {low:.3f} to {high:.3f}"


def figures(data: Data) -> list[Figure]:
    """Every figure, in the order of the page."""
    return [figure for part in (counts, alphas, overlaps, crowds, filtering) for figure in part(data)]


def run(options: argparse.Namespace) -> Iterator[Claim]:
    data = read(options.data)
    all_figures = figures(data)
    log("| figure | ours | printed | difference | agrees | reason |\n|---|---:|---:|---:|---|---|")
    log("\n".join(figure.row() for figure in all_figures))
    if not options.quick:
        for part in (distributions, alpha_interval, kappa_tables, crowd_ablation):
            log("\n" + part(data))
        log("\n" + ablation(data, options.stop_words))
    yield from (figure.claim() for figure in all_figures if figure.published)


def configure(parser: argparse.ArgumentParser) -> None:
    about = "a further list for the ablation, as ROUGE's smart_common_words.txt"
    parser.add_argument("--stop-words", type=Path, help=about)


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
