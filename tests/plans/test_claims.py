"""The claims of papers: outcomes of hand-made runs, pairs of runs, quantities, and bad entries."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import yaml
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerBase

from fathom.base.errors import BadInput
from fathom.plans.claims import NO_KNOWLEDGE, TITLE, decide_claims, plan_claims
from fathom.plans.content import read_content
from fathom.plans.execution import carry_out
from fathom.plans.file import read_plan
from fathom.plans.kinds import PRESETS
from fathom.plans.presets import write_preset
from fathom.plans.steps import PlannedStep, StepState
from tests.answerers import (
    EVEN,
    Answerer,
    agreement_of,
    answered,
    at_random,
    constant,
    first_few,
    knowing,
    short_names_first,
    world,
)
from tests.messages import mentions

DATA = world(EVEN)
"""A hundred facts in five relations; each of twenty candidates is right five times."""
Row = dict[str, Any]
Decide = Callable[..., list[Row]]


def share(number: int, seed: int = 0) -> Answerer:
    """An answerer that knows so many of the hundred facts and puts every other gold answer last."""
    return knowing(first_few(DATA, number / 100, seed))


@pytest.fixture
def decide(tmp_path: Path) -> Decide:
    """Decide claims on runs, given by their names in the plan, RUN/MODEL/DATA; None for one that failed."""

    def decided(claims: Mapping[str, Row], sizes: Mapping[str, int] | None = None, **runs: Any) -> list[Row]:
        planned, states = [], {}
        for path, answerer in runs.items():
            run, model, data = path.split("/")
            folder = None
            if answerer is not None:
                folder = answered(tmp_path / f"run-{len(list(tmp_path.iterdir()))}", answerer, DATA, model=model)
                folder.add_circumstances(model={"parameters": (sizes or {}).get(model, 10)})
            step: Any = SimpleNamespace(options=SimpleNamespace(cluster=""))
            planned.append(PlannedStep(path, step, {"run": run, "model": model, "data": data}, {}))
            states[path] = planned[-1], StepState(step, folder, "" if folder else "out of memory")
        file = tmp_path / "plan.yaml"
        usual = {"sentence": "A beats B", "where": "section 1", "direction": "higher"}
        content = {"data": {"D": "geography"}, "runs": {"a": {}}, "claims": {k: usual | v for k, v in claims.items()}}
        file.write_text(yaml.safe_dump(content | {"skipped": ["b: no model is masked"]}))
        read, faults = read_content(file, {})
        result = decide_claims(plan_claims(read, planned, faults), states, tmp_path / "out", overwrite=True)
        faults.stop_if_any()
        written = json.loads((tmp_path / "out" / "claims.json").read_text())
        assert written["answer"] == list(result.answer)
        rows: list[Row] = written[TITLE]
        return rows

    return decided


def sides(first: str, second: str, **more: Any) -> dict[str, Row]:
    return {"one": {"first": {"runs": first}, "second": {"runs": second}} | more}


# --- outcomes


@pytest.mark.parametrize(
    ("first", "second", "direction", "value", "outcome"),
    [
        (60, 20, "higher", 0.4, "holds"),
        (60, 20, "lower", 0.4, "opposite"),
        (20, 60, "lower", -0.4, "holds"),
        (20, 60, "higher", -0.4, "opposite"),
        (50, 50, "higher", 0.0, "no significant difference"),
        (50, 50, "lower", 0.0, "no significant difference"),
    ],
)
def test_outcomes_by_the_facts_that_each_side_knows(
    decide: Decide, first: int, second: int, direction: str, value: float, outcome: str
) -> None:
    runs = {"a/m/D": share(first), "b/m/D": share(second, seed=1)}
    [row] = decide(sides("a", "b", direction=direction), **runs)
    assert row["value"] == pytest.approx(value)
    assert row["low"] < value < row["high"]
    assert row["outcome"] == outcome
    assert row["difference"].startswith(f"{100 * value:+.1f} points [")


@pytest.mark.parametrize(
    ("runs", "claim", "reason"),
    [
        ({"a/m/D": share(60), "b/m/D": None}, sides("a", "b"), "failed or is missing: b/m/D"),
        ({"a/m/D": share(60)}, sides("a", "b"), "no run 'b'"),
        ({"a/m/D": at_random(0), "b/m/D": at_random(1)}, sides("a", "b"), NO_KNOWLEDGE),
        ({"a/m/D": constant, "b/m/D": short_names_first}, sides("a", "b"), NO_KNOWLEDGE),
        (
            {"a/m/D": share(60)},
            {"one": {"first": {"runs": "a", "models": "largest"}, "second": {"runs": "a", "models": "smallest"}}},
            "needs a largest model, found m",
        ),
        ({"a/m/D": share(60), "b/m/D": share(20)}, sides("a", "b", ratio=2, by="document"), "no 'document'"),
    ],
)
def test_what_cannot_be_determined_has_its_reason(
    decide: Decide, runs: dict[str, Answerer | None], claim: dict[str, Row], reason: str
) -> None:
    [row] = decide(claim, **runs)
    assert (row["outcome"], row.get("value")) == ("cannot be determined", None)
    assert reason in row["difference"]


def test_claims_are_one_family(decide: Decide) -> None:
    """Two equal contrasts with eight more facts on one side: p alone is 2 / 2⁸; by Holm each is twice as much."""
    runs = {"a/m/D": share(58), "b/m/D": share(50)}
    [alone] = decide(sides("a", "b"), **runs)
    [first, second] = decide({"one": sides("a", "b")["one"], "two": sides("a", "b")["one"]}, **runs)
    assert first["p"] == second["p"] == pytest.approx(2 * alone["p"])
    assert first["low"] < alone["low"]


# --- pairs


def test_runs_are_paired_by_data_and_model(decide: Decide) -> None:
    """Of m 40 facts more, of n 20: 30 points. Paired otherwise, n would lose."""
    runs = {"a/m/D": share(80), "a/n/D": share(30), "b/m/D": share(40), "b/n/D": share(10)}
    [row] = decide(sides("a", "b"), **runs)
    assert row["value"] == pytest.approx(0.3)


def test_the_largest_against_the_smallest(decide: Decide) -> None:
    """The one in the middle is in neither side."""
    claim = {"one": {"first": {"runs": "a", "models": "largest"}, "second": {"runs": "a", "models": "smallest"}}}
    runs = {"a/small/D": share(30), "a/middle/D": share(90), "a/large/D": share(50)}
    [row] = decide(claim, sizes={"small": 1, "middle": 2, "large": 3}, **runs)
    assert (row["value"], row["outcome"]) == (pytest.approx(0.2), "holds")


@pytest.mark.parametrize(("ratio", "outcome"), [(2.0, "holds"), (1.9, "cannot be determined")])
def test_models_of_one_size(decide: Decide, ratio: float, outcome: str) -> None:
    [row] = decide(sides("a", "b", ratio=ratio), sizes={"m": 2, "n": 4}, **{"a/m/D": share(60), "b/n/D": share(20)})
    assert row["outcome"] == outcome


def test_by_relation_each_weighs_the_same(decide: Decide) -> None:
    """Five relations of twenty facts: 60 % against 20 % in each. Five units are too few for a test."""
    [row] = decide(sides("a", "b", by="relation"), **{"a/m/D": share(60), "b/m/D": share(20)})
    assert row["outcome"] == "cannot be determined"
    assert "5 of the 6 independent units" in row["difference"]
    assert row["value"] == pytest.approx(0.4)


# --- quantities


def test_agreement_is_the_correlation_of_ranks(decide: Decide) -> None:
    """Two probes that find the same half and order the rest at random, against two that find different halves."""
    half = first_few(DATA, 0.5, 0)
    others = {query.id for query in DATA.queries} - half
    runs = {
        "a/m/D": knowing(half, at_random(0)),
        "b/m/D": knowing(half, at_random(1)),
        "c/m/D": knowing(others, at_random(2)),
    }
    claims = {"alike": sides("a", "b")["one"], "unlike": sides("a", "c")["one"]}
    alike, unlike = decide({name: claim | {"metric": "agreement"} for name, claim in claims.items()}, **runs)
    assert (alike["outcome"], unlike["outcome"]) == ("holds", "opposite")
    assert alike["value"] > 0.5 > -0.5 > unlike["value"]


def test_length_bias_and_repetition(decide: Decide) -> None:
    """One run answers what it does not know by the length of names, or by the same names, the other at random."""
    half = first_few(DATA, 0.5, 0)
    runs = {"a/m/D": knowing(half, short_names_first), "b/m/D": knowing(half, at_random(0))}
    claim = sides("a", "b")["one"]
    for metric in ("length bias", "repetition"):
        [row] = decide({"one": claim | {"metric": metric}}, **runs)
        assert row["outcome"] == "holds", metric
        [row] = decide({"one": claim | {"metric": metric, "direction": "lower"}}, **runs)
        assert row["outcome"] == "opposite", metric


def test_the_correlation_is_that_of_ranks_within_relations(decide: Decide, tmp_path: Path) -> None:
    """Of one pair, as in ``fathom compare``; of the same pair under two names of the model, no surer."""
    half = first_few(DATA, 0.5, 0)
    one, other = knowing(half, at_random(0)), knowing(half, at_random(1))
    claim = {"one": sides("a", "b")["one"] | {"metric": "agreement"}}
    [alone] = decide(claim, **{"a/m/D": one, "b/m/D": other})
    runs = [answered(tmp_path / f"again-{n}", own, DATA) for n, own in enumerate((one, other))]
    expected = agreement_of(runs, k=10).within
    assert alone["value"] == pytest.approx(expected.value)
    assert [alone["low"], alone["high"]] == pytest.approx([expected.low, expected.high], abs=0.01)
    [twice] = decide(claim, **{"a/m/D": one, "b/m/D": other, "a/n/D": one, "b/n/D": other})
    assert [twice["low"], twice["high"]] == pytest.approx([alone["low"], alone["high"]], abs=0.01)


# --- plans


PLAN = """models: {{a: {model}}}
data: {{facts: {{data: geography}}}}
runs: {{s: {{probe: statement, templates: 0}}}}
claims:
  one:
    sentence: A beats B
    where: section 1
    direction: higher
    first: {{runs: s}}
    second: {{runs: s/a}}
