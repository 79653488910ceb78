"""Names that do not say what they hold."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path

import pytest

TOOL = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "names.py"))
BANNED = ["one", "other"]


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("one = 1", [(1, "one")]),
        ("one: int = 1", [(1, "one")]),
        ("for one, (a, *other) in b: pass", [(1, "one"), (1, "other")]),
        ("sum(\n    n for one in b)", [(2, "one")]),
        ("if (one := a): pass", [(1, "one")]),
        ("with a as one: pass", [(1, "one")]),
        ("lambda one, /, a: one", [(1, "one")]),
        ("def f(a, *one, b, **other): pass", [(1, "one"), (1, "other")]),
        ("class A:\n    def __init__(self, one): self.one = one", [(2, "one")]),
        ("class A:\n    def f(self, one): pass", [(2, "one")]),
        ("class A:\n    one: int = 1", []),
        ("class A:\n    def __eq__(self, other): return self.one == other.one", []),
        ("class A:\n    def __eq__(self, a):\n        other = a", [(3, "other")]),
        ("a = one + b.other", []),
    ],
)
def test_banned_names(code: str, names: list[tuple[int, str]]) -> None:
    assert sorted(TOOL["found"](ast.parse(code), BANNED)) == names
