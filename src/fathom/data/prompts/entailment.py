"""Texts of six rules of entailment: two premises and a conclusion with a gap (Wu et al. 2023, 2.3 and 3.2).

P1 is a fact of the ontology, P2 is about the pseudowords ``<x>`` and ``<y>``, which have no meaning: "Singer is a
person . <x> is a singer . Therefore, <x> is a particular [Y] ." Each premise is stated or not, in four texts of each
item (:data:`GIVEN`), worded as in the reference code:

===== ========================================= ==================== ============================
rule  P1                                        P2                   hypothesis
===== ========================================= ==================== ============================
rdfs2 One has to be a person if one sings .     <x> sings <y> .      <x> is a particular [Y] .
rdfs3 One has to be a song if a person sings .  <x> sings <y> .      <y> is a particular [Y] .
rdfs5 Mother implies parent .                   <x> implies mother . <x> implies [Y] .
rdfs7 Mother implies parent .                   <x>'s mother is <y>. <x> [Y] <y> .
rdfs9 Singer is a person .                      <x> is a singer .    <x> is a particular [Y] .
11    as rdfs9, but <x> is a class              <x> is a singer .    <x> is a particular [Y] .
===== ========================================= ==================== ============================

All conclusions of the rule are correct: for rdfs5, 7, 9 and 11 the whole chain, of which P1 names the nearest. Items
whose domain or range is a union of classes are dropped, as it entails none of them. Candidates of rdfs7 are sentence
patterns ("'s parent is"), those of the others classes or properties.

Learnt tokens, ``<s1>``, ``<s2>``, … in the order of the text, may replace the words "is a", "implies", … and the
conjunctions (section 3.2.1); :func:`sources` returns their initial values. Unlike in the reference code, a premise with
learnt tokens ends in a full stop for rdfs2 and 3, too, and rdfs5 does not add "implies".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from fathom.data.folds import FOLD
from fathom.data.prompts.ontology import CLASSES, LIMITED, PROPERTIES, RULES, Patterns, one_of, with_article
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation, cardinality_of
from fathom.data.templates import ANSWER, SUBJECT, Sentence, capitalized

X, Y = "<x>", "<y>"
"""Pseudowords in a text."""
Z, W = "<z>", "<w>"
"""Other pseudowords, which no query is about."""
EXPLICIT, IMPLICIT, ABSENT = "explicit", "implicit", "absent"
"""How a premise is given: stated, not stated but remembered, neither."""
GIVEN = {"both": (True, True), "P1": (True, False), "P2": (False, True), "none": (False, False)}
"""Which premises each text states."""
REMEMBERED = "remembered"
"""In place of one of :data:`GIVEN`: the query for P2 itself."""
CONJUNCTION = "conjunction"
"""TokenStart of a learnt token that no memorising task has learnt."""
PATTERNS = "patterns"
"""Name of the candidate set of sentence patterns: the words between subject and object of all properties."""
SUBSETS = ("train", "dev", "test")
OF_PATTERN = ("rdfs2", "rdfs3", "rdfs7")
"""Rules whose P2 is a property's sentence pattern."""
_TASK_OF_H = {"rdfs2": "type", "rdfs3": "type", "rdfs5": "subPropertyOf", "rdfs9": "type", "rdfs11": "subClassOf"}
"""The memorising task with the hypothesis's template; rdfs7 has none."""


class RuleWording(NamedTuple):
    """:param templates: learnt tokens stand for "is a", "implies", …
    :param conjunction: and for "Therefore,".
    """

    templates: bool = False
    conjunction: bool = False

    @property
    def name(self) -> str:
        return next(name for name, wording in WORDINGS.items() if wording == self)


WORDINGS = {
    "words": RuleWording(),
    "learnt-conjunction": RuleWording(conjunction=True),
    "learnt-templates": RuleWording(templates=True),
    "learnt": RuleWording(templates=True, conjunction=True),
}


class TokenStart(NamedTuple):
    """The initial value of a learnt token.

    :param task: task of the learnt template, or :data:`CONJUNCTION`.
    :param place: number of the token in it, from 0.
    """

    task: str
    place: int


class RuleItem(NamedTuple):
    """A fact to which a rule applies.

    :param query: the query of the memorising task whose answer is P1.
    :param gold: ids of the conclusions, finest first.
    :param pattern: "[X] sings [Y] .", "" for classes.
    :param first: name of the answer of P1, or "".
    """

    query: Query
    gold: tuple[str, ...]
    pattern: str
    first: str


class Halves(NamedTuple):
    """The half of each premise, :data:`IMPLICIT` or :data:`ABSENT`; missing items are in neither.

    :param first: for P1, by id of the memorising query.
    :param second: for P2, by rule, pair and that id.
    """

    first: Mapping[str, str]
    second: Mapping[tuple[str, int, str], str]


_Pieces = list[str | TokenStart]
"""What a text is made of, with a space between: words and learnt tokens."""


