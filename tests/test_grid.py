"""The study grid on predictors that train in a blink: cells, resumption, failures, and what they add up to."""

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
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from fathom.building.worlds import build_worlds
from fathom.cli import make_app
from fathom.errors import BadInput, RunFailed
from fathom.formats import read
from fathom.links import LINKS, Kind
from fathom.links.base import Predictor, rank_links
from fathom.links.options import LinkTraining, TextTraining
from fathom.metrics.descriptive import tukey_fences
from fathom.models.base import Identity
from fathom.plans.grid import CellStep, read_plan, run_grid, states
from fathom.plans.options import WorkerOptions
from fathom.store.locks import AT_WORK, CLAIMS, Claims, exclusive_folder, shared_folder
from fathom.store.predictions import Scoring
from fathom.studies import memory, memory_tables
from fathom.studies.memory import Curve, correlations
from fathom.studies.memory_plan import Cell, cells_of
from fathom.training.loop import NotANumber
from tests.forked import ForkedCall, command_line
from tests.messages import mentions
from tests.sharing import kept

ENTITIES = [f"e{number:02d}" for number in range(40)]
PLAN = """
data: graph
worlds: [base, anonymised-er, fully-anonymised-erd]
line: blind
contrasts: [[reader, other]]
models:
  reader: {model: reader, weights: none}
  other: {model: reader, weights: none, knows: 0.0, random_from: reader}
  blind: {model: blind, worlds: base}
"""


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


def test_the_cells_of_a_plan(plan_file):
    cells = cells_of(read_plan(plan_file))
    assert cells[:4] == [
        Cell("reader", "pretrained", "base"),
        Cell("reader", "random", "base"),
        Cell("other", "pretrained", "base"),  # its random twin is the reader's
        Cell("blind", "", "base"),
    ]
    assert len(cells) == 3 * 3 + 1
    plan_file.write_text(PLAN.replace("knows: 0.0", "seconds: 0.5"))
    assert read_plan(plan_file).models["other"].seconds == 0.5


def test_a_study_finds_the_memory_that_is_there(plan_file, tmp_path):
    """The reader knows everything by true names: Hits@10 is 1 in base, 0 elsewhere; memory = (1 − 0) − (0 − 0)."""
    plan = read_plan(plan_file)
    found = run_grid(plan, tmp_path / "out")
    assert all(state.run is not None for state in found)
    result = memory.analyse(plan, found, tmp_path / "out")
    terms = {(term.model, term.name): term.value for term in result.terms}
    assert terms["reader", "memory of names (base)"].value == 1.0
    assert terms["other", "memory of names (base)"].value == 0.0
    assert terms["reader", "structure"].value == 0.0
    gaps = {(gap.model, gap.name): gap.value.value for gap in result.gaps}
    assert gaps["reader", "base"] == 1.0
    assert gaps["reader", "anonymised-er"] == 0.0
    contrasts = {one.name: one.value.value for one in result.contrasts}
    assert contrasts == {"base": 1.0, "anonymised-er": 0.0, "fully-anonymised-erd": 0.0}
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
    *_, init, world, _ = Path(self.identity.name).parts
    ids = [int(id_[1:]) for id_ in self.graph.entities.column("id").to_pylist()]
    known = KNOWN[world][init == "random"]
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
    plan_file.write_text(
        f"data: graph\nworlds: [{', '.join(KNOWN)}]\nmodels:\n  reader: {{model: reader, weights: none}}\n"
    )
    plan = read_plan(plan_file)
    result = memory.analyse(plan, run_grid(plan, tmp_path / "out"), tmp_path / "out")
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
    *tables, metrics, others = memory_tables.tables(result)
    assert all(row["recipe"].startswith("hits@10|data:") for table in tables for row in table.objects())
    assert "Hits@10" not in others.columns
    first = metrics.objects()[0]
    assert [first[name] for name in ("Hits@1", "Hits@3", "Hits@10", "MRR", "MR")] == [0, 1, 1, 0.5, 2]
    assert first["recipe"].startswith("hits@1, hits@3, hits@10, mrr, mean_rank|data:")


