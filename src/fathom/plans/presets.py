"""Presets: plans without models, such as ``fathom plan bear --models gpt2 --out DIR``; see docs/howto/tables.md.

Filled in, a preset is an ordinary plan. Data that are not here are named, and everything else is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import yaml

from fathom.base.errors import BadInput, refuse
from fathom.base.options import Given, read_yaml, separated
from fathom.data.formats import locate
from fathom.data.published import catalogue
from fathom.engine.models.parts import attention_of, find_model
from fathom.plans.content import absolute, in_full
from fathom.plans.kinds import KINDS, PRESETS, values_of_preset
from fathom.plans.record import WRITTEN_PLAN
from fathom.results.loading import folder_names
from fathom.results.rows import grouped
from fathom.store.outputs import write_output


def find_preset(name: str | Path) -> Path:
    """Return the file of a preset, by its name or path. :raises BadInput: there is none."""
    file = Path(name)
    if file.is_file():
        return file
    if str(name) not in PRESETS:
        raise BadInput(f"no preset '{name}': expected {', '.join(PRESETS)}, or a YAML file of your own")
    return PRESETS[str(name)].file


def write_preset(
    name: str | Path,
    models: Sequence[str],
    places: Mapping[str, str],
    out: Path,
    limit: int | None = None,
    device: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Fill in a preset and write it to plan.yaml in *out*; see :func:`fill_preset`.

    :param overwrite: replace a plan.yaml that was edited or has another title.
    :raises BadInput: *out* has the tables of another preset.
    """
    content, file = fill_preset(name, models, places, limit, device), out / WRITTEN_PLAN
    if overwrite:
        file.unlink(missing_ok=True)
    else:
        check_folder(out, str(content["title"]))
    write_output(file, yaml.safe_dump(content, sort_keys=False, allow_unicode=True), overwrite=overwrite)
    return file


def check_folder(out: Path, title: str) -> None:
    """Refuse a folder whose tables a preset would remove. :raises BadInput: it has those of another one."""
    file = out / WRITTEN_PLAN
    title_there = read_yaml(file).get("title") if file.is_file() else title
    if title_there != title:
        raise BadInput(
            f"{file} is the plan of '{title_there}', not of '{title}': choose another --out, or give --overwrite"
        )


def fill_preset(
    name: str | Path,
    models: Sequence[str],
    places: Mapping[str, str],
    limit: int | None = None,
    device: str | None = None,
) -> Given:
    """Return a preset as a plan of some models.

    :param places: folders of data, by their names in the preset or in the catalogue.
    :raises BadInput: no such preset, model or data; none of its data is here.
    """
    file = find_preset(name)
    content = in_full(read_yaml(file))
    content.setdefault("title", file.stem)
    content["models"] = fill_models(models, device)
    if content.get("values") and values_of_preset(str(content["values"])) is None:
        content["values"] = absolute(str(file.parent / content["values"]))
    missing, kinds = _fill_data(content, places, limit), kinds_of(models, content["models"])
    content["runs"], skipped = fill_runs(content.get("runs") or {}, kinds, content["models"])
    _scale_limits(content["runs"], limit)
    skipped |= _fill_studies(content.get("studies") or {}, kinds)
    content["missing"] = _lines(missing)
    content["skipped"] = [f"{name}: no model is {' or '.join(kinds)}" for name, kinds in skipped.items()]
    _drop_data(content, missing)
    if not content["data"]:
        raise BadInput(content["missing"])
    return content


def fill_models(models: Sequence[str], device: str | None = None) -> dict[str, Given]:
    """Return models by their short names, as a plan has them."""
    shared = {} if device is None else {"device": device}
    return {
        name: {"model": absolute(model), **shared} for name, model in zip(folder_names(models), models, strict=True)
    }


def fill_runs(
    runs: Mapping[str, Given], kinds: Mapping[str, set[str]], models: Mapping[str, Given]
) -> tuple[dict[str, Given], dict[str, list[str]]]:
    """Return runs with the models of their kinds, and the kinds of those that no model is for."""
    filled: dict[str, Given] = {}
    skipped: dict[str, list[str]] = {}
    for name, run in runs.items():
        if "kinds" not in run:
            filled[name] = run
            continue
        settings = {key: value for key, value in run.items() if key != "kinds"}
        wanted = [model for model, model_kinds in kinds.items() if model_kinds & set(separated(run["kinds"]))]
        if not wanted:
            skipped[name] = list(separated(run["kinds"]))
        elif kind := next((kind for kind in KINDS.entries() if kind.name in run), None):
            filled |= kind.fill(name, settings, {model: models[model] for model in wanted})
        else:
            filled[name] = {"models": wanted, **settings}
    return filled, skipped


