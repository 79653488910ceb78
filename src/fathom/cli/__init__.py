"""The command line. One file per command, loaded when it is called; none loads a model library before it runs."""

from __future__ import annotations

import csv
import gc
import logging
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import typer
from typer import BadParameter
from typer.core import TyperCommand

from fathom._version import VERSION
from fathom.base.errors import BadInput, FathomError, MadeBefore, Stopped, refuse
from fathom.base.options import Group, value_fault
from fathom.base.progress import LOG
from fathom.base.reading.files import printable, read_text
from fathom.base.reading.replies import excerpt_of
from fathom.base.registry import REGISTRIES, CommandEntry, Registry
from fathom.cli.commands import REQUIRED, Commands, with_example

COMMANDS: Registry[CommandEntry] = Registry(
    "command",
    "fathom.commands",
    (
        CommandEntry(row["name"], row["panel"], row["does"], f"fathom.cli.{row['module']}:make")
        for row in csv.DictReader(read_text(Path(__file__).with_name("commands.csv")).splitlines())
    ),
)
"""The commands in the order of ``fathom --help``, which lists them by panel."""


def make_app() -> typer.Typer:
    """Make the command line. Registries are read when a command is called."""
    app = typer.Typer(
        name="fathom",
        cls=Commands,
        rich_markup_mode="rich",  # the default of later versions
        help=with_example("Measure what a language model knows.", "fathom demo"),
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    for entry in COMMANDS.entries():
        app.command(entry.name, cls=_late(entry), help=entry.does, rich_help_panel=entry.panel)(lambda: None)
    return app


MOST_LINES = 200
"""Lines of one error message."""


def _make(entry: CommandEntry) -> typer.Typer:
    made: typer.Typer = resolve_name(entry.make)(entry)
    return made


def _late(entry: CommandEntry) -> type[TyperCommand]:
    """Return a placeholder in the list of commands, which loads the command's module when it is called."""

    class Late(TyperCommand):
        def load(self) -> Any:
            return typer.main.get_command(_make(entry))

        def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
            return self.load().make_context(info_name, args, parent, **extra)

    return Late


def whole_app() -> typer.Typer:
    """Load all commands at once, for tools that walk a command line: documentation, completion, fuzzers."""
    app = typer.Typer(name="fathom", no_args_is_help=True, rich_markup_mode="rich")
    for entry in COMMANDS.entries():
        made = _make(entry)
        if made.registered_callback:
            app.add_typer(made, name=entry.name, rich_help_panel=entry.panel)
        else:
            app.registered_commands += made.registered_commands
    return app


def __getattr__(name: str) -> Any:
    """Make ``fathom.cli.app``, the name that such tools expect, on first use."""
    if name == "app":
        return whole_app()
    raise AttributeError(name)


def _version(value: bool) -> None:
    if value:
        print(f"fathom {VERSION}")  # noqa: T201
        raise typer.Exit


def _flag(help: str, name: str, is_eager: bool = False, callback: Callable[[bool], None] | None = None) -> Any:
    return typer.Option(
        False,
        name,
        is_eager=is_eager,
        callback=callback,
        help=help,
        rich_help_panel=Group.OUTPUT,
        show_default=False,
    )


def _root(
    version: bool = _flag("Show the version.", "--version", is_eager=True, callback=_version),
    quiet: bool = _flag("Show no progress: neither bars nor log lines.", "--quiet"),
    verbose: bool = _flag("Log more, and lines instead of bars.", "--verbose"),
    debug: bool = _flag("Show the traceback of an error.", "--debug"),
) -> None:
    """Declare the flags for --help. :func:`main` reads all but the first, at any position."""


ANYWHERE = {"--debug", "--quiet", "--verbose"}
"""Flags of all commands, also accepted after a command's name."""

COLLECTED_AFTER = (100_000, 10, 10)
"""Thresholds of garbage collection: Python's own, 700 objects, cost a tenth of the start."""


@contextmanager
def _logging(flags: set[str]) -> Iterator[None]:
    """Set how much is logged while inside; warnings of libraries, about their own code, are for --verbose and --debug.

    :raises BadInput: both --quiet and --verbose.
    """
    if {"--quiet", "--verbose"} <= flags:
        raise BadInput("--quiet and --verbose: expected one of them")
    before = LOG.level
    if flags & {"--quiet", "--verbose"}:
        LOG.setLevel(logging.WARNING if "--quiet" in flags else logging.DEBUG)
    try:
        with warnings.catch_warnings():
            if not flags & {"--verbose", "--debug"}:
                warnings.showwarning = _hide
            yield
    finally:
        LOG.setLevel(before)


def _hide(*_: object, **__: object) -> None:
    """Take the place of :func:`warnings.showwarning`."""


def main() -> None:
    """Run a command; errors become one line each and an exit code (2: bad input, 1: a failed run)."""
    gc.set_threshold(*COLLECTED_AFTER)
    flags = ANYWHERE.intersection(sys.argv)
    debug = "--debug" in flags
    sys.argv = [word for word in sys.argv if word not in ANYWHERE]
    try:
        refuse(f"'{printable(word)}' is not UTF-8: rename it" for word in sys.argv if not _is_utf8(word))
        with _logging(flags):
            _call()
    except FathomError as error:
        if debug:
            raise
        word = "note" if isinstance(error, MadeBefore | Stopped) else "error"
        lines = str(error).splitlines()
        for line in lines[:MOST_LINES]:
            _complain(line if line.startswith("  ") else f"{word}: {line}")
        if len(lines) > MOST_LINES:
            _complain(f"{word}: {len(lines) - MOST_LINES:,} more of the kind")
        raise SystemExit(error.exit_code) from None
    except OSError as error:  # such as a name that is too long, a forbidden folder, a failing disk
        if debug:
            raise
        place = f"'{excerpt_of(str(error.filename))}': " if error.filename is not None else ""
        _complain(f"error: {place}{error.strerror or error}")
        raise SystemExit(2) from None
    except Exception as error:
        if debug:
            raise
        _complain(f"error: unexpected {type(error).__name__}: {error}; --debug shows where")
        raise SystemExit(1) from None
    finally:
        for fault in faults():
            _complain(f"note: {fault}")


def _is_utf8(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _call() -> None:
    """Run Typer. :raises BadInput: it refuses the command line; without a line if it has shown the help."""
    try:
        code = make_app()(prog_name="fathom", standalone_mode=False)
    except Refused as error:
        raise BadInput(_refusal(error) or ()) from error
    raise SystemExit(code or 0)


Refused: type[Exception] = BadParameter.__bases__[0]
"""The exception of a refused command line: click's UsageError, of which Typer has a copy of its own."""

_REWORDED = {
    r"^Got unexpected extra argument(?:\(s\)|s)? \((.*)\)$": r"unused: \1",
    r"^No such command ('.*?')": r"there is no command \1",
    r"\. Did you mean (.*\?)$": r"; did you mean \1",
}
"""Patterns of click's messages and what is printed instead."""


def _refusal(error: Any) -> str:
    """Return one line on a :data:`Refused` command line; "" if the help was shown instead."""
    kind = type(error).__name__
    if kind == "NoArgsIsHelpError":
        return ""
    if kind == "NoSuchOption":
        name = error.option_name.removeprefix("--").removeprefix("no-").replace("-", "_")
        if error.ctx and name in getattr(error.ctx.command.callback, "in_files", ()):
            return f"{error.option_name}: expected in a file: --config FILE with the line '{name}: …'"
        meant = " or ".join(error.possibilities or ())
        return f"there is no option {error.option_name}{f' (did you mean {meant}?)' if meant else ''}{_more(error)}"
    option = getattr(error, "param", None)
    if option is None:
        text = " ".join(error.format_message().split()).rstrip(".")
        for pattern, ours in _REWORDED.items():
            text = re.sub(pattern, ours, text)
        return f"{text}{_flags_meant(text, error.ctx)}{_more(error)}"
    name = max(option.opts, key=len) if option.param_type_name == "option" else (option.name or "")
    if kind == "MissingParameter":
        return f"{name} is missing: expected {(getattr(option, 'help', '') or option.param_type_name).rstrip('.')}"
    return f"{name}: {_expected(error)}"


def _flags_meant(text: str, context: Any) -> str:
    """Return the flags that unused words may have lacked: those of required options that are missing."""
    if not text.startswith("unused: "):
        return ""
    words = text.removeprefix("unused: ").split()
    required = (param for param in context.command.params if REQUIRED in (getattr(param, "help", "") or ""))
    missing = [param.opts[0] for param in required if context.params.get(param.name) is None]
    meant = " ".join(f"{flag} {word}" for flag, word in zip(missing, words, strict=False))
    return f" (did you mean {meant}?)" if meant else ""


def _expected(error: Any) -> str:
    """Return Typer's message on a value, or pydantic's with the value."""
    checked = getattr(error.__cause__, "errors", None)
    if checked is None:
        return " ".join(str(error.message).split())
    return value_fault(checked()[0])


def _more(error: Any) -> str:
    return f"; {error.ctx.command_path} --help lists what there is" if error.ctx else ""


def faults() -> list[str]:
    """Return a line for each entry point that could not be loaded into a registry in use."""
    return [fault for registry in REGISTRIES for fault in registry.faults]


MOST_LETTERS = 2000
"""Of one line: a message may quote a whole argument."""


def _complain(line: str) -> None:
    """Print a line to standard error, without the users and passwords of addresses, and without what fills a screen."""
    line = re.sub(r"((?<=://)|(?<=[\s'\"=])[^\s/@:]+:)[^\s/]*@", "…@", line)
    if len(line) > MOST_LETTERS:
        line = f"{line[: MOST_LETTERS // 2]} … {line[-MOST_LETTERS // 2 :]}"
    print(printable(line), file=sys.stderr)  # noqa: T201
