"""What can go wrong, as one tree to catch.

FathomError
├── BadInput      the user's files or options are wrong: says what was found, expected, and to type (exit code 2)
├── RunFailed     a run that began could not go on; what was computed is kept (exit code 1)
│   └── Stopped   a signal ended it (exit code 128 and the number of the signal: 130 for Ctrl-C, 143 for SIGTERM)
├── MadeBefore    the same command has made its folder before: nothing is left to do (exit code 0)
└── MissingExtra  an optional library is not installed: the message is the install command (exit code 2)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from importlib import import_module
from typing import Any


class FathomError(Exception):
    """Root of every error Fathom raises on purpose. ``exit_code`` is what the command line ends with."""

    exit_code = 1

    def __reduce__(self) -> tuple[Any, ...]:  # constructors of subclasses take other arguments than Exception
        return type(self).__new__, (type(self), *self.args), self.__dict__


class BadInput(FathomError):
    """The input is wrong. Holds every fault found, one line each, so that one attempt shows them all.

    :param faults: one message, or several.
    """

    exit_code = 2

    def __init__(self, faults: str | Iterable[str]) -> None:
        self.faults = [faults] if isinstance(faults, str) else list(faults)
        super().__init__("\n".join(self.faults))


def refuse(faults: Iterable[str]) -> None:
    """:raises BadInput: there are faults; with all of them, each once, so that one attempt shows them all."""
    if found := list(dict.fromkeys(faults)):
        raise BadInput(found)


def all_of(*steps: Callable[[], Any]) -> list[Any]:
    """What each step gives. :raises BadInput: with the faults of all steps, so that one attempt shows them all."""
    found, faults = [], []
    for step in steps:
        try:
            found.append(step())
        except BadInput as error:
            faults += error.faults
    refuse(faults)
    return found


def alike(name: str, known: Iterable[str], most: int = 3, cutoff: float = 0.6) -> list[str]:
    """Those of the *known* names that *name* may be a misspelling of, in any case of its letters, the likeliest first.

    :param cutoff: how much of the letters agrees at least, from 0 to 1 (:func:`difflib.get_close_matches`).
    """
    names = {one.casefold(): one for one in known}
    return [names[one] for one in get_close_matches(name.casefold(), names, most, cutoff)]


class RunFailed(FathomError):
    """A run that began could not go on (a full disk, a model that runs out of memory at the smallest batch)."""


class Stopped(RunFailed):
    """Someone or something ended the run: Ctrl-C, or SIGTERM from a scheduler.

    :param number: of the signal.
    """

    def __init__(self, said: str, number: int) -> None:
        super().__init__(said)
        self.exit_code = 128 + number


class MadeBefore(FathomError):
    """There is nothing to do: the same command, with the same data, has made its folder before."""

    exit_code = 0


class MissingExtra(FathomError):
    """An optional library is missing.

    :param library: the module that could not be imported.
    :param extra: the extra of this distribution that brings it.
    """

    exit_code = 2

    def __init__(self, library: str, extra: str) -> None:
        super().__init__(f"'{library}' is not installed: pip install 'fathom-lm[{extra}]'")


def optional(module: str, extra: str) -> Any:
    """Import a library of an optional extra.

    :param module: its full name.
    :raises MissingExtra: it is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(module.partition(".")[0], extra) from error
