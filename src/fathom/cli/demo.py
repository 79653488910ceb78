"""``fathom demo``"""

from __future__ import annotations

from pathlib import Path

import typer

from fathom.cli.formats import say
from fathom.cli.options import alone, option
from fathom.options import Group


def make(does: str) -> typer.Typer:
    """``fathom demo``"""
    return alone(does, "fathom demo --out demo", demo)


def demo(
    out: Path = option(Group.OUTPUT, "Folder for the two models and their runs.", default=Path("demo")),
) -> None:
    """Train two small models on half of a geography book, and show that a probe tells which half."""
    from fathom.errors import MissingExtra
    from fathom.formats import read
    from fathom.report.page import report
    from fathom.studies.demo import ASKED, ask, text

    lines = ask(read("geography"), out, lambda line: say(line, err=True))
    say(text(lines, out))
    runs = [out / f"run-{kind}" for kind in ASKED]
    try:
        # One seed: both models learnt the same half.
        half = out / "planted-causal" / "planted.jsonl"
        title = "Two small models that learnt half of a geography book"
        made = report(runs, out / "report.html", title=title, groups=half)
        say(f"\nEvery prompt and answer, with charts that filter each other: open {made.path} in a browser")
    except MissingExtra as error:
        say(f"\nno report: {error}")
