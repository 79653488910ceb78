"""Shards evaluated by workers of a Ray cluster, each with the model loaded; this process, the driver, alone writes.

The plan is that of a run in one process (:mod:`.setup`), so that the predictions are the same. The driver replaces an
actor that dies and queues its task again. Ray's own restarts would not do: a task sent to an actor while it restarts
uses up its retries, and stays with this actor even if others are idle.
"""

from __future__ import annotations

import logging
import os
import platform
import signal
import socket
import tempfile
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fathom._version import VERSION
from fathom.base.errors import BadInput, FathomError, MissingExtra, RunFailed, refuse
from fathom.base.progress import Progress, is_quiet, log
from fathom.probes.models import open_model
from fathom.probes.options import HERE, ClusterOptions
from fathom.probes.run.request import RunRequest
from fathom.probes.run.setup import RunSetup, set_up
from fathom.probes.run.shards import LOST, Recorder
from fathom.store.files import whole_file
from fathom.store.folder import RunFolder, compared, differences
from fathom.store.predictions import as_table
from fathom.store.surroundings import surroundings

if TYPE_CHECKING:
    import pyarrow as pa


CONNECT_TIMEOUT = 5.0
"""Seconds to wait for a cluster's address; Ray itself waits for minutes."""
LIVES = 3
"""Deaths at the same task, or while opening workers, after which it is given up."""
PATIENCE = 30.0
"""Seconds without any open worker before the log says so."""


@contextmanager
def connected(options: ClusterOptions) -> Iterator[None]:
    """Connect to Ray, unless this process is connected already; disconnect at the end.

    :raises BadInput: no cluster answers at the address. :raises MissingExtra: Ray is not installed.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise MissingExtra("ray", "ray") from error
    if ray.is_initialized():
        yield
        return
    address = options.ray_address or os.environ.get("RAY_ADDRESS") or "local"
    _check_address(address)
    local: dict[str, Any] = {}
    if address == "local":
        cpus = (options.workers or 1) * options.cpus_per_worker
        local = {"num_cpus": max(os.cpu_count() or 1, cpus), "include_dashboard": False}
    logger = logging.getLogger("ray")
    level, handler = logger.level, signal.getsignal(signal.SIGTERM)
    try:
        if is_quiet():
            logger.setLevel(logging.ERROR)  # Ray logs the tokens of a new cluster as a warning
        ray.init(address=address, log_to_driver=False, configure_logging=False, **local)
    except Exception as error:
        raise BadInput(
            f"--ray-address {address}: no Ray cluster answers: {str(error).splitlines()[0]}; if it uses tokens, set "
            "RAY_AUTH_MODE=token"
        ) from error
    finally:
        logger.setLevel(level)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # Ray's handler aborts without cleaning up
    try:
        yield
    finally:
        ray.shutdown()


def _check_address(address: str) -> None:
    """:raises BadInput: nothing listens at HOST:PORT, or at the address that "auto" resolves to."""
    resolved = _resolve_auto() if address == "auto" else address
    host, _, port = resolved.removeprefix("ray://").rpartition(":")
    if not port.isdecimal():
        if address not in ("local", "auto"):
            raise BadInput(f"--ray-address {address}: expected HOST:PORT, ray://HOST:PORT, auto or local")
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT).close()
    except (OSError, OverflowError) as error:
        at = "" if resolved == address else f" at {resolved}"
        raise BadInput(
            f"--ray-address {address}: no Ray cluster answers{at} ({error}): run `ray status` on its head node"
        ) from error


def _resolve_auto() -> str:
    """Return Ray's address for "auto", "" if unknown. A stopped cluster may have left it, and Ray waits forever."""
    with suppress(Exception):  # a private function of Ray; if it fails, ray.init reports the problem
        from ray._private.services import canonicalize_bootstrap_address

        return canonicalize_bootstrap_address("auto") or ""
    return ""


class Size(NamedTuple):
    """Number of workers, and the CPUs and GPUs of each."""

    workers: int
    cpus: int
    gpus: float


def size_of(options: ClusterOptions, device: str | None = None, most: int | None = None) -> Size:
    """Return the size of the pool.

    :param device: of the model, if given.
    :param most: number of tasks.
    :raises BadInput: the cluster is too small.
    """
    import ray

    resources = ray.cluster_resources()
    gpus = options.gpus_per_worker
    if gpus is None:
        gpus = 1.0 if resources.get("GPU", 0) and (device or "cuda").startswith("cuda") else 0.0
    count = options.workers or max(1, int(resources.get("GPU", 0) / gpus) if gpus else 1)
    count = min(count, most or count)
    refuse(
        f"--workers {count} with {needed:g} {kind} each need {count * needed:g}: the cluster has "
        f"{resources.get(kind, 0):g}; use fewer --workers or lower --{kind.lower()}s-per-worker"
        for kind, needed in (("CPU", options.cpus_per_worker), ("GPU", gpus))
        if count * needed > resources.get(kind, 0)
    )
    return Size(count, options.cpus_per_worker, gpus)


