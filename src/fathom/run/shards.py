"""Shards asked in this process, and what each of them took."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from fathom.errors import RunFailed
from fathom.probes.base import Probe
from fathom.progress import Progress
from fathom.run.beginning import Beginning, about
from fathom.scoring.rows import Columns
from fathom.store.folder import RunFolder
from fathom.store.surroundings import surroundings

LOST = ("CUDA error", "CUDA driver error", "HIP error", "cuDNN error", "CUBLAS", "MPS backend")
"""How torch begins to tell that a device does not answer any more."""


def ask_all(asked: Probe, begun: Beginning, folder: RunFolder, done: set[str], report: Progress) -> None:
    """Every shard that is not done. What each took is noted when it is written, while the next one is asked, so that no
    end of the process loses more than these two."""
    left = [shard for shard in begun.plan if shard not in done]
    if left:
        note = noting(asked, begun, folder)

        def between(done: int, total: int) -> None:
            note()
            report(done, total)

        asked.prepare(folder.path / "artifacts", between)
        note()
        asked.expect(left)
        with Behind() as behind:
            for number, shard in enumerate(left, start=len(begun.plan) - len(left)):
                report(number, len(begun.plan))
                behind.begin(partial(_keep, folder, shard, ask_one(asked, shard, folder), note.since()))
        folder.add_circumstances(model=about(asked.model))  # its self-check may have chosen another kernel
    report(len(begun.plan), len(begun.plan))


def _keep(folder: RunFolder, shard: str, rows: list[Columns], circumstances: dict[str, Any]) -> None:
    folder.add_shard(shard, rows)
    folder.add_circumstances(**circumstances)


class Behind:
    """Does what the next step does not wait for in a thread, one thing at a time and all before it is left."""

    def __enter__(self) -> Behind:
        self._thread, self._begun = ThreadPoolExecutor(1, "behind"), Future[None]()
        self._begun.set_result(None)
        return self

    def begin(self, work: Callable[[], None]) -> None:
        """Waits for what was begun before. Raises what that has raised, and then begins nothing."""
        self._begun.result()
        self._begun = self._thread.submit(work)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        self._thread.shutdown()
        if error is None:
            self._begun.result()
        elif (lost := self._begun.exception()) not in (None, error):
            error.add_note(f"and what was done meanwhile failed: {lost}")


def noting(asked: Probe, begun: Beginning, folder: RunFolder) -> Notes:
    """Begins a session: it is noted before its first shard, for one that is killed is one, too."""
    before = {} if folder.part is not None else folder.manifest["circumstances"]
    folder.add_circumstances(**begun.session, **surroundings(before))
    return Notes(asked, folder)


def ask_one(asked: Probe, shard: str, folder: RunFolder) -> list[Columns]:
    """:raises RunFailed: the device is gone; what is finished is kept."""
    try:
        return asked.evaluate(shard)
    except RuntimeError as error:
        told = str(error)
        if not told.startswith(LOST):
            raise
        raise RunFailed(
            f"{asked.model.device} failed ({told.splitlines()[0]}); {folder.path} keeps what is finished: "
            "the same command goes on, with --device cpu, too"
        ) from error


class Notes:
    """Adds to the circumstances what has come since the last call."""

    def __init__(self, asked: Probe, folder: RunFolder) -> None:
        self.folder, self.since = folder, Since(asked)

    def __call__(self) -> None:
        self.folder.add_circumstances(**self.since())


class Since:
    """What has come since the last call: seconds, and what the probe counts."""

    def __init__(self, asked: Probe) -> None:
        self.asked = asked
        self.at, self.counted = time.perf_counter(), _counts(asked)

    def __call__(self) -> dict[str, Any]:
        now, counted, everything = time.perf_counter(), _counts(self.asked), self.asked.circumstances()
        new = {name: value - self.counted.get(name, 0) for name, value in counted.items()}
        found = {**everything, **new, "seconds": round(now - self.at, 3)}
        self.at, self.counted = now, counted
        return found


def _counts(asked: Probe) -> dict[str, int]:
    return {name: value for name, value in asked.circumstances().items() if isinstance(value, int)}
