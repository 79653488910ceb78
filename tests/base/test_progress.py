"""How far something has got: a bar where somebody looks, lines of the log elsewhere, nothing where it is not wanted."""

from __future__ import annotations

import io
import logging
import os
import pty
import subprocess
import sys
import types
from itertools import pairwise
from pathlib import Path

import pytest

import fathom
from fathom.base import progress
from fathom.base.progress import Lines, how_far, line, log, shown, starting, unseen
from tests.cli.test_cli import ASK, gpt2, save
from tests.forked import ForkedCall, command_line
from tests.messages import mentioned


@pytest.fixture(autouse=True)
def logger(monkeypatch) -> logging.Logger:
    """One without handlers, as in a program of its own: pytest listens to every logger that is registered."""
    made = logging.Logger("fathom")
    monkeypatch.setattr(progress, "LOG", made)
    monkeypatch.setattr("fathom.cli.LOG", made)
    return made


@pytest.fixture
def clock(monkeypatch):
    now = types.SimpleNamespace(at=100.0)
    monkeypatch.setattr(progress.time, "monotonic", lambda: now.at)
    return now


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return save(tmp_path_factory.mktemp("models") / "causal", gpt2())


def steps(clock, report, seconds: float, total: int) -> None:
    for done in range(total + 1):
        report(done, total)
        clock.at += seconds


def test_a_line_every_so_often_and_one_at_the_end(clock, capsys):
    """4 s a piece: after 12 s (3 of 8), 24 s (6 of 8) and at the end, 32 s. 12 s for 3 are 20 s for the other 5."""
    with shown("statement \x1b[31mgpt2") as report:
        steps(clock, report, 4, 8)
    lines = [text.split(" fathom: ")[1] for text in capsys.readouterr().err.splitlines()]
    assert lines == [
        "statement �[31mgpt2: 3 of 8 (38 %), 12 s, about 20 s left",
        "statement �[31mgpt2: 6 of 8 (75 %), 24 s, about 8 s left",
        "statement �[31mgpt2: 8 of 8 (100 %), 32 s",
    ]


def test_what_an_earlier_session_did_took_no_time(clock, capsys):
    """4 of 8 are there: two more in 12 s leave 12 s for the last two; a preparation has another total."""
    with shown("resumed") as report:
        report(0, 3)
        report(4, 8)
        clock.at += 12
        report(6, 8)
    assert "6 of 8 (75 %), 12 s, about 12 s left" in capsys.readouterr().err


def test_what_is_soon_done_says_nothing(clock, capsys):
    with shown("quick") as report:
        steps(clock, report, 1, 8)
    assert capsys.readouterr().err == ""


def test_how_far_without_a_total():
    assert how_far(0, 0, 3.2) == "3 s"
    assert how_far(0, 5, 3.2) == "0 of 5 (0 %), 3 s"


@pytest.mark.parametrize(("level", "lines"), [(logging.WARNING, 0), (logging.NOTSET, 3), (logging.DEBUG, 8)])
def test_more_and_less_of_it(clock, capsys, logger, level, lines):
    """Verbose: every second, which is every piece here but the first; quiet: nothing, and the callback is nobody's."""
    logger.setLevel(level)
    with shown("x") as report:
        steps(clock, report, 4, 8)
    assert capsys.readouterr().err.count("\n") == lines
    assert (report is unseen) == (level == logging.WARNING)
    assert (line("x") is unseen) == (level == logging.WARNING)


def test_a_level_that_is_only_inherited_hides_no_bar(logger):
    """The root's is WARNING unless somebody says otherwise."""
    logger.parent = logging.getLogger()
    assert logger.getEffectiveLevel() == logging.WARNING
    assert not progress.is_quiet()


def test_a_program_with_a_log_of_its_own_gets_the_lines_there(clock, capsys, logger):
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    with shown("x") as report:
        steps(clock, report, 6, 4)
    assert heard.getvalue().splitlines() == ["x: 2 of 4 (50 %), 12 s, about 12 s left", "x: 4 of 4 (100 %), 24 s"]
    assert capsys.readouterr().err == ""


def test_ones_own_callback_is_told_instead(clock, capsys):
    heard = []
    with shown("x", lambda done, total: heard.append((done, total))) as report:
        steps(clock, report, 20, 2)
    assert heard == [(0, 2), (1, 2), (2, 2)]
    with shown("x", False) as report:
        steps(clock, report, 20, 2)
    assert capsys.readouterr().err == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_at_once_that_something_is_loaded(monkeypatch, capsys, logger):
    screen = Terminal()
    with starting("loading x"):
        assert capsys.readouterr().err == ""  # no terminal: nothing
        monkeypatch.setattr(sys, "stderr", screen)
        with starting("loading \x1b[31my"), starting("never", progress=False):
            assert screen.getvalue() == "\rloading �[31my …\x1b[K"
        assert screen.getvalue().endswith("\r\x1b[K")  # wiped
    logger.setLevel(logging.WARNING)
    before = screen.getvalue()
    with starting("quiet"):
        assert screen.getvalue() == before


