"""The shape of an ontology with made-up names: neither memory nor overlap of words can answer.

Each class, property and thing gets a word of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fathom.data.formats.ontology import Axioms
from fathom.data.formats.ontoprobe import OntologyClass, OntologyProperty, clean
from fathom.data.nonce import nonce_words
from fathom.data.templates import ANSWER, SUBJECT
from fathom_build.ontology.gathering import Properties
from fathom_build.ontology.sides import Classes


class NonceNames:
    """Nonce words by original name, in the order of the names."""

    def __init__(self, classes: Classes, properties: Properties, seed: int) -> None:
        words = nonce_words(seed)
        axioms = properties.axioms
        in_axioms = (*axioms.symmetric, *axioms.transitive, *(name for pair in axioms.inverse for name in pair))
        in_entries = (name for entry in properties.entries for name in (entry.label, *entry.superproperties))
        in_classes = (name for entry in classes.entries for name in (entry.label, *entry.superclasses))
        things = (clean(name) for entry in classes.entries for name in entry.instances)
        self.properties = {name: f"{next(words)}s" for name in _sorted(in_axioms, in_entries)}
        self.classes = {name: next(words) for name in _sorted(in_classes)}
        self.things = {name: next(words).capitalize() for name in _sorted(things)}

    def lines(self) -> Iterator[str]:
        """Yield a line for each name: what it names, the original and the nonce word."""
        for kind in ("classes", "properties", "things"):
            yield from (f"{kind}\t{name}\t{word}\n" for name, word in getattr(self, kind).items())

    def rename(self, classes: Classes, properties: Properties, axioms: Axioms) -> tuple[Classes, Properties, Axioms]:
        """Return an ontology of the same shape. IRIs are replaced, too."""
        types = {
            self.things[name]: self._classes(kinds) for name, kinds in classes.types.items() if name in self.things
        }
        renamed = Axioms(
            [(self.properties[one], self.properties[other]) for one, other in axioms.inverse],
            [self.properties[name] for name in axioms.symmetric],
            [self.properties[name] for name in axioms.transitive],
            [self._classes(group) for group in axioms.disjoint],
        )
        return (
            classes._replace(entries=list(map(self._class, classes.entries)), types=types, from_iris=()),
            properties._replace(entries=list(map(self._property, properties.entries)), defaults=set(), from_iris=()),
            renamed,
        )

    def _class(self, entry: OntologyClass) -> OntologyClass:
        word = self.classes[entry.label]
        things = dict.fromkeys(self.things[clean(name)] for name in entry.instances)
        return OntologyClass(f"urn:nonce:{word}", word, self._classes(entry.superclasses), tuple(things))

    def _property(self, entry: OntologyProperty) -> OntologyProperty:
        word = self.properties[entry.label]
        return entry._replace(
            iris=(f"urn:nonce:{word}",),
            label=word,
            domains=self._classes(entry.domains),
            ranges=self._classes(entry.ranges),
            superproperties={self.properties[name]: _pattern(self.properties[name]) for name in entry.superproperties},
            pattern=_pattern(word),
        )

    def _classes(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(self.classes[name] for name in names)


def _pattern(word: str) -> str:
    return f"{SUBJECT} {word} {ANSWER} ."


def _sorted(*names: Iterable[str]) -> list[str]:
    return sorted({name for own in names for name in own})