class RayWorker:
    """A Ray actor with a job."""

    def open(self, version: str, folder: str, threads: int, job: list[Any]) -> Any:
        """Load the job, in the driver's folder and with that many threads for torch.

        :param version: Fathom's in the driver.
        :param job: a reference to the job. Ray would resolve one outside a list, which fails in another version.
        :raises BadInput: this node has another version of Fathom.
        """
        import ray
        import torch

        if version != VERSION:
            raise BadInput(f"a worker has Fathom {VERSION}, the driver {version}: install the same on every node")
        with suppress(OSError):  # another machine may lack the folder; paths are then absolute
            os.chdir(folder)
        torch.set_num_threads(threads)
        return self.load(ray.get(job[0]))

    def load(self, job: Any) -> Any:
        """Load what every task needs. :returns: a description for the driver."""
        raise NotImplementedError

    def close(self) -> None:
        """Remove temporary files."""


def _raise(task: str, failure: RunFailed) -> Any:
    raise failure


class Pool:
    """Workers of one kind.

    :param job: passed to :meth:`RayWorker.load`.
    :param opening: what they do then, for messages, such as "loading 'gpt2'".
    :param check: called with the descriptions of the first worker and of each worker; raises if they disagree.
    """

    def __init__(
        self,
        kind: type[RayWorker],
        job: object,
        size: Size,
        opening: str,
        check: Callable[[Any, Any], None] = lambda first, worker: None,
    ) -> None:
        import ray

        self.replaced = 0
        self._opening, self._check = opening, check
        self._setup = VERSION, str(Path.cwd()), size.cpus, [ray.put(job)]
        self._descriptions: list[Any] = []
        self._deaths: Counter[str] = Counter()
        self._idle: list[Any] = []
        self._running: dict[Any, tuple[Any, str]] = {}
        self._actor = ray.remote(kind).options(num_cpus=size.cpus, num_gpus=size.gpus)
        self._workers: list[Any] = []
        for _ in range(size.workers):
            self._hire()

    def first(self) -> Any:
        """Return the description of the first worker that has loaded its job."""
        while not self._descriptions:
            self._wait()
        return self._descriptions[0]

    def map(
        self, method: str, tasks: Iterable[str], *shared: object, give_up: Callable[[str, RunFailed], Any] = _raise
    ) -> Iterator[tuple[str, Any]]:
        """Call a method of some worker for each task.

        :param shared: further arguments.
        :param give_up: called with a task at which :data:`LIVES` workers died; returns its result, or raises.
        :returns: tasks with their results as they end.
        """
        waiting = deque(tasks)
        while waiting or any(task for _, task in self._running.values()):
            while waiting and self._idle:
                worker, task = self._idle.pop(), waiting.popleft()
                self._running[getattr(worker, method).remote(task, *shared)] = worker, task
            task, result = self._wait()
            if isinstance(result, RunFailed) and self._deaths[task] < LIVES:
                waiting.appendleft(task)
            elif isinstance(result, RunFailed):
                yield task, give_up(task, result)
            elif task:
                yield task, result

    def close(self) -> None:
        import ray

        ray.wait([worker.close.remote() for worker in self._workers], num_returns=len(self._workers), timeout=1)
        for worker in self._workers:
            ray.kill(worker)

    def _hire(self) -> None:
        worker = self._actor.remote()
        self._workers.append(worker)
        self._running[worker.open.remote(*self._setup)] = worker, ""

    def _wait(self) -> tuple[str, Any]:
        """Wait for a call to end. :returns: its task, "" for the opening of a worker, and its result or failure."""
        import ray

        ended, _ = ray.wait(list(self._running), timeout=PATIENCE)
        if not ended:
            if not self._descriptions:
                log("no worker has started yet: is the cluster busy? see `ray status`")
            return "", None
        worker, task = self._running.pop(ended[0])
        try:
            result = ray.get(ended[0])
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, FathomError):
                raise error.cause from None
            if task:
                raise
            raise _cannot_start(str(error.cause)) from error
        except ray.exceptions.RayError as error:
            if getattr(error, "actor_init_failed", False):
                raise _cannot_start(str(error)) from error
            ray.kill(worker)
            self._workers.remove(worker)
            return task, self._replace(task, " ".join(str(error).split())[:300])
        self._idle.append(worker)
        if not task:
            self._descriptions.append(result)
            self._check(self._descriptions[0], result)
        return task, result

    def _replace(self, task: str, why: str) -> RunFailed | None:
        """Hire a new worker. :returns: the failure of the task. :raises RunFailed: too many have died while opening."""
        self._deaths[task] += 1
        failure = RunFailed(
            f"{LIVES} workers died while {f'working on {task}' if task else self._opening} (killed? out of memory? "
            f"use fewer --workers or --dtype bfloat16); finished work is kept: {why}"
        )
        if not task and self._deaths[task] >= LIVES:
            raise failure
        log(f"a worker has died, another takes its place: {why}")
        self.replaced += 1
        self._hire()
        return failure if task else None


def _cannot_start(error: str) -> BadInput:
    why = error.strip().splitlines()[-1]
    return BadInput(f"a worker could not start: {why}; is Fathom {VERSION} installed on every node?")


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


def _refuse_difference(first: WorkerInfo, worker: WorkerInfo) -> None:
    """:raises BadInput: the workers would make different runs."""
    lines = list(differences(compared(first.setup.identity), compared(worker.setup.identity)))
    if lines or first.setup.plan != worker.setup.plan:
        raise BadInput([f"workers on {first.host} (there) and {worker.host} (here) do not agree", *lines])


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
