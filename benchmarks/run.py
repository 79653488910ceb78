"""Run a benchmark: ``python benchmarks/run.py NAME [--option VALUE …]``. Without a name, list all.

``run.py NAME --help`` prints the documentation and options of one. The reference data are expected in ``FATHOM_DATA``
or ``../shared/data``. Another version of Fathom is measured with its ``src`` in PYTHONPATH.
"""

from __future__ import annotations

import ast
import importlib
import runpy
import sys
from pathlib import Path
from typing import NamedTuple

import harness


class ListedBenchmark(NamedTuple):
    """A benchmark that was found, not imported.

    :param title: first line of its documentation.
    :param registered: whether it is a function; otherwise the file is a script of its own.
    """

    file: Path
    title: str
    registered: bool


def benchmarks() -> dict[str, ListedBenchmark]:
    """Return all benchmarks by name; a script's name is that of its file."""
    listed = {}
    for file in sorted(Path(__file__).parent.glob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        nodes = [
            node
            for node in tree.body
            if isinstance(node, ast.FunctionDef) and "benchmark" in map(ast.unparse, node.decorator_list)
        ]
        if file.stem not in ("run", "harness"):
            named = {harness.name_of(node.name): node for node in nodes} or {file.stem: tree}
            for name, node in named.items():
                listed[name] = ListedBenchmark(file, (ast.get_docstring(node) or "").partition("\n")[0], bool(nodes))
    return listed


def main() -> None:
    listed = benchmarks()
    name, *arguments = sys.argv[1:] or ["--help"]
    if name in ("-h", "--help"):
        print(__doc__)
        public = {name: benchmark.title for name, benchmark in sorted(listed.items()) if not name.startswith("_")}
        print("\n".join(f"  {name:18} {title}" for name, title in public.items()))
    elif name not in listed:
        sys.exit(f"unknown benchmark {name}; without a name, run.py lists all")
    elif listed[name].registered:
        importlib.import_module(listed[name].file.stem)
        harness.call(name, arguments)
    else:
        sys.argv = [str(listed[name].file), *arguments]
        runpy.run_path(str(listed[name].file), run_name="__main__")


if __name__ == "__main__":
    main()
