"""How fast Wikidata's dump is read, and with how much memory, on a dump made up in its layout.

python benchmarks/wikidata.py [--entities 1000000] [--ending json] [--folder DIR] [--like DUMP]
python benchmarks/wikidata.py --bear BEAR-big

Each build runs in a process of its own, so that its peak memory is its own. Rates are of unpacked JSON per second of
one core's time (the wall clock is beside it: the machine may have other work). A third of the entities have a statement
of the relation that is built, all have an instance-of and names in 19 languages. --like repeats lines of a real dump
under other ids instead, for what only real entities have: many statements, and text that packs as real text does.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from bz2 import BZ2File
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.wikidata import KINDS, OTHERS, PLANTED, THING, Said, bear_items, item, write_dump

ANSWERS = 2_000
FIRST = 10_000
"""Numbers of the other entities begin here, so that each has as many digits."""
WHOLE_GB, WHOLE_ENTITIES = 1_700, 115e6
"""Of the unpacked dump of Wikidata, and its entities: about, in 2025."""
PLAN = """relations:
  - property: P17
    templates: ["[X] lies in [Y].", "[Y] is where [X] lies.", "One finds [X] in [Y]."]
"""
_NUMBER, _ANSWER, _NAME = 77_777_777, 88_888_888, "Zqzqzq"
"""What stands in a template where an entity's own number, answer and name go."""


def template(relation: bool) -> bytes:
    """A line as :func:`tests.wikidata.item` makes it, with names in many languages."""
    said = [Said("P31", 35_120), Said("P625", 90_001), Said("P1082", 90_002)]
    said += [Said("P17", _ANSWER, begun="1990-10-03")] if relation else [Said("P276", _ANSWER)]
    row = item(_NUMBER, _NAME, said, [f"{_NAME} the other"], 3, OTHERS)
    return json.dumps(row, separators=(",", ":")).encode()


def lines(entities: int) -> Iterator[bytes]:
    """A dump of so many: answers first, then their subjects among others."""
    with_relation, without = template(True), template(False)
    yield b"[\n"
    for number in range(1, ANSWERS + 1):
        yield json.dumps(
            item(number, f"land n{number}", [Said("P31", 35_120)], links=20), separators=(",", ":")
        ).encode()
        yield b",\n"
    for number in range(FIRST, FIRST + entities - ANSWERS):
        line = without if number % 3 else with_relation
        line = line.replace(b"%d" % _NUMBER, b"%d" % number)
        line = line.replace(b"%d" % _ANSWER, b"%d" % (number * 7919 % ANSWERS + 1)).replace(
            b"Zqzqzq", b"place%d" % number
        )
        yield line
        yield b"\n" if number + 1 == FIRST + entities - ANSWERS else b",\n"
    yield b"]\n"


def lines_like(real: Path, entities: int) -> Iterator[bytes]:
    """Lines of a real dump under other ids."""
    with gzip.open(real) as file:
        known = [line.strip().rstrip(b",") for line in file]
    known = [line for line in known if line.startswith(b"{")]
    own = [re.search(rb'"id":"(Q[0-9]+)"', line)[0] for line in known]  # type: ignore[index]
    yield b"[\n"
    for number in range(entities):
        place = number % len(known)
        yield known[place].replace(own[place], b'"id":"Q%d"' % (FIRST + number), 1)
        yield b"\n" if number + 1 == entities else b",\n"
    yield b"]\n"


def make(file: Path, content: Iterator[bytes]) -> int:
    """:returns: bytes, unpacked."""
    size = 0
    with opened_to_write(file) as out:
        for line in content:
            size += out.write(line)
    return size


def opened_to_write(file: Path) -> IO[bytes]:
    if file.suffix == ".gz":
        return gzip.open(file, "wb", compresslevel=1)  # type: ignore[return-value]
    return BZ2File(file, "wb") if file.suffix == ".bz2" else file.open("wb")


