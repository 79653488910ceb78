"""Steps of a plan: each makes one run, in its own folder, and resumes it where it stopped."""

from __future__ import annotations

import shutil
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from fathom.base.errors import BadInput, FathomError
from fathom.base.progress import Progress
from fathom.base.reading import Json, file_exists, json_file, shown
from fathom.data.formats import read
from fathom.data.queries import QuerySet
from fathom.probes import Entry
from fathom.probes.models import loading_key, open_model
from fathom.probes.options import ProbeOptions
from fathom.store.files import is_of_disk, write_json
from fathom.store.folder import SECONDS, RunFolder

if TYPE_CHECKING:
    from fathom.probes.run import RunRequest
    from fathom.probes.run.forecast import Forecast, Forecaster

RECORDS = ".steps"
"""Folder of locks and failures, in the folder of a plan."""


class Opened:
    """The models and data that steps use: one model in memory at a time."""

    def __init__(self) -> None:
        self._data: dict[tuple[str, str | None], QuerySet] = {}
        self._model: tuple[Any, Any] = (None, None)
        self._warm: set[tuple[object, str]] = set()

    def is_first(self, probe: object, model: str) -> bool:
        """Return whether a probe of a model is asked for the first time."""
        was_asked = (probe, model) in self._warm
        self._warm.add((probe, model))
        return not was_asked

    def data(self, data: str | Path | QuerySet, columns: str | None = None) -> QuerySet:
        """Read a data set once. :param columns: of files of triples or a table."""
        if isinstance(data, QuerySet):
            return data
        key = str(data), columns
        if key not in self._data:
            self._data[key] = read(data, columns)
        return self._data[key]

    def model(self, model: str, options: ProbeOptions) -> Any:
        """Open a model by its name, unless it is the last one."""
        key = (model, loading_key(options))
        if self._model[0] != key:
            self._model = (None, None)  # frees the memory of the model before
            self._model = key, open_model(model, options)
        return self._model[1]


class Step:
    """One run of a plan.

    :ivar out: folder of the plan.
    :ivar name: path of the step's folder below *out*.
    :ivar exclusive: whether its time is measured: it is never shared, resumed, or made next to another.
    """

    exclusive: bool = False
    probe: str | Entry = ""
    model: str = ""
    data: str | Path | QuerySet
    options: Any

    def __init__(self, out: Path, name: str) -> None:
        self.out, self.name = out, name

    def __str__(self) -> str:
        return self.name.removeprefix("runs/")

    @property
    def folder(self) -> Path:
        """The folder of its run."""
        return self.out / self.name

    @property
    def record(self) -> Path:
        """The folder of its lock and its failure."""
        return self.out / RECORDS / self.name

    @property
    def identity(self) -> Json:
        """All that decides the numbers of the run: another value makes it another run."""
        raise NotImplementedError

    @property
    def work(self) -> str:
        """What its time depends on: steps of equal work share an estimate; timed ones that of the most queries."""
        raise NotImplementedError

    def forecast(self, opened: Opened, forecaster: Forecaster) -> Any:
        """Estimate its time and memory. :raises BadInput: the run cannot be estimated."""
        raise NotImplementedError

    def has_begun(self) -> bool:
        """Return whether the folder has a part of the run."""
        return RunFolder(self.folder).has_manifest()

    def make(self, opened: Opened, report: Progress | None = None) -> None:
        """Make the run, or resume it. :raises FathomError: it fails."""
        raise NotImplementedError

    def check(self) -> None:
        """:raises BadInput: this machine lacks what the step needs."""
        raise NotImplementedError

    def clear(self) -> None:
        """Remove what a failed attempt has left and another cannot resume."""

    def remove(self) -> None:
        """Remove all that the step has made."""
        shutil.rmtree(self.folder)

    def attempt(self, opened: Opened, report: Progress | None = None) -> str:
        """Make the run. :returns: why it failed, or ""."""
        try:
            self.make(opened, report)
        except FathomError as error:
            return self.fail(str(error).replace("\n", "; "), may_pass=_may_pass(error))
        except Exception as error:  # a run must never end the plan
            trace = traceback.format_exc()
            return self.fail(f"{type(error).__name__}: {error}", trace, may_pass=_may_pass(error))
        return ""

    def finished(self) -> RunFolder | None:
        """Return the run, None if it is unfinished."""
        folder = RunFolder(self.folder)
        return folder if folder.has_manifest() and folder.is_complete() else None

    def fail(self, why: str, trace: str = "", may_pass: bool = False) -> str:
        """Record why the step failed, and return it.

        :param may_pass: not for the input but for its surroundings: the disk, a server.
        """
        write_json(self.record / "failed.json", {"why": why, "trace": trace, "may_pass": may_pass})
        return why

    def failure(self) -> str:
        """Return why the step failed, "" if it has not."""
        return str(self._failed().get("why", ""))

    def failure_may_pass(self) -> bool:
        """Return whether the step failed for its surroundings, so that the same command repeats it."""
        return self._failed().get("may_pass") is True

    def _failed(self) -> Json:
        file = self.record / "failed.json"
        return read_object(file) if file_exists(file) else {}

    def has_ended(self) -> bool:
        """Return whether it is finished or has failed."""
        return bool(self.failure()) or self.finished() is not None

    def forget_failure(self) -> None:
        """Clear up after a failure, then remove its record, which keeps other processes away until then."""
        if self.failure():
            self.clear()
            (self.record / "failed.json").unlink()


