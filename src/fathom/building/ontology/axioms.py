"""What an ontology states besides who is above whom: inverse, symmetric and transitive properties, disjoint classes.

No task asks for it; the study of chains draws conclusions from it (:mod:`fathom.formats.axioms`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from fathom.building.ontology.notes import Notes
from fathom.building.ontology.sources import Source, rows_of, rows_of_lists
from fathom.formats.axioms import Axioms
from fathom.formats.ontoprobe import OntologyClass, OntologyProperty


def gather_axioms(
    sources: Sequence[Source],
    classes: Sequence[OntologyClass],
    properties: Sequence[OntologyProperty],
    notes: Notes,
) -> Axioms:
    """Those of the classes and properties that are there, by label and in their order."""
    of_property = {iri: found.label for found in properties for iri in found.iris}
    inverses = [
        (of_property[row["property"]], of_property[row["other"]])
        for row in rows_of(sources, "inverses")
        if row["property"] in of_property and row["other"] in of_property
    ]
    transitive = {
        of_property[row["property"]]
        for row in rows_of_lists(sources, "transitive", notes)
        if row["property"] in of_property
    }
    return Axioms(
        inverse=sorted({min(pair, pair[::-1]) for pair in inverses if pair[0] != pair[1]}),
        symmetric=sorted({one for one, other in inverses if one == other}),
        transitive=sorted(transitive),
        disjoint=_disjoint(sources, {found.iri: found.label for found in classes}),
    )


def _disjoint(sources: Sequence[Source], of_class: dict[str, str]) -> list[tuple[str, ...]]:
    """Pairs, and groups of which any two are disjoint. A server that does not follow lists was noted before."""
    groups: dict[str, dict[str, None]] = defaultdict(dict)
    for row in rows_of_lists(sources, "disjoint_classes", Notes()):
        name = row.get("group") or " ".join(sorted((row["class"], row["other"])))
        for iri in (row["class"], *([] if "group" in row else [row["other"]])):
            if iri in of_class:
                groups[name][of_class[iri]] = None
    return sorted({tuple(sorted(group)) for group in groups.values() if len(group) > 1})
