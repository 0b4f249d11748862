"""What the ranking paper says of Flickr8k's captions: verbs, nouns, and words that are frequent enough to be compared.

Hodosh, Young & Hockenmaier (2013), sections 2.3.2, 3.5.3 and 3.5.4: of all captions 11% have no verb, and another 10%
only sit, stand, wear or look; in the captions of the 6,000 training images 1,928 words are seen five times or more,
1,180 words are nouns and 143 are verbs by the paper's bounds, 11 of them both. Parts of speech are those of limner's
own tagger, the paper's are OpenNLP's; forms of be and have, which limner's tagger leaves out, count as verbs in the
first two figures, as they do for OpenNLP. Lemmas are those of the data set's own file.

What cannot be recomputed: the 113,006 pairs that were wanted for the crowd, of which the filter left 30,781, are the
first answers of the paper's own systems; the 1,874 words in common with the British National Corpus need that corpus.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from claims import Claim, log, main
from limner.datasets.flickr import load_flickr8k
from limner.language.tagging import tag
from limner.language.words import Reader, lemma_lexicon, tokens
from limner.systems.classic.alignment import LEAST

STATIC = frozenset(("sit", "stand", "wear", "look"))
HELPING = frozenset(("is", "are", "was", "were", "be", "been", "being", "has", "have", "had"))
TAGGER = "another tagger than the paper's"


def verbs(caption: str, reader: Reader) -> set[str]:
    """The lemmas of the verbs of a caption; forms of be and have as "be"."""
    words = tokens(caption)
    found = {lemma for lemma, kind in reader.read(caption) if kind == "v"}
    plain = {"be" for word, kind in zip(words, tag(words), strict=True) if kind != "n" and word in HELPING}
    return found | plain


def verb_claims(captions: Sequence[str], reader: Reader) -> Iterator[Claim]:
    """Shares of captions without a verb, and with the static ones only."""
    held = [verbs(caption, reader) for caption in captions]
    none = 100 * sum(not each for each in held) / len(held)
    static = 100 * sum(bool(each) and each <= STATIC for each in held) / len(held)
    helped = 100 * sum(bool(each) and each <= STATIC | {"be"} for each in held) / len(held)
    note = f"{TAGGER}; {helped:.1f} where be and have may stand beside them"
    yield Claim("captions without a verb, percent", none, 11, "within 2", TAGGER, source="print")
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
    both = len(chosen["n"] & chosen["v"])
    for name, ours, printed, near in (
        ("nouns", len(chosen["n"]), 1180, "within 59"),
        ("verbs", len(chosen["v"]), 143, "within 7"),
        ("words that are both of them", both, 11, "within 3"),
    ):
        yield Claim(f"{name} that are aligned", ours, printed, near, TAGGER, source="print")


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """All captions for the shares, those of the training images for the words."""
    if options.data is None:
        raise SystemExit("captions needs --data DIR with flickr8k/ in it (or LIMNER_DATA)")
    whole = load_flickr8k(options.data / "flickr8k", check_images=False)
    reader = Reader(lexicon=lemma_lexicon(whole.texts.values, whole.texts.field("lemmas")))
    step = 20 if options.quick else 1
    log(f"{len(whole.texts):,} captions")
    yield from verb_claims(list(whole.texts.values)[::step], reader)
    yield from word_claims(list(whole.train.texts.values), reader)


if __name__ == "__main__":
    main(run, __doc__)
