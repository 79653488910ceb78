"""Shards evaluated in this process: all, or a part of those of several processes that share a run.

Shard k belongs to part k mod n. A part evaluates its own shards, then unclaimed ones of other parts that have worked in
the same folder. Alone in a folder it keeps to its own shards, for ``fathom merge``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from fathom._version import VERSION
from fathom.base.errors import BadInput, RunFailed
from fathom.base.options import marked
from fathom.base.progress import Progress
from fathom.base.reading import as_read_back
from fathom.data.queries import QuerySet
from fathom.engine.models.model_files import content_hash, gguf_file
from fathom.engine.scoring.rows import Columns
from fathom.probes.models import is_served
from fathom.probes.options import HERE, EvaluationOptions, ProbeOptions
from fathom.store.files import clear_temporaries
from fathom.store.folder import RunFolder, compared, differences
from fathom.store.locks import Claims
from fathom.store.manifest import read_parts
from fathom.store.surroundings import surroundings

if TYPE_CHECKING:
    from fathom.probes.base import Probe
    from fathom.probes.run.request import RunRequest
    from fathom.probes.run.setup import RunSetup


LOST = ("CUDA error", "CUDA driver error", "HIP error", "cuDNN error", "CUBLAS", "MPS backend")
"""Prefixes of torch's messages when a device no longer responds."""


def note_progress(folder: RunFolder, record: Recorder, report: Progress, done: int, total: int) -> None:
    """Record and report the progress of a preparation."""
    folder.add_circumstances(**record())
    report(done, total)


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


def evaluate_shards(
    probe: Probe, setup: RunSetup, folder: RunFolder, report: Progress, part: Part | None, claims: Claims | None
) -> None:
    """Evaluate all shards, or as :mod:`fathom.probes.run.shards` says, until all others are done or claimed.

    :param claims: of the processes that share the folder; None if it is this one's alone.
    """
    claimed = _unshared if claims is None else claims.claimed
    with claimed(STARTING, True):
        done = setup.start(folder)
    if set(setup.plan) <= done:
        report(*setup.work.done(done))
        return
    record = begin_session(probe, setup, folder)
    _prepare(probe, folder.path / "artifacts", claimed, partial(note_progress, folder, record, report))
    folder.add_circumstances(**record())
    for shard in _unfinished(part or Part(1, 1), setup.plan, folder):
        report(*setup.work.done(folder.finished()))
        with claimed(shard, False) as ours:
            if ours and shard not in folder.finished():  # another process may just have finished it
                folder.add_shard(shard, evaluate_shard(probe, shard, folder))
                folder.add_circumstances(**record())
    folder.add_circumstances(model=probe.model.properties())  # a self-check may have chosen another kernel
    report(*setup.work.done(folder.finished()))


def _unshared(name: str, wait: bool = False) -> AbstractContextManager[bool]:
    return nullcontext(True)


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


def _prepare(
    probe: Probe,
    artifacts: Path,
    claimed: Callable[[str, bool], AbstractContextManager[bool]],
    note_progress: Callable[[int, int], None],
) -> None:
    """Share the making of pieces like shards; then one process makes the rest while the others wait."""
    for wait in (False, True):
        missing = probe.pieces(artifacts)
        for number, piece in enumerate(missing):
            note_progress(number, len(missing))
            with claimed(piece, wait) as ours:
                if ours and piece in probe.pieces(artifacts):
                    probe.make_piece(artifacts, piece)
    with claimed(PREPARING, True):
        probe.prepare(artifacts, note_progress)


_FROM_ELSEWHERE = {"adapter", "add_candidates", "pool", "quantize", "server", "tokenizer", "trust_remote_code"}
"""Options that name files or code besides those of model and data."""


def find_finished(
    probe: str, model: object, data: QuerySet, options: ProbeOptions, out: str | Path | None
) -> RunFolder | None:
    """Return the run in *out* if it is the requested one and no shard is left for this process.

    :param model: only a local folder is looked at.
    :returns: None if something is left or differs, or if options, data and the model's folder do not decide it alone.
    """
    if (
        out is None
        or not isinstance(model, str | os.PathLike)
        or not (os.path.isfile(os.path.join(model, "config.json")) or gguf_file(model) is not None)
    ):
        return None
    folder = RunFolder(out)
    if not folder.has_manifest() or not _decide_alone(options) or not is_finished(options.part, folder):
        return None
    before = folder.manifest["identity"]
    now = _identity_now(before, probe, data, options)
    now["model"] = before["model"] | {"content_hash": content_hash([str(model)])}
    if any(differences(compared(before), compared(now))):
        return None
    clear_temporaries(folder.path)  # of a process that was stopped as it finished
    return folder


def refuse_another_run(request: RunRequest, out: str | Path | None) -> None:
    """Compare an unfinished run with a request, before weights are read, code of a model runs or a server is called.

    :raises BadInput: *out* belongs to another run, as its options, data, or files of its model show.
    """
    folder = None if out is None else RunFolder(out)
    if folder is None or not folder.has_manifest():
        return
    options, idle = request.options, request.entry.load().may_idle
    before = folder.manifest["identity"]
    now = _identity_now(before, request.entry.name, request.source, options)
    if os.path.isdir(request.model) and not (is_served(options) or options.adapter or options.tokenizer):
        now["model"] = before["model"] | {"content_hash": content_hash([request.model])}
    folder.refuse_differences(compared(before, idle), compared(now, idle))


def _identity_now(before: Mapping[str, Any], probe: str, data: QuerySet, options: ProbeOptions) -> dict[str, Any]:
    """Return a run's identity with what options and data decide."""
    return {
        **before,
        "probe": probe,
        "options": as_read_back(options.identity()),
        "data": before["data"] | {"version": data.version, "content_hash": data.content_hash},
        "seed": options.seed,
        "version": VERSION,
    }


def _decide_alone(options: ProbeOptions) -> bool:
    kind = type(options)
    elsewhere = marked(kind, "circumstance") - EvaluationOptions.model_fields.keys() | _FROM_ELSEWHERE
    fields = {name: kind.model_fields[name] for name in elsewhere & kind.model_fields.keys()}
    return options.engine == HERE and all(getattr(options, name) == field.default for name, field in fields.items())
