"""Versions, platform and times, recorded as circumstances."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fathom._version import VERSION

LIBRARIES = ("torch", "transformers", "tokenizers", "numpy", "peft", "bitsandbytes")
"""Libraries that can affect numbers and tokens."""
NOTED = ("versions", "platform", "begun", "resumed", "earlier_versions")
"""Keys that :func:`surroundings` may return."""


def surroundings(before: Mapping[str, Any]) -> dict[str, Any]:
    """Return what to record at the start of a session.

    :returns: ``versions`` of installed libraries, ``platform``, ``begun`` and ``resumed`` (UTC, ISO 8601),
        ``earlier_versions`` if they differ.
    """
    installed = {name: number for name in LIBRARIES if (number := _version(name))}
    versions = {"fathom": VERSION, "python": platform.python_version(), **installed}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    record: dict[str, Any] = {"versions": versions, "platform": platform.platform(), "begun": before.get("begun", now)}
    if before:
        record["resumed"] = now
    if before.get("versions", versions) != versions:
        record["earlier_versions"] = [*before.get("earlier_versions", ()), before["versions"]]
    return record


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
