"""PubMed and MEDLINE XML: ``PubmedArticleSet``, and the older ``MedlineCitationSet``.

Records are cut out of the file by their tags and parsed one by one: memory does not grow with the file, and a broken
record is one record. A record whose end is missing ends where the next begins.

The same PMID: the greater version counts, of one version the later record, also where that one is broken (its
predecessor is known to be out of date); ``DeleteCitation`` withdraws what stands before it.

The date of a record is the earliest that it carries (received, entered, electronic or printed publication, created),
since a text can have been read from then on; a missing month or day is the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from io import BufferedIOBase
from typing import Any

from fathom.building.cloze.documents import Document, Keys, Paragraph, Unit, Unreadable, tidy
from fathom.errors import MissingExtra

_BLOCK = 1 << 20
_LONGEST = 1 << 26
"""Bytes of a record; what is longer has lost its end."""
_START = re.compile(rb"<(PubmedArticle|MedlineCitation|PubmedBookArticle|DeleteCitation)(?=[\s>])")
_LONGEST_TAG = 24
_PMID = re.compile(rb'<PMID(?:\s+Version="(\d{1,9})")?[^>]*>\s*(\d{1,18})\s*</PMID>')
_DECLARED = re.compile(rb"""<\?xml[^>]*?encoding=["']([\w.-]+)["']""")
_YEAR_FIRST = re.compile(r"(\d{4})(?:\s+([A-Z][a-z]{2})\b)?")
_YEAR, _MONTH, _DAY = map(re.compile, ("[0-9]{4}", "0?[1-9]|1[0-2]", "0?[1-9]|[12][0-9]|3[01]"))
_MONTHS = {
    name: number + 1
    for number, name in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split())  # noqa: SIM905
}

LANGUAGES = {
    "ar": "ara",
    "bg": "bul",
    "cs": "cze",
    "da": "dan",
    "de": "ger",
    "el": "gre",
    "en": "eng",
    "es": "spa",
    "et": "est",
    "fa": "per",
    "fi": "fin",
    "fr": "fre",
    "he": "heb",
    "hi": "hin",
    "hr": "hrv",
    "hu": "hun",
    "it": "ita",
    "ja": "jpn",
    "ko": "kor",
    "lt": "lit",
    "lv": "lav",
    "nl": "dut",
    "no": "nor",
    "pl": "pol",
    "pt": "por",
    "ro": "rum",
    "ru": "rus",
    "sk": "slo",
    "sl": "slv",
    "sr": "srp",
    "sv": "swe",
    "th": "tha",
    "tr": "tur",
    "uk": "ukr",
    "vi": "vie",
    "zh": "chi",
}
"""Two letters → PubMed's three."""


