"""Documents of a corpus, and their readers: plain text, JSON Lines, HTML, Markdown, reStructuredText, PubMed and JATS.

A unit is a record in the file: cheap to find and parsed on demand. So one pass over all files determines which records
are replaced by later ones before any of them is parsed.
"""

from __future__ import annotations

import datetime
import io
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from io import BufferedIOBase
from itertools import chain
from typing import IO, Any, NamedTuple, cast

from fathom.base.errors import optional
from fathom.base.reading import Json, NotData, json_value
from fathom.base.reading.bounds import ARTICLES, DOCUMENT
from fathom_build.cloze.typography import LISTS, pairs_in, tidy

_LONGEST_PARAGRAPH = 1 << 20
"""Characters after which a paragraph of plain text is cut, so that a file of one line is read in pieces."""
_BLANK_LINE = re.compile(r"\n\s*\n")


class Paragraph(NamedTuple):
    """A paragraph, tidied; ``section`` is its label or the heading above it, "" for none."""

    text: str
    section: str = ""


class Document(NamedTuple):
    """A document; ``date`` is the earliest in the record, as year-month-day, "" for none."""

    id: str
    date: str
    parts: Iterable[Paragraph]
    languages: tuple[str, ...] = ()


class Keys(NamedTuple):
    """Identity of a record.

    :param ids: (id, version); at most one for a record, all for a list of deletions. A greater version replaces a
        smaller one regardless of order.
    :param deleted: the ids are withdrawn.
    """

    ids: tuple[tuple[str, int], ...] = ()
    deleted: bool = False


class Unit(NamedTuple):
    """A record at a byte of the unpacked file, or line; ``fault`` says why it cannot be read, "" if unknown."""

    place: int
    content: Any
    fault: str = ""


AS_UTF_8 = "save it as UTF-8, such as by iconv -f latin1 -t utf-8"


class UnreadableDocument(Exception):
    """A record, or the rest of a file, that cannot be read; it is skipped, named and counted."""


class Corpus:
    """One file of some kind. By default it is one document, its units are lines, and none replaces another."""

    place = "line"
    """What :attr:`Unit.place` counts."""

    def units(self, file: BufferedIOBase) -> Iterator[Unit]:
        """Read records one at a time, in file order. :raises UnreadableDocument: the rest of the file is malformed."""
        yield Unit(1, file)

    def keys(self, unit: Unit) -> Keys:
        """Identify a record without parsing it."""
        return Keys()

    def document(self, unit: Unit) -> Document | None:
        """Parse a record; None for a list of deletions. :raises UnreadableDocument: the record is broken."""
        raise NotImplementedError


class JsonLines(Corpus):
    """Lines such as ``{"id": "…", "text": "…", "date": "2022-03-01"}``; file and line replace a missing id."""

    def __init__(self, name: str) -> None:
        self.name = name

    def units(self, file: BufferedIOBase) -> Iterator[Unit]:
        """Read lines that are not blank."""
        for number, line, fault in _lines(file):
            try:
                yield Unit(number, {} if fault else self._row(line), fault)
            except UnreadableDocument as error:
                yield Unit(number, {}, str(error))

    def _row(self, line: bytes) -> Json:
        try:
            row = json_value(decode(line))
        except NotData as error:
            raise UnreadableDocument(error.why) from error
        if not isinstance(row, dict) or not isinstance(row.get("text"), str):
            raise UnreadableDocument('expected {"id": "…", "text": "…", "date": "…"}')
        if row.get("date") and not _day(row["date"]):
            raise UnreadableDocument(f"expected a date such as 2022-03-01, 2022-03 or 2022, found {row['date']!r}")
        return row

    def keys(self, unit: Unit) -> Keys:
        """Return the line's id, if it has one."""
        return Keys(((f"id {unit.content['id']}", 1),) if unit.content.get("id") is not None else ())

    def document(self, unit: Unit) -> Document:
        """Return its paragraphs; a blank line ends one."""
        row = unit.content
        return Document(
            str(row["id"]) if row.get("id") is not None else f"{self.name}:{unit.place}",
            _day(row.get("date")),
            [Paragraph(text) for paragraph in _BLANK_LINE.split(row["text"]) if (text := tidy(paragraph))],
        )


