"""Presets: plans without models, such as ``fathom plan bear --models gpt2 --out DIR`` for the tables of a paper.

A preset is one YAML file in ``plans/papers``, or of your own: a :mod:`plan <fathom.plans.file>` with

- no ``models:``, which ``--models`` fills in;
- ``kinds:`` in runs, and in studies that make their runs: the kinds of models that they are of (causal, masked,
  seq2seq). A ``predictor:`` is trained from each such model, in runs named after both if there are several;
- ``needs:`` in data: ``entry:``, the data set's name in the catalogue of published data, or ``home:``, ``licence:``
  and ``get:``, the command that makes it. ``--data NAME=FOLDER`` says where it is;
- ``tables:``, see :mod:`fathom.plans.tables`, and ``values:``, the file of what the paper prints.

Filled in, it is written to plan.yaml in the folder and is an ordinary plan. Data that are not here are named, with
what needs them, and everything else is made; the same command completes it later. Runs, studies and tables that
no model is for are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

from fathom.data.published import catalogue
from fathom.errors import BadInput, refuse
from fathom.formats import locate
from fathom.models.families import attention_of
from fathom.models.loading import find_model
from fathom.options import Given, read_yaml, separated
from fathom.plans.content import in_full
from fathom.plans.record import WRITTEN_PLAN
from fathom.plans.tables import PAPERS
from fathom.results.names import folder_names
from fathom.store.written import write_output

SECTIONS = ("studies", "tables")


def find_preset(name: str | Path) -> Path:
    """Return the file of a preset, by its name or path. :raises BadInput: there is none."""
    file = Path(name)
    known = {preset.stem: preset for preset in sorted(PAPERS.glob("*.yaml"))}
    if not file.is_file() and str(name) not in known:
        raise BadInput(f"no preset '{name}': expected {', '.join(known)}, or a YAML file of your own")
    return file if file.is_file() else known[str(name)]


def write_preset(
    name: str | Path,
    models: Sequence[str],
    places: Mapping[str, str],
    out: Path,
    limit: int | None = None,
    device: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Fill in a preset and write it to plan.yaml in *out*.

    :param models: names or folders.
    :param places: folders of data, by their names in the preset.
    :param limit: facts of each run, drawn at random.
    :param overwrite: replace a plan.yaml that was edited.
    :raises BadInput: no such preset, model or data; none of its data is here.
    """
    file = find_preset(name)
    content = in_full(read_yaml(file))
    content["models"] = fill_models(models, device)
    if content.get("values") and not (PAPERS / str(content["values"])).is_file():
        content["values"] = absolute(str(file.parent / content["values"]))
    missing, runs = _fill_data(content, places, limit), content.get("runs") or {}
    content["runs"], skipped = fill_runs(runs, models, content["models"])
    _scale_limits(content["runs"], limit)
    skipped |= _fill_studies(content.get("studies") or {}, kinds_of(models, content["models"]))
    parts = {name: _sources(part, runs) for section in SECTIONS for name, part in (content.get(section) or {}).items()}
    needed = {source: [name for name, own in parts.items() if source in own] for source in missing}
    content["missing"] = [_line(name, needs, needed[name]) for name, needs in missing.items()]
    _drop_data(content, missing)
    dropped = [name for name in _drop(content) if not any(name in names for names in needed.values())]
    if skipped:
        wanted = " or ".join(dict.fromkeys(kind for own in skipped.values() for kind in own))
        content["skipped"] = [f"without {', '.join((*skipped, *dropped))}: no model is {wanted}"]
    if not content["data"]:
        raise BadInput(content["missing"])
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    write_output(out / WRITTEN_PLAN, text, overwrite=overwrite)
    return out / WRITTEN_PLAN


def fill_models(models: Sequence[str], device: str | None = None) -> dict[str, Given]:
    """Return models by their short names, as a plan has them."""
    shared = {} if device is None else {"device": device}
    return {name: {"model": absolute(one), **shared} for name, one in zip(folder_names(models), models, strict=True)}


def absolute(name: str) -> str:
    """Return an existing path as an absolute one; leave names of models and data sets."""
    return str(Path(name).absolute()) if Path(name).exists() else name


def fill_runs(
    runs: Mapping[str, Given], given: Sequence[str], models: Mapping[str, Given]
) -> tuple[dict[str, Given], dict[str, list[str]]]:
    """Return runs with the models of their kinds, and the kinds of those that no model is for.

    :param given: names or folders of the models.
    :raises BadInput: a model is missing, or its kind is unknown.
    """
    kinds = kinds_of(given, models)
    filled: dict[str, Given] = {}
    skipped: dict[str, list[str]] = {}
    for name, run in runs.items():
        own = {key: value for key, value in run.items() if key != "kinds"}
        wanted = [model for model, kind in kinds.items() if kind in run.get("kinds", kind)]
        if "kinds" in run and not wanted:
            skipped[name] = list(separated(run["kinds"]))
        elif not run.get("predictor"):
            filled[name] = {"models": wanted, **own} if "kinds" in run else own
        elif "kinds" not in run:
            filled[name] = own
        else:
            names = [name] if len(wanted) == 1 else [f"{name}-{model}" for model in wanted]
            weights = [{"weights": models[model]["model"]} for model in wanted]
            filled |= {one: {**own, **given} for one, given in zip(names, weights, strict=True)}
    return filled, skipped


