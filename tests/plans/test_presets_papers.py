"""Presets with the tokenizers and the data of their papers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerBase

from fathom.plans.execution import carry_out
from fathom.plans.file import read_plan
from fathom.plans.forecast import forecast_table
from fathom.plans.presets import write_preset
from fathom.probes.run.forecast import Forecast, Forecaster
from tests.papers import table

Command = Callable[..., tuple[int, str, str]]
PLACES_OF_BEAR = {"bear": "bear/BEAR", "bear-big": "bear/BEAR-big", "trex": "lama/TREx"}


@pytest.fixture(scope="module")
def untrained(gpt2: PreTrainedTokenizerBase, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of one layer with GPT-2's tokenizer, which OPT has, under the name of a model of the paper."""
    folder = tmp_path_factory.mktemp("models") / "opt-1.3b"
    torch.manual_seed(0)
    GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=32, n_head=2)).save_pretrained(folder)
    gpt2.save_pretrained(folder)
    return folder


def test_lama_and_deer_rank_the_same_names(untrained: Path, shared_data: Path, tmp_path: Path, fathom: Command) -> None:
    """All 4,948 names that are one token without a space before them, of which 191 are several after one."""
    out, tables = tmp_path / "out", ("table-3", "table-4", "table-5", "figure-8")
    places = f"wn18rr={shared_data / 'wn18rr'}"
    line = ["plan", "deer", "--models", untrained, "--data", places, "--limit", 30, "--only", ",".join(tables)]
    code, printed, log = fathom(*line, "--out", out, "--device", "cpu")
    assert code == 0, log
    assert {file.stem for file in (out / "papers").glob("*.csv")} == set(tables)
    [agreement], [accuracy] = table(out, "table-3"), table(out, "table-4")
    assert [agreement["facts"], agreement["against paper"], accuracy["against paper"]] == [30, *["other data"] * 2]
    assert "different facts" not in (out / "papers" / "table-4.md").read_text()
    assert not (out / "runs" / "prompts").exists()
    assert "FB15k-237" in printed  # which tables 5 and 6 lack


def test_table_2_of_bear_agrees_on_the_published_data(untrained: Path, shared_data: Path, tmp_path: Path) -> None:
    """The paper's averages, 149.8 and 596.9, are 6,891 / 46 and 38,200 / 64: of the relations 1:N alone."""
    places = {name: str(shared_data / place) for name, place in PLACES_OF_BEAR.items()}
    plan = read_plan(write_preset("bear", [str(untrained)], places, tmp_path / "out"), tmp_path / "out")
    carry_out(plan.only(["table-2"]), tmp_path / "out")
    rows = {row["part"]: row for row in table(tmp_path / "out", "table-2")}
    assert rows["1:N"]["bear per relation"] == pytest.approx(6891 / 46)
    assert rows["1:N"]["bear-big per relation"] == pytest.approx(38200 / 64)
    assert [rows[part]["against paper"] for part in ("1:1", "1:N")] == ["agrees"] * 2
    assert not any("bear" in column for column in rows["all"]["against paper"].removeprefix("differs: ").split(", "))


def test_table_5_shows_the_columns_of_the_paper(untrained: Path, tmp_path: Path) -> None:
    """Relation, both statements, their probabilities and the uncertainty."""
    plan = {
        "models": {"one": str(untrained)},
        "data": {"facts": {"data": "geography"}},
        "runs": {"bear": {"probe": "statement", "templates": 0, "device": "cpu", "limit": 9}},
        "tables": {"table-5": {"caption": "x", "wrong": 2, "runs": "bear", "scoring": "sum/full"}},
    }
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(plan))
    carry_out(read_plan(tmp_path / "plan.yaml", tmp_path / "out"), tmp_path / "out")
    text = (tmp_path / "out" / "papers" / "table-5.md").read_text()
    [header] = [line for line in text.splitlines() if line.startswith("| scoring")]
    wanted = "relation", "first_answer", "first_probability", "gold", "gold_rank", "gold_probability", "uncertainty"
    assert [name.strip() for name in header.strip("|").split("|")] == ["scoring", *wanted]


