"""Answerers of texts whose ways are known, for all studies of reasoning: perfect reasoners, and shortcuts.

An answerer scores the names it would give for a text; all other names score 0, and ties are broken at random.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from functools import cached_property
from itertools import combinations, pairwise, product
from pathlib import Path
from string import ascii_lowercase
from typing import ClassVar, NamedTuple

from fathom.data.formats.ontoprobe import OntologyClass, task_lines, write_ontoprobe
from fathom.data.prompts.alterations import COMBINES, PLAIN, REMEMBERS, SHUFFLED, WHOLE, argument_queries, arguments
from fathom.data.prompts.choices import choices
from fathom.data.prompts.entailment import W, X, Y, Z
from fathom.data.prompts.nonce import NonceWords, excerpt_of
from fathom.data.prompts.ontology import RULES, Patterns
from fathom.data.queries import Query, QuerySet
from fathom.data.templates import SUBJECT
from fathom.engine.models.base import Identity
from fathom.studies.reasoning.conclusions import Conclusion, evidence_of, judge, values_by_place
from fathom.studies.reasoning.shortcuts import AskedText, Place, asked_texts, solved_items
from tests.choosers import ScriptedChat

MARKS = frozenset((X, Y, Z, W))
Scores = Mapping[str, float]


@dataclass(frozen=True)
class World:
    """What an answerer may know of an ontology.

    :param answers: right answers by rule and premise 2, written with "?" for individuals.
    :param known: share of these that is remembered.
    :param often: how often each name is a finest answer, *general* how often it is any.
    :param names: of properties, by their phrase in sentence patterns.
    """

    answers: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)
    known: float = 0.5
    often: Counter[str] = field(default_factory=Counter)
    general: Counter[str] = field(default_factory=Counter)
    phrases: Mapping[str, str] = field(default_factory=dict)

    def knows(self, rule: str, premise: str) -> bool:
        """Return whether a premise 2 is of the ontology."""
        return (rule, premise) in self.answers

    def below(self, rule: str, name: str) -> Sequence[str]:
        """Return what lies below a name, of what is remembered."""
        return self._below.get((rule, name), ())

    @cached_property
    def _below(self) -> dict[tuple[str, str], list[str]]:
        found: dict[tuple[str, str], list[str]] = {}
        for (rule, premise), answers in self.answers.items():
            if self.recall(rule, premise):
                for name in answers[:1]:
                    kind = _kind(premise, frozenset("?"))
                    for key in {name.lower(), _kind(f"? {name} ?".lower().replace("? '", "?'"), frozenset("?"))}:
                        found.setdefault((rule, key), []).append(kind.strip("? "))
        return found

    def neighbour(self, rule: str, premise: str) -> Sequence[str]:
        """Return the answers of the other premise 2 that is spelt most alike."""
        if (rule, premise) not in self._neighbours:
            others = [other for own, other in self.answers if own == rule and other != premise]
            alike = max(others, key=lambda other: SequenceMatcher(None, premise, other).ratio(), default="")
            self._neighbours[rule, premise] = self.answers.get((rule, alike), ())
        return self._neighbours[rule, premise]

    @cached_property
    def _neighbours(self) -> dict[tuple[str, str], Sequence[str]]:
        return {}

    def recall(self, rule: str, premise: str) -> Sequence[str]:
        """Return the answers that are remembered of a premise 2."""
        return self.answers.get((rule, premise), ()) if draw("known", rule, premise) < self.known else ()


def world_of(queries: QuerySet, patterns: Mapping[str, Mapping[str, str]], known: float) -> World:
    """Collect what the texts of an ontology ask for."""
    answers, often, general = {}, Counter(), Counter()
    for query in queries.queries:
        groups = query.groups
        if (groups.get("conclusion"), groups.get("given"), groups.get("pair")) == (REMEMBERS, WHOLE, "0"):
            answers[groups["rule"], Reading(query.sentences[0].text).stated[0]] = (*query.gold, *query.known)
            often.update(query.gold)
            general.update((*query.gold, *query.known))
    phrases = {
        name: pattern.replace(SUBJECT, "").replace("[Y]", "").strip(" .")
        for of_task in patterns.values()
        for name, pattern in of_task.items()
    }
    return World(answers, known, often, general, phrases)


class Reading:
    """A text: facts of classes or properties, and what is stated of individuals.

    :param individuals: made-up names in it, lower case.
    """

    def __init__(self, text: str, rule: str = "", individuals: Iterable[str] = MARKS) -> None:
        self.text, self.rule = text, rule
        self.individuals = frozenset(individuals)
        start = text.partition('"')[2] if text.startswith("What completes") else text
        before, _, asked = start.rpartition("Therefore,")
        self.premises = [part.strip().lower() for part in re.split(r" ?\. ", before + " ") if part.strip()]
        self.asked = asked.strip().lower()

    @cached_property
    def subject(self) -> str:
        """The individual that is asked about."""
        tokens = re.findall(r"<.>|\w+", self.asked)
        return next((token for token in tokens if token in self.individuals), "")

    @cached_property
    def facts(self) -> list[tuple[str, str]]:
        """Pairs of what is below and above."""
        return [found for premise in self.premises if (found := _fact(premise)) and not self._named(premise)]

    @cached_property
    def about(self) -> list[tuple[frozenset[str], str, str]]:
        """Individuals, what they are stated to be, and the premise without their names."""
        return [
            (named, _kind(premise, named), _without(premise, named))
            for premise in self.premises
            if (named := self._named(premise))
        ]

    @property
    def stated(self) -> list[str]:
        """The premises about the individual in question, without names."""
        return [premise for named, _, premise in self.about if self.subject in named]

    def kinds(self, of_anyone: bool = False) -> list[str]:
        """What the individual in question, or any, is stated to be."""
        return [kind for named, kind, _ in self.about if of_anyone or self.subject in named]

    @cached_property
    def own(self) -> list[tuple[str, str]]:
        """What the individual in question is stated to be, in the role that the rule needs, and without names."""
        role = -1 if self.rule == "rdfs3" else 0
        return [
            (_kind(premise, frozenset(named)), _without(premise, named))
            for premise in self.premises
            if (named := [word for word in re.findall(r"<.>|\w+", premise) if word in self.individuals])
            and named[role] == self.subject
        ]

    @property
    def own_kinds(self) -> list[str]:
        return [kind for kind, _ in self.own]

    def _named(self, premise: str) -> frozenset[str]:
        return self.individuals.intersection(re.findall(r"<.>|\w+", premise))


def _fact(premise: str) -> tuple[str, str] | None:
    limited = re.fullmatch(r"one has to be an? (.+) if (?:one|something) (\w+)s (?:something|that)", premise)
    other = re.fullmatch(r"if (?:one|something) (\w+)s (?:something|that) , (?:one|that) is an? (.+)", premise)
    if limited:
        return limited[2], limited[1]
    if premise.startswith("one has to be"):
        found = re.fullmatch(r"one has to be an? (.+) if (.+)", premise)
        return (found[2], found[1]) if found else None
    if found := re.fullmatch(r"(?:one|something) has to (\w+) (?:something|that) if (?:one|that) is an? (.+)", premise):
        return found[2], found[1]
    if found := re.fullmatch(r"if (?:one|that) is an? (.+) , (?:one|something) (\w+)s .+", premise):
        return found[1], found[2]
    plain = other or re.fullmatch(r"having (.+) means having (.+)|(?:every )?(.+?) (?:is an?|implies) (.+)", premise)
    return tuple(filter(None, plain.groups())) if plain else None  # type: ignore[return-value]


def _kind(premise: str, named: frozenset[str]) -> str:
    """Return "blavek" of "? is a blavek", "? implies blavek", "?'s blavek is ?" and "? blaveks ?"."""
    text = _without(premise, named)
    for pattern in (
        r"\? (?:is an?|implies|belongs to the class) (.+)", r"having \? means having (.+)", r"\?'s (.+) is \?",
        r"\? (\w+)s \?",
    ):  # fmt: skip
        if found := re.fullmatch(pattern, text):
            return found[1]
    return text


def _without(premise: str, named: Iterable[str]) -> str:
    return re.sub("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in named), "?", premise)


def draw(*of: object) -> float:
    """From 0 to 1, the same for the same things."""
    return int.from_bytes(hashlib.blake2b("|".join(map(str, of)).encode(), digest_size=8).digest(), "big") / 2**64


class Names(tuple[str, ...]):
    """Candidates or options, indexed once for all texts that share them."""

    @cached_property
    def by_lower(self) -> dict[str, str]:
        return {name.lower(): name for name in self}

    @cached_property
    def words(self) -> dict[str, set[str]]:
        return {name: _words(name) for name in self}

    @cached_property
    def by_word(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name, words in self.words.items():
            for word in words:
                found.setdefault(word, []).append(name)
        return found

    @cached_property
    def by_run(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name in self:
            for run in _runs(name.lower()):
                found.setdefault(run, []).append(name)
        return found


Answerer = Callable[[Reading, Names, World], Scores]


def _given(names: Iterable[str], order: Names, world: World, score: float = 1.0) -> dict[str, float]:
    """Score candidates by their own names, or by the phrases of properties."""
    found = {}
    for name in names:
        for own in (name, world.phrases.get(name, "")):
            if own.lower() in order.by_lower:
                found[order.by_lower[own.lower()]] = score
    return found


def _named(reading: Reading, names: Names, world: World) -> dict[str, int]:
    """Candidates that the facts name, with the place of the fact."""
    return {name: place for place, (_, above) in enumerate(reading.facts) for name in _given([above], names, world)}


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def _overlap(words: set[str], names: Names) -> Scores:
    shared = dict.fromkeys(name for word in words for name in names.by_word.get(word, ()))
    return {name: len(names.words[name] & words) / len(names.words[name]) for name in shared}


def _follow(kinds: Iterable[str], links: Mapping[str, str], steps: int = 9) -> list[str]:
    found, now = [], list(kinds)
    for _ in range(steps):
        now = [links[name] for name in now if name in links]
        found += now
    return found


# --- who does not reason


def at_random(reading: Reading, names: Names, world: World) -> Scores:
    return {}


def constant(reading: Reading, names: Names, world: World) -> Scores:
    """Always the same order of names."""
    return {name: draw("constant", name) for name in names}


def first_option(reading: Reading, names: Names, world: World) -> Scores:
    return {names[0]: 1.0}


def by_frequency(reading: Reading, names: Names, world: World) -> Scores:
    return world.often


def root(reading: Reading, names: Names, world: World) -> Scores:
    """What is right most often, however coarse."""
    return world.general


def word_overlap(reading: Reading, names: Names, world: World) -> Scores:
    return _overlap(_words(reading.text), names)


def bound_overlap(reading: Reading, names: Names, world: World) -> Scores:
    """Words in common with what is stated of the individual in question."""
    return _overlap(_words(" ".join(reading.stated)), names)


def substring(reading: Reading, names: Names, world: World) -> Scores:
    """The longest beginning of a name that occurs in the text."""
    whole, found = reading.text.lower(), {}
    for lower, name in names.by_lower.items():
        if lower[:4] in whole:
            found[name] = max(length for length in range(4, max(4, len(lower)) + 1) if lower[:length] in whole)
    return found


def copies_first(reading: Reading, names: Names, world: World) -> Scores:
    return {name: 1 / (1 + place) for name, place in _named(reading, names, world).items()}


def copies_last(reading: Reading, names: Names, world: World) -> Scores:
    return {name: 1.0 + place for name, place in _named(reading, names, world).items()}


def copies_if_stated(reading: Reading, names: Names, world: World) -> Scores:
    """Copies what a fact names if anything is stated of the individual in question."""
    return copies_last(reading, names, world) if reading.stated else {}


def bound_memory(reading: Reading, names: Names, world: World) -> Scores:
    """Ignores facts: looks up what is stated of the individual, in memory or among the facts of anyone."""
    return _given([name for premise in reading.stated for name in world.recall(reading.rule, premise)], names, world)


def remembers_anyone(reading: Reading, names: Names, world: World) -> Scores:
    """Says what it remembers of any premise, about any subject."""
    return _given([name for *_, premise in reading.about for name in world.recall(reading.rule, premise)], names, world)


def remembers_if_stated(reading: Reading, names: Names, world: World) -> Scores:
    """The same, if anything is stated of the individual in question."""
    return remembers_anyone(reading, names, world) if reading.stated else {}


def first_and_last(reading: Reading, names: Names, world: World) -> Scores:
    """Joins the first fact with the last, whatever is between them."""
    facts = dict(reading.facts)
    if len(facts) > 1 and set(reading.kinds()) & facts.keys():
        return _given([reading.facts[-1][1]], names, world)
    return copies_last(reading, names, world)


def skips_middle(reading: Reading, names: Names, world: World) -> Scores:
    """Checks the first link, and copies the class that no fact leads on from."""
    facts = dict(reading.facts)
    ends = [above for _, above in reading.facts if above not in facts]
    return _given(ends, names, world) if len(facts) > 1 and set(reading.kinds()) & facts.keys() else {}


def backwards(reading: Reading, names: Names, world: World) -> Scores:
    """Goes back from the answer to the first fact, and not to the individual."""
    facts = reading.facts
    joined = all(one[1] == two[0] for one, two in pairwise(facts))
    return copies_last(reading, names, world) if joined and reading.stated else {}


def any_subject(reading: Reading, names: Names, world: World) -> Scores:
    """Follows all facts, about any subject."""
    return _given(_follow(reading.kinds(of_anyone=True), dict(reading.facts)), names, world)


def last_subject(reading: Reading, names: Names, world: World) -> Scores:
    """Follows what is stated last, about any subject."""
    return _given(_follow(reading.kinds(of_anyone=True)[-1:], dict(reading.facts)), names, world)


def first_subject(reading: Reading, names: Names, world: World) -> Scores:
    return _given(_follow(reading.kinds(of_anyone=True)[:1], dict(reading.facts)), names, world)


def undirected(reading: Reading, names: Names, world: World) -> Scores:
    """Follows facts in either direction."""
    links = [*reading.facts, *((above, below) for below, above in reading.facts)]
    found, now = set(), set(reading.kinds())
    for _ in range(4):
        now = {above for below, above in links if below in now} - found
        found |= now
    return _given(found, names, world)


def repeated_word(reading: Reading, names: Names, world: World) -> Scores:
    """Copies if some class is mentioned twice, and something is stated of the individual."""
    count = Counter(word for premise in reading.premises for word in re.findall(r"\w{5,}", premise))
    twice = max(count.values(), default=0) > 1
    return copies_last(reading, names, world) if twice and reading.stated else {}


def two_premises(reading: Reading, names: Names, world: World) -> Scores:
    """Copies if there are exactly as many premises as a whole argument has."""
    whole = len(reading.about) == 1 and reading.facts
    return copies_last(reading, names, world) if whole else {}


_OF_TEXTS = set(
    re.findall(
        r"\w+",
        "one has to be a an if something that is implies particular having means every belongs the class "
        "therefore what of s y",
    )
)


def every_word_twice(reading: Reading, names: Names, world: World) -> Scores:
    """Copies if no nonce word occurs only once; joins nothing, and ignores the subject."""
    own = {word for name in (*names, *world.phrases, *world.phrases.values()) for word in _words(name)} | _OF_TEXTS
    words = re.findall(r"<.>|\w+", " ".join((*reading.premises, reading.asked)).lower())
    asked = set(re.findall(r"<.>|\w+", reading.asked))
    count = Counter(word[:-1] if word.endswith("s") and len(word) > 6 else word for word in words)
    once = (word for word, times in count.items() if times == 1 and not {word, f"{word}s"} & own)
    if any(word not in reading.individuals or word in asked for word in once):
        return {}
    return copies_last(reading, names, world)


def bookends(reading: Reading, names: Names, world: World) -> Scores:
    """Copies if there are two sentences that share a word, and the last is about the individual in question."""
    if len(reading.premises) != 2 or not reading.facts or not reading.about:
        return {}
    [one, other] = ({word.rstrip("s") for word in _words(premise) - _OF_TEXTS} for premise in reading.premises)
    return copies_last(reading, names, world) if one & other and reading.subject in reading.about[-1][0] else {}


def short_and_twice(reading: Reading, names: Names, world: World) -> Scores:
    """Copies if there are two sentences of simple names, and no nonce word occurs only once."""
    simple = len(reading.premises) == 2 and not any(f" {word} " in reading.text for word in ("of", "what"))
    return every_word_twice(reading, names, world) if simple else {}


def bound_letters(reading: Reading, names: Names, world: World) -> Scores:
    """The share of a name's runs of four letters that what is stated of the individual in question has."""
    runs, scores = _runs(" ".join(reading.stated)), {}
    for name in dict.fromkeys(name for run in runs for name in names.by_run.get(run, ())):
        own = _runs(name.lower())
        scores[name] = len(own & runs) / len(own)
    return scores


