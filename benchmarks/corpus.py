"""How fast does ``fathom build cloze`` stream, and in how much memory?

    python benchmarks/corpus.py --megabytes 100,400 --folder FOLDER
    python benchmarks/corpus.py --records 10000000 --folder FOLDER
    python benchmarks/corpus.py --megabytes 100 --folder FOLDER --commits a4b3633~1   # beside earlier versions

Makes gzipped PubMed files around the real sample records: each record gets a PMID of its own somewhere below 42
million, one in fifty takes the PMID of an earlier one (an update), and in the abstracts each word of five or more small
letters is, with the probability of the hit rate, exchanged for a name of the list. So texts and names vary while the
share of text in the XML stays the real one. Then one process reads them with 5,000 entities, and its time and peak
memory are printed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from before import in_own_process, versions

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


def measure(corpus: Path, entities: Path, out: Path) -> None:
    """In a process of its own: its peak memory is then that of the build alone."""
    from fathom.building.cloze.build import build_cloze

    began, cpu = time.perf_counter(), time.process_time()
    built = build_cloze([corpus], [f"chemicals={entities}"], out)
    print(
        json.dumps(
            {
                "seconds": time.perf_counter() - began,
                "cpu": time.process_time() - cpu,
                "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                "steps": {step.what: step.left for step in built.steps},
            }
        )
    )


def measure_records(count: int, folder: Path) -> None:
    """What it costs to know which of so many records count, PMIDs drawn at random: a process of its own, too."""
    from fathom.building.cloze.rows import Occurrences

    draw = random.Random(0)
    folder.mkdir(parents=True)
    began = time.perf_counter()
    found = Occurrences(folder / "records")
    for _ in range(count):
        found.add((f"pmid {draw.randrange(1, 42_000_000)}", 1))
    beaten = int(found.resolve("last").beaten.sum())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{count:,} records, {beaten:,} replaced: {time.perf_counter() - began:.0f} s, peak {peak:.0f} MB")


def compare(commits: list[str], corpus: Path, size: int, entities: Path, folder: Path, rounds: int) -> None:
    """Builds of each version in turns, each in a process of its own."""
    with tempfile.TemporaryDirectory() as sources:
        each = dict(versions(commits, Path(sources)))
        runs: dict[str, list[float]] = {name: [] for name in each}
        for number in range(rounds):
            for place, (name, source) in enumerate(each.items()):
                out = folder / f"compared-{place}-{number}"
                told = ["--folder", ".", "--measure", str(corpus), str(entities), str(out)]
                runs[name].append(in_own_process(source, told, Path(__file__))["cpu"])
    least = {name: min(seconds) for name, seconds in runs.items()}
    print(f"\n{rounds} rounds in turns, load {os.getloadavg()[0]:.1f}")
    print("| version | processor, s: least | median | MB per CPU second | here is … times as fast |")
    print("|---|---:|---:|---:|---:|")
    for name, seconds in runs.items():
        ratio = f"{least[name] / least['here']:.2f} |"
        print(f"| {name} | {least[name]:.2f} | {median(seconds):.2f} | {size / 1e6 / least[name]:.1f} | {ratio}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", default="100,400", help="sizes of the XML, before packing")
    parser.add_argument("--folder", type=Path, required=True, help="new folder for what is made")
    parser.add_argument("--data", type=Path, default=os.environ.get("FATHOM_DATA"), help="the reference data")
    parser.add_argument("--entities", type=int, default=5000)
    parser.add_argument("--hit-rate", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--records", type=int, help="only: so many PMIDs, which of them count")
    parser.add_argument("--commits", default="", help="earlier versions to build with beside this one, with commas")
    parser.add_argument("--rounds", type=int, default=5, help="builds of each version, in turns")
    parser.add_argument("--measure", nargs=3, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(*options.measure)
        return
    if options.records:
        measure_records(options.records, options.folder)
        return
    if options.data is None:
        parser.error("--data, or FATHOM_DATA: the folder of the reference data")
    biomedical = Path(options.data) / "biomedical"
    lines = (biomedical / "chemdner" / "train_mentions.tsv").read_text(encoding="utf-8").splitlines()
    names = list(dict.fromkeys(line.split("\t")[1] for line in lines))[: options.entities]
    options.folder.mkdir(parents=True)
    entities = options.folder / "chemicals.txt"
    entities.write_text("\n".join(names) + "\n", encoding="utf-8")
    plain = [name.encode() for name in names if not re.search("[<>&]", name)]
    print(f"{len(names):,} names, hit rate {options.hit_rate:.0%}, seed {options.seed}, load {os.getloadavg()[0]:.1f}")
    print("XML, MB  packed, MB  records  sentences  seconds  MB/s  MB/s of CPU  peak, MB")
    for megabytes in map(int, options.megabytes.split(",")):
        corpus, out = options.folder / f"xml-{megabytes}", options.folder / f"built-{megabytes}"
        size = write_corpus(
            corpus,
            biomedical / "pubmed" / "pubmedsample18n0001.xml.gz",
            plain,
            megabytes,
            options.hit_rate,
            options.seed,
        )
        packed = sum(file.stat().st_size for file in corpus.iterdir())
        command = [sys.executable, __file__, "--folder", ".", "--measure", str(corpus), str(entities), str(out)]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        steps = found["steps"]
        print(
            f"{size / 1e6:7,.0f}  {packed / 1e6:10,.0f}  {steps['records']:7,}  {list(steps.values())[-1]:9,}  "
            f"{found['seconds']:7.1f}  {size / 1e6 / found['seconds']:4.0f}  {size / 1e6 / found['cpu']:11.0f}  "
            f"{found['peak']:8.0f}",
            flush=True,
        )
        if options.commits:
            compare(options.commits.split(","), corpus, size, entities, options.folder, options.rounds)


if __name__ == "__main__":
    main()
