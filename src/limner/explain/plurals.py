"""One and several: a singular noun becomes plural or the reverse, with its article, verbs and pronouns.

A caption is read as far as the rules are sure: the subject is the first noun phrase, its verbs are those up to the next
clause,
    and everything else is refused. A thing that is not the subject changes only after a word that cannot be followed
by a subject ("near a bench"), and only if one person can see, hold or pass several of it.
"""

from __future__ import annotations

from limner.explain.noun_heads import css_colours, follows, head_after, is_animal, is_person, leads, names_a, tags
from limner.explain.noun_phrases import FUNCTION, GROUPS, NUMBERS
from limner.explain.text_edits import Change, Context, Edit, Token, cased, edited, word_set
from limner.language.tagging import AGREE, inflect, plural, singular, usual_part
from limner.language.wordnet import WordNet

MASS = word_set(
    """
    water grass snow sand hair clothing air ice dirt mud equipment gear furniture luggage food foliage graffiti
    midair traffic underwear camouflage fog rain wood lace attire leather denim plaid gravel concrete metal half
    lot bit few pair couple bunch group crowd top front back side background distance variety number row line
    set team people family close closeup close-up shot view male female asian blond blonde brunette piece body
    series part array kind type sort pile stack audience band wet dry light dark yard black white
    """
)
"""Nouns that have no plural, that stand for several already, or that are as likely adjectives."""
PASSING = word_set(
    """
    with near beside past behind by around over holding carrying throwing chasing watching holds carries chases
    throws watches pulling pushing has feeding catching petting hugging to of
    """
)
"""Words after which a noun phrase is no subject, and after which several things are possible."""
CLAUSES = word_set("while as when where because but until so if whilst though after")
"""Words that begin another clause."""
RELATIVES = frozenset(("that", "who", "which", "whose", "whom"))
STARTS = word_set("a an the his her its their another several some two three one")
ALONE = word_set(
    """
    or alone lone single solo another other others each one solitary itself same different possibly probably
    """
)
TOGETHER = word_set(
    """
    each other another together both between one them their they themselves others all same different row line
    circle group side team teams couple pair apart it share sharing gather gathered race racing races wrestle
    wrestling fight fighting talk talking chat chatting kiss kissing hug hugging embrace embracing meet hands
    tandem collide match tug compete competing huddle dressed posing shake shaking various opposing hold faces
    heads arms mouths backs bikes partners matching similar join converse conversing surround surrounding facing
    face touch touching interact interacting spar sparring box boxing lined separate someone his her him he she
    its
    """
)
"""Words that tell of several people or things, so that "one" does not fit."""
TO_THEIR = {"his": "their", "her": "their", "its": "their", "he": "they", "she": "they", "it": "they", "him": "them",
            "himself": "themselves", "herself": "themselves", "hers": "theirs"}  # fmt: skip
SHARED = word_set(
    """
    mouth nose tongue head tail face arm hand leg ear back neck bike bicycle skateboard board surfboard
    snowboard horse shoulder eye toy lap foot paw collar motorcycle knee belly stomach shirt hat owner trick
    chest finger toe leash scooter sled thumb chin bag jacket cheek
    """
)
"""What each of several has of their own: "its mouth" becomes "their mouths"."""


def plural_edit(text: str, tokens: list[Token], at: int, context: Context) -> Edit | None:
    """Turns one into several ("a dog is" -> "several dogs are"), or several into one ("two dogs" -> "one dog")."""
    lead, wordnet = tokens[at].low, context.wordnet
    to_plural = lead in ("a", "an")
    if not to_plural and (lead not in NUMBERS or lead == "one" or leads(tokens, at) in ("the", "of", "these")):
        return None
    if follows(tokens, at) in GROUPS or follows(tokens, at) in ALONE:  # "a few dogs" is plural already
        return None
    head = head_after(text, tokens, at)
    inner = tokens[at + 1 : head] if head is not None and not _is_living(tokens[head].low, wordnet) else []
    if any(_is_living(token.low, wordnet) for token in inner):  # "a small child hangs upside"
        return None
    new = _other_number(tokens, head, wordnet, to_plural=to_plural) if head is not None else None
    if head is None or new is None or _in_a_name(tokens, head, wordnet) or _shares_article(text, tokens, head):
        return None
    changes = _around(text, tokens, at, head, wordnet, to_plural=to_plural)
    if changes is None:
        return None
    own = [
        (tokens[at], cased(tokens[at].text, "several" if to_plural else "one")),
        (tokens[head], cased(tokens[head].text, new)),
    ]
    return edited(text, "plural", own + changes, tokens[head].low)


