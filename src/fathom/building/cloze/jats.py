"""Articles of PubMed Central in JATS XML: abstract and body, without tables, figures, formulas and references.

Their id is that of PubMed Central, else PMID or DOI; of several with one id the last counts. Their date is the earliest
that they carry, as of :mod:`~fathom.building.cloze.medline`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BufferedIOBase
from itertools import chain
from typing import Any

from fathom.building.cloze.blocks import blocks
from fathom.building.cloze.documents import Document, Keys, Paragraph, Unit, Unreadable, tidy
from fathom.building.cloze.medline import LANGUAGES, day_of, parser_for
from fathom.errors import MissingExtra

_ARTICLE = re.compile(rb"<article(?=[\s>]).*?(?:</article>|(?=<article[\s>])|\Z)", re.DOTALL)
_ID = re.compile(rb'<article-id[^>]*pub-id-type="(pmc|pmcid|pmid|doi)"[^>]*>\s*(?:PMC)?([^<]+?)\s*</article-id>')
_ORDER = {"pmc": 0, "pmcid": 0, "pmid": 1, "doi": 2}
_ROOT = re.compile(rb"<(?:article|pmc-articleset)[\s>]")
_PUBMED = re.compile(rb"<(?:PubmedArticle|MedlineCitation)")
_INLINE_TAGS = (
    "abbrev bold fn chem-struct email ext-link inline-formula inline-graphic italic monospace named-content roman "
    "sans-serif sc strike styled-content sub sup underline uri xref"
)
_INLINE = frozenset(_INLINE_TAGS.split())
_SKIPPED_TAGS = (
    "ack alternatives app-group array boxed-text code disp-formula fig fig-group fn fn-group graphic inline-graphic "
    "label math media preformat ref-list supplementary-material table table-wrap table-wrap-foot tex-math"
)
_SKIPPED = frozenset(_SKIPPED_TAGS.split())
_CITATIONS = frozenset(("bibr", "fn", "table-fn"))
_LARGEST = 1 << 28
"""Bytes of a file, which is read as a whole: PubMed Central's have one article each."""


def is_jats(head: bytes) -> bool:
    """Whether a file that begins so is of this kind, not one of PubMed's records."""
    return _ROOT.search(head) is not None and _PUBMED.search(head) is None


class Jats:
    """:param name: of the file: an article without an id is named after it.
    :param titles: a title is a paragraph, too.
    """

    place = "byte"

    def __init__(self, name: str, *, titles: bool) -> None:
        try:
            from lxml import etree
        except ImportError as error:
            raise MissingExtra("lxml", "text") from error
        self.name, self.titles = name, titles
        self._etree = etree
        self._parser: Any = None

    def units(self, file: BufferedIOBase) -> Iterator[Unit]:
        """Articles, from tag to tag. :raises Unreadable: an encoding that is not known, or a file that is too large."""
        content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise Unreadable(f"longer than {_LARGEST:,} bytes: give one article per file")
        self._parser = parser_for(self._etree, content)
        for found in _ARTICLE.finditer(content):
            yield Unit(found.start(), found[0], "" if found[0].endswith(b"</article>") else "no </article>")

    def keys(self, unit: Unit) -> Keys:
        """The first of PubMed Central's id, PMID and DOI."""
        id_ = _id_of(unit.content)
        return Keys(((id_, 1),)) if id_ else Keys()

    def document(self, unit: Unit) -> Document | None:
        """:raises Unreadable: broken XML."""
        try:
            article = self._etree.fromstring(unit.content, self._parser)
        except self._etree.XMLSyntaxError as error:
            raise Unreadable(f"not well-formed XML: {error.msg}") from error
        language = article.get("{http://www.w3.org/XML/1998/namespace}lang", "").lower()[:2]
        spoken = (LANGUAGES.get(language, language),) if language else ()
        id_ = _id_of(unit.content) or f"{self.name}:{unit.place}"
        return Document(id_, _earliest(article), list(self._parts(article)), spoken)

    def _parts(self, article: Any) -> Iterator[Paragraph]:
        title = article.find("front/article-meta/title-group/article-title")
        if self.titles and title is not None and (text := tidy("".join(title.itertext()))):
            yield Paragraph(text, "TITLE")
        for part in chain(article.findall("front/article-meta/abstract"), article.findall("body")):
            yield from blocks(
                self._etree.iterwalk(part, events=("start", "end")), _is_inline, _is_skipped, frozenset(("title",))
            )


def _is_inline(element: Any) -> bool:
    return element.tag in _INLINE


def _is_skipped(element: Any) -> bool:
    return element.tag in _SKIPPED or (element.tag == "xref" and element.get("ref-type") in _CITATIONS)


def _id_of(content: bytes) -> str:
    """Of the article itself: its own ids stand before those of what it cites."""
    head = content[: content.find(b"</article-meta>")]
    kinds = {found[1].decode(): found[2].decode("utf-8", "replace") for found in _ID.finditer(head)}
    kind = min(kinds, key=lambda kind: _ORDER[kind], default="")
    said = {"pmc": "PMC", "pmcid": "PMC", "pmid": "", "doi": "doi:"}
    return said[kind] + kinds[kind] if kind else ""


def _earliest(article: Any) -> str:
    meta = article.find("front/article-meta")
    dates = [] if meta is None else [*meta.findall("pub-date"), *meta.findall("history/date")]
    days = (day_of(*(date.findtext(name, "").strip() for name in ("year", "month", "day"))) for date in dates)
    return min(filter(None, days), default="")
