"""Paragraphs of HTML, Markdown and reStructuredText files, and of the bodies of JATS articles."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from io import BufferedIOBase
from typing import Any

from fathom.base.errors import optional
from fathom.base.reading.bounds import DOCUMENT
from fathom_build.cloze.documents import Corpus, Document, Paragraph, Unit, UnreadableDocument, decode
from fathom_build.cloze.typography import LISTS, tidy

_INLINE = frozenset((*LISTS["html_inline"], "br"))
_SKIPPED = frozenset(LISTS["html_skipped"])
_HEADINGS = frozenset(["h1", "h2", "h3", "h4", "h5", "h6"])
_FRONT_MATTER = re.compile(r"\A---\n.*?\n(?:---|\.\.\.)\n", re.DOTALL)
_CALLOUT = re.compile(r"^([ \t>]*)(?:\[!\w+\]|:{3,}).*$", re.MULTILINE)
"""The marker of a callout, which would be read as the beginning of its text."""
_DEFINITION = re.compile(r"\n[ \t]*\n?:[ \t]+(?=\S)")
"""A definition of a definition list, which would be read as the rest of its term."""
_ROLE = re.compile(r":[a-z][\w:.+-]*:`([^`]+?)(?:\s+<[^`]*>)?`")
"""A role of Sphinx, which docutils does not know: its text, without its target."""
_LONGEST_LINE = 10_000
"""Characters of reStructuredText; docutils limits substitutions, which may be nested, to the same length."""
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
"""Foreign text may neither include files or HTML nor stop the build."""


def blocks(
    walker: Any, is_inline: Callable[[Any], bool], is_skipped: Callable[[Any], bool], headings: frozenset[str]
) -> Iterator[Paragraph]:
    """Read the text between tags that are not inline (within a sentence) or skipped, each with the heading above it.

    :param walker: lxml's ``iterwalk`` with the events start and end.
    """
    section = ""
    texts: list[str] = []
    for event, element in walker:
        if not is_inline(element):
            text = tidy("".join(texts))
            texts = []
            if event == "end" and element.tag in headings:
                section = text
            elif text:
                yield Paragraph(text, section)
        if event == "end":
            texts.append(element.tail or "")
        elif is_skipped(element):
            walker.skip_subtree()
        else:
            texts.append(element.text or "")


def render_markdown(text: str) -> str:
    """Convert Markdown to HTML, without front matter; terms and their definitions become paragraphs."""
    parser = optional("markdown_it", "text").MarkdownIt("commonmark").enable("table")
    prose = _DEFINITION.sub("\n\n", _CALLOUT.sub(r"\1", _FRONT_MATTER.sub("", text)))
    return str(parser.render(prose))


def render_restructured(text: str) -> str:
    """Convert reStructuredText to HTML, without citations, footnote marks and fields such as author and date.

    :raises UnreadableDocument: a line is too long, or docutils fails.
    """
    nodes, core = optional("docutils.nodes", "text"), optional("docutils.core", "text")
    lines = enumerate(text.splitlines(), start=1)
    if too_long := next((number for number, line in lines if len(line) > _LONGEST_LINE), None):
        raise UnreadableDocument(f"line {too_long:,} is longer than {_LONGEST_LINE:,} characters: break it")
    dropped = (nodes.field_list, nodes.footnote_reference, nodes.citation_reference, nodes.citation)
    try:
        tree = core.publish_doctree(_ROLE.sub(r"\1", text), settings_overrides=_SETTINGS)
        for node in [node for kind in dropped for node in tree.findall(kind)]:
            node.parent.remove(node)
        return str(core.publish_from_doctree(tree, writer="html5", settings_overrides=_SETTINGS))
    except Exception as error:  # whatever foreign text makes docutils raise
        raise UnreadableDocument(f"no reStructuredText: {type(error).__name__}: {error}") from error


class Hypertext(Corpus):
    """A marked-up file, which is one document. :param render: converts its content to HTML; None for HTML."""

    def __init__(self, name: str, encoding: str, render: Callable[[str], str] | None = None) -> None:
        self.name, self.encoding, self._render = name, encoding, render
        self._etree, self._html = optional("lxml.etree", "text"), optional("lxml.html", "text")

    def units(self, file: BufferedIOBase) -> Iterator[Unit]:
        """Read the file as a whole."""
        content = file.read(DOCUMENT.most + 1)
        yield Unit(1, content, f"{DOCUMENT.fault()}: split it" if len(content) > DOCUMENT.most else "")

    def document(self, unit: Unit) -> Document:
        """Return text without tables, code and navigation. :raises UnreadableDocument: it is not in the encoding."""
        text = decode(unit.content, self.encoding).replace("\r\n", "\n")
        if self._render is not None:
            text = self._render(text)
        return Document(self.name, "", list(self._paragraphs(text)))

    def _paragraphs(self, text: str) -> Iterator[Paragraph]:
        if not text.strip():
            return
        parser = self._html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
        try:
            root = self._html.document_fromstring(text.encode("utf-8", "replace"), parser)
        except self._etree.ParserError as error:
            raise UnreadableDocument(f"no HTML: {error}") from error
        for line_break in root.iter("br"):
            line_break.tail = f" {line_break.tail or ''}"
        walker = self._etree.iterwalk(root, events=("start", "end"))
        yield from blocks(walker, lambda e: e.tag in _INLINE, lambda e: e.tag in _SKIPPED, _HEADINGS)
