"""What follows from axioms of properties, and what must not follow from disjoint classes, in words.

========== ================================================== ================================ ==================
axiom      said                                               of pseudowords                   asked
========== ================================================== ================================ ==================
inverse    If one thing is a child of another , the other     <x> is a child of <y> .          <y> [Y] <x> .
           is a parent of the one .
symmetric  If one thing is married to another , the other     <x> is married to <y> .          <y> [Y] <x> .
           is married to the one .
transitive If one thing is part of another , and the other    <x> is part of <y> .             <x> [Y] <z> .
           is part of a third , the one is part of the third. <y> is part of <z> .
disjoint   No mammal is a bird .                              <x> is a mammal .                <x> is a particular
                                                                                               [Y] .
========== ================================================== ================================ ==================

Of disjoint classes the one that is asked about ("bird") must *not* follow. Forms and broken texts are those of
:mod:`fathom.prompts.arguments`; *a fact missing* leaves out the axiom, and of a transitive property *said of others*
breaks the second step: <w> is part of <z>.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

from fathom.data.queries import Query, QuerySet, Relation
from fathom.data.templates import Sentence, capitalized
from fathom.prompts.arguments import (
    ANOTHER,
    ANSWER_ALONE,
    DISTRACTORS,
    MISSING,
    OF_OTHERS,
    SHUFFLED,
    WHOLE,
    Fact,
)
from fathom.prompts.entailment import W, X, Y, Z, pattern_space, phrase_of
from fathom.prompts.ontology import CLASSES, with_article

INVERSE, SYMMETRIC, TRANSITIVE, DISJOINT = "inverse", "symmetric", "transitive", "disjoint"


class AxiomItem(NamedTuple):
    """An axiom as it is asked.

    :param name: of the property, or of the class that the pseudoword is said to be of.
    :param phrase: of the property in its sentence pattern, "" of a class.
    :param gold: the phrase that follows, or the class that must not.
    :param right: what is right in any case.
    """

    kind: str
    name: str
    phrase: str
    fact: Fact
    gold: str
    right: frozenset[str]


def axiom_items(
    data: QuerySet, patterns: Mapping[str, Mapping[str, str]], kind: str, stated: Sequence[Sequence[str] | str]
) -> list[AxiomItem]:
    """:param stated: of :class:`fathom.formats.axioms.Axioms`. Both directions of a pair are items; properties whose
    words do not all stand between subject and object, and names that are no candidates, are left out."""
    phrases = {name: phrase_of(text) for of_task in patterns.values() for name, text in of_task.items()}
    whole = data.whole or data
    above = {query.subject: query.gold for query in whole.queries if query.relation in ("subClassOf", "subPropertyOf")}
    if kind == DISJOINT:
        space = whole.candidates[CLASSES]
        pairs = dict.fromkeys(pair for group in stated for one in combinations(group, 2) for pair in (one, one[::-1]))
        return [
            _disjoint(*pair, frozenset((pair[0], *above.get(pair[0], ()))))
            for pair in pairs
            if all(name in space.position for name in pair) and pair[1] not in above.get(pair[0], ())
        ]
    if kind == INVERSE:
        pairs = dict.fromkeys(two for one in stated for two in ((one[0], one[1]), (one[1], one[0])))
    else:
        pairs = {(str(name), str(name)): None for name in stated}
    return [
        _of_property(kind, *pair, phrases, frozenset(phrases.get(name, "") for name in above.get(pair[1], ())))
        for pair in pairs
        if phrases.get(pair[0]) and phrases.get(pair[1])
    ]


def _disjoint(one: str, other: str, right: frozenset[str]) -> AxiomItem:
    fact = Fact(
        f"No {one} is {with_article(other)} .", f"Whatever is {with_article(one)} is not {with_article(other)} ."
    )
    return AxiomItem(DISJOINT, one, "", fact, other, right)


def _of_property(kind: str, one: str, other: str, phrases: Mapping[str, str], right: frozenset[str]) -> AxiomItem:
    said, follows = phrases[one], phrases[other]
    first = _holds(said, "If one thing", "another")
    facts = {
        INVERSE: Fact(
            f"{first} , {_holds(follows, 'the other', 'the one')} .", f"{capitalized(one)} is the inverse of {other} ."
        ),
        SYMMETRIC: Fact(f"{first} , {_holds(said, 'the other', 'the one')} .", f"{capitalized(one)} holds both ways ."),
        TRANSITIVE: Fact(
            f"{first} , and {_holds(said, 'the other', 'a third')} , {_holds(said, 'the one', 'the third')} .",
            f"{capitalized(one)} is transitive .",
        ),
    }
    return AxiomItem(kind, one, said, facts[kind], follows, right)


def _holds(phrase: str, one: str, other: str) -> str:
    """ "one thing is part of another", "one thing's mother is another"."""
    return f"{one}{'' if phrase.startswith(chr(39)) else ' '}{phrase} {other}"


def axiom_queries(
    data: QuerySet,
    patterns: Mapping[str, Mapping[str, str]],
    items: Mapping[str, Sequence[AxiomItem]],
    forms: Sequence[str],
    pairs: int,
    seed: int,
) -> QuerySet:
    """Each item in each form, whole and broken, for each pair of pseudowords. :param items: by kind."""
    queries = [query for own in items.values() for query in _of_items(own, forms, pairs, seed)]
    whole = data.whole or data
    spaces = {**whole.candidates, pattern_space(patterns).name: pattern_space(patterns)}
    used = {query.candidates for query in queries}
    return replace(
        whole,
        queries=tuple(queries),
        candidates={name: space for name, space in spaces.items() if name in used},
        relations={kind: Relation(kind, kind, (), "1:N") for kind in items},
        subsets={},
        whole=None,
    )


def _of_items(items: Sequence[AxiomItem], forms: Sequence[str], pairs: int, seed: int) -> Iterator[Query]:
    for number, item in enumerate(items):
        others = [one for one in (*items[number + 1 :], *items[:number]) if _strange(item, one)]
        drawn = random.Random(f"{seed} {item.kind} {number}").sample(others, min(DISTRACTORS, len(others)))
        id_ = f"{item.kind}/{number}"
        for pair in range(pairs):
            for form in forms:
                for given, text in _texts(item, others[:1], [one.fact for one in drawn], form, f"{seed} {id_}"):
                    about = {"rule": item.kind, "task": item.kind, "item": id_, "given": given, "pair": str(pair)}
                    yield Query(
                        id=f"{id_}/{form}/{given}/{pair}",
                        relation=item.kind,
                        subject=item.name,
                        subject_id=item.name,
                        gold=(item.gold,),
                        known=tuple(sorted(item.right - {item.gold, ""})),
                        candidates=CLASSES if item.kind == DISJOINT else "patterns",
                        groups=about | {"depth": "1", "form": form},
                        sentences=(Sentence(text),),
                    )


def _strange(item: AxiomItem, other: AxiomItem) -> bool:
    own, theirs = ({one.name, one.gold, one.phrase} - {""} for one in (item, other))
    return own.isdisjoint(theirs) and item.right.isdisjoint(theirs) and own.isdisjoint(other.right)


def _texts(
    item: AxiomItem, another: Sequence[AxiomItem], distractors: Sequence[Fact], form: str, lot: str
) -> Iterator[tuple[str, str]]:
    """Yield the whole argument and its broken variants, by name."""
    fact = ("fact", item.fact.text(form))
    given = {
        WHOLE: [fact, *_begins(item, item, form)],
        ANSWER_ALONE: [fact],
        OF_OTHERS: [fact, *_begins(item, item, form, of_others=True)],
        MISSING: _begins(item, item, form),
    }
    if another:
        given[ANOTHER] = [fact, *_begins(item, another[0], form)]
    for name, premises in given.items():
        every = list(premises)
        if form == SHUFFLED:
            every += [(f"other {number}", one.text(form)) for number, one in enumerate(distractors)]
            every.sort(key=lambda one: random.Random(f"{lot} {one[0]}").random())
        yield name, " ".join([*(text for _, text in every), "Therefore,", _asked(item)])


def _begins(item: AxiomItem, of: AxiomItem, form: str, of_others: bool = False) -> list[tuple[str, str]]:
    """Return the facts about pseudowords, each with its role. :param of: the item whose property or class is used."""
    if item.kind == DISJOINT:
        who = Z if of_others else X
        fact = Fact(f"{who} is {with_article(of.name)} .", f"{who} belongs to the class {of.name} .")
        return [("begins", fact.text(form))]
    if item.kind == TRANSITIVE:
        second = W if of_others else Y
        return [("begins", f"{_holds(of.phrase, X, Y)} ."), ("goes on", f"{_holds(of.phrase, second, Z)} .")]
    one, other = (Z, W) if of_others else (X, Y)
    return [("begins", f"{_holds(of.phrase, one, other)} .")]


def _asked(item: AxiomItem) -> str:
    if item.kind == DISJOINT:
        return f"{X} is a particular [Y] ."
    return f"{X} [Y] {Z} ." if item.kind == TRANSITIVE else f"{Y} [Y] {X} ."
