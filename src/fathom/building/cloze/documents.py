"""What every kind of corpus gives: units, their keys, and the documents in them.

A unit is a record as it lies in the file: cheap to find, read only when it is wanted. So one pass over all files can
say which records are replaced by later ones before any of them is parsed.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from io import BufferedIOBase
from typing import Any, NamedTuple, Protocol

_NO_SIGNS = dict.fromkeys((*range(32), 127), " ")


def tidy(text: str) -> str:
    """White space collapsed, with NUL and other signs that steer a terminal for such, and letters with their accents as
    one sign, as the names of entities are."""
    collapsed = " ".join(text.split())
    if not collapsed.isprintable():
        collapsed = " ".join(collapsed.translate(_NO_SIGNS).split())
    return collapsed if collapsed.isascii() else unicodedata.normalize("NFC", collapsed)


class Paragraph(NamedTuple):
    """A paragraph, :func:`tidy`.

    :param section: its label in a structured abstract, "" for none.
    """

    text: str
    section: str = ""


class Document(NamedTuple):
    """:param date: the earliest it carries, as year-month-day, "" for none.
    :param languages: as PubMed writes them.
    """

    id: str
    date: str
    parts: Iterable[Paragraph]
    languages: tuple[str, ...] = ()


class Keys(NamedTuple):
    """What makes two records the same.

    :param ids: (id, version), of a record one or none, of a list of deletions all. A greater version replaces a smaller
        one wherever it stands.
    :param deleted: the ids are withdrawn.
    """

    ids: tuple[tuple[str, int], ...] = ()
    deleted: bool = False


class Unit(NamedTuple):
    """:param place: byte of the unpacked file, or line.
    :param content: for the corpus that made it.
    :param fault: why it cannot be read, "" where nothing is known yet.
    """

    place: int
    content: Any
    fault: str = ""


class Unreadable(Exception):
    """A record, or the rest of a file, that cannot be read; it is left out by name and counted."""


class Corpus(Protocol):
    """One file of some kind."""

    place: str
    """What :attr:`Unit.place` counts."""

    def units(self, file: BufferedIOBase) -> Iterator[Unit]:
        """Records one at a time, in file order. :raises Unreadable: the rest of the file is not what it should be."""

    def keys(self, unit: Unit) -> Keys:
        """Without parsing the record."""

    def document(self, unit: Unit) -> Document | None:
        """None where there is no record but a deletion. :raises Unreadable: the record is broken."""
