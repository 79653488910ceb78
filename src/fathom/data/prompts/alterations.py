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
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product
from typing import NamedTuple

from fathom.data.nonce import FIRST, INNER, LAST, LONG, nonce_words, similar_words
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
from fathom.data.queries import Query, QuerySet
from fathom.data.templates import Sentence, capitalized

WHOLE = "whole"
NOTHING, WITHOUT_FIRST, WITHOUT_SECOND = "no premise", "premise 1 missing", "premise 2 missing"
ANOTHER_FIRST, ANOTHER_SECOND = "another premise 1", "another premise 2"
NEGATED_FIRST, WEAKENED_FIRST, VERB_FIRST = "premise 1 negated", "premise 1 weakened", "another verb in premise 1"
NEGATED_SECOND, VERB_SECOND = "premise 2 negated", "another verb in premise 2"
OTHER_SUBJECT, SUBJECTS_EXCHANGED = "about another subject", "subjects exchanged"
ANSWERS_EXCHANGED, MIDDLE_MISSING, REVERSED = "answers exchanged", "a middle fact missing", "fact reversed"
WORDS_EXCHANGED, SECOND_REVERSED = "words exchanged", "premise 2 reversed"
"""Texts of an item (docs/methods/reasoning.md shows each). Premise 1 is the facts, premise 2 what is stated of the
subject. *Another* premise is about a class or property that the other premise does not mention."""
COMBINES, REMEMBERS = "combines what is stated", "uses what it remembers"
COUNTERFACTUAL = "counterfactual premise"
OF_TEXT, OF_MEMORY = "answer of the text", "answer of memory"
"""Two queries of one text, whose premise 1 names another item's answer."""
_OF_SECOND = (OTHER_SUBJECT, SUBJECTS_EXCHANGED, ANOTHER_SECOND, NEGATED_SECOND, VERB_SECOND)
_OF_FACTS = (ANOTHER_FIRST, ANSWERS_EXCHANGED, NEGATED_FIRST, WEAKENED_FIRST, VERB_FIRST, REVERSED)
"""Made of each of several facts in turn."""
_OF_RULE = (REVERSED, WEAKENED_FIRST, WORDS_EXCHANGED, SECOND_REVERSED)
"""Of rules only: an axiom says the same in both directions, or has no other, and its names are not nonce words."""
NEEDED = {
    COMBINES: (WITHOUT_FIRST, WITHOUT_SECOND, *_OF_FACTS, WORDS_EXCHANGED, SECOND_REVERSED, *_OF_SECOND),
    REMEMBERS: (NOTHING, REVERSED, SECOND_REVERSED, *_OF_SECOND),
}
"""The altered texts to which a conclusion needs the whole text to be preferred; see :func:`needed`."""
PLAIN, PARAPHRASED, SHUFFLED = "plain", "paraphrased", "shuffled"
FORMS = (PLAIN, PARAPHRASED, SHUFFLED)
"""Facts from the subject upwards, then premise 2; paraphrased; in random order, among facts of others."""
DISTRACTORS = 2
"""Facts of others among those that are shuffled."""
MOST_ORDERS = 6
"""An altered text has its sentences in so many orders, so that no place gives one away (three have no others)."""
_OTHER_LIMIT = {"rdfs2": "rdfs3", "rdfs3": "rdfs2"}
"""Domains and ranges: the rule about the other individual of premise 2. Their premise 2 is reversed, not their fact."""


def needed(conclusion: str, rule: str, depth: int = 1) -> tuple[str, ...]:
    """Return the altered texts that a conclusion needs."""
    if conclusion == REMEMBERS:
        unfit = REVERSED if rule in _OTHER_LIMIT else SECOND_REVERSED
        return tuple(text for text in NEEDED[conclusion] if text != unfit)
    of_facts = [
        of_fact(text, place, depth)
        for text in NEEDED[conclusion]
        if text not in _OF_RULE or rule in RULES
        for place in range(depth if text in _OF_FACTS else 1)
    ]
    return (*of_facts, *([MIDDLE_MISSING] if depth > 2 else []))


def of_fact(text: str, place: int, depth: int) -> str:
    """Return the name of an altered text: "another premise 1", or "another premise 1, fact 2" of several."""
    return f"{text}, fact {place + 1}" if depth > 1 and text in _OF_FACTS else text


class Premise(NamedTuple):
    """One premise in two wordings."""

    plain: str
    paraphrased: str