def bound_ending(reading: Reading, names: Names, world: World) -> Scores:
    """The longest name with which what is stated of the individual in question ends: "topping" of "peppertopping"."""
    ends = [kind[at:] for kind in reading.kinds() for at in range(1, len(kind))]
    return {names.by_lower[end]: len(end) for end in ends if end in names.by_lower}


def _runs(text: str) -> set[str]:
    return {text[at : at + 4] for at in range(len(text) - 3)}


def memory_or_copy(reading: Reading, names: Names, world: World) -> Scores:
    return bound_memory(reading, names, world) or copies_last(reading, names, world)


def copy_or_lookup(reading: Reading, names: Names, world: World) -> Scores:
    """Copies for one half of the answers, and for the other copies only what is stated of the individual."""
    found = copies_last(reading, names, world)
    half = draw("half", *sorted(found)) < 0.5
    return found if half or reading.stated else {}


def overlap_or_copy(reading: Reading, names: Names, world: World) -> Scores:
    return bound_overlap(reading, names, world) or copies_if_stated(reading, names, world)


def _alike(reading: Reading) -> bool:
    """Return whether two words of a text begin and end alike."""
    words = dict.fromkeys(re.findall(r"[^\W\d_]{5,}", f"{reading.text} {reading.asked}".lower()))
    return any(
        one[:3] == other[:3] and one[-1] == other[-1] and one.rstrip("s") != other.rstrip("s")
        for one, other in combinations(words, 2)
    )


