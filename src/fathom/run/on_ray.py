"""Shards asked by workers of a Ray cluster; this process, the driver, alone writes.

Each worker is an actor with the model loaded. One that dies is replaced, and what it had in hand is asked again. What
is asked, and how it is cut, is what one process would ask (:mod:`.beginning`), so that the run is the same.
"""

from __future__ import annotations

import os
import socket
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import fathom
from fathom.data.queries import QuerySet
from fathom.errors import BadInput, MissingExtra, RunFailed, refuse
from fathom.probes import Entry
from fathom.probes.options import ClusterOptions
from fathom.progress import Progress, log
from fathom.run.worker import Failure, Files, Noted, Opened, Work, Worker, read_files, write_files
from fathom.store.folder import RunFolder, compared, differences
from fathom.store.surroundings import surroundings

ANSWERS_WITHIN = 5.0
"""Seconds that a cluster's address is given; Ray itself waits for minutes."""
LIVES = 3
"""So many workers may die of one thing to do, or without ever having begun, before the run ends."""
PATIENCE = 30.0
"""Seconds until somebody is told that no worker has begun."""


def ask_on_ray(entry: Entry, model: Any, data: QuerySet, options: Any, folder: RunFolder, report: Progress) -> None:
    """Ask every shard that is not done, *options* saying what, and where and by how many workers.

    :param model: its name or folder, or the model itself, which the workers load by its name; a link predictor, which
        they open from its folder.
    :raises BadInput: no such cluster, or too small a one; workers of another version, or that have another model under
        its name; and whatever the probe refuses.
    :raises RunFailed: workers die again and again; what is finished is kept.
    :raises MissingExtra: Ray is not installed.
    """
    name = model if isinstance(model, str) else model.identity.name
    with connected(options), closing(_crew(entry, model, name, data, options, folder)) as crew:
        begun = crew.opened().begun
        if not isinstance(model, str) and begun.identity["model"]["content_hash"] != model.identity.content_hash:
            raise BadInput(f"--engine ray: workers load '{name}' and find other weights there: give a name or a folder")
        done, total = begun.start(folder), len(begun.plan)
        left = [shard for shard in begun.plan if shard not in done]
        if left:
            noted = {
                "spread": {"engine": "ray", "workers": crew.count},
                **surroundings(folder.manifest["circumstances"]),
            }
            folder.add_circumstances(**begun.session, **noted)
            _prepare(crew, folder, report)
            report(total - len(left), total)
            for number, (shard, (table, noted)) in enumerate(crew.each("ask", left), start=total - len(left) + 1):
                folder.add_shard(shard, table)
                folder.add_circumstances(**noted)
                report(number, total)
            folder.add_circumstances(workers_replaced=crew.replaced)
        report(total, total)


def _prepare(crew: Crew, folder: RunFolder, report: Progress) -> None:
    """Pieces by all, then what is left by one; every other is given the files."""
    artifacts, pieces = folder.path / "artifacts", crew.opened().pieces

    def keep(made: Files, noted: Noted) -> None:
        write_files(artifacts, made)
        folder.add_circumstances(**noted)
        crew.files |= made

    for number, (_, made) in enumerate(crew.each("make_piece", pieces)):
        report(number, len(pieces))
        keep(*made)
    for _, made in crew.each("prepare", [crew.files]):
        keep(*made)
    crew.prepared = True


@contextmanager
def connected(options: ClusterOptions) -> Iterator[None]:
    """Ray, while inside; one that is running in this process already is left as it is.

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
    _knock(address)
    here: dict[str, Any] = {}
    if address == "local":
        wanted = (options.workers or 1) * options.cpus_per_worker
        here = {"num_cpus": max(os.cpu_count() or 1, wanted), "include_dashboard": False}
    try:
        ray.init(address=address, log_to_driver=False, configure_logging=False, **here)
    except Exception as error:
        raise BadInput(
            f"--ray-address {address}: no Ray cluster answers: {str(error).splitlines()[0]} (one with tokens wants "
            "RAY_AUTH_MODE=token here, too)"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """:raises BadInput: nobody listens at an address of the form HOST:PORT."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdecimal():
        if address not in ("local", "auto"):
            raise BadInput(f"--ray-address {address}: expected HOST:PORT, ray://HOST:PORT, auto or local")
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWERS_WITHIN).close()
    except (OSError, OverflowError) as error:
        raise BadInput(
            f"--ray-address {address}: no Ray cluster answers ({error}): `ray status` on its head says where it is"
        ) from error


class _Each(NamedTuple):
    """What one worker has for itself."""

    cpus: int
    gpus: float


def _crew(entry: Entry, model: Any, name: str, data: QuerySet, options: Any, folder: RunFolder) -> Crew:
    """:raises BadInput: the cluster is too small for it."""
    import ray

    there = ray.cluster_resources()
    gpus = options.gpus_per_worker
    if gpus is None:
        gpus = 1.0 if there.get("GPU", 0) and (options.device or "cuda").startswith("cuda") else 0.0
    count = options.workers or max(1, int(there.get("GPU", 0) / gpus) if gpus else 1)
    each = _Each(options.cpus_per_worker, gpus)
    refuse(
        f"--workers {count} with {needed:g} {kind} each need {count * needed:g}: the cluster has "
        f"{there.get(kind, 0):g}; fewer --workers, or less of --{kind.lower()}s-per-worker"
        for kind, needed in (("CPU", each.cpus), ("GPU", each.gpus))
        if count * needed > there.get(kind, 0)
    )
    plain = options.model_copy(update={"engine": "here", "ray_address": None})
    opens = partial(model.open_again, device=plain.device) if hasattr(model, "open_again") else None
    artifacts = read_files(folder.path / "artifacts")
    work = Work(
        entry, name, opens or partial(plain.open_model, name), data, plain, str(Path.cwd()), each.cpus, artifacts
    )
    return Crew(work, count, each)


