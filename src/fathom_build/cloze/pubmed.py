"""Records of PubMed and MEDLINE (``PubmedArticleSet``, ``MedlineCitationSet``) and JATS articles of PubMed Central.

PubMed records are cut out of the file by their tags and parsed one by one. So memory does not grow with the file, and
a fault affects one record. A record without an end tag ends where the next begins. For each PMID the greatest version
counts, and for each version the latest record. A broken record counts, too: its predecessor is known to be out of date.
``DeleteCitation`` withdraws earlier records. Articles are identified by PMC id, else by PMID or DOI; the latest counts.

The date of a record is the earliest that it carries (received, entered, published, created), since a text can have been
read from then on. A missing month or day is the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from io import BufferedIOBase
from itertools import chain
from typing import Any

from fathom.base.errors import optional
from fathom.base.reading.bounds import ARTICLES, DOCUMENT
from fathom_build.cloze.documents import Corpus, Document, Keys, Paragraph, Unit, UnreadableDocument
from fathom_build.cloze.markup import blocks
from fathom_build.cloze.typography import LISTS, pairs_in, tidy

LANGUAGES = pairs_in("languages")
"""Two-letter codes → PubMed's codes."""
_BLOCK = 1 << 20
_START = re.compile(rb"<(PubmedArticle|MedlineCitation|PubmedBookArticle|DeleteCitation)(?=[\s>])")
_LONGEST_TAG = 24
_PMID = re.compile(rb'<PMID(?:\s+Version="(\d{1,9})")?[^>]*>\s*(\d{1,18})\s*</PMID>')
_DECLARED = re.compile(rb"""<\?xml[^>]*?encoding=["']([\w.-]+)["']""")
_YEAR_FIRST = re.compile(r"(\d{4})(?:\s+([A-Z][a-z]{2})\b)?")
_YEAR, _MONTH, _DAY = map(re.compile, ("[0-9]{4}", "0?[1-9]|1[0-2]", "0?[1-9]|[12][0-9]|3[01]"))
_MONTHS = {name: number for number, name in enumerate(LISTS["months"], start=1)}
_ARTICLE = re.compile(rb"<article(?=[\s>]).*?(?:</article>|(?=<article[\s>])|\Z)", re.DOTALL)
_ID = re.compile(rb'<article-id[^>]*pub-id-type="(pmc|pmcid|pmid|doi)"[^>]*>\s*(?:PMC)?([^<]+?)\s*</article-id>')
_PREFIXES = {"pmc": "PMC", "pmcid": "PMC", "pmid": "", "doi": "doi:"}
"""Prefix of each kind of article id, the preferred kinds first."""
_ROOT = re.compile(rb"<(?:article|pmc-articleset)[\s>]")
_PUBMED = re.compile(rb"<(?:PubmedArticle|MedlineCitation)")
_INLINE, _SKIPPED = frozenset(LISTS["jats_inline"]), frozenset(LISTS["jats_skipped"])
_CITATIONS = frozenset(("bibr", "fn", "table-fn"))


def is_jats(head: bytes) -> bool:
    """Return whether a file that begins with *head* contains JATS articles, not PubMed records."""
    return _ROOT.search(head) is not None and _PUBMED.search(head) is None


