"""From an options model to the flags of a command."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from fathom.errors import BadInput, RunFailed
from fathom.options import read_yaml


def flags_of(options: type[BaseModel]) -> list[inspect.Parameter]:
    """One keyword parameter per field, None where the user says nothing, so that a file can say it instead."""
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=typer.Option(None, *_spelling(name, field), help=_help(field), show_default=False),
            annotation=_type(field) | None,
        )
        for name, field in options.model_fields.items()
    ]


def with_flags(
    function: Callable[..., None], options: type[BaseModel], without: Collection[str] = ()
) -> Callable[..., None]:
    """*function* takes the flags as keywords in ``**given``; Typer sees each of them."""
    signature = inspect.signature(function, eval_str=True)
    offered = [flag for flag in flags_of(options) if flag.name not in without]
    own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]

    def command(*args: Any, **kwargs: Any) -> None:
        with stoppable():
            function(*args, **kwargs)

    command.__doc__ = function.__doc__
    command.__name__ = function.__name__
    command.__signature__ = signature.replace(parameters=own + offered)  # type: ignore[attr-defined]
    return command


@contextmanager
def stoppable() -> Iterator[None]:
    """Ctrl-C ends in one line; Typer would take it for its own and say "Aborted!"."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise RunFailed("stopped; what is finished is kept: the same command goes on from there") from stop


def merge(config: Path | None, given: dict[str, Any]) -> dict[str, Any]:
    """Flags over file. :raises BadInput: the file is not a mapping in YAML."""
    said = {name: value for name, value in given.items() if value is not None}
    if config is None:
        return said
    content = read_yaml(config)
    if given_elsewhere := {"model", "data", "out", "config"} & content.keys():
        raise BadInput(f"{config}: {', '.join(sorted(given_elsewhere))} must be given as flags")
    return {str(key).replace("-", "_"): value for key, value in content.items()} | said


def _type(field: FieldInfo) -> Any:
    """Lists are typed as one text with commas; the options model splits and checks them."""
    kinds = [field.annotation, *typing.get_args(field.annotation)]
    for plain in (bool, int, float):
        if plain in kinds:
            return plain
    return str


def _spelling(name: str, field: FieldInfo) -> list[str]:
    flag = "--" + name.replace("_", "-")
    yes_or_no = bool in (field.annotation, *typing.get_args(field.annotation))
    return [f"{flag}/--no-{flag[2:]}"] if yes_or_no else [flag]


def _help(field: FieldInfo) -> str:
    default = None if field.default_factory or field.is_required() else field.get_default()
    if isinstance(default, tuple):
        default = ",".join(map(str, default))
    choices = _choices(field.annotation)
    extra = f" One of: {', '.join(choices)}." if choices else ""
    shown = (
        ""
        if default in (None, "", ())
        else f" [default: {str(default).lower() if default in (True, False) else default}]"
    )
    return f"{field.description or ''}{extra}{shown}".replace("[default", "\\[default")


def _choices(annotation: Any) -> list[str]:
    if typing.get_origin(annotation) is typing.Literal:
        return [str(value) for value in typing.get_args(annotation)]
    return [choice for part in typing.get_args(annotation) for choice in _choices(part)]
