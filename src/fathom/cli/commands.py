"""Commands generated from options models: flags in groups, a YAML file of options, help with an example."""

from __future__ import annotations

import inspect
import re
import signal
import threading
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

from fathom.base.errors import FathomError, Stopped, all_of, refuse
from fathom.base.options import (
    Given,
    Group,
    choices_of,
    config_only,
    group_of,
    mark_of,
    nearest,
    parse_options,
    read_yaml,
    spelling,
)
from fathom.base.reading import repetition, yaml_lines
from fathom.base.rights import missing_right

if TYPE_CHECKING:  # not needed for fathom --help
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

WIDTH = 76
"""Columns that an example may take: a terminal of 80 does not break its lines."""
TYPERS_OWN = {"help", "help_all", "install_completion", "show_completion"}
SHOWN, FEW = 8, 20
"""How many options ``--help`` shows of a command that has :data:`FEW` or more; of others it shows all."""
WITH_CONFIG = 12
"""A command with as many options, or with one that has no flag, takes ``--config``."""
COMMON = (
    *("model", "models", "data", "out", "limit", "relations", "templates", "device", "config", "seed", "metrics", "by"),
    *("scoring", "format", "server", "epochs", "exposures", "weights", "cluster", "input", "endpoint"),
)
HELP_ALL = "fathom.help-all"
REQUIRED = r" \[required]"
OFF, ON = r" \[default: false]", r" \[default: true]"
"""The end of the help of a flag, by its default."""


class _GroupOrder:
    """Options in the order of their groups, Typer's own with the last."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return arguments, then options by group; those of one group in the order of declaration."""
        order = [None, *Group]
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if param.name in TYPERS_OWN or not hasattr(param, "rich_help_panel"):  # click's own --help
                param.rich_help_panel = Group.OUTPUT
            if getattr(param, "is_flag", False):
                param.metavar = ""  # instead of <bool>
        return sorted(params, key=lambda param: order.index(getattr(param, "rich_help_panel", None)))


class Command(_GroupOrder, TyperCommand):
    """A command that signals can stop; ``--help`` shows its most used options, ``--help-all`` all."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help of a copy without rarely used options."""
        shown = copy(self)
        rare = [] if ctx.meta.get(HELP_ALL) else self._rare()
        shown.params = [as_shown(param) for param in self.params if param not in rare]
        super(Command, shown).format_help(ctx, formatter)

    def _rare(self) -> list[Any]:
        """Return all options but eight: required ones and those of the example first, then the most common."""
        params: list[Any] = self.params
        options = [param for param in params if param.param_type_name == "option" and param.name not in TYPERS_OWN]
        if len(options) < FEW:
            return []
        example = set(re.findall(r"--([a-z-]+)", self.help or ""))
        ranks = {
            param.name: 0 if needed else 1 + COMMON.index(param.name)
            for param in options
            if (needed := REQUIRED in (param.help or "") or param.name.replace("_", "-") in example)
            or param.name in COMMON
        }
        shown = sorted(ranks, key=lambda name: ranks[name])[:SHOWN]
        return [param for param in options if param.name not in shown]

    def invoke(self, ctx: Any) -> Any:
        with stoppable("stopped; nothing was written") if ctx.params.get("dry_run") else stoppable():
            return super().invoke(ctx)


def as_shown(param: Any) -> Any:
    """Return an option with the one of its two flags that changes the default, or the option itself."""
    shown = copy(param)
    if param.help and param.help.endswith(ON):
        shown.opts, shown.secondary_opts = param.secondary_opts, []
    elif param.help and param.help.endswith(OFF):
        shown.help, shown.secondary_opts = param.help.removesuffix(OFF), []
    return shown


class Commands(_GroupOrder, TyperGroup):
    """A group of commands."""


def new_group(does: str, example: str) -> typer.Typer:
    """Return a group of commands, see :func:`add_command`."""
    shown = with_example(does, example)
    app = typer.Typer(cls=Commands, rich_markup_mode="rich", help=shown, no_args_is_help=True, add_completion=False)
    app.callback()(lambda: None)  # so that Typer takes it for a group even of one command
    return app


def single(
    does: str,
    function: Callable[..., None],
    example: str,
    failed: Callable[[Given, FathomError], None] | None = None,
) -> typer.Typer:
    """Return a command that is in no group, see :func:`add_command`."""
    app = typer.Typer(add_completion=False, rich_markup_mode="rich")
    add_command(app, function, example=example, does=does, failed=failed)
    return app


def kinds_of(function: Callable[..., Any]) -> list[type[BaseModel]]:
    """Return the options models among the annotations of a function's parameters."""
    return [hint for hint in typing.get_type_hints(function).values() if hasattr(hint, "model_fields")]


