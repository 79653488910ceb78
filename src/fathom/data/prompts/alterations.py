"""Arguments, and altered texts from which their conclusion does not follow: one list for all studies of reasoning.

Two conclusions on a model need such texts (:data:`NEEDED`):

*combines what is stated*: "Blavedok is a nurimel . Nurimel is an artist . <x> is a blavedok . Therefore, <x> is a
particular [Y] ." (depth 2). Only the answer is of the ontology. The other classes or properties are nonce words, so
that neither memory nor a shared word answers. Depth 1 is the rule itself; further facts are links of sub-classes, for
rdfs5 and rdfs7 of sub-properties.

*uses what it remembers*: "<x> is a singer . Therefore, <x> is a particular [Y] .", with the ontology's own names. The
fact "singer is an artist" is left to memory.

Coarser conclusions are also right, and removed from the ranking, so that items may share them.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import islice, product
from typing import NamedTuple

from fathom.data.nonce import nonce_words
from fathom.data.prompts.choices import LURE
from fathom.data.prompts.entailment import (
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
from fathom.data.prompts.nonce import excerpt_of
from fathom.data.prompts.ontology import RULES, Patterns, with_article
from fathom.data.queries import Query, QuerySet, cardinality_of
from fathom.data.templates import Sentence, capitalized

WHOLE = "whole"
NOTHING, WITHOUT_FIRST, WITHOUT_SECOND = "no premise", "premise 1 missing", "premise 2 missing"
ANOTHER_FIRST, ANOTHER_SECOND = "another premise 1", "another premise 2"
OTHER_SUBJECT, SUBJECTS_EXCHANGED = "about another subject", "subjects exchanged"
ANSWERS_EXCHANGED, MIDDLE_MISSING, REVERSED = "answers exchanged", "a middle fact missing", "last fact reversed"
WORDS_EXCHANGED, SECOND_REVERSED = "words exchanged", "premise 2 reversed"
"""Texts of an item. Premise 1 is the facts, premise 2 what is stated of the subject. *Another* premise is about a
class or property that the other premise does not mention. *Subjects exchanged*: the subject has another premise 2, and
another subject has both. *Answers exchanged*: premise 1 has another answer, another premise 1 the right one. *Last fact
reversed*: "artist is a blavedok". *Words exchanged*: "trosiluk of a blavedok is an artist", "<x> is a blavedok of a
trosiluk". *Premise 2 reversed*: "blavedok is a <x>", "<y> blavedoks <x>". In the last three, and with subjects
exchanged, every nonce word occurs twice, as in the whole text."""
COMBINES, REMEMBERS = "combines what is stated", "uses what it remembers"
COUNTERFACTUAL = "counterfactual premise"
OF_TEXT, OF_MEMORY = "answer of the text", "answer of memory"
"""Two queries of one text, whose premise 1 names another item's answer."""
_OF_SECOND = (OTHER_SUBJECT, SUBJECTS_EXCHANGED, ANOTHER_SECOND)
_OF_RULE = (REVERSED, WORDS_EXCHANGED, SECOND_REVERSED)
"""Of rules only: an axiom says the same in both directions, or has no other, and its names are not nonce words."""
NEEDED = {
    COMBINES: (WITHOUT_FIRST, WITHOUT_SECOND, ANOTHER_FIRST, ANSWERS_EXCHANGED, *_OF_RULE, *_OF_SECOND),
    REMEMBERS: (NOTHING, *_OF_SECOND),
}
"""The altered texts to which a conclusion needs the whole text to be preferred; see :func:`needed`."""
PLAIN, PARAPHRASED, SHUFFLED = "plain", "paraphrased", "shuffled"
FORMS = (PLAIN, PARAPHRASED, SHUFFLED)
"""Facts from the subject upwards, then premise 2; paraphrased; in random order, among facts of others."""
DISTRACTORS = 2
"""Facts of others among those that are shuffled."""
_SYLLABLES = 3
"""Of nonce classes and properties; nonce words for individuals have two."""


