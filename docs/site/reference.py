"""Pages generated from the code: the command line from its option models, Python from its docstrings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

import fathom
from fathom.cli import COMMANDS, whole_app
from fathom.cli.commands import as_shown

TITLES = {
    "api": "Probes and runs", "probes": "Options of probes", "data": "Facts, queries and graphs", "engine": "Models",
    "results": "Comparing runs", "studies": "Plots and the report", "store": "Run folders",
    "training": "Planted models", "base": "Errors",
}  # fmt: skip
"""Room → title of its page in the Python reference."""


def write_commands(folder: Path) -> None:
    """Write a page for each command, and a list of them."""
    folder.mkdir(parents=True)
    commands = typer.main.get_command(whole_app()).commands
    lines = ["# Command line", "", "Every command and option, generated from the code: what `--help-all` prints.", ""]
    for heading in dict.fromkeys(entry.panel for entry in COMMANDS.entries()):
        lines += [f"## {heading}", "", "| command | purpose |", "|---|---|"]
        listed = [entry for entry in COMMANDS.entries() if entry.panel == heading]
        lines += [f"| [`fathom {entry.name}`]({entry.name}.md) | {entry.does} |" for entry in listed]
        lines.append("")
    _write(folder / "index.md", lines)
    for name in COMMANDS:
        _write(folder / f"{name}.md", _command(commands[name], f"fathom {name}", "#"))


def _write(file: Path, lines: Iterator[str] | list[str]) -> None:
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _command(command: Any, path: str, level: str) -> Iterator[str]:
    """Yield the lines of a command, and of those in its group."""
    yield f"{level} {path}\n"
    for paragraph in (command.help or "").split("\n\n"):
        first, _, rest = Text.from_markup(paragraph).plain.partition("\n")
        yield f"```sh\n{rest}\n```\n" if first == "Example:" else f"{escape(f'{first} {rest}', quote=False)}\n"
    tables = defaultdict(list)
    for param in command.params:
        if param.name not in ("help", "help_all") and not getattr(param, "hidden", False):
            tables[getattr(param, "rich_help_panel", None) or "Arguments"].append(as_shown(param))
    for panel, params in tables.items():
        yield f"\n**{panel}**\n\n| option | meaning |\n|---|---|"
        for param in params:
            flags = [*param.opts, *param.secondary_opts] if param.param_type_name == "option" else [param.name.upper()]
            text = escape(Text.from_markup(param.help or "").plain, quote=False).replace("|", "\\|")
            yield f"| {' '.join(f'`{flag}`' for flag in flags)} | {text} |"
    in_files = getattr(command.callback, "in_files", {})
    if in_files:
        yield "\n**Only in a file, `--config`**\n\n| option | meaning |\n|---|---|"
        yield from (f"| `{name}` | {escape(text, quote=False)} |" for name, text in in_files.items())
    yield ""
    for name, inner in getattr(command, "commands", {}).items():
        yield from _command(inner, f"{path} {name}", f"{level}#")


def write_python(folder: Path) -> None:
    """Write a page for each package that ``fathom`` exports names of, and a list of the names."""
    folder.mkdir(parents=True)
    names = defaultdict(list)
    for name in fathom.__all__[1:]:  # without the version
        names[fathom._WHERE[name].split(".")[1]].append(name)
    lines = ["# Python", "", "All of these belong to `fathom`. Option objects take the options of their command, with"]
    lines += ["underscores: `--max-rank 100` is `fathom.StatementOptions(max_rank=100)`.", ""]
    for package in sorted(names, key=lambda package: [*TITLES, package].index(package)):
        title = TITLES.get(package, package)
        links = [f"[`{name}`]({package}.md#fathom.{name})" for name in names[package]]
        lines.append(f"- **{title}**: {', '.join(links)}")
        _write(folder / f"{package}.md", [f"# {title}\n", *(f"::: fathom.{name}\n" for name in names[package])])
    _write(folder / "index.md", lines)
