"""``fathom report --serve FOLDER``: a local page with all runs below a folder, any of which open as a report.

It answers this machine alone, and only addresses that begin with a random token: other users of the machine, and pages
in the same browser, know neither the token nor the names of the runs.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Iterator
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from fathom.base.errors import BadInput, FathomError
from fathom.store.folder import RunFolder
from fathom.store.manifest import RUN
from fathom.studies.report.page import report

HERE = "127.0.0.1"
_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": "default-src 'unsafe-inline' data: blob:; form-action 'self'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class RunsServer(ThreadingHTTPServer):
    """A server of the runs below a folder.

    :param port: 0 for a free one.
    :ivar address: what to open in a browser.
    :raises BadInput: no folder.
    """

    daemon_threads = True

    def __init__(self, folder: Path, port: int = 0) -> None:
        if not folder.is_dir():
            raise BadInput(f"--serve {folder}: expected a folder with runs in it")
        super().__init__((HERE, port), _Handler)
        self.folder, self.token = folder, secrets.token_urlsafe(24)
        self.address = f"http://{HERE}:{self.server_port}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that has left."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: RunsServer

    def do_GET(self) -> None:
        hosts = {f"{name}:{self.server.server_port}" for name in (HERE, "localhost")}
        token, _, page = urlsplit(self.path).path.removeprefix("/").partition("/")
        # A page elsewhere may let its own name point to this machine: its requests have another Host.
        is_ours = self.headers.get("Host") in hosts
        if not is_ours or not secrets.compare_digest(token.encode(), self.server.token.encode()):
            self._answer(404, "not found")
        elif page == "report":
            chosen = parse_qs(urlsplit(self.path).query).get("run", [])
            self._answer_with(lambda: report_of(self.server.folder, chosen))
        else:
            self._answer_with(lambda: list_of_runs(self.server.folder))

    def _answer_with(self, page: Callable[[], str]) -> None:
        try:
            self._answer(200, page())
        except FathomError as error:
            self._answer(400, f"<pre>{escape(str(error))}</pre><p><a href='./'>all runs</a></p>")

    def _answer(self, status: int, text: str) -> None:
        content = text.encode("utf-8", "replace")
        self.send_response(status)
        for name, value in (_HEADERS | {"Content-Length": str(len(content))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing: requests have the token."""


def runs_below(folder: Path) -> list[Path]:
    """Return the folders of runs below a folder, the folder itself included."""
    return sorted(file.parent for file in folder.rglob(RUN) if RunFolder(file.parent).has_manifest())


def list_of_runs(folder: Path) -> str:
    """Return the page that lists all runs, damaged ones with the reason."""
    template = resources.files("fathom.studies.report").joinpath("assets/runs.html").read_text("utf-8")
    rows = "\n".join(_rows(folder))
    return template.replace("{{folder}}", escape(str(folder))).replace("{{rows}}", rows)


def _rows(folder: Path) -> Iterator[str]:
    for path in runs_below(folder):
        name = path.relative_to(folder).as_posix()
        try:
            run = RunFolder(path)
            manifest = run.manifest
            identity, state = manifest["identity"], run.progress(manifest)
            begun = str(manifest["circumstances"].get("begun") or "")
            cells = [identity["probe"], identity["model"]["name"], identity["data"]["name"], state, begun]
            box = f"<input type='checkbox' name='run' value='{escape(name)}' aria-label='choose {escape(name)}'>"
            box = box if run.finished() else ""
        except FathomError as error:
            cells, box = ["", "", "", f"cannot be read: {error}", ""], ""
        link = f"<a href='report?{urlencode({'run': name})}'>{escape(name)}</a>" if box else escape(name)
        yield "<tr>" + "".join(f"<td>{cell}</td>" for cell in (box, link, *map(escape, map(str, cells)))) + "</tr>"


def report_of(folder: Path, names: list[str]) -> str:
    """Return the report of some runs. :raises BadInput: none, or one that is not in the list."""
    known = {path.relative_to(folder).as_posix(): path for path in runs_below(folder)}
    if not names or not known.keys() >= set(names):
        raise BadInput("choose one or more runs of the list")
    with TemporaryDirectory(prefix="fathom-report-") as place:
        page = report([known[name] for name in names], Path(place) / "report.html")
        return page.path.read_text("utf-8")
