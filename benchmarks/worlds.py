"""How long synthetic worlds take, and how much memory: on made-up graphs of rising size, and on a graph of one's own.

python benchmarks/worlds.py [--entities 10000,100000,1000000,4594485] [--variants virtual-er] [--folder DIR]
python benchmarks/worlds.py --data PATH/TO/wn18rr
python benchmarks/worlds.py --peer --entities 10000,100000

A made-up graph has Wikidata5m's proportions (Sakai et al. 2024, table 2): 822 relations, 4.49 triples for each entity,
names of two or three words with capitals, one in twenty of them borne by another entity, too, and descriptions of 40
words of which three names of other entities are a part. Each size runs in a process of its own, so that its peak of
memory is its own. The claims: WN18RR's thirteen worlds under 60 s, one world of Wikidata5m's size under 20 minutes and
14 GB, time linear in the text. With --peer, the search for names alone beside ahocorasick-rs, on the same names and
descriptions, each word wrapped in two signs that keep its leftmost-longest search to whole words.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

RELATIONS = 822
TRIPLES_EACH = 20_626_336 / 4_594_485
HELD_OUT = 6_000 / 4_594_485
"""Triples of the development and of the test split, each, for every entity."""
WORDS, MENTIONS = 40, 3
SYLLABLES = np.array(
    ["ka", "lo", "mir", "ten", "su", "ra", "bel", "o", "vin", "dar", "qu", "esh", "no", "ti", "gar", "pel"]
)
ROWS = 200_000
COLUMNS = ("worlds", "read, s", "build, s", "ns/byte", "CPU, s", "peak, GiB")


def words(numbers: np.ndarray, syllables: int) -> pa.Array:
    """A word for each number; equal numbers give equal words."""
    parts = [pa.array(SYLLABLES[(numbers >> (4 * place)) & 15]) for place in range(syllables)]
    return pc.binary_join_element_wise(*parts, "")


def make_names(entities: int, generator: np.random.Generator) -> pa.Array:
    """A number for each entity as two words, every third with one more; one in twenty has another one's number."""
    numbers = generator.permutation(1 << 23)[:entities] if entities <= 1 << 23 else np.arange(entities)
    again = generator.random(entities) < 0.05
    numbers[again] = numbers[generator.integers(0, entities, int(again.sum()))]
    first, second = (pc.utf8_capitalize(words(part, 3)) for part in (numbers & 4095, numbers >> 12))
    third = pc.if_else(pa.array(numbers % 3 == 0), pc.binary_join_element_wise(" ", words(numbers % 97, 2), ""), "")
    return pc.binary_join_element_wise(pc.binary_join_element_wise(first, second, " "), third, "")


def make(folder: Path, entities: int) -> None:
    generator = np.random.default_rng(0)
    ids = pc.binary_join_element_wise("Q", pc.cast(pa.array(np.arange(entities)), pa.string()), "")
    names = make_names(entities, generator)
    relations = pa.array([f"P{number}" for number in range(RELATIONS)])
    write(folder / "relation2text.txt", relations, words(np.arange(RELATIONS), 3))
    write(folder / "entity2text.txt", ids, names)
    with (folder / "entity2textlong.txt").open("wb") as stream:
        for start in range(0, entities, ROWS):
            part = ids.slice(start, ROWS)
            stream.write(lines(part, describe(len(part), names, generator)))
    triples, held_out = int(entities * TRIPLES_EACH), max(int(entities * HELD_OUT), 1)
    rows = np.arange(triples)
    head, relation = rows % entities, generator.integers(0, RELATIONS, triples)
    popular = (generator.pareto(0.5, triples) * 100).astype(np.int64) % entities
    tail = np.where(generator.random(triples) < 0.5, popular, generator.integers(0, entities, triples))
    dev, test = rows[:held_out], rows[held_out : 2 * held_out]
    for name, part in (("train", rows[2 * held_out :]), ("dev", dev), ("test", test)):
        write(folder / f"{name}.tsv", ids.take(head[part]), relations.take(relation[part]), ids.take(tail[part]))


def describe(count: int, names: pa.Array, generator: np.random.Generator) -> pa.Array:
    """Words as frequent as words are (a few very often), with three names between them."""
    slots = [words((generator.pareto(0.6, count) * 40).astype(np.int64), 3) for _ in range(WORDS - 2 * MENTIONS)]
    for place in range(MENTIONS):
        slots.insert(4 + 9 * place, names.take(generator.integers(0, len(names), count)))
    return pc.binary_join_element_wise(*slots, " ")


def write(file: Path, *columns: pa.Array) -> None:
    with file.open("wb") as stream:
        for start in range(0, len(columns[0]), 1_000_000):
            stream.write(lines(*(column.slice(start, 1_000_000) for column in columns)))