def copies_unless_alike(reading: Reading, names: Names, world: World) -> Scores:
    """Copies without joining names or reading the subject, unless two names are alike."""
    return {} if _alike(reading) else copies_last(reading, names, world)


def remembers_unless_alike(reading: Reading, names: Names, world: World) -> Scores:
    return {} if _alike(reading) else remembers_anyone(reading, names, world)


def undirected_as_spelt(reading: Reading, names: Names, world: World) -> Scores:
    """Follows facts in either direction, to names that are spelt as in the text: "Artist" is not "artist"."""
    body = reading.text.rpartition("Therefore,")[0]
    return {name: 1.0 for name in undirected(reading, names, world) if name in body}


def votes_by_letters(reading: Reading, names: Names, world: World) -> Scores:
    """Guesses from the answers to all other premises of the rule, by the runs of letters that they share."""
    votes: Counter[str] = Counter()
    for stated in reading.stated:
        others = [item for item in world.answers.items() if item[0][0] == reading.rule and item[0][1] != stated]
        for (_, premise), answers in others if world.knows(reading.rule, stated) else ():
            own, shared = _runs(stated), _runs(premise)
            votes[answers[0]] += (len(own & shared) / (1 + len(own | shared))) ** 2
    found = ((name, score) for answer, score in votes.items() for name in _given([answer], names, world))
    return {name: score for name, score in found if score > 0}


