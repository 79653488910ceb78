"""Words of one family, and which words of a long name tell it from other names.

Families are told by endings alone, and only by those that leave the thing named the same: "dopaminergic" is of
dopamine, "Egyptian" of Egypt, "glutamic" of glutamate, *Aconitum* of aconitine. Endings that make another thing of it
(glucagon of glucose, nicotinate of nicotine) are none of these.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

from fathom.building.cloze.typography import fold

WORD = re.compile(r"[^\W_]+")
_LEAST = 5
"""Letters of a root: shorter beginnings are shared by words of other families."""
_ADJECTIVE = re.compile(r"(?:ergic|ically|ical|ics?|ally|al|ous|oid|ian|ean|an|is[mt]|i[sz]ed|i[sz]ation)$")
_ACID = re.compile(r"(?:ate|ic)$")
"""A salt and its acid."""
_SIGNAL = re.compile(r"(?:ergic|in)$")
"""Serotonin, and what it acts on: serotonergic."""
_LATIN = re.compile(r"(?:ium|um|us|iana|ia|a)$")
_ALKALOID, _PLANT = "ine", 6
"""An alkaloid is called after its plant, whose name is as long as that."""
_VOWELS = "aeiouy"
_FEW, _SHARE = 3, 0.003
"""A word tells names apart that so many entities have, or such a share of all."""
_CODE = 3
"""Signs of a word with capitals or digits that tells names apart."""

_LITTLE_WORDS = (
    "a about after all also am an and any are as at be been but by can co could de did do does for from get had has "
    "have he her here him his how i if in into is it its just let like may me more most must my no non nor not now of "
    "off on one or our out own per pre put she should so some such than that the their them then there these they this "
    "those to too up us very via was we were what when which who why will with would yet you"
)
LITTLE = frozenset(_LITTLE_WORDS.split())
"""English words that are in any sentence."""
_CLASS_WORDS = (
    # of names in the sciences
    "acid activation activator activity agent alpha amino analog analogue animal antagonist agonist antibody antigen "
    "bacterial base beta binding blood body bovine brain cancer cdna cell cellular chain channel chemical chemotherapy "
    "chromosome chronic class clinical clone complex component compound concentration control deficiency delta "
    "dependent derivative disease disorder domain dose drug early effect element enhancer enzyme epsilon exon "
    "expression extract factor family fragment fusion gamma gene genome growth heart heavy hormone human induced "
    "infection inhibitor intron isoform kappa kinase ligand light like liver locus long mammalian marker membrane "
    "messenger mouse mrna muscle mutant mutation nuclear operon oxide patient pathway peptide plasma plasmid positive "
    "negative product promoter protein rat receptor region regulator related release repeat reporter repressor "
    "response responsive salt sequence serum short signal single site small specific strain structure subfamily "
    "subunit substance suppressor surface syndrome synthase synthesis system terminal therapy tissue toxin transcript "
    "transcription transporter treatment tumor tumour type variant virus viral vitamin wild yeast zeta "
    # of names of places, people and works
    "academy airport album association award band bank battle bridge building capital castle century championship "
    "church city club college company congress corporation council country county court department district division "
    "duke east eastern emperor empire episode film first football force foundation fort game general government great "
    "group hall high hill house institute international island king kingdom lake language league library local lord "
    "major mount mountain movie museum music national new north northern office old opera order organization park "
    "party peace people police political port president prime prince princess province public queen race railway "
    "record republic river road royal saint school science sea season second series service show society song south "
    "southern square stadium state station street studio summer team television theatre theory third tower town "
    "treaty tribe union united university upper valley village war water west western white winter women world young"
)
CLASS = frozenset(_CLASS_WORDS.split())
"""Words of what kind of thing a name is of: they say little about which, even where few names are listed."""


@lru_cache(maxsize=1 << 16)
def roots(word: str) -> frozenset[str]:
    """What a word, in small letters, shares with all of its family; it begins with each, up to a mark of its kind."""
    single = _singular(word)
    bare = _without(_ADJECTIVE, single)
    found = {_without_vowels(bare)}
    if single.endswith(("ergic", "in")):
        found.add(_without(_SIGNAL, single) + "~signal")
    if single.endswith(("ate", "ic")):
        found.add(_without(_ACID, single) + "~acid")
    if single.endswith(_ALKALOID) and len(single) - len(_ALKALOID) >= _PLANT:
        found.add(single.removesuffix(_ALKALOID) + "~plant")
    elif _LATIN.search(single):
        found |= {_without(_LATIN, single), _without(_LATIN, single) + "~plant"}
    return frozenset(found)


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > _LEAST + 2:
        return word[:-3] + "y"
    plural = word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) >= _LEAST
    return word[:-1] if plural else word


def _without(ending: re.Pattern[str], word: str) -> str:
    cut = ending.sub("", word)
    return cut if len(cut) >= _LEAST else word


def _without_vowels(word: str) -> str:
    while len(word) > _LEAST and word[-1] in _VOWELS:
        word = word[:-1]
    return word


class TellingWords:
    """Words of names that say which name it is.

    :param names: those of each entity that is listed, as they are compared.
    """

    def __init__(self, names: Iterable[Sequence[str]]) -> None:
        self._entities = 0
        self._having: Counter[str] = Counter()
        for own in names:
            self._entities += 1
            self._having.update({root for name in own for word in WORD.findall(name) for root in roots(fold(word))})
        self._most = max(_FEW, _SHARE * self._entities)

    def said(self, name: str, text: str, small: str) -> bool:
        """Whether one of a name of several words, or its family, or that of a name of one word, stands in a text.

        :param small: the text in small letters.
        """
        alone, words = _beginnings(name)
        return any(
            beginning in small and (alone or self._tells(word)) and _stands(word, text, small)
            for word, beginning in words
        )

    def _tells(self, word: str) -> bool:
        own = roots(fold(word))
        common = fold(word) in LITTLE or not own.isdisjoint(_CLASS_ROOTS)
        return not common and max(self._having[root] for root in own) <= self._most


_CLASS_ROOTS = frozenset(root for word in CLASS for root in roots(word))


@lru_cache(maxsize=1 << 16)
def _beginnings(name: str) -> tuple[bool, list[tuple[str, str]]]:
    """Words of a name that may give it away, each with what all of its family begin with, in small letters.

    :returns: first, whether the name has no other word.
    """
    found = {}
    words = WORD.findall(name)
    for word in words:
        if _is_code(word):
            found[word] = _numbered(word) if len(word) >= _CODE else ""
        elif len(word) >= _LEAST and word.isalpha():
            found[word] = fold(word[: _LEAST - 1])  # a letter more may be that of a plural
    return len(words) == 1, [(word, beginning) for word, beginning in found.items() if beginning]


def _is_code(word: str) -> bool:
    """Its capitals or digits are part of it: it has no family."""
    if word.isdigit() or (word.islower() and word.isalpha()):
        return False
    return sum(sign.isdigit() or sign.isupper() for sign in word) >= 2 or not word.isalpha()


def _numbered(word: str) -> str:
    """SEC4 and Sec4p, the protein of yeast, are of one family; SEC4 and SEC40 are not."""
    return fold(word).removesuffix("p")


def _stands(word: str, text: str, small: str) -> bool:
    if not _is_code(word):
        own = roots(fold(word))
        return any(not own.isdisjoint(roots(other)) for other in WORD.findall(small) if len(other) >= _LEAST)
    if word.isalpha():
        return word in WORD.findall(text)  # "SET" and "set"
    return any(_numbered(other) == _numbered(word) for other in WORD.findall(small))