class _Xml(Corpus):
    """:param titles: read the title as a paragraph."""

    place = "byte"

    def __init__(self, *, titles: bool) -> None:
        self.titles = titles
        self._etree = optional("lxml.etree", "text")
        self._parser: Any = None

    def _open(self, head: bytes) -> None:
        """Prepare to parse records, which have no XML declaration: that of the file names their encoding.

        :raises UnreadableDocument: UTF-16, or an encoding that lxml does not know.
        """
        if head.startswith((b"\xff\xfe", b"\xfe\xff", b"<\x00", b"\x00<")):
            raise UnreadableDocument("UTF-16: save it as UTF-8")
        declared = _DECLARED.search(head[:400])
        encoding = declared[1].decode() if declared else "utf-8"
        safe = {"resolve_entities": False, "no_network": True, "huge_tree": True}
        try:
            self._parser = self._etree.XMLParser(encoding=encoding, **safe)
        except LookupError as error:
            raise UnreadableDocument(f"unknown encoding {encoding!r}: save it as UTF-8") from error

    def _parse(self, content: bytes) -> Any:
        try:
            return self._etree.fromstring(content, self._parser)
        except self._etree.XMLSyntaxError as error:
            raise UnreadableDocument(f"not well-formed XML: {error.msg}") from error

    def _title(self, element: Any) -> list[Paragraph]:
        text = tidy("".join(element.itertext())) if self.titles and element is not None else ""
        return [Paragraph(text, "TITLE")] if text else []


class Medline(_Xml):
    """A file of PubMed records."""

    def units(self, file: BufferedIOBase) -> Iterator[Unit]:
        """Read records as they lie in the file, from tag to tag, and lists of deletions.

        :raises UnreadableDocument: UTF-16, or an encoding that lxml does not know.
        """
        # read1: of a damaged compressed file it gives what can be unpacked before it fails.
        buffer = file.read1(_BLOCK)
        self._open(buffer)
        before = at = 0  # bytes of the file before the buffer; place in the buffer
        while True:
            start = _START.search(buffer, at)
            first = start.start() if start else max(at, len(buffer) - _LONGEST_TAG)  # a tag may be cut in two
            end, fault = _end(buffer, start) if start else (-1, "")
            if end >= 0:
                yield Unit(before + first, buffer[first:end], fault)
                at = end
                continue
            block = file.read1(_BLOCK)
            if start and (not block or len(buffer) - first >= DOCUMENT.most):
                yield Unit(before + first, buffer[first:], f"no </{start[1].decode()}>")
                first = len(buffer)
            if not block:
                return
            before, buffer, at = before + first, buffer[first:] + block, 0

    def keys(self, unit: Unit) -> Keys:
        """Return PMID and version; of a list of deletions, all of them."""
        if unit.content.startswith(b"<DeleteCitation"):
            return Keys(tuple(map(_versioned, _PMID.finditer(unit.content))), deleted=True)
        match = _PMID.search(unit.content)  # the record's own PMID precedes those it cites
        return Keys() if match is None else Keys((_versioned(match),))

    def document(self, unit: Unit) -> Document | None:
        """Return title and abstract; None for a list of deletions.

        :raises UnreadableDocument: broken XML, a book chapter, or no article.
        """
        if unit.content.startswith(b"<DeleteCitation"):
            return None
        record = self._parse(unit.content)
        citation = record if record.tag == "MedlineCitation" else record.find("MedlineCitation")
        article = None if citation is None else citation.find("Article")
        if article is None:
            what = "a book chapter" if record.tag == "PubmedBookArticle" else "no MedlineCitation with an Article"
            raise UnreadableDocument(f"{what}: not read")
        abstract = article.findall("Abstract/AbstractText")
        paragraphs = [Paragraph(tidy("".join(part.itertext())), part.get("Label", "")) for part in abstract]
        dates = (
            *record.findall("PubmedData/History/PubMedPubDate"),
            *citation.findall("DateCreated"),
            *article.findall("ArticleDate"),
            *article.findall("Journal/JournalIssue/PubDate"),
        )
        return Document(
            citation.findtext("PMID", "").strip(),
            min(filter(None, map(_date, dates)), default=""),
            [*self._title(article.find("ArticleTitle")), *(part for part in paragraphs if part.text)],
            tuple(language.text or "" for language in article.findall("Language")),
        )


def _end(buffer: bytes, start: re.Match[bytes]) -> tuple[int, str]:
    """Return the end of a record and its fault; −1 if the end is not in the buffer."""
    name = start[1]
    end = buffer.find(b"</" + name + b">", start.end())
    again = buffer.find(b"<" + name, start.end(), len(buffer) if end < 0 else end)
    if again >= 0 and not buffer.startswith(b"<MedlineCitationSet", again):
        return again, f"no </{name.decode()}>"
    return (end + len(name) + 3, "") if end >= 0 else (-1, "")


