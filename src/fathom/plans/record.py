"""The record of a plan in its folder: what each run was made of, by which changes since are noticed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from fathom.base.errors import BadInput, refuse
from fathom.base.options import read_yaml
from fathom.base.reading import Json, as_read_back, stands
from fathom.base.reading.objects import Object, object_faults
from fathom.data.fetch_model import folder_or_name
from fathom.data.selection.filters import select
from fathom.data.selection.options import Selection
from fathom.plans.file import Plan
from fathom.plans.kinds import KINDS
from fathom.plans.steps import RECORDS, Notice, Opened, ProbeStep, Step, read_object
from fathom.probes.models import check_model, model_hash
from fathom.store.files import refuse_foreign_files, write_json, write_text
from fathom.store.folder import RunFolder, differences
from fathom.store.locks import AT_WORK, CLAIMS, is_of_fathom
from fathom.store.outputs import RECORD as WRITTEN

PLAN = "plan.json"
"""Identity of each step by its name, in the folder of a plan."""
RUNS = "runs"
"""Folder of the runs, and name of their table."""
_DEEP = 6
"""Folders above --out in which a run or a plan is looked for."""


class _Record(Object):
    """``plan.json``."""

    steps: dict[str, dict[str, Any]] = Field(default_factory=dict)
    models: dict[str, list[Any]] = Field(default_factory=dict)


WRITTEN_PLAN = "plan.yaml"
"""The plan that ``fathom validate``, ``fathom watch`` or a preset writes into its folder."""


def write_plan_file(content: Json, out: Path, grows: str = "") -> Path:
    """Write a plan into its folder, an ordinary file for ``fathom plan``.

    :param grows: section of an earlier plan in the folder that may have been different.
    :raises BadInput: the folder has another plan, or cannot be that of one.
    """
    refuse_other_folder(out)
    file = out / WRITTEN_PLAN
    before = read_yaml(file) if file.is_file() else {}
    if before and {**before, grows: None} != {**content, grows: None}:
        raise BadInput(
            f"{file} is another plan (other models or options, or edited): carry it out with fathom plan {file} --out "
            f"{out}, or choose another --out"
        )
    if before != content:
        write_text(file, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
    return file


def refuse_other_folder(out: Path) -> None:
    """:raises BadInput: *out* is in a folder of Fathom, or contains something other than a plan's files."""
    for folder in list(out.absolute().parents)[:_DEEP]:
        if is_of_fathom(folder):
            raise BadInput(f"{out} is in {folder}, which Fathom has made: choose another --out")
    if not stands(out / PLAN):
        expected = {RECORDS, AT_WORK, CLAIMS, WRITTEN_PLAN, WRITTEN}.union(*(kind.folders for kind in KINDS.entries()))
        refuse_foreign_files(out, expected, "the folder of a plan")


def read_record(steps: Sequence[Step], out: Path) -> Json:
    """Return the identities of the steps made before, and the state of the models' files.

    Steps take the folders of equal runs that were made under another name.

    :raises BadInput: see :func:`refuse_other_folder`.
    """
    refuse_other_folder(out)
    if not stands(out / PLAN):
        return {"steps": {}, "models": {}}
    content = read_object(out / PLAN)
    refuse(f"{fault}: choose another --out" for fault in object_faults(out / PLAN, _Record, content))
    record: Json = {"steps": {}, "models": {}} | content
    for step in steps:
        if not step.has_begun():
            identity = as_read_back(step.identity)
            equal = (name for name, noted in record["steps"].items() if noted == identity)
            step.name = next((name for name in equal if RunFolder(out / name).has_manifest()), step.name)
    return record


def changed_steps(steps: Sequence[Step], record: Json, opened: Opened | None = None) -> dict[Step, list[str]]:
    """Return the steps that were made otherwise, each with its differences.

    :param opened: to compare the content of data and models as well; None for their names alone.
    """
    noted, hashes = record["steps"], dict[str, str | None]()
    changes = {}
    for step in steps:
        if step.name in noted and step.has_begun():
            lines = list(differences(noted[step.name], step.identity))
            if not lines and opened is not None and isinstance(step, ProbeStep):
                lines = list(_replaced(step, record, opened, hashes))
            if lines:
                changes[step] = [f"  {step}", *lines]
    return changes


def _replaced(step: ProbeStep, record: Json, opened: Opened, hashes: dict[str, str | None]) -> Iterator[str]:
    """Yield a line on the data and the model of a run if other content is under their names now."""
    identity = RunFolder(step.folder).manifest["identity"]
    if identity["data"].get("content_hash") != opened.data(step.data, step.options.columns).content_hash:
        yield f"  {step.data}: its content has changed"
    if stamps_of(step.model) != record["models"].get(step.model):  # else its weights need not be read
        if step.model not in hashes:
            hashes[step.model] = model_hash(step.model, step.options)
        if hashes[step.model] not in (None, identity["model"].get("content_hash")):
            yield f"  {step.model}: its content has changed"


def stamps_of(model: str) -> list[list[object]]:
    """Return name, size and time of the files of a model on this disk; of a model on the hub, nothing."""
    model = folder_or_name(model)
    if not os.path.exists(model):
        return []
    files = sorted(file for file in Path(model).iterdir() if file.is_file()) if os.path.isdir(model) else [Path(model)]
    return [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files]


def describe_changes(plan: Plan, out: Path, changed: Mapping[Step, Sequence[str]]) -> list[str]:
    """Return lines on changed runs, and on what to do. :param changed: of :func:`changed_steps`."""
    kept = sum(step.finished() is not None for step in plan.steps if step not in changed)
    what = f"{len(changed)} runs in {out} were made of something else than {plan.file} says now"
    to_do = f"add --redo to repeat them ({kept} finished runs are kept), or give another --out"
    return [f"{what}: {to_do}", *(line for lines in changed.values() for line in lines)]


def note_plan(plan: Plan, out: Path, record: Json) -> Notice:
    """Write the record, with the runs that the plan has now. Those that it no longer has stay, as their folders may
    exist."""
    models = record["models"] | {step.model: stamps_of(step.model) for step in plan.steps if step.model}
    steps = record["steps"] | {step.name: step.identity for step in plan.steps}
    write_json(out / PLAN, {"plan": str(plan.file), "models": models, "steps": steps})
    return Notice(out / PLAN, read_object(out / PLAN))


def check_needs(plan: Plan, steps: Iterable[Step], opened: Opened) -> None:
    """Check that models exist and that selections leave queries. :raises BadInput: with all faults and their lines."""
    faults: list[str] = []
    left, checked = {id(step) for step in steps}, set()

    def attempt(key: object, where: str, check: Callable[[], object]) -> None:
        if key not in checked:
            checked.add(key)
            try:
                check()
            except BadInput as error:
                faults.extend(f"{where}: {fault}" for fault in error.faults)

    for run in plan.runs:
        step = run.step
        if id(step) in left and isinstance(step, ProbeStep):
            loading, selection = repr(step.identity["loading"]), Selection.from_options(step.options)
            attempt((step.model, loading), run.places["model"], partial(check_model, step.model, step.options))
            attempt((step.data, selection), run.places["run"], partial(count_queries, step, opened))
    refuse(faults)


def count_queries(step: ProbeStep, opened: Opened) -> int | None:
    """Return the number of queries of a run; None if only the model's tokenizer can count them.

    :raises BadInput: nothing is left, or the data lack what is named.
    """
    selection = Selection.from_options(step.options)
    if selection.single_token or selection.tail_tokens is not None:
        return None
    return len(select(opened.data(step.data, step.options.columns), step.options).data.queries)
