"""Identifies the language of a caption by its script and its function words.

Deliberately simple and cautious: a caption is reported as another language only if that is clear. Either it has letters
of another script, or it has more function words of the other language (for English also words with accents) than of the
expected one, and no word that only the expected language has. Short captions without function words stay undecided, and
languages that are not in the list are recognised only by their script.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

WORDS = {
    "en": """a an the is are was as has have with and of on in at to his her their its while two three by from into near
        for front out up over under there that this who""",
    "de": """ein eine einen einem einer eines der die das den dem des ist sind mit und auf in im am vor zwei drei von zu
        bei über unter während sich sein seine ihr ihre""",
    "fr": """un une le la les des du de est sont avec et sur dans au aux en pour par deux trois qui son sa ses leur
        leurs devant près pendant il elle""",
    "es": """un una unos unas el la los las de del es está están con en por para dos tres que su sus mientras sobre
        frente""",
    "it": """un una uno il lo la gli le di del della è sono con su in per due tre che suo sua mentre davanti sul
        sulla""",
    "pt": """um uma os as de do da dos das é está estão com em no na por para dois duas três que seu sua enquanto
        sobre""",
    "nl": """een de het is zijn met en op in van aan bij twee drie voor die dat haar hun terwijl naar over onder""",
    "cs": """na ve se je jsou do po za ze pro při který která dva dvě tři jeho její svůj ho si""",
    "pl": """na we się ze jest są do po za dla przy który która dwa dwie trzy jego jej swój oraz""",
    "sv": """en ett den det de är med och på av till vid två tre som sin sitt sina medan framför över under""",
}
"""Function words by language; a word can belong to several. Single letters are left out, except "a"."""
SCRIPTS = {
    "LATIN": "", "CJK": "zh", "HIRAGANA": "ja", "KATAKANA": "ja", "HANGUL": "ko", "CYRILLIC": "ru", "GREEK": "el",
    "ARABIC": "ar", "HEBREW": "he", "THAI": "th", "DEVANAGARI": "hi",
}  # fmt: skip
"""The main language of each script; scripts are named by the first word of a letter's Unicode name."""
_SETS = {language: frozenset(words.split()) for language, words in WORDS.items()}
_ALONE = {
    language: known - frozenset().union(*(_SETS[other] for other in _SETS if other != language))
    for language, known in _SETS.items()
}
"""Words that only one of the languages has."""
_SHORT = frozenset({"a", "an"})
"""Words that may also occur in languages outside the list."""
_WITHOUT_ACCENTS = ("en",)
_WORD = re.compile(r"[^\W\d_]+")


def counts(text: str) -> Counter[str]:
    """The number of function words of each language in a text.

    >>> counts("Ein Hund rennt auf der Wiese")["de"]
    3
    """
    words = [word.lower() for word in _WORD.findall(text)]
    return Counter({language: sum(word in vocabulary for word in words) for language, vocabulary in _SETS.items()})


def script(text: str) -> str:
    """The language of the script of most letters; "" for Latin letters, or if there are no letters."""
    if text.isascii():
        return ""
    scripts = Counter(SCRIPTS.get(unicodedata.name(c, "?").split()[0], "") for c in text if c.isalpha())
    if scripts["ja"]:
        return "ja"
    return max(scripts, key=lambda each: (scripts[each], each)) if scripts else ""


def main_language(texts: Iterable[str]) -> str:
    """The language that most texts seem to be in; "" if it is unclear.

    >>> main_language(["a dog on the grass", "two cats", "un chien"])
    'en'
    """
    votes: Counter[str] = Counter()
    for text in texts:
        if script_language := script(text):
            votes[script_language] += 1
            continue
        languages = counts(text)
        best = max(languages.values(), default=0)
        leaders = [language for language, n in languages.items() if n == best and n > 0]
        votes.update(leaders if len(leaders) == 1 else ())
    return max(votes, key=lambda each: (votes[each], each)) if votes else ""


def other_language(text: str, expected: str) -> str:
    """The language of a text if it is clearly not the expected one, else "".

    >>> other_language("Ein Hund rennt auf der Wiese", "en"), other_language("a dog in the grass", "en")
    ('de', '')
    """
    script_language = script(text)
    if script_language != (expected if expected in SCRIPTS.values() else ""):
        return script_language or "a Latin script"
    if script_language or expected not in _SETS:
        return ""
    words = {word.lower() for word in _WORD.findall(text)}
    if words & (_ALONE[expected] - _SHORT):
        return ""
    foreign = {language: len((words & vocabulary) - _SETS[expected]) for language, vocabulary in _SETS.items()}
    best = max(foreign, key=lambda each: (foreign[each], each))
    accents = sum(not word.isascii() for word in words) if expected in _WITHOUT_ACCENTS else 0
    return best if foreign[best] + accents > len(words & _SETS[expected]) else ""
