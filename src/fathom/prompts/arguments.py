"""Arguments of several steps: facts of an ontology, one about a pseudoword, and their conclusion.

"Singer is an artist . Artist is a person . <x> is a singer . Therefore, <x> is a particular [Y] ." has depth 2 and the
gold answer "person"; conclusions of fewer or more facts are correct as well, and taken out of the ranking. Depth 1 is
the rule of :mod:`fathom.prompts.entailment`; further steps go up the sub-classes, for rdfs5 and rdfs7 the
sub-properties. Each argument has three forms (:data:`FORMS`), and broken variants that name the answer, but from which
it does not follow (:data:`BROKEN`).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from typing import NamedTuple

from fathom.data.queries import Query, QuerySet, cardinality_of
from fathom.data.templates import Sentence, capitalized
from fathom.prompts.entailment import (
    OF_PATTERN,
    RuleItem,
    RuleWording,
    W,
    X,
    Y,
    Z,
    first_premise,
    hypothesis,
    items,
    phrase_of,
    pseudoword_queries,
    second_premise,
    space_of,
)
from fathom.prompts.ontology import LIMITED, RULES, Patterns, with_article

PLAIN, PARAPHRASED, SHUFFLED = "plain", "paraphrased", "shuffled"
FORMS = (PLAIN, PARAPHRASED, SHUFFLED)
"""Facts from the subject upwards, then the pseudoword; paraphrased; in random order, among facts of others."""
WHOLE = "whole"
ANSWER_ALONE, OF_OTHERS, MISSING, ANOTHER = "answer's fact alone", "said of others", "a fact missing", "another begins"
BROKEN = (ANSWER_ALONE, OF_OTHERS, MISSING, ANOTHER)
"""The fact that names the answer alone; all, but about other pseudowords; all but the first fact (from depth 2 on);
all, but with another item's class or property said of the pseudoword."""
DISTRACTORS = 2
"""Facts of others among those that are shuffled."""


class Premise(NamedTuple):
    """One premise in two wordings."""

    plain: str
    paraphrased: str

    def text(self, form: str) -> str:
        """:param form: one of :data:`FORMS`."""
        return self.paraphrased if form == PARAPHRASED else self.plain


Roles = list[tuple[str, Premise]]
"""Premises with their roles, which are the same in all texts of an item."""


class Argument(NamedTuple):
    """An item of a rule with a chain of facts.

    :param facts: one for each step.
    :param steps: ids of the conclusions of one, two, … facts.
    :param right: ids of all correct answers, including *steps*.
    """

    item: RuleItem
    facts: tuple[Premise, ...]
    steps: tuple[str, ...]
    right: frozenset[str]


def arguments(data: QuerySet, patterns: Patterns, rule: str, depth: int) -> tuple[list[Argument], list[str]]:
    """Return the arguments of *depth* steps, and why other items of the rule have none.

    :param data: a folder's memorising tasks.
    :param patterns: from :func:`fathom.formats.ontoprobe.read_patterns`.
    """
    whole = data.whole or data
    fitting, left_out = items(whole, patterns, rule)
    task = "subPropertyOf" if rule in ("rdfs5", "rdfs7") else "subClassOf"
    above = {query.subject: query.gold for query in whole.by_relation().get(task, ()) if query.unscored is None}
    phrases = {name: phrase_of(pattern) for name, pattern in patterns.get(task, {}).items()}
    chains, short = [], 0
    for item in fitting:
        names = _upwards(item.query.gold[0], above, depth)
        answers = [phrases.get(name, "") for name in names] if rule == "rdfs7" else names
        if len(names) < depth or not all(answers) or len(set(answers)) < depth:
            short += 1
            continue
        right = {item.query.subject, *item.query.gold, *names, *(one for name in names for one in above.get(name, ()))}
        if rule == "rdfs7":
            right = {phrases.get(name, "") for name in right} | {phrase_of(item.pattern)}
        links = [_link(rule, *step) for step in pairwise(names)]
        chains.append(Argument(item, (_first(rule, item), *links), tuple(answers), frozenset(right)))
    notes = [f"{rule}: {short} of {len(fitting)} items are left out: their chains have fewer than {depth} steps"]
    return chains, [*left_out, *(notes if short else [])]


def _upwards(name: str, above: Mapping[str, Sequence[str]], depth: int) -> list[str]:
    """Return the name, the nearest above it, and so on, each once."""
    chain = [name]
    while len(chain) < depth and above.get(chain[-1]) and above[chain[-1]][0] not in chain:
        chain.append(above[chain[-1]][0])
    return chain


