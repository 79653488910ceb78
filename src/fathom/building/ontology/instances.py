"""Samples of the instances of classes, from a store at hand: what ``queries/instances.rq`` asks, without its plan.

A store answers that query in a millisecond or so, most of which is spent on understanding it: with 100,000 classes that
is most of the time that a build takes. Looking up the same statements by hand is three times as fast.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_BELOW = "http://www.w3.org/2000/01/rdf-schema#subClassOf"
_SAME = "http://www.w3.org/2002/07/owl#sameAs"
_PAIRS, _STEPS = 1 << 14, 1 << 17
"""Answers kept, about pairs of classes and what is one step above a class."""


class InstanceSampling(NamedTuple):
    """A choice of instances of each class.

    :param seed: decides their order.
    :param size: at most so many.
    :param namings: IRIs of properties that give labels, the best first.
    :param language: of these labels, in addition to those without one.
    """

    seed: int
    size: int
    namings: tuple[str, ...]
    language: str


class Instances:
    """A sampler of instances. :param store: a ``pyoxigraph.Store``, of which the default graph is read."""

    def __init__(self, store: Any, drawn: InstanceSampling) -> None:
        import pyoxigraph

        self._store, self._graph = store, pyoxigraph.DefaultGraph()
        self._node, self._literal = pyoxigraph.NamedNode, pyoxigraph.Literal
        self._type, self._below, self._same = map(self._node, (_TYPE, _BELOW, _SAME))
        self._namings = [self._node(iri) for iri in drawn.namings]
        self._seed, self._size, self._language = drawn.seed, drawn.size, drawn.language.lower()
        self._is_below, self._above = lru_cache(_PAIRS)(self._reaches), lru_cache(_STEPS)(self._one_step)

    def of(self, iri: str) -> Iterator[dict[str, str]]:
        """Yield ``instance``, ``types``, other IRIs (``same``), if any, and any ``label`` of each sampled thing.

        Before the label stands the place of its property.
        """
        class_ = self._node(iri)
        things = [quad.subject for quad in self._store.quads_for_pattern(None, self._type, class_, self._graph)]
        drawn = 0
        for thing in sorted((thing for thing in things if isinstance(thing, self._node)), key=self._lot):
            if drawn == self._size:
                return
            types = self._objects(thing, self._type)
            if not self._is_finest(class_, types):
                continue
            drawn += 1
            same = self._other_names(thing)
            types += [type_ for other in same for type_ in self._objects(other, self._type)]
            named = dict.fromkeys(type_.value for type_ in types if isinstance(type_, self._node))
            row = {"instance": thing.value, "types": " ".join(named)}
            if same:
                row["same"] = " ".join(other.value for other in same)
            if labels := self._labels(thing):
                row["label"] = min(labels)
            yield row

    def lost(self, left_out: Collection[str], kept: Collection[str]) -> Iterator[tuple[str, str]]:
        """Yield things of classes of *left_out* that :meth:`of` gives for no class of *kept*, each once with one of
        these.
        """
        for iri in sorted(left_out):
            for quad in self._store.quads_for_pattern(None, self._type, self._node(iri), self._graph):
                types = self._objects(quad.subject, self._type)
                named = [type_ for type_ in types if isinstance(type_, self._node)]
                if min(type_.value for type_ in named if type_.value in left_out) != iri:
                    continue
                drawn = any(type_.value in kept and self._is_finest(type_, types) for type_ in named)
                if isinstance(quad.subject, self._node) and not drawn:
                    yield quad.subject.value, iri

    def close(self) -> None:
        """Close the store."""
        self._store = None

    def _is_finest(self, class_: Any, types: Sequence[Any]) -> bool:
        """Return whether none of the other types of a thing is below one; classes above each other are equally fine."""
        return not any(
            other != class_ and self._is_below(other, class_) and not self._is_below(class_, other) for other in types
        )

    def _lot(self, thing: Any) -> str:
        return hashlib.md5(f"{self._seed} {thing.value}".encode(), usedforsecurity=False).hexdigest()

    def _objects(self, subject: Any, predicate: Any) -> list[Any]:
        return [quad.object for quad in self._store.quads_for_pattern(subject, predicate, None, self._graph)]

    def _other_names(self, thing: Any) -> list[Any]:
        seen, ahead = {thing: None}, [thing]
        while ahead:
            one = ahead.pop()
            quads = self._store.quads_for_pattern(None, self._same, one, self._graph)
            near = [*self._objects(one, self._same), *(quad.subject for quad in quads)]
            new = dict.fromkeys(other for other in near if other not in seen and not isinstance(other, self._literal))
            seen |= new
            ahead += new
        return list(seen)[1:]

    def _labels(self, thing: Any) -> list[str]:
        return [
            f"{place}{label.value}"
            for place, naming in enumerate(self._namings)
            for label in self._objects(thing, naming)
            if isinstance(label, self._literal) and self._reads((label.language or "").lower())
        ]

    def _reads(self, language: str) -> bool:
        """Match as SPARQL's LANGMATCHES does; labels without a language match too."""
        return language in ("", self._language) or language.startswith(f"{self._language}-")

    def _reaches(self, below: Any, above: Any) -> bool:
        seen, ahead = {below}, [below]
        while ahead:
            for upper in self._above(ahead.pop()):
                if upper == above:
                    return True
                if upper not in seen:
                    seen.add(upper)
                    ahead.append(upper)
        return False

    def _one_step(self, below: Any) -> tuple[Any, ...]:
        return tuple(upper for upper in self._objects(below, self._below) if not isinstance(upper, self._literal))