def kinds_of(given: Sequence[str], models: Iterable[str]) -> dict[str, str]:
    """Return causal, masked or seq2seq for each model. :param given: names or folders. :param models: short names."""
    attentions = [str(attention_of(find_model(model)[1], model)) for model in given]
    return dict(zip(models, (kind.replace("bidirectional", "masked") for kind in attentions), strict=True))


def _fill_studies(studies: dict[str, Given], kinds: Mapping[str, str]) -> dict[str, list[str]]:
    """Fill in the models of studies that make their runs. :returns: the kinds of studies without a model, removed."""
    skipped = {}
    for name, part in list(studies.items()):
        wanted = list(separated(part.pop("kinds", ())))
        part.update({"models": [model for model, kind in kinds.items() if kind in wanted]} if wanted else {})
        if wanted and not part["models"]:
            del studies[name]
            skipped[name] = wanted
    return skipped


def _fill_data(content: Given, places: Mapping[str, str], limit: int | None) -> dict[str, Given]:
    """Set places and limits of data, and remove those that are not here. :returns: their needs, by name."""
    known: dict[str, Given] = content["data"]
    refuse(
        f"--data {name}: expected NAME=FOLDER, NAME one of {', '.join(known)}" for name in places if name not in known
    )
    missing: dict[str, Given] = {}
    for name, part in list(known.items()):
        needs = part.pop("needs", {})
        part["data"] = absolute(places.get(name, part["data"]))
        part.update({} if limit is None else {"limit": limit})
        try:
            locate(part["data"])
        except BadInput:
            if name in places:
                raise
            missing[name] = needs
            del known[name]
    return missing


def _scale_limits(runs: Mapping[str, Given], limit: int | None) -> None:
    """Reduce the numbers of queries of timed runs, so that the greatest is *limit*."""
    for run in runs.values():
        counts = run.get("matrix", {}).get("limit", [])
        if limit is not None and counts and max(counts) > limit:
            scaled = {max(1, count * limit // max(counts)) for count in counts}
            run["matrix"] = {**run["matrix"], "limit": sorted(scaled)}


def _drop_data(content: Given, missing: Mapping[str, Given]) -> None:
    """Remove missing data from runs, and runs that have no others."""
    for name, run in list(content["runs"].items()):
        named = separated(run.get("data", ()))
        left = [one for one in named if one.partition("/")[0] not in missing]
        if named and not left:
            del content["runs"][name]
        elif named:
            run["data"] = left


def _drop(content: Given) -> list[str]:
    """Remove studies and tables that are made of runs and data that are not there. :returns: their names."""
    dropped = []
    for section in SECTIONS:
        for name, part in list((content.get(section) or {}).items()):
            columns = part.get("columns", {})
            gone = [title for title, column in columns.items() if not _keep(column, content)]
            for title in gone:
                del columns[title]
            study = part.get("study") if section == "tables" else None
            lacking = set(separated(part.pop("needs", ()))) - content["data"].keys()
            if (
                lacking
                or not _keep(part, content)
                or not _has_study(content, study)
                or (gone and (not columns or part.get("complete")))
            ):
                del content[section][name]
                dropped.append(name)
    return dropped


def _keep(part: Given, content: Given) -> bool:
    """Keep the runs and data of a part that are there. :returns: whether there are any, or it names none."""
    if "runs" in part:
        part["runs"] = [pattern for pattern in separated(part["runs"]) if _is_run(pattern, content)]
    if "data" in part:
        part["data"] = [name for name in separated(part["data"]) if name in content["data"]]
    return all(part[key] for key in ("runs", "data") if key in part)


def _is_run(pattern: str, content: Given) -> bool:
    run, *parts = pattern.split("/")
    known = content["data"].keys() | content["models"].keys() | {"*"}
    return any(fnmatchcase(name, run) for name in content["runs"]) and known.issuperset(parts[:2])


def _has_study(content: Given, study: str | None) -> bool:
    known = content.get("studies") or {}
    return study is None or any(study in (name, part.get("study")) for name, part in known.items())


def _sources(part: Given, runs: Mapping[str, Given]) -> set[str]:
    """Return the data that a part and its columns are made of, and other names in its runs."""
    parts = [part, *part.get("columns", {}).values()]
    texts = [str(text) for one in parts for key in ("runs", "data", "needs") for text in separated(one.get(key, ()))]
    whole = [name for name in runs for text in texts if fnmatchcase(name, text)]
    return {name for text in texts for name in text.split("/")} | {
        name.partition("/")[0] for run in whole for name in separated(runs[run].get("data", ()))
    }


def _line(name: str, needs: Given, needed: Sequence[str]) -> str:
    """Say which data set is missing, for what, where it is published, under which licence, and how to get it."""
    entry = catalogue().get(needs.get("entry", ""))
    home, licence, get = (entry.home, entry.licence, entry.preparation) if entry else ("", "", "")
    home, licence = needs.get("home", home), needs.get("licence", licence)
    get = needs.get("get", get)
    title = needs.get("title", entry.name if entry else name)
    use = f" (for {', '.join(needed)})" if needed else ""
    return f"{title}{use} is not here: published at {home}, licence {licence}; type {get}, or give --data {name}=FOLDER"
