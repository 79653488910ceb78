"""Sentences on their way to queries: those that say the same are one, those that ask the same are one query.

They lie on disk, one a line; only prompts with several answers are held in memory.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from fathom.building.cloze.entities import ListedEntity
from fathom.building.cloze.occurrences import Occurrences
from fathom.building.cloze.typography import fold, plain


class Row(NamedTuple):
    """A sentence.

    :param entity: number of its answer.
    :param masked: with the answer's place in it.
    :param surface: what stood there.
    :param source: number of its file.
    :param others: numbers of further right answers.
    :param ngram: where an n-gram model puts the best of them, among its type and among all, as far as these differ.
    """

    entity: int
    masked: str
    surface: str
    document: str
    date: str
    offset: int
    section: str
    source: int
    others: Sequence[int] = ()
    ngram: Sequence[str] = ()


class Rows:
    """:param folder: for what lies on disk.
    :param merge: sentences of a type with the same prompt are one query.
    """

    def __init__(self, folder: Path, entities: Sequence[ListedEntity], *, merge: bool) -> None:
        self._all, self._unique, self.queries = (folder / name for name in ("all", "unique", "queries"))
        self._file = self._all.open("w", encoding="utf-8")
        self._entities, self._merging = entities, merge
        self._said = Occurrences(folder / "said")
        self._asked = Occurrences(folder / "asked")

    def add(self, row: Row) -> None:
        """The next sentence."""
        self._file.write(_line(row))
        self._said.add((f"{row.entity} {_same(row.masked)}", self._rank(row)))

    def close(self) -> None:
        """All have been added."""
        self._file.close()

    def drop_repeated(self) -> Counter[str]:
        """Once closed. :returns: by type, how many said the same of the same answer as another."""
        dropped: Counter[str] = Counter()
        repeated = self._said.resolve("first").beaten
        with self._unique.open("w", encoding="utf-8") as file:
            for again, row in zip(repeated, rows_in(self._all), strict=True):
                if again:
                    dropped[self._entities[row.entity].type] += 1
                else:
                    file.write(_line(row))
                    self._asked.add((self._prompt(row), self._rank(row)))
        self._all.unlink()
        return dropped

    def merge(self) -> Counter[str]:
        """One query of those of a type with the same prompt. :returns: by type, how many went into another one."""
        merged: Counter[str] = Counter()
        beaten = self._asked.resolve("first").beaten
        answers: dict[str, list[int]] = {}
        for into_another, row in zip(beaten, rows_in(self._unique), strict=True):
            if into_another:
                answers.setdefault(self._prompt(row), []).append(row.entity)
                merged[self._entities[row.entity].type] += 1
        with self.queries.open("w", encoding="utf-8") as file:
            for into_another, row in zip(beaten, rows_in(self._unique), strict=True):
                if not into_another:
                    file.write(_line(row._replace(others=answers.get(self._prompt(row), ()))))
        self._unique.unlink()
        return merged

    def judge(self, judged: Iterable[Row]) -> None:
        """Those that are left of the queries, with what was found out about them."""
        with self._unique.open("w", encoding="utf-8") as file:
            file.writelines(map(_line, judged))
        self._unique.replace(self.queries)

    def _prompt(self, row: Row) -> str:
        whose = self._entities[row.entity].type if self._merging else row.entity
        return f"{whose}\n{_same(row.masked)}"

    def _rank(self, row: Row) -> int:
        """Of sentences that say the same, one with the answer's own name is asked by default."""
        return 1 if is_own_name(row.surface, self._entities[row.entity]) else 2


def rows_in(path: Path) -> Iterator[Row]:
    """One at a time."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield Row(*json.loads(line))


def is_own_name(surface: str, entity: ListedEntity) -> bool:
    """Whether the answer stood there by its own name, in whatever case and type."""
    return _same(surface) == _same(entity.name)


def _same(text: str) -> str:
    return fold(plain(text))


def _line(row: Row) -> str:
    return _ENCODER.encode(row) + "\n"


_ENCODER = json.JSONEncoder(ensure_ascii=False)  # one for all rows: json.dumps would make one for each