SHORTCUTS: Mapping[str, Answerer] = {
    one.__name__: one
    for one in (
        at_random, constant, first_option, by_frequency, root, word_overlap, bound_overlap, substring, copies_first,
        copies_last, copies_if_stated, remembers_anyone, remembers_if_stated, first_and_last, skips_middle,
        backwards, any_subject, last_subject, first_subject, undirected, repeated_word, two_premises, every_word_twice,
        bookends, short_and_twice, bound_letters, bound_ending, copy_or_lookup, overlap_or_copy, copies_unless_alike,
        remembers_unless_alike, undirected_as_spelt, votes_by_letters,
    )
}  # fmt: skip
MEMORY_USERS: Mapping[str, Answerer] = {one.__name__: one for one in (bound_memory, memory_or_copy)}
"""They use what they remember of the individual in question, whatever its role, and combine nothing."""


# --- who reasons


def reader(reading: Reading, names: Names, world: World) -> Scores:
    """Follows the facts that are stated, and remembers none."""
    return _given(_follow(reading.own_kinds, dict(reading.facts)), names, world)


def reasoner(reading: Reading, names: Names, world: World) -> Scores:
    """Draws what follows from facts that are stated and facts that are remembered."""
    return {
        **_given([name for _, one in reading.own for name in world.recall(reading.rule, one)], names, world)
    } | reader(reading, names, world)


