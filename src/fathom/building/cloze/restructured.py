"""reStructuredText as HTML, by docutils: a stranger's text reads no file, holds no HTML and stops nothing."""

from __future__ import annotations

from typing import Any

from fathom.building.cloze.documents import Unreadable
from fathom.errors import MissingExtra

_LONGEST_LINE = 10_000
"""Characters; docutils holds substitutions, which may hold each other, to the same length."""
_ABOVE_ALL = 6
"""Level that no message of docutils has."""
_SETTINGS = {
    "_disable_config": True,
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "report_level": _ABOVE_ALL,
    "halt_level": _ABOVE_ALL,
    "traceback": True,
    "line_length_limit": _LONGEST_LINE,
    "doctitle_xform": False,
    "trim_footnote_reference_space": True,
    "syntax_highlight": "none",
    "math_output": "MathML",
    "embed_stylesheet": False,
    "stylesheet_path": None,
    "output_encoding": "unicode",
}


def html_of(text: str) -> str:
    """A page without citations, marks of footnotes, fields such as author and date, and what lies in other files.

    :raises Unreadable: a line that is too long, or docutils gives up.
    :raises MissingExtra: docutils is not there.
    """
    try:
        from docutils import core, nodes
    except ImportError as error:
        raise MissingExtra("docutils", "text") from error
    lines = enumerate(text.splitlines(), start=1)
    if too_long := next((number for number, line in lines if len(line) > _LONGEST_LINE), None):
        raise Unreadable(f"line {too_long:,} is longer than {_LONGEST_LINE:,} characters: break it")
    unsaid = (nodes.field_list, nodes.footnote_reference, nodes.citation_reference, nodes.citation)
    try:
        tree = core.publish_doctree(text, settings_overrides=_SETTINGS)
        for node in [node for kind in unsaid for node in tree.findall(kind)]:
            node.parent.remove(node)
        page: Any = core.publish_from_doctree(tree, writer="html5", settings_overrides=_SETTINGS)
    except Exception as error:  # whatever a stranger's text makes docutils raise
        raise Unreadable(f"no reStructuredText: {type(error).__name__}: {error}") from error
    return str(page)
