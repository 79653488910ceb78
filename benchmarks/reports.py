"""Reports of many runs: time, memory and size."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from harness import benchmark, scratch

from fathom.store.files import write_table
from fathom.store.folder import RunFolder
from fathom.store.predictions import SCHEMA

FACTS, RELATIONS, TEMPLATES, CANDIDATES, SUBJECTS = 7731, 60, 3, 60, 4000


def tables() -> tuple[pa.Table, pa.Table]:
    """Queries and candidates."""
    random, numbers = np.random.default_rng(0), range(FACTS)
    relations = [f"P{number * RELATIONS // FACTS}" for number in range(FACTS)]
    subjects = [f"Q{number}" for number in random.integers(SUBJECTS, size=FACTS)]
    golds = [f"{relation}-{place}" for relation, place in zip(relations, random.integers(60, size=FACTS), strict=True)]
    groups = [[("cardinality", "1:N")]] * FACTS
    queries = pa.table(
        {
            "query_id": [f"q{number}" for number in range(FACTS)],
            "fact_id": ["|".join(map(str, fact)) for fact in zip(numbers, relations, golds, strict=True)],
            "relation": relations,
            "direction": ["tail"] * FACTS,
            "subject_id": subjects,
            "gold": [[gold] for gold in golds],
            "candidates": relations,
            "groups": pa.array(groups, pa.map_(pa.string(), pa.string())),
        }
    )
    names = list(dict.fromkeys(relations))
    rows = [(name, place, f"{name}-{place}", f"name {place}") for name in names for place in range(CANDIDATES)]
    columns = ("set", "position", "id", "name")
    return queries, pa.table(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True)))


def made(folder: Path, number: int, queries: pa.Table, candidates: pa.Table, tokens: bool) -> Path:
    """Write a random run, in which the gold answers score higher the higher its number.

    :param tokens: with the log-probabilities of twelve tokens of two statements per prediction.
    """
    random = np.random.default_rng(number)
    run, count = RunFolder(folder), FACTS * TEMPLATES
    identity = {
        "probe": "statement",
        "options": {},
        "resolved": {"attention": ("causal", "masked")[number % 2]},
        "model": {"name": f"m{number}", "content_hash": str(number)},
        "data": {"name": "BEAR", "content_hash": "1"},
    }
    shows = {"scorings": {"sum/full": {"unit": "nats"}}}
    run.start(identity, ["0"], queries, candidates, shows)
    run.add_circumstances(model={"parameters": 10 ** (6 + number)})
    relations, subjects = (
        np.repeat(np.array(queries.column(name).to_pylist()), TEMPLATES) for name in ("relation", "subject_id")
    )
    gold = np.repeat([int(golds[0].partition("-")[2]) for golds in queries.column("gold").to_pylist()], TEMPLATES)
    scores = -20 + 3 * random.standard_normal((count, CANDIDATES))
    scores[np.arange(count), gold] += 3 + number
    best = np.argsort(-scores, axis=1)[:, :10]
    rank = 1 + (scores > scores[np.arange(count), gold][:, None]).sum(axis=1)
    ends = np.arange(0, (count + 1) * CANDIDATES, CANDIDATES, dtype=np.int32)
    places = np.tile(np.arange(TEMPLATES, dtype=np.int32), FACTS)
    values: dict[str, Any] = {
        "query_id": np.repeat(queries.column("query_id").to_numpy(), TEMPLATES),
        "template": places,
        "scoring": ["sum/full"] * count,
        "subject": [f"the subject {subject}" for subject in subjects],
        "prompt": [
            f"The subject {subject} is in {relation} of [Y], said in way {place}."
            for subject, relation, place in zip(subjects, relations, places, strict=True)
        ],
        "rank": rank.astype(float),
        "rank_optimistic": rank,
        "rank_pessimistic": rank,
        "num_candidates": np.full(count, CANDIDATES),
        "gold_scores": [[score] for score in scores[np.arange(count), gold]],
        "gold_tokens": [[tokens] for tokens in 1 + gold % 5],
        "scores": pa.ListArray.from_arrays(ends, scores.ravel()),
        "top_ids": [
            [f"{relation}-{place}" for place in order] for relation, order in zip(relations, best, strict=True)
        ],
        "top_scores": np.take_along_axis(scores, best, 1).tolist(),
    }
    if tokens:
        words = [f"word{place}" for place in range(12)]
        log_probs = -random.exponential(3, (count, 2, len(words)))
        values["token_log_probs"] = [
            [{"id": "any", "tokens": words, "log_probs": row} for row in both] for both in log_probs
        ]
    columns = [pa.array(values[name], field.type) if (name := field.name) in values else pa.nulls(count, field.type)
               for field in SCHEMA]  # fmt: skip
    write_table(folder / "predictions" / "part-0.parquet", pa.table(columns, schema=SCHEMA))
    return folder


CALL = """
import atexit, json, resource, sys
from pathlib import Path
from fathom.cli import main