@pytest.mark.slow
def test_a_failed_cell_is_shown_and_the_rest_goes_on(plan_file, tmp_path, monkeypatch):
    plan, train = read_plan(plan_file), Reader.train

    def failing(self, folder, progress):
        if "/anonymised-er" in str(folder) and "other" in str(folder):
            raise RunFailed("the loss is nan in epoch 1, step 1")
        return train(self, folder, progress)

    monkeypatch.setattr(Reader, "train", failing)
    said = []
    found = run_grid(plan, tmp_path / "out", tell=said.append)
    failed = [state for state in found if state.failed]
    assert [state.cell for state in failed] == [Cell("other", "pretrained", "anonymised-er")]
    assert "failed: the loss is nan" in "\n".join(said)
    typed = ["kgc", "study", str(plan_file), "--out", str(tmp_path / "out"), "--report-only", "--format", "json"]
    assert "failed: the loss is nan" in CliRunner().invoke(make_app(), typed).output
    monkeypatch.setattr(Reader, "train", train)
    assert [state for state in run_grid(plan, tmp_path / "out") if state.failed] == failed  # not by itself
    assert all(state.run is not None for state in run_grid(plan, tmp_path / "out", retry_failed=True))


def test_a_study_goes_on_where_it_stopped(plan_file, tmp_path, monkeypatch):
    plan, train, trained = read_plan(plan_file), Reader.train, []

    def counting(self, folder, progress):
        trained.append(folder)
        if len(trained) == 3:
            raise KeyboardInterrupt
        return train(self, folder, progress)

    monkeypatch.setattr(Reader, "train", counting)
    with pytest.raises(KeyboardInterrupt):
        run_grid(plan, tmp_path / "out")
    assert sum(state.run is not None for state in states(plan, tmp_path / "out")) == 2
    run_grid(plan, tmp_path / "out")
    assert len(trained) == 10 + 1  # the third was begun twice
    run_grid(plan, tmp_path / "out")
    assert len(trained) == 11


@pytest.mark.slow
def test_a_study_of_one_seed_goes_on_with_more(plan_file, tmp_path, monkeypatch):
    """The cells of before stay what they are; further seeds have folders of their own, and their own options."""
    train, trained = Reader.train, []

    def counting(self, folder, progress):
        trained.append((self.options.seed, folder.relative_to(tmp_path / "out").parts[0]))
        return train(self, folder, progress)

    monkeypatch.setattr(Reader, "train", counting)
    run_grid(read_plan(plan_file), tmp_path / "out")
    before = {file: file.read_bytes() for file in (tmp_path / "out" / "cells").rglob("*.json")}
    plan_file.write_text(PLAN + "seeds: [0, 1, 7]\n")
    plan, said = read_plan(plan_file), []
    found = run_grid(plan, tmp_path / "out", tell=said.append)
    assert trained == [(0, "cells")] * 10 + [(1, "cells-1")] * 10 + [(7, "cells-7")] * 10
    assert said[0].startswith("[11/30] reader pretrained base seed 1")
    assert {file: file.read_bytes() for file in (tmp_path / "out" / "cells").rglob("*.json")} == before
    assert all(state.run is not None for state in found)
    names = {state.run.manifest["identity"]["model"]["name"] for state in found if state.cell.world == "base"}
    assert {"cells/reader/random/base/model", "cells-7/reader/random/base/model"} <= names
    seeds = {state.run.manifest["identity"]["seed"] for state in found}
    assert seeds == {0}, "all seeds are asked the same"
    result = memory.analyse(plan, found, tmp_path / "out")
    assert len(result.cells) == 10
    assert [one.cell.seed for one in result.cells[0].trainings] == [None, 1, 7]
    assert result.terms[0].noise.seeds == 3
    assert [curve.cell.seed for curve in result.curves["reader"]] == [None] * 6
    run_grid(plan, tmp_path / "out")
    assert len(trained) == 30