def measure(file: Path, size: int, whole: bool) -> None:
    """Each pass alone, then the whole build."""
    from fathom.building.bear import build_bear
    from fathom.building.bear.dump import Dump
    from fathom.building.bear.entities import WantedStatements
    from fathom.building.bear.numbers import Numbers

    narrow = Dump(file, WantedStatements(frozenset({"P17"})))
    found = timed(size, "facts, a third of the entities parsed", lambda: sum(1 for _ in narrow.facts()))
    broad = Dump(file, WantedStatements(frozenset({"P31"})))
    timed(size, "facts, every entity parsed", lambda: sum(1 for _ in broad.facts()))
    timed(size, "names of the answers", lambda: sum(1 for _ in narrow.named(Numbers(range(1, ANSWERS + 1)))))
    print(f"  {found:,} entities with a fact; peak {peak():.0f} MB")
    if not whole:
        return
    plan = file.with_name("plan.yaml")
    plan.write_text(PLAN, encoding="utf-8")
    timed(size, "the whole build", lambda: len(build_bear([file], plan, file.with_name("built")).chosen["small"]))
    print(f"  peak {peak():.0f} MB")


def again(bear: Path, planted: int) -> None:
    """BEAR's own facts as a dump, with noise of every kind, and what is built of them."""
    import yaml

    from fathom.building.bear import build_bear
    from fathom.formats import read
    from fathom.results.tables import render

    world = bear_items(bear, planted=planted)
    relations = [
        {"property": name, "templates": texts, "subject_types": [f"Q{THING}"]}
        for name, texts in world.templates.items()
    ]
    with tempfile.TemporaryDirectory() as scratch:
        plan = Path(scratch) / "plan.yaml"
        plan.write_text(yaml.safe_dump({"relations": relations}), encoding="utf-8")
        built = build_bear([write_dump(Path(scratch) / "dump.json", world.items)], plan, Path(scratch) / "out")
        print(render(built.tables[:2], "text"))
        for name, folder in (("small", built.out), ("big", built.out / "big")):
            facts = {(q.relation, int(q.subject_id[1:]), int(q.gold[0][1:])) for q in read(folder).queries}
            own = {(relation, *fact) for relation, facts_ in world.facts.items() for fact in facts_}
            noise = sum(subject >= PLANTED for _, subject, _ in facts)
            print(f"{name}: {len(facts):,} facts, {noise} of them planted, {len(facts - own)} not BEAR's")
            gone = [one.relation for one in built.chosen[name] if not one.answers]
            print(f"{name}: infeasible: {', '.join(gone) or 'none'}")
    print(f"planted: {planted} facts of each of {len(KINDS)} kinds in each of {len(world.facts)} relations")


def timed(size: int, what: str, step: Callable[[], int]) -> int:
    """Print the rate of a step. :returns: what it gives."""
    wall, core = time.perf_counter(), time.process_time()
    found = step()
    wall, core = time.perf_counter() - wall, time.process_time() - core
    hours = WHOLE_GB * 1e9 / (size / core) / 3600
    print(
        f"  {what}: {size / core / 1e6:.0f} MB/s of a core ({core:.1f} s; {wall:.1f} s by the clock); all of Wikidata "
        f"({WHOLE_GB:,} GB): {hours:.1f} h",
        flush=True,
    )
    return found


def peak() -> float:
    """Megabytes that this process has held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entities", type=int, default=1_000_000)
    parser.add_argument("--ending", choices=("json", "json.gz", "json.bz2"), default="json")
    parser.add_argument("--folder", type=Path, help="where to put the dump; by default a temporary folder")
    parser.add_argument("--like", type=Path, help="a real dump (.gz), such as entities-49.json.gz")
    parser.add_argument("--bear", type=Path, help="a folder of BEAR-big: make it again from a dump with planted noise")
    parser.add_argument("--planted", type=int, default=20, help="facts of each kind of noise in each relation")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure, options.size, options.like is None)
        return
    if options.bear:
        again(options.bear, options.planted)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        file = Path(scratch) / f"dump.{options.ending}"
        began = time.process_time()
        content = lines_like(options.like, options.entities) if options.like else lines(options.entities)
        size = make(file, content)
        each = size / options.entities
        print(
            f"{options.entities:,} entities, {size / 1e9:.2f} GB unpacked ({each:,.0f} bytes each), "
            f"{file.stat().st_size / 1e9:.2f} GB as {options.ending}; made in {time.process_time() - began:.0f} s",
            flush=True,
        )
        like = ["--like", str(options.like)] if options.like else []
        subprocess.run([sys.executable, __file__, "--measure", str(file), "--size", str(size), *like], check=True)


if __name__ == "__main__":
    main()
