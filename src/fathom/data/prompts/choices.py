"""Multiple choice: queries with a few options each, and a question, as put to ChatGPT by Wu et al. (2023)."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from string import ascii_lowercase

from fathom.base.errors import BadInput
from fathom.data.prompts.ontology import LIMITED, QUESTIONS, TEMPLATES
from fathom.data.queries import CandidateSet, Query, QuerySet
from fathom.data.templates import ANSWER, SUBJECT, Template

MOST = len(ascii_lowercase)
"""Most options: one per letter."""
GAP = "___"
"""The answer's place in a question made from a statement."""
NO_DISTRACTOR = "there is no wrong option: every candidate is right"
NO_WORDS = "nothing puts the query into words: no question, no template and no sentence"
HEAD_ASKED = "a question asks for the tail, this query for the head"
OPTIONS = 20
"""Default number of options, as in the paper: the gold answer and 19 distractors."""
LURE = "lure"
"""Group of a query: the id of a wrong answer that must be among its options."""
UNPARSED = "unparsed: the reply names no option"
CUT_OFF = "unparsed: the reply was cut off before it named an option"
AMBIGUOUS = "unparsed: the reply claims two options"
NO_OPTION = frozenset({UNPARSED, CUT_OFF, AMBIGUOUS})
"""Reasons why a reply has no option."""

_BETWEEN = "What is the relation between [X]?", ("the relation between [X] is [Y] .",)
"""Asked of properties by their sentence patterns: "What is the relation between X and Y?" """
_STATED = (*((question, TEMPLATES[task]) for task, question in QUESTIONS.items()), _BETWEEN)
"""Questions with the statements that complete them."""


@dataclass(frozen=True)
class Choices(QuerySet):
    """Queries with a candidate set each: its options in the order shown. :param questions: by query id."""

    questions: Mapping[str, str] = field(default_factory=dict)

    def phrasings(self, query: Query) -> Sequence[Template]:
        """Return a query's own sentence capitalised like a template, as in its question."""
        return [replace(template, natural=False) for template in super().phrasings(query)]

    @cached_property
    def content_hash(self) -> str:
        """Digest of all that can change a result, including the questions."""
        digest = hashlib.sha256(super().content_hash.encode())
        for query in self.queries:
            digest.update(f"\n{query.id}\t{self.questions[query.id]}".encode())
        return digest.hexdigest()[:16]


def choices(
    data: QuerySet,
    count: int,
    seed: int,
    right_too: Callable[[Query], Collection[str]] = lambda query: (),
    sharing_words: bool = False,
) -> Choices:
    """Return each query with its first (finest) gold answer and *count* − 1 distractors, in an order drawn by *seed*.

    Distractors are candidates that are neither correct nor the subject, without duplicate names. They depend on the
    query's id and the seed alone. Choices are returned unmodified.

    :param count: 2 to 26.
    :param sharing_words: draw distractors with as many words of the question as the gold answer first, if it has any.
    :raises ValueError: another count.
    """
    if isinstance(data, Choices):
        return data
    if not 2 <= count <= MOST:
        raise ValueError(f"{count} options: expected 2 to {MOST}")

    # Sorted, so that the order of the data's candidates has no effect.
    ids = {name: sorted(data.candidates[name].ids) for name in {query.candidates for query in data.queries}}
    spaces, queries, questions = {}, [], {}
    for query in data.queries:
        space = data.candidates[query.candidates]
        never = right_answers(query, space) | set(right_too(query))
        required = [*query.gold[:1], *filter(None, [query.groups.get(LURE)])]
        question = question_of(data, query)
        first = _sharing_words(question, space, required[:1]) if sharing_words else []
        drawn = drawn_options(f"{seed} {query.id}", space, ids[query.candidates], required, never, count, first)
        options = CandidateSet(query.id, tuple(drawn), tuple(map(space.name_of, drawn)))
        spaces[options.name], questions[query.id] = options, question
        gold = replace(
            query, gold=query.gold[:1], known=(), candidates=options.name, one_of_several=len(query.gold) > 1
        )
        reason = "" if question else HEAD_ASKED if query.direction == "head" else NO_WORDS
        reason = reason or (NO_DISTRACTOR if len(options) < 2 else "")
        queries.append(replace(gold, unscored=reason) if reason and query.unscored is None else gold)
    about = data.relations, data.version, data.licence, data.subsets, data.notes, data.graph
    return Choices(data.name, tuple(queries), spaces, *about, questions=questions)


