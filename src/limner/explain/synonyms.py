"""Synonyms: a noun of a caption becomes another word for the same thing, so the rank should not change.

WordNet's synonyms alone do not keep the meaning: it lists the words of every sense, and rare words whose usual sense is
another ("fry" for a child). So the pairs are listed: two common nouns that share a synset of WordNet, each in a sense
that captions use, and the words of a caption with which the noun has another sense.
"""

from __future__ import annotations

from limner.explain.noun_heads import follows, leads, tags
from limner.explain.noun_phrases import FUNCTION
from limner.explain.text_edits import Context, Token, word_set
from limner.language.tagging import plural, singular

SYNONYMS = {
    "child": "youngster", "kid": "youngster", "person": "individual", "rock": "stone", "toy": "plaything",
    "building": "edifice", "car": "automobile", "automobile": "car", "baby": "infant", "infant": "baby",
    "store": "shop", "shop": "store", "couch": "sofa", "sofa": "couch", "photo": "photograph", "photograph": "photo",
    "cyclist": "bicyclist", "bicyclist": "cyclist", "bucket": "pail", "pail": "bucket", "phone": "telephone",
    "telephone": "phone", "creek": "brook", "brook": "creek", "staircase": "stairway", "stairway": "staircase",
    "purse": "handbag", "handbag": "purse", "pier": "wharf", "violin": "fiddle", "teenager": "adolescent",
    "airplane": "plane", "rug": "carpet", "carpet": "rug", "sidewalk": "pavement", "bicycle": "bike",
    "alley": "alleyway", "mustache": "moustache", "snake": "serpent", "singer": "vocalist", "restaurant": "eatery",
    "meal": "repast", "taxi": "taxicab", "bathtub": "tub", "swimsuit": "bathing suit", "dress": "frock",
    "backpack": "rucksack", "sled": "sledge", "cellphone": "mobile phone", "gym": "gymnasium", "bush": "shrub",
    "racetrack": "racecourse", "racket": "racquet", "belly": "abdomen", "railing": "rail", "tv": "television",
    "sunset": "sundown", "dusk": "twilight", "sunlight": "sunshine", "luggage": "baggage", "baggage": "luggage",
    "foam": "froth", "boxer": "pugilist", "wrestler": "grappler", "movie": "film", "curb": "kerb",
    "theater": "theatre", "vendor": "seller", "poster": "placard", "pasture": "pastureland",
    "marketplace": "market", "forest": "woods", "woods": "forest", "stairs": "steps", "clothes": "apparel",
    "fireman": "firefighter", "animal": "creature", "puppy": "pup", "slope": "incline", "sneaker": "tennis shoe",
}  # fmt: skip
"""Nouns in the singular and their synonyms; plurals are formed by rule."""
OTHER_SENSE = {
    "rock": {"band", "concert", "climbing", "climber", "climbers", "star", "music", "wall", "climb",
             "climbs", "cliff", "face", "large", "huge", "big", "top", "mountain", "ledge", "high", "side",
             "edge", "off", "jump", "jumps", "jumping", "leaps", "leaping", "bike", "bicycle", "onto",
             "hanging", "hangs"},
    "child": {"young"}, "kid": {"young"}, "car": {"train", "cable", "railway", "roller", "coaster"},
    "meal": {"oat"}, "dress": {"up", "pants"}, "rug": {"hair"}, "boxer": {"dog", "shorts", "puppy", "brown", "tan"},
    "foam": {"fingers", "finger", "rubber"}, "store": {"up"}, "film": {"camera"}, "bush": {"president"},
    "curb": {"grind"}, "bicycle": {"motorcycle"}, "racket": {"noise"}, "belly": {"flop", "dancer", "dancing"},
    "racetrack": {"motorcycle", "motorcycles", "motorcyclist", "motorbike", "bike", "bikes", "car", "cars", "dog",
                  "dogs", "greyhound", "greyhounds", "go-kart", "track"},
    "person": {"people"}, "snake": {"plant"}, "animal": {"stuffed", "balloon"}, "baby": {"carriage", "doll"},
    "slope": {"hill"}, "building": {"sand", "blocks"}, "toy": {"poodle"}, "sled": {"dogs", "dog"},
}  # fmt: skip
"""Words of a caption with which a noun may have another sense, or be part of a name."""
AFTER_THE = frozenset(("forest", "woods"))
"""One is singular and the other plural, so that nothing but "the" goes with both."""
SAME_FORM = frozenset(("stairs", "clothes", "woods"))
"""Listed plurals."""


def synonym(text: str, tokens: list[Token], at: int, context: Context) -> str | None:
    """The listed synonym of a noun that stands alone, in the same number."""
    word, kinds = tokens[at].low, tags(tokens)
    base = word if word in SYNONYMS else singular(word, context.wordnet)
    new = SYNONYMS.get(base or "")
    if base is None or new is None or kinds[at] != "n" or (tokens[at].text[:1].isupper() and at):
        return None
    present = {token.low for token in tokens}
    if OTHER_SENSE.get(base, set()) & present or new in present or plural(new) in present:
        return None
    after = follows(tokens, at)
    joined = text[tokens[at].stop : tokens[at].stop + 1] == "-" or text[tokens[at].start - 1 : tokens[at].start] == "-"
    next_noun = at + 1 < len(tokens) and kinds[at + 1] == "n" and after not in FUNCTION
    named = at and kinds[at - 1] == "n" and leads(tokens, at) not in FUNCTION
    participle = after.endswith("ing") and (context.wordnet.has(after) or base not in PEOPLE)
    if joined or next_noun or named or participle or after == "s":
        return None
    if base in AFTER_THE or (base in SAME_FORM and after in ("is", "are")):
        return new if leads(tokens, at) == "the" else None
    return new if word in SAME_FORM or word == base else plural(new)


PEOPLE = word_set(
    """
    child kid person baby infant cyclist bicyclist teenager singer animal vendor fireman boxer wrestler puppy
    """
)
