"""What is asked of a run, made once: its probe, model, data and options; and the command that made it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from copy import copy
from pathlib import Path
from typing import Any

from fathom.base.options import config_only, typed
from fathom.base.reading.replies import without_secrets
from fathom.base.rights import ADDRESSES
from fathom.data.queries import QuerySet
from fathom.data.selection.filters import SelectedData, narrow, select, with_relation_ids
from fathom.probes import PROBES, Entry
from fathom.probes.options import EvaluationOptions, ProbeOptions


class RunRequest:
    """A run to make. Options are completed, and data narrowed, by the constructor and nowhere else.

    Relations that options give by their labels are replaced by their ids, so both are the same run.

    :param probe: its name, or the entry of one that only studies use.
    :param model: its name, or an open model; see :meth:`with_model`.
    :param data: as it was read.
    :raises BadInput: options that the data do not have, or no query left.
    """

    def __init__(self, probe: str | Entry, model: Any, data: QuerySet, options: EvaluationOptions) -> None:
        self.entry = PROBES.find(probe) if isinstance(probe, str) else probe
        self.model, self.source = model, data
        self.options: Any = self.entry.load().complete_options(with_relation_ids(data, options), data)
        self._narrowed = narrow(data, self.options)

    def with_model(self, model: Any) -> RunRequest:
        """Return the same request of another model."""
        changed = copy(self)
        changed.model = model
        return changed

    def with_options(self, **changes: object) -> RunRequest:
        """Return the same request with other values of options that narrow no data, such as ``limit``."""
        changed = copy(self)
        changed.options = self.options.model_copy(update=changes)
        return changed

    def select(self) -> SelectedData:
        """Return the part of the data that is asked, as the probe needs it.

        :raises BadInput: nothing is left, or the options count tokens and the model (a chat server) has no tokenizer.
        """
        from fathom.engine.scoring.tokens import token_counter

        count = None if self.model.tokenizer is None else token_counter(self.model.tokenizer)
        selection = select(self._narrowed, self.options, count)
        return selection._replace(data=self.entry.load().prepare_queries(self.options, selection.data))

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the narrowed data, which workers elsewhere narrow anew."""
        return {name: value for name, value in vars(self).items() if name != "_narrowed"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._narrowed = narrow(self.source, self.options)


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
    changed = options.model_dump(mode="json", exclude_defaults=True)
    for name, value in changed.items():
        if name in _FILES or isinstance(getattr(options, name), Path):
            changed[name] = _absolute(value)
    return {"probe": probe, "model": _absolute(model), "data": _absolute(data), "options": changed}


def _absolute(name: str | Path) -> str:
    return str(Path(name).absolute()) if Path(name).exists() else str(name)


def command_line(command: Command, out: Path) -> str:
    """Return what to type, without secrets in addresses; options without a flag follow as a comment."""
    kind = PROBES.find(command["probe"]).options
    words = ["fathom", "probe", command["probe"], "--model", command["model"], "--data", command["data"]]
    options = {
        name: without_secrets(str(value)) if name in ADDRESSES and value else value
        for name, value in command["options"].items()
    }
    in_files = {name: options[name] for name in config_only(kind) & options.keys()}
    flags = (typed(kind, name, value) for name, value in options.items() if name not in in_files)
    line = shlex.join([*words, *(word for flag in flags for word in flag), "--out", str(out)])
    return f"{line}  # with --config of {json.dumps(in_files)}" if in_files else line
