"""Old names in code of others become new ones, once."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).parents[2] / "tools" / "layout.py"
OLD = """import fathom
from fathom import formats, models as m, probe
from fathom.building.options import BearBuildOptions, NewFolder

fathom.train_links("simkgc", "g", "o")
GROUP = "fathom.formats"
PATH = "src/fathom/links/base.py"
"""
NEW = """import fathom
import fathom_kgc
from fathom.data import formats
from fathom.engine import models as m
from fathom import probe
from fathom_build.options import BearBuildOptions
from fathom.data.options import NewFolder

fathom_kgc.train_links("simkgc", "g", "o")
GROUP = "fathom.formats"
PATH = "src/fathom_kgc/links/base.py"
"""


@pytest.fixture
def layout() -> ModuleType:
    spec = importlib.util.spec_from_file_location("layout", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_old_names_are_mended_once(layout: ModuleType) -> None:
    assert layout.mended(OLD) == NEW
    assert layout.mended(NEW) == NEW


def test_the_repository_has_no_old_name(layout: ModuleType) -> None:
    texts = {file: file.read_text(encoding="utf-8") for file in layout.tracked()}
    assert [file for file, text in texts.items() if layout.mended(text) != text] == []
