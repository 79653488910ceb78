"""The studies of a plan, checked before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from fathom.base.options import Given, nearest, option_faults, options_of
from fathom.plans.comparison import COMPARISON
from fathom.plans.content import PlanContent, PlanFaults, StudyPart, path_from, pick, with_paths
from fathom.plans.steps import PlannedStep
from fathom.probes.models import open_model
from fathom.probes.options import ProbeOptions
from fathom.results.rows import grouped
from fathom.results.tables import Table
from fathom.studies import STUDIES, Study


class PlannedStudy(NamedTuple):
    """A study of a plan.

    :param runs: names of its runs; none of a study that makes them itself.
    :param models: of such a study, names and loaders.
    """

    name: str
    study: Study
    options: BaseModel
    runs: tuple[str, ...] = ()
    models: tuple[tuple[str, Callable[[], Any]], ...] = ()
    data: str = ""


class StudyResult(NamedTuple):
    """The result of a study, or of a table of a paper. :param runs: names of those that it analysed."""

    name: str
    tables: Sequence[Table] = ()
    answer: Sequence[str] = ()
    why: str = ""
    runs: Sequence[str] = ()


def plan_studies(
    content: PlanContent, runs: Sequence[PlannedStep], base: Path, faults: PlanFaults
) -> list[PlannedStudy]:
    """Return all studies; a fault for each that is wrong. :param base: folder to which paths are relative."""
    available = {study.name: study for study in (COMPARISON, *STUDIES.entries())}
    planned: list[PlannedStudy] = []
    for name, part in content.studies.items():
        add: Add = partial(faults.add_at, "studies", name)
        if not content.data.keys() >= set(part.needs):
            continue
        study = available.get(part.study or name)
        if study is None:
            add("study", f"no study '{part.study or name}'; {nearest(part.study or name, available)}")
        elif study.takes == "models":
            planned += _with_own_runs(name, part, study, content, base, add)
        else:
            for key in (key for key in ("models", "data") if getattr(part, key)):
                add(key, "this study takes runs: give runs: with their names")
            planned += _of_runs(name, part, study, content, runs, base, add)
    return planned


Add = Callable[[str, str], None]
"""Takes a key of a study, and a fault."""


def _parsed(kind: type[BaseModel], options: Given, base: Path, add: Add) -> Any:
    """Return the options of a study; None, with faults, if some are wrong."""
    try:
        return options_of(kind, with_paths(kind, options, base))
    except ValidationError as error:
        for option, fault in option_faults(kind, error):
            add(option, fault)
        return None


def _of_runs(
    name: str, part: StudyPart, study: Study, content: PlanContent, runs: Sequence[PlannedStep], base: Path, add: Add
) -> Iterator[PlannedStudy]:
    """Yield a study of runs, or one for each value of ``each``."""
    members, each = matching(part.runs, runs, partial(add, "runs"), content.is_partial), part.each
    if study.takes == "cells":
        cells = [run for run in members if study.cell_of(run) is not None]
        if members and not cells:
            add("runs", f"this study takes {study.cells}")
        members, each = cells, each or ("data",) * (len({run.keys["data"] for run in cells}) > 1)
    kinds = dict.fromkeys(key for run in members for key in run.keys)
    for missing in (key for key in each if members and key not in kinds):
        add("each", f"its runs have no '{missing}'; {nearest(missing, kinds)}")
    groups = grouped(("/".join((name, *(run.keys.get(key, "-") for key in each))), run) for run in members)
    for group in groups.values() if study.takes == "cells" else ():
        for cell, same in grouped((study.cell_of(run), run.name) for run in group).items():
            if len(same) > 1:
                add(
                    "runs",
                    f"{' and '.join(same)} are one cell, {cell}: choose with runs:, or repeat the study with each:",
                )
    options = _parsed(study.options, part.options, base, add)
    if options is not None and study.takes == "cells":
        for option, fault in study.option_faults(
            options, [run for run, runs_part in content.runs.items() if runs_part.kind]
        ):
            add(option, fault)
    if options is not None:
        for path, group in groups.items():
            yield PlannedStudy(path, study, options, tuple(run.name for run in group))


def _with_own_runs(
    name: str, part: StudyPart, study: Study, content: PlanContent, base: Path, add: Add
) -> Iterator[PlannedStudy]:
    """Yield a study that makes its runs itself, one for each data set."""
    if part.runs != ("*",) or part.each:
        add("runs", "this study makes its runs itself: give models: and data: instead of runs: and each:")
    names: dict[str, list[str]] = {}
    for key in ("models", "data"):
        if not getattr(content, key):
            add(key, f"this study needs {key}: with one or more")
        names[key] = pick(key, getattr(content, key), getattr(part, key), partial(add, key))
    for option in (option for option in study.without if option in part.options):
        add(option, "the study sets this option itself")
    for source in names["data"]:
        options = _parsed(study.options, content.data[source].options | part.options, base, add)
        if options is not None:
            models = tuple((model, _loader(model, content, options, base)) for model in names["models"])
            path = name if len(names["data"]) == 1 else f"{name}/{source}"
            yield PlannedStudy(path, study, options, (), models, path_from(content.data[source].data, base))


def _loader(name: str, content: PlanContent, options: ProbeOptions, base: Path) -> Callable[[], Any]:
    """Return a function that loads a model with the options that the plan gives it."""
    part = content.models[name]
    changed = {key: value for key, value in part.options.items() if key in type(options).model_fields}
    return partial(open_model, path_from(part.model, base), options.model_copy(update=changed))


def matching(
    patterns: Sequence[str], runs: Sequence[PlannedStep], add: Callable[[str], None], is_partial: bool = False
) -> list[PlannedStep]:
    """Return the runs that patterns name, each once.

    :param add: called with a fault for a pattern without any, unless the plan is partial.
    """
    matched: dict[str, PlannedStep] = {}
    for pattern in patterns:
        found = {run.name: run for run in runs if _matches(pattern, run.name)}
        if runs and not found and not is_partial:
            add(f"no run '{pattern}'; {nearest(pattern, [run.name for run in runs])}")
        matched |= found
    return list(matched.values())


def _matches(pattern: str, name: str) -> bool:
    """Return whether a pattern is the name of a run, or its first parts."""
    patterns, parts = pattern.split("/"), name.split("/")[: pattern.count("/") + 1]
    return len(patterns) == len(parts) and all(map(fnmatchcase, parts, patterns))