class Medline:
    """:param titles: a title is a paragraph, too."""

    place = "byte"

    def __init__(self, *, titles: bool) -> None:
        try:
            from lxml import etree
        except ImportError as error:
            raise MissingExtra("lxml", "text") from error
        self.titles = titles
        self._etree = etree
        self._parser: Any = None

    def units(self, file: BufferedIOBase) -> Iterator[Unit]:
        """Records as they lie in the file, from tag to tag, and lists of deletions.

        :raises Unreadable: UTF-16, or an encoding that lxml does not know.
        """
        # read1: of a damaged packed file it gives what can be unpacked before it fails.
        buffer = file.read1(_BLOCK)
        self._parser = parser_for(self._etree, buffer)
        before = at = 0  # bytes of the file before the buffer; where in the buffer to go on
        while True:
            start = _START.search(buffer, at)
            if start is None:
                block = file.read1(_BLOCK)
                if not block:
                    return
                at = max(at, len(buffer) - _LONGEST_TAG)  # a tag may be cut in two
                before, buffer, at = before + at, buffer[at:] + block, 0
                continue
            first, name = start.start(), start[1]
            end = buffer.find(b"</" + name + b">", first)
            again = buffer.find(b"<" + name, start.end(), len(buffer) if end < 0 else end)
            if again >= 0 and buffer[again : again + _LONGEST_TAG].startswith(b"<MedlineCitationSet"):
                again = -1
            if again >= 0:
                yield Unit(before + first, buffer[first:again], f"no </{name.decode()}>")
                at = again
            elif end >= 0:
                at = end + len(name) + 3
                yield Unit(before + first, buffer[first:at])
            else:
                block = file.read1(_BLOCK)
                if block and len(buffer) - first < _LONGEST:
                    before, buffer, at = before + first, buffer[first:] + block, 0
                    continue
                yield Unit(before + first, buffer[first:], f"no </{name.decode()}>")
                if not block:
                    return
                before, buffer, at = before + len(buffer), block, 0

    def keys(self, unit: Unit) -> Keys:
        """PMID and version; of a list of deletions all of them."""
        if unit.content.startswith(b"<DeleteCitation"):
            return Keys(tuple(map(_versioned, _PMID.finditer(unit.content))), deleted=True)
        match = _PMID.search(unit.content)  # the record's own stands before those it cites
        return Keys() if match is None else Keys((_versioned(match),))

    def document(self, unit: Unit) -> Document | None:
        """Title and abstract; None for a list of deletions.

        :raises Unreadable: broken XML, a book chapter, or no article.
        """
        if unit.content.startswith(b"<DeleteCitation"):
            return None
        try:
            record = self._etree.fromstring(unit.content, self._parser)
        except self._etree.XMLSyntaxError as error:
            raise Unreadable(f"not well-formed XML: {error.msg}") from error
        citation = record if record.tag == "MedlineCitation" else record.find("MedlineCitation")
        article = None if citation is None else citation.find("Article")
        if article is None:
            what = "a book chapter" if record.tag == "PubmedBookArticle" else "no MedlineCitation with an Article"
            raise Unreadable(f"{what}: not read")
        return Document(
            citation.findtext("PMID", "").strip(),
            _earliest(record, citation, article),
            list(self._parts(article)),
            tuple(language.text or "" for language in article.findall("Language")),
        )

    def _parts(self, article: Any) -> Iterator[Paragraph]:
        title = article.find("ArticleTitle")
        if self.titles and title is not None and (text := tidy("".join(title.itertext()))):
            yield Paragraph(text, "TITLE")
        for abstract in article.findall("Abstract/AbstractText"):
            if text := tidy("".join(abstract.itertext())):
                yield Paragraph(text, abstract.get("Label", ""))


def parser_for(etree: Any, head: bytes) -> Any:
    """Records have no XML declaration of their own: that of the file says how their bytes are read.

    :raises Unreadable: UTF-16, or an encoding that lxml does not know.
    """
    if head.startswith((b"\xff\xfe", b"\xfe\xff", b"<\x00", b"\x00<")):
        raise Unreadable("UTF-16: save it as UTF-8")
    declared = _DECLARED.search(head[:400])
    encoding = declared[1].decode() if declared else "utf-8"
    try:
        return etree.XMLParser(encoding=encoding, resolve_entities=False, no_network=True, huge_tree=True)
    except LookupError as error:
        raise Unreadable(f"unknown encoding {encoding!r}: save it as UTF-8") from error


def _versioned(match: re.Match[bytes]) -> tuple[str, int]:
    return f"pmid {int(match[2])}", int(match[1] or 1)


def _earliest(record: Any, citation: Any, article: Any) -> str:
    elements = [
        *record.findall("PubmedData/History/PubMedPubDate"),
        *citation.findall("DateCreated"),
        *article.findall("ArticleDate"),
        *article.findall("Journal/JournalIssue/PubDate"),
    ]
    return min(filter(None, map(_date, elements)), default="")


def _date(element: Any) -> str:
    said = {part.tag: part.text or "" for part in reversed(element)}  # faster than to look for each
    year, month, day = said.get("Year", "").strip(), said.get("Month", "").strip(), said.get("Day", "").strip()
    if not year:  # "1998 Dec-1999 Jan"
        found = _YEAR_FIRST.search(said.get("MedlineDate", ""))
        year, month = (found[1], found[2] or "") if found else ("", "")
    return day_of(year, month, day)


@lru_cache(maxsize=1 << 14)
def day_of(year: str, month: str, day: str) -> str:
    """Year, month and day as they stand in a record, those that are missing taken as the first; "" without a year."""
    if not _YEAR.fullmatch(year):
        return ""
    number = int(month) if _MONTH.fullmatch(month) else _MONTHS.get(month[:3].title(), 1)
    return f"{year}-{number:02}-{int(day) if _DAY.fullmatch(day) else 1:02}"