def needed(conclusion: str, rule: str, depth: int = 1) -> tuple[str, ...]:
    """Return the altered texts that a conclusion needs: each of several facts is altered in turn."""
    of_facts = [
        of_fact(text, place, depth)
        for text in NEEDED[conclusion]
        if text not in _OF_RULE or rule in RULES
        for place in range(depth if text in (ANOTHER_FIRST, ANSWERS_EXCHANGED) else 1)
    ]
    return (*of_facts, *([MIDDLE_MISSING] if depth > 2 else []))


def of_fact(text: str, place: int, depth: int) -> str:
    """Return the name of an altered text: "another premise 1", or "another premise 1, fact 2" of several."""
    is_of_fact = depth > 1 and text in (ANOTHER_FIRST, ANSWERS_EXCHANGED)
    return f"{text}, fact {place + 1}" if is_of_fact else text


class Premise(NamedTuple):
    """One premise in two wordings."""

    plain: str
    paraphrased: str

    def text(self, form: str) -> str:
        """:param form: one of :data:`FORMS`."""
        return self.paraphrased if form == PARAPHRASED else self.plain


Roles = list[tuple[str, Premise]]
"""Premises with their roles, which are the same in all texts of an item."""


class Premises(NamedTuple):
    """What the texts of an item are made of.

    :param facts: premise 1, one fact for each step.
    :param replaced: the same facts about other classes or properties; empty if there are none.
    :param diverted: the same facts with other answers; empty if there are none.
    :param reversed_last: the last fact with its names exchanged; None if it cannot be.
    :param second: premise 2, *another* one of the same subject (None if there is none), and that *of_other* subjects.
    :param another_of_other: *another* one of other subjects.
    :param second_reversed: premise 2 with its names exchanged; None if it cannot be.
    :param exchanged: the first fact and premise 2 with the same two words in another order; empty if there are none.
    """

    facts: Sequence[Premise]
    replaced: Sequence[Premise]
    diverted: Sequence[Premise]
    reversed_last: Premise | None
    second: Sequence[Premise]
    another: Sequence[Premise] | None
    of_other: Sequence[Premise]
    another_of_other: Sequence[Premise] = ()
    second_reversed: Premise | None = None
    exchanged: Sequence[Premise] = ()

    def texts(self) -> dict[str, Roles]:
        """Return the premises of each text that can be made."""
        facts, replaced = _roles("fact", self.facts), _roles("other fact", self.replaced)
        diverted = _roles("fact", self.diverted)
        own, other = _roles("begins", self.second), _roles("other begins", self.of_other)
        given = {WHOLE: [*facts, *own], WITHOUT_FIRST: own, WITHOUT_SECOND: facts, OTHER_SUBJECT: [*facts, *other]}
        if self.another is not None:
            another = _roles("begins", self.another)
            both = [*other, *_roles("other begins too", self.another_of_other)]
            given |= {ANOTHER_SECOND: [*facts, *another], SUBJECTS_EXCHANGED: [*facts, *another, *both]}
        for place, fact in enumerate(replaced):
            before, after = facts[:place], [*facts[place + 1 :], *own]
            given[of_fact(ANOTHER_FIRST, place, len(facts))] = [*before, fact, *after]
            if diverted:
                given[of_fact(ANSWERS_EXCHANGED, place, len(facts))] = [*before, diverted[place], fact, *after]
        if self.reversed_last is not None:
            given[REVERSED] = [*facts[:-1], (facts[-1][0], self.reversed_last), *own]
        if self.second_reversed is not None:
            given[SECOND_REVERSED] = [*facts, (own[0][0], self.second_reversed)]
        if self.exchanged:
            first, second = self.exchanged
            given[WORDS_EXCHANGED] = [(facts[0][0], first), *facts[1:], (own[0][0], second)]
        if len(facts) > 2:
            middle = len(facts) // 2
            given[MIDDLE_MISSING] = [*facts[:middle], *facts[middle + 1 :], *own]
        return given


