"""A griffe extension: Fathom's docstrings as mkdocstrings reads them, and the help of options as theirs."""

from __future__ import annotations

import ast
import re
from typing import Any

import griffe

FIELD = re.compile(r"(?<=[.:;)])\s+(?=:(?:param|raises|returns?)\b[^:]*:)")
ROLE = re.compile(r":(?:func|class|meth|mod|data|attr|exc):`~?([^`]+)`")


class Docstrings(griffe.Extension):
    """Edits each object when griffe has read it."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Put each ``:param`` on a line of its own, and roles into code."""
        if obj.docstring is not None:
            obj.docstring.value = ROLE.sub(r"`\1`", FIELD.sub("\n", obj.docstring.value))

    def on_attribute(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Take an option's help, the second argument of ``opt``, for its docstring, and the first for its value."""
        if isinstance(attr.value, griffe.ExprCall) and str(attr.value.function) == "opt":
            attr.value, text = attr.value.arguments[:2]
            literal = str(text).startswith(("'", '"'))
            attr.docstring = griffe.Docstring(ast.literal_eval(str(text)) if literal else f"See `{text}`.", parent=attr)
