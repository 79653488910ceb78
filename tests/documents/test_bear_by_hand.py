"""The method in one page: equal to the probe, on a small model."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.cli.test_cli import gpt2, save

PAGE = Path(__file__).parents[2] / "docs" / "examples" / "bear_by_hand.py"


def test_the_method_by_hand_equals_the_probe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.spec_from_file_location("bear_by_hand", PAGE)
    assert spec is not None
    assert spec.loader is not None
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    assert page.main(str(save(tmp_path / "tiny", gpt2())), 4) < 1e-5  # nats per statement
    assert "the most frequent answer" in capsys.readouterr().out
    assert len(PAGE.read_text(encoding="utf-8").splitlines()) <= 300
