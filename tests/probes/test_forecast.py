"""Estimates before a run: exact counts on small cases, and no weights read."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from fathom.api import forecast
from fathom.base.errors import BadInput
from fathom.base.progress import unseen
from fathom.data.formats import read
from fathom.engine.models.loading import load, load_shape
from fathom.engine.models.local import LocalModel
from fathom.engine.scoring.causal import causal_log_probs
from fathom.engine.scoring.memory import Budget
from fathom.probes import PROBES
from fathom.probes.options import OntologyOptions
from fathom.probes.run import RunRequest
from fathom.probes.run.forecast import Forecaster, Pass, Stopwatch, counted, duration
from fathom.probes.run.setup import set_up
from fathom.probes.statement import StatementProbe
from fathom.training.options import PlantOptions
from fathom.training.planting import plant
from tests.messages import mentioned
from tests.probes.test_ontology import town

Command = Callable[..., tuple[int, str, str]]
EACH = ("statement", "vocabulary", "embedding", "choice")
SHAPE = {"epochs": 1, "hidden_size": 16, "layers": 2, "heads": 2, "vocabulary": 600}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Folders of planted models by kind."""
    folder = tmp_path_factory.mktemp("models")
    for kind in ("causal", "masked"):
        plant(read("geography"), PlantOptions(kind=kind, **SHAPE), folder / kind)
    return {kind: str(folder / kind) for kind in ("causal", "masked")}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the sample is as large as on others."""
    monkeypatch.setattr("fathom.probes.run.forecast.SAMPLING", float("inf"))


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The tokens that local models run, by the name of the method; passes within another one count once."""
    tokens: Counter[str] = Counter()
    depth = [0]

    def count(name: str, place: int) -> None:
        method = getattr(LocalModel, name)

        def counting(self: LocalModel, *given: Any, **more: Any) -> Any:
            if not depth[0]:
                tokens[name] += given[place].shape[0] * given[place].shape[1]
            depth[0] += 1
            try:
                return method(self, *given, **more)
            finally:
                depth[0] -= 1

        monkeypatch.setattr(LocalModel, name, counting)

    for name, place in (("hidden", 0), ("hidden_at", 0), ("grow", 1)):
        count(name, place)
    return tokens


