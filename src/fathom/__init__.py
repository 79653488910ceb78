"""Fathom measures what a language model knows. This is the table of contents; each name loads when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fathom._version import VERSION

if TYPE_CHECKING:  # the same for type checkers, which run nothing
    from fathom.api import (
        Result,
        evaluate_links,
        forecast,
        merge_runs,
        open_run,
        probe,
        resume_run,
        run_plan,
        train_links,
    )
    from fathom.data.knowledge import KnowledgeGraph
    from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
    from fathom.data.templates import Template
    from fathom.errors import BadInput, FathomError, RunFailed
    from fathom.formats import read as read_data
    from fathom.models.loading import load as load_model
    from fathom.models.loading import wrap as wrap_model
    from fathom.models.local import LocalModel
    from fathom.probes.options import (
        ClozeOptions,
        EmbeddingOptions,
        GenerationOptions,
        OntologyOptions,
        StatementOptions,
        VocabularyOptions,
    )
    from fathom.report.charts import plots
    from fathom.report.page import report as write_report
    from fathom.results.compare import compare
    from fathom.results.diff import diff
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
    "forecast",
    "load_model",
    "merge_runs",
    "open_run",
    "plant",
    "plots",
    "probe",
    "read_data",
    "resume_run",
    "run_plan",
    "train_links",
    "wrap_model",
    "write_report",
]
_WHERE = {
    name: module
    for module, names in {
        "fathom.api": "Result evaluate_links forecast merge_runs open_run probe resume_run run_plan train_links",
        "fathom.data.knowledge": "KnowledgeGraph",
        "fathom.data.queries": "CandidateSet Query QuerySet Relation",
        "fathom.data.templates": "Template",
        "fathom.errors": "BadInput FathomError RunFailed",
        "fathom.formats": "read_data",
        "fathom.models.loading": "load_model wrap_model",
        "fathom.models.local": "LocalModel",
        "fathom.probes.options": "ClozeOptions EmbeddingOptions GenerationOptions OntologyOptions StatementOptions "
        "VocabularyOptions",
        "fathom.report.charts": "plots",
        "fathom.report.page": "write_report",
        "fathom.results.compare": "compare",
        "fathom.results.diff": "diff",
        "fathom.store.folder": "RunFolder",
        "fathom.training.planting": "plant",
    }.items()
    for name in names.split()
}
"""Name → module."""
_NAMED_OTHERWISE = {"load_model": "load", "read_data": "read", "wrap_model": "wrap", "write_report": "report"}


def __dir__() -> list[str]:
    return sorted(__all__)


if not TYPE_CHECKING:  # else they would take every name for known

    def __getattr__(name: str) -> Any:
        if name == "watch":
            return import_module("fathom.watch")
        if name not in _WHERE:
            raise AttributeError(f"fathom has no '{name}': it has {', '.join(_WHERE)}")
        return getattr(import_module(_WHERE[name]), _NAMED_OTHERWISE.get(name, name))
