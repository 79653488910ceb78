"""Errors raised on purpose.

FathomError
├── BadInput      invalid files or options (exit code 2)
├── RunFailed     a run failed; what was computed is kept (exit code 1)
│   └── Stopped   a signal ended it (exit code 128 + number of the signal: 130 for Ctrl-C, 143 for SIGTERM)
├── MadeBefore    the same command has made its folder before (exit code 0)
└── MissingExtra  an optional library is not installed (exit code 2)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from importlib import import_module
from typing import Any


class FathomError(Exception):
    """Root of all errors of Fathom. ``exit_code`` is that of the command line.

    >>> fathom.BadInput("no such run").exit_code, fathom.RunFailed("no disk").exit_code
    (2, 1)
    """

    exit_code = 1

    def __reduce__(self) -> tuple[Any, ...]:  # constructors of subclasses take other arguments than Exception
        return type(self).__new__, (type(self), *self.args), self.__dict__


class BadInput(FathomError):
    """Invalid input, with all faults, one line each.

    :param faults: one message, or several.

    >>> try:
    ...     fathom.read_data("nowhere")
    ... except fathom.BadInput as error:
    ...     print(len(error.faults))
    1
    """

    exit_code = 2

    def __init__(self, faults: str | Iterable[str]) -> None:
        self.faults = [faults] if isinstance(faults, str) else list(faults)
        super().__init__("\n".join(self.faults))


def refuse(faults: Iterable[str]) -> None:
    """:raises BadInput: there are faults, each listed once."""
    if unique := list(dict.fromkeys(faults)):
        raise BadInput(unique)


def all_of(*steps: Callable[[], Any]) -> list[Any]:
    """Return the results of all steps. :raises BadInput: with the faults of all steps."""
    results, faults = [], []
    for step in steps:
        try:
            results.append(step())
        except BadInput as error:
            faults += error.faults
    refuse(faults)
    return results


def alike(name: str, candidates: Iterable[str], most: int = 3, cutoff: float = 0.6) -> list[str]:
    """Return candidates that *name* may be a misspelling of, the most similar first, ignoring case.

    :param cutoff: least similarity, from 0 to 1 (:func:`difflib.get_close_matches`).
    """
    names = {candidate.casefold(): candidate for candidate in candidates}
    return [names[match] for match in get_close_matches(name.casefold(), names, most, cutoff)]


class RunFailed(FathomError):
    """A failure of a run: a full disk, no memory for the smallest batch.

    >>> issubclass(fathom.RunFailed, fathom.FathomError)
    True
    """


class Stopped(RunFailed):
    """The end of a run by Ctrl-C, or by SIGTERM from a scheduler. :param number: of the signal."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + number


class MadeBefore(FathomError):
    """The same command has made its folder before; nothing is left to do."""

    exit_code = 0


class MissingExtra(FathomError):
    """A missing optional library; the message is the install command.

    :param library: the module that could not be imported.
    """

    exit_code = 2

    def __init__(self, library: str, extra: str) -> None:
        super().__init__(f"'{library}' is not installed: type pip install '.[{extra}]' in Fathom's folder")


def is_panic(error: BaseException) -> bool:
    """Return whether a library in Rust, such as that of tokenizers, has panicked: its error is no Exception."""
    return type(error).__name__ == "PanicException"


def optional(module: str, extra: str) -> Any:
    """Import a library of an optional extra. :raises MissingExtra: it is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(module.partition(".")[0], extra) from error
