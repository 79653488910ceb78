"""Axioms other than hierarchies: inverse, symmetric and transitive properties, disjoint classes.

No task asks for it; the study of chains draws conclusions from it (:mod:`fathom.formats.axioms`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from fathom.building.notes import Notes
from fathom.building.ontology.omissions import outside
from fathom.building.ontology.sources import Source, rows_of_lists
from fathom.formats.axioms import Axioms
from fathom.formats.ontoprobe import OntologyClass


def axioms_of_properties(
    sources: Sequence[Source],
    home: Mapping[str, str],
    inverses: Mapping[str, Collection[str]],
    label_of: Mapping[str, str],
    notes: Notes,
) -> Axioms:
    """What is stated of properties that have a label, by label.

    :param home: of each property the one that stands for it.
    :param inverses: of these, those that say the same the other way round.
    """
    pairs = [(one, other) for one, others in inverses.items() for other in others]
    rows = [row["property"] for row in rows_of_lists(sources, "transitive", notes)]
    transitive = [home[iri] for iri in rows if iri in home]
    lacking = {iri for iri in (*(one for one, _ in pairs), *transitive) if iri not in label_of}
    notes.add_all(
        sorted(lacking | (set(rows) - home.keys())),
        "properties that are inverse, symmetric or transitive are left out of the axioms, as they have no label of "
        "their own, are deprecated or are of texts, numbers or dates",
    )
    named = [(label_of[one], label_of[other]) for one, other in pairs if one in label_of and other in label_of]
    return Axioms(
        inverse=sorted({min(pair, pair[::-1]) for pair in named if pair[0] != pair[1]}),
        symmetric=sorted({one for one, other in named if one == other}),
        transitive=sorted({label_of[iri] for iri in transitive if iri in label_of}),
        disjoint=[],
    )


def with_disjoint(axioms: Axioms, sources: Sequence[Source], classes: Sequence[OntologyClass], notes: Notes) -> Axioms:
    """The same with what is stated of the classes that are there."""
    return axioms._replace(disjoint=_disjoint(sources, {found.iri: found.label for found in classes}, notes))


def _disjoint(sources: Sequence[Source], of_class: Mapping[str, str], notes: Notes) -> list[tuple[str, ...]]:
    """Pairs, and groups of which any two are disjoint. A server that does not follow lists was noted before."""
    groups: dict[str, dict[str, None]] = defaultdict(dict)
    lacking: set[str] = set()
    for row in rows_of_lists(sources, "disjoint_classes", Notes()):
        name = row.get("group") or " ".join(sorted((row["class"], row["other"])))
        for iri in (row["class"], *([] if "group" in row else [row["other"]])):
            if iri in of_class:
                groups[name][of_class[iri]] = None
            else:
                lacking.add(iri)
    notes.add_all(
        outside(lacking, ()),
        "names in owl:disjointWith and the like are left out of the axioms, as they are of no class here or of one "
        "without a label of its own",
    )
    return sorted({tuple(sorted(group)) for group in groups.values() if len(group) > 1})