class PlainText(Corpus):
    """A text whose paragraphs end at blank lines; with *by_line* each line is a document."""

    def __init__(self, name: str, *, by_line: bool) -> None:
        self.name, self.by_line = name, by_line

    def units(self, file: BufferedIOBase) -> Iterator[Unit]:
        """Return the file as a whole, or read its lines that are not blank."""
        return _lines(file) if self.by_line else super().units(file)

    def document(self, unit: Unit) -> Document:
        """Read paragraphs one at a time, so that a long file need not fit in memory.

        :raises UnreadableDocument: a line that is not UTF-8.
        """
        if self.by_line:
            return Document(f"{self.name}:{unit.place}", "", [Paragraph(tidy(decode(unit.content)))])
        return Document(self.name, "", self._paragraphs(unit.content))

    def _paragraphs(self, file: BufferedIOBase) -> Iterator[Paragraph]:
        reader = io.TextIOWrapper(cast("IO[bytes]", file), "utf-8")
        lines: list[str] = []
        number = length = 0
        try:
            while line := reader.readline(_LONGEST_PARAGRAPH):
                number += 1
                line = line.removeprefix("\ufeff") if number == 1 else line
                if line.strip() and length < _LONGEST_PARAGRAPH:
                    lines.append(line)
                    length += len(line)
                    continue
                if text := tidy("".join(lines)):
                    yield Paragraph(text)
                lines, length = [line], len(line)
            if text := tidy("".join(lines)):
                yield Paragraph(text)
        except UnicodeError as error:
            raise UnreadableDocument(f"not UTF-8 near line {number + 1}: the rest is skipped; {AS_UTF_8}") from error
        finally:
            reader.detach()


def decode(content: bytes) -> str:
    """Decode a text, without its byte order mark. :raises UnreadableDocument: it is not UTF-8."""
    try:
        return content.decode().lstrip("\ufeff")
    except UnicodeDecodeError as error:
        raise UnreadableDocument(f"not UTF-8 (byte {error.start}): {AS_UTF_8}") from error


def _lines(file: BufferedIOBase) -> Iterator[Unit]:
    """Read lines that are not blank; one that is too long has a fault."""
    number = 0
    while line := file.readline(DOCUMENT.most):
        number += 1
        whole = len(line) < DOCUMENT.most or line.endswith(b"\n")
        if line.strip() or not whole:
            yield Unit(number, line, "" if whole else DOCUMENT.fault())
        while not whole and (line := file.readline(DOCUMENT.most)):
            whole = line.endswith(b"\n")


def _day(value: object) -> str:
    """Return year, month and day, missing ones taken as the first; "" if it is no date."""
    match = re.match(r"(\d{4})(?:-(\d\d)(?:-(\d\d))?)?(?!\d)", str(value or ""))
    try:
        return datetime.date(*(int(part or 1) for part in match.groups())).isoformat() if match else ""
    except ValueError:
        return ""


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
    return str(parser.render(_DEFINITION.sub("\n\n", _CALLOUT.sub(r"\1", _FRONT_MATTER.sub("", text)))))


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

    def __init__(self, name: str, render: Callable[[str], str] | None = None) -> None:
        self.name, self._render = name, render
        self._etree, self._html = optional("lxml.etree", "text"), optional("lxml.html", "text")

    def units(self, file: BufferedIOBase) -> Iterator[Unit]:
        """Read the file as a whole."""
        content = file.read(DOCUMENT.most + 1)
        yield Unit(1, content, f"{DOCUMENT.fault()}: split it" if len(content) > DOCUMENT.most else "")

    def document(self, unit: Unit) -> Document:
        """Return text without tables, code and navigation. :raises UnreadableDocument: it is not UTF-8."""
        text = decode(unit.content).replace("\r\n", "\n")
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
_JATS_INLINE, _JATS_SKIPPED = frozenset(LISTS["jats_inline"]), frozenset(LISTS["jats_skipped"])
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
        """Prepare to parse records, which have no XML declaration: that of the file names their encoding."""
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
    return _ymd(year, month, day)


@lru_cache(maxsize=1 << 14)
def _ymd(year: str, month: str, day: str) -> str:
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
        days = (_ymd(*(date.findtext(name, "").strip() for name in ("year", "month", "day"))) for date in dates)
        id_ = _article_id(unit.content) or f"{self.name}:{unit.place}"
        return Document(id_, min(filter(None, days), default=""), list(self._parts(article)), languages)

    def _parts(self, article: Any) -> Iterator[Paragraph]:
        yield from self._title(article.find("front/article-meta/title-group/article-title"))
        for part in chain(article.findall("front/article-meta/abstract"), article.findall("body")):
            walker = self._etree.iterwalk(part, events=("start", "end"))
            yield from blocks(walker, lambda element: element.tag in _JATS_INLINE, _is_skipped, frozenset(("title",)))


def _is_skipped(element: Any) -> bool:
    return element.tag in _JATS_SKIPPED or (element.tag == "xref" and element.get("ref-type") in _CITATIONS)


def _article_id(content: bytes) -> str:
    """Return the id of the article, which precedes those of the articles it cites; "" for none."""
    head = content[: content.find(b"</article-meta>")]
    ids = {match[1].decode(): match[2].decode("utf-8", "replace") for match in _ID.finditer(head)}
    return next((prefix + ids[kind] for kind, prefix in _PREFIXES.items() if kind in ids), "")
