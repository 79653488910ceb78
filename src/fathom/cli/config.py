"""``--config``: a YAML file that says what the command line leaves unsaid."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import typer

from fathom.errors import refuse
from fathom.options import Given, read_yaml
from fathom.reading import shown


class ConfigFile(NamedTuple):
    """The file, for a command whose own parameters were taken from it already.

    :param own: their names.
    """

    path: Path
    own: frozenset[str]


def said_in(context: typer.Context, file: Path | None) -> Path | None:
    """Take the command's own parameters (``model``, ``data``, ``out``, …) from *file*; the command line wins. Those of
    its options model are left to :func:`merge`.

    :raises BadInput: the file is no mapping in YAML, or a value is of a wrong kind.
    """
    if file is None:
        return None
    content, own = _content(file), _own(context)
    refuse(
        f"{file}: {key}: expected {'a list of texts' if own[key].multiple else 'one value'}, found {shown(value)}"
        for key, value in content.items()
        if key in own and not _fits(own[key], value)
    )
    taken = {own[key].name: _typed(own[key], value) for key, value in content.items() if key in own}
    context.default_map = {**(context.default_map or {}), **taken}
    return file


def merge(config: Any, given: Given) -> Given:
    """Flags over file.

    :param config: a :class:`ConfigFile`, or None.
    :raises BadInput: the file is not a mapping in YAML.
    """
    said = {name: value for name, value in given.items() if value is not None}
    if config is None:
        return said
    return {key: value for key, value in _content(config.path).items() if key not in config.own} | said


def _content(file: Path) -> Given:
    return {str(key).replace("-", "_"): value for key, value in read_yaml(file).items()}


def own_names(parameters: Mapping[str, Any]) -> frozenset[str]:
    """How a file may name a command's own parameters: their names and spellings as flags.

    :param parameters: name → default, which is Typer's description of it.
    """
    spelt = (flag for info in parameters.values() for flag in getattr(info, "param_decls", None) or ())
    return frozenset({*parameters, *(_plain(flag) for flag in spelt)} - {"config"})


def _own(context: typer.Context) -> dict[str, Any]:
    """The command's own parameters, by every name of theirs."""
    names: frozenset[str] = getattr(context.command.callback, "own", frozenset())
    spelt = {name: param for param in context.command.params for name in (param.name, *map(_plain, param.opts))}
    return {name: param for name, param in spelt.items() if name in names}


def _plain(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_")


def _several(param: Any) -> bool:
    """Whether its text may name several, separated by commas."""
    return bool(param.name == "models")


def _fits(param: Any, value: Any) -> bool:
    texts = isinstance(value, list) and all(isinstance(one, str) for one in value)
    if param.multiple or (texts and _several(param)):
        return texts
    return isinstance(value, str | int | float)


def _typed(param: Any, value: Any) -> Any:
    """As it would stand on the command line."""
    if isinstance(value, list) and not param.multiple:
        return ",".join(value)
    return value
