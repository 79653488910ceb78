"""How far something has got: drawn where somebody looks, a log line now and then elsewhere.

All of it goes by the logger "fathom": at ``WARNING`` (``--quiet``) nothing is shown, at ``DEBUG`` (``--verbose``) there
are lines instead of bars, more of them, and what was loaded. In a terminal and in a notebook a bar is drawn; elsewhere
lines of the level ``INFO`` go to standard error, or wherever the program's own ``logging`` sends them.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from fathom.reading.files import printable

Progress = Callable[[int, int], None]
"""Told how many are done, and of how many."""
Shown = Progress | Literal[False] | None
"""What to tell; None: whatever suits the place; False: nothing."""
LOG = logging.getLogger("fathom")
EVERY = 10.0
"""Seconds between two lines."""
EVERY_IF_VERBOSE = 1.0


def unseen(done: int, total: int) -> None:
    """Progress that nobody is told of."""


@contextmanager
def shown(text: str, progress: Shown = None) -> Iterator[Progress]:
    """A callback (done, total) that shows how far *text* has got, while inside.

    :param progress: the caller's own, which is then used instead; False for none.
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
    """:func:`shown` of one of many things, without a beginning and an end: on a terminal a line that is written over.

    :returns: a callback (done, total).
    """
    if is_quiet():
        return unseen
    if is_verbose() or not sys.stderr.isatty():
        return Lines(text, EVERY_IF_VERBOSE if is_verbose() else EVERY)

    def tell(done: int, total: int) -> None:
        sys.stderr.write(f"\r{printable(text)}: {done}/{total} shards\x1b[K")
        sys.stderr.flush()

    return tell


@contextmanager
def starting(text: str, progress: Shown = None) -> Iterator[None]:
    """A sign of life while libraries, data and models are loaded, which takes seconds: a line on a terminal, wiped when
    that is done. Elsewhere nothing, unless somebody has asked for all there is to tell.

    :param progress: as for :func:`shown`; whoever looks after it themselves is shown nothing.
    """
    drawn = progress is None and sys.stderr.isatty() and not is_quiet() and not is_verbose()
    if drawn:
        sys.stderr.write(f"\r{printable(text)} …\x1b[K")
        sys.stderr.flush()
    else:
        detail(text)
    try:
        yield
    finally:
        if drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def is_quiet() -> bool:
    """Whether somebody has said so: the level that the logger only inherits is not meant for it."""
    return LOG.level > logging.INFO


def is_verbose() -> bool:
    """Whether somebody has asked for all there is to tell."""
    return logging.NOTSET < LOG.level <= logging.DEBUG


def log(text: str, level: int = logging.INFO) -> None:
    """A line of the log, on standard error unless the program has a log of its own."""
    if not LOG.hasHandlers():
        LOG.addHandler(_StandardError())
    if LOG.level == logging.NOTSET and any(isinstance(handler, _StandardError) for handler in LOG.handlers):
        LOG.setLevel(logging.INFO)  # what is inherited would hide it
    LOG.log(level, "%s", text)


def detail(text: str) -> None:
    """A line for those who have asked for all there is to tell."""
    if is_verbose():
        log(text, logging.DEBUG)


class _StandardError(logging.StreamHandler[Any]):
    """Writes to what standard error is at the time, in lines without signs that steer a terminal."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)
        self.setFormatter(logging.Formatter("%(asctime)s fathom: %(message)s", "%H:%M:%S"))

    @property
    def stream(self) -> Any:
        return sys.stderr

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


class Lines:
    """A line of the log every so often, and one at the end of what has had any.

    :param every: seconds between two of them.
    """

    def __init__(self, text: str, every: float = EVERY) -> None:
        self.text, self.every = text, every
        self.began = self.told = time.monotonic()
        self.any = False

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self.told >= self.every or (done >= total and self.any):
            log(f"{self.text}: {how_far(done, total, now - self.began)}")
            self.told, self.any = now, done < total


def how_far(done: int, total: int, seconds: float) -> str:
    """In words. :param seconds: that it took so far."""
    if not total:
        return f"{seconds:.0f} s"
    left = f", about {seconds * (total - done) / done:.0f} s left" if 0 < done < total else ""
    return f"{done:,} of {total:,} ({done / total:.0%}), {seconds:.0f} s{left}"


@contextmanager
def _bar(text: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    name = TextColumn("{task.description}", markup=False)
    columns = (name, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    # What is printed meanwhile stands above the bar, but never in its place where it is to go to a file.
    with Bar(*columns, console=Console(stderr=True), redirect_stdout=sys.stdout.isatty()) as bar:
        task = bar.add_task(printable(text), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _in_notebook() -> bool:
    """Whether there is a cell below which something can be shown; IPython in a terminal has none."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class _Cell:
    """A bar below a notebook's cell, by HTML alone: the widgets of other bars need an extension."""

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
