"""Locks of files that end with their process, whatever ends it."""

from __future__ import annotations

import fcntl
import os
import platform
from pathlib import Path

from fathom.errors import BadInput


class Taken(Exception):
    """Another has the lock. Its text says who, as far as that is known."""


def lock(file: Path, how: int = fcntl.LOCK_EX | fcntl.LOCK_NB) -> int | None:
    """Take the lock of *file*, which is made where it is not there and then says who has it.

    :param how: LOCK_EX or LOCK_SH, with LOCK_NB where it is not to be waited for.
    :returns: the descriptor that holds it; None where the file system has no locks.
    :raises Taken: another has it, and it is not to be waited for.
    :raises BadInput: something else stands in its place.
    """
    if file.is_symlink() or (file.exists() and not file.is_file()):  # a stranger's folder may lead anywhere
        raise BadInput(f"{file} is no file: remove it, it only says who is at work here")
    try:
        opened = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError:
        return None
    try:
        fcntl.flock(opened, how)
    except BlockingIOError as error:
        who = os.read(opened, 200).decode("utf-8", "replace").strip() or "another process"
        os.close(opened)
        raise Taken(who) from error
    except OSError:
        os.close(opened)
        return None
    if not _is_at(opened, file):  # its holder has just ended
        os.close(opened)
        return lock(file, how)
    os.truncate(opened, 0)
    os.write(opened, f"process {os.getpid()} on {platform.node()}".encode())
    return opened


def unlock(file: Path, held: int | None) -> None:
    """Give up a lock that nobody shares, and remove its file."""
    if held is not None:
        file.unlink(missing_ok=True)
        os.close(held)


def is_last(held: int | None) -> bool:
    """Whether nobody else shares a lock; from then on it is held alone, or, where others do, not any more."""
    if held is None:
        return False
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_at(opened: int, file: Path) -> bool:
    try:
        return os.fstat(opened).st_ino == file.stat().st_ino
    except FileNotFoundError:
        return False