def _roles(role: str, premises: Sequence[Premise]) -> Roles:
    return [(f"{role} {place}", premise) for place, premise in enumerate(premises)]


def worded(roles: Roles, form: str, seed: str, others: Sequence[Premise], conclusion: str) -> str:
    """Return the text of premises.

    :param seed: draws the order of shuffled facts, which is the same in all texts that share them.
    :param others: facts of other items, among which facts are shuffled.
    """
    premises = list(roles)
    if form == SHUFFLED:
        premises += _roles("fact of others", others)
        premises.sort(key=lambda one: random.Random(f"{seed} {one[0]}").random())
    return " ".join([*(premise.text(form) for _, premise in premises), "Therefore,", conclusion])


# --- rules


class Argument(NamedTuple):
    """An item of a rule with its answer.

    :param gold: id of the finest conclusion.
    :param name: of the gold answer, as a fact states it.
    :param right: ids of all conclusions.
    """

    item: RuleItem
    gold: str
    name: str
    right: frozenset[str]


def arguments(data: QuerySet, patterns: Patterns, rule: str) -> tuple[list[Argument], list[str]]:
    """Return the arguments of a rule, and why other items have none. :param data: a folder's memorising tasks."""
    whole = data.whole or data
    fitting, left_out = items(whole, patterns, rule)
    task = "subPropertyOf" if rule in ("rdfs5", "rdfs7") else "subClassOf"
    above = {query.subject: query.gold for query in whole.by_relation().get(task, ()) if query.unscored is None}

    def id_of(name: str) -> str:
        return phrase_of(patterns[task].get(name, "")) if rule == "rdfs7" else name

    made = []
    for item in fitting:
        name = next(name for name in item.query.gold if id_of(name) == item.gold[0])
        right = {*item.gold, *map(id_of, above.get(name, ()))} - {""}
        made.append(Argument(item, item.gold[0], name, frozenset(right)))
    return made, left_out


def argument_queries(
    data: QuerySet,
    patterns: Patterns,
    rules: Sequence[str],
    depths: Sequence[int],
    forms: Sequence[str],
    pairs: int,
    seed: int,
    conclusions: Collection[str] = (COMBINES,),
) -> QuerySet:
    """Return each argument of *data* in each depth and form, whole and altered, for each pair of pseudowords.

    :param conclusions: keys of :data:`NEEDED`, or :data:`COUNTERFACTUAL`; only the first has depths and forms.
    """
    queries: list[Query] = []
    notes: list[str] = []
    words, tested = excerpt_of(data.whole or data, patterns), {query.id for query in data.queries}
    for rule in rules:
        every, left_out = arguments(data, patterns, rule)
        notes += left_out
        for number, one in enumerate(every):
            others = every[number + 1 :] + every[:number]
            if one.item.query.id in tested:
                if COMBINES in conclusions:
                    queries += _combining(rule, one, others, words, depths, forms, pairs, seed)
                unrelated = (other for other in others if _is_unrelated(one, other))
                if REMEMBERS in conclusions:
                    beyond = next(nonce_words(f"{seed} {rule} {one.item.query.id}", words, _SYLLABLES))
                    queries += _remembering(rule, one, [*islice(unrelated, pairs)], beyond, pairs)
                if COUNTERFACTUAL in conclusions:
                    untrue = (other for other in others if _is_unrelated(one, other) and _is_unrelated(other, one))
                    queries += _counterfactual(rule, one, [*islice(untrue, pairs)], pairs)
    golds = {rule: [gold for query in queries if query.relation == rule for gold in query.gold] for rule in rules}
    relations = {rule: cardinality_of(golds[rule]) for rule in rules}
    return pseudoword_queries(data, patterns, queries, relations, notes)


