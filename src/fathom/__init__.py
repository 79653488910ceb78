"""Fathom measures what a language model knows. This is the table of contents; each name loads when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_WHERE = {
    "BadInput": "fathom.errors",
    "CandidateSet": "fathom.data.queries",
    "ClozeOptions": "fathom.probes.options",
    "EmbeddingOptions": "fathom.probes.options",
    "FathomError": "fathom.errors",
    "GenerationOptions": "fathom.probes.writing_options",
    "KnowledgeGraph": "fathom.data.knowledge",
    "LocalModel": "fathom.models.local",
    "OntologyOptions": "fathom.probes.options",
    "Query": "fathom.data.queries",
    "QuerySet": "fathom.data.queries",
    "Relation": "fathom.data.queries",
    "Result": "fathom.api",
    "RunFailed": "fathom.errors",
    "RunFolder": "fathom.store.folder",
    "StatementOptions": "fathom.probes.options",
    "Template": "fathom.data.templates",
    "VocabularyOptions": "fathom.probes.writing_options",
    "compare": "fathom.api",
    "diff": "fathom.api",
    "evaluate_links": "fathom.api",
    "load_model": "fathom.models.loading",
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

__all__ = ["__version__", *_WHERE]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"fathom has no '{name}': it has {', '.join(_WHERE)}")
    return getattr(import_module(_WHERE[name]), _NAMED_OTHERWISE.get(name, name))


def __dir__() -> list[str]:
    return sorted(__all__)
