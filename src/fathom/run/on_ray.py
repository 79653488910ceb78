"""Shards asked by workers of a Ray cluster; this process, the driver, alone writes.

Each worker is an actor with the model loaded. One that dies is replaced, and what it had in hand is asked again. What
is asked, and how it is cut, is what one process would ask (:mod:`.beginning`), so that the run is the same.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from fathom.data.queries import QuerySet
from fathom.errors import BadInput
from fathom.probes import Entry
from fathom.probes.models import open_model
from fathom.progress import Progress
from fathom.run.crew import Crew, Hand, Size, connected, size_of
from fathom.run.worker import Files, Noted, Opened, Work, Worker, read_files, write_files
from fathom.store.folder import RunFolder, compared, differences
from fathom.store.surroundings import surroundings


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
                "spread": {"engine": "ray", "workers": crew.size.workers},
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


def _prepare(crew: _Asking, folder: RunFolder, report: Progress) -> None:
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


def _crew(entry: Entry, model: Any, name: str, data: QuerySet, options: Any, folder: RunFolder) -> _Asking:
    """:raises BadInput: the cluster is too small for it."""
    size = size_of(options, options.device)
    plain = options.model_copy(update={"engine": "here", "ray_address": None})
    opens = None if isinstance(model, str) else model.open_again
    opens = partial(opens, device=plain.device) if opens else partial(open_model, name, plain)
    artifacts = read_files(folder.path / "artifacts")
    work = Work(entry, name, opens, data, plain, str(Path.cwd()), size.cpus, artifacts)
    return _Asking(work, size)


class _Asking(Crew):
    """Workers that have the model loaded, and, once :attr:`prepared`, all the *files* that every shard needs."""

    doing = "asked"

    def __init__(self, work: Work, size: Size) -> None:
        super().__init__(Worker, work, size)
        self.opening = f"loaded '{work.model}'"
        self.files, self.prepared = dict(work.artifacts), False
        self._files: Any = None
        self._first: Opened | None = None

    def opened(self) -> Opened:
        """What the first worker that has the model loaded says."""
        while self._first is None:
            self._next()
        return self._first

    def _is_ready(self, hand: Hand) -> bool:
        """Where all is prepared but for this one, it is told to."""
        import ray

        if hand.stage == "opened" and self.prepared:
            self._files = self._files or ray.put(self.files)
            hand.begin("prepare", self._files)
            return False
        return super()._is_ready(hand)

    def _advance(self, hand: Hand, call: str, found: Any) -> None:
        """:raises BadInput: it is of another version, or would ask something else."""
        if call == "prepare":
            hand.stage = "prepared"
            return
        super()._advance(hand, call, found)
        if call == "open":
            self._first = self._first or found
            self._refuse_another(found)

    def _refuse_another(self, opened: Opened) -> None:
        assert self._first is not None
        first, other = self._first.begun, opened.begun
        lines = list(differences(compared(first.identity), compared(other.identity)))
        if lines or first.plan != other.plan:
            raise BadInput([f"workers on {self._first.host} (there) and {opened.host} (here) do not agree", *lines])
