"""Compare the code with the budget in pyproject.toml: ``python tools/budget.py`` prints both, package by package.

More statements than the budget fail; more lines warn, so that nothing is squeezed into denser lines. Raising the budget
takes an entry in docs/decisions/budget.md.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def statements_of(tree: ast.Module) -> int:
    """Count statements without docstrings and other bare texts."""
    return sum(isinstance(node, ast.stmt) and not _is_text(node) for node in ast.walk(tree))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def main() -> int:
    """Print the table. :returns: 1 if there are more statements than the budget has, else 0."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["fathom"]["budget"]
    statements = 0
    for package, most in settings["lines"].items():
        texts = [file.read_text(encoding="utf-8") for file in (ROOT / "src" / package).rglob("*.py")]
        lines = sum(len(text.splitlines()) for text in texts)
        own = sum(statements_of(ast.parse(text)) for text in texts)
        statements += own
        warning = f": warning, the budget is {most:,}" if lines > most else ""
        print(f"{package}: {own:,} statements, {lines:,} lines{warning}")
    most = settings["statements"]
    print(f"{statements:,} of {most:,} statements")
    if statements > most:
        print("too many: delete, or raise the budget with an entry in docs/decisions/budget.md")
    return int(statements > most)


if __name__ == "__main__":
    sys.exit(main())