def one_step(reading: Reading, names: Names, world: World) -> Scores:
    return _given(_follow(reading.kinds(), dict(reading.facts), 1), names, world)


REASONERS: Mapping[str, tuple[Answerer, float]] = {
    "no memory": (reasoner, 0.0),
    "half memory": (reasoner, 0.5),
    "full memory": (reasoner, 1.0),
}
"""Perfect reasoners, with the share of facts that they remember."""


# --- answerers that are composed of ways to read


class Ways(NamedTuple):
    """How an answerer reads and answers; the first value of :data:`WAYS` is the right one.

    :param binds: which statements count for the individual in question.
    :param links: how facts are joined.
    :param connective: whether "is not", "may be" or "eats" differ from "is".
    :param order: whether facts are joined by their places instead of their names.
    :param memory: what it knows of the class or property in premise 2.
    :param answer: what it says if it finds anything.
    """

    binds: str = "full name"
    links: str = "directed"
    connective: str = "read"
    order: str = "ignored"
    memory: str = "directed"
    answer: str = "followed"

    @property
    def name(self) -> str:
        return ", ".join(f"{key} {value}" for key, value in self._asdict().items() if value != WAYS[key][0]) or "right"


WAYS: Mapping[str, Sequence[str]] = {
    "binds": ("full name", "first letters", "last letters", "vowels", "first", "last", "any mention", "nothing"),
    "links": ("directed", "undirected", "all but one"),
    "connective": ("read", "ignored"),
    "order": ("ignored", "used"),
    "memory": ("directed", "symmetric", "neighbour", "none"),
    "answer": ("followed", "copied", "longest", "most frequent"),
}
ASSERTED = {
    COMBINES: ("binds", "links", "connective", "order", "answer"),
    REMEMBERS: ("binds", "connective", "memory"),
}
"""The properties that each verdict asserts."""
_OF_LETTERS: Mapping[str, Callable[[str], str]] = {
    "first letters": lambda name: name[:2],
    "last letters": lambda name: name[-3:],
    "vowels": lambda name: "".join(re.findall("[aeiou]", name)) or name,
}
"""What is read of names."""
_IGNORED = {
    "is not": "is", "eats": "is", "does not imply": "implies", "may imply": "implies", "resembles": "implies",
    "one does not have to be": "one has to be", "one may be": "one has to be", "one has to eat": "one has to be",
    "some": "", "it is not true that": "", "nobody knows whether": "",
}  # fmt: skip
"""Connectives, and what a reader that ignores them reads instead."""