def items(data: QuerySet, patterns: Patterns, rule: str) -> tuple[list[RuleItem], list[str]]:
    """Return the items to which *rule* applies, and why it does not apply to the others.

    :param data: a folder's memorising tasks.
    :param patterns: from :func:`fathom.data.formats.ontoprobe.read_patterns`.
    """
    task = RULES[rule]
    of_task = patterns.get(task, {})
    fitting, left_out = [], []
    for query in data.by_relation().get(task, ()):
        pattern = of_task.get(query.subject, "")
        gold = query.gold
        if rule == "rdfs7":
            gold = tuple(dict.fromkeys(phrase for name in query.gold if (phrase := phrase_of(of_task.get(name, "")))))
        reason = query.unscored or one_of(query) or None
        if reason is None and rule in OF_PATTERN and not phrase_of(pattern):
            reason = f"{pattern!r} has words before {SUBJECT} or after {ANSWER}"
        if reason is None and not gold:
            reason = f"no pattern of what it implies has all its words between {SUBJECT} and {ANSWER}"
        if reason is None:
            fitting.append(RuleItem(query, gold, pattern, data.candidates[query.candidates].name_of(query.gold[0])))
        else:
            left_out.append(f"{rule}: {query.id} ({query.subject}) is left out: {reason}")
    return fitting, left_out


def phrase_of(pattern: str) -> str:
    """Return "'s mother is" for "[X]'s mother is [Y] ."; "" if not all words are between subject and answer."""
    match = re.fullmatch(r"\[X\]\s*(.*?\S)\s*\[Y\]\s*\.?", pattern)
    return match[1] if match and SUBJECT not in match[1] and ANSWER not in match[1] else ""


def rule_texts(
    data: QuerySet, patterns: Patterns, rules: Sequence[str], wording: RuleWording, pairs: int, halves: Halves
) -> QuerySet:
    """Return the texts of each test item for each pair of pseudowords, and of each training item for one.

    :param data: the memorising tasks, with their subsets, or with folds for cross-validation.
    :param halves: test items in neither half have no text.
    """

    def queries(rule: str, item: RuleItem, pair: int, subset: str) -> Iterator[Query]:
        in_first = halves.first.get(item.query.id)
        in_second = halves.second.get((rule, pair, item.query.id))
        if subset == "test" and (in_first is None or in_second is None):
            return
        for stated, (first, second) in GIVEN.items():
            premises = {"premise 1": EXPLICIT if first else in_first, "premise 2": EXPLICIT if second else in_second}
            yield _query(rule, item, stated, wording, pair, item.gold, space_of(rule), premises)

    return _queryset(data, patterns, rules, pairs, queries)


def second_premises(
    data: QuerySet, patterns: Patterns, rules: Sequence[str], wording: RuleWording, pairs: int
) -> QuerySet:
    """Return the task's own queries about pseudowords: would the model say P2 anyway?"""

    def queries(rule: str, item: RuleItem, pair: int, subset: str) -> Iterator[Query]:
        of_pattern = rule in OF_PATTERN
        gold = phrase_of(item.pattern) if of_pattern else item.query.subject
        space = PATTERNS if of_pattern else space_of(rule)
        yield _query(rule, item, REMEMBERED, wording, pair, (gold,), space, {})

    return _queryset(data, patterns, rules, pairs, queries)


def space_of(rule: str) -> str:
    """Return the name of the conclusions' candidate set."""
    return {"rdfs5": PROPERTIES, "rdfs7": PATTERNS}.get(rule, CLASSES)


def text_of(rule: str, stated: str, wording: RuleWording, item: RuleItem) -> str:
    """Return a text with ``[Y]`` for the answer.

    :param stated: one of :data:`GIVEN`, or :data:`REMEMBERED`.
    """
    number = count(1)
    pieces = _pieces(rule, stated, wording, item)
    return " ".join(f"<s{next(number)}>" if isinstance(piece, TokenStart) else piece for piece in pieces)


def sources(rule: str, stated: str, wording: RuleWording) -> tuple[TokenStart, ...]:
    """Return the initial values of a text's learnt tokens, in order.

    :param stated: one of :data:`GIVEN`, or :data:`REMEMBERED`.
    """
    if not (wording.templates or wording.conjunction):
        return ()
    return tuple(piece for piece in _pieces(rule, stated, wording, _NOTHING) if isinstance(piece, TokenStart))


def _queryset(
    data: QuerySet,
    patterns: Patterns,
    rules: Sequence[str],
    pairs: int,
    questions: Callable[[str, RuleItem, int, str], Iterable[Query]],
) -> QuerySet:
    """Return the queries of test items for all pairs, of training items (with folds, all items) for one each.

    :param questions: makes the queries of a rule, an item, a pair and a subset.
    """
    whole = data.whole or data
    tested = {query.id for query in data.queries}
    ids_of = {subset: whole.subsets.get(subset, frozenset()) - tested for subset in SUBSETS} | {"test": tested}
    if folded := any(FOLD in query.groups for query in data.queries):
        ids_of |= {"train": {query.id for query in whole.queries}, "dev": set()}
    queries: list[Query] = []
    subsets: dict[str, list[str]] = {subset: [] for subset in SUBSETS}
    notes: list[str] = []
    for rule in rules:
        fitting, left_out = items(whole, patterns, rule)
        notes += left_out
        for subset in SUBSETS:
            members = [item for item in fitting if item.query.id in ids_of[subset]]
            drawn = [
                (item, pair)
                for pair in range(pairs)
                for number, item in enumerate(members)
                if subset == "test" or pair == number % pairs
            ]
            made = [query for item, pair in drawn for query in questions(rule, item, pair, subset)]
            if folded and subset == "train":  # a test query is a separate training query
                made = [replace(query, id=f"{query.id}/{subset}") for query in made]
            queries += made
            subsets[subset] += [query.id for query in made]
    queryset = pseudoword_queries(data, patterns, queries, rules, notes)
    return replace(queryset, subsets={subset: frozenset(ids) for subset, ids in subsets.items()})


