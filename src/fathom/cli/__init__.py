"""The command line. One file per command, loaded when it is called; none loads a model library before it runs."""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand

from fathom._version import VERSION
from fathom.cli.options import Commands, option, with_example
from fathom.cli.usage import Refused, refusal
from fathom.errors import BadInput, FathomError, MadeBefore
from fathom.options import Group
from fathom.progress import LOG
from fathom.reading.files import printable
from fathom.reading.replies import words_of

COMMANDS = {
    "demo": ("Start here", "See it work offline, in minutes: two small models learn half of a geography book."),
    "probe": ("Ask", "Ask a model what it knows of a data set."),
    "merge": ("Ask", "Put the parts of a run that were asked into folders of their own (--part) into one."),
    "metrics": ("Look at runs", "Show accuracy, ranks and confidence of a run, with intervals."),
    "compare": ("Look at runs", "Compare runs: numbers, paired differences, and what the facts could have shown."),
    "diff": (
        "Look at runs",
        "See what a model learnt and forgot: the same facts before and after training or editing.",
    ),
    "report": ("Look at runs", "Make one HTML file of runs: charts that filter each other, and every answer."),
    "study": ("Look at runs", "Run planned comparisons, or analyse finished runs."),
    "data": ("Data", "Look at a data set before asking a model."),
    "build": ("Data", "Make data folders from texts, graphs and ontologies."),
    "plant": ("Train", "Train a small model on half of the facts and record which: its knowledge is known."),
    "kgc": ("Train", "Complete a knowledge graph: train link predictors and see what they know."),
}
"""Name → heading in ``fathom --help`` and what it does. The command is made by ``make`` of the module of its name."""
TABLES = {
    "fathom.probes": "PROBES",
    "fathom.formats": "FORMATS",
    "fathom.metrics": "METRICS",
    "fathom.studies": "STUDIES",
    "fathom.links": "LINKS",
}
"""Module → what installed packages may have added to."""


def make_app() -> typer.Typer:
    """The command line with whatever is in the tables by the time that a command is called."""
    app = typer.Typer(
        name="fathom",
        cls=Commands,
        rich_markup_mode="rich",  # the default of later versions
        help=with_example("Measure what a language model knows.", "fathom demo"),
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    for name, (panel, does) in COMMANDS.items():
        app.command(name, cls=_late(name, does), help=does, rich_help_panel=panel)(lambda: None)
    return app


MOST_LINES = 200
"""Of one error: who made a hundred thousand mistakes of a kind has seen enough of them."""


def _late(name: str, does: str) -> type[TyperCommand]:
    """Stands in the list of commands for one whose module is loaded when it is called."""

    class Late(TyperCommand):
        def load(self) -> Any:
            return typer.main.get_command(import_module(f"fathom.cli.{name}").make(does))

        def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
            return self.load().make_context(info_name, args, parent, **extra)

    return Late


def whole_app() -> typer.Typer:
    """Every command loaded at once, for tools that walk a command line: documentation, completion, fuzzers."""
    app = typer.Typer(name="fathom", no_args_is_help=True, rich_markup_mode="rich")
    for name, (panel, does) in COMMANDS.items():
        made = import_module(f"fathom.cli.{name}").make(does)
        if made.registered_callback:
            app.add_typer(made, name=name, rich_help_panel=panel)
        else:
            app.registered_commands += made.registered_commands
    return app


def __getattr__(name: str) -> Any:
    """``fathom.cli.app`` is :func:`whole_app`, made when it is asked for: the name such tools expect."""
    if name == "app":
        return whole_app()
    raise AttributeError(name)


def _version(said: bool) -> None:
    if said:
        print(f"fathom {VERSION}")  # noqa: T201
        raise typer.Exit


def _flag(help: str, name: str, **more: Any) -> Any:
    return option(Group.OUTPUT, help, name, default=False, show_default=False, **more)


def _root(
    version: bool = _flag("Show the version.", "--version", is_eager=True, callback=_version),
    quiet: bool = _flag("Show no progress: neither bars nor log lines.", "--quiet"),
    verbose: bool = _flag("Log more, and lines instead of bars.", "--verbose"),
    debug: bool = _flag("Show the traceback of an error.", "--debug"),
) -> None:
    """Flags but the first are read by :func:`main`, wherever they stand; here they are so that --help names them."""


ANYWHERE = {"--debug", "--quiet", "--verbose"}
"""Flags of all commands, which may stand behind a command's name, too."""


COLLECTED_AFTER = (100_000, 10, 10)
"""Python looks for garbage after so many new objects, instead of 700: libraries and statements come in millions of them
that are none, and looking took a tenth of the start."""


@contextmanager
def _told(flags: set[str]) -> Iterator[None]:
    """How much is logged while inside. :raises BadInput: more and less."""
    if {"--quiet", "--verbose"} <= flags:
        raise BadInput("--quiet and --verbose: expected one of them")
    before = LOG.level
    if flags & {"--quiet", "--verbose"}:
        LOG.setLevel(logging.WARNING if "--quiet" in flags else logging.DEBUG)
    try:
        yield
    finally:
        LOG.setLevel(before)


def main() -> None:
    """Entry point: errors become one line each and an exit code (2: bad input, 1: a run that failed)."""
    gc.set_threshold(*COLLECTED_AFTER)
    flags = ANYWHERE.intersection(sys.argv)
    debug = "--debug" in flags
    sys.argv = [word for word in sys.argv if word not in ANYWHERE]
    try:
        with _told(flags):
            _call()
    except FathomError as error:
        if debug:
            raise
        word = "note" if isinstance(error, MadeBefore) else "error"
        lines = str(error).splitlines()
        for line in lines[:MOST_LINES]:
            _complain(line if line.startswith("  ") else f"{word}: {line}")
        if len(lines) > MOST_LINES:
            _complain(f"{word}: {len(lines) - MOST_LINES:,} more of the kind")
        raise SystemExit(error.exit_code) from None
    except OSError as error:  # a name that is too long, a place that may not be read, a disk that fails
        if debug:
            raise
        what = f"'{words_of(str(error.filename))}': " if error.filename is not None else ""
        _complain(f"error: {what}{error.strerror or error}")
        raise SystemExit(2) from None
    except Exception as error:
        if debug:
            raise
        _complain(f"error: unexpected {type(error).__name__}: {error}; --debug shows where")
        raise SystemExit(1) from None
    finally:
        for fault in faults():
            _complain(f"note: {fault}")


def _call() -> None:
    """:raises BadInput: a command line that Typer refuses; with one line, or none where it has shown the help."""
    try:
        code = make_app()(prog_name="fathom", standalone_mode=False)
    except Refused as error:
        raise BadInput(refusal(error) or ()) from error
    raise SystemExit(code or 0)


def faults() -> list[str]:
    """What could not be added to the tables that were looked at: one line per entry point."""
    looked_at = [getattr(sys.modules[name], table, None) for name, table in TABLES.items() if name in sys.modules]
    return [fault for door in looked_at for fault in getattr(door, "faults", ())]


def _complain(line: str) -> None:
    print(printable(line), file=sys.stderr)  # noqa: T201