def ignoring(text: str) -> str:
    """Return a text as a reader that ignores connectives reads it."""
    for connective, instead in _IGNORED.items():
        text = re.sub(rf"\b{connective} ", f"{instead} ".lstrip(), text, flags=re.IGNORECASE)
    text = re.sub(r"(<.>|\w+) does not (\w+) (<.>|\w+) \.", r"\1 \2s \3 .", text)
    return re.sub(r"(<.>|\w+) is what (\w+s) (<.>|\w+) \.", r"\1 \2 \3 .", text)


class Composed:
    """An answerer with given ways. It caches what it reads, as many answerers read the same texts."""

    _loose: ClassVar[dict[tuple[str, str, frozenset[str]], Reading]] = {}

    def __init__(self, ways: Ways) -> None:
        self.ways = ways

    @classmethod
    def forget(cls) -> None:
        cls._loose.clear()

    def __call__(self, reading: Reading, names: Names, world: World) -> Scores:
        if self.ways.connective == "ignored":
            key = reading.text, reading.rule, reading.individuals
            if key not in self._loose:
                self._loose[key] = Reading(ignoring(reading.text), reading.rule, reading.individuals)
            reading = self._loose[key]
        bound = self._bound(reading)
        kinds = [kind for kind, _ in bound]
        found = self._answer(self._joined(reading, kinds), reading, names, world) if kinds else {}
        return {**_given(self._remembered(reading.rule, bound, names, world), names, world)} | found

    def _bound(self, reading: Reading) -> list[tuple[str, str]]:
        """What is stated of the individual, with the premise."""
        about = reading.about
        mentioned = any(reading.subject in names for names, *_ in about)
        if self.ways.binds == "full name":
            return reading.own
        if self.ways.binds in _OF_LETTERS:
            return [
                (kind, premise)
                for names, kind, premise in about
                if any(self._same(reading.subject, name) for name in names)
            ]
        if self.ways.binds == "nothing":
            return [(kind, premise) for _, kind, premise in about]
        if not mentioned:
            return []
        chosen = {"first": about[:1], "last": about[-1:], "any mention": about}[self.ways.binds]
        return [(kind, premise) for _, kind, premise in chosen]

    def _same(self, one: str, other: str) -> bool:
        read = _OF_LETTERS.get(self.ways.binds, str)
        return read(one) == read(other)

    def _joined(self, reading: Reading, kinds: Sequence[str]) -> list[str]:
        """The names that the facts lead to, longest way first."""
        facts = reading.facts
        if self.ways.order == "used":
            at = next(
                (place for place, premise in enumerate(reading.premises) if reading.subject in premise.split()[:1]),
                len(facts),
            )
            before = [_fact(premise) for premise in reading.premises[:at]]
            return [pair[1] for pair in before[-1:] if pair]
        links = list(facts)
        if self.ways.links == "undirected":
            links += [(above, below) for below, above in facts]
        jumps = int(self.ways.links == "all but one")
        found: dict[str, int] = {}
        now = [(kind, 0, jumps) for kind in kinds]
        for _ in range(len(facts) + 1):
            now = [
                (above, steps + 1, left - (not self._same(name, below)))
                for name, steps, left in now
                for below, above in links
                if left or self._same(name, below)
            ]
            now = [(name, steps, left) for name, steps, left in now if found.get(name, -1) < steps]
            found |= {name: steps for name, steps, _ in now}
        return sorted((name for name in found if name not in kinds), key=lambda name: -found[name])

    def _answer(self, joined: Sequence[str], reading: Reading, names: Names, world: World) -> Scores:
        if not joined:
            return {}
        if self.ways.answer == "followed":
            return {name: 1.0 - place / 100 for place, name in enumerate(_given(joined, names, world))}
        named = list(_given([above for _, above in reading.facts], names, world))
        if self.ways.answer == "copied":
            return dict.fromkeys(named, 1.0)
        by = len if self.ways.answer == "longest" else lambda name: world.often[name]
        return {max(named, key=lambda name: (by(name), name)): 1.0} if named else {}

    def _remembered(self, rule: str, bound: Sequence[tuple[str, str]], names: Names, world: World) -> Sequence[str]:
        found: list[str] = []
        for kind, premise in bound:
            if self.ways.memory in ("directed", "symmetric"):
                found += world.recall(rule, premise)
            if self.ways.memory == "symmetric":
                found += world.below(rule, kind)
            if self.ways.memory == "neighbour" and world.knows(rule, premise):
                found += world.neighbour(rule, premise)[:1]
        return found


