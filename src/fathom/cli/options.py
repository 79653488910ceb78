"""Commands: their examples, and their flags, made from options models and shown in groups."""

from __future__ import annotations

import inspect
import re
import signal
import threading
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

from fathom.cli.config import ConfigFile, own_names
from fathom.errors import Stopped
from fathom.options import Group, choices_of, group_of

if TYPE_CHECKING:  # not needed for fathom --help
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

WIDTH = 76
"""Columns that an example may take: a terminal of 80 does not break its lines."""
TYPERS_OWN = {"help", "help_all", "install_completion", "show_completion"}


SHOWN, FEW = 8, 4
"""So many options are shown by ``--help``, unless it would hide fewer than this."""
COMMON = (
    *("model", "data", "out", "limit", "relations", "templates", "device", "config", "seed", "metrics", "by"),
    *("scoring", "format", "server", "epochs", "weights", "cluster"),
)
HELP_ALL = "fathom.help-all"


class _Grouped:
    """Options are shown in the order of their groups, Typer's own with the last."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Arguments, then options by group; those of one group as they were declared."""
        order = [None, *Group]
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if param.name in TYPERS_OWN or not hasattr(param, "rich_help_panel"):  # click's own --help
                param.rich_help_panel = Group.OUTPUT
        return sorted(params, key=lambda param: order.index(getattr(param, "rich_help_panel", None)))


class Command(_Grouped, TyperCommand):
    """A command that can be called, and stopped; ``--help`` shows its most used options, ``--help-all`` every one."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Hide rarely used options while the help is written."""
        rare = [] if ctx.meta.get(HELP_ALL) else self._rare(self.get_params(ctx))
        hidden = rare if len(rare) >= FEW else []
        for param in hidden:
            param.hidden = True
        try:
            super().format_help(ctx, formatter)
        finally:
            for param in hidden:
                param.hidden = False

    def _rare(self, params: Sequence[Any]) -> list[Any]:
        """Return the options but for required ones, those of the example, and then the most common, eight in all."""
        options = [one for one in params if one.param_type_name == "option" and not one.hidden]
        example = set(re.findall(r"--([a-z-]+)", self.help or ""))
        ranks = {
            one.name: 0 if one.required or one.name.replace("_", "-") in example else 1 + COMMON.index(one.name)
            for one in options
            if one.required or one.name.replace("_", "-") in example or one.name in COMMON
        }
        shown = {*sorted(ranks, key=lambda name: ranks[name])[:SHOWN], *TYPERS_OWN}
        return [one for one in options if one.name not in shown]

    def invoke(self, ctx: Any) -> Any:
        """Run it."""
        with stoppable():
            return super().invoke(ctx)


class Commands(_Grouped, TyperGroup):
    """A group of commands."""


def add_command(
    app: typer.Typer,
    name: str,
    command: Callable[..., None],
    example: str,
    *,
    does: str | None = None,
    panel: str | None = None,
    hidden: bool = False,
) -> None:
    """Add *command* to *app*.

    :param example: a command line that can be copied; ``--help`` begins with it.
    :param does: its help; by default the docstring.
    :param panel: heading under which the app lists it.
    :param hidden: not listed, such as another name of the same command.
    """
    shown = with_example(does or command.__doc__ or "", example)
    app.command(name, cls=Command, help=shown, rich_help_panel=panel, hidden=hidden)(_with_help_all(command))


