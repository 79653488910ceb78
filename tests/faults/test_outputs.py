"""Nothing that Fathom did not write is replaced: every command, with every option that says where output goes.

Commands and options are found from the option models. A new command needs a line in ``CALLS``, or a test fails.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from fathom.base.errors import BadInput
from fathom.data import formats
from fathom.store.files import OWNERS
from fathom.store.outputs import RECORD, remove_written, write_output
from tests.cli.test_cli_help import ALL
from tests.conftest import build, tiny_tokenizer
from tests.faults.conftest import SHAPE
from tests.store.test_foreign_files import OLD, write

OUTPUTS = ("out", "output")
RUN, OTHER, MODEL, FACTS, GRAPH, LINK = "run", "other", "model", "facts", "graph", "link"
GEOGRAPHY = ("--data", "geography")
ONE_RUN = dict.fromkeys(("ontology", "length-bias"), (RUN,))
CALLS: dict[str, tuple[str, ...]] = {
    "demo": ("--planted",),
    "plan": ("plan.yaml",),
    "validate": (MODEL, *GEOGRAPHY),
    "watch": (MODEL, *GEOGRAPHY),
    "merge": (RUN, OTHER),
    "import": ("results", *GEOGRAPHY),
    "export lm-eval": (FACTS,),
    "export every-eval-ever": (RUN,),
    "metrics": (RUN,),
    "compare": (RUN, OTHER),
    "diff": (RUN, OTHER),
    "report": (RUN,),
    "plot": (RUN,),
    "plant": GEOGRAPHY,
    "model fetch": ("SmolLM2-135M-Instruct",),
    "data sample": (GRAPH,),
    "data examples": (),
    "data fetch": ("mine", "--url", "http://127.0.0.1:1/mine.tsv"),
    "build cloze": ("--input", "texts.txt", "--entities", "names.txt"),
    "build ontology": ("--input", "town.ttl"),
    "build bear": ("--plan", "plan.yaml", "--input", "texts.txt"),
    "build choices": ("--data", FACTS),
    "build invented": (),
    "build worlds": ("--data", GRAPH),
    "kgc train pykeen": ("--model", "transe", "--data", GRAPH),
    "kgc evaluate": ("--model", LINK, "--data", GRAPH),
    "kgc pretrain": ("--data", GRAPH),
}
"""Arguments with which a command starts its work, but for its output."""
PROBE = ("--model", MODEL, *GEOGRAPHY, "--limit", "2")
STUDY = (RUN, OTHER)


def outputs() -> list[tuple[str, str]]:
    """Every command with each of its options for output, as typed."""
    return [
        (called.removeprefix("fathom "), max(param.opts, key=len))
        for called, command in sorted(ALL.items())
        for param in getattr(command, "params", ())
        if param.name in OUTPUTS and param.param_type_name == "option"
    ]


def call_of(command: str) -> tuple[str, ...]:
    group, _, name = command.partition(" ")
    if command in CALLS:
        return CALLS[command]
    if group == "probe":
        return PROBE
    if command.startswith("kgc train "):
        return ("--weights", MODEL, "--data", GRAPH)
    has_model = any(param.name in ("model", "models") for param in ALL[f"fathom {command}"].params)
    assert group == "study", f"fathom {command} has an output and no line in CALLS"
    return PROBE if has_model else ONE_RUN.get(name, STUDY)


@pytest.fixture(scope="module")
def desk(tmp_path_factory) -> Path:
    """Inputs of all kinds, and a folder of the user's with files of every name that outputs have."""
    folder = tmp_path_factory.mktemp("desk")
    for name in (RUN, OTHER):
        shutil.copytree(OLD / "statement-causal", folder / name)
    shutil.copytree(OLD / "links", folder / LINK)
    shutil.copytree(formats.EMBEDDED["geography"], folder / FACTS)
    (folder / GRAPH).mkdir()
    write(folder / GRAPH, "kg")
    build("GPT2LMHeadModel", **SHAPE).save_pretrained(folder / MODEL)
    tiny_tokenizer().save_pretrained(folder / MODEL)
    for name in ("plan.yaml", "texts.txt", "names.txt", "town.ttl"):
        (folder / name).write_text("a: b\n")
    (folder / "results").mkdir()
    names = ["mine", *(called.split()[-1] for called in ALL), "runs", "memory", "correlations"]
    (folder / "mine").mkdir()
    for name in names:
        for ending in ("json", "csv", "md", "png", "html"):
            (folder / "mine" / f"{name}.{ending}").write_text("mine")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_there_are_outputs():
    assert len(outputs()) > 40
    assert {("report", "--out"), ("metrics", "--out"), ("compare", "--out"), ("plan", "--out")} <= set(outputs())


