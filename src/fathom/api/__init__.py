"""Fathom in Python: ``fathom.probe("statement", model="gpt2", data="BEAR").summary()``."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fathom.api.result import ModelSource, Out, Result, Source, read_source
from fathom.base.errors import BadInput, FathomError, MissingExtra, refuse
from fathom.base.options import Given, chosen_options, parse_options
from fathom.base.progress import ProgressSetting, detail, shown, starting
from fathom.base.rights import refused_rights
from fathom.probes import PROBES, Entry
from fathom.probes.models import check_loaded, check_model, open_model
from fathom.probes.options import HERE, ProbeOptions
from fathom.probes.run import RunRequest, run
from fathom.probes.run.request import command_of
from fathom.probes.run.shards import find_finished, refuse_another_run
from fathom.results.loading import AnyRun, open_runs
from fathom.store.folder import RunFolder

if TYPE_CHECKING:
    from fathom.plans.execution import PlanResult
    from fathom.probes.run.forecast import Forecast

__all__ = [
    "Result", "forecast", "merge_runs", "open_run", "probe", "resume_run", "run_plan",
]  # fmt: skip


def probe(
    asked: str | ProbeOptions,
    model: ModelSource,
    data: Source,
    out: Out = None,
    progress: ProgressSetting = None,
    **options: object,
) -> Result:
    """Query a model about the facts in *data*.

    :param asked: options of a probe, such as ``StatementOptions(max_rank=100)``; or the name of a probe, whose options
        then follow as keywords: "statement", "embedding", "vocabulary", "cloze", "ontology", "generation" or "choice".
    :param model: name or folder of a `transformers` model, the name of a fetched one (``fathom model fetch``), or one
        from ``load_model`` or ``wrap_model``; for the choice probe also a
        :class:`fathom.engine.models.server.ChatServer`, or its model's name with ``server="http://…/v1"``.
    :param data: a folder or file, the name of an embedded data set, a data frame of facts, or a query set.
    :param out: folder of the run; an unfinished run of the same options is resumed. None: a temporary folder. With
        ``part="1/4"`` the run may be unfinished afterwards: ``Result.is_complete()``.
    :param progress: called with (queries done, all queries) instead of a progress bar; False: nothing is shown.
    :param options: of a probe that is named, checked at run time.
    :raises BadInput: everything that is wrong with options, data and model, at once.

    >>> result = fathom.probe("statement", "gpt2", "geography", limit=4, templates=(0,))
    >>> result.accuracy.n
    4
    """
    faults: list[str] = []
    entry, kind = _probe_of(asked)
    probe_options = _collect(faults, lambda: chosen_options(asked, options, lambda values: parse_options(kind, values)))
    with starting(f"{entry.name} probe: opening data and model", progress):
        queryset = _collect(
            faults, lambda: read_source(data, probe_options.columns if probe_options is not None else None)
        )
        if queryset is not None and probe_options is not None:
            finished = find_finished(entry.name, model, queryset, probe_options, out)
            if finished is not None:
                return Result(finished, probe_options.cluster).keep_metrics()
            request = _collect(faults, lambda: RunRequest(entry, str(model), queryset, probe_options))
            if request is not None:
                refuse_another_run(request, out)
        here = probe_options is not None or "server" not in options  # else the name is not of a model to load
        local = _collect(faults, lambda: _model(model, probe_options or kind(), load=not faults)) if here else None
    if faults or probe_options is None or queryset is None or local is None:
        raise BadInput(faults)
    detail(f"{entry.name} probe of {local!r} on {queryset!r}")
    named = local if isinstance(local, str) else local.identity.name
    with shown(f"{entry.name} {named}", progress) as report:
        place, command = out or tempfile.mkdtemp(prefix="fathom-"), command_of(entry.name, model, data, probe_options)
        folder = run(request.with_model(local), place, report, command)
    detail(f"kept in {folder.path}")
    return Result(folder, probe_options.cluster).keep_metrics()


def forecast(
    asked: str | ProbeOptions, model: str | Path, data: Source, progress: ProgressSetting = None, **options: object
) -> Forecast:
    """Estimate the work, time and memory of :func:`probe` on this machine, without reading weights or calling a server.

    :raises BadInput: everything that is wrong with options, data and model; or the work cannot be known.

    >>> fathom.forecast("statement", "gpt2", "geography", limit=4).queries
    4
    """
    return _forecast(asked, model, data, None, progress, **options)


def _forecast(
    asked: str | ProbeOptions,
    model: str | Path,
    data: Source,
    out: str | Path | None,
    progress: ProgressSetting = None,
    **options: object,
) -> Forecast:
    """See :func:`forecast`. :param out: the run to be finished, of which options, data and model must be."""
    faults: list[str] = []
    entry, kind = _probe_of(asked)
    probe_options = _collect(faults, lambda: chosen_options(asked, options, lambda values: parse_options(kind, values)))
    with starting(f"{entry.name} probe: estimating", progress):
        queryset = _collect(
            faults, lambda: read_source(data, probe_options.columns if probe_options is not None else None)
        )
        refuse(faults)
        request = RunRequest(entry, str(model), queryset, probe_options)
        refuse_another_run(request, out)
        from fathom.probes.run.forecast import Forecaster  # it loads a model library

        return Forecaster().forecast(request)


def _probe_of(asked: str | ProbeOptions) -> tuple[Entry, type[ProbeOptions]]:
    """Return a probe of language models and the kind of its options. :raises BadInput: it is none."""
    if isinstance(asked, str):
        entry = PROBES.find(asked)
    elif (found := next((entry for entry in PROBES.entries() if entry.options is type(asked)), None)) is not None:
        entry = found
    else:
        raise BadInput(f"{type(asked).__name__}: expected the options of a probe, such as StatementOptions")
    if not issubclass(entry.options, ProbeOptions):
        raise BadInput(f"the {entry.name} probe needs a {entry.needs}: {entry.example}")
    return entry, entry.options


def open_run(path: str | Path) -> Result:
    """Open a finished run. :raises BadInput: not a run.

    >>> print(fathom.open_run("reference:Gemma-3-270m").accuracy)
    75.4 % [71.9, 78.7]
    """
    return Result(RunFolder.open(path))


def resume_run(path: str | Path, progress: ProgressSetting = None, **rights: object) -> Result:
    """Repeat the command in a run's manifest, which finishes the run, or its part; a finished run is opened.

    :param rights: options that the command has and that no file may give: ``trust_remote_code``, ``allow_pickle``,
        ``server``, ``key_env``, ``ray_address``.
    :raises BadInput: not a run, one without a command, or one that needs other rights; model or data have changed.

    >>> run = fathom.probe("statement", "gpt2", "geography", "runs/half", limit=4, part="1/1")
    >>> fathom.resume_run("runs/half").is_complete()
    True
    """
    folder = RunFolder.open(path)
    if folder.is_complete():
        return Result(folder)
    command = _command_of(folder, rights)
    return probe(command["probe"], command["model"], command["data"], path, progress, **command["options"])


def forecast_resumed(path: str | Path, **rights: object) -> Forecast:
    """Estimate all of a run that :func:`resume_run` would finish. :raises BadInput: likewise."""
    command = _command_of(RunFolder.open(path), rights)
    return _forecast(command["probe"], command["model"], command["data"], path, **command["options"])


def _command_of(folder: RunFolder, rights: Given) -> Given:
    """Return the command in a run's manifest. :raises BadInput: there is none, or one without its rights."""
    command = folder.manifest["circumstances"].get("command")
    if command is None:
        raise BadInput(
            f"{folder.path} does not say which command makes it (a study, a plan or Python did): repeat that"
        )
    refuse(refused_rights(folder.path / "manifest.json", command["options"], rights))
    options = {**command["options"], **rights}
    parse_options(_probe_of(command["probe"])[1], options)
    return {**command, "options": options}


