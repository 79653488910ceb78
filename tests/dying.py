"""Faulty workers, for tests/probes/test_ray.py: Ray's processes import them by name."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from fathom.plans.runner import Job, StepWorker
from fathom.probes.run.on_ray import ShardJob, ShardWorker


def _is_first(left: Path) -> bool:
    """Of those that would die. :param left: file that the first leaves."""
    try:
        left.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


class DiesInOpening(ShardWorker):
    """As where the system ends what takes too much memory."""

    def load(self, job: ShardJob) -> Any:
        os._exit(1)


class TooSmall(ShardWorker):
    """Has next to no memory."""

    def load(self, job: ShardJob) -> Any:
        import resource

        import torch  # noqa: F401
        import transformers  # noqa: F401

        from fathom.engine.models import loading  # noqa: F401

        taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (taken + (64 << 20), resource.RLIM_INFINITY))
        try:
            return super().load(job)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


class DiesOnce(ShardWorker):
    """One of them dies at its second shard."""

    count = 0

    def evaluate(self, shard: str, files: list[Any]) -> Any:
        self.count += 1
        if self.count == 2 and _is_first(self.left):
            os._exit(1)
        return super().evaluate(shard, files)

    def load(self, job: ShardJob) -> Any:
        self.left = Path("died").absolute()
        return super().load(job)


class DiesOfOneShard(ShardWorker):
    """Whoever asks the third dies."""

    def evaluate(self, shard: str, files: list[Any]) -> Any:
        if shard == "00002":
            os._exit(1)
        return super().evaluate(shard, files)


class Older(ShardWorker):
    """Of a version before."""

    def open(self, version: str, *more: Any) -> Any:
        return super().open("0.0.9", *more)


class Elsewhere(ShardWorker):
    """One of two that find different models under one name; neither begins before the other."""

    def load(self, job: ShardJob) -> Any:
        found = super().load(job)
        found.setup.identity["model"]["content_hash"] = str(os.getpid())
        Path(f"opened-{os.getpid()}").touch()
        until = time.monotonic() + 60
        while len(list(Path().glob("opened-*"))) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        return found


class DiesInACell(StepWorker):
    """One of them dies in a training of which something is kept."""

    def load(self, job: Job) -> Any:
        from fathom_kgc.links import embedding

        close = embedding._Training._close_epoch
        folder = next(iter(job.steps.values())).out.parent

        def closes(training: Any, epoch: int, loss: float) -> None:
            close(training, epoch, loss)
            if (training.folder.path / "checkpoint.pt").exists() and _is_first(folder / "died"):
                seconds = [line["seconds"] for line in training.curve]
                (folder / "died").write_text(json.dumps({"at": str(training.folder.path), "curve": seconds}))
                os._exit(1)

        embedding._Training._close_epoch = closes  # type: ignore[method-assign]
        return super().load(job)


class DiesOfOneCell(StepWorker):
    """Whoever makes it dies."""

    def make(self, name: str) -> Any:
        if name == "runs/m/graph/anonymised-er/seed=0":
            os._exit(1)
        return super().make(name)


class WithoutThePlan(StepWorker):
    """On a machine with other folders."""

    def load(self, job: Job) -> Any:
        return super().load(job._replace(notice=job.notice._replace(file=Path("/nowhere/plan.json"))))
