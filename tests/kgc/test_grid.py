"""Link predictors in a plan, which train in a blink: cells, resumption, failures, and what they add up to."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from fathom.base.errors import BadInput, RunFailed
from fathom.cli import make_app
from fathom.data.formats import read
from fathom.engine.models.base import Identity
from fathom.plans.execution import PlanResult, carry_out
from fathom.plans.file import Plan, read_plan
from fathom.plans.forecast import forecast_table
from fathom.plans.options import WorkerOptions
from fathom.results.metrics.ranking import tukey_fences
from fathom.store.locks import AT_WORK, CLAIMS, Claims, exclusive_folder, shared_folder
from fathom.store.predictions import Scoring
from fathom.training.loop import NotANumber
from fathom_build.worlds import build_worlds
from fathom_kgc.links import LINKS, Kind
from fathom_kgc.links.base import Predictor, rank_links
from fathom_kgc.links.options import LinkTraining, TextTraining
from fathom_kgc.studies import MemoryOptions, memory, memory_tables
from fathom_kgc.studies.memory import Cell, CellState, Curve, Memory, correlations
from fathom_kgc.studies.memory_tables import state_of_cell
from tests.forked import ForkedCall, command_line
from tests.messages import mentions
from tests.sharing import kept

ENTITIES = [f"e{number:02d}" for number in range(40)]
DATA = "data: {graph: {data: graph, worlds: [base, anonymised-er, fully-anonymised-erd]}}\n"
READER = "  reader: {predictor: reader, weights: none}\n"
OTHER = "  other: {predictor: reader, weights: none, knows: 0.0, random_from: reader}\n"
BLIND = "  blind: {predictor: blind, data: graph/base}\n"
STUDY = "studies: {memory: {line: blind, contrasts: [[reader, other]]}}\n"
PLAN = f"{DATA}runs:\n{READER}{OTHER}{BLIND}{STUDY}"


class ReaderOptions(TextTraining):
    weights: str = "none"
    knows: float = 1.0


class Reader(Predictor):
    """Remembers, with pretrained weights, the right answer to questions whose entity it calls by its true name."""

    scoring = Scoring("link/reader", "score")

    def __init__(self, graph, options, source, device):
        super().__init__(graph, options, source, device)
        self.identity = Identity("none", None, "float32", "0")
        self.network = torch.nn.Linear(1, 1)

    @classmethod
    def check(cls, options):
        pass

    def train(self, folder, progress):
        lines = [{"stage": "s", "epoch": n + 1, "loss": 1.0, "hits@10": 0.1 * n, "seconds": 1.0 + n} for n in range(3)]
        (folder / "curve.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return {"why": "epochs", "epoch": 3, "hits@10": 0.2}

    def load(self, folder):
        pass

    def rank(self, links, top, keep_scores=False):
        names = self.graph.entities.column("name").to_pylist()
        scores = torch.arange(len(names), dtype=torch.float32).repeat(len(links), 1)
        scores[torch.arange(len(links)), torch.from_numpy(links.gold)] = -1.0  # the last
        for row, (given, gold) in enumerate(zip(links.given.tolist(), links.gold.tolist(), strict=True)):
            true_name = names[given].startswith("Town")
            if getattr(self.options, "init", "") == "pretrained" and true_name and self.options.knows:
                scores[row, gold] = 1000.0
        return rank_links(scores, links, top, keep_scores)


class BlindOptions(LinkTraining):
    pass


@pytest.fixture(autouse=True)
def _kinds():
    kinds = [
        Kind("reader", f"{__name__}:ReaderOptions", f"{__name__}:Reader", ""),
        Kind("blind", f"{__name__}:BlindOptions", f"{__name__}:Reader", ""),
    ]
    for kind in kinds:
        LINKS.add(kind)
    yield
    for kind in kinds:
        LINKS.remove(kind)


@pytest.fixture
def plan_file(tmp_path):
    folder = tmp_path / "graph"
    folder.mkdir()
    rng = np.random.default_rng(0)
    lines = [f"{a}\t{r}\t{b}" for a in ENTITIES for r, b in zip("pqrs", rng.choice(ENTITIES, 4), strict=True) if a != b]
    cut = len(lines) // 2
    for split, part in {"train": lines[:cut], "dev": lines[cut : cut + 10], "test": lines[cut + 10 :]}.items():
        (folder / f"{split}.tsv").write_text("\n".join(dict.fromkeys(part)) + "\n")
    (folder / "entity2text.txt").write_text("".join(f"{e}\tTown {e} of {hash(e) % 7}\n" for e in ENTITIES))
    (folder / "entity2textlong.txt").write_text("".join(f"{e}\tTown {e} is a place.\n" for e in ENTITIES))
    (folder / "relation2text.txt").write_text("p\tnear\nq\tnorth of\nr\ttwin of\ns\tlarger than\n")
    file = tmp_path / "plan.yaml"
    file.write_text(PLAN)
    return file


def grid(file: Path, out: Path, options: WorkerOptions | None = None, **more: object) -> tuple[Plan, PlanResult]:
    plan = read_plan(file, out)
    return plan, carry_out(plan, out, options, **more)


def cells(plan: Plan, result: PlanResult) -> list[CellState]:
    states = {id(state.step): state for state in result.states}
    return [state_of_cell(run, states[id(run.step)]) for run in plan.runs]


def analysed(plan: Plan, result: PlanResult) -> Memory:
    options = dict(plan.studies[0].options) if plan.studies else {}
    return memory.analyse(cells(plan, result), MemoryOptions(**options))


def finished(result: PlanResult) -> int:
    return sum(state.run is not None for state in result.states)


def test_the_cells_of_a_plan(plan_file, tmp_path):
    plan = read_plan(plan_file, tmp_path / "out")
    assert [run.name for run in plan.runs if "base" in run.name] == [
        "reader/graph/base/init=pretrained",
        "reader/graph/base/init=random",
        "other/graph/base/init=pretrained",
        "other/graph/base/init=random",
        "blind/graph/base",
    ]
    shared = {run.step.name for run in plan.runs if run.name.endswith("base/init=random")}
    assert shared == {"runs/reader/graph/base/init=random"}  # the other's random twin is the reader's
    assert len(plan.steps) == 3 * 3 + 1
    notes = forecast_table(plan, tmp_path / "out").notes
    assert sum("is not estimated" in note for note in notes) == 10
    plan_file.write_text(PLAN.replace("knows: 0.0", "seconds: 0.5"))
    assert {step.training.seconds for step in read_plan(plan_file, tmp_path / "out").steps} == {None, 0.5}


def test_a_study_finds_the_memory_that_is_there(plan_file, tmp_path):
    """The reader knows everything by true names: Hits@10 is 1 in base, 0 elsewhere; memory = (1 − 0) − (0 − 0)."""
    plan, made = grid(plan_file, tmp_path / "out")
    assert finished(made) == 10
    result = analysed(plan, made)
    terms = {(term.model, term.name): term.value for term in result.terms}
    assert terms["reader", "memory of names (base)"].value == 1.0
    assert terms["other", "memory of names (base)"].value == 0.0
    assert terms["reader", "structure"].value == 0.0
    gaps = {(gap.model, gap.name): gap.value.value for gap in result.gaps}
    assert gaps["reader", "base"] == 1.0
    assert gaps["reader", "anonymised-er"] == 0.0
    contrasts = {one.name: one.value.value for one in result.contrasts}
    assert contrasts == {"base": 1.0, "anonymised-er": 0.0, "fully-anonymised-erd": 0.0}
    assert len(result.cells) == 10
    [trained] = result.cells[0].trainings
    assert (trained.epochs, trained.best_epoch, trained.seconds, trained.why) == (3, 3, 3.0, "epochs")
    curves = result.curves["reader"]
    assert len(curves) == 6
    assert correlations(curves) == pytest.approx(np.ones((6, 6)))  # all curves are alike


KNOWN = {
    "base": (10, 1),
    "virtual-e": (3, 2),
    "virtual-r": (7, 5),
    "anonymised-er": (9, 6),
    "fully-anonymised-erd": (8, 4),
}
"""World → of ten test facts, how many a reader knows with pretrained weights, and with random ones: no two alike."""


def knows_so_many(self, links, top, keep_scores=False):
    """The right answer comes second where it is known: Hits@1 is 0, Hits@10 is 1. Elsewhere it comes last."""
    *_, world, init = Path(self.identity.name).parts
    ids = [int(id_[1:]) for id_ in self.graph.entities.column("id").to_pylist()]
    known = KNOWN[world][init == "init=random"]
    scores = torch.arange(len(ids), dtype=torch.float32).repeat(len(links), 1)
    for row, (given, gold) in enumerate(zip(links.given.tolist(), links.gold.tolist(), strict=True)):
        scores[row, gold] = len(ids) - 1.5 if (ids[given] + ids[gold]) % 10 < known else -1.0
    return rank_links(scores, links, top, keep_scores)


def test_terms_gaps_and_fences_by_hand(plan_file, tmp_path, monkeypatch):
    """Memory of names: (1.0 − 0.1) − (0.9 − 0.6) = 0.6 in base, (0.3 − 0.2) − 0.3 = −0.2 in virtual-e, 0.2 − 0.3 and
    0.4 − 0.3 in the others. Descriptions: 0.9 − 0.8 and 0.6 − 0.4. Structure: 0.4. The gaps are 0.9, 0.1, 0.2, 0.3 and
    0.4, their quartiles 0.2 and 0.4: fences at 0.2 − 0.3 and 0.4 + 0.3."""
    monkeypatch.setattr(Reader, "rank", knows_so_many)
    (tmp_path / "graph" / "train.tsv").write_text("".join(f"{e}\tp\t{e}\n" for e in ENTITIES))
    facts = [f"e10\t{'rs'[n % 2]}\te{11 + n}\n" for n in range(10)]
    (tmp_path / "graph" / "test.tsv").write_text("".join(facts))
    plan_file.write_text(f"data: {{graph: {{data: graph, worlds: [{', '.join(KNOWN)}]}}}}\nruns:\n{READER}")
    result = analysed(*grid(plan_file, tmp_path / "out"))
    assert [cell.hits.value for cell in result.cells] == pytest.approx(np.array(list(KNOWN.values())).ravel() / 10)
    assert {term.name: round(term.value.value, 9) for term in result.terms} == {
        "memory of names (base)": 0.6,
        "memory of names (virtual-e)": -0.2,
        "memory of names (virtual-r)": -0.1,
        "memory of names (fully-anonymised-erd)": 0.1,
        "descriptions (pretrained)": 0.1,
        "descriptions (random)": 0.2,
        "structure": 0.4,
    }
    assert [gap.value.value for gap in result.gaps] == pytest.approx([0.9, 0.1, 0.2, 0.3, 0.4])
    assert all(gap.fences == pytest.approx((-0.1, 0.7)) for gap in result.gaps)
    assert [gap.name for gap in result.gaps if gap.outlier] == ["base"]
    numbers = [line.hits for line in result.cells] + [line.value for line in result.terms + result.gaps]
    assert all(number.n == 10 and number.low <= number.value <= number.high for number in numbers)
    *tables, metrics, others = memory_tables.tables(replace(result, audits=[], curves={}))
    assert all(row["recipe"].startswith("hits@10|data:") for table in tables for row in table.objects())
    assert "Hits@10" not in others.columns
    first = metrics.objects()[0]
    assert [first[name] for name in ("Hits@1", "Hits@3", "Hits@10", "MRR", "MR")] == [0, 1, 1, 0.5, 2]
    assert first["recipe"].startswith("hits@1, hits@3, hits@10, mrr, mean_rank|data:")


@pytest.mark.slow
def test_a_failed_cell_is_shown_and_the_rest_goes_on(plan_file, tmp_path, monkeypatch):
    train, out = Reader.train, tmp_path / "out"

    def failing(self, folder, progress):
        if "/anonymised-er" in str(folder) and "other" in str(folder):
            raise RunFailed("the loss is nan in epoch 1, step 1")
        return train(self, folder, progress)

    monkeypatch.setattr(Reader, "train", failing)
    said = []
    plan, made = grid(plan_file, out, tell=said.append)
    failed = [cell for cell in cells(plan, made) if cell.failed]
    assert [state.cell for state in failed] == [Cell("other", "pretrained", "anonymised-er", 0)]
    assert "failed: the loss is nan" in "\n".join(said)
    assert "failed: the loss is nan" in (out / "studies" / "memory" / "memory.md").read_text()
    monkeypatch.setattr(Reader, "train", train)
    assert finished(grid(plan_file, out)[1]) == 9  # not by itself
    assert finished(grid(plan_file, out, retry_failed=True)[1]) == 10


def test_a_study_goes_on_where_it_stopped(plan_file, tmp_path, monkeypatch):
    train, trained, out = Reader.train, [], tmp_path / "out"

    def counting(self, folder, progress):
        trained.append(folder)
        if len(trained) == 3:
            raise KeyboardInterrupt
        return train(self, folder, progress)

    monkeypatch.setattr(Reader, "train", counting)
    with pytest.raises(KeyboardInterrupt):
        grid(plan_file, out)
    assert finished(grid(plan_file, out)[1]) == 10
    assert len(trained) == 10 + 1  # the third was begun twice
    grid(plan_file, out)
    assert len(trained) == 11


@pytest.mark.slow
def test_a_study_of_one_seed_goes_on_with_more(plan_file, tmp_path, monkeypatch):
    """The cells of before stay what they are; further seeds have folders of their own."""
    train, trained, out = Reader.train, [], tmp_path / "out"

    def counting(self, folder, progress):
        trained.append(self.options.seed)
        return train(self, folder, progress)

    monkeypatch.setattr(Reader, "train", counting)
    grid(plan_file, out)
    before = {file: file.read_bytes() for file in (out / "predictors").rglob("*.json")}
    seeds = "matrix: {seed: [0, 1, 7]}"
    plan_file.write_text(PLAN.replace("none", f"none, {seeds}").replace("graph/base", f"graph/base, {seeds}"))
    said = []
    plan, made = grid(plan_file, out, tell=said.append)
    assert trained.count(0) == trained.count(1) == trained.count(7) == 10
    assert said[0].startswith("[11/30] reader/graph/base/init=pretrained,seed=1")
    assert {file: file.read_bytes() for file in before} == before
    assert finished(made) == 30
    seeds = {state.run.manifest["identity"]["seed"] for state in made.states}
    assert seeds == {0}, "all seeds are asked the same"
    result = analysed(plan, made)
    assert len(result.cells) == 10
    assert [one.cell.seed for one in result.cells[0].trainings] == [0, 1, 7]
    assert result.terms[0].noise.seeds == 3
    assert [curve.cell.seed for curve in result.curves["reader"]] == [0] * 6
    tables = json.loads((out / "studies" / "memory" / "memory.json").read_text())
    assert {row["seed"] for row in tables["Hits@10 of every training"]} == {0, 1, 7}
    assert {row["seeds"] for row in tables["Every metric of every cell"]} == {3}


def test_the_command_writes_tables_and_figures(plan_file, tmp_path):
    out = tmp_path / "out"
    done = CliRunner().invoke(make_app(), ["plan", str(plan_file), "--out", str(out)])
    assert done.exit_code == 0, done.output
    study = out / "studies" / "memory"
    tables = json.loads((study / "memory.json").read_text())
    [terms] = [rows for title, rows in tables.items() if title.startswith("What Hits@10 is made of")]
    assert terms[0]["formula"].startswith("[H(base, p) − H(base, r)]")
    [row, *_] = next(rows for title, rows in tables.items() if title.startswith("Pearson"))
    assert row["base pretrained"] == pytest.approx(1.0)
    assert "no sample" in row["note"]
    assert row["recipe"].startswith("pearson|data:base@")
    assert (study / "bars-reader.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("graph/base", "graph/virtual-e"), ("runs.blind.data: ", "'graph/virtual-e'")),
        (("knows: 0.0", "nose: 0.0"), ("plan.yaml:4: runs.other.nose: ", "--nose")),
        (("line: blind", "line: blond"), ("studies.memory.line: ", "'blond'", "blind")),
        (("anonymised-er,", "anonymous-er,"), ("plan.yaml:1: data.graph.worlds", "anonymous-er")),
        (("graph: {data: graph", "graph: {date: graph"), ("plan.yaml:1: ", "missing")),
        (("predictor: blind", "predictor: TransD2"), ("runs.blind: ", "'TransD2'")),
        (("knows: 0.0", "asking: {knows: 0.0}"), ("runs.other: asking: ", "knows", "expected one of nothing")),
        (("predictor: blind,", "predictor: simkgc, weights: none, asking: {nose: 1},"), ("asking: ", "rerank_hops")),
        (("{predictor: blind, data: graph/base}", "blind"), ("runs.blind: ", "'blind'")),
        (("random_from: reader", "random_from: rider"), ("random_from: ", "'rider'", "reader")),
        (("predictor: blind,", "predictor: blind, probe: statement,"), ("runs.blind.probe: ",)),
        (("predictor: blind,", "predictor: blind, matrix: {epochs: [1, 2]},"), ("memory.runs: ", "epochs=2", "each:")),
        (("predictor: blind,", "predictor: blind, matrix: {seed: [0, -1]},"), ("runs.blind.matrix.seed: ", "0", "-1")),
        (("predictor: blind", "predicter: blind"), ("runs.blind.predicter: ", "did you mean predictor")),
        (("predictor: blind,", "probe: statement,"), ("runs.blind: ", "models:")),
        ((READER + OTHER + BLIND, ""), "runs"),
    ],
)
def test_a_wrong_plan(plan_file, tmp_path, change, message):
    plan_file.write_text(PLAN.replace(*change))
    with pytest.raises(BadInput, match=mentions(message)):
        grid(plan_file, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_another_plan_in_the_same_folder(plan_file, tmp_path):
    """Other settings need --redo, also those of a predictor that the plan had dropped; a plan may grow."""
    out = tmp_path / "out"
    grid(plan_file, out)
    plan_file.write_text(PLAN.replace("knows: 0.0", "knows: 0.5"))
    with pytest.raises(BadInput, match=r"training\.knows: there 0\.0, here 0\.5"):
        grid(plan_file, out)
    plan_file.write_text(PLAN.replace(BLIND, "").replace("line: blind, ", ""))
    grid(plan_file, out)
    plan_file.write_text(PLAN.replace("predictor: blind,", "predictor: blind, learning_rate: 0.5,"))
    for parts in (WorkerOptions(), WorkerOptions(part="1/2")):
        with pytest.raises(BadInput, match=r"training\.learning_rate"):
            grid(plan_file, out, parts)
    _, made = grid(plan_file, out, redo=True)
    assert finished(made) == 10
    plan_file.write_text(PLAN.replace("fully-anonymised-erd]", "fully-anonymised-erd, virtual-e]"))
    assert finished(grid(plan_file, out, redo=True)[1]) == 4 * 3 + 1


def test_fences_by_hand():
    """Quartiles of 0, 1, 2, 3, 10 are 1 and 3, the range between them 2: the fences stand at −2 and 6."""
    assert tukey_fences([0, 1, 2, 3, 10]) == (-2.0, 6.0)
    assert tukey_fences([3, 3, 3]) == (3, 3)  # each value is on both
    with pytest.raises(ValueError, match="NaN"):
        tukey_fences([1, math.nan])


def test_curves_are_held_at_their_last_value():
    """(1, 2, 2) after holding against (1, 2, 3): r = 1/√(2/3 · 2)·… worked out: cov 1, norms √(2/3) and √2: 0.8660."""

    def curve(init, world, *hits):
        return Curve(Cell("m", init, world), np.arange(1, len(hits) + 1), np.array(hits))

    curves = [curve("pretrained", "a", 1.0, 2.0), curve("pretrained", "b", 1.0, 2.0, 3.0), curve("random", "a", 0.5)]
    matrix = correlations(curves)
    assert matrix[0, 1] == pytest.approx(1 / math.sqrt(2 / 3 * 2))
    assert np.isnan(matrix[2]).all()
    falling = correlations([curve("pretrained", "a", 1.0, 2.0, 3.0), curve("random", "a", 0.3, 0.2, 0.1)])
    assert falling[0, 1] == pytest.approx(-1)


def test_a_curve_that_is_not_validated_every_epoch():
    """Validated after epochs 2 and 4: in epoch 1 the first value is taken, in epochs 3 and 5 the one before."""
    held = Curve(Cell("m", "", "base"), np.array([2, 4]), np.array([0.1, 0.3])).held(5)
    assert held.tolist() == [0.1, 0.1, 0.1, 0.3, 0.3]


def test_a_cell_without_ranks_does_not_end_the_report(plan_file, tmp_path, monkeypatch):
    rank = Reader.rank

    def nan(self, links, top, keep_scores=False):
        found = rank(self, links, top, keep_scores)
        if isinstance(self.options, BlindOptions):
            for one in found:
                one.ranks, one.unscored = None, "the model's score of the right answer is not a number"
        return found

    monkeypatch.setattr(Reader, "rank", nan)
    result = analysed(*grid(plan_file, tmp_path / "out"))
    [blind] = [line for line in result.cells if line.cell.model == "blind"]
    assert blind.hits is None
    assert "no ranks to compare" in blind.why
    assert sum(line.hits is not None for line in result.cells) == 9


def test_a_training_that_came_to_nothing_is_tried_anew(plan_file, tmp_path, monkeypatch):
    train, out = Reader.train, tmp_path / "out"

    def nan(self, folder, progress):
        raise NotANumber("the loss is nan")

    monkeypatch.setattr(Reader, "train", nan)
    assert finished(grid(plan_file, out)[1]) == 0
    monkeypatch.setattr(Reader, "train", train)

    def killed(folder: Path, **how: bool) -> None:
        if "predictors" in folder.parts:
            assert list(out.glob(".steps/**/failed.json")), "another part could begin in what is being removed"
            raise KeyboardInterrupt

    with monkeypatch.context() as while_tidying:
        while_tidying.setattr("shutil.rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            grid(plan_file, out, retry_failed=True)
    assert finished(grid(plan_file, out, retry_failed=True)[1]) == 10


@pytest.mark.slow
def test_a_killed_process_takes_no_other_cell_with_it(plan_file, tmp_path):
    """Real processes: they know nothing of the kinds made up here, so the plan is of embeddings."""
    pytest.importorskip("pykeen")
    runs = "".join(f"  m{n}: {{predictor: TransE, epochs: {n + 2}, patience: 1}}\n" for n in range(3))
    plan_file.write_text(f"data: [graph]\nruns:\n{runs}")

    def kill_one():
        while not (children := multiprocessing.active_children()):
            time.sleep(0.05)
        os.kill(children[0].pid, signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    _, made = grid(plan_file, tmp_path / "out", WorkerOptions(workers=2))
    killer.join()
    failed = [state.failed for state in made.states if state.failed]
    assert len(failed) == 1
    assert "ended with code -9" in failed[0]


@pytest.mark.slow
def test_a_killed_study_leaves_no_training_behind(plan_file, tmp_path):
    pytest.importorskip("pykeen")
    plan_file.write_text("data: [graph]\nruns:\n  m: {predictor: TransE, epochs: 10000000, patience: null}\n")
    out = tmp_path / "out"
    code = "import sys; from fathom.cli import make_app; make_app()(sys.argv[1:])"
    typed = [sys.executable, "-c", code, "plan", str(plan_file), "--out", str(out), "--workers", "2"]
    study = subprocess.Popen(typed, process_group=0)
    waits_for(lambda: list(out.rglob("checkpoint.pt")))
    study.terminate()
    study.wait()
    waits_for(lambda: not processes_of(study.pid))


def waits_for(there, seconds=120):
    end = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)


def processes_of(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_worlds_keep_the_questions(plan_file, tmp_path):
    plan, _ = grid(plan_file, tmp_path / "out")
    worlds = [read(folder) for folder in {step.data for step in plan.steps}]
    assert len(worlds) == 3
    assert len({tuple(query.fact_id for query in world.queries) for world in worlds}) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda made: made["source"].update(content_hash="0"), ("worlds/graph/anonymised-er: ", "another graph (0,")),
        (lambda made: made.update(seed=3), ("worlds/graph/anonymised-er: ", "seed 3", "expected 0")),
        (lambda made: made["options"].pop("sought"), ("earlier version", "sought", "delete")),
    ],
)
def test_worlds_made_otherwise_are_not_laid_beside_others(plan_file, tmp_path, change, message):
    out = tmp_path / "out"
    worlds = out / "worlds" / "graph"
    build_worlds(read(plan_file.parent / "graph").graph, worlds, ["anonymised-er"])
    file = worlds / "anonymised-er" / "manifest.json"
    made = json.loads(file.read_text())
    change(made)
    file.write_text(json.dumps(made))
    with pytest.raises(BadInput, match=mentions(message)):
        grid(plan_file, out)
    assert not (worlds / "base").exists()
    assert not (out / "predictors").exists()


def test_a_plan_may_let_relations_keep_their_names(plan_file, tmp_path):
    """Of the paper's two graphs, FB15k-237 has relations that can take no other's name."""
    out = tmp_path / "out"
    (tmp_path / "graph" / "relation2text.txt").write_text("p\tnear\nq\tnear\nr\tnear\ns\tfar\n")
    text = f"data: {{graph: {{data: graph, worlds: virtual-r, relax: true}}}}\nruns:\n{READER}"
    plan_file.write_text(text.replace("true", "false"))
    with pytest.raises(BadInput, match=mentions("4 relations", "relax: true")):
        grid(plan_file, out)
    plan_file.write_text(text)
    assert finished(grid(plan_file, out)[1]) == 2
    manifest = json.loads((out / "worlds" / "graph" / "virtual-r" / "manifest.json").read_text())
    assert manifest["counts"]["relations_kept"]
    plan_file.write_text(text.replace("true", "false"))
    with pytest.raises(BadInput, match="relax: there True, here False"):
        grid(plan_file, out)


def test_a_plan_says_which_mentions_are_exchanged(plan_file, tmp_path):
    """As the paper does, or with inflected forms; worlds that exchanged others are not taken."""
    out = tmp_path / "out"
    text = f"data: {{graph: {{data: graph, worlds: anonymised-e, sought: names}}}}\nruns:\n{READER}"
    plan_file.write_text(text)
    assert finished(grid(plan_file, out)[1]) == 2
    file = out / "worlds" / "graph" / "anonymised-e" / "manifest.json"
    manifest = json.loads(file.read_text())
    assert manifest["options"]["sought"] == "names"
    plan_file.write_text(text.replace("names", "all"))
    with pytest.raises(BadInput, match=mentions("sought")):
        grid(plan_file, out)
    plan_file.write_text(text.replace("worlds: anonymised-e", "worlds: [anonymised-e, anonymised-r]"))
    manifest["options"]["sought"] = "all"
    file.write_text(json.dumps(manifest))
    with pytest.raises(BadInput, match=mentions("anonymised-e", "--sought names")):
        grid(plan_file, out)


# --- several processes with --part


TRANSE = """
data: {graph: {data: graph, worlds: [base, anonymised-er]}}
runs:
  m: {predictor: TransE, epochs: 6, validate_every: 2, patience: null, dimension: 8, matrix: {seed: [0, 1]}}
