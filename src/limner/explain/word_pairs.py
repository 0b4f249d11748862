"""Words for words: verbs that become their opposite, and nouns that become a synonym, in the same form.

An opposite is said only of what can also do the other: a bird that flies over a lake does not "land over" it. So every
opposite names the words that may follow the verb, and the things that it may be done to.

WordNet's synonyms alone do not keep the meaning: it lists the words of every sense, and rare words whose usual sense is
another ("fry" for a child). So the pairs are listed: two common nouns that share a synset of WordNet, each in a sense
that captions use, and the words of a caption with which the noun has another sense.
"""

from __future__ import annotations

from dataclasses import dataclass

from limner.explain.noun_heads import POSSESSIVES, follows, head_after, is_animal, is_person, leads, tags
from limner.explain.noun_phrases import FUNCTION, NUMBERS
from limner.explain.text_edits import Change, Context, Edit, Token, cased, edited, word_set
from limner.language.tagging import PAST, inflect, plural, singular, usual_part
from limner.language.wordnet import WordNet

OBJECT = frozenset(("a", "an", "the", "another", *POSSESSIVES, *NUMBERS))
"""Words that begin an object."""
PRONOUNS = frozenset(("it", "him", "them"))
PLACE = word_set(
    """
    in on at by here there still near next beside behind under outside inside alone and while as among between
    underneath amongst
    outdoors indoors beneath atop
    """
) | {""}
"""Words that begin a place, or the end of the clause."""
WAY = word_set(
    """
    in on along through across down up towards toward away past by near around and while with over outside
    beside together behind alongside next from among under between after alone into out
    """
) | {""}
"""Words that begin a direction or a place, or the end of the clause."""
PATH = word_set("over into off through across onto from out under between")
BALLS = word_set(
    """
    ball frisbee football baseball snowball basketball stick rock toy volleyball softball disc
    """
)
BUSY = word_set(
    """
    her and under over is are was were begins ride rides riding climb climbs climbing race races racing jump jumps
    jumping run runs running skates skateboards skateboarding swims swimming skis skiing snowboards snowboarding
    """
)
"""Words of captions in which nobody removes what they wear."""
REMOVABLE = word_set(
    """
    hat helmet cap jacket coat glasses sunglasses scarf mask goggles backpack gloves headphones sweater vest
    apron hood wig headband necklace
    """
)
BODY = word_set(
    """
    back side stomach belly hands hand head legs leg foot feet tiptoe tiptoes lap handstand headstand toes
    shoulders knees knee
    """
)
SEATS = BODY | {
    "chair", "chairs", "wheelchair", "car", "seat", "seats", "stroller", "kayak", "canoe", "saddle", "horse", "horses",
    "swing", "swings", "bike", "bicycle", "motorcycle", "raft", "boat", "bikes", "motorcycles", "circle", "sled",
    "tube",
    "cart", "truck", "bus", "train", "subway", "legged", "highchair", "cross-legged", "booth", "pews", "traffic",
    "reclining",
}  # fmt: skip
"""Words with which one does not both sit and stand."""
FLIGHT = word_set(
    """
    air midair mid-air high catch bike bicycle skateboard motorcycle snowboard ramp rope skis up down trampoline
    mid wave parachute airborne jump skateboarder snowboarder rail skier biker board rollerblades rollerblader
    trick hurdle hurdles diving bmx flip jeep bull horse car swing above somersault cliff cyclist bicyclist
    plane gracefully kicking bikers bicycler skateboards bikes scooter fence stairs motorbike hoop wall pole bar
    rider competition
    """
)
"""Words of captions in which someone who jumps is in the air, so that nobody can crawl there."""
GAMES = word_set(
    """
    band game match tournament concert orchestra competition sprinkler waves surf key water pool ocean lake
    river fountain rain puddle skateboard laughs laughing bike stream court instrument drums instruments music
    guitar team uniform uniforms sea scooter
    """
)


THROWN = word_set("off up into air towards to from over toward around out away")


@dataclass(frozen=True)
class VerbOpposite:
    """An action that excludes another.

    Args:
        verb: The opposite, in its base form.
        after: Words of which one has to follow; "" is the end of the caption or a punctuation mark.
        never: Words that may not occur in the caption.
        objects: Nouns to which it can be done; empty for all.
        people: Whether only people do it.
    """

    verb: str
    after: frozenset[str]
    never: frozenset[str] = frozenset()
    objects: frozenset[str] = frozenset()
    people: bool = False