@pytest.mark.slow
def test_a_study_may_have_other_seeds_than_its_own(plan_file, tmp_path):
    out = tmp_path / "out"
    plan_file.write_text(PLAN + "seeds: 3,4\n")
    done = CliRunner().invoke(make_app(), ["kgc", "study", str(plan_file), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert {folder.name for folder in out.iterdir() if folder.is_dir()} == {"worlds", "cells-3", "cells-4", ".steps"}
    tables = json.loads((out / "memory.json").read_text())
    assert {row["seed"] for row in tables["Hits@10 of every training"]} == {3, 4}
    assert {row["seeds"] for row in tables["Every metric of every cell"]} == {2}
    assert "validation curves of seed 3" in (out / "correlations.md").read_text()


def test_the_command_writes_tables_and_figures(plan_file, tmp_path):
    out = tmp_path / "out"
    done = CliRunner().invoke(make_app(), ["kgc", "study", str(plan_file), "--out", str(out)])
    assert done.exit_code == 0, done.output
    tables = json.loads((out / "memory.json").read_text())
    [terms] = [rows for title, rows in tables.items() if title.startswith("What Hits@10 is made of")]
    assert terms[0]["formula"].startswith("[H(base, p) − H(base, r)]")
    assert {"memory.json", "memory.md", "correlations.csv"} <= {file.name for file in out.iterdir()}
    [row, *_] = next(iter(json.loads((out / "correlations.json").read_text()).values()))
    assert row["base pretrained"] == pytest.approx(1.0)
    assert "no sample" in row["note"]
    assert row["recipe"].startswith("pearson|data:base@")
    assert (out / "bars-reader.png").stat().st_size > 1000


@pytest.mark.slow
def test_what_programs_read_is_tables_alone(plan_file, tmp_path, monkeypatch):
    typed = ["kgc", "study", str(plan_file), "--out", str(tmp_path / "out"), "--format", "json"]
    first = CliRunner().invoke(make_app(), typed)
    assert first.exit_code == 0, first.output
    assert "[1/10] reader" in first.stderr
    told, kept = json.loads(first.stdout), [tmp_path / "out" / f"{name}.json" for name in ("memory", "correlations")]
    assert set(told) == {title for file in kept for title in json.loads(file.read_text())}
    monkeypatch.setattr("fathom.cli.plan.is_quiet", lambda: True)
    quiet = CliRunner().invoke(make_app(), typed)
    assert quiet.stdout == first.stdout
    assert "[1/10]" not in quiet.stderr


READER = "  reader: {model: reader"
LINE_TO_READER = f"line: blind\ncontrasts: [[reader, other]]\nmodels:\n{READER}"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("model: blind, worlds: base", "model: blind, worlds: virtual-e"), "blind: virtual-e"),
        (("knows: 0.0", "nose: 0.0"), ("other: ", "--nose")),
        (("line: blind", "line: blond"), ("line: ", "'blond'")),
        (("anonymised-er,", "anonymous-er,"), "anonymous-er"),
        (("data: graph", "date: graph"), ("plan.yaml:2: date: ", "mean data", "data: ")),
        (("data: graph", "data: ["), "not YAML"),
        (("model: blind, worlds", "model: TransD2, worlds"), ("blind: --model: ", "'TransD2'")),
        (("knows: 0.0", "asking: {knows: 0.0}"), ("other: asking: ", "knows", "expected one of nothing")),
        (("model: blind,", "model: simkgc, weights: none, asking: {nose: 1},"), ("blind: asking: ", "rerank_hops")),
        (("blind: {model: blind, worlds: base}", "blind: blind"), ("models.blind: ", "'blind'")),
        (("knows: 0.0, random_from: reader", "random_from: other"), "random_from: other "),
        (("line: blind", "seeds: [0, -1]"), ("seeds.1: ", "0", "-1")),
        (("line: blind", "seeds: [0, 3, 0]"), ("seeds: ", "twice: 0", "'[0, 3, 0]'")),
        (("line: blind", "seeds: some"), ("seeds.0: ", "integer")),
        ((LINE_TO_READER, f"seeds: 1\nmodels:\n{READER}, seed: 5"), "reader: seed: "),
    ],
)
def test_a_wrong_plan(plan_file, tmp_path, change, message):
    plan_file.write_text(PLAN.replace(*change))
    with pytest.raises(BadInput, match=mentions(message)):
        run_grid(read_plan(plan_file), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_another_plan_in_the_same_folder(plan_file, tmp_path):
    run_grid(read_plan(plan_file), tmp_path / "out")
    plan_file.write_text(PLAN.replace("knows: 0.0", "knows: 0.5"))
    with pytest.raises(BadInput, match="another plan"):
        run_grid(read_plan(plan_file), tmp_path / "out")
    plan_file.write_text(PLAN.replace("fully-anonymised-erd]", "fully-anonymised-erd, virtual-e]"))
    assert len(run_grid(read_plan(plan_file), tmp_path / "out")) == 4 * 3 + 1  # a plan may grow


def test_a_model_that_was_left_out_does_not_come_back_as_another(plan_file, tmp_path):
    """What is there of it would be reported as what the plan says now."""
    less = "\n".join(line for line in PLAN.splitlines() if not line.startswith("  blind") and "line:" not in line)
    for text in (PLAN, less):
        plan_file.write_text(text)
        run_grid(read_plan(plan_file), tmp_path / "out")
    noted = (tmp_path / "out" / "study.json").read_text()
    assert "cells/blind/only/base" in json.loads(noted)["steps"]
    plan_file.write_text(PLAN.replace("{model: blind,", "{model: blind, learning_rate: 0.5,"))
    for parts in (WorkerOptions(), WorkerOptions(part="1/2")):
        with pytest.raises(BadInput, match=r"blind\.learning_rate"):
            run_grid(read_plan(plan_file), tmp_path / "out", parts)
    assert (tmp_path / "out" / "study.json").read_text() == noted
    plan_file.write_text(PLAN)
    assert len(run_grid(read_plan(plan_file), tmp_path / "out")) == 10


def test_fences_by_hand():
    """Quartiles of 0, 1, 2, 3, 10 are 1 and 3, the range between them 2: the fences stand at −2 and 6."""
    fences = tukey_fences([0, 1, 2, 3, 10])
    assert (fences.low, fences.high) == (-2.0, 6.0)
    assert fences.outside.tolist() == [False, False, False, False, True]
    assert not tukey_fences([3, 3, 3]).outside.any()  # on both fences
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
    plan = read_plan(plan_file)
    result = memory.analyse(plan, run_grid(plan, tmp_path / "out"), tmp_path / "out")
    [blind] = [line for line in result.cells if line.cell.model == "blind"]
    assert blind.hits is None
    assert "no ranks to compare" in blind.why
    assert sum(line.hits is not None for line in result.cells) == 9


def test_a_training_that_came_to_nothing_is_tried_anew(plan_file, tmp_path, monkeypatch):
    plan, train = read_plan(plan_file), Reader.train

    def nan(self, folder, progress):
        raise NotANumber("the loss is nan")

    monkeypatch.setattr(Reader, "train", nan)
    assert all(state.failed for state in run_grid(plan, tmp_path / "out"))
    monkeypatch.setattr(Reader, "train", train)

    def killed(folder: Path, **how: bool) -> None:
        if folder.name == "model":
            assert list(tmp_path.glob("out/.steps/**/failed.json")), "another part could begin in what is being removed"
            raise KeyboardInterrupt

    with monkeypatch.context() as while_tidying:
        while_tidying.setattr("shutil.rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            run_grid(plan, tmp_path / "out", retry_failed=True)
    again = run_grid(plan, tmp_path / "out", retry_failed=True)
    assert not any(state.failed for state in again)


@pytest.mark.slow
def test_a_killed_process_takes_no_other_cell_with_it(plan_file, tmp_path):
    """Real processes: they know nothing of the kinds made up here, so the plan is of embeddings."""
    pytest.importorskip("pykeen")
    models = "".join(f"  m{n}: {{model: TransE, epochs: 2, patience: 1}}\n" for n in range(3))
    plan_file.write_text(f"data: graph\nworlds: [base]\nmodels:\n{models}")

    def kill_one():
        while not (children := multiprocessing.active_children()):
            time.sleep(0.05)
        os.kill(children[0].pid, signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    found = run_grid(read_plan(plan_file), tmp_path / "out", WorkerOptions(workers=2))
    killer.join()
    failed = [state.failed for state in found if state.failed]
    assert len(failed) == 1
    assert "ended with code -9" in failed[0]


@pytest.mark.slow
def test_a_killed_study_leaves_no_training_behind(plan_file, tmp_path):
    pytest.importorskip("pykeen")
    plan_file.write_text(
        "data: graph\nworlds: [base]\nmodels:\n  m: {model: TransE, epochs: 10000000, patience: null}\n"
    )
    out = tmp_path / "out"
    code = "import sys; from fathom.cli import make_app; make_app()(sys.argv[1:])"
    typed = [sys.executable, "-c", code, "kgc", "study", str(plan_file), "--out", str(out), "--workers", "2"]
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
    plan = read_plan(plan_file)
    run_grid(plan, tmp_path / "out")
    worlds = [read(tmp_path / "out" / "worlds" / world) for world in plan.worlds]
    assert len({tuple(query.fact_id for query in world.queries) for world in worlds}) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda made: made["source"].update(content_hash="0"), ("worlds/anonymised-er: ", "another graph (0,")),
        (lambda made: made.update(seed=3), ("worlds/anonymised-er: ", "seed 3", "expected 0")),
        (lambda made: made["options"].pop("sought"), ("earlier version", "sought", "delete")),
    ],
)
def test_worlds_made_otherwise_are_not_laid_beside_others(plan_file, tmp_path, change, message):
    plan = read_plan(plan_file)
    out = tmp_path / "out"
    build_worlds(read(plan.data).graph, out / "worlds", ["anonymised-er"])
    file = out / "worlds" / "anonymised-er" / "manifest.json"
    made = json.loads(file.read_text())
    change(made)
    file.write_text(json.dumps(made))
    with pytest.raises(BadInput, match=mentions(message)):
        run_grid(plan, out)
    assert not (out / "worlds" / "base").exists()
    assert not (out / "cells").exists()


