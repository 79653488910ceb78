"""Locks of folders, which end with their process: one process alone, or several that share the work.

On a file system without locks a task may be done twice, and nothing else happens: files are whole or absent.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fathom.base.errors import BadInput
from fathom.base.reading import Unreadable, json_file
from fathom.store.files import clear_temporaries, make_folder

MANIFESTS = ("manifest.json", "link.json", "study.json", "plan.json")
"""Files that identify a folder of a run, of a link predictor, of a study or of a plan."""
AT_WORK = ".at-work"
"""Lock file of a folder; names the process that holds it."""
CLAIMS = ".claims"
"""Folder of the locks of tasks, where several processes share the work."""
PATIENCE = 5.0
"""Seconds to wait for a process that has the folder alone while it tidies up."""


class Locked(Exception):
    """Another process has the lock; the text names it, as far as known."""


def lock(file: Path, mode: int = fcntl.LOCK_EX | fcntl.LOCK_NB) -> int | None:
    """Take the lock of *file*, which is made if missing.

    :param mode: LOCK_EX or LOCK_SH, with LOCK_NB in order not to wait.
    :returns: the descriptor that holds it; None if the file system has no locks.
    :raises Locked: another process has it, and *mode* does not wait.
    :raises BadInput: the path is not a file.
    """
    if file.is_symlink() or (file.exists() and not file.is_file()):  # a foreign folder's link may lead anywhere
        raise BadInput(f"{file} is not a file: remove it, it only names the process that works in this folder")
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, mode)
    except BlockingIOError as error:
        holder = os.read(descriptor, 200).decode("utf-8", "replace").strip() or "another process"
        os.close(descriptor)
        raise Locked(holder) from error
    except OSError:
        os.close(descriptor)
        return None
    if not _is_at(descriptor, file):  # its holder has just removed it
        os.close(descriptor)
        return lock(file, mode)
    os.truncate(descriptor, 0)
    os.write(descriptor, f"process {os.getpid()} on {platform.node()}".encode())
    return descriptor


def _is_at(descriptor: int, file: Path) -> bool:
    try:
        return os.fstat(descriptor).st_ino == file.stat().st_ino
    except FileNotFoundError:
        return False


def lock_alone(file: Path) -> int | None:
    """Take a lock as :func:`lock` does. :raises BadInput: another process has it."""
    try:
        return lock(file)
    except Locked as holder:
        raise BadInput(f"{file.parent}: {holder} is at work here: wait for it, or choose another --out") from holder


def unlock(file: Path, descriptor: int | None) -> None:
    """Release an exclusive lock and remove its file."""
    if descriptor is not None:
        file.unlink(missing_ok=True)
        os.close(descriptor)


def is_of_fathom(folder: Path) -> bool:
    """Return whether a folder is of a run, a link predictor, a plan or a study, by content: names repeat."""
    for name in MANIFESTS:
        with suppress(Unreadable):
            content = json_file(folder / name)
            if isinstance(content, dict) and {"identity", "steps"} & content.keys():
                return True
    return False


def _tidy(folder: Path) -> None:
    """Remove temporary files of ended processes from a folder of Fathom. Call only while holding its lock."""
    if any((folder / name).is_file() for name in MANIFESTS):
        clear_temporaries(folder)
        shutil.rmtree(folder / CLAIMS, ignore_errors=True)


@contextmanager
def _kept_if_used(folder: Path) -> Iterator[None]:
    """Make a folder; remove it on leaving if it is empty."""
    with suppress(OSError):  # writing there will report the reason
        make_folder(folder)
    try:
        yield
    finally:
        with suppress(OSError):  # not empty
            folder.rmdir()


@contextmanager
def exclusive_folder(folder: Path) -> Iterator[None]:
    """Keep other processes out of *folder*, which is made if missing and removed if left empty.

    Temporary files of ended processes are removed from a folder of Fathom.

    :raises BadInput: another process works there, or the lock's path is not a file.
    """
    with _kept_if_used(folder):
        descriptor = lock_alone(folder / AT_WORK)
        try:
            _tidy(folder)
            yield
        finally:
            unlock(folder / AT_WORK, descriptor)


@contextmanager
def shared_folder(folder: Path) -> Iterator[Claims]:
    """Share *folder* with other processes that do the same; keep out those that call :func:`exclusive_folder`.

    The folder is made if missing and removed if left empty. A process that finds no other one tidies up.

    :raises BadInput: a process works there alone, or the lock's path is not a file.
    """
    with _kept_if_used(folder):
        descriptor = _lock_shared(folder)
        try:
            yield Claims(folder / CLAIMS)
        finally:
            if _is_last(descriptor):
                shutil.rmtree(folder / CLAIMS, ignore_errors=True)
                unlock(folder / AT_WORK, descriptor)
            elif descriptor is not None:
                os.close(descriptor)


def _lock_shared(folder: Path) -> int | None:
    file, deadline = folder / AT_WORK, time.monotonic() + PATIENCE
    while True:
        with suppress(Locked):
            exclusive = lock(file)
            if exclusive is not None:
                _tidy(folder)
                os.close(exclusive)
        try:
            return lock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except Locked as holder:
            if time.monotonic() > deadline:
                raise BadInput(
                    f"{folder}: {holder} is at work here, without --part: wait for it, or choose another --out"
                ) from holder
        time.sleep(0.05)


def _is_last(descriptor: int | None) -> bool:
    """Return whether no other process shares the lock, which then becomes exclusive."""
    if descriptor is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


class Claims:
    """Tasks by name, each claimed by one process at a time. :param folder: of the locks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def claimed(self, name: str, wait: bool = False) -> Iterator[bool]:
        """Yield whether this process has claimed the task. An earlier holder may have finished it: check again.

        :param wait: until no other process has it.
        """
        with suppress(OSError):
            make_folder(self.folder)
        try:
            descriptor = lock(self.folder / name, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except Locked:
            yield False
            return
        try:
            yield True
        finally:
            unlock(self.folder / name, descriptor)
