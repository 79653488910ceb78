"""Folders that a command makes as a whole, signed with what made them, and files in folders of the user.

A repeated command finds its own folder finished. Nothing that Fathom did not write is replaced or removed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from fathom._version import VERSION
from fathom.base.errors import BadInput, MadeBefore, RunFailed
from fathom.base.reading import Json, Unreadable, as_read_back, json_file, stands
from fathom.store.files import OWNERS, check_name, file_digest, is_of_disk, make_folder, sync, whole_file, write_json
from fathom.store.locks import AT_WORK, lock_alone

MADE = ".made"
"""The signature of a folder, as JSON."""


@contextmanager
def whole_folder(path: Path, signature: Json | None = None) -> Iterator[Path]:
    """Yield a temporary folder that is signed and becomes *path* on leaving, or is removed if writing failed.

    What a killed writer of the same folder has left is removed.

    :raises BadInput: another process is writing it.
    :raises RunFailed: the disk is full, the place cannot be written to, or *path* was made meanwhile.
    """
    temporary = check_name(path).with_name(f".{path.name}.tmp")
    try:
        with _writing_alone(temporary, path):
            yield temporary
            if signature is not None:
                write_json(temporary / MADE, signature | {"holds": _file_names(temporary)})
            for file in temporary.rglob("*"):
                if file.is_file():
                    sync(file)
            temporary.rename(path)
            (path / AT_WORK).unlink(missing_ok=True)
    except OSError as error:
        raise RunFailed(f"cannot write {path}: {error.strerror or error}; nothing is left of it") from error
    except Exception as error:
        if not is_of_disk(error):
            raise
        raise RunFailed(f"cannot write {path}: {error}; nothing is left of it") from error


@contextmanager
def _writing_alone(temporary: Path, path: Path) -> Iterator[None]:
    """Make *temporary* an empty folder that no other process writes to; remove it on leaving."""
    make_folder(path.parent)
    descriptor, ours = None, False
    try:
        try:
            temporary.mkdir()
            ours = True
        except FileExistsError:
            if not _is_writers(temporary):
                raise BadInput(
                    f"{temporary} is in the way and not Fathom's: move it, or choose another --out"
                ) from None
        descriptor = lock_alone(temporary / AT_WORK)
        if descriptor is None and not ours:  # without locks, a killed writer looks like a running one
            raise BadInput(f"{temporary}: a command is writing it or was killed; if none is running, delete it")
        ours = True
        for entry in temporary.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name != AT_WORK:
                entry.unlink()
        yield
    finally:
        if ours:
            shutil.rmtree(temporary, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)


def _is_writers(folder: Path) -> bool:
    """Return whether :func:`whole_folder` has made it: it writes the lock first."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    return (folder / AT_WORK).is_file() or not any(folder.iterdir())


def signature_of(
    command: str, options: Mapping[str, object], *, files: Iterable[str | Path] = (), **more: object
) -> Json:
    """Return all that decides what a command makes.

    :param options: values that JSON can represent.
    :param files: input files and folders of them, identified by path, size and time; missing ones by name.
    :param more: such as digests of the input.
    """
    stamps = [stamp for file in files for stamp in _stamps(Path(file))]
    parts = {"command": command, "fathom": VERSION, "options": dict(options), "files": stamps, **more}
    return dict(as_read_back(parts))


def _stamps(path: Path) -> list[list[object]]:
    """Return path, size and time of each file; the readers report what is wrong with them."""
    if os.path.isdir(path):
        files = sorted(Path(folder) / name for folder, _, names in os.walk(path) for name in names)
        return [stamp for file in files for stamp in _stamps(file)]
    try:
        status = path.stat()
        return [[str(path.resolve()), status.st_size, status.st_mtime_ns]]
    except (OSError, RuntimeError, ValueError):
        return [[str(path)]]


def obstacles(out: Path, signature: Json) -> list[str]:
    """Return a fault if *out* exists and is not an empty folder.

    :param signature: see :func:`signature_of`.
    :raises MadeBefore: the same command has made it.
    """
    if out.is_symlink():
        return [f"{out} is a link: give the folder it leads to"]
    if not stands(out):
        parent = next(place for place in out.absolute().parents if stands(place))
        return [] if parent.is_dir() else [f"--out {out}: {parent} is a file, expected a folder"]
    if out.is_dir() and not any(out.iterdir()):
        return []
    if is_signed(out, signature):
        (out / AT_WORK).unlink(missing_ok=True)  # a kill may have come right before its removal
        raise MadeBefore(f"{out} is there already: the same command has made it before, nothing is left to do")
    return [f"{out} is there already{_changed_options(out, signature)}: delete it, or choose another --out"]


def _changed_options(out: Path, signature: Json) -> str:
    """Return ", made with seed 1 instead of 0" if the same command made *out* with others; of many, three."""
    try:
        made = json_file(out / MADE)
    except BadInput:
        return ""
    if not isinstance(made, dict) or made.get("command") != signature["command"]:
        return ""
    before, now = _leaves(made), _leaves(signature)
    changed = [name for name in now if before.get(name) != now[name]]
    listed = (f"{name.rpartition('.')[2]} {before.get(name)} instead of {now[name]}" for name in changed[:3])
    return f", made with {', '.join(listed)}" if changed else ""


def _leaves(value: object, name: str = "") -> dict[str, object]:
    if not isinstance(value, dict):
        return {name: value}
    return {
        leaf: entry
        for key, inner in value.items()
        for leaf, entry in _leaves(inner, f"{name}.{key}".lstrip(".")).items()
    }


def is_signed(out: Path, signature: Json) -> bool:
    """Return whether the same command has made *out*, and none of its files is missing."""
    try:
        return out.is_dir() and json_file(out / MADE) == signature | {"holds": _file_names(out)}
    except BadInput:
        return False


def _file_names(folder: Path) -> list[str]:
    """Return names without sizes: some files contain how long the command took."""
    files = (file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())
    return sorted(file for file in files if file not in (MADE, AT_WORK))


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
    digests = _recorded(path.parent) if recorded else {}
    check_output(path, overwrite=overwrite, ours=[digest, *digests.get(path.name, ())])
    if recorded:
        write_json(path.parent / RECORD, digests | {path.name: [*digests.get(path.name, ())[-1:], digest]})
    with whole_file(path) as temporary:
        temporary.write_bytes(data)


def check_output(path: Path, *, overwrite: bool = False, ours: list[str] | None = None) -> None:
    """Check that a file may be written.

    :param ours: digests of contents that may be replaced.
    :raises BadInput: it is a folder, a file that Fathom did not write, or one of a run, a model, a plan or data.
    """
    if path.is_dir():
        raise BadInput(f"{path} is a folder: give the file to write")
    if not stands(path) or (ours and file_digest(path) in ours):
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
            if stands(file) and file_digest(file) in digests:
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