def _versioned(match: re.Match[bytes]) -> tuple[str, int]:
    return f"pmid {int(match[2])}", int(match[1] or 1)


def _date(element: Any) -> str:
    parts = {part.tag: part.text or "" for part in reversed(element)}  # faster than to look for each
    year, month, day = (parts.get(name, "").strip() for name in ("Year", "Month", "Day"))
    if not year:  # "1998 Dec-1999 Jan"
        match = _YEAR_FIRST.search(parts.get("MedlineDate", ""))
        year, month = (match[1], match[2] or "") if match else ("", "")
    return _day(year, month, day)


@lru_cache(maxsize=1 << 14)
def _day(year: str, month: str, day: str) -> str:
    """Return a date as year-month-day, missing parts taken as the first; "" without a year."""
    if not _YEAR.fullmatch(year):
        return ""
    number = int(month) if _MONTH.fullmatch(month) else _MONTHS.get(month[:3].title(), 1)
    return f"{year}-{number:02}-{int(day) if _DAY.fullmatch(day) else 1:02}"


class Jats(_Xml):
    """A file of articles, named after it if they have no id, read without tables, figures, formulas and references."""

    def __init__(self, name: str, *, titles: bool) -> None:
        super().__init__(titles=titles)
        self.name = name

    def units(self, file: BufferedIOBase) -> Iterator[Unit]:
        """Read articles, from tag to tag. :raises UnreadableDocument: unknown encoding, or too large."""
        content = file.read(ARTICLES.most + 1)
        if len(content) > ARTICLES.most:
            raise UnreadableDocument(f"{ARTICLES.fault()}: give one article per file")
        self._open(content)
        for match in _ARTICLE.finditer(content):
            yield Unit(match.start(), match[0], "" if match[0].endswith(b"</article>") else "no </article>")

    def keys(self, unit: Unit) -> Keys:
        """Return the first of PMC id, PMID and DOI."""
        id_ = _article_id(unit.content)
        return Keys(((id_, 1),)) if id_ else Keys()

    def document(self, unit: Unit) -> Document:
        """Return title, abstract and body. :raises UnreadableDocument: broken XML."""
        article = self._parse(unit.content)
        language = article.get("{http://www.w3.org/XML/1998/namespace}lang", "").lower()[:2]
        languages = (LANGUAGES.get(language, language),) if language else ()
        meta = article.find("front/article-meta")
        dates = [] if meta is None else [*meta.findall("pub-date"), *meta.findall("history/date")]
        days = (_day(*(date.findtext(name, "").strip() for name in ("year", "month", "day"))) for date in dates)
        id_ = _article_id(unit.content) or f"{self.name}:{unit.place}"
        return Document(id_, min(filter(None, days), default=""), list(self._parts(article)), languages)

    def _parts(self, article: Any) -> Iterator[Paragraph]:
        yield from self._title(article.find("front/article-meta/title-group/article-title"))
        for part in chain(article.findall("front/article-meta/abstract"), article.findall("body")):
            walker = self._etree.iterwalk(part, events=("start", "end"))
            yield from blocks(walker, lambda element: element.tag in _INLINE, _is_skipped, frozenset(("title",)))


def _is_skipped(element: Any) -> bool:
    return element.tag in _SKIPPED or (element.tag == "xref" and element.get("ref-type") in _CITATIONS)


def _article_id(content: bytes) -> str:
    """Return the id of the article, which precedes those of the articles it cites; "" for none."""
    head = content[: content.find(b"</article-meta>")]
    ids = {match[1].decode(): match[2].decode("utf-8", "replace") for match in _ID.finditer(head)}
    return next((prefix + ids[kind] for kind, prefix in _PREFIXES.items() if kind in ids), "")