def test_a_plan_may_let_relations_keep_their_names(plan_file, tmp_path):
    """Of the paper's two graphs, FB15k-237 has relations that can take no other's name."""
    (tmp_path / "graph" / "relation2text.txt").write_text("p\tnear\nq\tnear\nr\tnear\ns\tfar\n")
    plan_file.write_text("data: graph\nworlds: [virtual-r]\nmodels:\n  reader: {model: reader, weights: none}\n")
    with pytest.raises(BadInput, match=mentions("4 relations", "relax: true")):
        run_grid(read_plan(plan_file), tmp_path / "out")
    plan_file.write_text(plan_file.read_text() + "relax: true\n")
    found = run_grid(read_plan(plan_file), tmp_path / "out")
    assert all(state.run is not None for state in found)
    manifest = json.loads((tmp_path / "out" / "worlds" / "virtual-r" / "manifest.json").read_text())
    assert manifest["counts"]["relations_kept"]
    plan_file.write_text(plan_file.read_text().replace("relax: true", "relax: false"))
    with pytest.raises(BadInput, match="relax: there True, here False"):
        run_grid(read_plan(plan_file), tmp_path / "out")


# --- several processes with --part


TRANSE = """
data: graph
worlds: [base, anonymised-er]
seeds: [0, 1]
models:
  m: {model: TransE, epochs: 6, validate_every: 2, patience: null, dimension: 8}
"""