def _may_pass(error: BaseException | None) -> bool:
    """Return whether a disk or a server was the reason."""
    if isinstance(error, BadInput) or error is None:
        return False
    return is_of_disk(error) or _may_pass(error.__cause__)


def read_object(file: Path) -> Json:
    """Read a JSON object of a plan. :raises BadInput: it is something else."""
    content = json_file(file)
    if not isinstance(content, dict):
        raise BadInput(f"{file}: expected an object {{…}}, found {shown(content)}: choose another --out")
    return content


class Notice(NamedTuple):
    """The file that a plan leaves in its folder, by which workers elsewhere recognise the folder."""

    file: Path
    content: Json


class StepState(NamedTuple):
    """A step, its run if finished, and why it failed, "" if it has not."""

    step: Any
    run: RunFolder | None
    failed: str


def state_of(step: Step) -> StepState:
    """Return the state of a step."""
    why = step.failure()
    return StepState(step, None if why else step.finished(), why)


class ProbeStep(Step):
    """A run of a probe.

    :ivar model: name or folder. :ivar data: likewise.
    :ivar named: model and data as the plan names them, wherever it is.
    """

    def __init__(
        self,
        out: Path,
        name: str,
        probe: str | Entry,
        model: str,
        data: str | Path | QuerySet,
        options: ProbeOptions,
        exclusive: bool = False,
        named: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(out, name)
        self.probe, self.model, self.data, self.options, self.exclusive = probe, model, data, options, exclusive
        self.named = named or {"model": model, "data": str(data)}

    @property
    def identity(self) -> Json:
        timed = {"exclusive": True} if self.exclusive else {}
        options = {"options": self.options.identity(), "loading": loading_key(self.options)}
        return {"probe": self.probe, **self.named, **options, **timed}

    @property
    def work(self) -> str:
        content = self.data.content_hash if isinstance(self.data, QuerySet) else self.data
        alike = {"seed": 0} | ({"limit": None} if self.exclusive else {})
        return repr((self.probe, self.model, content, self.options.model_copy(update=alike)))

    def forecast(self, opened: Opened, forecaster: Forecaster) -> Forecast:
        return forecaster.forecast(self._request(opened))

    def make(self, opened: Opened, report: Progress | None = None) -> None:
        """Evaluate the probe; of an exclusive run, note its time."""
        from fathom.probes.run import run

        request = self._request(opened).with_model(opened.model(self.model, self.options))
        if not self.exclusive or self.finished():
            run(request, self.folder, report)
            return
        shutil.rmtree(self.folder, ignore_errors=True)  # a resumed run has no time of its own
        self._warm_up(opened, request)
        began = time.perf_counter()
        folder = run(request, self.folder, report)
        folder.add_circumstances(**{SECONDS: round(time.perf_counter() - began, 6)})

    def _request(self, opened: Opened) -> RunRequest:
        """Return what is asked of the model by its name."""
        from fathom.probes.run import RunRequest

        return RunRequest(self.probe, self.model, opened.data(self.data, self.options.columns), self.options)

    def _warm_up(self, opened: Opened, request: RunRequest) -> None:
        """Make what happens once per model, such as its self-checks, before the time is measured."""
        from fathom.probes.run import run

        if opened.is_first(self.probe, self.model):
            with TemporaryDirectory() as folder:
                run(request.with_options(limit=2), Path(folder) / "run")
            request.model.refuses_cache(), request.model.linear_head()

    def check(self) -> None:
        """Check that the data can be found here."""
        from fathom.data.formats import locate

        if not isinstance(self.data, QuerySet):
            locate(self.data)


class PlannedStep(NamedTuple):
    """A run of a plan.

    :param step: which makes it; equal runs share one.
    :param keys: its run, model, data, world and values of the matrix, by which studies are repeated.
    :param places: line and key of its run and its model, if any.
    """

    name: str
    step: Step
    keys: Mapping[str, str]
    places: Mapping[str, str]
