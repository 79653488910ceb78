"""Fathom measures what a language model knows. This is the table of contents; each name loads when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fathom._version import VERSION

if TYPE_CHECKING:  # the same for type checkers, which run nothing
    from fathom.api import (
        Result,
        compare,
        diff,
        evaluate_links,
        merge_runs,
        open_run,
        plots,
        probe,
        train_links,
        write_report,
    )
    from fathom.data.knowledge import KnowledgeGraph
    from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
    from fathom.data.templates import Template
    from fathom.errors import BadInput, FathomError, RunFailed
    from fathom.formats import read as read_data
    from fathom.models.loading import load as load_model
    from fathom.models.loading import wrap as wrap_model
    from fathom.models.local import LocalModel
    from fathom.probes.ontology_options import OntologyOptions
    from fathom.probes.options import (
        ClozeOptions,
        EmbeddingOptions,
        GenerationOptions,
        StatementOptions,
        VocabularyOptions,
    )
    from fathom.store.folder import RunFolder
    from fathom.training.planting import plant

__version__ = VERSION

__all__ = [  # noqa: RUF022 # the version, then by name
    "__version__",
    "BadInput",
    "CandidateSet",
    "ClozeOptions",
    "EmbeddingOptions",
    "FathomError",
    "GenerationOptions",
    "KnowledgeGraph",
    "LocalModel",
    "OntologyOptions",
    "Query",
    "QuerySet",
    "Relation",
    "Result",
    "RunFailed",
    "RunFolder",
    "StatementOptions",
    "Template",
    "VocabularyOptions",
    "compare",
    "diff",
    "evaluate_links",
    "load_model",
    "merge_runs",
    "open_run",
    "plant",
    "plots",
    "probe",
    "read_data",
    "train_links",
    "wrap_model",
    "write_report",
]
_WHERE = {
    "BadInput": "fathom.errors",
    "CandidateSet": "fathom.data.queries",
    "ClozeOptions": "fathom.probes.options",
    "EmbeddingOptions": "fathom.probes.options",
    "FathomError": "fathom.errors",
    "GenerationOptions": "fathom.probes.options",
    "KnowledgeGraph": "fathom.data.knowledge",
    "LocalModel": "fathom.models.local",
    "OntologyOptions": "fathom.probes.ontology_options",
    "Query": "fathom.data.queries",
    "QuerySet": "fathom.data.queries",
    "Relation": "fathom.data.queries",
    "Result": "fathom.api",
    "RunFailed": "fathom.errors",
    "RunFolder": "fathom.store.folder",
    "StatementOptions": "fathom.probes.options",
    "Template": "fathom.data.templates",
    "VocabularyOptions": "fathom.probes.options",
    "compare": "fathom.api",
    "diff": "fathom.api",
    "evaluate_links": "fathom.api",
    "load_model": "fathom.models.loading",
    "merge_runs": "fathom.api",
    "open_run": "fathom.api",
    "plant": "fathom.training.planting",
    "plots": "fathom.api",
    "probe": "fathom.api",
    "read_data": "fathom.formats",
    "train_links": "fathom.api",
    "wrap_model": "fathom.models.loading",
    "write_report": "fathom.api",
}
_NAMED_OTHERWISE = {"load_model": "load", "read_data": "read", "wrap_model": "wrap"}


def __dir__() -> list[str]:
    return sorted(__all__)


if not TYPE_CHECKING:  # else they would take every name for known

    def __getattr__(name: str) -> Any:
        if name not in _WHERE:
            raise AttributeError(f"fathom has no '{name}': it has {', '.join(_WHERE)}")
        return getattr(import_module(_WHERE[name]), _NAMED_OTHERWISE.get(name, name))