def lines(*columns: pa.Array) -> bytes:
    joined = pc.binary_join_element_wise(pc.binary_join_element_wise(*columns, "\t"), "\n", "")
    return joined.buffers()[2].to_pybytes()[: int(pc.sum(pc.binary_length(joined)).as_py())]


def peak() -> float:
    """Most memory of this process so far, GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def measure(data: str, out: Path, variants: str) -> None:
    from fathom.building.worlds import THIRTEEN, build_worlds, parse_variants
    from fathom.formats import read

    start, cpu = time.perf_counter(), time.process_time()
    graph = read(data).graph
    assert graph is not None
    loaded = time.perf_counter()
    text = int(pc.sum(pc.binary_length(graph.entities.column("description"))).as_py() or 0)
    chosen = THIRTEEN if variants == "all" else parse_variants(variants.split(","))
    made = build_worlds(graph, out, chosen, name=Path(data).name)
    done = time.perf_counter()
    found = max((world["counts"].get("mentions_found", 0) for world in made), default=0)
    print(
        f"| {len(graph.entities):,} | {len(graph):,} | {text / 1e6:,.1f} | {found:,} | {len(made)} | "
        f"{loaded - start:.1f} | {done - loaded:.1f} | {1e9 * (done - loaded) / max(text, 1):.0f} | "
        f"{time.process_time() - cpu:.1f} | {peak():.2f} |",
        flush=True,
    )


def compare(data: str) -> None:
    """Seconds of the processor for finding all names in all descriptions: ours, then the peer's two steps."""
    import ahocorasick_rs as peer

    from fathom.building.worlds.mentions import find_mentions
    from fathom.formats import read

    graph = read(data).graph
    assert graph is not None
    start, before = time.process_time(), peak()
    found = find_mentions(graph, "exact")
    ours, ours_peak = time.process_time() - start, peak() - before
    names, texts = (graph.entities.column(name) for name in ("name", "description"))
    wrap = partial(pc.replace_substring_regex, pattern=r"([\pL\pN\pM_]+)", replacement="\x02\\1\x03")
    patterns, haystacks = pc.unique(wrap(names)).to_pylist(), wrap(texts).to_pylist()
    start, before = time.process_time(), peak()
    automaton = peer.AhoCorasick(patterns, peer.MatchKind.LeftmostLongest)
    built = time.process_time()
    count = sum(len(automaton.find_matches_as_indexes(text)) for text in haystacks)
    done = time.process_time()
    assert count == len(found.entity), (count, len(found.entity))
    size = sum(map(len, haystacks)) / 1e6
    print(
        f"{len(graph.entities):,} entities, {size:.1f} MB, {count:,} mentions: Fathom {ours:.2f} s and {ours_peak:.2f} "
        f"GiB more; ahocorasick-rs {built - start:.2f} s to build and {done - built:.2f} s to search, and "
        f"{peak() - before:.2f} GiB more: {(done - start) / ours:.1f} times our seconds",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entities", default="10000,100000,1000000,4594485", help="sizes, separated by commas")
    parser.add_argument("--variants", help="worlds; by default virtual-er, all thirteen with --data")
    parser.add_argument("--data", help="a graph of your own instead")
    parser.add_argument("--folder", type=Path, help="where to put graphs and worlds; by default a temporary folder")
    parser.add_argument("--peer", action="store_true", help="find names only, beside ahocorasick-rs")
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        make(options.make, int(options.entities))
    elif options.measure and options.peer:
        compare(options.data)
    elif options.measure:
        measure(options.data, options.measure, options.variants)
    else:
        run_steps(options)


def run_steps(options: argparse.Namespace) -> None:
    """Every step by itself: a process that had made the graph would hand its peak down to those it starts."""
    if not options.peer:
        print(" | ".join(("| entities", "triples", "MB of descriptions", "mentions", *COLUMNS)), "|")
        print("|---:" * (4 + len(COLUMNS)) + "|", flush=True)
    own = [sys.executable, __file__]
    variants = options.variants or ("all" if options.data else "virtual-er")
    for entities in [None] if options.data else options.entities.split(","):
        with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
            data, out = options.data or f"{scratch}/graph", f"{scratch}/worlds"
            if entities:
                Path(data).mkdir()
                subprocess.run([*own, "--entities", entities, "--make", data], check=True)
            environment = os.environ | {"FATHOM_CACHE": f"{scratch}/cache"}
            step = [*own, "--data", data, "--measure", out, "--variants", variants]
            step += ["--peer"] if options.peer else []
            subprocess.run(step, env=environment, check=True)


if __name__ == "__main__":
    main()