Roles = tuple[tuple[str, Premise], ...]
"""Premises with their roles, which are the same in all texts of an item."""


class Premises(NamedTuple):
    """What the texts of an item are made of.

    :param facts: premise 1, one fact for each step.
    :param instead: by altered text, what stands in place of each fact; empty if there is nothing.
    :param diverted: the facts with other answers, which stand before those of :data:`ANOTHER_FIRST`.
    :param second: premise 2.
    :param second_instead: by altered text, what stands in its place.
    :param of_other: premise 2 of another subject, *another_of_other* another one of that subject.
    :param exchanged: the first fact and premise 2 with the same two words in another order; empty if there are none.
    """

    facts: Sequence[Premise]
    instead: Mapping[str, Sequence[Premise]]
    diverted: Sequence[Premise]
    second: Sequence[Premise]
    second_instead: Mapping[str, Sequence[Premise]]
    of_other: Sequence[Premise]
    another_of_other: Sequence[Premise] = ()
    exchanged: Sequence[Premise] = ()

    def texts(self) -> dict[str, Roles]:
        """Return the premises of each text that can be made."""
        facts = _roles("fact", self.facts)
        second = _roles("begins", self.second)
        of_other = _roles("other", self.of_other)
        made = {
            WHOLE: (*facts, *second),
            WITHOUT_FIRST: second,
            WITHOUT_SECOND: facts,
            OTHER_SUBJECT: (*facts, *of_other),
        }
        for text, premises in self.instead.items():
            for place, premise in enumerate(premises):
                rest = (*facts[place + 1 :], *second)
                made[of_fact(text, place, len(facts))] = (*facts[:place], (facts[place][0], premise), *rest)
        for place, premise in enumerate(self.diverted):
            both = (facts[place][0], premise), ("other fact", self.instead[ANOTHER_FIRST][place])
            rest = (*facts[place + 1 :], *second)
            made[of_fact(ANSWERS_EXCHANGED, place, len(facts))] = (*facts[:place], *both, *rest)
        for text, premises in self.second_instead.items():
            made[text] = (*facts, *_roles("begins", premises))
        if ANOTHER_SECOND in self.second_instead:
            also_of_other = _roles("other too", self.another_of_other)
            made[SUBJECTS_EXCHANGED] = (*made[ANOTHER_SECOND], *of_other, *also_of_other)
        if self.exchanged:
            first, last = self.exchanged
            made[WORDS_EXCHANGED] = ((facts[0][0], first), *facts[1:], (second[0][0], last))
        if len(facts) > 2:
            middle = len(facts) // 2
            made[MIDDLE_MISSING] = (*facts[:middle], *facts[middle + 1 :], *second)
        return made


def _roles(role: str, premises: Sequence[Premise]) -> Roles:
    return tuple((f"{role} {place}", premise) for place, premise in enumerate(premises))


def in_orders(texts: Mapping[str, Sequence[Roles]], form: str, seed: str) -> Iterator[tuple[str, int, Roles]]:
    """Yield each text with the number of its order; whole texts and most further versions have only one order."""
    for text, versions in texts.items():
        most = MOST_ORDERS if text == SUBJECTS_EXCHANGED else 1
        usual, *others = (_orders(premises, form, seed) for premises in versions)
        distinct = list(dict.fromkeys([*usual, *(order for orders in others for order in orders[:most])]))
        for number, order in enumerate(distinct[:1] if text == WHOLE else distinct):
            yield text, number, order


def _orders(premises: Roles, form: str, seed: str) -> list[Roles]:
    """Return orders in which each of up to six premises stands first once, and last once."""
    usual = tuple(sorted(premises, key=lambda role: _place(seed, role[0]))) if form == SHUFFLED else premises
    rotated = [(*part[at:], *part[:at]) for part in (usual, usual[::-1]) for at in range(len(part))]
    return list(dict.fromkeys(rotated))[:MOST_ORDERS] or [()]


def worded(roles: Roles, form: str, seed: str, others: Sequence[Premise], conclusion: str) -> str:
    """Return the text of premises, in their order.

    :param seed: draws the places of facts of others, which are the same in all texts of an item.
    :param others: facts of other items, among which facts are shuffled.
    """
    placed = list(zip(sorted(_place(seed, role) for role, _ in roles), (premise for _, premise in roles), strict=True))
    if form == SHUFFLED:
        placed += [(_place(seed, f"fact of others {number}"), fact) for number, fact in enumerate(others)]
        placed.sort()
    texts = [premise.paraphrased if form == PARAPHRASED else premise.plain for _, premise in placed]
    return " ".join([*texts, "Therefore,", conclusion])


