"""Workers of a Ray cluster, and this process, the driver, which gives them one thing to do at a time.

Each worker is an actor. One that dies is replaced, and what it had in hand is given out again.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, NamedTuple

from fathom._version import VERSION
from fathom.errors import BadInput, MissingExtra, RunFailed, refuse
from fathom.probes.shared_options import ClusterOptions
from fathom.progress import is_quiet, log
from fathom.run.worker import Failure, Hired

ANSWERS_WITHIN = 5.0
"""Seconds that a cluster's address is given; Ray itself waits for minutes."""
LIVES = 3
"""So many workers may die of one thing to do, or without ever having begun, before the run ends."""
PATIENCE = 30.0
"""Seconds until somebody is told that no worker has begun."""


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
    rays = logging.getLogger("ray")
    usual, at_sigterm = rays.level, signal.getsignal(signal.SIGTERM)
    try:
        if is_quiet():
            rays.setLevel(logging.ERROR)  # that a new cluster has tokens is a warning
        ray.init(address=address, log_to_driver=False, configure_logging=False, **here)
    except Exception as error:
        raise BadInput(
            f"--ray-address {address}: no Ray cluster answers: {str(error).splitlines()[0]} (one with tokens wants "
            "RAY_AUTH_MODE=token here, too)"
        ) from error
    finally:
        rays.setLevel(usual)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, at_sigterm)  # by Ray's the process would abort, with nothing tidied up
    try:
        yield
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """:raises BadInput: nobody listens at an address of the form HOST:PORT, or at what "auto" stands for."""
    meant = _found() if address == "auto" else address
    host, _, port = meant.removeprefix("ray://").rpartition(":")
    if not port.isdecimal():
        if address not in ("local", "auto"):
            raise BadInput(f"--ray-address {address}: expected HOST:PORT, ray://HOST:PORT, auto or local")
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWERS_WITHIN).close()
    except (OSError, OverflowError) as error:
        at = "" if meant == address else f" at {meant}"
        raise BadInput(
            f"--ray-address {address}: no Ray cluster answers{at} ({error}): `ray status` on its head says where it is"
        ) from error


def _found() -> str:
    """What Ray takes "auto" for: a cluster that runs here, or one that has gone, for which Ray would wait without
    end; "" where it knows of none, or does not say."""
    with suppress(Exception):  # nothing that Ray promises; whatever is wrong, it says itself when it begins
        from ray._private.services import canonicalize_bootstrap_address

        return canonicalize_bootstrap_address("auto") or ""
    return ""


class Size(NamedTuple):
    """So many workers, and what each has for itself."""

    workers: int
    cpus: int
    gpus: float


def size_of(options: ClusterOptions, device: str | None = None, most: int | None = None) -> Size:
    """What *options* ask of the cluster.

    :param device: that the model is to be on, where that is said.
    :param most: so many have something to do.
    :raises BadInput: the cluster is too small for it.
    """
    import ray

    there = ray.cluster_resources()
    gpus = options.gpus_per_worker
    if gpus is None:
        gpus = 1.0 if there.get("GPU", 0) and (device or "cuda").startswith("cuda") else 0.0
    count = options.workers or max(1, int(there.get("GPU", 0) / gpus) if gpus else 1)
    count = min(count, most or count)
    refuse(
        f"--workers {count} with {needed:g} {kind} each need {count * needed:g}: the cluster has "
        f"{there.get(kind, 0):g}; fewer --workers, or less of --{kind.lower()}s-per-worker"
        for kind, needed in (("CPU", options.cpus_per_worker), ("GPU", gpus))
        if count * needed > there.get(kind, 0)
    )
    return Size(count, options.cpus_per_worker, gpus)


class Hand:
    """One worker, and what it is at.

    :ivar stage: how far it is: "hired", "opened", or what a kind of crew has beyond.
    :ivar call: the method that it is in; "" for none.
    :ivar task: what that was given, where it is one of :meth:`Crew.each`.
    """

    def __init__(self, actor: Any) -> None:
        self.actor, self.stage = actor, "hired"
        self.call, self.task, self.ref = "", None, None

    def begin(self, call: str, *given: Any, task: Any = None) -> None:
        self.call, self.task, self.ref = call, task, getattr(self.actor, call).remote(*given)


class Crew:
    """Workers that do one thing each at a time.

    :param kind: of worker; each is opened before it is given anything to do.
    :param work: what it is opened with.
    """

    opening: str = "were opened"
    doing: ClassVar[str] = "did"
    """What somebody is told workers died of."""

    def __init__(self, kind: type[Hired], work: Any, size: Size) -> None:
        import ray

        self.size, self.replaced = size, 0
        self._kind, self._work = kind, ray.put(work)
        self._deaths: Counter[str] = Counter()
        self._hands = [self._hired() for _ in range(size.workers)]

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

    def _hired(self) -> Hand:
        import ray

        kind = ray.remote(self._kind)
        hand = Hand(kind.options(num_cpus=self.size.cpus, num_gpus=self.size.gpus, max_restarts=0).remote())
        hand.begin("version")
        return hand

    def _is_ready(self, hand: Hand) -> bool:
        """Whether it can be given a task."""
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
                f"a worker could not begin: {str(error.cause).splitlines()[0]}; is Fathom {VERSION} "
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

    def _advance(self, hand: Hand, call: str, found: Any) -> None:
        """To the next stage. :raises BadInput: it is of another version."""
        if call == "version":
            if found != VERSION:
                raise BadInput(f"a worker has Fathom {found}, here is {VERSION}: install the same on every node")
            hand.begin("open", self._work)
        else:
            hand.stage = "opened"

    def _replace(self, hand: Hand, error: Exception) -> tuple[Any, Any, bool] | None:
        """:returns: the task that it had, not done unless that is given up.
        :raises RunFailed: too many have died of the same."""
        import ray

        task, of = hand.task, hand.task if isinstance(hand.task, str) else hand.call
        self._deaths[of] += 1
        why = " ".join(str(error).split())
        given_up = None
        if self._deaths[of] >= LIVES:
            what = f"{self.doing} {of}" if task is not None else "began" if of == "version" else self.opening
            failed = RunFailed(
                f"{LIVES} workers died while they {what} (killed? out of memory? fewer --workers, or --dtype "
                f"bfloat16); what is finished is kept: {why[:300]}"
            )
            if task is None:
                raise failed from error
            given_up = self._given_up(task, failed)
        log(f"a worker has died, another takes its place: {why[:200]}")
        self.replaced += 1
        ray.kill(hand.actor)
        self._hands[self._hands.index(hand)] = self._hired()
        return None if task is None else (task, given_up, given_up is not None)

    def _given_up(self, task: Any, failed: RunFailed) -> Any:
        """What comes of a task that nobody survives. :raises RunFailed: nothing, and no more of the others."""
        raise failed
