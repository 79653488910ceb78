"""Where ontologies are asked from, with the same queries: RDF files in a local store, or a SPARQL endpoint."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from email.message import Message
from http.client import HTTPException
from pathlib import Path
from string import Template
from typing import Any, NamedTuple, Protocol

import fathom
from fathom.errors import BadInput

QUERIES = Path(__file__).parent / "queries"
Row = dict[str, str]
"""Values by the names of a query's variables; what is not bound is not there."""
Progress = Callable[[int, int], None]

ATTEMPTS = 4
_LONGEST_WAIT = 60.0
_BUSY = (429, 500, 502, 503, 504)
SORTED = 10_000
"""Solutions up to the end of a page that Virtuoso sorts, unless its MaxSortedTopRows says otherwise."""
_TOO_MANY_TO_SORT = b"SR353"


class Source(Protocol):
    """Something that answers the queries of this package."""

    name: str

    def rows(self, query: str) -> Iterator[Row]:
        """All solutions, in the query's order. :raises BadInput: it cannot be asked."""
        ...


def query_text(name: str, **values: object) -> str:
    """A query of :data:`QUERIES`, its ``$`` places filled."""
    return Template((QUERIES / f"{name}.rq").read_text(encoding="utf-8")).substitute(values)


def page_query(query: str, start: int, size: int) -> str:
    """*query* for at most *size* of its solutions, from the one numbered *start*.

    Beyond :data:`SORTED` solutions the sorted query is a sub-select, as Virtuoso's documentation advises
    (VirtTipsAndTricksHowToHandleBandwidthLimitExceed). Not before: SPARQL does not promise that a sub-select keeps its
    order, and around DISTINCT Virtuosos older than December 2023 forget the offset (virtuoso-opensource, issue 1035).
    """
    if start < SORTED:
        return f"{query}\nLIMIT {min(size, SORTED - start)}\nOFFSET {start}\n"
    prologue, select = re.split(r"^(?=SELECT )", query, maxsplit=1, flags=re.MULTILINE)
    return f"{prologue}SELECT * {{ {{\n{select}\n}} }}\nLIMIT {size}\nOFFSET {start}\n"


class LocalStore:
    """:param store: a ``pyoxigraph.Store``; nothing else may hold it, so that :meth:`close` closes it."""

    def __init__(self, name: str, store: Any) -> None:
        self.name, self._store = name, store

    def __len__(self) -> int:
        """Triples."""
        return len(self._store)

    def fill(self, quads: Iterable[Any]) -> None:
        """Add many triples at once.

        :param quads: pyoxigraph's ``Quad``.
        """
        self._store.bulk_extend(quads)

    def rows(self, query: str) -> Iterator[Row]:
        """All solutions, in the query's order."""
        solutions = self._store.query(query)
        names = [variable.value for variable in solutions.variables]
        for solution in solutions:
            yield {name: solution[name].value for name in names if solution[name] is not None}

    def close(self) -> None:
        """Let go of the store, so that its files can be removed."""
        self._store = None


class _Answer(NamedTuple):
    status: int
    headers: Message
    body: bytes


