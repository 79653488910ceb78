"""Make data sets: from texts, graphs, ontologies and Wikidata. Imports nothing that runs a model."""

from __future__ import annotations

from fathom.base.registry import CommandEntry

COMMAND = CommandEntry(
    "build", "Data", "Make data folders from texts, graphs and ontologies.", "fathom_build.command:make"
)
"""What ``fathom --help`` needs."""