ON_FEET = word_set(
    """
    leash treadmill race marathon bases base tackle speed fast full stilts tightrope hands quickly slowly
    competition bull bulls racing
    """
)
STAND = VerbOpposite("stand", PLACE | {"down"}, SEATS)
VERBS: dict[str, VerbOpposite] = {
    "run": VerbOpposite("walk", WAY, ON_FEET), "walk": VerbOpposite("run", WAY, ON_FEET),
    "jog": VerbOpposite("walk", WAY, ON_FEET),
    "sit": STAND, "lie": STAND, "lay": STAND, "kneel": STAND, "squat": STAND, "crouch": STAND,
    "sleep": VerbOpposite("stand", PLACE, SEATS | {"bag", "bags"}),
    "stand": VerbOpposite("sit", PLACE | {"around"}, BODY | {"line", "hind", "upright", "tall", "still", "paddle"}),
    "swim": VerbOpposite("stand", frozenset(("in",)), BODY | {"underwater", "deep", "middle"}),
    "smile": VerbOpposite("frown", word_set("at for and in while as on") | {""}, frozenset(("big",))),
    "laugh": VerbOpposite("cry", word_set("and in while as on together") | {""}),
    "cry": VerbOpposite("laugh", word_set("and in while as on") | {""}),
    "open": VerbOpposite("close", OBJECT), "close": VerbOpposite("open", OBJECT),
    "push": VerbOpposite("pull", OBJECT, word_set("through off out away into swing up swings")),
    "pull": VerbOpposite("push", OBJECT, word_set(
    """
    face faces trick off out from up tug mouth teeth rope wheelie over apart stunt hair down
    """
)),
    "throw": VerbOpposite("catch", OBJECT, word_set("into at up to over out towards toward"), BALLS,
                          people=True),
    "catch": VerbOpposite("throw", OBJECT, frozenset(("mouth", "teeth")), BALLS, people=True),
    "kick": VerbOpposite("catch", OBJECT, THROWN, BALLS, people=True),
    "enter": VerbOpposite("leave", OBJECT), "leave": VerbOpposite("enter", OBJECT, frozenset(("trail", "behind",
    "leaf"))),
    "climb": VerbOpposite("descend", OBJECT, word_set("tree trees wall top fence pole rope")),
    "descend": VerbOpposite("climb", OBJECT), "ascend": VerbOpposite("descend", OBJECT),
    "jump": VerbOpposite("crawl", PATH, FLIGHT), "leap": VerbOpposite("crawl", PATH, FLIGHT),
    "crawl": VerbOpposite("run", PATH, frozenset(("under", "tunnel"))),
    "win": VerbOpposite("lose", OBJECT, objects=frozenset(("race", "game", "match"))),
    "raise": VerbOpposite("lower", OBJECT), "lower": VerbOpposite("raise", OBJECT),
    "wear": VerbOpposite("remove", OBJECT, BUSY, REMOVABLE, people=True),
    "chase": VerbOpposite("ignore", OBJECT, word_set("tail each around through across into")),
    "watch": VerbOpposite("ignore", OBJECT, frozenset(("sunset", "tv", "television", "each", "wearing"))),
    "dance": VerbOpposite("sit", word_set("in on outside by near together"),
    word_set("costume competition routine clothes performance air")),
    "play": VerbOpposite("sleep", word_set("in on outside by near together"), GAMES | BALLS | {
                         "tug", "swimming", "running", "splashing", "jumping"}),
}  # fmt: skip
"""Verbs of captions in their base form, and what excludes them; WordNet's antonyms where they fit."""


def verb(text: str, tokens: list[Token], at: int, context: Context) -> Edit | None:
    """Turns a verb into one that excludes it."""
    wordnet = context.wordnet
    base = wordnet.base(tokens[at].low, "v") if at and tokens[at].low not in FUNCTION else None
    opposite = VERBS.get(base or "")
    form = form_of(tokens[at].low, base) if base and opposite else None
    if opposite is None or form is None or not _is_verb(text, tokens, at, form):
        return None
    after = "" if text[tokens[at].stop :].lstrip()[:1] in tuple(".,;!") else follows(tokens, at)
    neighbours = [token.low for place, token in enumerate(tokens) if place != at]
    if (
        not (after in opposite.after or _is_object(opposite, after))
        or opposite.never.intersection(neighbours)
        or not _doable(text, tokens, at, opposite, wordnet)
    ):
        return None
    new = inflect(opposite.verb, form)
    changes: list[Change] = [(tokens[at], cased(tokens[at].text, new))]
    if after == "down" and opposite.verb == "stand":
        changes.append((tokens[at + 1], "up"))
    return edited(text, "verb", changes, tokens[at].low) if new not in {t.low for t in tokens} else None


def _is_object(opposite: VerbOpposite, after: str) -> bool:
    """Whether a pronoun is the object."""
    return opposite.after == OBJECT and after in PRONOUNS


def form_of(word: str, base: str) -> str | None:
    """The form of a verb: "ing", "s", "past", or None for its base form, which is as likely a noun."""
    if word in (base, "lay"):
        return None
    if word.endswith("ing"):
        return "ing"
    if word.endswith("s"):
        return "s"
    return "past" if word.endswith("ed") or PAST.get(base) == word else None


def _is_verb(text: str, tokens: list[Token], at: int, form: str) -> bool:
    """Whether a form is a verb here, and not the noun of "the climbs" or the adjective of "running water"."""
    before = leads(tokens, at)
    if before in OBJECT or before in ("of", "for", "from", "to", "in", "on", "at", "by", "with", "some", "several"):
        return False
    if before.endswith("ing") or tokens[at - 1].low == "go":
        return False
    if form == "ing":
        return tags(tokens)[at] == "v" or before in ("is", "are", "and", "while")
    return tags(tokens)[at] == "v" and (form == "s" or before in ("who", "that") or tags(tokens)[at - 1] == "n")


def _doable(text: str, tokens: list[Token], at: int, opposite: VerbOpposite, wordnet: WordNet) -> bool:
    """Whether the one who acts, and what it is done to, allow the opposite."""
    nouns = [token.low for token in tokens[:at]]
    if opposite.people and (
        not any(is_person(noun, wordnet) for noun in nouns) or any(is_animal(n, wordnet) for n in nouns)
    ):
        return False
    if opposite.after is not OBJECT:
        return True
    if follows(tokens, at) in PRONOUNS and not opposite.objects:
        return True
    head = head_after(text, tokens, at + 1)
    if head is None:
        return False
    noun = tokens[head].low
    watched = tokens[at].low.startswith("watch")
    if watched and (follows(tokens, head) or (head > at + 2 and usual_part(tokens[head].low) == "v")):
        return False  # "watches a man jump"
    fits = not opposite.objects or noun in opposite.objects or singular(noun, wordnet) in opposite.objects
    return fits and follows(tokens, head) != "of"


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
