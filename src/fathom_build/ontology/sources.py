"""Sources of ontologies, all with the same queries: RDF files in a local store, or a SPARQL endpoint.

Only what the queries need is kept, so that a dump of hundreds of millions of triples becomes a small store.
"""

from __future__ import annotations

import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from email.message import Message
from functools import cache, partial
from http.client import HTTPException
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Protocol

from fathom._version import VERSION
from fathom.base.errors import BadInput, optional, refuse
from fathom.base.progress import Progress
from fathom.base.reading import Faults, Unreadable, check_file, stands
from fathom.base.reading.bounds import WAIT
from fathom.base.reading.download import SameHost
from fathom.base.reading.files import PACKED
from fathom.base.reading.replies import excerpt_of, host_of, json_reply, parts_of, pause_asked, whole_reply, within
from fathom.data.formats.rdf import KINDS, conversion, kind_of, quads
from fathom_build.options import EndpointOptions
from fathom_build.sheets import Notes

QUERIES = Path(__file__).parent / "queries"


def lines_of(name: str) -> frozenset[str]:
    """Return the lines of a data file of this package."""
    return frozenset((Path(__file__).parent / name).read_text(encoding="utf-8").splitlines())


Row = dict[str, str]
"""Values by the names of a query's variables; what is not bound is not there."""

ATTEMPTS, PAUSE = 4, 2.0
"""Attempts, and seconds before the second one; the pause doubles before each further one."""
_NOT_WORTH_IT = 600.0
"""Seconds; a server that asks for a longer pause is left alone."""
_BUSY = (429, 500, 502, 503, 504)
SORTED = 10_000
"""Solutions up to the end of a page that Virtuoso sorts, unless its MaxSortedTopRows says otherwise."""
_TOO_MANY_TO_SORT = b"SR353"
IN_MEMORY = 256 << 20
"""Bytes of RDF, unpacked, up to which the store lies in memory."""
_UNPACKED_SIZE = 12
"""How much larger dumps are unpacked: about."""
KEPT = lines_of("predicates.txt")
"""The predicates of the queries."""
_ENDINGS = f"{', '.join(KINDS)}, each plain, .gz or .bz2"


OF_RDF = (
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "http://www.w3.org/2000/01/rdf-schema#",
    "http://www.w3.org/2002/07/owl#",
)
"""Vocabularies whose own terms (owl:Thing) are not expected in an ontology."""


def outside(iris: Iterable[str], expected: Collection[str]) -> list[str]:
    """Return the unknown IRIs, each once, except RDF's own terms."""
    return sorted({iri for iri in iris if iri not in expected and not iri.startswith(OF_RDF)})


class Source(Protocol):
    """Something that answers the queries of this package."""

    name: str
    at_hand: bool
    """Return whether the whole source can be read, so that exclusions can be counted."""

    def rows(self, query: str) -> Iterator[Row]:
        """Yield all solutions, in the query's order. :raises BadInput: it cannot be asked."""
        ...


def query_text(name: str, **values: object) -> str:
    """Return a query of :data:`QUERIES`, its ``$`` places filled."""
    return _template(name).substitute(values)


def places_of(namings: Sequence[str]) -> str:
    """Return the value of ``$namings`` in queries: label properties, each with its rank."""
    return " ".join(f"(<{iri}> {place})" for place, iri in enumerate(namings))


@cache
def _template(name: str) -> Template:
    return Template((QUERIES / f"{name}.rq").read_text(encoding="utf-8"))


def page_query(query: str, start: int, size: int) -> str:
    """Return *query* for at most *size* of its solutions, from the one numbered *start*.

    Beyond :data:`SORTED` solutions the sorted query is a sub-select, as Virtuoso's documentation advises
    (VirtTipsAndTricksHowToHandleBandwidthLimitExceed). Not before: SPARQL does not promise that a sub-select keeps its
    order, and around DISTINCT Virtuosos older than December 2023 forget the offset (virtuoso-opensource, issue 1035).
    """
    if start < SORTED:
        return f"{query}\nLIMIT {min(size, SORTED - start)}\nOFFSET {start}\n"
    prologue, select = re.split(r"^(?=SELECT )", query, maxsplit=1, flags=re.MULTILINE)
    return f"{prologue}SELECT * {{ {{\n{select}\n}} }}\nLIMIT {size}\nOFFSET {start}\n"


