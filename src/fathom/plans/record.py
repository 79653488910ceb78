"""The record of a plan in its folder: what each run was made of, by which changes of the plan are noticed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from fathom.errors import BadInput, refuse
from fathom.plans.file import Plan
from fathom.plans.steps import RECORDS, Notice, ProbeStep, Step, read_object
from fathom.probes.models import check_model
from fathom.reading import Json, stands
from fathom.store.files import write_json
from fathom.store.folder import RunFolder, differences
from fathom.store.locks import AT_WORK, CLAIMS

PLAN = "plan.json"
"""Identity of each run by its name, in the folder of a plan."""
RUNS = "runs"
"""Folder of the runs, and name of their table."""


def start(plan: Plan, out: Path, steps: Sequence[Step]) -> Notice:
    """Check the folder and the models of the steps to be made, and note the plan.

    :raises BadInput: *out* contains something else, or a model is missing.
    """
    noted = noted_steps(out)
    _check_models(plan, steps)
    content = {"plan": str(plan.file), "steps": noted | {step.name: step.identity for step in plan.steps}}
    write_json(out / PLAN, content)
    return Notice(out / PLAN, read_object(out / PLAN))


def noted_steps(out: Path) -> Json:
    """Return the identities of the steps made before. :raises BadInput: *out* is no folder of a plan."""
    if not stands(out / PLAN):
        known = (RECORDS, AT_WORK, CLAIMS)
        if out.exists() and any(entry.name not in known for entry in out.iterdir()):
            raise BadInput(f"{out} is not empty and not the folder of a plan: choose another --out")
        return {}
    return dict(read_object(out / PLAN).get("steps", {}))


def changed_steps(steps: Sequence[ProbeStep], noted: Json) -> dict[ProbeStep, list[str]]:
    """Return the steps that were made otherwise, each with its differences.

    :param noted: identities of the steps made before.
    """
    made = [step for step in steps if step.name in noted and RunFolder(step.run_folder).has_manifest()]
    changes = {step: list(differences(noted[step.name], step.identity)) for step in made}
    return {step: [f"  {step}", *lines] for step, lines in changes.items() if lines}


def describe_changes(plan: Plan, out: Path, changed: Mapping[ProbeStep, Sequence[str]]) -> list[str]:
    """Return lines on changed runs, and on what to do. :param changed: of :func:`changed_steps`."""
    kept = sum(step.finished() is not None for step in plan.steps if step not in changed)
    what = f"{len(changed)} runs in {out} were made with other settings than {plan.file} has now"
    to_do = f"add --redo to repeat them ({kept} finished runs are kept), or give another --out"
    return [f"{what}: {to_do}", *(line for lines in changed.values() for line in lines)]


def _check_models(plan: Plan, steps: Sequence[Step]) -> None:
    """:raises BadInput: models of the steps are missing, all at once."""
    faults = []
    models = {step.model: step.options for step in steps if isinstance(step, ProbeStep)}
    for model, options in models.items():
        try:
            check_model(model, options)
        except BadInput as error:
            faults += [f"{plan.places[model]}: {fault}" for fault in error.faults]
    refuse(faults)
