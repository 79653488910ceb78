"""The notebook of the tutorial: each cell runs, and prints what the notebook shows.

``FATHOM_DOCS=write`` replaces the shown outputs by what is printed, tables as HTML too.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from tests.documents.test_docs import WRITE
from tests.real import real_model

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "first-look.ipynb"


def cells_of_code(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Run a cell as a notebook does. :returns: the value of its last expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last is not None else None


def shown_of(value: Any, printed: str) -> list[dict[str, Any]]:
    outputs: list[dict[str, Any]] = []
    if printed:
        outputs.append({"output_type": "stream", "name": "stdout", "text": printed.splitlines(keepends=True)})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = value._repr_html_().splitlines(keepends=True)
        outputs.append({"output_type": "execute_result", "data": data, "metadata": {}, "execution_count": None})
    return outputs


def text_of(output: dict[str, Any]) -> str:
    return "".join(output.get("text") or output["data"].get("text/html") or output["data"]["text/plain"])


@pytest.mark.slow
def test_the_notebook_prints_what_it_shows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    real_model("SmolLM2-135M-Instruct")
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    for cell in cells_of_code(notebook):
        capsys.readouterr()
        value = run_cell("".join(cell["source"]), names)
        outputs = shown_of(value, capsys.readouterr().out)
        if not WRITE:
            assert list(map(text_of, outputs)) == list(map(text_of, cell["outputs"]))
        cell["outputs"] = outputs
    if WRITE:
        NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def test_the_notebook_has_outputs_and_is_of_the_common_format() -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["metadata"]["kernelspec"]["language"]) == (4, "python")
    assert all(cell["outputs"] for cell in cells_of_code(notebook)[1:])
