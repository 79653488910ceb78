"""Memorising tasks of ontologies and their wordings (Wu et al., ACL 2023, table 3), for every way of asking them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from fathom.data.queries import Query
from fathom.data.templates import ANSWER, SUBJECT

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
RULES = {
    "rdfs2": "domain",
    "rdfs3": "range",
    "rdfs5": "subPropertyOf",
    "rdfs7": "subPropertyOf",
    "rdfs9": "subClassOf",
    "rdfs11": "subClassOf",
}
"""Rules of entailment, each with the memorising task that asks for its premise P1."""
ONE_OF = "one of several"
"""Group of the queries for a domain or range that is one of several classes, such as the parts of a union."""
LIMITED = "One has to be a particular [Y] if "
"""How statements on domain and range begin."""
QUESTIONS = {
    "type": "What is the type of [X]?",
    "subClassOf": "What is the superclass of [X]?",
    "subPropertyOf": "What does [X] imply?",
}
"""What is asked of chat models (section 5); a domain or range is "the type of it" (:mod:`fathom.prompts.choices`)."""


def one_of(query: Query) -> str:
    """Why nothing follows from the domain or range that a query asks for, "" where its right answers follow."""
    if ONE_OF not in query.groups:
        return ""
    return f"its {query.relation} is one of several classes ({', '.join(query.gold)}), so that none of them follows"


def domain_sentence(pattern: str, range_label: str | None) -> str:
    """What asks for a property's domain (table 3), as the reference code words it.

    "[X] plays for [Y] ." of range "sports team" → "One has to be a particular [Y] if one plays for a sports team .";
    "[X]'s mother is [Y] ." → "… if one has mother ."
    """
    owned = re.match(r"\[X\]'s (.+?) (?:is|are|contains?) ", pattern)
    clause = f"one has {owned[1]} ." if owned else pattern.replace(SUBJECT, "one")
    return f"{LIMITED}{clause.replace(ANSWER, _some(range_label))}"


def range_sentence(pattern: str, domain_label: str | None) -> str:
    """What asks for a property's range (table 3), as the reference code words it.

    "[X] plays for [Y] ." of domain "athlete" → "One has to be a particular [Y] if an athlete plays for that .";
    "[X]'s mother is [Y] ." → "… if one is an animal's mother ."
    """
    owned = re.fullmatch(r"(\[X\].+?) (?:is|are|contains?) \[Y\] ?\.", pattern)
    clause = f"one is {owned[1]} ." if owned else pattern.replace(ANSWER, "that")
    return f"{LIMITED}{clause.replace(SUBJECT, _some(domain_label))}"


def with_article(label: str) -> str:
    """ "an athlete", "a person"."""
    return f"{'an' if label[0].lower() in 'aeiou' else 'a'} {label}"


def _some(label: str | None) -> str:
    """ "an athlete", "a person", or "something" where the class is not known."""
    if label is None:
        return "something"
    return with_article(label)
