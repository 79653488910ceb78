"""``fathom report --serve FOLDER``: a local leaderboard of all runs below a folder, and a page of each.

It answers this machine alone, and only addresses that begin with a secret of the user: other users of the machine, and
pages in the same browser, know neither it nor the names of the runs.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache, partial
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit

from fathom.base.errors import BadInput, FathomError
from fathom.data.published import cache_root
from fathom.results.claims import SIGNIFICANT
from fathom.results.estimates import Estimate
from fathom.results.loading import short_names
from fathom.results.rows import Declarations, read_declarations
from fathom.results.summary import summarise
from fathom.store.folder import QUERIES_FILE, RunFolder
from fathom.store.manifest import RUN
from fathom.studies.report.page import circumstances_of, report
from fathom.studies.report.stored import StoredNumber, StoredNumbers, StoredPart, StoredScoring, stored_numbers

HERE = "127.0.0.1"
COLUMNS = (
    *("Run", "Model", "Probe", "Data", "Scoring", "State"),
    *("Accuracy", "Best baseline", "Above baselines", "Begun"),
)
_SECRET_BYTES = 24
_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": "default-src 'unsafe-inline' data: blob:; form-action 'self'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class RunsServer(ThreadingHTTPServer):
    """A server of the runs below a folder.

    :param port: 0 for a free one. With a fixed port, the address of a run stays the same.
    :ivar address: what to open in a browser.
    :raises BadInput: no folder.
    """

    daemon_threads = True

    def __init__(self, folder: Path, port: int = 0) -> None:
        if not folder.is_dir():
            raise BadInput(f"--serve {folder}: expected a folder with runs in it")
        super().__init__((HERE, port), _Handler)
        self.folder, self.token = folder, _secret()
        self.address = f"http://{HERE}:{self.server_port}/{self.token}/"

    def handle_error(self, request: Any, client_address: object) -> None:
        """Say nothing of a browser that has left."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def _secret() -> str:
    """Return the secret that all addresses of this user have; a new one where it cannot be kept."""
    new, root = secrets.token_urlsafe(_SECRET_BYTES), cache_root()
    if root is None:
        return new
    with suppress(OSError):
        root.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(root / "addresses", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "r+", encoding="utf-8") as file:
            kept = file.read()
            if len(kept) == len(new) and not os.fstat(descriptor).st_mode & 0o077:
                return kept
            os.fchmod(descriptor, 0o600)
            file.seek(0)
            file.truncate()
            file.write(new)
    return new


