"""Running the steps of a plan: here, in processes, on a Ray cluster, or as one of several commands that share them.

A process claims a step before it makes it. A failed step is recorded with its reason and the others go on.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, NamedTuple

from fathom.base.errors import BadInput
from fathom.base.processes import start_process
from fathom.base.progress import Progress, line, unseen
from fathom.base.reading import stands
from fathom.plans.options import WorkerOptions
from fathom.plans.steps import Notice, Opened, Step, StepState, read_object, state_of
from fathom.probes.options import HERE
from fathom.probes.run.on_ray import Pool, RayWorker, Size, connected, size_of
from fathom.probes.run.shards import STARTING, Part
from fathom.store.locks import AT_WORK, Claims, exclusive_folder, shared_folder


class Job(NamedTuple):
    """The work of a cluster: steps by name, and the notice that its workers must find."""

    steps: dict[str, Step]
    notice: Notice


class StepWorker(RayWorker):
    """An actor that makes steps, each in its own folder, which it must share with the driver."""

    def load(self, job: Job) -> None:
        """Check that the folder of the plan is visible, and everything that the steps need.

        :raises BadInput: it is not, or this node lacks something.
        """
        self.steps, (file, content) = job
        if not stands(file) or read_object(file) != content:
            raise BadInput(
                f"--engine ray: a worker on {platform.node()} does not find {file}: give a folder that all nodes share"
            )
        for step in self.steps.values():
            step.check()
        self.opened = Opened()

    def make(self, name: str) -> str:
        """Make a step. :returns: why it failed, or ""."""
        return make_step(self.steps[name], self.opened)


def make_step(step: Step, opened: Opened, report: Progress | None = None) -> str:
    """Make a step, once no other process is making it, such as a worker whose driver was killed.

    :returns: why it failed, or "".
    """
    with Claims(step.record).claimed(AT_WORK, wait=True):
        return step.attempt(opened, report)


def make_if_free(step: Step, opened: Opened, report: Progress | None = None) -> str | None:
    """Make a step as :func:`make_step` does; return None if another process is making it or has made it."""
    with Claims(step.record).claimed(AT_WORK) as ours:
        return step.attempt(opened, report) if ours and not step.has_ended() else None


class Board:
    """The state of all steps while they run.

    :param tell: called with a line at the end of each step.
    :param report: called with the number of steps that have ended, and of all.
    """

    def __init__(self, steps: Sequence[Step], tell: Callable[[str], None], report: Progress) -> None:
        self.total, self.done, self.failed = len(steps), 0, 0
        self.tell, self.report = tell, report

    def ended(self, step: Step, why: str, done: int | None = None) -> None:
        """Note the end of a step. :param done: number of ended steps, if other processes share them."""
        self.done = self.done + 1 if done is None else done
        self.failed += bool(why)
        failed = f" ({self.failed} failed)" if self.failed else ""
        self.tell(f"[{self.done}/{self.total}] {step}{f': failed: {why}' if why else ''}{failed}")
        self.report(self.done, self.total)


def run_steps(
    steps: Sequence[Step],
    out: Path,
    options: WorkerOptions,
    start: Callable[[Sequence[Step]], Notice],
    retry_failed: bool = False,
    tell: Callable[[str], None] = lambda line: None,
    report: Progress = unseen,
    anew: Collection[Step] = (),
) -> list[StepState]:
    """Make every step that is missing.

    :param options: where steps are made.
    :param start: called with the steps to be made, before the first and while no other process works in *out*: checks
        what is there and prepares the folder; returns the notice that it leaves.
    :param anew: steps to be repeated although they are finished; *start* removes their folders.
    :raises BadInput: by *start*, or another process works in *out*; the cluster is missing, or does not see *out*.
    :raises RunFailed: workers of the cluster die before they start; finished steps are kept.
    """
    board = Board(steps, tell, report)
    if options.part is not None:
        _make_part(options, steps, out, retry_failed, start, board)
        return [state_of(step) for step in steps]
    with exclusive_folder(out):
        left = [step for step in steps if step in anew or _is_left(step, retry_failed)]
        together, alone = ([step for step in left if step.exclusive is kind] for kind in (False, True))
        with _prepared(together, options, lambda: _start(start, left), board) as ended:
            board.done = len(steps) - len(left)
            report(board.done, board.total)
            for step, why in ended:
                board.ended(step, why)
            for step, why in _make_here(alone, board):
                board.ended(step, why)
        return [state_of(step) for step in steps]


def _start(start: Callable[[Sequence[Step]], Notice], retried: Sequence[Step]) -> Notice:
    notice = start(retried)
    for step in retried:
        step.forget_failure()
    return notice


def _is_left(step: Step, retry_failed: bool) -> bool:
    if step.failure():
        return retry_failed or step.failure_may_pass()
    return step.finished() is None


def _make_here(steps: Sequence[Step], board: Board) -> Iterator[tuple[Step, str]]:
    opened = Opened()
    for step in steps:
        yield step, make_step(step, opened, line(f"[{board.done + 1}/{board.total}] {step}"))


def _make_part(
    options: WorkerOptions,
    steps: Sequence[Step],
    out: Path,
    retry_failed: bool,
    start: Callable[[Sequence[Step]], Notice],
    board: Board,
) -> None:
    """Make the part's own steps; then, from the end, unclaimed ones. Exclusive ones are left to a process alone."""
    part = Part.parse(str(options.part))
    if options.engine != HERE or options.workers is not None:
        raise BadInput(f"--part {part} and --engine or --workers: expected one of them")
    shared = [step for step in steps if not step.exclusive]
    opened = Opened()
    with shared_folder(out) as claims:
        with claims.claimed(STARTING, wait=True):
            _start(start, [step for step in steps if step.failure() and _is_left(step, retry_failed)])
        for step in (*part.share(shared), *reversed(shared)):
            why = make_if_free(step, opened, line(f"[{board.done + 1}/{board.total}] {step}"))
            if why is not None:
                board.ended(step, why, sum(shared_step.has_ended() for shared_step in steps))