def _place(seed: str, role: str) -> float:
    """Draw where a premise stands among shuffled ones."""
    return random.Random(f"{seed} {role}").random()


# --- rules


class Wording(NamedTuple):
    """How an argument is put: its number of facts, one of :data:`FORMS`, and the number of the sentences' order."""

    depth: str = "1"
    form: str = PLAIN
    order: str = "0"


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
        limits = arguments(data, patterns, _OTHER_LIMIT[rule])[0] if rule in _OTHER_LIMIT else []
        limited = {(limit.item.query.subject, id_) for limit in limits for id_ in limit.right}
        for number, argument in enumerate(every):
            others = every[number + 1 :] + every[:number]
            if argument.item.query.id in tested:
                if COMBINES in conclusions:
                    queries += _combining(rule, argument, others, words, depths, forms, pairs, seed)
                if REMEMBERS in conclusions:
                    pattern = patterns.get(RULES[rule], {}).get(argument.name, "")
                    both_ways = (argument.item.query.subject, argument.gold) in limited
                    unknown = next(nonce_words(f"{seed} unknown {argument.item.query.id}", words, LONG))
                    queries += _remembering(rule, argument, others, unknown, pattern, pairs, both_ways)
                if COUNTERFACTUAL in conclusions:
                    queries += _counterfactual(rule, argument, others, pairs)
    return pseudoword_queries(data, patterns, queries, rules, notes)


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
    names = nonce_words(own_seed, words, LONG)
    strange = [another for another in others if another.name != argument.name and another.gold not in argument.right]
    drawn = random.Random(own_seed).sample(strange, min(DISTRACTORS, len(strange)))
    distractors = [_fact(rule, next(names), another.name, True) for another in drawn]
    chain = list(islice(names, max(depths)))
    unlike = list(islice(nonce_words(f"unlike {own_seed}", words, LONG), max(depths) + 1))
    for depth, form in product(depths, forms):
        texts = _texts(rule, chain[:depth], argument.name, unlike, words)
        for pair, (alteration, order, roles) in product(range(pairs), in_orders(texts, form, own_seed)):
            text = worded(roles, form, own_seed, distractors, _conclusion(rule))
            how = Wording(str(depth), form, str(order))
            yield _query(rule, argument, COMBINES, alteration, pair, text, argument.right, how)


def _texts(
    rule: str, chain: Sequence[str], answer: str, unlike: Sequence[str], words: Collection[str]
) -> dict[str, list[Roles]]:
    """Return the versions of each text: with similar names, and with names that are *unlike* the others.

    :param chain: names of classes or properties from the one that is stated upwards, without the *answer*.
    """
    extra, *others = unlike[: len(chain) + 1]
    similar = [[next(similar_words(name, at, words)) for name in chain] for at in (INNER, FIRST, LAST)]
    _, near = islice(similar_words(chain[0], INNER, words), 2)
    strange = _premises(rule, chain, answer, others, extra, True).texts()
    inner, *edges = (_premises(rule, chain, answer, names, near, False).texts() for names in similar)
    return {
        text: [roles, strange[text], *(made[text] for made in edges if text.startswith(ANOTHER_FIRST))]
        for text, roles in inner.items()
    }


def _others(rule: str, unlike: bool) -> tuple[str, str]:
    """Return the other individuals: similar ones, or twice the *unlike* partner of the one that is asked about."""
    return ((X, X) if rule == "rdfs3" else (Y, Y)) if unlike else (Z, W)