class _Handler(BaseHTTPRequestHandler):
    server: RunsServer

    def do_GET(self) -> None:
        hosts = {f"{name}:{self.server.server_port}" for name in (HERE, "localhost")}
        address, folder = urlsplit(self.path), self.server.folder
        token, _, page = address.path.removeprefix("/").partition("/")
        query = parse_qs(address.query)
        # A page elsewhere may let its own name point to this machine: its requests have another Host.
        is_ours = self.headers.get("Host") in hosts
        if not is_ours or not secrets.compare_digest(token.encode(), self.server.token.encode()):
            self._answer(404, "not found")
        elif page == "report":
            self._answer_with(partial(report_of, folder, query.get("run", [])))
        elif page.startswith("run/"):
            self._answer_with(partial(run_page, folder, unquote(page.removeprefix("run/"))))
        elif not page:
            self._answer_with(partial(leaderboard, folder, query.get("by", [""])[0]))
        else:
            self._answer(404, "not found")

    def _answer_with(self, page: Callable[[], str]) -> None:
        try:
            self._answer(200, page())
        except FathomError as error:
            back = f"<p><a href='/{self.server.token}/'>all runs</a></p>"
            self._answer(400, f"<pre>{escape(str(error))}</pre>{back}")

    def _answer(self, status: int, text: str) -> None:
        content = text.encode("utf-8", "replace")
        self.send_response(status)
        for name, value in (_HEADERS | {"Content-Length": str(len(content))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing: requests have the token."""


class Line(NamedTuple):
    """One scoring of a run in the leaderboard; a run without numbers has one line.

    :param name: path of the run below the folder that is served.
    :param about: model, probe and data.
    :param numbers: None of an unfinished or damaged run.
    :param is_by_task: whether its overall accuracy would mix tasks.
    :param by: breakdowns of the numbers, relations by their labels.
    """

    name: str
    about: Sequence[str]
    state: str
    begun: str = ""
    scoring: str = ""
    numbers: StoredScoring | None = None
    is_by_task: bool = False
    by: Mapping[str, Mapping[str, StoredPart]] = MappingProxyType({})


def runs_below(folder: Path) -> dict[str, Path]:
    """Return the folders of runs below a folder, the folder itself included, by their path in it."""
    root = folder.resolve()
    files = (file for file in folder.rglob(RUN) if file.resolve().is_relative_to(root))
    paths = sorted(file.parent for file in files if (file.parent / QUERIES_FILE).is_file())  # data have manifests, too
    return {path.relative_to(folder).as_posix(): path for path in paths}


def leaderboard(folder: Path, by: str = "") -> str:
    """Return the page that lists all runs, damaged ones with the reason.

    :param by: relation, domain or another key of the runs' breakdowns: a column for each of its values.
    :raises BadInput: no run has this key.
    """
    lines = [line for name, path in runs_below(folder).items() for line in _lines(name, path)]
    keys = list(dict.fromkeys(key for line in lines for key in line.by))
    if by and by not in keys:
        raise BadInput(f"?by={by}: no run has this key; there is {', '.join(keys) or 'none'}")
    values = list(dict.fromkeys(value for line in lines for value in line.by.get(by, {})))
    views = [("", "no parts"), *((key, key) for key in keys)]
    return _filled(
        "runs.html",
        folder=escape(str(folder)),
        views=" · ".join(
            f"<b>{escape(text)}</b>" if key == by else f"<a href='./?by={quote(key)}'>{escape(text)}</a>"
            for key, text in views
        ),
        head="".join(f"<th><button type='button'>{escape(name)}</button></th>" for name in (*COLUMNS, *values)),
        rows="\n".join(_row(line, by, values) for line in lines),
    )


def _filled(template: str, **texts: str) -> str:
    page = resources.files("fathom.studies.report").joinpath(f"assets/{template}").read_text("utf-8")
    parts = page.split("{{")
    return parts[0] + "".join(texts[name] + rest for name, _, rest in (part.partition("}}") for part in parts[1:]))


def _lines(name: str, path: Path) -> list[Line]:
    run = RunFolder(path)
    try:
        manifest = run.manifest
        identity = manifest["identity"]
        about = [*short_names([run]), str(identity["probe"]), str(identity["data"]["name"])]
        line = Line(name, about, run.progress(manifest), str(manifest["circumstances"].get("begun") or ""))
        if not run.is_complete():
            return [line]
        numbers = _numbers_of(path, (path / RUN).stat().st_mtime_ns)
    except FathomError as error:
        return [Line(name, ("", "", ""), f"cannot be read: {error}")]
    declared = read_declarations(manifest)
    line = line._replace(is_by_task=declared.headline == "tasks")
    return [
        line._replace(scoring=scoring, numbers=stored, by=_labelled(stored, declared))
        for scoring, stored in numbers.scorings.items()
    ]


def _labelled(numbers: StoredScoring, declared: Declarations) -> Mapping[str, Mapping[str, StoredPart]]:
    """Return the breakdowns by the labels of their relations."""
    return {
        key: {declared.shown(key, value): stored for value, stored in parts.items()}
        for key, parts in numbers.by.items()
    }


@lru_cache(maxsize=10_000)
def _numbers_of(path: Path, changed: int) -> StoredNumbers:
    """:param changed: time of the manifest, so that another run in the same place is read."""
    return stored_numbers(RunFolder(path))


def _row(line: Line, by: str, values: Sequence[str]) -> str:
    name, numbers = escape(line.name), line.numbers
    box = f"<input type='checkbox' name='run' value='{name}' aria-label='choose {name}'>" if numbers else ""
    link = f"<a href='run/{escape(quote(line.name))}'>{name}</a>"
    texts = [escape(text) for text in (*line.about, line.scoring, line.state)]
    verdict, best, accuracy = "", None, None
    if numbers is not None and not line.is_by_task:
        accuracy = numbers.metrics.get("accuracy")
        best = max(numbers.baselines.get("accuracy", {}).items(), key=lambda pair: pair[1].value or 0, default=None)
        verdict = numbers.verdict.verdict if numbers.verdict else ""
    parts = line.by.get(by, {})
    cells = [
        *(f"<td>{text}</td>" for text in (box, link, *texts)),
        _cell(accuracy),
        _cell(best[1], f"{best[0]} ") if best else "<td></td>",
        f"<td>{'yes' if verdict == SIGNIFICANT else escape(verdict)}</td>",
        f"<td>{escape(line.begun)}</td>",
        *(_cell(parts[value].accuracy if value in parts else None) for value in values),
    ]
    return f"<tr{'' if numbers else ' data-open'}>{''.join(cells)}</tr>"


def _cell(number: StoredNumber | None, before: str = "") -> str:
    """Return a share with its interval. :param before: such as the name of a baseline."""
    if number is None or number.value is None:
        return "<td></td>"
    shown = Estimate(number.value, number.low, number.high, None, "", 0, "", form=".1%")
    return f"<td data-value='{number.value}'>{escape(before)}{shown}</td>"


def run_page(folder: Path, name: str) -> str:
    """Return the page of one run: the report of a finished one; else its state, and the end of its log.

    :raises BadInput: there is no such run, or it is damaged.
    """
    [path] = _chosen(folder, [name or "."])
    run = RunFolder(path)
    if run.is_complete():
        return report_of(folder, [name or "."])
    changed = max(file.stat().st_mtime for file in path.rglob("*"))
    about = {
        "State": run.progress(run.manifest),
        "Missing": run.lacking(),
        "Results so far": "\n".join(summarise(run).answer) if run.finished() else "",
        "Last change": f"{datetime.fromtimestamp(changed, UTC):%Y-%m-%d %H:%M:%S} UTC",
        **circumstances_of(run),
    }
    return _filled(
        "run.html",
        name=escape(name),
        back="../" * (name.count("/") + 1),
        about="\n".join(f"<dt>{key}</dt><dd>{escape(str(value))}</dd>" for key, value in about.items() if value),
        log=escape("\n".join(run.last_log())) or "nothing yet",
    )


def report_of(folder: Path, names: Sequence[str]) -> str:
    """Return the report of some runs. :raises BadInput: none, or one that is not in the list."""
    with TemporaryDirectory(prefix="fathom-report-") as place:
        page = report(_chosen(folder, list(dict.fromkeys(names))), Path(place) / "report.html")
        return page.path.read_text("utf-8")


def _chosen(folder: Path, names: Sequence[str]) -> list[Path]:
    """Return the folders of runs of the list. :raises BadInput: no name, or one that is not in it."""
    paths = runs_below(folder)
    if not names or not paths.keys() >= set(names):
        raise BadInput("choose one or more runs of the list")
    return [paths[name] for name in names]