@contextmanager
def _prepared(
    steps: Sequence[Step], options: WorkerOptions, start: Callable[[], Notice], board: Board
) -> Iterator[Iterator[tuple[Step, str]]]:
    """Yield an iterator that makes steps and yields them as they end, with why they failed, or "".

    :raises BadInput: the cluster is missing or too small; nothing has been written.
    """
    if options.engine != HERE and steps:
        with connected(options):
            size = size_of(options, most=len(steps))
            with closing(_make_on_ray(steps, start(), size)) as ended:
                yield ended
        return
    start()
    if (workers := options.workers or 1) > 1:
        with closing(_make_in_processes(steps, workers)) as ended:
            yield ended
    else:
        yield _make_here(steps, board)


def _make_on_ray(steps: Sequence[Step], notice: Notice, size: Size) -> Generator[tuple[Step, str]]:
    """Make steps on a Ray cluster. :returns: steps as they end, with why they failed, or "".

    :raises BadInput: workers have another version, or do not see the folder of the plan.
    :raises RunFailed: workers die before they start; finished steps are kept.
    """
    by_name = {step.name: step for step in steps}
    with closing(Pool(StepWorker, Job(by_name, notice), size, "checking the plan")) as pool:
        for name, why in pool.map("make", by_name, give_up=lambda name, error: by_name[name].fail(str(error))):
            yield by_name[name], why


def _make_in_processes(steps: Sequence[Step], workers: int) -> Generator[tuple[Step, str]]:
    """Make each step in a new process, so that one killed for memory ends no other.

    :returns: steps as they end, with why they failed, or "".
    """
    waiting = list(reversed(steps))
    running: dict[Any, tuple[SpawnProcess, Step]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                step = waiting.pop()
                process = start_process(_make_in_process, step)
                running[process.sentinel] = process, step
            for sentinel in wait(list(running)):
                process, step = running.pop(sentinel)
                process.join()
                if process.exitcode:
                    step.fail(f"its process ended with code {process.exitcode} (killed? out of memory?)")
                yield step, step.failure()
    finally:
        for process, _ in running.values():
            process.terminate()
            process.join()


def _make_in_process(step: Step) -> None:
    import torch

    torch.set_num_threads(1)
    make_step(step, Opened())