def merge_runs(runs: Sequence[AnyRun], out: str | Path) -> Result:
    """Merge the parts of one run (``part="1/2"``), each in a folder of its own, into one folder.

    :param runs: two or more, with no shard in common; they are not changed.
    :param out: must not exist. If shards remain, :func:`probe` into it finishes them.
    :raises BadInput: folders of different runs, or with shards in common; one in which a process is at work.
    :raises MadeBefore: the same folders have been merged into *out*.

    >>> for part in ("1/2", "2/2"):
    ...     run = fathom.probe("statement", "gpt2", "geography", f"runs/part-{part[0]}", limit=4, part=part)
    >>> fathom.merge_runs(["runs/part-1", "runs/part-2"], "runs/merged").is_complete()
    True
    """
    from fathom.store import merging

    return Result(merging.merge_runs(open_runs(runs), Path(out), lambda run: Result(run).keep_metrics()))


def run_plan(
    file: str | Path,
    out: str | Path,
    workers: int | None = None,
    retry_failed: bool = False,
    redo: bool = False,
    progress: ProgressSetting = None,
    *,
    models: Sequence[str] = (),
    data: Mapping[str, str] | None = None,
    limit: int | None = None,
    device: str | None = None,
    **rights: object,
) -> PlanResult:
    """Make the runs of a plan that are missing, then its studies, tables and report, as ``fathom plan`` does.

    :param file: PLAN.yaml, see docs/howto/plans.md; with *models* a preset, such as "bear".
    :param workers: runs to make at a time, by default one.
    :param retry_failed: repeat runs that failed.
    :param redo: repeat runs whose settings the plan has changed since.
    :param models: of a preset, names or folders.
    :param data: where data of a preset are, by name.
    :param limit: facts of each run of a preset.
    :param device: of a preset's models.
    :param rights: that the plan may use and that no file may give: ``allow_server=("https://…",)``, ``key_env``,
        ``trust_remote_code``, ``allow_pickle``.
    :raises BadInput: everything that is wrong with the plan, before anything runs.

    >>> text = "models: [gpt2]\\ndata: [geography]\\nruns: {s: {probe: statement, limit: 4, templates: 0}}"
    >>> from pathlib import Path
    >>> _ = Path("plan.yaml").write_text(text)
    >>> fathom.run_plan("plan.yaml", "results").missing
    0
    """
    from fathom.plans.execution import carry_out, write_report
    from fathom.plans.file import read_plan
    from fathom.plans.options import PlanRights, WorkerOptions

    folder = Path(out)
    if models:
        from fathom.plans.presets import write_preset

        file = write_preset(file, models, data or {}, folder, limit, device)
    plan = read_plan(Path(file), folder, parse_options(PlanRights, rights))
    with shown("runs", progress) as report:
        result = carry_out(plan, folder, WorkerOptions(workers=workers), retry_failed, redo, detail, report)
    for note in write_report(result, folder):
        detail(note)
    return result


def _model(model: ModelSource, options: ProbeOptions, load: bool) -> Any:
    """Open a model by its name, or check that the options suit one that is loaded. :param load: read its weights."""
    from fathom.engine.models.base import AnyModel  # it loads a model library

    if isinstance(model, str | Path) and not load:
        check_model(str(model), options)
        return model
    if isinstance(model, str | Path):
        return open_model(str(model), options) if options.engine == HERE else str(model)  # by the workers
    if not isinstance(model, AnyModel):
        raise BadInput(f"a {type(model).__name__} is not a model for Fathom: wrap_model(network, tokenizer) makes one")
    check_loaded(model, options)
    return model


def _collect(faults: list[str], step: Callable[[], Any]) -> Any:
    """Return what *step* returns; or None, and add its faults to the list, to report all at once."""
    try:
        return step()
    except MissingExtra:
        raise
    except BadInput as error:
        faults += error.faults
    except FathomError as error:
        faults.append(str(error))
    return None
