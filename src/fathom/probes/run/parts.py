"""One of several processes that share a run.

Shard k belongs to part k mod n. A part evaluates its own shards, then unclaimed ones of other parts that have worked in
the same folder. Alone in a folder it keeps to its own shards, for ``fathom merge``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from fathom.base.errors import BadInput
from fathom.base.progress import Progress
from fathom.probes.run.shards import begin_session, evaluate_shard, note_progress
from fathom.store.folder import RunFolder
from fathom.store.locks import Claims
from fathom.store.manifest import read_parts

if TYPE_CHECKING:  # they load a model library
    from fathom.probes.base import Probe
    from fathom.probes.run.setup import RunSetup

AUTO = "auto"
Task = TypeVar("Task")
STARTING, PREPARING = "starting", "preparing"
"""Names of claims."""


class Part(NamedTuple):
    """:param number: from 1 to *total*."""

    number: int
    total: int

    def __str__(self) -> str:
        return f"{self.number}/{self.total}"

    @classmethod
    def parse(cls, text: str, environment: Mapping[str, str] = os.environ) -> Part:
        """Parse "2/4", or look "auto" up in the variables of a scheduler.

        :raises BadInput: "auto", and there are none.
        """
        if text == AUTO:
            return _scheduled(environment)
        return cls(*map(int, text.split("/")))

    def share(self, tasks: Sequence[Task]) -> Sequence[Task]:
        return tasks[self.number - 1 :: self.total]


def _scheduled(environment: Mapping[str, str]) -> Part:
    """Return the part that a SLURM array, torchrun or the tasks of a SLURM step define, in this order."""

    def number(name: str, default: int | None = None) -> int | None:
        with suppress(KeyError, ValueError):
            return int(environment[name])
        return default

    task, first, step = (
        number("SLURM_ARRAY_TASK_ID"), number("SLURM_ARRAY_TASK_MIN", 0), number("SLURM_ARRAY_TASK_STEP", 1),
    )  # fmt: skip
    place_in_array = None if task is None or first is None or not step else (task - first) // step
    candidates = {
        "SLURM_ARRAY_TASK_ID and SLURM_ARRAY_TASK_COUNT": (place_in_array, number("SLURM_ARRAY_TASK_COUNT")),
        "RANK and WORLD_SIZE": (number("RANK"), number("WORLD_SIZE")),
        "SLURM_PROCID and SLURM_NTASKS": (number("SLURM_PROCID"), number("SLURM_NTASKS")),
    }
    for names, (place, count) in candidates.items():
        if place is not None and count is not None:
            if not 0 <= place < count:
                raise BadInput(f"--part auto: {names} are part {place + 1} of {count}: give --part i/n")
            return Part(place + 1, count)
    raise BadInput(f"--part auto: none of {', '.join(candidates)} is set: give --part i/n, such as 1/4")


def evaluate_part(
    part: Part, probe: Probe, setup: RunSetup, folder: RunFolder, claims: Claims, report: Progress
) -> None:
    """Evaluate shards as :mod:`fathom.probes.run.parts` says, until all others are done or claimed."""
    with claims.claimed(STARTING, wait=True):
        done = setup.start(folder)
    if set(setup.plan) <= done:
        report(*setup.work.done(done))
        return
    record = begin_session(probe, setup, folder)
    _prepare(probe, folder.path / "artifacts", claims, partial(note_progress, folder, record, report))
    folder.add_circumstances(**record())
    for shard in _unfinished(part, setup.plan, folder):
        report(*setup.work.done(folder.finished()))
        with claims.claimed(shard) as ours:
            if ours and shard not in folder.finished():  # another process may just have finished it
                folder.add_shard(shard, evaluate_shard(probe, shard, folder))
                folder.add_circumstances(**record())
    folder.add_circumstances(model=probe.model.properties())
    report(*setup.work.done(folder.finished()))


def _unfinished(part: Part, plan: Sequence[str], folder: RunFolder) -> Iterator[str]:
    """Yield the part's own shards, then, from the end, those of parts that have worked here."""
    for shard in part.share(plan):
        if shard not in folder.finished():
            yield shard
    shards = _shards_here(plan, folder)
    for shard in reversed(plan):
        if shard in shards and shard not in folder.finished():
            yield shard


def _shards_here(plan: Sequence[str], folder: RunFolder) -> set[str]:
    """Return the shards of all parts that have worked in the folder."""
    parts = {Part.parse(notes["part"]) for notes in read_parts(folder.path)}
    return {shard for part in parts for shard in part.share(plan)}


def is_finished(part: str | None, folder: RunFolder) -> bool:
    """Return whether no shard is left for this part, or without one for the run."""
    plan = folder.manifest["plan"]
    wanted = set(plan) if part is None else {*Part.parse(part).share(plan), *_shards_here(plan, folder)}
    return wanted <= folder.finished()


def _prepare(probe: Probe, artifacts: Path, claims: Claims, note_progress: Callable[[int, int], None]) -> None:
    """Share the making of pieces like shards; then one process makes the rest while the others wait."""
    for wait in (False, True):
        missing = probe.pieces(artifacts)
        for number, piece in enumerate(missing):
            note_progress(number, len(missing))
            with claims.claimed(piece, wait) as ours:
                if ours and piece in probe.pieces(artifacts):
                    probe.make_piece(artifacts, piece)
    with claims.claimed(PREPARING, wait=True):
        probe.prepare(artifacts, note_progress)
