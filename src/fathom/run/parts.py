"""One of several processes that share a run: which shards are its own, and which it takes over from others.

Shard k belongs to part k mod n. A part asks its own; then those of parts that have been at work in the same folder and
that nobody has in hand. In a folder of its own it meets no others and keeps to its share, for ``fathom merge``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from fathom.errors import BadInput
from fathom.probes.base import Probe
from fathom.progress import Progress
from fathom.run.beginning import Beginning, about
from fathom.run.shards import Notes, ask_one, noting
from fathom.store.folder import RunFolder
from fathom.store.manifest import read_parts
from fathom.store.together import Claims

AUTO = "auto"
Piece = TypeVar("Piece")
STARTING, PREPARING = "starting", "preparing"
"""What one does at a time, by the name of the claim."""


class Part(NamedTuple):
    """:param number: from 1 to *of*."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @classmethod
    def told(cls, text: str, surroundings: Mapping[str, str] = os.environ) -> Part:
        """ "2/4"; "auto" by what a scheduler has set.

        :raises BadInput: "auto" where none has set anything.
        """
        if text == AUTO:
            return _scheduled(surroundings)
        return cls(*map(int, text.split("/")))

    def shards(self, plan: Sequence[Piece]) -> Sequence[Piece]:
        """Its own, in order."""
        return plan[self.number - 1 :: self.of]


def _scheduled(surroundings: Mapping[str, str]) -> Part:
    """By a SLURM array, by torchrun and its like, or by the tasks of a SLURM step: the first that there is."""

    def said(name: str, otherwise: int | None = None) -> int | None:
        with suppress(KeyError, ValueError):
            return int(surroundings[name])
        return otherwise

    task, first, step = (
        said("SLURM_ARRAY_TASK_ID"), said("SLURM_ARRAY_TASK_MIN", 0), said("SLURM_ARRAY_TASK_STEP", 1),
    )  # fmt: skip
    in_array = None if task is None or first is None or not step else (task - first) // step
    ways = {
        "SLURM_ARRAY_TASK_ID and SLURM_ARRAY_TASK_COUNT": (in_array, said("SLURM_ARRAY_TASK_COUNT")),
        "RANK and WORLD_SIZE": (said("RANK"), said("WORLD_SIZE")),
        "SLURM_PROCID and SLURM_NTASKS": (said("SLURM_PROCID"), said("SLURM_NTASKS")),
    }
    for names, (place, count) in ways.items():
        if place is not None and count is not None:
            if not 0 <= place < count:
                raise BadInput(f"--part auto: {names} say part {place + 1} of {count}: give --part i/n")
            return Part(place + 1, count)
    raise BadInput(f"--part auto: none of {', '.join(ways)} is set: give --part i/n, such as 1/4")


def ask_part(part: Part, asked: Probe, begun: Beginning, folder: RunFolder, claims: Claims, report: Progress) -> None:
    """What :mod:`fathom.run.parts` says, until nothing is left or others have the rest in hand."""
    with claims.claimed(STARTING, wait=True):
        done = begun.start(folder)
    if set(begun.plan) <= done:
        report(len(begun.plan), len(begun.plan))
        return
    note = noting(asked, begun, folder)
    _prepare(asked, folder.path / "artifacts", claims, note, report)
    for shard in _in_turn(part, begun.plan, folder):
        report(len(folder.finished()), len(begun.plan))
        with claims.claimed(shard) as ours:
            if ours and shard not in folder.finished():  # it may have been finished just before
                folder.add_shard(shard, ask_one(asked, shard, folder))
                note()
    folder.add_circumstances(model=about(asked.model))
    report(len(folder.finished()), len(begun.plan))


def _in_turn(part: Part, plan: Sequence[str], folder: RunFolder) -> Iterator[str]:
    """Shards that are not finished: its own, then, from the end, those of parts that have been here."""
    for shard in part.shards(plan):
        if shard not in folder.finished():
            yield shard
    others = {Part.told(noted["part"]) for noted in read_parts(folder.path)}
    theirs = {shard for other in others for shard in other.shards(plan)}
    for shard in reversed(plan):
        if shard in theirs and shard not in folder.finished():
            yield shard


def _prepare(asked: Probe, artifacts: Path, claims: Claims, note: Notes, report: Progress) -> None:
    """What can be made in pieces is divided like shards; the rest one makes while others wait, and read it then."""

    def between(done: int, total: int) -> None:
        note()
        report(done, total)

    for wait in (False, True):
        missing = asked.pieces(artifacts)
        for number, piece in enumerate(missing):
            between(number, len(missing))
            with claims.claimed(piece, wait) as ours:
                if ours and piece in asked.pieces(artifacts):
                    asked.make_piece(artifacts, piece)
    with claims.claimed(PREPARING, wait=True):
        asked.prepare(artifacts, between)
    note()