@pytest.mark.slow
def test_what_asks_loads_nothing_that_draws():
    """Half a second of scipy.stats and the report's libraries, which only who draws or correlates has to wait for."""
    late = ("scipy.stats", "altair", "matplotlib", "fathom.studies.report")
    code = f"import sys, fathom.api, fathom.probes.statement; print([name for name in {late} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_terminal_gets_a_bar(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with shown("asking [bold]gpt2") as report:
        report(3, 8)
        report(8, 8)
    assert "asking [bold]gpt2" in screen.getvalue()
    assert "8/8" in screen.getvalue()


@pytest.mark.parametrize("to_file", [False, True])
def test_what_is_printed_meanwhile_stands_above_the_bar_or_in_its_file(to_file, tmp_path):
    """From the outside: both streams on a terminal, or one of them in a file."""
    code = (
        "from fathom.cli.formats import say\nfrom fathom.base.progress import shown\nwith shown('cells') as report:\n"
    )
    code += "    report(0, 2)\n    say('[1/2] a cell')\n    report(2, 2)\n"
    ours, theirs = pty.openpty()
    with (tmp_path / "said").open("w") as file:
        told = {"stdout": file if to_file else theirs, "stderr": theirs, "env": os.environ | {"TERM": "xterm"}}
        subprocess.run([sys.executable, "-c", code], check=True, **told)
    os.close(theirs)
    screen = os.read(ours, 100_000).decode(errors="replace")
    os.close(ours)
    assert "2/2" in screen
    assert (tmp_path / "said").read_text() == ("[1/2] a cell\n" if to_file else "")
    assert ("\r\x1b[2K[1/2] a cell\r\n" in screen) == (not to_file)  # the bar is wiped first


def test_a_notebook_gets_a_bar_of_html(monkeypatch, clock):
    """A stand-in for IPython, which the tests do without."""
    shown_there = []

    class Handle:
        def update(self, thing):
            shown_there.append(thing._repr_html_())

    def display(thing, display_id):
        shown_there.append(repr(thing))
        return Handle()

    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=display))
    with shown("a <b> c") as report:
        steps(clock, report, 2, 1)
    assert shown_there == [
        "a <b> c: 0 of 1 (0 %), 0 s",
        '<progress value="1" max="1"></progress> a &lt;b&gt; c: 1 of 1 (100 %), 2 s',
    ]
    shell.kernel = None  # IPython in a terminal, here none
    with shown("x") as report:
        assert isinstance(report, Lines)


def test_from_python_a_probe_tells_its_own_callback_or_the_log(model, tmp_path, capsys, logger):
    heard = []
    asked = {"model": str(model), "data": "geography", "limit": 12, "templates": 0}
    fathom.probe("statement", **asked, out=tmp_path / "a", progress=lambda *told: heard.append(told))
    assert (heard[0][0], heard[-1][0] == heard[-1][1] > 0) == (0, True)
    assert all(before[0] <= after[0] for before, after in pairwise(heard))
    logger.setLevel(logging.DEBUG)
    capsys.readouterr()
    fathom.probe("statement", **asked, out=tmp_path / "b")
    err = capsys.readouterr().err
    assert mentioned(err, "LocalModel")
    assert f"kept in {tmp_path / 'b'}" in err


def test_flags_of_all_commands(fathom, model, tmp_path, logger):
    """They may stand before and behind the command's name, and hold for one call alone."""
    asked = ("probe", "statement", "--model", model, *ASK)
    code, _, err = fathom("--verbose", *asked, "--out", tmp_path / "a")
    assert (code, "kept in" in err) == (0, True)
    code, _, err = fathom(*asked, "--out", tmp_path / "b", "--quiet")
    assert (code, err, logger.level) == (0, "", logging.NOTSET)
    code, _, err = fathom(*asked, "--out", tmp_path / "c", "--quiet", "--verbose")
    assert code == 2
    assert mentioned(err, "--quiet", "--verbose")
    assert not (tmp_path / "c").exists()


def test_version(fathom):
    from fathom import __version__

    assert fathom("--version") == (0, f"fathom {__version__}\n", "")


def test_a_log_line_is_no_error_of_its_own(capsys):
    log("50 % of {it}")
    assert capsys.readouterr().err.endswith("fathom: 50 % of {it}\n")


def on_terminal(name, *words):
    """``fathom`` with these *words*, its standard error a terminal of that *name*."""
    os.dup2(os.open(name, os.O_WRONLY), 2)
    command_line(*words)


def test_a_terminal_sees_a_bar_of_the_command_line(model, tmp_path):
    """On a terminal of its own, from the outside."""
    ours, theirs = pty.openpty()
    words = ["probe", "statement", "--model", model, *ASK, "--out", tmp_path / "run"]
    process = ForkedCall(on_terminal, os.ttyname(theirs), *map(str, words), said=tmp_path / "printed")
    code, _ = process.ended()
    os.close(theirs)
    screen = os.read(ours, 100_000).decode(errors="replace")  # it may end within a sign
    os.close(ours)
    assert code == 0, screen
    assert "statement" in screen
    assert "\x1b[" in screen


def test_a_task_within_a_bar_has_its_own_bar_and_no_line(monkeypatch):
    """Lines written over a bar would each leave a copy of it."""
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", screen)
    with shown("runs") as report:
        tell = line("[1/2] first")
        for done in range(1, 9):
            tell(done, 8)
        report(1, 2)
    assert "shards" not in screen.getvalue()
    assert screen.getvalue().count("\n") <= 3
