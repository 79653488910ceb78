"""Files that are written whole or not at all: to a temporary name, synced, then renamed."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from fathom.base.errors import BadInput, RunFailed
from fathom.base.reading import Unreadable, opened
from fathom.base.reading.bounds import FOLDERS
from fathom.base.reading.files import check_encoding

OWNERS = (
    *("manifest.json", "link.json", "study.json", "plan.json", "config.json", "facts.jsonl", "relations.jsonl"),
    *("queries.parquet", "metadata_relations.json", "train.tsv", "test.tsv"),
)
"""Files of which one identifies a folder of a run, a model, a plan or data."""


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path that becomes *path* on leaving, or is removed if writing failed.

    :raises RunFailed: the disk is full or the folder cannot be written to.
    """
    temporary = check_name(path).with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    descriptor = None
    try:
        make_folder(path.parent)
        descriptor = _begin(temporary)
        mode = os.fstat(descriptor).st_mode
        yield temporary
        temporary.chmod(mode)  # as the umask says; some writers, such as safetensors, restrict files to the owner
        sync(temporary)
        temporary.replace(path)
    except OSError as error:
        raise RunFailed(f"cannot write {path}: {error.strerror or error}; finished work is kept") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if descriptor is not None:
            os.close(descriptor)


def is_of_disk(error: BaseException) -> bool:
    """Return whether the system has refused to read or write. Libraries in Rust say so in a text alone."""
    return isinstance(error, OSError) or "(os error " in str(error)


@contextmanager
def written_by_libraries(folder: Path) -> Iterator[None]:
    """Let a library write into a folder.

    :raises RunFailed: the disk is full or the folder cannot be written to.
    """
    try:
        yield
    except Exception as error:
        if not is_of_disk(error):
            raise
        raise RunFailed(f"cannot write into {folder}: {error}; finished work is kept") from error


def sync(file: Path) -> None:
    with file.open("rb+") as opened:
        os.fsync(opened.fileno())


def check_name(path: Path) -> Path:
    """Return the path. :raises BadInput: it has no name, such as "." and "/"."""
    if not path.name:
        raise BadInput(f"--out {str(path)!r} has no name: give one below it, e.g. {path / 'result'}")
    return path


def make_folder(folder: Path) -> None:
    """Make a folder and its parents. :raises BadInput: it is nested too deep, or its name is not UTF-8."""
    if len(folder.parts) > FOLDERS.most:
        raise BadInput(f"--out: {FOLDERS.fault()}")
    check_encoding(folder).mkdir(parents=True, exist_ok=True)


def _begin(temporary: Path) -> int:
    """Make a temporary file and lock it as long as its writer lives. :returns: the descriptor with the lock."""
    while True:
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        with suppress(OSError):  # no locks on this file system
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if temporary.exists():  # else another process has just cleared it away
            return descriptor
        os.close(descriptor)


def refuse_foreign_files(folder: Path, expected: Collection[str], kind: str) -> None:
    """Check that a new folder of Fathom may be begun here: nothing is there but *expected* and temporary files.

    :param kind: what the folder is to be, such as "a run".
    :raises BadInput: it is a file, or contains something else.
    """
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is a file: choose another --out")
    if folder.exists() and any(entry.name not in expected and entry.suffix != ".tmp" for entry in folder.iterdir()):
        raise BadInput(f"{folder} is not empty and not {kind}: choose another --out")


def clear_temporaries(folder: Path) -> None:
    """Remove temporary files of ended processes below *folder*: those that no process has locked.

    Numbers of processes would not do: they repeat in containers, which may share the folder.
    """
    for file in folder.rglob(".*.tmp"):
        if not file.is_symlink() and file.is_file() and _is_left(file):
            file.unlink(missing_ok=True)


def _is_left(temporary: Path) -> bool:
    try:
        descriptor = os.open(temporary, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # locked, or there are no locks
        return False
    finally:
        os.close(descriptor)
    return True


def write_json(path: Path, content: object) -> None:
    """Write indented JSON. :raises RunFailed: the disk is full."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_table(path: Path, table: pa.Table) -> None:
    """Write a Parquet file with checksums of its pages. :raises RunFailed: the disk is full."""
    with whole_file(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)


def file_digest(path: Path) -> str | None:
    """Return the SHA-256 of a file's bytes; None if it cannot be read."""
    try:
        with opened(path, unpack=False) as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except Unreadable:
        return None


def write_text(path: Path, text: str | Iterable[str]) -> None:
    """Write a text, or its pieces, as UTF-8. :raises RunFailed: the disk is full."""
    with whole_file(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.writelines([text] if isinstance(text, str) else text)


def write_json_lines(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Write one object per line directly to *path*: for files in a folder that is written as a whole."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
