"""What type checkers see of ``import fathom``: every name, every option, and a mistyped one."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fathom
from fathom.base.errors import BadInput
from fathom.probes.options import ProbeOptions, StatementOptions
from fathom_kgc.links import name_of, named
from fathom_kgc.links.options import Embedding, LinkTraining
from tests.cli.test_cli import gpt2, save
from tests.messages import mentions

SOURCE = Path(fathom.__file__)
USER = """
from pathlib import Path
import fathom, fathom_kgc
from fathom import StatementOptions
from fathom_kgc.links.options import SimKgc

result = fathom.probe(StatementOptions(limit=20, templates=(0, 1), reduction=("sum", "mean")), "gpt2", Path("d"))
reveal_type(result)  # reveals Result
reveal_type(result.summary().to_text())  # reveals str
reveal_type(fathom.read_data("geography"))  # reveals QuerySet
model = fathom.load_model("gpt2", device="cpu")
fathom.probe("statement", model, "d", pool="data", add_candidates="names.txt", progress=False)
StatementOptions(limt=20)  # wrong
StatementOptions(limit="20")  # wrong
StatementOptions(pll="sideways")  # wrong
StatementOptions(masks="one")  # wrong
fathom.ClozeOptions(masks=("one",))
fathom.probe("statement", "gpt2")  # wrong
fathom.probe(SimKgc(weights="bert"), "gpt2", "d")  # wrong
fathom_kgc.train_links(SimKgc(epochs=2, weights="bert"), "kg", "out")
SimKgc(epoch=2)  # wrong
fathom_kgc.train_links("TransE", "kg", "out", dimension=8, loss_kwargs={"margin": 5})
reveal_type(fathom_kgc.evaluate_links("m", "kg", directions="tail", top_k=3))  # reveals Result
fathom.compare([result, "runs/other"], cluster="relation")
fathom.prob("statement", "gpt2", "d")  # wrong
"""


def test_options_and_keywords_are_one(tmp_path):
    """Of a probe, by its name and by its options; both together, and options of something else, are refused."""
    model = str(save(tmp_path / "tiny", gpt2()))
    by_name = fathom.probe("statement", model, "geography", limit=4, templates=[0])
    by_options = fathom.probe(StatementOptions(limit=4, templates=(0,)), model, "geography")
    assert by_options.summary().to_json() == by_name.summary().to_json()
    with pytest.raises(BadInput, match=mentions("StatementOptions")):
        fathom.probe(StatementOptions(), model, "geography", limit=4)
    with pytest.raises(BadInput, match=mentions("ProbeOptions")):
        fathom.probe(ProbeOptions(), model, "geography")
    with pytest.raises(BadInput, match="limt"):
        fathom.probe("statement", model, "geography", limt=4)
    assert [name_of(kind.parse(kind.name, {"weights": "w"})) for kind in named()] == [kind.name for kind in named()]
    assert name_of(Embedding(model="TransE")) == "TransE"
    with pytest.raises(BadInput, match=mentions("LinkTraining")):
        name_of(LinkTraining())


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


@pytest.mark.slow
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


@pytest.mark.slow
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