def _premises(
    rule: str, chain: Sequence[str], answer: str, others: Sequence[str], extra: str, unlike: bool
) -> Premises:
    """Return what texts are made of; *others* are names instead of those of the chain, *extra* is one more.

    :param unlike: the other individual is unlike the one in question, and facts are reversed in the other wording.
    """
    names = [*chain, answer]
    of_other = _others(rule, unlike)

    def facts(below: Sequence[str], above: Sequence[str], how: str = STATED) -> list[Premise]:
        return [_fact(rule, *pair, place == 0, how) for place, pair in enumerate(zip(below, above, strict=True))]

    instead = {how: facts(chain, names[1:], how) for how in (NEGATED_FIRST, WEAKENED_FIRST, VERB_FIRST, REVERSED)}
    if unlike:
        instead[REVERSED] = [Premise(*fact[::-1]) for fact in instead[REVERSED]]
    second = {how: [_about(rule, chain[0], X, Y, how)] for how in (NEGATED_SECOND, VERB_SECOND, SECOND_REVERSED)}
    return Premises(
        facts(chain, names[1:]),
        instead | {ANOTHER_FIRST: facts(others, names[1:])},
        facts(chain, [extra] * len(chain)),
        [_about(rule, chain[0], X, Y)],
        second | {ANOTHER_SECOND: [_about(rule, extra, X, Y)]},
        [_about(rule, chain[0], *of_other)],
        [_about(rule, extra, *of_other)],
        [
            _fact(rule, _joined(rule, extra, chain[0]), names[1], True),
            _about(rule, _joined(rule, chain[0], extra), X, Y),
        ],
    )


def _remembering(
    rule: str,
    argument: Argument,
    others: Sequence[Argument],
    unknown: str,
    pattern: str,
    pairs: int,
    both_ways: bool,
) -> Iterator[Query]:
    """Yield the texts that state premise 2 alone: "whole" is what memory can complete.

    :param unknown: name of a class or property of which nothing is known.
    :param pattern: sentence pattern of the answer, "" of a class.
    :param both_ways: the answer also follows from premise 2 reversed.
    """
    item = argument.item
    right = argument.right | {item.query.subject, *item.query.gold}
    unrelated = [*islice((another for another in others if _is_unrelated(argument, another)), pairs)]
    texts = {text: [_roles("begins", [premise])] for text, premise in _second_premises(rule, item).items()}
    texts |= {NOTHING: [()], OTHER_SUBJECT: [], SUBJECTS_EXCHANGED: []}
    if rule in _OTHER_LIMIT and not both_ways:
        texts[SECOND_REVERSED] = [_roles("begins", [_own_second(rule, item, Y, X)])]
    begins = _roles("begins", [_about(rule, unknown, X, Y)])
    for marks in (_others(rule, unlike) for unlike in (False, True)):
        of_other = _roles("other", [_own_second(rule, item, *marks)])
        also = _roles("other too", [_about(rule, unknown, *marks)])
        texts[OTHER_SUBJECT].append(of_other)
        texts[SUBJECTS_EXCHANGED].append((*begins, *of_other, *also))
    for pair in range(pairs):
        right_of = {}
        if unrelated:
            another = unrelated[pair % len(unrelated)]
            texts[ANOTHER_SECOND] = [_roles("begins", [_own_second(rule, another.item)])]
            right_of = {ANOTHER_SECOND: right | {_own_id(rule, another)}}
        for alteration, order, roles in in_orders(texts, PLAIN, ""):
            how = Wording(order=str(order))
            text = worded(roles, PLAIN, "", (), _conclusion(rule))
            yield _query(rule, argument, REMEMBERS, alteration, pair, text, right_of.get(alteration, right), how)
        if REVERSED in needed(REMEMBERS, rule):
            above = item._replace(query=replace(item.query, subject=argument.name), pattern=pattern)
            text = worded(_roles("begins", [_own_second(rule, above)]), PLAIN, "", (), _conclusion(rule))
            siblings = {_own_id(rule, another) for another in others if argument.gold in another.right}
            wrong = argument._replace(gold=_own_id(rule, argument))
            yield _query(rule, wrong, REMEMBERS, REVERSED, pair, text, right | siblings | {argument.gold})


def _own_id(rule: str, argument: Argument) -> str:
    """Return the class or property that premise 2 states, as a candidate."""
    return phrase_of(argument.item.pattern) if rule == "rdfs7" else argument.item.query.subject


def _second_premises(rule: str, item: RuleItem) -> dict[str, Premise]:
    """Return premise 2 in the ontology's own names, by the text that states nothing else."""
    second = _own_second(rule, item)
    if rule in OF_PATTERN:
        return {WHOLE: second, NEGATED_SECOND: denied(second), VERB_SECOND: doubted(second)}
    altered = {how: _about(rule, item.query.subject, X, Y, how) for how in (NEGATED_SECOND, VERB_SECOND)}
    return {WHOLE: second} | altered


