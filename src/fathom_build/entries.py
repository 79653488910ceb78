"""What ``fathom_build`` adds to Fathom."""

from __future__ import annotations

from fathom.base.commands import CommandEntry

COMMAND = CommandEntry(
    "build", "Data", "Make data folders from texts, graphs and ontologies.", "fathom_build.command:make"
)
