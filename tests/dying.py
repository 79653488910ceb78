"""Workers with whom something is wrong, for tests/test_ray.py: Ray's processes import them by name."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from fathom.run.worker import Work, Worker
from fathom.studies.grid_ray import Cells, CellWorker


def _is_first(left: Path) -> bool:
    """Of those that would die. :param left: file that the first leaves."""
    try:
        left.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


class DiesInOpening(Worker):
    """As where the system ends what takes too much memory."""

    def open(self, work: Work) -> Any:
        os._exit(1)


class TooSmall(Worker):
    """Has next to no memory."""

    def open(self, work: Work) -> Any:
        import resource

        import torch  # noqa: F401
        import transformers  # noqa: F401

        from fathom.models import loading  # noqa: F401

        taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (taken + (64 << 20), resource.RLIM_INFINITY))
        try:
            return super().open(work)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


class DiesOnce(Worker):
    """One of them dies at its second shard."""

    count = 0

    def ask(self, shard: str) -> Any:
        self.count += 1
        if self.count == 2 and _is_first(self.left):
            os._exit(1)
        return super().ask(shard)

    def open(self, work: Work) -> Any:
        self.left = Path(work.folder) / "died"
        return super().open(work)


class DiesOfOneShard(Worker):
    """Whoever asks the third dies."""

    def ask(self, shard: str) -> Any:
        if shard == "00002":
            os._exit(1)
        return super().ask(shard)


class Older(Worker):
    """Of a version before."""

    def version(self) -> str:
        return "0.0.9"


class Elsewhere(Worker):
    """One of two that find different models under one name; neither begins before the other."""

    def open(self, work: Work) -> Any:
        found = super().open(work)
        found.begun.identity["model"]["content_hash"] = str(os.getpid())
        Path(f"opened-{os.getpid()}").touch()
        until = time.monotonic() + 60
        while len(list(Path().glob("opened-*"))) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        return found


class DiesInACell(CellWorker):
    """One of them dies in a training of which something is kept."""

    def open(self, cells: Cells) -> Any:
        from fathom.links import embedding

        close = embedding._Training._close_epoch

        def closes(training: Any, epoch: int, loss: float) -> None:
            close(training, epoch, loss)
            if (training.folder.path / "checkpoint.pt").exists() and _is_first(cells.out.parent / "died"):
                seconds = [line["seconds"] for line in training.curve]
                (cells.out.parent / "died").write_text(json.dumps({"at": str(training.folder.path), "curve": seconds}))
                os._exit(1)

        embedding._Training._close_epoch = closes  # type: ignore[method-assign]
        return super().open(cells)


class DiesOfOneCell(CellWorker):
    """Whoever makes it dies."""

    def make(self, name: str) -> Any:
        if name == "cells/m/only/anonymised-er":
            os._exit(1)
        return super().make(name)


class WithoutTheStudy(CellWorker):
    """On a machine with other folders."""

    def open(self, cells: Cells) -> Any:
        return super().open(cells._replace(out=Path("/nowhere")))
