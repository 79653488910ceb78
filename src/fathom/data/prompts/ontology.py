"""Memorising tasks of ontologies and their texts (Wu et al., ACL 2023, table 3), for all probes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from fathom.data.queries import Query
from fathom.data.templates import ANSWER, SUBJECT

Patterns = Mapping[str, Mapping[str, str]]
"""Sentence patterns of properties, by task and name (:func:`fathom.data.formats.ontoprobe.read_patterns`)."""
_OF_CLASS = ("[X] is a [Y] .", "[X] has class [Y] .", "[X] is a particular [Y] .")
TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "type": _OF_CLASS,
    "subClassOf": _OF_CLASS,
    "subPropertyOf": ("[X] implies [Y] .",),
    "domain": (),
    "range": (),
}
"""Manual templates of each task; for domain and range see :func:`domain_sentence` and :func:`range_sentence`."""
TASKS = tuple(TEMPLATES)
CLASSES, PROPERTIES = "classes", "properties"
"""Names of the candidate sets."""
HIERARCHIES = {CLASSES: "subClassOf", PROPERTIES: "subPropertyOf"}
"""Tasks whose right answers are above what they ask about, by candidate set."""
RULES = {
    "rdfs2": "domain",
    "rdfs3": "range",
    "rdfs5": "subPropertyOf",
    "rdfs7": "subPropertyOf",
    "rdfs9": "subClassOf",
    "rdfs11": "subClassOf",
}
"""Rules of entailment, each with the memorising task of its premise P1."""
ENOUGH_ITEMS = 30
"""Items that a conclusion about reasoning by a rule needs."""
ONE_OF = "one of several"
"""Group of queries whose domain or range is one of several classes, such as the parts of a union."""
LIMITED = "One has to be a particular [Y] if "
"""Start of statements on domain and range."""
QUESTIONS = {
    "type": "What is the type of [X]?",
    "subClassOf": "What is the superclass of [X]?",
    "subPropertyOf": "What does [X] imply?",
}
"""Questions for chat models (section 5); a domain or range is "the type of it" (:mod:`fathom.data.prompts.choices`)."""


def one_of(query: Query) -> str:
    """Return why nothing follows from a query's domain or range, "" if its gold answers follow."""
    if ONE_OF not in query.groups:
        return ""
    return f"its {query.relation} is one of several classes ({', '.join(query.gold)}), so that none of them follows"


def domain_sentence(pattern: str, range_label: str | None) -> str:
    """Return the sentence for a property's domain (table 3), as in the reference code.

    "[X] plays for [Y] ." of range "sports team" → "One has to be a particular [Y] if one plays for a sports team .";
    "[X]'s mother is [Y] ." → "… if one has mother ."
    """
    owned = re.match(r"\[X\]'s (.+?) (?:is|are|contains?) ", pattern)
    clause = f"one has {owned[1]} ." if owned else pattern.replace(SUBJECT, "one")
    return f"{LIMITED}{clause.replace(ANSWER, _some(range_label))}"


def range_sentence(pattern: str, domain_label: str | None) -> str:
    """Return the sentence for a property's range, like :func:`domain_sentence`.

    Of domain "athlete" → "… if an athlete plays for that ."; "… if one is an animal's mother ."
    """
    owned = re.fullmatch(r"(\[X\].+?) (?:is|are|contains?) \[Y\] ?\.", pattern)
    clause = f"one is {owned[1]} ." if owned else pattern.replace(ANSWER, "that")
    return f"{LIMITED}{clause.replace(SUBJECT, _some(domain_label))}"


def with_article(label: str) -> str:
    """Return "an athlete", "a person"."""
    return f"{'an' if label[0].lower() in 'aeiou' else 'a'} {label}"


def _some(label: str | None) -> str:
    """Return "an athlete", "a person", or "something" if the class is unknown."""
    return "something" if label is None else with_article(label)


def few_items(answers: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a note on the rules with too few items for a conclusion, if any. :param answers: of each item, by rule."""
    few = [f"{rule} ({len(of_rule)})" for rule, of_rule in answers.items() if len(of_rule) < ENOUGH_ITEMS]
    needed = f"too few items to conclude anything about a rule ({ENOUGH_ITEMS} are needed)"
    return [f"{needed}: {', '.join(few)}"] if few else []


def one_answer(answers: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a note on the rules all of whose items have the same answer, if any."""
    alike = [rule for rule, of_rule in answers.items() if len(of_rule) >= ENOUGH_ITEMS and len(set(of_rule)) == 1]
    why = "whether memory is used cannot be concluded, as all items have one answer"
    return [f"{why}: {', '.join(alike)}"] if alike else []
