"""A probe added from outside: all of it stands in this file, and enters by the table alone."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

import fathom
from fathom.base.registry import CommandEntry
from fathom.cli.probe import make
from fathom.probes import PROBES, Entry
from fathom.probes.base import Probe
from fathom.probes.options import ProbeOptions
from fathom.probes.run import RunRequest, run
from fathom.store.predictions import NO_TEMPLATE, Scoring
from tests.messages import mentions
from tests.probes import test_contract as contract

SHARD_QUERIES = 256


class ToyOptions(ProbeOptions):
    """Options of the toy probe."""


class Toy(Probe):
    """Scores each candidate by the number of letters of its name: "Rome" and "Lima" tie behind "Madrid" and "Paris"."""

    scorings = (Scoring("letters", "score"),)

    def __init__(self, options, model, queryset):
        self.options, self.model, self.queryset = options, model, queryset
        self._shards = self._cut()

    def _cut(self):
        asked = self.queryset.queries
        return {
            f"{at // SHARD_QUERIES:05d}": asked[at : at + SHARD_QUERIES] for at in range(0, len(asked), SHARD_QUERIES)
        }

    def plan(self):
        return list(self._shards)

    def circumstances(self):
        return {"notes": ["letters are counted as they are"]}

    def evaluate(self, shard):
        return [self._row(query) for query in self._shards[shard]]

    def _row(self, query):
        space = self.queryset.candidates[query.candidates]
        about = {"query_id": query.id, "template": NO_TEMPLATE, "scoring": "letters", "num_candidates": len(space)}
        if query.unscored:
            return about | {"unscored": query.unscored}
        scores = [float(len(name)) for name in space.names]
        own = scores[space.position[query.gold[0]]]
        first = 1 + sum(score > own for score in scores)
        last = sum(score >= own for score in scores)
        return about | {
            "rank": (first + last) / 2, "rank_optimistic": first, "rank_pessimistic": last, "gold_scores": [own],
            "scores": scores,
        }  # fmt: skip


TOY = Entry(
    "toy",
    f"{__name__}:ToyOptions",
    f"{__name__}:Toy",
    "Rank answers by the length of their names.",
    "fathom probe toy --model gpt2 --data geography --out runs/toy",
    cuts=(1, 2),
)
CASE = contract.Case({}, (NO_TEMPLATE, "letters"), (3, 4), 0, "", "", "score")


@pytest.fixture
def toy():
    PROBES.add(TOY)
    yield
    PROBES.remove(TOY)


model, data = contract.model, contract.data


@pytest.mark.usefixtures("toy")
def test_it_is_asked_like_any_other(model, data, tmp_path):
    folder = run(RunRequest("toy", model, data, ToyOptions()), tmp_path / "run")
    ranks = {row["query_id"]: row["rank"] for row in folder.predictions().to_pylist()}
    assert ranks == {"capital/0": 2.0, "capital/1": 3.5, "capital/2": 1.0, "capital/3": None}
    result = fathom.probe("toy", model, data, tmp_path / "api")
    assert result.summary().headlines[0].accuracy.value == pytest.approx(1 / 3)


@pytest.mark.usefixtures("toy")
def test_a_probe_without_a_case_fails_the_contract(monkeypatch):
    assert contract.without_case() == {"toy"}
    monkeypatch.setitem(contract.CASES, "toy", CASE)
    contract.test_every_probe_is_in_the_contract()


@pytest.mark.usefixtures("toy")
def test_it_keeps_the_contract(model, data, tmp_path, monkeypatch):
    monkeypatch.setitem(contract.CASES, "toy", CASE)
    contract.test_scorings_are_declared("toy", model, data, tmp_path / "scorings")
    contract.test_ties_are_reported_and_order_decides_nothing("toy", model, data, tmp_path / "ties")
    contract.test_what_cannot_be_asked_stays_with_its_reason("toy", model, data, tmp_path / "reason")
    contract.test_killed_and_resumed_is_the_same_run("toy", RuntimeError, model, data, tmp_path, monkeypatch)
    contract.test_every_option_is_identity_or_circumstance("toy")


@pytest.mark.usefixtures("toy")
def test_it_is_on_the_command_line():
    app = make(CommandEntry("probe", "Ask", "Ask a model.", "fathom.cli.probe:make"))
    shown = CliRunner().invoke(app, ["toy", "--help"])
    assert TOY.example in shown.output
    assert TOY.does in CliRunner().invoke(app, ["--help"]).output


def test_a_name_can_be_taken_once():
    with pytest.raises(ValueError, match=mentions("'statement'")):
        PROBES.add(TOY._replace(name="statement"))


def test_options_are_completed_once_and_queries_prepared_with_them(model, data, tmp_path, monkeypatch):
    completed, prepared_with = [], []

    def complete(options, data):
        completed.append(options.seed)
        return options.model_copy(update={"seed": 7})

    prepare = staticmethod(lambda options, data: prepared_with.append(options.seed) or data)
    monkeypatch.setattr(Toy, "complete_options", staticmethod(complete))
    monkeypatch.setattr(Toy, "prepare_queries", prepare)
    run(RunRequest(TOY, model, data, ToyOptions()), tmp_path / "run")
    assert (completed, prepared_with) == ([0], [7])
