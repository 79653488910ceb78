"""Shards evaluated in this process, and the circumstances of each."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from fathom.base.errors import RunFailed
from fathom.base.progress import Progress
from fathom.engine.scoring.rows import Columns
from fathom.store.folder import RunFolder
from fathom.store.surroundings import surroundings

if TYPE_CHECKING:  # they load a model library
    from fathom.probes.base import Probe
    from fathom.probes.run.setup import RunSetup

LOST = ("CUDA error", "CUDA driver error", "HIP error", "cuDNN error", "CUBLAS", "MPS backend")
"""Prefixes of torch's messages when a device no longer responds."""


def evaluate_shards(probe: Probe, setup: RunSetup, folder: RunFolder, done: set[str], report: Progress) -> None:
    """Evaluate all shards that are not done.

    Each is written while the next one is evaluated, so that a kill loses at most two.
    """
    left = [shard for shard in setup.plan if shard not in done]
    if left:
        record = begin_session(probe, setup, folder)
        probe.prepare(folder.path / "artifacts", partial(note_progress, folder, record, report))
        folder.add_circumstances(**record())
        probe.expect(left)
        with Background() as background:
            for number, shard in enumerate(left):
                report(*setup.work.done({*done, *left[:number]}))
                background.begin(partial(_write, folder, shard, evaluate_shard(probe, shard, folder), record()))
        folder.add_circumstances(model=probe.model.properties())  # a self-check may have chosen another kernel
    report(*setup.work.done(setup.plan))


def note_progress(folder: RunFolder, record: Recorder, report: Progress, done: int, total: int) -> None:
    """Record and report the progress of a preparation."""
    folder.add_circumstances(**record())
    report(done, total)


def _write(folder: RunFolder, shard: str, rows: list[Columns], circumstances: dict[str, Any]) -> None:
    folder.add_shard(shard, rows)
    folder.add_circumstances(**circumstances)


class Background:
    """A thread that runs one function at a time; leaving the context waits for the last."""

    def __enter__(self) -> Background:
        self._thread, self._current = ThreadPoolExecutor(1, "background"), Future[None]()
        self._current.set_result(None)
        return self

    def begin(self, work: Callable[[], None]) -> None:
        """Wait for the function before, then start this one. Raises what the function before has raised."""
        self._current.result()
        self._current = self._thread.submit(work)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        self._thread.shutdown()
        if error is None:
            self._current.result()
        elif (background_error := self._current.exception()) not in (None, error):
            error.add_note(f"and what was done meanwhile failed: {background_error}")


def begin_session(probe: Probe, setup: RunSetup, folder: RunFolder) -> Recorder:
    """Record a new session before its first shard, in case it is killed there."""
    before = {} if folder.part is not None else folder.manifest["circumstances"]
    folder.add_circumstances(**setup.session, **surroundings(before))
    return Recorder(probe)


def evaluate_shard(probe: Probe, shard: str, folder: RunFolder) -> list[Columns]:
    """Return the predictions of a shard. :raises RunFailed: the device no longer responds."""
    try:
        return probe.evaluate(shard)
    except RuntimeError as error:
        if not str(error).startswith(LOST):
            raise
        raise RunFailed(
            f"{probe.model.device} failed ({str(error).splitlines()[0]}); {folder.path} keeps what is finished: "
            "run the same command to resume, if need be with --device cpu"
        ) from error


class Recorder:
    """Returns the circumstances since the last call: seconds, and what the probe counts."""

    def __init__(self, probe: Probe) -> None:
        self.probe, self.time, self.counts = probe, time.perf_counter(), _counts(probe.circumstances())

    def __call__(self) -> dict[str, Any]:
        now, circumstances = time.perf_counter(), self.probe.circumstances()
        counts = _counts(circumstances)
        new = {name: value - self.counts.get(name, 0) for name, value in counts.items()}
        seconds = round(now - self.time, 3)
        self.time, self.counts = now, counts
        return {**circumstances, **new, "seconds": seconds}


def _counts(circumstances: dict[str, Any]) -> dict[str, int]:
    return {name: value for name, value in circumstances.items() if isinstance(value, int)}