class LocalStore:
    """RDF in a ``pyoxigraph.Store``, to which nothing else may refer, so that :meth:`close` closes it."""

    at_hand = True

    def __init__(self, name: str, store: Any) -> None:
        self.name, self._store = name, store

    def __len__(self) -> int:
        """Count the triples."""
        return len(self._store)

    def fill(self, quads: Iterable[Any]) -> None:
        """Add many ``pyoxigraph.Quad`` at once."""
        self._store.bulk_extend(quads)

    def rows(self, query: str) -> Iterator[Row]:
        solutions = self._store.query(query)
        names = [variable.value for variable in solutions.variables]
        for solution in solutions:
            yield {name: solution[name].value for name in names if solution[name] is not None}

    def close(self) -> None:
        """Close the store, so that its files can be removed."""
        self._store = None


def find_files(inputs: Sequence[Path]) -> list[Path]:
    """Return the files given, and those with a known ending in folders given.

    :raises BadInput: each input that is missing, of another kind, or a folder without such files.
    """
    files: list[Path] = []
    faults: list[str] = []
    for place in inputs:
        members = [place]
        if place.is_dir():  # in which Protégé leaves an XML file that says where imports lie
            members = sorted(file for file in place.iterdir() if kind_of(file) and file.name != "catalog-v001.xml")
        if not stands(place):
            faults.append(f"--input {place}: there is no such file")
        elif not members:
            faults.append(f"--input {place}: no RDF file in it: expected {_ENDINGS}")
            faults += [f"--input {place / line}" for line in not_read([place])]
        elif not all(kind_of(file) for file in members):
            faults.append(f"--input {place}: {conversion(place) or f'expected {_ENDINGS}'}")
        else:
            for file in members:
                try:
                    check_file(file)
                except Unreadable as error:
                    faults.append(f"--input {error}")
        files += members
    refuse(faults)
    return list(dict.fromkeys(files))


def not_read(inputs: Sequence[Path]) -> list[str]:
    """Name the files in folders whose syntax of ontologies is not RDF, and how to convert them."""
    files = [file for place in inputs if place.is_dir() for file in sorted(place.iterdir())]
    return [f"{file.name}: {advice}" for file in files if (advice := conversion(file))]


def load(
    files: Sequence[Path],
    place: Path,
    stack: ExitStack,
    progress: Progress,
    take: Callable[[Iterable[Any]], Iterator[Any]],
) -> LocalStore:
    """Load all files into one store, in memory or, if they are large, in a folder that *stack* removes.

    :param place: where that folder may be made.
    :param progress: called with (bytes read, bytes to read).
    :param take: selects the statements to store (:meth:`~fathom_build.ontology.intake.Intake.take`).
    :raises BadInput: every file that cannot be read, with the line where that is known.
    :raises MissingExtra: pyoxigraph is not installed.
    """
    pyoxigraph = optional("pyoxigraph", "rdf")
    name = ", ".join(file.name for file in files)
    if sum(file.stat().st_size * (_UNPACKED_SIZE if file.suffix in PACKED else 1) for file in files) <= IN_MEMORY:
        local = LocalStore(name, pyoxigraph.Store())
    else:
        place.mkdir(parents=True, exist_ok=True)
        folder = stack.enter_context(TemporaryDirectory(prefix=".ontology-store-", dir=place))
        local = LocalStore(name, pyoxigraph.Store(folder))
    stack.callback(local.close)  # before its folder goes: it writes until it is closed
    faults = Faults()
    for statements in read_files(files, faults, progress):
        local.fill(take(statements))
    faults.stop_if_any()
    return local


def read_files(files: Sequence[Path], faults: Faults, progress: Progress) -> Iterator[Iterator[Any]]:
    """Yield the statements of each file. :param progress: called with (bytes read, bytes to read)."""
    before, total = 0, sum(file.stat().st_size for file in files)
    for file in files:

        def report(done: int, before: int = before) -> None:
            progress(before + done, total)

        yield quads(file, faults, f"file:///{file.name}", report, apart=True)
        before += file.stat().st_size


class _Solution(dict[str, str]):
    """A solution from a server, which may lack what the query asks for."""

    def __init__(self, server: str, values: Row) -> None:
        super().__init__(values)
        self._server = server

    def __missing__(self, variable: str) -> str:
        raise BadInput(f"{self._server} answered without ?{variable}, which the query asks for: is it a SPARQL server?")


class _Answer(NamedTuple):
    status: int
    headers: Message
    body: bytes


