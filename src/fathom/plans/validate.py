"""The plan of ``fathom validate``: every probe that applies to some planted models, then the study of validity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fathom.base.errors import BadInput, refuse
from fathom.base.options import read_yaml
from fathom.base.reading import Faults, read_json_lines
from fathom.data.formats import read
from fathom.data.queries import QuerySet
from fathom.plans.content import absolute
from fathom.plans.presets import fill_models, fill_runs, kinds_of
from fathom.plans.record import write_plan_file
from fathom.results.loading import FILE, read_design

RUNS = Path(__file__).with_suffix(".yaml")
UNSEEN = "unseen"


def write_plan(
    models: Sequence[str],
    data: str,
    out: Path,
    probes: Sequence[str] = (),
    limit: int | None = None,
    design: Path | None = None,
    device: str | None = None,
) -> Path:
    """Write the plan of a validation into *out*, an ordinary file for ``fathom plan``.

    :param probes: names of probes or runs of the plan; by default all that apply.
    :param design: of models that have none in their folder.
    :raises BadInput: a model is missing or has no design, an unknown probe, or no template that all models lack.
    """
    plan_runs: Mapping[str, Any] = read_yaml(RUNS)
    names = plan_runs.keys() | {run["probe"] for run in plan_runs.values()}
    refuse(f"--probes {probe}: expected some of {', '.join(sorted(names))}" for probe in probes if probe not in names)
    queryset = read(data)
    for model in models:
        _check_design(model, design, queryset)
    filled = fill_models(models, device)
    wanted = {name: run for name, run in plan_runs.items() if not probes or name in probes or run["probe"] in probes}
    runs, _ = fill_runs(wanted, kinds_of(models, filled), filled)
    unseen = _unseen([design or Path(model) / FILE for model in models], queryset)
    for run in runs.values():
        if run.get("templates") == UNSEEN:
            run["templates"] = unseen
        if limit is not None:
            run.setdefault("limit", limit)
    design_option = {"design": str(design.absolute())} if design is not None else {}
    content = {
        "title": "Which probe tells what the model has read?",
        "models": filled,
        "data": {"data": absolute(data)},
        "runs": runs,
        "studies": {"validity": {"runs": ["*"], **design_option}},
    }
    return write_plan_file(content, out)


def _check_design(model: str, design: Path | None, data: QuerySet) -> None:
    """:raises BadInput: the model has no design, a wrong one, or one of other data."""
    if design is None and not (Path(model) / FILE).is_file():
        raise BadInput(
            f"{model} has no {FILE}, so which facts it has read is unknown: give --design FILE, or make a model with "
            "fathom plant"
        )
    file = design or Path(model) / FILE
    if read_design(file).keys().isdisjoint({key for query in data.queries for key in (query.fact_id, query.id)}):
        raise BadInput(f"{file} has no fact of {data.name}: give the data that the model was planted with")


def _unseen(designs: Sequence[Path], data: QuerySet) -> list[int]:
    """Return the templates of the data, by number, in which no model has read a fact that is tested."""
    templates = [relation.templates for relation in data.relations.values()]
    faults = Faults()
    rows = [row for file in designs for _, row in read_json_lines(file, {"query_id": str}, faults)]
    faults.stop_if_any()
    read_texts = {text for row in rows if not row.get("taught") for text in row.get("texts") or ()}
    unseen = [
        number
        for number in range(max(map(len, templates), default=0))
        if not any(number < len(of_relation) and of_relation[number].text in read_texts for of_relation in templates)
    ]
    if not unseen:
        raise BadInput(
            f"the models have read every template of {data.name}: plant them with --unseen-templates, so that no probe "
            "repeats a sentence of the training"
        )
    return unseen
