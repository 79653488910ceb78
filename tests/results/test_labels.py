"""Relations whose ids are addresses are shown by their labels; programs get the addresses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from fathom.data.queries import relation_labels
from fathom.results.rows import read_declarations
from fathom.results.tables import Plot, write_picture
from fathom.store.folder import RunFolder
from tests.cli.test_cli import gpt2, save

LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
NAMES = {"P36": "capital", "P30": "continent", "a": "France", "b": "Paris", "c": "Italy", "d": "Rome", "e": "Europe"}
TRIPLES = ("a P36 b", "c P36 d", "a P30 e", "c P30 e")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on triples whose relations have labels, and a copy without the last shard."""
    from fathom.api import probe

    folder = tmp_path_factory.mktemp("labels")
    lines = [f'<http://w/{id_}> {LABEL} "{name}" .' for id_, name in NAMES.items()]
    lines += [" ".join(f"<http://w/{word}>" for word in triple.split()) + " ." for triple in TRIPLES]
    (folder / "facts.nt").write_text("\n".join(lines) + "\n")
    model = save(folder / "model", gpt2())
    probe("statement", str(model), folder / "facts.nt", folder / "runs" / "run", shots=1)
    return folder / "runs" / "run"


def test_tables_have_labels_and_json_has_ids(fathom, run: Path) -> None:
    for form in ("text", "md", "latex"):
        code, shown, _ = fathom("metrics", run, "--by", "relation,relation+template", "--format", form)
        assert (code, "continent" in shown, "capital" in shown) == (0, True, True)
        table = shown.partition("recipe:")[0]
        assert "http://" not in table
    tables = json.loads(fathom("metrics", run, "--by", "relation", "--format", "json")[1])
    assert {row["relation"] for row in tables["By relation"]} == {"http://w/P36", "http://w/P30"}
    assert "http://w/P36" in fathom("metrics", run, "--by", "relation", "--format", "csv")[1]
    errors = fathom("metrics", run, "--errors", "4")[1]
    assert "http://" not in errors


def test_a_leaderboard_a_figure_and_the_report_have_labels(run: Path, tmp_path: Path) -> None:
    for library in ("altair", "itables", "jinja2", "matplotlib"):
        pytest.importorskip(library, reason="needs the extra report")
    from fathom.studies.report.figure import write_figure
    from fathom.studies.report.page import report
    from fathom.studies.report.serve import leaderboard

    page = leaderboard(run.parent, "relation")
    assert (page.count("capital"), page.count("continent"), "http://w/" in page) == (1, 1, False)
    figure = write_figure([run], tmp_path / "figure.svg", by="relation").read_text()
    assert ("capital" in figure, "http://w/" in figure) == (True, False)
    shown = report([run], tmp_path / "report.html").path.read_text()
    assert ("<bdi>capital" in shown, "http://w/P" in shown) == (True, False)


def test_the_manifest_has_the_labels(run: Path) -> None:
    declared = read_declarations(RunFolder(run).manifest)
    assert declared.relations == {"http://w/P36": "capital", "http://w/P30": "continent"}
    assert declared.shown("domain", "http://w/P36") == "http://w/P36"


def test_a_label_that_relations_share_or_that_is_empty_is_not_shown() -> None:
    """Two relations would be one row; an id that is no address, such as P36, is a name that readers know."""
    named = {
        "http://a": "name",
        "http://b": "name",
        "http://c": " ",
        "http://d": "P36",
        "P36": "capital",
        "http://e": "e",
    }
    assert relation_labels(named) == {"http://e": "e"}


def test_a_study_shows_labels(fathom, run: Path, tmp_path: Path) -> None:
    steps = [tmp_path / f"step-{number}" for number in (1, 2)]
    for step in steps:
        shutil.copytree(run, step)
    code, shown, said = fathom("study", "learning", *steps, "--out", tmp_path / "out")
    assert code == 0, said
    saved = (tmp_path / "out" / "learning.md").read_text(encoding="utf-8")
    for text in (shown, saved):
        assert ("capital" in text, "http://w/P36" in text.partition("recipe")[0]) == (True, False)


def test_messages_and_unfinished_runs_have_labels(fathom, run: Path, tmp_path: Path) -> None:
    """Each message names the relation of address http://w/P36 as "capital"."""
    import fathom as package

    facts = run.parents[1] / "facts.nt"
    asked = ("probe", "statement", "--model", run.parents[1] / "model", "--data", facts, "--out", tmp_path / "run")
    for flags in (["--reverse"], ["--templates", "0"], ["--directions", "head", "--templates", "0"]):
        code, _, said = fathom(*asked, *flags)
        assert (code, "capital" in said, "http://w/P36" in said) == (2, True, False), said
    assert "capital" in repr(package.read_data(facts))
    half = tmp_path / "half"
    shutil.copytree(run, half)
    for file in half.rglob("part-*.parquet"):
        file.unlink()
    shown = fathom("show", half)[1]
    assert ("capital" in shown, "http://w/P36" in shown.partition("relations missing")[2]) == (True, False)


def test_a_label_and_its_id_are_one_run(fathom, run: Path, tmp_path: Path) -> None:
    facts = run.parents[1] / "facts.nt"
    asked = ["probe", "statement", "--model", run.parents[1] / "model", "--data", facts, "--shots", "1"]
    for name in ("capital", "http://w/P36"):
        code, _, said = fathom(*asked, "--relations", name, "--out", tmp_path / "one")
        assert code == 0, said
    manifest = RunFolder(tmp_path / "one").manifest
    assert manifest["identity"]["options"]["relations"] == ["http://w/P36"]


def test_a_label_of_a_relation_that_only_another_split_has(tmp_path: Path) -> None:
    """Labels are those of the split that is asked, which has the relation r2 alone."""
    import fathom as package
    from fathom.data.selection.filters import narrow
    from fathom.data.selection.options import Selection

    for split, relation in (("train", "r2"), ("test", "r1")):
        lines = [f"{head}\t{relation}\t{tail}" for head, tail in (("a", "b"), ("b", "c"), ("c", "a"))]
        (tmp_path / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    (tmp_path / "entity2text.txt").write_text("a\tone\nb\ttwo\nc\tthree\n")
    (tmp_path / "relation2text.txt").write_text("r1\tnext to\nr2\tthird from\n")
    found = narrow(package.read_data(tmp_path), Selection(split="train", relations=("third from",)))
    assert len(found.pool) == 3
    assert {query.relation for query in found.pool.queries()} == {"r2"}


def test_marks_of_a_picture_have_labels(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra report")
    names = ["http://w/P36", "P30"]
    plot = Plot("rows", lambda axes: axes.set_yticks(range(2), names), "step", "relation")
    write_picture(plot, tmp_path / "rows.svg", labels={"http://w/P36": "capital"})
    drawn = (tmp_path / "rows.svg").read_text()
    assert ("capital" in drawn, "http://w/P36" in drawn, "P30" in drawn) == (True, False, True)