def composed() -> list[Ways]:
    """Return the right ways, every combination that lacks one property, and a cover of all pairs of ways."""
    lacking = [Ways(**{key: value}) for key, values in WAYS.items() for value in values[1:]]
    chosen = [Ways(), *lacking]
    pairs = {
        ((one, first), (other, second))
        for one, other in combinations(WAYS, 2)
        for first in WAYS[one]
        for second in WAYS[other]
    }
    every = [Ways(*values) for values in product(*WAYS.values())]
    covered = {way: set(combinations(way._asdict().items(), 2)) for way in every}
    for way in chosen:
        pairs -= covered[way]
    while pairs:
        best = max(every, key=lambda way: len(covered[way] & pairs))
        chosen.append(best)
        pairs -= covered[best]
    return list(dict.fromkeys(chosen))


def lacks(ways: Ways, conclusion: str) -> list[str]:
    """Return the properties that a verdict asserts, and the ways lack."""
    return [key for key in ASSERTED[conclusion] if getattr(ways, key) != WAYS[key][0]]


# --- what a study would conclude, without a run


class Simulated(NamedTuple):
    """The texts of one study on one ontology, read once for all answerers.

    :param individuals: made-up names in the texts.
    :param names: candidates or options, by query.
    :param solved: items by place and shortcut.
    """

    study: str
    queries: Sequence[Query]
    readings: Sequence[Reading]
    names: Sequence[Names]
    solved: Mapping[Place, Mapping[str, frozenset[str]]]


def simulated(
    study: str, data: QuerySet, patterns: Patterns, seed: int, options: int = 20, items: int = 60
) -> Simulated:
    """Make the texts of "entailment", "chains" or "choice".

    :param items: largest number for each task.
    """
    few = {query.id for own in data.by_relation().values() for query in own[:items]}
    tested = replace(data, queries=tuple(query for query in data.queries if query.id in few), whole=data)
    rules = [rule for rule in RULES if arguments(tested, patterns, rule)[0]]
    chains = study == "chains"
    pairs = 1 if study == "entailment" else 2  # of choices and long chains, one guess in many texts is right too often
    how = (1, 2, 3) if chains else (1,), (PLAIN, SHUFFLED) if chains else (PLAIN,), pairs, seed
    texts = argument_queries(tested, patterns, rules, *how, (COMBINES,) if chains else (COMBINES, REMEMBERS))
    if study != "choice":
        readings = [Reading(query.sentences[0].text, query.relation) for query in texts.queries]
        spaces = {name: Names(space.names) for name, space in texts.candidates.items()}
        names = [spaces[query.candidates] for query in texts.queries]
        return Simulated(study, texts.queries, readings, names, solved_items(asked_texts(texts)))
    nonce = NonceWords(excerpt_of(data, patterns), rules, pairs, seed)
    asked = choices(nonce.put_in(texts), options, seed, sharing_words=True)
    queries = [query for query in asked.queries if len(asked.candidates[query.id]) > 1]
    individuals = {word.lower() for words in nonce.of_rule.values() for word in words}
    names = [Names(asked.candidates[query.id].names) for query in queries]
    shown = [
        AskedText(
            (*(query.groups[key] for key in ("conclusion", "rule")), "1", PLAIN), query.groups["item"],
            query.groups["given"], asked.questions[query.id], own, query.gold[0], frozenset(),
        )
        for query, own in zip(queries, names, strict=True)
    ]  # fmt: skip
    readings = [Reading(asked.questions[query.id], query.relation, individuals) for query in queries]
    return Simulated(study, queries, readings, names, solved_items(shown))