def check_options(data: QuerySet, count: int | None) -> None:
    """:raises BadInput: *count* is given, but *data* has its options; or more options than letters."""
    if not isinstance(data, Choices):
        return
    if count is not None:
        raise BadInput(f"--options {count}: {data.name} has its options already, leave --options out")
    large = [query.id for query in data.queries if len(data.candidates[query.candidates]) > MOST]
    if large:
        raise BadInput(f"{data.name}: {large[0]} has more than {MOST} options (--pool and --add-candidates add some)")


def right_answers(query: Query, space: CandidateSet) -> set[str]:
    """Return the casefolded names of a query's listed answers and of its subject, which is no answer."""
    return {space.name_of(answer).casefold() for answer in (*query.gold, *query.known)} | {query.subject.casefold()}


def drawn_options(
    lot: str,
    space: CandidateSet,
    ids: Sequence[str],
    shown: Sequence[str],
    never: Collection[str],
    count: int,
    first: Sequence[str] = (),
) -> list[str]:
    """Return the ids of up to *count* options in the order shown, without duplicate names.

    :param lot: seed of the draw.
    :param ids: of all candidates, sorted, so that the order of the data has no effect.
    :param shown: ids that are always among the options, unless they are no candidates.
    :param never: casefolded names that are not drawn.
    :param first: ids that are drawn before all others.
    """
    generator = random.Random(lot)
    drawn = [answer for answer in shown if answer in space.position]
    alike = {*never, *(space.name_of(answer).casefold() for answer in drawn)}
    for pool in filter(None, (first, ids)):
        for place in _one_by_one(generator, len(pool)):
            if len(drawn) >= count:
                break
            name = space.name_of(pool[place]).casefold()
            if name not in alike:
                alike.add(name)
                drawn.append(pool[place])
    generator.shuffle(drawn)
    return drawn


def _sharing_words(question: str, space: CandidateSet, gold: Sequence[str]) -> list[str]:
    """Return the sorted ids of candidates with as many words of the question as the gold answer, if it has any."""
    words = set(re.findall(r"\w+", question.casefold()))

    def shared(id_: str) -> int:
        return len(words.intersection(re.findall(r"\w+", space.name_of(id_).casefold())))

    least = max((shared(id_) for id_ in gold if id_ in space.position), default=0)
    return sorted(id_ for id_ in space.ids if shared(id_) >= least) if least else []


def _one_by_one(generator: random.Random, count: int) -> Iterator[int]:
    """Yield 0 to *count* − 1 in random order, lazily: answer spaces may have millions."""
    moved: dict[int, int] = {}
    for place in range(count):
        target = generator.randrange(place, count)
        drawn = moved.get(target, target)
        moved[target] = moved.get(place, place)
        yield drawn


def question_of(data: QuerySet, query: Query) -> str:
    """Return a query's question: OntoProbe's, the relation's own, or a statement with a gap; "" without any of these,
    or for a query for the head."""
    relation = data.relations[query.relation]
    if query.direction == "head":
        return ""
    if relation.id in QUESTIONS:
        return QUESTIONS[relation.id].replace(SUBJECT, query.subject)
    if query.sentences and query.sentences[0].text.startswith(LIMITED):
        clause = query.sentences[0].text.removeprefix(LIMITED).removesuffix(".").strip()
        return f"What is the type of it if {re.sub(r'[Tt]hat$', 'it', clause)}?"
    if relation.questions:
        return relation.questions[0].fill(query.subject, "").text.strip()
    phrasings = data.phrasings(query)
    return f'What completes the statement "{phrasings[0].fill(query.subject, GAP).text}"?' if phrasings else ""


def statements_of(question: str) -> tuple[str, ...]:
    """Return the statements that answer an ontological question, with ``[Y]`` for the answer (table 3 of the paper).

    Premises before "Therefore, " are part of each. A question of another form has none.
    """
    if (stated := re.fullmatch(r'What completes the statement "(.+)"\?', question)) and stated[1].count(GAP) == 1:
        return (stated[1].replace(GAP, ANSWER),)
    premises, therefore, asked = question.rpartition("Therefore, ")
    limited = re.fullmatch(r"What is the type of it if (.+)\?", asked)
    if limited:
        return (f"{premises}{therefore}{LIMITED}{re.sub(r' it$', ' that', limited[1])} .",)
    for wording, statements in _STATED:
        if found := re.fullmatch(re.escape(wording).replace(re.escape(SUBJECT), "(.+)"), asked):
            return tuple(f"{premises}{therefore}{statement.replace(SUBJECT, found[1])}" for statement in statements)
    return ()


def shown(question: str, names: Sequence[str]) -> str:
    """Return "What is the type of Lionel Messi? (a) soccer player, (b) work": at most 26 names."""
    return f"{question} " + ", ".join(f"({ascii_lowercase[place]}) {name}" for place, name in enumerate(names))
