"""Refuse names that do not say what they hold: ``python tools/names.py`` lists them, with file and line.

Variables and parameters in ``src`` may not have the names in ``banned-names`` of pyproject.toml. Fields of classes may,
as files and callers use them, and so may the parameters of special methods, such as ``__eq__(self, other)``.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Container, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]


def found(tree: ast.Module, banned: Container[str]) -> Iterator[tuple[int, str]]:
    """Yield the line and name of each variable and parameter whose name is banned, unsorted."""
    exempt = {id(name) for node in ast.walk(tree) for name in _exempt(node)}
    for node in ast.walk(tree):
        if id(node) not in exempt:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in banned:
                yield node.lineno, node.id
            elif isinstance(node, ast.arg) and node.arg in banned:
                yield node.lineno, node.arg


def _exempt(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the fields of a class, or the parameters of a special method."""
    if isinstance(node, ast.ClassDef):
        yield from (field.target for field in node.body if isinstance(field, ast.AnnAssign))
    elif isinstance(node, ast.FunctionDef) and node.name.startswith("__") and node.name != "__init__":
        yield from node.args.args


def main() -> int:
    """Print a line for each name. :returns: 1 if there is any, else 0."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["fathom"]
    banned = settings["banned-names"]
    count = 0
    for file in sorted((ROOT / "src").rglob("*.py")):
        for line, name in sorted(found(ast.parse(file.read_text(encoding="utf-8")), banned)):
            print(f"{file.relative_to(ROOT)}:{line}: `{name}` does not say what it holds; name its content")
            count += 1
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
