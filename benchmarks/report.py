"""How large is a report, how long does it take to make and to open, and how quickly does it filter?

    python benchmarks/report.py [--runs 6]
    python benchmarks/report.py --show RUN… --out docs/reports/NAME [--title TITLE]

The first makes runs as large as those of BEAR by lot (7,731 facts, three templates), a report of them, opens it in
Chromium, and makes choices in it. The second makes a report of real runs, with pictures at desktop and phone width.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from compare import made, tables

FLAGS = ("--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync")
CHOICES = (
    {"q": ["subject Q12"]},
    {"q": [], "relation": ["P3", "P4"]},
    {"relation": [], "rank": ["1"], "rank.run": ["m0"]},
    {"rank": [], "rank.run": [], "cell": ["second"]},
    {"cell": [], "slice": ["right by no run"]},
    {"slice": []},
)
CHOOSE = """async (choice) => {
    const began = performance.now();
    window.fathom.choice.set(choice);
    await Promise.all([...window.fathom.charts.values()].map((chart) => chart.runAsync()));
    return performance.now() - began;
}"""


@contextmanager
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        yield browser
        browser.close()


def opened(browser: Any, file: Path, width: int = 1280, height: int = 900) -> Any:
    page = browser.new_page(viewport={"width": width, "height": height})
    page.goto(file.resolve().as_uri())
    page.wait_for_selector("body[data-ready=yes]")
    return page


def measure(runs: int) -> None:
    with tempfile.TemporaryDirectory() as there:
        own = tables()
        folders = [made(Path(there) / f"m{number}", number, *own) for number in range(runs)]
        file = Path(there) / "report.html"
        began = time.perf_counter()
        call = [
            sys.executable,
            "-c",
            "from fathom.cli import main; main()",
            "report",
            *map(str, folders),
            "-o",
            str(file),
        ]
        subprocess.run(call, check=True, stdout=subprocess.DEVNULL)
        took, memory = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"{runs} runs: made in {took:.1f} s, at most {memory:.0f} MiB; {file.stat().st_size / 1e6:.1f} MB")
        with chromium() as browser:
            times = []
            for _ in range(3):
                began = time.perf_counter()
                page = opened(browser, file)
                times.append(time.perf_counter() - began)
            print(f"opened in {median(times):.2f} s (median of 3)")
            rounds = [[(page.evaluate(CHOOSE, one), page.inner_text("#count")) for one in CHOICES] for _ in range(3)]
            for choice, told in zip(CHOICES, zip(*rounds, strict=True), strict=True):
                print(f"  {choice}: {median(took for took, _ in told):.0f} ms; {told[0][1]}")


def show(runs: list[str], out: Path, title: str, groups: str | None) -> None:
    from fathom.report.page import report

    file = report(runs, out.with_suffix(".html"), title=title, groups=groups).path
    with chromium() as browser:
        opened(browser, file).screenshot(path=f"{out}-desktop.png")
        opened(browser, file, 390, 844).screenshot(path=f"{out}-phone.png", full_page=False)
    print(f"{file}: {file.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    said = argparse.ArgumentParser(description="Measure reports, or show some.")
    said.add_argument("--runs", type=int, default=6)
    said.add_argument("--show", nargs="+", default=[])
    said.add_argument("--out", type=Path)
    said.add_argument("--title", default="")
    said.add_argument("--groups", help="further groups of the queries, such as planted.jsonl")
    given = said.parse_args()
    if given.show:
        show(given.show, given.out, given.title, given.groups)
    else:
        measure(given.runs)
