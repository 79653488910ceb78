"""Outputs in folders of the user: nothing that Fathom did not write is replaced or removed.

A folder of tables and pictures records the digests of what was written there. Any other content belongs to the user.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

from fathom.base.errors import BadInput
from fathom.base.reading import Unreadable, json_file, opened, stands
from fathom.store.files import OWNERS, whole_file, write_json

RECORD = ".written.json"
"""Digests of each file by its name: of the last two contents, as a kill may come between record and file."""
Digests = dict[str, list[str]]


def write_output(path: Path, content: str | bytes, *, overwrite: bool = False, recorded: bool = True) -> None:
    """Write a file.

    :param overwrite: replace a file that Fathom did not write.
    :param recorded: whether its folder is one of outputs, which then records it.
    :raises BadInput: a file is in the way.
    :raises RunFailed: the disk is full.
    """
    data = content.encode() if isinstance(content, str) else content
    digest = hashlib.sha256(data).hexdigest()
    known = _recorded(path.parent) if recorded else {}
    check_output(path, overwrite=overwrite, ours=[digest, *known.get(path.name, ())])
    if recorded:
        write_json(path.parent / RECORD, known | {path.name: [*known.get(path.name, ())[-1:], digest]})
    with whole_file(path) as temporary:
        temporary.write_bytes(data)


def check_output(path: Path, *, overwrite: bool = False, ours: list[str] | None = None) -> None:
    """Check that a file may be written.

    :param ours: digests of contents that may be replaced.
    :raises BadInput: it is a folder, a file that Fathom did not write, or one of a run, a model, a plan or data.
    """
    if path.is_dir():
        raise BadInput(f"{path} is a folder: give the file to write")
    if not stands(path) or (ours and _digest(path) in ours):
        return
    if any((path.parent / name).exists() for name in OWNERS):
        raise BadInput(f"{path} is a file of what is in {path.parent}: give a file elsewhere")
    if not overwrite:
        raise BadInput(f"{path} exists and Fathom did not write it: give another place, or add --overwrite")


def remove_written(folder: Path) -> None:
    """Remove from a folder, and those in it, the files that Fathom wrote there; and folders left empty."""
    for record in [*folder.rglob(RECORD)]:
        for name, digests in _recorded(record.parent).items():
            file = record.parent / name
            if stands(file) and _digest(file) in digests:
                file.unlink()
        record.unlink()
    for inner in sorted((path for path in [folder, *folder.rglob("*")] if path.is_dir()), reverse=True):
        with suppress(OSError):  # not empty
            inner.rmdir()


def _recorded(folder: Path) -> Digests:
    """Return the record of a folder; {} if there is none that can be read."""
    with suppress(Unreadable):
        content = json_file(folder / RECORD)
        if isinstance(content, dict) and all(isinstance(digests, list) for digests in content.values()):
            return content
    return {}


def _digest(path: Path) -> str | None:
    try:
        with opened(path, unpack=False) as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except Unreadable:
        return None
