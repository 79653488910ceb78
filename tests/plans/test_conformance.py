"""The settings that papers state, next to the resolved options of the presets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel
from transformers import BartConfig, BertConfig, GPT2Config, T5Config

from fathom.data.formats import read
from fathom.data.statistics import relation_statistics
from fathom.plans.file import Plan, read_plan
from fathom.plans.kinds import PRESETS
from fathom.plans.presets import write_preset
from fathom.plans.steps import PlannedStep
from fathom.probes import PROBES
from fathom_kgc.plan import LinkStep
from tests.conformance import PAPERS, Setting, read_conformance
from tests.conftest import find_shared_data
from tests.papers import write_bear, write_graph, write_ontology, write_trex

MODELS = {"causal": GPT2Config, "masked": BertConfig, "seq2seq": T5Config, "bart": BartConfig}
GRAPHS = "wn18rr", "fb15k237", "yago3-10", "queries", "triples", "wikidata5m"
SETTINGS = [(paper, setting) for paper in PAPERS for setting in read_conformance(paper).settings if setting.step]


@pytest.fixture(scope="module")
def plan_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Plan]:
    """A preset with a model of each kind, none of which is loaded, and all of its data, small."""
    root = tmp_path_factory.mktemp("conformance")
    for name, config in MODELS.items():
        config().save_pretrained(root / "models" / name)

    @cache
    def plan_of_preset(preset: str) -> Plan:
        names = yaml.safe_load(PRESETS[preset].file.read_text())["data"]
        places = {name: str(write_data(root / preset, name)) for name in names}
        models = [str(root / "models" / name) for name in MODELS]
        plan = read_plan(write_preset(preset, models, places, root / f"{preset}-out"), root / f"{preset}-out")
        assert not plan.missing
        assert not plan.skipped
        return plan

    return plan_of_preset


def write_data(root: Path, name: str) -> Path:
    """Write a small data set in the layout that the preset's has."""
    folder = root / name
    if name in GRAPHS:
        folder = root / "wn18rr" if name == "queries" else folder
        if not folder.exists():
            write_graph(folder)
    elif name in ("ontology", "questions"):
        write_ontology(root / "ontology") if name == "ontology" else None
        folder = root / "ontology" / ("multiple_choice" if name == "questions" else "")
    elif name.startswith("bear"):
        write_bear(folder)
    else:
        write_trex(folder)
    return folder


@pytest.mark.parametrize(
    ("paper", "setting"), SETTINGS, ids=[f"{paper}, {setting.setting}" for paper, setting in SETTINGS]
)
def test_a_setting_of_a_paper_is_that_of_the_plan(paper: str, setting: Setting, plan_of: Callable[[str], Plan]) -> None:
    values: list[Any] = []
    for step in setting.step:
        section, _, name = step.partition(".")
        values += map(plain, SECTIONS[section](plan_of(paper), name, setting.option))
    distinct = list({repr(value): value for value in values}.values())
    assert (distinct[0] if len(distinct) == 1 else distinct) == setting.expected


def test_every_preset_of_a_paper_has_its_settings() -> None:
    presets = {name for name, preset in PRESETS.items() if preset.file.with_suffix(".csv").is_file()}
    assert {*PAPERS} == presets | {"deer-times"}


def test_every_run_of_a_preset_has_a_setting() -> None:
    """A run that no setting names is compared with nothing."""
    for paper in PAPERS:
        content = yaml.safe_load(PRESETS[paper].file.read_text())
        named = {step for setting in read_conformance(paper).settings for step in setting.step}
        named = {"/".join(step.split("/")[:1]) for step in named}
        assert [run for run in content["runs"] if not {"runs", f"runs.{run}"} & named] == [], paper


def plain(value: Any) -> Any:
    """Return a value as YAML has it."""
    return [plain(part) for part in value] if isinstance(value, list | tuple) else value


def of_runs(plan: Plan, pattern: str, option: str) -> Iterator[Any]:
    """Yield the option of each run that a pattern names."""
    patterns = pattern.split("/") if pattern else []
    runs = [run for run in plan.runs if all(map(fnmatchcase, run.name.split("/"), patterns))]
    assert runs, f"no run {pattern}"
    if option == "repeats":
        yield len(runs) // len({run.name.rpartition("/repeat=")[0] for run in runs})
    else:
        yield from (of_run(run, option) for run in runs)


def of_run(run: PlannedStep, option: str) -> Any:
    """Return an option of a run, completed as the run completes it."""
    step: Any = run.step
    names = {
        "probe": step.probe,
        "exclusive": step.exclusive,
        "kinds": run.keys.get("model", "").replace("bart", "seq2seq"),
    }
    names |= {key: run.keys[key] for key in ("data", "world") if key in run.keys}
    if isinstance(step, LinkStep):
        made = {} if step.worlds is None else step.worlds.options.model_dump()
        names |= {
            "predictor": step.kind,
            **made,
            **step.options.model_dump(),
            **step.training.model_dump(),
            **step.asking,
        }
    else:
        probe = PROBES.find(step.probe).load()
        names |= probe.complete_options(step.options, data_of(step.data)).model_dump()
    return names[option]


data_of = cache(read)


def of_studies(plan: Plan, name: str, option: str) -> Iterator[Any]:
    yield from (getattr(study.options, option) for study in plan.studies if study.name.partition("/")[0] == name)


def of_tables(plan: Plan, name: str, option: str) -> Iterator[Any]:
    """Yield the key of a table, or of each of its columns."""
    [part] = [table.part for table in plan.tables if table.name == name]
    yield from (
        [getattr(part, option)] if hasattr(part, option) else (getattr(one, option) for one in part.columns.values())
    )


def of_data(plan: Plan, name: str, option: str) -> Iterator[Any]:
    sizes = plan.tables[0].sizes[name]
    yield getattr(sizes, option.partition(".")[2]) if "." in option else sizes.model_dump()


def of_published(plan: Plan, name: str, option: str) -> Iterator[Any]:
    """Yield a number of published data."""
    folder = (find_shared_data() or Path()) / name
    if find_shared_data() is None or not folder.is_dir():
        pytest.skip(f"needs the reference data: {name}")
    data = data_of(str(folder))
    relations = relation_statistics(data)
    numbers: dict[str, Any] = {f"subset {subset}": len(ids) for subset, ids in data.subsets.items()}
    numbers |= {"facts": len(data.queries), "relations": len(relations)}
    numbers["templates"] = sorted({relation.templates for relation in relations})
    for kind in {relation.cardinality for relation in relations}:
        sizes = [relation.candidates for relation in relations if relation.cardinality == kind]
        numbers |= {f"relations {kind}": len(sizes), f"answers {kind}": [min(sizes), max(sizes)]}
    for relation in relations:
        numbers[f"facts of {relation.relation}"] = relation.instances
        numbers[f"candidates of {relation.relation}"] = relation.candidates
    yield numbers[option]


def of_code(plan: Plan, name: str, option: str) -> Iterator[Any]:
    """Yield a constant of a module: itself, its keys, the value of a key, or the default of an option."""
    attribute, _, key = option.partition(".")
    value = getattr(import_module(name), attribute)
    if isinstance(value, type) and issubclass(value, BaseModel):
        yield value.model_fields[key].default
    elif isinstance(value, Mapping):
        yield value[key] if key else list(value)
    else:
        yield value


SECTIONS: Mapping[str, Callable[[Plan, str, str], Iterable[Any]]] = {
    "runs": of_runs,
    "studies": of_studies,
    "tables": of_tables,
    "data": of_data,
    "published": of_published,
    "code": of_code,
}
