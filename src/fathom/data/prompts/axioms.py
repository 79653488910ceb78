"""Conclusions from axioms of properties, and one that must not follow from disjoint classes.

========== ================================================== ================================ ==================
axiom      fact                                               about pseudowords                conclusion
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

Of disjoint classes the other ("bird") must *not* follow. Forms and altered texts are those of
:mod:`fathom.data.prompts.alterations`, where premise 1 is the axiom. *About another subject*, the second step of a
transitive property is <w> is part of <z>.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import NamedTuple

from fathom.data.prompts.alterations import (
    ANOTHER_FIRST,
    ANOTHER_SECOND,
    COMBINES,
    DISTRACTORS,
    NEGATED_FIRST,
    NEGATED_SECOND,
    VERB_FIRST,
    VERB_SECOND,
    Premise,
    Premises,
    Wording,
    denied,
    doubted,
    in_orders,
    worded,
)
from fathom.data.prompts.entailment import PATTERNS, W, X, Y, Z, phrase_of, pseudoword_queries
from fathom.data.prompts.ontology import CLASSES, Patterns, with_article
from fathom.data.queries import Query, QuerySet
from fathom.data.templates import Sentence, capitalized

INVERSE, SYMMETRIC, TRANSITIVE, DISJOINT = "inverse", "symmetric", "transitive", "disjoint"


class AxiomItem(NamedTuple):
    """An axiom with what follows.

    :param name: of the property, or of the pseudoword's class.
    :param consequent: name of the property that follows, or of the class that must not.
    :param phrase: of the property in its sentence pattern, "" of a class.
    :param gold: the phrase that follows, or the class that must not.
    :param right: what is right in any case.
    """

    kind: str
    name: str
    consequent: str
    phrase: str
    fact: Premise
    gold: str
    right: frozenset[str]


def axiom_items(
    data: QuerySet, patterns: Patterns, kind: str, stated: Sequence[Sequence[str] | str]
) -> list[AxiomItem]:
    """Return the items of a kind, without names that are no candidates.

    Both directions of a pair are items. Sentence patterns need all their words between subject and object.

    :param stated: of :class:`fathom.data.formats.ontology.Axioms`.
    """
    phrases = {name: phrase_of(text) for of_task in patterns.values() for name, text in of_task.items()}
    whole = data.whole or data
    above = {query.subject: query.gold for query in whole.queries if query.relation in ("subClassOf", "subPropertyOf")}
    if kind == DISJOINT:
        space = whole.candidates[CLASSES]
        pairs = dict.fromkeys(
            pair for group in stated for names in combinations(group, 2) for pair in (names, names[::-1])
        )
        return [
            _disjoint(*pair, frozenset((pair[0], *above.get(pair[0], ()))))
            for pair in pairs
            if all(name in space.position for name in pair) and pair[1] not in above.get(pair[0], ())
        ]
    if kind == INVERSE:
        pairs = dict.fromkeys(pair for names in stated for pair in ((names[0], names[1]), (names[1], names[0])))
    else:
        pairs = {(str(name), str(name)): None for name in stated}
    return [
        _of_property(kind, *pair, phrases, frozenset(phrases.get(name, "") for name in above.get(pair[1], ())))
        for pair in pairs
        if phrases.get(pair[0]) and phrases.get(pair[1])
    ]


def _disjoint(name: str, excluded: str, right: frozenset[str]) -> AxiomItem:
    fact = Premise(
        f"No {name} is {with_article(excluded)} .",
        f"Whatever is {with_article(name)} is not {with_article(excluded)} .",
    )
    return AxiomItem(DISJOINT, name, excluded, "", fact, excluded, right)


def _of_property(kind: str, name: str, implied: str, phrases: Mapping[str, str], right: frozenset[str]) -> AxiomItem:
    said, follows = phrases[name], phrases[implied]
    first = _holds(said, "If one thing", "another")
    facts = {
        INVERSE: Premise(
            f"{first} , {_holds(follows, 'the other', 'the one')} .",
            f"{capitalized(name)} is the inverse of {implied} .",
        ),
        SYMMETRIC: Premise(
            f"{first} , {_holds(said, 'the other', 'the one')} .", f"{capitalized(name)} holds both ways ."
        ),
        TRANSITIVE: Premise(
            f"{first} , and {_holds(said, 'the other', 'a third')} , {_holds(said, 'the one', 'the third')} .",
            f"{capitalized(name)} is transitive .",
        ),
    }
    return AxiomItem(kind, name, implied, said, facts[kind], follows, right)


def _holds(phrase: str, head: str, tail: str) -> str:
    """Return "one thing is part of another", "one thing's mother is another"."""
    return f"{head}{'' if phrase.startswith(chr(39)) else ' '}{phrase} {tail}"


def axiom_queries(
    data: QuerySet,
    patterns: Patterns,
    items: Mapping[str, Sequence[AxiomItem]],
    forms: Sequence[str],
    pairs: int,
    seed: int,
) -> QuerySet:
    """Return each item in each form, whole and altered, for each pair of pseudowords. :param items: by kind."""
    queries = [query for of_kind in items.values() for query in _of_items(of_kind, forms, pairs, seed)]
    return pseudoword_queries(data, patterns, queries, items)


def _of_items(items: Sequence[AxiomItem], forms: Sequence[str], pairs: int, seed: int) -> Iterator[Query]:
    for number, item in enumerate(items):
        strange = [another for another in (*items[number + 1 :], *items[:number]) if _strange(item, another)]
        drawn = random.Random(f"{seed} {item.kind} {number}").sample(strange, min(DISTRACTORS, len(strange)))
        others, id_ = [another.fact for another in drawn], f"{item.kind}/{number}"
        texts, own_seed = {text: [roles] for text, roles in _premises(item, strange).texts().items()}, f"{seed} {id_}"
        for pair, form in product(range(pairs), forms):
            for alteration, order, roles in in_orders(texts, form, own_seed):
                groups = {"rule": item.kind, "task": item.kind, "item": id_, "given": alteration, "pair": str(pair)}
                groups |= {**Wording(form=form, order=str(order))._asdict(), "conclusion": COMBINES}
                yield Query(
                    id=f"{id_}/{form}/{alteration}/{order}/{pair}",
                    relation=item.kind,
                    subject=item.name,
                    subject_id=item.name,
                    gold=(item.gold,),
                    known=tuple(sorted(item.right - {item.gold, ""})),
                    candidates=CLASSES if item.kind == DISJOINT else PATTERNS,
                    groups=groups,
                    sentences=(Sentence(worded(roles, form, own_seed, others, _conclusion(item))),),
                )


def _strange(item: AxiomItem, another: AxiomItem) -> bool:
    words, foreign = ({axiom.name, axiom.gold, axiom.phrase} - {""} for axiom in (item, another))
    return words.isdisjoint(foreign) and item.right.isdisjoint(foreign) and words.isdisjoint(another.right)


def _premises(item: AxiomItem, strange: Sequence[AxiomItem]) -> Premises:
    first, *further = _begins(item, item)
    instead = {NEGATED_FIRST: [denied(item.fact)], VERB_FIRST: [doubted(item.fact)]}
    second = {NEGATED_SECOND: [denied(first), *further], VERB_SECOND: [doubted(first), *further]}
    diverted: list[Premise] = []
    if strange:
        instead[ANOTHER_FIRST], diverted = _altered(item, strange[0])
        second[ANOTHER_SECOND] = _begins(item, strange[0])
    return Premises([item.fact], instead, diverted, [first, *further], second, _begins(item, item, of_others=True))


def _altered(item: AxiomItem, another: AxiomItem) -> tuple[list[Premise], list[Premise]]:
    """Return the axiom with another's name, and with another's answer."""
    if item.kind == DISJOINT:
        replaced, diverted = (another.name, item.gold), (item.name, another.gold)
        return [_disjoint(*replaced, frozenset()).fact], [_disjoint(*diverted, frozenset()).fact]
    phrases = {
        item.name: item.phrase,
        item.consequent: item.gold,
        another.name: another.phrase,
        another.consequent: another.gold,
    }
    if item.kind == TRANSITIVE:
        return [another.fact], [_implied(item.name, another.name, phrases)]
    replaced_fact = another.fact
    if item.kind == INVERSE:
        replaced_fact = _of_property(INVERSE, another.name, item.consequent, phrases, frozenset()).fact
    return [replaced_fact], [_of_property(INVERSE, item.name, another.consequent, phrases, frozenset()).fact]


def _implied(name: str, implied: str, phrases: Mapping[str, str]) -> Premise:
    """Return an axiom like a transitive one, whose conclusion is another property."""
    steps = f"{_holds(phrases[name], 'If one thing', 'another')} , and {_holds(phrases[name], 'the other', 'a third')}"
    plain = f"{steps} , {_holds(phrases[implied], 'the one', 'the third')} ."
    return Premise(plain, f"{capitalized(name)} twice implies {implied} .")


def _begins(item: AxiomItem, of: AxiomItem, of_others: bool = False) -> list[Premise]:
    """Return the premises about pseudowords. :param of: the item whose property or class is used."""
    if item.kind == DISJOINT:
        x = Z if of_others else X
        return [Premise(f"{x} is {with_article(of.name)} .", f"{x} belongs to the class {of.name} .")]
    if item.kind == TRANSITIVE:
        steps = [_holds(of.phrase, X, Y), _holds(of.phrase, W if of_others else Y, Z)]
    else:
        steps = [_holds(of.phrase, *((Z, W) if of_others else (X, Y)))]
    return [Premise(f"{step} .", f"{step} .") for step in steps]


def _conclusion(item: AxiomItem) -> str:
    if item.kind == DISJOINT:
        return f"{X} is a particular [Y] ."
    return f"{X} [Y] {Z} ." if item.kind == TRANSITIVE else f"{Y} [Y] {X} ."