def _counterfactual(rule: str, argument: Argument, others: Sequence[Argument], pairs: int) -> Iterator[Query]:
    untrue = (another for another in others if _is_unrelated(argument, another) and _is_unrelated(another, argument))
    drawn = [*islice(untrue, pairs)]
    for pair in range(pairs if drawn else 0):
        another, item = drawn[pair % len(drawn)], argument.item
        first = first_premise(rule, RuleWording(), item._replace(first=another.name))
        text = " ".join([*map(str, first), _own_second(rule, item).plain, "Therefore,", _conclusion(rule)])
        right = {*argument.right, *another.right, item.query.subject, *item.query.gold}
        for alteration, asked, lure in ((OF_TEXT, another, argument), (OF_MEMORY, argument, another)):
            query = _query(
                rule, argument._replace(gold=asked.gold), COUNTERFACTUAL, alteration, pair, text, right - {lure.gold}
            )
            yield replace(query, groups={**query.groups, LURE: lure.gold})


def _is_unrelated(argument: Argument, another: Argument) -> bool:
    """Return whether the answer does not follow from the other's premise, nor is stated by it."""
    query, another_query = argument.item.query, another.item.query
    return (
        argument.gold not in another.right
        and argument.name not in (another_query.subject, *another_query.gold)
        and (another_query.subject not in (query.subject, *query.gold) and query.subject not in another_query.gold)
    )


