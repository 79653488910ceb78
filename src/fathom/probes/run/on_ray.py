"""Shards evaluated by workers of a Ray cluster, each with the model loaded; this process, the driver, alone writes.

The plan is that of a run in one process (:mod:`.setup`), so that the predictions are the same.
"""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fathom.base.errors import BadInput, RunFailed
from fathom.base.progress import Progress
from fathom.probes.models import open_model
from fathom.probes.run.pool import Pool, RayWorker, connected, size_of
from fathom.probes.run.request import RunRequest
from fathom.probes.run.setup import RunSetup, set_up
from fathom.probes.run.shards import LOST, Recorder
from fathom.probes.shared_options import HERE
from fathom.store.files import whole_file
from fathom.store.folder import RunFolder, compared, differences
from fathom.store.predictions import as_table
from fathom.store.surroundings import surroundings

if TYPE_CHECKING:
    import pyarrow as pa

Files = dict[str, bytes]
"""Contents of the files of a folder by relative path. Workers and the driver need no common file system."""
Circumstances = dict[str, Any]


class ShardJob(NamedTuple):
    """The job of all workers of a run.

    :param request: of the model by its name or folder.
    :param open_model: loads it.
    :param artifacts: of earlier sessions.
    """

    request: RunRequest
    open_model: Callable[[], Any]
    artifacts: Files


class WorkerInfo(NamedTuple):
    """Description of a worker.

    :param pieces: missing artefacts, see :meth:`fathom.probes.base.Probe.pieces`.
    """

    host: str
    setup: RunSetup
    pieces: tuple[str, ...]


class ShardWorker(RayWorker):
    """An actor that evaluates shards."""

    temporary: tempfile.TemporaryDirectory[str] | None = None

    def load(self, job: ShardJob) -> WorkerInfo:
        try:
            self.probe, setup = set_up(job.request.with_model(job.open_model()))
        except (MemoryError, RuntimeError) as error:
            raise RunFailed(
                f"{platform.node()} could not load '{job.request.model}': {' '.join(str(error).split())[:200]}; if its "
                "memory is too small, use fewer --workers or --dtype bfloat16"
            ) from error
        self.record, self.prepared = Recorder(self.probe), False
        self.temporary = tempfile.TemporaryDirectory(prefix="fathom-", dir=_session_folder())
        self.artifacts = Path(self.temporary.name)
        write_files(self.artifacts, job.artifacts)
        return WorkerInfo(platform.node(), setup, tuple(self.probe.pieces(self.artifacts)))

    def make_piece(self, name: str) -> tuple[Files, Circumstances]:
        self.probe.make_piece(self.artifacts, name)
        return {name: (self.artifacts / name).read_bytes()}, self.record()

    def prepare(self, name: str, files: list[Any]) -> tuple[Files, Circumstances]:
        """Make what every shard needs.

        :param files: a reference to the artefacts so far.
        :returns: further ones.
        """
        import ray

        before: Files = ray.get(files[0])
        write_files(self.artifacts, before)
        self.probe.prepare(self.artifacts, lambda done, total: None)
        self.prepared = True
        after = read_files(self.artifacts)
        return {name: content for name, content in after.items() if before.get(name) != content}, self.record()

    def evaluate(self, shard: str, files: list[Any]) -> tuple[pa.Table, Circumstances]:
        """Evaluate a shard.

        :param files: a reference to all artefacts.
        """
        if not self.prepared:
            self.prepare(shard, files)
        try:
            table = as_table(self.probe.evaluate(shard))
        except RuntimeError as error:
            if str(error).startswith(LOST):
                os._exit(1)  # this process has lost its device; a new one may get it back
            raise
        return table, self.record() | {"model": self.probe.model.properties()}

    def close(self) -> None:
        if self.temporary is not None:
            self.temporary.cleanup()