def add_command(
    app: typer.Typer,
    function: Callable[..., None],
    *kinds: type[BaseModel],
    example: str,
    name: str = "",
    does: str = "",
    panel: str | None = None,
    flags: Sequence[inspect.Parameter] | None = None,
    in_files: Mapping[str, str] | None = None,
    failed: Callable[[Given, FathomError], None] | None = None,
) -> None:
    """Add a command to *app*.

    :param function: called with one object of each options model, and with a dictionary of *flags* if these are given.
    :param kinds: options models, whose fields are flags; by default those of its annotations.
    :param example: a command line that can be copied; ``--help`` begins with it.
    :param does: help; by default the docstring of *function*.
    :param flags: further ones, which *function* checks.
    :param in_files: options without a flag in addition to those of *kinds*, and what they mean.
    :param failed: called with the typed options and the error if the command fails.
    """
    kinds = kinds or tuple(kinds_of(function))
    parameters = [parameter for kind in kinds for parameter in flags_of(kind)] + list(flags or ())
    in_files = dict(in_files or {}) | {name: text for kind in kinds for name, text in file_options(kind).items()}
    if in_files or len(parameters) >= WITH_CONFIG:
        only = f" Only there: {', '.join(in_files)}." if in_files else ""
        parameters.append(
            free_flag("config", Group.RUN, f"YAML file with any of these options; flags win.{only}", Path)
        )
    parameters.append(_help_all_flag())

    def command(**typed: object) -> None:
        try:
            function(*_arguments(kinds, typed, flags is not None))
        except FathomError as error:
            if failed is not None:
                failed(typed, error)
            raise

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.in_files = in_files  # type: ignore[attr-defined]
    shown = with_example(does or function.__doc__ or "", example)
    app.command(name or function.__name__.rstrip("_"), cls=Command, help=shown, rich_help_panel=panel)(command)


def file_options(kind: type[BaseModel], without: Collection[str] = ()) -> dict[str, str]:
    """Return the options of a model that have no flag, and what they mean."""
    return {name: described(kind.model_fields[name]) for name in sorted(config_only(kind).difference(without))}


def _arguments(kinds: Sequence[type[BaseModel]], typed: Given, free: bool) -> list[Any]:
    """Return one options object per model, and a dictionary of the other options if they are *free*.

    :raises BadInput: everything that is wrong with the options.
    """
    file = typed.pop("config", None)
    typed.pop("help_all", None)
    whole = {name for kind in kinds for name, field in kind.model_fields.items() if mark_of(field, "repeated")}
    values = {
        name: ",".join(value) if isinstance(value, list) and name not in whole else value
        for name, value in typed.items()
        if value not in (None, [], ())
    }
    values = (_read_config(file, kinds, values) if file is not None else {}) | values
    parts = [
        {name: _one_or_more(field, values.pop(name)) for name, field in kind.model_fields.items() if name in values}
        for kind in kinds
    ]
    names = [name for kind in kinds for name in kind.model_fields]
    unknown = (f"there is no option --{name.replace('_', '-')}: {nearest(name, names)}" for name in values if not free)
    parsers = [partial(parse_options, kind, part) for kind, part in zip(kinds, parts, strict=True)]
    options: list[Any] = all_of(*parsers, partial(refuse, unknown))[: len(kinds)]
    return [*options, values] if free else options


def _one_or_more(field: FieldInfo, value: object) -> object:
    """Return one value of a repeated option, as a file may have it, as a list."""
    return [value] if mark_of(field, "repeated") and isinstance(value, str) else value


def _read_config(file: Path, kinds: Sequence[type[BaseModel]], typed: Given) -> Given:
    """Return the options of a YAML file by the names of their fields. :raises BadInput: one gives a right."""
    fields = {
        spelt.lstrip("-").replace("-", "_"): name
        for kind in kinds
        for name, field in kind.model_fields.items()
        for spelt in (spelling(kind, name), mark_of(field, "also") or "")
    }
    content = read_yaml(file)
    name_of = {key: fields.get(key.replace("-", "_"), key.replace("-", "_")) for key in content}
    places, first = yaml_lines(file), dict[str, int]()
    line_of = {key: places.get((key,), 1) for key in content}  # a merged key (<<) has no line of its own
    refuse(
        f"{file}:{line_of[key]}: {why}"
        for key, name in name_of.items()
        if (why := repetition(first, name, line_of[key], f"option {name}"))
    )
    refuse(
        f"{file}:{line_of[key]}: {key}: {fault}"
        for key, value in content.items()
        if (fault := missing_right(name_of[key], value, typed))
    )
    return {name_of[key]: value for key, value in content.items()}


