"""Adversarial queries that change a claim about the whole scene: negation, word order, relations.

These edits are almost invisible to a bag of words. Negation keeps the words and adds "not" or "without"; word order
keeps all words and swaps who does what, or which thing has which colour (Yuksekgonul et al. 2023, ARO); a relation
becomes its opposite. Where an edit might keep the meaning ("a dog and a cat", "next to"), nothing is changed.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import combinations, pairwise

from limner.explain.attributes import COLOUR_NAMES
from limner.explain.finite_verbs import is_finite
from limner.explain.noun_heads import head_after, is_animal, is_person, tags
from limner.explain.noun_phrases import COLOUR_SPELLING, COLOURS, FUNCTION, NO_OBJECTS, NUMBERS, SIZES, Phrase, phrases
from limner.explain.text_edits import Change, Context, Edit, Token, agreeing_article, cased, edited, word_set
from limner.language.tagging import SINGULAR, inflect, usual_part
from limner.language.wordnet import WordNet

# --- negation ---------------------------------------------------------------------------------------------------

NEGATIONS = frozenset(("not", "no", "never", "without", "nobody", "nothing", "none", "neither", "nor", "cannot"))
DETERMINERS = frozenset(("a", "an", "the", "his", "her", "its", "their", "some", "several", "another", *NUMBERS))


def negation(text: str, tokens: list[Token], at: int, context: Context) -> Edit | None:
    """Negates a verb, or what someone or something has; a text that already contains a negation is left unchanged."""
    if at == 0 or any(t.low in NEGATIONS or t.low == "both" or t.low.endswith("n't") for t in tokens):
        return None
    new = _denied(tokens, at, context.wordnet)
    return edited(text, "negation", [(tokens[at], new)], _claim(tokens, at)) if new else None


def _denied(tokens: list[Token], at: int, wordnet: WordNet) -> str | None:
    word, after = tokens[at].low, tokens[at + 1].low if at + 1 < len(tokens) else ""
    rest = {token.low for token in tokens[at + 1 :]}
    if rest & POSITIVE:
        return None
    if word in ("is", "are", "was", "were"):
        return f"{word} not" if after else None
    if word in ("has", "have"):
        return f"{'does' if word == 'has' else 'do'} not have" if after in DETERMINERS else None
    kinds = tags(tokens)
    if kinds[at - 1] != "n" or tokens[at - 1].low in ("hold", "shake"):  # "a boy and a girl hold hands"
        return None
    if word == "with":
        return "without" if after not in VAGUE and "few" not in [t.low for t in tokens[at + 1 : at + 3]] else None
    base = wordnet.base(word, "v") if kinds[at] == "v" else None
    if word.endswith("ing") and not _is_action(tokens, at, kinds, wordnet):
        return None
    living = is_person(tokens[at - 1].low, wordnet) or is_animal(tokens[at - 1].low, wordnet)
    if base == word and (wordnet.has(word, "a") or not living or usual_part(word) != "v"):
        return None  # "gets ready", "shovels snow"
    if word.endswith("s") and ((not living and usual_part(word) != "v") or tokens[at].start > tokens[at - 1].stop + 1):
        return None  # "tree branches", "a swimsuit , goggles"
    if base and not word.endswith("ing") and not is_finite(tokens, at, wordnet):
        return None
    return _verb_denied(word, base)


POSITIVE = frozenset(("some", "something", "someone", "somebody", "already", "only", "either", "too", "also"))
"""Words that do not go with a negation: "not eating something"."""
VAGUE = frozenset(("", "several", "each", "one", "all", "both", "various", "lots", "their", "his", "her", "its"))
"""Words that do not follow "without" here: "without its mouth open" is no English."""


def _is_action(tokens: list[Token], at: int, kinds: Sequence[str], wordnet: WordNet) -> bool:
    """Whether a form in -ing is what someone does, and not the noun of "a chalk drawing" or "a man fly fishing"."""
    before = tokens[at - 1].low
    acts = is_person(before, wordnet) or is_animal(before, wordnet)
    return acts and (at < 2 or kinds[at - 2] != "n" or (is_person(before, wordnet) and tokens[at].low not in SPORTS))


SPORTS = frozenset(("fishing", "climbing", "skiing", "surfing", "boarding", "racing", "riding"))


def _verb_denied(word: str, base: str | None) -> str | None:
    """A past form is left unchanged: it may be a participle ("a ball thrown by a boy")."""
    if base is None or base in ("be", "have", "sky"):  # "skies" is written for "skis"
        return None
    if word == base:
        return f"do not {base}"
    if base == "can":
        return None
    if word == inflect(base, "s"):
        return f"does not {base}"
    return f"not {word}" if word.endswith("ing") else None


def _claim(tokens: list[Token], at: int) -> str:
    """The word that is negated: the verb itself, or the first content word after "is", "has" or "with"."""
    return next((t.low for t in tokens[at:] if t.low not in FUNCTION and t.low not in NUMBERS), tokens[at].low)


# --- word order -------------------------------------------------------------------------------------------------

DIRECTED = frozenset((
    "on", "onto", "under", "underneath", "beneath", "below", "above", "over", "behind", "at", "toward", "towards",
    "after",
))  # fmt: skip
"""Prepositions whose meaning changes when the two nouns are swapped; "near" and "with" do not change."""
OF_PLACES = frozenset(("front", "top", "left", "right", "ahead"))
MUTUAL = frozenset(("meet", "fight", "hug", "kiss", "face", "join", "wrestle", "greet", "race", "touch", "embrace"))
NO_ROLES = word_set(
    """
    same other one diner monkey crowd group crew team hood bat scanner blond lasso tutu controller stroller pacifier
    bouncer mohawk
    """
)
"""Words that stand for nobody, or whose usual sense in WordNet is not that of captions."""
CLASSES = ("person.n.01", "animal.n.01", "artifact.n.01")
HE_OR_SHE = frozenset(("he", "she", "his", "her", "him", "himself", "herself"))
NO_COUNT = frozenset(("grass", "snow", "sand", "water", "hair", "clothing", "air", "ice", "dirt", "fish", "sheep"))


def word_order(text: str, tokens: list[Token], at: int, context: Context) -> Edit | None:
    """Swaps two nouns with a directed relation between them, or the colours or sizes of two different things."""
    kinds = tags(tokens)
    nouns = [p for p in phrases(text, context.wordnet) if kinds[p.start] != "v"]  # the noun "chases" is a verb here
    places = [
        _modifiers(text, tokens, one, second_phrase, at, context.wordnet)
        for one, second_phrase in combinations(nouns, 2)
    ]
    for one, second_phrase in pairwise(nouns):
        if at == one.start and _can_exchange(text, tokens, one, second_phrase, context.wordnet):
            places.append((at, second_phrase.start))
    exchange = next((each for each in places if each), None)
    return edited(text, "word-order", _exchanged(tokens, *exchange), tokens[at].low) if exchange else None


def _exchanged(tokens: list[Token], first: int, second: int) -> list[Change]:
    pairs = ((first, tokens[second].low), (second, tokens[first].low))
    words = [(tokens[at], cased(tokens[at].text, new)) for at, new in pairs]
    return words + [change for at, new in pairs for change in agreeing_article(tokens, at, new)]


def _modifiers(
    text: str, tokens: list[Token], one: Phrase, second_phrase: Phrase, at: int, wordnet: WordNet
) -> tuple[int, int] | None:
    """The positions of the colours or sizes of two things, if this word is the first of them."""
    if _same_head(one, second_phrase) or at >= one.start:
        return None
    kinds: tuple[Container[str], ...] = (COLOURS, SIZES)
    for of_kind in kinds:
        first, second = (_modifier(text, tokens, phrase, of_kind, wordnet) for phrase in (one, second_phrase))
        if first != at or second is None or second < one.stop:
            continue
        shared = {t.low for t in tokens[first + 1 : one.stop]} & {
            t.low for t in tokens[second + 1 : second_phrase.stop]
        }
        new = {_canonical(tokens[first]), _canonical(tokens[second])}
        third = {_canonical(t) for place, t in enumerate(tokens) if place not in (first, second)}
        if not shared and len(new) == 2 and not new & third:  # "a white dog with black spots jumps a white fence"
            return first, second
    return None


def _same_head(one: Phrase, second_phrase: Phrase) -> bool:
    """Whether two phrases name the same kind of thing: "a black dog and a white dog" says the same when swapped."""
    return bool({*one.noun.split()} & {*second_phrase.noun.split()})


SHADED = frozenset(("light", "dark", "bright", "pale", "deep", "hot", "navy", "lime", "very", "neon", "baby", "sky"))


def _canonical(token: Token) -> str:
    """One word for all spellings of a colour and all words for a size: "big" and "large" mean the same."""
    return COLOUR_SPELLING.get(token.low) or SIZES.get(token.low, token.low)


def _modifier(text: str, tokens: list[Token], phrase: Phrase, of_kind: Container[str], wordnet: WordNet) -> int | None:
    """Position of the colour or size of a noun; None for one of several ("black and white") and colours of people."""
    for place in range(phrase.start - 1, max(phrase.start - 3, -1), -1):
        if tokens[place].low not in of_kind:
            continue
        beside = {token.low for token in (*tokens[max(place - 1, 0) : place], *tokens[place + 1 : phrase.start])}
        alone = (
            not beside & ({"and", "of", "one", "ones"} | SHADED) and head_after(text, tokens, place) == phrase.stop - 1
        )
        name = f"{tokens[place].low} {tokens[place + 1].low}" in COLOUR_NAMES
        person = of_kind is COLOURS and is_person(tokens[phrase.stop - 1].low, wordnet)
        return place if alone and not name and not person else None
    return None


def _can_exchange(text: str, tokens: list[Token], one: Phrase, second_phrase: Phrase, wordnet: WordNet) -> bool:
    """Whether two nouns can be swapped so that the text means something else."""
    kinds = tags(tokens)
    single_words = (
        one.stop - one.start == second_phrase.stop - second_phrase.start == 1 and one.noun != second_phrase.noun
    )
    head = second_phrase.stop == len(tokens) or kinds[second_phrase.stop] != "n"  # not the "brick" of "a brick wall"
    if not single_words or not head or not _agree(tokens, one, second_phrase, wordnet):
        return False
    classes = [_class(phrase, wordnet) for phrase in (one, second_phrase)]
    are_artifacts = [each == "artifact.n.01" for each in classes]
    # "A man in a jacket sits on a bench": the jacket does not sit. So a thing must come first, without a verb.
    nouns = [t.low for t, kind in zip(tokens, kinds, strict=True) if kind == "n" and t.start < tokens[one.start].start]
    without_verb = "v" not in kinds[one.stop : second_phrase.start] and NO_OBJECTS.issuperset(nouns)
    hyphens = (text[tokens[phrase.start].start - 1 : tokens[phrase.start].start] for phrase in (one, second_phrase))
    if second_phrase.stop < len(tokens) and tokens[second_phrase.stop].low in ("one", "ones"):
        return False
    if one.start and kinds[one.start - 1] == "n":  # "a horse rider"
        return False
    people = [is_person(tokens[phrase.start].low, wordnet) for phrase in (one, second_phrase)]
    if any(people) and (_is_coloured(tokens, one) or _is_coloured(tokens, second_phrase)):  # "a yellow girl licks"
        return False
    if all(people) and any(token.low in HE_OR_SHE for token in tokens):  # "smiles at the man next to her"
        return False
    if "-" in hyphens or any(tokens[phrase.start].low in NO_ROLES for phrase in (one, second_phrase)):
        return False
    fits = "" not in classes and are_artifacts[0] == are_artifacts[1] and (without_verb or not are_artifacts[0])
    return fits and _directed(text, tokens, one, second_phrase, wordnet)


def _is_coloured(tokens: list[Token], phrase: Phrase) -> bool:
    """Whether a colour precedes a noun."""
    return any(token.low in COLOURS for token in tokens[max(phrase.start - 2, 0) : phrase.start])


def _class(phrase: Phrase, wordnet: WordNet) -> str:
    """Person or animal by the first sense, artifact by one of the first two, as for "table"."""
    matching = [c for c in CLASSES if wordnet.is_a(phrase.senses[0], c)]
    matching += [c for c in CLASSES[2:] if any(wordnet.is_a(sense, c) for sense in phrase.senses[:2])]
    return matching[0] if matching else ""


def _agree(tokens: list[Token], one: Phrase, second_phrase: Phrase, wordnet: WordNet) -> bool:
    """Whether grammar allows the swap: both singular or both plural, each with an article or number, or a plural."""
    words = [tokens[phrase.start].low for phrase in (one, second_phrase)]
    several = [(SINGULAR.get(word) or wordnet.base(word)) != word for word in words]
    led = _led(tokens[: one.start]) and _led(tokens[one.stop : second_phrase.start])
    return several[0] == several[1] and (led or several[0]) and not NO_COUNT & {*words}


def _led(before: list[Token]) -> bool:
    """Whether an article or a number precedes a noun, with at most two words in between."""
    words = [t.low for t in before[-3:]][::-1]
    first = next((word for word in words if word in FUNCTION or word in NUMBERS), "")
    return first in ("a", "an", "the") or first in NUMBERS


def _directed(text: str, tokens: list[Token], one: Phrase, second_phrase: Phrase, wordnet: WordNet) -> bool:
    """Whether the verb or preposition between two nouns means something else in the other direction."""
    between = [t.low for t in tokens[one.stop : second_phrase.start]]
    if "," in text[tokens[one.start].stop : tokens[second_phrase.start].start] or {
        "and",
        "or",
        "while",
        "whilst",
        "as",
        "something",
    } & {*between}:
        return False
    kinds = tags(tokens)[one.stop : second_phrase.start]
    linking = [(w, k) for w, k in zip(between, kinds, strict=True) if k == "v" or _links(w)]
    if not linking:
        return False
    (word, kind), before = linking[-1], [w for w, _ in linking[:-1]]
    if word == "of":
        return bool(before) and before[-1] in OF_PLACES
    return word in DIRECTED or (kind == "v" and wordnet.base(word, "v") not in MUTUAL)


def _links(word: str) -> bool:
    return word in FUNCTION and word not in DETERMINERS


# --- relations --------------------------------------------------------------------------------------------------

OPPOSITES: dict[tuple[str, ...], str] = {
    ("on", "top", "of"): "under", ("in", "front", "of"): "behind", ("out", "of"): "into", ("next", "to"): "far from",
    ("close", "to"): "far from", ("far", "from"): "next to", ("away", "from"): "towards", ("on",): "under",
    ("under",): "on top of", ("underneath",): "on top of", ("beneath",): "on top of", ("over",): "under",
    ("above",): "below", ("below",): "above", ("behind",): "in front of", ("inside",): "outside",
    ("outside",): "inside", ("into",): "out of", ("near",): "far from", ("beside",): "far from",
    ("towards",): "away from", ("toward",): "away from", ("up",): "down", ("down",): "up",
}  # fmt: skip
"""Relations in captions and their opposites. "In" and "with" are left out: they have too many meanings."""
SIDES = {"left": "right", "right": "left"}
COUNTERPARTS = {
    "out of": {"out", "from"}, "into": {"into", "onto", "to"}, "away from": {"away", "from"},
    "towards": {"towards", "toward", "to"}, "in front of": {"front"}, "far from": {"far"}, "on top of": {"on"},
}  # fmt: skip
"""Words beside which a new relation contradicts itself: "out of the ocean from the shore"."""
MOTION = frozenset((
    "walk", "run", "climb", "go", "ride", "ski", "slide", "move", "drive", "come", "hike", "travel", "skate", "crawl",
    "march", "race", "jog", "roll", "fly", "sled", "snowboard", "skateboard", "bike", "cycle", "skip", "dash",
))  # fmt: skip
"""Verbs after which "up" and "down" are directions; in "picks up a ball" it is not."""
NO_PLACES = NO_OBJECTS | {
    "phone", "telephone", "side", "back", "way", "stomach", "knee", "foot", "computer", "television", "leash", "air",
}  # fmt: skip
"""Nouns with which a relation does not describe a place: "on the phone", "on a leash", "into the air"."""


def relation(text: str, tokens: list[Token], at: int, context: Context) -> Edit | None:
    """Turns a spatial relation into its opposite: "behind a tree" -> "in front of a tree"."""
    old, new = _opposite(tokens, at, context)
    rest = {token.low for token in (*tokens[:at], *tokens[at + len(old) :])}
    if not new or rest & COUNTERPARTS.get(new, {new}):
        return None
    first, *following = tokens[at : at + len(old)]
    changes = [(first, cased(first.text, new)), *((token, "") for token in following)]
    return edited(text, "relation", changes, " ".join(old))


def _opposite(tokens: list[Token], at: int, context: Context) -> tuple[tuple[str, ...], str]:
    """The relation that starts here and its opposite; both empty if there is no such relation."""
    word = tokens[at].low
    if word in SIDES:
        return ((word,), SIDES[word]) if _is_side(tokens, at) else ((), "")
    for length in (3, 2, 1):
        old = tuple(t.low for t in tokens[at : at + length])
        if old in OPPOSITES:
            return (old, OPPOSITES[old]) if _holds(tokens, at, old, context.wordnet) else ((), "")
    return (), ""


def _is_side(tokens: list[Token], at: int) -> bool:
    """Whether "left" or "right" means a side here, unlike in "he left" or "right next to"."""
    before, after = tokens[at - 1].low if at else "", tokens[at + 1].low if at + 1 < len(tokens) else ""
    if after in ("of", "side", "hand", "arm", "leg", "foot"):
        return True
    return before == "the" and (not after or after in FUNCTION)


def _holds(tokens: list[Token], at: int, old: tuple[str, ...], wordnet: WordNet) -> bool:
    """Whether these words describe a relation to a thing or a place here, and the opposite can be said of it."""
    following = tokens[at + len(old) :]
    next_noun = next(iter(phrases(" ".join(t.text for t in following), wordnet)), None)
    if next_noun is None or next_noun.start > 3 or next_noun.noun in NO_PLACES:
        return False
    noun, before = next_noun.noun.split()[-1], tokens[at - 1].low if at else ""
    if old[0] in ("up", "down"):
        moves = at > 0 and wordnet.base(before, "v") in MOTION
        return moves and noun in SLOPES and following[0].low in ("a", "an", "the", "some", "his", "her", "their")
    if not _possible(tokens, at, old, noun, wordnet):
        return False
    led = all(t.low not in FUNCTION or t.low in DETERMINERS for t in following[: next_noun.start])
    return led and any(wordnet.is_a(sense, "physical_entity.n.01") for sense in next_noun.senses[:2])


def _possible(tokens: list[Token], at: int, old: tuple[str, ...], noun: str, wordnet: WordNet) -> bool:
    """Whether the opposite of a relation makes sense with a noun: there is nothing under a beach."""
    words, before = {token.low for token in tokens}, tokens[at - 1].low if at else ""
    verb = wordnet.base(before, "v")
    if noun in BODIES or before in FIXED:
        return False
    if old in (("on",), ("on", "top", "of")):
        return noun in UNDERSIDES and not words & PERFORMED
    if old == ("over",):
        return noun in BARRIERS and verb in ("jump", "leap", "climb", "go", "hop", "step")
    if old[0] in ("under", "underneath", "beneath"):
        return noun in UNDERSIDES
    if old[0] in ("into", "out"):
        return noun in ENTERED and verb in (*MOTION, "jump", "leap", "dive", "step", "swim", "wade", "emerge")
    if old[0] in ("above", "below"):
        return not words & {"air", "high", "midair"} and noun not in SURFACES
    if old[0] in ("inside", "outside"):
        return before not in ("of", "from", "out") and noun not in ("day", "area")
    return noun not in (WITHOUT_FRONT if old[0] in ("behind", "in") else BOUNDS)


FIXED = word_set("looking looks look made right up down head from left leaves leaving chewing chews following follows")
"""Words that make one expression with a relation: "looks over"."""
BOUNDS = word_set("other background edge top end bottom air sky sun")
SURFACES = word_set("grass concrete floor pool lake water ocean sea ground snow cloud wave waters crowd")
WITHOUT_FRONT = word_set(
    "line crowd ear window mountain sunset sun sky background boat wheel ocean city bar counter audience river lake"
    " water pond stream sea trail"
)
BODIES = word_set(
    """
    head heads shoulder neck mouth face hand arm lap eye nose leg wrist ear body hair chest waist back stomach
    shoulders knee foot finger
    """
)
UNDERSIDES = word_set(
    """
    table bench chair bed desk bridge trampoline stool platform couch sofa dock pier roof balcony scaffolding deck
    branch car
    """
)
"""Things that there is room on and under."""
PERFORMED = word_set(
    """
    jumping jumps jump bouncing bounces bounce skateboard skateboards skateboarding flip skateboarder trick walking
    standing stands stand drawing painted balancing balances leg legs foot feet grinding grinds lands landing
    """
)
BARRIERS = word_set("hurdle fence bar obstacle rope log pole gate bench table barrier beam rail railing branch bridge")
ENTERED = word_set(
    """
    water pool lake river ocean pond sea stream surf creek tunnel tent house building car box cave boat fountain
    """
)
SLOPES = word_set(
    """
    hill ramp mountain stairs step slope incline slide mountainside hillside staircase ladder dune stair cliff rock
    steps tree bank embankment stairway
    """
)