def _session_folder() -> str | None:
    """Return Ray's folder for temporary files of this session, which Ray removes; None if there is none."""
    with suppress(Exception):
        import ray

        folder = Path(tempfile.gettempdir()) / "ray" / ray.get_runtime_context().get_session_name()
        return str(folder) if os.access(folder, os.W_OK) else None
    return None


def read_files(folder: Path) -> Files:
    """Read all finished files below a folder."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file() and not file.name.endswith(".tmp"))
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def write_files(folder: Path, files: Files) -> None:
    """Write the files that are missing. :raises RunFailed: the disk is full."""
    for name, content in files.items():
        if not (folder / name).exists():
            with whole_file(folder / name) as temporary:
                temporary.write_bytes(content)


def evaluate_on_ray(request: RunRequest, folder: RunFolder, report: Progress) -> None:
    """Evaluate all unfinished shards.

    :param request: of a model, its name or folder; or of a model or link predictor, which the workers load by its name.
    :raises BadInput: the cluster is missing or too small; workers have another version, or another model of that name;
        and as the probe raises.
    :raises RunFailed: workers keep dying; finished shards are kept.
    :raises MissingExtra: Ray is not installed.
    """
    model, options = request.model, request.options
    name = model if isinstance(model, str) else model.identity.name
    local = request.with_model(name).with_options(engine=HERE, ray_address=None)
    opens = None if isinstance(model, str) else model.open_again
    opens = partial(opens, device=options.device) if opens else partial(open_model, name, local.options)
    with connected(options):
        size = size_of(options, options.device)
        job = ShardJob(local, opens, read_files(folder.path / "artifacts"))
        with closing(Pool(ShardWorker, job, size, f"loading '{name}'", _refuse_difference)) as pool:
            setup = pool.first().setup
            if not isinstance(model, str) and setup.identity["model"]["content_hash"] != model.identity.content_hash:
                raise BadInput(f"--engine ray: workers find other weights at '{name}': give a name or a folder")
            done = setup.start(folder)
            spread = {"engine": "ray", "workers": size.workers}
            if missing := [shard for shard in setup.plan if shard not in done]:
                _evaluate(pool, missing, folder, report, setup, spread)
            report(*setup.work.done(setup.plan))


def _refuse_difference(first: WorkerInfo, other: WorkerInfo) -> None:
    """:raises BadInput: the workers would make different runs."""
    lines = list(differences(compared(first.setup.identity), compared(other.setup.identity)))
    if lines or first.setup.plan != other.setup.plan:
        raise BadInput([f"workers on {first.host} (there) and {other.host} (here) do not agree", *lines])


def _evaluate(
    pool: Pool, missing: list[str], folder: RunFolder, report: Progress, setup: RunSetup, spread: Circumstances
) -> None:
    before = folder.manifest["circumstances"]
    folder.add_circumstances(**setup.session, spread=spread, **surroundings(before))
    files = _prepare(pool, folder, report)
    done = set(setup.plan) - set(missing)
    report(*setup.work.done(done))
    for shard, (table, circumstances) in pool.map("evaluate", missing, files):
        folder.add_shard(shard, table)
        folder.add_circumstances(**circumstances)
        done.add(shard)
        report(*setup.work.done(done))
    folder.add_circumstances(workers_replaced=pool.replaced)


def _prepare(pool: Pool, folder: RunFolder, report: Progress) -> list[Any]:
    """Have all workers make pieces, then one of them the rest. :returns: a reference to all artefacts."""
    import ray

    artifacts, pieces = folder.path / "artifacts", pool.first().pieces

    def keep(files: Files, circumstances: Circumstances) -> None:
        write_files(artifacts, files)
        folder.add_circumstances(**circumstances)

    for number, (_, result) in enumerate(pool.map("make_piece", pieces)):
        report(number, len(pieces))
        keep(*result)
    for _, result in pool.map("prepare", ["artifacts"], [ray.put(read_files(artifacts))]):
        keep(*result)
    return [ray.put(read_files(artifacts))]
