"""Progress: a bar in terminals and notebooks, log lines elsewhere; the level of the logger "fathom" decides.

``WARNING`` (``--quiet``) shows nothing, ``DEBUG`` (``--verbose``) log lines instead of bars.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from fathom.base.reading.files import printable

Progress = Callable[[int, int], None]
"""Called with the number done and the total."""
ProgressSetting = Progress | Literal[False] | None
"""A callback; None: the default display; False: none."""
LOG = logging.getLogger("fathom")
EVERY = 10.0
"""Seconds between log lines."""
EVERY_IF_VERBOSE = 1.0
WRITERS: list[Callable[[str], None]] = []
"""Called with each line that is logged, such as the log of a run."""
_BARS: list[Any] = []
"""The bar that is drawn, if any: other writing on its terminal would leave copies of it."""


def unseen(done: int, total: int) -> None:
    """Display nothing."""


@contextmanager
def shown(text: str, progress: ProgressSetting = None) -> Iterator[Progress]:
    """Yield a callback (done, total) that displays progress.

    :param progress: a callback to use instead; False for none.
    """
    if progress is not None and progress is not False:
        yield progress
    elif progress is False or is_quiet():
        yield unseen
    elif is_verbose():
        yield Lines(text, EVERY_IF_VERBOSE)
    elif sys.stderr.isatty():
        with _bar(text) as report:
            yield report
    elif _in_notebook():
        yield _Cell(text)
    else:
        yield Lines(text)


def line(text: str) -> Progress:
    """Return a callback (done, total) for one of many tasks: on a terminal, it has a bar below theirs, or one line."""
    if is_quiet():
        return unseen
    if is_verbose() or not sys.stderr.isatty():
        return Lines(text, EVERY_IF_VERBOSE if is_verbose() else EVERY)
    if _BARS:
        bar, task = _BARS[-1], _BARS[-1].add_task(printable(text), total=None)
        return lambda done, total: bar.update(task, completed=done, total=total, visible=done < total)
    return lambda done, total: _overwrite_line(f"{printable(text)}: {done:,} of {total:,}")


def _overwrite_line(text: str) -> None:
    sys.stderr.write(f"\r{text}\x1b[K")
    sys.stderr.flush()


@contextmanager
def starting(text: str, progress: ProgressSetting = None) -> Iterator[None]:
    """Display a line on a terminal while loading; elsewhere, log it with ``--verbose``.

    :param progress: as for :func:`shown`; the caller's own disables the display.
    """
    if progress is not None or not sys.stderr.isatty() or is_quiet() or is_verbose():
        detail(text)
        yield
        return
    _overwrite_line(f"{printable(text)} …")
    try:
        yield
    finally:
        _overwrite_line("")


def is_quiet() -> bool:
    """Return whether the logger's own level hides progress."""
    return LOG.level > logging.INFO


def is_verbose() -> bool:
    """Return whether the logger's own level is DEBUG."""
    return logging.NOTSET < LOG.level <= logging.DEBUG


def log(text: str, level: int = logging.INFO) -> None:
    """Log a line, on standard error unless the program configures logging."""
    if not LOG.hasHandlers():
        LOG.addHandler(_StandardError())
    if LOG.level == logging.NOTSET and any(isinstance(handler, _StandardError) for handler in LOG.handlers):
        LOG.setLevel(logging.INFO)  # the inherited level would hide it
    LOG.log(level, "%s", text)
    if level >= logging.INFO:  # even if the program hides it
        for write in WRITERS:
            write(text)


def detail(text: str) -> None:
    """Log a line with ``--verbose``."""
    if is_verbose():
        log(text, logging.DEBUG)


class _StandardError(logging.StreamHandler[Any]):
    """A handler for the current standard error, without control characters."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)
        self.setFormatter(logging.Formatter("%(asctime)s fathom: %(message)s", "%H:%M:%S"))

    @property
    def stream(self) -> Any:
        return sys.stderr

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


class Lines:
    """Log lines at intervals, and at the end if there were any. :param every: seconds between lines."""

    def __init__(self, text: str, every: float = EVERY) -> None:
        self.text, self.every = text, every
        self.start = self.last = time.monotonic()
        self.any = False
        self.before = self.total = 0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if total != self.total:  # the first call tells what an earlier session has done
            self.before, self.total = done, total
        if now - self.last >= self.every or (done >= total and self.any):
            log(f"{self.text}: {how_far(done, total, now - self.start, self.before)}")
            self.last, self.any = now, done < total


def how_far(done: int, total: int, seconds: float, before: int = 0) -> str:
    """Describe progress. :param seconds: so far. :param before: how many were done before these."""
    if not total:
        return f"{seconds:.0f} s"
    left = f", about {seconds * (total - done) / (done - before):.0f} s left" if before < done < total else ""
    return f"{done:,} of {total:,} ({100 * done / total:.0f} %), {seconds:.0f} s{left}"


@contextmanager
def _bar(text: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    name = TextColumn("{task.description}", markup=False)
    columns = (name, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    # Output goes above the bar, unless standard output is redirected.
    with Bar(*columns, console=Console(stderr=True), redirect_stdout=sys.stdout.isatty()) as bar:
        task = bar.add_task(printable(text), total=None)
        _BARS.append(bar)
        try:
            yield lambda done, total: bar.update(task, completed=done, total=total)
        finally:
            _BARS.remove(bar)


def _in_notebook() -> bool:
    """Return whether there is a notebook; IPython in a terminal has no kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class _Cell:
    """A bar below a notebook cell, in plain HTML: widgets need an extension."""

    def __init__(self, text: str) -> None:
        self.text, self.began = text, time.monotonic()
        self.done = self.total = 0
        self.handle: Any = None

    def __call__(self, done: int, total: int) -> None:
        from IPython.display import display

        self.done, self.total = done, total
        if self.handle is None:
            self.handle = display(self, display_id=True)
        else:
            self.handle.update(self)

    def __repr__(self) -> str:
        return f"{printable(self.text)}: {how_far(self.done, self.total, time.monotonic() - self.began)}"

    def _repr_html_(self) -> str:
        from html import escape

        return f'<progress value="{self.done}" max="{self.total or 1}"></progress> {escape(repr(self))}'