def _combining(
    rule: str,
    argument: Argument,
    others: Sequence[Argument],
    words: Collection[str],
    depths: Sequence[int],
    forms: Sequence[str],
    pairs: int,
    seed: int,
) -> Iterator[Query]:
    query = argument.item.query
    own_seed = f"{seed} {rule} {query.id}"
    names = nonce_words(own_seed, words, _SYLLABLES)
    strange = [one for one in others if one.name != argument.name and one.gold not in argument.right]
    drawn = random.Random(own_seed).sample(strange, min(DISTRACTORS, len(strange)))
    distractors = [_fact(rule, next(names), one.name, True) for one in drawn]
    beyond = next(names)
    chain, others_of = zip(*((next(names), next(names)) for _ in range(max(depths))), strict=True)
    for depth in depths:
        above = [*chain[1:depth], argument.name]
        premises = Premises(
            [_fact(rule, chain[place], name, place == 0) for place, name in enumerate(above)],
            [_fact(rule, others_of[place], name, place == 0) for place, name in enumerate(above)],
            [_fact(rule, chain[place], beyond, place == 0) for place in range(depth)],
            _reversed(rule, chain[depth - 1], argument.name, depth == 1),
            [_about(rule, chain[0], X, Y)],
            [_about(rule, beyond, X, Y)],
            [_about(rule, chain[0], Z, W)],
            [_about(rule, beyond, Z, W)],
            _about(rule, chain[0], Y, X) if rule in OF_PATTERN else _about(rule, X, capitalized(chain[0]), ""),
            [
                _fact(rule, _joined(rule, beyond, chain[0]), above[0], True),
                _about(rule, _joined(rule, chain[0], beyond), X, Y),
            ],
        )
        for pair, form, (given, roles) in product(range(pairs), forms, premises.texts().items()):
            text = worded(roles, form, own_seed, distractors, _conclusion(rule))
            yield _query(rule, argument, COMBINES, given, pair, text, argument.right, (str(depth), form))


def _remembering(
    rule: str, argument: Argument, unrelated: Sequence[Argument], beyond: str, pairs: int
) -> Iterator[Query]:
    """Yield the texts that state premise 2 alone: "whole" is what memory can complete.

    :param beyond: a class or property of which nothing is known.
    """
    item = argument.item
    right = argument.right | {item.query.subject, *item.query.gold}
    for pair in range(pairs):
        of_other = _own_second(rule, item, Z, W)
        texts = {WHOLE: [_own_second(rule, item)], NOTHING: [], OTHER_SUBJECT: [of_other]}
        texts[SUBJECTS_EXCHANGED] = [
            _about(rule, beyond, X, Y).plain, of_other, _about(rule, beyond, Z, W).plain,
        ]  # fmt: skip
        if unrelated:
            another = _own_second(rule, unrelated[pair % len(unrelated)].item)
            texts[ANOTHER_SECOND] = [another]
        for given, premises in texts.items():
            text = " ".join([*premises, "Therefore,", _conclusion(rule)])
            yield _query(rule, argument, REMEMBERS, given, pair, text, right)


def _counterfactual(rule: str, argument: Argument, untrue: Sequence[Argument], pairs: int) -> Iterator[Query]:
    for pair in range(pairs if untrue else 0):
        other, item = untrue[pair % len(untrue)], argument.item
        first = first_premise(rule, RuleWording(), item._replace(first=other.name))
        text = " ".join([*map(str, first), _own_second(rule, item), "Therefore,", _conclusion(rule)])
        right = {*argument.right, *other.right, item.query.subject, *item.query.gold}
        for given, one, lure in ((OF_TEXT, other, argument), (OF_MEMORY, argument, other)):
            query = _query(
                rule, argument._replace(gold=one.gold), COUNTERFACTUAL, given, pair, text, right - {lure.gold}
            )
            yield replace(query, groups={**query.groups, LURE: lure.gold})