@pytest.mark.parametrize(("kind", "probe"), [*product(("causal", "masked"), EACH), ("masked", "cloze")])
def test_counts_are_those_of_the_engine(
    planted: dict[str, str], kind: str, probe: str, ran: Counter[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fathom.engine.models.local.check", lambda *_: None)  # these passes happen once per model
    monkeypatch.setattr("fathom.probes.base.PROMPTS", 0)  # and those on shuffled prompts
    data, entry, path = read("geography"), PROBES.find(probe), planted[kind]
    options = entry.options(limit=3, relations=("capital",))
    model = load(path)
    model.linear_head()
    if kind == "masked":  # checks how to run the last layer at a few positions
        model.hidden_at(model.embed(torch.zeros((2, 4), dtype=torch.long)), torch.zeros((2, 1), dtype=torch.long))
    ran.clear()
    evaluator, setup = set_up(RunRequest(entry, model, data, options))
    evaluator.prepare(tmp_path, unseen)
    for shard in setup.plan:
        evaluator.evaluate(shard)
    expected = sum(ran.values())
    found = Forecaster().forecast(RunRequest(entry, path, data, options))
    assert (found.queries, found.tokens) == (3, expected)


def test_a_statement_counts_each_prefix_once(planted: dict[str, str]) -> None:
    """By hand: the first tokens of "Ab c." and "Ab d." are run once; their last tokens are predicted, never run."""
    shape = load_shape(planted["causal"])
    model, budget = counted(shape, 1), Budget(64, shape.device)
    budget.evidence.begins(model, "a packed tree")  # no sequence runs again
    causal_log_probs(model, [[5, 6, 7, 8], [5, 6, 9, 8]], budget)
    assert model.passes == {Pass("masked", 1, 4): 1, Pass("head", 4, 1): 1}


def test_no_weights_are_read(planted: dict[str, str], tmp_path: Path, fathom: Command) -> None:
    path = Path(shutil.copytree(planted["causal"], tmp_path / "m"))
    whole = load(path).parameters
    (path / "model.safetensors").unlink()
    shape = load_shape(str(path))
    assert (shape.parameters, shape.for_each_layer) == (whole, 2.0)
    arguments = ("probe", "statement", "--model", path, "--data", "geography", "--out", tmp_path / "run", "--limit", 2)
    code, printed, _ = fathom(*arguments, "--dry-run")
    assert code == 0
    assert mentioned(printed, "2 queries", "GB of memory", "threads")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("seconds", [float("inf"), 0.0])
def test_large_shards_are_not_evaluated_if_small_ones_take_long(
    planted: dict[str, str], monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr("fathom.probes.run.forecast.SAMPLING", seconds)
    options, evaluate = PROBES.find("statement").options(limit=8, templates=(0,)), StatementProbe.evaluate
    shards: list[str] = []

    def noted(probe: StatementProbe, shard: str) -> Any:
        shards.append(shard)
        return evaluate(probe, shard)

    monkeypatch.setattr(StatementProbe, "evaluate", noted)
    found = Forecaster(lambda: float(len(shards))).forecast(
        RunRequest(PROBES.find("statement"), planted["causal"], read("geography"), options)
    )
    is_cut = seconds == 0
    assert (len(shards) == 1) == is_cut
    assert any(note.startswith("1 of ") for note in found.assumes) == is_cut


@pytest.mark.parametrize("max_rank", [None, 1])
def test_an_estimate_of_a_search_is_an_upper_limit(planted: dict[str, str], max_rank: int | None) -> None:
    options = PROBES.find("statement").options(limit=2, templates=(0,), max_rank=max_rank)
    found = Forecaster().forecast(RunRequest(PROBES.find("statement"), planted["causal"], read("geography"), options))
    assert any("upper limit" in note for note in found.assumes) == (max_rank == 1)


def test_servers_are_not_called(planted: dict[str, str]) -> None:
    """Four calls for two questions in two orders; a text for each letter of a local one."""
    path, server = planted["causal"], {"server": "http://localhost:1/v1", "limit": 2}
    options = PROBES.find("choice").options(**server, orders=2, options=3)
    found = Forecaster().forecast(RunRequest(PROBES.find("choice"), "served", read("geography"), options))
    assert (found.queries, found.texts, found.calls, found.seconds) == (2, 4, 4, None)
    options = PROBES.find("statement").options(**server, tokenizer=path, relations=("continent",), templates=(0,))
    found = Forecaster().forecast(RunRequest(PROBES.find("statement"), "served", read("geography"), options))
    assert found.calls == found.texts == 2 * len(read("geography").candidates["continent"])


def test_trained_templates_are_refused(planted: dict[str, str]) -> None:
    options = OntologyOptions(soft=True, cross_validate=True)
    with pytest.raises(BadInput, match="--soft"):
        forecast(options, planted["masked"], town())


def test_times_of_long_passes_are_extrapolated(planted: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that says 1 s for 128 tokens, 256 tokens of 4 sequences take the ratio of their costs."""
    watch = Stopwatch(load_shape(planted["causal"]))
    parts: list[Pass] = []

    def second(part: Pass) -> float:
        parts.append(part)
        return 1.0

    monkeypatch.setattr(watch, "_run", second)
    long = Pass("plain", 4, 256)
    assert watch.seconds({long: 3.0}) == pytest.approx(2 * 3 * long.cost(16) / Pass("plain", 1, 128).cost(16))
    assert {(part.rows, part.length) for part in parts} == {(1, 128)}


def test_durations_have_a_fitting_unit() -> None:
    assert [duration(seconds).split()[0] for seconds in (59, 90, 7200, 232_992)] == ["59", "1.5", "120.0", "64.7"]