def _is_living(noun: str, wordnet: WordNet) -> bool:
    return is_person(noun, wordnet) or is_animal(noun, wordnet)


def _other_number(tokens: list[Token], head: int, wordnet: WordNet, *, to_plural: bool) -> str | None:
    """The noun in its other number, or None where it has none here."""
    noun = tokens[head].low
    one = singular(noun, wordnet)
    if one is None or noun in MASS or one in MASS or noun in css_colours() or follows(tokens, head) in ("of", "s"):
        return None
    if to_plural:
        odd = (noun.endswith("s") and not noun.endswith(("ss", "us"))) or noun.endswith("ing")
        return plural(noun) if one == noun and not odd else None
    return one if one != noun and plural(one) == noun and noun not in ("glasses", "pants", "shorts", "jeans") else None


def _in_a_name(tokens: list[Token], head: int, wordnet: WordNet) -> bool:
    """Whether the noun goes on in a way that the tagger does not see, as in "head covering" or "dog 's"."""
    after = follows(tokens, head)
    if is_person(tokens[head - 1].low, wordnet) and not is_person(tokens[head].low, wordnet):  # "a man rock climbs"
        return True
    if after == "looking" and tags(tokens)[head + 2 : head + 3] == ("n",):  # "a Lassie looking dog"
        return True
    return (after.endswith("ing") and tags(tokens)[head + 1] != "v") or tokens[head].text[-2:] == "'s"


def _shares_article(text: str, tokens: list[Token], head: int) -> bool:
    """Whether a list goes on with a noun that has no article of its own: "a man , woman , and child"."""
    if head + 1 >= len(tokens) or tokens[head + 1].low in FUNCTION or tokens[head + 1].low.endswith("ing"):
        return False
    gap = text[tokens[head].stop : tokens[head + 1].start].strip()
    return gap in (",", "/", "&") and tags(tokens)[head + 1] != "v"


def _around(
    text: str, tokens: list[Token], at: int, head: int, wordnet: WordNet, *, to_plural: bool
) -> list[Change] | None:
    """The changes of the words around a noun, or None where its part in the sentence is not sure."""
    if at == 0:
        return _as_subject(text, tokens, head, wordnet, to_plural=to_plural)
    if at == 2 and tokens[0].low == "there" and tokens[1].low in AGREE:
        verb = tokens[1]
        rest = _as_subject(text, tokens, head, wordnet, to_plural=to_plural)
        fits = (verb.low in ("is", "was", "has")) == to_plural
        return (
            None
            if rest is None or not fits or any(t.low in AGREE for t, _ in rest)
            else [(verb, AGREE[verb.low]), *rest]
        )
    return [] if to_plural and _is_object(text, tokens, at, head, wordnet) else None


def _is_object(text: str, tokens: list[Token], at: int, head: int, wordnet: WordNet) -> bool:
    """Whether a noun phrase is a thing or being that the subject has, meets or passes."""
    before, noun, rest = leads(tokens, at), tokens[head].low, {token.low for token in tokens[head + 1 :]}
    if (before == "of" and at > 1 and tokens[at - 2].low != "front") or (
        before == "to" and tokens[at - 2].low != "next"
    ):
        return False
    if (
        before not in PASSING
        or rest & (RELATIVES | set(TO_THEIR) | ALONE)
        or follows(tokens, head) in ("and", "is", "are", "has")
    ):
        return False
    if before in ("by", "over", "with", "around") and not (
        is_animal(noun, wordnet) or is_person(noun, wordnet) or _is_thing(noun, wordnet)
    ):
        return False
    if before in ("watching", "watches", "feeding", "chasing", "chases", "petting", "hugging"):
        return is_animal(noun, wordnet) or is_person(noun, wordnet)
    if follows(tokens, head) in ("in", "wearing", "with", "on", "dressed", "that") and not _is_thing(noun, wordnet):
        return False  # "several people in an orange cape"
    known = is_animal(noun, wordnet) or is_person(noun, wordnet) or _is_thing(noun, wordnet)
    verb_next = head + 1 < len(tokens) and tags(tokens)[head + 1] == "v" and not follows(tokens, head).endswith("ing")
    return known and not verb_next and not ({tokens[i].low for i in range(at)} & {"each", "both"})


