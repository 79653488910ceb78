"""A repeated command recognises its own output and leaves that of others alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from fathom.base.errors import BadInput, MadeBefore, RunFailed
from fathom.store.files import written_by_libraries
from fathom.store.locks import AT_WORK, exclusive_folder
from fathom.store.outputs import obstacles, signature_of, whole_folder
from tests.answerers import EVEN, answered, at_random, world
from tests.messages import mentioned, mentions


def make(out, made):
    if faults := obstacles(out, made):
        raise BadInput(faults)
    with whole_folder(out, made) as folder:
        (folder / "result").write_text("mine")


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.txt").write_text("a")
    return folder


def said(data, **more):
    return signature_of("build", {"seed": 0} | more, files=[data, "not/there"], digest="abc")


def test_the_same_again_is_nothing_to_do(tmp_path, data):
    make(tmp_path / "out", said(data))
    with pytest.raises(MadeBefore, match=mentions(tmp_path / "out")) as made:
        make(tmp_path / "out", said(data))
    assert made.value.exit_code == 0
    assert (tmp_path / "out" / "result").read_text() == "mine"


@pytest.mark.parametrize("change", ["option", "file", "new", "version", "unsigned", "damaged", "foreign", "file-there"])
def test_anything_else_is_in_the_way(tmp_path, data, change, monkeypatch):
    out, options = tmp_path / "out", {}
    make(out, said(data))
    if change == "option":
        options = {"seed": 1}
    elif change == "file":
        (data / "a.txt").write_text("ab")
    elif change == "new":
        (data / "b.txt").write_text("")
    elif change == "version":
        monkeypatch.setattr("fathom.store.outputs.VERSION", "0.0.0")
    elif change == "unsigned":
        (out / ".made").unlink()
    elif change == "damaged":
        (out / ".made").write_text("{")
    elif change == "foreign":
        (out / ".made").write_text(json.dumps([1]))
    else:
        out = out / "result"
    with pytest.raises(BadInput, match=mentions(out, "--out")):
        make(out, said(data, **options))


def test_an_empty_folder_is_nobodys(tmp_path, data):
    (tmp_path / "out").mkdir()
    make(tmp_path / "out", said(data))
    assert (tmp_path / "out" / "result").exists()


def test_a_link_that_leads_nowhere_is_in_the_way(tmp_path, data):
    (tmp_path / "out").symlink_to("nowhere")
    with pytest.raises(BadInput, match=mentions(tmp_path / "out", "link")):
        make(tmp_path / "out", said(data))


def test_a_folder_that_has_lost_a_file_is_not_taken_for_whole(tmp_path, data):
    make(tmp_path / "out", said(data))
    (tmp_path / "out" / "result").unlink()
    with pytest.raises(BadInput, match=mentions(tmp_path / "out", "--out")):
        make(tmp_path / "out", said(data))


def test_a_place_below_a_file_is_refused_at_the_start(tmp_path, data):
    with pytest.raises(BadInput, match=mentions("--out", "a.txt")):
        make(data / "a.txt" / "below" / "out", said(data))


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_what_stands_in_the_place_of_the_lock_is_left_alone(tmp_path, kind):
    mine, lock = tmp_path / "mine.txt", tmp_path / "run" / AT_WORK
    mine.write_text("mine")
    lock.parent.mkdir()
    {"link": lambda: lock.symlink_to(mine), "folder": lock.mkdir, "pipe": lambda: os.mkfifo(lock)}[kind]()
    with pytest.raises(BadInput, match=mentions(lock)), exclusive_folder(lock.parent):
        pass
    assert mine.read_text() == "mine"
    assert os.path.lexists(lock)


def test_files_of_a_folder_that_is_not_ours_are_left_alone(tmp_path):
    theirs = tmp_path / "sub" / ".mine.999999.tmp"
    theirs.parent.mkdir()
    theirs.write_text("mine")
    with exclusive_folder(tmp_path):
        pass
    assert theirs.read_text() == "mine"
    (tmp_path / "manifest.json").write_text("{}")
    with exclusive_folder(tmp_path):
        pass
    assert not theirs.exists()


WRITE = """
import sys, time
from pathlib import Path
from fathom.store.outputs import whole_folder
with whole_folder(Path(sys.argv[1])) as folder:
    (folder / "half").mkdir()
    (folder / "half" / "file").write_text("half")
    print("writing", flush=True)
    time.sleep(600)