def report():
    used = resource.getrusage(resource.RUSAGE_SELF)
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    sys.stderr.write("\\n" + json.dumps([used.ru_utime + used.ru_stime, int(peak.split()[1]) / 1024]))

atexit.register(report)
main()
"""
"""The command line, which prints its processor time and, as Linux knows it, its peak memory at the end."""


def measured(*command: object) -> tuple[float, float, float]:
    """Return seconds by the clock, of the processor, and peak MiB of a command of Fathom."""
    start = time.perf_counter()
    process = subprocess.run(
        [sys.executable, "-c", CALL, *map(str, command)], check=True, capture_output=True, text=True
    )
    return time.perf_counter() - start, *json.loads(process.stderr.splitlines()[-1])


def make_runs(folder: Path, count: int, tokens: bool = False) -> list[Path]:
    return [made(folder / f"m{number}", number, *tables(), tokens) for number in range(count)]


FLAGS = ("--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync")
CHOICES = (
    {"q": ["subject Q12"]},
    {"q": [], "relation": ["P3", "P4"]},
    {"relation": [], "rank": ["1"], "rank.run": ["m0"]},
    {"rank": [], "rank.run": [], "cell": ["second"]},
    {"cell": [], "slice": ["right by no run"]},
    {"slice": []},
    {"hidden": ["m1"]},
    {"hidden": []},
    {"sort": ["wrong"]},
    {"sort": []},
    {"template": ["1: [X] is in P0 of [Y], said in way 1. …"]},
    {"relation": ["P3"]},
    {"template": [], "relation": []},
)
CHOOSE = """async (choice) => {
    const began = performance.now();
    window.fathom.choice.set(choice);
    await window.fathom.settled;
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


def opened(browser: Any, file: Path, width: int = 1400, height: int = 900, tab: str = "overview") -> Any:
    page = browser.new_page(viewport={"width": width, "height": height})
    page.goto(f"{file.resolve().as_uri()}#tab={tab}")
    page.wait_for_selector("body[data-ready=yes]")
    return page


@benchmark
def report(runs: int = 6, tokens: bool = False) -> None:
    """Measure a report of runs of BEAR's size, also with kept tokens: its file, making, opening, filtering."""
    with scratch() as there:
        file = there / "report.html"
        clock, _, memory = measured("report", *make_runs(there, runs, tokens), "-o", file)
        print(f"{runs} runs: made in {clock:.1f} s, at most {memory:.0f} MiB; {file.stat().st_size / 1e6:.1f} MB")
        with chromium() as browser:
            times = []
            for _ in range(3):
                start = time.perf_counter()
                page = opened(browser, file)
                times.append(time.perf_counter() - start)
            print(f"opened in {median(times):.2f} s (median of 3)")
            for tab in ("evidence", "compare"):
                page = opened(browser, file, tab=tab)
                rounds = [
                    [(page.evaluate(CHOOSE, choice), page.inner_text("#count")) for choice in CHOICES] for _ in "123"
                ]
                for choice, values in zip(CHOICES, zip(*rounds, strict=True), strict=True):
                    print(f"  {tab} {choice}: {median(took for took, _ in values):.0f} ms; {values[0][1]}")
