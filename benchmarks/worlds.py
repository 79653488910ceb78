"""Synthetic worlds: their time and memory on made-up graphs of rising size, and on any graph."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from harness import Table, benchmark, own_process, peak, scratch, timed

import fathom

RELATIONS = 822
TRIPLES_EACH = 20_626_336 / 4_594_485
HELD_OUT = 6_000 / 4_594_485
"""Triples of the development and of the test split, each, for every entity."""
WORDS, MENTIONS = 40, 3
ROWS = 200_000
COLUMNS = ("entities", "triples", "MB of descriptions", "mentions", "worlds")
TIMES = ("read, s", "build, s", "ns/byte", "CPU, s", "peak, GiB")
SYLLABLES = np.array(
    ["ka", "lo", "mir", "ten", "su", "ra", "bel", "o", "vin", "dar", "qu", "esh", "no", "ti", "gar", "pel"]
)


def words(numbers: np.ndarray, syllables: int) -> pa.Array:
    """Return a word for each number; equal numbers give equal words."""
    parts = [pa.array(SYLLABLES[(numbers >> (4 * place)) & 15]) for place in range(syllables)]
    return pc.binary_join_element_wise(*parts, "")


def ids(letter: str, count: int) -> pa.Array:
    """Return letter0, letter1, …"""
    return pc.binary_join_element_wise(letter, pc.cast(pa.array(np.arange(count)), pa.string()), "")


def tails(rows: np.ndarray, entities: int, generator: np.random.Generator) -> np.ndarray:
    """Return a tail for each row: half of them few and popular, the others any."""
    popular = (generator.pareto(0.5, len(rows)) * 100).astype(np.int64) % entities
    return np.where(generator.random(len(rows)) < 0.5, popular, generator.integers(0, entities, len(rows)))


def make_names(entities: int, generator: np.random.Generator) -> pa.Array:
    """A number for each entity as two words, every third with one more; one in twenty has another one's number."""
    numbers = generator.permutation(1 << 23)[:entities] if entities <= 1 << 23 else np.arange(entities)
    again = generator.random(entities) < 0.05
    numbers[again] = numbers[generator.integers(0, entities, int(again.sum()))]
    first, second = (pc.utf8_capitalize(words(part, 3)) for part in (numbers & 4095, numbers >> 12))
    third = pc.if_else(pa.array(numbers % 3 == 0), pc.binary_join_element_wise(" ", words(numbers % 97, 2), ""), "")
    return pc.binary_join_element_wise(pc.binary_join_element_wise(first, second, " "), third, "")


@benchmark
def _make_worlds(folder: Path, entities: int) -> None:
    """Write a graph with Wikidata5m's proportions."""
    folder.mkdir()
    generator = np.random.default_rng(0)
    entity_ids, relations, names = ids("Q", entities), ids("P", RELATIONS), make_names(entities, generator)
    write(folder / "relation2text.txt", relations, words(np.arange(RELATIONS), 3))
    write(folder / "entity2text.txt", entity_ids, names)
    with (folder / "entity2textlong.txt").open("wb") as stream:
        for start in range(0, entities, ROWS):
            part = entity_ids.slice(start, ROWS)
            stream.write(lines(part, describe(len(part), names, generator)))
    triples, held_out = int(entities * TRIPLES_EACH), max(int(entities * HELD_OUT), 1)
    rows, relation = np.arange(triples), generator.integers(0, RELATIONS, triples)
    tail = tails(rows, entities, generator)
    dev, test = rows[:held_out], rows[held_out : 2 * held_out]
    for name, part in (("train", rows[2 * held_out :]), ("dev", dev), ("test", test)):
        columns = entity_ids.take(part % entities), relations.take(relation[part]), entity_ids.take(tail[part])
        write(folder / f"{name}.tsv", *columns)


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


@benchmark
def worlds(
    entities: tuple[int, ...] = (10_000, 100_000, 1_000_000, 4_594_485),
    data: Path | None = None,
    variants: str = "",
    folder: Path | None = None,
) -> None:
    """Measure building worlds from made-up graphs of rising size, or from a graph --data.

    A made-up graph has Wikidata5m's proportions (Sakai et al. 2024, table 2): 822 relations, 4.49 triples for each
    entity, names of two or three words with capitals, one in twenty shared by two entities, and descriptions of 40
    words that contain three names of other entities. --variants: virtual-er by default, all thirteen with --data. Each
    size runs in a process of its own. The claims: WN18RR's thirteen worlds under 60 s, one world of Wikidata5m's size
    under 20 minutes and 14 GB, time linear in the text.
    """
    Table(*COLUMNS, *TIMES)
    for size in [None] if data else entities:
        steps(data, size, folder, "_worlds", "--variants", variants or ("all" if data else "virtual-er"))


@benchmark
def worlds_search(
    entities: tuple[int, ...] = (10_000, 100_000), data: Path | None = None, folder: Path | None = None
) -> None:
    """Compare the search for names in descriptions with ahocorasick-rs, whose words are wrapped in two signs."""
    for size in [None] if data else entities:
        steps(data, size, folder, "_worlds-search")


def steps(data: Path | None, size: int | None, folder: Path | None, step: str, *options: str) -> None:
    """Make a graph and measure one step of it, each in a process of its own."""
    with scratch(folder) as place:
        if size:
            own_process("_make-worlds", "--folder", place / "graph", "--entities", size)
        graph = data or place / "graph"
        more = [] if step == "_worlds-search" else ["--out", place / "worlds"]
        own_process(step, "--data", graph, *more, *options, FATHOM_CACHE=place / "cache")


@benchmark
def _worlds(data: Path, out: Path, variants: str) -> None:
    from fathom_build.worlds import THIRTEEN, build_worlds, parse_variants

    cpu = time.process_time()
    graph, read = timed(lambda: fathom.read_data(data).graph)
    text = int(pc.sum(pc.binary_length(graph.entities.column("description"))).as_py() or 0)
    selected = THIRTEEN if variants == "all" else parse_variants(variants.split(","))
    built, building = timed(lambda: build_worlds(graph, out, selected, name=data.name))
    mentions = max((world["counts"].get("mentions_found", 0) for world in built), default=0)
    counts = f"{len(graph.entities):,} | {len(graph):,} | {text / 1e6:,.1f} | {mentions:,} | {len(built)}"
    times = f"{read.clock:.1f} | {building.clock:.1f} | {1e9 * building.clock / max(text, 1):.0f}"
    print(f"| {counts} | {times} | {time.process_time() - cpu:.1f} | {peak():.2f} |", flush=True)


@benchmark
def _worlds_search(data: Path) -> None:
    """Print seconds of the processor for finding all names in all descriptions: ours, then the peer's two steps."""
    import ahocorasick_rs as peer

    from fathom_build.worlds.mentions import find_mentions

    graph = fathom.read_data(data).graph
    assert graph is not None
    before = peak()
    found, took = timed(lambda: find_mentions(graph, "exact"))
    ours, ours_peak = took.cpu, peak() - before
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