def test_parts_share_the_cells_of_a_study(plan_file, tmp_path):
    """Side by side: each cell made once, all files but for times those of one process; the last one reports."""
    pytest.importorskip("pykeen")
    plan_file.write_text(TRANSE)
    run_grid(read_plan(plan_file), tmp_path / "alone")
    typed = ["kgc", "study", str(plan_file), "--out", str(tmp_path / "r"), "--part"]
    parts = [ForkedCall(command_line, *typed, f"{part}/2", said=tmp_path / f"said-{part}") for part in (1, 2)]
    codes, said = zip(*(part.ended(300) for part in parts), strict=True)
    assert codes == (0, 0)
    ends = [line for text in said for line in text.splitlines() if line.startswith("[")]
    cells = [line.partition("] ")[2].partition(" (")[0] for line in ends]
    assert sorted(cells) == sorted(map(str, cells_of(read_plan(plan_file))))
    assert any("Hits@10" in text for text in said)
    made = {name: content for name, content in kept(tmp_path / "r").items() if "/" in name}  # without the report
    assert made == {name: content for name, content in kept(tmp_path / "alone").items() if "/" in name}
    assert not [left for name in (AT_WORK, CLAIMS) for left in (tmp_path / "r").rglob(name)]


def test_a_part_leaves_what_another_has_in_hand(plan_file, tmp_path):
    """And takes over what nobody has, also of parts that never came; without --part the rest is made."""
    out = tmp_path / "out"
    typed = ["kgc", "study", str(plan_file), "--out", str(out)]
    plan = read_plan(plan_file)
    with Claims(CellStep(plan, Cell("reader", "random", "base"), out).record).claimed(AT_WORK):
        done = CliRunner().invoke(make_app(), [*typed, "--part", "1/3"])
    assert done.exit_code == 0, done.output
    assert f"{out}: 9 of 10 cells" in done.output.replace("\n", " ")
    assert not (out / "memory.json").exists()
    assert CliRunner().invoke(make_app(), typed).exit_code == 0
    assert (out / "memory.json").exists()


def test_a_part_is_no_crew(plan_file, tmp_path):
    for more in ({"workers": 2}, {"engine": "ray"}):
        with pytest.raises(BadInput, match=mentions("--part", "1", "2", "--engine", "--workers")):
            run_grid(read_plan(plan_file), tmp_path / "out", WorkerOptions(part="1/2", **more))
    wrong = CliRunner().invoke(make_app(), ["kgc", "study", str(plan_file), "--out", "o", "--part", "3/2"])
    assert "--part" in str(wrong.exception)
    assert isinstance(wrong.exception, BadInput)
    with exclusive_folder(tmp_path / "out"), pytest.raises(BadInput, match="at work here"):
        run_grid(read_plan(plan_file), tmp_path / "out", WorkerOptions(part="1/2"))
    with shared_folder(tmp_path / "out"), pytest.raises(BadInput, match="at work here"):
        run_grid(read_plan(plan_file), tmp_path / "out")
    assert not (tmp_path / "out").exists()
