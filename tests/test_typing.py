"""What type checkers see of ``import fathom``: every name, every option, and a mistyped one."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_overloads

import pytest

import fathom
from fathom.api import probe, train_links
from fathom.links import named
from fathom.links.options import LinkOptions
from fathom.probes import PROBES
from fathom.probes.options import ProbeOptions
from tests import keywords

SOURCE = Path(fathom.__file__)
USER = """
from pathlib import Path
import fathom

result = fathom.probe("statement", model="gpt2", data=Path("d"), limit=20, templates=[0, 1], reduction=("sum", "mean"))
reveal_type(result)  # reveals Result
reveal_type(result.summary().to_text())  # reveals str
reveal_type(fathom.read_data("geography"))  # reveals QuerySet
model = fathom.load_model("gpt2", device="cpu")
fathom.probe("bear", model, "d", pool="data", add_candidates="names.txt", progress=False)
fathom.probe("statement", "gpt2", "d", limt=20)  # wrong
fathom.probe("statement", "gpt2", "d", limit="20")  # wrong
fathom.probe("statement", "gpt2", "d", pll="sideways")  # wrong
fathom.probe("statement", "gpt2", "d", masks="one")  # wrong
fathom.probe("cloze", "bert", "d", masks="one", reduction=["mean", "max"])
fathom.probe("statement", "gpt2")  # wrong
for name in ("statement", "cloze"):
    fathom.probe(name, "bert", "d", limit=5, dtype="bfloat16")
    fathom.probe(name, "bert", "d", limt=5)  # wrong
fathom.train_links("simkgc", "kg", "out", epochs=2, weights="bert", preset="sakai2024")
fathom.train_links("simkgc", "kg", "out", epoch=2)  # wrong
fathom.train_links("TransE", "kg", "out", dimension=8, loss_kwargs={"margin": 5})
reveal_type(fathom.evaluate_links("m", "kg", directions="tail", top_k=3))  # reveals Result
fathom.evaluate_links("m", "kg", topk=3)  # wrong
fathom.compare([result, "runs/other"], cluster="relation")
fathom.prob("statement", "gpt2", "d")  # wrong
"""


def test_the_keywords_are_those_of_the_options():
    """Else: ``python -m tests.keywords``."""
    assert keywords.FILE.read_text(encoding="utf-8") == keywords.source()


def test_a_field_that_is_missing_or_of_another_type_is_seen(monkeypatch):
    monkeypatch.setitem(LinkOptions.model_fields, "top_k", LinkOptions.model_fields["split"])
    assert "    top_k: str | None\n" in keywords.source()
    monkeypatch.delitem(ProbeOptions.model_fields, "revision")
    assert "    revision: str | None\n" not in keywords.class_of(ProbeOptions) + "\n"
    with pytest.raises(TypeError, match="has no keyword yet"):
        keywords.written(set[int])


def test_every_probe_and_predictor_has_its_overload():
    """What :func:`fathom.probe` and :func:`fathom.train_links` take by name, against the tables."""

    def taken(function, parameter):
        found = {}
        for one in get_overloads(function):
            options = re.fullmatch(r"Unpack\[keywords\.(\w+)\]", one.__annotations__["options"])[1]
            names = re.findall(r"'([^']+)'", one.__annotations__[parameter]) or [one.__annotations__[parameter]]
            found |= dict.fromkeys(names, options)
        return found

    own = [one for one in PROBES.entries() if one.asks == "language model" and one.options_at.startswith("fathom.")]
    expected = {name: one.options.__name__ for one in own for name in (one.name, one.alias)}
    assert taken(probe, "name") == expected | {"str": "ProbeOptions"}
    expected = {kind.name: kind.options.__name__ for kind in named() if kind.options_at.startswith("fathom.")}
    assert taken(train_links, "model") == expected | {"str": "Embedding"}


def test_the_table_of_contents_is_the_same_for_type_checkers():
    """The names imported where nothing runs, and from where, against those that load when they are used."""
    block = next(node for node in ast.parse(SOURCE.read_text(encoding="utf-8")).body if isinstance(node, ast.If))
    seen = {
        name.asname or name.name: (line.module, name.name)
        for line in block.body
        if isinstance(line, ast.ImportFrom)
        for name in line.names
    }
    loaded = {name: (module, fathom._NAMED_OTHERWISE.get(name, name)) for name, module in fathom._WHERE.items()}
    assert seen == loaded
    assert set(fathom.__all__) == {*loaded, "__version__"}
    assert (SOURCE.parent / "py.typed").exists()


def told(output: str) -> dict[int, str]:
    """Line of the user's script → what a checker says of it first."""
    found: dict[int, str] = {}
    for line, what in re.findall(r"user\.py:(\d+):(?:\d+[: -]*)? ?(.*)", output):
        found.setdefault(int(line), what)
    return found


def check(output: str) -> None:
    lines = USER.splitlines()
    of_line = told(output)
    wrong = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    errors = {number for number, what in of_line.items() if what.startswith("error")}
    assert errors == wrong, output
    for number, line in enumerate(lines, 1):
        if "# reveals " in line:
            expected = line.rpartition("# reveals ")[2]
            assert re.search(rf"[\"'.]{expected}[\"']|is \"{expected}\"", of_line[number]), (line, of_line[number])


LARGE = (
    "altair", "anyio", "fastapi", "filelock", "httpcore2", "httpx2", "huggingface_hub", "jinja2", "narwhals", "numpy",
    "openai", "opentelemetry", "pandas", "peft", "PIL", "pyarrow", "pykeen", "scipy", "starlette", "sympy",
    "tokenizers", "torch", "transformers",
)  # fmt: skip
"""Libraries that take a checker long to read, and of whose types nothing in the user's script is."""


def test_mypy_sees_a_mistyped_option(tmp_path):
    """In a project of the user's own, without this one's settings."""
    (tmp_path / "user.py").write_text(USER)
    settings = tmp_path / "mypy.ini"
    large = ",".join(f"{name}.*" for name in LARGE)
    settings.write_text(
        "[mypy]\nstrict = True\n[mypy-fathom.*]\nfollow_imports = silent\n"
        f"[mypy-{large}]\nfollow_imports = skip\nfollow_imports_for_stubs = True\n"
    )
    call = [sys.executable, "-m", "mypy", "--config-file", settings, "--cache-dir", tmp_path / "cache", "user.py"]
    ended = subprocess.run(list(map(str, call)), cwd=tmp_path, capture_output=True, text=True, check=False)
    check(ended.stdout)


def test_pyright_sees_a_mistyped_option(tmp_path):
    """basedpyright brings its own node, so that it runs without network."""
    beside = Path(sys.executable).with_name("basedpyright")
    pyright = str(beside) if beside.exists() else shutil.which("basedpyright")
    if pyright is None:
        pytest.skip("basedpyright is not installed")
    (tmp_path / "user.py").write_text(USER)
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}')
    for name in LARGE:
        stub = tmp_path / "typings" / name / "__init__.pyi"
        stub.parent.mkdir(parents=True)
        stub.write_text("from typing import Any\ndef __getattr__(name: str) -> Any: ...\n")
    call = [pyright, "--pythonpath", sys.executable, "user.py"]
    ended = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, check=False)
    check(ended.stdout)
