"""The presets of the five papers for untrained models of one layer: every cell of every table, killed or not."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from html import unescape
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
import yaml
from transformers import AutoConfig

from fathom.plans.kinds import values_of_preset
from tests.naive.bear import Naive
from tests.naive.check import check_table
from tests.naive.runs import candidates, read_rows, scored
from tests.prepared import PREPARE, Prepared

pytestmark = pytest.mark.slow
CELLS = {"bear": 590, "shaier2024": 450, "sakai2024": 800, "deer": 700, "deer-times": 30, "wu2023": 13_000}
"""Numbers that are recomputed, at least."""
MEASURED = {"deer-times": ("table-2",)}
"""Tables of times, which differ each time."""


PART = {
    "bear": "bear-big",
    "shaier2024": "trex",
    "sakai2024": "wikidata5m",
    "deer": "bear",
    "deer-times": "triples",
    "wu2023": "questions",
}
"""Data that alone make some tables, and one of these."""
OF_PART = {
    "bear": "table-4",
    "shaier2024": "table-2",
    "sakai2024": "figure-7",
    "deer": "figure-18",
    "deer-times": "table-2",
    "wu2023": "table-6",
}


@pytest.fixture(scope="module", autouse=True)
def _nothing_else_is_here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("FATHOM_DATA", raising=False)
        patch.setenv("FATHOM_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module", params=PREPARE)
def preset(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """A preset whose tables are in the folder *out*."""
    prepared = PREPARE[request.param](tmp_path_factory.mktemp(request.param))
    for seed, name in enumerate(prepared.models):
        forget(prepared.root / "models" / name, seed)
    code, printed = prepared.begin(prepared.root / "out").ended(900)
    assert code == bool(prepared.lacking), printed[-2000:]
    assert "unexpected" not in printed
    assert [line for line in prepared.lacking if line not in printed] == []
    return prepared


def forget(folder: Path, seed: int) -> None:
    """Give a planted model random weights."""
    config = AutoConfig.from_pretrained(folder)
    torch.manual_seed(seed)
    getattr(transformers, config.architectures[0])(config).save_pretrained(folder)


TIMES = "deer-times"


def test_every_cell_equals_a_loop_over_the_files(preset: Prepared) -> None:
    """Fails for a table, a column or a row without a recomputation."""
    content = yaml.safe_load(preset.file.read_text())
    papers = preset.root / "out" / "papers"
    recomputed: Mapping[str, Any] = import_module(f"tests.naive.{preset.name.replace('-', '_')}").TABLES
    made = {file.stem for file in papers.glob("[!.]*.json")}
    assert made == recomputed.keys() == content["tables"].keys()
    naive, cells = Naive(preset, preset.root / "out"), 0
    for name, compute in recomputed.items():
        part = content["tables"][name]
        keys = () if "statistics" in part else part.get("rows", ["model"])
        cells += check_table(
            name, papers / f"{name}.json", compute(naive), values_of_preset(f"{preset.name}.csv"), keys
        )
    assert cells >= CELLS[preset.name]


def test_the_report_has_all_tables_and_every_study_is_saved(preset: Prepared) -> None:
    content, out = yaml.safe_load(preset.file.read_text()), preset.root / "out"
    page = unescape((out / "report.html").read_text())
    assert [part["caption"] for part in content["tables"].values() if part["caption"] not in page] == []
    assert [name for name in content["studies"] if not [*(out / "studies" / name).rglob("*.json")]] == []


COMPARED = ("bear", "shaier2024", "deer", "wu2023")
"""Presets of papers that print numbers of models with the names of these."""


def test_no_untrained_model_agrees_with_the_paper(preset: Prepared) -> None:
    """Even if the data have the paper's numbers of facts and candidates."""
    if preset.name not in COMPARED:
        pytest.skip("the paper prints no numbers of models")
    content, whole, own = yaml.safe_load(preset.file.read_text()), preset.root / "out", preset.root / "own"
    for name, data in content["data"].items():
        for run in whole.glob(f"runs/*/*/{name}/**/manifest.json"):
            data["paper"] = size_of(run.parent)
    file = preset.root / f"own-{preset.name}.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    shutil.copytree(whole, own)
    code, printed = preset._replace(file=file).begin(own, more=["--overwrite"]).ended(900)
    assert code == bool(preset.lacking), printed[-2000:]
    verdicts = []
    for name in (name for name, table in content["tables"].items() if "statistics" not in table):
        tables = json.loads((own / "papers" / f"{name}.json").read_text()).values()
        verdicts += [
            row["against paper"]
            for rows in tables
            for row in rows
            if row.get("against paper") and row["model"] in preset.models
        ]
    assert verdicts
    assert {*verdicts} & {"agrees", "other data"} == set()


def size_of(run: Path) -> dict[str, int]:
    """Count the facts of a run, and the candidates of its distinct sets."""
    rows, spaces = read_rows(run), candidates(run)
    distinct = {tuple(spaces[row["candidates"]].items()) for row in scored(rows)}
    return {"facts": len({row["fact"] for row in rows}), "candidates": sum(map(len, distinct))}


KILLED = ("bear", "sakai2024")
"""A preset of probes and one of link predictors: what resumes them is the same in the others."""


def test_killed_twice_it_ends_with_the_same_tables(preset: Prepared) -> None:
    if preset.name not in KILLED:
        pytest.skip(f"the presets that are killed are {' and '.join(KILLED)}")
    whole, out = preset.root / "out", preset.root / "killed"
    parts = len([*whole.rglob("part-*.parquet")])
    for share in (0.3, 0.7):
        process, until = preset.begin(out, 0.02), time.monotonic() + 300
        while len([*out.rglob("part-*.parquet")]) < share * parts and process.goes_on():
            assert time.monotonic() < until
            time.sleep(0.02)
        assert process.goes_on()
        process.send(signal.SIGKILL)
        process.ended()
    code, printed = preset.begin(out).ended(900)
    assert code == bool(preset.lacking), printed[-2000:]
    for file in sorted((whole / "papers").glob("[!.]*.*")):
        if file.stem not in MEASURED.get(preset.name, ()):
            assert (out / "papers" / file.name).read_bytes() == file.read_bytes(), file.name


def test_without_some_data_the_rest_is_made(preset: Prepared) -> None:
    """Each data set that is not here is named."""
    if preset.name == TIMES:
        pytest.skip("all of its values are times, which differ")
    part, name, out = PART[preset.name], OF_PART[preset.name], preset.root / "part"
    process = preset.begin(out, places=[part])
    code, printed = process.ended(900)
    content = yaml.safe_load(preset.file.read_text())
    assert code == (len(content["data"]) > 1), printed[-2000:]
    assert "unexpected" not in printed
    missing = [line for line in printed.splitlines() if " is not here: published at " in line]
    for data in content["data"]:
        assert (data == part) != any(data in line.partition(" is not here")[0] for line in missing)
    for kind in ("csv", "json"):
        file = f"papers/{name}.{kind}"
        assert (out / file).read_bytes() == (preset.root / "out" / file).read_bytes()
