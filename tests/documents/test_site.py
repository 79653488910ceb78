"""The documentation site: every link and anchor leads somewhere, generated pages are complete, pages fit a phone."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import fathom

ROOT = Path(__file__).parents[2]
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PHONE = {"width": 390, "height": 844}
pytestmark = pytest.mark.slow
pytest.importorskip("zensical", reason="Zensical is not installed: pip install -e '.[docs]'")


class Page(HTMLParser):
    """The anchors of a page and its links."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.anchors, self.links = {"", "__skip"}, set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.anchors |= {value for name, value in attrs if name in ("id", "name") and value}
        self.links |= {value for name, value in attrs if name in ("href", "src") and value}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    command = [sys.executable, ROOT / "docs" / "site" / "build.py", folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "site"


def test_every_link_and_anchor_leads_somewhere(site: Path) -> None:
    pages = {file: Page(file) for file in site.rglob("*.html") if file.name != "404.html"}
    broken = set()
    for file, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            known = pages[target].anchors if target in pages else {parts.fragment} if target.exists() else set()
            if unquote(parts.fragment) not in known:
                broken.add(f"{file.relative_to(site)}: {link}")
    assert broken == set()


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    page = (site / "index.html").read_text(encoding="utf-8")
    assert not [
        line
        for line in page.splitlines()
        if 'src="http' in line or ('<link rel="stylesheet"' in line and "http" in line)
    ]


def test_reference_lists_every_command_option_and_name(site: Path) -> None:
    probe = (site / "reference" / "cli" / "probe.html").read_text(encoding="utf-8")
    assert {"fathom-probe-statement", "fathom-probe-choice"} <= Page(site / "reference" / "cli" / "probe.html").anchors
    assert "--max-rank" in probe
    anchors = set().union(*(Page(file).anchors for file in (site / "reference" / "python").glob("*.html")))
    assert {f"fathom.{name}" for name in fathom.__all__ if name != "__version__"} <= anchors
    options = (site / "reference" / "python" / "probes.html").read_text(encoding="utf-8")
    assert "instead of a natural one" in options, "the help of options is missing"


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
def test_no_page_is_wider_than_a_phone(site: Path, address: str) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    faults: list[str] = []
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = browser.new_page(viewport=PHONE)
        page.on("console", lambda message: message.type in ("error", "warning") and faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: request.url.startswith((address, "data:")) or faults.append(request.url))
        for file in sorted(site.rglob("*.html")):
            name = str(file.relative_to(site))
            page.goto(f"{address}/{name}")
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                faults.append(f"{name} is wider than a phone")
        browser.close()
    assert faults == []


QUESTIONS = {
    "cannot be determined": "faq.html",
    "how many facts": "faq.html",
    "8-bit": "faq.html",
    "windows": "faq.html",
    "csv": "data-format.html",
    "exit codes": "howto/ci.html",
    "gguf": "howto/models.html",
    "chat template": "howto/chat.html",
    "vllm": "howto/servers.html",
    "confidence interval": "methods/uncertainty.html",
    "lm-evaluation-harness": "coming-from.html",
    "checkpoints": "howto/watch.html",
}
"""What users type into the search → the page that answers it."""
FIRST_RESULT = """() => {
    const within = (root) => {
        for (const element of root.querySelectorAll("*")) {
            const found = element.shadowRoot ? within(element.shadowRoot) : element
            if (found?.tagName === "A" && found.href.includes("?h=")) return found
        }
    }
    return within(document)?.href
}"""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
def test_the_search_gives_the_right_page_first(site: Path, address: str) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        found = {}
        for question in QUESTIONS:
            page = browser.new_page()
            page.goto(f"{address}/index.html", wait_until="networkidle")
            page.keyboard.press("Control+k")
            page.locator("input[aria-controls$=results]").fill(question)
            result = page.wait_for_function(FIRST_RESULT).json_value()
            found[question] = urlsplit(result).path.removeprefix("/")
            page.close()
        browser.close()
    assert found == QUESTIONS


def test_notes_are_not_searched(site: Path) -> None:
    """Their words are those of the how-tos, which they would bury."""
    searched = (site / "search.json").read_text("utf-8")
    assert "howto/models.html" in searched
    assert "notes/models.html" not in [entry["location"].partition("#")[0] for entry in json.loads(searched)["items"]]
