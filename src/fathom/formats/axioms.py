"""``ontology/axioms.json`` with an ontology in OntoProbe's layout: what is stated in addition to its hierarchies.

``{"inverse": [["parent of", "child of"]], "symmetric": ["spouse"], "transitive": ["part of"],
"disjoint": [["bird", "fish", "mammal"]]}``, all by label; of a group of classes any two are disjoint. Not a part of the
published format: a folder without it has none.
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
    """By label.

    :param inverse: pairs of properties that say the same the other way round.
    :param symmetric: properties that hold both ways.
    :param transitive: properties that reach as far as their steps do.
    :param disjoint: groups of classes of which any two have nothing in common.
    """

    inverse: list[tuple[str, str]]
    symmetric: list[str]
    transitive: list[str]
    disjoint: list[tuple[str, ...]]


def write_axioms(folder: Path, axioms: Axioms) -> None:
    """Into a folder of an ontology; nothing where there are none."""
    if any(axioms):
        write_json(folder / AXIOM_FILE, axioms._asdict())


def read_axioms(folder: Path) -> Axioms:
    """Names as they are asked. :raises BadInput: a file of another form."""
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