"""


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("first: {runs: s}", "first: {runs: t}", ["plan.yaml:9", "claims.one.first.runs", "'t'"]),
        ("second: {runs: s/a}", "second: {runs: s/b}", ["plan.yaml:10", "claims.one.second.runs", "'s/b'"]),
        ("direction: higher", "metric: acuracy\n    direction: lower", ["plan.yaml:8", "acuracy", "repetition"]),
        ("direction: higher", "metric: f1\n    direction: lower", ["plan.yaml:8", "'f1'", "hits@K"]),
        ("direction: higher", "metric: agreement", ["plan.yaml:5", "claims.one.direction", "missing"]),
        ("direction: higher", "direction: more", ["plan.yaml:8", "claims.one.direction", "'more'"]),
        ("direction: higher", "direction: higher\n    metrc: mrr", ["plan.yaml:9", "claims.one.metrc", "unknown key"]),
        (
            "direction: higher",
            "direction: higher\n    by: relation\n    metric: repetition",
            ["plan.yaml:9", "claims.one.by", "repetition"],
        ),
        ("where: section 1\n    ", "", ["plan.yaml:5", "claims.one.where", "missing"]),
        ("{runs: s}", "{runs: s, models: huge}", ["plan.yaml:9", "claims.one.first.models", "'huge'"]),
    ],
)
def test_bad_entries_are_refused_with_file_and_line(tmp_path: Path, old: str, new: str, words: list[str]) -> None:
    text = PLAN.format(model="geography")
    assert old in text
    (tmp_path / "plan.yaml").write_text(text.replace(old, new))
    with pytest.raises(BadInput, match=mentions(*words)):
        read_plan(tmp_path / "plan.yaml", tmp_path / "out")


def test_every_preset_of_a_paper_has_its_claims() -> None:
    """Each with a section or the abstract of its paper."""
    counts = {"bear": 5, "deer": 4, "shaier2024": 4, "sakai2024": 6, "wu2023": 6}
    for name, count in counts.items():
        claims = yaml.safe_load(PRESETS[name].file.read_text())["claims"]
        assert len(claims) == count
        assert all("section" in claim["where"] or "abstract" in claim["where"] for claim in claims.values())


@pytest.mark.slow
def test_untrained_models_obtain_no_claim(gpt2: PreTrainedTokenizerBase, shared_data: Path, tmp_path: Path) -> None:
    """At most one claim in twenty holds, or is opposite, of pairs of models with random weights."""
    places = {"bear": str(shared_data / "bear" / "BEAR")}
    rows: list[Row] = []
    for seed in range(4):
        models = [tmp_path / f"{seed}-{width}" for width in (16, 64)]
        for model, width in zip(models, (16, 64), strict=True):
            torch.manual_seed(seed)
            GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=width, n_head=2)).save_pretrained(model)
            gpt2.save_pretrained(model)
        out = tmp_path / f"out-{seed}"
        file = write_preset("bear", list(map(str, models)), places, out, limit=60, device="cpu")
        content = yaml.safe_load(file.read_text()) | {"tables": {}, "studies": {}, "values": ""}
        file.write_text(yaml.safe_dump(content))
        result = carry_out(read_plan(file, out), out)
        assert len(result.answer) == 5
        rows += json.loads((out / "claims.json").read_text())[TITLE]
    obtained = [row for row in rows if row["outcome"] in ("holds", "opposite")]
    assert len(obtained) <= 0.05 * len(rows)
    reasons = {row["difference"] for row in rows if row["outcome"] == "cannot be determined"}
    assert all(any(own in why for own in (NO_KNOWLEDGE, "needs a masked model", "no run 'trex'")) for why in reasons)