def kinds_of(names: Sequence[str], models: Iterable[str]) -> dict[str, set[str]]:
    """Return the kind and the type of each model.

    :param names: names or folders. :param models: short names.
    :raises BadInput: a model is missing, or its kind is unknown.
    """
    kinds = {}
    for name, model in zip(models, names, strict=True):
        config = find_model(model)[1]
        kinds[name] = {str(attention_of(config, model)).replace("bidirectional", "masked"), str(config.model_type)}
    return kinds


def _fill_studies(studies: dict[str, Given], kinds: Mapping[str, set[str]]) -> dict[str, list[str]]:
    """Fill in the models of studies that make their runs. :returns: the kinds of studies without a model, removed."""
    skipped = {}
    for name, part in list(studies.items()):
        wanted = list(separated(part.pop("kinds", ())))
        part.update(
            {"models": [model for model, model_kinds in kinds.items() if model_kinds & set(wanted)]} if wanted else {}
        )
        if wanted and not part["models"]:
            del studies[name]
            skipped[name] = wanted
    return skipped


def _fill_data(content: Given, places: Mapping[str, str], limit: int | None) -> dict[str, Given]:
    """Set places and limits of data, and remove those that are not here. :returns: their needs, by name."""
    planned: dict[str, Given] = content["data"]
    of_catalogue = {name: str(part.get("needs", {}).get("entry")) for name, part in planned.items()}
    names = [*planned, *dict.fromkeys(filter(catalogue().get, of_catalogue.values()))]
    refuse(
        f"--data {name}: expected NAME=FOLDER, NAME one of {', '.join(names)}" for name in places if name not in names
    )
    missing: dict[str, Given] = {}
    published: dict[Path, str] = {}
    for name, part in list(planned.items()):
        needs, entry = part.pop("needs", {}), of_catalogue[name]
        folder = part["data"]
        inside = str(Path(places[entry]) / Path(folder).relative_to(entry)) if entry in places else folder
        part["data"] = absolute(places.get(name, inside))
        if name in places and published.setdefault(Path(part["data"]).resolve(), folder) != folder:
            raise BadInput(f"--data {name}={places[name]}: another name has the same folder: give {folder} its own")
        part.update({} if limit is None else {"limit": limit})
        try:
            locate(part["data"])
        except BadInput:
            if name in places or not Path(places.get(entry, ".")).exists():
                raise
            missing[name] = needs
            del planned[name]
    return missing


def _scale_limits(runs: Mapping[str, Given], limit: int | None) -> None:
    """Reduce the numbers of queries of timed runs, so that the greatest is *limit*."""
    for run in runs.values():
        counts = run.get("matrix", {}).get("limit", [])
        if limit is not None and counts and max(counts) > limit:
            scaled = {max(1, count * limit // max(counts)) for count in counts}
            run["matrix"] = {**run["matrix"], "limit": sorted(scaled)}


def _drop_data(content: Given, missing: Mapping[str, Given]) -> None:
    """Remove missing data from runs and studies, and those that have no others."""
    for parts in (content["runs"], content.get("studies") or {}):
        for name, part in list(parts.items()):
            named = separated(part.get("data", ()))
            left = [source for source in named if source.partition("/")[0] not in missing]
            if named and not left:
                del parts[name]
            elif named:
                part["data"] = left


def _lines(missing: Mapping[str, Given]) -> list[str]:
    """Say which data are missing, where they are published, under which licence, and how to get them."""
    lines = []
    for needs, names in grouped((tuple(sorted(needs.items())), name) for name, needs in missing.items()).items():
        about = {"title": names[0], "home": "", "licence": "", "get": ""}
        if entry := catalogue().get(dict(needs).get("entry", "")):
            about = {"title": entry.name, "home": entry.home, "licence": entry.licence, "get": entry.preparation}
        about |= dict(needs)
        command = f"type {about['get']}, or " if about["get"] else ""
        folders = " ".join(f"--data {name}=FOLDER" for name in names)
        lines.append(
            f"{about['title']} ({', '.join(names)}) is not here: published at {about['home']}, licence "
            f"{about['licence']}; {command}give {folders}"
        )
    return lines
