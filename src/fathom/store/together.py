"""Several processes at work in one folder: who wants it alone is kept out, and each piece of work is done by one.

Locks (:mod:`fathom.store.locks`) say who does what, and end with their process. They only save work: every file is
whole or absent, and the same whoever writes it, so that on a file system without locks, or with locks that other
machines do not see, a piece may be done twice and nothing else happens.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fathom.errors import BadInput
from fathom.store.files import AT_WORK, CLAIMS, make_folder, tidy
from fathom.store.locks import Taken, is_last, lock, unlock

PATIENCE = 5.0
"""Seconds: who comes first has the folder alone while it tidies up."""


@contextmanager
def together_in(folder: Path) -> Iterator[Claims]:
    """Work in *folder* beside others that say the same, and keep out those that want to be :func:`alone_in
    <fathom.store.files.alone_in>` it. It is made where it is not there, and taken away again where nothing was written;
    who finds nobody else there removes what killed processes have left.

    :raises BadInput: somebody is alone at work there, or something else stands in the lock's place.
    """
    with suppress(OSError):  # whoever wants to write there says why it cannot
        make_folder(folder)
    held = _entered(folder)
    try:
        yield Claims(folder / CLAIMS)
    finally:
        if is_last(held):
            shutil.rmtree(folder / CLAIMS, ignore_errors=True)
            unlock(folder / AT_WORK, held)
        elif held is not None:
            os.close(held)
        with suppress(OSError):  # it is not empty
            folder.rmdir()


def _entered(folder: Path) -> int | None:
    """The shared lock of the folder; None where there can be none."""
    file, until = folder / AT_WORK, time.monotonic() + PATIENCE
    while True:
        with suppress(Taken):
            alone = lock(file)
            if alone is not None:
                tidy(folder)
                os.close(alone)
        try:
            return lock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except Taken as taken:
            if time.monotonic() > until:
                raise BadInput(
                    f"{folder}: {taken} is at work here, without --part: wait for it, or choose another --out"
                ) from taken
        time.sleep(0.05)


class Claims:
    """Pieces of work by name, each in the hands of one process at a time.

    :param folder: for the locks.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def claimed(self, name: str, wait: bool = False) -> Iterator[bool]:
        """Whether the piece is this process's while inside. Whoever has had it may have finished it: look again.

        :param wait: until nobody else has it.
        """
        with suppress(OSError):
            make_folder(self.folder)
        try:
            held = lock(self.folder / name, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except Taken:
            yield False
            return
        try:
            yield True
        finally:
            unlock(self.folder / name, held)
