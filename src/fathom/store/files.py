"""Files that are either whole or not there: written beside their place, synced, renamed."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fathom.errors import BadInput, RunFailed
from fathom.store.locks import Taken, lock, unlock

OURS = ("manifest.json", "link.json", "study.json")
"""What tells a folder of runs, of a link predictor or of a study from any other."""
DEEPEST = 200
"""Folders in a path. Much that walks through folders, Python's own library too, fails in a thousand."""
AT_WORK = ".at-work"
"""In a folder where a process is at work: which one."""
CLAIMS = ".claims"
"""In a folder where several are at work (:mod:`fathom.store.together`): a lock for each piece that one has in hand."""


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path to write to; it becomes *path* on leaving, and nothing is left where writing failed.

    :raises RunFailed: the disk is full or the folder cannot be written to.
    """
    # The number of the process says who has left it, the other that two machines write into one folder.
    temporary = _named(path).with_name(f".{path.name}.{secrets.token_hex(4)}.{os.getpid()}.tmp")
    try:
        make_folder(path.parent)
        temporary.touch()
        mode = temporary.stat().st_mode
        yield temporary
        temporary.chmod(mode)  # what the umask gives; some writers, such as safetensors, make files for the owner alone
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise RunFailed(f"cannot write {path}: {error.strerror or error}; what is finished is kept") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A temporary folder to write to; it becomes *path* on leaving, and nothing is left where writing failed. What a
    writer that was killed has left of the same folder is removed.

    :raises BadInput: another process is writing it.
    :raises RunFailed: the disk is full, the place cannot be written to, or *path* has come into being meanwhile.
    """
    temporary = _named(path).with_name(f".{path.name}.tmp")
    try:
        with _writing_alone(temporary, path):
            yield temporary
            for file in temporary.rglob("*"):
                if file.is_file():
                    with file.open("rb+") as opened:
                        os.fsync(opened.fileno())
            temporary.rename(path)
            free(path)
    except OSError as error:
        raise RunFailed(f"cannot write {path}: {error.strerror or error}; nothing is left of it") from error
    except Exception as error:
        if "(os error " not in str(error):  # what libraries in Rust, such as safetensors, say of a full disk
            raise
        raise RunFailed(f"cannot write {path}: {error}; nothing is left of it") from error


@contextmanager
def _writing_alone(temporary: Path, path: Path) -> Iterator[None]:
    """*temporary* as an empty folder that no other process writes to; it is gone on leaving."""
    make_folder(path.parent)
    made_now = _made_now(temporary)
    if not made_now and not _is_ours(temporary):
        raise BadInput(f"{temporary} is in the way, and none of ours: move it, or choose another --out")
    held = _held(temporary / AT_WORK)
    if held is None and not made_now:  # without locks, what was left looks like what is being written
        raise BadInput(f"{temporary}: a killed command has left it, or another is writing it; if none is, delete it")
    try:
        for other in temporary.iterdir():
            if other.is_dir() and not other.is_symlink():
                shutil.rmtree(other)
            elif other.name != AT_WORK:
                other.unlink()
        yield
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if held is not None:
            os.close(held)


def _made_now(folder: Path) -> bool:
    try:
        folder.mkdir()
    except FileExistsError:
        return False
    return True


def _is_ours(folder: Path) -> bool:
    """Whether a writer of whole folders has made it: the lock is the first that it writes."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    return (folder / AT_WORK).is_file() or not any(folder.iterdir())


def free(folder: Path) -> None:
    """Take the lock out of a folder that is finished: a kill may have come between its last two steps."""
    (folder / AT_WORK).unlink(missing_ok=True)


def _named(path: Path) -> Path:
    """:raises BadInput: *path* has no name, such as "." and "/"."""
    if not path.name:
        raise BadInput(f"--out {str(path)!r} names nothing to be written: give a name below it, e.g. {path / 'result'}")
    return path


def make_folder(folder: Path) -> None:
    """With those above it, where they are not there. :raises BadInput: it is deeper than :data:`DEEPEST`."""
    if len(folder.parts) > DEEPEST:
        raise BadInput(f"--out is {len(folder.parts):,} folders deep: expected {DEEPEST} at most")
    folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep other processes from working in *folder* meanwhile; it is made where it is not there, and taken away again
    where nothing was written. What killed processes have left of their files is removed from a folder of ours.

    :raises BadInput: another is at work there, or something else stands in the lock's place.
    """
    with suppress(OSError):  # whoever wants to write there says why it cannot
        make_folder(folder)
    held = _held(folder / AT_WORK)
    try:
        tidy(folder)
        yield
    finally:
        unlock(folder / AT_WORK, held)
        with suppress(OSError):  # it is not empty
            folder.rmdir()


def _held(file: Path) -> int | None:
    """A lock that ends with this process; None where there can be none. :raises BadInput: another has it."""
    try:
        return lock(file)
    except Taken as taken:
        raise BadInput(f"{file.parent}: {taken} is at work here: wait for it, or choose another --out") from taken


def tidy(folder: Path) -> None:
    """Remove what killed processes have left in a folder of ours, while nobody else is at work there."""
    if any((folder / name).is_file() for name in OURS):
        clear_temporaries(folder)
        shutil.rmtree(folder / CLAIMS, ignore_errors=True)


def clear_temporaries(folder: Path) -> None:
    """Remove what writers that were killed have left below *folder*: their files carry the number of their process."""
    for left in folder.rglob(".*.tmp"):
        if left.is_file() and _is_left(left):
            left.unlink(missing_ok=True)


def _is_left(temporary: Path) -> bool:
    """Whether nobody is writing to it any more."""
    number = temporary.name.split(".")[-2]
    return number.isdecimal() and (int(number) == os.getpid() or not _runs(int(number)))


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def write_json(path: Path, content: Any) -> None:
    """Indented JSON, whole or not at all. :raises RunFailed: the disk is full."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_table(path: Path, table: pa.Table) -> None:
    """A Parquet file, whole or not at all. :raises RunFailed: the disk is full."""
    with whole_file(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def write_text(path: Path, text: str | Iterable[str]) -> None:
    """UTF-8, whole or not at all. :param text: or its pieces. :raises RunFailed: the disk is full."""
    with whole_file(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.writelines([text] if isinstance(text, str) else text)


def write_json_lines(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """One object a line, written one at a time: for files in a folder that is whole or not there."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
