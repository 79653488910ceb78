"""What ``--help`` shows of every command: an example to copy, and options in groups."""

from __future__ import annotations

import re
import shlex

import pytest
import typer

from fathom.cli import make_app
from fathom.cli.options import with_example

LATER = {"study"}


def words_of(help_: str) -> list[str]:
    """What a shell makes of the example in a help text."""
    example = re.search(r"\[not dim\]Example:\n(.*?)\[/\]", help_, re.DOTALL)[1]
    assert all(len(line) < 79 for line in example.splitlines()), example
    return shlex.split(example.replace("\\\n", "").replace("\\[", "["))


def commands(command, path=("fathom",)):
    """Every group and command with the words that call it."""
    command = command.load() if hasattr(command, "load") else command
    yield path, command
    for name, one in getattr(command, "commands", {}).items():
        if name not in LATER:
            yield from commands(one, (*path, name))


ALL = {" ".join(path): command for path, command in commands(typer.main.get_command(make_app()))}


@pytest.mark.parametrize("called", sorted(ALL))
def test_help_begins_with_an_example_that_parses(called):
    help_ = ALL[called].help
    assert help_.split("\n\n")[1].startswith("[not dim]Example:\n")  # behind one paragraph
    words = words_of(help_)
    path = max((path for path in ALL if words[: len(path.split())] == path.split()), key=len)
    assert path == called or hasattr(ALL[called], "commands") or ALL[called].hidden
    command = ALL[path]
    assert not hasattr(command, "commands")
    command.make_context(path, words[len(path.split()) :])  # raises where a flag is unknown or one is missing


def test_a_long_example_stays_one_command():
    example = f"fathom probe new --model {'m' * 40} --data {'d' * 40} --relations '[a]'"
    shown = with_example("What it does.\n\nMore.", example)
    assert shown.startswith("What it does.\n\n")
    assert shown.endswith("\n\nMore.")
    assert " \\\n" in shown
    assert words_of(shown) == shlex.split(example)