OBJECTS = word_set(
    """
    ball toy stick camera bag bottle flag tree bench car boat building rock fence table chair bicycle motorcycle
    truck umbrella sign balloon frisbee cup box book bucket guitar rope bus van tent statue fountain bush flower
    basket instrument phone cellphone snowball log pole hurdle obstacle suitcase cart barrel window door house
    plant kite football basketball baseball branch drum torch sword plate surfboard skateboard snowboard
    newspaper magazine microphone card poster banner candle couch bed bike puddle stone boulder net cone puppet
    doll stroller wagon sculpture store shop restaurant tower wall fish bird beer cane tattoo backpack purse
    helmet
    """
)
"""Things of which there can be several beside, behind or in the hands of one person."""


def _is_thing(noun: str, wordnet: WordNet) -> bool:
    return (singular(noun, wordnet) or noun) in OBJECTS or names_a(noun, "vehicle.n.01", wordnet)


# --- the subject and what agrees with it --------------------------------------------------------------------------


def _as_subject(text: str, tokens: list[Token], head: int, wordnet: WordNet, *, to_plural: bool) -> list[Change] | None:
    """The verbs and pronouns that agree with a subject, or None where they are not sure."""
    rest = {token.low for token in tokens[head + 1 :]}
    if rest & (ALONE if to_plural else TOGETHER) or (to_plural and " be a" in text):  # "pretends to be a star"
        return None
    if not to_plural and any(_is_worn_by_several(word, wordnet) for word in rest):
        return None  # "two men in hats"
    if not to_plural and _adds_subject(tokens, head, wordnet):
        return None
    noun = tokens[head].low
    living = is_animal(noun, wordnet) or is_person(noun, wordnet)
    if not living and not _is_thing(noun, wordnet) and not names_a(noun, "object.n.01", wordnet):
        return None
    if any(f"the {word}" in text.lower() for word in (noun, singular(noun, wordnet))):
        return None
    stop = _clause_end(text, tokens, head)
    verbs = _verbs(text, tokens, head, stop, wordnet, to_plural=to_plural)
    if verbs is None or not to_plural:
        return verbs
    pronouns = _pronouns(tokens, head, stop, wordnet)
    worn = _worn(text, tokens, head, stop, wordnet)
    if pronouns is None or worn is None:
        return None
    return list(dict(verbs + pronouns + worn).items())


def _is_worn_by_several(word: str, wordnet: WordNet) -> bool:
    """Whether a word is a plural of clothes of which one person wears one."""
    one = singular(word, wordnet) or word
    return one != word and one not in PAIRED and _is_own(one, wordnet)


def _adds_subject(tokens: list[Token], head: int, wordnet: WordNet) -> bool:
    """Whether "and" adds another subject before the first verb."""
    for place in range(head + 1, len(tokens) - 1):
        if _can_agree(tokens[place].low, wordnet, to_plural=False) and tags(tokens)[place] != "n":
            return False
        if tokens[place].low == "and" and (tokens[place + 1].low in STARTS or tags(tokens)[place + 1] == "n"):
            return True
    return False


PAIRED = word_set(
    "glass short jean pant shoe boot glove sock sunglass goggle trunk sneaker sandal eye ear hand foot leg tight"
)


def _clause_end(text: str, tokens: list[Token], head: int) -> int:
    """The position after the last word of the subject's own clause."""
    for place in range(head + 1, len(tokens)):
        gap = text[tokens[place - 1].stop : tokens[place].start]
        if (tokens[place].low in CLAUSES and tokens[place].low != "after") or ";" in gap or "." in gap:
            return place
    return len(tokens)