class Endpoint:
    """A SPARQL 1.1 endpoint, queried page by page, patiently where it is busy.

    :raises BadInput: *address* is not the address of a server.
    """

    at_hand = False

    def __init__(self, address: str, options: EndpointOptions = EndpointOptions()) -> None:
        host_of(address, "--endpoint", "https://dbpedia.org/sparql")
        self.name, self.page, self.timeout = address, options.page, options.timeout

    def rows(self, query: str) -> Iterator[Row]:
        """Yield all solutions, page by page.

        :raises BadInput: no answer, no SPARQL results, or pages that do not follow on each other.
        """
        if "LIMIT " in query:  # what has a limit of its own fits one page
            yield from self._solutions(query)
            return
        start = 0
        seen: set[tuple[tuple[str, str], ...]] = set()
        # Servers have limits of their own (DBpedia's: 10,000), so only an empty page is the end.
        while rows := self._solutions(page_query(query, start, self.page)):
            page = {tuple(row.items()) for row in rows}
            if again := len(page & seen):  # the queries are DISTINCT: where one comes twice, another may not come
                raise BadInput(
                    f"{self.name} gave {again:,} solutions on two pages: its pages do not follow on each other, or its "
                    "data changed meanwhile; try a larger --page, or load files with --input"
                )
            seen |= page
            yield from rows
            start += len(rows)

    def _solutions(self, query: str) -> list[Row]:
        answer = self._ask(query)
        kind = answer.headers.get_content_type()
        try:
            bindings = json_reply(answer.body)["results"]["bindings"]
            rows = [{name: cell["value"] for name, cell in row.items()} for row in bindings]
            if not isinstance(bindings, list) or not all(
                isinstance(text, str) for row in rows for text in row.values()
            ):
                raise TypeError("a value is no text")
            return [_Solution(self.name, row) for row in rows]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            begins = excerpt_of(answer.body, 60)
            raise BadInput(
                f"{self.name} answered with {kind}, not with SPARQL results in JSON ({begins}…): give the address that "
                "takes queries, such as https://dbpedia.org/sparql, not a page for people"
            ) from error

    def _ask(self, query: str) -> _Answer:
        """:raises BadInput: no answer after :data:`ATTEMPTS` attempts, or one that says the query is refused."""
        for attempt in range(ATTEMPTS):
            wait = min(PAUSE * 2**attempt, WAIT.most)
            try:
                answer = within(self.timeout, partial(self._post, query))
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
                is_page = "html" in answer.headers.get_content_type()
                begins = "a page of HTML" if is_page else excerpt_of(answer.body, 100) or "nothing"
                fault = f"{self.name} answered with status {answer.status}: {begins}"
                if answer.status not in _BUSY:
                    raise BadInput(fault)
                pause = pause_asked(answer.headers.get("Retry-After"))
                if pause > _NOT_WORTH_IT:
                    raise BadInput(f"{fault}; it asks to wait {pause:,.0f} s: try later, or load files with --input")
                wait = min(max(wait, pause), WAIT.most)
            if attempt + 1 < ATTEMPTS:
                time.sleep(wait)
        raise BadInput(f"{fault} ({ATTEMPTS} attempts); try later, or load files with --input")

    def _post(self, query: str) -> _Answer:
        request = urllib.request.Request(
            self.name,
            data=urllib.parse.urlencode({"query": query}).encode(),
            headers={
                "Accept": "application/sparql-results+json",
                "User-Agent": f"fathom-lm/{VERSION} (ontology building)",
            },
        )
        try:
            response = urllib.request.build_opener(SameHost("if that is meant, give it as --endpoint")).open(
                request, timeout=self.timeout
            )
        except urllib.error.HTTPError as error:
            response = error
        with response:
            return _Answer(response.status, response.headers, whole_reply(parts_of(response.read1)))

    def _unreachable(self, error: Exception) -> str:
        reason = getattr(error, "reason", error)
        if isinstance(error, TimeoutError) or isinstance(reason, TimeoutError):
            return f"{self.name} gave no answer within {self.timeout:g} s: --timeout allows more"
        return f"{self.name} cannot be reached: {reason}"


def at_hand(sources: Iterable[Source]) -> list[Source]:
    """Return the sources that are files."""
    return [source for source in sources if source.at_hand]


def rows_of(sources: Iterable[Source], name: str, **values: object) -> Iterator[Row]:
    """Yield the solutions of a query from one source after the other."""
    text = query_text(name, **values)
    for source in sources:
        yield from source.rows(text)


def rows_of_lists(sources: Iterable[Source], name: str, notes: Notes, **values: object) -> Iterator[Row]:
    """Yield the solutions of a query that not every server answers, such as one that follows RDF's lists.

    A note names each server that does not.

    :raises BadInput: a file cannot be asked.
    """
    for source in sources:
        try:
            yield from list(source.rows(query_text(name, **values)))
        except BadInput as error:
            if source.at_hand:
                raise
            notes.append(f"the query {name} is not answered, and what it asks for is left out: {error.faults[0]}")