class Endpoint:
    """A SPARQL 1.1 endpoint, asked page by page, patiently where it is busy.

    :param page: solutions asked for at a time; a server may give fewer.
    :param timeout: seconds an answer may take.
    :param pause: seconds to wait before the second attempt; doubled before each further one.
    """

    def __init__(self, address: str, page: int = 10_000, timeout: float = 120.0, pause: float = 2.0) -> None:
        if urllib.parse.urlsplit(address).scheme not in ("http", "https"):
            raise BadInput(f"--endpoint {address}: expected an address that begins with http:// or https://")
        self.name, self.page, self.timeout, self.pause = address, page, timeout, pause

    def rows(self, query: str) -> Iterator[Row]:
        """All solutions, asked for page by page.

        :raises BadInput: no answer, no SPARQL results, or pages that do not follow on each other.
        """
        if "LIMIT " in query:  # what has a limit of its own fits one page
            yield from self._solutions(query)
            return
        start = 0
        seen: set[tuple[tuple[str, str], ...]] = set()
        # Servers have limits of their own (DBpedia's: 10,000), so only an empty page is the end.
        while found := self._solutions(page_query(query, start, self.page)):
            page = {tuple(row.items()) for row in found}
            if again := len(page & seen):  # the queries are DISTINCT: where one comes twice, another may not come
                raise BadInput(
                    f"{self.name} gave {again:,} solutions on two pages: its pages do not follow on each other, or its "
                    "data changed meanwhile; try a larger --page, or load files with --input"
                )
            seen |= page
            yield from found
            start += len(found)

    def _solutions(self, query: str) -> list[Row]:
        answer = self._ask(query)
        kind = answer.headers.get_content_type()
        try:
            content = json.loads(answer.body)
            return [{name: cell["value"] for name, cell in row.items()} for row in content["results"]["bindings"]]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            begins = " ".join(answer.body[:200].decode("utf-8", "replace").split())[:60]
            raise BadInput(
                f"{self.name} answered with {kind}, not with SPARQL results in JSON ({begins}…): give the address that "
                "takes queries, such as https://dbpedia.org/sparql, not a page for people"
            ) from error

    def _ask(self, query: str) -> _Answer:
        """:raises BadInput: no answer after :data:`ATTEMPTS` attempts, or one that says the query is refused."""
        for attempt in range(ATTEMPTS):
            wait = min(self.pause * 2**attempt, _LONGEST_WAIT)
            try:
                answer = self._post(query)
            except (TimeoutError, urllib.error.URLError, HTTPException, OSError) as error:
                fault = self._unreachable(error)
            else:
                if answer.status == 200:
                    return answer
                if _TOO_MANY_TO_SORT in answer.body:
                    raise BadInput(
                        f"{self.name} does not sort as many solutions as there are (Virtuoso's error SR353): load its "
                        "files with --input"
                    )
                fault = f"{self.name} answered with status {answer.status}: {_first_words(answer)}"
                if answer.status not in _BUSY:
                    raise BadInput(fault)
                wait = min(max(wait, _seconds(answer.headers.get("Retry-After"))), _LONGEST_WAIT)
            if attempt + 1 < ATTEMPTS:
                time.sleep(wait)
        raise BadInput(f"{fault} ({ATTEMPTS} attempts); try later, or load files with --input")

    def _post(self, query: str) -> _Answer:
        request = urllib.request.Request(
            self.name,
            data=urllib.parse.urlencode({"query": query}).encode(),
            headers={
                "Accept": "application/sparql-results+json",
                "User-Agent": f"fathom-lm/{fathom.__version__} (ontology building)",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as response:
                return _Answer(response.status, response.headers, response.read())
        except urllib.error.HTTPError as error:
            return _Answer(error.code, error.headers, error.read())

    def _unreachable(self, error: Exception) -> str:
        reason = getattr(error, "reason", error)
        if isinstance(error, TimeoutError) or isinstance(reason, TimeoutError):
            return f"{self.name} gave no answer within {self.timeout:g} s: --timeout allows more"
        return f"{self.name} cannot be reached: {reason}"


def _first_words(answer: _Answer) -> str:
    text = " ".join(answer.body[:400].decode("utf-8", "replace").split())
    return "a page of HTML" if "html" in answer.headers.get_content_type() else text[:100] or "nothing"


def _seconds(retry_after: str | None) -> float:
    return float(retry_after) if retry_after and retry_after.isdigit() else 0.0


def rows_of(sources: Sequence[Source], name: str, **values: object) -> Iterator[Row]:
    """What all sources say to one query, one after the other."""
    text = query_text(name, **values)
    for source in sources:
        yield from source.rows(text)