def pseudoword_queries(
    data: QuerySet, patterns: Patterns, queries: Sequence[Query], relations: Iterable[str], notes: Sequence[str] = ()
) -> QuerySet:
    """Return *queries* about an ontology with their candidates. :param relations: names, also without a query."""
    whole = data.whole or data
    phrases = (phrase_of(pattern) for of_task in patterns.values() for pattern in of_task.values())
    names = tuple(dict.fromkeys(phrase for phrase in phrases if phrase))
    spaces = {**whole.candidates, **data.candidates, PATTERNS: CandidateSet(PATTERNS, names, names)}
    golds = {name: [gold for query in queries if query.relation == name for gold in query.gold] for name in relations}
    used = {query.candidates for query in queries}
    return replace(
        whole,
        queries=tuple(queries),
        candidates={name: space for name, space in spaces.items() if name in used},
        relations={name: Relation(name, name, (), cardinality_of(answers)) for name, answers in golds.items()},
        subsets={},
        notes=(*whole.notes, *notes),
        whole=None,
    )


def _query(
    rule: str,
    item: RuleItem,
    stated: str,
    wording: RuleWording,
    pair: int,
    gold: tuple[str, ...],
    space: str,
    premises: Mapping[str, str | None],
) -> Query:
    """:param premises: how each is given, None if unknown."""
    task, _, number = item.query.id.rpartition("/")
    groups = {"rule": rule, "task": task, "item": item.query.id, "given": stated, "pair": str(pair)}
    groups |= {FOLD: item.query.groups[FOLD]} if FOLD in item.query.groups else {}
    return Query(
        id=f"{rule}/{number}/{stated}/{pair}",
        relation=rule,
        subject=item.query.subject,
        subject_id=item.query.subject_id,
        gold=gold,
        candidates=space,
        groups=groups | {name: how for name, how in premises.items() if how is not None},
        sentences=(Sentence(text_of(rule, stated, wording, item)),),
    )


_NOTHING = RuleItem(Query("", "", "", "", (), "", sentences=(Sentence(""),)), (), "", "a")
"""An item whose words do not matter."""


def _pieces(rule: str, stated: str, wording: RuleWording, item: RuleItem) -> _Pieces:
    if stated == REMEMBERED:
        return [X, ANSWER, f"{Y} ."] if rule in OF_PATTERN else hypothesis(rule, wording)
    first, second = GIVEN[stated]
    premises = first_premise(rule, wording, item) if first else []
    if first and second and wording.conjunction:
        premises = [*premises, TokenStart(CONJUNCTION, 0)]
    if second:
        premises = [*premises, *second_premise(rule, wording, item, X, Y)]
    therefore = TokenStart(CONJUNCTION, 0) if wording.conjunction else "Therefore,"
    return [*premises, therefore, *hypothesis(rule, wording)]


def first_premise(rule: str, wording: RuleWording, item: RuleItem) -> _Pieces:
    task, subject = RULES[rule], capitalized(item.query.subject)
    if wording.templates:
        return [subject, *_learnt(task), f"{item.first} ."]
    if task in ("domain", "range"):
        limited = item.query.sentences[0].text
        return [limited.replace(LIMITED, f"One has to be {with_article(item.first)} if ", 1)]
    if task == "subPropertyOf":
        return [f"{subject} implies {item.first} ."]
    return [f"{subject} is {with_article(item.first)} ."]


def second_premise(rule: str, wording: RuleWording, item: RuleItem, x: str, y: str) -> _Pieces:
    if rule in OF_PATTERN:
        return [item.pattern.replace(SUBJECT, x).replace(ANSWER, y)]
    subject = item.query.subject
    if wording.templates:
        return [x, *_learnt(_TASK_OF_H[rule]), f"{subject} ."]
    return [f"{x} implies {subject} ."] if rule == "rdfs5" else [f"{x} is {with_article(subject or 'a')} ."]


def hypothesis(rule: str, wording: RuleWording) -> _Pieces:
    if rule == "rdfs7":
        return [X, ANSWER, f"{Y} ."]
    about = Y if rule == "rdfs3" else X
    if wording.templates:
        return [about, *_learnt(_TASK_OF_H[rule]), f"{ANSWER} ."]
    return [about, f"implies {ANSWER} ." if rule == "rdfs5" else f"is a particular {ANSWER} ."]


def _learnt(task: str) -> list[TokenStart]:
    return [TokenStart(task, place) for place in range(3)]
