"""Reading Wikidata's dump: rates and memory, on a dump made up in its layout."""

from __future__ import annotations

import gzip
import json
import re
import time
from bz2 import BZ2File
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Literal

from harness import DATA, benchmark, own_process, peak, scratch, timed
from tests.wikidata import KINDS, OTHERS, PLANTED, THING, ItemClaim, bear_items, item, write_dump

import fathom

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
"""Placeholders of an entity's own number, answer and name in a template."""


def template(relation: bool) -> bytes:
    """A line as :func:`tests.wikidata.item` makes it, with names in many languages."""
    said = [ItemClaim("P31", 35_120), ItemClaim("P625", 90_001), ItemClaim("P1082", 90_002)]
    said += [ItemClaim("P17", _ANSWER, begun="1990-10-03")] if relation else [ItemClaim("P276", _ANSWER)]
    row = item(_NUMBER, _NAME, said, [f"{_NAME} the other"], 3, OTHERS)
    return json.dumps(row, separators=(",", ":")).encode()


def lines(entities: int, every: int) -> Iterator[bytes]:
    """A dump of so many: answers first, then others, of which one in *every* is a subject."""
    with_relation, without = template(True), template(False)
    yield b"[\n"
    for number in range(1, ANSWERS + 1):
        yield json.dumps(
            item(number, f"land n{number}", [ItemClaim("P31", 35_120)], links=20), separators=(",", ":")
        ).encode()
        yield b",\n"
    for number in range(FIRST, FIRST + entities - ANSWERS):
        line = without if number % every else with_relation
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


@benchmark
def wikidata(
    entities: int = 1_000_000,
    ending: Literal["json", "json.gz", "json.bz2"] = "json",
    every: int = 3,
    folder: Path | None = None,
    like: Path | None = None,
) -> None:
    """Measure reading Wikidata's dump, and a whole `fathom build bear`, on a made-up dump.

    Rates are of unpacked JSON per second of the processor. One in --every of the entities has a statement of the
    relation that is built, all have an instance-of and names in 19 languages. --like: repeat lines of a real dump (.gz)
    under other ids instead, for what only real entities have: many statements, and text that packs as real text does.
    """
    with scratch(folder) as place:
        file, start = place / f"dump.{ending}", time.process_time()
        size = make(file, lines_like(like, entities) if like else lines(entities, every))
        print(
            f"{entities:,} entities, {size / 1e9:.2f} GB unpacked ({size / entities:,.0f} bytes each), "
            f"{file.stat().st_size / 1e9:.2f} GB as {ending}; made in {time.process_time() - start:.0f} s",
            flush=True,
        )
        own_process("_wikidata", "--file", file, "--size", size, *([] if like else ["--whole"]))


@benchmark
def _wikidata(file: Path, size: int, whole: bool) -> None:
    """Unpacking alone, each pass alone, then the whole build."""
    from fathom.base.reading import opened
    from fathom_build.bear import build_bear, forecast_bear
    from fathom_build.bear.entities import Numbers, WantedStatements
    from fathom_build.bear.sources import Dump
    from fathom_build.options import BearBuildOptions

    def unpack() -> int:
        with opened(file) as stream:
            return sum(map(len, iter(lambda: stream.read(1 << 20), b"")))

    plan = file.with_name("plan.yaml")
    options = BearBuildOptions(input=(file,), plan=plan, out=file.with_name("built"))
    narrow, broad = (
        Dump(file, WantedStatements(frozenset(names)), file.with_name("parts"), options)
        for names in (["P17"], ["P646", "P1082"])
    )
    rate(size, "unpacking alone", unpack)
    facts = rate(size, "facts", lambda: sum(1 for _ in narrow.facts()))
    rate(size, "facts, every entity parsed", lambda: sum(1 for _ in broad.facts()))
    rate(size, "names of the answers", lambda: sum(1 for _ in narrow.named(Numbers(range(1, ANSWERS + 1)))))
    print(f"  {facts:,} entities with a fact; peak {1024 * peak():.0f} MB")
    if whole:
        plan.write_text(PLAN, encoding="utf-8")
        print(f"  estimated (two passes): {forecast_bear(options).rows}")
        rate(size, "the whole build", lambda: len(build_bear(options).chosen["small"]))
        print(f"  peak {1024 * peak():.0f} MB")


def rate(size: int, title: str, step: Callable[[], int]) -> int:
    """Print the rate of a step. :returns: its result."""
    count, took = timed(step)
    hours = WHOLE_GB * 1e9 / (size / took.cpu) / 3600
    print(f"  {title}: {size / took.cpu / 1e6:.0f} MB/s of a core ({took}); all of Wikidata: {hours:.1f} h", flush=True)
    return count


@benchmark
def wikidata_bear(bear: Path = DATA / "bear" / "BEAR-big", planted: int = 20) -> None:
    """Build BEAR-big again from a dump of its facts, with --planted facts of each kind of noise per relation."""
    import yaml

    from fathom.results.tables import render
    from fathom_build.bear import build_bear
    from fathom_build.options import BearBuildOptions

    world = bear_items(bear, planted=planted)
    relations = [
        {"property": name, "templates": texts, "subject_types": [f"Q{THING}"]}
        for name, texts in world.templates.items()
    ]
    with scratch() as place:
        plan = place / "plan.yaml"
        plan.write_text(yaml.safe_dump({"relations": relations}), encoding="utf-8")
        built = build_bear(
            BearBuildOptions(input=(write_dump(place / "dump.json", world.items),), plan=plan, out=place / "out")
        )
        print(render(built.tables[:2], "text"))
        for name, folder in (("small", built.out), ("big", built.out / "big")):
            facts = {(q.relation, int(q.subject_id[1:]), int(q.gold[0][1:])) for q in fathom.read_data(folder).queries}
            own = {(relation, *fact) for relation, facts_ in world.facts.items() for fact in facts_}
            noise = sum(subject >= PLANTED for _, subject, _ in facts)
            print(f"{name}: {len(facts):,} facts, {noise} of them planted, {len(facts - own)} not BEAR's")
            gone = [one.relation for one in built.chosen[name] if not one.answers]
            print(f"{name}: infeasible: {', '.join(gone) or 'none'}")
    print(f"planted: {planted} facts of each of {len(KINDS)} kinds in each of {len(world.facts)} relations")
