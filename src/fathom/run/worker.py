"""What a worker of a cluster does: it has the model loaded, and makes or asks what the driver names.

It writes nothing but files of its own, which it is given and gives back as bytes, so that it needs no file system in
common with the driver. Loads nothing of Ray's.
"""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fathom._version import VERSION
from fathom.errors import BadInput, FathomError, MissingExtra, RunFailed

if TYPE_CHECKING:
    import pyarrow as pa

    from fathom.data.queries import QuerySet
    from fathom.probes import Entry
    from fathom.probes.shared_options import EvaluationOptions
    from fathom.run.beginning import Beginning

Files = dict[str, bytes]
"""What is in the files of a folder, by their paths in it."""
Noted = dict[str, Any]
"""Circumstances."""


class Work(NamedTuple):
    """What every worker of a run is given.

    :param model: its name or folder.
    :param open_model: loads it.
    :param folder: where the driver is, for paths that are not absolute.
    :param threads: for torch.
    :param artifacts: what earlier sessions have made.
    """

    entry: Entry
    model: str
    open_model: Callable[[], Any]
    data: QuerySet
    options: EvaluationOptions
    folder: str
    threads: int
    artifacts: Files


class Opened(NamedTuple):
    """A worker that can begin.

    :param pieces: of the artefacts, those that are not there, see :meth:`fathom.probes.base.Probe.pieces`.
    """

    host: str
    begun: Beginning
    pieces: tuple[str, ...]


class Failure(NamedTuple):
    """An error that says what to do; Ray would wrap it into its own."""

    kind: str
    text: str

    def error(self) -> FathomError:
        """It again."""
        kinds: dict[str, type[FathomError]] = {"BadInput": BadInput, "RunFailed": RunFailed}
        return kinds.get(self.kind, BadInput)(self.text)


def told(method: Callable[..., Any]) -> Callable[..., Any]:
    """*method* returns a :class:`Failure` where it would raise one of ours."""

    @wraps(method)
    def call(*given: Any) -> Any:
        try:
            return method(*given)
        except FathomError as error:
            return Failure("BadInput" if isinstance(error, MissingExtra) else type(error).__name__, str(error))

    return call


class Hired:
    """One process of the cluster, whatever it is to do."""

    def version(self) -> str:
        """Of Fathom there."""
        return VERSION

    def close(self) -> None:
        """Leave nothing behind."""


def settle(folder: str, threads: int) -> None:
    """Be where the driver is, for paths that are not absolute, with so many threads for torch."""
    import torch

    with suppress(OSError):  # another machine need not have it; paths are then absolute, or names
        os.chdir(folder)
    torch.set_num_threads(threads)


class Worker(Hired):
    """Asks shards."""

    @told
    def open(self, work: Work) -> Opened:
        """Load the model and cut the run into shards."""
        from fathom.run.beginning import begin
        from fathom.run.shards import Since

        settle(work.folder, work.threads)
        try:
            model = work.open_model()
            self.asked, begun = begin(work.entry, model, work.data, work.options)
        except (MemoryError, RuntimeError) as error:
            why = " ".join(str(error).split())[:200]
            raise RunFailed(
                f"{platform.node()} could not load '{work.model}': {why}; is its memory too small? fewer --workers, or "
                "--dtype bfloat16"
            ) from error
        self.since = Since(self.asked)
        self._scratch = tempfile.TemporaryDirectory(prefix="fathom-", dir=_of_session())
        self.artifacts = Path(self._scratch.name)
        write_files(self.artifacts, work.artifacts)
        return Opened(platform.node(), begun, tuple(self.asked.pieces(self.artifacts)))

    @told
    def make_piece(self, name: str) -> tuple[Files, Noted]:
        """A file of the artefacts."""
        self.asked.make_piece(self.artifacts, name)
        return {name: (self.artifacts / name).read_bytes()}, self.since()

    @told
    def prepare(self, files: Files) -> tuple[Files, Noted]:
        """Make what every shard needs. :returns: the artefacts that were not among *files*."""
        write_files(self.artifacts, files)
        self.asked.prepare(self.artifacts, lambda done, total: None)
        made = {name: content for name, content in read_files(self.artifacts).items() if files.get(name) != content}
        return made, self.since()

    @told
    def ask(self, shard: str) -> tuple[pa.Table, Noted]:
        """The predictions of a shard."""
        from fathom.run.beginning import about
        from fathom.run.shards import LOST
        from fathom.store.predictions import as_table

        try:
            table = as_table(self.asked.evaluate(shard))
        except RuntimeError as error:
            if str(error).startswith(LOST):
                os._exit(1)  # this process sees no device any more; another may
            raise
        return table, self.since() | {"model": about(self.asked.model)}

    def close(self) -> None:
        """Leave nothing behind."""
        if hasattr(self, "_scratch"):
            self._scratch.cleanup()


def _of_session() -> str | None:
    """Ray's own temporary folder, which is known for one and cleared with its likes; None where there is none."""
    with suppress(Exception):
        import ray

        name = ray.get_runtime_context().get_session_name()
        folder = Path(tempfile.gettempdir()) / "ray" / name
        return str(folder) if os.access(folder, os.W_OK) else None
    return None


def read_files(folder: Path) -> Files:
    """Those of *folder* and below, but for what writers have not finished."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file() and not file.name.endswith(".tmp"))
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def write_files(folder: Path, files: Files) -> None:
    """Those that are not there yet, whole. :raises RunFailed: the disk is full."""
    from fathom.store.files import whole_file

    for name, content in files.items():
        if not (folder / name).exists():
            with whole_file(folder / name) as temporary:
                temporary.write_bytes(content)
