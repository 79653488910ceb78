"""One small file per format; each reads a folder into a query set."""

from __future__ import annotations

import os
from pathlib import Path

from fathom.data.faults import Faults
from fathom.data.queries import QuerySet
from fathom.errors import BadInput
from fathom.formats.bear import is_bear, read_bear
from fathom.formats.biolama import is_biolama, read_biolama
from fathom.formats.choices import is_choices, read_choices
from fathom.formats.kamel import is_kamel, read_kamel
from fathom.formats.kg import is_kg, read_kg
from fathom.formats.lama import is_lama, read_lama
from fathom.formats.native import is_native, read_native
from fathom.formats.ontoprobe import is_ontoprobe, read_ontoprobe
from fathom.formats.openke import is_openke, read_openke
from fathom.formats.rdf import is_rdf, read_rdf

FORMATS = (
    (is_bear, read_bear),
    (is_kamel, read_kamel),
    (is_ontoprobe, read_ontoprobe),
    (is_choices, read_choices),
    (is_native, read_native),
    (is_biolama, read_biolama),
    (is_lama, read_lama),
    (is_openke, read_openke),
    (is_kg, read_kg),
    (is_rdf, read_rdf),
)
EMBEDDED = {"geography": Path(__file__).parent.parent / "data" / "geography"}
"""Data sets that come with the package."""


def locate(data: str | Path) -> Path:
    """A folder, a file of triples, the name of an embedded data set, or a path below ``$FATHOM_DATA``.

    :raises BadInput: none of them.
    """
    path = Path(data).expanduser()
    if path.exists():
        return path
    if str(data) in EMBEDDED:
        return EMBEDDED[str(data)]
    shelf = os.environ.get("FATHOM_DATA")
    if shelf and (Path(shelf) / data).is_dir():
        return Path(shelf) / data
    raise BadInput(
        f"no data at '{data}': give a folder, or one of {', '.join(EMBEDDED)}"
        + (f", or a folder below FATHOM_DATA={shelf}" if shelf else "")
    )


def examine(data: str | Path) -> tuple[QuerySet | None, Faults]:
    """Read a folder and keep what is wrong with it instead of raising; None where it cannot be read."""
    path = locate(data)
    faults = Faults()
    for fits, reader in FORMATS:
        if fits(path):
            return reader(path, faults), faults
    faults.add(
        path,
        None,
        "no format fits: expected facts.jsonl (docs/data-format.md), metadata_relations.json (BEAR), "
        "question-templates.csv (KAMEL), P19.jsonl or test.jsonl with masked_sentences (LAMA), "
        "wikidata_triples.jsonl or triples_processed (BioLAMA), ontology/class.json and memorizing (OntoProbe), "
        "JSON Lines of prompt and gold (multiple choice), "
        "train.tsv, dev.tsv and test.tsv or one file of head, relation and tail separated by tabs, train2id.txt "
        "(OpenKE), or .nt or .ttl files (RDF)",
    )
    return None, faults


def read(data: str | Path) -> QuerySet:
    """Read a folder of any known format. :raises BadInput: with every fault found, each with file and line."""
    queryset, faults = examine(data)
    faults.stop_if_any()
    assert queryset is not None
    return queryset
