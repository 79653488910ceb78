"""What ``--help`` shows of every command: an example to copy, and options in groups."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import EntryPoint
from typing import ClassVar

import pytest
import typer
from pydantic import BaseModel, Field

from fathom.base.options import CIRCUMSTANCE, Group, group_of
from fathom.cli import make_app
from fathom.cli.commands import TYPERS_OWN, with_example
from fathom.probes import PROBES
from tests.messages import mentioned


def excerpt_of(help_: str) -> list[str]:
    """What a shell makes of the example in a help text."""
    example = re.search(r"\[not dim\]Example:\n(.*?)\[/\]", help_, re.DOTALL)[1]
    assert all(len(line) < 79 for line in example.splitlines()), example
    return shlex.split(example.replace("\\\n", "").replace("\\[", "["))


def commands(command, path=("fathom",)):
    """Every group and command with the words that call it."""
    command = command.load() if hasattr(command, "load") else command
    yield path, command
    for name, one in getattr(command, "commands", {}).items():
        yield from commands(one, (*path, name))


ALL = {" ".join(path): command for path, command in commands(typer.main.get_command(make_app()))}


def test_tools_walk_all_commands():
    """Fuzzers, such as that of ``make faults``, find every command in ``fathom.cli.app``."""
    from fathom.cli import app

    assert {" ".join(path) for path, _ in commands(typer.main.get_command(app))} == set(ALL)


MOST_COMMANDS, MOST_OPTIONS = 52, 794


def test_the_command_line_stays_small():
    """``fathom kgc train`` counts as one command, the options of all its kinds as their own."""
    called = {name: command for name, command in ALL.items() if not hasattr(command, "commands")}
    options = [
        (name, param.name)
        for name, command in called.items()
        for param in command.params
        if param.param_type_name == "option" and param.name not in TYPERS_OWN
    ]
    commands = {"fathom kgc train" if name.startswith("fathom kgc train ") else name for name in called}
    assert len(commands) <= MOST_COMMANDS
    assert len(options) <= MOST_OPTIONS


def test_data_may_be_a_table_of_facts():
    """Options and arguments that take data sets of any kind; others name the kind that they take."""
    named = {
        name: param.help
        for name, command in ALL.items()
        for param in getattr(command, "params", ())
        if param.name == "data" and "geography" in (param.help or "")
    }
    assert len(named) >= 12
    assert [name for name, text in named.items() if not all(kind in text for kind in ("CSV", "TSV", "Parquet"))] == []


def test_a_rare_option_is_typed_in_a_file(fathom, tmp_path):
    typed = ("probe", "statement", "--model", "m", "--data", "geography", "--out", tmp_path / "run")
    assert mentioned(fathom(*typed, "--trailing-space")[2], "--trailing-space", "--config", "'trailing_space: …'")
    (tmp_path / "rare.yaml").write_text("trailing-space: perhaps\nretries: -1\n")
    assert mentioned(
        fathom(*typed, "--config", tmp_path / "rare.yaml")[2], "--trailing-space", "--retries", "0 or more"
    )


WITHOUT_ESTIMATE = {
    "fathom plant": "trains a model",
    **{
        called: "trains a model; fathom plan --dry-run estimates it"
        for called in ALL
        if called.startswith("fathom kgc train ")
    },
    "fathom kgc predict": "one query",
}
"""Commands with a model that need no ``--dry-run``, and why."""


def test_every_command_that_evaluates_a_model_estimates_it():
    options = {called: {param.name for param in command.params} for called, command in ALL.items()}
    models = {"model", "models", "checkpoints", "server", "device"}
    evaluating = {called for called, own in options.items() if own & models} | {"fathom resume"}
    assert {called for called in evaluating if "dry_run" not in options[called]} == set(WITHOUT_ESTIMATE)


def test_a_kind_of_predictor_has_its_own_flags_alone():
    kinds = [command for called, command in ALL.items() if called.startswith("fathom kgc train ")]
    assert len(kinds) == 8
    assert max(len(command.params) for command in kinds) <= 35


@pytest.mark.parametrize("called", sorted(ALL))
def test_help_begins_with_an_example_that_parses(called):
    help_ = ALL[called].help
    assert help_.split("\n\n")[1].startswith("[not dim]Example:\n")  # behind one paragraph
    words = excerpt_of(help_)
    path = max((path for path in ALL if words[: len(path.split())] == path.split()), key=len)
    assert path == called or hasattr(ALL[called], "commands") or ALL[called].hidden
    command = ALL[path]
    assert not hasattr(command, "commands")
    command.make_context(path, words[len(path.split()) :])  # raises where a flag is unknown or one is missing


def test_a_long_example_stays_one_command():
    example = f"fathom probe new --model {'m' * 40} --data {'d' * 40} --relations '[a]'"
    shown = with_example("What it does.\n\nMore.", example)
    assert shown.startswith("What it does.\n\n")
    assert shown.endswith("\n\nMore.")
    assert " \\\n" in shown
    assert excerpt_of(shown) == shlex.split(example)


@pytest.mark.parametrize("called", sorted(ALL))
def test_every_option_stands_in_a_group(called):
    options = [
        param for param in ALL[called].params if param.param_type_name == "option" and param.name not in TYPERS_OWN
    ]
    assert [one.name for one in options if getattr(one, "rich_help_panel", None) not in list(Group)] == []
    shown = [
        one.rich_help_panel
        for one in ALL[called].get_params(typer.Context(ALL[called]))
        if one.param_type_name == "option"
    ]
    assert shown == sorted(shown, key=list(Group).index)
    assert shown[-1] == Group.OUTPUT  # where --help is


class Base(BaseModel):
    group: ClassVar = Group.SCORING
    plain: int = 1
    moved: int = Field(1, json_schema_extra=CIRCUMSTANCE | Group.RUN.mark)
    again: int = 1


class DerivedOptions(Base):
    group: ClassVar = Group.PROMPTS
    own: int = 1
    again: int = 2
    moved: int = 2


class Loose(BaseModel):
    nothing: int = 1


@pytest.mark.parametrize(
    ("kind", "name", "group"),
    [
        (Base, "plain", "Scoring"),
        (Base, "moved", "Run"),
        (DerivedOptions, "own", "Prompts"),
        (DerivedOptions, "again", "Scoring"),
        (DerivedOptions, "moved", "Run"),
        (Loose, "nothing", None),
    ],
)
def test_a_field_stays_in_the_group_in_which_it_was_first_declared(kind, name, group):
    assert group_of(kind, name) == group


def test_an_entry_added_before_the_call_is_a_command(fathom):
    entry = PROBES["statement"]._replace(name="toy", example="fathom probe toy --model m --data d --out o")
    PROBES.add(entry)
    try:
        code, out, err = fathom("probe", "toy", "--help")
        assert (code, err) == (0, "")
        assert "fathom probe toy --model m" in out
        assert " toy " in fathom("probe", "--help")[1]
    finally:
        PROBES.remove(entry)
    assert " toy " not in fathom("probe", "--help")[1]


@pytest.fixture
def broken(monkeypatch):
    """A package whose probe cannot be imported is installed."""
    point = EntryPoint("toy", "fathom_toy_is_not_there:PROBE", "fathom.probes")
    monkeypatch.setattr("fathom.base.registry.entry_points", lambda group: [point] if group == "fathom.probes" else [])
    monkeypatch.setattr(PROBES, "_is_loaded", False)
    monkeypatch.setattr(PROBES, "faults", [])


def test_a_package_that_cannot_be_loaded_is_noted_and_the_rest_works(fathom, broken):
    code, out, err = fathom("probe", "--help")
    assert (code, "statement" in out) == (0, True)
    assert mentioned(err, "note: fathom_toy_is_not_there:PROBE", "'toy'")
    assert err.count("\n") == 1
    code, _, err = fathom("probe", "toy")
    assert code == 2
    assert "note: fathom_toy_is_not_there" in err


def test_only_the_module_of_the_command_is_loaded():
    script = (
        "import sys, fathom.cli\n"
        "sys.argv = ['fathom', '--help']\n"
        "try:\n    fathom.cli.main()\n"
        "finally:\n    loaded = {'torch', 'transformers', 'numpy', 'pyarrow', 'pydantic', 'yaml', 'fathom.probes'}\n"
        "    assert not loaded & set(sys.modules), loaded & set(sys.modules)\n"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert " probe " in found.stdout


def test_completion_can_be_installed(tmp_path):
    """In a process below a shell: Typer asks which shell that is."""
    script = tmp_path / "fathom"
    script.write_text("from fathom.cli import main\nmain()\n")

    def typed(line, **variables):
        call = ["bash", "-c", f"{shlex.quote(sys.executable)} {script} {line}; exit $?"]
        return subprocess.run(call, capture_output=True, text=True, check=False, env=os.environ | variables)

    shown = typed("--show-completion")
    assert (shown.returncode, "complete -o default -F _fathom_completion fathom" in shown.stdout) == (0, True), shown
    tab = {"_FATHOM_COMPLETE": "complete_bash", "COMP_WORDS": "fathom probe statement --pl", "COMP_CWORD": "3"}
    assert typed("", **tab).stdout.split() == ["--pll"]


def test_commands_stand_under_headings(fathom):
    shown = fathom("--help")[1]
    places = [
        shown.index(f"─ {panel} ─")
        for panel in ("Start here", "Evaluate models", "Read results", "Manage runs", "Data", "Train")
    ]
    assert places == sorted(places)


def test_help_shows_the_most_used_options_and_help_all_every_one(fathom):
    short, every = (fathom("probe", "statement", name)[1] for name in ("--help", "--help-all"))
    shown = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", short.partition("─ Model")[2]))
    assert {"--model", "--data", "--out", "--templates", "--limit", "--help-all"} <= shown
    assert "--reduction" not in shown
    assert "--reduction" in every
    assert len(short.splitlines()) < 50 < len(every.splitlines())


def test_a_command_with_few_options_shows_them_all(fathom):
    shown = fathom("compare", "--help")[1]
    assert all(flag in shown for flag in ("--margin", "--detect", "--seeds", "--to-first", "--help-all"))
    assert "--help-all" in fathom("merge", "--help")[1]
    assert "<bool>" not in shown
    assert "--no-to-first" not in shown


def test_a_flag_is_shown_as_it_is_typed(fathom):
    shown = fathom("probe", "statement", "--help-all")[1]
    assert "--no-prune " in shown
    assert " --prune " not in shown
    assert " --reverse " in shown
