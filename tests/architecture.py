"""The diagram in docs/architecture.md, drawn from the imports of the code: ``python -m tests.architecture``."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "fathom"
PAGE = ROOT / "docs" / "architecture.md"
DIAGRAM = re.compile(r"```mermaid\n.*?```\n", re.DOTALL)


def imports() -> dict[str, set[str]]:
    """Return, for each package, the packages that its files import, inside functions too."""
    packages = {folder.name for folder in SOURCES.iterdir() if (folder / "__init__.py").exists()}
    graph: dict[str, set[str]] = {name: set() for name in packages}
    for name in packages:
        for file in (SOURCES / name).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                graph[name] |= {module.split(".")[1] for module in modules if module.startswith("fathom.")}
        graph[name] = (graph[name] & packages) - {name}
    return graph


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