def _is_unrelated(argument: Argument, other: Argument) -> bool:
    """Return whether the answer does not follow from the other's premise, nor is stated by it."""
    own, theirs = argument.item.query, other.item.query
    return (
        argument.gold not in other.right
        and argument.name not in (theirs.subject, *theirs.gold)
        and (theirs.subject not in (own.subject, *own.gold) and own.subject not in theirs.gold)
    )


def _query(
    rule: str,
    argument: Argument,
    conclusion: str,
    given: str,
    pair: int,
    text: str,
    right: Collection[str],
    how: tuple[str, str] = ("1", PLAIN),
) -> Query:
    """:param how: depth and form."""
    query = argument.item.query
    _, _, number = query.id.rpartition("/")
    groups = {"rule": rule, "task": RULES[rule], "item": query.id, "given": given, "pair": str(pair)}
    groups |= {"depth": how[0], "form": how[1], "conclusion": conclusion}
    return Query(
        id="/".join((rule, number, conclusion.partition(" ")[0], *how, given, str(pair))),
        relation=rule,
        subject=query.subject,
        subject_id=query.subject_id,
        gold=(argument.gold,),
        known=tuple(sorted({*right} - {argument.gold})),
        candidates=space_of(rule),
        groups=groups,
        sentences=(Sentence(text),),
    )


def _conclusion(rule: str) -> str:
    return " ".join(map(str, hypothesis(rule, RuleWording())))


def _own_second(rule: str, item: RuleItem, x: str = X, y: str = Y) -> str:
    return " ".join(map(str, second_premise(rule, RuleWording(), item, x, y)))


def _fact(rule: str, below: str, above: str, first: bool) -> Premise:
    """Return the fact from one class or property to the next. :param first: it is premise 1 of the rule."""
    if first and rule == "rdfs2":
        return Premise(
            f"One has to be {with_article(above)} if one {below}s something .",
            f"If one {below}s something , one is {with_article(above)} .",
        )
    if first and rule == "rdfs3":
        return Premise(
            f"One has to be {with_article(above)} if something {below}s that .",
            f"If something {below}s that , that is {with_article(above)} .",
        )
    if rule in ("rdfs5", "rdfs7"):
        return Premise(f"{capitalized(below)} implies {above} .", f"Having {below} means having {above} .")
    return Premise(f"{capitalized(below)} is {with_article(above)} .", f"Every {below} is {with_article(above)} .")


def _reversed(rule: str, below: str, above: str, first: bool) -> Premise:
    """Return the converse of a fact."""
    if first and rule == "rdfs2":
        clause = f"one is {with_article(above)}"
        return Premise(f"One has to {below} something if {clause} .", f"If {clause} , one {below}s something .")
    if first and rule == "rdfs3":
        clause = f"that is {with_article(above)}"
        return Premise(f"Something has to {below} that if {clause} .", f"If {clause} , something {below}s that .")
    return _fact(rule, above, below, first=False)


def _joined(rule: str, one: str, other: str) -> str:
    """Return "blavedok of a trosiluk", or "blavedoks what trosiluk" of verbs, which get their s later."""
    if rule in ("rdfs2", "rdfs3"):
        return f"{one}s what {other}"
    return f"{one} of {other if rule in ('rdfs5', 'rdfs7') else with_article(other)}"


def _about(rule: str, name: str, x: str, y: str) -> Premise:
    """Return premise 2 about pseudowords. A sentence pattern has no paraphrase."""
    if rule in OF_PATTERN:
        text = f"{x}'s {name} is {y} ." if rule == "rdfs7" else f"{x} {name}s {y} ."
        return Premise(text, text)
    if rule == "rdfs5":
        return Premise(f"{x} implies {name} .", f"Having {x} means having {name} .")
    return Premise(f"{x} is {with_article(name)} .", f"{x} belongs to the class {name} .")
