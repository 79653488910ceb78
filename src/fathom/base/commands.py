"""What a package tells of a command that it adds to ``fathom``; the command itself is made when it is called."""

from __future__ import annotations

from typing import NamedTuple


class CommandEntry(NamedTuple):
    """An entry of the registry of commands, light enough for ``fathom --help``.

    :param panel: heading under which it is listed.
    :param does: one line.
    :param make: place of a function that takes this entry and returns a ``typer.Typer``, as "module:name".
    """

    name: str
    panel: str
    does: str
    make: str