def _with_help_all(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command with many options ``--help-all``."""
    signature = inspect.signature(command, eval_str=True)
    if len(signature.parameters) < SHOWN + FEW:
        return command

    def every(ctx: typer.Context, value: bool) -> None:
        if value:
            ctx.meta[HELP_ALL] = True
            typer.echo(ctx.get_help())
            raise typer.Exit

    @wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        kwargs.pop("help_all")
        command(*args, **kwargs)

    default = typer.Option(
        False, "--help-all", is_eager=True, callback=every, help="Show every option.", rich_help_panel=Group.OUTPUT
    )
    extra = inspect.Parameter("help_all", inspect.Parameter.KEYWORD_ONLY, default=default, annotation=bool)
    parameters = [*signature.parameters.values(), extra]
    wrapped.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[one.replace(kind=one.KEYWORD_ONLY) for one in parameters]
    )
    return wrapped


def new_group(does: str, example: str) -> typer.Typer:
    """A group of commands, see :func:`add_command`."""
    shown = with_example(does, example)
    app = typer.Typer(cls=Commands, rich_markup_mode="rich", help=shown, no_args_is_help=True, add_completion=False)
    app.callback()(lambda: None)  # so that Typer takes it for a group even of one command
    return app


def alone(does: str, example: str, command: Callable[..., None]) -> typer.Typer:
    """One command that is in no group, see :func:`add_command`."""
    app = typer.Typer(add_completion=False, rich_markup_mode="rich")
    add_command(app, command.__name__, command, example, does=does)
    return app


def with_example(does: str, example: str) -> str:
    """The help text *does* with *example* below its first paragraph, in lines that a shell reads as one."""
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


def option(group: Group, help: str, *names: str, default: Any = ..., **more: Any) -> Any:
    """A flag of a command, in its group; required unless it has a default."""
    return typer.Option(default, *names, help=help, rich_help_panel=group, **more)


def flag(options: type[BaseModel], name: str, about: str | None = None) -> inspect.Parameter:
    """The flag of one field, None where the user says nothing, so that a file can say it instead.

    :param about: its help, instead of the field's description and default.
    """
    field = options.model_fields[name]
    shown = _help(field) if about is None else about
    made = typer.Option(
        None, *_spelling(name, field), help=shown, show_default=False, rich_help_panel=group_of(options, name)
    )
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=made, annotation=_type(field) | None)


def flags_of(options: type[BaseModel]) -> list[inspect.Parameter]:
    """One flag per field."""
    return [flag(options, name) for name in options.model_fields]


def with_flags(
    function: Callable[..., None], options: type[BaseModel], without: Collection[str] = ()
) -> Callable[..., None]:
    """*function* takes the flags as keywords in ``**given``; Typer sees each of them."""
    return taking(function, [flag for flag in flags_of(options) if flag.name not in without])


def taking(function: Callable[..., None], flags: Iterable[inspect.Parameter]) -> Callable[..., None]:
    """*function* with *flags*, which stand for its ``**given`` and for its own parameters of the same names."""
    signature = inspect.signature(function, eval_str=True)
    offered = {flag.name: flag for flag in flags}
    own = [offered.pop(p.name, p) for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    names = own_names({p.name: _described(p) for p in own})

    def command(*args: Any, **kwargs: Any) -> None:
        if kwargs.get("config") is not None:
            kwargs["config"] = ConfigFile(kwargs["config"], names)
        function(*args, **kwargs)

    command.own = names  # type: ignore[attr-defined]
    command.__doc__ = function.__doc__
    command.__name__ = function.__name__
    command.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[p.replace(kind=p.KEYWORD_ONLY) for p in (*own, *offered.values())]
    )
    return command


def _described(parameter: inspect.Parameter) -> Any:
    """What Typer is told of it, beside its type or as its default."""
    return next(iter(getattr(parameter.annotation, "__metadata__", ())), parameter.default)


@contextmanager
def stoppable(
    said: str = "stopped; what a run has finished is kept, nothing is half-written: type the same command again",
) -> Iterator[None]:
    """Ctrl-C ends in one line; Typer would take it for its own and say "Aborted!". So does SIGTERM, which schedulers
    send: what is unfinished is cleared away as at Ctrl-C."""
    ended_by = signal.SIGINT

    def interrupt(number: int, frame: Any) -> None:
        nonlocal ended_by
        ended_by = signal.Signals(number)  # libraries that pass the exception on (Ray) drop what it is given
        raise KeyboardInterrupt

    in_main_thread = threading.current_thread() is threading.main_thread()  # signals are its own
    before = signal.signal(signal.SIGTERM, interrupt) if in_main_thread else None
    try:
        yield
    except KeyboardInterrupt as stop:
        raise Stopped(said, ended_by) from stop
    finally:
        if in_main_thread:
            signal.signal(signal.SIGTERM, before)


def _type(field: FieldInfo) -> Any:
    """Lists are typed as one text with commas; the options model splits and checks them."""
    kinds = [field.annotation, *typing.get_args(field.annotation)]
    for plain in (bool, int, float):
        if plain in kinds and str not in kinds:
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
    if isinstance(default, bool):
        default = str(default).lower()
    return described(field) + ("" if default in (None, "") else f" \\[default: {default}]")


def described(field: FieldInfo) -> str:
    """What it is, and what may be said where that is a choice."""
    choices = choices_of(field.annotation)
    return (field.description or "") + (f" One of: {', '.join(choices)}." if choices else "")
