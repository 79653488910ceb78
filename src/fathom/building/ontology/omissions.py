"""What an ontology says that is left out, counted by kind with examples."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from fathom.building.notes import Notes
from fathom.building.ontology.hierarchy import cycles, edges_of
from fathom.building.ontology.intake import short
from fathom.building.ontology.labels import OF_RDF
from fathom.building.ontology.sources import Row, Source, at_hand, rows_of

_OF_DESCRIPTIONS = (*OF_RDF, "http://www.w3.org/2004/02/skos/core#", "http://wikiba.se/ontology#")
"""Vocabularies whose instances are parts of an ontology's description."""


def outside(iris: Iterable[str], known: Collection[str]) -> list[str]:
    """Those that are not known, each once, but for RDF's own terms."""
    return sorted({iri for iri in iris if iri not in known and not iri.startswith(OF_RDF)})


def deprecated_terms(sources: Sequence[Source]) -> set[str]:
    """IRIs of what is no longer to be used."""
    return {row["term"] for row in rows_of(sources, "deprecated")}


def note_undeclared(sources: Sequence[Source], notes: Notes) -> None:
    """Instances of what nothing says to be a class, and of the class that has none."""
    notes.add_all(
        (row["thing"] for row in rows_of(at_hand(sources), "impossible")),
        "things are said to be of owl:Nothing, which has no instances: the ontology is inconsistent, and that is left "
        "out",
    )
    all_ = rows_of(at_hand(sources), "undeclared_classes")
    rows = [row for row in all_ if not row["class"].startswith(_OF_DESCRIPTIONS)]
    notes.add_all(
        [f"{row['class']} ({int(row['count']):,})" for row in rows],
        "names that have instances are left out, as nothing says that they are an owl:Class or rdfs:Class",
    )


def note_expressions(sources: Sequence[Source], notes: Notes) -> None:
    """Descriptions of classes that give no super-class, domain or range."""
    rows = rows_of(at_hand(sources), "expressions")
    notes.add_kinds(_kinds(rows), "descriptions of classes that give no super-class, domain or range are left out")


def note_unread(sources: Sequence[Source], notes: Notes) -> None:
    """Statements in a form that gives no item and no axiom."""
    notes.add_kinds(
        _kinds(rows_of(at_hand(sources), "unread")), "statements that no task or axiom comes of are left out"
    )


def _kinds(rows: Iterable[Row]) -> list[str]:
    """Counts by kind, each with an example: what has it, else what is in it."""
    kinds = []
    for row in rows:
        inside = f"with {row['inside']}" if "inside" in row else "of what has no IRI"
        example = f"of {short(row['example'])}" if "example" in row else inside
        kinds.append(f"{int(row['count']):,} {short(row['kind'])} (such as {example})")
    return kinds


def note_data_properties(sources: Sequence[Source], notes: Notes) -> None:
    """Properties that no task asks about."""
    iris = [row["property"] for row in rows_of(sources, "data_properties")]
    notes.add_all(outside(iris, ()), "properties of texts, numbers or dates (owl:DatatypeProperty) are left out")


def note_imports(sources: Sequence[Source], files: Collection[str], notes: Notes) -> None:
    """Ontologies that are imported and not among the files, and imports that come back to where they began.

    :param files: names of the files: an ontology without a name of its own is known by its file's.
    """
    rows = list(rows_of(at_hand(sources), "imports"))
    versions = {_bare(row["version"]): _bare(row["ontology"]) for row in rows if "version" in row}
    here = {_bare(row["ontology"]) for row in rows}
    steps = [
        (_bare(row["ontology"]), versions.get(_bare(row["imported"]), _bare(row["imported"])))
        for row in rows
        if "imported" in row
    ]
    lacking = sorted(
        {imported for _, imported in steps if imported not in here and imported.rpartition("/")[2] not in files}
    )
    notes.add_all(
        lacking, "ontologies that are imported are in none of the files (nothing is fetched; give them with --input)"
    )
    alone = [(one,) for one in dict.fromkeys(below for below, above in steps if below == above)]
    for cycle in (*alone, *cycles(edges_of(steps))):
        notes.append(f"imports come back to where they began: {' → '.join((*cycle, cycle[0]))}; each file is read once")


def _bare(iri: str) -> str:
    return iri.rstrip("#/")