@pytest.mark.parametrize(("command", "option"), outputs(), ids=[" ".join(pair) for pair in outputs()])
def test_nothing_else_is_replaced(desk, fathom, monkeypatch, tmp_path, command, option):
    """Each place in turn: files and folders of a run, a model, data, inputs, and files of the user's own."""
    here = Path(shutil.copytree(desk, tmp_path / "desk"))
    monkeypatch.chdir(here)
    monkeypatch.setattr("fathom.plans.demo.run_planted_demo", lambda *_: "")  # minutes of training
    before = contents(here)
    places = (RUN, f"{RUN}/manifest.json", f"{MODEL}/config.json", f"{GRAPH}/train.tsv", "mine", "mine/compare.md")
    for place in places:
        code, _, err = fathom(*command.split(), *call_of(command), option, place)
        after = contents(here)
        assert {name: after.get(name) for name in before} == before, f"{option} {place}: {err}"
        assert "unexpected" not in err, err
        assert code or place in (RUN, "mine"), f"{option} {place} was accepted"
        for name in after.keys() - before.keys():
            (here / name).unlink()


# ------------------------------------------------------------------------------------------------ what is replaced


@pytest.mark.parametrize(("command", "out", "file"), [("metrics", "", "summary.md"), ("report", "r.html", "r.html")])
def test_overwrite_replaces_a_file_of_the_user(desk, fathom, monkeypatch, tmp_path, command, out, file):
    monkeypatch.chdir(desk)
    place = tmp_path / file
    place.write_text("mine")
    assert fathom(command, RUN, "--out", tmp_path / out)[0] == 2
    assert place.read_text() == "mine"
    assert fathom(command, RUN, "--out", tmp_path / out, "--overwrite")[0] == 0
    assert fathom(command, RUN, "--out", tmp_path / out)[0] == 0  # its own


@pytest.mark.parametrize("name", OWNERS)
def test_files_of_folders_are_not_overwritten_either(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(BadInput, match=name):
        write_output(tmp_path / name, "new", overwrite=True)
    assert (tmp_path / name).read_text() == "mine"


def test_tables_replace_their_own_but_not_what_the_user_changed(fathom, desk, monkeypatch, tmp_path):
    monkeypatch.chdir(desk)
    for _ in range(2):
        assert fathom("compare", RUN, OTHER, "--out", tmp_path / "tables")[0] == 0
    for other in ("--by relation", ""):
        assert fathom("diff", RUN, OTHER, *other.split(), "--out", tmp_path / "tables")[0] == 0
    note = tmp_path / "tables/compare.md"
    note.write_text(f"{note.read_text()}\nmy note\n")
    code, _, err = fathom("compare", RUN, OTHER, "--out", tmp_path / "tables")
    assert (code, err.count("\n"), "--overwrite" in err) == (2, 1, True)
    assert note.read_text().endswith("my note\n")
    assert fathom("compare", RUN, OTHER, "--out", tmp_path / "tables", "--overwrite")[0] == 0


def test_a_kill_between_record_and_file(tmp_path):
    """The record then has a content that the file has not got yet."""
    write_output(tmp_path / "a", "one")
    record = json.loads((tmp_path / RECORD).read_text())
    record["a"].append("0" * 64)
    (tmp_path / RECORD).write_text(json.dumps(record))
    write_output(tmp_path / "a", "two")
    assert (tmp_path / "a").read_text() == "two"


def test_only_files_of_fathom_are_removed(tmp_path):
    write_output(tmp_path / "studies/one/a.md", "one")
    write_output(tmp_path / "studies/two/a.md", "two")
    (tmp_path / "studies/two/note.txt").write_text("mine")
    remove_written(tmp_path / "studies")
    assert contents(tmp_path) == {"studies/two/note.txt": b"mine"}
    assert not (tmp_path / "studies/one").exists()
