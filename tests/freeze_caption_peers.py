"""Writes caption_peers.json: what pycocoevalcap and torchmetrics say of small captions. Run by hand where both import.

pycocoevalcap 1.2 is 100 MB, its tokenizer a Java program: `pip install --no-deps --target DIR pycocoevalcap
torchmetrics lightning-utilities`, DIR on the path, and `java` installed. pycocoevalcap asks for pycocotools only in
`eval.py`, which is not imported here. Its "CIDEr" is CIDEr-D.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

ODD = [
    "I can't see the dog's bowl; it's behind the boys' T-shirt.",
    'A man (left) holds a sign that reads "St. John\'s No. 5" at 10:30 a.m.',
    "Two-year-old twins aren't going to U.S. schools, they're gonna stay!",
    "3/4 of a pizza & a $5 coke -- that's 50% off... isn't it?",
    "Mr. Smith and Dr. Jones cannot find bus #1 [red] {old}.",
    "The '90s car of someone ’s friend – a “classic” — drives 1,000 miles on I-95.",
    "y x, z: a b. c! d? e; f - g",
    "   spaces   and\ttabs  ",
    "A black-and-white cat 's tail; the cats ' tails.",
    "He'll say we've won, she'd say I'm late, you're early.",
    "Visit www.example.com or http://example.com/a?b=1 now",
    "A woman and/or a man at 7 p.m. on 5th Ave. near the St. Mary church",
    "dogs dogs dogs dogs dogs",
    "dog",
    "'quoted' words and ``old'' quotes",
    "gimme that, I gotta go: 'tis late",
]
PARTS = (
    ("A", "The", "Two", "One", "Three"),
    ("small", "brown", "young", "old", "large", "happy"),
    ("dog", "dogs", "man", "woman", "child", "cat", "girl's friend"),
    ("runs", "sits", "is playing", "are jumping", "isn't standing", "walks"),
    ("on the grass", "in the snow", "near a lake", "with a red ball", "through the water", "on a bench, outside"),
    (".", "", " .", "!"),
)


def sentence(rng: random.Random) -> str:
    """A caption of a small grammar, so that captions share words."""
    return " ".join(rng.choice(part) for part in PARTS[:-1]) + rng.choice(PARTS[-1])


def main() -> None:
    """Draws, asks both, writes."""
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer
    from torchmetrics.functional.text import bleu_score

    rng = random.Random(44)
    captions = [*ODD[:8], *(sentence(rng) for _ in range(32))]
    references = [[sentence(rng) for _ in range(rng.randint(1, 5))] for _ in captions]
    references[3].append(captions[3])
    references[9].append(captions[9])
    texts = list(dict.fromkeys([*ODD, *captions, *(text for each in references for text in each)]))
    split = PTBTokenizer().tokenize({row: [{"caption": text}] for row, text in enumerate(texts)})
    words = {text: split[row][0] for row, text in enumerate(texts)}
    ours = {row: [words[text]] for row, text in enumerate(captions)}
    theirs = {row: [words[text] for text in each] for row, each in enumerate(references)}
    corpus, by_caption = Bleu(4).compute_score(theirs, ours, verbose=0)
    plain = [words[text] for text in captions]
    torch = [float(bleu_score(plain, list(theirs.values()), n_gram=n)) for n in (1, 2, 3, 4)]
    answers = {
        "captions": captions, "references": references, "words": words,
        "bleu": by_caption, "corpus_bleu": corpus, "torchmetrics_bleu": torch,
        "rouge_l": Rouge().compute_score(theirs, ours)[1].tolist(),
        "cider_d": Cider().compute_score(theirs, ours)[1].tolist(),
    }  # fmt: skip
    Path(__file__).with_name("caption_peers.json").write_text(json.dumps(answers) + "\n")


if __name__ == "__main__":
    sys.exit(main())