def _verbs(
    text: str, tokens: list[Token], head: int, stop: int, wordnet: WordNet, *, to_plural: bool
) -> list[Change] | None:
    """The finite verbs of a subject, in the other number; None where a word could be one or not."""
    changes: list[Change] = []
    compound = follows(tokens, head) == "and"
    if compound and (head + 2 >= stop or tokens[head + 2].low not in STARTS or not to_plural):
        return None
    has_verb = False
    for place in range(head + 1, stop):
        word, before = tokens[place].low, tokens[place - 1].low
        if word in RELATIVES:
            return None
        joins = before == "and" or "," in text[tokens[place - 1].stop : tokens[place].start]
        if (
            joins
            and has_verb
            and (word in STARTS or (tags(tokens)[place] == "n" and not _can_agree(word, wordnet, to_plural=to_plural)))
        ):
            return changes  # another clause or another object: what follows has another subject
        agrees = _agrees(tokens, place, wordnet, to_plural=to_plural, joins=joins, has_verb=has_verb)
        if agrees is None or (agrees and compound):
            return None
        if agrees:
            has_verb = True
            new = AGREE.get(word) or (wordnet.base(word, "v") if to_plural else inflect(word, "s"))
            changes.append((tokens[place], str(new)))
            if word in ("is", "was", "are", "were") and follows(tokens, place) in (
                "a",
                "an",
                "the",
                "one",
                "his",
                "her",
            ):
                return None  # "is a pirate"
    if not to_plural and not has_verb and not follows(tokens, head).endswith("ing"):
        return None
    return changes


def _can_agree(word: str, wordnet: WordNet, *, to_plural: bool) -> bool:
    """Whether a word can be a finite verb of the number that is changed."""
    if word in AGREE:
        return (word in ("is", "was", "has", "does")) == to_plural
    base = wordnet.base(word, "v")
    if base is None or word in FUNCTION or word in CLOTHES:
        return False
    return word == inflect(base, "s") if to_plural else word == base


ADVERBS = frozenset(("up", "down", "off", "around", "along", "past", "across", "by", "over", "out", "away", "on"))
CLOTHES = word_set("pants shorts glasses tights trunks goggles stripes boots socks gloves shoes jeans")
NOMINAL = word_set(
    """
    a an the his her its their of in on with some several two three four many at by for from into near over
    through to down off under these those no behind wearing holding carrying across up around along past s
    """
)
"""Words after which a form is a noun."""


def _agrees(
    tokens: list[Token], place: int, wordnet: WordNet, *, to_plural: bool, joins: bool, has_verb: bool
) -> bool | None:
    """Whether a word is a finite verb of the subject; None where this is not sure."""
    word, before = tokens[place].low, tokens[place - 1].low
    if not _can_agree(word, wordnet, to_plural=to_plural):
        return False
    if has_verb and not joins:
        return None if word in AGREE else False  # "for the ball the girl is holding"
    if word in AGREE:
        return True
    if before in css_colours() and tokens[place - 2].low in ("wearing", "in", "dressed", "all"):
        return None if usual_part(word) != "v" else True  # "a woman wearing white reaches"
    if before in ADVERBS and not has_verb and usual_part(word) == "v":
        return None  # "with its ears up runs"
    if before in css_colours() and leads(tokens, place - 1) == "and" and usual_part(word) == "v":
        return None  # "a woman in red and white poses"
    if before in NOMINAL or before in css_colours() or before in NUMBERS:
        return False
    if tags(tokens)[place] == "v":
        if to_plural and not has_verb and _is_bare(tokens, place - 1, wordnet):
            return None  # "with rainbow flags"
        return True if usual_part(word) == "v" or tags(tokens)[place - 2 : place] == ("x", "n") else None
    if not to_plural and (wordnet.has(before, "a") or before.endswith("ing")):
        return False
    verbal = usual_part(word) == "v"
    if joins and has_verb:
        return True if verbal else None
    return None if verbal or (to_plural and joins) else False


def _is_bare(tokens: list[Token], place: int, wordnet: WordNet) -> bool:
    """Whether a singular noun has no article, so that the next word may be the plural noun that it describes."""
    noun = tokens[place].low
    if noun in MASS or singular(noun, wordnet) != noun or noun.endswith("s"):
        return False
    while place and tags(tokens)[place] in ("n", "x") and tokens[place].low not in FUNCTION:
        place -= 1
    return place > 0 and tokens[place].low not in (*STARTS, *NUMBERS, "no", "and")


