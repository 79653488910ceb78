"""The command that made a run: kept in its manifest, shown by ``fathom show``, repeated by ``fathom resume``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fathom.base.options import typed
from fathom.probes import PROBES
from fathom.probes.options import ProbeOptions

Command = Mapping[str, Any]
"""``probe``, ``model``, ``data`` and ``options`` that differ from their defaults."""
_FILES = ("adapter", "tokenizer")
"""Options that are names of a hub or folders here."""


def command_of(probe: str, model: object, data: object, options: ProbeOptions) -> Command | None:
    """Return the command of a run, with absolute paths; None for models and data that have no name.

    It has no keys: options name the environment variable with a key, and addresses with a password are refused.
    """
    if not isinstance(model, str | Path) or not isinstance(data, str | Path):
        return None
    given = options.model_dump(mode="json", exclude_defaults=True)
    for name, value in given.items():
        if name in _FILES or isinstance(getattr(options, name), Path):
            given[name] = _absolute(value)
    return {"probe": probe, "model": _absolute(model), "data": _absolute(data), "options": given}


def _absolute(name: str | Path) -> str:
    return str(Path(name).absolute()) if Path(name).exists() else str(name)


def command_line(command: Command, out: Path) -> str:
    kind = PROBES.find(command["probe"]).options
    words = ["fathom", "probe", command["probe"], "--model", command["model"], "--data", command["data"]]
    words += [word for name, value in command["options"].items() for word in typed(kind, name, value)]
    return shlex.join([*words, "--out", str(out)])