class _Hand:
    """One worker, and what it is at.

    :ivar stage: how far it is: "hired", "opened" or "prepared".
    :ivar call: the method that it is in; "" for none.
    :ivar task: what that was given, where it is one of :meth:`Crew.each`.
    """

    def __init__(self, actor: Any) -> None:
        self.actor, self.stage = actor, "hired"
        self.call, self.task, self.ref = "", None, None

    def begin(self, call: str, *given: Any, task: Any = None) -> None:
        self.call, self.task, self.ref = call, task, getattr(self.actor, call).remote(*given)


class Crew:
    """Workers that do one thing each at a time."""

    def __init__(self, work: Work, count: int, each: _Each) -> None:
        import ray

        self.count, self.each_has, self.replaced = count, each, 0
        self.files, self.prepared = dict(work.artifacts), False
        self._model = work.model
        self._work = ray.put(work)
        self._files: Any = None
        self._first: Opened | None = None
        self._deaths: Counter[str] = Counter()
        self._hands = [self._hired() for _ in range(count)]

    def opened(self) -> Opened:
        """What the first worker that has the model loaded says."""
        while self._first is None:
            self._next()
        return self._first

    def each(self, call: str, tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """Have every task done by some worker. :returns: tasks as they end, with what came of them."""
        waiting = deque(tasks)
        while waiting or any(hand.task is not None for hand in self._hands):
            for hand in self._hands:
                if hand.ref is None and waiting and self._is_ready(hand):
                    task = waiting.popleft()
                    hand.begin(call, task, task=task)
            ended = self._next()
            if ended is not None:
                task, found, done = ended
                if done:
                    yield task, found
                else:
                    waiting.appendleft(task)

    def close(self) -> None:
        """Let all workers go."""
        import ray

        ray.wait([hand.actor.close.remote() for hand in self._hands], num_returns=len(self._hands), timeout=1)
        for hand in self._hands:
            ray.kill(hand.actor)

    def _hired(self) -> _Hand:
        import ray

        kind = ray.remote(Worker)
        hand = _Hand(kind.options(num_cpus=self.each_has.cpus, num_gpus=self.each_has.gpus, max_restarts=0).remote())
        hand.begin("version")
        return hand

    def _is_ready(self, hand: _Hand) -> bool:
        """Whether it can be given a task; where all is prepared but for this one, it is told to."""
        import ray

        if hand.stage == "opened" and self.prepared:
            self._files = self._files or ray.put(self.files)
            hand.begin("prepare", self._files)
            return False
        return hand.stage != "hired"

    def _next(self) -> tuple[Any, Any, bool] | None:
        """Wait for a worker to end what it is in. :returns: a task, what came of it, and whether it is done."""
        import ray

        by_ref = {hand.ref: hand for hand in self._hands if hand.ref is not None}
        ended, _ = ray.wait(list(by_ref), num_returns=1, timeout=PATIENCE)
        if not ended:
            if all(hand.stage == "hired" for hand in self._hands):
                log("no worker has begun yet: is the cluster busy with others? `ray status` says so")
            return None
        hand = by_ref[ended[0]]
        try:
            found = ray.get(ended[0])
        except ray.exceptions.RayTaskError as error:
            if hand.stage != "hired":
                raise
            raise BadInput(
                f"a worker could not begin: {str(error.cause).splitlines()[0]}; is Fathom {fathom.__version__} "
                "installed on every node?"
            ) from error
        except ray.exceptions.RayError as error:
            return self._replace(hand, error)
        if isinstance(found, Failure):
            raise found.error()
        call, task = hand.call, hand.task
        hand.call, hand.task, hand.ref = "", None, None
        if task is not None:
            return task, found, True
        self._advance(hand, call, found)
        return None

    def _advance(self, hand: _Hand, call: str, found: Any) -> None:
        """To the next stage. :raises BadInput: it is of another version, or would ask something else."""
        if call == "version":
            if found != fathom.__version__:
                raise BadInput(
                    f"a worker has Fathom {found}, here is {fathom.__version__}: install the same on every node"
                )
            hand.begin("open", self._work)
        elif call == "open":
            hand.stage = "opened"
            self._first = self._first or found
            self._refuse_another(found)
        else:
            hand.stage = "prepared"

    def _refuse_another(self, opened: Opened) -> None:
        assert self._first is not None
        first, other = self._first.begun, opened.begun
        lines = list(differences(compared(first.identity), compared(other.identity)))
        if lines or first.plan != other.plan:
            raise BadInput([f"workers on {self._first.host} (there) and {opened.host} (here) do not agree", *lines])

    def _replace(self, hand: _Hand, error: Exception) -> tuple[Any, Any, bool] | None:
        """:raises RunFailed: too many have died of the same."""
        import ray

        of = hand.task if isinstance(hand.task, str) else hand.call
        self._deaths[of] += 1
        why = " ".join(str(error).split())
        if self._deaths[of] >= LIVES:
            what = f"asked {of}" if hand.task is not None else "began" if of == "version" else f"loaded '{self._model}'"
            raise RunFailed(
                f"{LIVES} workers died while they {what} (killed? out of memory? fewer --workers, or --dtype "
                f"bfloat16); what is finished is kept: {why[:300]}"
            ) from error
        log(f"a worker has died, another takes its place: {why[:200]}")
        self.replaced += 1
        task = hand.task
        ray.kill(hand.actor)
        self._hands[self._hands.index(hand)] = self._hired()
        return None if task is None else (task, None, False)
