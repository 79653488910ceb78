"""What ``--help`` shows of every command: an example to copy, and options in groups."""

from __future__ import annotations

import re
import shlex

import pytest
import typer

from fathom.cli import app
from fathom.cli.options import with_example

LATER = {"metrics", "plant", "demo", "data", "build", "kgc", "study"}


def words_of(help_: str) -> list[str]:
    """What a shell makes of the example in a help text."""
    example = re.search(r"\[not dim\]Example:\n(.*?)\[/\]", help_, re.DOTALL)[1]
    assert all(len(line) < 79 for line in example.splitlines()), example
    return shlex.split(example.replace("\\\n", "").replace("\\[", "["))


def commands(group, path=("fathom",)):
    """Every group and command with the words that call it."""
    yield path, group
    for name, command in getattr(group, "commands", {}).items():
        if name not in LATER:
            yield from commands(command, (*path, name))


ALL = {" ".join(path): command for path, command in commands(typer.main.get_command(app))}


@pytest.mark.parametrize("called", sorted(set(ALL) - {"fathom"}))
def test_help_begins_with_an_example_that_parses(called):
    help_ = ALL[called].help
    assert help_.split("\n\n")[1].startswith("[not dim]Example:\n")  # behind one paragraph
    words = words_of(help_)
    command, rest = ALL["fathom"], words[1:]
    while hasattr(command, "commands"):
        command = command.commands[rest.pop(0)]
    command.make_context(command.name, rest)  # raises where a flag is unknown or one is missing
    assert command is ALL[called] or command.hidden or hasattr(ALL[called], "commands") or ALL[called].hidden


def test_a_long_example_stays_one_command():
    example = f"fathom probe new --model {'m' * 40} --data {'d' * 40} --relations '[a]'"
    shown = with_example("What it does.\n\nMore.", example)
    assert shown.startswith("What it does.\n\n")
    assert shown.endswith("\n\nMore.")
    assert " \\\n" in shown
    assert words_of(shown) == shlex.split(example)
