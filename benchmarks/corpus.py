"""Streaming of ``fathom build cloze``: speed and memory."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

from harness import DATA, Table, benchmark, own_process, peak, timed

_RECORD = re.compile(rb"<PubmedArticle>.*?</PubmedArticle>", re.DOTALL)
_ABSTRACT = re.compile(rb"(<AbstractText[^>]*>)(.*?)(</AbstractText>)", re.DOTALL)
_WORD = re.compile(rb"\b[a-z]{5,}\b")
_PMID = re.compile(rb'<PMID Version="1">\d+</PMID>', re.DOTALL)
_HEAD = b'<?xml version="1.0" encoding="utf-8"?>\n<PubmedArticleSet>\n'
_FILE = 100_000_000
"""Bytes of a file before it is packed; PubMed's have about twice as many."""


def records(sample: Path, names: list[bytes], hit_rate: float, seed: int) -> Iterator[bytes]:
    """Varied records without end."""
    real = _RECORD.findall(gzip.decompress(sample.read_bytes()))
    draw = random.Random(seed)
    given: list[int] = []

    def vary(text: re.Match[bytes]) -> bytes:
        return _WORD.sub(lambda word: draw.choice(names) if draw.random() < hit_rate else word[0], text[0])

    while True:
        update = given and draw.random() < 0.02
        pmid = draw.choice(given) if update else draw.randrange(1, 42_000_000)
        if len(given) < 100_000:
            given.append(pmid)
        record = _ABSTRACT.sub(
            lambda match: match[1] + vary(match)[len(match[1]) : -len(match[3])] + match[3], draw.choice(real)
        )
        yield _PMID.sub(b'<PMID Version="1">%d</PMID>' % pmid, record, count=1)


def write_corpus(folder: Path, sample: Path, names: list[bytes], megabytes: int, hit_rate: float, seed: int) -> int:
    """:returns: bytes of XML, before packing."""
    folder.mkdir(parents=True)
    stream = records(sample, names, hit_rate, seed)
    total = 0
    for number in range(-(-megabytes * 1_000_000 // _FILE)):
        size = 0
        with gzip.open(folder / f"pubmed{number:04}.xml.gz", "wb", compresslevel=1) as file:
            size += file.write(_HEAD)
            while size < _FILE and total + size < megabytes * 1_000_000:
                size += file.write(next(stream) + b"\n")
            size += file.write(b"</PubmedArticleSet>\n")
        total += size
    return total


@benchmark
def corpus(
    folder: Path,
    megabytes: tuple[int, ...] = (100, 400),
    entities: int = 5000,
    hit_rate: float = 0.02,
    seed: int = 0,
) -> None:
    """Measure `fathom build cloze` on gzipped PubMed files, made around the real sample records.

    Each record gets a PMID of its own, one in fifty that of an earlier one (an update). In the abstracts a word of five
    or more small letters is exchanged for a listed name with the probability --hit-rate: texts and names vary while the
    share of text in the XML stays the real one. --megabytes: sizes of the XML; --folder: new folder for the files.
    """
    biomedical = DATA / "biomedical"
    lines = (biomedical / "chemdner" / "train_mentions.tsv").read_text(encoding="utf-8").splitlines()
    names = list(dict.fromkeys(line.split("\t")[1] for line in lines))[:entities]
    folder.mkdir(parents=True)
    (folder / "chemicals.txt").write_text("\n".join(names) + "\n", encoding="utf-8")
    plain = [name.encode() for name in names if not re.search("[<>&]", name)]
    sample = biomedical / "pubmed" / "pubmedsample18n0001.xml.gz"
    columns = ("XML, MB", "packed, MB", "records", "sentences", "s", "MB/s", "MB/s of the processor", "peak, MB")
    table = Table(*columns)
    for size in megabytes:
        place = folder / f"xml-{size}"
        total = write_corpus(place, sample, plain, size, hit_rate, seed) / 1e6
        packed = sum(file.stat().st_size for file in place.iterdir()) / 1e6
        options = ["--corpus", place, "--entities", folder / "chemicals.txt", "--out", folder / f"built-{size}"]
        clock, cpu, memory, steps = json.loads(own_process("_corpus", *options, output=True))
        rates = (f"{clock:.1f}", f"{total / clock:.0f}", f"{total / cpu:.0f}", f"{1024 * memory:.0f}")
        table.row(f"{total:,.0f}", f"{packed:,.0f}", f"{steps['records']:,}", f"{list(steps.values())[-1]:,}", *rates)


@benchmark
def _corpus(corpus: Path, entities: Path, out: Path) -> None:
    from fathom_build.cloze.build import build_cloze
    from fathom_build.options import ClozeFiles

    built, took = timed(lambda: build_cloze(ClozeFiles(input=(corpus,), entities=(f"chemicals={entities}",), out=out)))
    print(json.dumps([*took, peak(), {step.what: step.left for step in built.steps}]))


@benchmark
def corpus_records(folder: Path, records: int = 10_000_000) -> None:
    """Measure keeping track of which of so many records count; PMIDs are drawn at random."""
    from fathom_build.cloze.rows import Occurrences

    draw = random.Random(0)
    folder.mkdir(parents=True)
    seen = Occurrences(folder / "records")

    def add_and_resolve() -> int:
        for _ in range(records):
            seen.add((f"pmid {draw.randrange(1, 42_000_000)}", 1))
        return int(seen.resolve("last").beaten.sum())

    replaced, took = timed(add_and_resolve)
    print(f"{records:,} records, {replaced:,} replaced: {took}, peak {1024 * peak():.0f} MB")
