"""How long does it take to compare many runs, and is the smallest difference that is told the one that shows?

    python benchmarks/compare.py [--runs 20] [--power] [--replicates 2000]

Time: ``fathom compare`` of runs as large as those of BEAR (7,731 facts in 60 relations, three templates each), which
are made first, by lot. Power: values are drawn with no difference, and the smallest difference is told of each draw;
then others with a true difference of that size (the mean over the draws), and it is counted how often their difference
is significant at 5 %. It should be 80 %. Last, the same where relations and subjects were both drawn.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fathom.metrics.significance import smallest_difference
from fathom.metrics.uncertainty import interval
from fathom.store.files import write_table
from fathom.store.folder import RunFolder
from fathom.store.predictions import SCHEMA

Floats = npt.NDArray[np.float64]
CALL = """
import atexit, sys
from pathlib import Path
from fathom.cli import main
atexit.register(lambda: sys.stderr.write(Path("/proc/self/status").read_text()))
main()
"""
"""The command line, and what Linux knows of its memory: a parent is told its own in place of a child's that is less."""
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


def made(folder: Path, number: int, queries: pa.Table, candidates: pa.Table) -> Path:
    """A run by lot: its right answers score the higher the higher its number."""
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
    told: dict[str, Any] = {
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
        "top_ids": [[f"{relation}-{place}" for place in own] for relation, own in zip(relations, best, strict=True)],
        "top_scores": np.take_along_axis(scores, best, 1).tolist(),
    }
    columns = [pa.array(told[name], field.type) if (name := field.name) in told else pa.nulls(count, field.type)
               for field in SCHEMA]  # fmt: skip
    write_table(folder / "predictions" / "part-0.parquet", pa.table(columns, schema=SCHEMA))
    return folder


def time_of(runs: int) -> None:
    with tempfile.TemporaryDirectory() as there:
        queries, candidates = tables()
        folders = [made(Path(there) / f"m{number}", number, queries, candidates) for number in range(runs)]
        for command in (["compare", *folders[:2]], ["compare", *folders], ["diff", *folders[:2]]):
            call = [sys.executable, "-c", CALL, *map(str, command), "--format", "json"]
            began, before = time.perf_counter(), _of_children()
            status = subprocess.run(call, check=True, capture_output=True, text=True).stderr
            what = f"{len(command) - 1} runs of {FACTS:,} facts × {TEMPLATES} templates"
            took, computing = time.perf_counter() - began, _of_children() - before
            [kibibytes] = re.findall(r"VmHWM:\s+(\d+) kB", status)
            told = f"{took:.1f} s ({computing:.1f} s of processor), at most {int(kibibytes) / 1024:.0f} MiB"
            print(f"fathom {command[0]}: {what}: {told}", flush=True)


def _of_children() -> float:
    """Seconds of processor: the wall clock tells how busy the machine is, too."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def drawn(random: np.random.Generator, clusters: int, each: int, likeness: float, further: float) -> tuple[Floats, ...]:
    """Hits of two answerers; the first knows a share of *further* more. :param likeness: how much relations differ in
    which of the two is better: variance of that difference between relations / variance of one hit."""
    shift = np.repeat(random.standard_normal(clusters) * np.sqrt(likeness / 4), each)
    fact = random.random(clusters * each)
    rates = (0.3 + 0.4 * fact + sign * (further + shift) / 2 for sign in (1, -1))
    return tuple((random.random(len(fact)) < rate).astype(float) for rate in rates)


def power() -> None:
    columns = "smallest difference | significant at their mean | at that of each draw"
    print(f"\n| clusters | facts each | likeness | {columns} |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for clusters, each, likeness in product((10, 30, 60, 200), (5, 40), (0.0, 0.05)):
        random, labels = np.random.default_rng(0), np.repeat(np.arange(clusters), each)

        def asked(further: float) -> Any:
            pair = drawn(random, clusters, each, likeness, further)  # noqa: B023
            return interval(np.subtract(*pair), labels, limits=(-1.0, 1.0))  # noqa: B023

        told = [smallest_difference(found.error, found.degrees) for found in (asked(0.0) for _ in range(REPLICATES))]
        mean = float(np.mean(told))
        shown = np.mean([asked(mean).p_value < 0.05 for _ in range(REPLICATES)])
        each_draw = np.mean([asked(one).p_value < 0.05 for one in told])
        print(f"| {clusters} | {each} | {likeness} | {mean:.3f} | {shown:.1%} | {each_draw:.1%} |", flush=True)


def two_ways() -> None:
    """600 facts of relations and of 200 subjects, both drawn at random; each shifts the difference."""
    columns = "smallest difference | false alarms | significant there | false alarms by relation alone"
    print(f"\n| relations | sd of relations | sd of subjects | {columns} |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for relations, of_relation, of_subject in product((10, 30, 60), (0.0, 0.1), (0.0, 0.2)):
        random = np.random.default_rng(0)

        def asked(further: float, ways: int = 2) -> Any:
            relation, subject = random.integers(relations, size=600), random.integers(200, size=600)  # noqa: B023
            shift = random.standard_normal(relations)[relation] * of_relation  # noqa: B023
            shift += random.standard_normal(200)[subject] * of_subject  # noqa: B023
            pair = [random.random(600) < 0.5 + sign * (further + shift) / 2 for sign in (1, -1)]  # noqa: B023
            also = subject if ways == 2 else None
            return interval(np.subtract(*pair, dtype=float), relation, also=also, limits=(-1.0, 1.0))

        none = [asked(0.0) for _ in range(REPLICATES)]
        mean = float(np.mean([smallest_difference(found.error, found.degrees) for found in none]))
        shown = np.mean([asked(mean).p_value < 0.05 for _ in range(REPLICATES)])
        alarms = np.mean([found.p_value < 0.05 for found in none])
        alone = np.mean([asked(0.0, 1).p_value < 0.05 for _ in range(REPLICATES)])
        told = f"{mean:.3f} | {alarms:.1%} | {shown:.1%} | {alone:.1%}"
        print(f"| {relations} | {of_relation} | {of_subject} | {told} |", flush=True)


if __name__ == "__main__":
    said = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    said.add_argument("--runs", type=int, default=20)
    said.add_argument("--power", action="store_true", help="only the power")
    said.add_argument("--replicates", type=int, default=2000)
    given = said.parse_args()
    REPLICATES = given.replicates
    if given.power:
        power()
        two_ways()
    else:
        time_of(given.runs)
