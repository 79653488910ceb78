"""The four constructions of Sakai et al. 2024, section 3: same graph, other texts.

Each is a pure function of a graph, the parts of it to change, a seed and options. Ids, triples and splits stay, so
every ``fact_id`` does. Worlds of one graph, seed and options share what they are made from (:class:`Materials`):
``virtual-er`` has the names of ``virtual-e`` and of ``virtual-r``, and ``fully-anonymised-ed`` the names of
``anonymised-e``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fathom.building.worlds.derangement import (
    NO_LABEL,
    Derangement,
    Matching,
    NoDerangement,
    derange,
    match_relations,
)
from fathom.building.worlds.forms import Case, Forms, forms_of
from fathom.building.worlds.masking import Masks, mask
from fathom.building.worlds.mentions import Mentions, find_mentions
from fathom.building.worlds.random_names import new_descriptions, new_names
from fathom.building.worlds.reidentification import TfIdf
from fathom.building.worlds.texts import Hasher
from fathom.building.worlds.world import (
    BASE,
    NewTexts,
    Variant,
    World,
    describe,
    follow,
    listed,
    parse_variants,
    rename_entities,
    rename_relations,
)
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.taking import is_blank, put_rows, take_rows
from fathom.errors import BadInput, all_of, refuse

LONGEST = 1_000_000
"""Characters: no name has so many."""
COLUMNS = {
    "name": ("entities", "name"),
    "mention": ("entities", "name"),
    "description": ("entities", "description"),
    "relation": ("relations", "name"),
}
"""Where the texts stand that a step of a construction exchanges, or what they are exchanged for."""


@dataclass(frozen=True)
class Options:
    """:param case: how names are looked for in descriptions: "exact"; "ignore", the letters A to Z alike; "auto", by
        which case counts in those names that have a capital letter.
    :param shortest_mention: characters a name needs to be looked for.
    :param sought: "all", other names and inflected forms, too; "names", names as they are written alone.
    :param rate: of a masked world: the share of entities that may still be re-identified from their descriptions.
    :param relax: where relations cannot all exchange names, move as many as possible and list the others."""

    case: Case = "auto"
    shortest_mention: int = 2
    sought: Literal["all", "names"] = "all"
    rate: float = 0.05
    relax: bool = False

    def __post_init__(self) -> None:
        if self.case not in ("auto", "exact", "ignore"):
            raise BadInput(f"case: expected auto, exact or ignore, found {self.case!r}")
        if self.sought not in ("all", "names"):
            raise BadInput(f"sought: expected all or names, found {self.sought!r}")
        if not 0 <= self.rate <= 1:
            raise BadInput(f"rate: expected 0 to 1, found {self.rate}")
        if not 1 <= self.shortest_mention <= LONGEST:
            raise BadInput(f"shortest_mention: expected 1 to {LONGEST:,}, found {self.shortest_mention}")


def base(graph: KnowledgeGraph) -> World:
    """The graph as it is."""
    return World(BASE, graph)


def virtual(graph: KnowledgeGraph, parts: str = "er", seed: int = 0, options: Options | None = None) -> World:
    """Names change hands (section 3.1); no entity keeps its string.

    :param parts: "e": names of entities are permuted by a random derangement, and mentions in descriptions follow.
        "r": names of relations are permuted by :func:`fathom.building.worlds.derangement.match_relations`.
        "d" alone: mentions follow the permutation, and the names of the entities stay; beside "e" it changes nothing.
    :raises BadInput: there are no such parts, or there is no such permutation; the message says why.
    """
    return make(f"virtual-{parts}", Materials(graph, seed, options))


def anonymised(graph: KnowledgeGraph, parts: str = "er", seed: int = 0, options: Options | None = None) -> World:
    """Names become random strings (section 3.2), each unique and none of the old ones.

    :param parts: "e": entities, and mentions in descriptions follow; "r": relations; "d" alone: only the mentions.
    :raises BadInput: there are no such parts, or too few different strings.
    """
    return make(f"anonymised-{parts}", Materials(graph, seed, options))


def inconsistent(graph: KnowledgeGraph, parts: str = "d", seed: int = 0, options: Options | None = None) -> World:
    """Descriptions contradict the graph (section 3.3).

    :param parts: "d": descriptions are permuted by a derangement. "e" and "d": names and descriptions move together,
        and mentions in descriptions stay as they are. "e" without "d": names move as in the virtual world, descriptions
        stay. "r": names of relations as in the virtual world.
    :raises BadInput: there are no such parts, or there is no such permutation; the message says why.
    """
    return make(f"inconsistent-{parts}", Materials(graph, seed, options))


def fully_anonymised(graph: KnowledgeGraph, parts: str = "d", seed: int = 0, options: Options | None = None) -> World:
    """Texts become random strings (section 3.4), descriptions too.

    :param parts: "e" and "r": names, as in the anonymised world. "d": descriptions become random strings of their own
        unigram model. Without "d", descriptions are those of the anonymised world.
    :raises BadInput: there are no such parts, or too few different strings.
    """
    return make(f"fully-anonymised-{parts}", Materials(graph, seed, options))


def masked(graph: KnowledgeGraph, parts: str = "ed", seed: int = 0, options: Options | None = None) -> World:
    """The anonymised world with its descriptions' rarest words masked, until TF-IDF re-identifies no larger share of
    the entities than ``options.rate``; see :mod:`fathom.building.worlds.masking`.

    :param parts: "e" and "r": names, as in the anonymised world. "d": mentions follow, and words are masked. Without
        "d", descriptions are those of the anonymised world.
    :raises BadInput: there are no such parts, no descriptions, or too few different strings.
    :raises MissingExtra: scikit-learn is not installed.
    """
    return make(f"masked-{parts}", Materials(graph, seed, options))


def make(variant: Variant | str, materials: Materials) -> World:
    """The world of that name; worlds of the same materials share the work.

    :raises BadInput: there is no such world, or none of this graph.
    """
    (found,) = parse_variants([str(variant)])
    refuse(why_not(found, materials))
    plan = {step: materials.texts(step, of(materials)) for step, of in _plan(found).items() if step in COLUMNS}
    world = World(found, materials.graph)
    if "mention" in plan and len(materials.described):
        masks = materials.masks if _is_masked(found) else None
        world = follow(world, materials.mentions, materials.options.shortest_mention, plan["mention"], masks)
    if "description" in plan:
        world = describe(world, plan["description"])
    if "name" in plan:
        world = rename_entities(world, plan["name"])
    return rename_relations(world, plan["relation"]) if "relation" in plan else world


def why_not(variant: Variant, materials: Materials) -> list[str]:
    """What prevents a world, without making it; the empty list where nothing does."""
    try:
        all_of(*(partial(of, materials) for of in dict.fromkeys(_plan(variant).values())))
    except BadInput as error:
        return list(dict.fromkeys(error.faults))
    return []


def _plan(variant: Variant) -> dict[str, Callable[[Materials], Any]]:
    """The steps that make a world, each with the material of its new texts; and what else there must be.

    Either descriptions become others, or mentions in them follow the names. In an inconsistent world they do neither
    where they stay.
    """
    e, r, d = (part in variant.parts for part in "erd")
    exchanging = variant.construction in ("virtual", "inconsistent")
    others = d and variant.construction in ("inconsistent", "fully-anonymised")
    names = attrgetter(("exchanged_together" if others else "exchanged") if exchanging else "random_names")
    plan: dict[str, Callable[[Materials], Any]] = {"name": names} if e else {}
    if others and exchanging:
        plan["description"] = names if e else attrgetter("exchanged_descriptions")
    elif others:
        plan["description"] = Materials.refuse_undescribed
    elif d or (e and variant.construction != "inconsistent"):
        plan["mention"] = names
    if d:
        plan["described"] = Materials.refuse_undescribed
    if _is_masked(variant):
        plan["attack"] = attrgetter("attack")
    if r:
        plan["relation"] = attrgetter("exchanged_relations" if exchanging else "random_relations")
    return plan


def _is_masked(variant: Variant) -> bool:
    return variant.construction == "masked" and "d" in variant.parts


class Materials:
    """Each is made when it is first asked for, and kept. What cannot be made raises BadInput, which says why."""

    def __init__(self, graph: KnowledgeGraph, seed: int = 0, options: Options | None = None) -> None:
        if seed < 0:
            raise BadInput(f"seed: expected 0 or more, found {seed}")
        self.graph, self.seed, self.options = graph, seed, options or Options()

    def generator(self, *purpose: str) -> np.random.Generator:
        """The same numbers for the same seed and purpose, whatever else is drawn."""
        return np.random.default_rng([self.seed, *"/".join(purpose).encode()])

    @cached_property
    def named(self) -> NDArray[np.int64]:
        """Rows of entities that have a name."""
        return np.flatnonzero(~is_blank(self.graph.entities.column("name")))

    @cached_property
    def described(self) -> NDArray[np.int64]:
        """Rows of entities that have a description."""
        return np.flatnonzero(~is_blank(self.graph.entities.column("description")))

    @cached_property
    def named_relations(self) -> NDArray[np.int64]:
        """Rows of relations that have a name."""
        return np.flatnonzero(~is_blank(self.graph.relations.column("name")))

    def refuse_undescribed(self) -> None:
        """:raises BadInput: no entity has a description."""
        if not len(self.described):
            raise BadInput("no entity has a description: there is nothing to change")

    @cached_property
    def forms(self) -> Forms:
        """What entities may be called."""
        return forms_of(self.graph.entities)

    @cached_property
    def mentions(self) -> Mentions:
        """Where names of entities stand in descriptions."""
        options, forms = self.options, self.forms if self.options.sought == "all" else None
        return find_mentions(self.graph, options.case, options.shortest_mention, forms)

    @cached_property
    def attack(self) -> TfIdf:
        """It knows all descriptions as they are. :raises MissingExtra: scikit-learn is not installed."""
        return TfIdf(take_rows(self.graph.entities.column("description"), self.described).to_pylist())

    @cached_property
    def masks(self) -> Masks:
        """Words to mask beside random names."""
        old = self.graph.entities.column("description")
        return mask(old, self.described, self.mentions, self.random_names, self.attack, self.options.rate)

    @cached_property
    def exchanged(self) -> Derangement:
        """Which entity's name each entity takes."""
        return self._derange(self.named, "name")

    @cached_property
    def exchanged_descriptions(self) -> Derangement:
        """Which entity's description each entity takes."""
        return self._derange(self.described, "description")

    @cached_property
    def exchanged_together(self) -> Derangement:
        """Which entity's name and description each entity takes."""
        return self._derange(self.named, "name", "description")

    @cached_property
    def exchanged_relations(self) -> Derangement:
        """Which relation's name each relation takes; itself where it keeps it."""
        if not len(self.named_relations):
            raise BadInput("no relation has a name: there is nothing to change")
        if len(self._matching.blocked) and not self.options.relax:
            raise BadInput(self._why_blocked(self._matching))
        return Derangement(self._matching.source, "maximum matching (Hopcroft-Karp)")

    @cached_property
    def random_names(self) -> pa.ChunkedArray:
        """Names of the entities, a random one for each that has a name."""
        return self._random("entity", self.graph.entities, self.named)

    @cached_property
    def random_relations(self) -> pa.ChunkedArray:
        """Names of the relations, a random one for each that has a name."""
        return self._random("relation", self.graph.relations, self.named_relations)

    def texts(self, what: str, made: Derangement | pa.ChunkedArray | None) -> NewTexts:
        """The texts that stand in a world.

        :param what: one of :data:`COLUMNS`.
        :param made: whose each becomes, or the texts themselves; None for random descriptions, which are not kept.
        """
        table, column = COLUMNS[what]
        old = getattr(self.graph, table).column(column)
        if isinstance(made, Derangement):
            return NewTexts(take_rows(old, made.source), *made)
        random = new_descriptions(old, self.generator("random", "descriptions")) if made is None else made
        return NewTexts(random, None, "random strings")

    def _random(self, bearer: str, table: pa.Table, rows: NDArray[np.int64]) -> pa.ChunkedArray:
        if not len(rows):
            raise BadInput(f"no {bearer} has a name: there is nothing to change")
        old, bearers = table.column("name"), {"entity": "entities", "relation": "relations"}[bearer]
        names = new_names(take_rows(old, rows), len(rows), self.generator("random", bearers), bearers)
        return put_rows(old, rows, names)

    @cached_property
    def _matching(self) -> Matching:
        labels = np.full(len(self.graph.relations), NO_LABEL)
        labels[self.named_relations] = _labels(self.graph.relations.column("name"), self.named_relations)
        return match_relations(self.graph, labels, self.generator("relations"))

    def _why_blocked(self, found: Matching) -> str:
        ids, named = self.graph.relations.column("id"), self.named_relations
        if len(named) == 1:
            one = "the graph has one relation" if len(ids) == 1 else "only one relation has a name"
            return (
                f"{one}, {listed(named, ids)}: there is none to exchange its name with; leave out virtual and "
                "inconsistent worlds with r, or let it keep its name by --relax (in a study's plan, relax: true)"
            )
        if len(found.donors):
            may = f"could take only the names of {listed(found.donors, ids)}, which are too few"
        else:
            may = "could take no other's name"
        relaxed = f"moves {found.moved} and lists those that stay" if found.moved else "moves none of them"
        return (
            f"no derangement of the {len(named)} relations exists: {listed(found.blocked, ids)} {may}; two relations "
            f"may exchange names only if these differ and no pair of entities is linked by both; --relax {relaxed} "
            "(in a study's plan, relax: true)"
        )

    def _derange(self, rows: NDArray[np.int64], *columns: str) -> Derangement:
        """Entities of *rows*, which all have a text in the first of the columns, exchange those of all columns."""
        if not len(rows):
            raise BadInput(f"no entity has a {columns[0]}: there is nothing to change")
        if len(rows) == 1:
            raise BadInput(f"only one entity has a {columns[0]}: there is nothing to exchange it with")
        labels = [_labels(self.graph.entities.column(column), rows) for column in columns]
        try:
            found = derange(labels, self.generator("exchange", " and ".join(columns)))
        except NoDerangement as error:
            raise BadInput(self._why_not(rows, columns, labels, error.label)) from None
        source = np.arange(len(self.graph.entities))
        source[rows] = rows[found.source]
        return Derangement(source, found.method)

    def _why_not(
        self, rows: NDArray[np.int64], columns: tuple[str, ...], labels: list[NDArray[np.int64]], label: int | None
    ) -> str:
        if label is None:
            kept = " or its ".join(columns)
            return f"no permutation was found in which no entity keeps its {kept}: too many are the same"
        for column, labeling in zip(columns, labels, strict=True):
            bearers = rows[labeling == label]
            if 2 * len(bearers) > len(rows):
                text = self.graph.entities.column(column)[int(bearers[0])].as_py()
                return (
                    f"{text[:60]!r} is the {column} of {len(bearers):,} of {len(rows):,} entities, more than half: in "
                    f"every permutation some entity would keep its {column}"
                )
        raise AssertionError("a label that is too frequent was reported and not found")


def _labels(texts: pa.ChunkedArray, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """A number for each of *rows*, equal for equal texts; :data:`NO_LABEL` for blank ones.

    By 64-bit hashes: were two different texts taken for equal, they would only not change places.
    """
    numbers = np.unique(Hasher().rows(texts)[rows], return_inverse=True)[1].astype(np.int64)
    numbers[is_blank(texts)[rows]] = NO_LABEL
    return numbers
