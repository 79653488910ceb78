"""The diagram in docs/architecture.md, drawn from the imports of the code: ``python -m tests.architecture``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "fathom"
ON_TOP = ("fathom_build", "fathom_kgc")
PAGE = ROOT / "docs" / "architecture.md"
DIAGRAM = re.compile(r"```mermaid\n.*?```\n", re.DOTALL)


def imports() -> dict[str, set[str]]:
    """Return, for each room, the rooms that its files import, inside functions too; likewise the packages on top."""
    rooms = {folder.name: folder for folder in SOURCES.iterdir() if (folder / "__init__.py").exists()}
    rooms |= {name: SOURCES.parent / name for name in ON_TOP}
    graph: dict[str, set[str]] = {}
    for name, folder in rooms.items():
        used = {
            room for file in folder.rglob("*.py") for room in _rooms_of(ast.parse(file.read_text(encoding="utf-8")))
        }
        graph[name] = (used & rooms.keys()) - {name}
    return graph


def _rooms_of(tree: ast.Module) -> Iterator[str]:
    """Yield the rooms and packages that a module imports, but for type checkers."""
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) not in skipped and isinstance(node, ast.ImportFrom | ast.Import):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [name.name for name in node.names]
            for module in modules:
                package, _, rest = module.partition(".")
                yield rest.partition(".")[0] if package == "fathom" else package


def reduced(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Leave out what follows from other arrows; the graph has no circles."""

    def reached(name: str) -> set[str]:
        return graph[name].union(*(reached(other) for other in graph[name]))

    return {name: {o for o in others if not any(o in reached(via) for via in others)} for name, others in graph.items()}


def diagram() -> str:
    """Return the graph in Mermaid's language, an arrow from each package to those that it builds on."""
    arrows = [
        f"    {name} --> {other}" for name, others in sorted(reduced(imports()).items()) for other in sorted(others)
    ]
    return "\n".join(["```mermaid", "flowchart TD", *arrows, "```", ""])


if __name__ == "__main__":
    PAGE.write_text(DIAGRAM.sub(lambda _: diagram(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
