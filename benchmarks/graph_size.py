"""How much memory and time a knowledge graph takes: made up at random, read from text, then from its own cache.

python benchmarks/graph_size.py [--entities 5000000] [--triples 20000000] [--folder DIR]

Each step runs in a process of its own, so that its peak memory is its own. The claim: 5 million entities and 20 million
triples stay under 6 GB and load from the cache in seconds.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

RELATIONS = 500
HELD_OUT = 100_000
SYLLABLES = ("ka", "lo", "mir", "ten", "su", "ra", "bel", "o", "vin", "dar", "qu", "esh", "no", "ti", "gar", "pel")


def words(numbers: np.ndarray, syllables: int) -> pa.Array:
    """A word for each number; equal numbers give equal words."""
    parts = [pa.array(np.array(SYLLABLES)[(numbers >> (4 * place)) & 15]) for place in range(syllables)]
    return pc.binary_join_element_wise(*parts, "")


def write(file: Path, *columns: pa.Array) -> None:
    table = pa.table({str(place): column for place, column in enumerate(columns)})
    options = pyarrow.csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    pyarrow.csv.write_csv(table, file, options)


def make(folder: Path, entities: int, triples: int) -> None:
    """Ids like Wikidata's, names of two words, a description of five; a few entities in very many triples."""
    generator = np.random.default_rng(0)
    numbers = np.arange(entities)
    ids = pc.binary_join_element_wise("Q", pc.cast(pa.array(numbers), pa.string()), "")
    names = pc.binary_join_element_wise(words(numbers, 3), words(generator.integers(0, 1 << 16, entities), 3), " ")
    texts = [words(generator.integers(0, 1 << 16, entities), 2) for _ in range(5)]
    write(folder / "entity2text.txt", ids, names, pc.binary_join_element_wise(*texts, " "))
    relations = pa.array([f"P{number}" for number in range(RELATIONS)])
    write(folder / "relation2text.txt", relations, words(np.arange(RELATIONS), 3))
    rows = np.arange(triples)
    # Every entity is the head of a triple as long as there are enough; tails are few and popular, or any.
    head = rows % entities
    popular = (generator.pareto(0.5, triples) * 100).astype(np.int64) % entities
    tail = np.where(generator.random(triples) < 0.5, popular, generator.integers(0, entities, triples))
    relation = generator.integers(0, RELATIONS, triples)
    for name, part in (("train.tsv", rows[HELD_OUT:]), ("test.tsv", rows[:HELD_OUT])):
        write(folder / name, ids.take(head[part]), relations.take(relation[part]), ids.take(tail[part]))


def measure(folder: Path) -> None:
    """Read, hash, and choose 500 queries; print seconds and the peak of memory."""
    from fathom.data.selection.filters import Selection, select
    from fathom.formats import read

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    data = read(folder)
    loaded = time.perf_counter()
    assert data.graph is not None
    digest = data.content_hash
    hashed = time.perf_counter()
    asked = select(data, Selection(limit=500, candidates="asked")).data
    chosen = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"  {len(data.graph.entities):,} entities, {len(data.graph):,} triples: read {loaded - start:.1f} s, "
        f"hash {hashed - loaded:.1f} s ({digest}), {len(asked.queries)} queries and their "
        f"{len(asked.candidates['entities'])} candidates {chosen - hashed:.1f} s; "
        f"peak {peak / 2**20:.2f} GiB ({before / 2**20:.2f} before)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entities", type=int, default=5_000_000)
    parser.add_argument("--triples", type=int, default=20_000_000)
    parser.add_argument("--folder", type=Path, help="where to put the graph; by default a temporary folder")
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        make(options.make, options.entities, options.triples)
    elif options.measure:
        measure(options.measure)
    else:
        run_steps(options)


def run_steps(options: argparse.Namespace) -> None:
    """Every step by itself: a process that had made the graph would hand its peak down to those it starts."""
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        folder, cache = Path(scratch) / "graph", Path(scratch) / "cache"
        folder.mkdir()
        own = [sys.executable, __file__]
        sizes = [f"--entities={options.entities}", f"--triples={options.triples}"]
        subprocess.run([*own, *sizes, "--make", str(folder)], check=True)
        size = sum(file.stat().st_size for file in folder.iterdir())
        print(f"{size / 2**30:.2f} GiB of text")
        for step in ("from text", "from the cache"):
            print(step)
            environment = os.environ | {"FATHOM_CACHE": str(cache)}
            subprocess.run([*own, "--measure", str(folder)], env=environment, check=True)


if __name__ == "__main__":
    main()
