"""The examples in the docstrings of all public names, run in a folder that has what they name."""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path

import pytest

import fathom
from tests.documents.test_docs import desk  # noqa: F401 # a fixture

NAMES = [name for name in fathom.__all__ if not name.startswith("_")]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_an_example_of_each_public_name(
    name: str,
    desk: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(desk)
    example = doctest.DocTestParser().get_doctest(
        inspect.getdoc(getattr(fathom, name)) or "", {"fathom": fathom}, name, None, None
    )
    assert example.examples, f"{name} has no example"
    found = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example)
    assert found.failed == 0, capsys.readouterr().out
