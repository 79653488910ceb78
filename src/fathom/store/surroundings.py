"""In which surroundings something was made: versions, platform, time. Circumstances, which decide nothing."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fathom._version import VERSION

LIBRARIES = ("torch", "transformers", "tokenizers", "numpy", "peft", "bitsandbytes")
"""Whose numbers and tokens they are, besides Fathom's own."""


NOTED = ("versions", "platform", "begun", "resumed", "earlier_versions")
"""What :func:`surroundings` may note."""


def surroundings(before: Mapping[str, Any]) -> dict[str, Any]:
    """What to note when a session begins.

    :param before: what earlier sessions noted; their versions are kept where these are others.
    :returns: ``versions`` (name → version, libraries that are not installed left out), ``platform``, ``begun`` and
        ``resumed`` (UTC, ISO 8601, to the second), ``earlier_versions``.
    """
    own = {"fathom": VERSION, "python": platform.python_version()}
    versions = own | {name: there for name in LIBRARIES if (there := _version(name))}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    found: dict[str, Any] = {"versions": versions, "platform": platform.platform(), "begun": before.get("begun", now)}
    if before:
        found["resumed"] = now
    if before.get("versions", versions) != versions:
        found["earlier_versions"] = [*before.get("earlier_versions", ()), before["versions"]]
    return found


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
