"""``ontology/axioms.json``: axioms of an ontology in OntoProbe's layout, in addition to its hierarchies.

``{"inverse": [["parent of", "child of"]], "symmetric": ["spouse"], "transitive": ["part of"],
"disjoint": [["bird", "fish", "mammal"]]}``, all by label; any two classes of a group are disjoint. The published format
has no such file.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from fathom.errors import BadInput
from fathom.formats.ontoprobe import clean
from fathom.reading import is_there, json_file
from fathom.store.files import write_json

AXIOM_FILE = Path("ontology/axioms.json")
KINDS = ("inverse", "symmetric", "transitive", "disjoint")


class Axioms(NamedTuple):
    """Labels of properties, and of classes in disjoint groups."""

    inverse: list[tuple[str, str]]
    symmetric: list[str]
    transitive: list[str]
    disjoint: list[tuple[str, ...]]


def write_axioms(folder: Path, axioms: Axioms) -> None:
    """Write the axioms, if any, into a folder of an ontology."""
    if any(axioms):
        write_json(folder / AXIOM_FILE, axioms._asdict())


def read_axioms(folder: Path) -> Axioms:
    """Read axioms with cleaned names. :raises BadInput: a file of another form."""
    file = folder / AXIOM_FILE
    if not is_there(file):
        return Axioms([], [], [], [])
    try:
        axioms = TypeAdapter(Axioms).validate_python(json_file(file))
    except ValidationError as error:
        expected = '{"inverse": [["p", "q"]], "symmetric": ["p"], "transitive": ["p"], "disjoint": [["A", "B"]]}'
        raise BadInput(f"{file}: expected {expected}, found another form: {error.errors()[0]['msg']}") from error
    pairs = [(clean(one), clean(other)) for one, other in axioms.inverse]
    groups = [tuple(map(clean, group)) for group in axioms.disjoint]
    return Axioms(pairs, list(map(clean, axioms.symmetric)), list(map(clean, axioms.transitive)), groups)
