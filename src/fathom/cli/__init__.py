"""The command line. One file per command; none loads a model library before its command runs."""

from __future__ import annotations

import sys

import typer

from fathom.cli import (
    build,
    data,
    demo,
    kgc,
    metrics,
    plant,
    probe,
    study,
)
from fathom.errors import FathomError

app = typer.Typer(
    name="fathom",
    help="Fathom measures what a language model knows. Try: fathom demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.add_typer(probe.group(), name="probe")
app.add_typer(data.app, name="data")
app.add_typer(build.app, name="build")
app.add_typer(kgc.app, name="kgc")
app.add_typer(study.make(), name="study")
app.command("metrics")(metrics.metrics)
app.command("plant")(plant.plant)
app.command("demo")(demo.demo)


@app.callback()
def _root(debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error.")) -> None:
    """The flag is read by :func:`main`, wherever it stands; here it is so that --help names it."""


def main() -> None:
    """Entry point: errors become one line each and an exit code (2: bad input, 1: a run that failed)."""
    debug = "--debug" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--debug"]
    try:
        app()
    except FathomError as error:
        if debug:
            raise
        for line in str(error).splitlines():
            _complain(line if line.startswith("  ") else f"error: {line}")
        raise SystemExit(error.exit_code) from None
    except Exception as error:
        if debug:
            raise
        _complain(f"error: unexpected {type(error).__name__}: {error}; --debug shows where")
        raise SystemExit(1) from None


def _complain(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201
