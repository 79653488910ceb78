"""Fathom measures what a language model knows. This is the table of contents; each name loads when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fathom._version import VERSION

if TYPE_CHECKING:  # the same for type checkers, which run nothing
    from fathom.api import (
        Result,
        forecast,
        merge_runs,
        open_run,
        probe,
        resume_run,
        run_plan,
    )
    from fathom.base.errors import BadInput, FathomError, RunFailed
    from fathom.data.formats import read as read_data
    from fathom.data.knowledge import KnowledgeGraph
    from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
    from fathom.data.templates import Template
    from fathom.engine.models.loading import load as load_model
    from fathom.engine.models.loading import wrap as wrap_model
    from fathom.engine.models.local import LocalModel
    from fathom.probes.options import (
        ChoiceOptions,
        ClozeOptions,
        EmbeddingOptions,
        GenerationOptions,
        OntologyOptions,
        StatementOptions,
        VocabularyOptions,
    )
    from fathom.results.compare import compare
    from fathom.results.diff import diff
    from fathom.store.folder import RunFolder
    from fathom.studies.report.charts import plots
    from fathom.studies.report.figure import write_figure
    from fathom.studies.report.page import report as write_report
    from fathom.training.planting import plant

__version__ = VERSION

__all__ = [  # noqa: RUF022 # the version, then by name
    "__version__",
    "BadInput",
    "CandidateSet",
    "ChoiceOptions",
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
    "wrap_model",
    "write_figure",
    "write_report",
]
_WHERE = {
    name: module
    for module, names in {
        "fathom.api": "Result forecast merge_runs open_run probe resume_run run_plan",
        "fathom.data.knowledge": "KnowledgeGraph",
        "fathom.data.queries": "CandidateSet Query QuerySet Relation",
        "fathom.data.templates": "Template",
        "fathom.base.errors": "BadInput FathomError RunFailed",
        "fathom.data.formats": "read_data",
        "fathom.engine.models.loading": "load_model wrap_model",
        "fathom.engine.models.local": "LocalModel",
        "fathom.probes.options": "ChoiceOptions ClozeOptions EmbeddingOptions GenerationOptions OntologyOptions "
        "StatementOptions VocabularyOptions",
        "fathom.studies.report.charts": "plots",
        "fathom.studies.report.figure": "write_figure",
        "fathom.studies.report.page": "write_report",
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


def _elsewhere(name: str) -> str:
    """Return where a package on top of Fathom has a name that belonged to Fathom, "" if none has."""
    from importlib.metadata import entry_points

    places = [point.value.replace(":", ".") for point in entry_points(group="fathom.names", name=name)]
    return ", ".join(places)


if not TYPE_CHECKING:  # else they would take every name for known

    def __getattr__(name: str) -> Any:
        if name == "watch":
            return import_module("fathom.watch")
        if name not in _WHERE and (place := _elsewhere(name)):  # else ``from fathom import NAME`` would not say it
            raise ImportError(f"fathom has no '{name}' any more: it is {place}")
        if name not in _WHERE:
            raise AttributeError(f"fathom has no '{name}': it has {', '.join(_WHERE)}")
        return getattr(import_module(_WHERE[name]), _NAMED_OTHERWISE.get(name, name))
