"""Names of classes and properties: which of their labels counts, and the end of an IRI without one."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from fathom.base.errors import refuse
from fathom.data.formats.ontoprobe import clean, has_words
from fathom.data.formats.rdf_syntax import name_of, one_line
from fathom_build.ontology.sources import Row, places_of
from fathom_build.sheets import Notes

PREFIXES = {
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "schema": "https://schema.org/",
    "dc": "http://purl.org/dc/elements/1.1/",
    "dcterms": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "obo": "http://purl.obolibrary.org/obo/",
}
"""Short forms that ``--label-property`` takes."""
OF_RDF = (
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "http://www.w3.org/2000/01/rdf-schema#",
    "http://www.w3.org/2002/07/owl#",
)
"""Vocabularies whose own terms (owl:Thing) are not expected in an ontology."""
LANGUAGE, LABEL_PROPERTIES = "en", ("rdfs:label", "skos:prefLabel")
_LANGUAGE_TAG = re.compile(r"[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*")
_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]+")
_OPAQUE = re.compile(r"(?:urn:uuid:)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{16,}", re.IGNORECASE)
"""UUIDs and digests."""
_WORD_ENDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[_\s-]+")


def outside(iris: Iterable[str], known: Collection[str]) -> list[str]:
    """Return the unknown IRIs, each once, except RDF's own terms."""
    return sorted({iri for iri in iris if iri not in known and not iri.startswith(OF_RDF)})


class Naming(NamedTuple):
    """Rules for choosing labels.

    :param language: a language tag: labels in it, then in its variants (en-GB), then those without a language.
    :param properties: IRIs, or short forms (skos:prefLabel), the best first.
    :param from_iris: name what has no label by the end of its IRI; without it only if most classes, or properties, have
        none.
    """

    language: str = LANGUAGE
    properties: tuple[str, ...] = LABEL_PROPERTIES
    from_iris: bool = False

    def iris(self) -> list[str]:
        """Return the IRIs of the label properties. :raises BadInput: a language or property that is none."""
        faults = []
        if not _LANGUAGE_TAG.fullmatch(self.language):
            faults.append(f"--language {self.language!r}: expected a language tag, such as en, pt or zh-Hant")
        resolved = []
        for given in self.properties:
            short, _, name = given.partition(":")
            resolved.append(PREFIXES[short] + name if short in PREFIXES else given.strip("<>"))
            known_form = resolved[-1] != given or "//" in given or given.startswith("urn:")
            if not known_form or not _IRI.fullmatch(resolved[-1]):
                known = ", ".join(f"{prefix}:" for prefix in PREFIXES)
                faults.append(f"--label-property {given!r}: expected an IRI, or a name after one of {known}")
        refuse(faults)
        return resolved

    def values(self) -> dict[str, object]:
        """Return the values of the queries' places ``$language`` and ``$namings``."""
        return {"language": self.language, "namings": places_of(self.iris())}

    def reads(self, language: str | None) -> bool:
        """Return whether labels of a language count, None for those without one."""
        return language is None or f"{language.lower()}-".startswith(f"{self.language.lower()}-")


class _Label(NamedTuple):
    """Sorted by preference: the language itself before its variants, those before labels without one; of these by the
    label property."""

    rank: tuple[int, int]
    text: str


Labels = Mapping[str, _Label | None]


class GoodLabels(NamedTuple):
    """:param label_of: labels by IRI, of what has a good one.
    :param from_iris: those among these labels that are ends of IRIs.
    :param bare: how many things have no label.
    :param twins: of what is left out as it has the label of another, that label by IRI: it is right of what is below.
    """

    label_of: dict[str, str]
    from_iris: list[str]
    bare: int
    twins: dict[str, str]


def best_labels(rows: Iterable[Row], variable: str, language: str = LANGUAGE) -> dict[str, _Label | None]:
    """Return the best label of each IRI, in the order of their first rows."""
    best: dict[str, _Label | None] = {}
    for row in rows:
        before = best.setdefault(row[variable], None)
        if "label" in row:
            given = row.get("language", "")
            tongue = 0 if given.lower() == language.lower() else 1 if given else 2
            label = _Label((tongue, int(row.get("place", 0))), one_line(row["label"]))
            best[row[variable]] = label if before is None else min(before, label)
    return best


def good_labels(iris: Sequence[str], labels: Labels, kind: str, naming: Naming, notes: Notes) -> GoodLabels:
    """Return labels by IRI. Missing, unreadable and repeated ones are left out and noted."""
    ends = _ends_of_iris(iris, labels, naming)
    good: dict[str, str] = {}
    taken: dict[str, str] = {}
    twins: dict[str, str] = {}
    lacking, unreadable, same = [], [], []
    for iri in iris:
        label = labels[iri]
        text = ends.get(iri) if label is None else label.text
        if text is None:
            lacking.append(iri)
        elif not has_words(text):
            unreadable.append(f"{iri} ({text!r})")
        elif clean(text) in taken:
            same.append(f"{text!r} ({iri}, not {taken[clean(text)]})")
            twins[iri] = good[taken[clean(text)]]
        else:
            good[iri], taken[clean(text)] = text, iri
    expected = f"{' or '.join(naming.properties)}, @{naming.language} or without a language"
    option = "their IRIs give no names" if ends or naming.from_iris else "--names-from-iris names them by their IRIs"
    notes.add_all(lacking, f"of {len(iris):,} {kind} have no label ({expected}) and are left out; {option}")
    notes.add_all(unreadable, f"{kind} with a label without letters or digits are left out")
    notes.add_all(same, f"{kind} have the label of another and are left out")
    called = [good[iri] for iri in ends if iri in good]
    notes.add_all(
        called,
        f"of {len(iris):,} {kind} are named by the end of their IRI (--names-from-iris), as they have no label "
        f"({expected}); --label-property and --language read others",
    )
    return GoodLabels(good, called, sum(labels[iri] is None for iri in iris), twins)


def words_in_name(name: str) -> str:
    """Split a name into words: "hasDNASequence" → "has DNA sequence"; an identifier ("GO_0008150") into ""."""
    if re.search(r"\d{4}", name) or not re.search(r"[^\W\d_]{2}", name):
        return ""
    words = [word for word in _WORD_ENDS.split(name) if word]
    return " ".join(word if len(word) > 1 and word.isupper() else word.lower() for word in words)


def is_code(name: str) -> bool:
    """Return whether the end of an IRI is an identifier: "Q42", "GO 0008150", a UUID, but not "UB40", "Player 7".

    It has a digit, no word but in capitals, and four digits in a row or no word at all.
    """
    if _OPAQUE.fullmatch(name):
        return True
    words = re.findall(r"[^\W\d_]{2,}", name)
    coded = all(word.isupper() for word in words) and re.search(r"\d", name)
    return bool(coded) and not (words and not re.search(r"\d{4}", name))


def _ends_of_iris(iris: Sequence[str], labels: Labels, naming: Naming) -> dict[str, str]:
    """Return names from the IRIs without labels, if requested or if most have no label."""
    if not naming.from_iris and 2 * sum(labels[iri] is not None for iri in iris) >= len(iris):
        return {}
    bare = [iri for iri in iris if labels[iri] is None and not iri.startswith(OF_RDF)]
    names = {iri: words_in_name(name_of(iri)) for iri in bare}
    return {iri: name for iri, name in names.items() if name}
