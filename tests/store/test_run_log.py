"""The log of a run: what is logged while it works, and what ended it."""

from __future__ import annotations

import re

import pytest

from fathom.base.errors import RunFailed
from fathom.base.progress import WRITERS, log
from fathom.store.folder import LOG, LOG_LINES, RunFolder
from tests.answerers import answered, constant, world
from tests.cli.test_cli import gpt2, save

FACTS = world([[0]] * 10)


def texts_of(folder):
    return [re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (.*)", line)[1] for line in folder.last_log()]


def test_lines_are_kept_with_their_time_and_without_control_characters(tmp_path):
    folder = answered(tmp_path / "run", constant, FACTS)
    with folder.logged():
        log("half \x1b[2Jof it")
        log("a detail", 5)
    log("after it")
    assert texts_of(folder) == ["half \ufffd[2Jof it"]
    for number in range(LOG_LINES):
        folder.add_log(f"line {number}")
    assert texts_of(folder) == [f"line {number}" for number in range(LOG_LINES)]


def test_nothing_is_written_where_no_run_is(tmp_path):
    folder = RunFolder(tmp_path)
    with folder.logged():
        log("anything")
    assert ([*tmp_path.iterdir()], folder.last_log()) == ([], [])


def test_a_link_is_not_followed(tmp_path):
    folder = answered(tmp_path / "run", constant, FACTS)
    (tmp_path / "secret").write_text("2026-01-01 00:00:00 mine")
    (folder.path / LOG).symlink_to(tmp_path / "secret")
    assert folder.last_log() == []


@pytest.mark.parametrize("error", [RunFailed("the disk is full"), KeyboardInterrupt("stop"), ValueError("a fault")])
def test_what_ended_the_work_is_the_last_line(tmp_path, error):
    folder = answered(tmp_path / "run", constant, FACTS)
    with pytest.raises(type(error)), folder.logged():
        raise error
    assert texts_of(folder) == [f"{type(error).__name__}: {error}"]
    assert WRITERS == []


def test_a_run_that_fails_says_why_and_a_refused_command_nothing(fathom, tmp_path, monkeypatch):
    save(tmp_path / "model", gpt2())
    words = ["probe", "statement", "--model", tmp_path / "model", "--data", "geography", "--templates", "0"]
    out = tmp_path / "run"
    assert fathom(*words, "--limit", "12", "--out", out)[0] == 0
    folder = RunFolder(out)
    folder.file_of(folder.manifest["plan"][-1]).unlink()
    assert fathom(*words, "--limit", "13", "--out", out)[0] == 2
    assert folder.last_log() == []

    def fail(*_):
        raise RunFailed("no space left")

    monkeypatch.setattr(RunFolder, "add_shard", fail)
    assert fathom("resume", out)[0] == 1
    assert texts_of(folder) == ["RunFailed: no space left"]
