"""What Python shows of Fathom's objects: one short line each, whatever they hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import fathom
from fathom.base.reading import first_few
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import CandidateSet
from fathom.engine.models.server import ChatServer
from fathom.results.tables import Table, render, to_html
from fathom.store.folder import RunFolder
from tests.answerers import answered, constant, world
from tests.conftest import build, make_local
from tests.data.test_knowledge import small


def test_a_query_set_is_one_line():
    shown = repr(fathom.read_data("geography"))
    expected = "781 queries, 4 relations: capital, continent, currency, language, of a graph of 907 triples"
    assert shown == f"<QuerySet 'geography': {expected}>"


def test_a_query_set_of_a_graph_tells_its_graph(tmp_path):
    shown = repr(fathom.read_data(small(tmp_path / "g")))
    assert shown.startswith("<GraphQuerySet 'g': ")
    assert "of a graph of " in shown
    assert len(shown) < 300


def test_graphs_and_candidates():
    entities = pa.table({"id": ["a", "b"], "name": ["A", "B"], "aliases": [[], []], "description": ["", ""]})
    rows = np.zeros(5, np.int32)
    graph = KnowledgeGraph(
        entities, pa.table({"id": ["r"]}), rows, rows, rows, {"train": range(3), "test": range(3, 5)}
    )
    assert repr(graph) == "<KnowledgeGraph: 2 entities, 1 relations, 5 triples (train 3; test 2)>"
    many = tuple(f"e{number}" for number in range(2000))
    assert repr(CandidateSet("x", many, many)) == (
        "<CandidateSet 'x': 2,000 candidates: e0, e1, e2, e3, e4, … (2,000 in all)>"
    )


def test_names_that_steer_a_terminal_do_not():
    assert first_few(["\x1b[2Ja", "b"]) == "�[2Ja, b"
    assert "\x1b" not in repr(CandidateSet("\x1b", ("a",), ("\x1b",)))


def test_tables_and_what_is_told_in_them():
    table = Table(("a", "b"), (("x" * 5000, 1),), title="Accuracy")
    assert repr(table) == "<Table 'Accuracy': 1 rows of a, b>"


@pytest.fixture
def run(tmp_path) -> RunFolder:
    return answered(tmp_path / "run", constant, world([[0]] * 10))


def test_a_result_tells_where_it_is_and_how_far(run):
    result = fathom.open_run(run.path)
    of = run.manifest["identity"]
    expected = f"{of['probe']} probe of {of['model']['name']} on {of['data']['name']}, finished"
    assert repr(result) == f"<Result in '{run.path}': {expected}; summary() has the numbers>"
    assert repr(run) == f"<RunFolder '{run.path}': {expected}>"
    first = sorted((run.path / "predictions").iterdir())[0]
    first.unlink()
    assert repr(run).endswith(f", {len(run.manifest['plan']) - 1} of {len(run.manifest['plan'])} shards>")
    shown = repr(result.summary())
    assert shown.startswith("<Summary: ")
    assert len(shown) < 300


def test_a_folder_that_is_no_run_can_be_shown(tmp_path):
    assert repr(RunFolder(tmp_path / "x")) == f"<RunFolder '{tmp_path / 'x'}': no run yet>"
    (tmp_path / "manifest.json").write_text("{")
    assert repr(RunFolder(tmp_path)) == f"<RunFolder '{tmp_path}': a run that cannot be read>"


def test_models():
    model = make_local(build("GPT2LMHeadModel"))
    expected = f"causal GPT2LMHeadModel, torch.float32, {model.parameters:,} parameters, cpu"
    assert repr(model) == f"<LocalModel 'GPT2LMHeadModel': {expected}>"
    assert model.attention_kernel == "sdpa"


def test_a_server():
    server = ChatServer.__new__(ChatServer)
    server.base_url, server.model = "https://host.example/v1", "gpt"
    assert repr(server) == "<ChatServer 'gpt' at https://host.example/v1>"


def test_a_notebook_shows_tables_escaped(run):
    table = Table(("<b>", "n"), (("<script>", 1),), title="<i>")
    assert "<script>" not in table._repr_html_()
    assert "&lt;script&gt;" in table._repr_html_()
    assert "<table" in fathom.open_run(Path(run.path))._repr_html_()


def test_cells_say_yes_or_no_and_numbers_have_a_class():
    table = Table(("name", "n", "right"), (("a", 1.5, True), ("b", 2.5, False)), formats={"n": ".1f"})
    lines = render([table], "text").splitlines()
    assert [line.split() for line in lines[-2:]] == [["a", "1.5", "yes"], ["b", "2.5", "no"]]
    assert '<td class="number">1.5</td>' in to_html(table)
    assert '<td class="number">a' not in to_html(table)