def argument_queries(
    data: QuerySet, patterns: Patterns, rules: Sequence[str], depth: int, forms: Sequence[str], pairs: int, seed: int
) -> QuerySet:
    """Return each argument of *data* in each form, whole and broken, for each pair of pseudowords.

    All depths up to *depth* have the same items.
    """
    queries: list[Query] = []
    notes: list[str] = []
    tested = {query.id for query in data.queries}
    for rule in rules:
        every, left_out = arguments(data, patterns, rule, depth)
        notes += left_out
        for number, one in enumerate(every):
            if one.item.query.id in tested:
                others = every[number + 1 :] + every[:number]
                queries += _of_argument(rule, one, others, range(1, depth + 1), forms, pairs, seed)
    golds = {rule: [gold for query in queries if query.relation == rule for gold in query.gold] for rule in rules}
    relations = {rule: cardinality_of(golds[rule]) for rule in rules}
    return pseudoword_queries(data, patterns, queries, relations, notes)


def _of_argument(
    rule: str,
    argument: Argument,
    every: Sequence[Argument],
    depths: Iterable[int],
    forms: Sequence[str],
    pairs: int,
    seed: int,
) -> Iterator[Query]:
    query = argument.item.query
    strange = _strange(argument, every)
    lot = f"{seed} {query.id}"
    others = [one.facts[0] for one in random.Random(lot).sample(strange, min(DISTRACTORS, len(strange)))]
    conclusion = " ".join(_words(hypothesis(rule, RuleWording())))
    _, _, number = query.id.rpartition("/")
    for pair, steps, form in product(range(pairs), depths, forms):
        for given, text in texts_of(_premises(rule, argument, strange, steps), form, lot, others, conclusion):
            groups = {"rule": rule, "task": RULES[rule], "item": query.id, "given": given, "pair": str(pair)}
            gold = argument.steps[steps - 1]
            yield Query(
                id=f"{rule}/{number}/{steps}/{form}/{given}/{pair}",
                relation=rule,
                subject=query.subject,
                subject_id=query.subject_id,
                gold=(gold,),
                known=tuple(sorted(argument.right - {gold})),
                candidates=space_of(rule),
                groups=groups | {"depth": str(steps), "form": form},
                sentences=(Sentence(text),),
            )


def _strange(argument: Argument, others: Sequence[Argument]) -> list[Argument]:
    """Return the arguments that share no answer with one, nor are about one."""
    return [one for one in others if argument.right.isdisjoint({*one.right, one.item.query.subject})]


def _premises(rule: str, argument: Argument, strange: Sequence[Argument], steps: int) -> dict[str, Roles]:
    facts = [(f"fact {place}", fact) for place, fact in enumerate(argument.facts[:steps])]
    begins = ("begins", _about(rule, argument.item, X, Y))
    given = {
        WHOLE: [*facts, begins],
        ANSWER_ALONE: facts[-1:],
        OF_OTHERS: [*facts, ("begins", _about(rule, argument.item, Z, W))],
    }
    if steps > 1:
        given[MISSING] = [*facts[1:], begins]
    if strange:
        given[ANOTHER] = [*facts, ("begins", _about(rule, strange[0].item, X, Y))]
    return given


def texts_of(
    given: Mapping[str, Roles], form: str, lot: str, others: Sequence[Premise], conclusion: str
) -> Iterator[tuple[str, str]]:
    """Yield the texts of premises by name.

    :param lot: decides the order of shuffled facts, in which those that texts share are in the same order.
    :param others: facts of other items, among which facts are shuffled.
    """
    for name, premises in given.items():
        facts = list(premises)
        if form == SHUFFLED:
            facts += [(f"other {number}", fact) for number, fact in enumerate(others)]
            facts.sort(key=lambda one: random.Random(f"{lot} {one[0]}").random())
        yield name, " ".join([*(fact.text(form) for _, fact in facts), "Therefore,", conclusion])


def _words(pieces: Iterable[object]) -> list[str]:
    return [str(piece) for piece in pieces]


def _first(rule: str, item: RuleItem) -> Premise:
    plain = " ".join(_words(first_premise(rule, RuleWording(), item)))
    if RULES[rule] not in ("domain", "range"):
        return Premise(plain, _link(rule, item.query.subject, item.first).paraphrased)
    clause = item.query.sentences[0].text.removeprefix(LIMITED).removesuffix(".").strip()
    who = "that" if clause.endswith(" that") else "one"
    return Premise(plain, f"If {clause} , {who} is {with_article(item.first)} .")


def _link(rule: str, below: str, above: str) -> Premise:
    if rule in ("rdfs5", "rdfs7"):
        return Premise(f"{capitalized(below)} implies {above} .", f"Having {below} means having {above} .")
    return Premise(f"{capitalized(below)} is {with_article(above)} .", f"Every {below} is {with_article(above)} .")


def _about(rule: str, item: RuleItem, x: str, y: str) -> Premise:
    """Return the fact about the pseudowords. A sentence pattern has no paraphrase."""
    plain = " ".join(_words(second_premise(rule, RuleWording(), item, x, y)))
    subject = item.query.subject
    if rule in OF_PATTERN:
        return Premise(plain, plain)
    other = f"Having {x} means having {subject} ." if rule == "rdfs5" else f"{x} belongs to the class {subject} ."
    return Premise(plain, other)