def _help_all_flag() -> inspect.Parameter:
    def show_all(ctx: typer.Context, value: bool) -> None:
        if value:
            ctx.meta[HELP_ALL] = True
            typer.echo(ctx.get_help())
            raise typer.Exit

    default = typer.Option(
        False,
        "--help-all",
        is_eager=True,
        callback=show_all,
        help="Show every option.",
        rich_help_panel=Group.OUTPUT,
    )
    return inspect.Parameter("help_all", inspect.Parameter.KEYWORD_ONLY, default=default, annotation=bool)


def with_example(does: str, example: str) -> str:
    """Insert *example* after the first paragraph of a help text, in lines that a shell reads as one."""
    first, _, more = inspect.cleandoc(does).partition("\n\n")
    lines = [""]
    for part in re.split(r" (?=--)", example):
        if lines[-1] and len(lines[-1]) + len(part) + 3 > WIDTH:
            lines[-1] += " \\"
            lines.append("    " + part)
        else:
            lines[-1] += f" {part}" if lines[-1] else part
    shown = "\n".join(lines).replace("[", r"\[")
    return "\n\n".join(part for part in (first, f"[not dim]Example:\n{shown}[/]", more) if part)


def flags_of(kind: type[BaseModel], without: Collection[str] = ()) -> list[inspect.Parameter]:
    return [flag(kind, name) for name in kind.model_fields if name not in {*without, *config_only(kind)}]


def flag(kind: type[BaseModel], name: str, text: str = "") -> inspect.Parameter:
    """Return the flag of a field, or its argument. Its value is None if nothing is typed: a file may have it.

    :param text: its help; by default the field's description and default.
    """
    field = kind.model_fields[name]
    if mark_of(field, "argument"):
        default: Any = typer.Argument(... if field.is_required() else None, help=field.description, show_default=False)
        annotation: Any = _type(field) if field.is_required() else _type(field) | None
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
    spelt = spelling(kind, name)
    spelt = f"{spelt}/--no-{spelt[2:]}" if _type(field) is bool else spelt
    return free_flag(name, group_of(kind, name), text or _help(field), _type(field), spelt, mark_of(field, "also"))


def free_flag(name: str, group: Group | None, text: str, kind: type = str, *spelt: str | None) -> inspect.Parameter:
    """Return a flag that belongs to no field."""
    spellings = [flag for flag in spelt if flag] or [f"--{name}"]
    default = typer.Option(None, *spellings, help=text, show_default=False, rich_help_panel=group)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind | None)


def _type(field: FieldInfo) -> Any:
    """Return what Typer reads. Of lists these are texts with commas, which the options model splits and checks."""
    types = [field.annotation, *typing.get_args(field.annotation)]
    if any(typing.get_origin(part) is tuple for part in types):
        return list[str]
    return next((plain for plain in (bool, int, float, Path) if plain in types and str not in types), str)


def _help(field: FieldInfo) -> str:
    default = None if field.default_factory or field.is_required() else field.get_default()
    if isinstance(default, tuple):
        default = ",".join(map(str, default))
    if isinstance(default, bool):
        default = str(default).lower()
    shown = REQUIRED if field.is_required() else "" if default in (None, "") else f" \\[default: {default}]"
    return described(field) + shown


def described(field: FieldInfo) -> str:
    """Return the description of a field, with its choices."""
    choices = choices_of(field.annotation)
    return (field.description or "") + (f" One of: {', '.join(choices)}." if choices else "")


@contextmanager
def stoppable(
    message: str = "stopped; what a run has finished is kept, nothing is half-written: type the same command again",
) -> Iterator[None]:
    """End at Ctrl-C with one line, where Typer would print "Aborted!".

    SIGTERM, which schedulers send, does the same: temporary files are removed. Libraries may wrap the exception.
    """
    ended_by: signal.Signals | None = None

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal ended_by
        if _is_importing(frame):  # whose code may drop the exception
            again = threading.Timer(0.1, signal.raise_signal, (number,))
            again.daemon = True
            again.start()
            return
        ended_by = signal.Signals(number)  # libraries that pass the exception on (Ray) drop what it is given
        raise KeyboardInterrupt

    in_main_thread = threading.current_thread() is threading.main_thread()  # signals are its own
    handled = [signal.SIGTERM] if in_main_thread else []
    if in_main_thread and signal.getsignal(signal.SIGINT) != signal.SIG_IGN:  # as nohup sets it
        handled.append(signal.SIGINT)
    before = {number: signal.signal(number, interrupt) for number in handled}
    try:
        yield
    except (KeyboardInterrupt, Exception) as error:
        if ended_by is None and not isinstance(error, KeyboardInterrupt):
            raise
        raise Stopped(message, ended_by or signal.SIGINT) from error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
