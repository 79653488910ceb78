"""Complete knowledge graphs: train link predictors, evaluate them, and find out what they remember and infer."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fathom.base.registry import CommandEntry

if TYPE_CHECKING:
    from fathom_kgc.api import evaluate_links, forecast_links, train_links
    from fathom_kgc.links.options import (
        Embedding,
        GenKgc,
        KgBert,
        Kgt5,
        KnnKge,
        LinkOptions,
        PromptedModel,
        SimKgc,
        Ultra,
    )

COMMAND = CommandEntry(
    "kgc",
    "Train",
    "Complete a knowledge graph: train link predictors and measure what they know.",
    "fathom_kgc.command:make",
)
"""What ``fathom --help`` needs."""
__all__ = [
    "Embedding",
    "GenKgc",
    "KgBert",
    "Kgt5",
    "KnnKge",
    "LinkOptions",
    "PromptedModel",
    "SimKgc",
    "Ultra",
    "evaluate_links",
    "forecast_links",
    "train_links",
]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"fathom_kgc has no '{name}': it has {', '.join(__all__)}")
        return getattr(import_module("fathom_kgc.api" if name.islower() else "fathom_kgc.links.options"), name)