def test_columns_on_different_facts_say_so(untrained: Path, tmp_path: Path) -> None:
    model: dict[str, Any] = {"probe": "statement", "templates": 0, "device": "cpu", "relations": "continent"}
    plan = {
        "models": {"one": str(untrained)},
        "data": {"facts": {"data": "geography"}},
        "runs": {"more": {**model, "limit": 9}, "fewer": {**model, "limit": 8}},
        "tables": {"table-1": {"caption": "x", "columns": {name: {"runs": name} for name in ("more", "fewer")}}},
    }
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(plan))
    carry_out(read_plan(tmp_path / "plan.yaml", tmp_path / "out"), tmp_path / "out")
    text = (tmp_path / "out" / "papers" / "table-1.md").read_text()
    assert "one facts: columns rest on different facts or candidates: fewer on 8 facts" in text
    assert "more on 9 facts" in text


def test_only_names_of_tables_are_taken(untrained: Path, shared_data: Path, tmp_path: Path, fathom: Command) -> None:
    places = f"wn18rr={shared_data / 'wn18rr'}"
    line = ["plan", "deer", "--models", untrained, "--data", places, "--out", tmp_path / "out"]
    code, _, log = fathom(*line, "--only", "table-3,table-7", "--dry-run")
    assert code == 2
    assert "--only table-7" in log
    assert "queries" in log


def test_timed_runs_of_a_kind_share_an_estimate(
    untrained: Path, shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the most queries."""
    estimated: list[int | None] = []

    def forecast(self: Forecaster, request: Any) -> Forecast:
        estimated.append(request.options.limit)
        return Forecast(request.options.limit, 1, 1, None, 60.0, 1, [])

    monkeypatch.setattr(Forecaster, "forecast", forecast)
    places = {"triples": str(shared_data / "wn18rr")}
    plan = read_plan(write_preset("deer-times", [str(untrained)], places, tmp_path / "a"), tmp_path / "b")
    rows = forecast_table(plan, tmp_path / "b").objects()
    assert estimated == [151, 151]
    assert [len(rows), sum(row["minutes"] for row in rows)] == [24, 24]


def test_the_screen_has_a_line_for_each_table(untrained: Path, tmp_path: Path, fathom: Command) -> None:
    """And the sentences; the tables are in files."""
    preset = tmp_path / "mine.yaml"
    preset.write_text(
        "data: {facts: {data: geography}}\n"
        "runs: {one: &own {probe: statement, templates: 0}, two: {<<: *own, probe: statement, reduction: mean}}\n"
        "studies: {compare: {runs: [one, two]}}\n"
        "tables: {table-1: {caption: mine, columns: {score: {runs: one}}}}\n"
        "claims: {mean: {sentence: A beats B, where: section 1, direction: higher, first: {runs: one}, "
        "second: {runs: two}}}\n"
    )
    line = ["plan", preset, "--models", untrained, "--limit", 24, "--device", "cpu", "--out", tmp_path / "out"]
    code, printed, log = fathom(*line)
    assert code == 0, log
    assert [text for text in printed.splitlines() if text.startswith("papers/")] == [
        "papers/table-1: Table 1: mine, rows: 1"
    ]
    assert len(printed.splitlines()) < 15
    [claim] = [text for text in printed.splitlines() if text.startswith("claims: A beats B (section 1): ")]
    assert claim.endswith("cannot be determined (none of its runs is significantly above its baselines)")
    assert {file.suffix for file in (tmp_path / "out").glob("claims.*")} == {".json", ".csv", ".md"}
    assert "A beats B" in (tmp_path / "out" / "report.html").read_text()
    assert "───" not in printed
    [sentence] = [text for text in printed.splitlines() if text.startswith("compare: ") and "rows:" not in text]
    assert sentence.endswith(".")
    code, printed, _ = fathom(*line, "--format", "md")
    assert code == 0
    assert "| model | score |" in printed
