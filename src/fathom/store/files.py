"""Files that are either whole or not there: written beside their place, synced, renamed."""

from __future__ import annotations

import glob
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fathom.errors import RunFailed


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path to write to; it becomes *path* on leaving, and nothing is left where writing failed.

    :raises RunFailed: the disk is full or the folder cannot be written to.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
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
        if path.parent.is_dir():
            temporary.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A temporary folder to write to; it becomes *path* on leaving, and nothing is left where writing failed. What
    writers that were killed have left of the same folder is removed.

    :raises RunFailed: the disk is full, the place cannot be written to, or *path* has come into being meanwhile.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
            if _is_left(left):
                shutil.rmtree(left, ignore_errors=True)
        temporary.mkdir(parents=True)
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                with file.open("rb+") as opened:
                    os.fsync(opened.fileno())
        temporary.rename(path)
    except OSError as error:
        raise RunFailed(f"cannot write {path}: {error.strerror or error}; nothing is left of it") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


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


def write_text(path: Path, text: str) -> None:
    """UTF-8, whole or not at all. :raises RunFailed: the disk is full."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json_lines(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """One object a line, written one at a time: for files in a folder that is whole or not there."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