def _query(
    rule: str,
    argument: Argument,
    conclusion: str,
    alteration: str,
    pair: int,
    text: str,
    right: Collection[str],
    how: Wording = Wording(),
) -> Query:
    query = argument.item.query
    _, _, number = query.id.rpartition("/")
    groups = {"rule": rule, "task": RULES[rule], "item": query.id, "given": alteration, "pair": str(pair)}
    groups |= {**how._asdict(), "conclusion": conclusion}
    return Query(
        id="/".join(
            (rule, number, conclusion.partition(" ")[0], how.depth, how.form, alteration, how.order, str(pair))
        ),
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


def _own_second(rule: str, item: RuleItem, x: str = X, y: str = Y) -> Premise:
    text = " ".join(map(str, second_premise(rule, RuleWording(), item, x, y)))
    return Premise(text, text)


# --- sentences

STATED = "stated"
_OF_CLASS = {
    STATED: Premise("{Below} is {an_above} .", "Every {below} is {an_above} ."),
    NEGATED_FIRST: Premise("{Below} is not {an_above} .", "No {below} is {an_above} ."),
    WEAKENED_FIRST: Premise("Some {below} is {an_above} .", "Not every {below} is {an_above} ."),
    VERB_FIRST: Premise("{Below} eats {an_above} .", "Every {below} eats {an_above} ."),
}
_OF_PROPERTY = {
    STATED: Premise("{Below} implies {above} .", "Having {below} means having {above} ."),
    NEGATED_FIRST: Premise("{Below} does not imply {above} .", "Having {below} does not mean having {above} ."),
    WEAKENED_FIRST: Premise("{Below} may imply {above} .", "Having {below} may mean having {above} ."),
    VERB_FIRST: Premise("{Below} resembles {above} .", "Having {below} precedes having {above} ."),
}
_OF_DOMAIN = {
    STATED: Premise(
        "One has to be {an_above} if one {below}s something .", "If one {below}s something , one is {an_above} ."
    ),
    NEGATED_FIRST: Premise(
        "One does not have to be {an_above} if one {below}s something .",
        "If one {below}s something , one is not {an_above} .",
    ),
    WEAKENED_FIRST: Premise(
        "One may be {an_above} if one {below}s something .", "If one {below}s something , one may be {an_above} ."
    ),
    VERB_FIRST: Premise(
        "One has to eat {an_above} if one {below}s something .", "If one {below}s something , one eats {an_above} ."
    ),
    REVERSED: Premise(
        "One has to {below} something if one is {an_above} .", "If one is {an_above} , one {below}s something ."
    ),
}
_OF_RANGE = {
    STATED: Premise(
        "One has to be {an_above} if something {below}s that .", "If something {below}s that , that is {an_above} ."
    ),
    NEGATED_FIRST: Premise(
        "One does not have to be {an_above} if something {below}s that .",
        "If something {below}s that , that is not {an_above} .",
    ),
    WEAKENED_FIRST: Premise(
        "One may be {an_above} if something {below}s that .", "If something {below}s that , that may be {an_above} ."
    ),
    VERB_FIRST: Premise(
        "One has to eat {an_above} if something {below}s that .", "If something {below}s that , that eats {an_above} ."
    ),
    REVERSED: Premise(
        "Something has to {below} that if that is {an_above} .", "If that is {an_above} , something {below}s that ."
    ),
}
"""Facts from the class or property below to the one above, and altered ones; a wording is plain or paraphrased."""
_OF_INDIVIDUAL = {
    STATED: Premise("{x} is {a_name} .", "{x} belongs to the class {name} ."),
    NEGATED_SECOND: Premise("{x} is not {a_name} .", "{x} does not belong to the class {name} ."),
    VERB_SECOND: Premise("{x} eats {a_name} .", "{x} eats something of the class {name} ."),
    SECOND_REVERSED: Premise("{Name} is a {x} .", "{Name} belongs to the class {x} ."),
}
_OF_PSEUDOPROPERTY = {
    STATED: Premise("{x} implies {name} .", "Having {x} means having {name} ."),
    NEGATED_SECOND: Premise("{x} does not imply {name} .", "Having {x} does not mean having {name} ."),
    VERB_SECOND: Premise("{x} resembles {name} .", "Having {x} precedes having {name} ."),
    SECOND_REVERSED: Premise("{Name} implies {x} .", "Having {name} means having {x} ."),
}
_OF_NOUN = {
    STATED: "{x}'s {name} is {y} .",
    NEGATED_SECOND: "{x}'s {name} is not {y} .",
    VERB_SECOND: "{x}'s {name} eats {y} .",
    SECOND_REVERSED: "{y}'s {name} is {x} .",
}
_OF_VERB = {
    STATED: "{x} {name}s {y} .",
    NEGATED_SECOND: "{x} does not {name} {y} .",
    VERB_SECOND: "{x} eats what {name}s {y} .",
    SECOND_REVERSED: "{y} {name}s {x} .",
}
"""Premise 2, and altered ones. A sentence pattern has no paraphrase."""
_OF_RULES: Mapping[str, tuple[Mapping[str, Premise], Mapping[str, Premise | str]]] = {
    "rdfs2": (_OF_DOMAIN, _OF_VERB),
    "rdfs3": (_OF_RANGE, _OF_VERB),
    "rdfs5": (_OF_PROPERTY, _OF_PSEUDOPROPERTY),
    "rdfs7": (_OF_PROPERTY, _OF_NOUN),
    "rdfs9": (_OF_CLASS, _OF_INDIVIDUAL),
    "rdfs11": (_OF_CLASS, _OF_INDIVIDUAL),
}


def _fact(rule: str, below: str, above: str, first: bool, how: str = STATED) -> Premise:
    """Return the fact from one class or property to the next. :param first: it is premise 1 of the rule."""
    wordings = _OF_RULES[rule][0] if first or rule in ("rdfs5", "rdfs7") else _OF_CLASS
    if how == REVERSED and REVERSED not in wordings:
        below, above, how = above, below, STATED
    names = {"below": below, "Below": capitalized(below), "above": above, "an_above": with_article(above)}
    return Premise(*(wording.format_map(names) for wording in wordings[how]))


def _about(rule: str, name: str, x: str, y: str, how: str = STATED) -> Premise:
    """Return premise 2 about pseudowords."""
    wordings = _OF_RULES[rule][1][how]
    names = {"x": x, "y": y, "name": name, "Name": capitalized(name), "a_name": with_article(name)}
    both = wordings if isinstance(wordings, Premise) else (wordings, wordings)
    return Premise(*(wording.format_map(names) for wording in both))


def _joined(rule: str, name: str, of: str) -> str:
    """Return "blavedok of a trosiluk", or "blavedoks what trosiluk" of verbs, which get their s later."""
    if rule in ("rdfs2", "rdfs3"):
        return f"{name}s what {of}"
    return f"{name} of {of if rule in ('rdfs5', 'rdfs7') else with_article(of)}"


def denied(premise: Premise) -> Premise:
    """Return a premise of any form, negated."""
    return Premise(*(f"It is not true that {_lower(text)}" for text in premise))


def doubted(premise: Premise) -> Premise:
    """Return a premise of any form with another verb, so that nothing follows from it."""
    return Premise(*(f"Nobody knows whether {_lower(text)}" for text in premise))


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