def _pronouns(tokens: list[Token], head: int, stop: int, wordnet: WordNet) -> list[Change] | None:
    """The pronouns of a subject in the plural; None if they may stand for someone else."""
    places = [at for at in range(head + 1, len(tokens)) if tokens[at].low in TO_THEIR]
    if not places:
        return []
    nouns = [t.low for t, kind in zip(tokens[head + 1 :], tags(tokens)[head + 1 :], strict=True) if kind == "n"]
    if any(is_person(noun, wordnet) or is_animal(noun, wordnet) for noun in nouns) or any(p >= stop for p in places):
        return None
    changes: list[Change] = []
    for at in places:
        word, after = tokens[at].low, follows(tokens, at)
        if word in ("he", "she", "it") or (word == "her" and (not after or after in FUNCTION)):
            return None
        changes.append((tokens[at], TO_THEIR[word]))
        owned = at + 1
        if after in SHARED and owned + 1 < len(tokens) and tags(tokens)[owned + 1] == "n":
            continue  # "his skateboard tricks"
        if after in SHARED:
            changes.append((tokens[owned], plural(after)))
        elif owned + 1 < len(tokens) and tokens[owned + 1].low in SHARED and tags(tokens)[owned] == "x":
            changes.append((tokens[owned + 1], plural(tokens[owned + 1].low)))
    return changes


WORN = word_set(
    """
    hat necklace boa blouse blazer top headscarf swimwear trunks wetsuit bikini suit uniform outfit costume
    swimsuit dress shirt t-shirt jersey helmet cap hoodie sweatshirt
    kimono headband bandanna snowsuit tank bandana mask scarf backpack muzzle harness vest coat sweater jumpsuit
    tuxedo skirt robe leotard tutu wig beard mustache ponytail mohawk
    """
)


def _worn(text: str, tokens: list[Token], head: int, stop: int, wordnet: WordNet) -> list[Change] | None:
    """What each of several wears or rides is plural too: "in a red shirt" becomes "in red shirts"."""
    changes: list[Change] = []
    for at in range(head + 1, stop):
        if tags(tokens)[at] == "n" and is_person(tokens[at].low, wordnet):
            return changes  # what follows is worn by someone else
        noun = head_after(text, tokens, at) if tokens[at].low in ("a", "an") else None
        if noun is None:
            if tokens[at].low in ("a", "an") and leads(tokens, at) in WEARS:
                return None
            continue
        if any(is_person(token.low, wordnet) for token in tokens[at + 1 : noun + 1]):
            return changes
        if leads(tokens, at) not in (*WEARS, "on", "with", *(["and"] if changes else []), "has", "have") or not _is_own(
            tokens[noun].low, wordnet
        ):
            continue
        listed = text[tokens[noun].stop :].lstrip()[:1] == ","
        if listed and _is_own(follows(tokens, noun), wordnet):  # "a hat , shirt and jeans"
            return None
        second = _second_worn(text, tokens, noun, wordnet)
        compound = follows(tokens, noun).endswith("ing") and wordnet.has(follows(tokens, noun))  # "a head covering"
        compound = compound or follows(tokens, noun) == "top"  # "a tank top"
        if second is None or compound or not _has_plural(tokens[noun].low, wordnet):
            return None
        changes += [(tokens[at], ""), (tokens[noun], plural(tokens[noun].low)), *second]
    return changes


WEARS = ("in", "wearing", "wears", "riding", "rides")


def _is_own(noun: str, wordnet: WordNet) -> bool:
    """Whether each of several has one of their own."""
    owned = noun in SHARED or noun in WORN
    return owned or names_a(noun, "clothing.n.01", wordnet) or names_a(noun, "vehicle.n.01", wordnet)


def _has_plural(noun: str, wordnet: WordNet) -> bool:
    odd = noun.endswith("s") and not noun.endswith("ss")
    return noun not in MASS and singular(noun, wordnet) == noun and not odd


def _second_worn(text: str, tokens: list[Token], noun: int, wordnet: WordNet) -> list[Change] | None:
    """The change of "skirt" in "a shirt and brown skirt"; None where this word has no plural."""
    if follows(tokens, noun) != "and" or noun + 2 >= len(tokens) or tokens[noun + 2].low in STARTS:
        return []
    second = head_after(text, tokens, noun + 1)
    if second is None or tags(tokens)[noun + 2] == "v":
        return []
    word = tokens[second].low
    if is_person(word, wordnet):
        return None
    if not _is_own(word, wordnet) or singular(word, wordnet) != word:
        return []
    return [(tokens[second], plural(word))] if _has_plural(word, wordnet) else []