"""


def test_a_folder_has_one_writer_and_what_a_killed_one_has_left_is_removed(tmp_path):
    out, being_written = tmp_path / "out", tmp_path / ".out.tmp"
    with subprocess.Popen([sys.executable, "-c", WRITE, str(out)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"writing\n"
        with pytest.raises(BadInput, match=mentions(f"process {writer.pid} on ")), whole_folder(out):
            pass
        assert (being_written / "half" / "file").read_text() == "half"
        writer.kill()
    with whole_folder(out) as folder:
        (folder / "file").write_text("whole")
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["out", "out/file"]


@pytest.mark.parametrize("kind", ["folder", "link", "file"])
def test_what_is_not_ours_in_the_place_of_the_half_made_folder_is_left_alone(tmp_path, kind):
    mine, place = tmp_path / "mine", tmp_path / ".out.tmp"
    mine.mkdir()
    {"folder": lambda: mine.rename(place), "link": lambda: place.symlink_to(mine), "file": place.touch}[kind]()
    if kind == "folder":
        (place / "file").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(BadInput, match=mentions(place)), whole_folder(tmp_path / "out"):
        pass
    assert sorted(tmp_path.rglob("*")) == before


def test_a_lock_left_by_a_kill_between_the_last_two_steps_goes_with_the_next_call(tmp_path, data):
    make(tmp_path / "out", said(data))
    (tmp_path / "out" / AT_WORK).write_text("process 1")
    with pytest.raises(MadeBefore):
        make(tmp_path / "out", said(data))
    assert not (tmp_path / "out" / AT_WORK).exists()


FULL = [OSError(28, "No space left on device"), RuntimeError("I/O error (os error 28)")]


@pytest.mark.parametrize("said_by", FULL)
def test_a_full_disk_is_said_in_one_line(tmp_path, said_by):
    with (
        pytest.raises(RunFailed, match=mentions(tmp_path / "out", str(said_by).split("] ")[-1].split(" (")[0])),
        whole_folder(tmp_path / "out"),
    ):
        raise said_by
    assert not list(tmp_path.iterdir())
    with pytest.raises(RuntimeError, match="a defect"), whole_folder(tmp_path / "out"):
        raise RuntimeError("a defect")


GRAPH = {
    "train.tsv": "".join(f"e{n}\tr\te{n + 1}\n" for n in range(9)),
    "test.tsv": "e1\tr\te3\n",
    "entity2text.txt": "".join(f"e{n}\tname {n}\n" for n in range(10)),
}
SMALL = ["--kind", "causal", "--hidden-size", "8", "--heads", "2"]
COMMANDS = {
    "examples": ["data", "examples"],
    "sample": ["data", "sample", "{graph}", "--entities", "5"],
    "plant": ["plant", *SMALL, "--epochs", "1", "--share", "0.01", "--vocabulary", "600"],
    "pretrain": ["kgc", "pretrain", "--data", "{graph}", *SMALL, "--layers", "1", "--vocabulary", "400"],
    "cloze": ["build", "cloze", "--input", "{text}", "--entities", "chem={names}"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_that_make_a_folder(fathom, tmp_path, name):
    graph, text, names = (tmp_path / name for name in ("graph", "text.txt", "names.txt"))
    graph.mkdir()
    for file, content in GRAPH.items():
        (graph / file).write_text(content)
    text.write_text(
        "The pancreas of adult mammals secretes insulin into the blood after meals rich in sugar. It helped.\n"
    )
    names.write_text("insulin\nglucose\n")
    words = [word.format(graph=graph, text=text, names=names) for word in COMMANDS[name]]
    out = tmp_path / "out"
    code, _, err = fathom(*words, "--out", out)
    assert code == 0, err
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    code, _, err = fathom(*words, "--out", out)
    assert (code, "note: " in err, str(out) in err) == (0, True, True)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
    (out / ".made").unlink()
    code, _, err = fathom(*words, "--out", out)
    assert code == 2
    assert mentioned(err, out, "--out")


def test_outputs_replace_nothing_that_belongs_to_a_run(fathom, tmp_path):
    run = answered(tmp_path / "run", at_random(0), world(EVEN)).path
    page, manifest = tmp_path / "page.html", run / "manifest.json"
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    letter = tmp_path / "letter.html"
    letter.write_text("not ours")
    for words in (
        ("report", run, "-o", manifest),
        ("report", run, "-o", letter),
    ):
        code, _, log = fathom(*words)
        assert code == 2
        assert mentioned(log, words[-1])
    assert fathom("metrics", run, "--out", manifest)[0] == 2
    assert {file: file.read_bytes() for file in run.rglob("*") if file.is_file()} == before
    assert letter.read_text() == "not ours"
    for _ in range(2):  # a report may be replaced by another
        assert fathom("report", run, "-o", page)[0] == 0
        assert fathom("metrics", run, "--out", tmp_path / "tables")[0] == 0


LARGE_WRITES = {
    "numpy": "from fathom.store.vectors import VectorStore; "
    "VectorStore(Path(sys.argv[1]), 64).write(0, np.zeros((64, 64), dtype=np.float32))",
    "torch": "import torch; from fathom.training.saving import TrainingFolder; "
    "TrainingFolder(Path(sys.argv[1])).keep_checkpoint({'weights': torch.zeros(64, 64)})",
}
"""Writes of 16 kB by libraries that write into a named file themselves, and tell a position in place of a reason."""


@pytest.mark.parametrize("library", LARGE_WRITES)
def test_a_library_that_cannot_write_says_why(tmp_path, library):
    script = (
        "import resource, signal, sys; import numpy as np; from pathlib import Path; "
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        f"resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); {LARGE_WRITES[library]}"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert "RunFailed: cannot write" in last
    assert "File too large" in last
    assert not list(tmp_path.iterdir())


def test_a_full_disk_under_a_library_in_rust(tmp_path):
    with pytest.raises(RunFailed, match="No space left"), written_by_libraries(tmp_path):
        raise Exception("No space left on device (os error 28)")  # as tokenizers raises it
    with pytest.raises(KeyError), written_by_libraries(tmp_path):
        raise KeyError("a mistake of ours")
