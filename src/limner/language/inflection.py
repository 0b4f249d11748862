"""English inflection: articles, verb forms and plurals."""

from __future__ import annotations

import re

PAST = {
    "run": "ran", "sit": "sat", "stand": "stood", "lie": "lay", "sleep": "slept", "wake": "woke", "rise": "rose",
    "fall": "fell", "throw": "threw", "catch": "caught", "leave": "left", "win": "won", "lose": "lost", "swim": "swam",
    "sink": "sank", "fly": "flew", "give": "gave", "take": "took", "hide": "hid", "show": "showed", "wear": "wore",
}  # fmt: skip


def article(word: str) -> str:
    """The indefinite article before a word.

    >>> article("orange"), article("unicycle"), article("hour"), article("red")
    ('an', 'a', 'an', 'a')
    """
    low = word.lower()
    if low.startswith(("uni", "use", "usu", "eur", "one", "u-")) and not low.startswith(("unin", "unim", "unid")):
        return "a"
    return "an" if low[:1] in "aeiou" or low.startswith(("hour", "honest", "heir", "honor")) else "a"


def inflect(verb: str, form: str) -> str:
    """A form of a verb: "ing", "s" or "past".

    >>> inflect("sit", "ing"), inflect("lie", "ing"), inflect("push", "s"), inflect("fly", "s"), inflect("run", "past")
    ('sitting', 'lying', 'pushes', 'flies', 'ran')
    """
    doubled = verb + verb[-1] if re.fullmatch(r"[^aeiou]*[aeiou][bdgmnprt]", verb) else verb
    if form == "ing":
        if verb.endswith("ie"):
            return verb[:-2] + "ying"
        return (verb[:-1] if verb.endswith("e") and not verb.endswith("ee") else doubled) + "ing"
    if form == "s":
        if verb.endswith("y") and verb[-2] not in "aeiou":
            return verb[:-1] + "ies"
        return verb + ("es" if verb.endswith(("s", "x", "ch", "sh")) else "s")
    return PAST.get(verb) or (verb + "d" if verb.endswith("e") else doubled + "ed")


IRREGULAR = {
    "man": "men", "woman": "women", "child": "children", "person": "people", "foot": "feet", "tooth": "teeth",
    "mouse": "mice", "goose": "geese", "snowman": "snowmen", "fireman": "firemen", "policeman": "policemen",
}  # fmt: skip
SINGULAR = {many: one for one, many in IRREGULAR.items()}
AGREE = {"is": "are", "are": "is", "was": "were", "were": "was", "has": "have", "have": "has"}


def plural(noun: str) -> str:
    """The plural of a noun.

    >>> plural("dog"), plural("woman"), plural("puppy"), plural("bench")
    ('dogs', 'women', 'puppies', 'benches')
    """
    if noun in IRREGULAR:
        return IRREGULAR[noun]
    if noun.endswith("y") and noun[-2:-1] not in tuple("aeiou"):
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")
