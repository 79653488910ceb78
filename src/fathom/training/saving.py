"""Files of tensors that are either whole or not there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from fathom.errors import RunFailed
from fathom.store.files import whole_file


@contextmanager
def whole_tensors(path: Path) -> Iterator[Path]:
    """:func:`~fathom.store.files.whole_file` for torch and safetensors, which have their own errors for a full disk.

    :raises RunFailed: the disk is full or the folder cannot be written to.
    """
    try:
        with whole_file(path) as temporary:
            yield temporary
    except (RuntimeError, SafetensorError) as error:
        raise RunFailed(f"cannot write {path}: {str(error).splitlines()[0]}; what is finished is kept") from error
