"""Paragraphs of marked-up texts: HTML, Markdown and reStructuredText (by HTML), and the bodies of JATS articles."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from io import BufferedIOBase
from typing import Any

from fathom.building.cloze.documents import Document, Keys, Paragraph, Unit, Unreadable, tidy
from fathom.errors import MissingExtra

_INLINE_TAGS = (
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label mark math q s samp small span "
    "strike strong sub sup time tt u var wbr"
)
_INLINE = frozenset(_INLINE_TAGS.split())
_SKIPPED_TAGS = (
    "aside button figure footer form head header math nav noscript pre script select style svg table template"
)
_SKIPPED = frozenset(_SKIPPED_TAGS.split())
_HEADINGS = frozenset(["h1", "h2", "h3", "h4", "h5", "h6"])
_FRONT_MATTER = re.compile(r"\A---\n.*?\n(?:---|\.\.\.)\n", re.DOTALL)
_LARGEST = 1 << 26
"""Bytes of a file, which is read as a whole."""


def blocks(
    walker: Any, is_inline: Callable[[Any], bool], is_skipped: Callable[[Any], bool], headings: frozenset[str]
) -> Iterator[Paragraph]:
    """Text between the tags that are not inline; each with the heading above it.

    :param is_inline: whether a tag stands within a sentence; *is_skipped* whether what it holds is left out.
    :param walker: lxml's ``iterwalk`` with the events start and end.
    """
    section = ""
    said: list[str] = []
    for event, element in walker:
        if not is_inline(element):
            text = tidy("".join(said))
            said = []
            if event == "end" and element.tag in headings:
                section = text
            elif text:
                yield Paragraph(text, section)
        if event == "end":
            said.append(element.tail or "")
        elif is_skipped(element):
            walker.skip_subtree()
        else:
            said.append(element.text or "")


def html_of_markdown(text: str) -> str:
    """Without front matter. :raises MissingExtra: markdown-it-py is not there."""
    try:
        from markdown_it import MarkdownIt
    except ImportError as error:
        raise MissingExtra(str(error.name), "text") from error
    return str(MarkdownIt("commonmark").enable("table").render(_FRONT_MATTER.sub("", text)))


class Hypertext:
    """A file is a document.

    :param name: of the file.
    :param render: makes HTML of what the file holds; None where it holds HTML.
    """

    place = "line"

    def __init__(self, name: str, encoding: str, render: Callable[[str], str] | None = None) -> None:
        try:
            from lxml import etree, html
        except ImportError as error:
            raise MissingExtra(str(error.name), "text") from error
        self.name, self.encoding = name, encoding
        self._etree, self._html = etree, html
        self._render = render

    def units(self, file: BufferedIOBase) -> Iterator[Unit]:
        """The file as a whole."""
        content = file.read(_LARGEST + 1)
        yield Unit(1, content, f"longer than {_LARGEST:,} bytes: split it" if len(content) > _LARGEST else "")

    def keys(self, unit: Unit) -> Keys:
        """None, as of plain text."""
        return Keys()

    def document(self, unit: Unit) -> Document | None:
        """Without tables, code, navigation and the like.

        :raises Unreadable: not in the encoding.
        """
        try:
            text = unit.content.decode(self.encoding).lstrip("\ufeff").replace("\r\n", "\n")
        except UnicodeError as error:
            raise Unreadable(f"not {self.encoding}; --encoding names another") from error
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
            raise Unreadable(f"no HTML: {error}") from error
        for line_break in root.iter("br"):
            line_break.tail = f" {line_break.tail or ''}"
        walker = self._etree.iterwalk(root, events=("start", "end"))
        inline = _INLINE | {"br"}
        yield from blocks(walker, lambda e: e.tag in inline, lambda e: e.tag in _SKIPPED, _HEADINGS)