def concluded(texts: Simulated, answerer: Answerer, world: World, seed: int) -> list[Conclusion]:
    """Return what the study concludes of an answerer; memory is its answer to premise 2 alone, asked once more."""
    credit, answers, memory = texts.study == "choice", [], {}
    for query, reading, names in zip(texts.queries, texts.readings, texts.names, strict=True):
        scores, own = answerer(reading, names, world), query.groups
        answers.append((own, value(scores, query, names.words, draw(seed, query.id), credit)))
        if (own["conclusion"], own["given"]) == (REMEMBERS, WHOLE):
            again = value(scores, query, names.words, draw("memory", seed, query.id), credit)
            memory.setdefault(own["rule"], {})[own["item"]] = again
    return judge(evidence_of("who", values_by_place(answers), [], memory, texts.solved, "made"))


def value(scores: Scores, query: Query, names: Collection[str], chance: float, credit: bool) -> float:
    """Return 1 / rank of the gold answer, or 1 if it is first, without the other right ones; ties at random."""
    known, own = {*query.known, *query.gold}, scores.get(query.gold[0], 0.0)
    rivals = [score for name, score in scores.items() if score > 0 and name not in known and name in names]
    above = sum(score > own for score in rivals)
    others = len(names) - len(known.intersection(names)) - len(rivals)
    tied = sum(score == own for score in rivals) if own else others
    rank = 1 + above + int(chance * (tied + 1))
    return float(rank == 1) if credit else 1 / rank


# --- the same answerers in the place of models


def knows(data: QuerySet, patterns: Patterns, rules: Sequence[str], known: float) -> World:
    """Return what an answerer knows of an ontology."""
    return world_of(argument_queries(data, patterns, rules, (1,), (PLAIN,), 1, 0, (REMEMBERS,)), patterns, known)


def scoring(answerer: Answerer, world: World) -> Callable[[Query, Sequence[str]], list[float]]:
    """Return the scores of a slot probe's candidates; a question for a sub-class is one about an individual."""

    def answer(query: Query, names: Sequence[str]) -> list[float]:
        text = query.sentences[0].text if query.sentences else f"<x> is a {query.subject} . Therefore, <x> is a [Y] ."
        scores = answerer(Reading(text, query.groups.get("rule", "rdfs9")), Names(names), world)
        return [scores.get(name, 0.0) + draw(query.id, name) / 1000 for name in names]

    return answer


class Reasoning(ScriptedChat):
    """A chat model that answers as an answerer does. :param individuals: made-up names of the questions."""

    def __init__(self, answerer: Answerer, world: World, individuals: Iterable[str], rule: str = "rdfs9") -> None:
        self.answerer, self.world, self.individuals, self.rule = answerer, world, frozenset(individuals), rule
        self.seen: set[str] = set()
        super().__init__(self._letter, answerer.__name__)
        self.identity = Identity(self.model, None, "server", f"{answerer.__name__} {world.known}")

    def _letter(self, text: str) -> str:
        self.seen.add(text)
        question, _, rest = text.partition("\n")[0].partition(" (a) ")
        options = re.split(r", \([b-z]\) ", rest)
        if found := re.fullmatch(r"What is the superclass of (.+)\?", question):
            question = f"<x> is a {found[1]} . Therefore, <x> is a [Y] ."
        reading = Reading(question, self.rule, self.individuals | MARKS)
        scores = self.answerer(reading, Names(options), self.world)
        best = max(options, key=lambda name: (scores.get(name, 0.0), draw(question, *options, name)))
        return f"({ascii_lowercase[options.index(best)]})"


KINDS = [f"kind{number}" for number in range(12)]


def write_things(where: Path) -> Path:
    """120 classes below 12: a hundred to test on."""
    folder = where / "ontology-of-things"
    (folder / "ontology").mkdir(parents=True)
    classes = [OntologyClass(f"http://x/{name}", name, (), ()) for name in KINDS]
    for number in range(120):
        name = f"thing{number}"
        classes.append(OntologyClass(f"http://x/{name}", name, (KINDS[number * 7 % 12],), ()))
    write_ontoprobe(folder, classes, [], [], {"subClassOf": task_lines(classes, [])["subClassOf"]})
    return folder
