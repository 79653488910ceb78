"""Processes that need not load their libraries again, each forked from one that did nothing else: for tests that kill,
race and stop them. What such a process does it does as any other: signals, locks and files are its own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["tests.conftest", "tests.sharing", "fathom.cli", "fathom.training.planting"])
"""Its first process waits for these; a module that is missing here costs time alone."""


class ForkedCall:
    """A call in a process of its own.

    :param work: a function that can be imported. It ends as a script would: what it raises is its exit code. It has the
        environment of the moment, but libraries that read theirs when they are imported have done so.
    :param arguments: its arguments.
    :param said: what the process prints is written here.
    """

    def __init__(self, work: Callable[..., object], *arguments: object, said: Path) -> None:
        self._said = said
        self._process = SERVER.Process(target=_called, args=(said, dict(os.environ), work, arguments), daemon=True)
        self._process.start()
        assert self._process.pid
        self.pid = self._process.pid

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def goes_on(self) -> bool:
        return self._process.exitcode is None

    def ended(self, seconds: float = 120) -> tuple[int, str]:
        """Wait for it. :returns: its exit code, −n for signal n, and what it has printed.

        :raises AssertionError: it does not end within so many *seconds*.
        """
        self._process.join(seconds)
        code, printed = self._process.exitcode, self._said.read_text() if self._said.exists() else ""
        assert code is not None, f"it goes on: {printed}"
        return code, printed


def _called(
    said: Path, environment: dict[str, str], work: Callable[..., object], arguments: tuple[object, ...]
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(file, stream)
    work(*arguments)


def command_line(*words: str) -> None:
    """``fathom`` with these *words*."""
    from fathom.cli import main

    sys.argv = ["fathom", *words]
    main()