studies: [memory]
"""


@pytest.mark.slow
def test_parts_share_the_cells_of_a_study(plan_file, tmp_path):
    """Side by side: each cell made once, all files but for times those of one process; the last one reports."""
    pytest.importorskip("pykeen")
    plan_file.write_text(TRANSE)
    plan, _ = grid(plan_file, tmp_path / "alone")
    typed = ["plan", str(plan_file), "--out", str(tmp_path / "r"), "--part"]
    parts = [ForkedCall(command_line, *typed, f"{part}/2", said=tmp_path / f"said-{part}") for part in (1, 2)]
    codes, said = zip(*(part.ended(300) for part in parts), strict=True)
    assert codes == (0, 0)
    ends = [line for text in said for line in text.splitlines() if line.startswith("[")]
    made = [line.partition("] ")[2].partition(" (")[0] for line in ends]
    assert sorted(made) == sorted(run.name for run in plan.runs)
    assert any("Hits@10" in text for text in said)
    assert kept(tmp_path / "r") == kept(tmp_path / "alone")
    assert not [left for name in (AT_WORK, CLAIMS) for left in (tmp_path / "r").rglob(name)]


def test_a_part_leaves_what_another_has_in_hand(plan_file, tmp_path):
    """And takes over what nobody has, also of parts that never came; without --part the rest is made."""
    out = tmp_path / "out"
    typed = ["plan", str(plan_file), "--out", str(out)]
    [step] = [one for one in read_plan(plan_file, out).steps if str(one) == "reader/graph/base/init=random"]
    with Claims(step.record).claimed(AT_WORK):
        done = CliRunner().invoke(make_app(), [*typed, "--part", "1/3"])
    assert done.exit_code == 0, done.output
    assert f"{out}: 9 of 10 runs" in done.output.replace("\n", " ")
    assert not (out / "studies").exists()
    assert CliRunner().invoke(make_app(), typed).exit_code == 0
    assert (out / "studies" / "memory" / "memory.json").exists()


def test_a_part_is_no_crew(plan_file, tmp_path):
    out = tmp_path / "out"
    for more in ({"workers": 2}, {"engine": "ray"}):
        with pytest.raises(BadInput, match=mentions("--part", "1", "2", "--engine", "--workers")):
            grid(plan_file, out, WorkerOptions(part="1/2", **more))
    wrong = CliRunner().invoke(make_app(), ["plan", str(plan_file), "--out", "o", "--part", "3/2"])
    assert "--part" in str(wrong.exception)
    assert isinstance(wrong.exception, BadInput)
    with exclusive_folder(out), pytest.raises(BadInput, match="at work here"):
        grid(plan_file, out, WorkerOptions(part="1/2"))
    with shared_folder(out), pytest.raises(BadInput, match="at work here"):
        grid(plan_file, out)
    assert not out.exists()
